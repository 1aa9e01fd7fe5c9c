"""A task is what a run is trained for: its text, vocabulary, model and batches, and how its results are measured.

train.py and decode.py are written once. Whatever they do differently for different tasks is a method here. A new task
is a class that implements these methods: one file, and one line in tasks/__init__.py that imports it.
"""

import abc
import contextlib
import dataclasses
import functools
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import jax

import input_pipeline
from batching.store import Store
from checks import files
from checks.errors import ConfigError, config_errors
from checks.names import distinct
from checks.progress import shown
from corpora import loading, marian_vocabulary
from corpora import vocabulary as vocabularies
from corpora.splits import Pair
from corpora.vocabulary import Vocabulary
from decoding.answers import Answers
from options.decode_options import DecodeOptions
from tasks import shapes
from tasks.records import Setup
from training import environment, peers
from training.checkpoint import CheckpointError, Checkpoints
from training.evaluation import Evaluation, Score, Sums
from training.preservation import Measure
from training.run_folder import RunFolder
from transformer import architectures, training
from transformer import model as models

TASKS: dict[str, type['Task']] = {}  # by what the splits of a corpus hold: 'pairs', 'documents', …


def task(cls: type['Task']) -> type['Task']:
  """Register a task, by the kind of text that it reads; a decorator."""
  TASKS[cls.texts] = cls
  return cls


def task_of(config: Mapping[str, Any]) -> type['Task']:
  """Return the task of a configuration, which depends on what the splits of its corpus hold.

  For an unknown kind of corpus it is translation, whose corpus record reports the mistake.
  """
  return TASKS[loading.holds(config['data']['kind']) or 'pairs']


class Task(abc.ABC):
  """One run's task. Making it reads and tokenises the text; nothing is computed on devices yet."""

  name: ClassVar[str]
  texts: ClassVar[str]  # what its corpora hold, for people and as the key of TASKS: 'pairs'
  has_attention: ClassVar[bool] = True  # whether the attention on its validation text can be recorded
  reports: ClassVar[bool] = False  # whether inspect() tells what training would read
  compiles_ahead: ClassVar[bool] = True  # whether its batches and objective are known without text, see compiling.py
  rows: ClassVar[str]  # what a row of a batch holds, for people
  architectures: ClassVar[tuple[str, ...]]  # values of model.architecture that can be trained for it
  measure: ClassVar[Measure]  # the validation metric that ranks checkpoints
  corpus_record: ClassVar[type] = loading.CorpusConfig  # the record made from the section `data`
  own_options: ClassVar[tuple[str, ...]] = ()  # options that have no effect in other tasks, by dotted name
  batched_scores: ClassVar[bool] = False  # whether score() asks for sums over a test set, in batches of a plan
  references: ClassVar[bool] = False  # whether its answers may be compared with reference texts
  line_by_line: ClassVar[bool] = False  # whether answers depend on their line alone, so that lines can be piped
  progress: Callable[[int], object] = staticmethod(lambda finished: None)  # see Evaluated in training/evaluation.py
  outputs: ClassVar[str]  # end of the name of the file in samples/ with the model's outputs for a test set
  invitation: ClassVar[str]  # to try decode.py: 'Translate a sentence'
  own_text: ClassVar[str]  # the options of train.py to train on the user's own text

  def __init__(self, setup: Setup, folder: RunFolder):
    """Read the text, make or read the vocabularies, tokenise, plan the batches.

    Args:
      setup: the run's options.
      folder: where vocabularies, token stores and fingerprints are kept.

    Raises:
      ConfigError, DataError: when text or options do not fit.
    """
    self.setup, self.folder = setup, folder
    self.corpus = self.read_corpus()
    self._report_corpus()
    self.source, self.target = self._vocabularies()
    with config_errors():
      self.model = self.build_model(architectures.build(setup.sized(self.source.size, self.target.size)))
    self.batches = self.plan(self.corpus.train, shapes.weighed(setup, folder, self.model), shuffle=True)
    self.setup = shapes.settle(setup, folder, self.batches)
    self.heldout_plan = functools.cache(self._heldout_plan)
    with config_errors():
      plans = self.batches, self.heldout_plan(self.corpus.validation)
      models.check_length(self.model, max(max(shape.source, shape.target) for plan in plans for shape in plan.shapes))
    folder.check_stores({store.fingerprint: store.sums for store in self._stores()}, record=peers.is_main())

  # -------------------------------------------------------------------------------------- what each task fills in

  @classmethod
  def mistakes(cls, setup: Setup) -> Iterator[str]:
    """Yield a sentence for each conflict between options, beyond what each record checks."""
    yield from ()

  @classmethod
  def idle(cls, setup: Setup) -> Mapping[str, str]:
    """Return the options, or sections of them, that have no effect in this task, with the reason."""
    return {}

  @abc.abstractmethod
  def read_corpus(self) -> Any:
    """Return the corpus: train, validation, tests, name, notes, suggestions, labels."""

  def vocabulary_text(self) -> Iterable[Pair]:
    """Return the training text that vocabularies are made from: the training pairs; text of one language as sources."""
    return self.corpus.train

  def build_model(self, model: models.Model) -> models.Model:
    """Return the model to train, made from the architecture's model."""
    return model

  @abc.abstractmethod
  def plan(self, split: Any, batches: input_pipeline.BatchConfig, shuffle: bool) -> input_pipeline.Plan:
    """Return the batch plan of a split; training's is shuffled, and may be sampled anew in each epoch."""

  @abc.abstractmethod
  def evaluate(self, params: Any, sums: Sums, step: int) -> Evaluation:
    """Return figures and samples on validation text.

    Args:
      params: whole, as this process alone holds them: each computes its figures by itself.
      sums: of loss, tokens and hits over the validation split.
      step: updates done, which decides the example on the terminal.
    """

  def compilations(self, params: Any) -> Iterator[Callable[[], object]]:
    """Return calls that each compile a program that evaluate() will run, so that it need not wait for them.

    Args:
      params: the shapes of the parameters, as ShapeDtypeStructs.
    """
    del params
    return iter(())

  @abc.abstractmethod
  def score(self, params: Any, split: Any, sums_of: Callable[[Any, Any], Sums]) -> Score:
    """Return the final figures on one held-out split.

    Args:
      params: replicated on every device.
      split: one of self.examined.
      sums_of: (params, split) -> sums of loss, tokens and hits over it.
    """

  @classmethod
  @abc.abstractmethod
  def describe(cls, results: Mapping[str, Any]) -> str:
    """Return the figures that score() found as text for people; `results` as in results.json."""

  @classmethod
  @abc.abstractmethod
  def load(cls, folders: Sequence[RunFolder], wanted: Sequence[str] = ('final',), search: Mapping[str, Any] | None = None,
           n_best: int = 1) -> Any:
    """Return a trained run, ready for lines of text.

    Args:
      folders: the run's; several are an ensemble, where the task supports ensembles.
      wanted: checkpoints, one for all runs or one for each: 'final', 'best', 'latest', 'average:N' or a step; see
        trained.chosen_steps.
      search: the options of the section `search` that take the place of the run's own.
      n_best: how many answers to a line are wanted.

    Raises:
      ConfigError, CheckpointError: when a run has no such checkpoint, or does not fit the others.
    """

  @classmethod
  @abc.abstractmethod
  def answering(cls, folders: Sequence[RunFolder], options: DecodeOptions, setup: Setup, say: Callable[[str], Any]) -> Answers:
    """Return the Answers of decode.py: what answers lines as its options ask.

    Args:
      folders: the runs', as load() takes them.
      options: those of decode.py; options for translations alone were already refused for other tasks.
      setup: the (first) run's.
      say: called with notes that the user should read beforehand.
    """

  def adopt(self, wanted: Any, fresh: Any) -> Any:
    """Return the parameters to start from, read from the run that init_from names.

    Args:
      wanted: shapes and shardings of all parameters.
      fresh: newly initialised ones.
    """
    del fresh
    return best_params(self.setup.places.init_from, wanted, self.fingerprints)

  def notes(self) -> Iterator[str]:
    """Yield what a user should know of the held-out text before training, a sentence each."""
    yield from ()

  def watchable(self) -> list[tuple[str, str]]:
    """Return validation texts, (source or '', target), whose attention can be recorded; see has_attention."""
    return []

  def inspect(self) -> Iterator[str]:
    """Yield what training would read, line by line; see reports."""
    yield from ()

  # ------------------------------------------------------------------------------------------ what all tasks share

  def objective(self) -> training.Objective:
    """Return the loss that training minimises."""
    return training.build_objective(self.model, self.setup.loss, self.target.bos_id, self.setup.consistency)

  def evaluation_objective(self) -> training.Objective:
    """Return the loss that is measured on held-out text, from float32 logits."""
    exact = dataclasses.replace(self.setup.loss, logits_dtype='float32')
    return training.build_objective(self.model, exact, self.target.bos_id)

  @property
  def examined(self) -> tuple[Any, ...]:
    """The splits that are scored at the end: the test sets, or the validation split where there are none."""
    return self.corpus.tests or (self.corpus.validation,)

  def outputs_of(self, split: Any) -> str:
    """Return the name of the file in samples/ with what the model wrote for a split; no other split has the same."""
    names = (re.sub(r'\W+', '_', other.name).strip('_') for other in self.examined[1:])
    stem = next(stem for stem, other in zip(distinct(['test', *names]), self.examined) if other is split)
    return f'{stem}_{self.outputs}'

  @property
  def text_folder(self) -> str:
    """The folder of tokenised text: the run's own on its disk, or one that runs share."""
    if not self.setup.places.cache_dir and self.folder.data == self.folder.epochs:
      return self.folder.data
    return self._shared(self.setup.places.cache_dir or self.folder.data)

  def _shared(self, folder: str) -> str:
    """Return where runs share what is made of this text: text of which Pythons keep other pairs has a place for each outcome."""
    kept = getattr(self.corpus.train, 'kept', '')
    return os.path.join(folder, f'kept_{hashlib.sha256(kept.encode()).hexdigest()[:20]}') if kept else folder

  @property
  def fingerprints(self) -> list[str]:
    """The fingerprints of the vocabularies, source and target."""
    return [self.source.fingerprint, self.target.fingerprint]

  def verify(self, seconds: float | None = None) -> bool:
    """Return whether the training tokens on disk were found, within `seconds`, to be those that were written.

    Raises:
      DamagedError: when they are not.
    """
    return self.batches.store is None or self.batches.store.verify(seconds)

  def _heldout_plan(self, split: Any) -> input_pipeline.Plan:
    plan = self.plan(split, self.setup.batches.for_evaluation(), shuffle=False)
    if plan.store is not None:
      plan.store.verify()
    return plan

  def _stores(self) -> list[Store]:
    """Return the token stores that training and validation read."""
    plans = self.batches, self.heldout_plan(self.corpus.validation)
    return [plan.store for plan in plans if plan.store is not None]

  def _report_corpus(self) -> None:
    """Print the size of each split, and check that it is the text that the run was begun with."""
    corpus, folder = self.corpus, self.folder
    splits = [corpus.train, corpus.validation, *corpus.tests]
    print(f'Corpus {corpus.name}: ' + ', '.join(f'{split.name} {split.extent}' for split in splits))
    for note in corpus.notes:
      print(f'  {note}')
    hashes = environment.texts_by_name(splits)
    folder.check_data(hashes, {split.name: split.fingerprint for split in splits})
    if peers.is_main():
      folder.record_environment(environment.environment(jax.devices(), hashes))
      folder.write_json(folder.suggestions, corpus.suggestions)
      folder.write_json(folder.labels, corpus.labels)

  def _vocabularies(self) -> tuple[Vocabulary, Vocabulary]:
    """Return the run's vocabularies: its own, those of the run it starts from, those supplied, or newly trained."""
    options, init_from = self.setup.vocabulary, self.setup.places.init_from
    keep = vocabularies.keeper(self.text_folder, options, self.corpus.train.fingerprint)
    if not self.folder.has(self.folder.words):
      words = (word for pair in self.vocabulary_text() for word in vocabularies.words(pair.source))
      self.folder.write(self.folder.words, vocabularies.word_counts(words, keep))
    if not self.folder.has_vocabularies():
      if init_from:
        source, target = vocabularies_of(self.setup, init_from)
        found = source.model, None if source is target else target.model
      else:
        print(f'Making the vocabulary ({options.kind}, {options.size:,} entries) …', flush=True)
        found = vocabularies.make(options, self.vocabulary_text(), keep)
      self.folder.save_vocabularies(*found)
    source, target = self.folder.load_vocabularies()
    if not self.folder.read_config()['init_from']:  # which goes before models that are supplied
      self._check_supplied(source, target)
    return source, target

  def _check_supplied(self, source: Vocabulary, target: Vocabulary) -> None:
    """Raise ConfigError when the files of supplied models, where they are still there, are not those of the run."""
    for name, own in (('source_model', source), ('target_model', target)):
      path = getattr(self.setup.vocabulary, name)
      if path and files.of(path).is_file(path) and vocabularies.read_model(path) != own.model:
        raise ConfigError(f'config.vocabulary.{name} is {path!r}, which holds another vocabulary than {self.folder.path} was '
                          'begun with; give that one, or another --workdir')


def only_run(folders: Sequence[RunFolder], wanted: Sequence[str]) -> tuple[RunFolder, str]:
  """Return the one folder and checkpoint. Raises ConfigError when there are several: only translation has ensembles."""
  if len(folders) > 1 or len(wanted) > 1:
    raise ConfigError(f'--workdir names {len(folders)} runs and --checkpoint {len(wanted)}; ensembles are for '
                      'translations: expected one of each')
  return folders[0], wanted[0]


def best_params(workdir: str, wanted: Any, fingerprints: Sequence[str]) -> Any:
  """Return the parameters of a run's best checkpoint.

  Args:
    workdir: the folder of that run.
    wanted: the shapes expected.
    fingerprints: those of the vocabularies that they are to be used with, source and target.

  Raises:
    CheckpointError: when their shapes differ from `wanted`, or they were trained with other vocabularies.
  """
  with best_of(workdir) as (checkpoints, best):
    checkpoints.check_vocabularies(best, fingerprints)
    return checkpoints.average([best], wanted)


@contextlib.contextmanager
def best_of(workdir: str) -> Iterator[tuple[Checkpoints, int]]:
  """Give the checkpoints of the run that init_from names, and the best one's step; CheckpointErrors of the block name it.

  With several processes all have to call it, and what reads checkpoints in the block: Orbax lets them meet.
  """
  folder = RunFolder.open(workdir)
  checkpoints = Checkpoints(folder.checkpoints, measure=task_of(folder.read_config()).measure)
  try:
    best, = checkpoints.resolve('best')
    yield checkpoints, best
  except CheckpointError as error:
    raise type(error)(f'--init_from={workdir}: {error}') from None


def vocabularies_of(setup: Setup, workdir: str) -> tuple[Vocabulary, Vocabulary]:
  """Return those of the run to start from. Raises ConfigError when a run's options do not fit them."""
  source, target = RunFolder.open(workdir).load_vocabularies()
  if setup.model.share_embeddings and not marian_vocabulary.share_ids(source, target):
    raise ConfigError(f'config.model.share_embeddings is True, but {workdir} has a vocabulary for each language; '
                      'set model.share_embeddings=False, as that run has')
  if lacking := set(setup.vocabulary.tags) - {*source.pieces(range(source.size))}:
    raise ConfigError(f'config.vocabulary.tags has {", ".join(sorted(lacking))}, and the vocabulary of {workdir} has no such entry; '
                      'leave it out, or start from a run that was trained with it')
  return source, target


def tokenising(total: int, unit: str) -> Callable[[Iterable], Iterator]:
  """Return a function that wraps the iterator over a split in a progress bar, while the split is tokenised."""
  return functools.partial(shown, what='tokenising', unit=unit, total=total)
