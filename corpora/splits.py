"""The records of a corpus: splits of sentence pairs or of documents, read anew each time they are iterated over.

To extend a record, add fields with defaults. A split's fingerprint identifies token stores and run folders: if it is
computed in another way, stores are made again and runs refuse to go on.
"""

import dataclasses
import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

_CHUNK = 4096  # pairs hashed at a time


class Pair(NamedTuple):
  """A sentence and its translation, raw text without line ends."""

  source: str
  target: str


@dataclasses.dataclass(frozen=True)
class Split:
  """A named list of pairs, read anew each time it is iterated over."""

  name: str  # printed beside every score
  fingerprint: str  # SHA-256 of whatever made the text
  size: int
  read: Callable[[], Iterator[Pair]]
  stem: str = ''  # its name in the options; '' where the corpus itself decides on its splits
  # SHA-256 of which pairs the filters kept, where that depends on Python's version beside what `fingerprint` names.
  kept: str = ''

  def __iter__(self) -> Iterator[Pair]:
    return self.read()

  def __len__(self) -> int:
    return self.size

  @property
  def extent(self) -> str:
    """The amount of text, for people."""
    return f'{self.size:,} pairs'


@dataclasses.dataclass(frozen=True)
class TextSplit(Split):
  """A named list of documents (texts of one or more lines), not of pairs; see running_text."""

  num_bytes: int = 0  # UTF-8, separators of documents included
  # The lines of each document, read anew each time, where a document may be larger than memory; None: as read() has them.
  read_lines: Callable[[], Iterator[Iterable[str]]] | None = None

  def documents(self) -> Iterator[Iterable[str]]:
    """Yield the lines of each document."""
    return self.read_lines() if self.read_lines else (text.split('\n') for text in self)

  @property
  def extent(self) -> str:
    return f'{self.num_bytes:,} bytes' + (f' in {self.size:,} documents' if self.size > 1 else '')


@dataclasses.dataclass(frozen=True)
class Corpus:
  """Pairs, or documents, to train on, to validate with and to test on."""

  name: str
  source_language: str
  target_language: str
  train: Split
  validation: Split
  tests: tuple[Split, ...]  # in the order of data.test_splits; scored at the end of a run
  notes: tuple[str, ...] = ()  # printed when a run starts: direction, what was dropped and why
  labels: tuple[str, ...] = ()  # of labelled text
  showcase: tuple[Pair, ...] = ()  # sentences that a finished run translates beside their references
  suggestions: tuple[str, ...] = ()  # source sentences that a user may try
  # Further scores of the first test set's translations; of these, and of how many entries spell a source word.
  measure: Callable[[list[str], Callable[[str], int]], dict[str, Any]] | None = None

  @property
  def by_name(self) -> dict[str, Split]:
    """The splits by names that a user may give: those in the options, or train, validation and test (the first)."""
    roles = {'train': self.train, 'validation': self.validation} | {'test': test for test in self.tests[:1]}
    return roles | {split.stem: split for split in (self.train, self.validation, *self.tests) if split.stem}


def in_memory(name: str, pairs: Sequence[Pair], stem: str = '') -> Split:
  """Return a split of pairs that are in memory; its fingerprint is the hash of their texts."""
  fingerprint, size = measured(pairs)
  return Split(name, fingerprint, size, lambda: iter(pairs), stem)


def measured(pairs: Iterable[Pair]) -> tuple[str, int]:
  """Return the SHA-256 of the pairs' texts, each ended by LF, and the number of pairs; none of them is kept."""
  digest, size, rest = hashlib.sha256(), 0, iter(pairs)
  while chunk := list(itertools.islice(rest, _CHUNK)):
    digest.update(''.join(f'{source}\n{target}\n' for source, target in chunk).encode())
    size += len(chunk)
  return digest.hexdigest(), size


def counted(name: str, lines: int) -> str:
  """Return a test set's name with its lines, since two are called newstest2014: 'newstest2013 (3,000 lines)'."""
  return f'{name} ({lines:,} lines)'
