"""Who may look at whom: boolean masks, True where a query may attend. Each is drawn as a grid of 0 and 1.

Rows are queries (Q), columns the memory's entries (M).
"""

import jax
import jax.numpy as jnp


def segment_mask(query: jax.Array, memory: jax.Array) -> jax.Array:
  """Each query sees the entries of its own segment; nobody sees padding (segment 0), and padding sees nobody.

  One sentence with padding, and two packed sentences with padding, as self-attention has them:

      segments 1 1 1 0          segments 1 1 2 2 0
               1 1 1 0                   1 1 0 0 0
               1 1 1 0                   1 1 0 0 0
               1 1 1 0                   0 0 1 1 0
               0 0 0 0                   0 0 1 1 0
                                         0 0 0 0 0

  Args:
    query: [B, Q] segments of the queries.
    memory: [B, M] segments of the entries looked at.

  Returns:
    [B, Q, M] bool.
  """
  return (query[:, :, None] == memory[:, None, :]) & (memory[:, None, :] > 0)


def padding_mask(memory: jax.Array, queries: int) -> jax.Array:
  """Every query, padding or not, sees the real entries.

      segments 1 1 0
               1 1 0
               1 1 0

  Args:
    memory: [B, M] segments, 0 where padded.
    queries: Q.

  Returns:
    [B, Q, M] bool.
  """
  return jnp.broadcast_to(memory[:, None, :] > 0, (memory.shape[0], queries, memory.shape[1]))


def causal_mask(length: int) -> jax.Array:
  """Nobody sees a later position (§3.2.3).

      1 0 0
      1 1 0
      1 1 1

  Returns:
    [1, T, T] bool.
  """
  place = jnp.arange(length)
  return (place[:, None] >= place[None, :])[None]


def prefix_mask(prefix: jax.Array, length: int) -> jax.Array:
  """The first `prefix` positions see each other in full; later ones see them and their own past.

      prefix 2:   1 1 0 0
                  1 1 0 0
                  1 1 1 0
                  1 1 1 1

  Args:
    prefix: [B] lengths of the prefixes; 0 gives the causal mask.
    length: T.

  Returns:
    [B, T, T] bool.
  """
  inside = jnp.arange(length)[None, :] < prefix[:, None]
  return causal_mask(length) | (inside[:, :, None] & inside[:, None, :])
