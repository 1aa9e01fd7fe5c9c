"""One step of training, and the smallest task that it learns."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from corpora import vocabulary as vocabularies
from tests.conftest import BOS, EOS, FILLER, SIZES, rows, sentences
from transformer import model as models
from transformer import optimizer as optimizers
from transformer import tokens, training
from transformer.config import LossConfig, ModelConfig, OptimizerConfig
from transformer.tokens import Batch, Tokens

ONE_LAYER = {**SIZES, 'num_layers': 1}
# Plain descent that keeps the gradient it was given, so that tests can read it from the state.
DESCENT = optax.GradientTransformation(
    lambda params: jax.tree.map(jnp.zeros_like, params),
    lambda gradient, state, params=None: (jax.tree.map(lambda g: -0.1 * g, gradient), gradient))
SOURCES, TARGETS = [5, 3, 7, 2, 4], [4, 6, 2, 5, 3]


def make_step(dropout, ema_decay=0.0):
  model = models.build(ModelConfig(**ONE_LAYER, dropout=dropout))
  state = jax.jit(lambda key: training.init_state(model, DESCENT, key, ema_decay))(jax.random.key(0))
  return state, jax.jit(training.make_train_step(model, DESCENT, LossConfig(0.1), BOS, ema_decay))


@pytest.fixture(scope='module')
def plain():
  """A state and its step without dropout."""
  return make_step(0.0, ema_decay=0.9)


@pytest.fixture(scope='module')
def batch():
  return Batch(rows(SOURCES, 7), rows(TARGETS, 6, seed=1))


def keep(record, kept):
  """The batch with other rows emptied, their ids left where they stood."""
  chosen = np.isin(np.arange(5), kept)[:, None]
  return Tokens(record.ids, record.positions, np.where(chosen, record.segments, 0))


def close(one, other, atol=1e-6):
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=atol), one, other)


def test_the_loss_of_one_batch_falls(plain, batch):
  state, step = plain
  losses = []
  for _ in range(30):
    state, measures = step(state, batch)
    losses.append(float(measures['loss'] / measures['tokens']))
  assert losses[-1] < 0.8 * losses[0] and losses[1] < losses[0]
  assert int(state.step) == 30 and measures['tokens'] == sum(TARGETS)


def test_the_gradient_is_divided_once_by_the_tokens_of_the_whole(plain, batch):
  state, step = plain
  gradient = lambda kept: step(state, Batch(*(keep(record, kept) for record in batch)))
  (whole, sums), (left, sums_left), (right, sums_right) = gradient(range(5)), gradient([0, 2]), gradient([1, 3, 4])
  assert (sums['tokens'], sums_left['tokens'], sums_right['tokens']) == (20, 6, 14)
  close(whole.opt_state, jax.tree.map(lambda a, b: (6 * a + 14 * b) / 20, left.opt_state, right.opt_state))
  np.testing.assert_allclose(sums['loss'], sums_left['loss'] + sums_right['loss'], rtol=1e-5)
  norm = np.sqrt(sum(float((g**2).sum()) for g in jax.tree.leaves(whole.opt_state)))
  np.testing.assert_allclose(sums['gradient_norm'], norm, rtol=1e-5)
  mean_of_means = jax.tree.map(lambda a, b: (a + b) / 2, left.opt_state, right.opt_state)
  assert optax.tree.norm(jax.tree.map(jnp.subtract, whole.opt_state, mean_of_means)) > 1e-3


def test_empty_rows_change_nothing(plain, batch):
  state, step = plain
  fewer = Batch(*(Tokens(*(field[:3] for field in record)) for record in batch))
  with_empty, measures = step(state, Batch(*(keep(record, [0, 1, 2]) for record in batch)))
  without, expected = step(state, fewer)
  close(with_empty.opt_state, without.opt_state)
  close(measures, expected, atol=1e-4)
  assert measures['gradient_norm'] > 0.1


def test_a_batch_of_padding_alone_leaves_the_parameters(plain, batch):
  state, step = plain
  after, measures = step(state, Batch(*(keep(record, []) for record in batch)))
  assert measures['tokens'] == 0 and measures['gradient_norm'] == 0
  jax.tree.map(np.testing.assert_array_equal, after.params, state.params)


def test_the_average_moves_by_a_tenth(plain, batch):
  state, step = plain
  after, _ = step(state, batch)
  close(after.average, jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, state.params, after.params))
  assert optax.tree.norm(jax.tree.map(jnp.subtract, after.average, state.params)) > 1e-4


def test_dropout_is_a_function_of_key_and_step(batch):
  state, step = make_step(0.3)
  loss = lambda state: float(step(state, batch)[1]['loss'])
  assert loss(state) == loss(state)
  assert abs(loss(state) - loss(state._replace(key=jax.random.key(9)))) > 1e-3
  assert abs(loss(state) - loss(state._replace(step=jnp.int32(1)))) > 1e-3
  jax.tree.map(np.testing.assert_array_equal, step(state, batch)[0].params, step(state, batch)[0].params)
  assert state.average == ()


def test_every_packed_sentence_starts_from_bos():
  first, second = sentences([4, 3])
  packed = Tokens(np.array([[*first, *second, 17, 17]]), np.array([[0, 1, 2, 3, 0, 1, 2, 1, 1]]),
                  np.array([[1, 1, 1, 1, 2, 2, 2, 0, 0]]))
  shifted = tokens.shift_right(packed, BOS)
  start = 0
  for sentence in (first, second):
    alone = tokens.shift_right(tokens.pad([sentence], 1, 5, FILLER), BOS)
    np.testing.assert_array_equal(alone.ids[0, :len(sentence)], [BOS, *sentence[:-1]])
    np.testing.assert_array_equal(shifted.ids[0, start:start + len(sentence)], alone.ids[0, :len(sentence)])
    start += len(sentence)
  assert EOS not in shifted.ids[0, :7]
  np.testing.assert_array_equal(shifted.segments, packed.segments)


def test_sentences_that_do_not_fit_are_refused():
  with pytest.raises(ValueError, match='3 sentences do not fit into 2 rows'):
    tokens.pad(sentences([2, 2, 2]), 2, 5, FILLER)
  with pytest.raises(ValueError, match='7 tokens does not fit into 5'):
    tokens.pad(sentences([7]), 2, 5, FILLER)
  assert (tokens.pad([[], [5, EOS]], 3, 4, FILLER).segments == [[0] * 4, [1, 1, 0, 0], [0] * 4]).all()


@pytest.mark.parametrize('smoothing', [0.0, 0.1])
def test_two_pairs_are_learnt_in_seconds(smoothing):
  pairs = [('merci', 'thanks'), ('je suis étudiant', 'i am a student')]
  options = vocabularies.VocabularyConfig(kind='word', size=19, joint=False)
  source, target = (vocabularies.Vocabulary(vocabularies.train(options, side), 'words') for side in zip(*pairs))
  assert (source.size, target.size) == (4 + 4, 4 + 5)  # padding, unknown, BOS, EOS, and the words
  assert target.pieces(target.encode(pairs[1][1])) == ['▁i', '▁am', '▁a', '▁student']
  lay = lambda vocabulary, texts, width: tokens.pad(
      [[*ids, vocabulary.eos_id] for ids in vocabulary.encode_batch(texts)], 2, width, vocabulary.pad_id)
  batch = Batch(lay(source, [s for s, _ in pairs], 4), lay(target, [t for _, t in pairs], 5))
  assert source.unk_id not in batch.source.ids and target.unk_id not in batch.target.ids

  model = models.build(ModelConfig(source.size, target.size, d_model=32, num_heads=2, num_layers=1, d_ff=64,
                                   dropout=0.0, share_embeddings=False))
  optimizer = optimizers.build(OptimizerConfig(d_model=32, warmup_steps=50, learning_rate_scale=0.4))
  state = jax.jit(lambda key: training.init_state(model, optimizer, key))(jax.random.key(0))
  step = jax.jit(training.make_train_step(model, optimizer, LossConfig(smoothing), target.bos_id))
  for _ in range(300):
    state, measures = step(state, batch)
  assert measures['correct'] == measures['tokens'] == 2 + 5

  forward = jax.jit(lambda params, source, target: model.decode(params, model.encode(params, source), target))
  logits = forward(state.params, batch.source, tokens.shift_right(batch.target, target.bos_id))
  right = np.take_along_axis(np.asarray(jax.nn.softmax(logits)), batch.target.ids[..., None], -1)[..., 0]
  right = right[batch.target.segments > 0]
  if smoothing:
    np.testing.assert_allclose(right, 1 - 0.1 + 0.1 / target.size, atol=0.02)
  else:
    assert (right > 0.95).all()
