"""Position encodings, §3.5: the formula, the layouts and frequencies in use elsewhere, and what makes them useful."""

import math

import numpy as np
import pytest

from transformer.config import FREQUENCIES, LAYOUTS
from transformer.positions import sinusoids, wavenumbers


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


@pytest.mark.parametrize('frequencies', FREQUENCIES)
def test_halves_hold_the_same_columns_sines_first(frequencies):
  interleaved, halves = (sinusoids(11, 14, layout, frequencies) for layout in ('interleaved', 'halves'))
  np.testing.assert_array_equal(halves[:, :7], interleaved[:, 0::2])
  np.testing.assert_array_equal(halves[:, 7:], interleaved[:, 1::2])
  assert np.abs(halves - interleaved).max() > 0.1


def test_the_figure_of_20_by_512():
  table = sinusoids(20, 512, 'halves', 'tensor2tensor')
  assert table.shape == (20, 512)
  np.testing.assert_array_equal(table[0], np.repeat([0.0, 1.0], 256))  # the figure's split down its centre


@pytest.mark.parametrize('layout', LAYOUTS)
@pytest.mark.parametrize('frequencies', FREQUENCIES)
def test_bounded_and_unique(layout, frequencies):
  table = sinusoids(503, 22, layout, frequencies)
  assert np.abs(table).max() <= 1.0
  distance = np.linalg.norm(table[:, None] - table[None], axis=-1)
  assert distance[~np.eye(503, dtype=bool)].min() > 0.05
  np.testing.assert_allclose((table**2).sum(-1), 11, rtol=1e-5)  # d/2 pairs of sine² + cosine²


@pytest.mark.parametrize('layout', LAYOUTS)
def test_the_product_of_two_positions_depends_on_their_distance_alone(layout):
  table = sinusoids(61, 22, layout).astype(np.float64)
  for k in (1, 7, 19):
    products = (table[:-k] * table[k:]).sum(-1)
    np.testing.assert_allclose(products, np.cos(k * wavenumbers(22, 'paper')).sum(), atol=1e-5)
  assert abs((table[0] * table[1]).sum() - (table[0] * table[7]).sum()) > 0.1


@pytest.mark.parametrize('frequencies', FREQUENCIES)
def test_a_step_of_k_is_one_rotation_at_every_position(frequencies):
  table, k = sinusoids(53, 10, frequencies=frequencies).astype(np.float64), 5
  turn = np.zeros((10, 10))
  for i, w in enumerate(wavenumbers(10, frequencies)):
    turn[2 * i:2 * i + 2, 2 * i:2 * i + 2] = [[math.cos(k * w), math.sin(k * w)], [-math.sin(k * w), math.cos(k * w)]]
  np.testing.assert_allclose(turn @ turn.T, np.eye(10), atol=1e-12)
  np.testing.assert_allclose(table[k:], table[:-k] @ turn.T, atol=1e-6)


def test_far_positions_keep_their_phase():
  assert abs(sinusoids(100_004, 4)[100_003, 0] - math.sin(100_003)) < 1e-6
