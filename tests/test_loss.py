"""The smoothed loss, by hand on five classes and against plain formulas."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from transformer import loss
from transformer.config import LossConfig
from transformer.registries import SMOOTHINGS

B, T, V = 2, 3, 5


@pytest.fixture
def scored():
  draw = np.random.default_rng(0)
  return (3 * draw.normal(size=(B, T, V))).astype(np.float32), draw.integers(0, V, (B, T)).astype(np.int32)


cross_entropy = jax.jit(loss.smoothed_cross_entropy, static_argnums=2)
sums = jax.jit(loss.sums, static_argnums=3)


def plain(logits, labels, config):
  """Cross-entropy against the target distribution written out."""
  share, size = config.label_smoothing, logits.shape[-1]
  onehot = jax.nn.one_hot(labels, size)
  target = ((1 - share) * onehot + share / size if config.smoothing_over == 'vocabulary' else
            (1 - share) * onehot + share / (size - 1) * (1 - onehot))
  return -(target * jax.nn.log_softmax(logits)).sum(-1)


@pytest.mark.parametrize('over, right, wrong', [('vocabulary', 0.92, 0.02), ('others', 0.9, 0.025)])
def test_five_classes_by_hand(over, right, wrong):
  probabilities = [0.4, 0.3, 0.15, 0.1, 0.05]
  logits = np.log(np.array([[probabilities]], np.float32)) + 7.0  # a constant changes nothing
  smoothed, nll = cross_entropy(logits, np.array([[1]]), LossConfig(0.1, over))
  by_hand = -right * math.log(0.3) - wrong * sum(math.log(p) for p in (0.4, 0.15, 0.1, 0.05))
  assert abs(smoothed[0, 0] - by_hand) < 1e-5
  assert abs(nll[0, 0] + math.log(0.3)) < 1e-5


def test_without_smoothing_it_is_the_cross_entropy(scored):
  logits, labels = scored
  for over in SMOOTHINGS:
    smoothed, nll = cross_entropy(logits, labels, LossConfig(0.0, over))
    np.testing.assert_allclose(smoothed, optax.softmax_cross_entropy_with_integer_labels(logits, labels), atol=1e-5)
    np.testing.assert_allclose(nll, smoothed, atol=1e-6)


@pytest.mark.parametrize('over', SMOOTHINGS)
def test_equals_an_explicit_target_distribution(scored, over):
  logits, labels = scored
  config = LossConfig(0.3, over)
  smoothed, nll = cross_entropy(logits, labels, config)
  np.testing.assert_allclose(smoothed, plain(logits, labels, config), atol=1e-5)
  assert np.abs(smoothed - nll).max() > 0.1
  if over == 'vocabulary':
    target = optax.smooth_labels(jax.nn.one_hot(labels, V), 0.3)
    np.testing.assert_allclose(smoothed, optax.softmax_cross_entropy(logits, target), atol=1e-5)


@pytest.mark.parametrize('over', SMOOTHINGS)
def test_the_gradient_written_by_hand_equals_autodiff(scored, over):
  logits, labels = scored
  config, weight = LossConfig(0.3, over), np.random.default_rng(1).normal(size=(2, B, T)).astype(np.float32)

  def ours(logits):
    smoothed, nll = cross_entropy(logits, labels, config)
    return (weight[0] * smoothed + weight[1] * nll).sum()

  def reference(logits):
    return (weight[0] * plain(logits, labels, config) + weight[1] * plain(logits, labels, LossConfig(0.0))).sum()

  np.testing.assert_allclose(jax.jit(jax.grad(ours))(logits), jax.jit(jax.grad(reference))(logits), atol=1e-5)


def test_far_scores_stay_finite():
  logits = np.array([[[300.0, -300.0, 0.0, 1.0, 2.0]]], np.float32)
  value, gradient = jax.jit(jax.value_and_grad(
      lambda x: cross_entropy(x, np.array([[1]]), LossConfig(0.1))[0].sum()))(logits)
  assert abs(value - (0.92 * 600 + 0.02 * (300 + 299 + 298))) < 1e-2
  assert np.isfinite(gradient).all()


def test_padding_counts_nothing(scored):
  logits, labels = scored
  real = np.array([[True, True, False], [True, False, False]])
  config = LossConfig(0.1)
  each, nll = cross_entropy(logits, labels, config)
  totals = sums(logits, labels, real, config)
  assert totals.tokens == 3
  np.testing.assert_allclose(totals.loss, each[0, 0] + each[0, 1] + each[1, 0], rtol=1e-5)
  np.testing.assert_allclose(totals.nll, nll[0, 0] + nll[0, 1] + nll[1, 0], rtol=1e-5)
  other = np.where(real[..., None], logits, 11 * logits + 5)
  assert sums(other, np.where(real, labels, 4), real, config) == totals
  gradient = np.asarray(jax.jit(jax.grad(lambda x: sums(x, labels, real, config).loss))(logits))
  assert (gradient[~real] == 0).all() and (np.abs(gradient[real]).max(-1) > 1e-3).all()


def test_correct_counts_real_tokens_that_are_most_likely():
  logits = np.eye(V, dtype=np.float32)[[[0, 3, 2], [4, 1, 1]]]
  labels = np.array([[0, 3, 4], [4, 1, 0]])  # right: 2 in the first row, 2 in the second
  count = lambda real: sums(logits, labels, real, LossConfig()).correct
  assert count(np.ones((2, 3), bool)) == 4
  assert count(np.array([[True, False, True], [True, True, True]])) == 3
  assert count(np.zeros((2, 3), bool)) == 0


@pytest.mark.parametrize('wrong', [dict(label_smoothing=1.0), dict(label_smoothing=-0.1), dict(smoothing_over='none')])
def test_mistaken_settings_are_refused(wrong):
  with pytest.raises(ValueError, match=next(iter(wrong))):
    LossConfig(**wrong)


def test_divergence_by_hand():
  p, q = np.array([0.5, 0.25, 0.125, 0.125]), np.array([0.25, 0.25, 0.25, 0.25])
  logits = lambda probabilities, shift: np.log(np.array([[probabilities]], np.float32)) + shift
  found = loss.divergence(logits(p, 3.0), logits(q, -2.0))
  np.testing.assert_allclose(found, [[0.5 * math.log(2) - 0.25 * math.log(2)]], atol=1e-6)
  np.testing.assert_allclose(loss.divergence(logits(q, 0.0), logits(p, 0.0)), [[0.25 * math.log(2)]], atol=1e-6)
  skewed = np.array([0.7, 0.1, 0.1, 0.1])
  by_hand = lambda p, q: sum(a * math.log(a / b) for a, b in zip(p, q))
  for one, other in ((p, skewed), (skewed, p)):
    np.testing.assert_allclose(loss.divergence(logits(one, 1.0), logits(other, 0.0)), [[by_hand(one, other)]], atol=1e-6)
  assert abs(by_hand(p, skewed) - by_hand(skewed, p)) > 1e-2


def test_the_gradient_of_the_divergence_written_by_hand_equals_autodiff(scored):
  first, weight = scored[0], np.random.default_rng(1).normal(size=(B, T)).astype(np.float32)
  second = np.random.default_rng(2).normal(size=first.shape).astype(np.float32)

  def reference(p, q):
    p, q = jax.nn.log_softmax(p), jax.nn.log_softmax(q)
    return (weight * (jnp.exp(p) * (p - q)).sum(-1)).sum()

  gradients = lambda function: jax.jit(jax.grad(function, argnums=(0, 1)))(first, second)
  found, expected = gradients(lambda p, q: (weight * loss.divergence(p, q)).sum()), gradients(reference)
  for ours, autodiff in zip(found, expected):
    np.testing.assert_allclose(ours, autodiff, atol=1e-5)
    assert np.abs(autodiff).max() > 1e-2


def test_divergence_of_equals_is_zero_and_of_far_scores_finite(scored):
  logits, _ = scored
  np.testing.assert_array_equal(loss.divergence(logits, logits), np.zeros((B, T)))
  value, gradient = jax.jit(jax.value_and_grad(lambda x: loss.divergence(x, -x).sum()))(
      np.array([[[300.0, -300.0, 0.0]]], np.float32))
  assert abs(value - 600) < 1e-2 and np.isfinite(gradient).all()
