"""The update rule, §5.3: by default Adam with the learning rate of Eq. 3; others by name.

A new rule is a function and an entry in OPTIMIZERS, a new schedule a function and an entry in SCHEDULES, both here.
"""

import math
import re
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float32, Int, PyTree
from optax import contrib

from transformer.config import OptimizerConfig
from transformer.registries import OPTIMIZERS, SCHEDULES

# ------------------------------------------------------------------------------------------------ the learning rate

Scalar = Float32[Array, '*many']  # a number, or one for each of many steps


class Schedule(NamedTuple):
  """The course of the learning rate over the updates of a run."""

  rate: Callable[[OptimizerConfig, Scalar, float], Scalar]  # (config, update from 1, last update) -> rate
  ends: bool = False  # whether it falls to an end: config.decay_steps or the run's last update
  by_peak: bool = True  # whether config.peak sets its height, and not config.learning_rate_scale
  least_warmup: int = 0  # fewest updates of its warm-up


def _noam(config: OptimizerConfig, step: Scalar, last: float) -> Scalar:
  """lrate = scale · d_model^-0.5 · min(step^-0.5, step · warmup_steps^-1.5) (Eq. 3)."""
  return config.learning_rate_scale * config.d_model**-0.5 * jnp.minimum(step**-0.5, step * config.warmup_steps**-1.5)


def _peak(config: OptimizerConfig) -> float:
  """Return config.peak, which the record has checked to be given for every schedule that reads it."""
  assert config.peak is not None
  return config.peak


def _inverse_sqrt(config: OptimizerConfig, step: Scalar, last: float) -> Scalar:
  """Eq. 3 with a given peak: it falls as peak · √(warmup_steps / step)."""
  return _warmed(config, step, _peak(config) * jnp.sqrt(config.warmup_steps / step))


def _cosine(config: OptimizerConfig, step: Scalar, last: float) -> Scalar:
  """Half a cosine from the peak to its final share (Loshchilov & Hutter, 2017, without restarts)."""
  return _warmed(config, step, _between(config, 0.5 * (1.0 + jnp.cos(jnp.pi * _passed(config, step, last)))))


def _linear(config: OptimizerConfig, step: Scalar, last: float) -> Scalar:
  """A straight line from the peak to its final share."""
  return _warmed(config, step, _between(config, 1.0 - _passed(config, step, last)))


def _constant(config: OptimizerConfig, step: Scalar, last: float) -> Scalar:
  """The peak, from the end of the warm-up on."""
  return _warmed(config, step, jnp.full_like(step, _peak(config)))


def _warmed(config: OptimizerConfig, step: Scalar, after: Scalar) -> Scalar:
  """Rise in a straight line to the peak, reached at step warmup_steps, and then follow `after`."""
  return jnp.where(step < config.warmup_steps, _peak(config) * step / max(config.warmup_steps, 1), after)


def _passed(config: OptimizerConfig, step: Scalar, last: float) -> Scalar:
  """Return the share of the way from the end of the warm-up to the last step; 1 from there on."""
  return jnp.clip((step - config.warmup_steps) / (last - config.warmup_steps), 0.0, 1.0)


def _between(config: OptimizerConfig, height: Scalar) -> Scalar:
  """Interpolate between the peak's final share, at height 0, and the peak, at height 1."""
  return _peak(config) * (config.final_share + (1.0 - config.final_share) * height)


_ENDS = ('decay_steps', 'final_share')  # options of schedules with an end
SCHEDULES.add('noam', Schedule(_noam, by_peak=False, least_warmup=1), 'Eq. 3')
SCHEDULES.add('inverse_sqrt', Schedule(_inverse_sqrt, least_warmup=1))
SCHEDULES.add('cosine', Schedule(_cosine, ends=True), uses=_ENDS)
SCHEDULES.add('linear', Schedule(_linear, ends=True), uses=_ENDS)
SCHEDULES.add('constant', Schedule(_constant))


def learning_rate(config: OptimizerConfig, total_steps: int | None = None) -> optax.Schedule:
  """Return the learning rate as a function of the number of updates done before, as optax counts.

  Args:
    config: which schedule.
    total_steps: length of the run, at which falling schedules end unless config.decay_steps says otherwise.

  Raises:
    ValueError: when a falling schedule has no end, or one within the warm-up.
  """
  last = config.decay_steps or total_steps
  if config.ends_with_run and (last is None or last <= config.warmup_steps):
    raise ValueError(f'schedule {config.schedule} falls from warmup_steps, {config.warmup_steps}, to the end of the '
                     f'run, {last}; expected a later end: train longer, or set warmup_steps or decay_steps')
  rate = SCHEDULES[config.schedule].rate
  return lambda count: rate(config, jnp.asarray(count, jnp.float32) + 1.0, float(last or 0))


# -------------------------------------------------------------------------------------------------- the update rule


class Rule(NamedTuple):
  """An update rule, which turns a gradient into a direction; weight decay, sign and learning rate come after."""

  direction: Callable[[OptimizerConfig], optax.GradientTransformation]
  decays: bool = True  # whether decoupled weight decay can be added to it
  weight_decay: float = 0.0  # the default, where config.weight_decay is None
  # The largest entry of a direction, whatever gradients of finite norm have come; infinite where there is no bound.
  largest: Callable[[OptimizerConfig], float] = lambda config: math.inf


def _adam(config: OptimizerConfig) -> optax.GradientTransformation:
  """Kingma & Ba, 2015, with the paper's constants (§5.3)."""
  return optax.scale_by_adam(b1=config.beta1, b2=config.beta2, eps=config.epsilon)


def _largest_of_adam(config: OptimizerConfig) -> float:
  """Bound Adam's directions: 1 / √((1 - β₂) (1 - β₁²/β₂)), which is 17 with the paper's constants.

  Moments are sums over past gradients, m of (1 - β₁) β₁ⁱ g and v of (1 - β₂) β₂ⁱ g². By Cauchy's inequality |m| / √v is
  at most 1 - β₁ times the above; correcting m for its start at zero takes 1 - β₁ away, at most. Without β₁² < β₂ there
  is no bound, and below an epsilon of 1e-30 none where g² underflows.
  """
  if config.beta1**2 >= config.beta2 or config.epsilon < 1e-30:
    return math.inf
  return ((1.0 - config.beta2) * (1.0 - config.beta1**2 / config.beta2)) ** -0.5


def _adafactor(config: OptimizerConfig) -> optax.GradientTransformation:
  """Shazeer & Stern, 2018, without momentum; the learning rate is relative to each parameter's root mean square.

  Where a parameter's two largest dimensions have 128 or more each (optax's rule), row and column means over them
  stand for its second moments: embeddings, feed-forward matrices. All others keep every second moment: heads'
  projections with d_k below 128, as the base model's [512, 8, 64], biases and scales.
  """
  return optax.chain(optax.scale_by_factored_rms(), _each_layer(optax.clip_by_block_rms(1.0)),
                     _each_layer(optax.scale_by_param_block_rms()))


def _each_layer(rule: optax.GradientTransformation) -> optax.GradientTransformation:
  """Apply a rule without a state to each layer of a scanned stack by itself, as where layers are written out."""
  one = lambda update, param: rule.update(update, optax.EmptyState(), param)[0]
  is_stacked = lambda path: any(str(getattr(key, 'key', '')).endswith('layers') for key in path)
  return optax.stateless(lambda updates, params: jax.tree_util.tree_map_with_path(
      lambda path, update, param: (jax.vmap(one) if is_stacked(path) else one)(update, param), updates, params))


def _sgd(config: OptimizerConfig) -> optax.GradientTransformation:
  """Gradient descent with heavy-ball momentum (Polyak, 1964)."""
  return optax.trace(decay=config.momentum) if config.momentum else optax.identity()


# Matrices with axes for heads or gates: the axes summed over and those yielded, counted from the last. Layers of a scan
# come before, and they, gates and a score's heads are matrices of their own.
_HEADED = {name: contrib.MuonDimensionNumbers(summed, yielded) for names, summed, yielded in (
    ('w_query w_key w_value', -3, (-2, -1)), ('w_out', (-3, -2), -1), ('w_input w_state w_fed', -3, -1))
           for name in names.split()}


def _matrix(path: tuple, rank: int) -> contrib.MuonDimensionNumbers | None:
  """Return the axes of a matrix, by its name; None for embeddings, tables, norms and biases."""
  name, plain = _name(path), contrib.MuonDimensionNumbers(-2, -1)
  if not re.fullmatch(r'w\d*|w_\w+', name):
    return None
  return _HEADED.get(name, plain) if rank > 2 else plain


def _muon(config: OptimizerConfig) -> optax.GradientTransformation:
  """Jordan et al., 2024: a matrix moves along its mean gradient, whose singular values are all made about one.

  The mean is Nesterov's, with config.momentum. Four Newton-Schulz steps follow a scaling of the rows that bounds the
  norm closely (Boissin et al., 2025), where five would without it. Directions have a root mean square of
  config.muon_rms: at 0.2, Adam's usual one (Liu et al., 2025, §2.2), one learning rate serves matrices and all else,
  which Adam with Nesterov's mean updates (Dozat, 2016). Gradients of less than about 1e-6 give smaller directions: optax
  scales no row by a norm below 1e-8.
  """
  numbers = lambda tree: jax.tree_util.tree_map_with_path(lambda path, leaf: _matrix(path, leaf.ndim), tree)
  unscaled = -1.0  # build() turns the sign and brings the learning rate
  return contrib.muon(unscaled, beta=config.momentum, ns_steps=4, preconditioning='aol', consistent_rms=config.muon_rms,
                      adam_b1=config.beta1, adam_b2=config.beta2, eps=config.epsilon,
                      muon_weight_dimension_numbers=numbers)


_MOMENTS = ('beta1', 'beta2', 'epsilon')  # options of Adam
OPTIMIZERS.add('adam', Rule(_adam, decays=False, largest=_largest_of_adam), 'the paper', uses=_MOMENTS)
OPTIMIZERS.add('adamw', Rule(_adam, weight_decay=0.01, largest=_largest_of_adam), uses=_MOMENTS)
OPTIMIZERS.add('adafactor', Rule(_adafactor), 'rates relative to each parameter')
OPTIMIZERS.add('sgd', Rule(_sgd), uses=['momentum'])
OPTIMIZERS.add('muon', Rule(_muon), 'orthogonal updates of matrices', uses=[*_MOMENTS, 'momentum', 'muon_rms'])

# Names, not ranks: layers stacked for a scan have one more axis, and biases of heads have two. `scale` and `bias` are
# those of a norm, b1, b_query and the like those of a projection, bias_table is T5's.
_SPARED = re.compile(r'scale|b\d*|b_\w+|\w*bias\w*')


def decays(params: PyTree) -> PyTree[bool]:
  """Return which parameters weight decay acts on: all but norms' scales and biases, recognised by their names."""
  return jax.tree_util.tree_map_with_path(lambda path, _: not _SPARED.fullmatch(_name(path)), params)


def _name(path: tuple) -> str:
  return jax.tree_util.keystr(path[-1:], simple=True)


class BoundedUpdate(optax.GradientTransformation):
  """An update that leaves finite parameters finite, whatever gradients of finite norm have come."""


def is_bounded(config: OptimizerConfig) -> bool:
  """Return whether build() gives a BoundedUpdate, whose new parameters need no check.

  One update takes at most rate · largest from a parameter, beside a decay that shrinks it, so a parameter above 2²⁵
  times that grows no more: float32 rounds the sum to what it was. The limits below keep this at 10¹⁰ or so, far from
  overflow, and the powers of β₁ and β₂ below one in float32.
  """
  rate = (_peak(config) if SCHEDULES[config.schedule].by_peak
          else config.learning_rate_scale * (config.d_model * config.warmup_steps)**-0.5)
  return OPTIMIZERS[config.kind].largest(config) <= 1000.0 and rate * max(config.decay, 1.0) <= 1.0


def build(config: OptimizerConfig, total_steps: int | None = None, frozen_entry: int | None = None
          ) -> optax.GradientTransformation:
  """Build the update: clipping by global norm, direction, decoupled weight decay, learning rate, as configured.

  Decay is decoupled (Loshchilov & Hutter, 2019): lr · decay · parameter is subtracted beside the direction, never
  mixed into the gradient. Where is_bounded(config), this is a BoundedUpdate.

  Args:
    config: which rule and schedule.
    total_steps: see learning_rate().
    frozen_entry: id of an entry of the target's vocabulary whose rows of the tables and whose bias never change.

  Raises:
    ValueError: see learning_rate().
  """
  direction = OPTIMIZERS[config.kind].direction(config)
  rate = optax.scale_by_learning_rate(learning_rate(config, total_steps))
  decay = [optax.add_decayed_weights(config.decay, mask=decays)] if config.decay else []
  update = optax.chain(direction, *decay, rate)
  whole = optax.chain(optax.clip_by_global_norm(config.clip_norm), update) if config.clip_norm else update
  whole = whole if frozen_entry is None else _freezing(whole, frozen_entry)
  return BoundedUpdate(whole.init, whole.update) if is_bounded(config) else whole


def at_step(state: PyTree, step: Int[Array, '']) -> PyTree:
  """Return an optimizer's state whose schedule is at this step, though it may have skipped some of the steps before.

  So the schedule ends where the run does, and the rate that is logged for a step is the one that it has.
  """
  is_schedule = lambda part: isinstance(part, optax.ScaleByScheduleState)
  return jax.tree.map(lambda part: part._replace(count=step) if is_schedule(part) else part, state, is_leaf=is_schedule)


_TARGET_TABLES = ('embedding', 'target_embedding', 'output_projection', 'output_bias')  # one row for each entry


def _freezing(update: optax.GradientTransformation, entry: int) -> optax.GradientTransformation:
  """Leave an entry's rows as they are; the state stays that of `update`, so that checkpoints do not depend on it."""
  def without(path, leaf):
    return leaf.at[entry].set(0.0) if _name(path) in _TARGET_TABLES else leaf

  def apply(updates, state, params=None):
    updates, state = update.update(updates, state, params)
    return jax.tree_util.tree_map_with_path(without, updates), state

  return optax.GradientTransformation(update.init, apply)
