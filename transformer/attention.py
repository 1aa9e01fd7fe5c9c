"""Attention, §3.2: the scores, many heads, and the record that a cached head keeps.

Letters: B sentences, Q queries, M entries looked at, D d_model, H heads, K d_k, W beams, T cache length.
"""

import math
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer import initializers
from transformer.config import ModelConfig

WITNESS = 'witness'  # the collection into which heads put their weights when someone asks (model.inspect)


class KeyValue(NamedTuple):
  """Keys and values of the entries that queries look at."""

  key: jax.Array  # [B, M, H, K]
  value: jax.Array  # [B, M, H, K]


def attention_weights(query: jax.Array, key: jax.Array, mask: jax.Array) -> jax.Array:
  """softmax(Q Kᵀ / √d_k) of Eq. 1, in float32.

  A masked score is the dtype's own minimum, so a masked weight is exactly 0. A query that may look at nothing
  has weights 0 throughout (not NaN, not uniform), and so the context 0.

  Args:
    query: [B, Q, H, K]
    key: [B, M, H, K]
    mask: [B or 1, Q, M] bool, True where the query may look.

  Returns:
    [B, H, Q, M] float32; each row sums to 1, or to 0 where the mask is empty.
  """
  scores = jnp.einsum('bqhk,bmhk->bhqm', query, key, preferred_element_type=jnp.float32) / math.sqrt(query.shape[-1])
  mask = mask[:, None]
  scores = jnp.where(mask, scores, jnp.finfo(jnp.float32).min)
  return jnp.where(mask, jax.nn.softmax(scores, axis=-1), 0.0)


def attend(query: jax.Array, memory: KeyValue, mask: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Scaled dot-product attention (Eq. 1): the weighted sum of the values, [B, Q, H, K], and the weights [B, H, Q, M]."""
  weights = attention_weights(query, memory.key, mask)
  context = jnp.einsum('bhqm,bmhk->bqhk', weights.astype(memory.value.dtype), memory.value)
  return context, weights


class MultiHeadAttention(nn.Module):
  """MultiHead(Q, K, V) = Concat(head_1 … head_h) W^O, head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V) (§3.2.2).

  Every head projects all of d_model; the products are written head by head, [D, H, K].
  """

  config: ModelConfig

  def setup(self):
    cfg = self.config
    inward = initializers.matrix(cfg.initializer, in_axis=0, out_axis=(1, 2))
    outward = initializers.matrix(cfg.initializer, in_axis=(0, 1), out_axis=2)
    heads = (cfg.d_model, cfg.num_heads, cfg.d_k)
    param = lambda name, init, axes, shape: self.param(
        name, nn.with_logical_partitioning(init, axes), shape, jnp.float32)
    self.w_query = param('w_query', inward, ('embed', 'heads', 'kv'), heads)
    self.w_key = param('w_key', inward, ('embed', 'heads', 'kv'), heads)
    self.w_value = param('w_value', inward, ('embed', 'heads', 'kv'), heads)
    self.w_out = param('w_out', outward, ('heads', 'kv', 'embed'), heads[1:] + heads[:1])
    if cfg.attention_bias:
      zeros = nn.initializers.zeros_init()
      self.b_query = param('b_query', zeros, ('heads', 'kv'), heads[1:])
      self.b_key = param('b_key', zeros, ('heads', 'kv'), heads[1:])
      self.b_value = param('b_value', zeros, ('heads', 'kv'), heads[1:])
      self.b_out = param('b_out', zeros, ('embed',), heads[:1])

  def _project(self, equation: str, x: jax.Array, name: str) -> jax.Array:
    dtype = jnp.dtype(self.config.dtype)
    y = jnp.einsum(equation, x, getattr(self, f'w_{name}').astype(dtype))
    return y + getattr(self, f'b_{name}').astype(dtype)[None, None] if self.config.attention_bias else y

  def queries(self, x: jax.Array) -> jax.Array:
    """[B, Q, D] -> [B, Q, H, K]."""
    return self._project('bqd,dhk->bqhk', x, 'query')

  def memory(self, y: jax.Array) -> KeyValue:
    """Keys and values of [B, M, D]: computed once for what many queries look at."""
    return KeyValue(self._project('bmd,dhk->bmhk', y, 'key'), self._project('bmd,dhk->bmhk', y, 'value'))

  def attend(self, x: jax.Array, memory: KeyValue, mask: jax.Array) -> jax.Array:
    """Queries from x [B, Q, D] over a projected memory; [B, Q, D]."""
    context, weights = attend(self.queries(x), memory, mask)
    self.sow(WITNESS, 'weights', weights)  # kept only when the caller makes the collection mutable
    return self._project('bqhk,hkd->bqd', context, 'out')

  def __call__(self, x: jax.Array, y: jax.Array, mask: jax.Array) -> jax.Array:
    """Queries from x [B, Q, D] over the entries y [B, M, D] under mask [B or 1, Q, M]; [B, Q, D]."""
    return self.attend(x, self.memory(y), mask)

  def extend(self, x: jax.Array, past: KeyValue, step: jax.Array) -> tuple[jax.Array, KeyValue]:
    """One cached step of causal self-attention: every beam's newest token over its own past.

    Args:
      x: [B, W, D] the newest token of each beam.
      past: keys and values [B, W, T, H, K], filled before `step`.
      step: [] int32, the position being written.

    Returns:
      [B, W, D], and the cache with position `step` filled.
    """
    newest = self.memory(x)  # [B, W, H, K]: the beams stand where entries stand in training
    past = jax.tree.map(lambda all_, new: jax.lax.dynamic_update_slice_in_dim(all_, new[:, :, None], step, axis=2),
                        past, newest)
    batch, beams, length = past.key.shape[:3]
    flat = jax.tree.map(lambda a: a.reshape((batch * beams,) + a.shape[2:]), past)
    mask = (jnp.arange(length) <= step)[None, None, :]
    y = self.attend(x.reshape(batch * beams, 1, -1), flat, mask)
    return y.reshape(batch, beams, -1), past
