"""Beam search (§6.1): the W best hypotheses of each sentence go on, and the W best that ended are collected."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int, PyTree, Shaped

from transformer.search import allocation, diverse
from transformer.search.config import STRATEGIES, SearchConfig, Strategy
from transformer.search.constraints import Moment, obey
from transformer.search.continuations import Continuations, likeliest, split
from transformer.search.hypotheses import NEVER, NOISE, Hypotheses, take, write
from transformer.search.problem import Growth, SearchCache, SearchProblem
from transformer.search.stages import run_in_stages
from transformer.search.walk import greedy_search
from transformer.tokens import AnyArray, Array


class _Beam(NamedTuple):
  """The state of a search."""

  t: Int[Array, '']  # tokens written so far
  cache: SearchCache
  last: Int[Array, 'B W']  # newest token of each live hypothesis
  tokens: Int[Array, 'B W L']  # live hypotheses
  token_log_probs: Float[Array, 'B W L']
  log_probs: Float[Array, 'B W']  # of the live hypotheses, best first in each group
  states: tuple[PyTree, ...]  # of the rules
  found: Hypotheses  # those that ended
  done: Bool[Array, ' B']  # the n_best of `found` are certain


_Advance = Callable[[_Beam], _Beam]


def _start(problem: SearchProblem, config: SearchConfig) -> _Beam:
  """Make the state before the first step: nothing written, nothing found."""
  batch, length, width = problem.limits.shape[0], problem.length, config.beam_size
  blank, nothing = jnp.full((batch, width, length), problem.filler, jnp.int32), jnp.full((batch, width), NEVER)
  none = Hypotheses(blank, nothing, nothing, jnp.zeros((batch, width), jnp.int32), jnp.zeros((batch, width, length)))
  # The beams start equal: only the first of each group may be continued.
  first = jnp.where(jnp.arange(width) % (width // config.groups) == 0, 0.0, NEVER)
  return _Beam(jnp.zeros((), jnp.int32), problem.cache, jnp.full((batch, width), problem.bos_id, jnp.int32), blank,
               jnp.zeros((batch, width, length)), jnp.broadcast_to(first[None], (batch, width)),
               tuple(rule.state for rule in problem.rules), none, jnp.zeros(batch, bool))


def _extended(rows: Shaped[Array, 'B W L'], options: Continuations, values: Shaped[Array, 'B W'], t: Int[Array, '']
              ) -> Shaped[Array, 'B W L']:
  """Return the rows of the parents of `options`, with `values` at place t."""
  return write(take(rows, options.parent), values, t)


def _collected(beam: _Beam, over: Continuations, scores: Float[Array, 'B W']) -> Hypotheses:
  """Return the W best of those found before and those that end now, with `scores`.

  A sentence that is done keeps what it has.
  """
  ended = Hypotheses(_extended(beam.tokens, over, over.token, beam.t), scores, over.total,
                     jnp.full_like(over.parent, beam.t + 1),
                     _extended(beam.token_log_probs, over, over.gained, beam.t))
  pool = jax.tree.map(lambda old, new: jnp.concatenate([old, new], axis=1), beam.found, ended)
  _, order = jax.lax.top_k(pool.scores, scores.shape[1])
  return jax.tree.map(lambda old, new: jnp.where(beam.done.reshape((-1,) + (1,) * (old.ndim - 1)), old, new),
                      beam.found, take(pool, order))


def _halving(beam: _Beam, advancing: Callable[[Int[AnyArray, ' B']], _Advance], limits: Int[AnyArray, ' B'], length: int,
             growth: Growth | None, halvings: int) -> Hypotheses:
  """Search, and go on with only the unfinished half of the rows once half are done, up to `halvings` times.

  Shapes stay static: each size of the batch has its own loop. If the first places of the cache are full before half
  the rows are done, all rows go on together.
  """
  rows = limits.shape[0]
  few = rows // 2 if halvings else 0  # unfinished rows at which the loop of this size ends
  first, advance = min(growth.length, length) if growth else length, advancing(limits)
  unfinished = lambda beam: (~beam.done).sum()
  run = lambda beam, places, few: jax.lax.while_loop(
      lambda beam: (beam.t < places) & (unfinished(beam) > few), advance, beam)

  def rest(beam: _Beam) -> Hypotheses:
    beam = beam._replace(cache=growth.grow(beam.cache, length)) if growth and first < length else beam
    return run(beam, length, 0).found

  def half(beam: _Beam) -> Hypotheses:
    chosen = jnp.argsort(beam.done, stable=True)[:few]
    part = jax.tree.map(lambda leaf: leaf[chosen] if leaf.ndim else leaf, beam)  # the number of a step has no rows
    found = _halving(part, advancing, limits[chosen], length, growth, halvings - 1)
    return jax.tree.map(lambda whole, some: whole.at[chosen].set(some), beam.found, found)

  beam = run(beam, first, few)
  return jax.lax.cond(unfinished(beam) > few, rest, half if few else lambda beam: beam.found, beam)


def beam_search(problem: SearchProblem, config: SearchConfig, stop_early: bool = True) -> Hypotheses:
  """Keep the W best hypotheses at each step, and the W best that ended.

  A hypothesis ends when EOS is among the W best continuations of its sentence. A sentence is done when no live
  hypothesis could enter its n_best finished ones, or come as close to them as NOISE, even if all its remaining tokens
  were certain: its log-probability can only fall and its penalty is largest at the limit (alpha >= 0). From then on its
  row is frozen, so neighbours in a batch cannot change it; finished ones beyond n_best are the best up to then.

  A coverage penalty is part of the scores of hypotheses that ended. Live ones, all of one length, have still to attend
  to the rest, so they are compared by log-probability alone; the penalty is never above 0, so the bound holds.

  Args:
    problem: what to search, with a cache of W = config.beam_size beams.
    config: how. With rules or a coverage penalty there are no halvings.
    stop_early: False goes on until every limit, for comparison.
  """
  step, rules, coverage, width = problem.step, problem.rules, problem.coverage, config.beam_size
  required = next(((number, rule.progress) for number, rule in enumerate(rules) if rule.progress), None)
  wanted = config.n_best if config.groups == 1 else width  # several groups may find the same

  def advancing(limits: Int[AnyArray, ' B']) -> _Advance:
    """Return one step of rows with these limits."""
    at_limit = config.penalty(limits)

    def choose(beam: _Beam, logits: Float[Array, 'B W V'], normalizer: Float[Array, 'B W']
               ) -> tuple[Continuations, Continuations]:
      moment = obey(rules, beam.states, Moment(beam.t, limits, logits, normalizer))
      if config.groups > 1:
        return diverse.choose(moment, beam.log_probs, problem.eos_id, config)
      if required:
        number, progress = required
        return allocation.choose(moment, beam.log_probs, problem.eos_id, config, progress, beam.states[number])
      return split(likeliest(moment, beam.log_probs, problem.eos_id, config.min_length, width), width, problem.eos_id)

    def advance(beam: _Beam) -> _Beam:
      logits, cache = step(beam.cache, beam.last)
      normalizer = jax.nn.logsumexp(logits, axis=-1)  # before anything is forbidden, as in greedy search
      live, over = choose(beam, logits, normalizer)
      score = over.total / config.penalty(beam.t + 1)
      if coverage is not None:
        score += jnp.take_along_axis(coverage(cache), over.parent, axis=1)
      found = _collected(beam, over, jnp.where(over.total > NEVER, score, NEVER))
      best = live.total.max(axis=1)
      bound = jnp.where(best > NEVER, best / at_limit, NEVER)
      certain = found.scores[:, wanted - 1] - NOISE >= bound
      states = tuple(rule.advance(take(state, live.parent), live.token) for rule, state in zip(rules, beam.states))
      return _Beam(beam.t + 1, cache._replace(beams=take(cache.beams, live.parent)), live.token,
                   _extended(beam.tokens, live, live.token, beam.t),
                   _extended(beam.token_log_probs, live, live.gained, beam.t), live.total, states, found,
                   beam.done | (stop_early & certain))

    return advance

  start = _start(problem, config)
  if config.halvings and not rules and coverage is None:  # these hold arrays of all rows
    return _halving(start, advancing, problem.limits, problem.length, problem.growth, config.halvings)
  return run_in_stages(start, advancing(problem.limits), lambda beam: ~beam.done.all(), problem.length,
                       problem.growth).found


def _greedy_or_beam(problem: SearchProblem, config: SearchConfig) -> Hypotheses:
  """Search greedily for a beam of one: the same result for less work."""
  return (greedy_search if config.beam_size == 1 else beam_search)(problem, config)


STRATEGIES.add('beam', Strategy(_greedy_or_beam, width=lambda config: config.beam_size, outputs='beam_size keeps',
                                options=frozenset({'beam_size', 'groups'})), 'the likeliest found')
