"""Syntax from CoNLL-U files, and its way to the heads."""

import gzip

import pytest

from checks.errors import DataError
from corpora import conllu, vocabulary
from corpora.conllu import Sentence
from explorer import analysis
from tests.explorer_stand_ins import small_translator, small_vocabulary

TEXT = '''# sent_id = 1
# text = The dog doesn't see it.
1	The	the	DET	_	_	2	det	_	_
2	dog	dog	NOUN	_	_	5	nsubj	_	_
3-4	doesn't	_	_	_	_	_	_	_	_
3	does	do	AUX	_	_	5	aux	_	_
4	n't	not	PART	_	_	5	advmod	_	_
5	see	see	VERB	_	_	0	root	_	_
5.1	seen	see	VERB	_	_	_	_	5:conj	_
6	it	it	PRON	_	_	5	dobj:x	_	SpaceAfter=No
7	.	.	PUNCT	_	_	5	punct	_	_

1	1 000	1000	NUM	_	_	2	nummod	_	_
2	cats	cat	NOUN	_	_	0	root	_	_
'''


def test_words_are_those_of_the_text(tmp_path):
  (tmp_path / 'a.conllu').write_text(TEXT)
  with gzip.open(tmp_path / 'a.conllu.gz', 'wt') as file:
    file.write(TEXT + '\n\n')
  first, second = conllu.read(f'{tmp_path}/a.conllu')
  assert first == Sentence("The dog doesn't see it.", ('The', 'dog', "doesn't", 'see', 'it', '.'), (
      ('det', 0, 1), ('nsubj', 1, 3), ('aux', 2, 3), ('advmod', 2, 3), ('obj', 4, 3), ('punct', 5, 3)))
  assert second == Sentence('1000 cats', ('1000', 'cats'), (('nummod', 0, 1),))
  assert conllu.read(f'{tmp_path}/a.conllu.gz') == [first, second]


@pytest.mark.parametrize('line, told', [
    ('1\tdog', 'line 2: found 2 columns'), ('dog' + '\t_' * 9, "beginning 'dog'"),
    ('1\tdog\t_\t_\t_\t_\t7\tnsubj\t_\t_', "line 2: word 1 depends on word '7'"),
    ('1\tdog\t_\t_\t_\t_\t_\tnsubj\t_\t_', "depends on word '_'")])
def test_what_is_no_conllu_is_named_by_its_line(tmp_path, line, told):
  (tmp_path / 'a.conllu').write_text(f'# text = dog\n{line}\n')
  with pytest.raises(DataError, match=told):
    conllu.read(f'{tmp_path}/a.conllu')


def test_relations_join_the_words_that_hold_their_pieces(tmp_path):
  (tmp_path / 'a.conllu').write_text(TEXT)
  pair = analysis.conllu_pairs(conllu.read(f'{tmp_path}/a.conllu'), ['der Hund sieht es nicht .', 'tausend Katzen'])[0]
  assert set(pair.gold.relations) == {
      ('nsubj → its head', 1, 3), ('head → nsubj', 3, 1), ('advmod → its head', 2, 3), ('head → advmod', 3, 2),
      ('obj → its head', 4, 3), ('head → obj', 3, 4)}
  vocabularies = (small_vocabulary(),) * 2
  reading, = analysis.token_pairs([pair], vocabularies)
  model, params = small_translator().parts[0], small_translator().params[0]
  (_, seen), = analysis.captures(model, params, [reading], vocabularies)
  seen, holder = analysis.in_gold_words(seen, reading, pair, vocabularies)
  assert [seen.source.words[place] for place in holder] == list(pair.gold.source_words)
  assert seen.by_word('encoder').shape[2:] == (7, 7)  # six words and EOS
  observed = analysis.observed(seen, holder, pair, analysis.word_frequencies([(0, seen)]))
  assert sorted(observed['encoder'].relations) == sorted(pair.gold.relations)
  assert observed['decoder'].relations == observed['cross'].relations == ()
  # There are no gold links, and so no alignment error.
  assert analysis.align_error([(0, seen)], [reading], [pair], vocabularies) is None


def test_counts_are_those_of_the_training_text(tmp_path):
  (tmp_path / 'words.gz').write_bytes(vocabulary.word_counts(['the', 'The', 'dog', 'the', 'paper', 'Paper']))
  counts = vocabulary.load_word_counts(f'{tmp_path}/words.gz')
  assert counts == {'the': 2, 'The': 1, 'dog': 1, 'paper': 1, 'Paper': 1}
  assert vocabulary.load_words(f'{tmp_path}/words.gz') == set(counts)
  frequency = analysis.TrainingCounts(counts)
  assert [frequency[word] for word in ('the', 'The', 'dog', 'Dog .', 'cat', 'the dog', '.')] == [
      3, 3, 1, 1, 0, 1, float('inf')]
  with gzip.open(tmp_path / 'old.gz', 'wt') as file:  # as runs wrote it that kept no counts
    file.write('dog\nthe')
  assert vocabulary.load_words(f'{tmp_path}/old.gz') == {'dog', 'the'}
  assert vocabulary.load_word_counts(f'{tmp_path}/old.gz') is None
