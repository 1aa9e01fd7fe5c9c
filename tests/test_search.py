"""Search over tiny Markov chains, where every translation can be listed, and over a model."""

import functools
import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.conftest import BOS, EOS, FILLER, rows
from transformer import search, tokens
from transformer.config import LENGTH_PENALTIES, SearchConfig

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
  options = () if how is search.greedy_search else (config,)
  return jax.jit(lambda cache, limits: how(chain_step, cache, limits, LONGEST, BOS, EOS, FILLER, *options))


def run(table, config, limits=LIMITS, how=search.beam_search):
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


@pytest.mark.parametrize('kind', LENGTH_PENALTIES)
def test_a_beam_wide_enough_finds_all_translations_in_order(kind):
  config, table = SearchConfig(beam_size=ALL, length_penalty=kind, alpha=0.9), chains(SEED)
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
  assert abs(search.length_penalty(length, SearchConfig(length_penalty=kind)) - expected) < 1e-5


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
        assert abs(found.log_probs[row, rank] - by_hand) < 1e-4
        assert abs(found.scores[row, rank] - by_hand / penalty(config, length)) < 1e-4


def test_a_beam_of_one_is_greedy_search():
  config = SearchConfig(beam_size=1, length_penalty='none')
  lengths = set()
  for seed in range(5):
    table = chains(seed)
    beam, greedy = run(table, config), run(table, config, how=search.greedy_search)
    np.testing.assert_array_equal(beam.tokens, greedy.tokens)
    np.testing.assert_array_equal(beam.lengths, greedy.lengths)
    np.testing.assert_allclose(beam.log_probs, greedy.log_probs, atol=1e-5)
    lengths |= set(greedy.lengths[:, 0].tolist())
    for row, limit in enumerate(LIMITS):
      by_hand, before, now = [], BOS, BOS
      while not by_hand or now != EOS:
        before, now = now, EOS if len(by_hand) + 1 == limit else int(table[row, before, now].argmax())
        by_hand.append(now)
      assert greedy.tokens[row, 0, :len(by_hand)].tolist() == by_hand
  assert len(lengths) > 2


@pytest.mark.parametrize('how, width', [(search.beam_search, 3), (search.greedy_search, 1)])
def test_limits_hold_and_the_last_place_may_only_end(how, width):
  table = chains(2)
  table[..., EOS] = -9.0  # hardly ever ends by itself
  found = run(table, SearchConfig(beam_size=width), how=how)
  np.testing.assert_array_equal(found.lengths[:, 0], LIMITS)
  assert found.tokens[1, 0].tolist() == [EOS, FILLER, FILLER, FILLER]
  assert abs(found.log_probs[1, 0] - log_probability(table[1], [EOS])) < 1e-4  # forced, and paid for
  if width > 1:
    assert (found.scores[1, 1:] == search.NEVER).all()  # there is no second translation of one token


@pytest.mark.parametrize('how, width', [(search.beam_search, 2), (search.greedy_search, 1)])
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


def test_search_chooses_by_beam_size():
  table = chains(3)
  one, two = SearchConfig(1, 'gnmt'), SearchConfig(2, 'none')
  found, greedy = run(table, one, how=search.search), run(table, one, how=search.greedy_search)
  np.testing.assert_array_equal(found.tokens, greedy.tokens)
  np.testing.assert_allclose(found.scores, greedy.log_probs / penalty(one, greedy.lengths), rtol=1e-5)
  np.testing.assert_array_equal(run(table, two, how=search.search).scores, run(table, two).scores)


def test_greedy_steps_of_a_model_are_the_best_of_its_parallel_pass(model, params):
  source, length = rows([5, 3, 7], 7), 11
  limits = jnp.array([11, 7, 5])

  def translate(params, source):
    cache = model.init_cache(params, model.encode(params, source), length)
    step = lambda cache, last: model.decode_step(params, cache, last)
    return search.greedy_search(step, cache, limits, length, BOS, EOS, FILLER)

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
