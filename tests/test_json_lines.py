"""JSON lines: what is read, skipped, counted and refused; the split is that of a TSV file with the same pairs."""

import gzip
import json

import pytest

from checks.errors import DataError
from corpora import loading
from corpora.splits import Pair
from tests.test_text_files import tatoeba


def jsonl(path, records, compress=False, **changes):
  """The options of a file of records; a text among them stands there as it is."""
  data = ''.join(f'{record if isinstance(record, str) else json.dumps(record)}\n' for record in records).encode()
  path.write_bytes(gzip.compress(data) if compress else data)
  return loading.CorpusConfig(
      **dict(kind='jsonl', source_language='en', target_language='de', jsonl=str(path), heldout=5) | changes)


def pair(source, target, **more):
  return {'source': source, 'target': target, **more}


def message(configuration):
  with pytest.raises(DataError) as raised:
    loading.load(configuration)
  return str(raised.value)


@pytest.mark.parametrize('compress', [False, True])
def test_the_split_is_that_of_the_same_pairs_as_tsv(tmp_path, compress):
  lines = [*tatoeba(), 'one-sided\t', tatoeba()[0]]
  (tmp_path / 'x').write_text(''.join(f'{line}\n' for line in lines))
  tsv = loading.load(loading.CorpusConfig('tsv', 'en', 'de', tsv=str(tmp_path / 'x'), heldout=20, seed=3))
  content = lambda corpus: [(list(split), split.name, split.fingerprint)
                            for split in (corpus.train, corpus.validation, corpus.tests[0])]
  expected = content(tsv)  # before the file is another
  records = [pair(*line.split('\t')[:2], licence='CC-BY') for line in lines]
  found = loading.load(jsonl(tmp_path / 'x', records, compress, heldout=20, seed=3))
  assert content(found) == expected
  assert found.notes == tsv.notes and len(found.notes) == 4  # direction, repeated, one-sided, of held-out sentences


def test_fields_have_names_and_texts_keep_their_characters(tmp_path):
  odd = 'a\u2028b\tc "d" \\ é \U0001f600'
  records = [{'id': n, 'de': f'{odd} {n}', 'en': f'  {n} {odd}\u00a0'} for n in range(30)]
  found = loading.load(jsonl(tmp_path / 'x', records, jsonl_source_field='en', jsonl_target_field='de'))
  assert sorted(pair for split in (found.train, found.validation, found.tests[0]) for pair in split) == sorted(
      Pair(f'{n} {odd}', f'{odd} {n}') for n in range(30))


def test_repeated_blank_and_one_sided_lines_are_counted(tmp_path):
  records = [*(pair(f'a{n}', f'b{n}') for n in range(20)), pair('a3', 'b3'), pair(' a4', 'b4 '), '', '  ',
             pair('only', ''), pair(' ', 'nur'), pair('', '')]
  found = loading.load(jsonl(tmp_path / 'x', records))
  assert len(found.train) == 10
  assert found.notes == ('English to German', '2 blank lines skipped', '2 repeated pairs dropped',
                         f'{tmp_path}/x: 3 pairs with an empty side dropped')


@pytest.mark.parametrize('line, expected', [
    ('no JSON', 'not JSON .*expected {"source": "…", "target": "…"}'), ('{"source": "a"', 'not JSON'),
    ('[' * 100_000, 'not JSON'), ('["a", "b"]', 'found a list; expected an object'), ('"a"', 'found a text'),
    ('null', 'found null'), ('{"source": "a"}', "no field 'target'; found 'source'. .*jsonl_target_field"),
    ('{}', "no field 'source'; found none"), ('{"source": 3, "target": "b"}', "'source' is a number; expected a text"),
    ('{"source": "a", "target": null}', "'target' is null"), ('{"source": ["a"], "target": "b"}', 'is a list'),
    ('{"source": true, "target": "b"}', 'is true or false'), ('{"source": {}, "target": "b"}', 'is an object'),
    (r'{"source": "a\nb", "target": "c"}', "'source' has a line end"),
    (r'{"source": "a", "target": "\ud83d"}', "'target' holds half a character")])
def test_a_line_that_is_no_pair_is_named(tmp_path, line, expected):
  with pytest.raises(DataError, match=f'x, line 2: .*{expected}'):
    loading.load(jsonl(tmp_path / 'x', [pair('a', 'b'), line]))


def test_files_without_pairs_are_refused(tmp_path):
  assert 'is empty; expected one JSON object per line' in message(jsonl(tmp_path / 'x', ['', ' ']))
  assert 'no pair has text on both sides' in message(jsonl(tmp_path / 'x', [pair('', 'b')]))
  assert '--config.data.heldout to 4 or less' in message(jsonl(tmp_path / 'x', [pair(f'{n}', f'b{n}') for n in range(9)]))
  assert 'no file' in message(loading.CorpusConfig('jsonl', 'en', 'de', jsonl=str(tmp_path / 'missing')))


@pytest.mark.parametrize('changes, expected', [
    (dict(jsonl=None), '--config.data.jsonl='), (dict(jsonl_source_field=''), 'names of two different fields'),
    (dict(jsonl_target_field='source'), 'names of two different fields')])
def test_a_wrong_configuration_is_refused(changes, expected, tmp_path):
  with pytest.raises(ValueError, match=expected):
    jsonl(tmp_path / 'x', [], **changes)
