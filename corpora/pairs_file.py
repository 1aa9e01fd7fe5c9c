"""One file with a sentence pair on each line, whatever the format of a line, split so that nothing held out is trained on.

The file is read block by block: once to check it and to see which pairs share a sentence, by hashes of their sentences,
and then line by line whenever its training pairs are wanted, so that it may be larger than memory.
"""

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from checks.errors import DataError
from checks.progress import shown
from corpora import text_files
from corpora.config import CorpusConfig
from corpora.indexed_lines import IndexedLines, Places
from corpora.splits import Corpus, Pair, Split, in_memory, measured

if TYPE_CHECKING:
  import numpy as np  # slow to import: functions import it, or modules with it

PairOf = Callable[[str, str], Pair]  # (line, its file and number for messages) -> pair; raises DataError


def split(path: str, pair_of: PairOf, expected: str, config: CorpusConfig) -> Corpus:
  """Split the pairs of one file into a corpus, without repeated pairs and those with an empty side.

  Pairs that share a sentence, in either language, form a group (the same sentence has many translations in
  Tatoeba), so that no held-out sentence of either language is in training. Validation and test take one pair of
  each of their groups; a group's further pairs are dropped. Both are held in memory.

  Args:
    path: of the file; names the corpus and its splits.
    pair_of: reads a line.
    expected: what the file should hold, for messages.
    config: its languages, `heldout` and seed.

  Raises:
    DataError: when the file is missing, damaged, not UTF-8, or has no pairs or too few to hold some out; as pair_of
      does; and while training pairs are read, when the file is no longer what was read here.
  """
  from corpora import heldout
  notes, lines, name = [config.direction], IndexedLines(path), os.path.basename(path)
  places, sides = _distinct(lines, path, pair_of, expected, notes)
  *parts, dropped = heldout.split_groups(_groups(*sides), config.heldout, config.seed, path, 'pairs')
  if dropped:
    notes.append(f'{dropped:,} pairs dropped because a sentence of theirs is held out')

  def read(places: Places) -> Iterator[Pair]:
    return (pair_of(line, path) for line in lines.read(places))

  there, *held = (places.take(memoryview(part)) for part in parts)
  fingerprint, size = measured(shown(read(there), f'hashing {name}', ' pairs', len(parts[0])))
  train = Split(f'{name} train', fingerprint, size, lambda: read(there))
  validation, test = (in_memory(f'{name} {stem}', list(read(part))) for stem, part in zip(('validation', 'test'), held))
  return Corpus(path, config.source_language, config.target_language, train, validation, (test,), tuple(notes))


def _distinct(lines: IndexedLines, path: str, pair_of: PairOf, expected: str, notes: list[str]
              ) -> tuple[Places, 'list[np.ndarray]']:
  """Read the file; return where its distinct pairs with text on both sides stand, and the number of each sentence.

  The numbers are [pairs] int32 of each language: equal sentences have equal ones. `notes` get what was left out.
  """
  import numpy as np

  from corpora import digests
  filled, with_text, hashes = bytearray(), bytearray(), [bytearray(), bytearray()]
  for number, line in enumerate(shown(lines.scan(notes), f'reading {os.path.basename(path)}', ' lines'), 1):
    filled.append(bool(line.strip()))
    if filled[-1]:
      pair = pair_of(line, f'{path}, line {number}')
      with_text.append(text_files.has_text(pair))
      for side, text in zip(hashes, pair):
        side += digests.digest(text)
  if not with_text:
    raise DataError(f'{path} is empty; expected {expected}')
  if len(with_text) < len(filled):
    notes.append(f'{len(filled) - len(with_text):,} blank lines skipped')
  sides = [digests.numbered(digests.columns(hashes.pop(0))) for _ in range(2)]  # each with the room of its hashes free again
  kept = np.ones(len(with_text), bool)
  kept[digests.repeated(sides)] = False
  distinct = int(kept.sum())
  if distinct < len(kept):
    notes.append(f'{len(kept) - distinct:,} repeated pairs dropped')
  kept &= np.frombuffer(with_text, bool)
  left = int(kept.sum())
  text_files.report_empty(distinct - left, left, path, notes)
  numbers = np.flatnonzero(np.frombuffer(filled, bool))[kept]
  return lines.places.take(memoryview(numbers)), [side[kept] for side in sides]


def _groups(sources: 'np.ndarray', targets: 'np.ndarray') -> 'np.ndarray':
  """Return of each pair the first one of its group; see heldout.groups_of. Sides have numbers of their own."""
  from corpora import heldout
  first = int(sources.max()) + 1  # number of a target
  keys = zip(memoryview(sources), memoryview(targets + first))
  return heldout.groups_of(keys, len(sources), first + int(targets.max()) + 1)
