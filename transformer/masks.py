"""Attention masks: boolean, True where a query may attend to an entry. Each is drawn as a grid of 0 and 1.

Rows are queries (Q), columns the memory's entries (M).
"""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from transformer.tokens import AnyArray

Mask = Bool[AnyArray, '#B Q M']  # True where the query may attend to the entry


def segment_mask(query: Int[AnyArray, 'B Q'], memory: Int[AnyArray, 'B M']) -> Bool[AnyArray, 'B Q M']:
  """Let each query attend to the entries of its own segment; padding (segment 0) neither attends nor is attended to.

  One sentence with padding, and two packed sentences with padding, as self-attention has them:

      segments 1 1 1 0          segments 1 1 2 2 0
               1 1 1 0                   1 1 0 0 0
               1 1 1 0                   1 1 0 0 0
               1 1 1 0                   0 0 1 1 0
               0 0 0 0                   0 0 1 1 0
                                         0 0 0 0 0

  Args:
    query: segments of the queries.
    memory: segments of the memory's entries.
  """
  return (query[:, :, None] == memory[:, None, :]) & (memory[:, None, :] > 0)


def padding_mask(memory: Int[AnyArray, 'B M'], queries: int) -> Bool[AnyArray, 'B Q M']:
  """Let every query, padding or not, attend to the real entries.

      segments 1 1 0
               1 1 0
               1 1 0

  Args:
    memory: segments, 0 where padded.
    queries: Q.
  """
  return jnp.broadcast_to(memory[:, None, :] > 0, (memory.shape[0], queries, memory.shape[1]))


def causal_mask(length: int) -> Bool[Array, '1 T T']:
  """Let no position attend to a later one (§3.2.3).

      1 0 0
      1 1 0
      1 1 1
  """
  place = jnp.arange(length)
  return (place[:, None] >= place[None, :])[None]


def prefix_mask(prefix: Int[AnyArray, ' B'], length: int) -> Bool[Array, 'B T T']:
  """Let the first `prefix` positions attend to all of each other, and later ones to these and to their own past.

      prefix 2:   1 1 0 0
                  1 1 0 0
                  1 1 1 0
                  1 1 1 1

  Args:
    prefix: lengths of the prefixes; 0 gives the causal mask.
    length: T.
  """
  inside = jnp.arange(length)[None, :] < prefix[:, None]
  return causal_mask(length) | (inside[:, :, None] & inside[:, None, :])
