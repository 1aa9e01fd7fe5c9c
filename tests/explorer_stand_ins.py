"""A vocabulary and a translator small enough to look into in a test."""

import functools

import jax
import numpy as np

from corpora import vocabulary
from experiment.translation import Translator
from transformer import model as models
from transformer.config import ModelConfig, SearchConfig

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
  return Translator(model, params, small_vocabulary(), small_vocabulary(), SearchConfig(beam_size=2, extra_length=3),
                    batch_tokens=8)
