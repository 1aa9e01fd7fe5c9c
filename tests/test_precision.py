"""With bfloat16 activations, what stays in float32: scores, softmax, normalisation and logits; and the gradients.

Each is compared with float64 on the very numbers that it read, so that only its own rounding is seen. Nothing is
jitted: XLA may fuse operations and keep more digits than were asked for.
"""

import types

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tasks.task import Task
from tests.conftest import BOS, SIZES, rows
from transformer import attention_scores, embeddings, loss, normalization, positions, products, tokens, training
from transformer import model as models
from transformer.config import ConsistencyConfig, LossConfig, ModelConfig
from transformer.registries import ATTENTION_SCORES, NORMALIZATIONS
from transformer.tokens import Batch

HALF = jnp.bfloat16


def normal(*shape, mean=0.0):
  return jnp.asarray(np.random.default_rng(shape).normal(mean, 1.0, shape), HALF)


def wide(x):
  return np.asarray(x.astype(jnp.float32), np.float64)


@pytest.mark.parametrize('kind', ATTENTION_SCORES)
def test_scores_are_summed_in_float32(kind):
  query, key, edges = normal(2, 3, 2, 1, 31), normal(2, 5, 2, 31), normal(3, 5, 31)
  module = attention_scores.make(ModelConfig(**SIZES, d_k=31, attention_score=kind, dtype='bfloat16'))
  weight = normal(2, 31)
  names = {'additive': {'v_score': weight}, 'multiplicative': {'w_score': normal(2, 31, 31)}}  # that one acts before
  variables = {'params': jax.tree.map(lambda leaf: leaf.astype(jnp.float32), names.get(kind, {}))}
  for added in (None, edges):
    found = module.apply(variables, query, key, added, method='compare')
    assert found.dtype == jnp.float32
    if kind == 'additive':
      total = query[:, :, :, :, None] + key.swapaxes(1, 2)[:, None, :, None]  # [B, Q, G, R, M, K]
      total = total if added is None else total + added[None, :, None, None]
      expected = np.einsum('bqgrmk,gk->bgrqm', wide(jnp.tanh(total)), wide(weight))
    else:
      expected = np.einsum('bqgrk,bmgk->bgrqm', wide(query), wide(key))
      if added is not None:
        expected += np.einsum('bqgrk,qmk->bgrqm', wide(query), wide(added))
      expected /= np.sqrt(31) if kind == 'scaled_dot' else 1.0
    np.testing.assert_allclose(found, expected, atol=2e-5)


@pytest.fixture(scope='module')
def inspected():
  """What every head of a bfloat16 Transformer did with rows without padding."""
  model = models.build(ModelConfig(**{**SIZES, 'num_layers': 1}, dtype='bfloat16'))
  draw = np.random.default_rng(0)
  params = jax.tree.map(lambda leaf: jnp.asarray(draw.normal(0.0, 0.6, leaf.shape), jnp.float32),
                        jax.eval_shape(model.init, jax.random.key(0)))
  source, target = rows([7, 7], 7), tokens.shift_right(rows([6, 6], 6, seed=1), BOS)
  return model.inspect(params, source, target)


@pytest.mark.parametrize('kind', ['encoder', 'decoder', 'cross'])
def test_weights_are_the_softmax_in_float32_of_the_heads_own_scores(inspected, kind):
  _, record = inspected
  weights, operands = record[kind][0], record['operands'][kind][0]
  assert weights.dtype == jnp.float32 and operands.query.dtype == operands.key.dtype == HALF
  scores = np.einsum('bqhk,bmhk->bhqm', wide(operands.query), wide(operands.key)) / np.sqrt(7)
  assert np.abs(scores).max() > 1.0  # so that bfloat16 would show
  if kind == 'decoder':
    scores = np.where(np.tril(np.ones(scores.shape[2:])), scores, -np.inf)
  expected = np.exp(scores - scores.max(-1, keepdims=True))
  np.testing.assert_allclose(weights, expected / expected.sum(-1, keepdims=True), atol=2e-6)


@pytest.mark.parametrize('kind', NORMALIZATIONS)
def test_normalisations_compute_in_float32(kind):
  x = normal(3, 5, 14, mean=4.0)
  module = normalization.make(ModelConfig(**SIZES, normalization=kind, dtype='bfloat16'))
  draw = np.random.default_rng(0)
  params = jax.tree.map(lambda leaf: jnp.asarray(draw.normal(1.0, 0.3, leaf.shape), jnp.float32),
                        nn.unbox(module.init(jax.random.key(0), x)['params']))
  read = wide(x)
  read = read - read.mean(-1, keepdims=True) if kind == 'layer_norm' else read
  expected = read / np.sqrt((read**2).mean(-1, keepdims=True) + 1e-6) * wide(params['scale'])
  expected = expected + (wide(params['bias']) if 'bias' in params else 0.0)
  found = module.apply({'params': params}, x)
  assert found.dtype == HALF
  assert (wide(found) == wide(jnp.asarray(expected, HALF))).mean() > 0.98  # rounded once, at the end


@pytest.mark.parametrize('dtype, mean, rtol', [(jnp.float32, 1000.0, 2e-3), (HALF, 60.0, 2**-7)])
def test_a_mean_far_from_zero_costs_no_more_than_the_rounding_of_the_inputs(dtype, mean, rtol):
  x = jnp.asarray(np.random.default_rng(3).normal(mean, 1.0, (3, 5, 1002)), dtype)
  config = ModelConfig(**SIZES | dict(d_model=1002), normalization='layer_norm', dtype=jnp.dtype(dtype).name)
  found, _ = normalization.make(config).init_with_output(jax.random.key(0), x)
  read = wide(x) - wide(x).mean(-1, keepdims=True)
  np.testing.assert_allclose(wide(found), read / np.sqrt((read**2).mean(-1, keepdims=True) + 1e-6), rtol=rtol, atol=2e-3)


def test_rows_without_variance_are_no_root_of_less_than_nothing():
  x = jnp.broadcast_to(jnp.linspace(1.0, 60.0, 100, dtype=HALF)[None, :, None], (1, 100, 1002))
  config = ModelConfig(**SIZES | dict(d_model=1002), normalization='layer_norm', dtype='bfloat16')
  found, _ = normalization.make(config).init_with_output(jax.random.key(0), x)
  assert np.abs(wide(found)).max() < 0.1


def test_logits_are_summed_in_float32():
  x, table = normal(2, 3, 31), normal(29, 31)
  found = embeddings.logits(x, embeddings.Table(table.astype(jnp.float32)))
  assert found.dtype == jnp.float32
  np.testing.assert_allclose(found, np.einsum('btd,vd->btv', wide(x), wide(table)), atol=2e-5)


def test_a_bfloat16_models_logits_are_those_of_its_float32_projection(inspected):
  logits, _ = inspected
  assert logits.dtype == jnp.float32
  assert (logits != logits.astype(HALF).astype(jnp.float32)).mean() > 0.9  # more digits than bfloat16 has


def test_rotary_positions_rotate_in_float32():
  x = normal(2, 61, 3, 14)
  angles = jnp.asarray(np.random.default_rng(0).uniform(0.0, 61.0, (61, 7)), jnp.float32)
  a, b, cos, sin = wide(x[..., :7]), wide(x[..., 7:]), np.cos(wide(angles))[:, None], np.sin(wide(angles))[:, None]
  expected = np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)
  found = positions.turn(x, angles, 'halves')
  assert found.dtype == HALF
  assert (wide(found) == wide(jnp.asarray(expected, HALF))).mean() > 0.999  # rounded once, at the end


def test_backward_products_read_the_rounded_gradient_and_are_rounded_once():
  x, y = normal(2, 3, 31), normal(29, 31)
  gradient = jnp.asarray(np.random.default_rng(1).normal(size=(2, 3, 29)), jnp.float32)
  found, slope = jax.vjp(lambda x, y: products.einsum('btd,vd->btv', x, y), x, y)
  read = wide(gradient.astype(HALF))
  for ours, expected in zip((found, *slope(gradient)), (
      np.einsum('btd,vd->btv', wide(x), wide(y)), np.einsum('btv,vd->btd', read, wide(y)),
      np.einsum('btv,btd->vd', read, wide(x)))):
    rounding = 2.0**-8 if ours.dtype == HALF else 2.0**-20
    np.testing.assert_allclose(wide(ours), expected, rtol=rounding, atol=1e-4)
  assert slope(gradient)[0].dtype == slope(gradient)[1].dtype == HALF


@pytest.mark.parametrize('copied', [False, True])
def test_the_gradient_of_a_table_is_added_up_in_float32(copied):
  """A row that is looked up 1,000 times: added up in bfloat16, whose numbers have eight digits, it would stop at 256."""
  table, ids = jnp.ones((5, 2)), jnp.full((1, 1000), 3)
  config = ModelConfig(5, 5, 2, 1, dtype='bfloat16')
  of = lambda table: embeddings.Table(jax.lax.stop_gradient(table), table[None]) if copied else embeddings.Table(table)
  gradient = jax.grad(lambda table: embeddings.embed(of(table), ids, config).sum())(table)
  np.testing.assert_allclose(gradient[3], 1000 * 2**0.5, rtol=2**-8)


def test_gradients_of_a_bfloat16_model_are_close_to_those_of_float32(monkeypatch):
  """Rounding the gradients of logits and scores adds next to nothing to what rounding everything else does."""
  batch = Batch(rows([7, 5, 6, 3], 7), rows([6, 6, 2, 4], 6, seed=1))

  def gradient(dtype, logits='float32'):
    model = models.build(ModelConfig(29, 29, 32, 4, 1, d_ff=64, dtype=dtype))
    objective = training.cross_entropy(model, LossConfig(0.1, logits_dtype=logits), BOS)
    return jax.jit(jax.grad(lambda params: objective(params, batch).loss))(params)

  def distance(tree):
    return np.array([np.linalg.norm(one - other) / np.linalg.norm(other)
                     for one, other in zip(jax.tree.leaves(tree), jax.tree.leaves(expected))])

  params = models.build(ModelConfig(29, 29, 32, 4, 1, d_ff=64)).init(jax.random.key(0))
  expected = gradient('float32')
  found = distance(gradient('bfloat16'))
  # Logits that are kept in bfloat16 (train.logits_dtype) are rounded once more, which shows, and little.
  halved = distance(gradient('bfloat16', 'bfloat16'))
  assert (halved != found).any()
  monkeypatch.setattr(products, 'of_function', lambda multiply, x, y: multiply(x, y, preferred_element_type=jnp.float32))
  plain = distance(gradient('bfloat16'))
  total = lambda distances: np.sqrt(np.square(distances).mean())
  assert 1e-3 < found.min() and found.max() < 0.06 and total(found) < 0.025
  assert total(found) < 1.05 * total(plain)
  assert total(halved) < 1.1 * total(found) and halved.max() < 0.06


def test_the_loss_of_logits_kept_in_bfloat16_is_float32s_of_the_rounded_numbers():
  """Values, and gradients but for the rounding of each; no float32 copy of the logits waits for the backward pass."""
  draw = np.random.default_rng(0)
  logits = jnp.asarray(draw.normal(0.0, 4.0, (3, 5, 29)), jnp.float32)
  labels, real = jnp.asarray(draw.integers(0, 29, (3, 5))), jnp.asarray(draw.random((3, 5)) < 0.8)
  for other in (None, jnp.asarray(draw.normal(0.0, 4.0, logits.shape), HALF)):
    def measure(x):
      totals = loss.sums(x, labels, real, LossConfig(0.1))
      return totals.loss if other is None else totals.loss + loss.divergence(x, other).sum() + loss.divergence(other, x).sum()

    half = loss.kept(logits, LossConfig(logits_dtype='bfloat16'))
    assert half.dtype == HALF and (wide(half) != np.asarray(logits)).mean() > 0.9
    expected, slope = jax.value_and_grad(measure)(half.astype(jnp.float32))
    value, backward = jax.vjp(measure, half)
    assert value == expected
    found, = backward(jnp.float32(1.0))
    assert found.dtype == HALF
    if other is None:  # else the gradients of three uses are added up in bfloat16
      np.testing.assert_array_equal(wide(found), wide(slope.astype(HALF)))
    np.testing.assert_allclose(wide(found), slope, rtol=2.0**-7, atol=0.02)
    saved = [leaf for leaf in jax.tree.leaves(backward) if leaf.size >= logits.size]
    assert saved and not [leaf for leaf in saved if leaf.dtype == jnp.float32]


def test_training_alone_rounds_logits_on_request():
  setup = types.SimpleNamespace(loss=LossConfig(logits_dtype='bfloat16'), consistency=ConsistencyConfig())
  stand_in = types.SimpleNamespace(model=models.build(ModelConfig(**SIZES)), setup=setup,
                                   target=types.SimpleNamespace(bos_id=BOS))
  params, batch = jax.eval_shape(stand_in.model.init, jax.random.key(0)), Batch(rows([7, 5], 7), rows([6, 6], 6, seed=1))
  text = lambda objective: str(jax.make_jaxpr(lambda params: objective(params, batch).loss)(params))
  assert 'bf16[2,6,29]' in text(Task.objective(stand_in)) and 'bf16' not in text(Task.evaluation_objective(stand_in))
