"""A run read from its folder: its records, its model with the parameters of a checkpoint, and a translator of it."""

import dataclasses
import os
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

import jax
import ml_collections

from checks.errors import ConfigError
from configs import default
from corpora.vocabulary import Vocabulary
from decoding.limits import check_attention, longest_source
from decoding.translator import Translator
from options import command_line
from training import hardware
from training.checkpoint import BLEU, Checkpoints, Measure
from training.run_folder import RunFolder, read_json
from transformer import architectures
from transformer.config import ArchitectureConfig, LanguageModelConfig, ModelConfig, RecurrentConfig
from transformer.model import Model
from transformer.search import SearchConfig

ModelRecord = ModelConfig | RecurrentConfig | LanguageModelConfig


_SHARED = ('d_model', 'num_layers', 'num_decoder_layers', 'dropout', 'share_embeddings', 'tie_output', 'initializer',
           'dtype')  # what a recurrent model takes from the section `model`


def _recurrent(build: Callable, config, **sizes: int) -> RecurrentConfig:
  shared = {name: config.model[name] for name in _SHARED if name in config.model}  # build() tells what is missing
  return build(RecurrentConfig, config.recurrent, **shared, **sizes)


# How each architecture's record is made from the sections of a configuration.
_RECORDS = {
    'transformer': lambda build, config, **sizes: build(ModelConfig, config.model, **sizes),
    'recurrent': _recurrent,
    'language_model': lambda build, config, **sizes: build(LanguageModelConfig, config.model, **sizes),
}


def _named(section: str, record: type) -> set[str]:
  return {f'{section}.{field.name}' for field in dataclasses.fields(record)}


# The options that each architecture has.
_OPTIONS = {
    'transformer': _named('model', ModelConfig),
    'recurrent': _named('recurrent', RecurrentConfig) | {f'model.{name}' for name in _SHARED},
    'language_model': _named('model', LanguageModelConfig),
}


def without_effect(config, given: Collection[str]) -> list[str]:
  """Mistakes in what a user asked for: options, by dotted name, that the configured architecture does not have, and
  those that another option leaves without a meaning."""
  architecture = config.model.architecture
  known = _OPTIONS.get(architecture, set(given)) | {'model.architecture'}  # an unknown one is a mistake of its own
  wrong = [f'config.{name} has no effect: model.architecture is {architecture!r}, which has no such option; '
           'leave it out, or choose another architecture'
           for name in given if name.startswith(('model.', 'recurrent.')) and name not in known]
  for options, switch, values, but in default.ACTS_WHEN:
    if (config[switch] in values) == but:
      remedy = 'something else' if but else ' or '.join(values)
      wrong += [f'config.{name} has no effect: {switch} is {config[switch]!r}; leave it out, or set {switch} to {remedy}'
                for name in given if name in options or name.partition('.')[0] in options]
  try:
    idle = command_line.build(SearchConfig, config['search'], n_best=1).idle()
  except ConfigError:  # told by whoever builds the record to use it
    idle = {}
  wrong += [f'config.search.{name} has no effect: search.{reason}; leave it out, or set '
            f'search.{reason.partition(" ")[0]} to something else'
            for name, reason in idle.items() if f'search.{name}' in given]
  return wrong


def check_asked(config, search_options: Iterable[str]) -> None:
  """Raises ConfigError when one of the options of decode.py changes nothing in a run of this configuration."""
  if wrong := without_effect(config, [f'search.{name}' for name in search_options]):
    raise ConfigError('\n  '.join(wrong).replace('config.search.', '--search.'))


def model_record(build: Callable, config, source_size: int, target_size: int) -> ModelRecord:
  """The model's record, of the type that config.model.architecture names.

  Args:
    build: command_line.build, or what gather_errors() gives.
    config: the run's configuration.
    source_size, target_size: entries of the vocabularies.
  """
  chosen = build(ArchitectureConfig, config.model)  # None when it is wrong and mistakes are gathered
  return chosen and _RECORDS[chosen.architecture](build, config, vocab_size=source_size, target_vocab_size=target_size)


def model_config(config, source_vocabulary, target_vocabulary) -> ModelRecord:
  """The model's record from a run's configuration and its vocabularies."""
  with command_line.gather_errors(config) as build:
    return model_record(build, config, source_vocabulary.size, target_vocabulary.size)


class Trained(NamedTuple):
  """A run's model with the parameters of a checkpoint, read from its folder."""

  config: ml_collections.ConfigDict  # the run's, search options replaced
  source: Vocabulary
  target: Vocabulary
  model: Model
  params: Any
  search: SearchConfig


def read_run(workdir: str, checkpoint: str, measure: Measure, search_options: dict[str, Any], n_best: int = 1) -> Trained:
  """What load() starts from, for any task.

  Args:
    measure: by which checkpoint 'best' is the best.
    workdir, checkpoint, search_options, n_best: see load.
  """
  folder = RunFolder.open(workdir)
  config = ml_collections.ConfigDict(folder.read_config())
  config.search.update(search_options)
  check_asked(config, search_options)
  source, target = folder.load_vocabularies()
  model = architectures.build(model_config(config, source, target))
  with command_line.gather_errors() as build:
    search_config = build(SearchConfig, config.search, n_best=n_best)
  checkpoints = Checkpoints(folder.checkpoints, measure=measure)
  wanted = jax.eval_shape(model.init, jax.random.key(0))
  params = checkpoints.average(chosen_steps(folder, checkpoints, checkpoint), wanted)
  return Trained(config, source, target, model, params, search_config)


def chosen_steps(folder: RunFolder, checkpoints: Checkpoints, wanted: str) -> list[int]:
  """The steps to average: 'final' are those that the run's results.json was scored with, else see resolve().

  A run without results, or one that went on after them, has no final steps: 'final' is its best then.
  """
  if wanted != 'final':
    return checkpoints.resolve(wanted)
  steps, there = (read_json(folder.results)['averaged_steps'] if os.path.isfile(folder.results) else []), checkpoints.steps()
  return steps if steps and steps[-1] == there[-1] and set(steps) <= set(there) else checkpoints.resolve('best')


def load(workdir: str, checkpoint: str = 'final', n_best: int = 1, **search_options) -> Translator:
  """A run, ready to translate: load('runs/phrasebook').translate(['The dog sleeps.'])[0].text

  Args:
    workdir: folder of a run; several, separated by commas, translate together as an ensemble.
    checkpoint: 'final' (those averaged for the run's results), 'best', 'latest', 'average:N' or a step; one for all
      runs, or as many as there are, separated by commas. Several of one run are an ensemble, too.
    n_best: translations of each line that are wanted; of what is asked for, so no option of a run.
    search_options: fields of SearchConfig that shall differ from the (first) run's own, and batch_tokens.

  Raises:
    ConfigError, CheckpointError: when a folder is no run or has no such checkpoint, or vocabularies differ.
  """
  folders, wanted = workdir.split(','), checkpoint.split(',')
  if len(folders) > 1 and len(wanted) > 1 and len(folders) != len(wanted):
    raise ConfigError(f'--workdir names {len(folders)} runs and --checkpoint {len(wanted)}; expected one '
                                   'checkpoint for all, or one for each')
  count = max(len(folders), len(wanted))
  runs = [read_run(folder, step, BLEU, search_options, 1 if number else n_best)  # the first run's search counts
          for number, (folder, step) in enumerate(zip(folders * (count // len(folders)), wanted * (count // len(wanted))))]
  first = runs[0]
  for folder, run in zip(folders, runs):
    if (run.source.fingerprint, run.target.fingerprint) != (first.source.fingerprint, first.target.fingerprint):
      raise ConfigError(f'{folder} has another vocabulary than {folders[0]}; the models of an ensemble '
                                     'have to share one (--config.init_from, or vocabulary.source_model)')
  made = Translator([run.model for run in runs], [run.params for run in runs], first.source, first.target, first.search,
                    hardware.search_tokens(first.config.search.batch_tokens))
  made.longest_trained = min(run.config.data.max_length for run in runs)
  return made


def check_model(model: Model, config: SearchConfig) -> None:
  """Raises ConfigError when a model cannot be searched so."""
  check_attention(model, config)
  longest_source(model, config)
