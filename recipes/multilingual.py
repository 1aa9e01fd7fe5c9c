"""One model into several languages (Johnson et al., 2017): a tag in front of each source says which, such as <2de>.

    text/     the mixture: train, validation (the languages in turn) and a test set for each language
    model/    the run; echo "<2de> A dog." | python decode.py --workdir=WORKDIR/model
"""

import dataclasses
import functools
import itertools
from collections.abc import Iterator
from typing import Any

from checks.errors import ConfigError
from corpora import cleaning, text_files
from corpora.config import LANGUAGES, MULTILINGUAL
from corpora.splits import Pair, Split
from options.configurations import leaves, with_options
from options.mistakes import listed
from options.recipe_options import Language, RecipeOptions
from recipes import own_text
from recipes.plan import Plan
from recipes.stages import Making, check_translates, training
from tasks import setup

# Kinds of corpora that hold other targets for another data.target_language; others would teach one text under every tag.
_BY_LANGUAGE = ('text', 'tfds')


def plan(options: RecipeOptions) -> Plan:
  """Return the stages. Raises ConfigError naming what cannot work."""
  check_translates(options)
  values, text = leaves(options.config), own_text.Folder(options, MULTILINGUAL)
  if mistakes := list(_mistakes(options)):
    raise ConfigError(listed(mistakes))
  for language in options.languages:
    setup.records(with_options(options.config, _of(language, options)), tuple(options.given))
  tests = [_test(stem, language) for language in options.languages for stem in own_text.test_stems(options)]
  changes = text.changes('train', tests)
  if not values['vocabulary.source_model'] and not values['init_from']:
    changes['vocabulary.tags'] = tuple(dict.fromkeys(
        (*values['vocabulary.tags'], *(language.tag for language in options.languages))))
  files = *text.files('train'), *text.files(own_text.VALIDATION)
  into = ', '.join(LANGUAGES.get(language.code, language.code) for language in options.languages)
  stages = [
      Making('mixture', 'writing the mixture of languages', (), files, functools.partial(_write, options, text),
             text.files_of(tests)),
      training('model', f'training {LANGUAGES.get(text.codes[0], text.codes[0])} to {into}', options, changes, files,
               [*text.idle, 'data.directory'])]
  return Plan(stages, ())


def _mistakes(options: RecipeOptions) -> Iterator[str]:
  values = leaves(options.config)
  kind = values['data.kind']
  if kind not in _BY_LANGUAGE:
    yield (f'config.data.kind is {kind!r}, whose text is the same for every target language; multilingual needs targets in '
           'each: expected data.kind=text, with the files of every language in config.data.directory, or tfds')
  for language in options.languages:
    if language.directory and kind != 'text':
      yield (f'--languages: {language.code}={language.directory} names a folder, and data.kind is {kind!r}; folders are '
             'for data.kind=text')
    if language.code == values['data.source_language']:
      yield f'--languages has {language.code}, the language translated from; name target languages'
  if 'data.target_language' in options.given:
    yield (f'--config.data.target_language={values["data.target_language"]} has no effect with multilingual, whose target '
           'languages are those of --languages; leave it out')
  if values['data.tag'] is not None:
    yield (f'config.data.tag is {values["data.tag"]!r} and has no effect with multilingual, which puts the tag of the target '
           'language in front of each source; leave it out')


def _of(language: Language, options: RecipeOptions) -> dict[str, Any]:
  """Return the options, by dotted name, with which a language's corpus is read."""
  directory = language.directory or options.config['data']['directory']
  return {'data.target_language': language.code, 'data.directory': directory, 'data.tag': None}


def _tests_there(language: Language, options: RecipeOptions) -> dict[str, Any]:
  """Return data.test_splits without those that a further language lacks, and tell which; its text has two files a split."""
  found, notes = leaves(with_options(options.config, _of(language, options))), []
  if found['data.kind'] != 'text' or not found['data.directory']:
    return {}
  codes = found['data.source_language'], found['data.target_language']
  there = text_files.tests_there(found['data.directory'], found['data.test_splits'], codes, notes, needed=0)
  for note in notes:
    print(note, flush=True)
  return {'data.test_splits': tuple(there)}


def _test(stem: str, language: Language) -> str:
  return f'{stem}-{language.code}'


def _write(options: RecipeOptions, text: own_text.Folder) -> dict[str, Any]:
  """Write the mixture into text/, every source with its tag, and return the numbers of pairs."""
  train, validation, figures = [], [], {}
  for number, language in enumerate(options.languages):
    # The first one's first test set gives the run's score, so that it has to be there.
    corpus = own_text.read(options, _of(language, options) | (_tests_there(language, options) if number else {}))
    own = dataclasses.replace(corpus.train, name=f'--languages={language.code}*{language.weight:g}')
    mixed = cleaning.weighted(cleaning.tagged(own, language.tag), language.weight, options.config['seed'])
    train.append(mixed)
    validation.append(cleaning.tagged(corpus.validation, language.tag))
    tests = {stem: text.write(_test(stem, language), cleaning.tagged(split, language.tag))
             for stem, split in own_text.tests_of(corpus, options).items()}
    figures[language.code] = {'training': len(mixed), own_text.VALIDATION: len(corpus.validation), 'tests': tests}
  text.write('train', cleaning.joined(train))
  text.write(own_text.VALIDATION, list(_in_turn(validation)))
  return figures


def _in_turn(splits: list[Split]) -> Iterator[Pair]:
  """Yield a pair of each split in turn, so that the first ones, which evaluations translate, are of every language."""
  return (pair for pairs in itertools.zip_longest(*splits) for pair in pairs if pair is not None)
