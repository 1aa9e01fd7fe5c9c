"""The token store and the batch plan."""

import collections
import dataclasses
import itertools
import math
import os

import jax
import numpy as np
import pytest

import input_pipeline
from batching import store as stores
from batching.plan import CountedEpochs
from batching.sampled import SampledStores
from batching.store import Side, Store
from checks.errors import DataError
from corpora import subword_sampling
from corpora import vocabulary as vocabularies
from corpora.splits import Pair, Split
from input_pipeline import BatchConfig

EOS = 3
BUCKETS = BatchConfig('buckets', batch_tokens=600, max_length=50, max_shapes=5)
FIXED = BatchConfig('fixed', batch_tokens=1, max_length=50, fixed_rows=64, fixed_source_length=41,
                    fixed_target_length=42)


def lengths(count, seed=0, mean=11.0, spread=0.45, correlation=0.8, least=2, most=50):
  """Lengths of both sides, lognormal and correlated."""
  draw = np.random.default_rng(seed).normal(size=(2, count))
  other = correlation * draw[0] + math.sqrt(1 - correlation**2) * draw[1]
  return [np.clip(np.exp(np.log(mean) + spread * side).round().astype(int), least, most) for side in (draw[0], other)]


def make_store(source, target):
  """Sentence i repeats a number of its own, in the source 10 + i, in the target -10 - i; then EOS."""
  def side(sizes, sign):
    words = [[*[sign * (10 + i)] * (size - 1), EOS] for i, size in enumerate(sizes)]
    return Side(np.concatenate(words).astype(np.int32), np.concatenate([[0], np.cumsum(sizes)]))
  return Store(side(source, 1), side(target, -1), 'made up')


@pytest.fixture(scope='module')
def store():
  return make_store(*lengths(487))


@pytest.fixture(scope='module')
def plan(store):
  return input_pipeline.make_plan(store, BUCKETS, seed=7)


def epoch_batches(plan, number=0):
  start = number * plan.batches_per_epoch
  return [plan.batch_at(start + n) for n in range(plan.batches_per_epoch)]


def same(one, other):
  return jax.tree.all(jax.tree.map(np.array_equal, one, other))


def test_every_pair_comes_once_an_epoch_whole_and_with_its_translation(plan, store):
  orders = []
  for number in (0, 1, 5):
    seen = []
    for batch in epoch_batches(plan, number):
      for row in range(len(batch.source.ids)):
        source, target = (side.ids[row][side.segments[row] > 0] for side in batch)
        assert (len(source) > 0) == (len(target) > 0)
        if len(source):
          sentence = source[0] - 10
          seen.append(int(sentence))
          np.testing.assert_array_equal(source, store.source[sentence])
          np.testing.assert_array_equal(target, store.target[sentence])
    assert sorted(seen) == list(range(487))
    orders.append(seen)
  assert orders[0] != orders[1] != orders[2]


def test_the_batch_at_a_step_is_a_function_of_seed_and_step(store, plan):
  again, other = input_pipeline.make_plan(store, BUCKETS, seed=7), input_pipeline.make_plan(store, BUCKETS, seed=8)
  steps = [0, 1, plan.batches_per_epoch + 3, 11 * plan.batches_per_epoch + 2]
  for step in reversed(steps):  # asked in another order, and of a plan that has seen no other epoch
    assert same(again.batch_at(step), plan.batch_at(step))
    assert again.shape_at(step) == plan.shape_at(step)
  assert not any(same(other.batch_at(step), plan.batch_at(step)) for step in steps)


def test_without_shuffling_every_epoch_is_the_same(store):
  plain = input_pipeline.make_plan(store, BUCKETS, seed=7, shuffle=False)
  first, second, third = (epoch_batches(plain, number) for number in range(3))
  assert all(map(same, second, third)) and not all(map(same, first, second))  # but the first starts with the largest
  text = lambda batches: sorted(batch.source.ids.tobytes() for batch in batches)
  assert text(first) == text(second)


def test_shapes_keep_their_promises(plan, store):
  assert 1 < len(plan.shapes) <= BUCKETS.max_shapes
  assert plan.shape_at(0) == plan.shapes[0] == max(plan.shapes, key=lambda shape: shape.size)
  assert max(s.source for s in plan.shapes) == store.source.lengths.max()
  for step in range(2 * plan.batches_per_epoch):
    batch, shape = plan.batch_at(step), plan.shape_at(step)
    assert shape in plan.shapes
    assert batch.source.ids.shape == (shape.rows, shape.source) and batch.target.ids.shape == (shape.rows, shape.target)
    assert shape.rows % 8 == 0 and shape.rows * max(shape.source, shape.target) <= BUCKETS.batch_tokens
    assert (shape.rows + 8) * max(shape.source, shape.target) > BUCKETS.batch_tokens


def test_every_seed_shows_the_largest_shape_first(store):
  plans = [input_pipeline.make_plan(store, BUCKETS, seed) for seed in range(5)]
  assert all(plan.shape_at(0) == plan.shapes[0] for plan in plans)
  assert len({plan.shape_at(1) for plan in plans}) > 1


def test_only_the_longest_shape_has_empty_rows(plan):
  longest = max(plan.shapes, key=lambda shape: shape.source + shape.target)
  for number in (0, 3):
    assert [shape for shape, sentences in plan.epoch(number) if len(sentences) < shape.rows] == [longest]


@pytest.mark.parametrize('hosts', [1, 2, 4])
def test_the_hosts_rows_make_the_global_batch(plan, hosts):
  for step in (0, 5, plan.batches_per_epoch - 1):
    parts = [plan.batch_at(step, host, hosts) for host in range(hosts)]
    assert len({part.source.ids.shape for part in parts}) == 1
    assert same(jax.tree.map(lambda *fields: np.concatenate(fields), *parts), plan.batch_at(step))
  with pytest.raises(DataError, match='3 hosts'):
    next(plan.batch_at(step, 0, 3) for step in range(plan.batches_per_epoch) if plan.shape_at(step).rows % 3)


def test_an_iterator_started_late_is_the_tail_of_one_started_early(plan):
  stop, late = plan.batches_per_epoch + 3, 5
  early = list(input_pipeline.batches(plan, 0, stop))
  tail = list(input_pipeline.batches(plan, late, stop, num_threads=1))
  assert (len(early), len(tail)) == (stop, stop - late)
  assert all(map(same, early[late:], tail)) and not same(early[late], tail[1])
  assert same(early[2], plan.batch_at(2))


def test_a_fixed_shape_drops_what_is_longer_and_counts_it():
  source, target = lengths(301, most=60, mean=24.0)
  source[:3], target[:3] = [41, 42, 41], [42, 42, 43]  # the first fits exactly, the others by one token not
  source[3] = 1  # an empty side
  fits = (source <= 41) & (target <= 42) & (source > 1)
  plan = input_pipeline.make_plan(make_store(source, target), FIXED, seed=0)
  assert plan.dropped == (~fits).sum() >= 3
  assert plan.batches_per_epoch == math.ceil(fits.sum() / 64)
  seen = set()
  for batch in epoch_batches(plan):
    assert batch.source.ids.shape == (64, 41) and batch.target.ids.shape == (64, 42)
    seen |= set((batch.source.ids[:, 0] - 10)[batch.source.segments[:, 0] > 0].tolist())
  assert seen == set(np.flatnonzero(fits).tolist()) and 0 in seen and not {1, 2, 3} & seen


def test_the_share_of_padding_is_what_a_count_finds(plan, store):
  cells = real = 0
  for batch in epoch_batches(plan):
    cells += sum(side.ids.size for side in batch)
    real += sum(int((side.segments > 0).sum()) for side in batch)
  assert real == len(store.source.ids) + len(store.target.ids)
  assert abs(plan.padding() - (1 - real / cells)) < 1e-9
  assert abs(plan.sentences_per_batch() - 487 / plan.batches_per_epoch) < 1e-9


def test_sixteen_shapes_leave_less_than_a_tenth_of_padding():
  # Like 29,000 captions: 14 or 15 tokens, a deviation of 4 or 5, and sides whose lengths follow each other.
  sides = lengths(29_000, mean=14.0, spread=0.3, correlation=0.85)
  halves = (Side(np.zeros(side.sum(), np.int32), np.concatenate([[0], np.cumsum(side)])) for side in sides)
  captions = Store(*halves, 'made up')
  plan = lambda shapes: input_pipeline.make_plan(captions, BatchConfig('buckets', batch_tokens=4096, max_length=256, max_shapes=shapes), 0)
  sixteen, one = plan(16), plan(1)
  assert len(sixteen.shapes) <= 16 and sixteen.dropped == 0
  assert sixteen.padding() < 0.10 < 0.5 < one.padding()


def test_a_batch_too_small_for_the_longest_sentence_is_an_error(store):
  longest = max(store.source.lengths.max(), store.target.lengths.max())
  with pytest.raises(DataError, match=f'raise it to {8 * longest} '):
    input_pipeline.make_plan(store, BatchConfig('buckets', batch_tokens=8 * int(longest) - 1, max_length=50), 0)
  input_pipeline.make_plan(store, BatchConfig('buckets', batch_tokens=8 * int(longest), max_length=50), 0)


def test_a_corpus_of_which_nothing_is_left_is_an_error(store):
  for config, words in (
      (BatchConfig('buckets', batch_tokens=600, max_length=1), '1 source or 1 target tokens; raise data.max_length$'),
      (dataclasses.replace(FIXED, fixed_source_length=1, fixed_target_length=7),
       '1 source or 7 target tokens; raise data.fixed_source_length and data.fixed_target_length$'),
      (BatchConfig('packed', 600, max_length=50, packed_length=1), '1 tokens on one; raise data.max_length and data.packed_length$')):
    with pytest.raises(DataError, match=f'no sentence pair is left: all 487 .* more than {words}'):
      input_pipeline.make_plan(store, config, 0)


def test_held_out_text_of_which_nothing_is_left_is_told_as_such(store):
  config = BatchConfig('buckets', batch_tokens=600, max_length=1).for_evaluation()
  with pytest.raises(DataError, match='no sentence pair of held-out text is left: all 487 .* more than 1 source .*raise data.max_length$'):
    input_pipeline.make_plan(store, config, 0, shuffle=False)


def test_a_batch_too_small_for_held_out_text_is_told_in_the_numbers_that_were_given(store):
  longest, given = int(max(store.source.lengths.max(), store.target.lengths.max())), 4 * 8 * 20
  config = BatchConfig('buckets', batch_tokens=given, max_length=50, accumulation_steps=4)
  assert longest > 20
  least = 32 * longest
  with pytest.raises(DataError, match=rf'batch_tokens {given} holds fewer than 32 rows \(8 for each of .* = 4 micro-batches\) '
                     rf'of {longest} tokens, the longest of held-out text; raise it to {least} or lower data.max_length$'):
    input_pipeline.make_plan(store, config.for_evaluation(), 0, shuffle=False)
  enough = dataclasses.replace(config, batch_tokens=least)
  input_pipeline.make_plan(store, enough.for_evaluation(), 0, shuffle=False)


@pytest.mark.parametrize('config, unused', [
    (BUCKETS, {'packed_length', 'fixed_rows', 'fixed_source_length', 'fixed_target_length'}),
    (FIXED, {'packed_length', 'max_shapes', 'batch_tokens'}),
    (BatchConfig('packed', 600, 50), {'max_shapes', 'fixed_rows', 'fixed_source_length', 'fixed_target_length'})])
def test_options_of_another_way_of_batching_mean_nothing(config, unused):
  assert config.idle().keys() == unused
  assert all(reason.startswith(f'batching is {config.batching!r}; only ') for reason in config.idle().values())


@pytest.mark.parametrize('wrong, words', [
    (dict(batching='loose'), 'expected one of buckets, fixed, packed'), (dict(batching='fixed'), 'needs fixed_rows'),
    (dict(batch_tokens=0), 'batch_tokens'), (dict(max_shapes=0), 'max_shapes'),
    (dict(batching='fixed', fixed_rows=12, fixed_source_length=5, fixed_target_length=5), 'multiple of 8')])
def test_mistaken_settings_are_refused(wrong, words):
  with pytest.raises(ValueError, match=words):
    BatchConfig(**{**dict(batching='buckets', batch_tokens=600, max_length=50), **wrong})


@pytest.mark.parametrize('config', [
    BatchConfig('buckets', batch_tokens=2400, max_length=50, max_shapes=5, accumulation_steps=3),
    BatchConfig('fixed', 1, 50, fixed_rows=48, fixed_source_length=50, fixed_target_length=50, accumulation_steps=3)])
def test_rows_divide_into_micro_batches_of_whole_eights(store, config):
  plan = input_pipeline.make_plan(store, config, seed=7)
  assert all(shape.rows % 24 == 0 for shape in plan.shapes)
  few = input_pipeline.make_plan(store, config.for_evaluation(), seed=7, shuffle=False)
  largest = lambda plan: max(shape.rows * max(shape.source, shape.target) for shape in plan.shapes)
  assert largest(few) <= largest(plan) / 3 and len(few.shapes) <= 4


@pytest.mark.parametrize('batching', ['buckets', 'packed'])
def test_rows_divide_over_more_than_eight_devices_in_training_and_evaluation(store, batching):
  config = BatchConfig(batching, 4800, 50, max_shapes=5, packed_length=61, accumulation_steps=3, row_multiple=16)
  assert all(shape.rows % 48 == 0 for shape in input_pipeline.make_plan(store, config, seed=7).shapes)
  few = input_pipeline.make_plan(store, config.for_evaluation(), seed=7, shuffle=False)
  assert all(shape.rows % 16 == 0 for shape in few.shapes) and any(shape.rows % 48 for shape in few.shapes)


def test_rows_that_do_not_divide_into_micro_batches_are_refused(store):
  with pytest.raises(ValueError, match=r'fixed_rows is 32; expected a multiple of 24 \(8 for each of .* = 3 micro'):
    BatchConfig('fixed', 1, 50, fixed_rows=32, fixed_source_length=50, fixed_target_length=50, accumulation_steps=3)
  longest = int(max(store.source.lengths.max(), store.target.lengths.max()))
  with pytest.raises(DataError, match=rf'fewer than 24 rows \(8 for each of .*; raise it to {24 * longest} '):
    input_pipeline.make_plan(store, BatchConfig('buckets', 24 * longest - 1, max_length=50, accumulation_steps=3), 0)


# ------------------------------------------------------------------------------------------------ subword sampling

SAMPLING = subword_sampling.SamplingConfig('bpe_dropout', bpe_dropout=0.2)
SMALL = BatchConfig('buckets', batch_tokens=250, max_length=50, max_shapes=5)


@pytest.fixture(scope='module')
def text():
  """A split of 409 pairs and its vocabulary."""
  draw = np.random.default_rng(0)
  words = ['house', 'garden', 'street', 'running', 'quickly', 'two', 'dogs', 'and', 'the', 'children']
  pairs = [Pair(*(' '.join(draw.choice(words, draw.integers(1, 7))) for _ in range(2))) for _ in range(409)]
  pairs[17] = Pair('', 'the dogs')  # an empty side, in every epoch
  split = Split('train', 'words', len(pairs), lambda: iter(pairs))
  model = vocabularies.train(vocabularies.VocabularyConfig(size=330), [side for pair in pairs for side in pair])
  return split, vocabularies.Vocabulary(model, 'words')


def sampled_plan(text, folder, seed=2, config=SMALL, made=None):
  """A plan over stores that differ by epoch; `made` collects the epochs that are tokenised."""
  split, vocabulary = text

  def views(epoch):
    if made is not None:
      made.append(epoch)
    return [subword_sampling.SampledVocabulary(vocabulary, SAMPLING, seed, epoch, side) for side in (0, 1)]

  return input_pipeline.make_plan(SampledStores(split, views, str(folder)), config, seed)


@pytest.fixture(scope='module')
def first_steps(text, tmp_path_factory):
  """All batches of five epochs in order, of one plan, by the iterator that training uses."""
  folder = tmp_path_factory.mktemp('sampled')
  plan = sampled_plan(text, folder)
  last = next(step for step in itertools.count() if plan.locate(step) == (5, 0))
  return folder, plan, list(input_pipeline.batches(plan, 0, last))


def test_each_epoch_reads_every_sentence_once_in_pieces_of_its_own(text, first_steps):
  split, vocabulary = text
  _, plan, batches = first_steps
  read = lambda side, row: vocabulary.decode(side.ids[row][side.segments[row] > 0][:-1])
  pieces = collections.defaultdict(list)
  for step, batch in enumerate(batches):
    for row in np.flatnonzero(batch.source.segments.any(axis=1)):
      pieces[plan.locate(step)[0]].append((Pair(*(read(side, row) for side in batch)),
                                           batch.source.ids[row].tobytes()))
  for epoch in range(5):
    assert sorted(pair for pair, _ in pieces[epoch]) == sorted(pair for pair in split if pair.source)
  assert len({frozenset(ids for _, ids in pieces[epoch]) for epoch in range(5)}) == 5
  assert plan.dropped == 1


def test_epochs_may_differ_in_batches_and_steps_follow_one_another(first_steps):
  _, plan, batches = first_steps
  places = [plan.locate(step) for step in range(len(batches))]
  sizes = collections.Counter(epoch for epoch, _ in places)
  assert len(set(sizes.values())) > 1  # else this test looks at nothing
  assert places == [(epoch, place) for epoch in range(5) for place in range(sizes[epoch])]
  assert [plan.epochs_done(sum(sizes[e] for e in range(n + 1))) for n in range(5)] == [1, 2, 3, 4, 5]
  assert plan.batches_per_epoch == sizes[0] and plan.epochs_done(1) == 1 / sizes[0]


def test_a_killed_run_reads_what_it_would_have_read(text, first_steps, tmp_path):
  folder, plan, batches = first_steps
  made = []
  fresh = sampled_plan(text, tmp_path, made=made)  # nothing is left of what was
  for step in (len(batches) - 1, 0, plan.batches_per_epoch, 3):
    assert same(fresh.batch_at(step), batches[step]) and fresh.shape_at(step) == plan.shape_at(step)
  assert set(made) >= {0, 1, 2, 3, 4}  # counted anew, since the count was lost
  again = []
  resumed = sampled_plan(text, folder, made=again)
  assert same(resumed.batch_at(len(batches) - 1), batches[-1])
  assert set(again) <= {0, 4, 5}  # but not where it was written down
  other = sampled_plan(text, tmp_path / 'other', seed=8)
  assert not same(other.batch_at(3), batches[3])


def test_old_epochs_are_removed_but_the_first(text, first_steps):
  folder, plan, batches = first_steps
  plan.batch_at(len(batches) - 1)
  found = {name for name in os.listdir(folder) if name.startswith('epoch_')}
  assert {'epoch_00000', 'epoch_00004'} <= found <= {'epoch_00000', 'epoch_00003', 'epoch_00004', 'epoch_00005'}


def test_shapes_stay_those_of_the_first_epoch_and_hold_longer_sentences(text, first_steps, tmp_path):
  _, plan, batches = first_steps
  assert {batch.source.ids.shape + batch.target.ids.shape[1:] for batch in batches} <= set(map(tuple, plan.shapes))
  tight = sampled_plan(text, tmp_path, config=BatchConfig('buckets', batch_tokens=480, max_length=14, max_shapes=3))
  lengths = lambda epoch: tight._store.at(epoch)
  for epoch in range(3):
    store = lengths(epoch)
    fits = (store.source.lengths <= 14) & (store.target.lengths <= 14) & (store.source.lengths > 1)
    assert sorted(i for _, rows in tight.epoch(epoch) for i in rows) == np.flatnonzero(fits).tolist()
  assert max(shape.source for shape in tight.shapes) == 14


# ------------------------------------------------------------------------------------------------ the token store


class Letters:
  """A vocabulary of letters that may break after some batches of text."""

  eos_id = EOS

  def __init__(self, fingerprint, breaks_after=None):
    self.fingerprint, self.calls, self._breaks_after = fingerprint, 0, breaks_after

  def encode_batch(self, texts, first=0):
    if self.calls == self._breaks_after:
      raise KeyboardInterrupt
    self.calls += 1
    return [[ord(letter) for letter in text] for text in texts]


PAIRS = [Pair('a' * (i % 7), 'bc' * (i % 5)) for i in range(4999)]  # more than one chunk; some sides are empty
SPLIT = Split('train', 'text 1', len(PAIRS), lambda: iter(PAIRS))


def test_a_store_is_built_once_and_reopened_equal(tmp_path):
  source, target = Letters('source'), Letters('target')
  built = stores.open_store(SPLIT, source, target, str(tmp_path))
  assert source.calls == target.calls == 2 and len(built) == len(PAIRS)
  again = stores.open_store(SPLIT, Letters('source', 0), Letters('target', 0), str(tmp_path))
  assert same(tuple(built[:2]), tuple(again[:2])) and built.fingerprint == again.fingerprint
  for i in itertools.chain(range(17), (4095, 4096, 4998)):
    np.testing.assert_array_equal(again.source[i], [*map(ord, PAIRS[i].source), EOS])
    np.testing.assert_array_equal(again.target[i], [*map(ord, PAIRS[i].target), EOS])
    assert again.source.lengths[i] == len(PAIRS[i].source) + 1


def test_other_text_or_vocabulary_is_another_store():
  name = lambda text, source, target: stores.store_fingerprint(
      Split('train', text, 0, lambda: iter(())), Letters(source), Letters(target))
  names = [name(*parts) for parts in ('tab', 'uab', 'tcb', 'tac', 'tba')]
  assert len(set(names)) == 5 and name(*'tab') == names[0]


def test_a_store_of_no_pairs_is_empty(tmp_path):
  nothing = Split('train', 'text 0', 0, lambda: iter(()))
  assert len(stores.open_store(nothing, Letters('source'), Letters('target'), str(tmp_path))) == 0


def test_a_lost_count_of_epochs_is_made_again_and_told(tmp_path, capsys):
  path, counts = str(tmp_path / 'starts.json'), [3, 1, 4, 2]
  ahead = CountedEpochs(counts.__getitem__, path)
  assert [ahead.locate(step) for step in range(9)] == [(0, 0), (0, 1), (0, 2), (1, 0), *((2, i) for i in range(4)), (3, 0)]
  assert not capsys.readouterr().out
  os.remove(path)
  assert CountedEpochs(counts.__getitem__, path).locate(8) == (3, 0)
  told = capsys.readouterr().out
  assert 'Tokenising the text of about 2 past epochs again' in told and path in told and told.count('\n') == 1


def test_epochs_are_counted_by_two_processes_of_a_run_at_once(tmp_path, monkeypatch):
  path, replace = str(tmp_path / 'starts.json'), os.replace

  def late(unfinished, whole):
    replace(unfinished, whole)  # by the other process, which wrote the same
    return replace(unfinished, whole)

  monkeypatch.setattr(os, 'replace', late)
  counts = [3, 1, 4]
  assert CountedEpochs(counts.__getitem__, path).locate(7) == (2, 3)
  assert CountedEpochs(lambda epoch: pytest.fail('it was counted before'), path).locate(7) == (2, 3)
