"""The user's own text files: two line-aligned files per split, or one file of tab-separated columns."""

import difflib
import gzip
import os
import zlib
from collections.abc import Sequence

from checks.errors import DataError
from corpora import heldout
from corpora.config import KINDS, CorpusConfig, Kind
from corpora.splits import Corpus, Pair, Split, counted, in_memory

_GZIP = b'\x1f\x8b'
_BOM = b'\xef\xbb\xbf'


def decode_lines(data: bytes, name: str) -> list[str]:
  """Return the lines of UTF-8 bytes. Lines end at LF alone; one CR before it, and a byte-order mark, are removed.

  Raises:
    DataError: naming file and line, where the bytes are not UTF-8.
  """
  try:
    text = data.decode('utf-8-sig')
  except UnicodeDecodeError as error:
    line = data.count(b'\n', 0, error.start) + 1
    raise DataError(f'{name}, line {line}: not valid UTF-8 (byte 0x{data[error.start]:02x}). '
                    'Convert the file, for instance with: iconv -f LATIN1 -t UTF-8') from None
  lines = text.split('\n')  # not splitlines, which also splits at U+2028 and the like, inside sentences
  if lines[-1] == '':
    lines.pop()
  return [line[:-1] if line.endswith('\r') else line for line in lines]


def read_bytes(path: str) -> bytes:
  """Return a file's content, unpacked when it is gzip. Raises DataError when it is missing, a folder or damaged."""
  if os.path.isdir(path):
    raise DataError(f'{path} is a folder; expected a text file. {_listing(path, path)}')
  if not os.path.exists(path):
    folder = os.path.dirname(path) or '.'
    raise DataError(f'no file {path}; ' + (_listing(folder, os.path.basename(path)) if os.path.isdir(folder)
                                           else f'the folder {folder} does not exist'))
  try:
    with open(path, 'rb') as file:
      data = file.read()
  except OSError as error:
    raise DataError(f'{path} cannot be read: {error.strerror}') from None
  if data[:2] == _GZIP:
    try:
      data = gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
      raise DataError(f'{path} is a damaged gzip file ({error}); fetch it again') from None
  return data


def read_lines(path: str, notes: list[str] | None = None) -> list[str]:
  """Return the lines of a text file, plain or gzip, see decode_lines; add to `notes` what was removed."""
  data = read_bytes(path)
  if notes is not None and data.startswith(_BOM):
    notes.append(f'{path}: a byte-order mark at the start removed')
  return decode_lines(data, path)


def _listing(folder: str, wanted: str) -> str:
  """List a folder's files for a message, names similar to the wanted one first."""
  names = sorted(os.listdir(folder))
  near = difflib.get_close_matches(os.path.basename(wanted), names, n=3)
  return f'{folder} holds: {", ".join(dict.fromkeys(near + names[:20])) or "nothing"}'


def directory_corpus(config: CorpusConfig) -> Corpus:
  """Load `<directory>/<split>.<language>`, plain or `.gz`, one sentence per line, the two sides aligned.

  Training pairs with an empty side are dropped. The first test set must exist; others are used if they exist, and
  notes name those that do not.
  """
  notes = [config.direction]
  return Corpus(
      name=config.directory, source_language=config.source_language, target_language=config.target_language,
      train=training_pairs(config, notes), validation=_file_pairs(config, config.validation_split, notes),
      tests=tuple(_file_pairs(config, stem, notes) for stem in _tests_there(config, notes)), notes=tuple(notes))


def _tests_there(config: CorpusConfig, notes: list[str]) -> list[str]:
  return tests_there(config.directory, config.test_splits, (config.source_language, config.target_language), notes)


def tests_there(directory: str, stems: Sequence[str], endings: Sequence[str], notes: list[str]) -> list[str]:
  """Return the first test set and those of the others whose files exist; add to `notes` which do not.

  Args:
    directory: where the files lie.
    stems: of the test sets.
    endings: of the files of a set: `<stem>.<ending>`, plain or `.gz`.
  """
  missing = {stem: [name for name in (f'{stem}.{ending}' for ending in endings) if not _path(directory, name)]
             for stem in stems[1:]}
  notes += [f'test set {stem} left out: {directory} has no {" and no ".join(names)}'
            for stem, names in missing.items() if names]
  return [stem for stem in stems if not missing.get(stem)]


def training_pairs(config: CorpusConfig, notes: list[str]) -> Split:
  """Load the training split of a folder; add to `notes` how many pairs were left out."""
  return _file_pairs(config, config.train_split, notes, drop_empty=True)


def _file_pairs(config: CorpusConfig, stem: str, notes: list[str], drop_empty: bool = False) -> Split:
  """Load `<directory>/<stem>.<language>` of both languages."""
  paths = [find(config.directory, f'{stem}.{code}', 'Splits are named by --config.data.train_split, '
                'validation_split and test_splits, languages by source_language and target_language')
           for code in (config.source_language, config.target_language)]
  sides = [read_lines(path, notes) for path in paths]
  for path, lines in zip(paths, sides):
    if not lines:
      raise DataError(f'{path} is empty; expected one sentence per line')
  if len(sides[0]) != len(sides[1]):
    raise DataError(f'{paths[0]} has {len(sides[0]):,} lines and {paths[1]} has {len(sides[1]):,}; line n of one '
                    'must translate line n of the other')
  pairs = [Pair(*texts) for texts in zip(*sides)]
  if drop_empty:
    pairs = heldout.without_empty(pairs, stem, notes)
  return in_memory(counted(stem, len(pairs)) if stem.startswith('newstest') else stem, pairs, stem)


def find(directory: str, name: str, advice: str) -> str:
  """Return the path of a file or of its `.gz`. If neither exists, raise DataError with what is there and `advice`."""
  if not os.path.isdir(directory):
    raise DataError(f'no folder {directory}; expected one with files such as {name} (plain or .gz)')
  if path := _path(directory, name):
    return path
  raise DataError(f'neither {name} nor {name}.gz is there; {_listing(directory, name)}. {advice}')


def _path(directory: str, name: str) -> str | None:
  """Return the path of a file, or else of its `.gz`; None when neither is there."""
  paths = (os.path.join(directory, candidate) for candidate in (name, f'{name}.gz'))
  return next((path for path in paths if os.path.isfile(path)), None)


def tsv_corpus(config: CorpusConfig) -> Corpus:
  """Load one file of tab-separated columns, further columns ignored, and split it; see heldout.split_pairs."""
  columns = config.tsv_source_column, config.tsv_target_column
  notes = [config.direction]
  lines = read_lines(config.tsv, notes)
  pairs = [_cells(line, columns, config.tsv, number) for number, line in enumerate(lines, 1) if line.strip()]
  if not pairs:
    raise DataError(f'{config.tsv} is empty; expected one pair per line, tab-separated')
  if len(pairs) < len(lines):
    notes.append(f'{len(lines) - len(pairs):,} blank lines skipped')
  return heldout.split_pairs(pairs, config.tsv, config, notes)


def _cells(line: str, columns: tuple[int, int], path: str, number: int) -> Pair:
  cells = line.split('\t')
  if len(cells) < max(columns):
    raise DataError(f'{path}, line {number}: {len(cells)} tab-separated columns, too few for column {max(columns)}, '
                    'which --config.data.tsv_source_column or tsv_target_column names')
  return Pair(*(cells[column - 1].strip() for column in columns))


KINDS.add('text', Kind(directory_corpus, 'pairs', needs='directory'), 'pairs: two text files per split',
          uses=('directory',))
KINDS.add('tsv', Kind(tsv_corpus, 'pairs', needs='tsv'), 'pairs: one file of tab-separated columns, split here',
          uses=('tsv', 'tsv_source_column', 'tsv_target_column', 'heldout'))
