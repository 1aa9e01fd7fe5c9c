"""Scores are sacreBLEU's, with signatures, on as many references as translations."""

import pytest
import sacrebleu

import decode
from checks.errors import DataError
from decoding import scores
from options import decode_options

REFERENCES = ['Der Hund schläft heute auf der Straße.', 'Das Tier überquerte die Straße nicht, weil es zu müde war.',
              'Ich bin ein Student.']
HYPOTHESES = ['Der Hund schläft heute unter der Straße.', 'Das Tier überquerte die Straße nicht, weil sie zu müde war.',
              'ich bin ein Student.']


def test_right_translations_score_100():
  found = scores.corpus_scores(REFERENCES, REFERENCES)
  assert found['bleu'] == pytest.approx(100) and found['chrf'] == pytest.approx(100)


def test_scores_are_those_of_sacrebleu_by_its_own_name():
  found = scores.corpus_scores(HYPOTHESES, REFERENCES)
  assert found['bleu'] == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES], tokenize='13a', lowercase=False).score
  assert found['chrf'] == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
  assert 0 < found['bleu'] < 100
  for part in ('nrefs:1', 'case:mixed', 'tok:13a', 'smooth:exp', f'version:{sacrebleu.__version__}'):
    assert part in found['signature']
  assert 'nc:6' in found['chrf_signature'] and 'nrefs:1' in found['chrf_signature']


def test_case_counts():
  lower = [line.lower() for line in REFERENCES]
  assert scores.corpus_scores(lower, REFERENCES)['bleu'] < 90


@pytest.mark.parametrize('count', [1, 2])
def test_unequal_counts_are_an_error_that_names_both(count):
  with pytest.raises(DataError, match=f'3 lines.*has {count}'):
    scores.corpus_scores(HYPOTHESES, REFERENCES[:count])
  with pytest.raises(DataError, match=f'out.txt has {count} lines and ref.txt has 3'):
    scores.check_counts(HYPOTHESES[:count], REFERENCES, 'out.txt', 'ref.txt')


def test_nothing_has_no_score():
  with pytest.raises(DataError, match='no translations'):
    scores.corpus_scores([], [])


def test_description_names_set_and_signatures():
  found = scores.corpus_scores(HYPOTHESES, REFERENCES)
  text = scores.describe(found, 'wmt14/full (newstest2014, 3,003 lines)')
  assert 'wmt14/full (newstest2014, 3,003 lines)' in text and f'BLEU {found["bleu"]:.1f}' in text
  assert found['signature'] in text and found['chrf_signature'] in text


def test_decode_names_each_reference_by_its_file(capsys):
  options = decode_options.parse(['decode.py', '--workdir=a', '--input=in', '--reference=refs/one.de,more/two.de'], '')
  decode.report_scores(options, HYPOTHESES, [REFERENCES, REFERENCES], 'de')
  assert ' on one.de,two.de\n' in capsys.readouterr().err
