"""train.py --compile_for: what a step needs of devices that are not here, as their compiler says."""

import dataclasses
import importlib.util
import os
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

import train
from batching.shapes import Shape
from checks.errors import ConfigError
from checks.exit_codes import OUT_OF_MEMORY
from options import train_options
from options.configurations import ROOT
from tasks import compiling, setup
from tests import tiny_runs
from tests.conftest import but_long
from training import ahead_of_time, failures, optimized_module
from training.stepping import abstract_state, compile_training
from transformer import architectures, partitioning, training
from transformer import optimizer as optimizers
from transformer.config import MeshConfig
from transformer.tokens import pad

SHAPE = Shape(16, 5, 7)


def options(*more):
  return train_options.read(['train.py', f'--config={ROOT}/configs/multi30k.py:adam', '--compile_for=cpu:8', '--shapes=16x5x7',
                             *tiny_runs.TINY, *more])


def step_of(asked):
  return next(compiling.steps(setup.read(asked), asked))


def by_hand(step, mesh):
  """The same step as train.py compiles it, with arrays."""
  model, optimizer = architectures.build(step.model), optimizers.build(step.optimizer, 10)
  fresh = lambda key: training.init_state(model, optimizer, key)
  shardings = jax.tree.map(lambda leaf: leaf.sharding, abstract_state(fresh, model, mesh))
  state = jax.jit(fresh, out_shardings=shardings)(jax.random.key(0))
  objective = training.build_objective(model, step.loss, 2, step.consistency)
  side = lambda length: pad([[3] * length] * SHAPE.rows, SHAPE.rows, length, 0)
  batch = training.Batch(side(SHAPE.source), side(SHAPE.target))
  return compile_training(model, objective, optimizer, mesh, 'jit', state).program(state, batch), state, batch


@pytest.mark.long
def test_memory_is_that_of_the_program_that_trains():
  step = step_of(options('--config.mesh.fsdp=2', '--config.mesh.tensor=2'))
  found = ahead_of_time.compile_step(step)
  mesh = partitioning.make_mesh(MeshConfig(fsdp=2, tensor=2))
  program, state, batch = by_hand(step, mesh)
  assert found.mesh == {'data': 2, 'fsdp': 2, 'tensor': 2} and found.kind == 'cpu'
  assert found.need == pytest.approx(program.peak_bytes, rel=0.03)  # of so small a program constants are two per cent
  assert found.collectives == tuple(optimized_module.Module(program.call.as_text()).collectives())
  abstract = ahead_of_time.abstract_batch(SHAPE, mesh)
  assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), abstract) == jax.tree.map(
      lambda leaf: (leaf.shape, np.dtype(leaf.dtype)), batch)


def test_data_parallelism_adds_the_gradient_once_and_one_device_sends_nothing():
  step = step_of(options('--config.model.share_embeddings=False', '--config.model.tie_output=False'))
  found = ahead_of_time.compile_step(step)
  (which, (_, size)), = optimized_module.traffic(found.collectives).items()
  parameters = partitioning.bytes_of(jax.eval_shape(architectures.build(step.model).init, jax.random.key(0)))
  assert which == ('all-reduce', 'f32') and parameters <= size < 1.01 * parameters
  alone = ahead_of_time.compile_step(dataclasses.replace(step, topology='cpu:1'))
  assert not alone.collectives and alone.products == 8 * found.products


@pytest.mark.parametrize('devices', but_long([2, 16], [16]))
def test_shapes_of_the_corpus_are_compiled_and_nothing_is_trained(corpus, tmp_path, capsys, devices):
  asked = tiny_runs.options(corpus, tmp_path / 'run', f'--compile_for=cpu:{devices}', '--config.train.batch_tokens=512')
  assert train.main(asked) == 0
  lines = capsys.readouterr().out.splitlines()
  records = setup.read(asked)
  assert not (tmp_path / 'run' / 'config.json').exists()
  with train.RunFolder(asked.workdir).create_or_resume(records.saved) as folder:
    task = train.read(records, folder, partitioning.abstract_mesh(records.mesh, devices))
  (rows, source, target), = task.batches.shapes
  assert rows % devices == 0
  assert any(line.startswith(f'{rows} × ({source}, {target}) for cpu:{devices} (cpu), data {devices} ×') for line in lines)


def test_a_step_that_does_not_fit_is_named_behind_all_others_with_what_would_fit(monkeypatch):
  asked = options('--shapes=8x5x7,64x5x7,16x5x7')
  need = lambda step: 1000 * step.shape.rows
  monkeypatch.setattr(ahead_of_time, 'compile_step', lambda step: ahead_of_time.Compiled(
      'TPU v5', {'data': 8}, need(step), 5000, 20_000, (), (), 1.0, 1.0, None, None, 0.0))
  lines = compiling.report(setup.read(asked), asked)
  with pytest.raises(failures.OutOfMemoryError, match=r'64 × \(5, 7\) needs 64.0 kB .* 20.0 kB; .*accumulation_steps=') as raised:
    shown = []
    shown.extend(lines)  # keeps what came before the error
  assert raised.value.exit_code == OUT_OF_MEMORY
  assert [line.split(': ')[1] for line in shown if 'memory' in line] == ['fits', 'does not fit', 'fits']


def test_the_estimate_is_cycles_over_the_clock():
  found = ahead_of_time.Compiled('TPU v5 lite', {}, 1, 1, 2, (), (), 1.0, 98.5e9, 3_000_000, 1.5e9, 0.0)
  assert found.estimate == 0.002 and found.utilisation(197.0) == 0.25 and found.utilisation(None) is None


@pytest.mark.parametrize('package, name', [('libtpu', 'v5e:4x4'), ('jax_plugins.xla_cuda12', 'h100:4')])
def test_a_compiler_that_is_not_installed_is_named_with_the_command_that_installs_it(package, name):
  if importlib.util.find_spec(package.partition('.')[0]) and importlib.util.find_spec(package):
    pytest.skip('it is installed here')
  with pytest.raises(ConfigError, match=f'--compile_for={name} needs the compiler .* pip install '):
    ahead_of_time.compile_step(dataclasses.replace(step_of(options()), topology=name))


@pytest.mark.parametrize('changes, expected', [
    (['--config.mesh.fsdp=3'], 'does not fit 8 devices'), (['--config.compile=pmap'], 'compiles with jit'),
    (['--compile_for=cpu:32'], 'of 16 rows'), (['--config.train.accumulation_steps=3'], '3 micro-batches')])
def test_what_does_not_fit_the_devices_is_refused(changes, expected):
  with pytest.raises(ConfigError, match=expected):
    ahead_of_time.compile_step(step_of(options(*changes)))


@pytest.mark.parametrize('flags, expected', [
    (['--compile_for=v5e'], 'TPU slice such as v5e:4x4'), (['--compile_for=cpu:8', '--shapes=8x5'], 'rows x source'),
    (['--shapes=8x5x7'], '--shapes has no effect without --compile_for'), (['--compile_for=cpu:8'], '--workdir is missing'),
    (['--compile_for=cpu:8', '--inspect', '--workdir=x'], '--inspect and --compile_for do different things')])
def test_mistakes_in_the_flags(flags, expected):
  with pytest.raises(ConfigError, match=expected):
    train_options.read(['train.py', f'--config={ROOT}/configs/multi30k.py:adam', *flags])


@pytest.mark.skipif(not sys.platform.startswith('linux'), reason='reads /proc')
def test_no_compiler_is_left_behind_by_a_kill():
  command = [sys.executable, 'train.py', f'--config={ROOT}/configs/wmt_de_en.py', '--compile_for=cpu:2', '--shapes=64x64x64']
  run = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
  compilers, deadline = [], time.monotonic() + 100
  while not compilers and time.monotonic() < deadline:
    time.sleep(0.1)
    with open(f'/proc/{run.pid}/task/{run.pid}/children') as file:
      compilers = file.read().split()
  run.send_signal(signal.SIGKILL)
  run.wait()
  is_alive = lambda number: os.path.exists(f'/proc/{number}') and ') Z ' not in open(f'/proc/{number}/stat').read()
  while any(map(is_alive, compilers)) and time.monotonic() < deadline:
    time.sleep(0.1)
  assert compilers and not any(map(is_alive, compilers))


MODULE = '''HloModule jit_step, is_scheduled=true

%body.1 (p: (s32[], f32[8])) -> (s32[], f32[8]) {
  %p = (s32[], f32[8]) parameter(0)
  %x = f32[8]{0:T(256)} get-tuple-element(%p), index=1
  %fused.1 = f32[8]{0} fusion(%x), kind=kLoop, calls=%inner.1, backend_config={"estimated_cycles":"10"}
  ROOT %all-reduce.1 = f32[8]{0} all-reduce(%fused.1), channel_id=4, to_apply=%add.1
}

%inner.1 (q: f32[8]) -> f32[8] {
  %q = f32[8]{0} parameter(0)
  ROOT %all-gather.5 = bf16[4,2]{1,0:T(4,128)(2,1)S(1)} all-gather(%q), channel_id=9, dimensions={0}
}

%inner.2 (q: f32[8]) -> f32[8] {
  ROOT %all-gather.6 = bf16[4,2]{1,0} all-gather(%q), channel_id=9, dimensions={0}
}

ENTRY %main.2 (a: f32[8]) -> f32[8] {
  %w = (s32[], f32[8]) while(%t), condition=%c, body=%body.1, backend_config={"known_trip_count":{"n":"3"}}
  %both = (f32[8]{0}, /*index=1*/bf16[16]{0}, f32[]) all-reduce(%a, %b, %c), channel_id=5, to_apply=%add.1
  %start = (f32[2]{0}, f32[8]{0}) all-gather-start(%a), channel_id=6, dimensions={0}
  %done = f32[8]{0} all-gather-done(%start)
  ROOT %end = f32[8]{0} fusion(%done), kind=kLoop, calls=%inner.2, backend_config={"estimated_cycles":"7"}
}
'''


def test_collectives_and_cycles_are_counted_as_often_as_they_run():
  module = optimized_module.Module(MODULE)
  assert optimized_module.traffic(module.collectives()) == {
      ('all-reduce', 'f32'): (4, 3 * 32 + 32 + 4), ('all-gather', 'bf16'): (3, 48), ('all-gather', 'f32'): (1, 32),
      ('all-reduce', 'bf16'): (1, 32)}
  assert module.cycles() == 3 * 10 + 7
  counted = MODULE.replace(', backend_config={"known_trip_count":{"n":"3"}}', '') + '''
%c (p: (s32[], f32[8])) -> pred[] {
  %bound.1 = s32[]{:T(128)} constant(5)
  %p.2 = (s32[], f32[8]) parameter(0)
  %turn = s32[]{:T(128)} get-tuple-element(%p.2), index=0
  ROOT %less = pred[]{:T(512)} compare(%turn, %bound.1), direction=LT
}
'''
  assert optimized_module.Module(counted).cycles() == 5 * 10 + 7  # as a TPU's programs tell
  assert optimized_module.Module(counted.replace('=LT', '=NE')).cycles() == 10 + 7
  assert optimized_module.Module('ENTRY %m (a: f32[]) -> f32[] {\n  %a = f32[] parameter(0)\n}').cycles() is None


def test_memory_is_read_of_the_device_s_main_memory():
  assert optimized_module.memory('Memory Space: default (color=0)\nTotal bytes: 123 (x)\n\n'
                                 'Memory Space: vmem (color=1)\nTotal bytes: 7 (x)\n') == 123
