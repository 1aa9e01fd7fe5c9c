"""Tokenised text on disk: ids and offsets, memory-mapped, in a folder named by a hash of everything that made it.

The folder may be deleted at any time: its content is then made again, the same. sums.json in it lists the SHA-256 of
each file; a store that does not match is never read: small ones are checked when they are opened, large ones meanwhile.
"""

import contextlib
import hashlib
import itertools
import json
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from typing import NamedTuple, Protocol

import numpy as np

from batching.pieces import ARRAYS, SUMS, StoreWriter, write_store
from checks.errors import DamagedError, DataError
from checks.whole_files import sum_of, unsealed
from corpora.splits import Split, TextSplit
from corpora.vocabulary import Vocabulary

_STORE_VERSION = 2  # to be increased when the same text is stored in another way
_VERIFIED_AT_ONCE = 64 << 20  # bytes of a store that are read within some 50 ms
_CHUNK = 4096  # pairs tokenised at a time
_CHUNKS_OF_PIECE = 64  # what a kill loses of a store, at most: some 260,000 pairs
_TOKENS_AT_A_TIME = 1 << 16  # of running text written at a time, where a document has more
_TOKENS_OF_PIECE = 1 << 23  # the same for running text

Progress = Callable[[Iterable], Iterator]  # wraps the iterator over a split's texts, for a progress bar


class Tokeniser(Protocol):
  """What a store needs of a vocabulary: a Vocabulary, or a SampledVocabulary of corpora.subword_sampling."""

  eos_id: int
  fingerprint: str

  def encode_batch(self, texts: Sequence[str], first: int = 0) -> list[list[int]]:
    """Return the ids of texts, the first of which is number `first` of its split."""


class Side(NamedTuple):
  """One language of a store: sentence i is ids[offsets[i]:offsets[i + 1]], EOS included."""

  ids: np.ndarray  # [total] int32
  offsets: np.ndarray  # [sentences + 1] int64

  def __getitem__(self, sentence: int) -> np.ndarray:
    return self.ids[self.offsets[sentence]:self.offsets[sentence + 1]]

  @property
  def lengths(self) -> np.ndarray:
    """[sentences] int32 number of tokens of each sentence, EOS included."""
    # Half the memory of int64, of which the plan of a large corpus holds much; differences are right modulo 2^32.
    return np.subtract(self.offsets[1:], self.offsets[:-1], dtype=np.int32, casting='unsafe')


class Store(NamedTuple):
  """A tokenised split, memory-mapped."""

  source: Side
  target: Side
  fingerprint: str  # of the text and both vocabularies
  shortest: tuple[int, int] = (2, 2)  # tokens of a source and of a target that is not empty: more than an EOS
  sums: str = ''  # the sum of sums.json: the same for the same tokens
  verified: Future[None] | None = None  # whether the files are as they were written, known in a while
  changing = False  # whether each epoch has other ids

  def at(self, epoch: int) -> 'Store':
    """Return the store that an epoch reads: this one."""
    return self

  def verify(self, seconds: float | None = None) -> bool:
    """Return True once all files are found to be as they were written; False when that takes longer than `seconds`.

    Raises:
      DamagedError: naming a file that is not as it was written.
    """
    if self.verified and not wait([self.verified], seconds).done:
      return False
    if self.verified:
      self.verified.result()
    return True

  def within(self, limits: tuple[int, int]) -> np.ndarray:
    """Return the numbers of the sentences of which neither side is empty or longer than its limit."""
    source, target = self.source.lengths, self.target.lengths
    return np.flatnonzero((source <= limits[0]) & (target <= limits[1])
                          & (source >= self.shortest[0]) & (target >= self.shortest[1]))

  def __len__(self) -> int:
    return len(self.source.offsets) - 1


def store_fingerprint(split: Split, source_vocabulary: Tokeniser, target_vocabulary: Tokeniser) -> str:
  """Return the hash of everything that decides a store's content."""
  return _fingerprint(split.fingerprint, source_vocabulary.fingerprint, target_vocabulary.fingerprint)


def _fingerprint(*parts: str | int) -> str:
  return hashlib.sha256(json.dumps([_STORE_VERSION, *parts]).encode()).hexdigest()[:20]


def open_store(split: Split, source_vocabulary: Tokeniser, target_vocabulary: Tokeniser, folder: str,
               progress: Progress | None = None) -> Store:
  """Open the store of a parallel split, tokenising the text where the store is not there yet.

  Args:
    split: the sentence pairs.
    source_vocabulary, target_vocabulary: of each side.
    folder: where stores lie; each in a folder named by its fingerprint.
    progress: wraps the iterator over pairs.
  """
  return open_folder(store_fingerprint(split, source_vocabulary, target_vocabulary), folder,
                     lambda writer: _write_pairs(split, source_vocabulary, target_vocabulary, writer, progress))


def open_text_store(split: TextSplit, vocabulary: Vocabulary, length: int, folder: str,
                    progress: Progress | None = None) -> Store:
  """Open the store of running text: documents, each ended by EOS, cut into blocks of `length` tokens.

  A block continues where the one before it ended; a document's last block is as long as what is left of it. Blocks
  are targets; their sources have no tokens at all.

  Args:
    split: the documents.
    vocabulary: of the text.
    length: tokens of a block.
    folder, progress: as in open_store; progress counts documents.
  """
  return open_folder(_fingerprint('blocks', length, split.fingerprint, vocabulary.fingerprint), folder,
                     lambda writer: _write_blocks(split, vocabulary, length, writer, progress), shortest=(0, 1))


def open_folder(fingerprint: str, folder: str, write: Callable[[StoreWriter], None],
                shortest: tuple[int, int] = (2, 2)) -> Store:
  """Open the store of a fingerprint; where it is not there, write(writer) makes it. It appears whole or not at all.

  Raises:
    DamagedError: when a file of the store is damaged; of a large one, Store.verify() says so.
  """
  place = os.path.join(folder, fingerprint)
  if os.path.isdir(place) and not os.path.isfile(os.path.join(place, SUMS)):
    aside = tempfile.mkdtemp(dir=folder)  # an earlier version's, which nothing vouches for
    with contextlib.suppress(FileNotFoundError):  # another process was faster
      os.rename(place, os.path.join(aside, 'store'))
    shutil.rmtree(aside, ignore_errors=True)
  write_store(place, fingerprint, write)
  sums, verified = _verification(place, fingerprint)
  side = lambda name: Side(_load(os.path.join(place, f'{name}.ids.npy'), 'r'),
                           _load(os.path.join(place, f'{name}.offsets.npy')))
  return Store(side('source'), side('target'), fingerprint, shortest, sums, verified)


def _verification(place: str, fingerprint: str) -> tuple[str, Future[None] | None]:
  """Check a store's files against its sums; return the sum of these, and where it takes long, what tells the outcome."""
  def verify(names: Iterable[str]) -> None:
    for name in names:
      path = os.path.join(place, name)
      if name not in files or not os.path.isfile(path) or sum_of(path) != files[name]:
        raise DamagedError(f'{path} is damaged: it differs from what was written. Delete the folder {place}: it is made '
                           'again')

  path = os.path.join(place, SUMS)
  try:
    with open(path, encoding='utf-8') as file:
      text = file.read()
    content = json.loads(text)
    if content.keys() != {'fingerprint', 'files'}:  # as earlier versions wrote it, without a digest of its own
      content = unsealed(text)
    files = dict(content['files'])
    if content['fingerprint'] != fingerprint:
      raise ValueError
  except (ValueError, KeyError, TypeError, AttributeError):
    raise DamagedError(f'{path} is damaged. Delete the folder {place}: it is made again') from None
  everything = sorted({*files, *ARRAYS})  # not what else lies there, such as a file manager's .DS_Store
  sizes = (os.path.getsize(path) for path in (os.path.join(place, name) for name in everything) if os.path.isfile(path))
  small = sum(sizes) <= _VERIFIED_AT_ONCE
  verify(name for name in everything if small or 'ids' not in name)  # plans are made of offsets, at once
  if small:
    return sum_of(path), None
  future: Future[None] = Future()

  def settle() -> None:
    try:
      future.set_result(verify(everything))
    except BaseException as error:
      future.set_exception(error)

  threading.Thread(target=settle, daemon=True).start()
  return sum_of(path), future


def _load(path: str, mmap_mode: str | None = None) -> np.ndarray:
  """Read one array of a store. NumPy unpickles nothing here and maps no more than the file holds."""
  try:
    return np.load(path, mmap_mode=mmap_mode)
  except (ValueError, OSError, EOFError, MemoryError) as error:  # the last for a header that claims too much
    raise DamagedError(f'{path} is damaged ({error}); delete its folder: it is made again') from None


def _write_pairs(split: Split, source_vocabulary: Tokeniser, target_vocabulary: Tokeniser, writer: StoreWriter,
                 progress: Progress | None) -> None:
  sides = {'source': source_vocabulary, 'target': target_vocabulary}
  pairs = itertools.islice(progress(split) if progress else split, writer.texts, None)
  for number in itertools.count(1):
    if not (texts := list(itertools.islice(pairs, _CHUNK))):
      break
    writer.add(len(texts), **{
        name: _ended(vocabulary.encode_batch([getattr(pair, name) for pair in texts], writer.texts), vocabulary.eos_id)
        for name, vocabulary in sides.items()})
    if number % _CHUNKS_OF_PIECE == 0:
      writer.end_piece()


def _ended(sentences: list[list[int]], eos: int) -> tuple[np.ndarray, list[int]]:
  """Return the ids of all sentences, each ended by EOS, [total] int32; and the length of each, EOS included."""
  for sentence in sentences:
    sentence.append(eos)
  return np.fromiter(itertools.chain.from_iterable(sentences), np.int32), list(map(len, sentences))


def _write_blocks(split: TextSplit, vocabulary: Vocabulary, length: int, writer: StoreWriter, progress: Progress | None
                  ) -> None:
  tokens, documents = 0, split.documents()  # tokens of the piece that is being written
  for lines in itertools.islice(progress(documents) if progress else documents, writer.texts, None):
    ids: list[int] = []  # of the document, those in no block yet
    for part in vocabulary.encode_lines(lines):
      if vocabulary.unk_id in part:
        raise DataError(f'{split.name}: the vocabulary has no entry for some of the text, which would be missing from '
                        'perplexity; use a vocabulary with bytes (vocabulary.byte_fallback)')
      ids += part
      tokens += len(part)
      if len(ids) >= _TOKENS_AT_A_TIME:
        whole = len(ids) - len(ids) % length
        _add_blocks(writer, 0, ids[:whole], length)
        ids = ids[whole:]
    _add_blocks(writer, 1, [*ids, vocabulary.eos_id], length)
    if tokens >= _TOKENS_OF_PIECE:
      writer.end_piece()
      tokens = 0


def _add_blocks(writer: StoreWriter, texts: int, ids: list[int], length: int) -> None:
  """Add ids cut into blocks, of which the last may be shorter; they end so many of the split's texts."""
  array = np.array(ids, np.int32)
  lengths = [min(length, len(ids) - start) for start in range(0, len(ids), length)]
  writer.add(texts, source=(array[:0], [0] * len(lengths)), target=(array, lengths))
