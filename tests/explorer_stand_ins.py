"""Vocabularies, translators and captures small enough to look into in a test."""

import functools
from typing import Any, NamedTuple

import jax
import numpy as np

from corpora import vocabulary
from decoding.translator import Translator
from explorer.capture import Capture
from explorer.texts import Text
from transformer import model as models
from transformer.attention import Operands, Projections
from transformer.config import ModelConfig
from transformer.search import SearchConfig

LINES = ['the tired dog sleeps because it was tired', 'a cat sees the wide street', 'the dog sees it', 'cats sleep']


@functools.cache
def small_vocabulary() -> vocabulary.Vocabulary:
  """Pieces of the lines above, and bytes."""
  model = vocabulary.train(vocabulary.VocabularyConfig(size=320), LINES * 5)
  return vocabulary.Vocabulary(model, 'small')


def shaken(params, seed=7, scale=0.3):
  """The parameters, all moved away from their first values."""
  leaves, tree = jax.tree.flatten(params)
  keys = jax.random.split(jax.random.key(seed), len(leaves))
  return tree.unflatten([leaf + scale * np.asarray(jax.random.normal(key, leaf.shape))
                         for leaf, key in zip(leaves, keys)])


@functools.cache
def small_translator(**changes) -> Translator:
  """An untrained Transformer of 2+2 layers with 2 heads over the vocabulary above."""
  size = small_vocabulary().size
  sizes = dict(vocab_size=size, target_vocab_size=size, d_model=14, num_heads=2, num_layers=2, d_ff=11, dropout=0.0)
  model = models.build(ModelConfig(**{**sizes, **changes}))
  params = shaken(jax.jit(model.init)(jax.random.key(3)))
  return Translator([model], [params], small_vocabulary(), small_vocabulary(), SearchConfig(beam_size=2, extra_length=3),
                    batch_tokens=8, devices=jax.devices()[:1])


class Chains(NamedTuple):
  """Markov chains, one for each sentence, in place of a model's cache; other ones at each step: no two paths tie."""

  beams: Any
  logits: Any  # [B, T, V, V] of the next token after each
  step: Any  # [B]


def step_of_chains(chains, last):
  logits = jax.vmap(lambda table, step, tokens: table[step][tokens])(chains.logits, chains.step, last)
  return logits, chains._replace(step=chains.step + 1)


WIDTH = 7  # of the vectors that queries and keys are made of, in drawn()


def text_of(words, special=()):
  """A text of one piece to each word."""
  return Text(tuple(words), tuple(words), tuple(range(len(words))), tuple(i in special for i in range(len(words))))


def constructed(words, **links):
  """A capture of one sentence; links={kind: [(layer, head, query, key, weight)]}, the rest of each row on the first."""
  text, weights = text_of(words), {}
  for kind, given in links.items():
    weights[kind] = np.zeros((3, 2, len(words), len(words)), np.float32)
    weights[kind][..., 0] = 1.0
    for layer, head, query, key, weight in given:
      weights[kind][layer, head, query, key] += weight
      weights[kind][layer, head, query, 0] -= weight
  return Capture(source=text, reads=text, predicts=text, weights=weights, operands={}, top=(), written=(),
                 log_probs=np.zeros(len(words)), padded=(8, 8), origin='')


def drawn(source, target, layers=2, heads=3, width=5, seed=0, with_operands=True, origin='translated by the search'):
  """A capture whose weights follow from queries and keys, and these from random vectors by matrices that all captures share.

  Args:
    source, target: Text; the decoder reads BOS and all of the target but its last piece.
  """
  draw, shared, weights, operands, projections = np.random.default_rng(seed), np.random.default_rng(99), {}, {}, {}
  vectors = lambda *shape: draw.normal(0, 1.5, shape).astype(np.float32)
  sizes = {'encoder': (len(source.pieces),) * 2, 'decoder': (len(target.pieces),) * 2,
           'cross': (len(target.pieces), len(source.pieces))}
  for kind, (queries, keys) in sizes.items():
    x = vectors(layers, queries, WIDTH)
    y = np.tile(vectors(1, keys, WIDTH), (layers, 1, 1)) if kind == 'cross' else x
    both = [shared.normal(0, WIDTH**-0.5, (layers, WIDTH, heads, width)).astype(np.float32) for _ in range(2)]
    query, key = (np.einsum('ntd,ndhk->nhtk', each, matrix) for each, matrix in zip((x, y), both))
    value = vectors(layers, heads, keys, width)
    projections[kind] = Projections(x, y, *both)
    scores = np.einsum('nhqk,nhmk->nhqm', query, key) / np.sqrt(width)
    if kind == 'decoder':
      scores = np.where(np.tri(queries, dtype=bool), scores, -np.inf)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    weights[kind] = (powers / powers.sum(-1, keepdims=True)).astype(np.float32)
    operands[kind] = Operands(query, key, value)
  of_read = (0, *(word + 1 for word in target.word_of_piece[:-1]))
  reads = Text(('⟨bos⟩', *target.pieces[:-1]), ('⟨bos⟩', *target.words)[:of_read[-1] + 1], of_read,
               (True, *target.special[:-1]))
  shares = np.sort(draw.dirichlet(np.ones(20), len(target.pieces)))[:, ::-1][:, :10]
  top = tuple(tuple(zip([piece, *(f'other {n}' for n in range(9))], row.tolist()))
              for piece, row in zip(target.pieces, shares))
  return Capture(source=source, reads=reads, predicts=target, weights=weights,
                 operands=operands if with_operands else {}, top=top, written=target.pieces,
                 log_probs=np.log(shares[:, 0]), padded=(len(source.pieces) + 3, len(target.pieces) + 2), origin=origin,
                 projections=projections if with_operands else {})
