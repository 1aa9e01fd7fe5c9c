"""The tree is the search's: the same result, and every hypothesis it considered."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from explorer import beam, reports
from tests.explorer_stand_ins import LINES, Chains, small_translator, small_vocabulary, step_of_chains
from transformer import tokens
from transformer.search import SearchConfig, SearchProblem, Sentences, constraints, search


@pytest.fixture(scope='module')
def parts():
  translator = small_translator()
  return translator.parts[0], translator.params[0], [*small_vocabulary().encode(LINES[0]), small_vocabulary().eos_id]


@pytest.mark.parametrize('config', [SearchConfig(beam_size=3, extra_length=2), SearchConfig(
    beam_size=2, alpha=0.0, extra_length=4)])
def test_the_best_path_is_what_beam_search_finds(parts, config):
  model, params, source = parts
  vocabulary = small_vocabulary()
  tree = beam.search(model, params, source, vocabulary.bos_id, vocabulary.eos_id, config)
  limit = len(source) + config.extra_length
  memory = model.encode(params, tokens.pad([source], 1, len(source), 0))
  cache = model.init_cache(params, memory, limit, config.beam_size)
  step = lambda cache, last: model.decode_step(params, cache, last)
  problem = SearchProblem(step, limit, vocabulary.bos_id, vocabulary.eos_id, filler=0)
  found = jax.device_get(jax.jit(lambda cache: search(problem, Sentences(cache, np.array([limit])), config))(cache))
  best = tree.tokens_of(tree.best[-1])
  assert best == found.tokens[0, 0, :len(best)].tolist() and best[-1] == vocabulary.eos_id
  np.testing.assert_allclose(tree.nodes[tree.best[-1]].score, found.scores[0, 0], rtol=1e-4)
  for step in range(max(node.step for node in tree.nodes)):
    at = [node for node in tree.nodes if node.step == step]
    assert len(at) <= 2 * config.beam_size and sum(node.fate == beam.KEPT for node in at) <= config.beam_size
    assert all(node.parent == -1 if not step else tree.nodes[node.parent].fate == beam.KEPT for node in at)


@pytest.mark.parametrize('options', [
    dict(beam_size=3), dict(beam_size=3, min_length=4), dict(beam_size=3, no_repeat_ngram=1, min_length=2),
    dict(beam_size=2, no_repeat_ngram=2), dict(beam_size=4, early_stopping='full', length_penalty='length', alpha=1.0),
    dict(beam_size=4, early_stopping='heuristic', length_penalty='length', alpha=2.0), dict(beam_size=3, n_best=3)])
def test_every_rule_of_the_search_is_the_trees_too(options):
  draw, count, size, bos, eos, limit = np.random.default_rng(2), 12, 6, 1, 4, 9
  logits = draw.normal(0, 2, (count, limit, size, size)).astype(np.float32)
  logits[..., eos] += draw.uniform(-4, 2, (count, 1, 1)).astype(np.float32)
  config, limits = SearchConfig(**options), np.full(count, limit, np.int32)
  rules, known = [], []
  if config.no_repeat_ngram:
    rules.append(constraints.no_repeat_ngram(config.no_repeat_ngram, limit, eos, config.min_length))
    known.append(constraints.Repeatable(limits, None))
  problem = SearchProblem(step_of_chains, limit, bos, eos, 0, rules)
  chains = Chains(jnp.zeros((count, config.width)), jnp.asarray(logits), jnp.zeros(count, jnp.int32))
  found = jax.device_get(jax.jit(lambda: search(problem, Sentences(chains, limits, rules=known), config))())
  step, ended_at = jax.jit(step_of_chains), set()
  for row in range(count):
    one = Chains(jnp.zeros((1, config.width)), jnp.asarray(logits[row:row + 1]), jnp.zeros(1, jnp.int32))
    tree = beam.grow(step, one, limit, bos, eos, config)
    ends = sorted((place for place, node in enumerate(tree.nodes) if node.fate == beam.FINISHED),
                  key=lambda place: -tree.nodes[place].score)[:config.width]
    assert tree.best[-1] == ends[0]
    ranks = np.flatnonzero(found.found[row])
    assert [tree.tokens_of(place) for place in ends] == [
        found.tokens[row, rank, :found.lengths[row, rank]].tolist() for rank in ranks]
    np.testing.assert_allclose([tree.nodes[place].score for place in ends], found.scores[row][ranks], atol=1e-4)
    ended_at.add(tree.nodes[-1].step)
  assert len(ended_at) > 1


@pytest.mark.parametrize('options, reason', [(dict(groups=2), 'search.groups is 2'), (
    dict(coverage_penalty=0.2), 'search.coverage_penalty is 0.2')])
def test_searches_that_are_not_repeated_have_no_tree_and_the_report_says_why(options, reason):
  config = SearchConfig(beam_size=2, **options)
  with pytest.raises(ValueError, match=reason):
    beam.grow(None, None, 3, 2, 3, config)
  asked = types.SimpleNamespace(parts=(None, None, None), search_config=config)
  one, other = reports._trees(asked, [], [], 2)
  assert one == other and one['refused'].startswith(reason)


def test_a_length_penalty_is_called_by_its_own_name():
  names = [beam.penalty_name(SearchConfig(**options)) for options in (
      {}, dict(length_penalty='length', alpha=1.0), dict(length_penalty='none'))]
  assert names == ['gnmt, alpha 0.6', 'length, alpha 1', 'none']


def test_a_markov_chain_by_hand():
  """Three tokens and EOS; what follows depends on the token before alone."""
  after = np.log(np.array([[1e-9, 0.6, 0.3, 0.1], [1e-9, 0.1, 0.2, 0.7], [1e-9, 0.3, 0.1, 0.6], [0.25] * 4]))

  class Cache(tuple):
    beams = ()

    def _replace(self, beams):
      return self

  step = lambda cache, last: (np.float32(after)[last], cache)
  tree = beam.grow(step, Cache(), 3, bos_id=0, eos_id=3, config=SearchConfig(beam_size=2, length_penalty='none'))
  shown = [(node.step, tree.tokens_of(place), round(float(np.exp(node.log_prob)), 3), node.fate)
           for place, node in enumerate(tree.nodes)]
  assert shown[:4] == [(0, [1], 0.6, 'kept'), (0, [2], 0.3, 'kept'), (0, [3], 0.1, 'pruned'), (0, [0], 0.0, 'pruned')]
  assert shown[4:8] == [(1, [1, 3], 0.42, 'finished'), (1, [2, 3], 0.18, 'finished'), (1, [1, 2], 0.12, 'kept'),
                        (1, [2, 1], 0.09, 'kept')]
  assert len(shown) == 8 and tree.tokens_of(tree.best[-1]) == [1, 3]  # nothing alive can still do better

  gone = beam.departure(tree, [2, 2, 3], np.log([0.3, 0.1, 0.6]))
  assert (gone.step, gone.token) == (1, 2) and np.exp(gone.least_kept) == pytest.approx(0.09, rel=1e-3)
  assert np.exp(gone.log_prob) == pytest.approx(0.03)
  assert beam.departure(tree, [2, 3], np.log([0.3, 0.6])) is None
  after = beam.departure(tree, [1, 2, 1, 3], np.log([0.6, 0.2, 0.3, 0.7]))  # kept at each of the two steps
  assert (after.step, after.token, after.least_kept) == (2, 1, None)


def test_a_greedy_search_has_no_tree(parts):
  model, params, source = parts
  with pytest.raises(ValueError, match='beam of 2'):
    beam.grow(None, None, 3, 2, 3, SearchConfig(beam_size=1))
