"""The runs of a sweep, one after the other: each a child process of train.py in a folder of its own, ROW/seed_N.

What a folder holds says how far its run is, so a sweep has no state: killed and started again, it passes over what is
finished, goes on with what is not, and waits for what another process still trains.
"""

import contextlib
import fcntl
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TextIO

from experiment.command_line import ROOT, SweepOptions, as_overrides
from experiment.exit_codes import INTERRUPTED, PREEMPTED
from experiment.run_folder import RunFolder, as_written, read_json


class QueuedRun(NamedTuple):
  """One run of a sweep."""

  row: str
  seed: int
  folder: RunFolder
  command: list[str]
  config: dict[str, Any]  # what its config.json will be

  @property
  def name(self) -> str:
    return f'{self.row} seed {self.seed}'

  @property
  def log(self) -> str:
    """Where its output goes; a run's folder itself must be empty before it starts."""
    return f'{self.folder.path}.log'


class Stopped(Exception):
  """The sweep was told to stop; the child has stopped, too."""

  def __init__(self, message: str, exit_code: int):
    super().__init__(message)
    self.exit_code = exit_code


def queue(options: SweepOptions) -> list[QueuedRun]:
  """All runs, row by row. The runs share vocabularies, tokenised text and compiled programs."""
  cache = os.path.join(options.workdir, '.cache')
  shared = {'data.cache_dir': os.path.join(cache, 'text'), 'compile_cache': os.path.join(cache, 'programs')}
  shared = {name: place for name, place in shared.items() if name not in options.shared}
  runs = []
  for row in options.rows:
    for seed in range(options.seeds):
      own = {'seed': seed, **shared}
      config = row.config.copy_and_resolve_references()
      config.unlock()
      config.update_from_flattened_dict(own)
      workdir = os.path.join(options.workdir, row.name, f'seed_{seed}')
      command = [python(), os.path.relpath(os.path.join(ROOT, 'train.py')), f'--config={row.spec}',
                 f'--workdir={workdir}', *row.overrides, *as_overrides(own)]
      runs.append(QueuedRun(row.name, seed, RunFolder(workdir), command, as_written(config.to_dict())))
  return runs


def python() -> str:
  """The interpreter, as one would type it here."""
  return 'python' if sys.executable.startswith('/usr') else os.path.relpath(sys.executable)


def is_finished(run: QueuedRun) -> bool:
  """Whether the folder holds the final scores of just this configuration, trained for just this long."""
  if not (os.path.isfile(run.folder.results) and os.path.isfile(run.folder.config)):
    return False
  length = read_json(run.folder.results).get('length', {})
  return run.folder.read_config() == run.config and all(
      run.config['train'][name] == value for name, value in length.items()) and bool(length)


def work_off(runs: list[QueuedRun], say: Callable[[str], Any] = print) -> list[QueuedRun]:
  """Trains what is not finished; returns the runs that failed. Raises Stopped on Ctrl-C and SIGTERM."""
  failed = []
  with _stop_signals():
    for number, run in enumerate(runs, 1):
      head = f'[{number}/{len(runs)}] {run.name}'
      if is_finished(run):
        say(f'{head}: finished before, {told(run)}')
        continue
      try:
        _wait_until_free(run, lambda: say(f'{head}: another process trains it; waiting for that'))
        code, last = (0, '') if is_finished(run) else _train(run, head)
      except _StopSignal as stop:
        raise Stopped(f'Stopped at {run.name}, after {number - 1} of {len(runs)} runs. '
                      'The same command goes on from here.', stop.exit_code) from None
      if code:
        failed.append(run)
        say(f'{head}: FAILED with exit code {code}: {last}\n    all it said: {run.log}')
      else:
        say(f'{head}: {told(run)}')
  return failed


def told(run: QueuedRun) -> str:
  """A finished run's figures in a few words."""
  results = read_json(run.folder.results)
  return (f'BLEU {results["bleu"]:.1f}, validation perplexity {results["validation_perplexity"]:.2f} per token, '
          f'{results["step"]:,} steps in {results["seconds"] / 60:.1f} min')


# --------------------------------------------------------------------------------------------------- the child


class _StopSignal(BaseException):
  """Ctrl-C, SIGTERM or a closed terminal; no `except Exception` may swallow it."""

  def __init__(self, number: int):
    self.number, self.exit_code = number, INTERRUPTED if number == signal.SIGINT else PREEMPTED


@contextlib.contextmanager
def _stop_signals() -> Iterator[None]:
  """While it lasts, signals that ask for a stop raise _StopSignal."""
  def stop(number, frame):
    raise _StopSignal(number)

  before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
  try:
    yield
  finally:
    for number, handler in before.items():
      signal.signal(number, handler)


def _wait_until_free(run: QueuedRun, tell: Callable[[], Any]) -> None:
  """Returns when no process holds the run's lock: a sweep killed outright leaves its child training."""
  path = os.path.join(run.folder.path, 'lock')
  if not os.path.isfile(path):
    return
  with open(path, 'a', encoding='utf-8') as lock:
    try:
      fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
      tell()
      fcntl.flock(lock, fcntl.LOCK_EX)


def _train(run: QueuedRun, head: str) -> tuple[int, str]:
  """Runs the child to its end; returns its exit code and what it said of a failure.

  The child has a session of its own, so that Ctrl-C on a terminal reaches the sweep alone, which passes it on once:
  train.py takes a second one for impatience.
  """
  os.makedirs(os.path.dirname(run.folder.path), exist_ok=True)
  with open(run.log, 'a', encoding='utf-8') as log, _NewestLine(head, run.log) as newest:
    log.write(f'$ {shlex.join(run.command)}\n')
    child = subprocess.Popen(run.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             text=True, errors='replace', start_new_session=True,
                             env=os.environ | {'PYTHONUNBUFFERED': '1'})
    lines: list[str] = []
    try:
      _follow(child, log, newest, lines)
    except _StopSignal as stop:
      _stop(child, stop, log, newest, lines)
      raise
  starts = [place for place, line in enumerate(lines) if line.startswith('error:')]
  return child.wait(), '\n    '.join(lines[starts[-1]:] if starts else lines[-1:])


def _stop(child: subprocess.Popen, stop: _StopSignal, log: TextIO, newest: '_NewestLine', lines: list[str]) -> None:
  """Passes signals on, as many as come, until the child has saved and ended."""
  while True:
    try:
      child.send_signal(stop.number)
      _follow(child, log, newest, lines)
      child.wait()
      return
    except _StopSignal as again:
      stop = again


def _follow(child: subprocess.Popen, log: TextIO, newest: '_NewestLine', lines: list[str]) -> None:
  """Copies the child's output into the log until it ends; a terminal shows the newest line."""
  for line in child.stdout:
    log.write(line)
    log.flush()
    if line.strip():
      lines.append(line.strip())
      newest.show(line.strip())
      del lines[:-100]


class _NewestLine:
  """One line of a terminal, written over and over, and wiped at the end; elsewhere, where to look."""

  def __init__(self, head: str, log: str):
    self._head, self._log, self._watched = head, log, sys.stdout.isatty()

  def __enter__(self) -> '_NewestLine':
    if self._watched:
      self.show('starting')
    else:
      print(f'{self._head}: started, see {os.path.relpath(self._log)}', flush=True)
    return self

  def show(self, text: str) -> None:
    if self._watched:
      width = os.get_terminal_size(sys.stdout.fileno()).columns
      print(f'\r\x1b[K{f"{self._head}: {text}"[:width - 1]}', end='', flush=True)

  def __exit__(self, *_) -> None:
    if self._watched:
      print('\r\x1b[K', end='', flush=True)
