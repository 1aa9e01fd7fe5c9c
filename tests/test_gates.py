"""Closed heads: what a gate changes, and what it must not."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from decoding.translator import Translator
from explorer import capture, gates, head_ablation, logit_lens, reports
from explorer.capture import TokenPair
from explorer.gates import Head
from tests.conftest import BOS, SIZES, rows
from tests.explorer_stand_ins import LINES, shaken, small_translator, small_vocabulary
from transformer import architectures, tokens
from transformer.config import LanguageModelConfig, ModelConfig, RecurrentConfig
from transformer.search import SearchConfig
from transformer.tokens import Tokens


@functools.cache
def compiled(model):
  return (jax.jit(model.encode),
          jax.jit(lambda params, source, target: model.decode(params, model.encode(params, source), target)))


def encode(model, params, source):
  return compiled(model)[0](params, source).values


def forward(model, params):
  target = tokens.shift_right(rows([6, 4], 6, seed=1), BOS)
  return compiled(model)[1](params, rows([5, 3], 7), target)


def test_every_head_has_a_gate(model, params):
  opened = gates.open_gates(params)
  assert {kind: gate.shape for kind, gate in opened.items()} == dict.fromkeys(('encoder', 'decoder', 'cross'), (2, 2))
  assert len(gates.heads(opened)) == 12 and gates.heads(opened)[5] == Head('decoder', 0, 1)
  gates.check(params, opened)
  with pytest.raises(ValueError, match='open_gates'):
    gates.check(params, {'encoder': np.ones((2, 3))})


def test_closing_no_head_changes_nothing(model, params):
  np.testing.assert_array_equal(forward(model, params), forward(model, gates.apply(params, gates.open_gates(params))))


def test_a_gate_multiplies_its_heads_output(model, params):
  opened = gates.open_gates(params)
  source = rows([5, 5], 5)
  outputs = lambda *closed: encode(model, gates.apply(params, gates.closing(opened, *closed)), source)
  assert np.abs(outputs(Head('encoder', 0, 0)) - outputs()).max() > 1e-3
  # Without a head, what it computes its weights and values from says nothing.
  closed = gates.closing(opened, Head('encoder', 1, 0))
  before = encode(model, gates.apply(params, closed), source)
  attention = params['encoder_layers_1']['self_attention']
  moved = {name: attention[name].at[:, 0].add(1.0) for name in ('w_query', 'w_key', 'w_value')}
  other = params | {'encoder_layers_1': params['encoder_layers_1'] | {'self_attention': attention | moved}}
  np.testing.assert_array_equal(before, encode(model, gates.apply(other, closed), source))
  assert np.abs(encode(model, other, source) - encode(model, params, source)).max() > 1e-3


def test_closing_all_heads_leaves_the_residual_path(model, params):
  """With every head of the encoder closed, a token's memory is a function of that token alone, and not a constant."""
  opened = gates.open_gates(params)
  silent = gates.apply(params, gates.closing(opened, *(h for h in gates.heads(opened) if h.kind == 'encoder')))
  source = rows([5, 5], 5)
  other = source._replace(ids=np.where(np.arange(5)[None] == 2, 17, source.ids))
  before, after = encode(model, silent, source), encode(model, silent, other)
  kept = np.arange(5) != 2
  np.testing.assert_array_equal(before[:, kept], after[:, kept])
  assert np.abs(before[:, 2] - after[:, 2]).max() > 1e-3


def test_gates_of_a_scanned_stack_are_the_same():
  plain, scanned = (architectures.build(ModelConfig(**SIZES, norm='pre', scan_layers=scan)) for scan in (False, True))
  params = shaken(jax.jit(scanned.init)(jax.random.key(0)))
  written_out = dict(params)
  for stack in ('encoder_layers', 'decoder_layers'):
    layers = written_out.pop(stack)
    written_out |= {f'{stack}_{n}': jax.tree.map(lambda leaf, n=n: leaf[n], layers) for n in range(2)}
  closed = gates.closing(gates.open_gates(params), Head('encoder', 1, 0), Head('cross', 0, 1))
  gates.check(written_out, closed)
  in_stack, one_by_one = gates.apply(params, closed), gates.apply(written_out, closed)
  np.testing.assert_allclose(encode(scanned, in_stack, rows([5, 3], 7)), encode(plain, one_by_one, rows([5, 3], 7)),
                             atol=1e-5)
  np.testing.assert_array_equal(in_stack['decoder_layers']['cross_attention']['w_out'][0],
                                one_by_one['decoder_layers_0']['cross_attention']['w_out'])


def test_a_language_models_heads_are_its_decoders():
  model = architectures.build(LanguageModelConfig(**{**SIZES, 'num_layers': 3}))
  params = shaken(jax.jit(model.init)(jax.random.key(0)))
  opened = gates.open_gates(params)
  assert {kind: gate.shape for kind, gate in opened.items()} == {'decoder': (3, 2)}
  silent = gates.apply(params, gates.closing(opened, *gates.heads(opened)))
  nothing = Tokens(*(np.zeros((1, 0), np.int32) for _ in range(3)))
  decode = jax.jit(model.decode)
  last = lambda params, ids: decode(params, nothing, rows([4], 4)._replace(ids=np.array([ids], np.int32)))[0, -1]
  np.testing.assert_array_equal(last(silent, [5, 6, 7, 8]), last(silent, [9, 4, 5, 8]))  # no head, no past
  assert np.abs(last(params, [5, 6, 7, 8]) - last(params, [9, 4, 5, 8])).max() > 1e-3


def test_a_recurrent_model_has_no_heads_to_close():
  model = architectures.build(RecurrentConfig(29, 29, 7))
  assert gates.open_gates(jax.eval_shape(model.init, jax.random.key(0))) == {}


def test_a_line_and_its_reference_share_what_is_drawn_without_a_head(monkeypatch):
  parts, params = small_translator(num_layers=1).parts, small_translator(num_layers=1).params
  drawing = Translator([parts[0]], params, *parts[1:], SearchConfig(strategy='sample', extra_length=3),
                       batch_tokens=8)
  asked, translate = [], drawing.translate
  monkeypatch.setattr(drawing, 'translate', lambda lines: asked.append([each.source for each in lines]) or translate(lines))
  sentences = reports.explain(drawing, LINES[:2], LINES[1:3]).sentences
  assert [one.source for one in sentences] == LINES[:2] * 2 and asked == [LINES[:2]] * 7  # all open, then 6 heads
  texts = [{head: effect.text for head, effect in one.effects.items()} for one in sentences]
  assert texts[:2] == texts[2:] and texts[0] != texts[1] and all(len(of) == 6 for of in texts)
  changes = [[effect.change for effect in one.effects.values()] for one in sentences]
  assert changes[0] != changes[2]  # each of its own text


def test_effects_are_forced_scores_with_the_gate_closed():
  translator = small_translator()
  model, vocabulary, _ = translator.parts
  whole = translator.params[0]
  found = translator.translate(LINES[:2])
  readings = [TokenPair(ids, [*each.ids, vocabulary.eos_id]) for ids, each in zip(translator.encode(LINES[:2]), found)]
  before, measured = head_ablation.measure(translator, LINES[:2], readings)
  jax.tree.map(np.testing.assert_array_equal, translator.params[0], whole)
  np.testing.assert_allclose(before, [each.log_prob for each in found], atol=1e-4)
  head = Head('cross', 1, 0)
  for reading, line, effect in zip(readings, LINES, measured):
    attention = whole['decoder_layers_1']['cross_attention']
    without = whole | {'decoder_layers_1': whole['decoder_layers_1'] | {'cross_attention': attention | {
        'w_out': attention['w_out'].at[0].set(0.0)}}}
    seen = [capture.record(model, params, [reading], vocabulary, vocabulary)[0].log_probs.sum()
            for params in (whole, without)]
    np.testing.assert_allclose(effect[head].change, seen[1] - seen[0], atol=1e-5)
    translator.params = [without]
    assert effect[head].text == translator.translate([line])[0].text
    translator.params = [whole]
  assert {h for effect in measured for h in effect} == set(gates.heads(gates.open_gates(whole)))


def test_the_lens_after_the_last_layer_is_the_model():
  translator = small_translator(positions='relative', norm='pre')  # tables of all layers in one parameter
  model, vocabulary, _ = translator.parts
  ids = [*small_vocabulary().encode(LINES[0]), vocabulary.eos_id]
  source, target = tokens.pad([ids], 1, len(ids), 0), tokens.pad([ids[2:]], 1, len(ids), 0)
  said, shares = logit_lens.predictions(model, translator.params[0], source, target, vocabulary.bos_id)
  assert said.shape == shares.shape == (1, 2, len(ids))
  logits = compiled(model)[1](translator.params[0], source, tokens.shift_right(target, vocabulary.bos_id))
  np.testing.assert_array_equal(said[:, 1], logits.argmax(-1))
  np.testing.assert_allclose(shares[:, 1], jax.nn.softmax(logits).max(-1), rtol=1e-4)
  assert (np.asarray(jnp.abs(shares[:, 0] - shares[:, 1])) > 1e-6).any()  # the first layer has an opinion of its own
