"""One device, two or eight, one program or one per device: the same numbers."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import PartitionSpec

from tests.conftest import BOS, SIZES, rows
from transformer import model as models
from transformer import partitioning, training
from transformer.config import LossConfig, ModelConfig
from transformer.tokens import Batch

SOURCES, TARGETS = [5, 3, 7, 2, 4, 6, 5, 0], [4, 6, 2, 5, 3, 3, 1, 0]  # unequal tokens, and an empty row
# Plain descent whose state is the gradient.
DESCENT = optax.GradientTransformation(
    lambda params: jax.tree.map(jnp.zeros_like, params),
    lambda gradient, state, params=None: (jax.tree.map(lambda g: -0.1 * g, gradient), gradient))


@pytest.fixture(scope='module')
def batch():
  lay = lambda lengths, width, seed: rows([length or 1 for length in lengths], width, seed)
  empty = lambda record, lengths: record._replace(segments=record.segments * (np.array(lengths) > 0)[:, None])
  return Batch(empty(lay(SOURCES, 7, 0), SOURCES), empty(lay(TARGETS, 6, 1), TARGETS))


def build(dropout=0.0):
  return models.build(ModelConfig(**{**SIZES, 'num_layers': 1}, dropout=dropout))


@functools.cache
def start():
  return jax.jit(lambda key: training.init_state(build(), DESCENT, key))(jax.random.key(0))


def objective(dropout=0.0):
  return training.cross_entropy(build(dropout), LossConfig(0.1), BOS)


def first_step(batch, devices, mode, dropout=0.0, accumulation_steps=1):
  """State and measures after one step."""
  mesh = partitioning.make_mesh(devices)
  assert mesh.size == devices
  state = jax.device_put(start(), partitioning.replicated(mesh))
  step = partitioning.compile_step(training.make_train_step(
      objective(dropout), DESCENT, accumulation_steps=accumulation_steps), mesh, mode, False)
  return jax.tree.map(np.asarray, (lambda s, m: (s._replace(key=()), m))(*step(state, batch)))


@pytest.fixture(scope='module')
def alone(batch):
  return first_step(batch, 1, 'jit')


@pytest.mark.parametrize('devices, mode', [(2, 'jit'), (8, 'jit'), (8, 'pmap')])
def test_devices_and_mode_change_neither_gradient_nor_update_nor_sums(batch, alone, devices, mode):
  state, measures = first_step(batch, devices, mode)
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), state, alone[0])
  assert measures['tokens'] == sum(TARGETS)
  for name in ('loss', 'nll', 'correct', 'gradient_norm'):
    np.testing.assert_allclose(measures[name], alone[1][name], rtol=1e-5)
  assert alone[1]['gradient_norm'] > 0.1


@pytest.mark.parametrize('devices, mode', [(1, 'jit'), (8, 'jit'), (8, 'pmap')])
def test_micro_batches_on_any_devices_make_the_gradient_of_the_whole(devices, mode):
  """Sixteen rows of unequal sentences: on eight devices each holds two, one for either micro-batch."""
  sources, targets = [5, 3, 7, 2, 4, 6, 5, 1] * 2, [4, 6, 2, 5, 3, 3, 1, 6, 2, 2, 6, 1, 5, 4, 3, 2]
  long = Batch(rows(sources, 7), rows(targets, 6, seed=1))
  whole, expected = first_step(long, 1, 'jit')
  state, measures = first_step(long, devices, mode, accumulation_steps=2)
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), state.opt_state, whole.opt_state)
  assert measures['tokens'] == expected['tokens'] == sum(targets)
  np.testing.assert_allclose(measures['loss'], expected['loss'], rtol=1e-5)
  np.testing.assert_allclose(measures['gradient_norm'], expected['gradient_norm'], rtol=1e-4)


def test_under_jit_dropout_is_the_same_on_any_number_of_devices(batch, alone):
  (one, measured), (eight, other) = (first_step(batch, devices, 'jit', dropout=0.3) for devices in (1, 8))
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), one, eight)
  np.testing.assert_allclose(measured['loss'], other['loss'], rtol=1e-5)
  assert abs(measured['loss'] - alone[1]['loss']) > 0.1


@pytest.mark.parametrize('mode', ['jit', 'pmap'])
def test_evaluation_adds_over_devices(batch, alone, mode):
  mesh = partitioning.make_mesh(4)
  measure = partitioning.compile_step(training.make_eval_step(objective()), mesh, mode, donate=False)
  measured = measure(jax.device_put(start().params, partitioning.replicated(mesh)), batch)
  assert set(measured) == {'loss', 'nll', 'tokens', 'correct'}
  for name, value in measured.items():
    np.testing.assert_allclose(value, alone[1][name], rtol=1e-5)  # the step measured before it changed anything


def test_a_batch_is_split_over_the_mesh(batch):
  mesh = partitioning.make_mesh(4)
  placed = partitioning.place(batch, mesh)
  for leaf, original in zip(jax.tree.leaves(placed), jax.tree.leaves(batch)):
    assert [shard.data.shape for shard in leaf.addressable_shards] == [(2, original.shape[1])] * 4
    np.testing.assert_array_equal(leaf, original)


def test_rows_that_do_not_divide_are_refused():
  mesh = partitioning.make_mesh(3)
  partitioning.check_rows(24, mesh)
  with pytest.raises(ValueError, match=r'16 rows .* = 3 devices'):
    partitioning.check_rows(16, mesh)


@pytest.mark.parametrize('wrong', [9, 0, -2])
def test_a_mesh_of_devices_that_are_not_there_is_refused(wrong):
  with pytest.raises(ValueError, match=f'mesh.data is {wrong}, but there are 8'):
    partitioning.make_mesh(wrong)
  assert partitioning.make_mesh(-1).size == 8


def test_every_parameter_gets_a_sharding_by_the_rules(monkeypatch):
  model = models.build(ModelConfig(**SIZES))
  mesh = partitioning.make_mesh(2)
  shapes = jax.eval_shape(model.init, jax.random.key(0))
  shardings = partitioning.parameter_shardings(model.axes(), mesh)
  assert jax.tree.structure(shardings) == jax.tree.structure(shapes)
  assert all(sharding.is_fully_replicated for sharding in jax.tree.leaves(shardings))
  monkeypatch.setattr(partitioning, 'AXIS_RULES', tuple(
      (name, partitioning.DATA if name == 'heads' else None) for name, _ in partitioning.AXIS_RULES))
  split = partitioning.parameter_shardings(model.axes(), mesh)
  attention = split['encoder_layers_0']['self_attention']
  assert attention['w_query'].spec == PartitionSpec(None, 'data', None)
  assert attention['w_query'].shard_shape((14, 2, 7)) == (14, 1, 7)
  assert attention['w_out'].shard_shape((2, 7, 14)) == (1, 7, 14)
  assert split['embedding'].is_fully_replicated
