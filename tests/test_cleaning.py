"""What of the training text is dropped, and why, and what is mixed in; held-out text is never touched."""

import dataclasses
import gzip
import hashlib
import json
import os
import unicodedata

import pytest

import train
from checks.errors import ConfigError, DataError
from corpora import cleaning, loading, text_files
from corpora.cleaning import CleaningConfig
from corpora.loading import CorpusConfig
from corpora.splits import Pair, in_memory
from tasks import setup
from tests.tiny_runs import options
from training import environment

NASTY = [
    ('Ein Hund.', 'A dog.'),
    ('Ein Hund.', 'A dog.'),  # again
    ('Ein Hund.', 'The dog.'),  # another pair
    ('', 'empty'), ('   ', 'blank'), ('leer', ''),
    ('nul\x00l', 'nul'), ('kaputt \ufffd', 'broken'),
    ('Zeile\u2028Zeile', 'line\u2028line'),  # stands inside a sentence, as U+0085 does not: that one is a control
    ('a\rb', 'lone carriage return'),
    ('Smile 😀 heute', 'Smile 😀 today'), ('שלום לכם', 'peace to you'),
    ('same text', ' same text'),
    ('kurz', 'a translation that is very much longer than what it is said to translate'),
    ('1234 5678 90', '1234 5678 90 !'),
    ('x' * 1_000_000, 'a megabyte'),
]


def write(folder, pairs, split='train', head=b''):
  folder.mkdir(exist_ok=True)
  for side, code in enumerate(('de', 'en')):
    (folder / f'{split}.{code}').write_bytes(head + ''.join(f'{pair[side]}\n' for pair in pairs).encode())


@pytest.fixture
def nasty(tmp_path):
  write(tmp_path / 'nasty', NASTY, head=b'\xef\xbb\xbf')
  write(tmp_path / 'nasty', NASTY[:8], 'val')
  return tmp_path / 'nasty'


def load(folder, config=CleaningConfig()):
  of = CorpusConfig('text', 'de', 'en', directory=str(folder), validation_split='val', test_splits=())
  return cleaning.apply(loading.load(of), config, of)


def test_B1_a_nasty_corpus_is_counted_to_the_last_pair(nasty):
  found = load(nasty, CleaningConfig(max_characters=100, max_ratio=5.0, min_letters=0.5, drop_identical=True,
                                     drop_duplicates=True, drop_control=True))
  assert found.notes == (
      'German to English',
      f'{nasty}/train.de: a byte-order mark at the start removed',
      f'{nasty}/train.en: a byte-order mark at the start removed',
      'train: 3 pairs with an empty side dropped',
      'train: 13 pairs read, 5 kept, 8 dropped (3 by drop_control, 1 by drop_duplicates, 1 by drop_identical, '
      '1 by max_characters, 1 by max_ratio, 1 by min_letters)')
  assert list(found.train) == [Pair(*NASTY[place]) for place in (0, 2, 8, 10, 11)]
  assert len(found.train) == 5 and len(found.validation) == 8  # held-out text keeps all of its lines
  assert list(found.train) == list(found.train)  # and may be read again


def test_pairs_are_duplicates_when_both_sides_are_equal(tmp_path):
  pairs = [('a\0b', 'c'), ('a', 'b\0c'), ('a\0b', 'c'), ('c', 'a')]
  for code, texts in zip(('de', 'en'), zip(*pairs)):
    for split in ('train', 'val'):
      (tmp_path / f'{split}.{code}').write_text(''.join(f'{text}\n' for text in texts))
  assert list(load(tmp_path, CleaningConfig(drop_duplicates=True)).train) == [Pair(*pairs[n]) for n in (0, 1, 3)]


def test_B1_what_cannot_be_read_is_an_error_that_names_file_and_line(nasty):
  (nasty / 'train.de').write_bytes((nasty / 'train.de').read_bytes() + b'one more\n')
  with pytest.raises(DataError, match=r'train\.de has 17 lines and .*train\.en has 16'):
    load(nasty)
  (nasty / 'train.de').write_bytes(b'good\nb\xe4d\n')
  with pytest.raises(DataError, match=r'train\.de, line 2: not valid UTF-8 \(byte 0xe4\)'):
    load(nasty)
  (nasty / 'train.de').write_bytes(gzip.compress(os.urandom(1000))[:200])
  with pytest.raises(DataError, match='damaged gzip'):
    load(nasty)


def test_nothing_is_changed_unless_it_is_asked_for(nasty):
  of = CorpusConfig('text', 'de', 'en', directory=str(nasty), validation_split='val', test_splits=())
  assert load(nasty).train.fingerprint == text_files.directory_corpus(of).train.fingerprint
  prints = {load(nasty, config).train.fingerprint for config in (
      CleaningConfig(), CleaningConfig(max_ratio=5.0), CleaningConfig(max_ratio=6.0), CleaningConfig(tag='<x>'))}
  assert len(prints) == 4


SIGNS = ['हिन्दी में लिखी हुई एक पंक्ति।', 'ที่นี่มีน้ำดื่มอยู่ที่ตู้', 'தமிழில் எழுதப்பட்ட ஒரு வரி.', 'នេះជាប្រយោគជាភាសាខ្មែរ។', 'ဒီစာကြောင်းကို မြန်မာလို ရေးထားတယ်။']


def earlier_fingerprint(split, config):
  """What filtered text had before marks counted as letters."""
  made_of = dataclasses.asdict(config) | {'mix': (), 'tag': None}
  return hashlib.sha256(json.dumps([split.fingerprint, made_of]).encode()).hexdigest()


def test_vowel_signs_are_part_of_letters():
  config = CleaningConfig(min_letters=0.75)
  numbers = [Pair('12.5 % (1999)', 'a'), Pair('a', '3 × 4 = 12, 5'), Pair('', 'a')]
  written = in_memory('signs', [Pair(line, 'a line') for line in SIGNS] + numbers)
  assert min(sum(map(str.isalpha, line)) / len(line.replace(' ', '')) for line in SIGNS) < 0.6
  found, dropped = cleaning.clean(written, config)
  assert [pair.source for pair in found] == SIGNS and dropped == {'min_letters': 3}
  assert found.fingerprint != earlier_fingerprint(written, config)
  latin = in_memory('latin', [Pair('Ein Hund. 12345 67', 'e\u0301te\u0301'), Pair('Ein Hund', 'A dog'), *numbers])
  found, dropped = cleaning.clean(latin, config)
  assert [pair.source for pair in found] == ['Ein Hund'] and dropped == {'min_letters': 4}
  assert found.fingerprint == earlier_fingerprint(latin, config)  # the same pairs as before: such runs go on


def test_what_filters_keep_by_unicodes_tables_is_part_of_what_a_run_is_begun_with(monkeypatch):
  split = in_memory('text', [Pair('a dog', 'ein Hund'), Pair('a smile \U0001f600', 'ein Lächeln')])
  texts = lambda: environment.texts_by_name([
      cleaning.clean(split, CleaningConfig(max_characters=90, drop_control=drop))[0] for drop in (True, False)])
  now = texts()
  assert now == texts()
  monkeypatch.setattr(cleaning, 'unicodedata', unicodedata.ucd_3_2_0)  # which does not have that smile
  (table, plain), (other, same) = now.values(), texts().values()
  assert table != other and table[:64] == other[:64] and plain == same and len(plain) == 64
  both = cleaning.joined([cleaning.clean(split, CleaningConfig(drop_control=True))[0], split])
  assert both.kept == cleaning.weighted(cleaning.tagged(both, '<x>'), 2.0, 0).kept == other[64:]


def test_a_tag_is_put_in_front_of_text_alone():
  split = in_memory('text', [Pair('a dog', 'ein Hund'), Pair('', 'leer'), Pair('a cat', '')])
  assert cleaning.tagged(split, '') is cleaning.tagged(split, None) is split
  assert list(cleaning.tagged(split, '<2de>')) == [Pair('<2de> a dog', 'ein Hund'), Pair('', 'leer'), Pair('<2de> a cat', '')]


def test_corpora_are_mixed_by_weight_and_tagged(nasty, tmp_path):
  back, more = ([(f'{word} {n}', f'text {n}') for n in range(40)] for word in ('rück', 'mehr'))
  write(tmp_path / 'back', back)
  write(tmp_path / 'more', more + [('', 'empty')])
  config = CleaningConfig(tag='<2en>', mix=(f'{tmp_path}/back*2.5#<bt>', f'{tmp_path}/more*0.25'))
  found = load(nasty, config)
  pairs = list(found.train)
  assert len(pairs) == len(found.train)
  of = lambda word: [pair.source for pair in pairs if word in pair.source]
  assert all(source.startswith('<bt> rück') for source in of('rück')) and 85 < len(of('rück')) < 115
  assert {of('rück').count(source) for source in of('rück')} == {2, 3}
  assert 2 < len(of('mehr')) < 22 and all(source.startswith('mehr') for source in of('mehr'))
  assert sum(source.startswith('<2en> ') for source, _ in pairs) == 13
  assert list(load(nasty, config).train) == pairs
  assert any('weight 2.5' in note and 'tag <bt>' in note for note in found.notes)
  with pytest.raises(DataError, match='no folder'):
    load(nasty, CleaningConfig(mix=('nowhere',)))


def test_a_weight_that_leaves_no_pair_is_an_error():
  with pytest.raises(DataError, match='back: a weight of 1e-06 leaves none of 5 training pairs'):
    cleaning.weighted(in_memory('back', [Pair('a dog', 'ein Hund')] * 5), 1e-6, 0)


@pytest.mark.parametrize('wrong, words', [
    (dict(mix=('a*b',)), 'FOLDER'), (dict(mix=('a*0',)), 'weight above 0 and below 1000'), (dict(mix=('a*1e3',)), 'below 1000'), (dict(max_ratio=0.5), 'max_ratio is 0.5'),
    (dict(max_characters=-1), 'max_characters'), (dict(min_letters=2.0), 'min_letters')])
def test_mistaken_filters_are_refused(wrong, words):
  with pytest.raises(ValueError, match=words):
    CleaningConfig(**wrong)


def test_filters_that_leave_nothing_are_an_error(nasty):
  with pytest.raises(DataError, match='leave none of 13 pairs: .*data.max_characters drops 13'):
    load(nasty, CleaningConfig(max_characters=1))


def test_inspection_tells_what_training_would_read(corpus, tmp_path, capsys):
  asked = options(corpus, tmp_path / 'run', '--config.data.drop_duplicates=true', '--config.train.num_steps=1',
                  '--config.data.batching=packed', '--config.data.packed_length=32', '--inspect')
  assert train.main(dataclasses.replace(asked, given=())) == 0  # rows that are packed have no use for max_shapes
  told = capsys.readouterr().out
  for words in ('pairs read', 'by drop_duplicates', 'source: ', '(0.000%)', '% padding', 'batch 0:', '####'):
    assert words in told, words
  # It binds nothing: another start may have other options, and finds the text.
  assert sorted(path.name for path in (tmp_path / 'run').iterdir()) == ['data', 'lock', 'manifest.json']
  other = options(corpus, tmp_path / 'run', '--config.data.max_length=9', '--config.train.num_steps=1', '--inspect')
  assert train.main(other) == 0
  with pytest.raises(ConfigError, match="--inspect is for pairs; data.kind 'running_text' holds"):
    setup.read(dataclasses.replace(options(
        corpus, tmp_path, '--config.data.kind=running_text', '--config.data.text=x', '--inspect',
        '--config.model.architecture=language_model', '--config.train.num_steps=1'), given=()))
  with pytest.raises(ConfigError, match='filters, tag and mix are for pairs'):
    setup.read(options(corpus, tmp_path, '--config.data.kind=running_text', '--config.data.text=x',
                        '--config.model.architecture=language_model', '--config.data.max_ratio=3',
                        '--config.train.num_steps=1'))
