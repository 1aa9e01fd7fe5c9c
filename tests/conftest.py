"""Shared by all tests: eight simulated devices, strict settings, and the small models that most tests look at."""

import gc
import os
import subprocess

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')
os.environ.setdefault('OMP_NUM_THREADS', '2')
# Tests compile much and compute little: without LLVM's optimisations they take half the time. XLA's newer emitters of
# fusions on CPUs double the time to compile a training step with jax 0.10; jax 0.12 ignores the option. Nor is a program
# cut into parts that are compiled at the same time, which takes a third more in all: the workers share the cores already.
os.environ.setdefault('XLA_FLAGS', '--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1 '
                      '--xla_backend_extra_options=xla_cpu_disable_new_fusion_emitters')

# Most of what is left is compiling. What one test has compiled, small programs included, the others find: those of the
# other workers, the processes that tests start, and the next run of all.
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
os.environ.setdefault('JAX_COMPILATION_CACHE_DIR', os.path.join(ROOT, '.pytest_cache', 'programs'))
os.environ.setdefault('JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS', '0')
# Nothing is written into the home of whoever runs the tests.
os.environ['XDG_CACHE_HOME'] = os.path.join(ROOT, '.pytest_cache', 'user')

import jax
import jaxtyping
import numpy as np
import pytest

from tests import shape_checks

# Functions of the library are held to the shapes and types of their signatures. Linen's modules need no exception: the
# hook decorates their methods below nn.compact, before Linen wraps them.
jaxtyping.install_import_hook('transformer', f'{shape_checks.__name__}.check')

# What JAX keeps of traces and programs are millions of objects, none of them garbage; looking through them as often as
# Python would by itself takes a twelfth of the time.
gc.set_threshold(200_000, 50, 100)

jax.config.update('jax_num_cpu_devices', 8)
jax.config.update('jax_numpy_rank_promotion', 'raise')

from transformer import model as models
from transformer import tokens
from transformer.config import ModelConfig

BOS, EOS, FILLER = 2, 3, 0
# Sizes are different primes wherever the model allows it, so that two mixed-up axes cannot fit.
SIZES = dict(vocab_size=29, target_vocab_size=29, d_model=14, num_heads=2, num_layers=2, d_ff=11)


# Files that take longest, the longest first.
LONG = ('buckets', 'processes', 'recipes', 'sweep', 'pods', 'live', 'runs', 'reliability', 'model_family', 'trust',
        'partitioning', 'page', 'translation', 'exchange', 'language_model', 'page_layout', 'training', 'search', 'visualize',
        'phrasebook', 'model', 'coverage', 'ahead_of_time', 'wishes', 'configs')


# Linux gives a process 65,530 pieces of memory. A compiled program takes some, and a process without any left dies of it.
MANY_PIECES = 25_000


def pieces_of_memory():
  """Return the number of pieces that this process has; 0 where that is not told."""
  try:
    with open('/proc/self/maps', 'rb') as lines:
      return sum(1 for _ in lines)
  except OSError:
    return 0


@pytest.fixture(scope='module', autouse=True)
def room_for_programs():
  """Let go of compiled programs before they are too many for one process."""
  yield
  if pieces_of_memory() > MANY_PIECES:
    jax.clear_caches()
    gc.collect()


def pytest_collection_modifyitems(items):
  """Start the files that take longest first, so that no worker waits for another at the end."""
  place = {f'test_{name}': number for number, name in enumerate(LONG)}
  items.sort(key=lambda item: place.get(item.path.stem, len(LONG)))


@pytest.fixture(scope='module', autouse=True)
def programs_worth_keeping(request):
  """Where no other process needs them, do not keep programs that compile in less time than it takes to write them."""
  alone = not {'subprocess', 'tiny_runs', 'train'} & {*vars(request.module)}
  before = jax.config.jax_persistent_cache_min_compile_time_secs
  jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.1 if alone else before)
  yield
  jax.config.update('jax_persistent_cache_min_compile_time_secs', before)


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


def but_long(names, long):
  """The names as parameters of a test, of which some belong to `make test-long` alone; a tuple for several parameters."""
  parts = lambda name: name if isinstance(name, tuple) else (name,)
  return [pytest.param(*parts(name), marks=pytest.mark.long if name in long else ()) for name in names]


def sentences(lengths, seed=0, vocabulary=29):
  """Random sentences of ordinary tokens, each ended by EOS; `lengths` count it."""
  draw = np.random.default_rng(seed)
  return [[*draw.integers(4, vocabulary, length - 1).tolist(), EOS] for length in lengths]


def rows(lengths, width, seed=0):
  """One random sentence per row, padded to `width`."""
  return tokens.pad(sentences(lengths, seed), len(lengths), width, FILLER)


@pytest.fixture(scope='session')
def corpus(tmp_path_factory):
  """The folder of a small corpus, two files a split."""
  from tests import tiny_runs
  return tiny_runs.write_corpus(tmp_path_factory.mktemp('corpus'))


@pytest.fixture(scope='session')
def run(corpus, tmp_path_factory):
  """The folder of an uninterrupted tiny run of eight steps. Tests copy it before they change it."""
  import train  # here, since most tests need no more than the library
  from tests import tiny_runs
  workdir = tmp_path_factory.mktemp('runs') / 'whole'
  assert train.main(tiny_runs.options(corpus, workdir, '--config.train.num_steps=8')) == 0
  written = (workdir / 'manifest.json').read_bytes()
  yield workdir
  assert (workdir / 'manifest.json').read_bytes() == written, 'a test has changed the run that all share; copy it there'


@pytest.fixture
def small_disk(tmp_path):
  """A file system of 2.5 MB."""
  place = tmp_path / 'disk'
  place.mkdir()
  if subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=2500k', 'tmpfs', str(place)], capture_output=True).returncode:
    pytest.skip('file systems cannot be mounted here')
  yield place
  subprocess.run(['umount', '-l', str(place)], check=True)
