"""The tokens that outputs begin with, such as a prompt: read in one pass, before the first step of a search.

They cost nothing: their log-probability in an output is 0. But they count in its length, and so in limits, which have to
be larger.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Int, PyTree

from transformer.search.constraints import advanced, begun
from transformer.search.problem import Cache, SearchProblem, Sentences, Step
from transformer.tokens import Array, Tokens


class Beginning(NamedTuple):
  """What a search starts from; the hypotheses of a sentence are equal."""

  t: Int[Array, ' B']  # tokens written
  last: Int[Array, 'B W']  # the newest of them, else BOS: what the first step reads
  tokens: Int[Array, 'B W L']
  states: tuple[PyTree, ...]  # of the rules


def read(step: Step[Cache], cache: Cache, opening: Tokens, beams: int) -> Cache:
  """Feed a step function what the decoder reads of written tokens, one after the other: for models without prefill.

  Args:
    step: of a SearchProblem.
    cache: before the first step.
    opening: shift_right of what is written, [B, P], so BOS and all but the last; rows may be shorter or empty.
    beams: W.
  """
  def feed(cache: Cache, place: tuple[Int[Array, ' B'], Bool[Array, ' B']]) -> tuple[Cache, None]:
    ids, is_real = place
    _, after = step(cache, jnp.broadcast_to(ids[:, None], (len(ids), beams)))
    return _where(is_real, after, cache), None

  return jax.lax.scan(feed, cache, (jnp.transpose(opening.ids), jnp.transpose(opening.segments > 0)))[0]


def beginning(problem: SearchProblem, sentences: Sentences, beams: int) -> Beginning:
  """Return what W hypotheses of each sentence start from."""
  batch = sentences.limits.shape[0]
  blank = jnp.full((batch, beams, problem.length), problem.filler, jnp.int32)
  states, last = begun(problem.rules, sentences.rules, beams), jnp.full((batch, beams), problem.bos_id, jnp.int32)
  t = sentences.num_written
  if sentences.written is None:
    return Beginning(t, last, blank, states)
  is_written = jnp.asarray(sentences.written.segments)[:, :problem.length] > 0  # beyond is padding alone
  ids = jnp.where(is_written, jnp.asarray(sentences.written.ids)[:, :problem.length], problem.filler)
  tokens = jnp.broadcast_to(ids[:, None], (batch, beams, ids.shape[1]))
  newest = jnp.take_along_axis(ids, jnp.maximum(t - 1, 0)[:, None], axis=1)
  return Beginning(t, jnp.where((t > 0)[:, None], newest, last), blank.at[..., :ids.shape[1]].set(tokens),
                   _after(problem, sentences, states, tokens, is_written))


def _after(problem: SearchProblem, sentences: Sentences, states: tuple[PyTree, ...], tokens: Int[Array, 'B W P'],
           is_written: Bool[Array, 'B P']) -> tuple[PyTree, ...]:
  """Return the states of the rules after the tokens that are written."""
  def follow(states: tuple[PyTree, ...], place: tuple[Int[Array, 'B W'], Bool[Array, ' B']]
             ) -> tuple[tuple[PyTree, ...], None]:
    token, here = place
    return _where(here, advanced(problem.rules, sentences.rules, states, token), states), None

  return jax.lax.scan(follow, states, (jnp.moveaxis(tokens, 2, 0), jnp.transpose(is_written)))[0]


def _where(rows: Bool[Array, ' B'], new: PyTree, old: PyTree) -> PyTree:
  """Return the new leaves in some rows, and the old ones in the others."""
  return jax.tree.map(lambda a, b: jnp.where(rows.reshape(-1, *[1] * (b.ndim - 1)), a, b), new, old)
