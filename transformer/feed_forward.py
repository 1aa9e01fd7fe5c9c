"""Position-wise feed-forward network, §3.3. A new activation is an entry in ACTIVATIONS here."""

from collections.abc import Callable
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from transformer import initializers
from transformer.config import ModelConfig
from transformer.dropout import Dropout
from transformer.registries import ACTIVATIONS


class Activation(NamedTuple):
  """The function between the two matrix products."""

  function: Callable[[Float[Array, 'B T F']], Float[Array, 'B T F']]
  gated: bool = False  # whether the result is multiplied by the input's product with a third matrix


ACTIVATIONS.add('relu', Activation(jax.nn.relu), 'max(0, x), Eq. 2')
ACTIVATIONS.add('gelu', Activation(lambda x: jax.nn.gelu(x, approximate=False)))  # Hendrycks & Gimpel, 2016: x Φ(x)
ACTIVATIONS.add('swish', Activation(jax.nn.silu))  # Ramachandran et al., 2017: x σ(x)
# Shazeer, 2020: silu(x W1 + b1) ⊙ (x W_gate).
ACTIVATIONS.add('swiglu', Activation(jax.nn.silu, gated=True), 'a third matrix: half as many parameters again')


class FeedForward(nn.Module):
  """FFN(x) = max(0, x W1 + b1) W2 + b2, the same at every position (Eq. 2)."""

  config: ModelConfig

  def setup(self):
    cfg = self.config
    self.activation, self.dropout = ACTIVATIONS[cfg.activation], Dropout(cfg.activation_dropout)
    matrix, zeros = initializers.matrix(cfg.initializer), nn.initializers.zeros_init()
    param = lambda name, init, axes, *shape: self.param(
        name, initializers.with_axes(init, axes), shape, jnp.float32)
    self.w1 = param('w1', matrix, ('embed', 'mlp'), cfg.d_model, cfg.d_ff)
    self.w2 = param('w2', matrix, ('mlp', 'embed'), cfg.d_ff, cfg.d_model)
    if self.activation.gated:
      self.w_gate = param('w_gate', matrix, ('embed', 'mlp'), cfg.d_model, cfg.d_ff)
    if cfg.feed_forward_bias:
      self.b1 = param('b1', zeros, ('mlp',), cfg.d_ff)
      self.b2 = param('b2', zeros, ('embed',), cfg.d_model)

  def _product(self, x: Float[Array, 'B T I'], matrix: Float[Array, 'I O'], bias: str | None = None
               ) -> Float[Array, 'B T O']:
    y = jnp.einsum('btd,df->btf', x, matrix.astype(x.dtype))
    return y + getattr(self, bias).astype(x.dtype)[None, None] if bias and self.config.feed_forward_bias else y

  def __call__(self, x: Float[Array, 'B T D']) -> Float[Array, 'B T D']:
    hidden = self.activation.function(self._product(x, self.w1, 'b1'))
    if self.activation.gated:
      hidden = hidden * self._product(x, self.w_gate)
    return self._product(self.dropout(hidden), self.w2, 'b2')
