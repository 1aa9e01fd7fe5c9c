"""Whether a folder holds the finished run of a configuration, and the scores that belong to it."""

import math
import os
from collections.abc import Collection, Mapping
from typing import Any

from checks.errors import DamagedError
from options.configurations import LENGTHS, default_tree, leaves, with_options
from training.json_files import as_written, read_json
from training.run_folder import RunFolder, decisive, may_change
from training.saved_config import with_decided

# Options of which the final scores depend, and which may change when a run is finished: it is scored anew then.
_OF_SCORES = ('search.', 'train.average_last', 'data.test_splits')
# Options that may change when a run goes on, and decide what one learns that begins.
_OF_LEARNING = (*LENGTHS, 'init_from', 'vocabulary.source_model', 'vocabulary.target_model', 'train.patience')
_OF_EVALUATIONS = ('train.eval_every', 'train.first_eval')


def of_scores(config: Mapping[str, Any]) -> dict[str, Any]:
  """Return the options of a configuration that decide the final scores of a trained run, as results.json keeps them."""
  return {name: value for name, value in leaves(as_written(config)).items() if name.startswith(_OF_SCORES)}


def changed_since(results: Mapping[str, Any], config: Mapping[str, Any]) -> list[str]:
  """Return in words which options have changed since results.json was written, as far as it tells them."""
  now = of_scores(config)
  if 'options' in results:
    before = of_scores(default_tree().to_dict()) | results['options']  # an option that is newer had its default
  else:  # written by an earlier version
    before = now | {name: value for option, value in results.get('search', {}).items() if (name := f'search.{option}') in now}
  return [f'config.{name} was {before.get(name)!r} and is {value!r}' for name, value in now.items()
          if before.get(name) != value]


def differences(saved: Mapping[str, Any], config: Mapping[str, Any], idle: Collection[str] = ()) -> list[str]:
  """Return the options, by dotted name, for which the run of a saved configuration is not that of another one.

  Where text and programs lie, and how a step is computed, does not count; nor do options and sections without effect, `idle`.
  """
  before, asked = leaves(saved), leaves(with_decided(as_written(config), saved))
  counted = _OF_LEARNING
  if before['train.patience'] or asked['train.patience']:
    counted += *_OF_EVALUATIONS, 'train.eval_sentences'  # by which the run ends
  if max(before['train.average_last'], asked['train.average_last']) > 1:
    counted += *_OF_EVALUATIONS, 'train.checkpoint_every'  # which decide what is averaged
  counts = lambda name: not may_change(name) or name in counted or name.startswith(_OF_SCORES)
  return sorted(name for name in before.keys() | asked.keys() if counts(name)
                and name not in idle and name.partition('.')[0] not in idle
                and decisive(name, before.get(name)) != decisive(name, asked.get(name)))


def is_finished(folder: RunFolder, config: Mapping[str, Any]) -> bool:
  """Return whether a folder holds the final scores of exactly this configuration, trained for exactly this long.

  Args:
    folder: of the run, whether there is one or not.
    config: what its config.json will be, as written.
  """
  if not (os.path.isfile(folder.results) and os.path.isfile(folder.config)):
    return False
  try:
    saved = RunFolder.open(folder.path).read_config()
  except DamagedError:  # train.py says what can be made again
    return False
  wherever = lambda config: with_options(config, {'compile_cache': None})
  results = read_json(folder.results)
  return (wherever(saved) == wherever(with_decided(config, saved)) and has_reached_its_end(results, config)
          and not changed_since(results, config))


def has_reached_its_end(results: Mapping[str, Any], config: Mapping[str, Any]) -> bool:
  """Return whether results.json is of a run that trained for as long as its configuration says."""
  length = results.get('length', {})
  steps = config['train']['num_steps'] or math.inf  # earlier versions let a run be scored as a shorter one
  return bool(length) and results['step'] <= steps and all(config['train'][name] == value for name, value in length.items())
