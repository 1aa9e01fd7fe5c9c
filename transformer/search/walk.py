"""One hypothesis for each sentence, written token by token; greedy search."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int, PyTree

from transformer.search.config import SearchConfig
from transformer.search.constraints import Moment, obey
from transformer.search.hypotheses import NEVER, Hypotheses, write
from transformer.search.problem import SearchCache, SearchProblem
from transformer.search.stages import run_in_stages
from transformer.tokens import AnyArray, Array


class _Walk(NamedTuple):
  """The state while one hypothesis for each sentence is written."""

  t: Int[Array, '']  # tokens written so far
  cache: SearchCache
  last: Int[Array, 'B 1']  # newest token
  tokens: Int[Array, 'B 1 L']
  token_log_probs: Float[Array, 'B 1 L']
  ends: Int[Array, 'B 1']  # length once it has ended, else 0
  states: tuple[PyTree, ...]  # of the rules


def _end_in_time(logits: Float[Array, 'B W V'], t: Int[Array, ''], limits: Int[AnyArray, ' B'], eos_id: int,
                 min_length: int) -> Float[Array, 'B W V']:
  """Leave only EOS possible where a sentence has reached its last place; forbid EOS before min_length."""
  is_eos = (jnp.arange(logits.shape[-1]) == eos_id)[None, None]
  last = (t + 1 >= limits)[:, None, None]
  return jnp.where(jnp.where(last, ~is_eos, is_eos & (t < min_length)), NEVER, logits)


def walk(problem: SearchProblem, config: SearchConfig,
         choose: Callable[[Float[Array, 'B 1 V'], Int[Array, '']], Int[Array, 'B 1']]) -> Hypotheses:
  """Write one hypothesis for each sentence; choose(logits, place) gives the next token."""
  limits, rules, batch = problem.limits, problem.rules, problem.limits.shape[0]

  def advance(state: _Walk) -> _Walk:
    t = state.t
    logits, cache = problem.step(state.cache, state.last)
    normalizer = jax.nn.logsumexp(logits, axis=-1)  # before anything is forbidden: a forced end keeps its cost
    logits = obey(rules, state.states, Moment(t, limits, logits, normalizer)).logits
    logits = _end_in_time(logits, t, limits, problem.eos_id, config.min_length)
    chosen = choose(logits, t).astype(jnp.int32)
    gained = jnp.take_along_axis(logits, chosen[..., None], axis=-1)[..., 0] - normalizer
    states = tuple(rule.advance(moved, chosen) for rule, moved in zip(rules, state.states))
    alive = state.ends == 0
    chosen = jnp.where(alive, chosen, problem.filler)
    ends = jnp.where(alive & (chosen == problem.eos_id), t + 1, state.ends)
    gains = write(state.token_log_probs, jnp.where(alive, gained, 0.0), t)
    return _Walk(t + 1, cache, chosen, write(state.tokens, chosen, t), gains, ends, states)

  start = _Walk(jnp.zeros((), jnp.int32), problem.cache, jnp.full((batch, 1), problem.bos_id, jnp.int32),
                jnp.full((batch, 1, problem.length), problem.filler, jnp.int32), jnp.zeros((batch, 1, problem.length)),
                jnp.zeros((batch, 1), jnp.int32), tuple(rule.state for rule in rules))
  end = run_in_stages(start, advance, lambda state: (state.ends == 0).any(), problem.length, problem.growth)
  log_probs = end.token_log_probs.sum(-1)
  return Hypotheses(end.tokens, log_probs / config.penalty(end.ends), log_probs, end.ends, end.token_log_probs)


def greedy_search(problem: SearchProblem, config: SearchConfig) -> Hypotheses:
  """Take the most likely token at each step; the cache has one beam."""
  return walk(problem, config, lambda logits, t: logits.argmax(-1))
