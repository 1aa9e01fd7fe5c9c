"""Two real processes on one machine: they find each other, train as one would, die, and go on."""

import os
import re
import signal
import socket
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

import decode
import train
from checks import exit_codes
from options import decode_options
from options.configurations import ROOT
from tests.tiny_runs import ANNOUNCED, PHASES, arguments, in_numbers, metrics, options, saved
from training import peers
from training.json_files import read_json
from training.manifest import Manifest

FLAGS = ['--config.train.eval_every=4', '--config.train.average_last=1', '--config.train.heartbeat_seconds=10']


def launch(corpus, workdir, *more, script=('train.py',), devices=1):
  """Two processes of one run, each with so many devices, their output in files beside its folder."""
  command = [*script, *arguments(corpus, workdir, *more)[1:]]
  environment = {**os.environ, 'PYTHONUNBUFFERED': '1', 'JAX_NUM_CPU_DEVICES': str(devices)}
  children = []
  for number, child in enumerate(peers.commands(2, command, environment)):
    log = open(f'{workdir}.{number}.log', 'w')
    children.append(subprocess.Popen(child.arguments, env=child.environment, stdout=log, stderr=log, cwd=ROOT))
  return children


def said(workdir, number):
  with open(f'{workdir}.{number}.log', errors='replace') as file:
    return file.read()


def wait_for(there, children, workdir):
  while not there():
    assert all(child.poll() is None for child in children), said(workdir, 0) + said(workdir, 1)
    time.sleep(0.02)


def end(children, workdir, codes=(0, 0), timeout=200):
  found = tuple(child.wait(timeout=timeout) for child in children)
  assert found == codes, said(workdir, 0) + said(workdir, 1)


def assert_same_losses(one, other):
  first, second = ([line for line in metrics(folder) if 'train/loss' in line] for folder in (one, other))
  assert [line['step'] for line in first] == [line['step'] for line in second]
  for a, b in zip(first, second):
    assert a['train/padding'] == b['train/padding'] and a['epoch'] == b['epoch']  # the same batches
    np.testing.assert_allclose(a['train/loss'], b['train/loss'], atol=1e-4)


@pytest.mark.long
def test_H1_R4_two_processes_train_as_one_and_a_dead_one_ends_the_other(corpus, run, tmp_path):
  workdir = tmp_path / 'two'
  children = launch(corpus, workdir, *FLAGS, '--config.train.num_steps=100000', '--config.train.eval_every=100000')
  wait_for(lambda: 4 in Manifest(str(workdir)).checkpoints(), children, workdir)
  children[1].kill()
  began = time.monotonic()
  assert children[0].wait(timeout=60) in (exit_codes.PEER_LOST, -signal.SIGABRT)
  assert time.monotonic() - began < 15 + 5  # the machine may be busy
  # Told by jax's coordination service, which has heard no heartbeat of process 1.
  assert re.search(r'unhealthy[^\n]*:\n1\n', said(workdir, 0)), said(workdir, 0)[-3000:]
  assert children[1].wait() == -signal.SIGKILL

  end(launch(corpus, workdir, *FLAGS, '--config.train.num_steps=6', devices=2), workdir)
  # One process with eight devices, split in two more ways, goes on from what two have saved.
  mesh = ['--config.mesh.fsdp=4', '--config.mesh.tensor=2']
  assert train.main(options(corpus, workdir, *FLAGS, *mesh, '--config.train.num_steps=8')) == 0
  assert_same_losses(run, workdir)


@pytest.mark.long
def test_two_processes_of_two_devices_share_a_step_under_pmap(corpus, tmp_path):
  same = [*FLAGS, '--config.model.dropout=0.0', '--config.train.num_steps=2']  # pmap draws dropout of its own
  end(launch(corpus, tmp_path / 'pmap', *same, '--config.compile=pmap', devices=2), tmp_path / 'pmap')
  assert train.main(options(corpus, tmp_path / 'jit', *same, '--config.mesh.data=4')) == 0
  assert_same_losses(tmp_path / 'jit', tmp_path / 'pmap')


def test_two_processes_start_from_another_run_or_refuse_it_alike(corpus, run, tmp_path):
  start = [*FLAGS, '--config.train.num_steps=1', f'--config.init_from={run}']
  end(launch(corpus, tmp_path / 'other', *start, '--config.model.d_ff=32'), tmp_path / 'other', (exit_codes.CHECKPOINT,) * 2)
  assert all('belongs to another configuration' in said(tmp_path / 'other', number) for number in (0, 1))
  assert not (tmp_path / 'other').exists()
  end(launch(corpus, tmp_path / 'two', *start), tmp_path / 'two')
  assert 1 in Manifest(str(tmp_path / 'two')).checkpoints()


@pytest.mark.drill
def test_R4_two_then_one_then_two_processes(corpus, run, tmp_path, monkeypatch):
  workdir = tmp_path / 'run'
  end(launch(corpus, workdir, *FLAGS, '--config.train.num_steps=4'), workdir)
  before, begun, begin = saved(workdir, 4), [], train.begin

  def noted(*inputs):
    state, progress = begin(*inputs)
    begun.append({jax.tree_util.keystr(path): in_numbers(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(state)})
    return state, progress

  monkeypatch.setattr(train, 'begin', noted)
  assert train.main(options(corpus, workdir, *FLAGS, '--config.mesh.data=1', '--config.train.num_steps=6')) == 0
  assert len(begun[0]) == len(before) > 50
  by_name = lambda state: [state[name] for name in sorted(state, key=lambda name: re.findall(r'\w+', name))]
  for one, other in zip(by_name(before), by_name(begun[0])):
    np.testing.assert_array_equal(one, other)
  end(launch(corpus, workdir, *FLAGS, '--config.train.num_steps=8'), workdir)
  assert_same_losses(run, workdir)


HASTY = '''
import os, sys, time, types
import train
from options import programs, train_options
from training import log, peers, stopping

if os.environ[peers.NUMBER] == '1':
  log.time = types.SimpleNamespace(monotonic=lambda: 40 * time.monotonic())
programs.run(lambda: stopping.end(train.main(train_options.parse(sys.argv, ''))))
'''


@pytest.mark.drill
def test_processes_whose_clocks_disagree_end_at_the_same_step(corpus, tmp_path):
  workdir = tmp_path / 'run'
  children = launch(corpus, workdir, *FLAGS, '--config.train.num_steps=None', '--config.train.num_minutes=0.3',
                    '--config.train.stall_seconds=60', script=('-c', HASTY))
  end(children, workdir)
  assert 18 <= read_json(workdir / 'results.json')['seconds'] < 40  # by the clock of process 0


@pytest.mark.drill
@pytest.mark.parametrize('asked, sent, codes', [  # one is enough: jax tells the others
    ((0, 1), signal.SIGTERM, (143, 143)), ((1,), signal.SIGTERM, (143, 143)), ((1,), signal.SIGINT, (143, 130)),
    ((0, 1), signal.SIGHUP, (143, 143))])
@pytest.mark.parametrize('phase', PHASES)
def test_K1_a_signal_to_two_processes(corpus, run, tmp_path, phase, asked, sent, codes):
  if signal.getsignal(sent) == signal.SIG_IGN:
    pytest.skip(f'{sent.name} is ignored here, as below nohup')
  workdir = tmp_path / 'run'
  steps = '--config.train.num_steps=8'
  children = launch(corpus, workdir, *FLAGS, steps, script=('-c', ANNOUNCED, phase))
  try:
    while 'PHASE' not in said(workdir, 0):
      assert children[0].poll() is None, said(workdir, 0)
      time.sleep(0.02)
    began = time.monotonic()
    for number in asked:
      children[number].send_signal(sent)
    end(children, workdir, codes, timeout=30)
    assert time.monotonic() - began < 10 and 'The same command resumes' in said(workdir, 0)
  finally:
    for child in children:
      child.kill()
  assert train.main(options(corpus, workdir, *FLAGS, '--config.mesh.data=1', steps)) == 0
  assert_same_losses(run, workdir)


@pytest.mark.long
def test_K1_a_signal_that_comes_while_two_processes_save_ends_them_with_the_next_step(corpus, tmp_path):
  """Orbax asks jax for a notice, too, and with the number of the step, where an evaluation has let the run ask more often."""
  workdir = tmp_path / 'run'
  children = launch(corpus, workdir, '--config.train.num_steps=100000', '--config.train.eval_every=40',
                    '--config.train.checkpoint_every=40',
                    script=('-c', ANNOUNCED, 'training/checkpoint.Checkpoints._finish'))
  try:
    wait_for(lambda: 'PHASE' in said(workdir, 0), children, workdir)
    children[1].send_signal(signal.SIGTERM)
    end(children, workdir, (143, 143), timeout=60)
    assert 40 <= int(re.search(r'Stopped at step (\d+), saved', said(workdir, 0))[1]) < 60
  finally:
    for child in children:
      child.kill()


ASKED = '''
import os, signal, time
import jax
from training import peers, stopping

peers.join(10)
with stopping.StopRequest() as stop:
  print(stop.run(lambda x: x + 1, 2), stop.run_together(lambda x: x + 1, 3))
  try:
    stop.run(lambda: jax.process_index() and (os.kill(os.getpid(), signal.SIGTERM), time.sleep(60)))
  except stopping.Stopped:
    print('given up', stop.exit_code, stop.is_asked())
  try:
    stop.run_together(stop.check)
  except stopping.Stopped:
    print('begun no more', flush=True)
  peers.leave()
'''


def share_decoding(workdir, *more, **given):
  """What two processes that translate together end with: exit codes, and what both said."""
  script = ['decode.py', f'--workdir={workdir}', *more]
  children = [subprocess.Popen(child.arguments, env=child.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               cwd=ROOT, text=True, **given) for child in peers.commands(2, script, dict(os.environ))]
  told = [child.communicate(timeout=200)[0] for child in children]
  return [child.returncode for child in children], told


SLOW = '''
from checks import startup
startup.begin()
import sys, time
import decode
from options import decode_options, programs

def slow(*_):
  print('PHASE', flush=True)
  time.sleep(100)

decode.jobs.check_sharing = slow  # called once jax, which installs handlers of its own, has joined the processes
programs.run(lambda: decode.main(decode_options.parse(sys.argv, '')))
'''


@pytest.mark.long
def test_K1_a_signal_ends_each_of_two_processes_that_translate_at_once(corpus, run, tmp_path):
  script = ['-c', SLOW, f'--workdir={run}', f'--input={corpus}/test.en', f'--output={tmp_path}/out']
  children = [subprocess.Popen(child.arguments, env=child.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               cwd=ROOT, text=True) for child in peers.commands(2, script, dict(os.environ))]
  try:
    assert children[0].stdout.readline() == 'PHASE\n', children[0].stderr.read()  # others print nothing
    began = time.monotonic()
    for child in children:
      child.send_signal(signal.SIGTERM)
    told = [child.communicate(timeout=30)[1] for child in children]
    assert [child.returncode for child in children] == [exit_codes.PREEMPTED] * 2 and time.monotonic() - began < 10, told
    assert 'Interrupted.' in told[0] and not (tmp_path / 'out').exists()
  finally:
    for child in children:
      child.kill()


@pytest.mark.long
def test_two_processes_share_a_job(corpus, run, tmp_path):
  lines, parts = (corpus / 'test.en').read_text().splitlines()[:7], tmp_path / 'out.parts'
  (tmp_path / 'in').write_text(''.join(f'{line}\n' for line in lines))
  asked = [f'--input={tmp_path}/in', f'--output={tmp_path}/out', '--part_lines=2']
  codes, told = share_decoding(run, *asked)
  assert codes == [0, 0], told
  assert decode.main(decode_options.parse(['decode.py', f'--workdir={run}', asked[0], f'--output={tmp_path}/one'],
                                               '')) == 0
  assert (tmp_path / 'out').read_text() == (tmp_path / 'one').read_text() and not parts.exists()
  codes, told = share_decoding(run, asked[0])
  assert codes == [exit_codes.CONFIG] * 2 and 'into --output=FILE, in a folder that all of them see' in told[0]
  piped, into = os.pipe()
  os.write(into, (tmp_path / 'in').read_bytes())
  os.close(into)
  codes, told = share_decoding(run, asked[1], stdin=piped)
  assert codes == [exit_codes.CONFIG] * 2 and 'can share only the translation of a file' in told[0]
  assert os.read(piped, 10_000) == (tmp_path / 'in').read_bytes()  # no process has read a part of it
  os.close(piped)


def test_K1_a_stop_of_one_process_gives_up_what_another_has_done():
  """Process 1 is told to stop while process 0 has its own part behind it: neither goes on."""
  children = [subprocess.Popen(child.arguments, env=child.environment, cwd=ROOT, stdout=subprocess.PIPE, text=True)
              for child in peers.commands(2, ['-c', ASKED])]
  first, _ = (child.communicate(timeout=60)[0] for child in children)
  assert first.split('\n') == ['3 4', 'given up 143 True', 'begun no more', '']
  assert [child.returncode for child in children] == [0, 0]


@pytest.mark.drill
def test_H2_a_process_that_is_stuck_ends_the_other(corpus, tmp_path):
  workdir = tmp_path / 'run'
  children = launch(corpus, workdir, *FLAGS, '--config.train.num_steps=100000', '--config.train.eval_every=100000',
                    '--config.train.stall_seconds=5', '--config.train.heartbeat_seconds=100')
  try:
    wait_for(lambda: 4 in Manifest(str(workdir)).checkpoints(), children, workdir)
    children[1].send_signal(signal.SIGSTOP)
    began = time.monotonic()
    assert children[0].wait(timeout=60) == exit_codes.STALLED
    assert time.monotonic() - began < 10 and said(workdir, 0).count('most recent call first') >= 2
  finally:
    children[1].kill()
    children[1].wait()


MEET = '''
import sys
import jax
from training import peers
from training.manifest import Manifest
print(peers.found())
peers.join(10)
from jax.experimental import multihost_utils
print(jax.process_count(), multihost_utils.process_allgather(jax.numpy.int32(jax.process_index())).tolist())
print(peers.agreed_figures({'bleu': 0.1 + jax.process_index(), 'loss': float('nan')}), file=sys.stderr)
'''


def test_slurm_s_processes_find_each_other():
  with socket.socket() as free:
    free.bind(('127.0.0.1', 0))
    job = str(free.getsockname()[1])
  slurm = {'SLURM_JOB_ID': job, 'SLURM_NTASKS': '2', 'SLURM_STEP_NODELIST': '127.0.0.1', 'SLURM_JOB_NUM_NODES': '1'}
  children = [subprocess.Popen([sys.executable, '-c', MEET], cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env={**os.environ, **slurm, 'SLURM_PROCID': number, 'SLURM_LOCALID': number}) for number in '01']
  (first, one), (_, other) = (child.communicate(timeout=120) for child in children)
  assert 'SLURM\n' in first and '2 [0, 1]\n' in first
  assert all("{'bleu': 0.1, 'loss': nan}\n" in told for told in (one, other))  # to the bit, process 0's


@pytest.mark.parametrize('environment, name', [
    ({}, None), ({'SLURM_NTASKS': '1', 'SLURM_PROCID': '0'}, None),
    ({'SLURM_NTASKS': '2', 'SLURM_PROCID': '0', 'SLURM_STEP_NODELIST': 'node[1-2]'}, 'SLURM'),
    ({'SLURM_NTASKS': '2', 'SLURM_PROCID': '0'}, None),
    ({peers.NUMBER: '0'}, 'launcher'), ({'JAX_PLATFORMS': 'tpu,cpu'}, 'TPU'), ({'JAX_PLATFORMS': ''}, 'TPU'),
    ({'JAX_PLATFORMS': 'cpu'}, None)])
def test_what_started_a_process_is_recognised(environment, name, monkeypatch):
  is_there = name == 'TPU' or 'JAX_PLATFORMS' in environment
  monkeypatch.setattr(peers.importlib.util, 'find_spec', lambda package: package if is_there else None)
  assert peers.found(environment) == name


def test_H1_processes_of_the_launcher_wait_two_minutes_for_each_other():
  name, environment = 'launcher', {peers.ADDRESS: 'a', peers.COUNT: '2', peers.NUMBER: '1'}
  assert peers.CLUSTERS[name][1](environment)['initialization_timeout'] == 120


@pytest.mark.parametrize('environment, devices', [
    ({}, None), ({'CUDA_VISIBLE_DEVICES': ''}, None),
    ({'CUDA_VISIBLE_DEVICES': '0', 'SLURM_LOCALID': '3'}, [0]),  # --gpus-per-task=1: each task sees its own as number 0
    ({'CUDA_VISIBLE_DEVICES': '0,1', 'SLURM_GPUS_PER_TASK': '2', 'SLURM_STEP_TASKS_PER_NODE': '2(x2)'}, [0, 1]),
    ({'CUDA_VISIBLE_DEVICES': '0,1,2,3', 'SLURM_STEP_TASKS_PER_NODE': '1(x2)'}, [0, 1, 2, 3]),
    ({'CUDA_VISIBLE_DEVICES': '0,1,2,3', 'SLURM_NTASKS_PER_NODE': '1'}, [0, 1, 2, 3]),
    ({'CUDA_VISIBLE_DEVICES': '0,1,2,3', 'SLURM_STEP_TASKS_PER_NODE': '4(x2)'}, None),  # all see all: jax gives one to each
    ({'CUDA_VISIBLE_DEVICES': '0,1,2,3', 'SLURM_STEP_TASKS_PER_NODE': '16'}, None)])
def test_a_task_of_slurm_takes_the_gpus_that_are_its_own(environment, devices):
  assert peers.CLUSTERS['SLURM'][1](environment) == ({} if devices is None else {'local_device_ids': devices})


def test_a_script_of_slurm_that_starts_train_py_without_srun_runs_alone_and_says_so(monkeypatch, capsys):
  for name, value in {'NTASKS': '8', 'PROCID': '0', 'LOCALID': '0', 'JOB_ID': '7'}.items():
    monkeypatch.setenv(f'SLURM_{name}', value)
  peers.join(10)
  assert jax.process_count() == 1 and 'the SLURM job has 8 tasks, and this is one process outside of srun' in capsys.readouterr().err


def test_a_process_alone_meets_nobody(capsys):
  peers.meet('nobody')
  assert peers.is_main() and peers.agreed(3) == 3 and jax.process_count() == 1
  with peers.main_first('nothing'):
    print('once')
  assert capsys.readouterr().out == 'once\n'
