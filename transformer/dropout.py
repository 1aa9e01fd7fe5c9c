"""Dropout (Srivastava et al., 2014), active only when a key is given."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from transformer.registries import DROPOUT_BITS


@DROPOUT_BITS.register('threefry', 'the same on any number of devices')
def threefry(key: Key[Array, '']) -> Key[Array, '']:
  """Return the key itself: Threefry (Salmon et al., 2011) is what jax.random.key makes."""
  return key


@DROPOUT_BITS.register('rbg', "the device's own generator, faster on TPUs; compile=jit on TPUs: other draws on another mesh")
def rbg(key: Key[Array, '']) -> Key[Array, '']:
  """Return a key of XLA's RngBitGenerator, whose draws depend on the kind of device."""
  return jax.random.wrap_key_data(jnp.tile(jax.random.key_data(key), 2), impl='rbg')


def dropout(x: Float[Array, '*x'], rate: float, key: Key[Array, '']) -> Float[Array, '*x']:
  """Zero each element with probability `rate` and scale the rest by 1 / (1 - rate).

  Raw 32-bit draws are compared with a threshold: the rate is exact to 2^-32, and on a CPU it costs a quarter of
  jax.random.bernoulli, which goes through floats.
  """
  kept = jax.random.bits(key, x.shape) >= jnp.uint32(round(rate * 2**32))
  return jnp.where(kept, x / (1.0 - rate), jnp.zeros_like(x))


class Dropout(nn.Module):
  """Dropout with the key of the rng collection 'dropout'; without that collection, the identity."""

  rate: float

  def __call__(self, x: Float[Array, '*x']) -> Float[Array, '*x']:
    return dropout(x, self.rate, self.make_rng('dropout')) if self.rate and self.has_rng('dropout') else x
