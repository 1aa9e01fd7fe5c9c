"""The coverage penalty of Wu et al. (2016, §7): a good translation has attended to every token of its source.

    s(Y, X) = log P(Y | X) / lp(Y) + cp(X; Y)        cp(X; Y) = β Σ_i log(min(Σ_j p_ij, 1))

p_ij is the weight that cross-attention gave to source token i in the step that wrote target token j, as alignments read
it: the mean over the heads of one layer (middle). EOS of the source does not count: it needs no translation.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Bool, Float, Int, PyTree

from transformer.search.problem import SearchCache, Step
from transformer.tokens import AnyArray, Array

# (cache, newest tokens) -> (logits, cache, cross-attention)
AttendStep = Callable[[SearchCache, Int[Array, 'B W']],
                      tuple[Float[Array, 'B W V'], SearchCache, Float[Array, 'B W S']]]


class CoveredCache(NamedTuple):
  """A model's cache, and how much attention each hypothesis has given. A search moves both with the hypotheses."""

  beams: tuple[PyTree, Float[Array, 'B W S']]  # the model's own, and the weights summed over the steps so far
  rest: SearchCache  # the model's cache without its beams
  counted: Bool[AnyArray, 'B S']  # which source tokens have to be covered


def middle(layers: int) -> int:
  """Return the layer whose attention best says what is translated, the lower of two (Chen et al., 2020, Table 3)."""
  return (layers - 1) // 2


def penalty(attended: Float[AnyArray, 'B W S'], counted: Bool[AnyArray, 'B S'], beta: float) -> Float[Array, 'B W']:
  """Return cp of hypotheses, never above 0.

  Args:
    attended: Σ_j p_ij.
    counted: which source tokens i count.
    beta: β, 0 or more.
  """
  covered = jnp.clip(attended, jnp.finfo(jnp.float32).tiny, 1.0)  # a weight may be too small for float32: avoids log 0
  return beta * jnp.where(counted[:, None], jnp.log(covered), 0.0).sum(-1)


def ordinary(segments: Int[AnyArray, 'B S']) -> Bool[Array, 'B S']:
  """Find the tokens of sources that end in EOS, without EOS; segments are 0 under padding."""
  return jnp.pad(segments[:, 1:] > 0, ((0, 0), (0, 1)))


def cover(step: AttendStep) -> Step[CoveredCache]:
  """Make a step function that sums up the attention of hypotheses, of the model's, which returns its cross-attention."""
  def advance(covered: CoveredCache, tokens: Int[Array, 'B W']) -> tuple[Float[Array, 'B W V'], CoveredCache]:
    inner, attended = covered.beams
    logits, cache, weights = step(covered.rest._replace(beams=inner), tokens)
    return logits, covered._replace(beams=(cache.beams, attended + weights), rest=cache._replace(beams=()))

  return advance


def begin(cache: SearchCache, beams: int, counted: Bool[AnyArray, 'B S']) -> CoveredCache:
  """Make the cache of such a step function of the model's, before the first step; for `counted` see penalty."""
  batch, length = counted.shape
  return CoveredCache((cache.beams, jnp.zeros((batch, beams, length))), cache._replace(beams=()), counted)
