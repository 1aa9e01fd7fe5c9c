"""Adam with the learning rate of Eq. 3, §5.3."""

import jax.numpy as jnp
import optax

from transformer.config import OptimizerConfig


def learning_rate(config: OptimizerConfig) -> optax.Schedule:
  """lrate = scale · d_model^-0.5 · min(step^-0.5, step · warmup_steps^-1.5) (Eq. 3), steps counted from 1.

  The peak, scale / √(d_model · warmup_steps), is reached at step warmup_steps.
  """
  def schedule(count):
    step = jnp.asarray(count, jnp.float32) + 1.0  # optax counts the updates done before this one
    return config.learning_rate_scale * config.d_model**-0.5 * jnp.minimum(
        step**-0.5, step * config.warmup_steps**-1.5)

  return schedule


def build(config: OptimizerConfig) -> optax.GradientTransformation:
  """The update rule: gradients clipped by global norm where asked, then Adam at Eq. 3."""
  adam = optax.adam(learning_rate(config), b1=config.beta1, b2=config.beta2, eps=config.epsilon)
  return optax.chain(optax.clip_by_global_norm(config.clip_norm), adam) if config.clip_norm else adam
