"""Trains a model, scores it on held-out text, and leaves everything in one folder.

    python train.py --config=configs/phrasebook.py --workdir=runs/phrasebook

The same command resumes from the last checkpoint, with the batches and the dropout of a run without interruption.
"""
# train() is a whole run, from options to scores; the functions below it are its parts, in order.

import os
import sys

from checks import startup

if __name__ == '__main__':
  startup.begin('Stopped. The same command resumes from here.')  # before the seconds that the imports below take

from options import train_options

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')  # hides XLA's notes to its developers; its errors still show
# --help and mistaken flags are answered here, before the seconds that the imports below take.
OPTIONS = train_options.parse(sys.argv, __doc__) if __name__ == '__main__' else None

import contextlib  # noqa: E402
import dataclasses  # noqa: E402
from collections.abc import Callable  # noqa: E402

import jax  # noqa: E402

import input_pipeline  # noqa: E402
from checks.errors import DamagedError, config_errors  # noqa: E402
from checks.exit_codes import DONE  # noqa: E402
from explorer import snapshots  # noqa: E402
from options import programs  # noqa: E402
from options.configurations import LENGTHS  # noqa: E402
from options.train_options import TrainOptions  # noqa: E402
from tasks import TASKS, announcement, beginning, compiling, rows, setup  # noqa: E402
from tasks.records import Setup  # noqa: E402
from tasks.task import Task  # noqa: E402
from training import background, failures, finished, hardware, peers, replay, stopping, topologies  # noqa: E402
from training.checkpoint import Checkpoints  # noqa: E402
from training.evaluation import Evaluator, per_token  # noqa: E402
from training.log import Log  # noqa: E402
from training.loop import Progress  # noqa: E402
from training.run_folder import RunFolder  # noqa: E402
from training.stepping import Stepper, abstract_state, compile_training  # noqa: E402
from training.stopping import Stopped  # noqa: E402
from training.supervision import Supervision, supervise  # noqa: E402
from transformer import model as models  # noqa: E402
from transformer import optimizer as optimizers  # noqa: E402
from transformer import partitioning, training  # noqa: E402

PATIENCE = 3  # seconds that a stop waits for the tokens on disk to be verified, before it ends without saving


def main(options: TrainOptions) -> int:
  """Read the options, lock the run's folder, train, and return the exit code."""
  records = setup.read(options)
  if options.compile_for:
    jax.config.update('jax_platforms', 'cpu')  # nothing is computed: what is here may be busy
  if options.shapes:
    return announcement.show(compiling.report(records, options))
  folder = RunFolder(options.workdir)
  # Scores of other sentences cannot tell which checkpoint is best, and a schedule that ends with the run is another in a longer one.
  bound = ('train.eval_sentences', *(LENGTHS if records.optimizer.ends_with_run else ()))
  with supervise(records.guards, folder, records.saved, bound, records.memory, options.begin_anew, setup.idle(records),
                 options.only_looks) as run:
    run.exit_code = (run.interruptible(compile_ahead, records, options, folder) if options.compile_for
                     else train(records, options, run))
  return run.exit_code


def train(records: Setup, options: TrainOptions, run: Supervision) -> int:
  """Train and score one run, from its options to results.json, and return the exit code."""
  mesh, task = run.interruptible(prepare, records, run.folder, not options.inspect)
  if options.inspect:
    return announcement.show(task.inspect())
  config, loop = records.loop, records.loop.over(task.batches.batches_per_epoch)
  with config_errors():
    optimizer = optimizers.build(records.optimizer, loop.total_steps, task.target.frozen_id)
    watch = snapshots.of_task(task, run.folder.attention)
  checkpoints = Checkpoints(run.folder.checkpoints, config.kept, config.keep_best,
                            task.measure, config.is_planned)
  share = partitioning.share_of_rows(mesh)
  fresh = lambda key: training.init_state(task.model, optimizer, key, config.ema_decay, config.dropout_bits)
  abstract = abstract_state(fresh, task.model, mesh)
  step_fn = compile_training(task.model, task.objective(), optimizer, mesh, records.mesh.compile, abstract,
                             config.ema_decay, config.accumulation_steps)
  state, progress = run.interruptible(begin, task, fresh, abstract, checkpoints, step_fn, share)
  step = int(state.step)
  if options.replay is not None:
    return replay.replay(step_fn, state, run.folder, options.replay, task.batches.batch_at(options.replay, *share))
  if loop.is_over(step, progress) and announcement.is_scored(task, step):
    return announcement.finished(task, progress)
  announcement.begins(task, loop, state, mesh)
  evaluator = Evaluator(task, mesh, records.mesh.compile, config.ema_decay > 0, run)
  batches = run.stop.each(
      input_pipeline.batches(task.batches, step, loop.total_steps, *share, records.places.num_threads))
  rate, peak = optimizers.learning_rate(records.optimizer, loop.total_steps), hardware.peak_of(mesh, config.peak_tflops)
  with (Log(run.folder, loop, step, progress, hardware.flops_per_token(state.params), peak, rate) as log,
        Stepper(step_fn, task.batches, share, loop.total_steps, task.setup.memory, log, run, evaluator) as advance):
    run.saved = step if step in checkpoints.steps() else -1
    watch.begin(evaluator, state, step)
    with contextlib.suppress(Stopped):  # raised by what may be abandoned: the state is that of the last whole step
      for step in loop.steps(step):
        measured, is_saving = None, config.is_planned_save(step) and run.saved != step
        if is_saving or loop.is_evaluation(step, progress):
          with log.paused():
            run.interruptible(task.verify)  # nothing that damaged text has led to is kept
        if loop.is_evaluation(step, progress):
          advance.wait()
          with log.paused():
            measured, summary = evaluator.evaluate(state, step, progress)
            watch.record(evaluator, state, step)
          log.validation(step, measured, summary)
        if measured or is_saving:
          save(run, checkpoints, state, step, progress, log, measured)
        if loop.is_over(step, progress) or run.is_stopping():
          break
        with log.waiting():
          batch = next(batches)
        shape = task.batches.shape_at(step)
        state, measures = advance(state, batch, shape, step)
        log.add(step + 1, measures, batch, shape, task.batches)
        if log.skipped >= records.guards.max_skipped:
          give_up(run, checkpoints, state, task, share, log)
    if run.saved != int(state.step) and is_verified(run, task, int(state.step)):
      save(run, checkpoints, state, int(state.step), progress, log)
  checkpoints.wait()
  if not run.stop.exit_code:
    run.interruptible(conclude, task, state, progress, checkpoints, evaluator, options)
  return DONE


def compile_ahead(records: Setup, options: TrainOptions, folder: RunFolder) -> int:
  """Compile the step for devices that are not here, for each shape of the corpus, and return the exit code."""
  with config_errors():
    mesh = partitioning.abstract_mesh(records.mesh, topologies.size(options.compile_for))
  return announcement.show(compiling.report(records, options, read(records, folder, mesh)))


def prepare(records: Setup, folder: RunFolder, is_trained: bool) -> tuple[jax.sharding.Mesh, Task]:
  """Return the mesh, and the task with text, vocabularies, token stores, batch plans and model: all but the state."""
  hardware.keep_programs(records.places.compile_cache)
  with config_errors():
    mesh = partitioning.make_mesh(records.mesh)
    partitioning.share_of_rows(mesh)
  if is_trained:
    beginning.check(records, folder)
  task = read(records, folder, mesh)
  with config_errors():
    rows.check(task, mesh)
  return mesh, task


def read(records: Setup, folder: RunFolder, mesh: jax.sharding.Mesh | jax.sharding.AbstractMesh) -> Task:
  """Return the task with text, vocabularies, token stores, batch plans that divide over the mesh, and model."""
  with peers.main_first('prepare'):
    return TASKS[records.task](rows.settle(records, folder, mesh), folder)


def begin(task: Task, fresh: Callable, abstract: training.TrainState, checkpoints: Checkpoints,
          step_fn: partitioning.CompiledStep, share: partitioning.Share) -> tuple[training.TrainState, Progress]:
  """Return the state to train from, and its progress: those of the newest whole checkpoint, else those of fresh(key).

  With init_from, a fresh state has parameters of that run. While it is made, the first batch's step is compiled.
  """
  records, folder, loop = task.setup, task.folder, task.setup.loop.over(task.batches.batches_per_epoch)
  # A checkpoint holds whole arrays, whatever the mesh; the next one is written before the oldest is removed.
  probe = lambda: peers.is_main() and folder.probe(partitioning.bytes_of(abstract))
  step, notes = checkpoints.newest_whole()
  print(''.join(f'Note: {note}\n' for note in notes), end='', flush=True)
  if step is not None:
    checkpoints.check_vocabularies(step, task.fingerprints)
    state, saved = checkpoints.restore(step, abstract)
    progress = Progress.restored(saved, task.fingerprints)
    finished.check_goes_on(folder.found, records.saved, loop, step, progress)
    if not loop.is_over(step, progress):
      probe()
      task.batches.locate(step)  # may take long, see CountedEpochs; later, the watchdog would take it for a stall
    return state, progress
  probe()
  background.compile_beside(step_fn, abstract, lambda: task.batches.batch_at(0, *share))
  state = jax.jit(fresh, out_shardings=jax.tree.map(lambda leaf: leaf.sharding, abstract))(jax.random.key(records.seed))
  progress = Progress(vocabulary=task.fingerprints)
  if not records.places.init_from:
    return state, progress
  params = task.adopt(abstract.params, state.params)
  average = jax.tree.map(lambda x: x.copy(), params) if records.loop.ema_decay else ()
  return state._replace(params=params, average=average), progress


def is_verified(run: Supervision, task: Task, step: int) -> bool:
  """Return whether the training tokens are those that were written; False when a stop leaves no time to find out."""
  with contextlib.suppress(Stopped):
    return run.interruptible(task.verify)
  if peers.all_agree(task.verify(PATIENCE)):
    return True
  print(f'Note: step {step:,} is not saved: comparing the tokens on disk with their checksums has not ended, and nothing is '
        'saved that damaged text may have led to.', flush=True)
  return False


def save(run: Supervision, checkpoints: Checkpoints, state: training.TrainState, step: int, progress: Progress, log: Log,
         measured: dict[str, float] | None = None) -> None:
  """Save a checkpoint, with the figures that were measured at its step, if any."""
  with log.paused():
    log.suspend()
    checkpoints.save(step, state, dataclasses.asdict(progress), measured)
  run.saved = step


def give_up(run: Supervision, checkpoints: Checkpoints, state: training.TrainState, task: Task,
            share: partitioning.Share, log: Log) -> None:
  """Dump the first skipped update and raise NonFiniteError, unless an update still under way is finite again."""
  log.settle()
  if log.skipped >= task.setup.guards.max_skipped:
    checkpoints.wait()
    before = state._replace(step=state.step - log.skipped)
    failures.dump(run.folder, before, log.first_skipped, task.batches.batch_at(int(before.step), *share), log.skipped)


def conclude(task: Task, state: training.TrainState, progress: Progress, checkpoints: Checkpoints, evaluator: Evaluator,
             options: TrainOptions) -> None:
  """Average the last checkpoints, score every test set, write the results, and print commands to continue with."""
  task.verify()
  steps = task.setup.loop.to_average(checkpoints.known())
  try:
    params = checkpoints.average(steps, jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=partitioning.replicated(evaluator.mesh)), state.params))
  except DamagedError as error:
    raise DamagedError(f'{error}; or average only those after it, with --config.train.average_last=1') from None
  if len(steps) > 1:
    print(f'Mean of {len(steps)} checkpoints: steps {", ".join(f"{step:,}" for step in steps)}')
  found = {split: evaluator.score(params, split) for split in task.examined}
  results = announcement.results_by_set(found) | {
      'step': int(state.step), 'seconds': progress.seconds, 'averaged_steps': steps, 'length': task.setup.loop.length,
      'search': dataclasses.asdict(task.setup.search), 'options': finished.of_scores(task.setup.saved),
      'parameters': models.count_parameters(task.model), f'best_validation_{task.measure.name}': progress.best,
      'validation_perplexity': per_token(evaluator.sums(params, task.corpus.validation))['perplexity']}  # per token
  if peers.is_main():
    for split, score in found.items():
      text = ''.join(f'{line}\n' for line in score.outputs)
      task.folder.write(os.path.join(task.folder.samples, task.outputs_of(split)), text.encode())
    task.folder.write_json(task.folder.results, results)
  print('\n'.join(score.summary for score in found.values()))
  print(announcement.next_commands(task, found[task.examined[0]].example, options, progress))


if __name__ == '__main__':
  programs.run(lambda: stopping.end(main(OPTIONS)))
