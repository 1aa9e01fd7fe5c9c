"""Masks against their drawn grids and against a triple loop that knows only the definition."""

import jax.numpy as jnp
import numpy as np

from transformer import masks


def grid(text):
  return np.array([[cell == '1' for cell in line.split()] for line in text.strip().splitlines()])


def test_drawn_grids():
  packed = jnp.array([[1, 1, 2, 2, 0]])
  np.testing.assert_array_equal(masks.segment_mask(packed, packed)[0], grid('''
      1 1 0 0 0
      1 1 0 0 0
      0 0 1 1 0
      0 0 1 1 0
      0 0 0 0 0'''))
  np.testing.assert_array_equal(masks.causal_mask(3)[0], grid('''
      1 0 0
      1 1 0
      1 1 1'''))
  np.testing.assert_array_equal(masks.prefix_mask(jnp.array([2]), 4)[0], grid('''
      1 1 0 0
      1 1 0 0
      1 1 1 0
      1 1 1 1'''))
  np.testing.assert_array_equal(masks.padding_mask(jnp.array([[1, 1, 0]]), 2)[0], grid('''
      1 1 0
      1 1 0'''))


def test_triple_loops():
  draw = np.random.default_rng(0)
  query, memory, prefix = draw.integers(0, 4, (3, 5)), draw.integers(0, 4, (3, 7)), np.array([0, 2, 5])
  segment, padding = masks.segment_mask(query, memory), masks.padding_mask(memory, 5)
  causal, with_prefix = masks.causal_mask(5), masks.prefix_mask(prefix, 5)
  for b in range(3):
    for q in range(5):
      for m in range(7):
        assert segment[b, q, m] == (query[b, q] == memory[b, m] and memory[b, m] != 0)
        assert padding[b, q, m] == (memory[b, m] != 0)
      for m in range(5):
        assert causal[0, q, m] == (m <= q)
        assert with_prefix[b, q, m] == (m <= q or max(m, q) < prefix[b])
