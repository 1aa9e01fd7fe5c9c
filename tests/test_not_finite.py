"""Updates that are not finite: a step skips them whole, and finds them with as few passes over the parameters as it can."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from transformer import loss, training
from transformer import optimizer as optimizers
from transformer.config import OptimizerConfig
from transformer.tokens import Batch
from transformer.training import TrainState


def descent_along(optimizer, params):
  """A state, and its compiled step as a function of (state, gradient)."""
  def objective(params, batch, key):
    one = jnp.ones(())
    slopes = jax.tree.map(lambda p, g: p.reshape(-1) @ g.reshape(-1), params, batch.source)
    return loss.Sums(loss=sum(jax.tree.leaves(slopes)), nll=one, tokens=one, correct=one)

  state = TrainState(jnp.int32(5), params, optimizer.init(params), jax.random.key(3), ())
  step = jax.jit(training.make_train_step(objective, optimizer)).lower(state, Batch(params, None)).compile()
  return state, lambda state, gradient: step(state, Batch(gradient, None)), step.as_text()


@pytest.mark.parametrize('settings, size', [
    (dict(kind='adafactor', peak=1e-3), 1e16), (dict(kind='sgd', peak=1e30), 1e15), (dict(peak=1e-3, epsilon=1e-46), 1.0)])
def test_an_update_that_makes_infinities_of_finite_gradients_is_skipped(settings, size):
  """Rows of zeros beside huge ones, a rate too high, an epsilon that is zero in float32."""
  optimizer = optimizers.build(OptimizerConfig(schedule='constant', warmup_steps=0, **settings))
  state, step, _ = descent_along(optimizer, {'x': jnp.ones((128, 131))})
  gradient = jnp.zeros((128, 131)).at[:7].set(size)
  updates, _ = optimizer.update({'x': gradient}, state.opt_state, state.params)
  assert not np.isfinite(updates['x'] + 1.0).all()
  after, measures = step(state, {'x': gradient})
  assert measures['skipped'] == 1 and np.isfinite(measures['gradient_norm']) and int(after.step) == 6
  jax.tree.map(np.testing.assert_array_equal, after.params, state.params)
  jax.tree.map(np.testing.assert_array_equal, after.opt_state, state.opt_state)


@pytest.mark.parametrize('clip_norm', [0.0, 0.5])
@pytest.mark.parametrize('wrong', [jnp.nan, jnp.inf, 2e19])  # the last one's square overflows
def test_a_gradient_that_is_not_finite_is_skipped_by_bounded_updates_too(clip_norm, wrong):
  optimizer = optimizers.build(OptimizerConfig(d_model=14, clip_norm=clip_norm))
  state, step, _ = descent_along(optimizer, {'x': jnp.ones((3, 5)), 'y': jnp.ones(7)})
  good = {'x': jnp.ones((3, 5)), 'y': jnp.zeros(7)}
  state, measures = step(state, good)
  assert measures['skipped'] == 0 and not (state.params['x'] == 1.0).any()
  after, measures = step(state, good | {'y': jnp.zeros(7).at[4].set(wrong)})
  assert measures['skipped'] == 1
  jax.tree.map(np.testing.assert_array_equal, (after.params, after.opt_state), (state.params, state.opt_state))


@pytest.mark.parametrize('settings', [dict(kind='sgd', momentum=0.0, schedule='linear', peak=0.5, warmup_steps=2), dict(d_model=14)])
def test_the_rate_goes_by_the_step_though_updates_were_skipped(settings):
  """The schedule ends where the run does, and the rate that is logged for a step is the one that it had."""
  config = OptimizerConfig(**settings)
  state, step, _ = descent_along(optimizers.build(config, 11), {'x': jnp.zeros((3, 5))})
  good, wrong = {'x': jnp.full((3, 5), 0.5)}, {'x': jnp.full((3, 5), jnp.nan)}
  rate = optimizers.learning_rate(config, 11)
  for gradient in (good, wrong, wrong, good, good):
    at, before = int(state.step), state.params['x']
    state, measures = step(state, gradient)
    if gradient is good:
      direction = 0.5 if settings.get('kind') else 1.0  # Adam's, of gradients that are all the same
      np.testing.assert_allclose(before - state.params['x'], rate(at) * direction, rtol=1e-4)
    else:
      assert measures['skipped'] == 1
  assert int(state.step) == 10


@pytest.mark.parametrize('settings, norms', [
    ({}, 1), (dict(clip_norm=0.5), 1), (dict(kind='sgd', schedule='constant', peak=1e-3, clip_norm=0.5), 2)])
def test_a_step_computes_one_norm_for_measure_clipping_and_check(settings, norms):
  """Where updates have no bound, a second one of the new parameters."""
  *_, text = descent_along(optimizers.build(OptimizerConfig(**settings)), {'x': jnp.ones((37, 41))})
  sums = [line for line in text.splitlines() if ' = f32[] reduce(' in line]
  assert len(sums) == norms + 1, sums  # and the loss itself, a product with the parameters
