"""The state of training, and one step as a pure function of (state, batch)."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from transformer import loss
from transformer.config import LossConfig
from transformer.model import Model
from transformer.tokens import Batch, shift_right


class TrainState(NamedTuple):
  """Everything that a step changes, and the root key that it does not."""

  step: jax.Array  # [] int32: updates done
  params: Any
  opt_state: Any
  key: jax.Array  # typed key; step n draws its dropout from fold_in(key, n)
  average: Any  # exponential moving average of params, or () when it is off


def init_state(model: Model, optimizer: optax.GradientTransformation, key: jax.Array, ema_decay: float = 0.0
               ) -> TrainState:
  """A fresh state: parameters from one half of the key, dropout from the other."""
  params_key, dropout_key = jax.random.split(key)
  params = model.init(params_key)
  return TrainState(jnp.zeros((), jnp.int32), params, optimizer.init(params), dropout_key, params if ema_decay else ())


def batch_sums(model: Model, params: Any, batch: Batch, bos_id: int, config: LossConfig, key: jax.Array | None = None
               ) -> loss.Sums:
  """Loss, tokens and hits of one batch under teacher forcing; without a key, without dropout."""
  encoder_key, decoder_key = (None, None) if key is None else jax.random.split(key)
  memory = model.encode(params, batch.source, encoder_key)
  logits = model.decode(params, memory, shift_right(batch.target, bos_id), decoder_key)
  return loss.sums(logits, batch.target.ids, batch.target.segments > 0, config)


def make_train_step(model: Model, optimizer: optax.GradientTransformation, config: LossConfig, bos_id: int,
                    ema_decay: float = 0.0) -> Callable:
  """One update from one batch.

  The gradient of the loss's sum is divided once by the tokens of the whole batch, so that every token weighs the
  same wherever it stands.

  Returns:
    step(state, batch, axis=None) -> (state, measures). `axis` names the mapped axis over which a batch is split
    (pmap, shard_map); sums and gradients are then added over it, and each shard draws dropout of its own. Under
    plain jit it is None and the batch is the global one. Measures: Sums' fields and 'gradient_norm'.
  """
  def step(state: TrainState, batch: Batch, axis: str | None = None):
    key = jax.random.fold_in(state.key, state.step)
    if axis is not None:
      key = jax.random.fold_in(key, jax.lax.axis_index(axis))

    def objective(params):
      totals = batch_sums(model, params, batch, bos_id, config, key)
      return totals.loss, totals

    gradients, totals = jax.grad(objective, has_aux=True)(state.params)
    if axis is not None:
      gradients, totals = jax.lax.psum((gradients, totals), axis)
    count = jnp.maximum(totals.tokens, 1.0)  # a batch of padding alone has gradient zero, not NaN
    gradients = jax.tree.map(lambda g: g / count, gradients)
    updates, opt_state = optimizer.update(gradients, state.opt_state, state.params)
    params = optax.apply_updates(state.params, updates)
    average = optax.incremental_update(params, state.average, 1.0 - ema_decay) if ema_decay else ()
    measures = totals._asdict() | {'gradient_norm': optax.tree.norm(gradients)}
    return TrainState(state.step + 1, params, opt_state, state.key, average), measures

  return step


def make_eval_step(model: Model, config: LossConfig, bos_id: int) -> Callable:
  """step(params, batch, axis=None) -> Sums' fields, without dropout."""
  def step(params, batch: Batch, axis: str | None = None):
    totals = batch_sums(model, params, batch, bos_id, config)._asdict()
    return totals if axis is None else jax.lax.psum(totals, axis)

  return step
