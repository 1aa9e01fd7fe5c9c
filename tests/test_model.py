"""Properties of the encoder-decoder: what may and what may not change its output."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.conftest import BOS, FILLER, SIZES, rows, sentences
from transformer import model as models
from transformer import tokens
from transformer.config import ModelConfig
from transformer.tokens import Tokens


@pytest.fixture(scope='module')
def forward(model):
  return jax.jit(lambda params, source, target: model.decode(params, model.encode(params, source), target))


def test_no_gradient_from_the_future(model, params):
  source, target = rows([5, 3], 7), tokens.shift_right(rows([6, 4], 6, seed=1), BOS)
  vocabulary = jnp.eye(29)

  def logits(onehot):  # the decoder's input made differentiable: rows of the embedding mixed by `onehot`
    table = params['embedding']
    mixed = dict(params, embedding=jnp.concatenate([table, onehot.reshape(-1, 29) @ table]))
    bigger = models.build(ModelConfig(**{**SIZES, 'vocab_size': 29 + 12, 'target_vocab_size': 29 + 12},
                                      norm=model.config.norm))
    ids = 29 + jnp.arange(12, dtype=jnp.int32).reshape(2, 6)
    return bigger.decode(mixed, bigger.encode(mixed, source), target._replace(ids=ids))[..., :29]

  jacobian = jax.jit(jax.jacobian(lambda onehot: logits(onehot).sum(-1)))(vocabulary[target.ids])  # [2, 6, 2, 6, 29]
  reach = np.abs(jacobian).max(-1)
  for b in range(2):
    for t in range(6):
      assert (reach[b, t, b, t + 1:] == 0).all()
      assert (reach[b, t, 1 - b] == 0).all()
  assert reach[0, 5, 0, 0] > 0


def test_padding_changes_nothing(params, forward):
  narrow = forward(params, rows([5, 3], 5), tokens.shift_right(rows([6, 4], 6, seed=1), BOS))
  wide = forward(params, rows([5, 3], 11), tokens.shift_right(rows([6, 4], 13, seed=1), BOS))
  for row, length in enumerate([6, 4]):
    np.testing.assert_allclose(narrow[row, :length], wide[row, :length], atol=2e-5)


def test_what_stands_under_padding_is_never_read(params, forward):
  source, target = rows([5, 3], 7), tokens.shift_right(rows([6, 4], 6, seed=1), BOS)
  other = Tokens(np.where(source.segments > 0, source.ids, 17), source.positions, source.segments)
  before, after = forward(params, source, target), forward(params, other, target)
  np.testing.assert_array_equal(before[0], after[0])
  np.testing.assert_array_equal(before[1, :4], after[1, :4])


def test_packed_equals_unpacked(params, forward):
  sources, targets = sentences([5, 3], 2), sentences([4, 6], 3)
  pack = lambda parts, width: tokens.pack([parts], 1, width, FILLER)
  packed = forward(params, pack(sources, 11), tokens.shift_right(pack(targets, 13), BOS))
  start = 0
  for source, target in zip(sources, targets):
    alone = forward(params, tokens.pad([source], 1, 7, FILLER), tokens.shift_right(tokens.pad([target], 1, 7, FILLER), BOS))
    np.testing.assert_allclose(packed[0, start:start + len(target)], alone[0, :len(target)], atol=2e-5)
    start += len(target)


def test_cached_steps_equal_the_parallel_pass(model, params, forward):
  source, target = rows([5, 3], 7), tokens.shift_right(rows([6, 4], 6, seed=1), BOS)
  parallel = forward(params, source, target)
  cache = model.init_cache(params, model.encode(params, source), 6, beams=3)
  step = jax.jit(model.decode_step)
  for t in range(6):
    logits, cache = step(params, cache, jnp.repeat(target.ids[:, t:t + 1], 3, axis=1))
    for row, length in enumerate([6, 4]):
      if t < length:
        for beam in range(3):
          np.testing.assert_allclose(logits[row, beam], parallel[row, t], atol=2e-5)
  assert np.abs(parallel).max() > 0.1


def test_batch_of_one_is_a_row_of_a_batch(params, forward):
  source, target = rows([5, 3, 7], 7), tokens.shift_right(rows([6, 4, 5], 6, seed=1), BOS)
  together = forward(params, source, target)
  for row in range(3):
    one = lambda record: Tokens(*(field[row:row + 1] for field in record))
    np.testing.assert_allclose(forward(params, one(source), one(target))[0], together[row], atol=2e-5)


def test_dropout_acts_only_with_a_key(model, params):
  source = rows([5, 3], 7)
  values = lambda key=None: model.encode(params, source, key).values
  np.testing.assert_array_equal(values(), values())
  np.testing.assert_array_equal(values(jax.random.key(1)), values(jax.random.key(1)))
  assert np.abs(values(jax.random.key(1)) - values(jax.random.key(2))).max() > 0.01
  assert np.abs(values(jax.random.key(1)) - values()).max() > 0.01


def test_dropout_keeps_the_rate_and_the_mean():
  from transformer.dropout import dropout
  x = jax.random.normal(jax.random.key(0), (331, 313)) + 3.0
  y = dropout(x, 0.3, jax.random.key(1))
  assert abs((y == 0).mean() - 0.3) < 0.005
  np.testing.assert_allclose(np.where(y == 0, x / 0.7, y), x / 0.7, rtol=1e-6)


def test_one_matrix_for_both_embeddings_and_the_output(model, params):
  source, target = rows([5], 7), tokens.shift_right(rows([6], 6, seed=1), BOS)
  absent = 28  # a token in neither sentence: only the output projection can notice it
  assert absent not in np.ravel(source.ids) and absent not in np.ravel(target.ids)
  changed = dict(params, embedding=params['embedding'].at[absent].add(1.0))
  memory = model.encode(params, source)
  np.testing.assert_array_equal(model.encode(changed, source).values, memory.values)
  before, after = model.decode(params, memory, target), model.decode(changed, memory, target)
  np.testing.assert_array_equal(np.delete(before, absent, -1), np.delete(after, absent, -1))
  assert np.abs(before[..., absent] - after[..., absent]).min() > 1e-4
  assert 'output_projection' not in params


def test_separate_vocabularies_and_an_untied_output():
  config = ModelConfig(**{**SIZES, 'target_vocab_size': 31}, share_embeddings=False, tie_output=False)
  model = models.build(config)
  params = model.init(jax.random.key(0))
  assert params['source_embedding'].shape == (29, 14) and params['output_projection'].shape == (31, 14)
  logits = model.decode(params, model.encode(params, rows([5], 7)), tokens.shift_right(rows([6], 6), BOS))
  assert logits.shape == (1, 6, 31)


def test_embeddings_are_scaled_and_positions_added(model, params):
  source = rows([5], 5)
  blank = jax.tree.map(jnp.zeros_like, params)  # sub-layers add nothing
  params = dict(blank, embedding=params['embedding'])
  if model.config.norm == 'pre':
    params['encoder_norm'] = dict(scale=jnp.ones(14), bias=jnp.zeros(14))
    expected = params['embedding'][source.ids] * 14**0.5 + models.positions.sinusoids(5, 14)[None]
    centred = expected - expected.mean(-1, keepdims=True)
    expected = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(model.encode(params, source).values, expected, atol=1e-5)
  else:  # post-norm with scale and bias zero erases everything: nothing bypasses the normalisation
    assert (model.encode(params, source).values == 0).all()


def test_inspect_returns_every_head_and_the_same_logits(model, params, forward):
  source, target = rows([5, 3], 7), tokens.shift_right(rows([6, 4], 6, seed=1), BOS)
  logits, record = jax.jit(model.inspect)(params, source, target)
  np.testing.assert_allclose(logits, forward(params, source, target), atol=1e-5)
  assert [w.shape for w in record['cross']] == [(2, 2, 6, 7)] * 2
  assert [w.shape for w in record['encoder']] == [(2, 2, 7, 7)] * 2
  for weights in record['decoder']:
    assert (np.triu(weights[0, 0], 1) == 0).all()
  for weights in record['cross']:
    assert (weights[1, :, :, 3:] == 0).all()  # padded columns are exactly 0
    np.testing.assert_allclose(weights[1, :, :4].sum(-1), 1.0, rtol=1e-5)


def test_bfloat16_keeps_parameters_and_logits_in_float32():
  model = models.build(ModelConfig(**SIZES, dtype='bfloat16'))
  params = model.init(jax.random.key(0))
  assert {leaf.dtype for leaf in jax.tree.leaves(params)} == {jnp.dtype('float32')}
  memory = model.encode(params, rows([5], 7))
  assert memory.values.dtype == jnp.bfloat16
  target = tokens.shift_right(rows([6], 6), BOS)
  logits = model.decode(params, memory, target)
  exact = models.build(ModelConfig(**SIZES))
  assert logits.dtype == jnp.float32
  np.testing.assert_allclose(logits, exact.decode(params, exact.encode(params, rows([5], 7)), target), atol=0.15)


@pytest.mark.parametrize('sizes, paper', [
    (dict(), 65e6), (dict(d_model=1024, d_ff=4096, num_heads=16), 213e6)])
def test_parameter_counts_of_the_paper(sizes, paper):
  count = models.count_parameters(models.build(ModelConfig(37000, 37000, **sizes)))
  assert abs(count - paper) / paper < 0.05


def test_parameter_count_by_hand():
  count = models.count_parameters(models.build(ModelConfig(29, 29, d_model=14, num_heads=2, num_layers=3, d_ff=11)))
  attention, feed_forward, norm = 4 * 14 * 14, 2 * 14 * 11 + 14 + 11, 2 * 14
  assert count == 29 * 14 + 3 * (attention + feed_forward + 2 * norm) + 3 * (2 * attention + feed_forward + 3 * norm)


def test_every_parameter_has_logical_axes(model, params):
  axes = jax.tree.leaves(model.axes(), is_leaf=lambda x: isinstance(x, jax.sharding.PartitionSpec))
  assert [len(a) for a in axes] == [leaf.ndim for leaf in jax.tree.leaves(params)]


@pytest.mark.parametrize('wrong, words', [
    (dict(num_heads=3), 'not divisible'), (dict(norm='middle'), 'post, pre'), (dict(dropout=1.0), 'dropout'),
    (dict(target_vocab_size=30), 'share_embeddings'), (dict(d_model=0), 'positive')])
def test_sizes_that_do_not_fit_are_refused(wrong, words):
  with pytest.raises(ValueError, match=words):
    ModelConfig(**{**SIZES, **wrong})
