"""The runs of a sweep, one after the other: each a child process of train.py in a folder of its own, ROW/seed_N.

A folder shows how far its run is, so a sweep has no state of its own: killed and started again, it skips finished runs,
resumes the others, and waits for a run that another process still trains.
"""

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from checks import children
from checks.errors import ConfigError
from checks.exit_codes import DONE, FOLDER_BUSY
from options.configurations import ROOT, as_overrides, leaves, with_options
from options.programs import python
from options.sections import gather_errors
from options.sweep_options import SweepOptions, SweepRow
from sweeps.table import per_what
from tasks import setup
from tasks.task import TASKS, task_of
from training import finished
from training.json_files import as_written, read_json
from training.run_folder import RunFolder


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
    return children.command_line(python(), self.command)


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
  return finished.is_finished(run.folder, run.config)


def work_off(runs: list[QueuedRun], say: Callable[[str], Any] = print) -> list[QueuedRun]:
  """Train the runs that are not finished, and return those that failed. Raises children.Stopped on Ctrl-C and SIGTERM."""
  failed = []
  with children.stop_signals() as stops:
    for number, run in enumerate(runs, 1):
      head = f'[{number}/{len(runs)}] {run.name}'
      if is_finished(run):
        say(f'{head}: finished before, {told(run)}')
        continue
      try:
        code, last = finish(run, head, stops, lambda: say(f'{head}: another process trains it; waiting for that'))
      except children.StopAsked as stop:
        raise children.Stopped(f'Stopped at {run.name}, after {number - 1} of {len(runs)} runs. '
                      f'The same command resumes from here.{stop}', stops.exit_code) from None
      if code:
        failed.append(run)
        say(f'{head}: {children.unfinished(code, last)}\n    its output is in {run.log}')
      else:
        say(f'{head}: {told(run)}')
  return failed


def finish(run: QueuedRun, head: str, stops: children.Stops, tell: Callable[[], Any],
           is_enough: Callable[[], bool] = lambda: False) -> tuple[int, str]:
  """Train a run, once no other process does, unless it is finished then; return what children.run() returns.

  A sweep that was killed may leave a child that does not hold its lock yet: our child then finds the folder busy.

  Args:
    run: the run.
    head: what stands before its newest line on the terminal.
    stops: the signals that ask for a stop.
    tell: called when another process trains the run, before waiting for it.
    is_enough: whether the run is to be stopped before its end; asked while it trains.
  """
  while True:
    children.wait_until_free(os.path.join(run.folder.path, 'lock'), stops, tell)
    if is_finished(run) or is_enough():
      return DONE, ''
    code, last = children.run(run.command, run.typed, run.log, children.NewestLine(head), stops, is_enough)
    if code != FOLDER_BUSY:
      return code, last


def told(run: QueuedRun) -> str:
  """Return a finished run's figures in a few words."""
  results = read_json(run.folder.results)
  figures, *_ = task_of(run.config).describe(results).split('\n')
  return (f'{figures}, validation perplexity {results["validation_perplexity"]:.2f} per {per_what(results)}, '
          f'{results["step"]:,} steps in {results["seconds"] / 60:.1f} min')
