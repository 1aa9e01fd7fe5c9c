"""Every attention kernel computes what einsum does: context, gradients, masks, packed rows; or is refused by name.

cuDNN needs an NVIDIA GPU. Without one, only what is asked of it is tested.
"""

import dataclasses
import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.conftest import BOS, FILLER, SIZES, rows, sentences
from tests.test_platforms import lowered_step, products
from transformer import attention_kernels, tokens
from transformer import model as models
from transformer.attention import MultiHeadAttention
from transformer.attention_kernels import Kernel
from transformer.config import ModelConfig
from transformer.search.cache import KeyValue

B, Q, M, G, R, K = 2, 5, 7, 2, 3, 6
HEADS = dict(vocab_size=5, target_vocab_size=5, d_model=13, num_heads=G * R, num_kv_heads=G, d_k=K, d_v=K)
SMALL = {**SIZES, 'num_layers': 1, 'dropout': 0.0}
KERNEL = dict(attention_kernel='xla')


def normal(*shape):
  return jnp.asarray(np.random.default_rng(shape).normal(size=shape), jnp.float32)


def away_from_zero(model):
  draw = np.random.default_rng(5)
  return jax.tree.map(lambda leaf: jnp.asarray(draw.normal(0.1, 0.4, leaf.shape), jnp.float32),
                      jax.eval_shape(model.init, jax.random.key(0)))


@pytest.mark.parametrize('options', [
    dict(attention_score='scaled_dot'), dict(attention_score='dot', num_kv_heads=None),
    dict(attention_score='multiplicative', num_kv_heads=1)], ids=lambda options: options['attention_score'])
def test_a_head_and_its_gradients_equal_einsum(options):
  """With a mask that leaves some queries nothing, which get zeros and give no gradient."""
  mask = np.random.default_rng(0).random((B, Q, M)) < 0.5
  mask[0, 1] = mask[1, 4] = False
  config = ModelConfig(**{**HEADS, 'positions': 'none', **options})
  x, y, weight = normal(B, Q, 13), normal(B, M, 13), normal(B, Q, 13, 1)[..., 0]
  over = lambda module, x, y: module.over(x, module.memory(y), mask)
  params = nn.unbox(jax.jit(functools.partial(MultiHeadAttention(config).init, method=over))(jax.random.key(0), x, y)['params'])

  def ways(kernel):
    module = MultiHeadAttention(dataclasses.replace(config, attention_kernel=kernel))
    measure = lambda *inputs: (weight * module.apply({'params': inputs[0]}, *inputs[1:], method=over)).sum()
    return jax.jit(lambda *inputs: (module.apply({'params': inputs[0]}, *inputs[1:], method=over),
                                    jax.grad(measure, argnums=(0, 1, 2))(*inputs)))(params, x, y)

  (found, slope), (expected, reference) = ways('xla'), ways('einsum')
  assert (found[0, 1] == 0).all() and (found[1, 4] == 0).all() and np.abs(expected).max() > 0.1
  np.testing.assert_allclose(found, expected, atol=1e-5)
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5), slope, reference)
  assert (slope[1][0, 1] == 0).all() and (slope[1][1, 4] == 0).all() and np.abs(slope[2]).min(axis=(1, 2)).min() > 0


@pytest.mark.parametrize('positions', ['sinusoidal', 't5', 'rotary'])
def test_packed_rows_equal_sentences_alone_and_einsum(positions):
  config = ModelConfig(**SMALL, d_k=6, d_v=6, positions=positions, num_buckets=8, max_distance=11)
  plain, model = (models.build(dataclasses.replace(config, attention_kernel=name)) for name in ('einsum', 'xla'))
  params = away_from_zero(model)
  source, target = rows([5, 3], 7), tokens.shift_right(rows([6, 4], 6, seed=1), BOS)
  packed = (tokens.pack([sentences([5, 3])], 1, 11, FILLER),
            tokens.shift_right(tokens.pack([sentences([6, 4], 1)], 1, 13, FILLER), BOS))

  def loss(model, params, source, target):
    logits = model.decode(params, model.encode(params, source), target)
    return jnp.where((target.segments > 0)[..., None], jnp.square(logits), 0.0).sum(), logits

  ways = jax.jit(jax.value_and_grad(loss, argnums=1, has_aux=True), static_argnums=0)
  (_, alone), slope = ways(model, params, source, target)
  (_, together), of_packed = ways(model, params, *packed)
  (_, expected), reference = ways(plain, params, source, target)
  np.testing.assert_allclose(alone, expected, atol=5e-5)
  np.testing.assert_allclose(together[0, :6], alone[0, :6], atol=5e-5)
  np.testing.assert_allclose(together[0, 6:10], alone[1, :4], atol=5e-5)
  scale = max(np.abs(leaf).max() for leaf in jax.tree.leaves(reference))
  for found in (slope, of_packed):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a / scale, b / scale, atol=1e-5), found, reference)


def test_no_token_sees_the_future_and_cached_steps_and_inspection_stay_einsum():
  model, plain = (models.build(ModelConfig(**SMALL, **options)) for options in (KERNEL, {}))
  params = away_from_zero(model)
  source, target = rows([5, 3], 7), tokens.shift_right(rows([6, 4], 6, seed=1), BOS)
  memory, decode = jax.jit(model.encode)(params, source), jax.jit(model.decode)
  later = target._replace(ids=target.ids.at[:, 3:].set(7))
  first, second = (decode(params, memory, each) for each in (target, later))
  np.testing.assert_array_equal(first[:, :3], second[:, :3])
  assert np.abs(first[:, 3:] - second[:, 3:]).max() > 1e-3

  (_, record), (_, expected) = (jax.jit(each.inspect)(params, source, target) for each in (model, plain))
  jax.tree.map(np.testing.assert_array_equal, record, expected)
  step = lambda each: jax.jit(lambda params, memory: each.decode_step(
      params, model.init_cache(params, memory, 9, beams=3), jnp.full((2, 3), BOS))[0])(params, memory)
  np.testing.assert_array_equal(step(model), step(plain))


@pytest.mark.parametrize('platform', ['cuda', 'tpu'])
def test_a_bfloat16_step_has_no_float32_product(platform):
  text = lowered_step(ModelConfig(**SMALL, **KERNEL, dtype='bfloat16'), platform)[1]
  wide = [line for line in text.splitlines() if {'f32'} & set(sum(products(line), ()))]
  # jax asks for its scores' products in bfloat16 by their algorithm, whatever the type of an operand.
  assert len(products(text)) > 60 and len(wide) == 6
  assert all('algorithm = <lhs_precision_type = bf16, rhs_precision_type = bf16' in line for line in wide)


def test_bfloat16_gradients_are_as_near_to_float32s_as_einsums():
  config, mask = ModelConfig(**{**HEADS, 'positions': 'none'}), np.tri(Q, dtype=bool)[None]
  x, weight = normal(B, Q, 13), normal(B, Q, 13, 1)[..., 0]
  params = nn.unbox(MultiHeadAttention(config).init(jax.random.key(0), x, mask)['params'])

  def gradient(dtype, kernel):
    module = MultiHeadAttention(dataclasses.replace(config, dtype=dtype, attention_kernel=kernel))
    measure = lambda params: (weight * module.apply({'params': params}, x.astype(dtype), mask)).sum()
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(jax.jit(jax.grad(measure))(params))])

  exact = gradient('float32', 'einsum')
  near, found = (np.linalg.norm(gradient('bfloat16', name) - exact) / np.linalg.norm(exact) for name in ('einsum', 'xla'))
  assert 1e-3 < found < 1.2 * near < 0.02


@pytest.mark.parametrize('kernel, options, named', [
    ('xla', dict(attention_dropout=0.1), 'attention_dropout is 0.1'),
    ('xla', dict(attention_score='additive'), 'attention_score is additive'),
    ('xla', dict(positions='relative'), 'positions is relative'), ('xla', dict(d_v=5), 'd_k is 7 and d_v 5'),
    ('cudnn', dict(d_k=8, d_v=8), 'dtype is float32'), ('cudnn', dict(dtype='bfloat16'), 'd_k is 7'),
    ('cudnn', dict(d_k=8, d_v=8, dtype='bfloat16', positions='t5'), 'positions is t5'),
    ('flash', {}, 'expected one of einsum, xla, cudnn')])
def test_what_a_kernel_cannot_compute_is_refused(kernel, options, named):
  with pytest.raises(ValueError, match=named):
    ModelConfig(**{**SIZES, **options}, attention_kernel=kernel)


def test_a_run_that_would_never_use_its_kernel_is_refused():
  config = ModelConfig(**SIZES, d_k=8, d_v=8, dtype='bfloat16', attention_kernel='cudnn')
  attention_kernels.check(config, 'gpu', {256, 231})
  attention_kernels.check(dataclasses.replace(config, attention_kernel='einsum'), 'cpu', {3})
  with pytest.raises(ValueError, match='NVIDIA GPUs that are there, and the devices are cpu'):
    attention_kernels.check(config, 'cpu', {256})
  with pytest.raises(ValueError, match='128 tokens and more, and the batches have 64'):
    attention_kernels.check(config, 'gpu', {64, 31})
  with pytest.raises(ValueError, match='a multiple of 2, and the batches have 64, 231, 255; set .*packed_length'):
    attention_kernels.check(config, 'gpu', {255, 64, 231})


def test_cudnn_is_asked_for_long_texts_on_gpus_only(monkeypatch):
  """So a run that was trained with it can be evaluated and read anywhere. cuDNN's gradient takes even lengths alone."""
  asked, original = [], jax.nn.dot_product_attention

  def recorded(*operands, implementation, **options):
    asked.append((implementation, operands[0].dtype))
    return original(*operands, implementation='xla', **options)

  monkeypatch.setattr(jax.nn, 'dot_product_attention', recorded)
  config = ModelConfig(**HEADS | dict(d_k=8, d_v=8), positions='none', dtype='bfloat16', attention_kernel='cudnn')
  module, mask = MultiHeadAttention(config), np.ones((1, 128, 128), bool)
  x = jnp.asarray(normal(1, 128, 13), jnp.bfloat16)
  odd, longer = jnp.concatenate([x, x[:, :1]], axis=1), np.ones((1, 129, 129), bool)
  variables = module.init(jax.random.key(0), x, mask)
  expected = module.apply(variables, x, mask)
  module.apply(variables, x[:, :127], mask[:, :127, :127])
  assert not asked
  monkeypatch.setattr(jax, 'default_backend', lambda: 'gpu')
  module.apply(variables, x[:, :127], mask[:, :127, :127])
  module.apply(variables, odd, longer)
  assert not asked
  np.testing.assert_allclose(module.apply(variables, x, mask).astype(jnp.float32), expected.astype(jnp.float32), atol=0.02)
  assert asked == [('cudnn', jnp.bfloat16)]


@pytest.mark.skipif(jax.default_backend() != 'gpu', reason='cuDNN needs an NVIDIA GPU')
def test_cudnn_equals_einsum():
  draw = lambda *shape: jnp.asarray(normal(*shape), jnp.bfloat16)
  query, memory = draw(2, 128, 6, 8), KeyValue(draw(2, 128, 2, 8), draw(2, 128, 2, 8))
  mask = np.random.default_rng(0).random((2, 128, 128)) < 0.5
  mask[:, 3] = False
  found, expected = (np.asarray(Kernel(name).attend(query, memory, mask, 8 ** -0.5, None), np.float32)
                     for name in ('cudnn', 'xla'))
  assert (found[:, 3] == 0).all()
  np.testing.assert_allclose(found, expected, atol=0.02)
