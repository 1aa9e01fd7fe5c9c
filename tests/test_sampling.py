"""Sampling and forced prefixes over small Markov chains, whose distributions are known."""

import collections
import functools
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

from tests.conftest import BOS, EOS, FILLER
from transformer import search, tokens
from transformer.search import SearchConfig, beginning

V, LONGEST = 7, 5
SAMPLE = SearchConfig(strategy='sample', length_penalty='none')


class Cache(NamedTuple):
  """The last token but one of each hypothesis, so that a search has something to reorder; one chain for all."""

  beams: Any  # [B, W]
  chain: Any  # [B, V, V, V]: scores of the next token after two


def chain_step(cache, last):
  return cache.chain[np.arange(len(last))[:, None], cache.beams, last], cache._replace(beams=last)


def chain(seed=0, spread=1.3):
  return np.random.default_rng(seed).normal(size=(V, V, V)).astype(np.float32) * spread


@functools.partial(jax.jit, static_argnames=('config', 'length'))
def run(table, limits, lines, prefix, config, length=LONGEST):
  cache = Cache(jax.numpy.full((len(limits), config.width), BOS),
                jax.numpy.broadcast_to(table, (len(limits), *table.shape)))
  cache = beginning.read(chain_step, cache, tokens.shift_right(prefix, BOS), config.width)
  problem = search.SearchProblem(chain_step, length, BOS, EOS, FILLER)
  keys = search.row_keys(config.seed, lines)
  return search.search(problem, search.Sentences(cache, limits, keys, written=prefix), config)


def draw(table, rows, config, lines=None, prefixes=None, limit=LONGEST):
  prefixes = prefixes or [[]] * rows
  prefix = tokens.pad(prefixes, rows, 3, FILLER)
  lines = np.arange(rows, dtype=np.int32) if lines is None else np.array(lines, np.int32)
  return jax.tree.map(np.asarray, run(table, np.full(rows, limit, np.int32), lines, prefix, config))


def distribution(scores, config):
  """What may be drawn after a token, by a loop over the tokens from the likeliest on."""
  scores = scores.astype(np.float64) / config.temperature
  order = sorted(range(V), key=lambda token: -scores[token])
  kept = order[:config.top_k or V]
  mass = np.exp(scores) / np.exp(scores[kept]).sum()
  nucleus, total = [], 0.0
  for token in kept:
    if total < config.top_p:
      nucleus.append(token)
      total += mass[token]
  return {token: mass[token] / sum(mass[t] for t in nucleus) for token in nucleus}


@pytest.mark.parametrize('config', [
    SAMPLE, SearchConfig(strategy='sample', top_k=3, temperature=1.7),
    SearchConfig(strategy='sample', top_p=0.7, top_k=4, temperature=0.8, seed=5)])
def test_frequencies_are_the_models_distribution(config):
  table, rows = chain(), 4001
  found = draw(table, rows, config)
  seen = collections.Counter(zip(found.tokens[:, 0, 0].tolist(), found.tokens[:, 0, 1].tolist()))
  expected = {}
  for first, share in distribution(table[BOS, BOS], config).items():
    after = {FILLER: 1.0} if first == EOS else distribution(table[BOS, first], config)
    expected |= {(first, second): share * part * rows for second, part in after.items()}
  assert seen.keys() <= expected.keys()  # nothing that was cut off
  cells = [(seen[pair], count) for pair, count in expected.items() if count >= 5]
  statistic = sum((count - wanted) ** 2 / wanted for count, wanted in cells)
  free = len(cells) - 1
  assert free > 3
  assert statistic < free + 4 * (2 * free) ** 0.5  # four standard deviations of chi-square


def test_log_probabilities_are_the_models_own():
  config = SearchConfig(strategy='sample', temperature=0.5, top_k=3, length_penalty='length', alpha=1.0)
  table = chain(1)
  found = draw(table, 11, config)
  for row in range(11):
    before, now, total = BOS, BOS, 0.0
    length = found.lengths[row, 0]
    for token in found.tokens[row, 0, :length]:
      scores = table[before, now].astype(np.float64)
      total += scores[token] - np.log(np.exp(scores).sum())
      before, now = now, token
    assert now == EOS and (found.tokens[row, 0, length:] == FILLER).all()
    assert abs(found.log_probs[row, 0] - total) < 1e-4 and abs(found.scores[row, 0] - total / length) < 1e-4


def test_what_is_drawn_for_a_line_depends_on_its_number_alone():
  table = chain(2)
  table[..., EOS] = -3.0
  together = draw(table, 13, SAMPLE).tokens
  for row in (0, 5, 12):
    np.testing.assert_array_equal(draw(table, 1, SAMPLE, lines=[row]).tokens[0], together[row])
  moved = draw(table, 13, SAMPLE, lines=list(range(12, -1, -1))).tokens
  np.testing.assert_array_equal(moved[::-1], together)
  assert len(set(map(bytes, together))) > 8  # lines differ, and so do seeds
  other = draw(table, 13, SearchConfig(strategy='sample', length_penalty='none', seed=1)).tokens
  assert (other != together).any()


def test_samples_of_a_line_have_keys_that_no_other_seed_and_line_has():
  lines = np.arange(5, dtype=np.int32)
  keys = [search.row_keys(seed, lines, draw) for seed in range(5) for draw in range(5)]
  assert len({tuple(key.tolist()) for each in keys for key in jax.random.key_data(each)}) == 125
  plain = [jax.random.fold_in(jax.random.key(3), int(line)) for line in lines]  # the first sample's
  np.testing.assert_array_equal(jax.random.key_data(search.row_keys(3, lines)), [jax.random.key_data(key) for key in plain])
  mixed = search.row_keys(np.array([3, 1], np.int32), lines[3:], np.array([2, 0], np.int32))
  for place, (seed, draw) in enumerate([(3, 2), (1, 0)]):
    np.testing.assert_array_equal(jax.random.key_data(mixed)[place],
                                  jax.random.key_data(search.row_keys(seed, lines[3:], draw))[place])


def test_a_seed_of_more_than_32_bits_is_refused():
  for seed in (2**31, -2**31 - 1):
    with pytest.raises(ValueError, match=f'seed is {seed}; expected a number from -2147483648 to 2147483647'):
      SearchConfig(seed=seed)
  for seed in (2**31 - 1, -2**31):
    search.row_keys(SearchConfig(seed=seed).seed, np.arange(2, dtype=np.int32), 9)


def test_padding_of_a_prefix_beyond_the_longest_output_changes_nothing():
  table, prefix = chain(3), [[4, 5], [], [4]]
  for config in (SAMPLE, SearchConfig(beam_size=3)):
    found = [run(table, np.full(3, LONGEST, np.int32), np.arange(3, dtype=np.int32), tokens.pad(prefix, 3, width, FILLER),
                 config) for width in (3, LONGEST + 3)]
    jax.tree.map(np.testing.assert_array_equal, *found)


def test_a_top_k_of_one_is_greedy_search():
  one = SearchConfig(strategy='sample', top_k=1, length_penalty='none')
  greedy = SearchConfig(beam_size=1, length_penalty='none')
  for seed in range(3):
    sampled, best = draw(chain(seed), 3, one), draw(chain(seed), 3, greedy)
    np.testing.assert_array_equal(sampled.tokens, best.tokens)
    np.testing.assert_array_equal(sampled.log_probs, best.log_probs)


def follow(table, prefix, words):
  """Log-probability of what stands after the prefix."""
  before, now, total = BOS, BOS, 0.0
  for place, token in enumerate([*prefix, *words]):
    scores = table[before, now].astype(np.float64)
    total += (place >= len(prefix)) * (scores[token] - np.log(np.exp(scores).sum()))
    before, now = now, token
  return total


@pytest.mark.parametrize('config', [SearchConfig(beam_size=1), SearchConfig(beam_size=3, n_best=3), SAMPLE])
def test_a_forced_prefix_is_kept_and_costs_nothing(config):
  table, prefixes = chain(3), [[4, 0, 6], [], [5], [6, 6]]  # unlikely ones among them
  found = draw(table, 4, config, prefixes=prefixes)
  for row, prefix in enumerate(prefixes):
    for rank in range(config.width):
      sentence = found.tokens[row, rank, :found.lengths[row, rank]].tolist()
      assert sentence[:len(prefix)] == prefix and sentence[-1] == EOS and len(sentence) > len(prefix)
      assert abs(found.log_probs[row, rank] - follow(table, prefix, sentence[len(prefix):])) < 1e-4
    if config.width > 1:
      assert len({bytes(tokens) for tokens in found.tokens[row]}) == config.width


def test_beams_after_a_prefix_find_the_best_that_goes_on_from_it():
  """Against all continuations of one prefix, under a beam that no set of them can fill."""
  config, table, prefix = SearchConfig(beam_size=53, length_penalty='none', n_best=53), chain(4), [5, 1]
  found = draw(table, 1, config, prefixes=[prefix])
  ordinary = [token for token in range(V) if token != EOS]
  ends = [[EOS]] + [[a, EOS] for a in ordinary] + [[a, b, EOS] for a in ordinary for b in ordinary]
  expected = sorted((follow(table, prefix, end) for end in ends), reverse=True)
  real = found.scores[0] > search.NEVER
  assert real.sum() == len(ends) == 43
  np.testing.assert_allclose(found.log_probs[0, real], expected, atol=1e-4)


@pytest.mark.parametrize('wrong, words', [
    (dict(strategy='best'), 'beam, sample'), (dict(temperature=0.0), 'positive'), (dict(temperature=1e-38), 'at least 1e-06'),
    (dict(top_k=-1), 'top_k'),
    (dict(top_p=0.0), 'top_p'), (dict(top_p=1.1), 'top_p'), (dict(n_best=5), 'n_best is 5, but beam_size keeps 4; expected 1 to 4'),
    (dict(n_best=0), 'n_best'), (dict(n_best=2, strategy='sample'), 'one draw gives 1; expected 1$')])
def test_impossible_options_are_refused(wrong, words):
  with pytest.raises(ValueError, match=words):
    SearchConfig(**wrong)
