"""The largest of a beam's many entries, found in two stages."""

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from transformer.tokens import Array

_FEW = 1024  # entries that one sort is quick at
_GROUP = 32  # entries of a group, about


def largest(scores: Float[Array, 'B W V'], offsets: Float[Array, 'B W'], count: int
            ) -> tuple[Float[Array, 'B C'], Int[Array, 'B C'], Int[Array, 'B C']]:
  """Find the `count` largest of scores + offsets in each row, as jax.lax.top_k would, but faster for many entries.

  The entries of each beam are divided into groups. The groups with the largest maxima hold the largest entries, so that
  only those groups have to be sorted. Among equal entries any may be taken.

  Returns:
    Of each, largest first: its score without offset, its place in W and its place in V. There are C of them: `count`,
    or all if there are fewer.
  """
  (batch, beams, entries), wanted = scores.shape, min(count, scores.shape[1] * scores.shape[2])
  size = _group_size(entries)
  groups = -(-entries // size)
  if beams * entries <= _FEW or wanted > beams * groups // 4:
    _, place = jax.lax.top_k((scores + offsets[..., None]).reshape(batch, -1), wanted)
    beam, token = place // entries, place % entries
  else:
    padding = ((0, 0), (0, 0), (0, groups * size - entries))
    grouped = jnp.pad(scores, padding, constant_values=-jnp.inf).reshape(batch, beams, groups, size)
    _, chosen = jax.lax.top_k((grouped.max(-1) + offsets[..., None]).reshape(batch, -1), wanted)  # [B, C]
    inside = jnp.take_along_axis(grouped.reshape(batch, -1, size), chosen[..., None], axis=1)
    inside += jnp.take_along_axis(offsets, chosen // groups, axis=1)[..., None]
    _, place = jax.lax.top_k(inside.reshape(batch, -1), wanted)
    chosen = jnp.take_along_axis(chosen, place // size, axis=1)
    beam, token = chosen // groups, chosen % groups * size + place % size
  return jnp.take_along_axis(scores.reshape(batch, -1), beam * entries + token, axis=1), beam, token


def _group_size(entries: int) -> int:
  """Choose a size from half to twice _GROUP that leaves the fewest places of the last group empty."""
  return min(range(_GROUP // 2, 2 * _GROUP + 1), key=lambda size: (-entries % size, abs(size - _GROUP)))
