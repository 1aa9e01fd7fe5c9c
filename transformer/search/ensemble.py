"""Several models that search together: the next token has the mean of their probabilities."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int, PyTree

from transformer.search.problem import Grow, SearchCache, Step
from transformer.tokens import Array


class EnsembleCache(NamedTuple):
  """The caches of several models."""

  beams: tuple[PyTree, ...]  # each cache's own beams, which a search reorders
  rest: tuple[SearchCache, ...]  # the caches without them


def combine(steps: Sequence[Step], caches: Sequence[SearchCache], grows: Sequence[Grow] = ()
            ) -> tuple[Step[EnsembleCache], EnsembleCache, Grow[EnsembleCache]]:
  """Make one step function of several.

  Args:
    steps, caches: one of each for every model.
    grows: how each cache grows (Growth.grow); may be left out where none has to.

  Returns:
    The step function, its cache, and how that grows.
  """
  parts = lambda cache: [rest._replace(beams=beams) for beams, rest in zip(cache.beams, cache.rest)]

  def step(cache: EnsembleCache, tokens: Int[Array, 'B W']) -> tuple[Float[Array, 'B W V'], EnsembleCache]:
    outputs = [one(part, tokens) for one, part in zip(steps, parts(cache))]
    log_probs = jnp.stack([jax.nn.log_softmax(logits, axis=-1) for logits, _ in outputs])
    return jax.nn.logsumexp(log_probs, axis=0) - jnp.log(len(outputs)), join([inner for _, inner in outputs])

  def join(parts: Sequence[SearchCache]) -> EnsembleCache:
    return EnsembleCache(tuple(part.beams for part in parts), tuple(part._replace(beams=()) for part in parts))

  grow = lambda cache, length: join([one(part, length) for one, part in zip(grows, parts(cache))])
  return step, join(caches), grow
