"""Recurrent encoder-decoders against NumPy loops that take one sentence, one token and one unit of work at a time."""

import dataclasses
import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.conftest import BOS, EOS, FILLER, sentences
from transformer import architectures, search, tokens
from transformer import model as models
from transformer.config import RecurrentConfig
from transformer.recurrent.cells import Recurrence, segment_starts
from transformer.search import SearchConfig, hypotheses
from transformer.tokens import Tokens

V, D = 29, 7
KINDS = {
    'sutskever': dict(cell='lstm', num_layers=2, bidirectional=False, reverse_source=True, score='none'),
    'cho': dict(bidirectional=False, score='none', context='every'),
    'bahdanau': dict(),
    'luong_dot': dict(cell='lstm', num_layers=2, bidirectional=False, reverse_source=True, score='dot',
                      input_feeding=True),
    'general': dict(cell='lstm', num_layers=2, score='general', share_embeddings=False, tie_output=False),
    'every_both_ways': dict(num_layers=2, score='none', context='every'),
}


def record(kind, **more):
  return RecurrentConfig(V, V, d_model=D, dropout=0.3, **{**dict(num_layers=1), **KINDS[kind], **more})


@functools.cache
def made(kind):
  """A model, and parameters drawn at random, biases included."""
  model, draw = architectures.build(record(kind)), np.random.default_rng(5)
  shapes = jax.eval_shape(model.init, jax.random.key(0))
  return model, jax.tree.map(lambda leaf: jnp.asarray(draw.normal(size=leaf.shape, scale=0.4), jnp.float32), shapes)


@functools.cache
def inspector(kind):
  return jax.jit(made(kind)[0].inspect)


# ------------------------------------------------------------------------------------------------ the reference


def sigmoid(x):
  return 1 / (1 + np.exp(-x))


def step(cell, layer, x, state, fed=None):
  """One cell, gate by gate."""
  gate = lambda g, h: (x @ layer['w_input'][:, g] + (0 if fed is None else fed @ layer['w_fed'][:, g])
                       + h @ layer['w_state'][:, g] + layer['bias'][g])
  if cell == 'gru':
    h, = state
    reset, update = sigmoid(gate(0, h)), sigmoid(gate(1, h))
    return (update * h + (1 - update) * np.tanh(gate(2, reset * h)),)
  h, c = state
  c = sigmoid(gate(1, h)) * c + sigmoid(gate(0, h)) * np.tanh(gate(3, h))
  return sigmoid(gate(2, h)) * np.tanh(c), c


def read(cell, layer, xs, backward):
  """Outputs in the order of the sentence, and the last state."""
  state, out = (np.zeros(D),) * (2 if cell == 'lstm' else 1), []
  for x in xs[::-1] if backward else xs:
    state = step(cell, layer, x, state)
    out.append(state[0])
  return out[::-1] if backward else out, state


def look(score, attention, query, annotations):
  """Weights and context, place by place."""
  w = attention['score'] if 'score' in attention else {}
  compare = {'dot': lambda h: query @ h, 'general': lambda h: query @ (h @ w['w_key']),
             'additive': lambda h: (np.tanh(query @ w['w_query'] + h @ w['w_key']) @ w['v'])[0]}[score]
  scores = np.array([compare(h) for h in annotations])
  weights = np.exp(scores - scores.max())
  weights /= weights.sum()
  return weights, sum(a * h for a, h in zip(weights, annotations))


def expected(kind, source, target):
  """Logits [T, V] and attention [T, S] of one sentence of ids: nothing padded, nothing at once."""
  config = record(kind)
  p = jax.tree.map(lambda x: np.asarray(x, np.float64), made(kind)[1])
  table = lambda side: p['embedding' if config.share_embeddings else f'{side}_embedding'] * D**0.5
  xs, last = list(table('source')[source]), []
  for n in range(config.num_layers):
    read_ways = [read(config.cell, p[f'{way}_layers_{n}'], xs, way == 'backward')
                 for way in ('forward', 'backward') if f'{way}_layers_{n}' in p]
    xs = [np.concatenate(outs) for outs in zip(*(outs for outs, _ in read_ways))]
    last.append(read_ways[-1][1])
  summary = None
  if config.context == 'every':
    summary = np.tanh(last[-1][0] @ p['hand_over']['w_summary'])
  if summary is not None or config.bidirectional:
    last = [tuple(np.tanh((part if summary is None else summary) @ p['hand_over'][f'w_first_{n}_{i}'])
                  for i, part in enumerate(state)) for n, state in enumerate(last)]

  link = p.get('link', {})
  attention, attentional = link.get('attention', {}), np.zeros(D)
  logits, alignment = [], []
  for y in table('target')[target]:
    fed = summary if config.context == 'every' else attentional if config.input_feeding else None
    if config.score == 'additive':
      weights, fed = look('additive', attention, last[-1][0], xs)
    x, states = y, []
    for n in range(config.num_layers):
      states.append(step(config.cell, p[f'decoder_layers_{n}'], x, last[n], None if n else fed))
      x = states[-1][0]
    last, features = states, x
    if config.score in ('dot', 'general'):
      weights, context = look(config.score, attention, x, xs)
      features = attentional = np.tanh(np.concatenate([context, x]) @ link['w_out'])
    elif config.score == 'additive' or config.context == 'every':
      candidates = np.concatenate([x, y, fed]) @ link['deep_output']['w'] + link['deep_output']['bias']
      features = np.maximum(candidates[:D], candidates[D:])
    logits.append(p['output_projection' if not config.tie_output else 'embedding'] @ features)
    alignment.append(weights if config.score != 'none' else None)
  return np.array(logits), alignment


# --------------------------------------------------------------------------------------------------- properties


pack = lambda rows, width: tokens.pack(rows, len(rows), width, 17)  # an ordinary token under padding
SOURCES = [[*pair] for pair in (sentences([5, 3], 2), sentences([4], 3), [])]  # a packed, a padded and an empty row
TARGETS = [[*pair] for pair in (sentences([4, 6], 4), sentences([5], 5), [])]


def forced(kind, targets=TARGETS):
  """Logits and weights under teacher forcing."""
  source, target = pack(SOURCES, 11), tokens.shift_right(pack(targets, 13), BOS)
  logits, seen = inspector(kind)(made(kind)[1], source, target)
  return np.asarray(logits), [np.asarray(w) for w in seen['cross']], seen


@pytest.mark.parametrize('kind', KINDS)
def test_packed_and_padded_rows_equal_sentences_taken_alone_in_loops(kind):
  logits, cross, seen = forced(kind)
  assert seen['encoder'] == seen['decoder'] == [] and len(cross) == (record(kind).score != 'none')
  assert np.isfinite(logits).all() and logits.dtype == np.float32
  for row, (sources, targets) in enumerate(zip(SOURCES, TARGETS)):
    start = source_start = 0
    for source, target in zip(sources, targets):
      by_hand, alignment = expected(kind, source, [BOS, *target[:-1]])
      end, source_end = start + len(target), source_start + len(source)
      np.testing.assert_allclose(logits[row, start:end], by_hand, atol=2e-5)
      for weights in cross:
        assert weights.shape == (3, 1, 13, 11)
        np.testing.assert_allclose(weights[row, 0, start:end, source_start:source_end], alignment, atol=1e-5)
        np.testing.assert_allclose(weights[row, 0, start:end].sum(-1), 1.0, rtol=1e-5)
        outside = np.delete(weights[row, 0, start:end], np.s_[source_start:source_end], axis=1)
        assert (outside == 0).all()
      start, source_start = end, source_end
  assert np.ptp(logits[0, :4], axis=1).min() > 0.3  # there is something to compare


@pytest.mark.parametrize('kind', KINDS)
def test_cached_steps_of_every_beam_equal_the_loops(kind):
  model, params = made(kind)
  sources = sentences([5, 3], 2)
  draw = np.random.default_rng(9).integers(4, V, (2, 3, 4))  # another target for each of three beams
  memory = jax.jit(model.encode)(params, tokens.pad(sources, 2, 7, FILLER))
  cache = model.init_cache(params, memory, 5, beams=3)
  advance = jax.jit(model.decode_step)
  order = np.array([[0, 1, 2], [0, 1, 2]])
  for t in range(5):
    if t == 3:  # hypotheses move, as in a beam search
      order = np.array([[2, 0, 1], [0, 2, 1]])
      cache = cache._replace(beams=hypotheses.take(cache.beams, jnp.asarray(order)))
    fed = np.take_along_axis(draw[:, :, t - 1], order, 1) if t else np.full((2, 3), BOS)
    logits, cache = advance(params, cache, jnp.asarray(fed, jnp.int32))
    for row in range(2):
      for beam, origin in enumerate(order[row]):
        by_hand, _ = expected(kind, sources[row], [BOS, *draw[row, origin]][:t + 1])
        np.testing.assert_allclose(logits[row, beam], by_hand[-1], atol=2e-5)
  assert cache.step.tolist() == [5] * len(cache.step)
  widths = {leaf.shape[:2] for leaf in jax.tree.leaves(cache.source) if leaf.dtype != bool}
  assert all(width[1] != 3 for width in widths)  # the encoder's side is not copied per beam


@pytest.mark.parametrize('kind', ['sutskever', 'bahdanau', 'luong_dot'])
def test_nothing_flows_from_the_future_or_from_neighbours(kind):
  before, *_ = forced(kind)
  changed = [[list(sentence) for sentence in row] for row in TARGETS]
  changed[0][1][2] = 4 if changed[0][1][2] != 4 else 5  # of the second sentence of the first row; read at place 7
  after, *_ = forced(kind, changed)
  np.testing.assert_array_equal(after[0, :7], before[0, :7])
  np.testing.assert_array_equal(after[1:], before[1:])
  assert (np.abs(after[0, 7:10] - before[0, 7:10]).max(-1) > 1e-4).all()


def test_gradients_stay_in_their_sentence_and_in_the_past():
  model, params = made('bahdanau')
  source, target = pack(SOURCES, 11), tokens.shift_right(pack(TARGETS, 13), BOS)
  own = Tokens(np.arange(39, dtype=np.int32).reshape(3, 13), target.positions, target.segments)

  def logit(words):  # every place has a row of its own in the embedding, so that its gradient can be told apart
    bigger = architectures.build(dataclasses.replace(
        record('bahdanau', share_embeddings=False, tie_output=False), target_vocab_size=39))
    mixed = dict(params, source_embedding=params['embedding'], target_embedding=words,
                 output_projection=params['embedding'][:1] * jnp.ones((39, 1)))
    return bigger.decode(mixed, bigger.encode(mixed, source), own)[0, 6].sum()

  reach = np.abs(jax.jit(jax.grad(logit))(params['embedding'][target.ids.reshape(-1)])).sum(-1).reshape(3, 13)
  assert (reach[0, 4:7] > 1e-6).all()  # the third word of the second sentence has seen its own three words
  reach[0, 4:7] = 0
  assert (reach == 0).all()


@pytest.mark.parametrize('kind', ['sutskever', 'bahdanau', 'luong_dot'])
def test_beam_search_finds_what_it_says_it_found(kind):
  model, params = made(kind)
  sources = sentences([5, 3], 2)

  @jax.jit
  def find(params, source):
    cache = model.init_cache(params, model.encode(params, source), 6, 3)
    step = lambda cache, last: model.decode_step(params, cache, last)
    return search.search(search.SearchProblem(step, 6, BOS, EOS, FILLER), search.Sentences(cache, jnp.array([6, 5])),
                         SearchConfig(beam_size=3))

  found = jax.tree.map(np.asarray, find(params, tokens.pad(sources, 2, 7, FILLER)))
  assert len({tuple(row) for row in found.tokens[0]}) == 3
  for row in range(2):
    for beam in range(3):
      ids = found.tokens[row, beam, :found.lengths[row, beam]]
      logits, _ = expected(kind, sources[row], [BOS, *ids[:-1]])
      log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
      np.testing.assert_allclose(found.log_probs[row, beam], log_probs[range(len(ids)), ids].sum(), atol=1e-4)


def test_sentences_start_where_their_reader_comes_from():
  segments = np.array([[1, 1, 2, 2, 0], [1, 2, 3, 3, 3]])
  np.testing.assert_array_equal(segment_starts(segments, False), np.array([[1, 0, 1, 0, 1], [1, 1, 1, 0, 0]], bool))
  np.testing.assert_array_equal(segment_starts(segments, True), np.array([[0, 1, 0, 1, 1], [1, 1, 0, 0, 1]], bool))


def test_dropout_acts_only_with_a_key():
  model, params = made('general')
  source = pack(SOURCES, 11)
  encode = jax.jit(lambda params, key=None: model.encode(params, source, key).values)
  np.testing.assert_array_equal(encode(params, jax.random.key(1)), encode(params, jax.random.key(1)))
  assert np.abs(encode(params, jax.random.key(1)) - encode(params, jax.random.key(2))).max() > 0.01
  assert np.abs(encode(params, jax.random.key(1)) - encode(params)).max() > 0.01


def test_each_step_of_the_decoder_draws_dropout_of_its_own_between_the_layers():
  config = record('sutskever', cell='gru', tie_output=False, share_embeddings=False)
  model = architectures.build(config)
  params = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape), jax.eval_shape(model.init, jax.random.key(0)))
  forgetful = jnp.array([[0.0], [-30.0], [1.0]]) * jnp.ones((1, D))  # the second gate keeps nothing
  params['decoder_layers_0']['bias'] = params['decoder_layers_1']['bias'] = forgetful
  params['decoder_layers_1']['w_input'] = jax.random.normal(jax.random.key(1), (D, 3, D)) * jnp.array([[[0], [0], [1]]])
  params['output_projection'] = jnp.eye(V, D)  # the logits show the last layer, after its own dropout
  target = pack([[[5] * 13]], 13)
  logits = jax.jit(lambda key: model.decode(params, model.encode(params, pack([[[5]]], 2)), target, key))(
      jax.random.key(2))
  for unit in range(D):  # without the inner dropout every step would show one number, or 0
    assert len(np.unique(np.round(logits[0, :, unit], 4))) > 3


def test_first_values():
  layer = Recurrence(record('general'), 2 * D)
  start = lambda key: layer.init(key, jnp.zeros((1, 2, 2 * D)), jnp.ones((1, 2), jnp.int32), False, method='read')
  fresh = nn.unbox(jax.jit(start)(jax.random.key(0)))['params']
  np.testing.assert_array_equal(fresh['bias'], np.array([0, 1, 0, 0])[:, None] * np.ones((1, D)))
  for gate in range(4):
    np.testing.assert_allclose(fresh['w_state'][:, gate].T @ fresh['w_state'][:, gate], np.eye(D), atol=1e-5)
  assert len({float(fresh['w_state'][0, gate, 0]) for gate in range(4)}) == 4
  bound = (6 / (2 * D + D)) ** 0.5  # xavier, of one gate
  assert 0.8 * bound < np.abs(fresh['w_input']).max() <= bound


def test_parameter_count_by_hand():
  count = models.count_parameters(architectures.build(record('bahdanau')))
  encoder = 2 * 3 * (D * D + D * D + D)
  decoder = 3 * (D * D + 2 * D * D + D * D + D)
  attention, deep_output, hand_over = 2 * D * D + D * D + D, 4 * D * 2 * D + 2 * D, D * D
  assert count == V * D + encoder + decoder + attention + deep_output + hand_over


def test_every_parameter_has_logical_axes():
  model, params = made('general')
  axes = jax.tree.leaves(model.axes(), is_leaf=lambda x: isinstance(x, jax.sharding.PartitionSpec))
  assert [len(a) for a in axes] == [leaf.ndim for leaf in jax.tree.leaves(params)]


def test_bfloat16_keeps_parameters_states_and_logits_in_float32():
  model = architectures.build(record('bahdanau', dtype='bfloat16'))
  _, params = made('bahdanau')
  fresh = jax.eval_shape(model.init, jax.random.key(0))
  assert {leaf.dtype for leaf in jax.tree.leaves(fresh)} == {jnp.dtype('float32')}
  memory = jax.jit(model.encode)(params, pack(SOURCES, 11))
  assert memory.values.dtype == jnp.bfloat16 and memory.states[0][0].dtype == jnp.float32
  logits = jax.jit(model.decode)(params, memory, tokens.shift_right(pack(TARGETS, 13), BOS))
  assert logits.dtype == jnp.float32
  np.testing.assert_allclose(logits[1, :5], forced('bahdanau')[0][1, :5], atol=0.3)
  cache = jax.eval_shape(lambda memory: model.init_cache(params, memory, 5, 3), memory)
  after = jax.eval_shape(model.decode_step, params, cache, jnp.zeros((3, 3), jnp.int32))[1]
  assert jax.tree.map(lambda x: (x.shape, x.dtype), after) == jax.tree.map(lambda x: (x.shape, x.dtype), cache)


def test_descriptions_name_what_differs():
  described = {architectures.describe(record(kind)) for kind in KINDS}
  assert len(described) == len(KINDS)
  assert ('1+1 GRU layers, d_model 7, source read forward, no attention, the last state at every step'
          in described)


@pytest.mark.parametrize('wrong, words', [
    (dict(cell='rnn'), 'gru, lstm'), (dict(score='cosine'), 'none, additive, dot, general'),
    (dict(context='last'), 'first, every'), (dict(d_model=0), 'positive'), (dict(dropout=1.0), 'dropout'),
    (dict(reverse_source=True), 'reads both ways already'), (dict(score='dot'), r'14 and 7.*expected general'),
    (dict(context='every'), 'attention brings a context of its own'),
    (dict(input_feeding=True), 'score is additive'), (dict(target_vocab_size=31), 'share_embeddings'),
    (dict(num_decoder_layers=3), 'num_decoder_layers is 3 and num_layers 1'),
    (dict(initializer='zeros'), 'xavier_uniform'), (dict(dtype='float16'), 'bfloat16')])
def test_choices_that_do_not_fit_are_refused(wrong, words):
  with pytest.raises(ValueError, match=words):
    RecurrentConfig(**{**dict(vocab_size=V, target_vocab_size=V, d_model=D), **wrong})


def operations(jaxpr):
  """Every operation of a program, those of its inner programs included."""
  for equation in jaxpr.eqns:
    yield equation
    for inner in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda x: hasattr(x, 'eqns') or hasattr(x, 'jaxpr')):
      if hasattr(inner, 'eqns') or hasattr(inner, 'jaxpr'):
        yield from operations(getattr(inner, 'jaxpr', inner))


@pytest.mark.parametrize('cell', ['gru', 'lstm'])
def test_initialising_factors_one_matrix_at_a_time(cell):
  """A batch of factorisations may hang for ever on two cores: see the comment in cells.py."""
  model = architectures.build(RecurrentConfig(vocab_size=V, target_vocab_size=V, d_model=D, cell=cell))
  found = [equation for equation in operations(jax.make_jaxpr(model.init)(jax.random.key(0)).jaxpr)
           if equation.primitive.name in ('qr', 'geqrf', 'householder_product')]
  assert found and all(variable.aval.ndim <= 2 for equation in found for variable in equation.invars)
