"""Normalisation over d_model, §3.1. A new kind is a class here, registered under its name."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax.linen.initializers import Initializer
from jaxtyping import Array, Float, Float32

from transformer import initializers
from transformer.config import ModelConfig
from transformer.registries import NORMALIZATIONS


def _vector(module: nn.Module, name: str, init: Initializer) -> Float32[Array, ' D']:
  return module.param(name, initializers.with_axes(init, ('embed',)), (module.config.d_model,), jnp.float32)


@NORMALIZATIONS.register('layer_norm', uses=['norm_bias'])
class LayerNorm(nn.Module):
  """Layer normalisation (Ba et al., 2016) over d_model, computed in float32.

  Of bfloat16 inputs the variance is E[x²] − E[x]², so that mean and variance, and what the gradient sums, take one pass
  over the inputs each: what the difference loses is less than the rounding of such inputs. It is not so of float32.
  """

  config: ModelConfig

  @nn.compact
  def __call__(self, x: Float[Array, 'B T D']) -> Float[Array, 'B T D']:
    wide = x.astype(jnp.float32)
    mean = wide.mean(-1, keepdims=True)
    centred = wide - mean
    if x.dtype == jnp.float32:
      variance = jnp.square(centred).mean(-1, keepdims=True)
    else:
      variance = jnp.maximum(jnp.square(wide).mean(-1, keepdims=True) - jnp.square(mean), 0.0)
    normal = centred * jax.lax.rsqrt(variance + self.config.layer_norm_epsilon)
    normal = normal * _vector(self, 'scale', nn.initializers.ones_init())[None, None]
    if self.config.norm_bias:
      normal = normal + _vector(self, 'bias', nn.initializers.zeros_init())[None, None]
    return normal.astype(x.dtype)


@NORMALIZATIONS.register('rms_norm')
class RMSNorm(nn.Module):
  """Root mean square normalisation (Zhang & Sennrich, 2019): the mean is not subtracted, and there is no bias."""

  config: ModelConfig

  @nn.compact
  def __call__(self, x: Float[Array, 'B T D']) -> Float[Array, 'B T D']:
    wide = x.astype(jnp.float32)
    normal = wide * jax.lax.rsqrt(jnp.square(wide).mean(-1, keepdims=True) + self.config.layer_norm_epsilon)
    return (normal * _vector(self, 'scale', nn.initializers.ones_init())[None, None]).astype(x.dtype)


def make(config: ModelConfig) -> nn.Module:
  """Make the normalisation that `config.normalization` names."""
  return NORMALIZATIONS[config.normalization](config)
