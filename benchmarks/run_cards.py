"""Cards of finished runs: what has to be known of a figure, in a small file that is kept beside the code.

A card is made from a run's folder (`python -m benchmarks.ledger add RUN`) and never by hand. It names the shipped
configuration that was run, and all options in which the run differs from configs/default.py; so what a run has in common
with a configuration is found again when that configuration changes. Paths outside of the repository are shortened to
their last part, "…/multi30k".
"""

import collections
import dataclasses
import functools
import hashlib
import json
import os
import pathlib
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from checks.errors import ConfigError, DamagedError
from configs import default
from corpora.config import KINDS, PATHS
from options.configurations import CONFIGS, leaves, load_config, shipped_variants, with_options
from sweeps.finished_rows import finished_run
from sweeps.table import NOT_COMPARED
from training.environment import starts_of
from training.finished import changed_since, has_reached_its_end
from training.json_files import as_json, as_written, read_json
from training.run_folder import RunFolder

FOLDER = pathlib.Path(__file__).resolve().parent / 'cards'
# Options that change no result: where text and programs lie (the text itself is told by its hash), what is shown.
NOT_TOLD = (*NOT_COMPARED, *(f'data.{name}' for name in PATHS), 'data.validation_text', 'data.test_text', 'data.tfds_dir',
            'data.test_splits', 'data.num_threads', 'train.log_every', 'train.num_samples', 'train.watch_attention',
            'train.profile_steps', 'train.peak_tflops', 'train.stall_seconds', 'train.heartbeat_seconds')
# Of a start of a run, as environment.json has it: what later starts may have changed.
_OF_A_START = ('commit', 'uncommitted_changes', 'python', 'packages', 'platform', 'processor', 'cores', 'devices')
# A path that leads out of the repository, up to its last part. Its folders may have spaces; ' + ' joins the names of texts.
_OUTSIDE = re.compile(r'(?<![\w…./])(?:~\w*|\.\.)?/(?:(?:[^/\s,\'"()]| (?!\+))+/)*([^/\s,\'"()]+)')


@dataclasses.dataclass(frozen=True)
class Card:
  """What is kept of a finished run; its file is named by `name`."""

  config: str  # the shipped configuration, configs/<config>.py
  variant: str  # '' where the configuration's default has no name
  seed: int
  options: dict[str, Any]  # that differ from configs/default.py, by dotted name, but for NOT_TOLD
  command: str
  starts: list[dict[str, Any]]  # commit, versions and hardware of the first start, and of each that differs
  data: dict[str, Any]  # 'name', and 'texts': the hash of each split
  task: str
  measure: str  # the task's, a key of each set's scores
  scores: dict[str, dict[str, Any]]  # by test set, with their signatures
  step: int
  seconds: float  # by the run's clock: with compilation and evaluations, without the final scores
  training: dict[str, Any]  # parameters, averaged_steps, search, validation_perplexity, …
  sums: dict[str, str]  # SHA-256 of the run's files that this was read from
  text: str = ''  # of its name, where the card of a run on other text has the name without: the first digits of a hash

  @property
  def spec(self) -> str:
    """The configuration as --config takes it."""
    return f'configs/{self.config}.py' + (f':{self.variant}' if self.variant else '')

  @property
  def overrides(self) -> dict[str, Any]:
    """The options in which the run differs from the shipped configuration as it is now."""
    return _departures(self.options, self.config, self.variant)

  @property
  def name(self) -> str:
    """The name of its file: <config>-<variant>-<seed>.json, with overrides in between where there are any."""
    changes = '+'.join(f'{option.rpartition(".")[2]}_{value}' for option, value in self.overrides.items())
    if not re.fullmatch(r'[\w.+-]{0,60}', changes):
      changes = hashlib.sha256(json.dumps(self.overrides).encode()).hexdigest()[:8]
    return '-'.join(filter(None, [self.config, self.variant or 'default', changes, self.text, str(self.seed)])) + '.json'

  def named_by_text(self) -> 'Card':
    """Return the card with a name that a run on other text does not have."""
    return dataclasses.replace(self, text=hashlib.sha256(json.dumps(self.data['texts']).encode()).hexdigest()[:8])


def read_cards() -> dict[str, Card]:
  """Return all cards by the names of their files.

  Raises:
    DamagedError: when a file is no card.
    ConfigError: when a card is of a configuration that is no longer shipped.
  """
  cards, shipped = {}, shipped_variants()
  for path in sorted(FOLDER.glob('*.json')):
    try:
      card = cards[path.name] = Card(**read_json(str(path)))
    except TypeError as error:
      raise DamagedError(f'{path} is no card of a run: {error}; put it back from the repository, or make it again') from None
    if (card.config, card.variant) not in shipped:
      raise ConfigError(f'{path} is of {card.spec}, which is not among the shipped configurations; take the card out')
  return cards


def as_file(card: Card) -> str:
  """Return the text of a card's file."""
  return as_json({name: value for name, value in dataclasses.asdict(card).items() if name != 'text' or value})


def card_of(workdir: str) -> Card:
  """Return the card of a finished run.

  Raises:
    ConfigError: when the folder holds no run, or one that is not finished.
    DamagedError: when a file of the run is not what the run wrote.
  """
  folder = RunFolder.open(workdir)
  if not folder.has(folder.results):
    raise ConfigError(f'{workdir} is not finished: it holds no results.json, which train.py writes at the end of a run')
  config = folder.read_config()
  run = finished_run(folder, config['seed'])
  if not has_reached_its_end(run.results, config):
    raise ConfigError(f'{workdir} is not finished: results.json is of a run of {_lengths(run.results.get("length", {}))}, '
                      f'and config.json asks for {_lengths(config["train"])}; give its command again')
  if changes := changed_since(run.results, config):
    raise ConfigError(f'{workdir} is not scored with its options: {"; ".join(changes)}; give its command again')
  environment, results = run.environment, run.results
  options = {name: _shortened(value) for name, value in run.config.items()
             if value != _plain().get(name) and name not in NOT_TOLD}
  config_name, variant = _spec_of(environment.get('command', ()), options)
  scores = results.get('scores') or {results['test_set']: results}
  return Card(
      config_name, variant, config['seed'], options, _command(environment.get('command', ())),
      _starts(environment), {'name': _name_of_text(config), 'texts': _texts(environment, list(scores))},
      run.task.name, run.task.measure.name, {name: _small(found) for name, found in scores.items()},
      results['step'], round(results['seconds'], 1),
      {name: results[name] for name in ('parameters', 'averaged_steps', 'search', 'validation_perplexity',
                                        f'best_validation_{run.task.measure.name}', 'length') if name in results},
      {os.path.basename(path): folder.files.sum_of(path)
       for path in (folder.config, folder.environment, folder.results)})


@functools.cache
def of_shipped(config: str, variant: str) -> dict[str, Any]:
  """Return the options in which a shipped configuration differs from configs/default.py, but for NOT_TOLD."""
  spec = os.path.join(CONFIGS, f'{config}.py') + (f':{variant}' if variant else '')
  found = as_written(leaves(load_config(spec)))
  return {name: value for name, value in found.items() if value != _plain()[name] and name not in NOT_TOLD
          and not (name in default.DECIDED and value is None)}


@functools.cache
def _plain() -> dict[str, Any]:
  """Return the options of configs/default.py, as a run of it would have them."""
  return as_written(leaves(with_options(default.get_config().to_dict(), default.DECIDED)))


def _departures(options: Mapping[str, Any], config: str, variant: str) -> dict[str, Any]:
  """Return the options that differ from a shipped configuration, by name, but for what a run has decided itself."""
  theirs, plain = of_shipped(config, variant), _plain()
  value = lambda found, name: found.get(name, plain.get(name))
  return {name: value(options, name) for name in sorted(options.keys() | theirs.keys())
          if value(options, name) != value(theirs, name) and not (name in default.DECIDED and name not in theirs)}


def _spec_of(command: Sequence[str], options: Mapping[str, Any]) -> tuple[str, str]:
  """Return the shipped configuration and variant that a run is of.

  That which its command names; but another variant of it where the run departs from that one in nothing, as a run does
  that was started with overrides before the variant had its name. Without such a command, those most like its options.
  """
  shipped = shipped_variants()
  given = re.search(r'(?:^|\s)--?config[=\s](?:\S*/)?configs/(\w+)\.py(?::(\S*))?', ' '.join(command))
  variants = [variant for config, variant in shipped if given and config == given[1]]
  if variants:
    named = given[2] if given[2] in variants else variants[0]  # the default, or the folder of a run
    same = (variant for variant in (named, *variants) if not _departures(options, given[1], variant))
    return given[1], next(same, named)
  return min(shipped, key=lambda each: len(_departures(options, *each)))


def _starts(environment: Mapping[str, Any]) -> list[dict[str, Any]]:
  """Return commit, versions and hardware of a run's first start, and of each later one that differs in them."""
  found = []
  for start in starts_of(environment):
    kept = {name: start[name] for name in _OF_A_START if name in start}
    kept['devices'] = dict(collections.Counter(kept.get('devices', ())))
    if kept not in found:
      found.append(kept)
  return found


def _command(words: Sequence[str]) -> str:
  """Return the command line of a run without places outside of the repository."""
  if not words:
    return ''
  script, *rest = words
  rest = [re.sub(r'^(--?config=)\S*/(configs/)', r'\1\2', word) for word in rest]
  quoted = lambda word: word if shlex.quote(word.replace('…', '')) == word.replace('…', '') else shlex.quote(word)
  return ' '.join(['python', os.path.basename(script), *map(quoted, map(_shortened, rest))])


def _shortened(value: Any) -> Any:
  """Return a value without the folders of paths that lead out of the repository."""
  if isinstance(value, list):
    return [_shortened(each) for each in value]
  return _OUTSIDE.sub(r'…/\1', value) if isinstance(value, str) else value


def _texts(environment: Mapping[str, Any], scored: Sequence[str]) -> dict[str, str]:
  """Return the hash of each split that counts; what was mixed into one is named without its folders.

  Args:
    environment: of the run's first start, with the later ones: a test set may have come with any of them, and another
      have been given up.
    scored: names of the test sets of the results, in their order.
  """
  starts = [list(start['data'].items()) for start in starts_of(environment)]
  set_of = lambda name: re.sub(r' \(test \d+\)$', '', name)  # see environment.texts_by_name
  tests = {name: digest for start in starts for name, digest in start[2:] if set_of(name) in scored}
  found = [*starts[-1][:2], *sorted(tests.items(), key=lambda test: scored.index(set_of(test[0])))]
  return {_shortened(name): digest for name, digest in found}


def _name_of_text(config: Mapping[str, Any]) -> str:
  """Return what the text of a run is called: its kind, and the name of its file, folder or set."""
  data = config['data']
  kind = KINDS[data['kind']]
  name = data['tfds_name'] if data['kind'] == 'tfds' else os.path.basename(str(data[kind.needs] if kind.needs else '').rstrip('/'))
  return ' '.join(filter(None, [data['kind'], name]))


def _small(scores: Mapping[str, Any]) -> dict[str, Any]:
  """Return the scores of a test set without tables: numbers, texts, and groups of those."""
  plain = lambda value: value is None or isinstance(value, (str, int, float))
  return {name: value for name, value in scores.items()
          if plain(value) or isinstance(value, dict) and name != 'scores' and all(map(plain, value.values()))}


def _lengths(found: Mapping[str, Any]) -> str:
  return ' '.join(f'{name}={found[name]}' for name in ('num_steps', 'num_epochs', 'num_minutes')
                  if found.get(name) is not None) or 'no length'
