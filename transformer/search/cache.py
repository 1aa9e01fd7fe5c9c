"""The keys and values of past tokens, stored once: a hypothesis that moves leaves them where they are.

Place t of the cache holds what each of the W beams wrote at step t. A hypothesis knows by `origin` in which beam each of
its tokens was written, and attends to those entries alone; the others are masked. When a search reorders its beams only
`origin`, a few bytes for each token, moves:

    beam 0 wrote  a  b  c       origin of the hypothesis  a B c   is  0 1 0
    beam 1 wrote  A  B  C
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int, PyTree

from transformer.config import ModelConfig
from transformer.tokens import Array


class KeyValue(NamedTuple):
  """Keys and values of the entries that queries attend to."""

  key: Float[Array, 'B M G K']
  value: Float[Array, 'B M G U']


class CachedKeyValue(NamedTuple):
  """Keys and values as a cache stores them, see to_cache_layout."""

  key: Float[Array, 'B G K M']
  value: Float[Array, 'B G M U']


def to_cache_layout(memory: KeyValue) -> CachedKeyValue:
  """Arrange keys and values in the order in which the products with queries and with weights, computed at every step,
  multiply them."""
  return CachedKeyValue(memory.key.transpose(0, 2, 3, 1), memory.value.swapaxes(1, 2))


def from_cache_layout(stored: CachedKeyValue) -> KeyValue:
  """Return the keys and values in the order that attention takes. XLA moves nothing for it."""
  return KeyValue(stored.key.transpose(0, 3, 1, 2), stored.value.swapaxes(1, 2))


def blank(config: ModelConfig, batch: int, beams: int, length: int) -> CachedKeyValue:
  """Make room for one layer's keys and values of T·W entries."""
  room = lambda width: jnp.zeros((batch, length * beams, config.kv_heads, width), jnp.dtype(config.dtype))
  return to_cache_layout(KeyValue(room(config.key_size), room(config.value_size)))


def origins(batch: int, beams: int, length: int) -> Int[Array, 'B W T']:
  """Make the first origins: each hypothesis has written in the beam of its own number."""
  return jnp.broadcast_to(jnp.arange(beams, dtype=jnp.int32)[None, :, None], (batch, beams, length))


def with_own_token(origin: Int[Array, 'B W T'], step: Int[Array, ' B']) -> Int[Array, 'B W T']:
  """Return the origins with the token of place `step` written in each hypothesis's own beam."""
  here = jnp.arange(origin.shape[2])[None, None] == step[:, None, None]
  return jnp.where(here, jnp.arange(origin.shape[1], dtype=origin.dtype)[None, :, None], origin)


def visible(origin: Int[Array, 'B W T'], step: Int[Array, ' B']) -> Bool[Array, 'B W T*W']:
  """Return the mask of each hypothesis: the entries of its own tokens, up to place `step`."""
  batch, beams, length = origin.shape
  own = origin[..., None] == jnp.arange(beams)[None, None, None]
  written = jnp.arange(length)[None] <= step[:, None]
  return (own & written[:, None, :, None]).reshape(batch, beams, length * beams)


def write(past: CachedKeyValue, newest: KeyValue, step: Int[Array, ' B']) -> CachedKeyValue:
  """Return `past` with the newest keys and values of the beams, of W entries, at place `step` of each sentence."""
  place, entry = step * newest.key.shape[1], to_cache_layout(newest)
  put = lambda axis: jax.vmap(lambda old, new, start: jax.lax.dynamic_update_slice_in_dim(old, new, start, axis=axis))
  return CachedKeyValue(put(2)(past.key, entry.key, place), put(1)(past.value, entry.value, place))


def num_bytes(cache: PyTree) -> int:
  """Return the size of a cache, or of one whose shapes are given (jax.eval_shape)."""
  return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(cache))
