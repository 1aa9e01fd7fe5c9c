"""What train.py prints about a run before and after it trains."""

import shlex
from collections.abc import Iterable, Mapping
from typing import Any

import jax

from checks.exit_codes import DONE
from options import programs
from options.configurations import LENGTHS
from options.train_options import TrainOptions
from tasks.records import Setup
from tasks.task import Task
from training import finished as finished_runs
from training import hardware
from training.evaluation import Score
from training.json_files import read_json
from training.loop import Loop, Progress
from transformer import architectures, partitioning
from transformer import model as models
from transformer.training import TrainState


def show(lines: Iterable[str]) -> int:
  """Print a report and return the exit code."""
  for line in lines:
    print(line, flush=True)
  return DONE


def departures(setup: Setup) -> list[str]:
  """Return the training options in which a run departs from the paper, a few words each."""
  named = ((setup.optimizer.kind, 'adam'), (setup.optimizer.schedule, 'noam'),
           (setup.consistency.consistency, 'none'), (setup.sampling.subword_sampling, 'none'))
  sized = (('label smoothing', setup.loss.label_smoothing, 0.1), ('clipping at', setup.optimizer.clip_norm, 0.0),
           ('weight decay', setup.optimizer.decay, 0.0), ('moving average', setup.loop.ema_decay, 0.0))
  parts = setup.loop.accumulation_steps
  return ([found for found, plain in named if found != plain]
          + [f'{name} {found:g}' for name, found, plain in sized if found != plain]
          + [f'{parts} micro-batches an update'] * (parts > 1))


def begins(task: Task, loop: Loop, state: TrainState, mesh: jax.sharding.Mesh) -> None:
  """Print a few lines on a run that is about to train: its model, batches, mesh and length."""
  setup, plan, largest = task.setup, task.batches, task.batches.shapes[0]
  device = mesh.devices.flat[0]
  sizes = f'{task.source.size:,}' if task.source is task.target else f'{task.source.size:,} and {task.target.size:,}'
  print(f'Model: {models.count_parameters(task.model):,} parameters, {architectures.describe(task.model.config)}, '
        f'vocabulary {sizes}')
  shapes = f'{len(plan.shapes)} shapes up to' if len(plan.shapes) > 1 else 'one shape,'
  print(f'Batches: {shapes} {largest.rows} × ({largest.source}, {largest.target}), '
        f'{plan.batches_per_epoch:,} an epoch, {plan.sentences_per_batch():.0f} {task.rows} each, '
        f'{plan.padding():.1%} padding'
        + (f'; {plan.dropped:,} {task.rows} empty or too long left out' if plan.dropped else ''))
  axes = ' × '.join(f'{name} {size}' for name, size in mesh.shape.items())
  of = lambda tree: hardware.in_units(partitioning.bytes_per_device(tree))
  print(f'Mesh: {axes} on {jax.process_count()} process{"es" * (jax.process_count() > 1)}. Each device holds '
        f'{of(state.params)} of parameters, {of(state)} with the optimizer\'s state, and '
        f'{largest.rows // partitioning.row_parts(mesh)} of {largest.rows} rows of the largest batch; '
        f'a batch has {plan.tokens_per_batch():,.0f} real target tokens')
  whole = partitioning.undivided(task.model.axes(), state.params, mesh)
  if whole:
    print(f'  not divided by the mesh, and so kept whole on several devices: {", ".join(whole[:8])}'
          + (f' and {len(whole) - 8} more' if len(whole) > 8 else ''))
  print(f'Training for {loop.describe(plan.batches_per_epoch)} on {mesh.size} × {device.device_kind} '
        f'({", ".join([setup.mesh.compile, setup.model.dtype, *departures(setup)])})'
        + (f', resuming from step {int(state.step):,}' if int(state.step) else ''), flush=True)
  for note in task.notes():
    print(f'Note: {note}', flush=True)


def is_scored(task: Task, step: int) -> bool:
  """Return whether results.json holds the final scores of this step; print what has changed since, if it does not."""
  folder = task.folder
  results = read_json(folder.results) if folder.has(folder.results) else {}
  if results.get('step') != step:
    return False
  changes = finished_runs.changed_since(results, task.setup.saved)
  if scored := results.get('scores') or {results[name] for name in ('test_set',) if name in results}:
    changes += [f'{split.name} was not scored' for split in task.examined if split.name not in scored]
  if changes:
    print(f'This run is scored again: {"; ".join(changes)}.', flush=True)
  return not changes


def finished(task: Task, progress: Progress) -> int:
  """Print that a run is finished, with its scores and how to train longer, record its length, and return the exit code."""
  results, loop = read_json(task.folder.results), task.setup.loop
  finished_runs.keep_length(task.folder, results, loop)
  print(f'This run is finished, at step {results["step"]:,}: {task.describe(results)}\n' + (
      f'{progress.evaluations_since_best} evaluations in a row were no better than the best (train.patience={loop.patience}); '
      'to train longer, give a larger one, or none with --config.train.patience=0'
      if loop.lost_patience(progress.evaluations_since_best) else
      'Its learning-rate schedule has ended; to train longer, give another --workdir and, to start from this run, '
      '--init_from' if task.setup.optimizer.ends_with_run else
      'To train longer, give more with --config.train.num_steps=…, num_epochs=… or num_minutes=…'))
  return DONE


def results_by_set(found: Mapping[Any, Score]) -> dict[str, Any]:
  """Return the scores as results.json holds them: those of the first test set, and under `scores` those of each set."""
  first, *_ = found
  by_set = {split.name: score.results for split, score in found.items()}
  return found[first].results | {'test_set': first.name, 'scores': by_set}


def next_commands(task: Task, example: str, options: TrainOptions, progress: Progress) -> str:
  """Return commands to paste: to try the run, to train it longer, and to train on the user's own text."""
  command, folder = f'{shlex.quote(programs.python())} ', shlex.quote(task.folder.files.shown(task.folder.path))
  go_on = ''
  if not task.setup.optimizer.ends_with_run:
    go_on = f'\nGo on training:             {command}{_longer(task, options, progress)}'
  return f'''
{task.invitation + ":":<27} echo {shlex.quote(example)} | {command}decode.py --workdir={folder}{go_on}
Train on a file of yours:   {command}train.py {task.own_text} --workdir=runs/mine'''


def _longer(task: Task, options: TrainOptions, progress: Progress) -> str:
  """Return the command that trains the same run for twice as long; without patience, where it is what ended the run."""
  loop = task.setup.loop
  if loop.lost_patience(progress.evaluations_since_best):
    return f'train.py {shlex.join(options.arguments_without(["config.train.patience"]))} --config.train.patience=0'
  length = loop.longer or f'num_steps={2 * loop.over(task.batches.batches_per_epoch).total_steps}'
  kept = options.arguments_without([f'config.{name}' for name in LENGTHS])
  return f'train.py {shlex.join(kept)} --config.train.{length}'
