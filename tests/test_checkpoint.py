"""Checkpoints come back bit for bit, where they are wanted, and never into another model."""

import math
import os
import subprocess
import sys
import threading
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.experimental import multihost_utils

from options import configurations
from training import checkpoint
from training.checkpoint import CheckpointError, Checkpoints
from training.manifest import Manifest
from transformer import partitioning
from transformer.config import MeshConfig

ADAM = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(lambda count: 1e-3 / (count + 1)))


class State(NamedTuple):
  """Like transformer.training.TrainState."""

  step: jax.Array
  params: Any
  opt_state: Any
  key: jax.Array
  average: Any


def state_at(step=0, width=3, average=False, dtype=jnp.float32):
  draw = np.random.default_rng(step)
  params = {'embedding': jnp.asarray(draw.normal(size=(5, width)), dtype),
            'layer': {'kernel': jnp.asarray(draw.normal(size=(width, 8)), dtype)}}
  gradients = jax.tree.map(jnp.sin, params)
  _, opt_state = ADAM.update(gradients, ADAM.init(params), params)
  return State(jnp.int32(step), params, opt_state, jax.random.fold_in(jax.random.key(7), step),
               jax.tree.map(lambda x: x / 2, params) if average else ())


def abstract(tree, sharding=None):
  return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding or x.sharding), tree)


def raw(tree):
  bits = lambda x: np.asarray(jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x)
  return jax.tree.map(bits, tree)


def assert_equal(first, second):
  assert jax.tree.structure(first) == jax.tree.structure(second)
  jax.tree.map(np.testing.assert_array_equal, raw(first), raw(second))


@pytest.fixture
def folder(tmp_path):
  return str(tmp_path / 'checkpoints')


def saved(folder, steps, keep_last=5, keep_best=0, scores=None, **options):
  checkpoints = Checkpoints(folder, keep_last, keep_best)
  for step in steps:
    metrics = None if scores is None or scores.get(step) is None else {'bleu': scores[step]}
    checkpoints.save(step, state_at(step, **options), {'seconds': 1.5 * step}, metrics)
  checkpoints.wait()
  return checkpoints


@pytest.mark.parametrize('average', [False, True])
@pytest.mark.parametrize('dtype', [jnp.float32, jnp.bfloat16])
def test_state_and_progress_come_back_bit_for_bit(folder, average, dtype):
  saved(folder, [11], average=average, dtype=dtype)
  wanted = state_at(11, average=average, dtype=dtype)
  state, progress = Checkpoints(folder).restore(11, abstract(state_at(0, average=average, dtype=dtype)))
  assert_equal(state, wanted)
  assert progress == {'seconds': 16.5}
  assert jax.random.uniform(state.key) == jax.random.uniform(wanted.key)


def test_restored_state_can_be_donated(folder):
  saved(folder, [3])
  state, _ = Checkpoints(folder).restore(3, abstract(state_at()))
  jax.jit(lambda s: jax.tree.map(lambda x: x, s), donate_argnums=0)(state)
  assert all(leaf.is_deleted() for leaf in jax.tree.leaves(state.params))


def test_arrays_go_where_they_are_wanted(folder):
  mesh = partitioning.make_mesh(MeshConfig(8))
  sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(None, 'data'))
  wanted = abstract(state_at(3), partitioning.replicated(mesh))
  kernel = wanted.params['layer']['kernel']
  wanted.params['layer']['kernel'] = jax.ShapeDtypeStruct(kernel.shape, kernel.dtype, sharding=sharding)
  saved(folder, [3])
  state, _ = Checkpoints(folder).restore(3, wanted)
  assert state.params['layer']['kernel'].sharding.is_equivalent_to(sharding, 2)
  assert len(state.params['embedding'].sharding.device_set) == 8
  assert_equal(state, state_at(3))


def test_parameters_alone(folder):
  saved(folder, [3])
  params = Checkpoints(folder).restore_params(3, jax.eval_shape(lambda: state_at(3).params))
  assert_equal(params, state_at(3).params)


def test_parameters_are_their_moving_average_where_there_is_one(folder):
  saved(folder, [3], average=True)
  wanted = abstract(state_at(3).params)
  assert_equal(Checkpoints(folder).restore_params(3, wanted), state_at(3, average=True).average)
  assert_equal(Checkpoints(folder).restore_params(3, wanted, averaged=False), state_at(3).params)


def test_average_is_the_arithmetic_mean(folder):
  checkpoints = saved(folder, [3, 5, 8])
  mean = checkpoints.average([3, 5, 8], abstract(state_at().params))
  exact = [jax.tree.map(lambda x: np.asarray(x, np.float64), state_at(step).params) for step in (3, 5, 8)]
  check = lambda found, *all_: np.testing.assert_allclose(found, sum(all_) / 3, rtol=1e-5, atol=1e-7)
  jax.tree.map(check, mean, *exact)
  assert {leaf.dtype for leaf in jax.tree.leaves(mean)} == {jnp.dtype('float32')}
  assert_equal(checkpoints.average([5], abstract(state_at().params)), state_at(5).params)


def test_newest_and_best_are_kept(folder):
  scores = {1: 10.0, 2: 30.0, 3: None, 4: 20.0, 5: math.nan, 6: 25.0, 7: None, 8: 1.0}
  checkpoints = saved(folder, scores, keep_last=2, keep_best=2, scores=scores)
  for found in (checkpoints, Checkpoints(folder), Checkpoints(folder, 2, 2)):  # the writer, a reader, a resumed run
    assert found.steps() == [2, 6, 7, 8]
    assert found.best() == 2
  later = Checkpoints(folder, 2, 2)
  later.save(9, state_at(9), {}, {'bleu': 28.0})
  later.wait()
  assert later.steps() == [2, 8, 9]


def test_what_a_stop_saves_takes_no_place_from_what_was_planned(folder):
  """Or a run that was stopped twice would average fewer checkpoints than one that was not."""
  checkpoints = Checkpoints(folder, 3, is_planned=lambda step: step % 2 == 0)
  for step in (2, 4, 5, 6, 7, 8):
    checkpoints.save(step, state_at(step), {})
  checkpoints.wait()
  assert checkpoints.steps() == [4, 6, 7, 8]


def test_without_scores_the_newest_are_kept(folder):
  checkpoints = saved(folder, range(1, 6), keep_last=3, keep_best=1)
  assert checkpoints.steps() == [3, 4, 5] and checkpoints.best() is None


def test_saving_a_step_again_replaces_it(folder):
  """As when a stop came in the middle of an evaluation: the step's second checkpoint has its figures."""
  checkpoints = saved(folder, [3, 4])
  checkpoints.save(4, state_at(5), {'seconds': 0}, {'bleu': 7.0})
  checkpoints.wait()
  state, progress = checkpoints.restore(4, abstract(state_at()))
  assert_equal(state, state_at(5))
  assert progress == {'seconds': 0} and checkpoints.best() == 4 and Checkpoints(folder).newest_whole() == (4, [])


@pytest.mark.parametrize('wanted, steps', [
    ('latest', [4]), ('best', [2]), ('average:3', [2, 3, 4]), ('average:1', [4]), ('3', [3])])
def test_resolve(folder, wanted, steps):
  assert saved(folder, [1, 2, 3, 4], scores={2: 9.0, 3: 8.0}).resolve(wanted) == steps


def test_a_checkpoint_is_listed_as_soon_as_it_is_whole_and_processes_meet_later(folder, monkeypatch):
  """On an accelerator training goes on meanwhile: what a kill finds there must not count as damaged."""
  met = []
  monkeypatch.setattr(jax, 'default_backend', lambda: 'tpu')
  monkeypatch.setattr(checkpoint.peers, 'meet', lambda name: met.append((name, threading.current_thread())))
  checkpoints = Checkpoints(folder, 5)
  checkpoints.save(3, state_at(3), {})
  until = time.monotonic() + 60
  while 3 not in Manifest(os.path.dirname(folder)).checkpoints():
    assert time.monotonic() < until
    time.sleep(0.01)
  assert not met
  checkpoints.save(4, state_at(4), {})
  checkpoints.wait()
  assert met == [(f'checkpoint {step}', threading.main_thread()) for step in (3, 4)]
  assert Checkpoints(folder).newest_whole() == (4, [])


def test_of_the_last_n_only_those_count_that_the_run_would_average(folder):
  checkpoints, even = saved(folder, [1, 2, 4]), lambda steps: [step for step in steps if step % 2 == 0]
  assert checkpoints.resolve('average:2', even) == [2, 4] and checkpoints.resolve('1', even) == [1]
  with pytest.raises(CheckpointError, match='asks for 3 checkpoints; there are steps 1, 2, 4, of which only 2, 4 count'):
    checkpoints.resolve('average:3', even)


@pytest.mark.parametrize('wanted', ['5', 'average:9', 'average:0', 'average:', 'newest', ''])
def test_resolve_says_what_is_there(folder, wanted):
  with pytest.raises(CheckpointError, match='there are steps 1, 2'):
    saved(folder, [1, 2]).resolve(wanted)


def test_a_misspelt_checkpoint_is_told_every_choice(folder):
  with pytest.raises(CheckpointError, match='expected final, best, latest, average:N or the number of a step; there are steps 1$'):
    saved(folder, [1]).resolve('newest')


def test_folder_without_checkpoints(folder):
  empty = Checkpoints(folder, 5)
  assert (empty.steps(), empty.best()) == ([], None)
  with pytest.raises(CheckpointError, match='no checkpoint'):
    Checkpoints(folder).resolve('latest')
  with pytest.raises(CheckpointError, match='no checkpoint'):
    Checkpoints(folder + '/nowhere').resolve('latest')
  assert not os.path.exists(folder + '/nowhere')


def test_another_model_is_refused_with_leaf_and_shapes(folder):
  checkpoints = saved(folder, [3])
  with pytest.raises(CheckpointError, match=r'params\.embedding.*\(5, 3\).*\(5, 2\)'):
    checkpoints.restore(3, abstract(state_at(width=2)))
  with pytest.raises(CheckpointError, match=r'embedding.*\(5, 3\).*\(5, 2\)'):
    checkpoints.restore_params(3, abstract(state_at(width=2).params))


def test_another_dtype_is_refused(folder):
  with pytest.raises(CheckpointError, match='params.embedding.*float32.*bfloat16'):
    saved(folder, [3]).restore(3, abstract(state_at(dtype=jnp.bfloat16)))


def test_missing_and_left_over_leaves_are_refused(folder):
  checkpoints = saved(folder, [3])
  more = state_at()
  more.params['bias'] = jnp.zeros(3)
  with pytest.raises(CheckpointError, match=r'params\.bias'):
    checkpoints.restore(3, abstract(more))
  fewer = state_at()
  del fewer.params['layer']
  with pytest.raises(CheckpointError, match=r'params\.layer\.kernel'):
    checkpoints.restore(3, abstract(fewer))
  with pytest.raises(CheckpointError, match='average'):
    checkpoints.restore(3, abstract(state_at(average=True)))
  plain = state_at()
  plain = plain._replace(opt_state=optax.sgd(0.1, momentum=0.9).init(plain.params))
  with pytest.raises(CheckpointError, match='opt_state'):
    checkpoints.restore(3, abstract(plain))


def test_unfinished_saves_are_invisible_and_left_to_the_writer(folder):
  saved(folder, [3])
  unfinished = os.path.join(folder, '7.orbax-checkpoint-tmp')
  os.makedirs(os.path.join(unfinished, 'state'))
  assert Checkpoints(folder).steps() == [3]
  assert os.path.isdir(unfinished)  # a reader cleans nothing away: the run may be saving right now
  writer = Checkpoints(folder, 5)
  writer.save(8, state_at(8), {})
  writer.wait()
  assert writer.steps() == [3, 8] and not os.path.isdir(unfinished)


SCRIPT = '''
import sys, jax.numpy as jnp
from training.checkpoint import Checkpoints
state = {'params': {'a': jnp.ones(3)}, 'average': ()}
writer = Checkpoints(sys.argv[1], 2, 1)
for step in range(4):
  writer.save(step, state, {'seconds': 1}, {'bleu': step})
writer.wait()
Checkpoints(sys.argv[1]).restore_params(3, {'a': jnp.ones(3)})
'''


def test_saving_asks_jax_for_no_notice_of_a_stop(folder, monkeypatch):
  """Its questions are counted; a run of several processes asks them by other numbers, see stopping."""
  asked = []
  monkeypatch.setattr(multihost_utils, 'reached_preemption_sync_point', asked.append)
  with_two = Checkpoints(folder, keep_last=2)
  for step in (1, 2):
    with_two.save(step, state_at(step), {})
  with_two.wait()
  assert with_two.steps() == [1, 2] and not asked


def test_saving_and_restoring_say_nothing(folder):
  done = subprocess.run([sys.executable, '-c', SCRIPT, folder], capture_output=True, text=True, timeout=120,
                        cwd=configurations.ROOT)
  assert (done.returncode, done.stdout, done.stderr) == (0, '', '')


def test_exit_code():
  assert checkpoint.CheckpointError.exit_code == 5


def test_small_arrays_that_several_devices_hold_are_saved_in_one_piece(folder, monkeypatch):
  sliced, slices = [], jax.lax.slice_in_dim
  monkeypatch.setattr(jax.lax, 'slice_in_dim', lambda *inputs, **named: sliced.append(1) or slices(*inputs, **named))
  mesh = partitioning.make_mesh(MeshConfig())
  everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
  for step, size in ((1, 8), (2, 2**21)):  # 4 bytes for each device, and a megabyte
    checkpoints = Checkpoints(folder, keep_last=2)
    checkpoints.save(step, {'x': jax.device_put(jnp.zeros(size), everywhere)}, {})
    checkpoints.wait()
    assert bool(sliced) == (step == 2) and len(mesh.devices.flat) == 8
