"""Sampling: each token drawn at random from the model's distribution, or from its likeliest part."""

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int, Key

from transformer.search.config import STRATEGIES, SearchConfig, Strategy
from transformer.search.problem import Algorithm, SearchProblem
from transformer.search.walk import Walk, walk
from transformer.tokens import AnyArray, Array


def truncate(logits: Float[Array, '*any V'], config: SearchConfig) -> Float[Array, '*any V']:
  """Return the logits of the distribution that sampling draws from, -inf where a token is cut off.

    temperature   softmax(logits / temperature)
    top_k         of that, the k most likely tokens, and any as likely as the last of them (Fan et al., 2018)
    top_p         of what is left, the nucleus: the fewest most likely tokens that together have probability p or more
                  (Holtzman et al., 2020, Eq. 2)
  """
  logits = logits / config.temperature
  if config.top_k:
    least = jax.lax.top_k(logits, min(config.top_k, logits.shape[-1]))[0][..., -1:]
    logits = jnp.where(logits >= least, logits, -jnp.inf)
  if config.top_p < 1.0:
    probabilities = jax.nn.softmax(logits, axis=-1)
    falling = jnp.flip(jnp.sort(probabilities, axis=-1), axis=-1)
    before = jnp.cumsum(falling, axis=-1) - falling  # of all that is more likely
    least = jnp.min(jnp.where(before < config.top_p, falling, jnp.inf), axis=-1, keepdims=True)
    logits = jnp.where(probabilities >= least, logits, -jnp.inf)
  return logits


def sample(problem: SearchProblem, config: SearchConfig) -> Algorithm:
  """Draw each token from the model's distribution, see truncate; the cache has one beam.

  Log-probabilities are the model's own, without temperature and truncation.

  Raises:
    ValueError: at the first step, when the sentences have no keys.
  """
  def draw(logits: Float[Array, 'B 1 V'], state: Walk) -> Int[Array, 'B 1']:
    keys = state.sentences.keys
    if keys is None:
      raise ValueError('the sentences have no keys; sampling needs one for each, see row_keys')
    at_place = jax.vmap(jax.random.fold_in)(keys, state.t)
    return jax.vmap(jax.random.categorical)(at_place, truncate(logits[:, 0], config))[:, None]

  return walk(problem, config, draw)


def row_keys(seed: int | Int[AnyArray, '*B'], rows: Int[AnyArray, ' B'], draws: int | Int[AnyArray, '*B'] = 0
             ) -> Key[Array, ' B']:
  """Make keys to sample with.

  Args:
    seed: one for all rows, or one of each.
    rows: numbers that differ, such as those of lines; 0 or more.
    draws: which sample of its row each key is for, from 0.
  """
  def key(seed: Int[Array, ''], row: Int[Array, ''], draw: Int[Array, '']) -> Key[Array, '']:
    first = jax.random.key(seed)
    # Below 0 there is no row, so that no other seed, row and draw is folded into the same key.
    return jax.random.fold_in(jnp.where(draw > 0, jax.random.fold_in(first, -draw), first), row)

  each = lambda numbers: jnp.broadcast_to(jnp.asarray(numbers, jnp.int32), rows.shape)
  return jax.vmap(key)(each(seed), jnp.asarray(rows), each(draws))


STRATEGIES.add('sample', Strategy(sample, width=lambda config: 1, outputs='one draw gives',
                                  options=frozenset({'temperature', 'top_k', 'top_p', 'seed'})), 'drawn at random')
