"""The text of a recipe in a folder of its own, two files a split, whatever kind of corpus it comes from."""

import functools
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from checks.names import distinct
from corpora import cleaning, loading
from corpora.config import KINDS
from corpora.splits import Corpus, Pair, Split
from options.configurations import default_tree, leaves, with_options
from options.recipe_options import RecipeOptions
from recipes import pairs
from tasks import setup

VALIDATION = 'validation'
# What is done to text before it is written, and not again when it is read.
_DONE = ('max_characters', 'max_ratio', 'min_letters', 'drop_identical', 'drop_duplicates', 'drop_control', 'tag',
         'mix')


def read(options: RecipeOptions, changes: Mapping[str, Any] | None = None) -> Corpus:
  """Return the corpus of the configuration, its training pairs cleaned, tagged and mixed as the configuration says.

  Args:
    options: of the recipe.
    changes: options, by dotted name, that differ from the configuration's.

  Raises:
    ConfigError, DataError: when options or text cannot be used.
  """
  # Of a kind that makes its own test set, data.test_splits says here whether it is taken, see test_stems.
  given = [name for name in options.given if name != 'data.test_splits']
  records = setup.records(with_options(options.config, changes or {}), given)
  assert isinstance(records.corpus, loading.CorpusConfig)  # of pairs, see stages.check_translates
  corpus = cleaning.apply(loading.load(records.corpus), records.cleaning, records.corpus)
  print(f'Corpus {corpus.name}: ' + ', '.join(
      f'{split.name} {split.extent}' for split in (corpus.train, corpus.validation, *corpus.tests)))
  for note in corpus.notes:
    print(f'  {note}', flush=True)
  return corpus


def test_stems(options: RecipeOptions, taken: Sequence[str] = ()) -> list[str]:
  """Return the stems of the files that test sets are written to, in the order of data.test_splits.

  Args:
    options: of the recipe.
    taken: stems of other files in the same folder, which no test set gets.
  """
  return distinct((re.sub(r'[^\w\-]+', '_', name) for name in leaves(options.config)['data.test_splits']), taken)


def tests_of(corpus: Corpus, options: RecipeOptions, taken: Sequence[str] = ()) -> dict[str, Split]:
  """Return the test sets by the stems of their files, see test_stems(); those that the corpus lacks are left out.

  Where the configuration asks for none, there is none, though the corpus may make one of its own.
  """
  stems, names = test_stems(options, taken), list(leaves(options.config)['data.test_splits'])
  return {stems[names.index(split.stem) if split.stem in names else place]: split
          for place, split in enumerate(corpus.tests[:len(names)])}


class Folder:
  """The folder WORKDIR/text."""

  def __init__(self, options: RecipeOptions, target: str | None = None):
    """Take the recipe's options, and the ending of target files where it is not the code of the target language."""
    values = leaves(options.config)
    self.path, self._options = os.path.join(options.workdir, 'text'), options
    self.codes = str(values['data.source_language']), target or str(values['data.target_language'])

  def files(self, stem: str) -> tuple[str, str]:
    """Return the paths of a split's files, sources and targets."""
    source, target = (os.path.join(self.path, f'{stem}.{code}') for code in self.codes)
    return source, target

  def files_of(self, stems: Sequence[str]) -> tuple[str, ...]:
    """Return the paths of the files of several splits."""
    return tuple(path for stem in stems for path in self.files(stem))

  def write(self, stem: str, split: Sequence[Pair] | Split) -> int:
    """Write a split, and return the number of its pairs."""
    return pairs.write(self.files(stem), pairs.shown(split, f'writing {stem}', ' pairs', len(split)))

  def changes(self, train: str, tests: Sequence[str]) -> dict[str, Any]:
    """Return the options, by dotted name, with which a training reads this folder.

    Args:
      train: the value of data.train_split.
      tests: stems of the test sets.
    """
    values, plain = leaves(self._options.config), leaves(default_tree())
    done = {name: plain[name] for name in (f'data.{option}' for option in _DONE) if values[name] != plain[name]}
    return done | {'data.kind': 'text', 'data.directory': self.path, 'data.train_split': train,
                   'data.validation_split': VALIDATION, 'data.test_splits': tuple(tests),
                   'data.target_language': self.codes[1]}

  @functools.cached_property
  def idle(self) -> list[str]:
    """The overrides, by dotted name, that only the corpus reads that the text came from."""
    return [f'data.{name}' for name in KINDS.idle('text')]
