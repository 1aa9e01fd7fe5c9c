"""The runs of a sweep, one after the other: each a child process of train.py in a folder of its own, ROW/seed_N.

A folder shows how far its run is, so a sweep has no state of its own: killed and started again, it skips finished runs,
resumes the others, and waits for a run that another process still trains.
"""

import contextlib
import fcntl
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from checks.errors import ConfigError, DamagedError
from checks.exit_codes import DONE, FOLDER_BUSY, INTERRUPTED, PREEMPTED
from options.configurations import ROOT, as_overrides, leaves, with_options
from options.programs import python
from options.sections import gather_errors
from options.sweep_options import SweepOptions, SweepRow
from sweeps.table import has_reached_its_end, per_what
from tasks import setup
from tasks.task import TASKS, task_of
from training.json_files import as_written, read_json
from training.run_folder import RunFolder
from training.saved_config import with_decided

POLL_SECONDS = 0.5  # between two readings of a child's log
TAIL_BYTES = 50_000  # read from the end of a log; no message is longer


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
    """The file of its output, beside its folder, which must be empty before the run starts."""
    return f'{self.folder.path}.log'

  @property
  def typed(self) -> str:
    """The command as one types it in a shell."""
    return shlex.join([python(), *self.command[1:]])


class Stopped(Exception):
  """The sweep was asked to stop, and its child has stopped, too."""

  def __init__(self, message: str, exit_code: int):
    super().__init__(message)
    self.exit_code = exit_code


def queue(options: SweepOptions) -> list[QueuedRun]:
  """Return all runs, row by row. They share vocabularies and tokenised text; programs lie in the user's cache."""
  shared = {'data.cache_dir': os.path.join(options.workdir, '.cache', 'text')}
  runs = []
  for row in options.rows:
    values = leaves(row.config)
    places = {name: place for name, place in shared.items() if name not in row.given and values[name] is None}
    for seed in range(options.seeds):
      own = {'seed': seed, **places}
      workdir = os.path.join(options.workdir, row.name, f'seed_{seed}')
      command = [sys.executable, os.path.relpath(os.path.join(ROOT, 'train.py')), f'--config={row.spec}',
                 f'--workdir={workdir}', *row.overrides, *as_overrides(own)]
      runs.append(QueuedRun(row.name, seed, RunFolder(workdir), command, as_written(with_options(row.config, own))))
  return runs


def check(options: SweepOptions) -> None:
  """Refuse a sweep with a run that could only fail, before any run starts or is printed.

  Raises:
    ConfigError: naming every mistake of every row.
  """
  rows_by_mistake: dict[str, list[str]] = {}
  for row in options.rows:
    for mistake in _mistakes(row, options):
      rows_by_mistake.setdefault(mistake, []).append(row.name)
  with gather_errors() as gathered:
    gathered.mistakes += [f'row{"s" * (len(names) > 1)} {", ".join(names)}: {mistake}'
                          for mistake, names in rows_by_mistake.items()]


def _mistakes(row: SweepRow, options: SweepOptions) -> Iterator[str]:
  if 'seed' in row.given:
    yield 'config.seed is given, but a sweep seeds its runs 0, 1, … itself: leave it out; --seeds says how many'
  try:
    task = TASKS[setup.records(row.config, row.given).task]
  except ConfigError as error:
    yield str(error).replace('\n', '\n  ')
  else:
    if options.by_length and not task.references:
      yield f'--by_length is of BLEU, and {task.name.replace("_", " ")} has none; leave the one or the other out'


def is_finished(run: QueuedRun) -> bool:
  """Return whether the folder holds the final scores of exactly this configuration, trained for exactly this long."""
  if not (os.path.isfile(run.folder.results) and os.path.isfile(run.folder.config)):
    return False
  try:
    folder = RunFolder.open(run.folder.path)
  except DamagedError:  # train.py says what can be made again
    return False
  saved = folder.read_config()
  wherever = lambda config: with_options(config, {'compile_cache': None})
  return (wherever(saved) == wherever(with_decided(run.config, saved))
          and has_reached_its_end(read_json(folder.results), run.config))


def work_off(runs: list[QueuedRun], say: Callable[[str], Any] = print) -> list[QueuedRun]:
  """Train the runs that are not finished, and return those that failed. Raises Stopped on Ctrl-C and SIGTERM."""
  failed = []
  with stop_signals() as stops:
    for number, run in enumerate(runs, 1):
      head = f'[{number}/{len(runs)}] {run.name}'
      if is_finished(run):
        say(f'{head}: finished before, {told(run)}')
        continue
      try:
        code, last = finish(run, head, stops, lambda: say(f'{head}: another process trains it; waiting for that'))
      except StopAsked:
        raise Stopped(f'Stopped at {run.name}, after {number - 1} of {len(runs)} runs. '
                      'The same command resumes from here.', stops.exit_code) from None
      if code:
        failed.append(run)
        say(f'{head}: FAILED with exit code {code}: {last}\n    its output is in {run.log}')
      else:
        say(f'{head}: {told(run)}')
  return failed


def told(run: QueuedRun) -> str:
  """Return a finished run's figures in a few words."""
  results = read_json(run.folder.results)
  figures, *_ = task_of(run.config).describe(results).split('\n')
  return (f'{figures}, validation perplexity {results["validation_perplexity"]:.2f} per {per_what(results)}, '
          f'{results["step"]:,} steps in {results["seconds"] / 60:.1f} min')


# --------------------------------------------------------------------------------------------------- the child


class StopAsked(Exception):
  """A signal asked the sweep to stop, and no child runs any more."""


class Stops:
  """The signals that asked for a stop: Ctrl-C, SIGTERM or a closed terminal."""

  def __init__(self):
    self._numbers, self._passed_on = [], 0

  def ask(self, number: int) -> None:
    """Note a signal; called by its handler, which raises nothing, since that could be swallowed."""
    self._numbers.append(number)

  @property
  def exit_code(self) -> int:
    return INTERRUPTED if self._numbers[-1] == signal.SIGINT else PREEMPTED

  @property
  def are_asked(self) -> bool:
    """Whether a stop was asked for."""
    return bool(self._numbers)

  def check(self) -> None:
    """Raise StopAsked when a stop was asked for."""
    if self.are_asked:
      raise StopAsked

  def pass_on(self, child: subprocess.Popen) -> None:
    """Send the child the signals that it has not got yet."""
    while self._passed_on < len(self._numbers):
      child.send_signal(self._numbers[self._passed_on])
      self._passed_on += 1


@contextlib.contextmanager
def stop_signals() -> Iterator[Stops]:
  """Note the signals that ask for a stop, within the block."""
  stops = Stops()
  numbers = [signal.SIGINT, signal.SIGTERM]
  if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as under nohup
    numbers.append(signal.SIGHUP)
  before = {number: signal.signal(number, lambda number, _: stops.ask(number)) for number in numbers}
  try:
    yield stops
  finally:
    for number, handler in before.items():
      signal.signal(number, handler)


def finish(run: QueuedRun, head: str, stops: Stops, tell: Callable[[], Any],
           is_enough: Callable[[], bool] = lambda: False) -> tuple[int, str]:
  """Train a run, once no other process does, unless it is finished then; return what _train() returns.

  A sweep that was killed may leave a child that does not hold its lock yet: our child then finds the folder busy.

  Args:
    run, head, stops: see _train().
    tell: called when another process trains the run, before waiting for it.
    is_enough: whether the run is to be stopped before its end; asked while it trains.
  """
  while True:
    _wait_until_free(run, stops, tell)
    if is_finished(run) or is_enough():
      return DONE, ''
    code, last = _train(run, head, stops, is_enough)
    if code != FOLDER_BUSY:
      return code, last


def _wait_until_free(run: QueuedRun, stops: Stops, tell: Callable[[], Any]) -> None:
  """Wait until no process holds the run's lock: a sweep that was killed leaves its child training."""
  path = os.path.join(run.folder.path, 'lock')
  if not os.path.isfile(path):
    return
  told = False
  with open(path, 'a', encoding='utf-8') as lock:
    while True:
      stops.check()
      try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return
      except OSError:
        if not told:
          tell()
        told = True
        time.sleep(POLL_SECONDS)


def _train(run: QueuedRun, head: str, stops: Stops, is_enough: Callable[[], bool]) -> tuple[int, str]:
  """Run the child to its end; return its exit code, and its last error message or else its last line.

  Signals are passed on to the child; once it has saved and ended, they raise StopAsked.

  The child has a session of its own, so that Ctrl-C on a terminal reaches only the sweep, which passes it on once: at
  a second one, train.py would stop without saving. The child writes to its log itself: with a pipe, its next line
  would end it once the sweep is killed.
  """
  stops.check()
  os.makedirs(os.path.dirname(run.folder.path), exist_ok=True)
  with open(run.log, 'ab') as log:
    log.write(f'$ {run.typed}\n'.encode())
    log.flush()
    start = log.tell()
    with _NewestLine(head, run.log, start) as newest:
      child = subprocess.Popen(run.command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                               start_new_session=True, env=os.environ | {'PYTHONUNBUFFERED': '1'})
      _follow(child, newest, stops, is_enough)
  stops.check()
  lines = _said(run.log, start)
  starts = [place for place, line in enumerate(lines) if line.startswith('error:')]
  return child.returncode, '\n    '.join(lines[starts[-1]:] if starts else lines[-1:])


def _follow(child: subprocess.Popen, newest: '_NewestLine', stops: Stops, is_enough: Callable[[], bool]) -> None:
  """Wait until the child ends; meanwhile, pass on signals, stop it when it is enough, and show its newest line."""
  stopping = False
  while True:
    stops.pass_on(child)
    if not (stopping or stops.are_asked) and is_enough():
      child.terminate()  # once: at a second signal it would end without saving
      stopping = True
    try:
      child.wait(POLL_SECONDS)
      return
    except subprocess.TimeoutExpired:
      newest.update()


def _said(log: str, start: int) -> list[str]:
  """Return the last lines after a position in a log, without blank ones."""
  with open(log, 'rb') as file:
    file.seek(max(start, os.path.getsize(log) - TAIL_BYTES))
    lines = file.read().decode(errors='replace').splitlines()
  return [line.strip() for line in lines if line.strip()]


class _NewestLine:
  """A line of the terminal that always shows a log's newest line, cleared at the end; elsewhere, the log's path."""

  def __init__(self, head: str, log: str, start: int):
    self._head, self._log, self._start, self._watched = head, log, start, sys.stdout.isatty()

  def __enter__(self) -> '_NewestLine':
    if self._watched:
      self._show('starting')
    else:
      print(f'{self._head}: started, see {os.path.relpath(self._log)}', flush=True)
    return self

  def update(self) -> None:
    """Show the newest line of the log."""
    if self._watched and (lines := _said(self._log, self._start)):
      self._show(lines[-1])

  def _show(self, text: str) -> None:
    width = os.get_terminal_size(sys.stdout.fileno()).columns
    print(f'\r\x1b[K{f"{self._head}: {text}"[:width - 1]}', end='', flush=True)

  def __exit__(self, *_) -> None:
    if self._watched:
      print('\r\x1b[K', end='', flush=True)
