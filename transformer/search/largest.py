"""The largest of a beam's many entries, found in two stages."""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from transformer.tokens import Array

_FEW = 1024  # entries that one sort is quick at
_GROUP = 32  # neighbours of a group, about
_STRIDE = 1024  # from an entry to the next of its group, where a group's are no neighbours

Found = tuple[Float[Array, 'B C'], Int[Array, 'B C'], Int[Array, 'B C']]  # scores, places in W, places in V


def largest(scores: Float[Array, 'B W V'], offsets: Float[Array, 'B W'], count: int) -> Found:
  """Find the `count` largest of scores + offsets in each row, as jax.lax.top_k would, but faster for many entries.

  The entries of each beam are divided into groups. The groups with the largest maxima hold the largest entries, so that
  only those groups have to be sorted. Among equal entries any may be taken.

  A group is of neighbours, which lie together in memory. On a TPU, which compares rows of 128 neighbours with each other
  faster than the neighbours of one row, it is of entries at equal distances.

  Returns:
    Of each, largest first: its score without offset, its place in W and its place in V. There are C of them: `count`,
    or all if there are fewer.
  """
  (batch, beams, entries), wanted = scores.shape, min(count, scores.shape[1] * scores.shape[2])
  size = _group_size(entries)
  if beams * entries <= _FEW or wanted > beams * min(-(-entries // size), _STRIDE) // 4:
    _, place = jax.lax.top_k((scores + offsets[..., None]).reshape(batch, -1), wanted)
    return jnp.take_along_axis(scores.reshape(batch, -1), place, axis=1), place // entries, place % entries
  return jax.lax.platform_dependent(
      scores, offsets, default=functools.partial(by_neighbours, wanted=wanted, size=size),
      tpu=functools.partial(by_strides, wanted=wanted, stride=_STRIDE))


def by_neighbours(scores: Float[Array, 'B W V'], offsets: Float[Array, 'B W'], wanted: int, size: int) -> Found:
  """Find the largest, see largest(), by groups of `size` neighbours each."""
  batch, beams, entries = scores.shape
  groups = -(-entries // size)
  grouped = _padded(scores, groups * size).reshape(batch, beams, groups, size)
  chosen = _likely_groups(grouped.max(3), offsets, wanted)
  inside = jnp.take_along_axis(grouped.reshape(batch, -1, size), chosen[..., None], axis=1)
  return _best(scores, offsets, inside, chosen // groups, chosen[..., None] % groups * size + jnp.arange(size)[None, None])


def by_strides(scores: Float[Array, 'B W V'], offsets: Float[Array, 'B W'], wanted: int, stride: int) -> Found:
  """Find the largest, see largest(), by `stride` groups, whose entries are `stride` apart.

  The maxima are taken over slices, and the entries of a group one by one: a TPU then copies no scores.
  """
  batch, _, entries = scores.shape
  slices = [scores[..., start:start + stride] for start in range(0, entries, stride)]
  chosen = _likely_groups(functools.reduce(jnp.maximum, [*slices[:-1], _padded(slices[-1], stride)]), offsets, wanted)
  beam, step = chosen // stride, jnp.arange(len(slices))[None, None]
  token = chosen[..., None] % stride + stride * step
  inside = scores.at[jnp.arange(batch)[:, None, None], beam[..., None], token].get(mode='fill', fill_value=-jnp.inf)
  return _best(scores, offsets, inside, beam, token)


def _padded(scores: Float[Array, 'B W V'], entries: int) -> Float[Array, 'B W P']:
  return jnp.pad(scores, ((0, 0), (0, 0), (0, entries - scores.shape[-1])), constant_values=-jnp.inf)


def _likely_groups(maxima: Float[Array, 'B W Z'], offsets: Float[Array, 'B W'], wanted: int) -> Int[Array, 'B C']:
  """Return the groups, numbered beam by beam, with the largest maxima."""
  _, chosen = jax.lax.top_k((maxima + offsets[..., None]).reshape(maxima.shape[0], -1), wanted)
  return chosen


def _best(scores: Float[Array, 'B W V'], offsets: Float[Array, 'B W'], inside: Float[Array, 'B C P'],
          beams: Int[Array, 'B C'], tokens: Int[Array, 'B C P']) -> Found:
  """Return the largest entries of some groups: `inside` holds their scores, `tokens` their places in V."""
  batch, wanted, size = inside.shape
  inside += jnp.take_along_axis(offsets, beams, axis=1)[..., None]
  _, place = jax.lax.top_k(inside.reshape(batch, -1), wanted)
  beam = jnp.take_along_axis(beams, place // size, axis=1)
  token = jnp.take_along_axis(tokens.reshape(batch, -1), place, axis=1)
  found = jnp.take_along_axis(scores.reshape(batch, -1), beam * scores.shape[-1] + token, axis=1)
  return found, beam, token


def _group_size(entries: int) -> int:
  """Choose a size from half to twice _GROUP that leaves the fewest places of the last group empty."""
  return min(range(_GROUP // 2, 2 * _GROUP + 1), key=lambda size: (-entries % size, abs(size - _GROUP)))
