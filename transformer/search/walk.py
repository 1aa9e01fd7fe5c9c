"""One hypothesis for each sentence, written token by token; greedy search."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int, PyTree

from transformer.search.beginning import beginning
from transformer.search.config import SearchConfig
from transformer.search.constraints import Moment, advanced, obey
from transformer.search.hypotheses import NEVER, Hypotheses, write
from transformer.search.problem import Algorithm, SearchProblem, Sentences
from transformer.tokens import AnyArray, Array


class Walk(NamedTuple):
  """The state while one hypothesis for each sentence is written."""

  sentences: Sentences
  t: Int[Array, ' B']  # tokens written so far
  last: Int[Array, 'B 1']  # newest token
  tokens: Int[Array, 'B 1 L']
  token_log_probs: Float[Array, 'B 1 L']
  ends: Int[Array, 'B 1']  # length once it has ended, else 0
  states: tuple[PyTree, ...]  # of the rules
  done: Bool[Array, ' B']
  given_up: Bool[Array, ' B']


def _end_in_time(logits: Float[Array, 'B W V'], t: Int[Array, ' B'], limits: Int[AnyArray, ' B'], eos_id: int,
                 min_length: int) -> Float[Array, 'B W V']:
  """Leave only EOS possible where a sentence has reached its last place; forbid EOS before min_length."""
  is_eos = (jnp.arange(logits.shape[-1]) == eos_id)[None, None]
  last = (t + 1 >= limits)[:, None, None]
  return jnp.where(jnp.where(last, ~is_eos, is_eos & (t < min_length)[:, None, None]), NEVER, logits)


def walk(problem: SearchProblem, config: SearchConfig,
         choose: Callable[[Float[Array, 'B 1 V'], Walk], Int[Array, 'B 1']]) -> Algorithm:
  """Write one hypothesis for each sentence; choose(logits, state) gives the next token.

  A sentence all of whose next tokens are forbidden is done, and nothing is found for it.
  """
  def start(sentences: Sentences) -> Walk:
    t, last, tokens, states = beginning(problem, sentences, 1)
    given_up = problem.outgrown(t, sentences.limits)
    return Walk(sentences, t, last, tokens, jnp.zeros(tokens.shape), jnp.zeros_like(last), states, given_up, given_up)

  def advance(state: Walk) -> Walk:
    t, (cache, limits, _, known, _) = state.t, state.sentences
    logits, cache = problem.step(cache, state.last)
    normalizer = jax.nn.logsumexp(logits, axis=-1)  # before anything is forbidden: a forced end keeps its cost
    logits = obey(problem.rules, known, state.states, Moment(t, limits, logits, normalizer)).logits
    logits = _end_in_time(logits, t, limits, problem.eos_id, config.min_length)
    chosen = choose(logits, state).astype(jnp.int32)
    gained = jnp.take_along_axis(logits, chosen[..., None], axis=-1)[..., 0] - normalizer
    states = advanced(problem.rules, known, state.states, chosen)
    alive = ~state.done[:, None] & (logits.max(-1) > NEVER)
    tokens = write(state.tokens, jnp.where(alive, chosen, problem.filler), t)
    gains = write(state.token_log_probs, jnp.where(alive, gained, 0.0), t)
    ended = alive & (chosen == problem.eos_id)
    ends = jnp.where(ended, t[:, None] + 1, state.ends)
    t = jnp.where(state.done, t, t + 1)
    done = state.done | (ended | ~alive)[:, 0]
    given_up = ~done & problem.outgrown(t, limits)
    kept = lambda new, old: jnp.where(state.done[:, None, None], old, new)  # a row that is done stays as it is
    return Walk(state.sentences._replace(cache=cache), t, chosen, kept(tokens, state.tokens),
                kept(gains, state.token_log_probs), ends, states, done | given_up, state.given_up | given_up)

  def finish(state: Walk) -> Hypotheses:
    exists, log_probs = state.ends > 0, state.token_log_probs.sum(-1)
    return Hypotheses(jnp.where(exists[..., None], state.tokens, problem.filler),
                      jnp.where(exists, log_probs / config.penalty(jnp.maximum(state.ends, 1)), NEVER),
                      jnp.where(exists, log_probs, NEVER), state.ends, state.token_log_probs)

  return Algorithm(start, advance, finish)


def greedy_search(problem: SearchProblem, config: SearchConfig) -> Algorithm:
  """Take the most likely token at each step; the cache has one beam."""
  return walk(problem, config, lambda logits, state: logits.argmax(-1))
