"""The coverage penalty over tiny Markov chains that look at a source, and in models."""

import dataclasses
import functools
import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from checks.errors import ConfigError
from decoding import continuer
from decoding.requests import Request
from decoding.translator import Translator
from decoding.wishes import Wishes
from tests.conftest import BOS, EOS, FILLER
from tests.explorer_stand_ins import LINES, shaken, small_vocabulary
from tests.test_search import ALL, LIMITS, LONGEST, SEED, V, chain_step, chains, log_probability, patient
from tests.test_search import penalty as length_penalty
from transformer import architectures, search
from transformer.config import LanguageModelConfig, ModelConfig, RecurrentConfig
from transformer.search import SearchConfig, coverage, queue

SOURCE = np.array([3, 2, 5])  # tokens of each source that are to be covered


class Cache(NamedTuple):
  """As in test_search, and what each sentence's chain looks at after two tokens."""

  beams: Any  # [B, W]
  chains: Any  # [B, V, V, V]
  looks: Any  # [B, V, V, S]


def looks(seed):
  """Rows that sum to 1 over the source, EOS and padding aside; many are sharp, as trained attention is."""
  scores = np.random.default_rng(seed).normal(size=(3, V, V, SOURCE.max())) * 4.0
  weights = np.where(np.arange(SOURCE.max()) < SOURCE[:, None, None, None], np.exp(scores), 0.0)
  return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


def attend_step(cache, last):
  weights = jax.vmap(lambda look, before, now: look[before, now])(cache.looks, cache.beams, last)
  return *chain_step(cache, last), weights


@functools.lru_cache
def compiled(config):
  def run(cache):
    counted = jnp.arange(cache.looks.shape[-1])[None] < jnp.asarray(SOURCE)[:, None]
    problem = search.SearchProblem(
        coverage.cover(attend_step), LONGEST, BOS, EOS, FILLER,
        coverage=lambda cache: coverage.penalty(cache.beams[1], cache.counted, config.coverage_penalty))
    covered = coverage.begin(cache, config.beam_size, counted)
    return queue.run(search.beam_search(problem, config), search.Sentences(covered, LIMITS))
  return jax.jit(run)


def run(table, look, config):
  cache = Cache(np.full((3, config.beam_size), BOS, np.int32), table, look)
  return jax.tree.map(np.asarray, compiled(config)(cache))


def by_hand(look, sentence, size, beta):
  """β Σ_i log(min(Σ_j p_ij, 1)), token by token."""
  total = 0.0
  for i in range(size):
    before, now, seen = BOS, BOS, 0.0
    for token in sentence:
      seen += float(look[before, now, i])
      before, now = now, token
    total += np.log(min(seen, 1.0))
  return beta * total


def exhaustive(chain, look, size, limit, config):
  ordinary = [token for token in range(V) if token != EOS]
  found = []
  for length in range(1, limit + 1):
    for words in itertools.product(ordinary, repeat=length - 1):
      log_prob = log_probability(chain, [*words, EOS])
      covered = by_hand(look, [*words, EOS], size, config.coverage_penalty)
      found.append((log_prob / length_penalty(config, length) + covered, log_prob, [*words, EOS]))
  return sorted(found, reverse=True)


def test_the_penalty_is_its_formula():
  draw = np.random.default_rng(3)
  looked = draw.exponential(size=(2, 3, 7)).astype(np.float32)
  looked[0, 1, 2] = 0.0  # too small for float32: a large price, not an infinite one
  counted = np.array([[True] * 5 + [False] * 2, [True] * 3 + [False] * 4])
  least = np.finfo(np.float32).tiny
  expected = [[0.7 * sum(np.log(min(max(looked[b, w, i], least), 1.0)) for i in range(7) if counted[b, i])
               for w in range(3)] for b in range(2)]
  found = np.asarray(coverage.penalty(looked, counted, 0.7))
  np.testing.assert_allclose(found, expected, rtol=1e-5)
  assert (found <= 0).all() and np.isfinite(found).all()
  assert (coverage.penalty(np.full((2, 3, 7), 1.5, np.float32), counted, 0.7) == 0).all()


def test_the_end_of_a_source_is_not_counted():
  segments = np.array([[1, 1, 1, 0], [1, 1, 1, 1], [0, 0, 0, 0]])
  assert coverage.ordinary(segments).tolist() == [[True, True, False, False], [True, True, True, False], [False] * 4]


@pytest.mark.parametrize('kind', ['gnmt', 'none'])
def test_a_wide_beam_finds_all_translations_in_the_order_of_the_whole_score(kind):
  config = SearchConfig(beam_size=ALL, length_penalty=kind, alpha=0.9, coverage_penalty=0.4, n_best=ALL)
  table, look = chains(SEED), looks(1)
  found, changed = run(table, look, config), 0
  for row, limit in enumerate(LIMITS):
    expected = exhaustive(table[row], look[row], SOURCE[row], limit, config)
    assert (found.scores[row] > search.NEVER).sum() == len(expected)
    np.testing.assert_allclose(found.scores[row, :len(expected)], [score for score, _, _ in expected], atol=1e-4)
    np.testing.assert_allclose(found.log_probs[row, :len(expected)], [own for _, own, _ in expected], atol=1e-4)
    assert found.tokens[row, 0, :found.lengths[row, 0]].tolist() == expected[0][2]
    changed += max(expected, key=lambda one: one[1] / length_penalty(config, len(one[2])))[2] != expected[0][2]
  assert changed  # the penalty has decided something


@pytest.mark.parametrize('n_best', [1, 3])
def test_stopping_early_changes_nothing(n_best):
  config = SearchConfig(beam_size=3, alpha=0.9, coverage_penalty=0.3, n_best=n_best)
  with patient(config) as to_the_limit:
    for seed in range(25):
      table, look = chains(seed, spread=2.5), looks(seed)
      for quick, slow in zip(run(table, look, config), run(table, look, to_the_limit)):
        np.testing.assert_array_equal(quick[:, :n_best], slow[:, :n_best])


def test_what_was_looked_at_moves_with_its_hypothesis():
  config = SearchConfig(beam_size=3, coverage_penalty=0.4)
  for seed in range(8):
    table, look = chains(seed), looks(seed)
    found = run(table, look, config)
    for row, rank in itertools.product(range(3), range(3)):
      if found.scores[row, rank] > search.NEVER:
        sentence = found.tokens[row, rank, :found.lengths[row, rank]].tolist()
        score = log_probability(table[row], sentence) / length_penalty(config, len(sentence))
        assert found.scores[row, rank] == pytest.approx(score + by_hand(look[row], sentence, SOURCE[row], 0.4), abs=1e-4)


# ----------------------------------------------------------------------------------------------------------- models


SOME = LINES[1:]  # of one length class: each search is compiled once
BEAM = SearchConfig(beam_size=3, extra_length=8, coverage_penalty=0.5, n_best=3)
OFF = SearchConfig(beam_size=3, extra_length=8)


@functools.cache
def parts(kind):
  size = small_vocabulary().size
  config = (ModelConfig(size, size, d_model=14, num_heads=2, num_layers=1, num_decoder_layers=3, d_ff=11, dropout=0.0,
                        scan_layers=True) if kind != 'recurrent' else
            RecurrentConfig(size, size, d_model=14, num_layers=1, dropout=0.0))
  model = architectures.build(config)
  return model, shaken(jax.jit(model.init)(jax.random.key(3)), scale=0.5)


@functools.cache
def translator(config=BEAM, kind='scanned', models=1, devices=1):
  model, params = parts(kind)
  return Translator([model] * models, [params] * models, small_vocabulary(), small_vocabulary(), config, 128,
                    devices=jax.devices()[:devices])


@pytest.mark.parametrize('kind', ['scanned', 'recurrent'])
def test_scores_are_those_of_the_forced_output(kind):
  """Forced scoring reads attention out of the parallel pass, the search step by step."""
  one, found = translator(kind=kind), translator(kind=kind).translate(SOME)
  eos, priced = small_vocabulary().eos_id, 0
  for rank in range(3):
    listed = [[line, *line.others][rank] for line in found]
    forced = one._score_ids(one._encode(SOME, range(len(SOME))), [[*line.ids, eos] for line in listed],
                            [line.text for line in listed], None)
    for line, scored in zip(listed, forced):
      assert line.score == pytest.approx(scored.score, abs=1e-4)
      assert line.log_prob == pytest.approx(scored.log_prob, abs=1e-4)
      priced += line.score < line.log_prob / float(BEAM.penalty(len(line.ids) + 1)) - 1e-3
  assert priced
  for line in found:
    assert [line.score, *(other.score for other in line.others)] == sorted(
        [line.score, *(other.score for other in line.others)], reverse=True)


def test_coverage_depends_on_no_neighbour_and_no_device():
  together = translator().translate(SOME)
  for found in (translator().translate(SOME[::-1])[::-1], [translator().translate([line])[0] for line in SOME],
                translator(devices=8).translate(SOME), translator(models=2).translate(SOME)):
    assert [line.text for line in found] == [line.text for line in together]
    np.testing.assert_allclose([line.score for line in found], [line.score for line in together], atol=1e-5)


def test_coverage_goes_with_wishes_groups_and_short_outputs():
  one, source = translator(), SOME[0]
  wanted = [Request(source, prefix='the'), Request(source, required=('dog',)), Request(source, forbidden=('cat',))]
  prefixed, required, forbidden = one.translate(wanted)
  assert prefixed.text.startswith('the') and 'dog' in required.text and 'cat' not in forbidden.text
  for config in (SearchConfig(beam_size=4, groups=2, extra_length=8, coverage_penalty=0.5),
                 SearchConfig(beam_size=3, min_length=3, extra_length=8, coverage_penalty=0.5)):
    found = translator(config).translate(SOME)
    assert all(len(line.ids) >= config.min_length and np.isfinite(line.score) for line in found)


def test_off_it_leaves_the_program_as_it_was():
  """A model that cannot tell what it looks at has the same program, word for word."""
  model, params = parts('scanned')
  blind = Translator([dataclasses.replace(model, attend_step=None)], [params], small_vocabulary(), small_vocabulary(), OFF, 128,
                     devices=jax.devices()[:1])
  program = lambda one: one._searching(8, False).lower(one.params, one._batch(
      [0], [[5, 6, 7]], [Wishes()], 128, 8, [0], 0), np.array([1])).as_text()
  assert program(blind) == program(translator(OFF)) != program(translator(BEAM))


def test_models_that_look_at_nothing_are_refused():
  size = small_vocabulary().size
  model = architectures.build(RecurrentConfig(size, size, d_model=14, num_layers=1, dropout=0.0, score='none'))
  with pytest.raises(ConfigError, match='coverage_penalty is 0.5, but this model has no attention over a source'):
    Translator([parts('scanned')[0], model], [None, None], small_vocabulary(), small_vocabulary(), BEAM)
  language_model = architectures.build(LanguageModelConfig(size, size, d_model=14, num_heads=2, num_layers=1, d_ff=11))
  with pytest.raises(ConfigError, match='no attention over a source'):
    continuer.Continuer(language_model, None, small_vocabulary(), BEAM, 32)


@pytest.mark.parametrize('options, expected', [
    (dict(coverage_penalty=-0.1), 'expected 0 .off. or more'), (dict(coverage_penalty=0.2, beam_size=1), 'greedy search'),
    (dict(coverage_penalty=0.2, strategy='sample'), 'sampling')])
def test_a_penalty_without_a_choice_is_refused(options, expected):
  with pytest.raises(ValueError, match=f'coverage_penalty is .*{expected}'):
    SearchConfig(**options)
