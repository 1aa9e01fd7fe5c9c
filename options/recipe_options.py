"""The options of recipe.py: its flags, the overrides of its trainings and of its translations, and their record."""

import dataclasses
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from checks.errors import ConfigError
from corpora.config import language_tag
from options import parsing, train_options
from options.configurations import as_overrides
from options.flags import Flag, Value, at_home, folder_mistakes, names_in
from options.mistakes import listed
from options.programs import answering

_NUMBER = r'[0-9]+\.?[0-9]*|\.[0-9]+'
_LANGUAGE = rf'([A-Za-z][\w\-]*)(?:=(.*?[^*]))?(?:\*({_NUMBER}))?'
_WEIGHT = 'a number above 0 and below 1000'
_TRANSLATES = 'back_translate, distil: '
_FOR = {'back_translate': ('monolingual', 'reverse', 'tag', 'weight', 'search', 'keep', 'min_score'),
        'distil': ('teachers', 'n_best', 'real', 'search', 'keep', 'min_score'),
        'multilingual': ('languages',)}
_NEEDED = {'back_translate': 'monolingual', 'distil': 'teachers', 'multilingual': 'languages'}
FLAGS = (
    Flag('recipe', 'what is done', required=True, positional='one', choices={
        'back_translate': 'more training text by translating text of the target language back',
        'distil': 'a student learns what teachers translate', 'multilingual': 'one model into several languages'}),
    Flag('config', 'the configuration of the model to train: PATH.py or PATH.py:VARIANT', required=True),
    Flag('workdir', "the recipe's folder: its trained runs, the text that it makes, and card.json", required=True),
    Flag('print', 'begins the folder, prints the command of each stage, and runs nothing', bool, False),
    Flag('stage', 'runs this stage alone, as the commands of --print do'),
    Flag('monolingual', 'text of the target language, one sentence a line, plain or .gz (required)',
         only_for='back_translate'),
    Flag('reverse', 'a trained run from the target to the source language, in place of training one',
         only_for='back_translate'),
    Flag('tag', 'word in front of each synthetic source, such as <bt>, or none', default='none', only_for='back_translate',
         pattern=r'[^\s#*\'"]+', expected='a word without quotes, # and *, or none'),
    Flag('weight', 'times that each synthetic pair is read in an epoch; 0.5 reads half of them', default='1',
         only_for='back_translate', pattern=_NUMBER, expected=_WEIGHT),
    Flag('teachers', 'trained runs, separated by commas; several translate as an ensemble (required)', tuple,
         paths=True, only_for='distil'),
    Flag('n_best', 'takes, of this many translations of each line, the one most like the reference by sentence BLEU '
         '(sequence-level interpolation)', int, 1, only_for='distil'),
    Flag('real', 'trains on the real pairs, too', bool, False, only_for='distil'),
    Flag('search', f'{_TRANSLATES}how translations are searched for; by default as the translating run does', choices={
        'beam': 'beam search', 'sampling': "draws from the model's distribution"}),
    Flag('keep', f'{_TRANSLATES}share of the synthetic pairs that is kept, those that the translating model finds most '
         'likely per token', pattern=_NUMBER, expected='a share above 0, up to 1'),
    Flag('min_score', f'{_TRANSLATES}least log-probability per token of a synthetic pair that is kept, such as -1.5',
         pattern=rf'-?({_NUMBER})', expected='a number'),
    Flag('languages', 'the target languages, separated by commas, each CODE, or CODE=FOLDER where its text lies apart '
         'from config.data.directory, and *WEIGHT behind for times that its pairs are read in an epoch (required)', tuple,
         only_for='multilingual'),
)


class Language(NamedTuple):
  """A target language of a multilingual model."""

  code: str
  directory: str | None  # of its text; None: config.data.directory
  weight: float  # times that each of its pairs is read in an epoch

  @property
  def tag(self) -> str:
    """The word in front of each source that is to be translated into this language."""
    return language_tag(self.code)


@dataclasses.dataclass(frozen=True)
class RecipeOptions:
  """The checked options of recipe.py."""

  recipe: str  # back_translate, distil or multilingual
  spec: str  # the value of --config
  config: Mapping[str, Any]  # with the overrides: nested dictionaries
  given: Mapping[str, Any]  # the overrides alone, by dotted name
  workdir: str
  print_commands: bool
  stage: str | None  # the one to run
  monolingual: str | None  # path
  reverse: str | None  # folder of a run
  tag: str | None  # in front of synthetic sources
  weight: float  # of the synthetic pairs
  teachers: tuple[str, ...]  # folders of runs
  n_best: int
  real: bool  # whether a student learns from the real pairs, too
  keep: float | None  # share of the synthetic pairs
  min_score: float | None  # least log-probability per token
  languages: tuple[Language, ...]
  search: Mapping[str, Any]  # the given options of the section `search`, for translating
  typed: tuple[str, ...]  # the words of the command, without --print and --stage

  @property
  def flags(self) -> dict[str, Any]:
    """The recipe's own settings by the names of their flags, and those of its search, as JSON holds them."""
    own = {f'--{name}': getattr(self, name) for name in _FOR[self.recipe] if name != 'search'}
    return own | {f'--search.{name}': value for name, value in self.search.items()}


def parse(argv: Sequence[str], doc: str) -> RecipeOptions:
  """Return the options of recipe.py. On --help or a mistake, print a text and end the program."""
  with answering(argv, doc, FLAGS, 'config'):
    return read(argv)


def read(argv: Sequence[str]) -> RecipeOptions:
  """Return the options of recipe.py. Raises ConfigError naming every mistake."""
  words, searching = _apart(argv)
  errors, search, parsed = [], {}, None
  try:
    search = dict(parsing.parse([argv[0], *searching], (), 'search').given)
  except ConfigError as error:
    errors.append(str(error))
  try:
    parsed = parsing.parse(words, FLAGS, 'config', lambda values: _mistakes(values, words, search))
  except ConfigError as error:
    errors.append(str(error))
  if errors or parsed is None:
    raise ConfigError(listed(errors))
  values, given = parsed.values, parsed.given
  asked = train_options.read(['train.py', f'--config={values["config"]}', '--workdir=.', *as_overrides(given)])
  if strategy := values.pop('search'):
    found = {'beam': {'strategy': 'beam'}, 'sampling': {'strategy': 'sample', 'coverage_penalty': 0.0}}[strategy]
    search = {**found, **search}  # a coverage penalty of the runs' own is one of beams
  number = lambda name: None if values[name] is None else float(str(values[name]))
  taken = {name: values[name] for name in ('recipe', 'workdir', 'stage', 'monolingual', 'reverse', 'n_best', 'real')}
  return RecipeOptions(
      **taken, spec=str(values['config']), config=asked.config, given=given, print_commands=values['print'],
      tag=None if values['tag'] == 'none' else values['tag'],
      weight=float(str(values['weight'])), keep=number('keep'), min_score=number('min_score'),
      teachers=values['teachers'] or (), search=search,
      languages=tuple(map(language, values['languages'] or ())),
      typed=(str(values['recipe']), *(word for word in parsed.arguments if re.match('-', word) and not re.match(
          r'--?(print|stage)\b', word)), *searching))


def _apart(argv: Sequence[str]) -> tuple[list[str], list[str]]:
  """Return the words without the --search.… options, and these, each with its value in one word."""
  words, searching, rest = [], [], list(argv)
  while rest:
    word = rest.pop(0)
    if not re.match(r'--?(no)?search\.', word):
      words.append(word)
      continue
    if '=' not in word and rest and not re.match(r'--?[A-Za-z_]', rest[0]):
      word = f'{word}={rest.pop(0)}'
    searching.append(word)
  return words, searching


def language(text: str) -> Language:
  """Return a language of --languages as it is typed. Raises ValueError when it is malformed."""
  found = re.fullmatch(_LANGUAGE, text)
  weight = float(found[3] or 1) if found else 0.0
  if not found or not 0.0 < weight < 1000.0:
    raise ValueError(f'--languages has {text!r}; expected CODE, CODE*WEIGHT, CODE=FOLDER or CODE=FOLDER*WEIGHT with a '
                     'weight above 0 and below 1000')
  return Language(found[1], found[2] and at_home(found[2]), weight)


def _mistakes(values: Mapping[str, Value], words: Sequence[str], search: Mapping[str, Any]) -> Iterator[str]:
  """Yield a sentence for each flag that the recipe lacks, that has no effect with it, or whose value cannot be used."""
  recipe = str(values['recipe'])
  named = names_in(words)
  if '://' in str(values['workdir']):
    yield f'--workdir={values["workdir"]}: expected a folder on a disk, where the stages find each other\'s files'
  elif values['workdir']:
    yield from folder_mistakes('workdir', str(values['workdir']))
  if name := _NEEDED.get(recipe):
    if values[name] is None and name not in named:
      yield f'--{name} is missing; {recipe} needs it: {next(flag.help for flag in FLAGS if flag.name == name)}'
  if recipe in _FOR:
    yield from (f'--{name} has no effect with {recipe}; leave it out'
                for name in dict.fromkeys(sum(_FOR.values(), ())) if name in named and name not in _FOR[recipe])
    if search and 'search' not in _FOR[recipe]:
      yield f'--search.… is for translating, which {recipe} does not; its training takes --config.search.…'
  if values['search'] and 'strategy' in search:
    yield f'--search={values["search"]} and --search.strategy say the same; give one'
  if values['keep'] is not None and not 0.0 < float(str(values['keep'])) <= 1.0:
    yield f'--keep={values["keep"]}: expected a share above 0, up to 1'
  if not 0.0 < float(str(values['weight'])) < 1000.0:
    yield f'--weight={values["weight"]}: expected {_WEIGHT}'
  if values['keep'] is not None and values['min_score'] is not None:
    yield '--keep and --min_score both say which pairs are kept; give one'
  if values['min_score'] is not None and float(str(values['min_score'])) > 0.0:
    yield f'--min_score={values["min_score"]}: expected 0 or less, which is as high as a log-probability can be'
  if values['monolingual'] and not os.path.isfile(str(values['monolingual'])):
    yield f'--monolingual={values["monolingual"]}: there is no such file; give the path of one, plain or .gz'
  for name in ('reverse', 'teachers'):
    for folder in [values[name]] if isinstance(values[name], str) else values[name] or ():
      if '://' in str(folder):
        yield f'--{name}={folder}: expected a run on a disk; copy it there first'
      elif not os.path.isfile(os.path.join(str(folder), 'config.json')):
        yield f'--{name}={folder} is not a run: it holds no config.json, which train.py writes'
  yield from _language_mistakes(values)


def _language_mistakes(values: Mapping[str, Value]) -> Iterator[str]:
  """Yield a sentence for each mistake in --languages."""
  codes = []
  for text in values['languages'] or ():
    try:
      codes.append(language(text).code)
    except ValueError as error:
      yield str(error)
  if len(set(codes)) < len(codes):
    yield f'--languages={",".join(values["languages"])}: a language stands there twice; name each once'
  if codes and len(codes) == len(values['languages']) < 2:
    yield f'--languages={codes[0]}: expected two languages or more; one needs no recipe'
