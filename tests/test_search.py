"""Search over tiny Markov chains, where every translation can be listed, and over a model."""

import contextlib
import dataclasses
import functools
import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.conftest import BOS, EOS, FILLER, rows
from transformer import search, tokens
from transformer.search import LENGTH_PENALTIES, STRATEGIES, SearchConfig, constraints, diverse, ensemble, queue
from transformer.search.early_stopping import EARLY_STOPPING
from transformer.search.largest import by_strides, largest

V, LONGEST = 5, 4
SEED = 17  # of a chain whose best translation is another for every penalty
LIMITS = np.array([4, 1, 3], np.int32)
ALL = 89  # a beam that no sentence of these chains can fill: 1 + 4 + 16 + 64 translations


class Cache(NamedTuple):
  """The last token but one of each hypothesis, and the chain of each sentence."""

  beams: Any  # [B, W]
  chains: Any  # [B, V, V, V]: scores of the next token after two


def chain_step(cache, last):
  """A chain of second order: it remembers one token, in the part of the cache that a search must reorder."""
  logits = jax.vmap(lambda chain, before, now: chain[before, now])(cache.chains, cache.beams, last)
  return logits, cache._replace(beams=last)


def chains(seed=0, spread=1.5):
  return np.random.default_rng(seed).normal(size=(3, V, V, V)).astype(np.float32) * spread


@functools.lru_cache
def compiled(how, config):
  return jax.jit(lambda cache, limits: how(
      search.SearchProblem(chain_step, LONGEST, BOS, EOS, FILLER), search.Sentences(cache, limits), config))


def beam(problem, sentences, config):
  return queue.run(search.beam_search(problem, config), sentences)


@contextlib.contextmanager
def patient(config):
  """Yield the same search, but each sentence goes on to its limit."""
  EARLY_STOPPING.add('never', lambda standing: jnp.zeros(standing.live.shape, bool))
  try:
    yield dataclasses.replace(config, early_stopping='never')
  finally:
    EARLY_STOPPING.remove('never')


def greedy(problem, sentences, config):
  return queue.run(search.greedy_search(problem, config), sentences)


def run(table, config, limits=LIMITS, how=beam):
  cache = Cache(np.full((len(limits), config.beam_size), BOS, np.int32), table)
  return jax.tree.map(np.asarray, compiled(how, config)(cache, limits))


def log_probability(chain, sentence):
  """By hand: the chain's probability of each token, a forced end included."""
  before, now, total = BOS, BOS, 0.0
  for token in sentence:
    scores = chain[before, now].astype(np.float64)
    total += scores[token] - np.log(np.exp(scores).sum())
    before, now = now, token
  return total


def penalty(config, length):
  alpha = config.alpha
  return {'gnmt': ((5 + length) / 6) ** alpha, 'length': length**alpha, 'none': 1.0}[config.length_penalty]


def exhaustive(chain, limit, config):
  """All translations up to a limit with their log-probabilities and scores, best first."""
  ordinary = [token for token in range(V) if token != EOS]
  found = []
  for length in range(1, limit + 1):
    for words in itertools.product(ordinary, repeat=length - 1):
      sentence = (*words, EOS)
      log_prob = log_probability(chain, sentence)
      found.append((log_prob / penalty(config, length), log_prob, sentence))
  return sorted(found, reverse=True)


MANY, FEW = [(1031, 8), (1280, 13), (2311, 1), (1031, 70)], [(89, 100), (89, 300)]  # entries and count; few are sorted at once


@pytest.mark.parametrize('how, entries, count', [
    *((largest, *each) for each in MANY + FEW), *((functools.partial(by_strides, stride=256), *each) for each in MANY)])
def test_the_largest_entries_are_those_of_a_sort(how, entries, count):
  random = np.random.default_rng(entries)
  scores, offsets = random.normal(size=(2, 3, entries)).astype(np.float32), np.float32([[0, 1, 2], [0, -1, search.NEVER]])
  scores[0, 0, -count:] += 9.0  # in the last, incomplete group
  scores[1, 1, :min(count, 40)] += 9.0  # most in one group
  values, beams, places = jax.jit(how, static_argnums=2)(scores, offsets, count)
  with np.errstate(over='ignore'):
    total = (scores + offsets[..., None]).reshape(2, -1)
  order = np.argsort(-total, axis=-1)[:, :count]
  possible = np.take_along_axis(total, order, axis=-1) > search.NEVER / 2  # below, offsets drown what tells scores apart
  assert possible.sum(axis=1).tolist() == [min(count, 3 * entries), min(count, 2 * entries)]
  np.testing.assert_array_equal((beams * entries + places)[possible], order[possible])
  np.testing.assert_array_equal(values, scores[np.arange(2)[:, None], beams, places])


@pytest.mark.parametrize('kind', LENGTH_PENALTIES)
def test_a_beam_wide_enough_finds_all_translations_in_order(kind):
  config, table = SearchConfig(beam_size=ALL, length_penalty=kind, alpha=0.9, n_best=ALL), chains(SEED)
  found = run(table, config)
  for row, limit in enumerate(LIMITS):
    expected = exhaustive(table[row], limit, config)
    assert len(expected) == {4: 85, 1: 1, 3: 21}[limit]
    for rank, (score, log_prob, sentence) in enumerate(expected):
      length = found.lengths[row, rank]
      assert tuple(found.tokens[row, rank, :length]) == sentence
      assert (found.tokens[row, rank, length:] == FILLER).all()
      assert abs(found.scores[row, rank] - score) < 1e-4 and abs(found.log_probs[row, rank] - log_prob) < 1e-4
    assert (found.scores[row, len(expected):] == search.NEVER).all()


def test_the_penalties_choose_different_translations():
  best = {kind: run(chains(SEED), SearchConfig(ALL, kind, alpha=0.9)).tokens[0, 0].tolist()
          for kind in LENGTH_PENALTIES}
  assert len(set(map(tuple, best.values()))) == 3


@pytest.mark.parametrize('length, kind, expected', [(7, 'gnmt', 2**0.6), (1, 'gnmt', 1.0), (7, 'length', 7**0.6),
                                                    (7, 'none', 1.0)])
def test_length_penalties(length, kind, expected):
  assert abs(SearchConfig(length_penalty=kind).penalty(length) - expected) < 1e-5


@pytest.mark.parametrize('width', [2, 3])
def test_a_narrow_beam_tells_true_and_sorted_scores(width):
  config, table = SearchConfig(beam_size=width), chains(1)
  found = run(table, config)
  for row, limit in enumerate(LIMITS):
    assert (np.diff(found.scores[row]) <= 0).all()
    real = found.scores[row] > search.NEVER
    assert real.sum() == (1 if limit == 1 else width)
    assert len(set(map(tuple, found.tokens[row, real]))) == real.sum()
    for rank in range(width):
      if found.scores[row, rank] > search.NEVER:
        length = found.lengths[row, rank]
        sentence = found.tokens[row, rank, :length]
        assert length <= limit and sentence[-1] == EOS and EOS not in sentence[:-1]
        by_hand = log_probability(table[row], sentence)
        each = [log_probability(table[row], sentence[:n]) for n in range(length + 1)]
        np.testing.assert_allclose(found.token_log_probs[row, rank, :length], np.diff(each), atol=1e-4)
        assert (found.token_log_probs[row, rank, length:] == 0).all()
        assert abs(found.log_probs[row, rank] - by_hand) < 1e-4
        assert abs(found.scores[row, rank] - by_hand / penalty(config, length)) < 1e-4


def test_a_beam_of_one_is_greedy_search():
  config = SearchConfig(beam_size=1, length_penalty='none')
  lengths = set()
  for seed in range(5):
    table = chains(seed)
    wide, alone = run(table, config), run(table, config, how=greedy)
    np.testing.assert_array_equal(wide.tokens, alone.tokens)
    np.testing.assert_array_equal(wide.lengths, alone.lengths)
    np.testing.assert_allclose(wide.log_probs, alone.log_probs, atol=1e-5)
    lengths |= set(alone.lengths[:, 0].tolist())
    for row, limit in enumerate(LIMITS):
      by_hand, before, now = [], BOS, BOS
      while not by_hand or now != EOS:
        before, now = now, EOS if len(by_hand) + 1 == limit else int(table[row, before, now].argmax())
        by_hand.append(now)
      assert alone.tokens[row, 0, :len(by_hand)].tolist() == by_hand
  assert len(lengths) > 2


@pytest.mark.parametrize('how, width', [(beam, 3), (greedy, 1)])
def test_limits_hold_and_the_last_place_may_only_end(how, width):
  table = chains(2)
  table[..., EOS] = -9.0  # hardly ever ends by itself
  found = run(table, SearchConfig(beam_size=width), how=how)
  np.testing.assert_array_equal(found.lengths[:, 0], LIMITS)
  assert found.tokens[1, 0].tolist() == [EOS, FILLER, FILLER, FILLER]
  assert abs(found.log_probs[1, 0] - log_probability(table[1], [EOS])) < 1e-4  # forced, and paid for
  if width > 1:
    assert (found.scores[1, 1:] == search.NEVER).all()  # there is no second translation of one token


@pytest.mark.parametrize('how, width', [(beam, 2), (greedy, 1)])
def test_a_row_does_not_depend_on_its_neighbours(how, width):
  config = SearchConfig(beam_size=width)
  for seed in range(3):
    table, limits = chains(seed, spread=3.0), np.array([2, 3, 4], np.int32)
    together = run(table, config, limits, how)
    for row in range(3):
      alone = run(table[row:row + 1], config, limits[row:row + 1], how)
      for field, expected in zip(alone, together):
        np.testing.assert_array_equal(field[0], expected[row])


def test_the_cache_moves_with_its_hypothesis():
  """Two words start a sentence; the second best overtakes the best, and goes on from its own past."""
  chain = np.full((V, V, V), -9.0, np.float32)
  chain[BOS, BOS, 0], chain[BOS, BOS, 1] = 0.2, 0.0
  chain[BOS, 0, 0:3] = 0.0  # the best spreads its probability
  chain[BOS, 1, 4] = 3.0  # the second is certain of 4 ...
  chain[1, 4, EOS] = 3.0  # ... and after 1 4 comes the end, after 0 4 more of 4
  chain[0, 4, 4] = 3.0
  found = run(chain[None], SearchConfig(beam_size=2, length_penalty='none'), np.array([4], np.int32))
  assert found.tokens[0, 0].tolist() == [1, 4, EOS, FILLER]
  assert abs(found.log_probs[0, 0] - log_probability(chain, [1, 4, EOS])) < 1e-5


@pytest.mark.parametrize('n_best', [1, 2, 3])
def test_stopping_early_changes_nothing(n_best):
  config = SearchConfig(beam_size=3, alpha=0.9, n_best=n_best)
  changed = 0
  with patient(config) as to_the_limit:
    for seed in range(40):
      table = chains(seed, spread=2.5)
      quick, slow = run(table, config), run(table, to_the_limit)
      for field, expected in zip(quick, slow):
        np.testing.assert_array_equal(field[:, :n_best], expected[:, :n_best])
      changed += int((quick.scores != slow.scores).any())
  assert (changed > 0) == (n_best < 3)  # it did stop before the others were certain


WAYS = {'beam': dict(beam_size=3), 'greedy': dict(beam_size=1), 'sample': dict(strategy='sample', seed=3),
        'diverse': dict(beam_size=4, groups=2, n_best=3)}


@functools.cache
def queued(config, rows, together, places):
  def search_all(waiting, count):
    begin = lambda part: search.Sentences(Cache(jnp.full((together, config.width), BOS), part[0]), part[1], part[2])
    problem = search.SearchProblem(chain_step, LONGEST, BOS, EOS, FILLER, places=places)
    return search.search_queue(problem, search.Queue(waiting, count, begin, rows, together), config)
  return jax.jit(search_all)


@functools.cache
def waiting_sentences(count=11):
  """Chains of many lengths, so that rows are free at different steps, and their keys."""
  table = np.concatenate([chains(seed, spread=2.5) for seed in range(4)])[:count]
  limits = np.random.default_rng(1).integers(1, LONGEST + 1, count).astype(np.int32)
  return table, limits, search.row_keys(5, np.arange(count))


# By hand: EOS costs 0.55 and token 1 costs 0.85 at every step, and the mean cost of a token is compared. After one token 0.85
# is worse than 0.55; after two, two have ended, the worse at 0.70, and 1.71 / 2 is worse; but 1.71 / 4 might still be
# reached, and only 2.56 / 4 is worse. Then EOS costs 1.11 and token 1 costs 0.40: going on is always better at its length.
@pytest.mark.parametrize('eos, expected', [
    (0.3, {'top': 1, 'full': 2, 'heuristic': 2, 'exact': 3}), (-0.71, {'full': 2, 'top': 4, 'heuristic': 4, 'exact': 4})])
def test_other_ways_are_done_earlier(eos, expected):
  table, limits = np.full((1, V, V, V), -30.0, np.float32), np.array([LONGEST], np.int32)
  table[..., EOS], table[..., 1] = eos, 0.0
  waiting, steps = (table, limits, search.row_keys(5, np.arange(1))), {}
  for how in EARLY_STOPPING:
    config = SearchConfig(beam_size=2, length_penalty='length', alpha=1.0, early_stopping=how)
    outcome = queued(config, 1, 1, None)(waiting, 1)
    (steps[how],) = outcome.steps.tolist()
    assert outcome.hypotheses.lengths[0, 0] == (1 if eos > 0 else steps[how])
  assert steps == expected


@pytest.mark.parametrize('rows, together', [(1, 1), (3, 2), (4, 4)])
@pytest.mark.parametrize('way', WAYS)
def test_sentences_that_wait_find_what_they_find_alone(way, rows, together):
  """Whatever row they get, and whoever was in it before."""
  config, waiting = SearchConfig(**WAYS[way]), waiting_sentences()
  table, limits, keys = waiting
  alone = jax.jit(lambda cache: search.search(
      search.SearchProblem(chain_step, LONGEST, BOS, EOS, FILLER), search.Sentences(cache, limits, keys), config))(
          Cache(np.full((len(limits), config.width), BOS, np.int32), table))
  for count in (0, 2, len(limits)):
    outcome = queued(config, rows, together, None)(waiting, count)
    for field, expected in zip(outcome.hypotheses, alone):
      np.testing.assert_array_equal(field[:count], expected[:count])
    assert not outcome.given_up.any() and outcome.computed[0] >= outcome.steps.sum() >= count


def test_rows_are_not_computed_for_nothing():
  """Two rows for sentences of 1 and of 4 tokens by turns: each free row is taken at once."""
  table, limits = np.zeros((8, V, V, V), np.float32), np.array([4, 1] * 4, np.int32)
  table[..., EOS] = -30.0  # only at the limit
  outcome = queued(SearchConfig(beam_size=1), 2, 1, None)((table, limits, search.row_keys(5, np.arange(8))), 8)
  assert outcome.steps.tolist() == limits.tolist() and outcome.steps.sum() == 20
  assert outcome.computed[0] == 20


def test_a_sentence_that_outgrows_its_cache_is_given_up_and_leaves_no_trace():
  waiting = waiting_sentences()
  for way in WAYS.values():
    whole, short = (queued(SearchConfig(**way), 3, 2, places)(waiting, 11) for places in (None, 2))
    np.testing.assert_array_equal(short.given_up, whole.steps > 2)
    assert 0 < short.given_up.sum() < 11
    for field, expected in zip(short.hypotheses, whole.hypotheses):
      np.testing.assert_array_equal(field[~short.given_up], expected[~short.given_up])


def test_the_shortest_output_is_kept_to_unless_the_limit_is_shorter():
  table = chains(2)
  table[..., EOS] = 4.0  # would end at once
  for config in (SearchConfig(beam_size=3, min_length=2), SearchConfig(beam_size=1, min_length=2)):
    found = run(table, config, how=search.search)
    assert found.lengths[:, 0].tolist() == [3, 1, 3]
    assert (found.lengths[found.scores > search.NEVER] >= 1).all()
    for row in range(3):
      sentence = found.tokens[row, 0, :found.lengths[row, 0]]
      assert abs(found.log_probs[row, 0] - log_probability(table[row], sentence)) < 1e-4  # EOS forbidden: no discount


def test_diverse_groups_shun_each_others_tokens():
  """By hand: two groups of one beam are two greedy searches, of which the second pays for the first one's tokens."""
  strength = 0.8
  config = SearchConfig(beam_size=2, groups=2, diversity=strength, length_penalty='none')
  different = 0
  for seed in range(6):
    table = chains(seed)
    table[..., EOS] = -30.0  # only at the limit
    found = run(table, config)
    for row, limit in enumerate(LIMITS):
      pasts, written = [[BOS, BOS], [BOS, BOS]], []
      for place in range(limit - 1):
        scores = [table[row, past[-2], past[-1]].copy() for past in pasts]
        first = int(scores[0].argmax())
        scores[1][first] -= strength
        if place == limit - 2 and pasts[0] == pasts[1]:  # would have to end as the same output
          scores[1][first] = -np.inf
        for past, token in zip(pasts, (first, int(scores[1].argmax()))):
          past.append(token)
      written = sorted(((log_probability(table[row], [*past[2:], EOS]), [*past[2:], EOS]) for past in pasts),
                       reverse=True)
      different += written[0][1] != written[1][1]
      if limit == 1:  # there is one output only
        assert found.found[row].tolist() == [True, False]
        del written[1]
      for rank, (log_prob, sentence) in enumerate(written):
        assert found.tokens[row, rank, :limit].tolist() == sentence
        assert abs(found.log_probs[row, rank] - log_prob) < 1e-4  # the model's own, without the penalty
  assert different > 6


def test_diverse_groups_shun_no_token_of_a_hypothesis_that_is_not_there():
  logits = np.full((1, 4, V), search.NEVER, np.float32)
  logits[0, 0, 4] = 0.0  # all that the first group can go on with, though it has two places
  logits[0, 2, :3] = 0.2, 0.1, 0.0
  alone = np.array([[0.0, search.NEVER] * 2], np.float32)  # each group has one hypothesis yet
  moment = constraints.Moment(np.array([1]), np.array([9]), jnp.asarray(logits), jnp.zeros((1, 4)))
  live, _ = diverse.choose(moment, jnp.zeros((1, 4, 9), jnp.int32), jnp.asarray(alone), EOS,
                           SearchConfig(beam_size=4, groups=2, diversity=5.0))
  assert (live.total > search.NEVER).tolist() == [[True, False, True, True]]
  assert live.token[0, [0, 2, 3]].tolist() == [4, 0, 1]


@pytest.mark.parametrize('groups', [2, 4])
def test_diverse_groups_list_no_output_twice_and_fill_the_list(groups):
  """Outputs end where they like; there are far more of them than beams."""
  config, shared = SearchConfig(beam_size=4, groups=groups, n_best=4), 0
  limits = np.array([LONGEST] * 3, np.int32)
  for seed in range(12):
    table = chains(seed, spread=2.0)
    found = run(table, config, limits)
    for row in range(3):
      assert found.found[row].all() and len({tuple(ids) for ids in found.tokens[row].tolist()}) == 4
      assert (np.diff(found.scores[row]) <= 0).all()
      for written, length, log_prob in zip(found.tokens[row], found.lengths[row], found.log_probs[row]):
        assert abs(log_prob - log_probability(table[row], written[:length])) < 1e-4
    first = run(table, SearchConfig(beam_size=4 // groups, n_best=4 // groups), limits)  # what the first group finds
    in_all = [[tuple(ids) in {*map(tuple, found.tokens[row].tolist())} for ids in first.tokens[row].tolist()]
              for row in range(3)]
    shared += np.sum(in_all)
  assert shared == 12 * 3 * (4 // groups)


def test_groups_that_find_the_same_are_done_as_each_alone_would_be():
  """EOS is far ahead everywhere, so that all groups end the same outputs at once, and nothing later is better."""
  table, limits = np.zeros((1, V, V, V), np.float32), np.array([LONGEST], np.int32)
  table[..., EOS], table[..., 1] = 5.0, 1.0
  waiting = table, limits, search.row_keys(5, np.arange(1))
  found = lambda **options: queued(SearchConfig(**options), 1, 1, None)(waiting, 1)
  alone, plain = found(beam_size=2, n_best=2), found(beam_size=4, n_best=4)
  assert alone.steps[0] < LONGEST
  for n_best in (1, 2, 4):
    both = found(beam_size=4, groups=2, diversity=0.5, n_best=n_best)
    assert both.steps.tolist() == alone.steps.tolist()
    best = both.hypotheses
    assert best.tokens[0, :2].tolist() == alone.hypotheses.tokens[0].tolist()
    assert best.found[0, :n_best].all() and len({tuple(ids) for ids in best.tokens[0, :n_best].tolist()}) == n_best
    assert best.log_probs[0, n_best - 1] > plain.hypotheses.log_probs[0, n_best - 1] - 3.0  # what is listed is no last resort


def test_groups_without_diversity_are_searches_of_their_size():
  both = SearchConfig(beam_size=4, groups=2, diversity=0.0, length_penalty='none')
  for seed in range(3):
    table = chains(seed)
    found, alone = run(table, both), run(table, SearchConfig(beam_size=2, length_penalty='none'))
    np.testing.assert_array_equal(found.tokens[:, 0], alone.tokens[:, 0])
    np.testing.assert_allclose(found.log_probs[:, 0], alone.log_probs[:, 0], atol=1e-5)


def search_with(problem, sentences, other, config):
  """Of two models, of which the second has another cache."""
  both = sentences._replace(cache=ensemble.join([sentences.cache, other]))
  return beam(problem._replace(step=ensemble.combine([problem.step, problem.step])), both, config)


def ensemble_search(problem, sentences, config):
  """Two models, the second of which reads the chains from the end of the batch."""
  cache = sentences.cache
  return search_with(problem, sentences, cache._replace(chains=cache.chains[::-1]), config)


def twice(problem, sentences, config):
  return search_with(problem, sentences, sentences.cache, config)


def test_an_ensemble_has_the_mean_probability():
  config, table = SearchConfig(beam_size=3), chains(6)
  together = run(table, config, how=ensemble_search)
  probability = lambda chain: np.exp(chain) / np.exp(chain).sum(-1, keepdims=True)
  mean = np.log((probability(table) + probability(table[::-1])) / 2).astype(np.float32)
  expected = run(mean, config)
  np.testing.assert_array_equal(together.tokens, expected.tokens)
  np.testing.assert_allclose(together.log_probs, expected.log_probs, rtol=1e-4)
  alone, doubled = run(table, config), run(table, config, how=twice)
  np.testing.assert_array_equal(doubled.tokens, alone.tokens)
  np.testing.assert_allclose(doubled.log_probs, alone.log_probs, rtol=1e-5)


def test_search_chooses_by_beam_size():
  table = chains(3)
  one, two = SearchConfig(1, 'gnmt'), SearchConfig(2, 'none')
  found, walked = run(table, one, how=search.search), run(table, one, how=greedy)
  np.testing.assert_array_equal(found.tokens, walked.tokens)
  np.testing.assert_allclose(found.scores, walked.log_probs / penalty(one, walked.lengths), rtol=1e-5)
  np.testing.assert_array_equal(run(table, two, how=search.search).scores, run(table, two).scores)


def test_greedy_steps_of_a_model_are_the_best_of_its_parallel_pass(model, params):
  source, length = rows([5, 3, 7], 7), 11
  limits = jnp.array([11, 7, 5])

  def translate(params, source):
    cache = model.init_cache(params, model.encode(params, source), length)
    step = lambda cache, last: model.decode_step(params, cache, last)
    return search.search(search.SearchProblem(step, length, BOS, EOS, FILLER), search.Sentences(cache, limits),
                         SearchConfig(beam_size=1))

  found = jax.tree.map(np.asarray, jax.jit(translate)(params, source))
  words = [found.tokens[row, 0, :found.lengths[row, 0]].tolist() for row in range(3)]
  target = tokens.pad(words, 3, length, FILLER)
  logits = np.asarray(jax.jit(lambda params, target: model.decode(
      params, model.encode(params, source), tokens.shift_right(target, BOS)))(params, target))
  for row, sentence in enumerate(words):
    best = logits[row].argmax(-1)[:len(sentence)].tolist()
    total = np.take_along_axis(jax.nn.log_softmax(logits[row, :len(sentence)]), np.array(sentence)[:, None], 1)
    if len(sentence) == limits[row]:  # the end was forced
      best[-1] = EOS
    assert sentence == best
    assert abs(found.log_probs[row, 0] - total.sum()) < 1e-4
  assert max(map(len, words)) > 3


@pytest.mark.parametrize('options, idle', [
    ({}, {'diversity': 'groups is 1', **dict.fromkeys(['temperature', 'top_k', 'top_p', 'seed'], "strategy is 'beam'")}),
    (dict(groups=2, length_penalty='none'), {'alpha': "length_penalty is 'none'", **dict.fromkeys(
        ['temperature', 'top_k', 'top_p', 'seed'], "strategy is 'beam'")}),
    (dict(beam_size=1), {'early_stopping': 'beam_size is 1', 'diversity': 'groups is 1', **dict.fromkeys(
        ['temperature', 'top_k', 'top_p', 'seed'], "strategy is 'beam'")}),
    (dict(strategy='sample', length_penalty='length'), {
        'beam_size': "strategy is 'sample'", 'early_stopping': "strategy is 'sample'", 'groups': "strategy is 'sample'",
        'diversity': 'groups is 1'})])
def test_options_without_effect_are_named_with_the_reason(options, idle):
  assert SearchConfig(**options).idle() == idle


def test_a_length_penalty_is_one_entry():
  with pytest.raises(ValueError, match="length_penalty is 'logarithm'; expected one of gnmt, length, none"):
    SearchConfig(length_penalty='logarithm')
  LENGTH_PENALTIES.add('logarithm', lambda length, alpha: jnp.log(1 + length) * alpha)
  try:
    assert SearchConfig(length_penalty='logarithm', alpha=2.0).penalty(6) == pytest.approx(2 * np.log(7))
  finally:
    LENGTH_PENALTIES.remove('logarithm')


def test_a_strategy_is_one_entry():
  problem = search.SearchProblem(chain_step, LONGEST, BOS, EOS, FILLER)
  asked, cache = [], Cache(np.full((3, 2), BOS), chains(1))
  STRATEGIES.add('ask', search.config.Strategy(
      lambda *given: asked.append(given) or search.beam_search(problem, SearchConfig(beam_size=2)),
      width=lambda config: 2, options=frozenset({'seed'}), outputs='both beams give'))
  try:
    config = SearchConfig(strategy='ask', n_best=2)
    assert config.width == 2 and config.idle()['beam_size'] == "strategy is 'ask'" and 'seed' not in config.idle()
    found = search.search(problem, search.Sentences(cache, LIMITS), config)
    assert found.found[:, 0].all() and asked == [(problem, config)]
    with pytest.raises(ValueError, match='n_best is 3, but both beams give 2; expected 1 to 2'):
      SearchConfig(strategy='ask', n_best=3)
  finally:
    STRATEGIES.remove('ask')


def test_sampling_needs_keys():
  with pytest.raises(ValueError, match='no keys.*row_keys'):
    search.search(search.SearchProblem(chain_step, LONGEST, BOS, EOS, FILLER),
                  search.Sentences(Cache(np.full((3, 1), BOS), chains(1)), LIMITS), SearchConfig(strategy='sample'))
