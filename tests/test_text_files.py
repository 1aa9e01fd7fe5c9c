"""Text files of one's own: what is read, dropped and told, refused; and that nothing held out is trained on."""

import bz2
import codecs
import dataclasses
import gzip
import lzma
import os
import re
import subprocess
import sys

import pytest

from checks.errors import DataError
from corpora import loading, text_files
from corpora.splits import Pair

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
EN = ['A dog runs .', 'Two cats\u2028sleep.', ' spaced  out ', 'tab\tin', 'lone\rCR', 'e\u0301 \U0001f600 עברית',
      'NUL\0byte']
DE = ['Ein Hund läuft.', 'Zwei Katzen\x85schlafen.', 'x', 'y\x0bz\x0cw', 'allein', 'é', 'Nullbyte']


def write(path, lines, compress=False, end='\n'):
  data = ''.join(line + end for line in lines).encode()
  path.write_bytes(gzip.compress(data) if compress else data)


def folder(tmp_path, compress=False, **changes):
  """A folder with three aligned splits; `changes` replace the lines of a file, as train_en=[…]."""
  for split, size in (('train', 7), ('val', 3), ('test', 2)):
    for code, lines in (('en', EN), ('de', DE)):
      lines = changes.get(f'{split}_{code}', lines[:size])
      write(tmp_path / f'{split}.{code}{".gz" if compress else ""}', lines, compress)
  return config(tmp_path)


def config(directory, **changes):
  return loading.CorpusConfig(
      **dict(kind='text', source_language='en', target_language='de', directory=str(directory)) | changes)


def tsv(path, lines, **changes):
  write(path, lines)
  return loading.CorpusConfig(
      **dict(kind='tsv', source_language='en', target_language='de', tsv=str(path), heldout=5) | changes)


def message(configuration):
  with pytest.raises(DataError) as raised:
    loading.load(configuration)
  assert raised.value.exit_code == 3
  return str(raised.value)


# -------------------------------------------------------------------------------------------------------- lines


def test_lines_end_at_line_feeds_alone():
  text = 'a\u2028b\x85c\x0bd\x0ce\x1cf\rg\n\nlast'
  assert text_files.decode_lines(text.encode(), 'x') == ['a\u2028b\x85c\x0bd\x0ce\x1cf\rg', '', 'last']


def test_a_pipe_is_refused_where_a_text_is_read_more_than_once(tmp_path):
  os.mkfifo(tmp_path / 'pipe')
  for options in (dict(kind='tsv', tsv=str(tmp_path / 'pipe')), dict(kind='running_text', text=str(tmp_path / 'pipe'))):
    with pytest.raises(DataError, match='pipe is no regular file, and is read more than once'):
      loading.load(loading.CorpusConfig(source_language='en', target_language='de', **options))


def test_one_carriage_return_before_the_line_feed_goes():
  assert text_files.decode_lines(b'a\r\nb\r\r\n\r\nc\r', 'x') == ['a', 'b\r', '', 'c']


def test_a_last_line_without_line_feed_counts_and_no_line_is_invented():
  assert text_files.decode_lines(b'', 'x') == []
  assert text_files.decode_lines(b'\n', 'x') == ['']
  assert text_files.decode_lines(b'a\nb', 'x') == text_files.decode_lines(b'a\nb\n', 'x') == ['a', 'b']


def test_a_byte_order_mark_goes_from_the_start_only(tmp_path):
  (tmp_path / 'bom').write_bytes('\ufeffa\n\ufeffb\n'.encode())
  notes = []
  assert text_files.read_lines(str(tmp_path / 'bom'), notes) == ['a', '\ufeffb']
  assert len(notes) == 1 and 'byte-order mark' in notes[0]


def test_gzip_is_known_by_its_content(tmp_path):
  write(tmp_path / 'plain.gz', ['not packed'])
  write(tmp_path / 'packed.en', ['packed'], compress=True)
  assert text_files.read_lines(str(tmp_path / 'plain.gz')) == ['not packed']
  assert text_files.read_lines(str(tmp_path / 'packed.en')) == ['packed']


@pytest.mark.parametrize('damage', [lambda data: data[:-9], lambda data: data[:12] + b'\xff' * 8 + data[20:]])
def test_a_damaged_gzip_file_is_named(tmp_path, damage):
  (tmp_path / 'x.gz').write_bytes(damage(gzip.compress(b'some text to pack\n' * 50)))
  with pytest.raises(DataError, match='x.gz is a damaged gzip file'):
    text_files.read_lines(str(tmp_path / 'x.gz'))


def test_invalid_utf8_names_file_and_line(tmp_path):
  (tmp_path / 'latin.txt').write_bytes('gut\ngut\nschön\n'.encode('latin-1'))
  with pytest.raises(DataError, match=r'latin\.txt, line 3: not valid UTF-8 \(byte 0xf6\).*iconv'):
    text_files.read_lines(str(tmp_path / 'latin.txt'))


@pytest.mark.parametrize('begin, remedy', [
    (codecs.BOM_UTF16_LE, 'UTF-16.* iconv -f UTF-16 -t UTF-8'), (codecs.BOM_UTF16_BE, 'UTF-16.* iconv -f UTF-16 -t UTF-8'),
    (codecs.BOM_UTF32_LE, 'UTF-32.* iconv -f UTF-32 -t UTF-8'), (codecs.BOM_UTF32_BE, 'UTF-32.* iconv -f UTF-32 -t UTF-8'),
    (lzma.compress(b'text\n'), 'packed with xz.* unpack it.* xz -d'), (bz2.compress(b'text\n'), 'packed with bzip2.* bzip2 -d'),
    (b'\x28\xb5\x2f\xfd\x04', 'packed with zstd.* zstd -d'), (b'PK\x03\x04\x14\0\xab\n', 'packed with zip.* unzip')],
    ids=['utf_16', 'utf_16_be', 'utf_32', 'utf_32_be', 'xz', 'bzip2', 'zstd', 'zip'])
def test_what_is_no_utf8_by_its_first_bytes_is_told_what_to_do(tmp_path, begin, remedy):
  (tmp_path / 'text').write_bytes(begin)
  with pytest.raises(DataError, match=rf'text, line \d: not valid UTF-8 .*{remedy}$') as raised:
    text_files.read_lines(str(tmp_path / 'text'))
  assert 'LATIN1' not in str(raised.value)
  with pytest.raises(DataError, match='LATIN1'):  # further on in a file, such bytes are letters of another encoding
    text_files.decode_lines(begin + b'\xff', 'text', before=1)


def test_a_gzip_file_that_is_piped_is_told_what_to_do():
  with pytest.raises(DataError, match='^standard input, line 1: not valid UTF-8 .* packed with gzip.* unpack it.* gzip -d$'):
    text_files.decode_lines(gzip.compress(b'text\n'), 'standard input')


def test_text_that_begins_as_a_packed_file_does_is_text(tmp_path):
  (tmp_path / 'text').write_bytes(b'BZh is a name\n')
  assert text_files.read_lines(str(tmp_path / 'text')) == ['BZh is a name']


def test_a_missing_file_is_told_with_its_nearest_neighbours(tmp_path):
  for i in range(30):
    write(tmp_path / f'a{i}', ['x'])
  write(tmp_path / 'newstest.en', ['x'])
  with pytest.raises(DataError, match=r'no file .*newstest\.e; .* holds: newstest\.en, a0'):
    text_files.read_lines(str(tmp_path / 'newstest.e'))
  with pytest.raises(DataError, match='is a folder; expected a text file'):
    text_files.read_lines(str(tmp_path))
  (tmp_path / 'link').symlink_to('nowhere')
  with pytest.raises(DataError, match=r'link is a link that leads nowhere; expected a text file\. .* holds: '):
    text_files.read_lines(str(tmp_path / 'link'))
  with pytest.raises(DataError, match='the folder .*nowhere does not exist'):
    text_files.read_lines(str(tmp_path / 'nowhere' / 'x'))


# -------------------------------------------------------------------------------------------------- directories


@pytest.mark.parametrize('compress', [False, True])
def test_two_files_per_split(tmp_path, compress):
  found = loading.load(folder(tmp_path, compress))
  assert list(found.train) == [Pair(*texts) for texts in zip(EN, DE)]
  assert [(split.name, len(split), len(list(split))) for split in (found.train, found.validation, found.tests[0])] == [
      ('train', 7, 7), ('val', 3, 3), ('test', 2, 2)]
  assert found.notes[0] == 'English to German'
  assert list(found.train) == list(found.train)  # read anew each time


def test_wildcards_of_the_training_text_that_match_held_out_text_are_refused(tmp_path):
  folder(tmp_path)
  for names in ('t*', 'train,t?st', '*'):
    with pytest.raises(DataError, match=f'train_split=.* matches {"val and " if names == "*" else ""}test too, which is held out'):
      loading.load(config(tmp_path, train_split=names))
  for names in ('./t*', str(tmp_path / 't*')):  # the same files by another path
    with pytest.raises(DataError, match='matches test too, which is held out'):
      loading.load(config(tmp_path, train_split=names))
  assert len(loading.load(config(tmp_path, train_split='tr*')).train) == 7
  same = loading.load(config(tmp_path, train_split='train,test'))  # as it is asked for
  assert len(same.train) == 9 and 'test: training text, too, so that its scores tell nothing of other text' in same.notes


def test_a_link_to_held_out_text_is_held_out_too(tmp_path):
  folder(tmp_path)
  for code in ('en', 'de'):
    (tmp_path / f'train2.{code}').symlink_to(tmp_path / f'test.{code}')
  with pytest.raises(DataError, match='matches test too, which is held out'):
    loading.load(config(tmp_path, train_split='train*'))


@pytest.mark.parametrize('make, words', [
    (lambda path: path.mkdir(), 'is a folder'), (lambda path: path.symlink_to('nowhere'), 'is a link that leads nowhere'),
    (os.mkfifo, 'is no regular file')])
def test_what_is_no_file_is_told_as_what_it_is(make, words, tmp_path):
  folder(tmp_path)
  (tmp_path / 'train.en').unlink()
  make(tmp_path / 'train.en')
  with pytest.raises(DataError, match=f'train.en {words}.*expected a text file'):
    loading.load(config(tmp_path))


def test_what_is_wrong_with_held_out_text_is_told_before_the_training_text_is_read(tmp_path, monkeypatch):
  folder(tmp_path)
  (tmp_path / 'val.de').unlink()
  read, decoded = [], text_files._decoded
  monkeypatch.setattr(text_files, '_decoded', lambda path, notes: read.append(path) or decoded(path, notes))
  with pytest.raises(DataError, match='neither val.de nor val.de.gz is there'):
    loading.load(config(tmp_path))
  assert not read


def test_the_other_direction_reads_the_same_files(tmp_path):
  forward = loading.load(folder(tmp_path))
  backward = loading.load(config(tmp_path, source_language='de', target_language='en'))
  assert list(backward.train) == [Pair(target, source) for source, target in forward.train]
  assert backward.notes[0] == 'German to English' and backward.train.fingerprint != forward.train.fingerprint


def test_fingerprints_follow_the_text(tmp_path):
  (tmp_path / 'a').mkdir()
  (tmp_path / 'b').mkdir()
  (tmp_path / 'c').mkdir()
  first, packed, other = (loading.load(folder(tmp_path / name, **change)) for name, change in (
      ('a', {}), ('b', {'compress': True}), ('c', {'train_en': ['A dog runs!', *EN[1:]]})))
  assert first.train.fingerprint == packed.train.fingerprint != other.train.fingerprint
  assert first.validation.fingerprint == other.validation.fingerprint


def test_empty_sides_are_dropped_in_training_and_kept_elsewhere(tmp_path):
  found = loading.load(folder(tmp_path, train_en=['a', '', '  ', 'd'], train_de=['A', 'B', 'C', ''],
                              val_en=['a', '', 'c'], val_de=['', 'b', 'c']))
  assert list(found.train) == [Pair('a', 'A')] and len(found.train) == 1
  assert 'train: 3 pairs with an empty side dropped' in found.notes
  assert list(found.validation) == [Pair('a', ''), Pair('', 'b'), Pair('c', 'c')]


def test_unequal_line_counts_name_both(tmp_path):
  text = message(folder(tmp_path, val_de=DE[:2]))
  assert 'val.en has 3 lines' in text and 'val.de has 2' in text


@pytest.mark.parametrize('lines,expected', [([], 'train.en is empty'), (['', ' '], 'no pair has text on both sides')])
def test_nothing_to_train_on(tmp_path, lines, expected):
  assert expected in message(folder(tmp_path, train_en=lines, train_de=lines))


def test_missing_files_and_folders_are_told(tmp_path):
  folder(tmp_path)
  text = message(config(tmp_path, validation_split='vla'))
  assert 'neither vla.en nor vla.en.gz' in text and 'val.en' in text and 'validation_split' in text
  assert re.search('no folder .*nowhere; .* --config.data.directory=….*github.com/multi30k', message(config(tmp_path / 'nowhere')))
  assert loading.load(config(tmp_path, test_splits=())).tests == ()


def test_a_news_test_says_how_many_lines_it_has(tmp_path):
  folder(tmp_path)
  for code, lines in (('en', EN), ('de', DE)):
    write(tmp_path / f'newstest2014.{code}', lines)
  assert loading.load(config(tmp_path, test_splits=('newstest2014',))).tests[0].name == 'newstest2014 (7 lines)'


def test_further_test_sets_are_read_where_they_are_there(tmp_path):
  folder(tmp_path)
  write(tmp_path / 'extra.en', ['a', 'b', 'c'])
  write(tmp_path / 'extra.de.gz', ['A', 'B', 'C'], compress=True)
  write(tmp_path / 'half.en', ['a'])
  found = loading.load(config(tmp_path, test_splits=('test', 'absent', 'extra', 'half')))
  assert [(split.name, len(split)) for split in found.tests] == [('test', 2), ('extra', 3)]
  assert [note for note in found.notes if note.startswith('test set')] == [
      f'test set absent left out: {tmp_path} has no absent.en and no absent.de',
      f'test set half left out: {tmp_path} has no half.de']
  assert 'neither absent.en nor absent.en.gz' in message(config(tmp_path, test_splits=('absent', 'test')))
  write(tmp_path / 'half.de', ['A', 'B'])  # what is there must be right
  assert 'has 1 lines' in message(config(tmp_path, test_splits=('test', 'half')))


def test_splits_are_found_by_their_names_and_by_what_they_are_for(tmp_path):
  folder(tmp_path)
  write(tmp_path / 'newstest2014.en', ['a'])
  write(tmp_path / 'newstest2014.de', ['A'])
  found = loading.load(config(tmp_path, test_splits=('newstest2014', 'test')))
  first, second = found.tests
  assert found.by_name == {'train': found.train, 'validation': found.validation, 'val': found.validation,
                           'newstest2014': first, 'test': second}  # a name goes before a purpose
  assert loading.load(config(tmp_path, test_splits=('newstest2014',))).by_name['test'].name == 'newstest2014 (1 lines)'
  assert 'test' not in loading.load(config(tmp_path, test_splits=())).by_name
  unsplit = loading.load(tsv(tmp_path / 'x.tsv', [f'a{n}\tb{n}' for n in range(20)]))
  assert [*unsplit.by_name] == ['train', 'validation', 'test'] and unsplit.by_name['test'] is unsplit.tests[0]


# ------------------------------------------------------------------------------------- one file, split by sentence


def tatoeba():
  """Pairs as Tatoeba has them: many translations of one sentence, and one translation of many."""
  lines = []
  for i in range(60):
    lines += [f'Run {i}!\tLauf {i}!\tCC-BY', f'Run {i}!\tRenn {i}!\tCC-BY', f'Go {i}!\tRenn {i}!\tCC-BY']
    lines.append(f'Alone {i}.\tAllein {i}.\tCC-BY')
  return lines


def test_no_held_out_sentence_of_either_language_is_trained_on(tmp_path):
  found = loading.load(tsv(tmp_path / 'deu.txt', tatoeba(), heldout=20))
  splits = [set(split) for split in (found.train, found.validation, found.tests[0])]
  for side in (0, 1):
    texts = [{pair[side] for pair in split} for split in splits]
    assert not texts[0] & texts[1] and not texts[0] & texts[2] and not texts[1] & texts[2]
  assert [len(split) for split in (found.validation, found.tests[0])] == [20, 20]
  dropped = 240 - sum(map(len, splits))
  assert dropped > 0 and f'{dropped} pairs dropped because a sentence of theirs is held out' in found.notes
  # A plain random split of the same file leaks, so the assertions above can fail.
  pairs = [line.split('\t')[:2] for line in tatoeba()]
  assert {source for source, _ in pairs[::2]} & {source for source, _ in pairs[1::2]}


def test_chains_of_shared_sentences_are_one_group(tmp_path):
  chain = [f'source {i}\ttarget {i}' for i in range(9)] + [f'source {i}\ttarget {i + 1}' for i in range(8)]
  found = loading.load(tsv(tmp_path / 'chain', [*chain, *(f's{i}\tt{i}' for i in range(20))], heldout=10))
  # 17 pairs hang together: more than may be held out, so all of them are trained on
  assert len(found.train) == 17 and all(pair.source.startswith('source') for pair in found.train)


def test_the_split_follows_the_seed_alone(tmp_path):
  load = lambda **changes: loading.load(tsv(tmp_path / 'deu.txt', tatoeba(), **changes))
  once, again, other = load(), load(), load(seed=1)
  assert [s.fingerprint for s in (once.train, once.validation, once.tests[0])] == [
      s.fingerprint for s in (again.train, again.validation, again.tests[0])]
  assert set(once.tests[0]) != set(other.tests[0])
  assert once.tests[0].name == 'deu.txt test'


def test_columns_are_counted_from_one_and_further_ones_ignored(tmp_path):
  lines = [f'{i}\tHallo {i}\tattribution\tHello {i}' for i in range(30)]
  found = loading.load(tsv(tmp_path / 'x.tsv', lines, tsv_source_column=4, tsv_target_column=2))
  assert all(pair.source == f'Hello {pair.target.split()[1]}' for pair in found.train) and len(found.train) == 20
  with pytest.raises(ValueError, match='counted from 1'):
    tsv(tmp_path / 'x.tsv', lines, tsv_source_column=0)


def test_repeated_blank_and_one_sided_lines_are_counted(tmp_path):
  lines = [*(f'a{i}\tb{i}' for i in range(20)), 'a3\tb3', 'a4\tb4', '', '  ', 'only\t', '\tnur']
  found = loading.load(tsv(tmp_path / 'x.tsv', lines))
  assert len(found.train) == 10
  assert {'2 blank lines skipped', '2 repeated pairs dropped'} <= set(found.notes)
  assert any('2 pairs with an empty side dropped' in note for note in found.notes)


def test_a_line_without_its_columns_is_named(tmp_path):
  text = message(tsv(tmp_path / 'x.tsv', ['a\tb', 'no tab']))
  assert 'x.tsv, line 2: 1 tab-separated columns' in text and 'column 2' in text


def test_a_small_file_is_told_how_much_can_be_held_out(tmp_path):
  lines = [f'a{i}\tb{i}' for i in range(9)]
  assert '--config.data.heldout to 4 or less' in message(tsv(tmp_path / 'x.tsv', lines))
  assert len(loading.load(tsv(tmp_path / 'x.tsv', lines, heldout=4)).train) == 1
  assert 'separate files' in message(tsv(tmp_path / 'x.tsv', ['a\tb', 'a\tc']))
  assert 'is empty' in message(tsv(tmp_path / 'x.tsv', []))


# --------------------------------------------------------------------------------------------------- configuration


@pytest.mark.parametrize('changes,expected', [
    (dict(kind='csv'), 'expected one of text, tsv, jsonl, running_text, tfds, phrasebook, phrasebook_text$'), (dict(directory=''), 'config.data.directory'),
    (dict(kind='tsv'), 'config.data.tsv'), (dict(kind='tfds'), 'config.data.tfds_name'),
    (dict(target_language='en'), 'both'), (dict(heldout=0), 'heldout is 0'),
    (dict(test_splits='test'), 'test_splits is .*tuple'), (dict(test_splits=('test', 'test')), 'different names'),
    (dict(test_splits=('',)), 'different names'), (dict(document='page'), 'one of file, paragraph, line')])
def test_a_wrong_configuration_is_refused(changes, expected):
  with pytest.raises(ValueError, match=expected):
    config(**dict(directory='x') | changes)


FILE = {'tsv', 'jsonl', 'heldout', 'tsv_source_column', 'tsv_target_column', 'jsonl_source_field', 'jsonl_target_field'}
RUNNING = {'text', 'validation_text', 'test_text', 'document', 'heldout_share'}
SPLITS, SIDES = {'train_split', 'validation_split', 'test_splits'}, {'source_language', 'target_language'}
ALL = FILE | RUNNING | SPLITS | SIDES | {'directory', 'tfds_name', 'tfds_dir', 'task'}


@pytest.mark.parametrize('kind, used', [
    ('phrasebook', {'tfds_dir'} | SIDES), ('phrasebook_text', {'tfds_dir'} | SIDES), ('text', {'directory'} | SPLITS | SIDES),
    ('tsv', {'tsv', 'tsv_source_column', 'tsv_target_column', 'heldout'} | SIDES),
    ('jsonl', {'jsonl', 'jsonl_source_field', 'jsonl_target_field', 'heldout'} | SIDES),
    ('tfds', {'tfds_name', 'tfds_dir'} | SPLITS | SIDES), ('running_text', RUNNING), ('labelled_phrasebook', {'task'}),
    ('labelled_text', {'directory', 'task'} | SPLITS), ('labelled_tsv', {'tsv', 'heldout', 'task'})])
def test_a_kind_says_which_options_mean_nothing_beside_it(kind, used):
  texts = dict.fromkeys(('directory', 'tsv'), 'x')
  options = (loading.LabelledConfig('entailment', kind, **texts) if kind.startswith('labelled') else
             loading.CorpusConfig(kind, 'en', 'de', jsonl='x', text='x', tfds_name='x', **texts))
  idle = options.idle()
  assert idle.keys() == ALL - used
  assert all(reason.startswith(f'kind is {kind!r}; only ') for reason in idle.values())


def test_nothing_is_held_out_of_running_text_beside_a_file_to_validate_with():
  apart = loading.CorpusConfig('running_text', 'en', 'de', text='x', validation_text='y')
  assert apart.idle()['heldout_share'] == "validation_text is 'y'; nothing of text is held out beside it"
  for test in (None, 'z'):
    assert 'heldout_share' not in dataclasses.replace(apart, validation_text=None, test_text=test).idle()


def test_kinds_are_known_without_heavy_imports():
  check = ('import sys\nfrom corpora import loading\nassert len(loading.KINDS) == 10\n'
           'assert not {"tensorflow_datasets", "jax", "numpy", "scipy", "sentencepiece"} & set(sys.modules), "imported"')
  subprocess.run([sys.executable, '-c', check], cwd=ROOT, check=True, timeout=120)
