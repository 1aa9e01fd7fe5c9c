"""Forbidden and required phrases over small Markov chains, against lists of all outputs."""

import functools
import itertools

import jax
import numpy as np
import pytest

from tests.conftest import BOS, EOS, FILLER
from tests.test_search import Cache, V, chain_step, chains, log_probability
from transformer import search
from transformer.search import SearchConfig, constraints

LONGEST = 5
LIMITS = np.array([5, 4, 5], np.int32)
ORDINARY = [token for token in range(V) if token != EOS]
WIDE = 341  # a beam that holds all sentences of these chains: 1 + 4 + 16 + 64 + 256


def laid(phrases, right):
  """[B, P, E] as constraints has them."""
  longest = max(len(phrase) for row in phrases for phrase in row)
  fill = lambda phrase: [constraints.NO_TOKEN] * (longest - len(phrase))
  most = max(map(len, phrases))
  return np.array([[fill(p) + p if right else p + fill(p) for p in [*row, *[[]] * (most - len(row))]]
                   for row in phrases], np.int32)


@functools.partial(jax.jit, static_argnames=('config', 'kind'))
def run(table, phrases, config, kind):
  cache = Cache(jax.numpy.full((3, config.width), BOS), table)
  rule = constraints.forbidden() if kind == 'forbidden' else constraints.required(EOS)
  return search.search(search.SearchProblem(chain_step, LONGEST, BOS, EOS, FILLER, rules=[rule]),
                       search.Sentences(cache, LIMITS, search.row_keys(config.seed, np.arange(3)), [phrases]), config)


def contains(sentence, phrase):
  return any(sentence[n:n + len(phrase)] == phrase for n in range(len(sentence)))


def outputs(found, row):
  real = found.scores[row] > search.NEVER
  return [(tokens[:length].tolist(), log_prob) for tokens, length, log_prob in zip(
      np.asarray(found.tokens[row])[real], np.asarray(found.lengths[row])[real], np.asarray(found.log_probs[row])[real])]


def everything(chain, limit, keep):
  sentences = [[*words, EOS] for length in range(limit) for words in itertools.product(ORDINARY, repeat=length)]
  return sorted(((log_probability(chain, s), s) for s in sentences if keep(s)), reverse=True)


FORBIDDEN = [[[0], [1, 4]], [], [[4, 4, 1], [2, 0]]]
REQUIRED = [[[1, 4], [0]], [[4, 4, 2]], [[1]]]


def test_a_wide_beam_finds_all_that_is_not_forbidden():
  config, table = SearchConfig(beam_size=WIDE, length_penalty='none', n_best=WIDE), chains(3)
  found = run(table, laid(FORBIDDEN, right=True), config, 'forbidden')
  for row, phrases in enumerate(FORBIDDEN):
    expected = everything(table[row], LIMITS[row], lambda s: not any(contains(s, p) for p in phrases))
    assert sorted(sentence for sentence, _ in outputs(found, row)) == sorted(sentence for _, sentence in expected)
    np.testing.assert_allclose([p for _, p in outputs(found, row)], [p for p, _ in expected], atol=1e-4)


@pytest.mark.parametrize('config', [SearchConfig(beam_size=1), SearchConfig(beam_size=3),
                                    SearchConfig(strategy='sample', seed=3), SearchConfig(beam_size=4, groups=2)])
def test_what_is_forbidden_never_appears(config):
  for seed in range(5):
    found = run(chains(seed), laid(FORBIDDEN, right=True), config, 'forbidden')
    for row, phrases in enumerate(FORBIDDEN):
      assert outputs(found, row)
      assert not any(contains(sentence, phrase) for sentence, _ in outputs(found, row) for phrase in phrases)


@pytest.mark.parametrize('config', [SearchConfig(beam_size=1), SearchConfig(beam_size=3), SearchConfig(beam_size=7),
                                    SearchConfig(strategy='sample', seed=3)])
def test_what_is_required_appears_in_every_output(config):
  for seed in range(5):
    table = chains(seed, spread=3.0)
    found = run(table, laid(REQUIRED, right=False), config, 'required')
    for row, phrases in enumerate(REQUIRED):
      assert outputs(found, row)
      for sentence, log_prob in outputs(found, row):
        assert len(sentence) <= LIMITS[row] and all(contains(sentence, phrase) for phrase in phrases)
        assert abs(log_prob - log_probability(table[row], sentence)) < 1e-3  # the model's own


def test_a_wide_beam_finds_the_best_that_has_what_is_required():
  config, right = SearchConfig(beam_size=WIDE, length_penalty='none', n_best=WIDE), 0
  for seed in range(4):
    table = chains(seed)
    found = run(table, laid(REQUIRED, right=False), config, 'required')
    for row, phrases in enumerate(REQUIRED):
      expected = everything(table[row], LIMITS[row], lambda s: all(contains(s, p) for p in phrases))
      best, log_prob = outputs(found, row)[0]
      right += best == expected[0][1]
      assert log_prob < expected[0][0] + 1e-4
      assert len({tuple(sentence) for sentence, _ in outputs(found, row)}) == len(outputs(found, row))
  assert right == 12


def test_without_phrases_nothing_changes():
  config, table, nothing = SearchConfig(beam_size=3), chains(1), np.full((3, 1, 2), constraints.NO_TOKEN, np.int32)
  cache = Cache(np.full((3, 3), BOS), table)
  problem = search.SearchProblem(chain_step, LONGEST, BOS, EOS, FILLER)
  free = jax.jit(lambda cache: search.search(problem, search.Sentences(cache, LIMITS), config))(cache)
  for kind in ('forbidden', 'required'):
    for field, expected in zip(run(table, nothing, config, kind), free):
      np.testing.assert_allclose(field, expected, rtol=1e-6)
