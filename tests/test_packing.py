"""Packed rows: every sentence once, little padding, and what training computes is what it computes unpacked."""

import subprocess
import sys

import jax
import numpy as np
import pytest

import input_pipeline
from batching import packed
from batching.packed import PackedPlan
from batching.store import Side, Store
from input_pipeline import BatchConfig
from options.configurations import ROOT
from tests.conftest import BOS, FILLER, sentences
from transformer import architectures, tokens, training
from transformer.config import LanguageModelConfig, LossConfig, ModelConfig, RecurrentConfig
from transformer.tokens import Batch, Tokens

CONFIG = BatchConfig('packed', batch_tokens=16 * 61, max_length=50, packed_length=61)


def captions(count, seed=0, most=50):
  """Lengths like those of 29,000 image captions in two languages."""
  draw = np.random.default_rng(seed).normal(size=(2, count))
  other = 0.85 * draw[0] + 0.53 * draw[1]
  return [np.clip(np.exp(np.log(mean) + 0.3 * side).round().astype(int), 2, most)
          for mean, side in ((13.5, draw[0]), (14.7, other))]


def store_of(lengths):
  """Sentence i repeats 10 + i in the source and -10 - i in the target."""
  def side(sizes, sign):
    words = [[sign * (10 + i)] * size for i, size in enumerate(sizes)]
    return Side(np.concatenate(words).astype(np.int32), np.concatenate([[0], np.cumsum(sizes)]))
  return Store(side(lengths[0], 1), side(lengths[1], -1), 'made up')


@pytest.fixture(scope='module')
def plan():
  return PackedPlan(store_of(captions(487)), CONFIG, seed=3)


@pytest.mark.parametrize('lengths', [captions(2003), [np.full(37, 7)] * 2, [np.array([5]), np.array([9])],
                                     [np.zeros(41, int), captions(41)[1]]])
def test_rows_hold_every_sentence_once_and_no_more_than_they_have_room_for(lengths):
  room = packed.capacities(*lengths, 61)
  whole = packed.pack(*lengths, room, np.random.default_rng(0))
  for rows in (whole, packed.redealt(whole, *lengths, np.random.default_rng(1))):
    assert sorted(rows.sentences) == list(range(len(lengths[0]))) and len(rows) == len(whole)
    for number in range(len(rows)):
      assert len(rows.row(number))
      for side, capacity in zip(lengths, room):
        assert side[rows.row(number)].sum() <= capacity


def test_less_than_a_twentieth_is_padding():
  lengths = captions(29_000)
  room = packed.capacities(*lengths, 256)
  rows = packed.pack(*lengths, room, np.random.default_rng(0))
  assert 1 - sum(side.sum() for side in lengths) / (len(rows) * sum(room)) < 0.05


def test_an_epoch_holds_every_pair_once_and_the_next_holds_other_rows(plan):
  companies = []
  for epoch in (0, 1, 4):
    seen, rows = [], set()
    for place in range(plan.batches_per_epoch):
      batch = plan.batch_at(epoch * plan.batches_per_epoch + place)
      assert batch.source.ids.shape == (plan.shapes[0].rows, plan.shapes[0].source)
      for row in range(plan.shapes[0].rows):
        numbers = []
        for segment in range(1, batch.source.segments[row].max() + 1):
          of = [side.ids[row][side.segments[row] == segment] for side in batch]
          number = of[0][0] - 10
          for side, ids, sign in zip((plan._store.source, plan._store.target), of, (1, -1)):
            np.testing.assert_array_equal(ids, side[number])
          np.testing.assert_array_equal(
              batch.target.positions[row][batch.target.segments[row] == segment], np.arange(len(of[1])))
          numbers.append(int(number))
        seen += numbers
        rows.add(frozenset(numbers))
    assert sorted(seen) == list(range(487))
    companies.append(rows)
  assert len(companies[0] & companies[1]) < len(companies[0]) / 10


def test_the_batch_at_a_step_is_a_function_of_seed_and_step(plan):
  same = lambda one, other: jax.tree.all(jax.tree.map(np.array_equal, one, other))
  again, other = (PackedPlan(store_of(captions(487)), CONFIG, seed) for seed in (3, 4))
  for step in (5 * plan.batches_per_epoch + 1, 0):  # asked of a plan that has seen no other epoch
    assert same(again.batch_at(step), plan.batch_at(step)) and not same(other.batch_at(step), plan.batch_at(step))
    halves = [plan.batch_at(step, host, 2) for host in (0, 1)]
    assert same(jax.tree.map(lambda *parts: np.concatenate(parts), *halves), plan.batch_at(step))
  late = list(input_pipeline.batches(plan, 3, 6))
  assert all(same(batch, plan.batch_at(step)) for batch, step in zip(late, (3, 4, 5)))


def test_figures_are_what_a_count_finds(plan):
  batches = [plan.batch_at(step) for step in range(plan.batches_per_epoch)]
  real = sum(int((side.segments > 0).sum()) for batch in batches for side in batch)
  cells = sum(side.ids.size for batch in batches for side in batch)
  assert plan.padding() == pytest.approx(1 - real / cells)
  assert plan.tokens_per_batch() == pytest.approx(np.mean([(batch.target.segments > 0).sum() for batch in batches]))
  assert plan.sentences_per_batch() == 487 / len(batches)


def test_training_leaves_out_pairs_that_are_longer_than_a_row_and_evaluation_has_longer_rows():
  lengths = captions(200)
  lengths[0][:5] = 45
  lengths[1][7] = 51
  store, config = store_of(lengths), BatchConfig('packed', 8 * 50, max_length=50, packed_length=40)
  assert PackedPlan(store, config, 0).dropped == ((lengths[0] > 40) | (lengths[1] > 40)).sum() > 5
  held_out = input_pipeline.make_plan(store, config.for_evaluation(), 0, shuffle=False)
  assert held_out.dropped == 1 and [(shape.rows, shape.source) for shape in held_out.shapes] == [(8, 45)]
  real = sum(int((held_out.batch_at(step).target.segments > 0).sum()) for step in range(held_out.batches_per_epoch))
  assert real == lengths[1].sum() - 51
  short = store_of(captions(200, most=30))
  assert input_pipeline.make_plan(short, config.for_evaluation(), 0, shuffle=False).shapes == PackedPlan(short, config, 0).shapes


def test_packing_refuses_lengths_that_change():
  with pytest.raises(ValueError, match='packed with subword_sampling'):
    BatchConfig('packed', 600, 50, subword_sampling='bpe_dropout')


SIZES = dict(vocab_size=29, target_vocab_size=29, d_model=14, num_heads=2, num_layers=1, d_ff=11)
KINDS = {
    'transformer': ModelConfig(**SIZES),
    'relations': ModelConfig(**SIZES, positions='relative', norm='pre', attention_score='additive'),
    'recurrent': RecurrentConfig(29, 29, 14, num_layers=1),
    'language model': LanguageModelConfig(**SIZES, positions='t5'),
}


@pytest.mark.parametrize('kind', KINDS)
def test_loss_and_gradient_are_those_of_the_sentences_unpacked(kind):
  model = architectures.build(KINDS[kind])
  objective = training.build_objective(model, LossConfig(0.1), BOS)
  sources, targets = sentences([5, 3, 7, 2, 6], seed=0), sentences([4, 6, 2, 5, 3], seed=1)
  together = [[0, 1, 2], [3, 4]]
  of = lambda side, width: tokens.pack([[side[i] for i in row] for row in together], 3, width, FILLER)
  packed, apart = of(targets, 13), tokens.pad(targets, 5, 6, FILLER)
  nothing = lambda rows: Tokens(*(np.zeros((rows, 0), np.int32),) * 3)
  if kind == 'language model':
    batches = Batch(nothing(3), packed), Batch(nothing(5), apart)
  else:
    batches = Batch(of(sources, 16), packed), Batch(tokens.pad(sources, 5, 7, FILLER), apart)
  params = jax.jit(model.init)(jax.random.key(0))
  measure = jax.jit(jax.value_and_grad(lambda params, batch: objective(params, batch).loss))
  (loss, gradient), (expected, wanted) = (measure(params, batch) for batch in batches)
  np.testing.assert_allclose(loss, expected, rtol=1e-5)
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5), gradient, wanted)
  assert max(abs(leaf).max() for leaf in jax.tree.leaves(wanted)) > 0.1


MILLIONS = '''
import resource, time
import numpy as np
from batching import packed
draw = np.random.default_rng(0).normal(size=(2, 4_500_000))
lengths = [np.clip(np.exp(np.log(24) + 0.6 * side).round().astype(int), 2, 256)
           for side in (draw[0], 0.85 * draw[0] + 0.53 * draw[1])]
start = time.process_time()
rows = packed.pack(*lengths, packed.capacities(*lengths, 256), np.random.default_rng(0))
packed.redealt(rows, *lengths, np.random.default_rng(1))
print(time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
'''


@pytest.mark.drill
def test_millions_of_pairs_are_planned_in_seconds():
  done = subprocess.run([sys.executable, '-c', MILLIONS], cwd=ROOT, capture_output=True, text=True, check=True)
  seconds, memory = map(float, done.stdout.split())
  assert seconds < 20 and memory < 2e9, done.stdout
