"""WMT through TFDS: its real builder prepares stand-ins for the archives, offline and without TensorFlow; refusals."""

import os
import shutil
import subprocess
import sys
import types

import pytest

import decode
from checks.errors import ConfigError, DataError
from corpora import loading, tfds_sets
from corpora.splits import Pair
from decoding import inputs
from options import decode_options
from tasks.language_model import LanguageModelling
from tests import wmt_standins

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def config(data_dir, **changes):
  return loading.CorpusConfig(**dict(
      kind='tfds', tfds_name='wmt14_translate/de-en', tfds_dir=str(data_dir), source_language='en',
      target_language='de', train_split='train', validation_split='validation', test_splits=('test',)) | changes)


NASTY = [('One\u2028line', 'Eine\x85Zeile'), ('carriage return\r', 'Wagenrücklauf\r'), ('two\r\r', 'zwei\r\r'),
         ('\r', 'leer'), ('spaces', ' '), ('e\u0301 \U0001f600', 'é')]
READ = [('One\u2028line', 'Eine\x85Zeile'), ('carriage return', 'Wagenrücklauf'), ('two\r', 'zwei\r'),
        ('', 'leer'), ('spaces', ''), ('e\u0301 \U0001f600', 'é')]


@pytest.fixture(scope='module')
def prepared(tmp_path_factory):
  """(folder, pairs that the archives hold)."""
  data_dir = tmp_path_factory.mktemp('tfds')
  pairs = wmt_standins.make_standins(data_dir, [*wmt_standins.numbered('Member', 31), *NASTY])
  loading.load(config(data_dir))
  return data_dir, pairs


def message(configuration):
  with pytest.raises(DataError) as raised:
    loading.load(configuration)
  return str(raised.value)


def test_every_pair_of_the_archives_is_read(prepared):
  data_dir, pairs = prepared
  found = loading.load(config(data_dir))
  assert sorted(found.train) == sorted(pairs['train'][:31] + READ) and len(found.train) == 37
  assert sorted(found.validation) == sorted(pairs['validation'])
  assert sorted(found.tests[0]) == sorted(pairs['test'])
  assert list(found.train) == list(found.train)  # TFDS shuffles when it prepares, never again
  assert found.name == 'wmt14_translate/de-en/1.0.0'
  assert found.notes[0] == 'English to German' and str(data_dir) in found.notes[1]


def test_languages_are_taken_by_name_whatever_the_sets_order(prepared):
  data_dir, _ = prepared
  forward = loading.load(config(data_dir))
  backward = loading.load(config(data_dir, source_language='de', target_language='en'))
  assert list(backward.tests[0]) == [Pair(target, source) for source, target in forward.tests[0]]
  assert backward.notes[0] == 'German to English'
  assert backward.tests[0].fingerprint != forward.tests[0].fingerprint


def test_reading_is_lazy_and_goes_by_chunks(prepared, monkeypatch):
  data_dir, _ = prepared
  split = loading.load(config(data_dir)).train
  everything = list(split)
  asked = []
  source = type(split.read.args[0].as_data_source('train').data_source)
  read = source.__getitems__
  monkeypatch.setattr(source, '__getitems__', lambda self, keys: asked.append(len(keys)) or read(self, keys))
  monkeypatch.setattr(tfds_sets, '_CHUNK', 5)
  pairs = iter(split)
  assert next(pairs) == everything[0] and asked == [5]
  assert [everything[0], *pairs] == everything and sum(asked) == 37


def test_nothing_imports_tensorflow(tmp_path):
  check = ('import sys\nfrom corpora import loading\n'
           'from tests import test_tfds_sets as t, wmt_standins\n'
           'wmt_standins.make_standins(sys.argv[1])\n'
           'found = loading.load(t.config(sys.argv[1]))\n'
           'assert len(list(found.train)) == 60 and len(list(found.tests[0])) == 5\n'
           'assert not {"tensorflow", "torch"} & set(sys.modules), "imported"\n')
  process = subprocess.run([sys.executable, '-c', check, str(tmp_path)], cwd=ROOT, capture_output=True, text=True,
                           timeout=120)
  assert process.returncode == 0, process.stderr
  # and no wall of TFDS's: one line says what happens where
  assert process.stdout == ''
  assert [line for line in process.stderr.splitlines() if line.strip()] == [
      f'Preparing wmt14_translate/de-en/1.0.0 in {tmp_path}/wmt14_translate/de-en/1.0.0, once …']


def test_tensorflow_is_stood_in_for_while_archives_are_unpacked_and_no_longer():
  from tensorflow_datasets.core.download import extractor
  before = extractor.tf
  with tfds_sets._extracting_without_tensorflow():
    assert extractor.tf is not before and extractor.tf.io.gfile.GFile is open
  assert extractor.tf is before


# --------------------------------------------------------------------------------------------------------- names


class Builder:
  """As much of a WMT builder as names need."""

  name = 'wmt14_translate'

  def __init__(self, config='de-en', languages=('de', 'en'), subsets=None):
    self.builder_config = types.SimpleNamespace(name=config)
    self.info = types.SimpleNamespace(features=dict.fromkeys(languages))
    self.subsets = {'train': ['europarl_v7', 'commoncrawl'], 'validation': ['newstest2013'],
                    'test': ['newstest2014']} | (subsets or {})


@pytest.mark.parametrize('split,size,expected', [
    ('test', 3003, 'wmt14/full (newstest2014, 3,003 lines)'), ('test', 2737, 'wmt14 (newstest2014, 2,737 lines)'),
    ('test', 3002, 'newstest2014 (3,002 lines)'), ('validation', 3003, 'newstest2013 (3,003 lines)'),
    ('validation', 3000, 'newstest2013 (3,000 lines)'), ('train', 3003, 'wmt14_translate/de-en train'),
    ('test[:2737]', 2737, 'wmt14_translate/de-en test[:2737]')])
def test_the_two_wmt14_tests_are_told_apart_by_set_and_lines(split, size, expected):
  assert tfds_sets._name(Builder(), split, size) == expected


def test_the_distinction_is_made_for_english_german_alone():
  assert tfds_sets._name(Builder('fr-en', ('fr', 'en')), 'test', 3003) == 'newstest2014 (3,003 lines)'
  later = Builder(subsets={'test': ['newstest2016']})
  assert tfds_sets._name(later, 'test', 3003) == 'newstest2016 (3,003 lines)'


def test_standins_do_not_pass_for_the_published_set(prepared):
  found = loading.load(config(prepared[0]))
  assert (found.validation.name, found.tests[0].name) == ('newstest2013 (7 lines)', 'newstest2014 (5 lines)')


def test_wmt14_full_is_called_so_through_the_real_builder(tmp_path):
  wmt_standins.make_standins(tmp_path, test_pairs=wmt_standins.numbered('Minister', 3003))
  found = loading.load(config(tmp_path))
  assert found.tests[0].name == 'wmt14/full (newstest2014, 3,003 lines)' and len(set(found.tests[0])) == 3003


def test_fingerprints_follow_the_data_and_not_the_folder(prepared, tmp_path):
  data_dir, pairs = prepared
  here = loading.load(config(data_dir))
  wmt_standins.make_standins(tmp_path / 'same', pairs['train'])
  wmt_standins.make_standins(tmp_path / 'other', pairs['train'][1:])
  assert loading.load(config(tmp_path / 'same')).tests[0].fingerprint == here.tests[0].fingerprint
  assert loading.load(config(tmp_path / 'other')).train.fingerprint != here.train.fingerprint
  assert len({here.train.fingerprint, here.validation.fingerprint, here.tests[0].fingerprint}) == 3


# -------------------------------------------------------------------------------------------------------- refusals


def test_a_part_of_a_split_can_stand_for_a_missing_one(prepared):
  found = loading.load(config(prepared[0], train_split='train[7:]', validation_split='train[:7]', test_splits=()))
  assert (len(found.train), len(found.validation), found.tests) == (30, 7, ())
  assert len(list(found.train)) == 30 and not set(found.train) & set(found.validation)
  text = message(config(prepared[0], validation_split='valid'))
  assert "no split 'valid'" in text and 'train, validation, test' in text and "'train[:1%]'" in text


@pytest.mark.parametrize('source, target, side', [('en', 'de', 0), ('de', 'en', 1)])
def test_a_split_is_the_input_of_decoding_with_its_references(prepared, source, target, side):
  data_dir, pairs = prepared
  corpus = config(data_dir, source_language=source, target_language=target)
  written = Pair(*zip(*pairs['test']))
  options = decode_options.parse(['decode.py', '--workdir=x', '--input=tfds:wmt14_translate/de-en:test'], '')
  lines, references = inputs.read(options, corpus, as_they_come=True)
  assert sorted(lines) == sorted(written[side]) and sorted(references[0]) == sorted(written[1 - side])
  assert sorted(zip(lines, references[0])) == sorted(pair if not side else pair[::-1] for pair in pairs['test'])
  some = inputs.tfds_pairs('tfds:wmt14_translate/de-en:1.0.0:test[1:4]', corpus)
  assert [pair.source for pair in some] == lines[1:4]


def test_a_split_that_is_not_there_is_told_with_the_option(prepared):
  corpus = config(prepared[0])
  with pytest.raises(ConfigError, match='expected tfds:SET:SPLIT, such as tfds:wmt14_translate/de-en:test'):
    inputs.tfds_pairs('tfds:wmt14_translate', corpus)
  with pytest.raises(DataError, match="--input=tfds:wmt14_translate/de-en:tset: .* no split 'tset'"):
    inputs.tfds_pairs('tfds:wmt14_translate/de-en:tset', corpus)
  with pytest.raises(DataError, match="no text named 'fr'"):
    inputs.tfds_pairs('tfds:wmt14_translate/de-en:test', config(prepared[0], target_language='fr'))
  options = decode_options.parse(['decode.py', '--workdir=x', '--input=tfds:wmt14_translate/de-en:test'], '')
  with pytest.raises(ConfigError, match='--input=tfds.*: for translations'):
    decode.check(options, LanguageModelling)


@pytest.mark.parametrize('changes,expected', [
    (dict(tfds_name='wmt14_translat/de-en'), 'did you mean wmt14_translate'),
    (dict(tfds_name='wmt14_translate/en-de'), 'variants of wmt14_translate: cs-en, de-en, fr-en, hi-en, ru-en'),
    (dict(target_language='fr'), "no text named 'fr'; it has de, en"),
    (dict(tfds_name='mnist'), "no text named 'en' or 'de'; it has image, label")])
def test_what_tfds_does_not_have_is_told_before_any_download(tmp_path, changes, expected):
  assert expected in message(config(tmp_path, **changes))
  assert not (tmp_path / 'downloads').exists()


def test_without_a_network_the_error_says_what_to_fetch_and_where_to_put_it(tmp_path, monkeypatch):
  monkeypatch.setattr(tfds_sets, '_reachable', lambda url: False)
  text = message(config(tmp_path))
  assert 'www.statmt.org and data.statmt.org cannot be reached' in text
  assert f'mkdir -p {tmp_path}/downloads/manual && cd {tmp_path}/downloads/manual && curl -L' in text
  assert '--config.data.tfds_dir names another folder' in text
  for url in (wmt_standins.EUROPARL, wmt_standins.COMMONCRAWL, wmt_standins.NEWS, wmt_standins.DEV):
    assert f'-O {url}' in text
  wmt_standins.make_standins(tmp_path)
  next((tmp_path / 'downloads').glob('wmt14_translate/*-nc-v9*.tgz')).unlink()
  text = message(config(tmp_path))
  assert wmt_standins.NEWS in text and wmt_standins.DEV not in text  # what is there need not be fetched again


def test_a_file_put_there_by_hand_is_taken_and_its_checksum_checked(tmp_path, monkeypatch):
  monkeypatch.setattr(tfds_sets, '_reachable', lambda url: pytest.fail('nothing is missing'))
  wmt_standins.make_standins(tmp_path)
  archive = next((tmp_path / 'downloads').glob('wmt14_translate/*-nc-v9*.tgz'))
  (tmp_path / 'downloads' / 'manual').mkdir()
  archive.rename(tmp_path / 'downloads' / 'manual' / 'training-parallel-nc-v9.tgz')
  text = message(config(tmp_path))
  assert 'could not be prepared: NonMatchingChecksumError' in text and 'manual/training-parallel-nc-v9.tgz' in text


def test_a_failure_while_preparing_leaves_nothing_that_passes_for_a_set(tmp_path):
  wmt_standins.make_standins(tmp_path)
  archive = next((tmp_path / 'downloads').glob('wmt14_translate/*europa*.tgz'))
  data = archive.read_bytes()
  archive.write_bytes(data[:len(data) // 2])
  text = message(config(tmp_path))
  assert 'could not be prepared: ' in text and f'{tmp_path}/downloads' in text
  archive.write_bytes(data)
  assert len(list(loading.load(config(tmp_path)).train)) == 60


def test_a_set_prepared_for_tensorflow_is_recognised(prepared, tmp_path):
  shutil.copytree(prepared[0] / 'wmt14_translate', tmp_path / 'wmt14_translate')
  info = tmp_path / 'wmt14_translate' / 'de-en' / '1.0.0' / 'dataset_info.json'
  info.write_text(info.read_text().replace('array_record', 'tfrecord'))
  text = message(config(tmp_path))
  assert 'needs TensorFlow' in text and '--config.data.tfds_dir' in text
