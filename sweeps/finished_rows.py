"""The finished runs in a sweep's folder, by row, as their own folders record them."""

import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from checks.errors import ConfigError, DamagedError, DataError
from options.configurations import leaves, with_options
from tasks import setup
from tasks.task import Task, task_of
from training.environment import starts_of
from training.finished import changed_since, differences
from training.json_files import read_json
from training.run_folder import RunFolder

# Further figures on the test text, beside the task's measure; best_… are on validation text.
_FURTHER = re.compile(r'(?!best_)\w+_(accuracy|accuracy_unseen_keys|per_byte)')


def figures_of(results: Mapping[str, Any], measure: str) -> list[str]:
  """Return the names of what was measured on a test text, the task's measure first."""
  return list(dict.fromkeys([measure, *filter(_FURTHER.fullmatch, sorted(results))]))


class FinishedRun(NamedTuple):
  """A finished run, as its folder records it."""

  folder: RunFolder
  seed: int
  config: dict[str, Any]  # options by dotted name
  task: type[Task]
  results: dict[str, Any]
  environment: dict[str, Any]
  vocabularies: tuple[str, ...] = ()  # see vocabularies_of()

  @property
  def scored_text(self) -> str:
    """The fingerprint of the text that the run was scored on."""
    scored = self.results['test_set']
    named = [start['data'][scored] for start in starts_of(self.environment) if scored in start['data']]
    return named[-1] if named else [*self.environment['data'].values()][:3][-1]  # the first set, or validation text

  @property
  def learnt_text(self) -> list[str]:
    """The fingerprints of the text that the run was trained on, and of that on which it was validated."""
    return [*starts_of(self.environment)[-1]['data'].values()][:2]

  @property
  def figures(self) -> list[str]:
    """Names of what was measured on the test text, the task's measure first."""
    return figures_of(self.results, self.task.measure.name)


class Row(NamedTuple):
  """The finished runs of one row."""

  name: str
  runs: list[FinishedRun]

  def values(self, name: str) -> list[float]:
    """Return a figure on the test text, of each run that has it."""
    return [run.results[name] for run in self.runs if name in run.figures]


def finished_rows(workdir: str, wanted: Mapping[str, Mapping[str, Any]], order: Sequence[str] = ()
                  ) -> tuple[list[Row], list[str]]:
  """Return the rows in a sweep's folder that have finished runs: first those that were asked for, then the others.

  Args:
    workdir: the sweep's folder.
    wanted: the rows that were asked for, with the configuration that their runs have but for the seed.
    order: names by which the others are sorted; names not in it come last.

  Returns:
    The rows, and notes on runs that lie where those asked for would, and are of another configuration.
  """
  names = [entry.name for entry in os.scandir(workdir) if entry.is_dir()] if os.path.isdir(workdir) else []
  place = {name: number for number, name in enumerate(dict.fromkeys([*wanted, *order]))}
  rows, notes = [], []
  for name in sorted(names, key=lambda name: (place.get(name, len(place)), name)):
    runs = []
    try:
      finished = _finished_runs(os.path.join(workdir, name))
    except (ConfigError, DataError, DamagedError) as error:
      if name in wanted:
        raise
      notes.append(f'Left out: row {name}, which was not asked for and cannot be read ({error}).')
      continue
    for run in finished:
      other = _differences(run, with_options(wanted[name], {'seed': run.seed})) if name in wanted else []
      if other:
        notes.append(f'Left out: {run.folder.path}, which differs in {", ".join(other)} from what was asked for.')
      else:
        runs.append(run)
    rows += [Row(name, runs)] if runs else []
  return rows, notes


def _differences(run: FinishedRun, asked: Mapping[str, Any]) -> list[str]:
  """Return the options for which a run is not that of a configuration; see finished.differences."""
  idle = {}
  with contextlib.suppress(ConfigError):  # of a configuration that cannot be trained
    idle = setup.idle(setup.records(asked))
  return differences(run.folder.read_config(), asked, idle)


def _finished_runs(folder: str) -> list[FinishedRun]:
  seeds = sorted(int(match[1]) for entry in os.scandir(folder) if (match := re.fullmatch(r'seed_(\d+)', entry.name)))
  runs = [(seed, os.path.join(folder, f'seed_{seed}')) for seed in seeds]
  found = [finished_run(RunFolder.open(run), seed) for seed, run in runs if os.path.isfile(RunFolder(run).results)]
  return [run for run in found if not is_being_continued(run)]


def is_being_continued(run: FinishedRun) -> bool:
  """Return whether a run was asked for more, or for other scores, since its own were written, and has not done so yet.

  Results of earlier versions do not say for how long their run was asked to train; they count as final.
  """
  length = run.results.get('length') or {}
  return any(run.config[f'train.{name}'] != value for name, value in length.items()) or bool(
      changed_since(run.results, run.config))


def finished_run(folder: RunFolder, seed: int) -> FinishedRun:
  """Return what the folder of a finished run records. Raises ConfigError for a kind of corpus that is not known."""
  config = folder.read_config()
  try:
    task = task_of(config)
  except KeyError:
    raise ConfigError(f'{folder.path}: data.kind is {config["data"]["kind"]!r}, which this version of the program does '
                      'not know') from None
  results = read_json(folder.results)
  if 'search' in results:
    results['search'].setdefault('strategy', 'beam')  # the only strategy when results did not name it yet
  return FinishedRun(folder, seed, leaves(config), task, results, read_json(folder.environment), vocabularies_of(folder))


def vocabularies_of(folder: RunFolder) -> tuple[str, ...]:
  """Return the fingerprints of a run's (source, target) vocabularies; empty before they are there, and where they are lost."""
  return tuple(each.fingerprint for each in folder.load_vocabularies()) if folder.has_vocabularies() else ()
