"""Trains a model, scores it on held-out text, and leaves everything in one folder.

    python train.py --config=configs/phrasebook.py --workdir=runs/phrasebook

main() is the table of contents; its chapters follow in order. The same command goes on from the last checkpoint,
with the batch and the dropout that the run would have had.
"""

import os
import sys

from experiment import command_line

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')  # hides XLA's notes to its developers; its errors still show
# --help and mistaken flags are answered here, before the seconds that the imports below take.
OPTIONS = command_line.parse_train(sys.argv, __doc__) if __name__ == '__main__' else None

import dataclasses  # noqa: E402
import functools  # noqa: E402
import math  # noqa: E402
import shlex  # noqa: E402
import signal  # noqa: E402
from collections.abc import Callable, Sequence  # noqa: E402
from typing import Any, NamedTuple  # noqa: E402

import jax  # noqa: E402
import optax  # noqa: E402
import tqdm  # noqa: E402

import corpora  # noqa: E402
import input_pipeline  # noqa: E402
from corpora import labelled  # noqa: E402
from corpora import vocabulary as vocabularies  # noqa: E402
from corpora.errors import DataError  # noqa: E402
from experiment import checkpoint, evaluation, input_formats, run_folder, tasks, translation  # noqa: E402
from experiment.progress import Clock, Meter, ProgressBar  # noqa: E402
from experiment.translation import model_config, model_record  # noqa: E402
from transformer import model as models  # noqa: E402
from transformer import optimizer as optimizers  # noqa: E402
from transformer import architectures, partitioning, training  # noqa: E402
from transformer.config import ConsistencyConfig, LossConfig, OptimizerConfig, SearchConfig  # noqa: E402


INTERRUPTED, PREEMPTED = 130, 143  # exit codes: Ctrl-C, SIGTERM


class Records(NamedTuple):
  """The configuration's sections as the records that the library takes, each checked."""

  corpus: corpora.CorpusConfig
  vocabulary: vocabularies.VocabularyConfig
  sampling: vocabularies.SamplingConfig
  batches: input_pipeline.BatchConfig
  loss: LossConfig
  consistency: ConsistencyConfig
  optimizer: OptimizerConfig
  search: SearchConfig
  task: tasks.Task


class Run(NamedTuple):
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
  checkpoints: checkpoint.Checkpoints
  total_steps: int | None  # None when time decides

  @property
  def task(self) -> tasks.Task:
    """What differs from training for something else."""
    return self.records.task

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


def main(options: command_line.TrainOptions) -> int:
  """A run from its options to its scores; returns the exit code."""
  records = check(options.config, options.given)
  folder = run_folder.RunFolder(options.workdir)
  # A schedule that ends with the run is another one when the run gets longer.
  bound = command_line.LENGTHS if records.optimizer.ends_with_run else ()
  with folder.create_or_resume(options.config.to_dict(), bound):
    try:
      run = prepare(options.config, records, folder)
      state, progress = begin(run)
    except (command_line.ConfigError, DataError):
      folder.give_up()
      raise
    if is_over(run, int(state.step), progress) and is_scored(run, int(state.step)):
      return say_finished(run)
    announce(run, state)
    judge = Judge(run)
    with StopRequest() as stop:
      state, progress = train(run, state, progress, stop, judge)
    if stop.exit_code:
      print(f'Stopped at step {int(state.step):,}, saved. The same command goes on from here.', flush=True)
      return stop.exit_code
    conclude(run, state, progress, judge)
  return 0


# ------------------------------------------------------------------------------------------ before anything is made


def check(config, given: Sequence[str] = ()) -> Records:
  """All sections turned into records; every mistake is reported at once, before any file is read or made.

  Args:
    config: the resolved configuration.
    given: dotted names of the options that somebody asked for; one that changes nothing is a mistake.
  """
  with command_line.gather_errors(config) as build:
    data, train_ = config.data, config.train
    task = tasks.of(config)
    model = model_record(build, config, config.vocabulary.size, config.vocabulary.size)
    records = Records(
        corpus=build(task.corpus_config, data, seed=config.seed),
        vocabulary=build(vocabularies.VocabularyConfig, config.vocabulary),
        sampling=build(vocabularies.SamplingConfig, data, vocabulary_kind=config.vocabulary.kind),
        batches=build(input_pipeline.BatchConfig, data, batch_tokens=train_.batch_tokens,
                      accumulation_steps=train_.accumulation_steps),
        loss=build(LossConfig, train_),
        consistency=build(ConsistencyConfig, train_, dropout=largest_dropout(model)),
        optimizer=build(OptimizerConfig, config.optimizer, d_model=config.model.d_model,
                        length_known=train_.num_minutes is None),
        search=build(SearchConfig, config.search),
        task=task)
    if wrong := translation.without_effect(config, given):
      raise command_line.ConfigError('\n  '.join(wrong))
  with command_line.as_config_error():
    if train_.num_steps:  # epochs are known in steps once the text is
      optimizers.learning_rate(records.optimizer, train_.num_steps)
  return records


def largest_dropout(model: translation.ModelRecord | None) -> float:
  """The largest of a model record's rates; of a record that was refused, any."""
  return max(getattr(model, field.name) for field in dataclasses.fields(model)
             if field.name.endswith('dropout')) if model else 1.0


class StopRequest:
  """Ctrl-C or SIGTERM asks for a stop after the step at hand; a second Ctrl-C stops at once."""

  def __init__(self):
    self.exit_code = 0
    self._before = {}

  def __enter__(self):
    for number, code in ((signal.SIGINT, INTERRUPTED), (signal.SIGTERM, PREEMPTED)):
      self._before[number] = signal.signal(number, lambda *_, code=code: self._ask(code))
    return self

  def _ask(self, code: int) -> None:
    if self.exit_code == code == INTERRUPTED:
      raise KeyboardInterrupt
    self.exit_code = code

  def __exit__(self, *_):
    for number, handler in self._before.items():
      signal.signal(number, handler)


# ---------------------------------------------------------------------------------------------------- preparation


def prepare(config, records: Records, folder: run_folder.RunFolder) -> Run:
  """Corpus, vocabularies, token stores, batch plans, model: everything but the state."""
  jax.config.update('jax_compilation_cache_dir', config.compile_cache or folder.compile_cache)
  jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.5)
  with command_line.as_config_error():
    mesh = partitioning.make_mesh(config.mesh.data)
  corpus = records.task.load_corpus(records.corpus)
  splits = [split for split in (corpus.train, corpus.validation, corpus.test) if split]
  print(f'Corpus {corpus.name}: ' + ', '.join(f'{split.name} {split.extent}' for split in splits))
  for note in corpus.notes:
    print(f'  {note}')
  hashes = {split.name: split.fingerprint for split in splits}
  folder.check_data(hashes)
  folder.record_environment(run_folder.environment(jax.devices(), hashes))
  run_folder.write_json(folder.suggestions, corpus.suggestions)
  source, target = vocabularies_of(config, records, corpus, folder)
  run_folder.write_json(folder.labels, corpus.labels)
  model = records.task.finish_model(architectures.build(model_config(config, source, target)), corpus, config)

  plan = functools.partial(PLANS[records.task.texts], config, folder, source, target)
  train_plan = plan(corpus.train, records.batches, True, records.sampling)
  heldout_plan = functools.cache(lambda split: plan(split, records.batches.for_evaluation(), False))
  plans = train_plan, heldout_plan(corpus.validation)
  with command_line.as_config_error():
    models.check_length(model, max(max(s.source, s.target) for plan in plans for s in plan.shapes))
    for shape in train_plan.shapes:
      partitioning.check_rows(shape.rows, mesh)
  records.task.check_model(model, records.search)
  total = config.train.num_steps
  if config.train.num_epochs is not None:
    total = math.ceil(config.train.num_epochs * train_plan.batches_per_epoch)
  with command_line.as_config_error():
    optimizer = optimizers.build(records.optimizer, total)
  checkpoints = checkpoint.Checkpoints(
      folder.checkpoints, max(config.train.keep_last, config.train.average_last), config.train.keep_best,
      records.task.measure)
  return Run(config, records, folder, corpus, source, target, train_plan, heldout_plan, model, optimizer, mesh,
             checkpoints, total)


# The plan of a split, by what it holds (Task.texts). What training reads is shuffled, and may be sampled anew each epoch.


def plan_pairs(config, folder: run_folder.RunFolder, source: vocabularies.Vocabulary, target: vocabularies.Vocabulary,
               split: corpora.Split, batches: input_pipeline.BatchConfig, shuffle: bool,
               sampling: vocabularies.SamplingConfig | None = None) -> input_pipeline.Plan:
  """Of pairs of texts; with `sampling` on, other tokens in each epoch, which are the run's own."""
  bar = lambda pairs: tqdm.tqdm(pairs, total=len(split), desc='tokenising', unit=' pairs', leave=False, disable=None)
  if sampling and sampling.draws:
    sampled = lambda epoch: [vocabularies.SampledVocabulary(vocabulary, sampling, config.seed, epoch, side)
                             for side, vocabulary in enumerate((source, target))]
    store = input_pipeline.SampledStores(split, sampled, folder.data, progress=bar)
  else:
    store = input_pipeline.open_store(split, source, target, config.data.cache_dir or folder.data, progress=bar)
  return input_pipeline.Plan(store, batches, config.seed, shuffle)


def plan_documents(config, folder: run_folder.RunFolder, source: vocabularies.Vocabulary,
                   target: vocabularies.Vocabulary, split: corpora.TextSplit, batches: input_pipeline.BatchConfig,
                   shuffle: bool, sampling: Any = None) -> input_pipeline.Plan:
  """Of running text in blocks; the task has refused any sampling."""
  bar = functools.partial(tqdm.tqdm, total=len(split), desc='tokenising', unit=' documents', leave=False, disable=None)
  place = config.data.cache_dir or folder.data
  store = input_pipeline.open_text_store(split, target, config.data.max_length, place, bar)
  return input_pipeline.Plan(store, batches, config.seed, shuffle)


def plan_examples(config, folder: run_folder.RunFolder, source: vocabularies.Vocabulary,
                  target: vocabularies.Vocabulary, split: labelled.LabelledSplit, batches: input_pipeline.BatchConfig,
                  shuffle: bool, sampling: Any = None) -> input_pipeline.LabelledPlan:
  """Of labelled texts, which need no store on disk; the task has refused any sampling."""
  encoded = input_formats.encode(split, config.data.task, target, batches.max_length)
  if encoded.cut:
    print(f'  {split.name}: texts of {encoded.cut:,} examples cut, so that sequences have {batches.max_length} tokens')
  return input_pipeline.LabelledPlan(encoded.sequences, encoded.labels, batches, config.seed, shuffle)


PLANS = {'pairs': plan_pairs, 'documents': plan_documents, 'examples': plan_examples}


def vocabularies_of(config, records: Records, corpus: corpora.Corpus, folder: run_folder.RunFolder
                    ) -> tuple[vocabularies.Vocabulary, vocabularies.Vocabulary]:
  """The run's vocabularies: its own, those of the run it starts from, those supplied, or newly trained."""
  if not folder.has_vocabularies():
    options = records.vocabulary
    keep = vocabularies.keeper(config.data.cache_dir, options, corpus.train.fingerprint)
    if config.init_from:
      source, target = run_folder.RunFolder.open(config.init_from).load_vocabularies()
      models_ = source.model, None if source is target else target.model
    else:
      print(f'Making the vocabulary ({options.kind}, {options.size:,} entries) …', flush=True)
      models_ = records.task.make_vocabularies(options, corpus, keep)
    vocabularies.save_words(records.task.known_words(corpus), folder.words, keep)
    folder.save_vocabularies(*models_)
  return folder.load_vocabularies()


def begin(run: Run) -> tuple[training.TrainState, Progress]:
  """The state to go on from: the newest checkpoint, another run's parameters, or fresh ones."""
  replicated = partitioning.replicated(run.mesh)
  fresh = lambda key: training.init_state(run.model, run.optimizer, key, run.config.train.ema_decay)
  key = jax.random.key(run.config.seed)
  abstract = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=replicated),
                          jax.eval_shape(fresh, key))
  step = run.checkpoints.latest()
  if step is not None:
    state, progress = run.checkpoints.restore(step, abstract)
    return state, Progress(**progress)
  if not run.config.init_from:
    return jax.jit(fresh, out_shardings=replicated)(key), Progress()
  state = jax.jit(fresh, out_shardings=replicated)(key)
  if run.task.adopt:
    params = run.task.adopt(run.config.init_from, abstract.params, state.params)
  else:
    folder = run_folder.RunFolder.open(run.config.init_from)
    other = checkpoint.Checkpoints(folder.checkpoints, measure=tasks.measure_of(folder.read_config()))
    params = other.average(other.resolve('best'), abstract.params)
  average = jax.tree.map(lambda x: x.copy(), params) if run.config.train.ema_decay else ()
  return state._replace(params=params, average=average), Progress()


def departures(run: Run) -> list[str]:
  """What of the training options is not the paper's, in a word each."""
  records, parts = run.records, run.config.train.accumulation_steps
  options = ((records.optimizer.kind, 'adam'), (records.optimizer.schedule, 'noam'),
             (records.consistency.consistency, 'none'), (records.sampling.subword_sampling, 'none'))
  return [found for found, plain in options if found != plain] + [f'{parts} micro-batches an update'] * (parts > 1)


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


def train(run: Run, state: training.TrainState, progress: Progress, stop: StopRequest, judge: 'Judge'
          ) -> tuple[training.TrainState, Progress]:
  """Steps until the run's length is reached or a stop is asked for; the last state is saved either way."""
  options, config = run.config.train, run.config
  objective = training.build_objective(run.model, run.records.loss, run.target.bos_id, run.records.consistency)
  step_fn = partitioning.compile_step(
      training.make_train_step(objective, run.optimizer, options.ema_decay, options.accumulation_steps),
      run.mesh, config.compile, donate=True)
  step = saved = int(state.step)
  clock, meter = Clock(progress.seconds), Meter()
  metrics = run_folder.Metrics(run.folder, step)
  last = sys.maxsize if run.total_steps is None else run.total_steps
  batches = input_pipeline.batches(run.plan, step, last, jax.process_index(), jax.process_count(),
                                   config.data.num_threads) if step < last else iter(())
  with ProgressBar(run.total_steps, (options.num_minutes or 0) * 60, step, progress.seconds) as bar:
    while not stop.exit_code and not is_over(run, step, progress):
      shape = run.plan.shape_at(step)
      bar.announce_compilation(shape)
      state, measures = step_fn(state, next(batches))
      meter.add(measures, run.plan.cells(shape))
      step, progress.seconds = step + 1, clock.seconds()
      bar.advance(step, progress.seconds, meter)
      if step % options.log_every == 0:
        metrics.write(step, meter.read() | {'seconds': progress.seconds, 'epoch': run.plan.epochs_done(step)})
      measured = None
      if step % options.eval_every == 0 or step == options.first_eval:
        measured = judge.evaluate(state, step, progress)
        metrics.write(step, {f'validation/{name}': value for name, value in measured.items()})
        bar.write(judge.told)
        progress.seconds = clock.seconds()
      if measured or step % options.checkpoint_every == 0:
        save(run, state, progress, measured)
        saved = step
    if saved != step:
      save(run, state, progress)
  run.checkpoints.wait()
  metrics.close()
  return state, progress


def save(run: Run, state: training.TrainState, progress: Progress, measured: dict | None = None) -> None:
  """Saves a checkpoint; on a CPU it waits, since there the next step would overwrite the very memory being saved."""
  run.checkpoints.save(int(state.step), state, dataclasses.asdict(progress), measured)
  if jax.default_backend() == 'cpu':
    run.checkpoints.wait()


class Judge:
  """Evaluates a run: figures over all tokens of a held-out split, and what its task makes of them."""

  def __init__(self, run: Run):
    self._run, self.told = run, ''
    self._eval_step = partitioning.compile_step(
        training.make_eval_step(training.build_objective(run.model, run.records.loss, run.target.bos_id)), run.mesh,
        run.config.compile, donate=False)
    self._examine = run.task.examiner(run.setting)

  def sums(self, params: Any, split: corpora.Split) -> dict[str, float]:
    """Loss, tokens and hits over all of a split."""
    plan = self._run.heldout_plan(split)
    params = jax.device_put(params, partitioning.replicated(self._run.mesh))  # averaged ones lie on one device alone
    return evaluation.totals(self._eval_step, params, map(plan.batch_at, range(plan.batches_per_epoch)))

  def evaluate(self, state: training.TrainState, step: int, progress: Progress) -> dict[str, float]:
    """The figures of this step on validation; writes samples/, and brings `progress` up to date."""
    run, options, measure = self._run, self._run.config.train, self._run.task.measure
    params = state.average if options.ema_decay else state.params
    sums = self.sums(params, run.corpus.validation)
    found = self._examine(params, sums, step)
    measured = evaluation.per_token(sums) | found.measures
    evaluation.write_samples(os.path.join(run.folder.samples, f'step_{step:08d}.txt'), step, found.samples)
    better = progress.best is None or measure.rank(measured) > measure.rank({measure.name: progress.best})
    progress.best = measured[measure.name] if better else progress.best
    progress.evaluations_since_best = 0 if better else progress.evaluations_since_best + 1
    progress.stopped_early = 0 < options.patience <= progress.evaluations_since_best
    self.told = (f'step {step:,}  validation loss {measured["loss"]:.3f}, perplexity {measured["perplexity"]:.2f}, '
                 f'{found.told}')
    return measured


# -------------------------------------------------------------------------------------------------------- conclusion


def conclude(run: Run, state: training.TrainState, progress: Progress, judge: Judge) -> None:
  """Averages the last checkpoints, scores the test split, and says how to go on."""
  steps = run.checkpoints.resolve(f'average:{min(run.config.train.average_last, len(run.checkpoints.steps()))}')
  params = run.checkpoints.average(steps, jax.eval_shape(lambda p: p, state.params))
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
  with open(os.path.join(run.folder.samples, run.task.outputs), 'w', encoding='utf-8') as file:
    file.writelines(f'{line}\n' for line in found.outputs)
  run_folder.write_json(run.folder.results, results)
  print(found.told)
  print(next_commands(run, found.example))


def next_commands(run: Run, example: str) -> str:
  """Three lines to paste."""
  command = f'{os.path.relpath(sys.executable)} ' if not sys.executable.startswith('/usr') else 'python '
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
  command_line.run(lambda: main(OPTIONS))
