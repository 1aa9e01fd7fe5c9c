"""Position-wise feed-forward network, §3.3."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer import initializers
from transformer.config import ModelConfig


class FeedForward(nn.Module):
  """FFN(x) = max(0, x W1 + b1) W2 + b2, the same at every position (Eq. 2)."""

  config: ModelConfig

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """[B, T, D] -> [B, T, D], through [B, T, F]."""
    cfg, dtype = self.config, jnp.dtype(self.config.dtype)
    matrix = initializers.matrix(cfg.initializer)
    zeros = nn.initializers.zeros_init()
    param = lambda name, init, axes, shape: self.param(
        name, nn.with_logical_partitioning(init, axes), shape, jnp.float32).astype(dtype)
    hidden = jnp.einsum('btd,df->btf', x, param('w1', matrix, ('embed', 'mlp'), (cfg.d_model, cfg.d_ff)))
    hidden = nn.relu(hidden + param('b1', zeros, ('mlp',), (cfg.d_ff,))[None, None])
    out = jnp.einsum('btf,fd->btd', hidden, param('w2', matrix, ('mlp', 'embed'), (cfg.d_ff, cfg.d_model)))
    return out + param('b2', zeros, ('embed',), (cfg.d_model,))[None, None]
