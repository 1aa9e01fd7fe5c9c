"""A trained run, read from its folder: records, vocabularies, model and the parameters of a checkpoint."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax

from checks.errors import ConfigError, config_errors
from corpora.vocabulary import Vocabulary
from decoding.limits import check_attention, longest_source
from options.flags import split_paths
from tasks import setup as setups
from tasks.records import Setup
from tasks.task import TASKS, task_of
from training.checkpoint import Checkpoints
from training.json_files import read_json
from training.loop import LoopConfig
from training.run_folder import RunFolder
from transformer import architectures
from transformer.model import Model


def load(workdir: str, checkpoint: str = 'final', n_best: int = 1, **search: Any) -> Any:
  """Return a trained run, ready for lines: tasks.load('runs/phrasebook').translate(['The dog sleeps.'])[0].text

  A language model has continue_lines() in place of translate(), a classifier classify_lines().

  Args:
    workdir: folder of a run; several, separated by commas, are an ensemble.
    checkpoint: 'final' (those averaged for the run's results), 'best', 'latest', 'average:N' or a step; several,
      separated by commas, are an ensemble, too.
    n_best: how many answers to a line are wanted.
    **search: options of the section `search` that take the place of the run's own.

  Raises:
    ConfigError, CheckpointError: when a folder is no run or has no such checkpoint, or vocabularies differ.
  """
  folders = [RunFolder.open(path) for path in split_paths(workdir)]
  return task_of(folders[0].read_config()).load(folders, checkpoint.split(','), search, n_best)


class Trained(NamedTuple):
  """A run's model with the parameters of a checkpoint."""

  setup: Setup  # the run's, search options replaced
  source: Vocabulary
  target: Vocabulary
  model: Model
  params: Any


def read_run(folder: RunFolder, checkpoint: str, search: Mapping[str, Any] | None = None, n_best: int = 1) -> Trained:
  """Return a run of one architecture's own model.

  Args:
    folder: the run's.
    checkpoint, search, n_best: see Task.load.

  Raises:
    ConfigError, CheckpointError: see Task.load.
  """
  setup = setups.of_folder(folder, search, n_best)
  source, target = folder.load_vocabularies()
  model = build_model(setup, source, target)
  return Trained(setup, source, target, model, read_params(folder, setup, checkpoint, model, (source, target)))


def build_model(setup: Setup, source: Vocabulary, target: Vocabulary) -> Model:
  """Return the architecture's model for a run's vocabularies. Raises ConfigError when they do not fit its options."""
  with config_errors():
    return architectures.build(setup.sized(source.size, target.size))


def read_params(folder: RunFolder, setup: Setup, checkpoint: str, model: Model, vocabularies: Sequence[Vocabulary]) -> Any:
  """Return the parameters of the chosen checkpoints, averaged.

  Raises:
    CheckpointError: when they are not the model's, or were trained with other vocabularies.
  """
  checkpoints = Checkpoints(folder.checkpoints, measure=TASKS[setup.task].measure)
  wanted = jax.eval_shape(model.init, jax.random.key(0))
  steps = chosen_steps(folder, checkpoints, checkpoint, setup.loop)
  checkpoints.check_vocabularies(steps[-1], [vocabulary.fingerprint for vocabulary in vocabularies])
  return checkpoints.average(steps, wanted)


def chosen_steps(folder: RunFolder, checkpoints: Checkpoints, wanted: str, loop: LoopConfig) -> list[int]:
  """Return the steps to average: for 'final' those behind the scores in results.json, else see Checkpoints.resolve.

  Of 'average:N' those count that the run itself would average.

  For a run without results, or one that was trained further since, 'final' means 'best'.
  """
  if wanted != 'final':
    return checkpoints.resolve(wanted, lambda steps: loop.to_average(steps, most=len(steps)))
  scored = read_json(folder.results)['averaged_steps'] if folder.has(folder.results) else []
  there = checkpoints.known()
  if scored and there and scored[-1] == there[-1] and set(scored) <= set(there):
    return scored
  return checkpoints.resolve('best')


def immaturity(workdir: str) -> str | None:
  """Return a sentence about a run that is not finished, or was over before its warm-up; None for others."""
  folder = RunFolder(workdir)
  if folder.has(folder.imported) or folder.has(os.path.join(workdir, 'pruned.json')):  # with which no training goes on
    return None
  setup, step = setups.of_folder(folder), max(folder.manifest.checkpoints(), default=None)
  if step is None:  # whoever reads the checkpoint says so
    return None
  loop, warmup = setup.loop, setup.optimizer.warmup_steps
  if not folder.has(folder.results) or read_json(folder.results)['step'] < step:  # also one that went on
    whole = (f'{loop.num_steps:,}' if loop.num_steps else
             f'{loop.num_epochs:g} epochs' if loop.num_epochs else f'{loop.num_minutes:g} minutes')
    return (f'{workdir} is not finished: it was stopped at step {step:,} of {whole}, and its answers are those of such a '
            'model; the command that trained it goes on')
  if step < warmup:
    return (f'{workdir} was trained for {step:,} steps, fewer than the {warmup:,} of its warm-up '
            '(optimizer.warmup_steps): its answers are those of a model that has hardly begun to learn')
  return None


def search_mistakes(setup: Setup, with_source: bool) -> Iterator[str]:
  """Yield a sentence for each option of the search that the model does not support.

  Args:
    with_source: whether outputs may be as long as a source and search.extra_length, as translations may.
  """
  model = architectures.build(setup.model)
  for check in (check_attention, *([longest_source] if with_source else [])):
    try:
      check(model, setup.search)
    except ConfigError as error:
      yield str(error)
