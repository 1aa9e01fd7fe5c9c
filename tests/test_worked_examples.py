"""The worked numbers of docs/worked_examples.md."""

import os

import jax
import jax.numpy as jnp
import numpy as np

from corpora import vocabulary as vocabularies
from corpora.vocabulary import Vocabulary, VocabularyConfig
from tests.conftest import rows
from transformer import attention
from transformer import model as models
from transformer.config import ModelConfig

DOCS = os.path.join(os.path.dirname(os.path.dirname(__file__)), 'docs', 'worked_examples.md')


def test_scores_112_and_96():
  query = jnp.ones((1, 1, 1, 64))
  key = jnp.stack([jnp.full(64, 1.75), jnp.full(64, 1.5)])[None, :, None]  # [B, M, H, K]
  value = jnp.stack([jnp.full(64, 1.0), jnp.full(64, -1.0)])[None, :, None]
  np.testing.assert_array_equal(jnp.einsum('bqhk,bmhk->m', query, key), [112.0, 96.0])
  np.testing.assert_array_equal(np.array([112.0, 96.0]) / np.sqrt(64), [14.0, 12.0])
  context, weights = attention.attend(query, attention.KeyValue(key, value), jnp.ones((1, 1, 2), bool))
  np.testing.assert_allclose(weights[0, 0, 0], [0.88, 0.12], atol=0.005)
  np.testing.assert_allclose(weights[0, 0, 0, 0], 1 / (1 + np.exp(-2.0)), atol=1e-6)
  np.testing.assert_allclose(context[0, 0, 0], np.full(64, 0.8808 - 0.1192), atol=1e-4)


def test_nine_words_of_width_512():
  module = attention.MultiHeadAttention(ModelConfig(29, 29))
  x = jax.random.normal(jax.random.key(0), (1, 9, 512))
  mask = jnp.ones((1, 9, 9), bool)
  variables = {'params': module.init(jax.random.key(1), x, mask)['params']}
  heads = module.apply(variables, x, method='queries')
  memory = module.apply(variables, x, method='memory')
  assert heads.shape == memory.key.shape == memory.value.shape == (1, 9, 8, 64)
  y, seen = module.apply(variables, x, mask, mutable=[attention.WITNESS])
  (weights,) = seen[attention.WITNESS]['weights']
  assert weights.shape == (1, 8, 9, 9) and y.shape == (1, 9, 512)
  np.testing.assert_allclose(weights.sum(-1), 1.0, atol=1e-5)


def test_each_head_reads_all_of_d_model():
  module = attention.MultiHeadAttention(ModelConfig(29, 29, d_model=14, num_heads=2))
  x = jax.random.normal(jax.random.key(0), (1, 3, 14))
  variables = module.init(jax.random.key(1), x, jnp.ones((1, 3, 3), bool))
  reach = jax.jacobian(lambda x: module.apply(variables, x, method='queries')[0, 0])(x)[..., 0, 0, :]  # [H, K, D]
  assert reach.shape == (2, 7, 14) and (np.abs(reach) > 0).all()


def test_maps_across_languages_and_32_of_them():
  model = models.build(ModelConfig(29, 29, d_model=16, num_heads=8, num_layers=4, d_ff=11))
  params = jax.eval_shape(model.init, jax.random.key(0))  # shapes alone: nothing is computed
  source, target = rows([9], 9), lambda length: rows([length], length, seed=1)
  _, record = jax.eval_shape(model.inspect, params, source, target(10))
  assert {kind: [layer.shape for layer in record[kind]] for kind in ('encoder', 'decoder', 'cross')} == {
      'encoder': [(1, 8, 9, 9)] * 4, 'decoder': [(1, 8, 10, 10)] * 4, 'cross': [(1, 8, 10, 9)] * 4}
  assert sum(layer.shape[1] for layer in record['cross']) == 32
  _, longer = jax.eval_shape(model.inspect, params, source, target(12))
  assert [layer.shape for layer in longer['cross']] == [(1, 8, 12, 9)] * 4


def test_a_masked_weight_is_exactly_zero():
  query = key = jax.random.normal(jax.random.key(0), (1, 3, 1, 7)) * 30.0
  _, weights = attention.attend(query, attention.KeyValue(key, key), jnp.tril(jnp.ones((1, 3, 3), bool)))
  assert (np.triu(weights[0, 0], 1) == 0).all()
  np.testing.assert_allclose(weights[0, 0].sum(-1), 1.0, atol=1e-6)


def test_smoothed_targets_of_nine_entries():
  target = np.full(9, 0.1 / 9) + 0.9 * np.eye(9)[4]
  np.testing.assert_allclose([target[4], target[0], target.sum()], [0.911, 0.011, 1.0], atol=5e-4)


def test_five_merges_by_hand():
  counts = {'cat': 4, 'mat': 5, 'mats': 2, 'mate': 3, 'ate': 3, 'eat': 2}
  specials, letters, merges = 4, 6, 5
  config = VocabularyConfig(kind='bpe', size=specials + letters + merges, byte_fallback=False, dummy_prefix=False)
  words = [word for word, count in counts.items() for _ in range(count)]
  vocabulary = Vocabulary(vocabularies.train(config, words), 'by hand')
  entries = [vocabulary.pieces([n])[0] for n in range(specials, vocabulary.size)]
  assert entries[:3] == ['at', 'mat', 'cat'] and set(entries[3:5]) == {'mate', 'ate'}
  assert sorted(entries[5:]) == sorted('acemst')
  pieces = {word: vocabulary.pieces(vocabulary.encode(word)) for word in counts}
  assert pieces.pop('mats') == ['mat', 's'] and pieces.pop('eat') == ['e', 'at']
  assert pieces == {word: [word] for word in pieces}


def test_the_text_names_every_test():
  with open(DOCS, encoding='utf-8') as file:
    text = file.read()
  for name in globals():
    if name.startswith('test_') and name != 'test_the_text_names_every_test':
      assert f'`{name}`' in text
