"""Text files of one's own: two line-aligned files per split, or one file of tab-separated columns."""

import collections
import difflib
import gzip
import hashlib
import os
import random
import zlib
from collections.abc import Hashable, Sequence

from checks.errors import DataError
from corpora import Corpus, CorpusConfig, Pair, Split, counted, direction

_GZIP = b'\x1f\x8b'
_BOM = b'\xef\xbb\xbf'
LARGEST_GROUP = 10  # pairs that share sentences with each other: larger groups are never held out


def decode_lines(data: bytes, name: str) -> list[str]:
  """The lines of UTF-8 bytes. Lines end at LF alone; one CR before it, and a byte-order mark at the start, go.

  Raises:
    DataError: naming file and line, where the bytes are not UTF-8.
  """
  try:
    text = data.decode('utf-8-sig')
  except UnicodeDecodeError as error:
    line = data.count(b'\n', 0, error.start) + 1
    raise DataError(f'{name}, line {line}: not valid UTF-8 (byte 0x{data[error.start]:02x}). '
                    'Convert the file, for instance with: iconv -f LATIN1 -t UTF-8') from None
  lines = text.split('\n')  # not splitlines: U+2028 and its like stand inside sentences
  if lines[-1] == '':
    lines.pop()
  return [line[:-1] if line.endswith('\r') else line for line in lines]


def read_bytes(path: str) -> bytes:
  """A file's content, unpacked when it is gzip. Raises DataError when it is missing, a folder or damaged."""
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
  """The lines of a text file, plain or gzip; see decode_lines. What was removed is told in `notes`."""
  data = read_bytes(path)
  if notes is not None and data.startswith(_BOM):
    notes.append(f'{path}: a byte-order mark at the start removed')
  return decode_lines(data, path)


def _listing(folder: str, wanted: str) -> str:
  """What a folder holds, names like the wanted one first."""
  names = sorted(os.listdir(folder))
  near = difflib.get_close_matches(os.path.basename(wanted), names, n=3)
  return f'{folder} holds: {", ".join(dict.fromkeys(near + names[:20])) or "nothing"}'


def directory_corpus(config: CorpusConfig) -> Corpus:
  """`<directory>/<split>.<language>`, plain or `.gz`, one sentence per line, the two sides aligned."""
  notes = [direction(config)]
  return Corpus(
      name=config.directory, source_language=config.source_language, target_language=config.target_language,
      train=training_pairs(config, notes), validation=_file_pairs(config, config.validation_split, notes),
      test=_file_pairs(config, config.test_split, notes) if config.test_split else None, notes=tuple(notes))


def training_pairs(config: CorpusConfig, notes: list[str]) -> Split:
  """The training split of a folder; what was left out is told in `notes`."""
  return _file_pairs(config, config.train_split, notes, drop_empty=True)


def _file_pairs(config: CorpusConfig, stem: str, notes: list[str], drop_empty: bool = False) -> Split:
  """`<directory>/<stem>.<language>` of both languages."""
  paths = [find(config.directory, f'{stem}.{code}', 'Splits are named by --config.data.train_split, '
                'validation_split and test_split, languages by source_language and target_language')
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
    pairs = _without_empty(pairs, stem, notes)
  return _split(counted(stem, len(pairs)) if stem.startswith('newstest') else stem, pairs)


def find(directory: str, name: str, advice: str) -> str:
  """The path of a file or of its `.gz`. Raises DataError with what is there and `advice` when neither exists."""
  if not os.path.isdir(directory):
    raise DataError(f'no folder {directory}; expected one with files such as {name} (plain or .gz)')
  for candidate in (name, f'{name}.gz'):
    if os.path.isfile(os.path.join(directory, candidate)):
      return os.path.join(directory, candidate)
  raise DataError(f'neither {name} nor {name}.gz is there; {_listing(directory, name)}. {advice}')


def _without_empty(pairs: list[Pair], name: str, notes: list[str]) -> list[Pair]:
  kept = [pair for pair in pairs if pair.source.strip() and pair.target.strip()]
  if not kept:
    raise DataError(f'{name}: no pair has text on both sides')
  if len(kept) < len(pairs):
    notes.append(f'{name}: {len(pairs) - len(kept):,} pairs with an empty side dropped')
  return kept


def _split(name: str, pairs: Sequence[Pair]) -> Split:
  digest = hashlib.sha256()
  for pair in pairs:
    for text in pair:
      digest.update(text.encode() + b'\n')
  return Split(name, digest.hexdigest(), len(pairs), lambda: iter(pairs))


def tsv_corpus(config: CorpusConfig) -> Corpus:
  """One file of tab-separated columns, further columns ignored, split here so that nothing held out is trained on.

  Pairs that share a sentence, in either language, form a group (the same sentence has many translations in
  Tatoeba); whole groups are held out, drawn by the seed, so that no held-out sentence of either language stands in
  training. Validation and test take one pair of each of their groups; a group's further pairs are dropped.
  """
  columns = config.tsv_source_column, config.tsv_target_column
  notes = [direction(config)]
  lines = read_lines(config.tsv, notes)
  pairs = [_cells(line, columns, config.tsv, number) for number, line in enumerate(lines, 1) if line.strip()]
  if not pairs:
    raise DataError(f'{config.tsv} is empty; expected one pair per line, tab-separated')
  if len(pairs) < len(lines):
    notes.append(f'{len(lines) - len(pairs):,} blank lines skipped')
  distinct = list(dict.fromkeys(pairs))
  if len(distinct) < len(pairs):
    notes.append(f'{len(pairs) - len(distinct):,} repeated pairs dropped')
  pairs = _without_empty(distinct, config.tsv, notes)
  keys = [(('source', pair.source), ('target', pair.target)) for pair in pairs]
  *parts, dropped = split_by_key(keys, config.heldout, config.seed, config.tsv, 'pairs')
  train, validation, test = ([pairs[i] for i in part] for part in parts)
  if dropped:
    notes.append(f'{dropped:,} pairs dropped because a sentence of theirs is held out')
  name = os.path.basename(config.tsv)
  return Corpus(
      name=config.tsv, source_language=config.source_language, target_language=config.target_language,
      train=_split(f'{name} train', train), validation=_split(f'{name} validation', validation),
      test=_split(f'{name} test', test), notes=tuple(notes))


def _cells(line: str, columns: tuple[int, int], path: str, number: int) -> Pair:
  cells = line.split('\t')
  if len(cells) < max(columns):
    raise DataError(f'{path}, line {number}: {len(cells)} tab-separated columns, but column {max(columns)} is '
                    'asked for by --config.data.tsv_source_column and tsv_target_column')
  return Pair(*(cells[column - 1].strip() for column in columns))


def split_by_key(keys: Sequence[Sequence[Hashable]], heldout: int, seed: int, name: str, noun: str
                 ) -> tuple[list[int], list[int], list[int], int]:
  """Items of training, validation and test, and how many were dropped, so that no key stands in two splits.

  Args:
    keys: of each item; items with a common key form a group.
    heldout: items, each of another group, to validate with, and as many to test on.
    seed: draws the groups that are held out.
    name, noun: of the file and of its items, for messages.
  """
  groups = _groups(keys)
  order = sorted(groups)
  random.Random(seed).shuffle(order)
  # Large groups ("Tom" sentences chained through shared translations) would cost many items: they stay in training.
  small = [group for group in order if len(groups[group]) <= LARGEST_GROUP]
  most = min(len(small), len(groups) - 1) // 2
  if heldout > most:
    raise DataError(f'{name} has {len(keys):,} {noun} in {len(groups):,} groups without a common sentence; to hold out '
                    f'2 × {heldout:,} {noun} and train on the rest is not possible. ' +
                    (f'Set --config.data.heldout to {most:,} or less' if most else
                     'Bring separate files for each split, see --config.data.kind=text'))
  held = small[:2 * heldout]
  training = sorted(groups.keys() - set(held))
  one_each = lambda chosen: [groups[group][0] for group in chosen]
  dropped = sum(len(groups[group]) - 1 for group in held)
  return [i for group in training for i in groups[group]], one_each(held[:heldout]), one_each(held[heldout:]), dropped


def _groups(keys: Sequence[Sequence[Hashable]]) -> dict[int, list[int]]:
  """Connected components of items that share a key: first member -> members, by union-find."""
  parent = list(range(len(keys)))

  def root(i):
    while parent[i] != i:
      parent[i] = parent[parent[i]]
      i = parent[i]
    return i

  owner = {}
  for i, of_item in enumerate(keys):
    for key in of_item:
      a, b = root(owner.setdefault(key, i)), root(i)
      parent[max(a, b)] = min(a, b)
  groups = collections.defaultdict(list)
  for i in range(len(keys)):
    groups[root(i)].append(i)
  return dict(groups)
