"""One step of training, and the smallest task that it learns."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from corpora import vocabulary as vocabularies
from tests.conftest import BOS, EOS, FILLER, SIZES, rows, sentences
from transformer import architectures, embeddings, loss, tokens, training
from transformer import model as models
from transformer import optimizer as optimizers
from transformer.config import ConsistencyConfig, LossConfig, ModelConfig, OptimizerConfig, RecurrentConfig
from transformer.tokens import Batch, Tokens
from transformer.training import TrainState

ONE_LAYER = {**SIZES, 'num_layers': 1}
# Plain descent that keeps the gradient it was given, so that tests can read it from the state.
DESCENT = optax.GradientTransformation(
    lambda params: jax.tree.map(jnp.zeros_like, params),
    lambda gradient, state, params=None: (jax.tree.map(lambda g: -0.1 * g, gradient), gradient))
SOURCES, TARGETS = [5, 3, 7, 2, 4], [4, 6, 2, 5, 3]


def make_step(dropout, ema_decay=0.0):
  model = models.build(ModelConfig(**ONE_LAYER, dropout=dropout))
  state = jax.jit(lambda key: training.init_state(model, DESCENT, key, ema_decay))(jax.random.key(0))
  return state, jax.jit(training.make_train_step(
      training.cross_entropy(model, LossConfig(0.1), BOS), DESCENT, ema_decay))


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


def test_every_shard_of_a_mapped_step_draws_for_itself():
  """What pmap does with the key, shown by vmap over shards of which each tells what it drew."""
  def objective(params, batch, key):
    zero = jnp.zeros(())
    return loss.Sums(loss=params['x'] * jax.random.uniform(key) * batch.source, nll=zero, tokens=zero + 1, correct=zero)

  step = training.make_train_step(objective, DESCENT)
  key = jax.random.key(3)
  state = TrainState(jnp.int32(5), {'x': jnp.ones(())}, DESCENT.init({'x': jnp.ones(())}), key, ())
  mapped = jax.jit(jax.vmap(functools.partial(step, axis='shard'), in_axes=(None, 0), axis_name='shard'))
  drawn = [float(mapped(state, Batch(row, jnp.zeros(3)))[1]['loss'][0]) for row in jnp.eye(3)]
  here = jax.random.fold_in(key, 5)
  expected = [float(jax.random.uniform(jax.random.fold_in(here, shard))) for shard in range(3)]
  np.testing.assert_allclose(drawn, expected, rtol=1e-6)
  assert len(set(drawn)) == 3


# ---------------------------------------------------------------------------------------------------- accumulation


def test_five_micro_batches_of_unequal_tokens_are_one_batch(plain, batch):
  state, step = plain
  model = models.build(ModelConfig(**ONE_LAYER, dropout=0.0))
  objective = training.cross_entropy(model, LossConfig(0.1), BOS)
  in_parts = jax.jit(training.make_train_step(objective, DESCENT, 0.9, accumulation_steps=5))
  (whole, expected), (parts, measures) = step(state, batch), in_parts(state, batch)
  close(parts.params, whole.params)
  close(parts.opt_state, whole.opt_state)
  close(parts.average, whole.average)
  close(measures, expected, atol=1e-4)
  assert measures['tokens'] == 20 and int(parts.step) == 1


def test_every_row_is_in_one_micro_batch_which_draws_for_itself():
  rows = {'a': jnp.arange(12 * 5).reshape(12, 5), 'b': jnp.arange(12)}
  parts = training.split(rows, 3)
  assert parts['a'].shape == (3, 4, 5)
  np.testing.assert_array_equal(parts['b'], [[0, 3, 6, 9], [1, 4, 7, 10], [2, 5, 8, 11]])
  np.testing.assert_array_equal(parts['a'][..., 0], 5 * parts['b'])
  seen = lambda part, key: (part['b'].sum(), jax.random.uniform(key))
  total, drawn = training.accumulate(seen, rows, jax.random.key(0), 3)
  alone = [jax.random.uniform(key) for key in jax.random.split(jax.random.key(0), 3)]
  assert total == 66 and len({float(draw) for draw in alone}) == 3
  np.testing.assert_allclose(drawn, sum(alone), rtol=1e-6)
  with pytest.raises(ValueError, match='12 rows does not split into accumulation_steps = 5'):
    training.split(rows, 5)


# ----------------------------------------------------------------------------------------------------- consistency


def by_hand(first, second, batch, smoothing=0.1, xp=np):
  """Cross-entropy of each pass against the smoothed target, and both divergences: sums over real tokens."""
  labels, real = np.asarray(batch.target.ids), np.asarray(batch.target.segments) > 0
  log = lambda x: x - xp.log(xp.exp(x).sum(-1, keepdims=True))
  p, q = log(first), log(second)
  target = (1 - smoothing) * np.eye(p.shape[-1], dtype=np.float32)[labels] + smoothing / p.shape[-1]
  return [(each * real).sum() for each in (-(target * p).sum(-1), -(target * q).sum(-1), (
      xp.exp(p) * (p - q)).sum(-1), (xp.exp(q) * (q - p)).sum(-1))]


@pytest.fixture(scope='module')
def dropping():
  """A model with dropout, parameters away from symmetry, and its logits as a function of everything."""
  model = models.build(ModelConfig(**ONE_LAYER, dropout=0.2))
  params = jax.jit(model.init)(jax.random.key(3))

  @jax.jit
  def logits(params, source, shifted, key):
    encoder_key, decoder_key = jax.random.split(key)
    return model.decode(params, model.encode(params, source, encoder_key), shifted, decoder_key)

  return model, params, logits


def measured(model, config, batch):
  """The objective and its gradient, compiled together."""
  objective = training.build_objective(model, LossConfig(0.1), BOS, config)

  def scored(params, key):
    totals = objective(params, batch, key)
    return totals.loss, totals

  return jax.jit(jax.value_and_grad(scored, has_aux=True))


def test_weights_are_the_papers_unless_given():
  weight = lambda name, *given: ConsistencyConfig(name, *given).weight
  assert (weight('r_drop'), weight('simcut'), weight('r_drop', 1.7)) == (5.0, 3.0, 1.7)


def test_r_drop_by_hand(dropping, batch):
  model, params, logits = dropping
  compiled, key = measured(model, ConsistencyConfig('r_drop', 1.7, dropout=0.2), batch), jax.random.key(11)
  (value, totals), gradient = compiled(params, key)
  shifted = tokens.shift_right(batch.target, BOS)
  passes = [logits(params, batch.source, shifted, k) for k in jax.random.split(key)]
  first, second, forth, back = by_hand(*passes, batch)
  np.testing.assert_allclose(value, first + second + 1.7 * (forth + back) / 2, rtol=1e-5)
  assert totals.tokens == 20 and abs(forth - back) > 1e-3 and forth > 0.1
  np.testing.assert_allclose(totals.nll, by_hand(*passes, batch, smoothing=0.0)[0], rtol=1e-5)

  def reference(params):  # the gradient goes through both passes
    first, second, forth, back = by_hand(
        *(logits(params, batch.source, shifted, k) for k in jax.random.split(key)), batch, xp=jnp)
    return first + second + 1.7 * (forth + back) / 2

  close(gradient, jax.jit(jax.grad(reference))(params), atol=1e-4)


def test_simcut_by_hand(dropping, batch):
  model, params, logits = dropping
  compiled, key = measured(model, ConsistencyConfig('simcut', cut_rate=0.4), batch), jax.random.key(12)
  keys, shifted = jax.random.split(key, 4), tokens.shift_right(batch.target, BOS)
  source = tokens.cut(batch.source, 0.4, tokens.ends(batch.source), keys[2])
  target = tokens.cut(shifted, 0.4, shifted.positions == 0, keys[3])
  gone = [np.asarray(side.ids != before.ids) & (np.asarray(before.segments) > 0)
          for side, before in ((source, batch.source), (target, shifted))]
  assert all(where.any() for where in gone)
  assert not gone[1][:, 0].any() and not (gone[0] & (np.asarray(batch.source.ids) == EOS)).any()
  # Cut tokens by another way: an entry of the vocabulary that is not in the batch, its embedding zeroed by hand. It
  # would differ in the logits only by that entry, whose row the output shares: so zero it for both passes.
  spare = next(i for i in range(5, 29) if not (np.isin(i, batch.source.ids) or np.isin(i, batch.target.ids)))
  zeroed = params | {'embedding': params['embedding'].at[spare].set(0.0)}
  (value, totals), gradient = compiled(zeroed, key)
  by_spare = lambda side: side._replace(ids=jnp.where(side.ids == tokens.CUT, spare, side.ids))
  whole = logits(zeroed, batch.source, shifted, keys[0])
  cut = logits(zeroed, by_spare(source), by_spare(target), keys[1])
  first, _, forth, _ = by_hand(whole, cut, batch)
  np.testing.assert_allclose(value, first + 3.0 * forth, rtol=1e-5)
  np.testing.assert_allclose(totals.nll, by_hand(whole, cut, batch, smoothing=0.0)[0], rtol=1e-5)
  assert totals.tokens == 20 and forth > 0.1

  def reference(params):  # the gradient goes through both passes
    whole = logits(params, batch.source, shifted, keys[0])
    first, _, forth, _ = by_hand(whole, logits(params, source, target, keys[1]), batch, xp=jnp)
    return first + 3.0 * forth

  close(gradient, jax.jit(jax.grad(reference))(zeroed), atol=1e-4)


def test_a_token_is_cut_as_often_as_asked_and_ends_are_spared():
  packed = Tokens(jnp.tile(jnp.array([[7, 8, EOS, 9, 9, EOS, 17, 17]]), (997, 1)), None,
                  jnp.tile(jnp.array([[1, 1, 1, 2, 2, 2, 0, 0]]), (997, 1)))
  ends = tokens.ends(packed)
  np.testing.assert_array_equal(ends[0], [False, False, True, False, False, True, False, False])
  gone = np.asarray(tokens.cut(packed, 0.05, ends, jax.random.key(0)).ids == tokens.CUT)
  assert not gone[:, [2, 5]].any()
  for column in (0, 1, 3, 4):
    assert abs(gone[:, column].mean() - 0.05) < 4 * np.sqrt(0.05 * 0.95 / 997)


def test_a_cut_token_embeds_to_zero_and_teaches_its_row_nothing():
  table = jnp.arange(1.0, 11.0).reshape(5, 2)
  ids = jnp.array([[4, tokens.CUT, 0]])
  np.testing.assert_array_equal(embeddings.look_up(table, ids), [[[9, 10], [0, 0], [1, 2]]])
  gradient = jax.grad(lambda t: embeddings.look_up(t, ids).sum())(table)
  np.testing.assert_array_equal(gradient, [[1, 1], [0, 0], [0, 0], [0, 0], [1, 1]])


@pytest.mark.parametrize('config', [
    ModelConfig(**{**SIZES, 'num_layers': 1}, share_embeddings=False, tie_output=False),
    RecurrentConfig(29, 29, d_model=6, num_layers=1, dropout=0.0, share_embeddings=False, tie_output=False)],
    ids=['transformer', 'recurrent'])
def test_the_embedding_of_padding_is_never_read(config):
  """With an embedding that is no number there, a single look-up would leave no number in the gradient."""
  model = architectures.build(config)
  params = jax.jit(model.init)(jax.random.key(0))
  batch = Batch(*(tokens.pad(sentences, 3, 6, 17) for sentences in ([[5, 6, EOS], [4, EOS]], [[7, EOS], [8, 9, EOS]])))
  slope = jax.jit(jax.grad(lambda params: training.cross_entropy(model, LossConfig(0.1), BOS)(params, batch).loss))
  spoilt = params | {name: params[name].at[17].set(jnp.nan) for name in ('source_embedding', 'target_embedding')}
  jax.tree.map(np.testing.assert_array_equal, slope(spoilt), slope(params))


def test_a_recurrent_model_reads_nothing_where_a_token_is_cut():
  model = architectures.build(RecurrentConfig(29, 29, d_model=6, num_layers=1, dropout=0.0))
  params = jax.jit(model.init)(jax.random.key(0))
  zeroed, read = params | {'embedding': params['embedding'].at[17].set(0.0)}, jax.jit(model.encode)
  source = tokens.pad([[5, 6, 7, EOS]], 1, 5, FILLER)
  with_id = lambda i: source._replace(ids=source.ids * (source.ids != 6) + i * (source.ids == 6))
  cut, spare, whole = (read(zeroed, with_id(i)) for i in (tokens.CUT, 17, 6))
  close(cut, spare)
  assert np.abs(np.asarray(jax.tree.leaves(cut)[0]) - jax.tree.leaves(whole)[0]).max() > 1e-3


@pytest.mark.parametrize('wrong, words', [
    (dict(consistency='r_drop', dropout=0.0), 'no dropout'), (dict(consistency='both'), 'none, r_drop, simcut'),
    (dict(consistency='simcut', consistency_weight=0.0), 'consistency_weight is 0.0'), (dict(cut_rate=1.0), 'cut_rate')])
def test_mistaken_consistency_is_refused(wrong, words):
  with pytest.raises(ValueError, match=words):
    ConsistencyConfig(**wrong)


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
  step = jax.jit(training.make_train_step(
      training.cross_entropy(model, LossConfig(smoothing), target.bos_id), optimizer))
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
