"""Several models that search together: the next token has the mean of their probabilities."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int, PyTree

from transformer.search.problem import SearchCache, Step
from transformer.tokens import Array


class EnsembleCache(NamedTuple):
  """The caches of several models."""

  beams: tuple[PyTree, ...]  # each cache's own beams, which a search reorders
  rest: tuple[SearchCache, ...]  # the caches without them


def combine(steps: Sequence[Step]) -> Step[EnsembleCache]:
  """Make one step function of those of all models."""
  def step(cache: EnsembleCache, tokens: Int[Array, 'B W']) -> tuple[Float[Array, 'B W V'], EnsembleCache]:
    outputs = [one(part, tokens) for one, part in zip(steps, parts(cache))]
    log_probs = jnp.stack([jax.nn.log_softmax(logits, axis=-1) for logits, _ in outputs])
    return jax.nn.logsumexp(log_probs, axis=0) - jnp.log(len(outputs)), join([inner for _, inner in outputs])

  return step


def join(caches: Sequence[SearchCache]) -> EnsembleCache:
  """Make one cache of those of all models."""
  return EnsembleCache(tuple(cache.beams for cache in caches), tuple(cache._replace(beams=()) for cache in caches))


def parts(cache: EnsembleCache) -> list[SearchCache]:
  """Return the caches of the models."""
  return [rest._replace(beams=beams) for beams, rest in zip(cache.beams, cache.rest)]
