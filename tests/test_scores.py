"""Scores are sacreBLEU's, with signatures, on as many references as translations."""

import shutil

import jax
import pytest
import sacrebleu

import decode
from checks.errors import DataError
from decoding import minimum_bayes_risk, scores
from decoding.requests import Translation
from decoding.translator import Translator
from options import decode_options
from tasks import TASKS, setup
from tests.tiny_runs import options
from training.run_folder import RunFolder

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


CHINESE = ['今天狗睡在街上。', '这只动物没有过马路，因为它太累了。', '我是一个学生。'], ['今天狗睡在路上。', '这只动物没有过马路，因为它很累了。', '我是一名学生。']


@pytest.mark.parametrize('code, one, other, edits', [
    ('th', 'แมวนอน', 'แมวกิน', 2 / 6), ('ja', 'ねこはねている', 'いぬはねている', 2 / 7), ('ja', '猫は寝ている', '犬は寝ている', 1 / 6)])
def test_edits_of_scripts_without_spaces_are_counted_in_characters(code, one, other, edits):
  assert scores.error_rate([one], [other], language=code)['ter'] == pytest.approx(100 * edits)


@pytest.mark.parametrize('code, tokens', [('zh', 'zh'), ('zh-CN', 'zh'), ('zh_TW', 'zh'), ('ja', 'char'), ('th', 'char'), ('de', '13a'), ('zho', 'zh'), ('cmn_Hans', 'zh'),
                                          ('jpn', 'char'), ('tha', 'char'), ('deu', '13a')])
def test_languages_without_spaces_are_scored_by_characters(code, tokens, capsys):
  references, hypotheses = CHINESE
  found = scores.corpus_scores(hypotheses, references, language=code)
  assert found['bleu'] == sacrebleu.corpus_bleu(hypotheses, [references], tokenize=tokens).score
  assert f'tok:{tokens}|' in found['signature'] and (found['bleu'] > 50) == (tokens != '13a')
  rate = scores.error_rate(hypotheses, references, language=code)
  assert (rate['ter'] < 30) == (tokens != '13a') and ('tok:char|' in rate['ter_signature']) == (tokens == 'char')
  asked = decode_options.parse(['decode.py', '--workdir=a', '--input=in', '--reference=ref.zh'], '')
  decode.report_scores(asked, hypotheses, [references], code)
  assert f'tok:{tokens}|' in capsys.readouterr().err
  utility = minimum_bayes_risk.UTILITIES['bleu'](code)
  assert (utility.sentence_score(hypotheses[1], [references[1]]).score > 50) == (tokens != '13a')


@pytest.mark.parametrize('language, sources, expected', [
    ('mul', ['<2zh> a dog', '', '<2zh> a cat'], 'zh'), ('mul', ['<2zh> a dog', '<2de> a cat'], 'mul'),
    ('mul', ['<2zh> a dog', 'a cat'], 'mul'), ('mul', ['a <2zh> dog'], 'mul'), ('mul', ['<2zh>dog'], 'mul'),
    ('mul', ['<2zh> a dog', '  ', '<2zh> a cat'], 'zh'), ('mul', ['>>cmn_Hans<< a dog', '>>cmn_Hans<< a cat'], 'cmn_Hans'),
    ('mul', ['>>deu<< a dog', '>>fra<< a cat'], 'mul'), ('mul', ['<2zh-CN> a dog'], 'zh-CN'), ('mul', [], 'mul'), ('de', ['<2zh> a dog'], 'de')])
def test_the_tags_of_a_multilingual_model_say_which_language_is_scored(language, sources, expected):
  assert scores.language_of(sources, language) == expected


def test_a_run_is_scored_as_its_target_language_is_written(corpus, tmp_path, monkeypatch):
  for path in corpus.iterdir():
    shutil.copy(path, tmp_path / f'{path.stem}.{path.suffix[1:].replace("de", "zh")}')
  records = setup.read(options(tmp_path, tmp_path / 'run', '--config.data.target_language=zh'))
  with RunFolder(str(tmp_path / 'run')).create_or_resume(records.saved) as folder:
    task = TASKS[records.task](records, folder)
  monkeypatch.setattr(Translator, 'translate', lambda self, lines, progress: [Translation('狗睡在街上。') for line in lines])
  score = task.score(task.model.init(jax.random.key(0)), task.examined[0], sums_of=None)
  assert 'tok:zh|' in score.results['signature'] and 'tok:zh|' in score.summary


@pytest.mark.parametrize('code', ['de', 'deu', 'ger', 'de_AT'])
def test_papers_words_are_those_of_the_language_however_its_code_is_written(code):
  found = scores.paper_bleu(['Am 3. Mai schläft er.'], ['Am 3. Mai schläft er dort.'], 'iwslt14', code)
  assert found['reference_words'] == 7  # "3." is one, by the rules of German


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
  asked = decode_options.parse(['decode.py', '--workdir=a', '--input=in', '--reference=refs/one.de,more/two.de'], '')
  decode.report_scores(asked, HYPOTHESES, [REFERENCES, REFERENCES], 'de')
  assert ' on one.de,two.de\n' in capsys.readouterr().err
