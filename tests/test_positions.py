"""Position encodings: §3.5's formula, its layouts and frequencies in use elsewhere, and every other kind by a loop."""

import math

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from transformer import positions
from transformer.attention import MultiHeadAttention
from transformer.config import ModelConfig
from transformer.positions import sinusoids, wavenumbers
from transformer.registries import POSITION_FREQUENCIES, POSITION_LAYOUTS


def test_equals_a_double_loop_over_the_formula():
  length, d_model = 13, 22
  table = sinusoids(length, d_model)
  assert table.shape == (length, d_model) and table.dtype == np.float32
  for pos in range(length):
    for i in range(d_model // 2):
      angle = pos / 10000 ** (2 * i / d_model)
      assert abs(table[pos, 2 * i] - math.sin(angle)) < 1e-6
      assert abs(table[pos, 2 * i + 1] - math.cos(angle)) < 1e-6


@pytest.mark.parametrize('frequencies, expected', [
    ('tensor2tensor', [[0.8415, 0.0001, 0.5403, 1.0], [0.9093, 0.0002, -0.4161, 1.0]]),
    ('paper', [[0.8415, 0.01, 0.5403, 0.99995], [0.9093, 0.02, -0.4161, 0.9998]])])  # MarianMT: the paper's, in halves
def test_the_example_of_width_four(frequencies, expected):
  np.testing.assert_allclose(sinusoids(3, 4, 'halves', frequencies)[1:], expected, atol=5e-5)


def test_tensor2tensor_reaches_one_ten_thousandth_and_the_paper_does_not():
  assert math.isclose(wavenumbers(22, 'tensor2tensor')[-1], 1e-4)
  assert math.isclose(wavenumbers(22, 'paper')[-1], 10000 ** (-20 / 22))


@pytest.mark.parametrize('frequencies', POSITION_FREQUENCIES)
def test_halves_hold_the_same_columns_sines_first(frequencies):
  interleaved, halves = (sinusoids(11, 14, layout, frequencies) for layout in ('interleaved', 'halves'))
  np.testing.assert_array_equal(halves[:, :7], interleaved[:, 0::2])
  np.testing.assert_array_equal(halves[:, 7:], interleaved[:, 1::2])
  assert np.abs(halves - interleaved).max() > 0.1


def test_the_figure_of_20_by_512():
  table = sinusoids(20, 512, 'halves', 'tensor2tensor')
  assert table.shape == (20, 512)
  np.testing.assert_array_equal(table[0], np.repeat([0.0, 1.0], 256))  # the figure's split down its centre


@pytest.mark.parametrize('layout', POSITION_LAYOUTS)
@pytest.mark.parametrize('frequencies', POSITION_FREQUENCIES)
def test_bounded_and_unique(layout, frequencies):
  table = sinusoids(503, 22, layout, frequencies)
  assert np.abs(table).max() <= 1.0
  distance = np.linalg.norm(table[:, None] - table[None], axis=-1)
  assert distance[~np.eye(503, dtype=bool)].min() > 0.05
  np.testing.assert_allclose((table**2).sum(-1), 11, rtol=1e-5)  # d/2 pairs of sine² + cosine²


@pytest.mark.parametrize('layout', POSITION_LAYOUTS)
def test_the_product_of_two_positions_depends_on_their_distance_alone(layout):
  table = sinusoids(61, 22, layout).astype(np.float64)
  for k in (1, 7, 19):
    products = (table[:-k] * table[k:]).sum(-1)
    np.testing.assert_allclose(products, np.cos(k * wavenumbers(22, 'paper')).sum(), atol=1e-5)
  assert abs((table[0] * table[1]).sum() - (table[0] * table[7]).sum()) > 0.1


@pytest.mark.parametrize('frequencies', POSITION_FREQUENCIES)
def test_a_step_of_k_is_one_rotation_at_every_position(frequencies):
  table, k = sinusoids(53, 10, frequencies=frequencies).astype(np.float64), 5
  turn = np.zeros((10, 10))
  for i, w in enumerate(wavenumbers(10, frequencies)):
    turn[2 * i:2 * i + 2, 2 * i:2 * i + 2] = [[math.cos(k * w), math.sin(k * w)], [-math.sin(k * w), math.cos(k * w)]]
  np.testing.assert_allclose(turn @ turn.T, np.eye(10), atol=1e-12)
  np.testing.assert_allclose(table[k:], table[:-k] @ turn.T, atol=1e-6)


def test_far_positions_keep_their_phase():
  assert abs(sinusoids(100_004, 4)[100_003, 0] - math.sin(100_003)) < 1e-6


# ------------------------------------------------------------------------------------------- learned kinds, and rotary

WIDTHS = dict(vocab_size=5, target_vocab_size=5, d_model=14, num_heads=2, d_k=6, d_v=3)


def attention_with(kind, places, seed=0, **options):
  """Self-attention of five tokens at `places` under a causal mask, its position parameters far from zero."""
  config = ModelConfig(**{**WIDTHS, **options}, positions=kind, clip_distance=2, num_buckets=8, max_distance=11)
  module, place = MultiHeadAttention(config), positions.make(config, 1, causal=True)
  x, mask = jax.random.normal(jax.random.key(seed), (2, 5, 14)), jnp.tril(jnp.ones((1, 5, 5), bool))
  places = jnp.asarray(places)
  of_places = nn.unbox(place.init(jax.random.key(1), places, places, method='relate'))
  of_places = jax.tree.map(lambda p: p + 0.5 * jax.random.normal(jax.random.key(2), p.shape), of_places)
  relation = place.apply(of_places, places, places, method='relate').at(0)
  params = nn.unbox(module.init(jax.random.key(3), x, mask, relation))
  return module.apply(params, x, mask, relation), (x, mask, params['params'], of_places.get('params', {}))


@pytest.mark.parametrize('score', ['scaled_dot', 'dot', 'multiplicative'])
@pytest.mark.parametrize('kind', ['relative', 't5', 'rotary'])
def test_only_distances_count(kind, score):
  here, _ = attention_with(kind, np.arange(5), attention_score=score)
  far, _ = attention_with(kind, np.arange(5) + 23, attention_score=score)
  spread, _ = attention_with(kind, np.arange(5) * 3, attention_score=score)
  np.testing.assert_allclose(here, far, atol=2e-5)
  assert np.abs(here - spread).max() > 1e-3


def test_rotary_equals_a_loop():
  out, (x, mask, params, _) = attention_with('rotary', np.arange(5))
  expected = np.zeros((2, 5, 14))
  for b, h, q in np.ndindex(2, 2, 5):
    def turned(vector, place):
      result = np.zeros(6)
      for i in range(3):
        angle = place * 10000.0 ** (-2 * i / 6)
        rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        result[2 * i:2 * i + 2] = rotation @ vector[2 * i:2 * i + 2]
      return result
    query = turned(np.asarray(x[b, q] @ params['w_query'][:, h]), q)
    scores = np.array([query @ turned(np.asarray(x[b, m] @ params['w_key'][:, h]), m) for m in range(q + 1)])
    weights = np.exp(scores / np.sqrt(6))
    values = x[b, :q + 1] @ params['w_value'][:, h]
    expected[b, q] += (weights / weights.sum()) @ values @ params['w_out'][h]
  np.testing.assert_allclose(out, expected, atol=2e-5)


def test_rotary_in_halves_is_a_reordering_of_columns():
  x, angles = jax.random.normal(jax.random.key(0), (2, 5, 3, 6)), jax.random.normal(jax.random.key(1), (5, 3))
  order = np.array([0, 2, 4, 1, 3, 5])  # pair i at columns i and i + 3 instead of 2i and 2i + 1
  np.testing.assert_allclose(positions.turn(x[..., order], angles, 'halves'),
                             positions.turn(x, angles, 'interleaved')[..., order], atol=1e-6)


def test_clipped_relative_equals_a_loop():
  out, (x, mask, params, tables) = attention_with('relative', np.arange(5))
  assert tables['key_table'].shape == (1, 5, 6) and tables['value_table'].shape == (1, 5, 3)
  expected = np.zeros((2, 5, 14))
  for b, h, q in np.ndindex(2, 2, 5):
    row = [int(np.clip(m - q, -2, 2)) + 2 for m in range(q + 1)]
    query = x[b, q] @ params['w_query'][:, h]
    keys = x[b, :q + 1] @ params['w_key'][:, h] + tables['key_table'][0, np.array(row)]
    values = x[b, :q + 1] @ params['w_value'][:, h] + tables['value_table'][0, np.array(row)]
    weights = np.exp(keys @ query / np.sqrt(6))
    expected[b, q] += (weights / weights.sum()) @ values @ params['w_out'][h]
  np.testing.assert_allclose(out, expected, atol=2e-5)


def test_t5_bias_equals_a_loop():
  out, (x, mask, params, tables) = attention_with('t5', np.arange(5), attention_score='dot')
  expected = np.zeros((2, 5, 14))
  for b, h, q in np.ndindex(2, 2, 5):
    query, keys = x[b, q] @ params['w_query'][:, h], x[b, :q + 1] @ params['w_key'][:, h]
    bucket = np.array([q - m for m in range(q + 1)])  # all below 4, one bucket each
    bucket[bucket == 4] = 4 + int(np.log(4 / 4) / np.log(11 / 4) * 4)
    weights = np.exp(keys @ query + tables['bias_table'][bucket, h])
    expected[b, q] += (weights / weights.sum()) @ (x[b, :q + 1] @ params['w_value'][:, h]) @ params['w_out'][h]
  np.testing.assert_allclose(out, expected, atol=2e-5)


def test_t5_buckets_by_hand():
  """32 buckets, 128 tokens: both ways 16 a side, of which 8 exact; one way 32, of which 16 exact."""
  both = dict(zip(range(-200, 201), positions.buckets(np.arange(-200, 201), 32, 128, causal=False)))
  assert [both[d] for d in (0, -1, -7, -8, -11, -12, -15, -16, -22, -23, -31, -32, -63, -64, -90, -91, -127, -128, -200)] == [
      0, 1, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 13, 14, 14, 15, 15, 15, 15]
  assert [both[d] for d in (1, 7, 8, 12, 64, 200)] == [17, 23, 24, 25, 30, 31]
  behind = dict(zip(range(-200, 201), positions.buckets(np.arange(-200, 201), 32, 128, causal=True)))
  assert [behind[d] for d in (5, 0, -1, -15, -16, -18, -19, -32, -64, -127, -200)] == [0, 0, 1, 15, 16, 16, 17, 21, 26, 31, 31]


def test_learned_positions_are_rows_of_a_table_and_end_with_it():
  config = ModelConfig(**WIDTHS, positions='learned', max_positions=7)
  module = positions.make(config, 1, causal=False)
  params = module.init(jax.random.key(0), jnp.arange(7)[None], 7, method='embed')
  table = nn.unbox(params)['params']['table']
  np.testing.assert_array_equal(module.apply(params, jnp.array([[3, 0, 6]]), 7, method='embed')[0], table[np.array([3, 0, 6])])
  with pytest.raises(ValueError, match='8 tokens, but learned positions end at max_positions 7'):
    module.apply(params, jnp.arange(8)[None], 8, method='embed')
