"""Trains a model, scores it on held-out text, and leaves everything in one folder.

    python train.py --config=configs/phrasebook.py --workdir=runs/phrasebook

main() is the table of contents; its chapters follow in order. The same command goes on from the last checkpoint,
with the batch and the dropout that the run would have had.
"""

import os
import sys

from options import command_line

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')  # hides XLA's notes to its developers; its errors still show
# --help and mistaken flags are answered here, before the seconds that the imports below take.
OPTIONS = command_line.parse_train(sys.argv, __doc__) if __name__ == '__main__' else None

import dataclasses  # noqa: E402
import functools  # noqa: E402
import math  # noqa: E402
import shlex  # noqa: E402
from collections.abc import Callable  # noqa: E402
from typing import Any  # noqa: E402

import jax  # noqa: E402
import optax  # noqa: E402
import tqdm  # noqa: E402

import corpora  # noqa: E402
import input_pipeline  # noqa: E402
from checks.errors import ConfigError, DataError  # noqa: E402
from checks.exit_codes import DONE, UNEXPECTED  # noqa: E402
from corpora import cleaning, input_formats, labelled, subword_sampling  # noqa: E402
from corpora import vocabulary as vocabularies  # noqa: E402
from explorer import watching  # noqa: E402
from tasks import inspection, registry  # noqa: E402
from tasks.from_folder import model_config  # noqa: E402
from tasks.setup import Records, check  # noqa: E402
from training import checkpoint, evaluation, failures, hardware, peers, run_folder, stopping  # noqa: E402
from training.progress import Clock, Meter, Profile, ProgressBar  # noqa: E402
from transformer import architectures, partitioning, training  # noqa: E402
from transformer import model as models  # noqa: E402
from transformer import optimizer as optimizers  # noqa: E402


@dataclasses.dataclass(frozen=True)
class Run:
  """What stays the same while a run trains."""

  config: Any
  records: Records
  folder: run_folder.RunFolder
  corpus: corpora.Corpus
  source: vocabularies.Vocabulary
  target: vocabularies.Vocabulary
  plan: input_pipeline.Plan
  heldout_plan: Callable[[corpora.Split], input_pipeline.Plan]  # of a split that is only looked at
  model: models.Model
  optimizer: optax.GradientTransformation
  mesh: jax.sharding.Mesh
  total_steps: int | None  # None when time decides
  watch: watching.Watch | None = None  # of attention, where it is asked for

  @property
  def task(self) -> registry.Task:
    """What differs from training for something else."""
    return self.records.task

  @functools.cached_property
  def checkpoints(self) -> checkpoint.Checkpoints:
    """Those in the run's folder. Made when first asked for, by all processes at once."""
    options = self.config.train
    return checkpoint.Checkpoints(
        self.folder.checkpoints, max(options.keep_last, options.average_last), options.keep_best, self.task.measure)

  @property
  def objective(self) -> training.Objective:
    """What training descends on, on the mesh."""
    objective = training.build_objective(self.model, self.records.loss, self.target.bos_id, self.records.consistency)
    return partitioning.gathering(objective, self.model.axes(), self.mesh)

  @property
  def setting(self) -> evaluation.Setting:
    """What the task may look at."""
    return evaluation.Setting(self.model, self.corpus, self.source, self.target, self.records.search, self.config)


@dataclasses.dataclass
class Progress:
  """What a checkpoint holds beside the state: plain numbers, written as JSON."""

  seconds: float = 0.0  # spent training, evaluation and compilation included, over all restarts
  best: float | None = None  # the task's measure on validation, so far
  evaluations_since_best: int = 0
  stopped_early: bool = False
  evaluated: int = -1  # the last step that was evaluated
  meter: dict = dataclasses.field(default_factory=dict)  # measures that are in no line of metrics yet
  vocabulary: list[str] = dataclasses.field(default_factory=list)  # fingerprints, source and target


def main(options: command_line.TrainOptions) -> int:
  """A run from its options to its scores; returns the exit code."""
  hardware.keep_memory()
  records = check(options.config, options.given)
  peers.join(records.guards.heartbeat_seconds)
  folder = run_folder.RunFolder(options.workdir)
  # A schedule that ends with the run is another one when the run gets longer.
  bound = command_line.LENGTHS if records.optimizer.ends_with_run else ()
  with (peers.errors_end_all(), stopping.StopRequest() as stop,
        folder.create_or_resume(options.config.to_dict(), bound) if peers.is_main() else folder):
    try:
      run = stop.run(prepare, options.config, records, folder)
      if options.inspect:
        return inspect(run)
      state, progress = stop.run(begin, run)
    except (ConfigError, DataError):
      folder.give_up()
      raise
    except stopping.Stopped:
      return say_stopped(stop)
    if options.replay is not None:
      return replay(run, state, options.replay)
    if is_over(run, int(state.step), progress) and is_scored(run, int(state.step)):
      return say_finished(run)
    announce(run, state)
    judge = Judge(run, stop)
    with stopping.Watchdog(records.guards.stall_seconds) as watchdog, failures.lack_of_memory_told(options.config):
      state, progress = Training(run, state, progress, stop, judge, watchdog).to_the_end()
      if stop.exit_code:
        return say_stopped(stop, int(state.step))
      try:
        stop.run(conclude, run, state, progress, judge)
      except stopping.Stopped:
        return say_stopped(stop, int(state.step))
  return DONE


def say_stopped(stop: stopping.StopRequest, step: int | None = None) -> int:
  """What to do after a stop; the exit code."""
  print(('Stopped before training began.' if step is None else f'Stopped at step {step:,}, saved.')
        + ' The same command goes on from here.', flush=True)
  peers.leave()
  return stop.exit_code


# ---------------------------------------------------------------------------------------------------- preparation


def prepare(config, records: Records, folder: run_folder.RunFolder) -> Run:
  """Corpus, vocabularies, token stores, batch plans, model: everything but the state."""
  jax.config.update('jax_compilation_cache_dir', config.compile_cache or folder.compile_cache)
  jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.5)
  with command_line.as_config_error():
    mesh = partitioning.make_mesh(records.mesh)
    partitioning.share_of_rows(mesh)
  with peers.main_first('prepare'):
    return prepare_on(mesh, config, records, folder)


def prepare_on(mesh: jax.sharding.Mesh, config, records: Records, folder: run_folder.RunFolder) -> Run:
  """The same, once the devices are known."""
  corpus = records.task.load_corpus(records.corpus)
  if records.task.texts == 'pairs':
    corpus = cleaning.apply(corpus, records.cleaning, records.corpus)
  splits = [split for split in (corpus.train, corpus.validation, corpus.test) if split]
  print(f'Corpus {corpus.name}: ' + ', '.join(f'{split.name} {split.extent}' for split in splits))
  for note in corpus.notes:
    print(f'  {note}')
  hashes = {split.name: split.fingerprint for split in splits}
  folder.check_data(hashes)
  if peers.is_main():
    folder.record_environment(run_folder.environment(jax.devices(), hashes))
    run_folder.write_json(folder.suggestions, corpus.suggestions)
    run_folder.write_json(folder.labels, corpus.labels)
  source, target = vocabularies_of(config, records, corpus, folder)
  model = records.task.finish_model(architectures.build(model_config(config, source, target)), corpus, config)

  plan = functools.partial(PLANS[records.task.texts], config, folder, source, target)
  train_plan = plan(corpus.train, records.batches, True, records.sampling)
  heldout_plan = functools.cache(lambda split: plan(split, records.batches.for_evaluation(), False))
  plans = train_plan, heldout_plan(corpus.validation)
  with command_line.as_config_error():
    models.check_length(model, max(max(s.source, s.target) for plan in plans for s in plan.shapes))
    for shape in train_plan.shapes:
      partitioning.check_rows(shape.rows, mesh)
  total = config.train.num_steps
  if config.train.num_epochs is not None:
    total = math.ceil(config.train.num_epochs * train_plan.batches_per_epoch)
  with command_line.as_config_error():
    optimizer = optimizers.build(records.optimizer, total)
    watch = attention_watch(config, records.task, folder, corpus, model, source, target)
  return Run(config, records, folder, corpus, source, target, train_plan, heldout_plan, model, optimizer, mesh, total,
             watch)


def attention_watch(config, task: registry.Task, folder: run_folder.RunFolder, corpus: corpora.Corpus, model: models.Model,
             source: vocabularies.Vocabulary, target: vocabularies.Vocabulary) -> watching.Watch | None:
  """What takes down attention at evaluations: of the first samples that are short enough, or of a file's sentences."""
  asked = config.train.watch_attention
  if asked is None:
    return None
  if asked == 'samples':
    found = watching.short_readings(task.samples(corpus, config.train.num_samples), source, target)
  else:
    found = watching.readings(watching.read_texts(asked, paired=task.texts == 'pairs'), source, target)
  return watching.Watch(folder.attention, model, found, source, target, config.train.eval_every)


# The plan of a split, by what it holds (Task.texts). What training reads is shuffled, and may be sampled anew in each
# epoch.


def plan_pairs(config, folder: run_folder.RunFolder, source: vocabularies.Vocabulary, target: vocabularies.Vocabulary,
               split: corpora.Split, batches: input_pipeline.BatchConfig, shuffle: bool,
               sampling: subword_sampling.SamplingConfig | None = None) -> input_pipeline.Plan:
  """Of pairs of texts; with `sampling` on, other tokens in each epoch, which are the run's own."""
  bar = lambda pairs: tqdm.tqdm(pairs, total=len(split), desc='tokenising', unit=' pairs', leave=False, disable=None)
  if sampling and sampling.draws:
    sampled = lambda epoch: [subword_sampling.SampledVocabulary(vocabulary, sampling, config.seed, epoch, side)
                             for side, vocabulary in enumerate((source, target))]
    store = input_pipeline.SampledStores(split, sampled, folder.data, progress=bar)
  else:
    store = input_pipeline.open_store(split, source, target, config.data.cache_dir or folder.data, progress=bar)
  return input_pipeline.make_plan(store, batches, config.seed, shuffle)


def plan_documents(config, folder: run_folder.RunFolder, source: vocabularies.Vocabulary,
                   target: vocabularies.Vocabulary, split: corpora.TextSplit, batches: input_pipeline.BatchConfig,
                   shuffle: bool, sampling: Any = None) -> input_pipeline.Plan:
  """Of running text in blocks; the task has refused any sampling."""
  bar = functools.partial(tqdm.tqdm, total=len(split), desc='tokenising', unit=' documents', leave=False, disable=None)
  place = config.data.cache_dir or folder.data
  store = input_pipeline.open_text_store(split, target, config.data.max_length, place, bar)
  return input_pipeline.make_plan(store, batches, config.seed, shuffle)


def plan_examples(config, folder: run_folder.RunFolder, source: vocabularies.Vocabulary,
                  target: vocabularies.Vocabulary, split: labelled.LabelledSplit, batches: input_pipeline.BatchConfig,
                  shuffle: bool, sampling: Any = None) -> input_pipeline.LabelledPlan:
  """Of labelled texts, which need no store on disk; the task has refused any sampling."""
  encoded = input_formats.encode(split, config.data.task, target, batches.max_length)
  if encoded.cut:
    print(f'  {split.name}: texts of {encoded.cut:,} examples cut, so that sequences have {batches.max_length} tokens')
  return input_pipeline.LabelledPlan(encoded.sequences, encoded.labels, batches, config.seed, shuffle)


PLANS = {'pairs': plan_pairs, 'documents': plan_documents, 'examples': plan_examples}


def inspect(run: Run) -> int:
  """Tells what training would read; the folder keeps the vocabulary and the token store."""
  if run.task.texts != 'pairs':
    raise ConfigError(f'--inspect is for pairs; data.kind {run.config.data.kind!r} holds {run.task.texts}')
  for line in inspection.report(run.corpus, run.plan, run.source, run.target):
    print(line)
  return DONE


def vocabularies_of(config, records: Records, corpus: corpora.Corpus, folder: run_folder.RunFolder
                    ) -> tuple[vocabularies.Vocabulary, vocabularies.Vocabulary]:
  """The run's vocabularies: its own, those of the run it starts from, those supplied, or newly trained."""
  if not folder.has_vocabularies():
    options = records.vocabulary
    keep = vocabularies.keeper(config.data.cache_dir, options, corpus.train.fingerprint)
    if config.init_from:
      source, target = run_folder.RunFolder.open(config.init_from).load_vocabularies()
      models_ = source.model, None if source is target else target.model
      if models_[1] and config.model.share_embeddings:
        raise ConfigError(f'config.model.share_embeddings is True, but {config.init_from} has a vocabulary '
                                       'for each language; set model.share_embeddings=False, as that run has')
    else:
      print(f'Making the vocabulary ({options.kind}, {options.size:,} entries) …', flush=True)
      models_ = records.task.make_vocabularies(options, corpus, keep)
    vocabularies.save_words(records.task.known_words(corpus), folder.words, keep)
    folder.save_vocabularies(*models_)
  return folder.load_vocabularies()


def begin(run: Run) -> tuple[training.TrainState, Progress]:
  """The state to go on from: the newest whole checkpoint, another run's parameters, or fresh ones."""
  fresh = lambda key: training.init_state(run.model, run.optimizer, key, run.config.train.ema_decay)
  key = jax.random.key(run.config.seed)
  abstract = jax.eval_shape(fresh, key)
  shardings = partitioning.state_shardings(run.model.axes(), abstract, run.mesh)
  abstract = jax.tree.map(lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
                          abstract, shardings)
  if peers.is_main():
    # A checkpoint on disk is whole, whatever the mesh; the next one is written before the oldest is removed.
    run.folder.probe(partitioning.bytes_of(abstract))
  vocabulary = [run.source.fingerprint, run.target.fingerprint]
  step, notes = run.checkpoints.newest_whole()
  for note in notes:
    print(f'Note: {note}', flush=True)
  if step is not None:
    state, saved = run.checkpoints.restore(step, abstract)
    progress = Progress(**saved)
    if progress.vocabulary and progress.vocabulary != vocabulary:
      raise checkpoint.CheckpointError(
          f'checkpoint {step} in {run.folder.checkpoints} was trained with another vocabulary than the files of '
          'vocabulary.* in the run\'s folder now hold; put the run\'s own back, or give another --workdir')
    progress.vocabulary = vocabulary
    return state, progress
  state = jax.jit(fresh, out_shardings=shardings)(key)
  if not run.config.init_from:
    return state, Progress(vocabulary=vocabulary)
  if run.task.adopt:
    params = run.task.adopt(run.config.init_from, abstract.params, state.params)
  else:
    folder = run_folder.RunFolder.open(run.config.init_from)
    other = checkpoint.Checkpoints(folder.checkpoints, measure=registry.measure_of(folder.read_config()))
    params = other.average(other.resolve('best'), abstract.params)
  average = jax.tree.map(lambda x: x.copy(), params) if run.config.train.ema_decay else ()
  return state._replace(params=params, average=average), Progress(vocabulary=vocabulary)


def departures(run: Run) -> list[str]:
  """What of the training options is not the paper's, in a word each."""
  records, parts = run.records, run.config.train.accumulation_steps
  named = ((records.optimizer.kind, 'adam'), (records.optimizer.schedule, 'noam'),
           (records.consistency.consistency, 'none'), (records.sampling.subword_sampling, 'none'))
  sized = (('label smoothing', records.loss.label_smoothing, 0.1), ('clipping at', records.optimizer.clip_norm, 0.0),
           ('weight decay', records.optimizer.decay, 0.0), ('moving average', records.loop.ema_decay, 0.0))
  return ([found for found, plain in named if found != plain]
          + [f'{name} {found:g}' for name, found, plain in sized if found != plain]
          + [f'{parts} micro-batches an update'] * (parts > 1))


def announce(run: Run, state: training.TrainState) -> None:
  """What is about to happen, in a few lines."""
  config, plan, largest = run.config, run.plan, run.plan.shapes[0]
  length = (f'{config.train.num_minutes:g} minutes' if run.total_steps is None else
            f'{run.total_steps:,} steps ({run.total_steps / plan.batches_per_epoch:.1f} epochs)')
  device = run.mesh.devices.flat[0]
  sizes = f'{run.source.size:,}' if run.source is run.target else f'{run.source.size:,} and {run.target.size:,}'
  print(f'Model: {models.count_parameters(run.model):,} parameters, {architectures.describe(run.model.config)}, '
        f'vocabulary {sizes}')
  print(f'Batches: {len(plan.shapes)} shapes up to {largest.rows} × ({largest.source}, {largest.target}), '
        f'{plan.batches_per_epoch:,} an epoch, {plan.sentences_per_batch():.0f} {run.task.rows} each, '
        f'{plan.padding():.1%} padding'
        + (f'; {plan.dropped:,} {run.task.rows} empty or too long left out' if plan.dropped else ''))
  axes = ' × '.join(f'{name} {size}' for name, size in run.mesh.shape.items())
  parts = math.prod(run.mesh.shape[axis] for axis in partitioning.ROWS)
  of = lambda tree: hardware.in_units(partitioning.bytes_per_device(tree))
  print(f'Mesh: {axes} on {jax.process_count()} process{"es" * (jax.process_count() > 1)}. Each device holds '
        f'{of(state.params)} of parameters, {of(state)} with the optimizer\'s state, and {largest.rows // parts} of '
        f'{largest.rows} rows of the largest batch; a batch has {plan.tokens_per_batch():,.0f} real target tokens')
  whole = partitioning.undivided(run.model.axes(), state.params, run.mesh)
  if whole:
    print(f'  not divided by the mesh, and so whole on more devices: {", ".join(whole[:8])}'
          + (f' and {len(whole) - 8} more' if len(whole) > 8 else ''))
  print(f'Training for {length} on {run.mesh.size} × {device.device_kind} '
        f'({", ".join([config.compile, config.model.dtype, *departures(run)])})'
        + (f', going on from step {int(state.step):,}' if int(state.step) else ''), flush=True)


def is_over(run: Run, step: int, progress: Progress) -> bool:
  """Whether the run has reached its length."""
  if run.total_steps is None:
    return progress.stopped_early or progress.seconds >= 60 * run.config.train.num_minutes
  return progress.stopped_early or step >= run.total_steps


def is_scored(run: Run, step: int) -> bool:
  """Whether the final scores are those of this step."""
  return os.path.isfile(run.folder.results) and run_folder.read_json(run.folder.results)['step'] == step


def say_finished(run: Run) -> int:
  """A finished run says so and ends."""
  results = run_folder.read_json(run.folder.results)
  print(f'This run is finished, at step {results["step"]:,}: {run.task.describe(results)}\n' + (
      'Its learning rate has come to its end; to train longer, give another --workdir and, to start from this run, '
      '--init_from' if run.records.optimizer.ends_with_run else
      'To go on, ask for more with --config.train.num_steps=…, num_epochs=… or num_minutes=…'))
  return 0


# ---------------------------------------------------------------------------------------------------------- training


def compile_training(run: Run, state: training.TrainState) -> partitioning.CompiledStep:
  """The training step on the run's mesh; the state stays laid out as it is."""
  options = run.config.train
  step = training.make_train_step(run.objective, run.optimizer, options.ema_decay, options.accumulation_steps)
  out = jax.tree.map(lambda leaf: leaf.sharding, state), partitioning.replicated(run.mesh)
  return partitioning.compile_step(step, run.mesh, run.config.compile, donate=True, out=out)


class Training:
  """Steps until the run's length is reached or a stop is asked for; the last state is saved either way."""

  def __init__(self, run: Run, state: training.TrainState, progress: Progress, stop: stopping.StopRequest,
               judge: 'Judge', watchdog: stopping.Watchdog):
    self._run, self._state, self._progress = run, state, progress
    self._stop, self._judge, self._watchdog = stop, judge, watchdog
    self._step = int(state.step)
    self._saved = self._step if self._step in run.checkpoints.steps() else -1
    self._clock, self._meter = Clock(progress.seconds), Meter(progress.meter)
    self._compiled = compile_training(run, state)
    self._metrics = run_folder.Metrics(run.folder, self._step) if peers.is_main() else run_folder.NoMetrics()
    if peers.is_main():
      watching.forget_after(run.folder.attention, self._step)
    if not self._step:
      judge.watch(state, 0)
    self._profile = Profile(run.folder.profile, self._step, run.config.train.profile_steps)
    self._flops = hardware.flops_per_token(state.params)
    last = sys.maxsize if run.total_steps is None else run.total_steps
    self._batches = input_pipeline.batches(
        run.plan, self._step, last, *partitioning.share_of_rows(run.mesh), run.config.data.num_threads
    ) if self._step < last else iter(())

  def to_the_end(self) -> tuple[training.TrainState, Progress]:
    """Trains; returns the last state, which is saved."""
    run, options = self._run, self._run.config.train
    with ProgressBar(run.total_steps, (options.num_minutes or 0) * 60, self._step, self._progress.seconds) as bar:
      try:
        while True:
          self._watchdog.beat()
          measured = self._evaluate(bar) if self._is_evaluation_due() else None
          if measured or self._step % options.checkpoint_every == 0 and self._step and self._saved != self._step:
            self._save(measured)
          if is_over(run, self._step, self._progress) or self._stop.is_asked():
            break
          self._advance(bar)
          if self._step % options.log_every == 0:
            self._metrics.write(self._step, with_mfu(run, self._meter.read()) | {
                'seconds': self._progress.seconds, 'epoch': run.plan.epochs_done(self._step)})
          if self._meter.skipped >= options.max_skipped:
            self._give_up()
      except stopping.Stopped:
        pass  # in the middle of something that may be given up: the state is that of the last whole step
      if self._saved != self._step:
        self._save()
      self._profile.close()
    run.checkpoints.wait()
    self._metrics.close()
    return self._state, self._progress

  def _is_evaluation_due(self) -> bool:
    """Also after a stop that came in the middle of one."""
    options = self._run.config.train
    due = self._step % options.eval_every == 0 or self._step == options.first_eval
    return due and self._step > max(0, self._progress.evaluated)

  def _evaluate(self, bar: ProgressBar) -> dict[str, float]:
    with self._meter.paused():
      measured, self._progress = self._judge.evaluate(self._state, self._step, self._progress)
      self._judge.watch(self._state, self._step)
    self._metrics.write(self._step, {f'validation/{name}': value for name, value in measured.items()})
    bar.write(self._judge.told)
    return measured

  def _save(self, measured: dict | None = None) -> None:
    """Saves a checkpoint; on a CPU it waits, since there the next step would overwrite the very memory being saved."""
    with self._meter.paused():
      self._progress.seconds, self._progress.meter = self._clock.seconds(), self._meter.suspend()
      self._run.checkpoints.save(self._step, self._state, dataclasses.asdict(self._progress), measured)
      if jax.default_backend() == 'cpu':
        self._run.checkpoints.wait()
    self._saved = self._step

  def _advance(self, bar: ProgressBar) -> None:
    """One step."""
    shape = self._run.plan.shape_at(self._step)
    with self._meter.waiting(), self._stop.waiting():
      batch = next(self._batches)
    if self._compiled.is_new(batch):
      self._compile(batch, shape, bar)
    with self._profile.of(self._step):
      self._state, measures = self._compiled(self._state, batch)
      self._meter.add(measures, self._run.plan.cells(shape), flops=hardware.step_flops(self._flops, batch))
    self._step, self._progress.seconds = self._step + 1, self._clock.seconds()
    bar.advance(self._step, self._progress.seconds, self._meter)

  def _compile(self, batch: Any, shape: input_pipeline.Shape, bar: ProgressBar) -> None:
    bar.announce_compilation(shape)
    with self._meter.paused(), self._watchdog.paused():
      program = self._stop.run(self._compiled.program, self._state, batch)
    failures.check_memory(program, self._run.config, shape, self._state)
    self._meter.compiled(program.seconds)
    bar.compiled(shape, program.seconds, program.peak_bytes)

  def _give_up(self) -> None:
    """Raises NonFiniteError, unless a step still under way was finite again."""
    self._meter.settle()
    skipped = self._meter.skipped
    if skipped >= self._run.config.train.max_skipped:
      self._run.checkpoints.wait()
      first, share = self._step - skipped, partitioning.share_of_rows(self._run.mesh)
      failures.dump(self._run.folder, self._state._replace(step=self._state.step - skipped),
                    self._meter.first_skipped, self._run.plan.batch_at(first, *share), skipped)


def with_mfu(run: Run, measured: dict[str, float]) -> dict[str, float]:
  """The measures, with model FLOPs utilisation where the devices' peak is known."""
  peak = hardware.peak_tflops(run.mesh.devices.flat[0], run.config.train.peak_tflops)
  return measured | ({'train/mfu': measured['train/tflops'] / (peak * run.mesh.size)} if peak else {})


def replay(run: Run, state: training.TrainState, step: int) -> int:
  """Computes an update again that was not finite, and says whether it came out the same, bit for bit."""
  wanted = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding), state)
  state, found = failures.read_dump(run.folder, step, wanted)
  batch = run.plan.batch_at(step, *partitioning.share_of_rows(run.mesh))
  _, measures = compile_training(run, state)(state, batch)
  now = failures.in_bits({name: value for name, value in jax.device_get(measures).items() if name != 'skipped'})
  same = now == found['measures'] and (not peers.is_main() or failures.fingerprint(batch) == found['batch'])
  for name, value in now.items():
    print(f'{name:<16} {float.fromhex(value):<24g} then {float.fromhex(found["measures"][name]):g}')
  print(f'Step {step:,} ' + ('came out the same, bit for bit.' if same else 'came out different.'), flush=True)
  return DONE if same else UNEXPECTED


class Judge:
  """Evaluates a run: figures over all tokens of a held-out split, and what its task makes of them."""

  def __init__(self, run: Run, stop: stopping.StopRequest):
    self._run, self._stop, self.told = run, stop, ''
    objective = training.build_objective(run.model, run.records.loss, run.target.bos_id)
    self._eval_step = partitioning.compile_step(
        training.make_eval_step(partitioning.gathering(objective, run.model.axes(), run.mesh)), run.mesh,
        run.config.compile, donate=False)
    self._examine = run.task.examiner(run.setting)

  def sums(self, params: Any, split: corpora.Split) -> dict[str, float]:
    """Loss, tokens and hits over all of a split."""
    run = self._run
    plan, share = run.heldout_plan(split), partitioning.share_of_rows(run.mesh)
    # Averaged parameters come whole; the step is compiled for split ones.
    params = partitioning.lay_out(params, partitioning.parameter_shardings(run.model.axes(), params, run.mesh))

    def batches():
      for step in range(plan.batches_per_epoch):
        self._stop.check()
        yield plan.batch_at(step, *share)

    return evaluation.totals(self._eval_step, params, batches())

  def watch(self, state: training.TrainState, step: int) -> None:
    """Takes down the attention of the sentences that are watched, if any are."""
    run = self._run
    if run.watch:
      whole = partitioning.lay_out(self._judged(state), partitioning.replicated(run.mesh))
      if peers.is_main():
        run.watch(partitioning.own_copy(whole), step)

  def _judged(self, state: training.TrainState) -> Any:
    return state.average if self._run.config.train.ema_decay else state.params

  def evaluate(self, state: training.TrainState, step: int, progress: Progress) -> tuple[dict[str, float], Progress]:
    """The figures of this step on validation, and the progress with them; writes samples/.

    Raises:
      stopping.Stopped: when a stop is asked for meanwhile.
    """
    run, options, measure = self._run, self._run.config.train, self._run.task.measure
    params = self._judged(state)
    sums = self._stop.run_together(self.sums, params, run.corpus.validation)
    whole = partitioning.lay_out(params, partitioning.replicated(run.mesh))
    found = self._stop.run(self._examine, whole, sums, step)
    measured = evaluation.per_token(sums) | found.measures
    if peers.is_main():
      evaluation.write_samples(os.path.join(run.folder.samples, f'step_{step:08d}.txt'), step, found.samples)
    better = progress.best is None or measure.rank(measured) > measure.rank({measure.name: progress.best})
    since = 0 if better else progress.evaluations_since_best + 1
    self.told = (f'step {step:,}  validation loss {measured["loss"]:.3f}, perplexity {measured["perplexity"]:.2f}, '
                 f'{found.told}')
    return measured, dataclasses.replace(
        progress, evaluated=step, best=measured[measure.name] if better else progress.best,
        evaluations_since_best=since, stopped_early=0 < options.patience <= since)


# -------------------------------------------------------------------------------------------------------- conclusion


def conclude(run: Run, state: training.TrainState, progress: Progress, judge: Judge) -> None:
  """Averages the last checkpoints, scores the test split, and says how to go on."""
  steps = run.checkpoints.resolve(f'average:{min(run.config.train.average_last, len(run.checkpoints.steps()))}')
  replicated = partitioning.replicated(run.mesh)
  params = run.checkpoints.average(steps, jax.tree.map(
      lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=replicated), state.params))
  print(f'Mean of {len(steps)} checkpoints: steps {", ".join(f"{step:,}" for step in steps)}')
  examined = run.corpus.test or run.corpus.validation
  found = run.task.conclude(run.setting, params, examined, judge.sums)
  measured = evaluation.per_token(judge.sums(params, run.corpus.validation))
  results = found.results | {
      'test_set': examined.name, 'step': int(state.step), 'seconds': progress.seconds, 'averaged_steps': steps,
      'search': dataclasses.asdict(run.records.search), 'parameters': models.count_parameters(run.model),
      f'best_validation_{run.task.measure.name}': progress.best,
      'validation_perplexity': measured['perplexity'],  # per token
      'length': {name: run.config.train[name] for name in ('num_steps', 'num_epochs', 'num_minutes')}}
  if peers.is_main():
    with open(os.path.join(run.folder.samples, run.task.outputs), 'w', encoding='utf-8') as file:
      file.writelines(f'{line}\n' for line in found.outputs)
    run_folder.write_json(run.folder.results, results)
  print(found.told)
  print(next_commands(run, found.example))


def next_commands(run: Run, example: str) -> str:
  """Three lines to paste."""
  command = f'{command_line.python()} '
  workdir = os.path.relpath(run.folder.path)
  longer = (f'num_minutes={2 * run.config.train.num_minutes:g}' if run.total_steps is None else
            f'num_steps={2 * run.total_steps}')
  go_on = '' if run.records.optimizer.ends_with_run else (
      f'\nGo on training:             {command}train.py {shlex.join(kept_flags())} --config.train.{longer}')
  return f'''
{run.task.invitation + ":":<27} echo {shlex.quote(example)} | {command}decode.py --workdir={workdir}{go_on}
Train on a file of yours:   {command}train.py {run.task.own_text} --workdir=runs/mine'''


def kept_flags() -> list[str]:
  """This command's flags without the length of training."""
  lengths = ('--config.train.num_steps', '--config.train.num_epochs', '--config.train.num_minutes')
  return [word for word in sys.argv[1:] if word.partition('=')[0] not in lengths]


if __name__ == '__main__':
  command_line.run(lambda: stopping.end(main(OPTIONS)))
