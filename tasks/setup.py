"""From a configuration, of a new run or in a run's folder, to records: the only place that makes records of sections.

All mistakes are reported together, before any file is read or made. Code that gets the records sees no configuration.
"""

import contextlib
import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from batching.shapes import MOST, ROWS
from checks.errors import ConfigError
from corpora import cleaning, labelled, split_files, subword_sampling
from corpora import vocabulary as vocabularies
from corpora.config import HELD_OUT_BY_SEED, KINDS
from corpora.vocabulary import Vocabulary
from input_pipeline import BatchConfig
from options.flags import folder_mistakes
from options.sections import Gathering, gather_errors
from options.train_options import TrainOptions
from tasks.records import DecodingConfig, ModelRecord, PlacesConfig, Setup
from tasks.task import TASKS, Task, task_of
from training.evaluation import EvaluationConfig
from training.loop import LoopConfig
from training.run_folder import RunFolder
from training.supervision import GuardConfig
from transformer import optimizer as optimizers
from transformer.config import (
  ArchitectureConfig,
  ClassificationConfig,
  ConsistencyConfig,
  LossConfig,
  MeshConfig,
  OptimizerConfig,
  RecurrentConfig,
)
from transformer.registries import ARCHITECTURES
from transformer.search import SearchConfig

Config = Mapping[str, Any]  # a configuration as nested dictionaries
_SEEDS = 2 ** 63  # numbers that every generator takes
# Options of a vocabulary that is made, which a run that starts from another one has not. Its tags are compared.
_NOT_OF_A_START = ('size', 'byte_fallback', 'dummy_prefix', 'control_symbols', 'source_model', 'target_model')


def read(options: TrainOptions) -> Setup:
  """Return the records of the run that train.py's options describe. Raises ConfigError naming every mistake."""
  setup = records(options.config, options.given)
  if options.compile_for and not TASKS[setup.task].compiles_ahead:
    raise ConfigError(f'--compile_for is for translators and language models; data.kind {setup.corpus.kind!r} holds '
                      f'{setup.task}: leave it out')
  if options.inspect and not TASKS[setup.task].reports:
    raise ConfigError(f'--inspect is for pairs; data.kind {setup.corpus.kind!r} holds {setup.task}: leave it out')
  if setup.places.init_from:
    check_held_out('config.init_from', setup.places.init_from, options.config)
    _check_vocabulary_of(setup.places.init_from, options)
  text, programs = setup.places.cache_dir, setup.places.compile_cache
  if text and '://' in text:
    raise ConfigError(f'--config.data.cache_dir={text}: expected a folder on a disk, of which token stores are mapped into memory')
  for name, place in (('data.cache_dir', text), ('compile_cache', programs)):
    if place and '://' not in place:  # jax keeps programs in buckets, too
      for mistake in folder_mistakes(f'config.{name}', place, is_written=False):  # one that other runs have filled may be read-only
        raise ConfigError(mistake)
  return setup


def check_held_out(option: str, workdir: str, config: Config) -> None:
  """Raise ConfigError when another run has trained on what this one tests with: on one file, of which it holds out other lines.

  Args:
    option, workdir: the option that names the other run's folder, and its value.
    config: this run's.
  """
  folder, data = RunFolder(workdir), config['data']
  if data['kind'] not in HELD_OUT_BY_SEED or not folder.has(folder.config):
    return
  theirs, path = folder.read_config(), KINDS[data['kind']].needs
  place = lambda other: os.path.realpath(str(other['data'][path]))
  held = lambda other: (other['seed'], other['data']['heldout'])
  if theirs['data']['kind'] == data['kind'] and place(theirs) == place(config) and held(theirs) != held(config):
    raise ConfigError(f'--{option}={workdir} has held out other lines of {data[path]}: seed and data.heldout are {held(theirs)} there '
                      f'and {held(config)} here, so that it has trained on lines that this run is tested with; give the same, or '
                      f'make a file for each split once, and take data.kind={HELD_OUT_BY_SEED[data["kind"]]}')


def _check_vocabulary_of(workdir: str, options: TrainOptions) -> None:
  """Raise ConfigError when options were given that the vocabulary of the run to start from was not made with."""
  folder = RunFolder(workdir)
  theirs = folder.read_config()['vocabulary'] if folder.has(folder.config) else {}
  for name in (name for name in _NOT_OF_A_START if f'vocabulary.{name}' in options.given and name in theirs):
    if (own := options.config['vocabulary'][name]) != theirs[name]:
      raise ConfigError(f'config.vocabulary.{name} is {own!r}, and has no effect: the vocabulary is that of {workdir}, which '
                        f'init_from names, where it is {theirs[name]!r}; leave it out, or train anew')


def check_one_vocabulary(vocabularies: Mapping[str, tuple[Vocabulary, Vocabulary]]) -> None:
  """Raise ConfigError unless runs, by their folders, have the same (source, target) vocabularies, as an ensemble needs."""
  known = {path: [each.fingerprint for each in both] for path, both in vocabularies.items()}
  first = next(iter(known))
  if other := next((path for path in known if known[path] != known[first]), None):
    raise ConfigError(f'{other} has another vocabulary than {first}; the models of an ensemble have to share one '
                      '(--config.init_from, or vocabulary.source_model)')


def of_folder(folder: RunFolder, search: Mapping[str, Any] | None = None, n_best: int = 1) -> Setup:
  """Return the records of a run from its folder, which may come from elsewhere: its caches are not the user's.

  Args:
    folder: the run's.
    search: options of the section `search` that take the place of the run's own.
    n_best: translations wanted of each line; given with each request, so not an option of the run.

  Raises:
    ConfigError: naming every mistake; an option of `search` that has no effect is one.
  """
  config, search = folder.read_config(), dict(search or {})
  config = config | {'search': config['search'] | search, 'compile_cache': None,
                     'data': config['data'] | {'cache_dir': None}}
  with as_search_flags():
    return records(config, [f'search.{name}' for name in search], n_best)


@contextlib.contextmanager
def as_search_flags() -> Iterator[None]:
  """Let a ConfigError of the block name options of the search as the flags --search.… and --n_best."""
  try:
    yield
  except ConfigError as error:
    text = str(error).replace('config.search: n_best', '--n_best').replace('config.search.', '--search.')
    raise ConfigError(text) from None


def records(config: Config, given: Sequence[str] = (), n_best: int = 1) -> Setup:
  """Return the records of a configuration.

  Args:
    config: resolved; exactly one of train.num_steps, num_epochs and num_minutes is set.
    given: dotted names of the options that the user set; one that has no effect is a mistake.
    n_best: see of_folder.

  Raises:
    ConfigError: naming every mistake.
  """
  with gather_errors(config) as build:
    data, train = config['data'], config['train']
    task = task_of(config)
    model = model_record(build, config)
    setup = Setup(
        saved=config,
        seed=config['seed'],
        task=task.texts,
        corpus=build(task.corpus_record, data, seed=config['seed']),
        cleaning=build(cleaning.CleaningConfig, data, mix=tuple(data['mix'])),
        vocabulary=build(vocabularies.VocabularyConfig, config['vocabulary']),
        sampling=build(subword_sampling.SamplingConfig, data, vocabulary_kind=config['vocabulary']['kind']),
        batches=build(BatchConfig, data, batch_tokens=train['batch_tokens'],
                      accumulation_steps=train['accumulation_steps'], training=None,
                      row_multiple=ROWS if data['row_multiple'] is None else data['row_multiple'],
                      max_shapes=MOST if data['max_shapes'] is None else data['max_shapes']),
        model=model,
        loss=build(LossConfig, train),
        consistency=build(ConsistencyConfig, train, dropout=largest_dropout(model)),
        classification=build(ClassificationConfig, train, outputs=2, answers=labelled.has_answers(data['task'])),
        optimizer=build(OptimizerConfig, config['optimizer'], d_model=config['model']['d_model'],
                        length_known=train['num_minutes'] is None),
        search=build(SearchConfig, config['search'], n_best=n_best),
        decoding=build(DecodingConfig, config['search']),
        mesh=build(MeshConfig, config['mesh'], compile=config['compile']),
        guards=build(GuardConfig, train),
        loop=build(LoopConfig, train),
        evaluation=build(EvaluationConfig, train),
        places=build(PlacesConfig, config, 'config.data', cache_dir=data['cache_dir'], num_threads=data['num_threads']))
    build.mistakes[:0] = idle_options(setup, given)
    build.mistakes += mistakes(setup, task)
  return setup


def model_record(build: Gathering, config: Config) -> ModelRecord | None:
  """Return the record of the configured architecture, with the configured vocabulary size; None when refused."""
  chosen = build(ArchitectureConfig, config['model'])
  if chosen is None:
    return None
  record, size = ARCHITECTURES[chosen.architecture].record, config['vocabulary']['size']
  name = 'recurrent' if config['recurrent'].keys() & fields(record) else 'model'
  return build(record, config['model'] | config['recurrent'], name=f'config.{name}', vocab_size=size,
               target_vocab_size=size)


def fields(record: type) -> set[str]:
  """Return the names of a record's fields."""
  return {field.name for field in dataclasses.fields(record)}


def largest_dropout(model: ModelRecord | None) -> float:
  """Return the largest dropout rate in a model's record; 1.0 for a record that was refused."""
  return max(getattr(model, name) for name in fields(type(model)) if name.endswith('dropout')) if model else 1.0


def mistakes(setup: Setup, task: type[Task]) -> Iterator[str]:
  """Yield a sentence for each conflict between records, as far as it shows where one of them was refused."""
  config = setup.saved
  if not 0 <= config['seed'] < _SEEDS:
    yield f'config.seed is {config["seed"]}; expected 0 or more, and less than {_SEEDS}'
  architecture, kind = config['model']['architecture'], config['data']['kind']
  if setup.model and architecture not in task.architectures:
    yield (f'config.model.architecture is {architecture!r}, but data.kind {kind!r} is text for '
           f'{task.name.replace("_", " ")}; expected {" or ".join(task.architectures)}')
  if task.texts != 'pairs' and setup.cleaning not in (None, cleaning.CleaningConfig()):
    yield (f'config.data: filters, tag and mix are for pairs, and kind {kind!r} holds {task.texts}; leave '
           'the options from max_characters to mix at their defaults')
  split = config['data']['train_split']
  if setup.cleaning and setup.cleaning.mix and not split_files.is_within(split):
    yield (f'config.data.train_split is {split!r}, and each folder of data.mix is looked for text of that name, which is '
           'the same text again; expected a name within data.directory')
  if setup.evaluation and setup.evaluation.watch_attention is not None and not task.has_attention:
    yield (f'config.train.watch_attention is {setup.evaluation.watch_attention!r}; it is for translators and language '
           f'models, and data.kind {kind!r} holds {task.texts}')
  if setup.loss and setup.loss.loss_chunks > 1:
    if setup.consistency and setup.consistency.consistency != 'none':
      yield (f'config.train.loss_chunks is {setup.loss.loss_chunks}, and train.consistency '
             f'{setup.consistency.consistency!r} compares all logits of two passes; expected one of loss_chunks=1 and '
             'consistency=none')
    if isinstance(setup.model, RecurrentConfig):
      yield (f'config.train.loss_chunks is {setup.loss.loss_chunks}; the recurrent models compute their logits in one '
             'piece: expected 1')
  if setup.loop and setup.loop.num_steps and setup.optimizer:  # epochs become steps once the text is read
    try:
      optimizers.learning_rate(setup.optimizer, setup.loop.num_steps)
    except ValueError as error:
      yield str(error)
  with contextlib.suppress(AttributeError):  # from a record that was refused, which is reported already
    yield from task.mistakes(setup)


def idle_options(setup: Setup, given: Iterable[str]) -> Iterator[str]:
  """Yield a sentence for each option that the user set and that has no effect beside the others."""
  config, reasons = setup.saved, idle(setup)
  architecture = config['model']['architecture']
  known = fields(type(setup.model)) | {'architecture'} if setup.model else None
  for name in given:
    section, _, option = name.partition('.')
    if section in ('model', 'recurrent') and known is not None and option not in known:
      yield (f'config.{name} has no effect: model.architecture is {architecture!r}, which has no such option; leave it '
             'out, or choose another architecture')
    elif reason := reasons.get(section) or reasons.get(name):  # a section without effect goes first
      yield f'config.{name} has no effect: {reason}; leave it out'


def idle(setup: Setup) -> dict[str, str]:
  """Return the options that have no effect beside the others, by dotted name, each with the reason and the remedy."""
  reasons: dict[str, str] = {}
  task = TASKS[setup.task]
  sections = {'data': (setup.corpus, setup.sampling, setup.batches), 'vocabulary': (setup.vocabulary,),
              'model': (setup.model,), 'train': (setup.loss, setup.consistency), 'optimizer': (setup.optimizer,),
              'search': (setup.search,)}
  for section, taken in sections.items():
    for record in filter(None, taken):
      reasons |= {f'{section}.{name}': f'{section}.{reason}' for name, reason in record.idle().items()}
  if batch_tokens := reasons.pop('data.batch_tokens', None):  # a field of BatchConfig, and an option of `train`
    reasons['train.batch_tokens'] = batch_tokens
  if setup.cleaning and setup.cleaning.mix:  # whose folders have it for the name of their files
    reasons.pop('data.train_split', None)
  for other in TASKS.values():
    reasons |= {name: f'data.kind is {setup.saved["data"]["kind"]!r}; only kinds that hold {other.texts} use it'
                for name in other.own_options if name not in task.own_options}
  return reasons | dict(task.idle(setup))
