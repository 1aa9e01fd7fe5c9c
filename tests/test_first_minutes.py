"""The first minutes of a run: how many shapes its batches have, and programs that are compiled beside its steps."""

import os
import re
import signal
import threading
import time

import jax
import numpy as np
import pytest
from jax import monitoring
from jax.experimental.compilation_cache import compilation_cache

import input_pipeline
import train
from batching.shapes import Costs, count_that_pays, fit_lengths
from checks import exit_codes, machine
from checks.errors import ConfigError
from decoding.translator import Translator
from options import configurations
from options.configurations import CONFIGS, with_options
from tasks import setup, shapes
from tests.test_input_pipeline import make_store
from tests.test_translation import LINES, parts  # noqa: F401  (a fixture)
from tests.tiny_runs import metrics, options, saved
from training import background, device_speed, hardware
from training.background import Background
from training.json_files import as_written
from training.run_folder import RunFolder
from transformer import partitioning
from transformer.config import MeshConfig
from transformer.partitioning import CompiledStep
from transformer.search import SearchConfig

# Sixty sentences of 10 + 10 tokens, thirty of 20 + 20 and ten of 30 + 30: 3,000 real tokens. In one shape they take 6,000
# cells; in two, (20, 20) and (30, 30), 4,200, or (10, 10) and (30, 30), 3,600; in three 3,000. So of the cells 1/2, 1/6
# and none are padding.
LENGTHS = np.repeat([10, 20, 30], [60, 30, 10])
CONFIG = with_options(configurations.load_config(os.path.join(CONFIGS, 'multi30k.py:adam')), {'train.batch_tokens': 600})


# --------------------------------------------------------------------------------------------------- the number of shapes


@pytest.mark.parametrize('costs, count', [
    (Costs(5.0, 1e-2, tokens=1000.0), 1),  # of 10 s of training: 5 + 5, 10 + 10/6, 15 + 0
    (Costs(5.0, 1e-2, tokens=2100.0), 2),  # of 21 s: 5 + 10.5, 10 + 3.5, 15 + 0
    (Costs(5.0, 1e-2, tokens=4000.0), 3),  # of 40 s: 5 + 20, 10 + 40/6, 15 + 0
    (Costs(0.5, 1e-2, tokens=1000.0), 3),  # of 10 s, shapes a tenth as dear: 0.5 + 5, 1 + 10/6, 1.5 + 0
    (Costs(35.0, 1e-2, epochs=1.0), 1),  # padding of an epoch: 30 s, 6 s and none: 35 + 30, 70 + 6, 105 + 0
    (Costs(8.0, 1e-2, epochs=1.0), 2),  # 8 + 30, 16 + 6, 24 + 0
    (Costs(8.0, 1e-2, epochs=2.0), 3)])  # 8 + 60, 16 + 12, 24 + 0
def test_as_many_shapes_as_pay_by_hand(costs, count):
  assert count_that_pays(LENGTHS, LENGTHS, costs) == count
  assert len(fit_lengths(LENGTHS, LENGTHS, count)) == count


def test_never_more_than_sixteen_shapes_nor_any_that_save_nothing():
  endless, many = Costs(1.0, 1.0, tokens=1e12), np.arange(1, 101)
  assert count_that_pays(LENGTHS, LENGTHS, endless, most=2) == 2
  assert count_that_pays(LENGTHS, LENGTHS, endless) == 3
  assert count_that_pays(many, many, endless) == 16


@pytest.fixture
def pays(monkeypatch):
  """Return a function that sets how many shapes pay, whatever the machine."""
  costs = {1: Costs(5.0, 1e-2, tokens=1000.0), 2: Costs(8.0, 1e-2, epochs=1.0), 3: Costs(8.0, 1e-2, epochs=2.0)}
  return lambda count: monkeypatch.setattr(shapes, 'costs', lambda setup, model: costs[count])


def start(workdir, anew=False, **changes):
  """Start a run, or go on with it, as far as planning its batches; return the plan and the records."""
  config = with_options(CONFIG, {name.replace('__', '.'): value for name, value in changes.items()})
  with RunFolder(str(workdir)).create_or_resume(config, anew=anew) as folder:
    records = setup.records(config)
    plan = input_pipeline.make_plan(make_store(LENGTHS, LENGTHS), shapes.weighed(records, folder, None), seed=3)
    settled = shapes.settle(records, folder, plan)
    assert folder.read_config()['data']['max_shapes'] == settled.saved['data']['max_shapes']
  return plan, settled.batches


def test_the_first_choice_holds_for_the_run(tmp_path, pays):
  pays(2)
  plan, batches = start(tmp_path / 'a')
  assert batches.max_shapes == len(plan.shapes) == 2 and batches.for_evaluation().max_shapes == 2
  pays(3)  # another machine, or a run that has become longer
  again, batches = start(tmp_path / 'a')
  assert batches.max_shapes == 2
  for step in range(2 * plan.batches_per_epoch):
    assert jax.tree.all(jax.tree.map(np.array_equal, plan.batch_at(step), again.batch_at(step)))
  assert start(tmp_path / 'a', anew=True)[1].max_shapes == 3


def test_a_number_that_is_given_is_obeyed(tmp_path, pays):
  pays(3)
  assert start(tmp_path / 'a', data__max_shapes=1)[1].max_shapes == 1
  assert start(tmp_path / 'a')[1].max_shapes == 1
  with pytest.raises(ConfigError, match='data.max_shapes is 2, the run has 1'):
    start(tmp_path / 'a', data__max_shapes=2)


def test_runs_of_earlier_versions_keep_their_shapes(tmp_path, pays):
  pays(2)
  for name, kept in (('with', {'max_shapes': 16}), ('before', {})):  # the option with its former default, and none yet
    start(tmp_path / name)
    folder, older = RunFolder(str(tmp_path / name)), as_written(CONFIG)
    del older['data']['max_shapes']
    older['data'] |= kept
    folder.write_json(folder.config, older)
    plan, batches = start(tmp_path / name)
    assert batches.max_shapes == 16 and len(plan.shapes) == 3


def test_other_plans_decide_nothing(tmp_path, pays):
  pays(2)
  fixed = {'data.batching': 'fixed', 'data.fixed_source_length': 30, 'data.fixed_target_length': 30}
  assert start(tmp_path / 'a', **{name.replace('.', '__'): value for name, value in fixed.items()})[1].max_shapes == 16
  assert RunFolder(str(tmp_path / 'a')).read_config()['data']['max_shapes'] is None


def test_the_seconds_that_compiling_takes_are_measured_once(tmp_path, monkeypatch):
  monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
  measured = []
  monkeypatch.setattr(device_speed, 'measure', lambda: measured.append(10.0) or 10.0)
  assert device_speed.compile_seconds() == device_speed.compile_seconds() == 46.0 / max(1, background.workers())
  assert len(measured) == 1
  kept, = tmp_path.glob('*/speed/*')  # and nothing unfinished
  monkeypatch.setattr(background, 'workers', lambda: 3)
  for exact in (1.4449, 1.4451, 2.0 / 3):
    kept.unlink()
    monkeypatch.setattr(device_speed, 'measure', lambda exact=exact: exact)
    assert device_speed.compile_seconds() == device_speed.compile_seconds()
  kept.unlink()
  monkeypatch.setattr(device_speed, 'measure', lambda: kept.write_text('{"program_seconds": 7.0}') and 9.0)
  assert device_speed.compile_seconds() == round(4.6 * 7.0 / 3, 2)  # another start was first
  monkeypatch.undo()
  monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'file'))
  (tmp_path / 'file').write_text('')  # no folder can be made there
  assert device_speed.compile_seconds() == 6.0 / max(1, background.workers())


# ---------------------------------------------------------------------------------------------------- compiled ahead


@pytest.fixture
def two_threads(monkeypatch):
  """Compile beside the steps, as on a machine with cores to spare."""
  monkeypatch.setattr(background, 'workers', lambda: 2)


@pytest.mark.parametrize('backend, cores, processes, expected', [
    ('cpu', 2, 1, 0), ('cpu', 4, 1, 1), ('cpu', 16, 1, 2), ('cpu', 16, 2, 1), ('gpu', 2, 1, 2), ('tpu', 96, 16, 1)])
def test_programs_are_compiled_beside_steps_that_leave_cores_to_it(backend, cores, processes, expected, monkeypatch):
  monkeypatch.setattr(jax, 'default_backend', lambda: backend)
  monkeypatch.setattr(jax, 'process_count', lambda: processes)
  monkeypatch.setattr(machine, 'cores', lambda: cores)
  assert background.workers() == expected


def refusing(first, batch):
  """A step that cannot be compiled for three rows."""
  if len(batch) == 3:
    raise ArithmeticError('no program for three rows')
  return first + batch.sum()


def test_a_failing_background_compilation_is_reported_at_the_step_that_needs_it(two_threads):
  step = CompiledStep(jax.jit(refusing), lambda batch: batch)
  blank = jax.ShapeDtypeStruct((), np.float32)
  with Background(lambda: False) as ahead:
    ahead.begin(lambda rows=rows: step.program(blank, np.ones(rows, np.float32)) for rows in (2, 3, 5))
    ahead.wait()
    assert all(step.is_ready(np.ones(rows, np.float32)) for rows in (2, 3, 5))
    for rows in (2, 5):
      assert float(step(np.float32(1), np.ones(rows, np.float32))) == 1 + rows
    with pytest.raises(ArithmeticError, match='no program for three rows'):
      step(np.float32(1), np.ones(3, np.float32))


def test_a_step_waits_for_the_thread_that_compiles_its_program(two_threads):
  began, go_on, compiled = threading.Event(), threading.Event(), []

  def slow(first, batch):
    compiled.append(len(batch))
    began.set()
    assert go_on.wait(30)
    return first + batch.sum()

  step, batch = CompiledStep(jax.jit(slow), lambda batch: batch), np.ones(2, np.float32)
  with Background(lambda: False) as ahead:
    ahead.begin([lambda: step.program(np.float32(0), batch)])
    assert began.wait(30) and not step.is_ready(batch)
    threading.Timer(0.2, go_on.set).start()
    assert float(step(np.float32(1), batch)) == 3
  assert compiled == [2]


@pytest.mark.parametrize('mode', ['jit', 'pmap'])
def test_a_program_compiled_for_shapes_takes_arrays(mode):
  mesh = partitioning.make_mesh(MeshConfig(data=2))
  add = lambda first, batch, axis=None: first + (jax.lax.psum(batch.sum(), axis) if axis else batch.sum())
  first = partitioning.lay_out(np.float32(1), partitioning.replicated(mesh))
  batch = np.arange(6, dtype=np.float32)
  step = partitioning.compile_step(add, mesh, mode, donate=False, out=partitioning.replicated(mesh))
  step.program(jax.ShapeDtypeStruct(first.shape, first.dtype, sharding=first.sharding), batch)
  assert step.is_ready(batch) and float(step(first, batch)) == 16


def test_an_evaluation_s_search_is_compiled_ahead(parts):  # noqa: F811
  vocabulary, network, params = parts
  translator = Translator([network], [None], vocabulary, vocabulary, SearchConfig(beam_size=1, extra_length=8), 256)
  compiled = []
  monitoring.register_event_duration_secs_listener(
      lambda name, *_, **__: compiled.append(name) if 'backend_compile' in name else None)
  for compile_one in translator.compilations([params], LINES):
    compile_one()
  assert compiled
  translator.params = [params]
  jax.block_until_ready(translator.params)
  compiled.clear()
  translator.translate(LINES)
  assert not compiled


def test_what_has_not_begun_is_dropped_at_the_end(two_threads):
  done, hold = [], threading.Event()
  with Background(lambda: False) as ahead:
    ahead.begin([hold.wait] * 2 + [lambda: done.append(1)])
    threading.Timer(0.2, hold.set).start()
  assert not done


def test_each_shape_is_first_used_where_the_plan_says():
  plan = input_pipeline.make_plan(
      make_store(LENGTHS, LENGTHS), input_pipeline.BatchConfig('buckets', 240, 50, max_shapes=3), seed=3)
  for start in (0, 2, plan.batches_per_epoch + 1):
    end = (start // plan.batches_per_epoch + 1) * plan.batches_per_epoch
    expected = {}
    for step in range(start, end):
      expected.setdefault(plan.shape_at(step), step)
    assert dict(plan.first_uses(start)) == expected and len(expected) > 1
  assert list(plan.first_uses(0, stop=1)) == [(plan.shapes[0], 0)]


@pytest.mark.long
@pytest.mark.parametrize('thread', ['first step', 'compile'])
def test_K1_a_stop_during_a_background_compilation(corpus, run, two_threads, tmp_path, monkeypatch, thread):
  """Stopped while the first state is made, or beside steps, a run ends at once; continued, it is as if it had not."""
  program, release, stuck = CompiledStep.program, threading.Event(), []

  def wait_first(self, first, batch):
    if threading.current_thread().name.startswith(thread) and not self.is_ready(batch):
      assert all(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in jax.tree.leaves(first))
      stuck.append(time.monotonic())
      os.kill(os.getpid(), signal.SIGTERM)
      release.wait(60)
    return program(self, first, batch)

  asked = options(corpus, tmp_path / 'run', '--config.train.num_steps=8')
  with monkeypatch.context() as patch:
    patch.setattr(CompiledStep, 'program', wait_first)
    assert train.main(asked) == exit_codes.PREEMPTED and time.monotonic() - stuck[0] < 10
  release.set()
  assert train.main(asked) == 0
  found = saved(tmp_path / 'run')
  for name, array in saved(run).items():
    np.testing.assert_array_equal(found[name], array, err_msg=name)
  assert metrics(run) == metrics(tmp_path / 'run')


@pytest.fixture
def small_programs_kept(monkeypatch):
  keep = hardware.keep_programs

  def keep_small_ones(folder):
    keep(folder)
    jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.0)

  monkeypatch.setattr(hardware, 'keep_programs', keep_small_ones)
  compilation_cache.reset_cache()  # which keeps to the folder that it was first used with
  yield
  compilation_cache.reset_cache()


@pytest.mark.long
def test_another_seed_finds_every_program_compiled(corpus, tmp_path, small_programs_kept):
  events = []
  monitoring.register_event_listener(lambda name, **_: events.append(name))
  for seed in (1, 2):
    events.clear()
    assert train.main(options(corpus, tmp_path / f'{seed}', f'--config.seed={seed}', '--config.train.num_steps=4')) == 0
  assert '/jax/compilation_cache/cache_hits' in events
  assert '/jax/compilation_cache/cache_misses' not in events


@pytest.mark.long
def test_a_run_that_goes_on_finds_its_steps_compiled(corpus, tmp_path, small_programs_kept):
  """Restored arrays are laid out as fresh ones, so that the step is the same program: minutes on an accelerator."""
  cache, found = tmp_path / 'programs', []
  for steps in (4, 8):
    asked = options(corpus, tmp_path / 'run', f'--config.train.num_steps={steps}', f'--config.compile_cache={cache}')
    assert train.main(asked) == 0
    found.append({path.name for path in cache.glob('jit_step-*')})
  before, after = found
  assert before and after == before


def test_the_first_epoch_ends_with_what_it_took(corpus, tmp_path, capsys):
  assert train.main(options(corpus, tmp_path / 'run', '--config.train.num_epochs=2')) == 0
  lines = capsys.readouterr().out.splitlines()
  planned, = (re.search(r'([0-9.]+%) padding', line)[1] for line in lines if line.startswith('Batches: '))
  epoch, = (line for line in lines if line.startswith('first epoch: '))
  assert re.fullmatch(rf'first epoch: \d+ s training; \d+ s compiling steps, .* waited for \d+ s; {planned} padding', epoch)
