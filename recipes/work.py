"""Works off the stages of a recipe in its folder: what is done is passed over, what was begun goes on.

    WORKDIR/recipe.json    the recipe's settings, and the sums of the user's files; other settings are refused
    WORKDIR/stages/        a record of each stage: the sums of its inputs and outputs, its figures, and its seconds where
                           this program has run it
    WORKDIR/logs/          what the trainings and translations have printed

A stage is done when its record says so and its inputs and outputs are what the record holds.
"""

import os
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from checks import children, whole_files
from checks.errors import ConfigError, DamagedError, FileError
from checks.exit_codes import DONE, FOLDER_BUSY, UNEXPECTED
from options.configurations import ROOT, decides_nothing, default_tree, leaves
from options.programs import python
from options.recipe_options import RecipeOptions
from recipes.stages import Making, Script, Stage
from training.json_files import as_written, read_json, write_json
from training.run_folder import RunFolder

_CONTENT = 'content of '  # how the names of sums begin in recipe.json
_NOT_SUMMED = whole_files.digest_of({})  # which earlier versions wrote for every run without a manifest


# -------------------------------------------------------------------------------------------------- the settings


def check_stage(options: RecipeOptions, stages: Sequence[Stage]) -> None:
  """Raise ConfigError when --stage names none of the stages."""
  names = [stage.name for stage in stages]
  if options.stage not in (None, *names):
    raise ConfigError(f'--stage={options.stage}: expected one of {", ".join(names)}')


def begin(options: RecipeOptions, files: Sequence[str], runs: Sequence[str] = ()) -> None:
  """Write recipe.json into the recipe's folder, or compare it with the one there.

  Args:
    options: the recipe's.
    files: the user's, whose content decides what the recipe makes.
    runs: folders of the user's trained runs.

  Raises:
    ConfigError: when the folder is no recipe's, or one with other settings, naming each.
  """
  path = os.path.join(options.workdir, 'recipe.json')
  asked = settings(options, files, runs)
  found = set(os.listdir(options.workdir)) if os.path.isdir(options.workdir) else set()
  if os.path.isfile(path):
    # What is newer than the folder had no value: defaults of options do what was done without them.
    before = {name: value for name, value in _plain().items() if name in asked} | read_json(path)
    wrong = [f'{name}: expected {before.get(name)!r}, as the folder was begun; found {asked.get(name)!r}'
             for name in [*before, *asked.keys() - before.keys()] if before.get(name) != asked.get(name)
             and (name in before or not name.startswith(_CONTENT))  # files that earlier versions did not list
             and before.get(name) != _NOT_SUMMED]
    if wrong and found - {'recipe.json', 'recipe.json.lock', 'recipe.json.unfinished'}:
      raise ConfigError(f'{options.workdir} holds a recipe with other settings:\n  ' + '\n  '.join(wrong)
                        + '\nGive the same settings to go on with it, or another --workdir'
                        + _taken_along(options))
    if not wrong:
      return
  elif left := sorted(found - {'recipe.json.lock', 'recipe.json.unfinished'}):
    raise ConfigError(f'--workdir={options.workdir} is no folder of a recipe and not empty; it holds '
                      f'{", ".join(left[:10])}; give a new folder, or that of a recipe')
  write_json(path, asked)


def _taken_along(options: RecipeOptions) -> str:
  """Return how a new folder spares the training that a folder of other settings holds already."""
  trained = RunFolder(os.path.join(options.workdir, 'reverse'))
  if options.recipe != 'back_translate' or options.reverse or not os.path.isfile(trained.results):
    return ''
  return f'; with --reverse={trained.path} that needs no other reverse model'


def _plain() -> dict[str, Any]:
  """Return the options of configs/default.py, as recipe.json names and holds them."""
  return as_written({f'config.{name}': value for name, value in leaves(default_tree()).items()})


def settings(options: RecipeOptions, files: Sequence[str], runs: Sequence[str]) -> dict[str, Any]:
  """Return all that decides what a recipe makes, as recipe.json holds it; see begin()."""
  config = {f'config.{name}': value for name, value in leaves(options.config).items()
            if not decides_nothing(name)}
  contents = {file: whole_files.sum_of(file) for file in files} | {run: _sum_of_run(run) for run in runs}
  return as_written({'recipe': options.recipe, **options.flags, **config,
                     **{f'{_CONTENT}{name}': value for name, value in contents.items()}})


def _sum_of_run(run: str) -> str:
  """Return a sum of what a run has learnt: of its manifest's list of checkpoints, or of their files where it has none.

  Raises DamagedError when the manifest is damaged.
  """
  folder = RunFolder.open(run)
  listed = {str(step): entry for step, entry in folder.manifest.checkpoints().items()}
  place = lambda step: os.path.join(folder.checkpoints, step)
  return whole_files.digest_of(listed or {step: {'files': folder.files.sums_of(place(step))}
                                          for step in folder.files.names(folder.checkpoints) if step.isdigit()})


# ------------------------------------------------------------------------------------------------- the records


def record_of(stage: Stage, workdir: str) -> dict[str, Any]:
  """Return the record of a stage: `done`, `seconds`, and once it is done `inputs`, `outputs` and `figures`.

  The seconds are None where nobody has measured them: of a script whose outputs were found, and of a stage that was
  killed with this program, which had no time to write them.
  """
  path = _record(stage, workdir)
  return read_json(path) if os.path.isfile(path) else {'done': False, 'seconds': 0.0}


def is_done(stage: Stage, workdir: str) -> bool:
  """Return whether a stage is done; one of whose outputs a file was deleted is not.

  Raises:
    DamagedError: when an input or output has changed since, naming it.
  """
  record = record_of(stage, workdir)
  written = [*stage.outputs, *(path for path in _further(stage) if _name(path, workdir) in record.get('outputs', {}))]
  if not record['done'] or not all(map(os.path.isfile, written)):
    return False
  now = {side: _sums(paths, workdir) for side, paths in (('inputs', stage.inputs), ('outputs', written))}
  for side, what in (('inputs', 'was made from another'), ('outputs', 'has written another')):
    if changed := [path for path, value in now[side].items() if record[side].get(path) != value]:
      raise DamagedError(f'{workdir}: stage {stage.name} {what} {", ".join(changed)} than is there now; put it back from '
                         f'a copy, or delete {_record(stage, workdir)} and {", ".join(written)} to make the stage '
                         'again')
  return True


def _record(stage: Stage, workdir: str) -> str:
  return os.path.join(workdir, 'stages', f'{stage.name}.json')


def _further(stage: Stage) -> tuple[str, ...]:
  """Return the paths of what a stage may have written beside its outputs."""
  return stage.further if isinstance(stage, Making) else ()


def _name(path: str, workdir: str) -> str:
  """Return what a record calls a file: its path within the recipe's folder, else as it is."""
  inside = os.path.relpath(path, workdir)
  return path if inside.startswith(os.pardir) else inside


def _sums(paths: Sequence[str], workdir: str) -> dict[str, str | None]:
  """Return the SHA-256 of each file, None where it is missing, by its name."""
  return {_name(path, workdir): whole_files.sum_of(path) if os.path.isfile(path) else None for path in paths}


def _write_record(stage: Stage, workdir: str, seconds: float | None, figures: Mapping[str, Any]) -> None:
  os.makedirs(os.path.join(workdir, 'stages'), exist_ok=True)
  write_json(_record(stage, workdir), {
      'done': True, 'seconds': seconds, 'inputs': _sums(stage.inputs, workdir),
      'outputs': _sums((*stage.outputs, *filter(os.path.isfile, _further(stage))), workdir), 'figures': dict(figures)})


# ------------------------------------------------------------------------------------------------- the commands


def commands(stages: Sequence[Stage], options: RecipeOptions) -> list[str]:
  """Return a comment and a command for each stage: what the recipe does, to be run in this order."""
  lines = []
  for number, stage in enumerate(stages, 1):
    lines += [f'# {_head(number, stages)}: {stage.title}',
              stage.typed if isinstance(stage, Script) else command(options, f'--stage={stage.name}')]
  return [*lines, '# The card', command(options)]


def command(options: RecipeOptions, *more: str) -> str:
  """Return the command of the recipe as one types it in a shell, with further words."""
  return shlex.join([python(), os.path.relpath(os.path.join(ROOT, 'recipe.py')), *options.typed, *more])


def _head(number: int, stages: Sequence[Stage]) -> str:
  return f'Stage {number} of {len(stages)}'


# ---------------------------------------------------------------------------------------------------- the work


def work_off(stages: Sequence[Stage], options: RecipeOptions, say: Callable[[str], Any]) -> int:
  """Run the stages that are not done, or the one that is asked for, and return the exit code.

  Raises:
    children.Stopped: on Ctrl-C and SIGTERM while a child works, once that has ended.
  """
  for number, stage in enumerate(stages, 1):
    if options.stage not in (None, stage.name):
      continue
    head = _head(number, stages)
    if is_done(stage, options.workdir):
      say(f'{head}: {stage.title}: done before')
      continue
    _check_inputs(stage, stages)
    say(f'{head}: {stage.title}')
    code = _make(stage, options) if isinstance(stage, Making) else _run(stage, head, options, say)
    if code:
      return code
  return DONE


def _check_inputs(stage: Stage, stages: Sequence[Stage]) -> None:
  """Raise FileError when an input of a stage is missing, naming the stage that makes it."""
  makers = {output: one.name for one in stages for output in one.outputs}
  for path in stage.inputs:
    if not os.path.isfile(path):
      raise FileError(f'stage {stage.name} reads {path}, which is not there; '
                      + (f'stage {makers[path]} makes it: run that first' if path in makers else 'put it back'))


def _make(stage: Stage, options: RecipeOptions) -> int:
  assert isinstance(stage, Making)
  seconds = _clock(stage, options.workdir)
  figures = stage.make()
  _write_record(stage, options.workdir, seconds(), figures)
  return DONE


def _run(stage: Stage, head: str, options: RecipeOptions, say: Callable[[str], Any]) -> int:
  """Run a script to its end, once no other process does its work; return its exit code."""
  assert isinstance(stage, Script)
  seconds, log = _clock(stage, options.workdir), os.path.join(options.workdir, 'logs', f'{stage.name}.log')
  code, last, is_found = FOLDER_BUSY, '', False
  with children.stop_signals() as stops:
    try:
      while code == FOLDER_BUSY:  # also where a killed recipe's child took its lock only after ours was started
        children.wait_until_free(stage.lock, stops,
                                 lambda: say(f'{head}: another process works on it; waiting for that'))
        is_found = stage.was_run()
        code = DONE
        if not is_found:
          code, last = children.run(stage.command, stage.typed, log, children.Echo(stage.following()), stops)
    except children.StopAsked as stop:
      _write_seconds(stage, options.workdir, seconds())
      raise children.Stopped(f'Stopped in {head.lower()}, {stage.title}. The same command resumes from here.{stop}',
                             stops.exit_code) from None
  missing = [path for path in stage.outputs if not os.path.isfile(path)]
  if code == DONE and not missing:
    _write_record(stage, options.workdir, None if is_found else seconds(), {})
    return DONE
  _write_seconds(stage, options.workdir, seconds())
  say(f'{head}: {children.unfinished(code, last)}\n    its output is above and in {log}')
  return code if code > 0 else UNEXPECTED  # below 0: killed by a signal


def _clock(stage: Stage, workdir: str) -> Callable[[], float | None]:
  """Return what says how many seconds have gone into a stage, now that it begins or goes on.

  Until they are written, its record says that nobody knows them, so that a kill leaves no wrong number.
  """
  before, start = record_of(stage, workdir)['seconds'], time.monotonic()
  _write_seconds(stage, workdir, None)
  return lambda: None if before is None else before + time.monotonic() - start


def _write_seconds(stage: Stage, workdir: str, seconds: float | None) -> None:
  """Record for how long a stage has worked that is not done."""
  os.makedirs(os.path.join(workdir, 'stages'), exist_ok=True)
  write_json(_record(stage, workdir), {'done': False, 'seconds': seconds})
