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

import train
from experiment import exit_codes, processes
from experiment.command_line import ROOT
from tests.test_runs import TINY, corpus, metrics, options, saved  # noqa: F401

ROWS = ['--config.train.eval_every=4', '--config.train.average_last=1', '--config.train.heartbeat_seconds=10']


@pytest.fixture(scope='module')
def flags(tmp_path_factory):
  return [*ROWS, f'--config.compile_cache={tmp_path_factory.mktemp("programs")}']


def launch(corpus, workdir, *more):  # noqa: F811
  """Two processes of one run, their output in files beside its folder."""
  command = [os.path.join(ROOT, 'train.py'), f'--config={ROOT}/configs/multi30k.py',
             f'--config.data.directory={corpus}', f'--workdir={workdir}', *TINY, *more]
  environment = {**os.environ, 'PYTHONUNBUFFERED': '1'}
  children = []
  for number, child in enumerate(processes.commands(2, command, environment)):
    log = open(f'{workdir}.{number}.log', 'w')
    children.append(subprocess.Popen(child.arguments, env=child.environment, stdout=log, stderr=log, cwd=ROOT))
  return children


def said(workdir, number):
  with open(f'{workdir}.{number}.log', errors='replace') as file:
    return file.read()


def wait_for(path, children, workdir):
  while not path.exists():
    assert all(child.poll() is None for child in children), said(workdir, 0) + said(workdir, 1)
    time.sleep(0.02)


def end(children, workdir, codes=(0, 0), timeout=200):
  found = tuple(child.wait(timeout=timeout) for child in children)
  assert found == codes, said(workdir, 0) + said(workdir, 1)


@pytest.fixture(scope='module')
def alone(corpus, tmp_path_factory, flags):  # noqa: F811
  """The folder of a run of one process on one device."""
  workdir = tmp_path_factory.mktemp('alone') / 'run'
  assert train.main(options(corpus, workdir, *flags, '--config.mesh.data=1', '--config.train.num_steps=12')) == 0
  return workdir


def assert_same_losses(one, other):
  first, second = ([line for line in metrics(folder) if 'train/loss' in line] for folder in (one, other))
  assert [line['step'] for line in first] == [line['step'] for line in second]
  for a, b in zip(first, second):
    assert a['train/padding'] == b['train/padding'] and a['epoch'] == b['epoch']  # the same batches
    np.testing.assert_allclose(a['train/loss'], b['train/loss'], atol=1e-4)


def test_H1_R4_two_processes_train_as_one_and_a_dead_one_ends_the_other(corpus, alone, tmp_path, flags):  # noqa: F811
  workdir = tmp_path / 'two'
  children = launch(corpus, workdir, *flags, '--config.train.num_steps=100000', '--config.train.eval_every=100000')
  wait_for(workdir / 'checkpoints' / 'checksums' / '4.json', children, workdir)
  children[1].kill()
  began = time.monotonic()
  assert children[0].wait(timeout=60) in (exit_codes.PEER_LOST, -signal.SIGABRT)
  assert time.monotonic() - began < 15 + 5  # the machine may be busy
  # Told by jax's coordination service, which has heard no heartbeat of process 1.
  assert re.search(r'unhealthy[^\n]*:\n1\n', said(workdir, 0)), said(workdir, 0)[-3000:]
  assert children[1].wait() == -signal.SIGKILL

  end(launch(corpus, workdir, *flags, '--config.train.num_steps=8'), workdir)
  # One process with eight devices, split in two more ways, goes on from what two have saved.
  mesh = ['--config.mesh.fsdp=4', '--config.mesh.tensor=2']
  assert train.main(options(corpus, workdir, *flags, *mesh, '--config.train.num_steps=12')) == 0
  assert_same_losses(alone, workdir)


@pytest.mark.drill
def test_R4_two_then_one_then_two_processes(corpus, alone, tmp_path, flags):  # noqa: F811
  workdir = tmp_path / 'run'
  end(launch(corpus, workdir, *flags, '--config.train.num_steps=4'), workdir)
  before = saved(workdir, 4)
  assert train.main(options(corpus, workdir, *flags, '--config.mesh.data=1', '--config.train.num_steps=8')) == 0
  assert saved(workdir, 4).keys() == before.keys()
  end(launch(corpus, workdir, *flags, '--config.train.num_steps=12'), workdir)
  assert_same_losses(alone, workdir)


@pytest.mark.drill
def test_K1_sigterm_to_two_processes(corpus, tmp_path, flags):  # noqa: F811
  workdir = tmp_path / 'run'
  children = launch(corpus, workdir, *flags, '--config.train.num_steps=100000', '--config.train.eval_every=100000')
  wait_for(workdir / 'checkpoints' / 'checksums' / '4.json', children, workdir)
  began = time.monotonic()
  for child in children:
    child.send_signal(signal.SIGTERM)
  end(children, workdir, (exit_codes.PREEMPTED,) * 2, timeout=30)
  assert time.monotonic() - began < 10 and 'saved. The same command goes on' in said(workdir, 0)


@pytest.mark.drill
def test_H2_a_process_that_is_stuck_ends_the_other(corpus, tmp_path, flags):  # noqa: F811
  workdir = tmp_path / 'run'
  children = launch(corpus, workdir, *flags, '--config.train.num_steps=100000', '--config.train.eval_every=100000',
                    '--config.train.stall_seconds=5', '--config.train.heartbeat_seconds=100')
  try:
    wait_for(workdir / 'checkpoints' / 'checksums' / '4.json', children, workdir)
    children[1].send_signal(signal.SIGSTOP)
    began = time.monotonic()
    assert children[0].wait(timeout=60) == exit_codes.STALLED
    assert time.monotonic() - began < 10 and said(workdir, 0).count('most recent call first') >= 2
  finally:
    children[1].kill()
    children[1].wait()


MEET = '''
import jax
from experiment import processes
print(processes.found())
processes.join(10)
from jax.experimental import multihost_utils
print(jax.process_count(), multihost_utils.process_allgather(jax.numpy.int32(jax.process_index())).tolist())
'''


def test_slurm_s_processes_find_each_other():
  with socket.socket() as free:
    free.bind(('127.0.0.1', 0))
    job = str(free.getsockname()[1])
  slurm = {'SLURM_JOB_ID': job, 'SLURM_NTASKS': '2', 'SLURM_STEP_NODELIST': '127.0.0.1', 'SLURM_JOB_NUM_NODES': '1'}
  children = [subprocess.Popen([sys.executable, '-c', MEET], cwd=ROOT, text=True, stdout=subprocess.PIPE, env={
      **os.environ, **slurm, 'SLURM_PROCID': number, 'SLURM_LOCALID': number}) for number in '01']
  first, _ = (child.communicate(timeout=120)[0] for child in children)
  assert 'SLURM\n' in first and '2 [0, 1]\n' in first


@pytest.mark.parametrize('environment, name', [
    ({}, None), ({'SLURM_NTASKS': '1', 'SLURM_PROCID': '0'}, None),
    ({'SLURM_NTASKS': '2', 'SLURM_PROCID': '0'}, 'SLURM'),
    ({processes.NUMBER: '0'}, 'launcher')])
def test_what_started_a_process_is_recognised(environment, name):
  assert processes.found(environment) == name


def test_a_process_alone_meets_nobody(capsys):
  processes.meet('nobody')
  assert processes.is_main() and processes.agreed(3) == 3 and jax.process_count() == 1
  with processes.main_first('nothing'):
    print('once')
  assert capsys.readouterr().out == 'once\n'
