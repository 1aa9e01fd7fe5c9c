"""The precision in which a model computes. Parameters and loss are always float32, and so are the logits that it returns."""

import jax.numpy as jnp

from transformer.config import AnyModelConfig
from transformer.registries import DTYPES

DTYPES.add('float32', jnp.dtype(jnp.float32))
DTYPES.add('bfloat16', jnp.dtype(jnp.bfloat16), 'for TPU and GPU')


def of(config: AnyModelConfig) -> jnp.dtype:
  """Return the dtype of a model's activations and products."""
  return DTYPES[config.dtype]
