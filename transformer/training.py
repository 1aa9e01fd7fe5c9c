"""The state of training, its objectives, and one step as a pure function of (state, batch)."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Float32, Int, Key, PyTree

from transformer import classification, loss
from transformer import optimizer as optimizers
from transformer.config import ConsistencyConfig, LossConfig
from transformer.model import Model, Params
from transformer.registries import CONSISTENCIES, DROPOUT_BITS
from transformer.tokens import Batch, Tokens, cut, ends, shift_right


class TrainState(NamedTuple):
  """Everything that a step changes, and the root key that it does not."""

  step: Int[Array, '']  # updates done
  params: Params
  opt_state: optax.OptState
  key: Key[Array, '']  # step n draws its dropout from fold_in(key, n)
  average: Params | tuple[()]  # exponential moving average of params, or () when it is off


def init_state(model: Model, optimizer: optax.GradientTransformation, key: Key[Array, ''], ema_decay: float = 0.0,
               dropout_bits: str = 'threefry') -> TrainState:
  """Make the first state: parameters from one half of the key, dropout from the other.

  Args:
    model: to be trained.
    optimizer: from optimizer.build.
    key: root of all that is random.
    ema_decay: see make_train_step.
    dropout_bits: an entry of DROPOUT_BITS, how dropout is drawn.
  """
  params_key, dropout_key = jax.random.split(key)
  dropout_key = DROPOUT_BITS[dropout_bits](dropout_key)
  params = model.init(params_key)
  return TrainState(jnp.zeros((), jnp.int32), params, optimizer.init(params), dropout_key, params if ema_decay else ())


# --------------------------------------------------------------------------------------------------- objectives
# An objective is a pure function (params, batch, key=None) -> sums, whose loss per token a step reduces. Without a key
# there is no dropout.

AnyBatch = Batch | classification.LabelledBatch
Objective = Callable[..., loss.Sums | classification.ClassificationSums]
Measures = dict[str, Float32[Array, '']]


def _pass(decode: Callable, model: Model, params: Params, source: Tokens, shifted: Tokens, key: Key[Array, ''] | None
          ) -> Float[Array, 'B T _']:
  """Return what `decode`, model.decode or model.states, gives under teacher forcing; `shifted` starts from BOS."""
  encoder_key, decoder_key = (None, None) if key is None else jax.random.split(key)
  return decode(params, model.encode(params, source, encoder_key), shifted, decoder_key)


def _logits(model: Model, config: LossConfig, params: Params, source: Tokens, shifted: Tokens,
            key: Key[Array, ''] | None) -> loss.Logits:
  """Return the logits of one pass under teacher forcing, as the loss keeps them; `shifted` starts from BOS."""
  return loss.kept(_pass(model.decode, model, params, source, shifted, key), config)


def cross_entropy(model: Model, config: LossConfig, bos_id: int) -> Objective:
  """Smoothed cross-entropy under teacher forcing (§5.4); with no key and float32 logits, what evaluation measures."""
  def objective(params: Params, batch: Batch, key: Key[Array, ''] | None = None) -> loss.Sums:
    logits = _logits(model, config, params, batch.source, shift_right(batch.target, bos_id), key)
    return loss.sums(logits, batch.target.ids, batch.target.segments > 0, config)

  return objective if config.loss_chunks == 1 else _cross_entropy_in_chunks(model, config, bos_id)


def _cross_entropy_in_chunks(model: Model, config: LossConfig, bos_id: int) -> Objective:
  """cross_entropy() up to rounding, with fewer logits in memory. Raises ValueError for a model without states."""
  states, logits = model.states, model.logits
  if states is None or logits is None:
    raise ValueError(f'loss_chunks is {config.loss_chunks}, but this model computes its logits in one piece; expected 1')

  def objective(params: Params, batch: Batch, key: Key[Array, ''] | None = None) -> loss.Sums:
    found = _pass(states, model, params, batch.source, shift_right(batch.target, bos_id), key)
    return loss.sums_in_chunks(found, lambda states: loss.kept(logits(params, states), config), batch.target.ids,
                               batch.target.segments > 0, config)

  return objective


def r_drop(model: Model, config: LossConfig, bos_id: int, consistency: ConsistencyConfig) -> Objective:
  """R-Drop (Liang et al., 2021, Eq. 4): two passes that differ by their dropout.

  Loss: both passes' cross-entropy, added up, and α/2 (KL(p₁ ‖ p₂) + KL(p₂ ‖ p₁)). The other sums are the first
  pass's.
  """
  def objective(params: Params, batch: Batch, key: Key[Array, '']) -> loss.Sums:
    shifted, real = shift_right(batch.target, bos_id), batch.target.segments > 0
    first, second = (_logits(model, config, params, batch.source, shifted, k) for k in jax.random.split(key))
    totals, others = (loss.sums(logits, batch.target.ids, real, config) for logits in (first, second))
    apart = (loss.divergence(first, second) + loss.divergence(second, first)) / 2
    return totals._replace(
        loss=totals.loss + others.loss + consistency.weight * jnp.where(real, apart, 0.0).sum())

  return objective


def simcut(model: Model, config: LossConfig, bos_id: int, consistency: ConsistencyConfig) -> Objective:
  """SimCut (Gao et al., 2022, Eq. 4): the first pass's cross-entropy, and α KL(p ‖ p_cut).

  The second pass has dropout of its own, and tokens on both sides lose their embeddings; EOS of the source and BOS
  never do. The gradient goes through both passes.
  """
  def objective(params: Params, batch: Batch, key: Key[Array, '']) -> loss.Sums:
    keys, rate = jax.random.split(key, 4), consistency.cut_rate
    shifted, real = shift_right(batch.target, bos_id), batch.target.segments > 0
    whole = _logits(model, config, params, batch.source, shifted, keys[0])
    reduced = _logits(model, config, params, cut(batch.source, rate, ends(batch.source), keys[2]),
                      cut(shifted, rate, shifted.positions == 0, keys[3]), keys[1])
    totals = loss.sums(whole, batch.target.ids, real, config)
    apart = jnp.where(real, loss.divergence(whole, reduced), 0.0).sum()
    return totals._replace(loss=totals.loss + consistency.weight * apart)

  return objective


class Consistency(NamedTuple):
  """An objective of one pass over a batch, or of two passes that should agree."""

  objective: Callable[[Model, LossConfig, int, ConsistencyConfig], Objective]  # (model, loss, bos_id, consistency)
  weight: float = 0.0  # the paper's factor of the divergence
  by_dropout: bool = False  # whether the passes differ by their dropout alone


CONSISTENCIES.add('none', Consistency(lambda model, config, bos_id, _: cross_entropy(model, config, bos_id)))
CONSISTENCIES.add('r_drop', Consistency(r_drop, weight=5.0, by_dropout=True), 'dropout differs',
                  uses=['consistency_weight'])
CONSISTENCIES.add('simcut', Consistency(simcut, weight=3.0), 'tokens are cut', uses=['consistency_weight', 'cut_rate'])


def build_objective(model: Model, config: LossConfig, bos_id: int,
                    consistency: ConsistencyConfig = ConsistencyConfig()) -> Objective:
  """Build the training objective: for a classifier that of its labels, else what consistency.consistency names."""
  if isinstance(model, classification.Classifier):
    return classification.build_objective(model)
  return CONSISTENCIES[consistency.consistency].objective(model, config, bos_id, consistency)


# -------------------------------------------------------------------------------------------------------- the steps


def split(batch: PyTree, parts: int) -> PyTree:
  """Deal a batch's rows out to `parts` micro-batches: every leaf [B, ...] becomes [parts, B / parts, ...].

  Row b goes to micro-batch b mod parts, so that rows stay on the device that holds them.

  Raises:
    ValueError: when the rows do not divide.
  """
  rows = jax.tree.leaves(batch)[0].shape[0]
  if rows % parts:
    raise ValueError(f'a batch of {rows} rows does not split into accumulation_steps = {parts} micro-batches')
  return jax.tree.map(lambda x: x.reshape(rows // parts, parts, *x.shape[1:]).swapaxes(0, 1), batch)


def accumulate(measure: Callable[[PyTree, Key[Array, '']], PyTree], batch: PyTree, key: Key[Array, ''], parts: int
               ) -> PyTree:
  """Sum measure(micro-batch, key) over the micro-batches, one after the other, so that only one is in memory."""
  if parts == 1:
    return measure(batch, key)
  pieces = split(batch, parts), jax.random.split(key, parts)
  shapes = jax.eval_shape(measure, *jax.tree.map(lambda x: x[0], pieces))
  nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
  add = lambda total, piece: (jax.tree.map(jnp.add, total, measure(*piece)), None)
  return jax.lax.scan(add, nothing, pieces)[0]


def make_train_step(objective: Objective, optimizer: optax.GradientTransformation, ema_decay: float = 0.0,
                    accumulation_steps: int = 1, prepare: Callable[[Params], Params] | None = None) -> Callable:
  """Make the function that does one update from one batch.

  The gradient of the loss's sum is divided once by the tokens of the whole batch, so that every token weighs the
  same, on whichever device and in whichever micro-batch it is.

  Args:
    objective: see above; any record with `loss` and `tokens` serves as sums.
    optimizer: from optimizer.build.
    ema_decay: of the moving average of the parameters; 0 keeps none.
    accumulation_steps: micro-batches that the rows of a batch are split into; gradients are added over them.
    prepare: makes of the parameters what the objective takes, once for all micro-batches; None: they are the same.

  Returns:
    step(state, batch, axis=None) -> (state, measures). `axis` names the mapped axis over which a batch is split
    (pmap, shard_map); sums and gradients are then added over it, and each shard draws dropout of its own. Under
    plain jit it is None and the batch is the global one. Measures: Sums' fields, 'gradient_norm', and 'skipped':
    1 when loss, gradient or new parameters are not finite; then only the step of the state changes. A BoundedUpdate's
    new parameters are finite whenever the gradient's norm and the old ones are.
  """
  def step(state: TrainState, batch: AnyBatch, axis: str | None = None) -> tuple[TrainState, Measures]:
    key = jax.random.fold_in(state.key, state.step)
    if axis is not None:
      key = jax.random.fold_in(key, jax.lax.axis_index(axis))

    def scored(params, batch, key):
      totals = objective(params, batch, key)
      return totals.loss, totals

    prepared, back = (state.params, None) if prepare is None else jax.vjp(prepare, state.params)
    slope = lambda batch, key: jax.grad(scored, has_aux=True)(prepared, batch, key)
    gradients, totals = accumulate(slope, batch, key, accumulation_steps)
    if back is not None:
      gradients, = back(gradients)
    if axis is not None:
      gradients, totals = jax.lax.psum((gradients, totals), axis)
    count = jnp.maximum(loss.count(totals._asdict()), 1.0)  # a batch of padding alone has gradient zero, not NaN
    gradients = jax.tree.map(lambda g: g / count, gradients)
    updates, opt_state = optimizer.update(gradients, optimizers.at_step(state.opt_state, state.step), state.params)
    params = optax.apply_updates(state.params, updates)
    average = optax.incremental_update(params, state.average, 1.0 - ema_decay) if ema_decay else ()
    measures = totals._asdict() | {'gradient_norm': optax.tree.norm(gradients)}
    # A norm is finite only where every element is. XLA computes the gradient's once, for this and for clipping. That of
    # the new parameters takes a pass of its own over all that they are made from, since none may be written before it.
    finite = jnp.isfinite(measures['loss']) & jnp.isfinite(measures['gradient_norm'])
    if not isinstance(optimizer, optimizers.BoundedUpdate):
      finite &= jnp.isfinite(optax.tree.norm(params))
    before = state.params, state.opt_state, state.average
    params, opt_state, average = jax.tree.map(
        lambda new, old: jnp.where(finite, new, old), (params, opt_state, average), before)
    return (TrainState(state.step + 1, params, opt_state, state.key, average),
            measures | {'skipped': 1.0 - finite.astype(jnp.float32)})

  return step


def make_eval_step(objective: Objective) -> Callable:
  """Make step(params, batch, axis=None) -> Sums' fields, without dropout, of cross_entropy or a similar objective."""
  def step(params: Params, batch: AnyBatch, axis: str | None = None) -> Measures:
    totals = objective(params, batch)._asdict()
    return totals if axis is None else jax.lax.psum(totals, axis)

  return step
