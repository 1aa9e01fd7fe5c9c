"""Update rules and learning rates, against loops in NumPy."""

import itertools
import math

import jax
import numpy as np
import pytest

from tests.conftest import SIZES
from transformer import architectures, layers, optimizer
from transformer import model as models
from transformer.config import ModelConfig, OptimizerConfig, RecurrentConfig
from transformer.registries import OPTIMIZERS


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


@pytest.mark.parametrize('schedule, after', [
    ('inverse_sqrt', {40: 0.3 / 2, 90: 0.1, 1000: 0.03}),
    ('constant', {11: 0.3, 1000: 0.3}),
    # From 0.3 at step 10 to a tenth of it, 0.03, at step 50.
    ('linear', {20: 0.3 - 0.27 / 4, 30: 0.165, 50: 0.03, 1000: 0.03}),
    ('cosine', {20: 0.03 + 0.27 * (1 + math.sqrt(0.5)) / 2, 30: 0.165, 50: 0.03, 1000: 0.03})])
@pytest.mark.parametrize('end', [dict(decay_steps=50), {}])
def test_schedules_by_hand(schedule, after, end):
  config = OptimizerConfig(schedule=schedule, peak=0.3, warmup_steps=10, final_share=0.1, **end)
  rates = np.asarray(optimizer.learning_rate(config, 50 if not end else 77)(np.arange(1000)))
  for step, expected in ({1: 0.03, 5: 0.15, 10: 0.3} | after).items():
    np.testing.assert_allclose(rates[step - 1], expected, rtol=1e-5, err_msg=str(step))
  assert rates.argmax() == 9


@pytest.mark.parametrize('schedule, first', [('constant', 0.3), ('linear', 0.3 * 19 / 20),
                                             ('cosine', 0.15 * (1 + math.cos(math.pi / 20)))])
def test_a_warm_up_of_no_steps_starts_at_the_peak(schedule, first):
  rate = optimizer.learning_rate(OptimizerConfig(schedule=schedule, peak=0.3, warmup_steps=0), 20)
  np.testing.assert_allclose(rate(0), first, rtol=1e-5)


@pytest.mark.parametrize('schedule', ['cosine', 'linear'])
def test_a_schedule_that_falls_needs_an_end(schedule):
  falling = dict(schedule=schedule, peak=0.3, warmup_steps=10)
  with pytest.raises(ValueError, match='num_minutes'):
    OptimizerConfig(**falling, length_known=False)
  assert not OptimizerConfig(**falling, length_known=False, decay_steps=50).ends_with_run
  assert OptimizerConfig(**falling).ends_with_run
  for total in (None, 7, 10):
    with pytest.raises(ValueError, match=f'warmup_steps, 10, .* {total}; expected a later end'):
      optimizer.build(OptimizerConfig(**falling), total)
  optimizer.build(OptimizerConfig(**falling), 11)
  with pytest.raises(ValueError, match='decay_steps is 10; expected more than warmup_steps, 10'):
    OptimizerConfig(**falling, decay_steps=10)


# ------------------------------------------------------------------------------------------------- update rules


def adam(config, x, gradients):
  """Kingma & Ba, 2015, Algorithm 1: a direction a step."""
  first = second = np.zeros_like(x)
  for step, g in enumerate(gradients, 1):
    first = config.beta1 * first + (1 - config.beta1) * g
    second = config.beta2 * second + (1 - config.beta2) * g**2
    x = yield x, (first / (1 - config.beta1**step)) / (np.sqrt(second / (1 - config.beta2**step)) + config.epsilon)


def sgd(config, x, gradients):
  """Heavy ball: the direction is a decaying sum."""
  total = np.zeros_like(x)
  for g in gradients:
    total = config.momentum * total + g
    x = yield x, total


def adafactor(config, x, gradients):
  """Shazeer & Stern, 2018, Algorithms 4 and 5: relative step sizes, update clipping, β₂ = 1 - t^-0.8."""
  row = column = second = 0.0
  factored = sorted((1, *x.shape))[-2] >= 128
  longer, shorter = np.argsort(x.shape)[:-3:-1] if factored else (0, 0)
  for step, g in enumerate(gradients, 1):
    beta = 1 - step**-0.8
    second = beta * second + (1 - beta) * (g**2 + 1e-30)
    row, column = (beta * mean + (1 - beta) * (g**2 + 1e-30).mean(axis, keepdims=True)
                   for mean, axis in ((row, longer), (column, shorter)))
    direction = g / np.sqrt(row * column / row.mean(shorter, keepdims=True) if factored else second)
    direction = direction / max(1.0, np.sqrt((direction**2).mean()))
    x = yield x, direction * max(1e-3, np.sqrt((x**2).mean()))


def muon(config, x, gradients):
  """Jordan et al., 2024: Nesterov's mean of a matrix, its singular values driven to one; vectors by Nesterov's Adam."""
  if x.ndim == 1:
    first = second = np.zeros_like(x)
    for step, g in enumerate(gradients, 1):
      first = config.beta1 * first + (1 - config.beta1) * g
      second = config.beta2 * second + (1 - config.beta2) * g**2
      ahead = config.beta1 * first / (1 - config.beta1**(step + 1)) + (1 - config.beta1) * g / (1 - config.beta1**step)
      x = yield x, ahead / (np.sqrt(second / (1 - config.beta2**step)) + config.epsilon)
  mean = np.zeros_like(x)
  for step, g in enumerate(gradients, 1):
    mean = config.momentum * mean + (1 - config.momentum) * g
    ahead = (config.momentum * mean / (1 - config.momentum**(step + 1))
             + (1 - config.momentum) * g / (1 - config.momentum**step))
    # w_query sums over its first axis, w_out over its heads and their columns.
    matrix = ahead.reshape(x.shape[0], -1) if x.shape[0] > 2 else ahead.reshape(-1, x.shape[-1])
    tall = matrix.shape[0] > matrix.shape[1]
    m = matrix.T if tall else matrix
    m = m / np.sqrt(np.abs(m @ m.T).sum(1, keepdims=True))
    for _ in range(4):
      gram = m @ m.T
      m = 3.4445 * m + (-4.775 * gram + 2.0315 * gram @ gram) @ m
    x = yield x, config.muon_rms * np.sqrt(max(m.shape)) * (m.T if tall else m).reshape(x.shape)


LOOPS = {'adam': adam, 'adamw': adam, 'sgd': sgd, 'adafactor': adafactor, 'muon': muon}


def loop(config, rates, x, gradients, decay=0.0):
  """The parameters after all steps, with decoupled weight decay (Loshchilov & Hutter, 2019, Algorithm 2)."""
  steps = LOOPS[config.kind](config, x, gradients)
  here, direction = next(steps)
  for rate in rates[:-1]:
    here, direction = steps.send(here - rate * (direction + decay * here))
  return here - rates[-1] * (direction + decay * here)


def descend(config, params, gradients, total=None):
  rule = optimizer.build(config, total)
  state, update = rule.init(params), jax.jit(rule.update)
  for g in gradients:
    updates, state = update(g, state, params)
    params = jax.tree.map(lambda p, u: p + np.asarray(u), params, updates)
  return params


@pytest.mark.parametrize('kind', OPTIMIZERS)
@pytest.mark.parametrize('decay', [None, 0.7])
def test_three_steps_of_each_rule_equal_a_loop_and_decay_spares_biases(kind, decay):
  if kind == 'adam' and decay:
    with pytest.raises(ValueError, match='adamw'):
      OptimizerConfig(kind=kind, weight_decay=decay)
    return
  config = OptimizerConfig(kind=kind, weight_decay=decay, schedule='linear', peak=0.2, warmup_steps=2, final_share=0.5,
                           epsilon=1e-7, momentum=0.8, muon_rms=0.3)
  draw = np.random.default_rng(0)
  shapes = {'w1': (128, 131), 'b1': (7,), 'w_query': (131, 2, 127), 'w_out': (2, 137, 131)}
  x = {name: draw.normal(size=shape) for name, shape in shapes.items()}
  gradients = [{name: draw.normal(size=value.shape) for name, value in x.items()} for _ in range(3)]
  single = lambda tree: jax.tree.map(np.float32, tree)
  found = descend(config, single(x), single(gradients), 4)
  strength = decay or (0.01 if kind == 'adamw' else 0.0)
  for name in x:
    expected = loop(config, [0.1, 0.2, 0.15], x[name], [g[name] for g in gradients], strength * (name != 'b1'))
    np.testing.assert_allclose(found[name], expected, atol=2e-5, err_msg=name)


def adam_loop(config, x, gradients):
  """Adam at Eq. 3, clipped by global norm."""
  rates = [config.learning_rate_scale * config.d_model**-0.5 * min(step**-0.5, step * config.warmup_steps**-1.5)
           for step in range(1, len(gradients) + 1)]
  clipped = [g * min(1.0, config.clip_norm / np.sqrt((g**2).sum())) if config.clip_norm else g for g in gradients]
  return loop(config, rates, x, clipped)


@pytest.mark.parametrize('clip_norm', [0.0, 1.5])
def test_clipping_is_by_the_norm_of_the_whole(clip_norm):
  config = OptimizerConfig(d_model=22, warmup_steps=2, clip_norm=clip_norm)  # the third step is past the peak
  draw = np.random.default_rng(0)
  x, gradients = draw.normal(size=7), draw.normal(size=(3, 7)) * np.array([[0.2], [5.0], [1.0]])
  split = lambda v: {'a': np.float32(v[:2]), 'c': np.float32(v[2:])}
  params = descend(config, split(x), [split(g) for g in gradients])
  np.testing.assert_allclose(np.concatenate([params['a'], params['c']]), adam_loop(config, x, gradients), atol=1e-5)
  unclipped = adam_loop(OptimizerConfig(d_model=22, warmup_steps=2), x, gradients)
  assert (np.abs(unclipped - adam_loop(config, x, gradients)).max() > 1e-3) == bool(clip_norm)


CONSTANT = dict(schedule='constant', warmup_steps=0)


@pytest.mark.parametrize('done', [0, 10_000])
@pytest.mark.parametrize('beta1, beta2', [(0.9, 0.98), (0.9, 0.999), (0.0, 0.5), (0.94, 0.95)])
def test_no_gradients_move_a_parameter_further_than_adams_bound(beta1, beta2, done):
  """Gradients that grow by β₂/β₁ make Cauchy's inequality an equation, as far as moments no longer start at zero."""
  config = OptimizerConfig(beta1=beta1, beta2=beta2, peak=1.0, **CONSTANT)
  rule, bound = optimizer.build(config), OPTIMIZERS['adam'].largest(config)
  draw = np.random.default_rng(0)
  growing = 1e15 * (beta2 / beta1 if beta1 else 1e6) ** np.arange(-400.0 if beta1 else -5.0, 1.0)
  wild = draw.normal(size=len(growing)) * 10.0 ** draw.integers(-18, 18, len(growing))
  rare = wild * (np.arange(len(growing)) % 7 == 0)
  state = jax.tree.map(lambda leaf: leaf + done if leaf.dtype == np.int32 else leaf, rule.init(np.zeros(3, np.float32)))
  update, largest = jax.jit(rule.update), np.zeros(3)
  for gradient in np.float32([growing, wild, rare]).T:
    moved, state = update(gradient, state)
    largest = np.maximum(largest, np.abs(moved))
  assert (largest <= 1.001 * bound).all()
  assert not done or largest[0] > 0.99 * (1 - beta1) * bound


@pytest.mark.parametrize('settings', [
    dict(kind='sgd', peak=1e-3), dict(kind='muon', peak=1e-3), dict(kind='adafactor', peak=1e-3),
    dict(peak=1e-3, beta1=0.99, beta2=0.9), dict(peak=1e-3, beta2=1 - 1e-9), dict(peak=1e-3, epsilon=1e-40),
    dict(peak=2.0), dict(kind='adamw', peak=0.5, weight_decay=3.0)])
def test_what_has_no_bound_is_checked(settings):
  config = OptimizerConfig(**CONSTANT, **settings)
  assert not optimizer.is_bounded(config) and not isinstance(optimizer.build(config), optimizer.BoundedUpdate)


@pytest.mark.parametrize('settings', [dict(d_model=14), dict(kind='adamw', peak=0.5, weight_decay=2.0, **CONSTANT),
                                      dict(clip_norm=3.0, peak=1.0, epsilon=1e-30, **CONSTANT)])
@pytest.mark.parametrize('frozen', [None, 1])
def test_parameters_stay_finite_under_the_wildest_finite_gradients(settings, frozen):
  """As large as a finite norm allows, too small to be squared, zero, and each after each."""
  rule = optimizer.build(OptimizerConfig(**settings), frozen_entry=frozen)
  assert isinstance(rule, optimizer.BoundedUpdate)
  sizes = np.float32([1.8e19, -1e-19, 0.0, 3e-39, -1.0])
  params = {'embedding': np.float32([[1e10, -3.0, 0.0]] * 3), 'scale': np.float32([1.0])}
  state, update = rule.init(params), jax.jit(rule.update)
  for size, again in itertools.product(itertools.chain(*itertools.permutations(sizes, 2)), range(2)):
    gradient = {'embedding': np.zeros((3, 3), np.float32), 'scale': np.zeros(1, np.float32)}
    gradient['embedding'][again] = size / 3**0.5
    updates, state = update(gradient, state, params)
    params = jax.tree.map(lambda p, u: p + np.asarray(u), params, updates)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((params, state)))


@pytest.mark.parametrize('positions, scanned, decaying, spared', [  # a scan's layers are stacked: one axis more
    ('relative', False, {'key_table', 'value_table'}, set()), ('relative', True, {'key_table', 'value_table'}, set()),
    ('t5', True, set(), {'bias_table'}), ('learned', False, {'table'}, set())])
def test_decay_acts_on_matrices_and_embeddings_alone(positions, scanned, decaying, spared):
  model = models.build(ModelConfig(**SIZES, norm='pre', attention_bias=True, activation='swiglu', positions=positions,
                                   attention_score='additive', scan_layers=scanned))
  shapes = jax.eval_shape(model.init, jax.random.key(0))
  names = {(decays, jax.tree_util.keystr(path[-1:], simple=True)) for path, decays in
           jax.tree_util.tree_leaves_with_path(optimizer.decays(shapes))}
  assert {name for decays, name in names if decays} == decaying | {
      'embedding', 'w_query', 'w_key', 'w_value', 'w_out', 'w1', 'w2', 'w_gate', 'v_score'}
  assert {name for decays, name in names if not decays} == spared | {
      'scale', 'bias', 'b1', 'b2', 'b_query', 'b_key', 'b_value', 'b_out'}
  assert any(path[-1].key == 'b_query' and leaf.ndim == 2 + scanned for path, leaf in
             jax.tree_util.tree_leaves_with_path(shapes))  # so that ranks could not tell


@pytest.mark.parametrize('sizes', [
    ModelConfig(**SIZES, norm='pre', attention_score='multiplicative', activation='swiglu'),
    ModelConfig(**SIZES, scan_layers=True), RecurrentConfig(37, 37, 14)])
def test_muon_turns_every_matrix_of_a_model_by_as_much(sizes):
  """Each layer's, gate's and head's matrix alone: the singular values of its update are about one, times its size."""
  model, draw = architectures.build(sizes), np.random.default_rng(0)
  params = jax.eval_shape(model.init, jax.random.key(0))
  gradients = jax.tree.map(lambda leaf: np.float32(draw.normal(size=leaf.shape)), params)
  rule = optimizer.build(OptimizerConfig(kind='muon', schedule='constant', peak=1.0, warmup_steps=0))
  updates = jax.jit(lambda gradients: rule.update(gradients, rule.init(gradients), gradients)[0])(gradients)
  found = set()
  for path, update in jax.tree_util.tree_leaves_with_path(updates):
    name = jax.tree_util.keystr(path[-1:], simple=True)
    if name in ('w_query', 'w_key', 'w_value') and update.ndim > 2:
      matrices = update.reshape(*update.shape[:-2], -1)
    elif name in ('w_input', 'w_state', 'w_fed'):
      matrices = np.swapaxes(update, 0, 1)
    elif name == 'w_out' and update.ndim > 2:
      matrices = update.reshape(*update.shape[:-3], -1, update.shape[-1])
    elif name.startswith('w'):
      matrices = update
    else:
      assert np.ptp(np.abs(update)) < 1e-2, name  # Adam's first step, whatever the gradient
      continue
    values = np.linalg.svd(matrices, compute_uv=False) / (0.2 * max(matrices.shape[-2:]) ** 0.5)
    assert 0.5 < np.quantile(values, 0.2) and values.max() < 1.4, name  # those near 0 in the gradient stay behind
    found.add(name)
  assert found >= ({'w_input', 'w_state'} if isinstance(sizes, RecurrentConfig) else {'w_query', 'w_out', 'w1', 'w2'})


@pytest.mark.parametrize('kind', ['adafactor', 'muon'])
def test_layers_of_a_scan_are_updated_as_layers_that_are_written_out(kind):
  scanned, draw = architectures.build(ModelConfig(**SIZES, scan_layers=True)), np.random.default_rng(0)
  shapes = jax.eval_shape(scanned.init, jax.random.key(0))
  params = jax.tree.map(lambda leaf: np.float32(draw.normal(size=leaf.shape)), shapes)
  stacks = [name for name in params if name.endswith('layers')]
  for name in stacks:  # the layers' sizes differ, and so do those of their gradients
    params[name] = jax.tree.map(lambda leaf: leaf * np.float32([1, 30]).reshape(2, *[1] * (leaf.ndim - 1)), params[name])
  gradients = jax.tree.map(lambda leaf: np.float32(draw.normal(size=leaf.shape) * leaf), params)
  rule = optimizer.build(OptimizerConfig(kind=kind, schedule='constant', peak=1.0, warmup_steps=0))
  update = jax.jit(lambda gradients, params: rule.update(gradients, rule.init(params), params)[0])
  written_out = lambda tree: layers.unstacked(tree, stacks)
  jax.tree.map(lambda found, expected: np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5),
               written_out(update(gradients, params)), update(written_out(gradients), written_out(params)))


def test_defaults_are_the_papers():
  config = OptimizerConfig()
  assert (config.beta1, config.beta2, config.epsilon, config.warmup_steps) == (0.9, 0.98, 1e-9, 4000)
  assert config.learning_rate_scale == 1.0 and config.clip_norm == config.decay == 0.0
  assert (config.kind, config.schedule) == ('adam', 'noam')


@pytest.mark.parametrize('wrong', [
    dict(warmup_steps=0), dict(beta2=1.0), dict(clip_norm=-1.0), dict(epsilon=0.0), dict(learning_rate_scale=0.0),
    dict(d_model=-3), dict(kind='adagrad'), dict(schedule='step'), dict(peak=0.1), dict(momentum=1.0), dict(muon_rms=0.0),
    dict(weight_decay=-0.1, kind='adamw'), dict(final_share=1.5), dict(peak=0.0, schedule='constant'),
    dict(warmup_steps=0, schedule='inverse_sqrt', peak=0.1), dict(warmup_steps=-1, schedule='constant', peak=0.1)])
def test_mistaken_settings_are_refused(wrong):
  with pytest.raises(ValueError, match=next(iter(wrong))):
    OptimizerConfig(**wrong)


def test_a_schedule_without_its_peak_is_refused():
  with pytest.raises(ValueError, match='peak is None; schedule cosine needs a positive one'):
    OptimizerConfig(schedule='cosine')
