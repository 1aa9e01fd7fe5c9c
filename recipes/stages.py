"""The stages of a recipe: trainings, translations, and files that this program makes itself."""

import abc
import contextlib
import dataclasses
import functools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from checks import children
from checks.errors import ConfigError
from corpora import text_files
from options import train_options
from options.configurations import ROOT, as_overrides, with_options
from options.programs import python
from options.recipe_options import RecipeOptions
from tasks import setup
from tasks.task import task_of
from training import finished
from training.json_files import as_written
from training.run_folder import RunFolder

PART_LINES = 5_000  # of a translation: what a kill loses at most


@dataclasses.dataclass(frozen=True)
class Stage:
  """A stage of a recipe, in which all files are whole or not there."""

  name: str
  title: str  # what it does, for people: 'training German to English'
  inputs: tuple[str, ...]  # paths of files
  outputs: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Making(Stage):
  """A stage within this program."""

  make: Callable[[], dict[str, Any]]  # writes the outputs and returns figures for the card
  further: tuple[str, ...] = ()  # paths of files that it may write, too, as of test sets that a corpus may lack


@dataclasses.dataclass(frozen=True)
class Script(Stage, abc.ABC):
  """A stage that is a child process, which goes on where it was when the same command is given again."""

  command: tuple[str, ...]
  lock: str  # path of the file that the child locks while it works

  @property
  def typed(self) -> str:
    """The command as one types it in a shell."""
    return children.command_line(python(), self.command)

  @abc.abstractmethod
  def was_run(self) -> bool:
    """Return whether the outputs are those of the command, given by hand or by a recipe that was killed since."""

  def following(self) -> Callable[[], str]:
    """Return what says, asked again and again while the child works, how far it is; '' where its output says so."""
    return lambda: ''


@dataclasses.dataclass(frozen=True)
class Training(Script):
  """A run of train.py."""

  folder: RunFolder
  config: Mapping[str, Any]  # what its config.json will be

  def was_run(self) -> bool:
    """Return whether the folder holds the finished run of this configuration."""
    return finished.is_finished(self.folder, self.config)


@dataclasses.dataclass(frozen=True)
class Translating(Script):
  """A run of decode.py, which writes a line for each line of its first input."""

  def was_run(self) -> bool:
    """Return whether the translation is there, as long as the text and no older than what it is made from."""
    output, = self.outputs
    written = lambda path: os.stat(path).st_mtime_ns
    return (all(map(os.path.isfile, (output, *self.inputs))) and max(map(written, self.inputs)) <= written(output)
            and count_lines(output) == self._lines)

  def following(self) -> Callable[[], str]:
    """Return what says which share of the lines is translated; it never falls. Call it before the child starts."""
    (output,), highest = self.outputs, 0
    before = _written(output)

    def progress() -> str:
      nonlocal highest
      highest = max(highest, 100 if _written(output) != before else self._share_in_parts(f'{output}.parts'))
      return f'{highest} % of {self._lines:,} lines translated'

    return progress

  def _share_in_parts(self, folder: str) -> int:
    """Return the percentage of the lines in a job's finished parts; 0 where the folder is not there, or no longer."""
    with contextlib.suppress(FileNotFoundError):  # the job renames it when all parts are joined
      done = sum(name.isdigit() for name in os.listdir(folder))
      return min(100 * done * PART_LINES // max(self._lines, 1), 100)
    return 0

  @functools.cached_property
  def _lines(self) -> int:
    return count_lines(self.inputs[0])


def training(name: str, title: str, options: RecipeOptions, changes: Mapping[str, Any], inputs: Sequence[str],
             without: Sequence[str] = ()) -> Training:
  """Return the stage that trains a run in WORKDIR/<name>.

  Args:
    name, title: see Stage.
    options: of the recipe: the configuration and the overrides of all its trainings.
    changes: the options, by dotted name, that this training has of its own.
    inputs: see Stage.
    without: overrides that this training does not take.

  Raises:
    ConfigError: naming every mistake in the options of the training.
  """
  given = {option: value for option, value in options.given.items() if option not in without} | dict(changes)
  workdir = os.path.join(options.workdir, name)
  words = [f'--config={options.spec}', f'--workdir={workdir}', *as_overrides(given)]
  asked, folder = train_options.read(['train.py', *words]), RunFolder(workdir)
  check_translates(options)
  setup.read(asked)
  return Training(name, title, tuple(inputs), (folder.results,), _script('train.py', *words),
                  os.path.join(folder.path, 'lock'), folder, as_written(asked.config))


def check_translates(options: RecipeOptions) -> None:
  """Raise ConfigError when the configuration is for another task than translation."""
  task = task_of(options.config)
  if not task.references:
    raise ConfigError(f'--config={options.spec} is for {task.name.replace("_", " ")}; recipes are for translation: '
                      'expected a configuration with pairs, such as configs/multi30k.py')


def check_search(options: RecipeOptions, config: Mapping[str, Any], n_best: int = 1) -> None:
  """Raise ConfigError when a run of this configuration cannot search as the recipe's --search.… options ask."""
  search = {f'search.{name}': value for name, value in options.search.items()}
  with setup.as_search_flags():
    setup.records(with_options(config, search), tuple(search), n_best)


def check_direction(option: str, workdir: str, codes: tuple[str, str]) -> None:
  """Raise ConfigError when a run that an option names does not translate from one of these languages into the other."""
  config = RunFolder.open(workdir).read_config()
  task, (source, target) = task_of(config), (config['data'][f'{side}_language'] for side in ('source', 'target'))
  if not task.references or (source, target) != codes:
    raise ConfigError(f'--{option}={workdir}: expected a run that translates {codes[0]} to {codes[1]}; found '
                      + (f'{source} to {target}' if task.references else task.name.replace('_', ' ')))


def translating(name: str, title: str, workdirs: Sequence[str], source: str, output: str, inputs: Sequence[str],
                search: Mapping[str, Any], form: Sequence[str] = ()) -> Translating:
  """Return the stage that translates a file.

  Args:
    name, title: see Stage.
    workdirs: folders of the runs; several are an ensemble.
    source: path of the text.
    output: path of its translations.
    inputs: what the stage reads besides.
    search: options of the section `search` that take the place of the run's own.
    form: the flags of decode.py that say what is written.
  """
  command = _script('decode.py', f'--workdir={",".join(workdirs)}', f'--input={source}', f'--output={output}',
                    *(f'--search.{option}={value}' for option, value in search.items()), *form,
                    f'--part_lines={PART_LINES}')
  return Translating(name, title, (source, *inputs), (output,), command, f'{output}.lock')


def _written(path: str) -> tuple[int, int] | None:
  """Return what tells a file from the one that takes its place; None where there is none."""
  with contextlib.suppress(FileNotFoundError):
    found = os.stat(path)
    return found.st_ino, found.st_mtime_ns
  return None


def count_lines(path: str) -> int:
  """Return the number of lines of a text file, plain or gzip."""
  return sum(map(len, text_files.line_blocks(path)))


def _script(name: str, *words: str) -> tuple[str, ...]:
  return (sys.executable, os.path.relpath(os.path.join(ROOT, name)), *words)
