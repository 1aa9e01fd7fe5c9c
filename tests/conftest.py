"""Shared by all tests: eight simulated devices, strict settings, and the small models that most tests look at."""

import os
import pkgutil

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')
os.environ.setdefault('OMP_NUM_THREADS', '2')
# Tests compile much and compute little: without LLVM's optimisations they take half the time.
os.environ.setdefault('XLA_FLAGS', '--xla_backend_optimization_level=0')

import jax
import jaxtyping
import numpy as np
import pytest

# Functions of the library are held to the shapes and types of their signatures. Linen's modules need no exception: the
# hook decorates their methods below nn.compact, before Linen wraps them. Left out is what has no shapes in its
# signatures yet.
UNTYPED = {'transformer.search'}
LIBRARY = os.path.join(os.path.dirname(os.path.dirname(__file__)), 'transformer')
jaxtyping.install_import_hook(
    [module.name for module in pkgutil.iter_modules([LIBRARY], 'transformer.') if module.name not in UNTYPED],
    'beartype.beartype')

jax.config.update('jax_num_cpu_devices', 8)
jax.config.update('jax_numpy_rank_promotion', 'raise')

from transformer import model as models
from transformer import tokens
from transformer.config import ModelConfig

BOS, EOS, FILLER = 2, 3, 0
# Sizes are different primes wherever the model allows it, so that two mixed-up axes cannot fit.
SIZES = dict(vocab_size=29, target_vocab_size=29, d_model=14, num_heads=2, num_layers=2, d_ff=11)


@pytest.fixture(scope='session', params=['post', 'pre'])
def model(request):
  """A tiny Transformer of either norm placement."""
  return models.build(ModelConfig(**SIZES, norm=request.param))


@pytest.fixture(scope='session')
def params(model):
  """Its parameters, biases and scales included, all away from their neutral first values."""
  fresh = model.init(jax.random.key(5))
  leaves, tree = jax.tree.flatten(fresh)
  keys = jax.random.split(jax.random.key(7), len(leaves))
  return tree.unflatten([leaf + 0.1 * jax.random.normal(key, leaf.shape) for leaf, key in zip(leaves, keys)])


def sentences(lengths, seed=0, vocabulary=29):
  """Random sentences of ordinary tokens, each ended by EOS; `lengths` count it."""
  draw = np.random.default_rng(seed)
  return [[*draw.integers(4, vocabulary, length - 1).tolist(), EOS] for length in lengths]


def rows(lengths, width, seed=0):
  """One random sentence per row, padded to `width`."""
  return tokens.pad(sentences(lengths, seed), len(lengths), width, FILLER)
