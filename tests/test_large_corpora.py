"""Corpora larger than memory: text is read block by block, stores are written in pieces, and a kill loses one piece."""

import collections
import gzip
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from batching import pieces
from batching import store as stores
from checks.errors import DamagedError, DataError
from corpora import cleaning, indexed_lines, loading, text_files, vocabulary
from corpora.splits import Pair, Split

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


# ------------------------------------------------------------------------------------------------ reading in blocks


def whole(data):
  """The lines of a file, read as a whole, by the rules of docs/data.md."""
  text = data.decode().removeprefix('\ufeff')
  lines = text.split('\n')
  return [line.removesuffix('\r') for line in (lines[:-1] if lines[-1] == '' else lines)]


@pytest.mark.parametrize('block', [1, 2, 3, 7, 64])
def test_lines_do_not_depend_on_where_blocks_end(tmp_path, monkeypatch, block):
  monkeypatch.setattr(text_files, '_BLOCK', block)
  draw = random.Random(block)
  for _ in range(60):
    text = ''.join(draw.choices(['\ufeff', '\r', '\n', '\n', 'a', 'ä', '😀', '\u2028', ' '], k=draw.randrange(40)))
    for data in (text.encode(), ('\ufeff' + text).encode()):
      (tmp_path / 'plain').write_bytes(data)
      (tmp_path / 'packed').write_bytes(gzip.compress(data))
      assert text_files.read_lines(str(tmp_path / 'plain')) == whole(data)
      assert text_files.read_lines(str(tmp_path / 'packed')) == whole(data)


def test_a_wrong_byte_far_from_the_start_is_named_with_its_line(tmp_path, monkeypatch):
  monkeypatch.setattr(text_files, '_BLOCK', 16)
  (tmp_path / 'latin').write_bytes('gut\n'.encode() * 99 + 'schön\nende\n'.encode('latin-1'))
  with pytest.raises(DataError, match=r'latin, line 100: not valid UTF-8 \(byte 0xf6\)'):
    text_files.read_lines(str(tmp_path / 'latin'))


# ------------------------------------------------------------------------------------------- several files per split


def write(folder, name, lines):
  (folder / name).write_bytes(gzip.compress(''.join(f'{line}\n' for line in lines).encode(), mtime=0)
                              if name.endswith('.gz') else ''.join(f'{line}\n' for line in lines).encode())


@pytest.fixture
def folder(tmp_path):
  """Three parts of 5, 3 and 4 pairs, one of them packed, and the same text in one file."""
  parts = {'news-10': 5, 'news-2': 3, 'talks': 4}
  texts = {name: [f'{name} {i}' for i in range(size)] for name, size in parts.items()}
  for code in ('en', 'de'):
    for name, lines in texts.items():
      write(tmp_path, f'{name}.{code}' + ('.gz' if name == 'news-2' else ''), [f'{line} {code}' for line in lines])
    write(tmp_path, f'all.{code}', [f'{line} {code}' for lines in texts.values() for line in lines])
    write(tmp_path, f'val.{code}', ['a'])
  return tmp_path


def load(folder, train_split, **changes):
  return loading.load(loading.CorpusConfig(**dict(
      kind='text', source_language='en', target_language='de', directory=str(folder), train_split=train_split,
      validation_split='val', test_splits=()) | changes))


@pytest.mark.parametrize('name', ['news-10,news-2,talks', 'news-*, talks', 'n*,talks', '[nt]*', 'news-10,*s-*,talks'])
def test_a_split_of_several_files_is_their_text_in_order(folder, name):
  found, one = load(folder, name).train, load(folder, 'all').train
  assert list(found) == list(one) and len(found) == 12 and found.fingerprint == one.fingerprint
  assert load(folder, 'talks,news-*').train.fingerprint != one.fingerprint


def test_validation_and_test_sets_may_be_several_files_too(folder):
  found = load(folder, 'all', validation_split='news-*', test_splits=('talks', 'news-2,talks'))
  assert [len(split) for split in (found.validation, *found.tests)] == [8, 4, 7]


def test_what_several_files_lack_is_named(folder):
  with pytest.raises(DataError, match=r'no file matches wmt\*\.en or wmt\*\.de .*holds: .*news-2'):
    load(folder, 'news-2,wmt*')
  for name in (',', ' , '):
    with pytest.raises(DataError, match=f"no file is named by '{name}'; expected .*separated by commas, such as"):
      load(folder, 'all', validation_split=name)
  (folder / 'talks.de').unlink()
  with pytest.raises(DataError, match=r'neither talks\.de nor talks\.de\.gz'):
    load(folder, 't*')
  write(folder, 'talks.de', ['1', '2', '3'])
  with pytest.raises(DataError, match=r'talks\.en has 4 lines and .*talks\.de has 3'):
    load(folder, 'news-*,talks')
  write(folder, 'talks.en', [])
  with pytest.raises(DataError, match=r'talks\.en is empty'):
    load(folder, 'news-*,talks')


def test_a_file_whose_name_has_a_comma_or_a_bracket_is_that_file(folder):
  for code in ('en', 'de'):
    write(folder, f'a,[b].{code}', ['one', 'two'])
  assert len(load(folder, 'a,[b]').train) == 2


def test_text_that_changes_after_it_was_checked_is_an_error(folder):
  split = load(folder, 'news-10').train
  write(folder, 'news-10.de', [f'else {i}' for i in range(5)])
  with pytest.raises(DataError, match=r'news-10\.de was changed while it was read'):
    list(split)


# ---------------------------------------------------------------------------------------------- one file, split here


def one_file(tmp_path, kind, content, packed=False, **changes):
  """Load a corpus of one file, named the same in every test, since splits bear its name."""
  path = tmp_path / 'all'
  path.write_bytes(gzip.compress(content.encode(), mtime=0) if packed else content.encode())
  name = {'running_text': 'text'}.get(kind, kind)
  return loading.load(loading.CorpusConfig(**dict(
      kind=kind, source_language='en', target_language='de', heldout=3, **{name: str(path)}) | changes))


LINES = [(f'Zeile {i * 7 % 90}', f'line {i * 11 % 80} – {"long " * (i % 5)}') for i in range(120)]
TSV = '\ufeff' + ''.join(f'{source}\t{target}\r\n' + '\r\n' * (i % 9 == 0) for i, (source, target) in enumerate(LINES))
TEXT = ''.join(f'{source}\n{target}\n' + '\n' * (i % 9 == 0) for i, (source, target) in enumerate(LINES))
# The fingerprints of training, validation and test, as they were when the lines of a file were held in memory: with
# others, a run that was begun then would not go on.
FINGERPRINTS = {
    ('tsv', 'file'): ('82bff2c1f053dbc7', '09cc79d23ec69c27', 'f1c5417c5fd4e873'),
    ('running_text', 'file'): ('21b0d6039bf68431', 'aa200e48871bd6af', '9dd3f516190f76b0'),
    ('running_text', 'paragraph'): ('c09914a7bb274656', '8c1d0b653116cc68', '5910383d08aa7430'),
    ('running_text', 'line'): ('d2a1e4efe994d16d', '215e8343dc37a9ef', 'fbfd26bbcae03f2d')}


@pytest.mark.parametrize('block', [61, 1 << 20])
@pytest.mark.parametrize('packed', [False, True])
@pytest.mark.parametrize('kind, document', FINGERPRINTS)
def test_one_file_makes_the_splits_that_it_has_always_made(tmp_path, monkeypatch, kind, document, packed, block):
  monkeypatch.setattr(text_files, '_BLOCK', block)
  corpus = one_file(tmp_path, kind, TSV if kind == 'tsv' else TEXT, packed, document=document)
  splits = corpus.train, corpus.validation, corpus.tests[0]
  assert tuple(split.fingerprint[:16] for split in splits) == FINGERPRINTS[kind, document]
  assert list(corpus.train) == list(corpus.train)  # read anew


def test_pairs_of_one_file_may_be_read_by_several_at_once(tmp_path):
  train = one_file(tmp_path, 'tsv', TSV, packed=True).train
  assert all(one == other for one, other in zip(train, train, strict=True))


@pytest.mark.parametrize('packed', [False, True])
@pytest.mark.parametrize('kind, content', [('tsv', TSV), ('running_text', TEXT)])
def test_one_file_that_changes_after_it_was_checked_is_an_error(tmp_path, kind, content, packed):
  train = one_file(tmp_path, kind, content, packed).train
  (tmp_path / 'all').write_text('else')
  with pytest.raises(DataError, match=r'all was changed while it was read'):
    list(train)


def test_no_room_for_the_unpacked_copy_is_told(tmp_path, monkeypatch):
  def full():
    raise OSError(28, 'No space left on device')
  monkeypatch.setattr(indexed_lines.tempfile, 'TemporaryFile', full)
  with pytest.raises(DataError, match=r'all is packed, and .* has no room .*No space.*set TMPDIR'):
    one_file(tmp_path, 'tsv', TSV, packed=True)


@pytest.mark.parametrize('lines_at_a_time, tokens_at_a_time', [(1, 1), (3, 100)])
def test_a_long_document_is_stored_in_parts_as_it_is_at_once(tmp_path, monkeypatch, lines_at_a_time, tokens_at_a_time):
  split = one_file(tmp_path, 'running_text', TEXT).train
  config = vocabulary.VocabularyConfig(size=300, dummy_prefix=False)
  words = vocabulary.Vocabulary(vocabulary.train(config, TEXT.split('\n')), 'made up')
  whole = stores.open_text_store(split, words, 23, str(tmp_path / 'whole'))
  monkeypatch.setattr(vocabulary, '_LINES_AT_A_TIME', lines_at_a_time)
  monkeypatch.setattr(stores, '_TOKENS_AT_A_TIME', tokens_at_a_time)
  assert stores.open_text_store(split, words, 23, str(tmp_path / 'parts')).sums == whole.sums
  text, = split
  assert whole.target.ids.tolist() == [*words.encode(text), words.eos_id]


# --------------------------------------------------------------------------------------------------- stores in pieces


class Letters:
  """A vocabulary of letters that counts the texts it encodes, and may stop the program after so many calls."""

  eos_id = 3

  def __init__(self, fingerprint='letters', stops_after=-1):
    self.fingerprint, self.texts, self._left = fingerprint, 0, stops_after

  def encode_batch(self, texts, first=0):
    if not self._left:
      raise KeyboardInterrupt
    self._left -= 1
    self.texts += len(texts)
    return [[first + i, *map(ord, text)] for i, text in enumerate(texts)]


PAIRS = [Pair('a' * (i % 7), 'bc' * (i % 5)) for i in range(997)]
SPLIT = Split('train', 'text', len(PAIRS), lambda: iter(PAIRS))
FILES = ['source.ids.npy', 'source.offsets.npy', 'target.ids.npy', 'target.offsets.npy', 'sums.json']


@pytest.fixture
def small_pieces(monkeypatch):
  monkeypatch.setattr(stores, '_CHUNK', 10)
  monkeypatch.setattr(stores, '_CHUNKS_OF_PIECE', 5)


def make(folder, target=None):
  source, target = Letters(), target or Letters()
  store = stores.open_store(SPLIT, source, target, str(folder))
  place = folder / store.fingerprint
  assert sorted(os.listdir(folder)) == [store.fingerprint] and sorted(os.listdir(place)) == sorted(FILES)
  return {name: (place / name).read_bytes() for name in FILES}, source.texts


def test_a_store_is_what_numpy_would_have_saved_at_once(tmp_path, small_pieces):
  found, _ = make(tmp_path / 'pieces')
  for side in ('source', 'target'):
    sentences = [[i, *map(ord, getattr(pair, side)), 3] for i, pair in enumerate(PAIRS)]
    np.save(tmp_path / 'ids.npy', np.array([token for one in sentences for token in one], np.int32))
    np.save(tmp_path / 'offsets.npy', np.cumsum([0, *map(len, sentences)], dtype=np.int64))
    for name in ('ids', 'offsets'):
      assert found[f'{side}.{name}.npy'] == (tmp_path / f'{name}.npy').read_bytes()


def test_a_file_that_something_else_leaves_in_a_store_is_no_damage(tmp_path):
  (tmp_path / 'a').mkdir()
  store = stores.open_store(SPLIT, Letters(), Letters(), str(tmp_path / 'a'))
  (tmp_path / 'a' / store.fingerprint / '.DS_Store').write_bytes(b'icons')
  assert stores.open_store(SPLIT, Letters(), Letters(), str(tmp_path / 'a')).verify()
  os.remove(tmp_path / 'a' / store.fingerprint / 'target.ids.npy')
  with pytest.raises(DamagedError, match='target.ids.npy is damaged'):
    stores.open_store(SPLIT, Letters(), Letters(), str(tmp_path / 'a'))


def interrupted(folder, calls=33):
  """Leave an unfinished store: six whole pieces of 50 pairs, and part of a seventh."""
  with pytest.raises(KeyboardInterrupt):
    stores.open_store(SPLIT, Letters(), Letters(stops_after=calls), str(folder))
  name, = os.listdir(folder)
  assert name.endswith('.unfinished')
  return folder / name


def test_what_was_interrupted_goes_on_at_the_last_whole_piece(tmp_path, small_pieces):
  (tmp_path / 'a').mkdir()
  whole, _ = make(tmp_path / 'b')
  interrupted(tmp_path / 'a')
  interrupted(tmp_path / 'a', 20)  # of the rest; the second time, too
  again, encoded = make(tmp_path / 'a')
  assert again == whole and encoded == len(PAIRS) - 500


DAMAGES = {  # each with whether the first pieces are whole still
    'flipped': (lambda data: data[:200] + bytes([data[200] ^ 1]) + data[201:], False),
    'cut': (lambda data: data[:len(data) // 2], True),
    'emptied': (lambda data: b'', False), 'zeros': (lambda data: bytes(len(data)), False)}


@pytest.mark.parametrize('name', [*FILES[:4], 'pieces.json'])
@pytest.mark.parametrize('damage', DAMAGES)
def test_no_damaged_piece_is_taken_for_whole(tmp_path, small_pieces, name, damage):
  whole, _ = make(tmp_path / 'b')
  left = interrupted(tmp_path / 'a')
  spoil, some_left = DAMAGES[damage]
  (left / name).write_bytes(spoil((left / name).read_bytes()))
  again, encoded = make(tmp_path / 'a')
  assert again == whole
  if some_left and name != 'pieces.json':
    assert len(PAIRS) - 300 < encoded < len(PAIRS)
  else:
    assert encoded == len(PAIRS)


def test_a_full_disk_leaves_nothing_behind(tmp_path, small_pieces):
  def full(pairs):
    yield from itertools.islice(pairs, 400)
    raise OSError(28, 'No space left on device')
  with pytest.raises(OSError, match='No space'):
    stores.open_store(SPLIT, Letters(), Letters(), str(tmp_path), full)
  assert os.listdir(tmp_path) == []


# --------------------------------------------------------------------------------------------- duplicates, and memory


def test_duplicates_are_those_that_have_occurred_before():
  draw = random.Random(0)
  pairs = [Pair(draw.choice('abcd') * draw.randrange(9), draw.choice(['x', 'y', ' '])) for _ in range(400)]
  split = Split('train', '', len(pairs), lambda: iter(pairs))
  found, dropped = cleaning.clean(split, cleaning.CleaningConfig(drop_duplicates=True, max_characters=6))
  expected = [pair for pair in dict.fromkeys(pairs) if max(map(len, pair)) <= 6]
  assert list(found) == expected and len(found) == len(expected) < 100
  long = collections.Counter(max(map(len, pair)) > 6 for pair in pairs)[True]
  assert dropped == {'max_characters': long, 'drop_duplicates': 400 - long - len(expected)}


PROGRAM = '''
import sys
sys.path.insert(0, {root!r})
from batching.store import open_store, open_text_store
from corpora import cleaning, loading, vocabulary
import numpy, sentencepiece, tqdm
def peak():  # in MiB, by the kernel; what getrusage says begins with the memory of the process that started this one
  with open('/proc/self/status') as file:
    return next(int(line.split()[1]) / 1024 for line in file if line.startswith('VmHWM:'))
before = peak()
of = loading.CorpusConfig(**{options!r})
train = cleaning.apply(loading.load(of), cleaning.CleaningConfig(drop_duplicates={pairs}), of).train
words = vocabulary.Vocabulary({model!r}, 'made up')
store = open_store(train, words, words, {store!r}) if {pairs} else open_text_store(train, words, 64, {store!r})
print(len(store), peak() - before)
'''
ONE_FILE = {  # kind -> how a pair is written on a line
    'tsv': lambda source, target: f'{source}\t{target}\n',
    'jsonl': lambda source, target: json.dumps({'source': source, 'target': target}) + '\n',
    'running_text': lambda source, target: f'{source}\n{target}\n'}


def program(folder, pairs, kind='text', packed=False):
  """Write made-up text, and a program that prepares it and prints its texts and the growth of memory in MiB."""
  folder.mkdir()
  sentence = lambda code, i: f'{code} sentence {i % (pairs // 4)} of part {i * 4 // pairs}, and words'
  options = dict(kind=kind, source_language='en', target_language='de')
  if kind == 'text':
    for code in ('en', 'de'):
      for part in range(4):
        with open(folder / f'part-{part}.{code}', 'w') as file:
          file.writelines(f'{sentence(code, i)}\n' for i in range(part * pairs // 4, (part + 1) * pairs // 4))
      write(folder, f'val.{code}', ['a'])
    options |= dict(directory=str(folder), train_split='part-*', validation_split='val', test_splits=())
  else:
    with gzip.open(folder / 'all', 'wt', 1) if packed else open(folder / 'all', 'w') as file:
      file.writelines(ONE_FILE[kind](sentence('en', i), sentence('de', i)) for i in range(pairs))
    options |= {{'running_text': 'text'}.get(kind, kind): str(folder / 'all'), 'heldout': HELDOUT, 'heldout_share': 0.01}
  model = vocabulary.train(vocabulary.VocabularyConfig(kind='char', size=400, dummy_prefix=False),
                           ['0123456789 sentence of part, and words ende'])
  return [sys.executable, '-c', PROGRAM.format(root=ROOT, options=options, model=model, store=str(folder / 'store'),
                                               pairs=kind != 'running_text')]


HELDOUT = 500  # pairs of one file, for validation and for the test


def prepare(tmp_path, pairs, kind='text', packed=False):
  """Prepare made-up text; return the texts of its store and the growth of memory in MiB."""
  command = program(tmp_path / 'text', pairs, kind, packed)
  found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=1200)
  texts, growth = found.stdout.split()
  return int(texts), float(growth)


def test_preparing_takes_few_bytes_a_pair(tmp_path):
  texts, growth = prepare(tmp_path, 100_000)
  assert texts == 100_000 and growth < 30  # MiB; all lines in lists take 75


@pytest.mark.parametrize('kind, packed, most', [('tsv', False, 30), ('jsonl', True, 30), ('running_text', True, 60)])
def test_so_does_one_file(tmp_path, kind, packed, most):
  texts, growth = prepare(tmp_path, 50_000, kind, packed)
  assert texts >= 50_000 - 2 * HELDOUT and growth < most  # MiB; all lines in lists take 50, 51 and 225


@pytest.mark.drill
@pytest.mark.parametrize('kind, most', [('text', 200), ('tsv', 300), ('running_text', 100)])
def test_two_million_pairs_are_prepared_within_some_hundred_megabytes(tmp_path, kind, most):
  texts, growth = prepare(tmp_path, 2_000_000, kind)  # of text, duplicates take 96 MiB, and all lines in lists 1,400
  assert texts >= 2_000_000 - 2 * HELDOUT and growth < most


@pytest.mark.drill
def test_preparing_goes_on_after_every_kill(tmp_path):
  command, kills = program(tmp_path / 'text', 1_500_000), 0
  whole = subprocess.run(command, capture_output=True, check=True).stdout
  store = tmp_path / 'text' / 'store'
  name, = os.listdir(store)
  expected = (store / name / 'sums.json').read_text()
  os.rename(store, tmp_path / 'expected')
  pieces, seen = store / f'{name}.unfinished' / 'pieces.json', 0
  while True:
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    while process.poll() is None:
      if pieces.is_file() and pieces.read_text().count('texts') > seen:
        process.send_signal(signal.SIGKILL)
        process.wait()
        seen, kills = pieces.read_text().count('texts'), kills + 1
      time.sleep(0.01)
    if process.returncode == 0:
      break
  assert kills >= 4 and (store / name / 'sums.json').read_text() == expected and whole


def test_processes_that_want_one_new_store_in_the_same_moment_get_it_whole(tmp_path, monkeypatch):
  monkeypatch.setattr(pieces, '_WAIT', 0.001)  # many looks, so that some come while the store is put in its place
  sides = {'source': (np.arange(6), [2, 4]), 'target': (np.arange(6), [3, 3])}
  outcomes, together = [], threading.Barrier(6)

  def want(place):
    together.wait()
    try:
      pieces.write_store(place, 'x', lambda writer: writer.add(2, **sides))
      outcomes.append((sorted(os.listdir(place)), np.load(os.path.join(place, 'source.ids.npy')).size))
    except Exception as error:
      outcomes.append(error)

  for number in range(150):
    threads = [threading.Thread(target=want, args=[str(tmp_path / str(number))]) for _ in range(6)]
    for thread in threads:
      thread.start()
    for thread in threads:
      thread.join()
  assert len(outcomes) == 900
  for found in outcomes:
    assert {*pieces.ARRAYS, pieces.SUMS} <= {*found[0]} and found[1] == 6
  assert sorted(os.listdir(tmp_path)) == sorted(map(str, range(150)))
