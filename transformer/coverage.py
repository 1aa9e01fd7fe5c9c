"""The coverage penalty of Wu et al. (2016, §7): a good translation has looked at every token of its source.

    s(Y, X) = log P(Y | X) / lp(Y) + cp(X; Y)        cp(X; Y) = β Σ_i log(min(Σ_j p_ij, 1))

p_ij is the weight that cross-attention gave to source token i in the step that wrote target token j, as alignments read
it: the mean over the heads of one layer (middle). EOS of the source is not counted: nothing of it is to be translated.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

AttendStep = Callable[[Any, jax.Array], tuple[jax.Array, Any, jax.Array]]


class CoveredCache(NamedTuple):
  """A model's cache, and what each hypothesis has looked at. A search moves both with the hypotheses."""

  beams: tuple[Any, jax.Array]  # the model's own, and [B, W, S] float32: weights added up over the steps so far
  rest: Any  # the model's cache without its beams


def middle(layers: int) -> int:
  """The layer whose attention says best what is translated, the lower of two (Chen et al., 2020, Table 3)."""
  return (layers - 1) // 2


def penalty(looked: jax.Array, counted: jax.Array, beta: float) -> jax.Array:
  """cp of hypotheses, [B, W], never above 0.

  Args:
    looked: [B, W, S] float32, Σ_j p_ij.
    counted: [B, S] bool, the source tokens i.
    beta: β, 0 or more.
  """
  covered = jnp.clip(looked, jnp.finfo(jnp.float32).tiny, 1.0)  # a weight may be too small for float32; log 0 is none
  return beta * jnp.where(counted[:, None], jnp.log(covered), 0.0).sum(-1)


def ordinary(segments: jax.Array) -> jax.Array:
  """[B, S] bool: tokens of sources that end in EOS, without it; segments [B, S] are 0 under padding."""
  return jnp.pad(segments[:, 1:] > 0, ((0, 0), (0, 1)))


def cover(step: AttendStep, cache: Any, shape: tuple[int, int, int], grow: Callable[[Any, int], Any]
          ) -> tuple[Callable, CoveredCache, Callable]:
  """A step function that adds up what hypotheses look at; its cache; and how that grows (search.Growth).

  Args:
    step: (cache, tokens [B, W]) -> (logits, cache, weights [B, W, S]).
    cache: the model's, before the first step.
    shape: (B, W, S).
    grow: how the model's cache does.
  """
  def apart(inner: Any, looked: jax.Array) -> CoveredCache:
    return CoveredCache((inner.beams, looked), inner._replace(beams=()))

  def whole(covered: CoveredCache) -> Any:
    return covered.rest._replace(beams=covered.beams[0])

  def advance(covered: CoveredCache, tokens: jax.Array) -> tuple[jax.Array, CoveredCache]:
    logits, inner, weights = step(whole(covered), tokens)
    return logits, apart(inner, covered.beams[1] + weights)

  longer = lambda covered, places: apart(grow(whole(covered), places), covered.beams[1])
  return advance, apart(cache, jnp.zeros(shape)), longer
