"""Runs of several processes: how they find each other, who writes, and a launcher for one machine.

    python -m training.peers --count=2 train.py --config=configs/phrasebook.py --workdir=runs/two

On TPU pod slices and under SLURM the processes find each other through the cluster: start the same train.py command
once on each host (see docs/launching.md). Process 0 writes the run's folder, which all of them have to see.
"""

from checks import signals, startup

if __name__ == '__main__':
  startup.begin()  # before the seconds that the imports below take

import argparse
import contextlib
import importlib.util
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.experimental import multihost_utils

from checks.errors import file_error
from checks.exit_codes import MEANINGS, PEER_LOST, UNEXPECTED

ADDRESS, COUNT, NUMBER = 'LAUNCHER_ADDRESS', 'LAUNCHER_COUNT', 'LAUNCHER_NUMBER'  # set by the launcher
_PATIENCE = 15  # seconds until a process that lost another one ends by itself, or says that it waits for others
_TOGETHER = 120  # seconds within which processes have connected that the launcher has started in one moment


def _slurm_tasks(env: Mapping[str, str]) -> int:
  return int(env.get('SLURM_NTASKS', '1'))


def _own_devices(env: Mapping[str, str]) -> dict[str, Any]:
  """Return which GPUs a task of SLURM takes, where it sees none but its own, or is alone on its node: all that it sees.

  Left to itself jax takes the GPU whose number is the task's on its node, of which a task that sees one has only number 0.
  """
  seen = [device for device in env.get('CUDA_VISIBLE_DEVICES', '').split(',') if device]
  each, on_node = env.get('SLURM_GPUS_PER_TASK', ''), env.get('SLURM_STEP_TASKS_PER_NODE') or env.get('SLURM_NTASKS_PER_NODE', '')
  is_own = len(seen) == 1 or each.isdigit() and len(seen) == int(each) or re.match(r'1(\D|$)', on_node)
  return {'local_device_ids': list(range(len(seen)))} if seen and is_own else {}


# What starts a run of several processes: its name, how its environment is recognised, and the arguments that
# jax.distributed.initialize() gets from it.
CLUSTERS: dict[str, tuple[Callable[[Mapping[str, str]], bool], Callable[[Mapping[str, str]], dict[str, Any]]]] = {
    'launcher': (
        lambda env: NUMBER in env,
        lambda env: {'coordinator_address': env[ADDRESS], 'num_processes': int(env[COUNT]),
                     'process_id': int(env[NUMBER]), 'initialization_timeout': _TOGETHER}),
    # A job's script itself, outside of srun, has the number of tasks, too, but no list of its step's nodes.
    'SLURM': (lambda env: _slurm_tasks(env) > 1 and {'SLURM_PROCID', 'SLURM_STEP_NODELIST'} <= env.keys(),
              _own_devices),
    # jax asks the machine's metadata, or Kubernetes, whether the slice has more hosts than this one.
    'TPU': (lambda env: importlib.util.find_spec('libtpu') is not None and 'tpu' in (env.get('JAX_PLATFORMS') or 'tpu').split(','),
            lambda env: {}),
}


def found(environment: Mapping[str, str] = os.environ) -> str | None:
  """Return the name in CLUSTERS of what started this process as one of several; None when it is alone."""
  return next((name for name, (is_this, _) in CLUSTERS.items() if is_this(environment)), None)


def join(heartbeat_seconds: int) -> None:
  """Connect to the other processes, where there are any. Call it before anything else of jax.

  Args:
    heartbeat_seconds: a process that is silent for so long counts as dead, and the others end.
  """
  cluster = found()
  if cluster is None:
    if _slurm_tasks(os.environ) > 1:
      print(f'Note: the SLURM job has {os.environ["SLURM_NTASKS"]} tasks, and this is one process outside of srun: it runs alone. '
            'For a run of all tasks put srun in front of the command.', file=sys.stderr, flush=True)
    return
  jax.config.update('jax_cpu_collectives_implementation', 'gloo')
  # Where one of them never comes, jax ends this process with nothing but its own stack, after up to five minutes.
  waiting = threading.Timer(_PATIENCE, lambda: print(
      'Waiting for the other processes of the run. One that has ended before it connected has said why; then end this one, '
      'and start all of them again.', file=sys.stderr, flush=True))
  waiting.daemon = True
  waiting.start()
  try:
    jax.distributed.initialize(**CLUSTERS[cluster][1](os.environ), heartbeat_timeout_seconds=heartbeat_seconds)
  except ValueError:
    if cluster != 'TPU':
      raise
    return  # the library is installed, but there is no TPU
  finally:
    waiting.cancel()
  if jax.process_index():
    sys.stdout = open(os.devnull, 'w', encoding='utf-8')  # only process 0 prints; errors still go to stderr


def is_main() -> bool:
  """Return whether this is process 0, which alone writes the run's folder."""
  return jax.process_index() == 0


def meet(name: str) -> None:
  """Wait until all processes have called this with the same name."""
  if jax.process_count() > 1:
    multihost_utils.sync_global_devices(name)


@contextlib.contextmanager
def main_first(name: str) -> Iterator[None]:
  """Let process 0 run the block before the others, which then find the files that it makes."""
  if not is_main():
    meet(name)
  yield
  if is_main():
    meet(name)


def agreed(value: int) -> int:
  """Return process 0's value, on every process."""
  return int(multihost_utils.broadcast_one_to_all(value)) if jax.process_count() > 1 else value


def agreed_figures(figures: Mapping[str, float]) -> dict[str, float]:
  """Return process 0's figures, on every process; all have the same names."""
  values = np.array([*figures.values()], np.float64)
  if jax.process_count() > 1:  # as bits: jax would round them to float32
    values = np.asarray(multihost_utils.broadcast_one_to_all(values.view(np.uint32))).view(np.float64)
  return dict(zip(figures, values.tolist()))


def all_agree(value: bool) -> bool:
  """Return whether the value is true on every process. All have to call it."""
  return bool(np.all(multihost_utils.process_allgather(np.array(value)))) if jax.process_count() > 1 else value


def leave() -> None:
  """Disconnect from the other processes. All have to call it, so that none takes the end of another for a crash."""
  if jax.process_count() > 1:
    jax.distributed.shutdown()


@contextlib.contextmanager
def errors_end_all() -> Iterator[None]:
  """End this process at once when the block raises in a run of several processes, so that the others end, too.

  A failed collective is reported as a lost process. Which one was lost, jax's coordination service knows once
  heartbeats are missing; it then says so and aborts this process.
  """
  try:
    yield
  except Exception as error:
    if jax.process_count() == 1:
      raise
    signs = ('closed by peer', 'reset by peer', 'gloo', 'heartbeat', 'coordination', 'socket')
    if isinstance(error, (jax.errors.JaxRuntimeError, ValueError)) and any(
        sign in str(error).lower() for sign in signs):
      print(f'error: process {jax.process_index()} of {jax.process_count()} lost another one; start all of them again: '
            f'the same command goes on from what is saved. {error}', file=sys.stderr, flush=True)
      time.sleep(_PATIENCE)
      os._exit(PEER_LOST)
    error = file_error(error)
    if not isinstance(getattr(error, 'exit_code', None), int):
      traceback.print_exc()
    else:
      print(f'error: {error}', file=sys.stderr)
    sys.stderr.flush()
    os._exit(getattr(error, 'exit_code', UNEXPECTED))


# ---------------------------------------------------------------------------------------------------- the launcher


class Command(NamedTuple):
  """The command line and the environment of one process."""

  arguments: list[str]
  environment: dict[str, str]


def commands(count: int, script: Sequence[str], environment: Mapping[str, str] = os.environ) -> list[Command]:
  """Return the commands that start a Python script as `count` connected processes on this machine."""
  with socket.socket() as free:
    free.bind(('127.0.0.1', 0))
    address = f'127.0.0.1:{free.getsockname()[1]}'
  own = lambda number: {ADDRESS: address, COUNT: str(count), NUMBER: str(number)}
  return [Command([sys.executable, *script], {**environment, **own(number)}) for number in range(count)]


def main() -> int:
  """Start the processes, pass signals on to them, and return their exit code, see code_of()."""
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument('--count', type=int, default=2, help='number of processes')
  parser.add_argument('command', nargs=argparse.REMAINDER, help='a Python script and its arguments')
  options = parser.parse_args()
  if options.count < 1 or not options.command:
    parser.error('expected --count of 1 or more, and behind it a script, as in: --count=2 train.py --config=…')
  asked = []  # the handlers raise nothing and send nothing: a signal may come between the starts of two children
  for number in signals.stop_codes():
    signal.signal(number, lambda number, _: asked.append(number))
  # In sessions of their own, children get Ctrl-C from here alone: a second one would end them without saving.
  children = [subprocess.Popen(command.arguments, env=command.environment, start_new_session=True)
              for command in commands(options.count, options.command)]
  ended = []  # in this order: the first with another code than 0 is the cause, where others only tell whom they lost
  while len(ended) < len(children):
    ended += [child for child in children if child not in ended and child.poll() is not None]
    while asked:
      number = asked.pop(0)  # SIGHUP as itself: the children write to the same terminal, and have to leave it
      for child in children:
        child.send_signal(number)
    time.sleep(0.05)
  codes = [child.returncode for child in children]
  if len(set(codes)) > 1:
    first = next(child for child in ended if child.returncode)
    code = code_of([first.returncode])
    print(f'process {children.index(first)} of {len(children)} ended first, with exit code {code}: '
          f'{MEANINGS.get(code, "it was killed")}', file=sys.stderr, flush=True)
  return code_of(codes)


def code_of(codes: Sequence[int]) -> int:
  """Return the exit code of processes that ended with these, below 0 by a signal; as a shell tells it, 128 and its number.

  A code of a process's own is told before one by a signal, and ABORTED (by jax, for a lost process) before a kill.
  """
  signalled = [code for code in codes if code < 0]
  return next((code for code in codes if code > 0), 128 - max(signalled) if signalled else 0)


if __name__ == '__main__':
  startup.imported()
  sys.exit(main())
