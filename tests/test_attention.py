"""Attention against a NumPy loop written from Eq. 1, and against JAX's own."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from transformer import attention
from transformer.attention import KeyValue
from transformer.config import ModelConfig

B, Q, M, H, K = 2, 3, 5, 7, 11


@pytest.fixture
def tensors():
  draw = np.random.default_rng(0)
  normal = lambda *shape: draw.normal(size=shape).astype(np.float32)
  mask = draw.random((B, Q, M)) < 0.6
  mask[:, :, 0] = True
  return normal(B, Q, H, K), normal(B, M, H, K), normal(B, M, H, K), mask


def attend(query, key, value, mask):
  """On the device, where attention's arrays are."""
  return attention.attend(jnp.asarray(query), KeyValue(jnp.asarray(key), jnp.asarray(value)), mask)


def test_equals_a_loop_over_eq_1(tensors):
  query, key, value, mask = tensors
  context, weights = attend(query, key, value, mask)
  for b in range(B):
    for h in range(H):
      for q in range(Q):
        seen = [m for m in range(M) if mask[b, q, m]]
        scores = np.array([query[b, q, h] @ key[b, m, h] for m in seen], np.float64) / np.sqrt(K)
        expected = np.exp(scores) / np.exp(scores).sum()
        np.testing.assert_allclose(weights[b, h, q, seen], expected, atol=1e-6)
        assert (np.asarray(weights[b, h, q])[~mask[b, q]] == 0).all()
        np.testing.assert_allclose(context[b, q, h], expected @ value[b, seen, h], atol=1e-5)


def test_equals_jax(tensors):
  query, key, value, mask = tensors
  ours, _ = attend(query, key, value, mask)
  theirs = jax.nn.dot_product_attention(query, key, value, mask=mask[:, None])
  np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_a_query_that_sees_nothing_gets_nothing(tensors):
  query, key, value, mask = tensors
  mask[1, 2] = False
  context, weights = attend(query, key, value, mask)
  assert (weights[1, :, 2] == 0).all() and (context[1, 2] == 0).all()
  np.testing.assert_allclose(weights[0].sum(-1), 1.0, rtol=1e-6)
  gradient = jax.grad(lambda q: (attend(q, key, value, mask)[0] ** 2).sum())(query)
  assert np.isfinite(gradient).all()


def test_heads_project_all_of_d_model_and_are_summed_by_w_out():
  config = ModelConfig(5, 5, d_model=14, num_heads=7, attention_bias=True)
  module = attention.MultiHeadAttention(config)
  draw = np.random.default_rng(1)
  x, y = draw.normal(size=(2, 3, 14)), draw.normal(size=(2, 5, 14))
  mask = np.ones((2, 3, 5), bool)
  over = lambda module, x, y, mask: module.over(jnp.asarray(x), module.memory(jnp.asarray(y)), mask)
  params = nn.unbox(module.init(jax.random.key(0), x, y, mask, method=over)['params'])
  params = jax.tree.map(lambda p: p + 0.1 * draw.normal(size=p.shape), params)
  expected = params['b_out'][None, None]
  for h in range(7):  # Concat(head_1 … head_h) W^O is the sum of the heads' own products
    q = x @ params['w_query'][:, h] + params['b_query'][h][None, None]
    k = y @ params['w_key'][:, h] + params['b_key'][h][None, None]
    v = y @ params['w_value'][:, h] + params['b_value'][h][None, None]
    scores = q @ k.swapaxes(1, 2) / np.sqrt(2)
    expected = expected + jax.nn.softmax(scores, axis=-1) @ v @ params['w_out'][h]
  np.testing.assert_allclose(module.apply({'params': params}, x, y, mask, method=over), expected, atol=1e-5)


def test_softmax_stays_in_float32_under_bfloat16():
  query = jnp.ones((1, 1, 1, 64), jnp.bfloat16)
  key = jnp.stack([jnp.full((1, 64), 14.0 / 8), jnp.full((1, 64), 12.0 / 8)])[None].astype(jnp.bfloat16)
  _, weights = attention.attend(query, KeyValue(key, key), jnp.ones((1, 1, 2), bool))
  assert weights.dtype == jnp.float32
  np.testing.assert_allclose(weights[0, 0, 0], jax.nn.softmax(jnp.array([14.0, 12.0])), atol=1e-6)
