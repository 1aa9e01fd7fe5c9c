"""The user's own text files: two line-aligned files per split, or more.

Files are read block by block, and those of training anew whenever their pairs are wanted, so that a corpus may be larger
than memory.
"""

import glob
import gzip
import io
import itertools
import os
import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from checks.errors import DataError
from checks.progress import shown
from corpora import split_files
from corpora.config import KINDS, SIDES, SPLITS, CorpusConfig, Kind
from corpora.splits import Corpus, Pair, Split, counted, in_memory, measured

_BLOCK = 1 << 20  # bytes read at a time
_CHUNK = 4096  # pairs read at a time
_GZIP = b'\x1f\x8b'
BOM = b'\xef\xbb\xbf'
# What a file that is not UTF-8 may begin with, what it then is, and the command that makes text of it.
_RECODED = 'It is {0}, by its first bytes: convert the file, for instance with: iconv -f {0} -t UTF-8'
_UNPACKED = 'It is packed with {}, by its first bytes: unpack it, for instance with: {}'
_OTHERS = {b'\xff\xfe\0\0': _RECODED.format('UTF-32'), b'\0\0\xfe\xff': _RECODED.format('UTF-32'),
           b'\xff\xfe': _RECODED.format('UTF-16'), b'\xfe\xff': _RECODED.format('UTF-16'),
           b'\xfd7zXZ\0': _UNPACKED.format('xz', 'xz -d'), b'\x28\xb5\x2f\xfd': _UNPACKED.format('zstd', 'zstd -d'),
           _GZIP: _UNPACKED.format('gzip', 'gzip -d'),  # of standard input
           b'BZh': _UNPACKED.format('bzip2', 'bzip2 -d'), b'PK\x03\x04': _UNPACKED.format('zip', 'unzip')}


def decode_lines(data: bytes, name: str, before: int = 0) -> list[str]:
  """Return the lines of UTF-8 bytes. Lines end at LF alone; one CR before it, and a byte-order mark, are removed.

  Args:
    data: whole lines; the last may lack its LF.
    name: of the file, for messages.
    before: lines of the file that stand before these. A byte-order mark is removed from a file's first line alone.

  Raises:
    DataError: naming file and line, where the bytes are not UTF-8, with what to do: by the first bytes of the file, where
      they tell what it is.
  """
  try:
    text = data.decode('utf-8' if before else 'utf-8-sig')
  except UnicodeDecodeError as error:
    line = before + error.object.count(b'\n', 0, error.start) + 1
    others = [] if before else [advice for begin, advice in _OTHERS.items() if data.startswith(begin)]
    advice = others[0] if others else 'Convert the file, for instance with: iconv -f LATIN1 -t UTF-8'
    raise DataError(f'{name}, line {line}: not valid UTF-8 (byte 0x{error.object[error.start]:02x}). {advice}') from None
  lines = text.split('\n')  # not splitlines, which also splits at U+2028 and the like, inside sentences
  if lines[-1] == '':
    lines.pop()
  return [line[:-1] if line.endswith('\r') else line for line in lines]


def line_blocks(path: str, notes: list[str] | None = None) -> Iterator[list[str]]:
  """Yield the lines of a text file, plain or gzip, in blocks of about a megabyte; see decode_lines.

  Args:
    path: of the file; gzip is recognised by its content.
    notes: gets a note on what was removed.

  Raises:
    DataError: when the file is missing, a folder, damaged or not UTF-8.
  """
  return (lines for _, lines in _decoded(path, notes))


def _decoded(path: str, notes: list[str] | None) -> Iterator[tuple[bytes, list[str]]]:
  """Yield a file's content, unpacked, in blocks that end where a line does, and the lines of each; see line_blocks."""
  before = 0  # lines yielded
  for data in _whole_lines(path):
    if notes is not None and not before and data.startswith(BOM):
      notes.append(f'{path}: a byte-order mark at the start removed')
    lines = decode_lines(data, path, before)
    before += len(lines)
    yield data, lines


def _whole_lines(path: str) -> Iterator[bytes]:
  """Yield a file's content in blocks that end where a line does."""
  begun = []  # the bytes of a line whose end has not been read yet
  for data in _byte_blocks(path):
    end = data.rfind(b'\n') + 1
    begun.append(data[:end] if end else data)
    if end:
      yield b''.join(begun)
      begun = [data[end:]]
  if rest := b''.join(begun):
    yield rest


def _byte_blocks(path: str) -> Iterator[bytes]:
  """Yield a file's content in blocks, unpacked when it is gzip. Raises DataError as line_blocks does."""
  check_there(path)
  try:
    with open(path, 'rb') as file:
      content = gzip.GzipFile(fileobj=file) if _begins_packed(file) else file
      while data := content.read(_BLOCK):
        yield data
  except (gzip.BadGzipFile, EOFError, zlib.error) as error:
    raise DataError(f'{path} is a damaged gzip file ({error}); fetch it again') from None
  except OSError as error:
    raise DataError(f'{path} cannot be read: {error.strerror}') from None


def check_there(path: str) -> None:
  """Raise DataError when there is no such file, naming those that are there. A pipe is one."""
  if os.path.exists(path) and not os.path.isdir(path):
    return
  folder = path if os.path.isdir(path) else os.path.dirname(path) or '.'
  there = split_files.listing(folder, os.path.basename(path)) if os.path.isdir(folder) else f'the folder {folder} does not exist'
  if os.path.lexists(path):
    raise DataError(f'{path} is {split_files.other_than_a_file(path)}; expected a text file. {there}')
  raise DataError(f'no file {path}; {there}')


def is_packed(path: str) -> bool:
  """Return whether a file that is there is gzip, by its content."""
  with open(path, 'rb') as file:
    return _begins_packed(file)


def _begins_packed(file: io.BufferedReader) -> bool:
  return file.peek(2)[:2] == _GZIP


def read_bytes(path: str) -> bytes:
  """Return a file's content, unpacked when it is gzip. Raises DataError as line_blocks does."""
  return b''.join(_byte_blocks(path))


def read_lines(path: str, notes: list[str] | None = None) -> list[str]:
  """Return all lines of a text file, plain or gzip; see line_blocks."""
  return list(itertools.chain.from_iterable(line_blocks(path, notes)))


class TextFile(NamedTuple):
  """A text file, plain or gzip, that is read more than once and must not change meanwhile."""

  path: str
  mark: tuple[int, int] | None  # its size and time of change when it was found; None where there was none

  @classmethod
  def of(cls, path: str) -> 'TextFile':
    """Note what the file is now; whether it can be read is seen when it is. Raises DataError for a pipe."""
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
      raise DataError(f'{path} is no regular file, and is read more than once; write what it yields to a file first')
    return cls(path, _mark(path))

  def blocks(self, notes: list[str] | None = None) -> Iterator[tuple[bytes, list[str]]]:
    """Yield the content, unpacked, in blocks that end where a line does, and the lines of each.

    Args:
      notes: gets a note on what was removed.

    Raises:
      DataError: as line_blocks does, and when the file has changed since it was found.
    """
    for block in _decoded(self.path, notes):
      self.check()
      yield block
    self.check()

  def lines(self, notes: list[str] | None = None) -> Iterator[str]:
    """Yield the lines; see blocks."""
    return itertools.chain.from_iterable(lines for _, lines in self.blocks(notes))

  def check(self) -> None:
    """Raise DataError when the file has changed since it was found."""
    if _mark(self.path) != self.mark:
      raise DataError(f'{self.path} was changed while it was read; give the same command again when it is whole')


def _mark(path: str) -> tuple[int, int] | None:
  try:
    found = os.stat(path)
  except OSError:
    return None
  return found.st_size, found.st_mtime_ns


def directory_corpus(config: CorpusConfig) -> Corpus:
  """Load `<directory>/<split>.<language>`, plain or `.gz`, one sentence per line, the two sides aligned.

  A split's name may be several, separated by commas, with wildcards: see stems. Training pairs with an empty side are
  dropped. The first test set must exist; others are used if they exist, and notes name those that do not.
  """
  notes, codes = [config.direction], (config.source_language, config.target_language)
  _check_apart(config, codes, notes)
  # Held-out text first: what is wrong with it is told before millions of training pairs are read.
  validation = _heldout_pairs(config, config.validation_split, notes)
  tests = tuple(_heldout_pairs(config, stem, notes)
                for stem in tests_there(config.directory, config.test_splits, codes, notes))
  return Corpus(
      name=config.directory, source_language=config.source_language, target_language=config.target_language,
      train=training_pairs(config, notes), validation=validation, tests=tests, notes=tuple(notes))


def _check_apart(config: CorpusConfig, codes: Sequence[str], notes: list[str]) -> None:
  """Raise DataError when wildcards of the training text match files of held-out text; note where both are named alike."""
  files_of = lambda name: {*map(os.path.realpath, split_files.files_there(config.directory, name, codes))}
  trained = files_of(config.train_split)
  held = [stem for name in (config.validation_split, *config.test_splits)
          for stem in split_files.stems(config.directory, name, codes)]
  if both := [stem for stem in dict.fromkeys(held) if trained & files_of(stem)]:
    if glob.has_magic(config.train_split):
      raise DataError(f'--config.data.train_split={config.train_split!r} matches {" and ".join(both)} too, which is held out: '
                      'the run would be tested on what it was trained on; name the training files, or move the others')
    notes.append(f'{" and ".join(both)}: training text, too, so that its scores tell nothing of other text')


def tests_there(directory: str, stems: Sequence[str], endings: Sequence[str], notes: list[str], needed: int = 1
                ) -> list[str]:
  """Return the first test set and those of the others whose files exist; add to `notes` which do not.

  Args:
    directory: where the files lie.
    stems: of the test sets; those with commas or wildcards count as there.
    endings: of the files of a set: `<stem>.<ending>`, plain or `.gz`.
    notes: see above.
    needed: how many of the first count as there; whoever reads them reports that they are not.
  """
  missing = {stem: [name for name in (f'{stem}.{ending}' for ending in endings) if not split_files.path_of(directory, name)]
             for stem in stems[needed:] if not split_files.is_pattern(stem)}
  notes += [f'test set {stem} left out: {directory} has no {" and no ".join(names)}'
            for stem, names in missing.items() if names]
  return [stem for stem in stems if not missing.get(stem)]


def training_pairs(config: CorpusConfig, notes: list[str]) -> Split:
  """Return the training split of a folder, which is read anew, block by block, whenever its pairs are wanted.

  It is read once here, to check and to hash it. Pairs with an empty side are dropped; a note says how many.

  Raises:
    DataError: when a file is missing, empty, damaged or not UTF-8, or has more lines than its counterpart; and while
      the split is read, when a file is no longer what was read here.
  """
  stem, dropped = config.train_split, 0
  files = AlignedFiles.of(config, stem)

  def with_text() -> Iterator[Pair]:
    nonlocal dropped
    for pair in shown(files.read(notes), f'reading {stem}', ' pairs'):
      if has_text(pair):
        yield pair
      else:
        dropped += 1

  fingerprint, size = measured(with_text())
  report_empty(dropped, size, stem, notes)
  return Split(shown_name(stem, size), fingerprint, size, lambda: filter(has_text, files.read()), stem)


def has_text(pair: Pair) -> bool:
  """Return whether both sides of a pair hold more than spaces."""
  return bool(pair.source.strip() and pair.target.strip())


def report_empty(dropped: int, kept: int, name: str, notes: list[str]) -> None:
  """Add to `notes` how many pairs of a file were dropped for an empty side. Raises DataError when none is left."""
  if not kept:
    raise DataError(f'{name}: no pair has text on both sides')
  if dropped:
    notes.append(f'{name}: {dropped:,} pairs with an empty side dropped')


def _heldout_pairs(config: CorpusConfig, stem: str, notes: list[str]) -> Split:
  """Return a split that is not trained on; its pairs stay in memory, also those with an empty side."""
  pairs = list(AlignedFiles.of(config, stem).read(notes))
  return in_memory(shown_name(stem, len(pairs)), pairs, stem)


def shown_name(stem: str, size: int) -> str:
  """Return the name by which results know a split of so many pairs, whose files are called <stem>.<language>."""
  return counted(stem, size) if stem.startswith('newstest') else stem


class AlignedFiles(NamedTuple):
  """The files of a split: line n of a source file is translated by line n of its target file."""

  files: list[list[TextFile]]  # [source, target] each; a split's texts are those of all of them, one after the other

  @classmethod
  def of(cls, config: CorpusConfig, name: str) -> 'AlignedFiles':
    """Find the files of a split by its name in the options; see stems."""
    codes = config.source_language, config.target_language
    advice = ('Splits are named by --config.data.train_split, validation_split and test_splits, languages by '
              'source_language and target_language')
    return cls([[TextFile.of(split_files.find(config.directory, f'{stem}.{code}', advice)) for code in codes]
                for stem in split_files.stems(config.directory, name, codes)])

  def read(self, notes: list[str] | None = None) -> Iterator[Pair]:
    """Yield the pairs of all files. Raises DataError when a file has changed since the files were found.

    Args:
      notes: gets a note on what was removed.
    """
    for files in self.files:
      sides = [file.lines(notes) for file in files]
      read = 0
      while True:
        texts = [list(itertools.islice(side, _CHUNK)) for side in sides]
        for file, lines in zip(files, texts):
          if not read and not lines:
            raise DataError(f'{file.path} is empty; expected one sentence per line')
        if len(texts[0]) != len(texts[1]):
          counts = [read + len(lines) + sum(1 for _ in side) for lines, side in zip(texts, sides)]
          raise DataError(f'{files[0].path} has {counts[0]:,} lines and {files[1].path} has {counts[1]:,}; line n of one '
                          'must translate line n of the other')
        if not texts[0]:
          break
        read += len(texts[0])
        yield from map(Pair, *texts)


KINDS.add('text', Kind(directory_corpus, 'pairs', 'directory', 'Multi30k from github.com/multi30k/dataset, data/task1/raw'),
          'pairs: two text files per split', uses=('directory', *SPLITS, *SIDES))
