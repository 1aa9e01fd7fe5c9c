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

from transformer import masks
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


class Opening(NamedTuple):
  """The tokens that outputs begin with, as the beams of a single step: each attends to itself and those before it."""

  past: CachedKeyValue  # blank: room for one layer's keys and values of P entries
  step: Int[Array, ' B']
  mask: Bool[Array, 'B P P']
  beams: int  # W and T of the cache that is to hold them
  length: int

  @classmethod
  def of(cls, config: ModelConfig, origin: Int[Array, 'B W T'], places: int) -> 'Opening':
    """Return the opening of outputs whose cache has these origins, of P places."""
    batch, beams, length = origin.shape
    mask = jnp.broadcast_to(masks.causal_mask(places), (batch, places, places))
    return cls(blank(config, batch, places, 1), jnp.zeros(batch, jnp.int32), mask, beams, length)

  def spread(self, written: CachedKeyValue) -> CachedKeyValue:
    """Return a layer's cache in which every beam has written the P entries; those beyond its T places are left out."""
    def filled(leaf: Float[Array, '...'], axis: int) -> Float[Array, '...']:
      leaf = jax.lax.slice_in_dim(leaf, 0, min(leaf.shape[axis], self.length), axis=axis)
      room = [(0, 0)] * leaf.ndim
      room[axis] = (0, (self.length - leaf.shape[axis]) * self.beams)
      return jnp.pad(jnp.repeat(leaf, self.beams, axis=axis), room)

    return CachedKeyValue(filled(written.key, 3), filled(written.value, 2))


def num_bytes(cache: PyTree) -> int:
  """Return the size of a cache, or of one whose shapes are given (jax.eval_shape)."""
  return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(cache))
