"""One layer of the encoder and one of the decoder, §3.1. Sub-layers are wrapped by Residual, and by it alone."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer.attention import KeyValue, MultiHeadAttention
from transformer.config import ModelConfig
from transformer.feed_forward import FeedForward


def dropout(x: jax.Array, rate: float, key: jax.Array) -> jax.Array:
  """Zeroes each element with probability `rate` and scales the rest by 1 / (1 - rate).

  Raw 32-bit draws are compared with a threshold: the rate is exact to 2^-32, and on a CPU it costs a quarter of
  jax.random.bernoulli, which goes through floats.
  """
  kept = jax.random.bits(key, x.shape) >= jnp.uint32(round(rate * 2**32))
  return jnp.where(kept, x / (1.0 - rate), jnp.zeros_like(x))


class Dropout(nn.Module):
  """Dropout that acts exactly when its caller gave a key: without one, the identity."""

  rate: float

  def __call__(self, x: jax.Array) -> jax.Array:
    return dropout(x, self.rate, self.make_rng('dropout')) if self.rate and self.has_rng('dropout') else x


class LayerNorm(nn.Module):
  """Layer normalisation (Ba et al., 2016) over d_model, computed in float32."""

  config: ModelConfig

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    shape = (self.config.d_model,)
    param = lambda name, init: self.param(name, nn.with_logical_partitioning(init, ('embed',)), shape, jnp.float32)
    scale, bias = param('scale', nn.initializers.ones_init()), param('bias', nn.initializers.zeros_init())
    wide = x.astype(jnp.float32)
    centred = wide - wide.mean(-1, keepdims=True)
    variance = jnp.square(centred).mean(-1, keepdims=True)
    normal = centred * jax.lax.rsqrt(variance + self.config.layer_norm_epsilon)
    return (normal * scale[None, None] + bias[None, None]).astype(x.dtype)


class Residual(nn.Module):
  """Owns what surrounds a sub-layer: normalisation, dropout and the addition.

      post (the paper)   LayerNorm(x + Dropout(Sublayer(x)))
      pre                x + Dropout(Sublayer(LayerNorm(x)))
  """

  config: ModelConfig

  def setup(self):
    self.norm = LayerNorm(self.config)
    self.dropout = Dropout(self.config.dropout)

  def enter(self, x: jax.Array) -> jax.Array:
    """What the sub-layer reads."""
    return self.norm(x) if self.config.norm == 'pre' else x

  def leave(self, x: jax.Array, y: jax.Array) -> jax.Array:
    """The layer's stream x, with the sub-layer's output y taken in."""
    total = x + self.dropout(y)
    return self.norm(total) if self.config.norm == 'post' else total


class EncoderLayer(nn.Module):
  """Self-attention, then the feed-forward network."""

  config: ModelConfig

  def setup(self):
    self.self_attention, self.around_self = MultiHeadAttention(self.config), Residual(self.config)
    self.feed_forward, self.around_feed_forward = FeedForward(self.config), Residual(self.config)

  def __call__(self, x: jax.Array, mask: jax.Array) -> jax.Array:
    """[B, S, D] under mask [B, S, S] -> [B, S, D]."""
    y = self.around_self.enter(x)
    x = self.around_self.leave(x, self.self_attention(y, y, mask))
    y = self.around_feed_forward.enter(x)
    return self.around_feed_forward.leave(x, self.feed_forward(y))


class DecoderLayer(nn.Module):
  """Masked self-attention, attention over the encoder's output, then the feed-forward network."""

  config: ModelConfig

  def setup(self):
    self.self_attention, self.around_self = MultiHeadAttention(self.config), Residual(self.config)
    self.cross_attention, self.around_cross = MultiHeadAttention(self.config), Residual(self.config)
    self.feed_forward, self.around_feed_forward = FeedForward(self.config), Residual(self.config)

  def _after_self(self, x: jax.Array, memory: KeyValue, mask: jax.Array) -> jax.Array:
    y = self.around_cross.enter(x)
    x = self.around_cross.leave(x, self.cross_attention.attend(y, memory, mask))
    y = self.around_feed_forward.enter(x)
    return self.around_feed_forward.leave(x, self.feed_forward(y))

  def __call__(self, x: jax.Array, memory: jax.Array, self_mask: jax.Array, cross_mask: jax.Array) -> jax.Array:
    """[B, T, D] over memory [B, S, D], masks [B, T, T] and [B, T, S] -> [B, T, D]."""
    y = self.around_self.enter(x)
    x = self.around_self.leave(x, self.self_attention(y, y, self_mask))
    return self._after_self(x, self.cross_memory(memory), cross_mask)

  def cross_memory(self, memory: jax.Array) -> KeyValue:
    """This layer's keys and values of the encoder's output [B, S, D]."""
    return self.cross_attention.memory(memory)

  def extend(self, x: jax.Array, past: KeyValue, memory: KeyValue, cross_mask: jax.Array,
             step: jax.Array) -> tuple[jax.Array, KeyValue]:
    """One cached step: x [B, W, D] over the beams' past [B, W, T, H, K] and memory [B, S, H, K].

    In cross-attention the beams of a sentence are its queries: they share one memory, and it is never copied.
    """
    y, past = self.self_attention.extend(self.around_self.enter(x), past, step)
    return self._after_self(self.around_self.leave(x, y), memory, cross_mask), past
