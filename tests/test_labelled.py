"""Labelled text: files, splits, the phrasebook's sets against an independent reading, baselines, formats, batches."""

import collections
import dataclasses
import gzip
import itertools
import re

import numpy as np
import pytest
import scipy.sparse

from batching.labelled import LabelledPlan
from checks.errors import DataError
from corpora import heldout, input_formats, labelled, labelled_baselines, loading, vocabulary
from corpora.labelled import Example, LabelledCorpus, LabelledSplit
from corpora.loading import LabelledConfig
from corpora.phrasebook import facts as phrasebook_facts
from corpora.phrasebook import labelled_tasks
from input_pipeline import BatchConfig

# ------------------------------------------------------------------------------------------------------- files


def write(folder, **files):
  for name, text in files.items():
    (folder / f'{name}.tsv').write_text(text, encoding='utf-8')
  return str(folder)


def load(folder, task='classification', **options):
  return loading.load(LabelledConfig(task, 'labelled_text', directory=str(folder), **options))


def test_a_file_per_split(tmp_path):
  write(tmp_path, train='good\ta b\n\nbad\tc\ngood\td\n', validation='bad\te\n')
  (tmp_path / 'test.tsv.gz').write_bytes(gzip.compress('bad\tç\r\nbad\tc\n'.encode()))
  corpus = load(tmp_path)
  assert corpus.labels == ('bad', 'good')
  assert list(corpus.train) == [Example(1, ('a b',)), Example(0, ('c',)), Example(1, ('d',))]
  assert list(corpus.tests[0]) == [Example(0, ('ç',)), Example(0, ('c',))]
  assert corpus.majority(corpus.train) == 2 / 3
  assert corpus.majority(corpus.tests[0]) == 0  # training's favourite is good
  assert any('1 blank lines' in note for note in corpus.notes)
  assert any('test: 1 of 2 examples share a text with training' in note for note in corpus.notes)
  assert load(tmp_path, test_splits=()).tests == ()


def test_multiple_choice_counts_answers_from_one(tmp_path):
  write(tmp_path, train='2\tcontext\ta\tb\tc\n3\tother\td\te\tf\n', validation='1\tx\ta\tb\tc\n')
  corpus = load(tmp_path, 'multiple_choice', test_splits=())
  assert corpus.labels == ('1', '2', '3') and corpus.train.examples[0] == Example(1, ('context', 'a', 'b', 'c'))


@pytest.mark.parametrize('task, train, validation, message', [
    ('classification', 'a\tx\nb\n', 'a\tx\n', r'train.tsv, line 2: 1 tab-separated columns; expected 2: label, text'),
    ('classification', 'a\tx\nb\ty\tz\n', 'a\tx\n', r'train.tsv, line 2: 3 tab-separated columns; expected 2'),
    ('entailment', 'a\tx\ty\nb\tz\n', 'a\tx\ty\n', r'line 2: 2 .* expected 3: label, premise, hypothesis'),
    ('entailment', 'a\tx\ty\nb\tz\t \n', 'a\tx\ty\n', r'line 2: the hypothesis is empty'),
    ('classification', '\n\n', 'a\tx\n', r'train.tsv is empty; expected .*label, text'),
    ('classification', 'a\tx\na\ty\n', 'a\tx\n', r"train.tsv: all 2 lines have the label 'a'"),
    ('classification', 'good\tx\nbad\ty\n', 'bad\tq\nGood\tx\n', r"validation.tsv, line 2: label 'Good' .*: good, bad"),
    ('multiple_choice', '1\tx\ta\tb\n3\ty\ta\tb\n', '1\tx\ta\tb\n', r"line 2: the right answer is number '3'.* 1 to 2"),
    ('multiple_choice', '1\tx\ta\tb\n0\ty\ta\tb\n', '1\tx\ta\tb\n', r"line 2: the right answer is number '0'"),
    ('multiple_choice', '1\tx\ta\tb\n1\ty\ta\tb\tc\n', '1\tx\ta\tb\n', r'line 2: 3 answers, but the first line has 2'),
    ('multiple_choice', '1\tx\ta\tb\t\n', '1\tx\ta\tb\tc\n', r'train.tsv, line 1: the answer 3 is empty; expected number'),
    ('multiple_choice', '1\tx\ta\tb\n', '1\tx\ta\tb\tc\n', r'validation.tsv, line 1: 3 answers, but training has 2'),
])
def test_mistakes_are_named_with_file_and_line(tmp_path, task, train, validation, message):
  write(tmp_path, train=train, validation=validation)
  with pytest.raises(DataError, match=message):
    load(tmp_path, task, test_splits=())


def test_further_test_sets_are_read_where_they_are_there(tmp_path):
  write(tmp_path, train='a\tx\nb\ty\n', validation='a\tz\n', test='b\tw\n', more='a\tx\nb\tv\n')
  found = load(tmp_path, test_splits=('test', 'absent', 'more'))
  assert [(split.name, len(split)) for split in found.tests] == [('test', 1), ('more', 2)]
  assert found.notes == (f'test set absent left out: {tmp_path} has no absent.tsv',
                         'more: 1 of 2 examples share a text with training')


def test_a_missing_file_says_what_is_there(tmp_path):
  write(tmp_path, train='a\tx\nb\ty\n', dev='a\tz\n')
  with pytest.raises(DataError, match='neither validation.tsv nor validation.tsv.gz .*dev.tsv'):
    load(tmp_path)
  write(tmp_path, train='not an example\n')  # which may be long, and is not read before
  with pytest.raises(DataError, match='neither validation.tsv nor validation.tsv.gz .*dev.tsv'):
    load(tmp_path)


@pytest.mark.parametrize('options, message', [
    (dict(task='sentiment'), "task is 'sentiment'; expected one of classification"),
    (dict(task='similarity', kind='tfds'), "kind is 'tfds'"),
    (dict(task='similarity', kind='labelled_tsv'), 'tsv is not set'),
    (dict(task='similarity', heldout=0), 'heldout is 0'),
])
def test_impossible_options(options, message):
  with pytest.raises(ValueError, match=message):
    LabelledConfig(**options)


def test_an_unsplit_file_is_split_without_leakage(tmp_path):
  # Every premise has three hypotheses; some hypotheses stand under two premises, so that groups join.
  lines = [f'{label}\tpremise {n}\thypothesis {n} {label}' for n in range(40) for label in 'abc']
  lines += [f'a\tpremise {n}\thypothesis {n + 1} b' for n in range(0, 40, 8)] + lines[:5]
  path = tmp_path / 'all.tsv'
  path.write_text('\n'.join(lines), encoding='utf-8')
  corpus = loading.load(LabelledConfig('entailment', 'labelled_tsv', tsv=str(path), heldout=7))
  splits = [corpus.train, corpus.validation, corpus.tests[0]]
  assert [len(split) for split in splits[1:]] == [7, 7]
  for one, other in itertools.combinations(splits, 2):
    assert {text for e in one for text in e.texts}.isdisjoint(text for e in other for text in e.texts)
  dropped = sum(int(found[1]) for note in corpus.notes if (found := re.match(r'(\d+) examples dropped', note)))
  assert len(corpus.train) + 14 + dropped == len(lines) - 5
  again = loading.load(LabelledConfig('entailment', 'labelled_tsv', tsv=str(path), heldout=7, seed=1))
  assert again.tests[0].fingerprint != corpus.tests[0].fingerprint
  with pytest.raises(DataError, match='125 examples in 35 groups'):
    loading.load(LabelledConfig('entailment', 'labelled_tsv', tsv=str(path), heldout=18))


# ------------------------------------------------------------------------------------------- the phrasebook's sets


@pytest.fixture(scope='module', params=labelled.TASKS)
def corpus(request):
  """A small edition of each set."""
  sizes = {'train': 3000, 'validation': 120, 'test': 600}
  splits = {split: LabelledSplit(split, tuple(labelled_tasks.generate(request.param, split, size)))
            for split, size in sizes.items()}
  return LabelledCorpus('small', request.param, labelled_tasks.SETS[request.param].labels, splits['train'],
                        splits['validation'], (splits['test'],))


def test_sets_are_balanced_distinct_and_disjoint(corpus):
  seen = collections.Counter()
  for split in (corpus.train, corpus.validation, corpus.tests[0]):
    counts = collections.Counter(example.label for example in split)
    assert len(counts) == len(corpus.labels) and max(counts.values()) - min(counts.values()) <= 1
    assert len({example.texts for example in split}) == len(split)
    alone = labelled.TASKS[corpus.task].identifying
    seen.update({text for example in split for text in example.texts[:alone]})
  assert max(seen.values()) == 1  # no text stands in two splits
  assert labelled_tasks.generate(corpus.task, 'test', 50) == labelled_tasks.generate(corpus.task, 'test', 50)


def test_sets_give_little_away(corpus):
  found = labelled_baselines.baselines(corpus, corpus.tests[0])
  chance = 1 / len(corpus.labels)
  for name in {'majority', 'bag_of_words', 'last_text_only'} & found.keys():
    assert found[name] < chance + 0.09, (name, found)  # 600 examples: two deviations are 0.04
  # Whether one sentence is negated, and not the other, shows in the words: it tells two labels of entailment apart.
  assert found.get('word_overlap', 0) < (0.78 if corpus.task == 'entailment' else chance + 0.09)


def test_entailment_is_truth_in_all_small_worlds():
  """A world is what happened: at most two events, each with a time, a place and the object's adjectives."""
  base = phrasebook_facts.Fact(phrasebook_facts.Party('king'), phrasebook_facts.TO_THINGS[0],
                               phrasebook_facts.Party('car', indefinite=True))
  times, places, adjectives = ('', 'yesterday', 'on Monday'), ('', 'in the park'), ('', 'old', 'red')
  events = list(itertools.product(times[1:], ('elsewhere', *places[1:]), ((), ('old',), ('red',), ('old', 'red'))))
  worlds = [world for size in range(3) for world in itertools.combinations(events, size)]

  def true(fact, world):
    happened = any(fact.time in ('', time) and fact.place in ('', place)
                   and fact.patient.adjective in ('', *described) for time, place, described in world)
    return happened != fact.negated

  facts = [dataclasses.replace(base.modified(time=time, place=place, adjective=adjective), negated=no)
           for time, place, adjective, no in itertools.product(times, places, adjectives, (False, True))]
  for premise, hypothesis in itertools.product(facts, facts):
    outcomes = {true(hypothesis, world) for world in worlds if true(premise, world)}
    label = 'neutral' if len(outcomes) == 2 else 'entailment' if outcomes == {True} else 'contradiction'
    assert labelled_tasks.entails(premise, hypothesis) == label, (premise, hypothesis)


_FORMS = {form: verb.name for verb in phrasebook_facts.EVENTS
          for form in (f'{verb.past} {verb.particle}'.strip(), f'{phrasebook_facts.participle(verb)} {verb.particle}'
                       .strip(), f'{verb.english} {verb.particle}'.strip())}
_VERB = '|'.join(sorted(map(re.escape, _FORMS), key=len, reverse=True))
_READINGS = (
    rf"It was (?P<agent>.+) that (?P<verb>{_VERB}) (?P<patient>.+)",
    rf"It was (?P<patient>.+) that (?P<agent>.+) (?P<verb>{_VERB})",
    rf"(?P<patient>.+) (?P<was>was|wasn't) (?P<verb>{_VERB}) by (?P<agent>.+)",
    rf"(?P<agent>.+) (?P<was>didn't) (?P<verb>{_VERB}) (?P<patient>.+)",
    rf"(?P<agent>.+?) (?P<verb>{_VERB}) (?P<patient>.+)")


def read(text):
  """(agent, verb, patient, negated, time, place) of a sentence, by patterns of its words alone."""
  text, time, place = text.rstrip('.'), '', ''
  for found in phrasebook_facts.TIMES:
    for pattern in (rf'^{found} ', rf' {found}$'):
      if re.search(pattern, text, re.IGNORECASE):
        text, time = re.sub(pattern, '', text, flags=re.IGNORECASE), found
  for found in phrasebook_facts.PLACES:
    if text.endswith(f' {found}'):
      text, place = text.removesuffix(f' {found}'), found
  for pattern in _READINGS:
    if match := re.fullmatch(pattern, text):
      parts = match.groupdict()
      return (parts['agent'].lower(), _FORMS[parts['verb']], parts['patient'].lower(),
              parts.get('was') in ("wasn't", "didn't"), time, place)
  raise AssertionError(text)


def test_similar_is_who_did_what_to_whom():
  for label, (one, other) in labelled_tasks.generate('similarity', 'train', 1000):
    assert label == (read(one) == read(other)), (label, one, other)
    bag = lambda text: collections.Counter(word for word in re.findall(r"[\w']+", text.lower())
                                           if word not in {'it', 'was', "wasn't", 'that', 'by', "didn't"})
    assert len(bag(one) - bag(other)) <= 1  # but for the verb's form, both have the same words


def test_entailment_reads_as_its_label_says():
  bare = lambda phrase: phrase.split()[-1]
  reasons = collections.Counter()
  for label, (premise, hypothesis) in labelled_tasks.generate('entailment', 'train', 1500):
    label, one, other = labelled_tasks.ENTAILMENT[label], read(premise), read(hypothesis)
    same_roles = [bare(x) for x in (one[0], one[1], one[2])] == [bare(x) for x in (other[0], other[1], other[2])]
    if label == 'neutral':
      reasons['roles' if not same_roles else 'modifiers'] += 1
    else:
      assert same_roles and (one[3] == other[3]) == (label == 'entailment')
      narrow, wide = (other, one) if one[3] else (one, other)
      assert all(wide[slot] in ('', narrow[slot]) for slot in (4, 5)), (label, premise, hypothesis)
  assert min(reasons.values()) > 100, reasons


def test_the_answer_is_the_partner_of_the_one_named():
  question = re.compile(rf"(?:Who (?P<past>{_VERB}) (?P<a>.+)|By whom was (?P<b>.+) (?P<part>{_VERB})|Whom did "
                        rf"(?P<c>.+?) (?P<base>{_VERB})|Who was (?P<done>{_VERB}) by (?P<d>.+))\?")
  places = collections.Counter()
  for label, (context, *answers) in labelled_tasks.generate('multiple_choice', 'train', 400):
    *facts, asked = re.split(r'(?<=\.) ', context)
    found = question.fullmatch(asked).groupdict()
    known = next(found[key] for key in 'abcd' if found[key]).lower()
    named = lambda phrase: ' '.join(['the', phrase.split()[-1]] if phrase.startswith('the ') else [phrase])
    partners = {named(pair[i]): named(pair[1 - i]) for fact in facts for pair in [(read(fact)[0], read(fact)[2])]
                for i in (0, 1)}
    assert answers[label].lower().rstrip('.') == partners[known], (context, answers, label)
    agents = {named(read(fact)[0]) for fact in facts}
    assert (known not in agents) == bool(found['a'] or found['b'])  # who does it is asked of whom it is done to
    places[label] += 1
  assert set(places.values()) == {100}


def test_classification_has_both_readings_of_each_sentence():
  beginnings = collections.defaultdict(set)
  for label, (text,) in labelled_tasks.generate('classification', 'train', 1000):
    beginnings[text.split(' because ')[0]].add(label)
  assert sum(labels == {0, 1} for labels in beginnings.values()) > 0.97 * len(beginnings)


def test_adjectives_are_balanced():
  readings, cumulative = labelled_tasks._balanced_readings()
  weights = np.diff(cumulative, prepend=0) / cumulative[-1]
  shares = collections.Counter()
  for (_, first, second), weight in zip(readings, weights):
    shares[first] += weight
    shares[second] -= weight
  assert max(map(abs, shares.values())) < 1e-3
  # The story's own verb stays, though most of its adjectives are said of a street alone.
  assert weights[[frame.verb == 'cross' for frame, _, _ in readings]].sum() > 0.005


# --------------------------------------------------------------------------------------------------- baselines


def made_up(task, labels, examples):
  split = LabelledSplit('made up', tuple(examples))
  return LabelledCorpus('made up', task, labels, split, split, (split,))


def test_baselines_find_what_is_there():
  words = made_up('classification', ('n', 'y'), [Example(n % 2, (f'w{n % 5} {"yes" if n % 2 else "no"}',))
                                                 for n in range(40)])
  assert labelled_baselines.baselines(words, words.tests[0]) == {'majority': 0.5, 'bag_of_words': 1.0}
  # The label is in the hypothesis; in whether both texts have the word; in neither's words.
  told = made_up('entailment', ('n', 'y'), [Example(n % 2, ('p', 'ab'[n % 2])) for n in range(40)])
  assert labelled_baselines.baselines(told, told.tests[0])['last_text_only'] == 1
  common = made_up('entailment', ('n', 'y'), [Example(int(a == b), (a, b)) for a in 'ab' for b in 'ab'] * 10)
  found = labelled_baselines.baselines(common, common.tests[0])
  assert found['word_overlap'] == 1 and found['bag_of_words'] == found['last_text_only'] == 0.5


def test_a_baseline_chooses_among_answers():
  examples = [Example(n % 3, ('c', *('right' if n % 3 == place else f'w{n % 2}' for place in range(3))))
              for n in range(30)]
  corpus = made_up('multiple_choice', ('1', '2', '3'), examples)
  assert labelled_baselines.baselines(corpus, corpus.tests[0])['bag_of_words'] == 1


def test_logistic_regression_is_at_its_optimum():
  draw = np.random.default_rng(3)
  inputs, labels = (draw.random((23, 5)) < 0.4).astype(float), draw.integers(0, 3, 23)
  weights = labelled_baselines._fit(scipy.sparse.csr_matrix(inputs), labels, 3, False)
  scores = np.exp(inputs @ weights)
  gradient = inputs.T @ (scores / scores.sum(1, keepdims=True) - np.eye(3)[labels]) + weights
  np.testing.assert_allclose(gradient, 0, atol=1e-3)


# ---------------------------------------------------------------------------------- vocabulary, formats, batches

SYMBOLS = input_formats.Symbols(start=2, delimiter=4, extract=5)


@pytest.fixture(scope='module')
def entries():
  texts = ['the dog follows the cat <delimiter>', 'a cat sees the <extract> dog'] * 5
  config = vocabulary.VocabularyConfig('char', 300, control_symbols=('<delimiter>', '<extract>'))
  return vocabulary.Vocabulary(vocabulary.train(config, texts), 'test')


def test_control_symbols_are_no_text(entries):
  found = input_formats.symbols_of(entries)
  assert found == (entries.bos_id, 4, 5)
  ids = entries.encode('the <delimiter> dog <extract>')
  assert not {4, 5} & set(ids) and entries.decode([4, *ids, 5]) == 'the <delimiter> dog <extract>'
  with pytest.raises(DataError, match=r'no control symbol .<other>.; .*--config.vocabulary.control_symbols='):
    entries.control_id('<other>')
  with pytest.raises(DataError):
    entries.control_id('d')


@pytest.mark.parametrize('symbols', [('<s>',), ('',), ('<a>', '<a>'), '<a>', (7,)])
def test_impossible_control_symbols(symbols):
  with pytest.raises(ValueError, match='control_symbols is'):
    vocabulary.VocabularyConfig(control_symbols=symbols)


@pytest.mark.parametrize('task, texts, sequences', [
    ('classification', [[10, 11]], [[2, 10, 11, 5]]),
    ('entailment', [[10, 11], [12]], [[2, 10, 11, 4, 12, 5]]),
    ('similarity', [[10, 11], [12]], [[2, 10, 11, 4, 12, 5], [2, 12, 4, 10, 11, 5]]),
    ('multiple_choice', [[10], [11], [12, 13]], [[2, 10, 4, 11, 5], [2, 10, 4, 12, 13, 5]]),
])
def test_figure_1(task, texts, sequences):
  assert input_formats.FORMATS[task](texts, SYMBOLS, 9) == sequences


def test_every_task_is_everywhere():
  assert set(labelled.TASKS) == set(input_formats.FORMATS) == set(labelled_tasks.SETS)


@pytest.mark.parametrize('task', labelled.TASKS)
def test_no_sequence_can_be_shorter_than_the_least_length(task):
  texts, least = [[5, 6]] * len(labelled.TASKS[task].columns), input_formats.least_length(task)
  assert {len(ids) for ids in input_formats.FORMATS[task](texts, SYMBOLS, least)} == {least}
  with pytest.raises(ValueError, match='are too few'):
    input_formats.FORMATS[task](texts, SYMBOLS, least - 1)


def test_the_longest_text_is_cut_and_no_symbol():
  texts = [list(range(10, 17)), list(range(20, 23))]
  assert input_formats.FORMATS['entailment'](texts, SYMBOLS, 11) == [[2, 10, 11, 12, 13, 14, 4, 20, 21, 22, 5]]
  both = input_formats.FORMATS['similarity'](texts, SYMBOLS, 8)
  assert both == [[2, 10, 11, 4, 20, 21, 5], [2, 20, 21, 4, 10, 11, 5]]  # alike for both, so 7 tokens of 8
  with pytest.raises(ValueError, match='4 tokens are too few for 2 texts'):
    input_formats.fitted(texts, 4)


def test_encoding_counts_what_is_cut(entries):
  split = LabelledSplit('s', (Example(1, ('cat', 'dog')), Example(0, ('the cat follows the dog', 'dog'))))
  encoded = input_formats.encode(split, 'entailment', entries, 16)
  assert encoded.labels == [1, 0] and encoded.cut == 1
  assert [len(sequences[0]) for sequences in encoded.sequences] == [11, 16]
  assert entries.decode(encoded.sequences[0][0]) == 'cat dog'
  assert encoded.sequences[1][0][-6:] == [4, *entries.encode('dog'), 5]


@pytest.mark.parametrize('each', [1, 3])
def test_batches_hold_every_example_once_an_epoch(each):
  draw = np.random.default_rng(0)
  sequences = [[[2, *draw.integers(9, 99, draw.integers(1, 20)).tolist(), 5] for _ in range(each)] for _ in range(53)]
  labels = list(range(53))
  config = BatchConfig('buckets', 600, 32, max_shapes=3)
  plan = LabelledPlan(sequences, labels, config, seed=1)
  found = []
  for step in range(plan.batches_per_epoch):
    batch = plan.batch_at(step)
    rows, count, length = batch.sequences.ids.shape
    assert rows % 8 == 0 and count == each and rows * count * length <= 600
    np.testing.assert_array_equal(batch.real, (batch.sequences.segments > 0).any((1, 2)))
    for row in np.flatnonzero(batch.real):
      found.append(batch.labels[row])
      for which in range(each):
        real = batch.sequences.segments[row, which] > 0
        assert batch.sequences.ids[row, which][real].tolist() == sequences[batch.labels[row]][which]
    halves = [plan.batch_at(step, host, 2) for host in (0, 1)]
    np.testing.assert_array_equal(np.concatenate([half.sequences.ids for half in halves]), batch.sequences.ids)
    np.testing.assert_array_equal(np.concatenate([half.real for half in halves]), batch.real)
  assert sorted(found) == labels and plan.dropped == 0
  assert len(plan.shapes) > 1 and 0 < plan.padding() < 0.6
  again = LabelledPlan(sequences, labels, config, seed=1)
  np.testing.assert_array_equal(again.batch_at(plan.batches_per_epoch + 1).labels,
                                plan.batch_at(plan.batches_per_epoch + 1).labels)


def test_a_batch_too_small_for_the_longest_example_is_refused():
  config = BatchConfig('buckets', 300, 32)
  with pytest.raises(DataError, match=r'300 holds fewer than 8 examples of 2 × 20 tokens, .* raise it to 320'):
    LabelledPlan([[[2] * 20, [2] * 4]], [0], config, seed=0)
  config = BatchConfig('buckets', 3839, 32, accumulation_steps=3, row_multiple=32)
  with pytest.raises(DataError, match=r'fewer than 96 examples \(data.row_multiple = 32 for each .* raise it to 3840'):
    LabelledPlan([[[2] * 20, [2] * 4]], [0], config, seed=0)
  config = BatchConfig('buckets', 900, 32, accumulation_steps=3)
  with pytest.raises(DataError, match=r'900 holds fewer than 24 examples .* of 2 × 20 tokens, the longest of held-out text; raise it to 960'):
    LabelledPlan([[[2] * 20, [2] * 4]], [0], config.for_evaluation(), seed=0)


def test_sentence_pairs_are_still_split_by_sentence():
  keys = [('a', 'x'), ('b', 'x'), ('c', 'y'), ('d', 'z'), ('d', 'w')]
  train, validation, test, dropped = heldout.split_by_key(keys, 1, 0, 'file', 'pairs')
  assert len(train) + len(validation) + len(test) + dropped == 5
  of = lambda items: {key for i in items for key in keys[i]}
  assert of(train).isdisjoint(of(validation)) and of(train).isdisjoint(of(test))
