"""Adam and the learning rate of Eq. 3, against loops in NumPy."""

import jax
import numpy as np
import pytest

from transformer import optimizer
from transformer.config import OptimizerConfig


@pytest.mark.parametrize('step, expected', [
    (1, 512**-0.5 * 4000**-1.5), (4000, (512 * 4000) ** -0.5), (2000, (512 * 4000) ** -0.5 / 2),
    (16_000, (512 * 4000) ** -0.5 / 2), (100_000, 512**-0.5 * 100_000**-0.5)])
def test_eq_3(step, expected):
  rate = optimizer.learning_rate(OptimizerConfig())
  np.testing.assert_allclose(rate(step - 1), expected, rtol=1e-5)  # optax counts from 0


def test_the_peak_stands_at_warmup_and_scales():
  config = OptimizerConfig(d_model=14, warmup_steps=37, learning_rate_scale=2.5)
  rates = np.asarray(optimizer.learning_rate(config)(np.arange(101)))
  assert rates.argmax() == 36
  np.testing.assert_allclose(rates.max(), 2.5 / np.sqrt(14 * 37), rtol=1e-5)
  assert (np.diff(rates[:37]) > 0).all() and (np.diff(rates[36:]) < 0).all()


def adam_loop(config, x, gradients):
  """Kingma & Ba, 2015, Algorithm 1, at Eq. 3, clipped by global norm."""
  first = second = np.zeros_like(x)
  for step, g in enumerate(gradients, 1):
    if config.clip_norm:
      g = g * min(1.0, config.clip_norm / np.sqrt((g**2).sum()))
    rate = config.learning_rate_scale * config.d_model**-0.5 * min(step**-0.5, step * config.warmup_steps**-1.5)
    first = config.beta1 * first + (1 - config.beta1) * g
    second = config.beta2 * second + (1 - config.beta2) * g**2
    x = x - rate * (first / (1 - config.beta1**step)) / (
        np.sqrt(second / (1 - config.beta2**step)) + config.epsilon)
  return x


@pytest.mark.parametrize('clip_norm', [0.0, 1.5])
def test_three_steps_of_adam_equal_a_loop(clip_norm):
  config = OptimizerConfig(d_model=22, warmup_steps=2, clip_norm=clip_norm)  # the third step is past the peak
  draw = np.random.default_rng(0)
  x, gradients = draw.normal(size=7), draw.normal(size=(3, 7)) * np.array([[0.2], [5.0], [1.0]])
  split = lambda v: {'a': np.float32(v[:2]), 'b': np.float32(v[2:])}  # the norm is of the whole tree
  params, rule = split(x), optimizer.build(config)
  state, update = rule.init(params), jax.jit(rule.update)
  for g in gradients:
    updates, state = update(split(g), state, params)
    params = jax.tree.map(lambda p, u: p + np.asarray(u), params, updates)
  np.testing.assert_allclose(np.concatenate([params['a'], params['b']]), adam_loop(config, x, gradients), atol=1e-5)
  unclipped = adam_loop(OptimizerConfig(d_model=22, warmup_steps=2), x, gradients)
  assert (np.abs(unclipped - adam_loop(config, x, gradients)).max() > 1e-3) == bool(clip_norm)


def test_defaults_are_the_papers():
  config = OptimizerConfig()
  assert (config.beta1, config.beta2, config.epsilon, config.warmup_steps) == (0.9, 0.98, 1e-9, 4000)
  assert config.learning_rate_scale == 1.0 and config.clip_norm == 0.0


@pytest.mark.parametrize('wrong', [dict(warmup_steps=0), dict(beta2=1.0), dict(clip_norm=-1.0), dict(epsilon=0.0),
                                   dict(learning_rate_scale=0.0), dict(d_model=-3)])
def test_mistaken_settings_are_refused(wrong):
  with pytest.raises(ValueError, match=next(iter(wrong))):
    OptimizerConfig(**wrong)
