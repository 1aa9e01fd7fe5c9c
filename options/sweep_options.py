"""The options of sweep.py: its flags, the rows that they name, and the record that they become."""

import dataclasses
import difflib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from checks.errors import ConfigError
from corpora.config import HELD_OUT_BY_SEED
from options import parsing, search_ranges, train_options
from options.configurations import as_overrides, leaves, load_module
from options.flags import Flag, Value, at_home, folder_mistakes
from options.mistakes import listed
from options.programs import answering
from options.search_ranges import SearchOptions

FLAGS = (
    Flag('config', 'the configuration file whose variants are the rows: PATH.py', required=True),
    Flag('workdir', "the sweep's folder: a run in ROW/seed_N for each row and seed, and the table", required=True),
    Flag('rows', 'which rows, separated by commas; by default all that the file lists. Each is VARIANT, or with '
         'changes of your own NAME=VARIANT+option=value+…, or NAME=OTHER.py:VARIANT'),
    Flag('seeds', 'how many runs of each row, with the seeds 0, 1, …', int, 1),
    Flag('print', 'prints the command of each run, one a line, and runs nothing', bool, False),
    Flag('table', 'makes the table of the runs that are finished, and runs nothing', bool, False),
    Flag('by_length', 'also makes a table and a picture of BLEU by sentence length', bool, False),
    Flag('search', 'searches for the values of options with the lowest validation loss, by optuna: each trial is a run in '
         'trial_N/seed_0; of the one row that --rows names, or of the file\'s default', bool, False),
    Flag('ranges', 'with --search: where to search, option=log:LOW:HIGH, option=linear:LOW:HIGH or option=choice:A:B:…, '
         'separated by commas; by default SEARCH of the configuration file'),
    Flag('trials', 'with --search: how many trials there are in the end, those of earlier calls included', int, 20),
    Flag('whole_trials', 'with --search: trials that train to their end before any is stopped early, for a validation loss '
         'above the median of the others at the same step', int, 5),
    Flag('min_steps', 'with --search: updates that each trial makes before it may be stopped early; by default as many as the '
         'longest warm-up that is searched, since a longer one always looks worse at first', int, least=0),
    Flag('sampler_seed', 'with --search: decides which values are tried', int, 0, least=0),
)
_CHANGE = re.compile(r'\+(?=\s*[A-Za-z_]\w*(?:\.\w+)*\s*=)')  # a plus that begins option=value; another is part of a value
_OF_SEARCH = ('ranges', 'trials', 'whole_trials', 'min_steps', 'sampler_seed')


@dataclasses.dataclass(frozen=True)
class SweepRow:
  """One row of a sweep's table."""

  name: str  # also of its folder
  spec: str  # the value of --config: PATH.py:VARIANT
  overrides: tuple[str, ...]  # the row's own, then those for all rows, as train.py takes them
  given: tuple[str, ...]  # the options that they set, by dotted name
  config: Mapping[str, Any]  # with these overrides: nested dictionaries


@dataclasses.dataclass(frozen=True)
class SweepOptions:
  """The checked options of sweep.py."""

  path: str  # the configuration file
  rows: tuple[SweepRow, ...]
  seeds: int  # runs of each row, seeded 0, 1, …
  workdir: str
  print_commands: bool  # print the commands of the runs, and run nothing
  table_only: bool  # make the table, and run nothing
  by_length: bool  # also BLEU by sentence length
  order: tuple[str, ...]  # the rows of the configuration file, which say how a table is sorted
  published: Mapping[str, Mapping[str, float]]  # the configuration file's figures from the literature, by row
  search: SearchOptions | None = None  # of a search for values of options

  def with_values(self, rows: Mapping[str, Mapping[str, Any]]) -> 'SweepOptions':
    """Return the options of a sweep whose rows are the first of these, each with other values.

    Args:
      rows: values by the option's dotted name, by the row's name.

    Raises:
      ConfigError: when values are none of their options.
    """
    first = self.rows[0]
    return dataclasses.replace(self, rows=tuple(
        _row(name, first.spec, (*first.overrides, *as_overrides(values))) for name, values in rows.items()))


def parse(argv: Sequence[str], doc: str) -> SweepOptions:
  """Return the options of sweep.py. On --help or a mistake, print a text and end the program."""
  with answering(argv, doc, FLAGS, 'config'):
    values, _, shared, _ = parsing.parse(argv, FLAGS, 'config', _mistakes)
    module = load_module(values['config'])
    order = tuple(getattr(module, 'VARIANTS', ()))
    texts = _row_texts(values['rows'], () if values['search'] else order)
    rows, seeds = _resolve(texts, values['config'], shared), values['seeds']
    for kind, files in HELD_OUT_BY_SEED.items():
      if seeds > 1 and any(row.config['data']['kind'] == kind for row in rows):
        raise ConfigError(f'--seeds={seeds} with config.data.kind={kind}: which lines of the file are held out depends '
                          'on the seed, so that the scores of two seeds would not compare; make a file for each split '
                          f'of it once, and take config.data.kind={files}')
    return SweepOptions(
        path=values['config'], rows=rows, seeds=seeds, workdir=values['workdir'], print_commands=values['print'],
        table_only=values['table'], by_length=values['by_length'], order=order,
        published=getattr(module, 'PUBLISHED', {}),
        search=_search(values, rows[0], getattr(module, 'SEARCH', {})) if values['search'] else None)


def _search(values: Mapping[str, Value], row: SweepRow, of_file: Mapping[str, Sequence[Any]]) -> SearchOptions:
  """Return the options of a search. Raises ConfigError naming every mistake in its ranges."""
  texts = search_ranges.of_flag(values['ranges']) if values['ranges'] else search_ranges.of_file(of_file)
  if not texts:
    raise ConfigError(f'--search: {values["config"]} has no SEARCH that says where to search; give '
                      '--ranges=OPTION=log:LOW:HIGH,…')
  read = lambda option, text: leaves(_row('', row.spec, (*row.overrides, f'--config.{option}={text}')).config)[option]
  is_supplied = bool(row.config['vocabulary']['source_model'] or row.config['init_from'])
  ranges = search_ranges.resolve(texts, row.given, read, is_supplied)
  warmup = max((max(one.values) for one in ranges if one.option == 'optimizer.warmup_steps'), default=0)
  return SearchOptions(ranges, values['trials'], values['whole_trials'],
                       warmup if values['min_steps'] is None else values['min_steps'], values['sampler_seed'])


class _RowText(NamedTuple):
  """A row as it is written in --rows: [NAME=][FILE.py:]VARIANT[+option=value…]."""

  text: str
  name: str
  variant: str  # of the configuration file, or FILE.py:VARIANT; '' is the file's default
  changes: tuple[str, ...]  # option=value


def _row_texts(rows: str | None, order: Sequence[str]) -> list[_RowText]:
  texts = []
  for text in _listed_rows(rows) if rows else order or ['default=']:
    body, *changes = _CHANGE.split(text.strip())
    name, _, variant = body.rpartition('=')
    texts.append(_RowText(text, name or variant, at_home(variant), tuple(changes)))
  return texts


def _listed_rows(rows: str) -> list[str]:
  """Return the texts between commas; one within brackets or quotes is part of a value, unless these never end."""
  found, begin, depth, quote = [], 0, 0, ''
  for place, character in enumerate(f'{rows},'):
    if quote:
      quote = '' if character == quote else quote
    elif character in '"\'' and rows[:place].rstrip()[-1:] in tuple('=([{,:'):  # of a value, not an apostrophe
      quote = character
    elif character in '([{':
      depth += 1
    elif character in ')]}':
      depth -= 1
    elif character == ',' and depth <= 0:
      found.append(rows[begin:place])
      begin = place + 1
  return rows.split(',') if quote or depth > 0 else found


def _mistakes(values: Mapping[str, Value]) -> Iterator[str]:
  """Yield a sentence for each mistake in the rows of a sweep that their names show."""
  if '://' in (values['workdir'] or ''):
    yield f'--workdir={values["workdir"]}: expected a folder on a disk; a sweep and its table read the runs from there'
  elif values['workdir'] and not values['print']:  # the printed commands may be for another machine
    yield from folder_mistakes('workdir', values['workdir'])
  path, _, variant = (values['config'] or '').partition(':')
  if not os.path.isfile(path):
    return  # reported already
  if variant:
    yield (f'--config={values["config"]}: the rows of a sweep are variants; give the file alone: --config={path} '
           f'--rows={variant}')
    return
  yield from _mistakes_of_search(values)
  order = tuple(getattr(load_module(path), 'VARIANTS', ()))
  seen = set()
  for row in _row_texts(values['rows'], order):
    if not re.fullmatch(r'[A-Za-z0-9][\w\-]*', row.name) or row.changes and '=' not in row.text.partition('+')[0]:
      yield (f'--rows: {row.text!r} needs a name of its own (letters, digits, _ and -), which becomes its folder: '
             f'NAME={row.text}')
    if row.name in seen:
      yield f'--rows: two rows are called {row.name!r}; give one another name: NAME={row.variant}'
    seen.add(row.name)
    if order and row.variant and '.py' not in row.variant and row.variant not in order:
      spelt = {name.lower(): name for name in order}
      close = difflib.get_close_matches(row.variant.lower(), spelt, 1, 0.5)
      yield (f'--rows: {path} has no row {row.variant!r}; ' + (f'did you mean {spelt[close[0]]}? ' if close else '')
             + f'It has {", ".join(order)}' + '; options follow as +OPTION=VALUE' * ('+' in row.variant))


def _mistakes_of_search(values: Mapping[str, Value]) -> Iterator[str]:
  """Yield a sentence for each flag that has no effect with --search, or none without it."""
  if values['print'] and values['table']:
    yield '--print and --table do different things; give one of them'
  if not values['search']:
    defaults = {flag.name: flag.default for flag in FLAGS}
    yield from (f'--{name} has no effect without --search; give --search, too, or leave it out'
                for name in _OF_SEARCH if values[name] != defaults[name])
    return
  yield from (f'--{name} and --search do different things; give one of them' for name in ('print', 'by_length')
              if values[name])
  if values['seeds'] > 1:
    yield (f'--seeds={values["seeds"]} with --search: a trial is one run; compare what it finds with the configuration '
           'in a sweep of several seeds, whose command it prints')
  if values['rows'] and len(rows := _listed_rows(values['rows'])) > 1:
    yield f'--rows names {len(rows)} rows; a search is of one: give one of them'


def _resolve(texts: Sequence[_RowText], path: str, shared: Mapping[str, Any]) -> tuple[SweepRow, ...]:
  """Return each row with its whole configuration. Raises ConfigError naming every mistake of every row."""
  rows, errors = [], []
  for row in texts:
    spec = row.variant if '.py' in row.variant else f'{path}:{row.variant}'.rstrip(':')
    overrides = (*(f'--config.{change}' for change in row.changes), *as_overrides(shared))
    try:
      rows.append(_row(row.name, spec, overrides))
    except ConfigError as error:
      errors.append(f'row {row.name}: {error}')
  if errors:
    raise ConfigError(listed(errors))
  return tuple(rows)


def _row(name: str, spec: str, overrides: tuple[str, ...]) -> SweepRow:
  asked = train_options.read(['train.py', f'--config={spec}', '--workdir=.', *overrides])
  return SweepRow(name, spec, overrides, asked.given, asked.config)
