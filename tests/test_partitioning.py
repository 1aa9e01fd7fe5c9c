"""One device, two or eight, split in whichever way, one program or one per device: the same numbers."""

import dataclasses
import functools
import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests.conftest import BOS, but_long, rows
from training import optimized_module, stepping
from transformer import architectures, classification, partitioning, training
from transformer import model as models
from transformer.config import (
  ClassificationConfig,
  LanguageModelConfig,
  LossConfig,
  MeshConfig,
  ModelConfig,
  OptimizerConfig,
  RecurrentConfig,
)
from transformer.optimizer import build as build_optimizer
from transformer.tokens import Batch, Tokens

# Eight divides what eight devices split.
SIZES = dict(vocab_size=32, target_vocab_size=32, d_model=16, num_heads=2, num_layers=1, d_ff=24)

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
  return models.build(ModelConfig(**SIZES, dropout=dropout))


@functools.cache
def start():
  return jax.jit(lambda key: training.init_state(build(), DESCENT, key))(jax.random.key(0))


def objective(dropout=0.0):
  return training.cross_entropy(build(dropout), LossConfig(0.1), BOS)


MESHES = {1: MeshConfig(1), 2: MeshConfig(2), 8: MeshConfig(8), 'pmap': MeshConfig(8, compile='pmap'),
          'fsdp': MeshConfig(1, 8), 'all': MeshConfig(2, 2, 2)}


@functools.cache
def compiled(name, dropout=0.0, accumulation_steps=1):
  """The step on a mesh of MESHES, and the state that it starts from, laid out there."""
  mesh = partitioning.make_mesh(MESHES[name])
  axes = build().axes()
  layout = partitioning.state_shardings(axes, start(), mesh)
  step = training.make_train_step(partitioning.gathering(objective(dropout), axes, mesh), DESCENT,
                                  accumulation_steps=accumulation_steps,
                                  prepare=partitioning.copies_of_tables(axes, mesh, MESHES[name].compile))
  return partitioning.compile_step(step, mesh, MESHES[name].compile, False,
                                   (layout, partitioning.replicated(mesh))), jax.device_put(start(), layout)


def first_step(batch, name, **options):
  """State and measures after one step."""
  step, state = compiled(name, **options)
  return jax.tree.map(np.asarray, (lambda s, m: (s._replace(key=()), m))(*step(state, batch)))


@pytest.fixture(scope='module')
def alone(batch):
  return first_step(batch, 1)


@pytest.mark.parametrize('mesh', [2, 8, 'pmap', 'fsdp', 'all'])
def test_mesh_and_mode_change_neither_gradient_nor_update_nor_sums(batch, alone, mesh):
  """The optimiser's state is the gradient itself: what Adam would hide, shows."""
  state, measures = first_step(batch, mesh)
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), state, alone[0])
  assert measures['tokens'] == sum(TARGETS)
  for name in ('loss', 'nll', 'correct', 'gradient_norm'):
    np.testing.assert_allclose(measures[name], alone[1][name], rtol=1e-5)
  assert alone[1]['gradient_norm'] > 0.1 and measures['skipped'] == 0


def test_losses_stay_together_over_twenty_steps(batch):
  def losses(name):
    step, state = compiled(name)
    found = []
    for _ in range(20):
      state, measures = step(state, batch)
      found.append(float(measures['loss'] / measures['tokens']))
    return found

  expected = losses(1)
  assert expected[-1] < 0.9 * expected[0]
  for name in (8, 'pmap', 'fsdp', 'all'):
    np.testing.assert_allclose(losses(name), expected, atol=1e-4)


@pytest.mark.parametrize('mode', ['jit', 'pmap'])
def test_a_step_writes_the_new_state_over_the_old_one(batch, mode):
  mesh = partitioning.make_mesh(MeshConfig(2))
  layout = partitioning.state_shardings(build().axes(), jax.eval_shape(start), mesh)
  step = partitioning.compile_step(training.make_train_step(objective(), DESCENT), mesh, mode, True,
                                   (layout, partitioning.replicated(mesh)))
  state = jax.jit(lambda key: training.init_state(build(), DESCENT, key), out_shardings=layout)(jax.random.key(0))
  assert step.program(state, batch).memory.alias_size_in_bytes >= partitioning.bytes_of(state)
  after, _ = step(state, batch)
  assert state.params['embedding'].is_deleted() and not after.params['embedding'].is_deleted()


@pytest.mark.parametrize('mesh, parts', [('fsdp', 8), ('all', 4)])
def test_parameters_and_what_belongs_to_them_are_split(mesh, parts):
  _, state = compiled(mesh)
  name, largest = max(state.params['encoder_layers_0']['feed_forward'].items(), key=lambda item: item[1].size)
  for tree in (state.params, state.opt_state):
    for leaf in (tree['embedding'], tree['encoder_layers_0']['feed_forward'][name]):
      assert {shard.data.nbytes for shard in leaf.addressable_shards} == {leaf.nbytes // parts}
  assert largest.size == 16 * 24
  whole = partitioning.bytes_of(state.params)
  assert whole / parts <= partitioning.bytes_per_device(state.params) < 1.2 * whole / parts


def collectives(program):
  text = program.call.as_text()
  return {name: len(re.findall(rf' {name}(?:-start)?\(', text))
          for name in ('all-gather', 'all-reduce', 'all-to-all', 'collective-permute')}


@pytest.mark.parametrize('mesh', ['fsdp', 'all'])
def test_a_split_step_gathers_and_adds_and_moves_nothing_else(batch, mesh):
  step, state = compiled(mesh)
  found = collectives(step.program(state, batch))
  assert found['all-gather'] and found['all-reduce'] and not found['all-to-all'] and not found['collective-permute']


@pytest.mark.parametrize('mesh, parts', but_long([(8, 1), ('all', 2), (8, 2), ('all', 1)], [(8, 2), ('all', 1)]))
def test_a_tied_table_s_gradient_is_added_up_over_the_devices_once_a_step(batch, mesh, parts):
  """Not once for each of its three uses, nor for each micro-batch."""
  step, state = compiled(mesh, accumulation_steps=parts)
  twice = jax.tree.map(lambda leaf: np.concatenate([leaf, leaf]), batch)
  text = step.program(state, twice).call.as_text()
  entries, width = state.params['embedding'].shape
  table = entries // MESHES[mesh].tensor, width
  assert [1] == [collective.runs for collective in optimized_module.Module(text).collectives()
                 for array in collective.results if collective.kind == 'all-reduce' and array.shape[-2:] == table]


def test_copies_of_a_table_take_its_gradient_as_bfloat16_models_make_it(batch):
  """Whatever its parts: each is made as if there were no others."""
  model = models.build(ModelConfig(**SIZES, dtype='bfloat16'))
  params, loss = model.init(jax.random.key(0)), training.cross_entropy(model, LossConfig(0.1), BOS)
  mesh = partitioning.make_mesh(MeshConfig(4))
  copies = partitioning.copies_of_tables(model.axes(), mesh)

  @jax.jit
  def gradient(params, batch, prepare):
    return jax.grad(lambda params: loss(prepare(params), batch).loss)(params)['embedding']

  whole = gradient(params, batch, jax.tree_util.Partial(lambda params: params))
  parts = gradient(params, partitioning.place(batch, mesh), jax.tree_util.Partial(copies))
  assert parts.dtype == jnp.float32
  # The logits' part of a gradient is rounded to bfloat16, once in the whole and once in each part.
  np.testing.assert_allclose(parts, whole, atol=2**-8 * float(np.abs(whole).max()))


OTHERS = {
    'recurrent': lambda: architectures.build(RecurrentConfig(32, 32, 16, num_layers=1)),
    'language_model': lambda: architectures.build(LanguageModelConfig(**SIZES)),
    'classifier': lambda: classification.build(
        architectures.build(LanguageModelConfig(**SIZES)), ClassificationConfig(2)),
    'scanned': lambda: models.build(ModelConfig(**{**SIZES, 'num_layers': 2}, scan_layers=True, remat=True,
                                                positions='t5', num_kv_heads=1, attention_bias=True)),
}


def batch_of(kind, batch):
  nothing = np.zeros((8, 0), np.int32)
  if kind == 'classifier':
    return classification.LabelledBatch(Tokens(*(leaf[:, None] for leaf in batch.target)), np.arange(8) % 2,
                                        batch.target.segments.any(axis=1))
  return Batch(Tokens(nothing, nothing, nothing), batch.target) if kind == 'language_model' else batch


@pytest.mark.parametrize('kind', but_long(OTHERS, OTHERS.keys() - {'scanned'}))
def test_every_architecture_is_split_with_its_optimizer(batch, kind, capfd):
  model, mesh = OTHERS[kind](), partitioning.make_mesh(MESHES['all'])
  optimizer = build_optimizer(OptimizerConfig(16))
  fresh = lambda key: training.init_state(model, optimizer, key)
  layout = partitioning.state_shardings(model.axes(), jax.eval_shape(fresh, jax.random.key(0)), mesh)
  state = jax.jit(fresh, out_shardings=layout)(jax.random.key(0))
  objective = training.build_objective(model, LossConfig(0.1), BOS)
  step = stepping.compile_training(model, objective, optimizer, mesh, 'jit', state)
  found = collectives(step.program(state, batch_of(kind, batch)))
  assert found['all-gather'] and not found['all-to-all'] and not found['collective-permute']
  assert 'rematerialization' not in ''.join(capfd.readouterr())
  assert partitioning.bytes_per_device(state) < 0.4 * partitioning.bytes_of(state)
  after, measures = step(state, batch_of(kind, batch))
  assert measures['skipped'] == 0
  jax.tree.map(lambda leaf, sharding: None if leaf.sharding.is_equivalent_to(sharding, leaf.ndim) else pytest.fail(
      f'{leaf.shape} left its place'), after, layout)


def test_dimensions_that_the_mesh_does_not_divide_stay_whole_and_are_named():
  model = models.build(ModelConfig(**{**SIZES, 'vocab_size': 33, 'target_vocab_size': 33}))
  shapes, mesh = jax.eval_shape(model.init, jax.random.key(0)), partitioning.make_mesh(MESHES['all'])
  assert partitioning.undivided(model.axes(), shapes, mesh) == ['embedding (33, 16)']
  assert partitioning.parameter_shardings(model.axes(), shapes, mesh)['embedding'].is_fully_replicated
  assert not partitioning.undivided(model.axes(), shapes, partitioning.make_mesh(MESHES[8]))


@pytest.mark.parametrize('mesh', [1, 8, 'pmap'])
def test_micro_batches_on_any_devices_make_the_gradient_of_the_whole(mesh):
  """Sixteen rows of unequal sentences: on eight devices each holds two, one for either micro-batch."""
  sources, targets = [5, 3, 7, 2, 4, 6, 5, 1] * 2, [4, 6, 2, 5, 3, 3, 1, 6, 2, 2, 6, 1, 5, 4, 3, 2]
  long = Batch(rows(sources, 7), rows(targets, 6, seed=1))
  whole, expected = first_step(long, 1)
  state, measures = first_step(long, mesh, accumulation_steps=2)
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), state.opt_state, whole.opt_state)
  assert measures['tokens'] == expected['tokens'] == sum(targets)
  np.testing.assert_allclose(measures['loss'], expected['loss'], rtol=1e-5)
  np.testing.assert_allclose(measures['gradient_norm'], expected['gradient_norm'], rtol=1e-4)


def test_under_jit_dropout_is_the_same_on_any_number_of_devices(batch, alone):
  (one, measured), (eight, other) = (first_step(batch, mesh, dropout=0.3) for mesh in (1, 8))
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), one, eight)
  np.testing.assert_allclose(measured['loss'], other['loss'], rtol=1e-5)
  assert abs(measured['loss'] - alone[1]['loss']) > 0.1


@pytest.mark.parametrize('mode', ['jit', 'pmap'])
def test_evaluation_adds_over_devices(batch, alone, mode):
  mesh = partitioning.make_mesh(MeshConfig(4))
  measure = partitioning.compile_step(training.make_eval_step(objective()), mesh, mode, donate=False)
  measured = measure(jax.device_put(start().params, partitioning.replicated(mesh)), batch)
  assert set(measured) == {'loss', 'nll', 'tokens', 'correct'}
  for name, value in measured.items():
    np.testing.assert_allclose(value, alone[1][name], rtol=1e-5)  # the step measured before it changed anything


def test_a_batch_is_split_over_the_mesh(batch):
  mesh = partitioning.make_mesh(MeshConfig(4))
  placed = partitioning.place(batch, mesh)
  for leaf, original in zip(jax.tree.leaves(placed), jax.tree.leaves(batch)):
    assert [shard.data.shape for shard in leaf.addressable_shards] == [(2, original.shape[1])] * 4
    np.testing.assert_array_equal(leaf, original)


def test_rows_that_do_not_divide_are_refused():
  mesh = partitioning.make_mesh(MeshConfig(3))
  partitioning.check_rows(24, mesh)
  with pytest.raises(ValueError, match=r'16 rows .* = 3 devices'):
    partitioning.check_rows(16, mesh)


@pytest.mark.parametrize('wrong', [MeshConfig(9), MeshConfig(-1, 3), MeshConfig(4, 2, 2)])
def test_a_mesh_of_devices_that_are_not_there_is_refused(wrong):
  with pytest.raises(ValueError, match='does not fit 8 devices'):
    partitioning.make_mesh(wrong)
  assert partitioning.make_mesh().size == 8


@dataclasses.dataclass(frozen=True)
class Chip:
  """What jax tells of a chip of a TPU slice."""

  id: int
  process_index: int
  coords: tuple[int, int, int]
  device_kind: str
  platform: str = 'tpu'
  core_on_chip: int = 0


def tpu_slice(kind, width, height, host):
  """Return the chips of a slice, numbered along its rows, whose hosts hold `host` chips across and down."""
  return [Chip(row * width + column, row // host[1] * (width // host[0]) + column // host[0], (column, row, 0), kind)
          for row in range(height) for column in range(width)]


@pytest.mark.parametrize('kind', ['TPU v5 lite', 'TPU v6 lite'])
@pytest.mark.parametrize('size', [(4, 4), (4, 8), (8, 8)])
@pytest.mark.parametrize('axes', [MeshConfig(), MeshConfig(fsdp=8), MeshConfig(fsdp=2, tensor=2), MeshConfig(tensor=8)])
def test_every_host_of_a_slice_reads_rows_that_lie_side_by_side(kind, size, axes, monkeypatch):
  """jax's own order of a slice runs along its wires, which lead from host to host and back."""
  chips = tpu_slice(kind, *size, host=(2, 2))
  mesh, sharing = partitioning.make_mesh(axes, chips), max(1, axes.tensor // 4)
  assert sorted(chip.id for chip in mesh.devices.flat) == list(range(len(chips)))
  for process in range(len(chips) // 4):
    monkeypatch.setattr(jax, 'process_index', lambda process=process: process)
    assert partitioning.share_of_rows(mesh) == (process // sharing, len(chips) // 4 // sharing)


@pytest.mark.parametrize('axes', [MeshConfig(), MeshConfig(2, 2, 2), MeshConfig(fsdp=4), MeshConfig(fsdp=2, tensor=4)])
def test_one_host_takes_jax_s_order_where_it_has_one(axes):
  chips = tpu_slice('TPU v6 lite', 2, 4, host=(2, 4))
  found = partitioning.make_mesh(axes, chips).devices
  try:
    expected = jax.make_mesh(found.shape, ('a', 'b', 'c'), devices=chips).devices
  except NotImplementedError:
    expected = np.array(chips).reshape(found.shape)
  assert found.tolist() == expected.tolist()


@pytest.mark.parametrize('wrong, words', [
    (dict(data=0), 'mesh.data is 0'), (dict(fsdp=-1), 'mesh.fsdp is -1'), (dict(compile='tpu'), 'jit, pmap'),
    (dict(compile='pmap', tensor=2), 'mesh.tensor 2; expected 1')])
def test_mistaken_meshes_are_refused(wrong, words):
  with pytest.raises(ValueError, match=words):
    MeshConfig(**wrong)


def test_updates_that_are_not_finite_are_skipped():
  """A state that has overflowed once can never be good again: nothing of such an update may enter it."""
  step, state = compiled(1)
  huge = state._replace(params=jax.tree.map(lambda leaf: leaf * 1e30, state.params), opt_state=jax.tree.map(
      jnp.ones_like, state.opt_state))
  after, measures = step(huge, Batch(rows(SOURCES[:7] + [1], 7), rows(TARGETS[:7] + [1], 6)))
  assert measures['skipped'] == 1 and not math.isfinite(measures['gradient_norm'])
  jax.tree.map(np.testing.assert_array_equal, (after.params, after.opt_state), (huge.params, huge.opt_state))
  assert after.step == huge.step + 1
