"""Beam search (§6.1): the W best hypotheses of each sentence go on, and the W best that ended are collected."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int, PyTree, Shaped

from transformer.search import allocation, diverse
from transformer.search.beginning import beginning
from transformer.search.config import STRATEGIES, SearchConfig, Strategy
from transformer.search.constraints import Moment, advanced, obey
from transformer.search.continuations import Continuations, likeliest, split
from transformer.search.early_stopping import EARLY_STOPPING, Standing
from transformer.search.hypotheses import NEVER, Hypotheses, take, write
from transformer.search.problem import Algorithm, SearchProblem, Sentences
from transformer.search.walk import greedy_search
from transformer.tokens import Array


class _Beam(NamedTuple):
  """The state of a search. K hypotheses that ended are kept for each of the G groups."""

  sentences: Sentences
  t: Int[Array, ' B']  # tokens written so far
  last: Int[Array, 'B W']  # newest token of each live hypothesis
  tokens: Int[Array, 'B W L']  # live hypotheses
  token_log_probs: Float[Array, 'B W L']
  log_probs: Float[Array, 'B W']  # of the live hypotheses, best first in each group
  states: tuple[PyTree, ...]  # of the rules
  found: Hypotheses  # those that ended, [B, G*K], best first in each group; each once
  ended: Float[Array, 'B W'] | None  # the best scores in each group of what ended there, elsewhere too or not; None: one group
  done: Bool[Array, ' B']  # see early_stopping
  given_up: Bool[Array, ' B']


def _extended(rows: Shaped[Array, 'B W L'], options: Continuations, values: Shaped[Array, 'B W'], t: Int[Array, ' B']
              ) -> Shaped[Array, 'B W L']:
  """Return the rows of the parents of `options`, with `values` at place t."""
  return write(take(rows, options.parent), values, t)


def _ended(beam: _Beam, over: Continuations, scores: Float[Array, 'B W']) -> Hypotheses:
  """Return the hypotheses that end now, with their scores."""
  length = jnp.broadcast_to(beam.t[:, None] + 1, over.parent.shape)
  return Hypotheses(_extended(beam.tokens, over, over.token, beam.t), scores, over.total, length,
                    _extended(beam.token_log_probs, over, over.gained, beam.t))


def _collected(found: Hypotheses, ended: Hypotheses, groups: int) -> Hypotheses:
  """Return the best of those found before and those that end now, as many in each group as there were."""
  apart = lambda tree: jax.tree.map(lambda leaf: leaf.reshape(leaf.shape[0] * groups, -1, *leaf.shape[2:]), tree)
  pool = jax.tree.map(lambda old, new: jnp.concatenate([old, new], axis=1), apart(found), apart(ended))
  _, order = jax.lax.top_k(pool.scores, found.scores.shape[1] // groups)
  return jax.tree.map(lambda leaf, old: leaf.reshape(old.shape), take(pool, order), found)


def beam_search(problem: SearchProblem, config: SearchConfig) -> Algorithm:
  """Keep the W best hypotheses at each step, and the W best that ended.

  A hypothesis ends when EOS is among the W best continuations of its sentence. A sentence is done when no live
  hypothesis could enter its n_best finished ones, or come as close to them as NOISE, even if all its remaining tokens
  were certain: its log-probability can only fall and its penalty is largest at the limit (alpha >= 0). From then on its
  row is frozen, so neighbours in a batch cannot change it; finished ones beyond n_best are the best up to then. So it is
  with early_stopping 'exact'; see early_stopping for other ways.

  Each group of diverse beam search is a search of its own, and done when as many as it keeps have ended and are certain,
  whatever other groups have found; the sentence is done when all groups are and there are n_best different outputs.

  A coverage penalty is part of the scores of hypotheses that ended. Live ones, all of one length, have still to attend
  to the rest, so they are compared by log-probability alone; the penalty is never above 0, so the bound holds.

  Args:
    problem: what to search; the caches have W = config.beam_size beams.
    config: how.
  """
  width, groups = config.beam_size, config.groups
  size = width // groups
  kept = size if groups == 1 else width  # K: where groups find the same, the others' further ones take the place
  wanted = config.n_best if groups == 1 else size
  required = next(((number, rule.progress) for number, rule in enumerate(problem.rules) if rule.progress), None)

  def start(sentences: Sentences) -> _Beam:
    batch, length = sentences.limits.shape[0], problem.length
    t, last, tokens, states = beginning(problem, sentences, width)
    nothing = jnp.full((batch, groups * kept), NEVER)
    none = Hypotheses(jnp.full((*nothing.shape, length), problem.filler, jnp.int32), nothing, nothing,
                      jnp.zeros(nothing.shape, jnp.int32), jnp.zeros((*nothing.shape, length)))
    # The beams start equal: only the first of each group may be continued.
    first = jnp.where(jnp.arange(width) % size == 0, 0.0, NEVER)
    given_up = problem.outgrown(t, sentences.limits)
    return _Beam(sentences, t, last, tokens, jnp.zeros(tokens.shape), jnp.broadcast_to(first[None], (batch, width)),
                 states, none, None if groups == 1 else nothing[:, :width], given_up, given_up)

  def choose(beam: _Beam, logits: Float[Array, 'B W V'], normalizer: Float[Array, 'B W']
             ) -> tuple[Continuations, Continuations]:
    limits, known = beam.sentences.limits, beam.sentences.rules
    moment = obey(problem.rules, known, beam.states, Moment(beam.t, limits, logits, normalizer))
    if groups > 1:
      return diverse.choose(moment, beam.tokens, beam.log_probs, problem.eos_id, config)
    if required:
      number, progress = required
      return allocation.choose(moment, beam.log_probs, problem.eos_id, config, progress, known[number],
                               beam.states[number])
    return split(likeliest(moment, beam.log_probs, problem.eos_id, config.min_length, width), width, problem.eos_id)

  def advance(beam: _Beam) -> _Beam:
    t, (cache, limits, _, known, _) = beam.t, beam.sentences
    logits, cache = problem.step(cache, beam.last)
    normalizer = jax.nn.logsumexp(logits, axis=-1)  # before anything is forbidden, as in greedy search
    live, over = choose(beam, logits, normalizer)
    scores = over.total / config.penalty(t + 1)[:, None]
    if problem.coverage is not None:
      scores += jnp.take_along_axis(problem.coverage(cache), over.parent, axis=1)
    ended = _ended(beam, over, jnp.where(over.total > NEVER, scores, NEVER))
    found = _collected(beam.found, diverse.without_repeats(ended, groups), groups)
    found = jax.tree.map(lambda new, old: jnp.where(beam.done.reshape(-1, *[1] * (old.ndim - 1)), old, new),
                         found, beam.found)
    by_group = lambda values: values.reshape(values.shape[0], groups, -1)
    best, enough = None, jnp.bool_(True)
    if beam.ended is not None:
      pool = jnp.concatenate([by_group(beam.ended), by_group(ended.scores)], axis=-1)
      best, enough = jax.lax.top_k(pool, size)[0].reshape(beam.ended.shape), found.found.sum(axis=-1) >= config.n_best
    standing = Standing(by_group(found.scores if best is None else best), by_group(live.total).max(axis=-1),
                        config.penalty(t + 1)[:, None], config.penalty(limits)[:, None], wanted, size)
    enough &= EARLY_STOPPING[config.early_stopping](standing).all(axis=-1)
    t = jnp.where(beam.done, t, t + 1)
    done = beam.done | enough | (t >= limits)
    given_up = ~done & problem.outgrown(t, limits)
    cache = cache._replace(beams=take(cache.beams, live.parent))
    states = advanced(problem.rules, known, tuple(take(state, live.parent) for state in beam.states), live.token)
    return _Beam(beam.sentences._replace(cache=cache), t, live.token, _extended(beam.tokens, live, live.token, beam.t),
                 _extended(beam.token_log_probs, live, live.gained, beam.t), live.total, states, found, best,
                 done | given_up, beam.given_up | given_up)

  return Algorithm(start, advance, lambda beam: diverse.joined(beam.found, config) if groups > 1 else beam.found)


def _greedy_or_beam(problem: SearchProblem, config: SearchConfig) -> Algorithm:
  """Search greedily for a beam of one, which ends with its first EOS; beam_search could go on past it, by early_stopping."""
  return (greedy_search if config.beam_size == 1 else beam_search)(problem, config)


STRATEGIES.add('beam', Strategy(_greedy_or_beam, width=lambda config: config.beam_size, outputs='beam_size keeps',
                                options=frozenset({'beam_size', 'groups', 'early_stopping'})), 'the likeliest found')
