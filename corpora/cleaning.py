"""Which training pairs are left out, and what is mixed in with them. Validation and test sets are never touched.

A new filter is a function (pair, config) -> bool in FILTERS and its option in CleaningConfig. Every pair that is
dropped is counted under the first filter that dropped it.
"""

import array
import collections
import dataclasses
import hashlib
import itertools
import json
import random
import unicodedata
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from checks.errors import DataError
from checks.progress import shown
from checks.refusals import refuse
from corpora import digests, text_files
from corpora.config import CorpusConfig
from corpora.splits import Corpus, Pair, Split
from corpora.words import is_mark


@dataclasses.dataclass(frozen=True)
class CleaningConfig:
  """Filters of the training pairs, each off by default, and further corpora."""

  max_characters: int = 0  # most characters of a side; 0 is off
  max_ratio: float = 0.0  # most characters of the longer side for each character of the shorter; 0 is off
  min_letters: float = 0.0  # least share of letters, marks included, among a side's characters but spaces; 0 is off
  drop_identical: bool = False  # pairs whose sides are the same text
  drop_duplicates: bool = False  # pairs that have occurred before
  drop_control: bool = False  # control characters, U+FFFD and unassigned ones on either side
  tag: str | None = None  # put in front of each source, with a space
  mix: tuple[str, ...] = ()  # further training text, see Source

  def __post_init__(self):
    refuse(self._mistakes())

  def _mistakes(self) -> Iterator[str]:
    if self.max_characters < 0:
      yield f'max_characters is {self.max_characters}; expected 0 (off) or a positive number'
    if self.max_ratio and self.max_ratio < 1.0:
      yield f'max_ratio is {self.max_ratio}; expected 0 (off) or a number from 1'
    if not 0.0 <= self.min_letters <= 1.0:
      yield f'min_letters is {self.min_letters}; expected a share from 0 (off) to 1'
    for text in self.mix:
      if not isinstance(text, str):
        yield f'mix has {text!r}; expected a text, FOLDER, FOLDER*WEIGHT or FOLDER*WEIGHT#TAG'
        continue
      try:
        source_of(text)
      except ValueError as error:
        yield str(error)

  @property
  def filters(self) -> dict[str, Callable[[Pair, 'CleaningConfig'], bool]]:
    """The filters that are switched on, by their names in FILTERS."""
    return {name: wrong for name, wrong in FILTERS.items() if getattr(self, name)}


class Source(NamedTuple):
  """A further corpus, written FOLDER, FOLDER*WEIGHT or FOLDER*WEIGHT#TAG; its files are named as in data.directory."""

  directory: str
  weight: float = 1.0  # times that each of its pairs is read in an epoch; 0.5 reads half of them
  tag: str | None = None  # put in front of each source: <bt> for back-translations, <2de> for a language


def source_of(text: str) -> Source:
  """Parse a Source as a user writes it. Raises ValueError when it is malformed."""
  place, _, tag = text.partition('#')
  directory, star, weight = place.rpartition('*') if '*' in place else (place, '', '1')
  try:
    found = Source(directory, float(weight), tag or None)
  except ValueError:
    found = None
  if found is None or not found.directory or not 0.0 < found.weight < 1000.0:
    raise ValueError(f'mix has {text!r}; expected FOLDER, FOLDER*WEIGHT or FOLDER*WEIGHT#TAG with a weight above 0 and '
                     'below 1000')
  return found


# ---------------------------------------------------------------------------------------------------------- filters


def _lacks_letters(pair: Pair, config: CleaningConfig, is_mark: Callable[[str], bool] = is_mark) -> bool:
  for text in pair:
    letters, size = sum(map(str.isalpha, text)), len(text) - sum(map(str.isspace, text))
    if letters / max(size, 1) < config.min_letters:  # marks are looked for only where letters alone are too few
      letters += sum(map(is_mark, text))
    if letters / max(size, 1) < config.min_letters:
      return True
  return False


def _lacked_letters(pair: Pair, config: CleaningConfig) -> bool:
  """Return whether earlier versions dropped a pair for its letters: they did not count vowel signs."""
  return _lacks_letters(pair, config, lambda character: unicodedata.combining(character) > 0)


def _is_unequal(pair: Pair, config: CleaningConfig) -> bool:
  sizes = sorted(map(len, pair))
  return sizes[1] > config.max_ratio * max(sizes[0], 1)


FILTERS: dict[str, Callable[[Pair, CleaningConfig], bool]] = {
    'drop_control': lambda pair, config: any(
        unicodedata.category(character) in ('Cc', 'Cn', 'Cs') or character == '\ufffd'
        for character in itertools.chain(*pair)),
    'max_characters': lambda pair, config: max(map(len, pair)) > config.max_characters,
    'max_ratio': _is_unequal,
    'min_letters': _lacks_letters,
    'drop_identical': lambda pair, config: pair.source.strip() == pair.target.strip(),
}
_BY_TABLES = {'drop_control', 'min_letters'}  # those that ask Unicode's tables, which grow from one Python to the next


def clean(split: Split, config: CleaningConfig) -> tuple[Split, dict[str, int]]:
  """Return the pairs that pass every filter, and how many pairs each filter dropped.

  The text is read twice: once here, to know how much is left, and then whenever the split is. In memory are a byte a
  pair and, to find duplicates, 16 bytes of its hash and, while they are sorted, some 32 more.
  """
  filters, dropped, kept, hashes = config.filters, collections.Counter(), bytearray(), bytearray()
  made_of = dataclasses.asdict(config) | {'mix': (), 'tag': None}
  for pair in shown(split, f'filtering {split.name}', ' pairs', len(split)):
    reason = next((name for name, wrong in filters.items() if wrong(pair, config)), None)
    if reason is None and config.drop_duplicates:
      hashes += digests.digest('\n'.join(pair))  # which no side can hold
    if reason is None and config.min_letters and 'marks' not in made_of and _lacked_letters(pair, config):
      made_of['marks'] = True  # a text of which earlier versions kept the same pairs has the same fingerprint as then
    dropped[reason] += 1
    kept.append(reason is None)
  left = dropped.pop(None, 0)
  if config.drop_duplicates and (repeated := digests.repeated(digests.columns(hashes))).size:
    flags = np.frombuffer(kept, np.uint8)  # shares the memory of `kept`
    flags[np.flatnonzero(flags)[repeated]] = 0
    dropped['drop_duplicates'], left = len(repeated), left - len(repeated)
  if not left:
    raise DataError(f'{split.name}: the filters leave none of {len(split):,} pairs: '
                    + ', '.join(f'data.{name} drops {count:,}' for name, count in dropped.items()))
  return dataclasses.replace(
      split, fingerprint=_fingerprint(split.fingerprint, made_of), size=left,
      kept=hashlib.sha256(kept).hexdigest() if _BY_TABLES & filters.keys() else '',
      read=lambda: itertools.compress(split.read(), kept)), dict(dropped)


def _fingerprint(*parts: object) -> str:
  return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


# ----------------------------------------------------------------------------------------------------------- mixing


def tagged(split: Split, tag: str | None) -> Split:
  """Return the pairs with the tag in front of each source that has text: batches leave out pairs with an empty side."""
  if not tag:
    return split
  return dataclasses.replace(
      split, fingerprint=_fingerprint(split.fingerprint, tag),
      read=lambda: (Pair(f'{tag} {pair.source}', pair.target) if pair.source.strip() else pair for pair in split.read()))


def weighted(split: Split, weight: float, seed: int) -> Split:
  """Repeat each pair `weight` times; of a fraction, repeat that share of the pairs, drawn by the seed, once more.

  Raises:
    DataError: when so small a weight leaves no pair.
  """
  whole, share = divmod(weight, 1.0)
  draw = random.Random(f'{seed} {split.fingerprint}')  # each corpus draws its own
  times = array.array('H', (int(whole) + (draw.random() < share) for _ in range(len(split))))
  if not sum(times):
    raise DataError(f'{split.name}: a weight of {weight:g} leaves none of {len(split):,} training pairs; give a larger one')
  return dataclasses.replace(
      split, fingerprint=_fingerprint(split.fingerprint, weight, seed), size=sum(times),
      read=lambda: (pair for pair, count in zip(split.read(), times) for _ in range(count)))


def joined(splits: list[Split]) -> Split:
  """Return the pairs of all splits, one split after the other; batches are shuffled later."""
  return Split(' + '.join(split.name for split in splits), _fingerprint(*(split.fingerprint for split in splits)),
               sum(map(len, splits)), lambda: itertools.chain.from_iterable(split.read() for split in splits),
               kept=''.join(split.kept for split in splits))


def apply(corpus: Corpus, config: CleaningConfig, of: CorpusConfig) -> Corpus:
  """Return the corpus with its training pairs cleaned and tagged, and further pairs, cleaned and tagged, mixed in.

  Args:
    corpus: as it was loaded.
    config: the filters, the tag and the further corpora.
    of: the options that the corpus was loaded with: its languages, names of splits and seed serve for all.

  Raises:
    DataError: when nothing is left of a corpus, or a folder is missing.
  """
  if config == CleaningConfig():
    return corpus
  notes, parts = [], [(corpus.train, Source(corpus.name, 1.0, config.tag))]
  for source in map(source_of, config.mix):
    parts.append((text_files.training_pairs(dataclasses.replace(of, kind='text', directory=source.directory), notes),
                  source))
  splits = []
  for split, source in parts:
    split = dataclasses.replace(split, name=split.name if source.directory == corpus.name else source.directory)
    found = split
    if config.filters or config.drop_duplicates:
      found, dropped = clean(split, config)
      why = ', '.join(f'{count:,} by {name}' for name, count in sorted(dropped.items()))
      notes.append(f'{split.name}: {len(split):,} pairs read, {len(found):,} kept'
                   + (f', {len(split) - len(found):,} dropped ({why})' if dropped else ''))
    splits.append(weighted(tagged(found, source.tag), source.weight, of.seed) if source.weight != 1.0
                  else tagged(found, source.tag))
    if source.weight != 1.0 or source.tag:
      notes.append(f'{split.name}: weight {source.weight:g}, {len(splits[-1]):,} pairs an epoch'
                   + (f', tag {source.tag}' if source.tag else ''))
  train = splits[0] if len(splits) == 1 else joined(splits)
  return dataclasses.replace(corpus, train=train, notes=(*corpus.notes, *notes))
