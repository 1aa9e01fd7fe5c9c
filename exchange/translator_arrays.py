"""A run's Transformer as NumPy arrays, in the one form that other toolkits compute with.

Other toolkits have fewer options than this project's model. What differs in name alone is folded into the arrays:
interleaved sines become sines in two halves by the same permutation of every axis of width d_model; the score `dot`,
which is not divided by √d_k, becomes a factor of the queries; shared heads of keys and values are repeated; and biases
that a model has not are zeros. What is left is for the formats, of which each says what it holds.
"""

import dataclasses
import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from corpora.config import CorpusConfig
from corpora.marian_vocabulary import MarianVocabulary
from corpora.vocabulary import Vocabulary
from exchange import marian
from tasks.trained import Trained
from transformer import architectures, layers
from transformer.config import ModelConfig
from transformer.model import Params

Leaves = Mapping[tuple[str, ...], np.ndarray]  # parameters by path


class Translation(NamedTuple):
  """A translator, ready to be written in another format."""

  config: ModelConfig  # of `arrays`: attention_bias, feed_forward_bias and norm_bias are on, sines are in halves
  arrays: Leaves  # every parameter of such a model
  source: Vocabulary
  target: Vocabulary
  source_language: str
  target_language: str


def mistakes(config: Any) -> Iterator[str]:
  """Yield a sentence for each option of a model that no other toolkit has."""
  if not isinstance(config, ModelConfig):
    yield f'config.model.architecture makes a {type(config).__name__.removesuffix("Config")}; expected transformer'
    return
  yield from others(config, attention_score=('scaled_dot', 'dot'))
  width = config.d_model / config.num_heads
  for name, found in (('d_k', config.key_size), ('d_v', config.value_size)):
    if found != width:
      yield f'config.model.{name} is {found}; expected d_model / num_heads = {width:g}'


def others(config: ModelConfig, **held: Collection[str]) -> Iterator[str]:
  """Yield a sentence for each option whose value is none of those that a format holds."""
  for name, expected in held.items():
    if (found := getattr(config, name)) not in expected:
      yield f'config.model.{name} is {found!r}; expected {" or ".join(expected)}'


def of_run(run: Trained) -> Translation:
  """Return a run's translator; its configuration has passed mistakes()."""
  config, corpus = run.setup.sized(run.source.size, run.target.size), run.setup.corpus
  assert isinstance(config, ModelConfig) and isinstance(corpus, CorpusConfig)
  return of(config, run.params, run.source, run.target, corpus.source_language, corpus.target_language)


def of(config: ModelConfig, params: Params, source: Vocabulary, target: Vocabulary, source_language: str,
       target_language: str) -> Translation:
  """Return a translator from its parts; `config` has passed mistakes(), and `params` are its model's."""
  params = layers.unstacked(params, ('encoder_layers', 'decoder_layers') if config.scan_layers else ())
  # Copies, since what quantizes may write into its arrays, and jax's may not be written.
  found = {path: np.array(leaf, np.float32) for path, leaf in marian.leaves(jax.device_get(params)).items()}
  separate = layers.written_out(config)
  has_sines = config.positions == 'sinusoidal'
  if has_sines and config.position_layout == 'interleaved':
    found = _with_halves(found, separate)
  if config.attention_score == 'dot':
    found |= {path: leaf * np.float32(math.sqrt(config.key_size)) for path, leaf in found.items()
              if path[-1] in ('w_query', 'b_query')}
  repeats = config.num_heads // config.kv_heads
  found |= {path: leaf.repeat(repeats, axis=-2) for path, leaf in found.items()
            if path[-1] in ('w_key', 'b_key', 'w_value', 'b_value')}
  whole = dataclasses.replace(separate, attention_score='scaled_dot', num_kv_heads=None, attention_bias=True, norm_bias=True,
                              feed_forward_bias=True, position_layout='halves' if has_sines else config.position_layout)
  shapes = marian.leaves(jax.eval_shape(architectures.build(whole).init, jax.random.key(0)))
  arrays = {path: found.get(path, np.zeros(shape.shape, np.float32)) for path, shape in shapes.items()}
  return Translation(whole, arrays, source, target, source_language, target_language)


def _with_halves(found: Leaves, config: ModelConfig) -> dict[tuple[str, ...], np.ndarray]:
  """Permute d_model from pairs (sine, cosine), side by side, to all sines before all cosines, in every parameter."""
  order = np.concatenate([np.arange(0, config.d_model, 2), np.arange(1, config.d_model, 2)])
  axes = marian.leaves(architectures.build(config).axes())
  wide = lambda path: [axis for axis, name in enumerate(axes[path]) if name in ('embed', 'embed_table')]
  permuted = dict(found)
  for path in found:
    for axis in wide(path):
      permuted[path] = permuted[path].take(order, axis=axis)
  return permuted


def pieces(vocabulary: Vocabulary) -> list[str]:
  """Return the entries of a vocabulary by id."""
  return vocabulary.pieces(range(vocabulary.size))


def sentencepiece_model(vocabulary: Vocabulary) -> bytes:
  """Return the SentencePiece model that cuts the text."""
  return vocabulary.spm if isinstance(vocabulary, MarianVocabulary) else vocabulary.model
