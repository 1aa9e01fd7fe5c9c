"""Automata of phrases, and the rules that read them, against lists of all outputs."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.conftest import EOS
from transformer import search
from transformer.search import automaton, constraints

V, LONGEST = 5, 6
FREE = 4  # is in no phrase
ORDINARY = [token for token in range(V) if token != EOS]
ALL = [[(*words, EOS) for length in range(limit) for words in itertools.product(ORDINARY, repeat=length)]
       for limit in range(LONGEST + 1)]  # all outputs within each limit


def contains(text, phrase):
  return any(tuple(text[n:n + len(phrase)]) == tuple(phrase) for n in range(len(text)))


def repeats(text, size):
  """Whether the last n-gram stands in the text before."""
  last = tuple(text[-size:])
  return len(text) >= size and any(tuple(text[n:n + size]) == last for n in range(len(text) - size))


def outputs(limit, prefix, required, forbidden):
  return [text for text in ALL[limit] if text[:len(prefix)] == prefix and all(contains(text, p) for p in required)
          and not any(contains(text, p) for p in forbidden)]


def draw_wishes(draw):
  """Limit, prefix, required and forbidden phrases, at random; often they contradict each other."""
  phrase = lambda longest: tuple(draw.choice([0, 1, 2], draw.integers(1, longest + 1)).tolist())
  phrases = lambda: tuple(dict.fromkeys(phrase(3) for _ in range(draw.integers(4))))
  return int(draw.integers(1, LONGEST + 1)), phrase(3) if draw.integers(3) == 0 else (), phrases(), phrases()


def feasible_wishes(count, seed):
  draw = np.random.default_rng(seed)
  all_of_them = (draw_wishes(draw) for _ in itertools.count())
  return list(itertools.islice((case for case in all_of_them if outputs(*case)), count))


@pytest.mark.parametrize('count', [60, pytest.param(1000, marks=pytest.mark.drill)])
def test_the_shortest_output_is_that_of_a_list_of_all(count):
  draw, met = np.random.default_rng(count), 0
  for _ in range(count):
    limit, prefix, required, forbidden = draw_wishes(draw)
    shortest = automaton.shortest(automaton.build(required, forbidden), prefix)
    lengths = [len(text) for text in outputs(limit, prefix, required, forbidden)]
    assert lengths and min(lengths) == shortest or not lengths and shortest > limit
    met += bool(lengths)
  assert count / 5 < met < count * 4 / 5


def rules_of(cases, size=0, min_length=0):
  """The rules of some sentences, and what they know of them."""
  tables = automaton.stack([automaton.build(required, forbidden) for _, _, required, forbidden in cases])
  limits = np.array([case[0] for case in cases], np.int32)
  rules, known = [constraints.phrases(EOS, tables.proposed.shape[-1] > 0)], [tables]
  if size:
    rules.append(constraints.no_repeat_ngram(size, int(limits.max()), EOS, min_length))
    known.append(constraints.Repeatable(limits, tables))
  return rules, known


def walk(cases, choose, **options):
  """Write one output for each case; choose(row, text, tokens that the rules leave) gives the next token."""
  (rules, known), limits = rules_of(cases, **options), np.array([case[0] for case in cases], np.int32)
  texts, states = [()] * len(cases), constraints.begun(rules, known, 1)
  logits = np.zeros((len(cases), 1, V), np.float32)
  leave = jax.jit(lambda states, t: constraints.obey(rules, known, states, constraints.Moment(
      t, limits, jnp.asarray(logits), jnp.zeros((len(cases), 1)))).logits)
  advance = jax.jit(lambda states, tokens: constraints.advanced(rules, known, states, tokens))
  for t in range(limits.max()):
    left = np.asarray(leave(states, np.full(len(cases), t, np.int32)))[:, 0] > search.NEVER
    going = [not text or text[-1] != EOS for text in texts]
    chosen = [cases[row][1][t] if t < len(cases[row][1]) else  # the prefix
              choose(row, text, set(np.flatnonzero(left[row]).tolist())) if going[row] else EOS
              for row, text in enumerate(texts)]
    texts = [(*text, token) if on else text for text, token, on in zip(texts, chosen, going)]
    states = advance(states, np.array(chosen, np.int32)[:, None])
  return texts


@pytest.mark.parametrize('count', [60, pytest.param(1000, marks=pytest.mark.drill)])
def test_the_rules_leave_exactly_the_tokens_that_can_be_completed(count):
  cases, draw, forced = feasible_wishes(count, seed=3), np.random.default_rng(5), 0
  known = [outputs(*case) for case in cases]

  def choose(row, text, left):
    nonlocal forced
    assert left == {one[len(text)] for one in known[row] if one[:len(text)] == text}, cases[row]
    forced += len(left) == 1
    return int(draw.choice(sorted(left)))

  for row, text in enumerate(walk(cases, choose)):
    assert text in known[row]
  assert forced > count / 2


@pytest.mark.parametrize('size', [1, 2, 3])
def test_no_ngram_is_repeated_unless_wishes_need_it(size):
  cases, draw, banned = feasible_wishes(60, seed=7), np.random.default_rng(5), 0
  plain = [outputs(*case) for case in cases]

  def choose(row, text, left):
    nonlocal banned
    possible = {one[len(text)] for one in plain[row] if one[:len(text)] == text}
    new = {token for token in possible if not repeats((*text, token), size)}
    assert left and new <= left <= possible
    if not cases[row][2]:  # nothing is required
      assert left == (new or possible)
    banned += left < possible
    return text[-1] if set(text[-1:]) & left and draw.integers(2) else int(draw.choice(sorted(left)))

  for row, text in enumerate(walk(cases, choose, size=size)):
    assert text in plain[row]
  assert banned


@pytest.mark.parametrize('prefix, required, token, is_left', [
    ((0, 0), (), 0, False),
    ((0, 0), ((0, 0, 0),), 0, True),  # goes on with the phrase
    ((4, 0, 4), (), 0, False),
    ((4, 0, 4), ((0, 1),), 0, False),  # what is repeated is not in the phrase
    ((0, 1, 4, 0), ((0, 1, 2), (0, 1, 1)), 1, True),
    ((0, 1, 1, 0), ((0, 1, 1),), 1, False)])  # the phrase is written already
def test_a_required_phrase_may_repeat_a_part_of_itself(prefix, required, token, is_left):
  case, seen = (12, prefix, required, ()), {}
  walk([case], lambda row, text, left: seen.update({text: left}) or min(left), size=2)
  assert (token in seen[prefix]) == is_left


def test_a_repetition_is_allowed_where_the_end_would_come_too_early():
  case, seen = (6, (), (), ((0,), (1,), (2,))), {}
  walk([case], lambda row, text, left: seen.update({text: left}) or max(left), size=1, min_length=2)
  assert seen == {(): {FREE, EOS}, (FREE,): {FREE, EOS}, (FREE, FREE): {EOS}}


def test_progress_counts_the_tokens_of_required_phrases():
  known = automaton.stack([automaton.build(((0, 1), (1, 2)), ((2, 1),)), automaton.build((), ())])
  rule, counts = constraints.phrases(EOS, are_required=True), []
  state, progress = rule.start(known, 1), rule.progress
  for token, proposed in ((0, {0, 1}), (FREE, {1}), (0, {0, 1}), (1, {1}), (2, {2})):
    assert set(np.asarray(progress.propose(known, state))[0, 0].tolist()) - {automaton.NO_TOKEN} == proposed
    tokens = jnp.full((2, 1), token)
    counts.append(progress.after(known, state, tokens[..., None])[:, 0, 0].tolist())
    state = rule.advance(known, state, tokens)
  assert counts == [[1, 0], [0, 0], [1, 0], [3, 0], [4, 0]]  # in 0 1 the 1 also begins 1 2
  assert progress.goal(known).tolist() == [4, 0]


def test_too_many_phrases_are_refused():
  required = tuple((3 * n, 3 * n + 1, 3 * n + 2) for n in range(9))
  assert automaton.build(required[:8], ()).goal == 24
  with pytest.raises(automaton.TooManyPhrases):
    automaton.build(required, ())
  forbidden = tuple((2 * n, 2 * n + 1) for n in range(1000))
  assert automaton.build((), forbidden[:250]).next.shape == (252, 501)
  for count in (300, 1000):
    with pytest.raises(automaton.TooManyPhrases):
      automaton.build((), forbidden[:count])
