"""A run's log: which means a line of metrics has, whose operations count, and by whose clock a run ends."""

import contextlib
import dataclasses
import errno
import gzip
import json
import math
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from batching.shapes import Shape
from configs import multi30k
from tasks import setup
from tests.conftest import rows
from training import hardware, peers
from training.log import Log
from training.loop import Progress
from training.meter import Meter
from training.metrics import Metrics
from training.profile import Profile
from training.run_folder import RunFolder
from transformer.tokens import Batch

SHAPE = Shape(8, 7, 6)
PLAN = types.SimpleNamespace(cells=lambda shape: shape.rows * shape.target, epochs_done=lambda step: step / 100,
                             batches_per_epoch=100)
MEASURES = dict(loss=4.0, nll=3.0, tokens=2.0, correct=1.0, gradient_norm=1.0, skipped=0.0)


def loop_of(**options):
  loop = setup.records(multi30k.get_config('adam').to_dict()).loop
  return dataclasses.replace(loop, **{'num_steps': None, 'num_epochs': None, 'num_minutes': None, **options}).over(100)


@pytest.fixture
def folder(tmp_path):
  with RunFolder(str(tmp_path / 'run')).create_or_resume(multi30k.get_config('adam').to_dict()) as found:
    yield found


def batch(count):
  return Batch(rows([3] * count, 7), rows([4] * count, 6))


def test_skipped_updates_alone_have_no_means():
  meter = Meter()
  for _ in range(2):
    meter.add(MEASURES | {'loss': math.nan, 'skipped': 1.0}, cells=48, flops=10.0)
  found = meter.read()
  names = {'train/loss', 'train/perplexity', 'train/accuracy', 'train/gradient_norm', 'train/padding'}
  assert {name for name, value in found.items() if math.isnan(value)} == names and found['train/skipped'] == 2
  meter.add(MEASURES, cells=48, flops=10.0)
  assert meter.read()['train/loss'] == 2.0


def test_operations_are_those_of_all_processes_rows(folder, monkeypatch):
  """As the peak that they are divided by is that of all devices."""
  added = []
  monkeypatch.setattr(Meter, 'add', lambda self, measures, cells, flops: added.append(flops))
  with Log(folder, loop_of(num_steps=100, log_every=50), 0, Progress(), (2.0, 3.0), None, lambda step: 0.1) as log:
    for count in (8, 4):  # of the 8 rows of a batch: all, or those of one of two processes
      log.add(1, MEASURES, batch(count), SHAPE, PLAN)
  assert added == [hardware.step_flops((2.0, 3.0), batch(8))] * 2 == [8 * (2 * 3 + 3 * 4)] * 2


def test_the_clock_of_process_0_ends_a_run_of_several_processes(folder, monkeypatch):
  """Asked for at lines of metrics; by their own clocks processes could end at different steps."""
  monkeypatch.setattr(jax, 'process_count', lambda: 2)
  told = iter([350, 601])  # tenths of a second
  monkeypatch.setattr(peers, 'agreed', lambda own: next(told))
  loop, progress, over = loop_of(num_minutes=1, log_every=2), Progress(), []
  with Log(folder, loop, 0, progress, (2.0, 3.0), None, lambda step: 0.1) as log:
    for step in range(1, 5):
      log.add(step, MEASURES, batch(4), SHAPE, PLAN)
      over.append((progress.seconds, loop.is_over(step, progress)))
  assert over == [(0.0, False), (35.0, False), (35.0, False), (60.1, True)]


def test_a_full_disk_of_events_is_told_by_its_name_and_holds_nobody_up(folder, small_disk):
  folder.tensorboard = str(small_disk / 'tensorboard')
  found = Metrics(folder, 7)
  found.write(8, {'train/loss': 1.5})
  with contextlib.suppress(OSError), open(small_disk / 'rest', 'wb', buffering=0) as file:
    while True:
      file.write(bytes(4096))
  with pytest.raises(OSError, match='tensorboard') as full:
    for step in range(9, 400):
      found.write(step, {f'value/{number}': 0.5 for number in range(30)})
  assert full.value.errno == errno.ENOSPC
  (small_disk / 'rest').unlink()
  found.close()


def test_one_process_alone_writes_a_profile(folder, monkeypatch):
  started = []
  monkeypatch.setattr(jax.profiler, 'start_trace', lambda *_, **__: started.append(1))
  monkeypatch.setattr(jax.profiler, 'stop_trace', lambda: started.append(-1))
  for is_main in (False, True):
    monkeypatch.setattr(peers, 'is_main', lambda is_main=is_main: is_main)
    with Log(folder, loop_of(num_steps=100, log_every=1, profile_steps=2), 0, Progress(), (2.0, 3.0), None, lambda step: 0.1) as log:
      for step in range(8):
        assert log.profiled(step, lambda step=step: (step, -step)) == (step, -step)
    assert started == [1, -1] * is_main


@pytest.mark.parametrize('count', [1, 3])
def test_a_profile_has_the_computations_of_all_its_steps_and_of_no_other(tmp_path, count):
  """Steps are dispatched ahead of the device, as training does, and their states overwritten by the next."""
  def square(state):
    state = jax.lax.fori_loop(0, 4, lambda _, x: (x @ x) / jnp.linalg.norm(x), state)  # a loop is one event of the trace
    return state, state.sum()

  step_fn, state = jax.jit(square, donate_argnums=0), jnp.ones((300, 300))
  profile = Profile(str(tmp_path), 0, count)
  for step in range(9):
    state, _ = profile.of(step, lambda state=state: step_fn(state))
  path, = tmp_path.rglob('perfetto_trace.json.gz')
  with gzip.open(path, 'rt') as file:
    events = [event for event in json.load(file)['traceEvents'] if event.get('ph') == 'X']
  assert sum(event['name'] == 'train' for event in events) == count
  assert sum(event['name'].startswith('while') for event in events) == count


def test_a_line_of_skipped_updates_is_null(folder):
  with Log(folder, loop_of(num_steps=100, log_every=1), 0, Progress(), (2.0, 3.0), None, lambda step: 0.1) as log:
    log.add(1, MEASURES | {'skipped': 1.0, 'nll': np.inf}, batch(8), SHAPE, PLAN)
  with open(folder.metrics, encoding='utf-8') as file:
    line = json.loads(file.read())
  assert line['train/loss'] is None and line['train/perplexity'] is None and line['train/skipped'] == 1
