"""What the hypotheses of a search have seen, kept once: a hypothesis that moves leaves its keys and values where they are.

Place t of the cache holds what each of the W beams wrote at step t. A hypothesis knows by `origin` in which beam each of
its tokens was written, and looks at those entries alone; the others are masked. When a search reorders its beams only
`origin`, a few bytes for each token, moves:

    beam 0 wrote  a  b  c       origin of the hypothesis  a B c   is  0 1 0
    beam 1 wrote  A  B  C
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from transformer.config import ModelConfig


class KeyValue(NamedTuple):
  """Keys and values of the entries that queries look at."""

  key: jax.Array  # [B, M, G, K]
  value: jax.Array  # [B, M, G, U]


def keep(memory: KeyValue) -> KeyValue:
  """Keys as [B, G, K, M] and values as [B, G, M, U]: laid out so that products with queries and with weights, which
  are computed at every step, find them in the order in which they multiply."""
  return KeyValue(memory.key.transpose(0, 2, 3, 1), memory.value.swapaxes(1, 2))


def view(kept: KeyValue) -> KeyValue:
  """What keep() was given: the order that attention knows. Nothing is moved."""
  return KeyValue(kept.key.transpose(0, 3, 1, 2), kept.value.swapaxes(1, 2))


def blank(config: ModelConfig, batch: int, beams: int, length: int) -> KeyValue:
  """Room for one layer's keys and values of T·W entries, as they are kept."""
  room = lambda width: jnp.zeros((batch, length * beams, config.kv_heads, width), jnp.dtype(config.dtype))
  return keep(KeyValue(room(config.key_size), room(config.value_size)))


def origins(batch: int, beams: int, length: int) -> jax.Array:
  """[B, W, T] int32: every hypothesis in the beam of its own number."""
  return jnp.broadcast_to(jnp.arange(beams, dtype=jnp.int32)[None, :, None], (batch, beams, length))


def stay(origin: jax.Array, step: jax.Array) -> jax.Array:
  """`origin` [B, W, T] with the newest token, of place `step`, in each hypothesis's own beam."""
  own = jnp.broadcast_to(jnp.arange(origin.shape[1], dtype=origin.dtype)[None, :, None], (*origin.shape[:2], 1))
  return jax.lax.dynamic_update_slice_in_dim(origin, own, step, axis=2)


def visible(origin: jax.Array, step: jax.Array) -> jax.Array:
  """[B, W, T·W] bool: the entries of each hypothesis's own tokens, up to place `step`."""
  batch, beams, length = origin.shape
  own = origin[..., None] == jnp.arange(beams)[None, None, None]
  return (own & (jnp.arange(length) <= step)[None, None, :, None]).reshape(batch, beams, length * beams)


def write(past: KeyValue, newest: KeyValue, step: jax.Array) -> KeyValue:
  """`past` with the beams' newest keys and values [B, W, G, K] at place `step`."""
  place, newest = step * newest.key.shape[1], keep(newest)
  return KeyValue(jax.lax.dynamic_update_slice_in_dim(past.key, newest.key, place, axis=3),
                  jax.lax.dynamic_update_slice_in_dim(past.value, newest.value, place, axis=2))


def grow(cache: Any, length: int) -> Any:
  """A Cache whose `beams` are origins and whose `past` are layers, with room for `length` places."""
  origin, beams = cache.beams, cache.beams.shape[1]
  more = length - origin.shape[2]
  longer = lambda a: jnp.pad(a, ((0, 0), (0, more * beams), (0, 0), (0, 0)))
  return cache._replace(beams=jnp.pad(origin, ((0, 0), (0, 0), (0, more))),
                        past=[keep(jax.tree.map(longer, view(layer))) for layer in cache.past])


def num_bytes(cache: object) -> int:
  """What a cache, or the shapes of one (jax.eval_shape), takes."""
  return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(cache))
