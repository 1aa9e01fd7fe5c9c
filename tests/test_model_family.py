"""Every choice of ModelConfig inside the whole model: cached = parallel, packed = alone, scanned = written out."""

import dataclasses
import itertools
import math

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.conftest import BOS, FILLER, SIZES, rows, sentences
from transformer import architectures, feed_forward, layers, normalization, tokens
from transformer import model as models
from transformer.config import LanguageModelConfig, ModelConfig
from transformer.registries import ATTENTION_SCORES, POSITIONS

SMALL = {**SIZES, 'num_layers': 1, 'num_decoder_layers': 2, 'd_k': 6, 'd_v': 3, 'clip_distance': 2, 'num_buckets': 8,
         'max_distance': 11, 'max_positions': 19}
# Every position kind with every score. The other choices alternate over those pairs: five, so that no score of the
# four always has the same.
PAIRS = [(kind, score) for kind, score in itertools.product(POSITIONS, ATTENTION_SCORES)
         if (kind, score) != ('rotary', 'additive')]
OTHERS = itertools.cycle([
    dict(norm='post', normalization='layer_norm', activation='relu', num_kv_heads=1, position_layout='halves'),
    dict(norm='pre', normalization='rms_norm', activation='gelu', attention_bias=True, feed_forward_bias=False),
    dict(norm='pre', normalization='layer_norm', activation='swiglu', norm_bias=False, share_embeddings=False),
    dict(norm='post', normalization='rms_norm', activation='swiglu', tie_output=False, num_kv_heads=1,
         position_frequencies='tensor2tensor'),
    dict(norm='pre', num_heads=4, num_kv_heads=2)])
PRODUCT = [dict(positions=kind, attention_score=score, **others) for (kind, score), others in zip(PAIRS, OTHERS)]
name = lambda options: '-'.join(str(value) for value in options.values())


def away_from_zero(model):
  """Parameters, those that start at nought or one included, drawn by NumPy: nothing is compiled for them."""
  draw = np.random.default_rng(5)
  return jax.tree.map(lambda leaf: jnp.asarray(draw.normal(0.1, 0.4, leaf.shape), jnp.float32),
                      jax.eval_shape(model.init, jax.random.key(0)))


def stepwise(model, params, memory, target, beams):
  """Logits [T, B, W, V] of cached steps, all beams reading `target`."""
  def step(cache, token):
    logits, cache = model.decode_step(params, cache, jnp.repeat(token[:, None], beams, axis=1))
    return cache, logits

  room = target.ids.shape[1] + 2  # more than is written
  return jax.lax.scan(step, model.init_cache(params, memory, room, beams), target.ids.T)[1]


READ = np.array([4, 0])  # tokens of each row that prefill() reads at once


def after_prefill(model, params, memory, target, beams):
  """Logits [2, B, W, V] of the two cached steps behind tokens that were read in one pass."""
  opening = jax.tree.map(lambda leaf: leaf[:, :READ.max() + 1], target)  # with a column that no row has
  opening = opening._replace(segments=(np.arange(READ.max() + 1)[None] < READ[:, None]).astype(np.int32))
  cache = model.prefill(params, model.init_cache(params, memory, target.ids.shape[1] + 1, beams), opening)
  following = jnp.take_along_axis(jnp.asarray(target.ids), READ[:, None] + np.arange(2)[None], axis=1)

  def step(cache, token):
    logits, cache = model.decode_step(params, cache, jnp.repeat(token[:, None], beams, axis=1))
    return cache, logits

  return jax.lax.scan(step, cache, following.T)[1]


def assert_prefilled(logits, parallel):
  for number, row, beam in itertools.product(range(2), range(len(READ)), range(logits.shape[2])):
    np.testing.assert_allclose(logits[number, row, beam], parallel[row, READ[row] + number], atol=5e-5)


@pytest.mark.parametrize('options', PRODUCT, ids=name)
def test_cached_steps_and_packed_rows_equal_the_parallel_pass(options):
  model = models.build(ModelConfig(**{**SMALL, 'num_decoder_layers': 1, **options}))
  params = away_from_zero(model)
  source, target = rows([5, 3], 7), tokens.shift_right(rows([6, 4], 6, seed=1), BOS)
  sources, targets = sentences([5, 3]), sentences([6, 4], 1)
  packed = tokens.pack([sources], 1, 11, FILLER), tokens.shift_right(tokens.pack([targets], 1, 13, FILLER), BOS)

  @jax.jit
  def all_ways(params):
    memory = model.encode(params, source)
    together = model.decode(params, model.encode(params, packed[0]), packed[1])
    return (model.decode(params, memory, target), stepwise(model, params, memory, target, beams=3), together,
            after_prefill(model, params, memory, target, beams=3))

  parallel, cached, together, prefilled = all_ways(params)
  assert_prefilled(prefilled, parallel)
  assert np.abs(parallel).max() > 0.1 and np.std(parallel[0, :6], axis=0).max() > 1e-3
  start = 0
  for row, length in enumerate([6, 4]):
    for beam in range(3):
      np.testing.assert_allclose(cached[:length, row, beam], parallel[row, :length], atol=5e-5)
    np.testing.assert_allclose(together[0, start:start + length], parallel[row, :length], atol=5e-5)
    start += length


def test_as_many_groups_as_heads_are_ordinary_heads():
  source, target = rows([5, 3], 7), tokens.shift_right(rows([6, 4], 6, seed=1), BOS)
  ordinary, grouped, fewer = (models.build(ModelConfig(**{**SIZES, 'num_layers': 1}, num_kv_heads=groups))
                              for groups in (None, 2, 1))
  params = away_from_zero(ordinary)
  jax.tree.map(np.testing.assert_array_equal, params, away_from_zero(grouped))
  logits = lambda model: model.decode(params, model.encode(params, source), target)
  np.testing.assert_array_equal(logits(ordinary), logits(grouped))
  assert models.count_parameters(fewer) < models.count_parameters(ordinary)


@pytest.mark.parametrize('config', [
    ModelConfig(**{**SMALL, 'num_layers': 3}, dropout=0.0, positions='relative', norm='pre', remat=True),
    ModelConfig(**{**SMALL, 'num_layers': 2, 'num_decoder_layers': 1}, dropout=0.0),
    LanguageModelConfig(**SIZES, dropout=0.0, positions='t5', num_buckets=8, max_distance=11)],
    ids=['relative, pre, remat', 'sinusoidal, post', 'language model'])
def test_scanned_layers_equal_written_out_ones(config):
  scanned = architectures.build(dataclasses.replace(config, scan_layers=True))
  plain = architectures.build(dataclasses.replace(config, remat=False))
  params = away_from_zero(scanned)
  stacks = [name for name in params if name.endswith('layers')]
  written_out = lambda params: layers.unstacked(params, stacks)
  source, target = rows([5, 3], 7), tokens.shift_right(rows([6, 4], 6, seed=1), BOS)
  if isinstance(config, LanguageModelConfig):
    source = tokens.pad([], 2, 0, FILLER)

  def loss(model, params):
    logits = model.decode(params, model.encode(params, source), target, jax.random.key(1))
    return (logits**2).mean(), logits

  (_, logits), gradient = jax.jit(jax.value_and_grad(lambda p: loss(scanned, p), has_aux=True))(params)
  (_, expected), reference = jax.jit(jax.value_and_grad(lambda p: loss(plain, p), has_aux=True))(written_out(params))
  np.testing.assert_allclose(logits, expected, atol=2e-5)
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5, rtol=1e-3), written_out(gradient), reference)
  w1 = lambda tree: tree[stacks[-1]]['feed_forward']['w1']
  assert w1(params).shape == (config.num_layers, 14, 11) and np.abs(w1(gradient)).max(axis=(1, 2)).min() > 1e-3
  assert w1(scanned.axes()) == jax.sharding.PartitionSpec('layers', 'embed', 'mlp')
  fresh = jax.jit(lambda key: w1(scanned.init(key)))(jax.random.key(0))
  assert np.abs(fresh[0] - fresh[1]).max() > 0.01  # each layer starts from values of its own

  cached = jax.jit(lambda params: stepwise(scanned, params, scanned.encode(params, source), target, beams=1))(params)
  np.testing.assert_allclose(cached[:4, :, 0].swapaxes(0, 1), expected[:, :4], atol=2e-5)


def test_scanned_layers_draw_dropout_of_their_own():
  config = ModelConfig(**{**SIZES, 'num_layers': 2}, dropout=0.5, scan_layers=True, positions='none')
  model = models.build(config)
  params = jax.tree.map(jnp.zeros_like, model.init(jax.random.key(0)))
  params['embedding'] = jnp.ones_like(params['embedding'])
  for part in ('around_self', 'around_feed_forward'):  # scale 0 keeps every layer's output at its bias
    params['encoder_layers'][part]['norm']['bias'] = jnp.ones((2, 14))
  params['encoder_layers']['feed_forward']['b2'] = jnp.ones((2, 14))

  @jax.jit
  def kept(layer):  # the last normalisation's scale lets one layer's dropped feed-forward output through
    scale = jnp.zeros((2, 14)).at[layer].set(1.0)
    changed = jax.tree.map(lambda x: x, params)
    changed['encoder_layers']['around_feed_forward']['norm']['scale'] = scale
    return model.encode(changed, rows([7], 7), jax.random.key(3)).values

  assert np.abs(kept(0) - kept(1)).max() > 0.1


def test_rematerialisation_keeps_less_for_the_same_gradient():
  source, target = rows([5, 3], 7), tokens.shift_right(rows([6, 4], 6, seed=1), BOS)
  outcomes = {}
  for remat in (False, True):
    model = models.build(ModelConfig(**SMALL, dropout=0.2, remat=remat))
    params = jax.jit(model.init)(jax.random.key(0))
    loss = lambda params: (model.decode(params, model.encode(params, source), target, jax.random.key(1)) ** 2).mean()
    _, pull = jax.eval_shape(lambda p: jax.vjp(loss, p), params)
    saved = sum(leaf.size for leaf in jax.tree.leaves(pull))
    traced = jax.jit(jax.grad(loss)).trace(params)
    outcomes[remat] = traced.lower().compile()(params), saved, str(traced.jaxpr)
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), outcomes[False][0], outcomes[True][0])
  assert outcomes[True][1] < 0.8 * outcomes[False][1]  # numbers kept from the forward pass
  assert 'remat' in outcomes[True][2] and 'remat' not in outcomes[False][2]


# -------------------------------------------------------------------------------------------- what positions are for


def test_without_positions_the_encoder_knows_no_order():
  source = rows([7], 7)
  order = np.array([3, 0, 6, 1, 5, 2, 4])
  shuffled = source._replace(ids=source.ids[:, order])
  for kind, blind in (('none', True), ('rotary', False), ('relative', False), ('t5', False)):
    model = models.build(ModelConfig(**SMALL, positions=kind))
    params = away_from_zero(model)
    values = jax.jit(lambda params, source, model=model: model.encode(params, source).values)
    difference = np.abs(values(params, source)[:, order] - values(params, shuffled)).max()
    assert (difference < 1e-5) == blind, kind


def test_the_feed_forward_network_is_a_convolution_of_width_one():
  module = feed_forward.FeedForward(ModelConfig(**SIZES))
  x = jax.random.normal(jax.random.key(0), (2, 5, 14))
  params = nn.unbox(module.init(jax.random.key(1), x)['params'])
  convolve = lambda x, w: jax.lax.conv_general_dilated(x, w[None], (1,), 'VALID', dimension_numbers=('NWC', 'WIO', 'NWC'))
  hidden = jax.nn.relu(convolve(x, params['w1']) + params['b1'][None, None])
  np.testing.assert_allclose(module.apply({'params': params}, x), convolve(hidden, params['w2']) + params['b2'][None, None],
                             atol=1e-5)


def test_gated_and_smooth_activations_by_hand():
  x = np.random.default_rng(0).normal(size=(1, 3, 14)).astype(np.float32)
  for kind in ('gelu', 'swiglu'):
    module = feed_forward.FeedForward(ModelConfig(**SIZES, activation=kind, feed_forward_bias=False))
    params = nn.unbox(module.init(jax.random.key(1), jnp.asarray(x))['params'])
    inner = np.asarray(x @ params['w1'], np.float64)
    normal = 0.5 * (1 + np.vectorize(math.erf)(inner / math.sqrt(2)))
    hidden = inner * normal if kind == 'gelu' else inner / (1 + np.exp(-inner)) * (x @ params['w_gate'])
    np.testing.assert_allclose(module.apply({'params': params}, jnp.asarray(x)), hidden @ params['w2'], atol=1e-5)
    assert sorted(params) == (['w1', 'w2'] if kind == 'gelu' else ['w1', 'w2', 'w_gate'])


def test_normalisations_by_hand():
  x = np.random.default_rng(0).normal(size=(2, 3, 14)).astype(np.float32) + 2.0
  scale = np.arange(14.0)
  for kind, expected in (('rms_norm', x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)),
                         ('layer_norm', (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6))):
    module = normalization.make(ModelConfig(**SIZES, normalization=kind, norm_bias=False))
    assert list(module.init(jax.random.key(0), jnp.asarray(x))['params']) == ['scale']
    np.testing.assert_allclose(module.apply({'params': {'scale': jnp.asarray(scale)}}, jnp.asarray(x)), expected * scale, atol=2e-4)


@pytest.mark.parametrize('kind', POSITIONS)
def test_text_beyond_the_longest_is_decoded_as_it_is_read_but_by_learned_positions(kind):
  model = models.build(ModelConfig(**{**SMALL, 'num_decoder_layers': 1}, positions=kind))
  params = away_from_zero(model)
  assert model.longest == (19 if kind == 'learned' else None)
  source, target = rows([38], 38), tokens.shift_right(rows([38], 38, seed=1), BOS)
  if kind == 'learned':
    short = jax.eval_shape(model.encode, params, rows([19], 19))
    cache = jax.eval_shape(lambda params, memory: model.init_cache(params, memory, 38), params, short)
    for read, *inputs in ((model.encode, source), (model.decode, short, target),
                          (model.decode_step, cache, target.ids[:, :1])):
      with pytest.raises(ValueError, match='38 tokens, but learned positions end at max_positions 19'):
        jax.eval_shape(read, params, *inputs)
    return

  @jax.jit
  def both(params):
    memory = model.encode(params, source)
    return model.decode(params, memory, target), stepwise(model, params, memory, target, beams=1)

  parallel, cached = both(params)
  np.testing.assert_allclose(cached[:, 0, 0], parallel[0], atol=5e-5)
  assert np.std(parallel[0, 19:], axis=0).max() > 1e-3


def test_activation_dropout_acts_with_a_key_only():
  model = models.build(ModelConfig(**SMALL, dropout=0.0, activation_dropout=0.5))
  params, source = away_from_zero(model), rows([5, 3], 7)
  values = jax.jit(lambda key=None: model.encode(params, source, key).values)
  np.testing.assert_array_equal(values(), values())
  assert np.abs(values(jax.random.key(1)) - values()).max() > 0.01


@pytest.mark.parametrize('options', PRODUCT, ids=name)
def test_logits_stay_in_float32_and_every_parameter_has_axes(options):
  model = models.build(ModelConfig(**{**SMALL, **options}, dtype='bfloat16', scan_layers=True, remat=True))
  params = jax.eval_shape(model.init, jax.random.key(0))
  assert {leaf.dtype for leaf in jax.tree.leaves(params)} == {jnp.dtype('float32')}
  forward = lambda p, s, t: model.decode(p, model.encode(p, s, jax.random.key(1)), t, jax.random.key(2))
  logits = jax.eval_shape(forward, params, rows([5], 7), rows([6], 6))
  assert (logits.shape, logits.dtype) == ((1, 6, 29), jnp.dtype('float32'))
  axes = jax.tree.leaves(model.axes(), is_leaf=lambda x: isinstance(x, jax.sharding.PartitionSpec))
  assert [len(a) for a in axes] == [leaf.ndim for leaf in jax.tree.leaves(params)]


@pytest.mark.parametrize('wrong, words', [
    (dict(positions='rotary', attention_score='additive', d_k=6), 'rotation leaves distances in products'),
    (dict(positions='rotary', d_k=7), 'd_k is 7; rotary'), (dict(num_heads=6, num_kv_heads=4, d_k=2, d_v=2), 'num_kv_heads 4'),
    (dict(positions='t5', num_buckets=6), 'num_buckets is 6'), (dict(d_model=13, d_k=6, d_v=6), 'need an even one'),
    (dict(num_heads=3, d_k=5), 'set d_k and d_v'), (dict(num_decoder_layers=0), 'num_decoder_layers is 0'),
    (dict(attention_score='cosine'), 'scaled_dot, dot'), (dict(activation_dropout=1.0), 'activation_dropout')])
def test_choices_that_do_not_fit_are_refused(wrong, words):
  with pytest.raises(ValueError, match=words):
    ModelConfig(**{**SIZES, **wrong})
