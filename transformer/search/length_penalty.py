"""Length penalties: what a hypothesis's log-probability is divided by, so that long outputs are not at a disadvantage.

A new one is a function (length, alpha) -> penalty, registered below; length counts EOS. With alpha of 0 or more it may
not fall as outputs grow longer: beam search relies on that to stop early.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float

from checks.choices import Registry

LengthPenalty = Callable[[Float[Array, '*any'], float], Float[Array, '*any']]
LENGTH_PENALTIES: Registry[LengthPenalty] = Registry('search.length_penalty')


@LENGTH_PENALTIES.register('gnmt', '((5+length)/6)^alpha')
def gnmt(length: Float[Array, '*any'], alpha: float) -> Float[Array, '*any']:
  """((5 + |y|) / 6)^α, Wu et al., 2016, Eq. 14; the paper's, with α 0.6."""
  return ((5.0 + length) / 6.0) ** alpha


@LENGTH_PENALTIES.register('length', 'length^alpha')
def power(length: Float[Array, '*any'], alpha: float) -> Float[Array, '*any']:
  """|y|^α: with α 1 the mean log-probability of a token."""
  return length**alpha


@LENGTH_PENALTIES.register('none')
def none(length: Float[Array, '*any'], alpha: float) -> Float[Array, '*any']:
  """1: log-probabilities are compared as they are."""
  del alpha
  return jnp.ones_like(length)
