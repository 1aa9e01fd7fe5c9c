"""Whether a folder holds the finished run of a configuration, and the scores that belong to it."""

import math
import os
from collections.abc import Collection, Mapping
from typing import Any

from checks.errors import ConfigError, DamagedError
from options.configurations import LENGTHS, default_tree, leaves, with_options
from training import peers
from training.as_found import AsFound
from training.json_files import as_written, read_json
from training.loop import Loop, Progress
from training.run_folder import RunFolder, decisive, may_change
from training.saved_config import with_decided

# Options of which the final scores depend, and which may change when a run is finished: it is scored anew then.
_OF_SCORES = ('search.', 'train.average_last', 'data.test_splits')
# Options that may change when a run goes on, and decide what one learns that begins.
_OF_LEARNING = (*LENGTHS, 'init_from', 'vocabulary.source_model', 'vocabulary.target_model', 'train.patience')
# Options of the search that the greedy translations of evaluations take, too.
_OF_GREEDY_SEARCH = ('search.extra_length', 'search.min_length', 'search.no_repeat_ngram')
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


def check_goes_on(found: AsFound | None, config: Mapping[str, Any], loop: Loop, step: int, progress: Progress) -> None:
  """Raise ConfigError when a start would have told wrong scores of a run, or compared some that do not compare.

  Args:
    found: the run as this start found it; None: it is new.
    config: as it is asked for.
    loop, step, progress: of the run, and how far it is.
  """
  asked, before = leaves(as_written(config)), found.option if found else lambda name: None
  if loop.total_steps is not None and step > loop.total_steps:
    wanted = next(name for name in LENGTHS if asked[name] is not None)
    raise ConfigError(f'config.{wanted} is {asked[wanted]:g}, which ends at step {loop.total_steps:,}, and the run has trained '
                      f'for {step:,} steps, so that its scores would be told as those of less; expected '
                      f'--config.train.num_steps={step} or more, or another --workdir')
  minutes, known = asked['train.num_minutes'], before('train.num_minutes')
  if found and minutes and minutes < (known or math.inf) and progress.seconds >= 60 * minutes:
    length = next(f'--config.{name}={before(name):g}, as before' for name in LENGTHS if before(name) is not None)
    raise ConfigError(f'config.train.num_minutes is {minutes:g}, and the run has trained for {progress.seconds / 60:.1f} minutes, '
                      f'so that its scores would be told as those of less; expected {length}, or another --workdir')
  if step and not loop.is_over(step, progress):
    changed = [f'config.{name} was {before(name)!r} and is {asked[name]!r}' for name in _OF_GREEDY_SEARCH
               if before(name) not in (None, asked[name])]
    if changed:
      raise ConfigError(f'{"; ".join(changed)}: the run goes on, and validation scores from here on would not compare with those '
                        'before, by which the best checkpoint is known; give the same until it is over')


def keep_length(folder: RunFolder, results: Mapping[str, Any], loop: Loop) -> None:
  """Record in results.json for how long the run is asked to train now, by which it is over as well: it has lost patience, say."""
  if peers.is_main() and results.get('length', loop.length) != loop.length:
    folder.write_json(folder.results, {**results, 'length': loop.length})


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
