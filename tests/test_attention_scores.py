"""Each attention score against a NumPy loop written from its paper, with grouped heads and with edges."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from transformer import attention, attention_scores
from transformer.attention import MultiHeadAttention
from transformer.config import ModelConfig
from transformer.registries import ATTENTION_SCORES

B, Q, M, G, R, K = 2, 3, 5, 2, 3, 7
CONFIG = dict(vocab_size=5, target_vocab_size=5, positions='none', d_model=13, num_heads=G * R, num_kv_heads=G, d_k=K, d_v=11)


def normal(*shape, seed=0):
  return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)


def by_hand(kind, q, k, params, head):
  """The score of one query and one key vector, in float64."""
  q, k = q.astype(np.float64), k.astype(np.float64)
  return {'scaled_dot': lambda: q @ k / np.sqrt(K), 'dot': lambda: q @ k,
          'multiplicative': lambda: q @ params['w_score'][head] @ k,
          'additive': lambda: params['v_score'][head] @ np.tanh(q + k)}[kind]()


@pytest.mark.parametrize('with_edges', [False, True])
@pytest.mark.parametrize('kind', ATTENTION_SCORES)
def test_equals_a_loop(kind, with_edges):
  module = attention_scores.make(ModelConfig(**CONFIG, attention_score=kind))
  query, key = normal(B, Q, G * R, K), normal(B, M, G, K)
  edges = normal(Q, M, K) if with_edges else None

  def scores(module, query, key):
    query = module.prepare(query)
    return module.compare(query.reshape(B, Q, G, R, K), key, jnp.asarray(edges) if with_edges else None)

  variables = module.init(jax.random.key(0), jnp.asarray(query), jnp.asarray(key), method=scores)
  params = jax.tree.map(np.asarray, nn.unbox(variables.get('params', {})))
  out = module.apply(variables, jnp.asarray(query), jnp.asarray(key), method=scores)
  assert out.dtype == np.float32
  for b, g, r, q, m in np.ndindex(B, G, R, Q, M):
    entry = key[b, m, g] + (edges[q, m] if with_edges else 0)
    np.testing.assert_allclose(out[b, g, r, q, m], by_hand(kind, query[b, q, g * R + r], entry, params, g * R + r),
                               atol=2e-5)


@pytest.mark.parametrize('kind', ATTENTION_SCORES)
def test_a_whole_head_of_own_widths_and_groups(kind):
  """d_k, d_v, and the keys that a group of heads shares: the module against loops over heads."""
  module = MultiHeadAttention(ModelConfig(**CONFIG, attention_score=kind, attention_bias=True))
  x, y = normal(B, Q, 13), normal(B, M, 13, seed=1)
  mask = np.random.default_rng(3).random((B, Q, M)) < 0.6
  mask[:, :, 0] = True
  over = lambda module, x, y: module.over(jnp.asarray(x), module.memory(jnp.asarray(y)), mask)
  params = nn.unbox(module.init(jax.random.key(0), x, y, method=over)['params'])
  params = jax.tree.map(lambda p: np.asarray(p) + 0.1 * normal(*p.shape), params)
  assert params['w_key'].shape == (13, G, K) and params['w_value'].shape == (13, G, 11)
  expected = np.tile(params['b_out'], (B, Q, 1)).astype(np.float64)
  for b, h, q in np.ndindex(B, G * R, Q):
    group = h // R
    query = x[b, q] @ params['w_query'][:, h] + params['b_query'][h]
    seen = np.flatnonzero(mask[b, q])
    keys = y[b, seen] @ params['w_key'][:, group] + params['b_key'][group]
    values = y[b, seen] @ params['w_value'][:, group] + params['b_value'][group]
    scores = np.array([by_hand(kind, query, k, params.get('score', {}), h) for k in keys])
    weights = np.exp(scores - scores.max())
    expected[b, q] += (weights / weights.sum()) @ values @ params['w_out'][h]
  np.testing.assert_allclose(module.apply({'params': params}, x, y, method=over), expected, atol=5e-5)


def test_a_group_equals_heads_with_the_same_keys():
  grouped = MultiHeadAttention(ModelConfig(**CONFIG))
  ordinary = MultiHeadAttention(ModelConfig(**{**CONFIG, 'num_kv_heads': None}))
  x, mask = jnp.asarray(normal(B, Q, 13)), np.ones((1, Q, Q), bool)
  params = nn.unbox(grouped.init(jax.random.key(0), x, mask)['params'])
  repeated = {name: np.repeat(p, R, axis=1) if name in ('w_key', 'w_value') else p for name, p in params.items()}
  np.testing.assert_allclose(grouped.apply({'params': params}, x, mask), ordinary.apply({'params': repeated}, x, mask),
                             atol=1e-5)


def test_attention_dropout_acts_on_the_weights_and_with_a_key_only():
  config = ModelConfig(**CONFIG, attention_dropout=0.5)
  module = MultiHeadAttention(config)
  x, mask = jnp.asarray(normal(B, Q, 13)), np.ones((1, Q, Q), bool)
  variables = module.init(jax.random.key(0), x, mask)
  plain = MultiHeadAttention(ModelConfig(**CONFIG)).apply(variables, x, mask)
  np.testing.assert_array_equal(module.apply(variables, x, mask), plain)
  keys = jax.random.split(jax.random.key(1), 4000)
  many = jax.vmap(lambda key: module.apply(variables, x, mask, rngs={'dropout': key}))(keys)
  assert np.abs(many[0] - plain).max() > 0.01
  np.testing.assert_allclose(many.mean(0), plain, atol=0.1)  # dropping scales up: the mean stays


def test_attention_alone_in_a_few_lines():
  """Self-attention without parameters: dot products, softmax, weighted sum."""
  x = normal(1, Q, 1, K)
  context, weights = attention.attend(jnp.asarray(x), attention.KeyValue(*map(jnp.asarray, (x, x))), np.ones((1, Q, Q), bool))
  flat = x[0, :, 0]
  expected = np.exp(flat @ flat.T / np.sqrt(K))
  expected /= expected.sum(-1, keepdims=True)
  np.testing.assert_allclose(weights[0, 0], expected, atol=1e-6)
  np.testing.assert_allclose(context[0, :, 0], expected @ flat, atol=1e-5)
