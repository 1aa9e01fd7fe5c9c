"""Systems beside each other, BLEU as papers print it, and figures of systems that others have published."""

import csv
import os
import re

import pytest
import sacrebleu

import compare
from checks.errors import DataError
from corpora import text_files
from decoding import comparison, scores
from options import compare_options

REFERENCE = ['Der Hund schläft heute auf der Straße.', 'Das Tier überquerte die Straße nicht, weil es zu müde war.',
             'Ich bin ein Student.', 'Das ist Live-Musik von heute.'] * 3
GOOD = [line.replace('heute', 'jetzt') for line in REFERENCE]
BAD = [line.replace('Straße', 'Gasse').replace('ein ', 'der ').replace('heute', 'jetzt') for line in REFERENCE]
NEWSTEST = os.environ.get('NEWSTEST_OUTPUTS')  # a folder with SCORES.tsv, and beside it newstest/ with the references


def options(*arguments):
  return compare_options.parse(['compare.py', *arguments], 'Compares.')


def test_a_better_system_is_told_from_a_worse_one():
  figures, signatures = comparison.compare({'good': GOOD, 'bad': BAD, 'same': GOOD}, [REFERENCE], 200)
  bleu = figures['BLEU']
  assert bleu['good'].score == scores.corpus_scores(GOOD, REFERENCE)['bleu'] > bleu['bad'].score
  assert bleu['good'].p_value is None and bleu['bad'].p_value < 0.05 < bleu['same'].p_value
  assert any('bs:200' in signature for signature in signatures) and set(figures) == {'BLEU', 'chrF2'}


def test_systems_that_differ_where_no_score_does_are_no_different():
  one, other = ([GOOD[0].replace('Hund', wrong), *GOOD[1:]] for wrong in ('qqqq', 'zzzz'))
  figures, _ = comparison.compare({'one': one, 'other': other}, [REFERENCE], 50)
  for metric in figures.values():
    assert metric['one'].score == metric['other'].score and metric['other'].p_value == 1.0


def test_lengths_and_the_sentences_that_differ_most():
  groups = comparison.by_length({'a': GOOD, 'b': BAD}, [REFERENCE])
  assert sum(count for _, count, _ in groups) == len(REFERENCE)
  gains = comparison.most_different(BAD, REFERENCE, [REFERENCE], 4)
  assert len(gains) == 4 and [place % 4 for _, place in gains[:3]] == [0, 0, 0]  # the line with two changes
  assert [gain for gain, _ in gains] == sorted((gain for gain, _ in gains), reverse=True) and gains[-1][0] > 0
  assert comparison.most_different(GOOD, GOOD, [REFERENCE], 3) == []


def test_lengths_of_languages_without_spaces_are_in_characters(tmp_path, capsys):
  reference = ['狗睡。'] * 30 + ['这只动物没有过马路，因为它太累了。'] * 30
  for name in ('ref', 'a', 'b'):
    (tmp_path / name).write_text('\n'.join(reference) + '\n')
  asked = lambda *more: compare_options.parse(['compare.py', *(str(tmp_path / name) for name in ('ref', 'a', 'b')), *more], '')
  assert [(name, count) for name, count, _ in comparison.by_length({'a': reference}, [reference], 'zh')] == [('1–4', 30), ('5–18', 30)]
  assert compare.main(asked('--samples=9', '--language=zh')) == 0
  assert 'BLEU by characters of the reference' in (told := capsys.readouterr().out) and '5–18 characters' in told


def test_every_reference_counts_by_length_and_by_sentence(tmp_path, capsys):
  """A system that writes what the second reference says is as good as one can be, wherever it is compared."""
  other = [line.replace('heute', 'jetzt') + ' Ja, so ist es.' for line in REFERENCE]  # longer: it groups nothing
  alone, both = ([count for _, count, _ in comparison.by_length({'a': other}, known)] for known in ([REFERENCE], [REFERENCE, other]))
  assert alone == both
  assert all(found['a'] == pytest.approx(100.0) for _, _, found in comparison.by_length({'a': other}, [REFERENCE, other]))
  (gain, _), = comparison.most_different(BAD, other, [REFERENCE, other], 1)
  assert gain > 0 > comparison.most_different(REFERENCE, other, [REFERENCE], 1)[0][0]
  for name, lines in (('ref', REFERENCE), ('ref2', other), ('a', GOOD), ('b', BAD)):
    (tmp_path / name).write_text('\n'.join(lines) + '\n')
  path = lambda name: str(tmp_path / name)
  compare.main(options(f'{path("ref")},{path("ref2")}', path('a'), path('b'), '--samples=20', '--sentences=1'))
  told = capsys.readouterr().out
  assert 'BLEU by words of the first reference' in told and told.count('    reference  ') == 2


def test_a_file_may_have_a_name_that_is_no_utf_8(tmp_path, capsys):
  names = [os.fsencode(tmp_path / name) + b'\xff' for name in ('ref', 'a', 'b')]
  for name, lines in zip(names, (REFERENCE, GOOD, BAD)):
    with open(name, 'w') as file:
      file.write('\n'.join(lines) + '\n')
  compare.main(options(*map(os.fsdecode, names), '--samples=20'))
  assert f'{tmp_path}/a\\udcff' in capsys.readouterr().out


def test_texts_without_spaces_are_compared_by_characters(tmp_path, capsys):
  for name, lines in (('ref', ['我是一个学生。', '狗睡在街上。']), ('a', ['我是一名学生。', '狗睡在街上。']), ('b', ['我们是学生。', '狗睡在路上。'])):
    (tmp_path / name).write_text('\n'.join(lines) + '\n')
  asked = lambda *more: compare.main(options(*(str(tmp_path / name) for name in ('ref', 'a', 'b')), '--samples=20', *more))
  asked('--language=zh')
  told = capsys.readouterr().out
  score, = re.findall(r'/a +([\d.]+)', told.partition('chrF')[0])
  assert 'tok:zh|' in told and float(score) == pytest.approx(scores.corpus_scores(
      ['我是一名学生。', '狗睡在街上。'], ['我是一个学生。', '狗睡在街上。'], language='zh')['bleu'], abs=0.005)
  asked()
  assert 'tok:13a|' in capsys.readouterr().out


def test_compare_reports_and_refuses(tmp_path, capsys):
  for name, lines in (('ref', REFERENCE), ('a', GOOD), ('b', BAD), ('short', BAD[1:])):
    (tmp_path / name).write_text('\n'.join(lines) + '\n')
  path = lambda name: str(tmp_path / name)
  assert compare.main(options(path('ref'), path('a'), path('b'), '--samples=50', '--sentences=1')) == 0
  told = capsys.readouterr().out
  assert re.search(r'p = [01][.]', told) and 'words' in told
  place = int(re.search(r'^  line (\d+): ', told, re.M)[1]) - 1
  for name, line in (('reference', REFERENCE[place]), (path('a'), GOOD[place]), (path('b'), BAD[place])):
    assert f'    {name}  {line}\n' in told
  with pytest.raises(DataError, match='short has 11 lines and .*ref has 12'):
    compare.main(options(path('ref'), path('a'), path('short')))
  with pytest.raises(SystemExit):
    options(path('ref'), path('a'))
  for name in ('none', 'c', 'd'):
    (tmp_path / name).touch()
  with pytest.raises(DataError, match='none is empty'):
    compare.main(options(path('none'), path('c'), path('d')))


def test_several_references_and_ter():
  other = [line.replace('Straße', 'Gasse') for line in REFERENCE]
  found = scores.corpus_scores(BAD, REFERENCE, other)
  assert found['bleu'] == sacrebleu.corpus_bleu(BAD, [REFERENCE, other]).score > scores.corpus_scores(BAD, REFERENCE)['bleu']
  assert 'nrefs:2' in found['signature']
  one_of_four = scores.error_rate(['a b c x'], ['a b c d'])
  assert one_of_four['ter'] == pytest.approx(25.0)
  assert 'TER 25.0' in scores.describe(found | one_of_four, 'x')


@pytest.mark.parametrize('paper, text, expected', [
    ('wmt14', 'Live-Musik "hier", bitte.', 'Live ##AT##-##AT## Musik &quot; hier &quot; , bitte .'),
    ('multi30k', 'Ein „Mann“, der läuft.', 'ein &quot; mann &quot; , der läuft .'),
    ('iwslt14', 'Live-Musik, IST gut.', 'live-musik , ist gut .')])
def test_texts_are_prepared_as_the_papers_do(paper, text, expected):
  for make in scores.PAPERS[paper]:
    text = make('de')(text)
  assert text == expected


def test_compounds_count_as_their_parts():
  """By hand: of "a-b c d e", written "a-x c d e", the split leaves 6 words: a AT b c d e."""
  found = scores.paper_bleu(['a-x c d e'], ['a-b c d e'], 'wmt14', 'de')
  assert found['paper_bleu'] == 0.0 and found['reference_words'] == 6  # of four words in a row none of 3 is right
  longer = scores.paper_bleu(['a-x c d e f'], ['a-b c d e f'], 'wmt14', 'de')['paper_bleu']
  assert longer == pytest.approx(100 * ((6 / 7) * (4 / 6) * (2 / 5) * (1 / 4)) ** 0.25)
  whole = scores.paper_bleu(['a-x c d e f'], ['a-b c d e f'], 'iwslt14', 'de')['paper_bleu']
  assert whole == pytest.approx(100 * ((4 / 5) * (3 / 4) * (2 / 3) * (1 / 2)) ** 0.25)


@pytest.mark.skipif(not NEWSTEST, reason='NEWSTEST_OUTPUTS names no folder')
def test_published_figures_are_reproduced():
  with open(os.path.join(NEWSTEST, 'SCORES.tsv'), encoding='utf-8') as file:
    rows = list(csv.DictReader(file, delimiter='\t'))
  for row in rows:
    language = row['direction'][-2:]
    read = lambda folder, name: text_files.read_lines(os.path.join(folder, f'{name}.gz'))
    reference = read(os.path.join(os.path.dirname(os.path.normpath(NEWSTEST)), 'newstest'), f'{row["testset"]}.{language}')
    found = scores.corpus_scores(read(NEWSTEST, row['file']), reference)
    assert found['bleu'] == pytest.approx(float(row['sacrebleu_2.6.0_13a_mixed']), abs=1e-4)
    assert found['chrf'] == pytest.approx(float(row['chrF2']), abs=1e-4)
    if re.fullmatch('[0-9.]+', row['published_bleu_1dp']):
      assert round(found['bleu'], 1) == float(row['published_bleu_1dp'])
