"""Captures of a sentence: right labels, words as sums and means of pieces, weights that follow from the operands."""

import dataclasses
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from explorer import capture, first_view, snapshots, texts
from explorer.capture import Capture, TokenPair
from explorer.texts import Text
from tests.explorer_stand_ins import LINES, constructed, small_translator, small_vocabulary
from transformer import attention, tokens


@pytest.fixture(scope='module')
def readings():
  vocabulary = small_vocabulary()
  ids = [[*vocabulary.encode(line), vocabulary.eos_id] for line in LINES]
  return [TokenPair(ids[0], ids[1]), TokenPair(ids[2], ids[0])]


@pytest.fixture(scope='module')
def captures(readings):
  model, source, target = small_translator().parts
  return capture.record(model, small_translator().params[0], readings, source, target, with_operands=True)


# --------------------------------------------------------------------------------------------------- pieces and words


@pytest.mark.parametrize('pieces, begins', [
    (['▁the', '▁dog', 's'], [1, 1, 0]), (['▁', 'dog', 's'], [1, 0, 0]), (['▁did', 'n', "'", 't', '.'], [1, 0, 0, 0, 1]),
    (['▁well', '-', 'known', ',', '▁"', 'yes', '"'], [1, 0, 0, 1, 1, 1, 1]), (['▁我', '爱', '狗'], [1, 1, 1]),
    (['▁של', 'ום'], [1, 0]), (['▁カ', 'タ'], [1, 1]), (['▁'], [1]),
    # Combining marks: Hindi's vowel signs, an accent of its own, and a Thai vowel, on a letter that is a word.
    (['▁ह', 'ि', 'न', '्', 'दी'], [1, 0, 0, 0, 0]), (['▁e', '\u0301', 't'], [1, 0, 0]), (['▁ก', '\u0e34', 'น'], [1, 0, 1])])
def test_where_words_begin(pieces, begins):
  found = [texts.begins_word(before, piece) for before, piece in zip(['', *pieces], pieces)]
  assert found == [bool(mark) for mark in begins]


def test_words_of_a_text_are_its_words():
  vocabulary = small_vocabulary()
  ids = [vocabulary.bos_id, *vocabulary.encode('the dogs, tired! 爱ñu'), vocabulary.eos_id]
  text = texts.describe(ids, vocabulary)
  assert text.words == ('⟨bos⟩', 'the', 'dogs', ',', 'tired', '!', '爱', 'ñu', '⟨eos⟩')
  assert text.special_words == (True, *[False] * 7, True)


def test_a_line_end_is_shown_as_such():
  vocabulary = small_vocabulary()
  text = texts.describe(vocabulary.encode('a\nb'), vocabulary)
  assert '\\n' in text.words and '▁' not in text.words


def test_no_two_tokens_outside_a_text_have_one_name():
  vocabulary = small_vocabulary()
  words = types.SimpleNamespace(bos_id=1, eos_id=2, pieces=lambda ids: ['▁', ',', '▁,', '▁a', 'a', '5', '▁5', '今', '▁今'])
  assert texts.labels(range(3, 12), words) == ['▁', ',', '▁,', 'a', '·a', '·5', '5', '今', '▁今']
  names = texts.labels(range(vocabulary.size), vocabulary)
  assert len(set(names)) == vocabulary.size


def test_a_text_that_spells_a_special_token_is_none():
  vocabulary = small_vocabulary()
  text = texts.describe(vocabulary.encode('</s> ⟨eos⟩'), vocabulary)
  assert not any(text.special)


@pytest.mark.parametrize('words, of', [(('a',), (0, 1)), (('a', 'b'), (0, 0)), (('a', 'b'), (1, 0)), (('a',), (0,))])
def test_words_that_do_not_fit_their_pieces_are_refused(words, of):
  with pytest.raises(ValueError, match='expected'):
    Text(('x', 'y'), words, of, (False, False))


def test_pooling_sums_over_keys_and_averages_over_queries():
  draw = np.random.default_rng(0)
  weights = draw.dirichlet(np.ones(7), size=(2, 3, 5))  # [N, H, Q, M]
  queries, keys = [0, 0, 1, 2, 2], [0, 1, 1, 1, 2, 3, 3]
  pooled = texts.pool(weights, queries, keys)
  for n, h, i, j in np.ndindex(2, 3, 3, 4):
    rows = [q for q in range(5) if queries[q] == i]
    expected = np.mean([sum(weights[n, h, q, m] for m in range(7) if keys[m] == j) for q in rows])
    np.testing.assert_allclose(pooled[n, h, i, j], expected, rtol=1e-12)
  np.testing.assert_allclose(pooled.sum(-1), 1.0, rtol=1e-12)


# --------------------------------------------------------------------------------------------------------- captures


def test_rows_read_one_token_and_predict_the_next(captures, readings):
  seen, vocabulary = captures[0], small_vocabulary()
  assert seen.reads.pieces[0] == '⟨bos⟩' and seen.predicts.pieces[-1] == '⟨eos⟩'
  assert seen.reads.pieces[1:] == seen.predicts.pieces[:-1]
  assert seen.written == tuple(texts.labels(readings[0].target, vocabulary))
  assert seen.axes('decoder') == (seen.predicts, seen.reads) and seen.axes('cross') == (seen.predicts, seen.source)


def test_padding_is_cut_off_and_changes_nothing(captures, readings):
  model, source, target = small_translator().parts
  seen, reading = captures[1], readings[1]
  alone, = capture.record(model, small_translator().params[0], [reading], source, target)
  assert seen.padded[0] > alone.padded[0] >= len(reading.source) and seen.padded[0] % 8 == 0
  for kind, (queries, keys) in seen.sizes.items():
    assert seen.weights[kind].shape == (2, 2, queries, keys)
    np.testing.assert_allclose(seen.weights[kind], alone.weights[kind], atol=1e-5)
  np.testing.assert_allclose(seen.log_probs, alone.log_probs, atol=1e-4)


def test_texts_as_long_as_learned_positions_reach_are_not_padded_beyond_them(readings):
  longest = max(len(side) for pair in readings for side in pair[:2])
  assert longest % 8, 'otherwise padding would end where the text does'
  wide, short = (small_translator(positions='learned', max_positions=reach) for reach in (3 * longest, longest))
  same = jax.tree.map(lambda leaf, own: leaf[:len(own)], wide.params[0], short.params[0])
  model, *vocabularies = short.parts
  snapshots.Recorder('unused', model, readings, *vocabularies, every=1)
  for found, expected in zip(capture.record(model, same, readings, *vocabularies),
                             capture.record(wide.parts[0], wide.params[0], readings, *vocabularies)):
    for kind, weights in expected.weights.items():
      np.testing.assert_allclose(found.weights[kind], weights, rtol=0, atol=2e-6)


def test_next_tokens_are_the_models_own(captures, readings):
  model, _, vocabulary = small_translator().parts
  source, target = (tokens.pad([ids], 1, len(ids), 0) for ids in readings[0][:2])
  params = small_translator().params[0]
  decode = jax.jit(lambda s, t: model.decode(params, model.encode(params, s), tokens.shift_right(t, vocabulary.bos_id)))
  logits = decode(source, target)[0]
  shares = np.asarray(jax.nn.softmax(logits), np.float64)
  np.testing.assert_allclose(captures[0].log_probs, np.log([row[i] for row, i in zip(shares, readings[0].target)]),
                             atol=1e-4)
  for row, step in zip(shares, captures[0].top):
    order = np.argsort(-row, kind='stable')[:capture.TOP]
    np.testing.assert_allclose([share for _, share in step], row[order], rtol=1e-3)
    assert step[0][0] == texts.labels([int(order[0])], vocabulary)[0]


@pytest.mark.parametrize('changes', [
    {'num_layers': 1, 'num_kv_heads': 1}, {'num_layers': 1, 'positions': 'rotary', 'd_k': 6}])
def test_weights_follow_from_operands_and_operands_from_inputs(changes, captures, readings):
  translator = small_translator(**changes)
  model, source, target = translator.parts
  seen, = capture.record(model, translator.params[0], readings[:1], source, target, with_operands=True)
  for kind, (query, key, value) in seen.operands.items():
    assert value.shape[:3] == key.shape[:3]
    scores = np.einsum('nhqk,nhmk->nhqm', query, key) / np.sqrt(query.shape[-1])
    if kind == 'decoder':
      scores = np.where(np.tri(scores.shape[-1], dtype=bool), scores, -np.inf)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    np.testing.assert_allclose(powers / powers.sum(-1, keepdims=True), seen.weights[kind], atol=1e-5)
    x, y, w_query, w_key = seen.projections[kind]
    if 'positions' in changes and kind != 'cross':  # a rotation keeps lengths
      query, key = (np.linalg.norm(each, axis=-1) for each in (query, key))
    for vectors, matrix, found in ((x, w_query, query), (y, w_key, key)):
      projected = np.einsum('ntd,ndhk->nhtk', vectors, matrix)
      projected = np.repeat(projected, found.shape[1] // projected.shape[1], axis=1)  # heads that share keys
      projected = projected if found.ndim == 4 else np.linalg.norm(projected, axis=-1)
      np.testing.assert_allclose(projected, found, atol=1e-5)


def test_impossible_captures_are_refused(captures):
  seen = captures[0]
  fields = {name: getattr(seen, name) for name in seen.__dataclass_fields__}
  wrong = {kind: weights.copy() for kind, weights in seen.weights.items()}
  wrong['cross'][0, 0, 0] *= 1.001
  with pytest.raises(ValueError, match='row of cross-attention sums'):
    Capture(**fields | {'weights': wrong})
  with pytest.raises(ValueError, match='shape'):
    Capture(**fields | {'weights': {'encoder': seen.weights['cross']}})
  broken = {kind: np.full_like(weights, np.nan) for kind, weights in seen.weights.items()}
  with pytest.raises(ValueError, match='are no numbers, as those of a model whose training diverged'):
    Capture(**fields | {'weights': broken})
  future = seen.weights['decoder'].copy()
  future[:, :, 0, :2] = 0.5
  with pytest.raises(ValueError, match='not read'):
    Capture(**fields | {'weights': {'decoder': future}})


def test_recording_costs_nothing_where_nobody_asks(monkeypatch):
  """Teacher forcing and decoding compile to the same programs as if heads had no witness at all."""
  translator = small_translator()
  model, params = translator.parts[0], translator.params[0]
  source = tokens.pad([[5, 3]], 1, 4, 0)

  def programs():
    memory = jax.eval_shape(model.encode, params, source)
    cache = jax.eval_shape(lambda p, m: model.init_cache(p, m, 5), params, memory)
    lower = lambda function, *inputs: jax.jit(lambda *given: function(*given)).lower(*inputs).as_text()
    gradient = jax.grad(lambda p, s: model.decode(p, model.encode(p, s), s).sum())
    return [lower(gradient, params, source), lower(model.decode_step, params, cache, jnp.zeros((1, 1), jnp.int32)),
            lower(lambda p, s: model.decode(p, model.encode(p, s), s), params, source)]

  with_witness = programs()
  monkeypatch.setattr(attention.MultiHeadAttention, 'sow', lambda *_: None)
  assert programs() == with_witness
  with pytest.raises(KeyError):  # and it was the witness that was taken away
    model.inspect(params, source, source)


# ------------------------------------------------------------------------------------------------------- first view


WORDS = ['the', 'animal', 'did', 'cross', 'street', 'because', 'it', 'was', 'tired']


@pytest.mark.parametrize('links, expected', [
    ({'encoder': [(0, 1, 1, 4, 0.9), (2, 1, 6, 1, 0.6), (1, 0, 6, 8, 0.5)]}, ('encoder', 2, 1, 6, 1)),  # "it" first
    ({'encoder': [(0, 1, 6, 5, 0.9), (2, 1, 6, 8, 0.3)]}, ('encoder', 2, 1, 6, 8)),  # neighbours do not count
    ({'cross': [(1, 1, 4, 4, 0.8), (0, 0, 2, 2, 0.9)]}, ('cross', 1, 1, 4, 4))])  # nor short words
def test_a_report_first_shows_the_largest_weight_that_counts(links, expected):
  chosen = first_view.choose([constructed(WORDS, **links)])
  assert chosen[1:6] == expected


@pytest.mark.parametrize('links, other_links, expected', [
    # "it" looks at the animal, and in the other sentence at the street; a larger weight that stays is no contrast.
    ({'encoder': [(0, 1, 6, 1, 0.8), (2, 1, 6, 4, 0.9)]}, {'encoder': [(0, 1, 6, 4, 0.7), (2, 1, 6, 4, 0.9)]},
     (0, 'encoder', 0, 1, 6, 1)),
    # Words that differ count, pronouns before them, in cross-attention only where the translations differ.
    ({'cross': [(1, 0, 8, 1, 0.8)]}, {'cross': [(1, 0, 8, 4, 0.7)]}, (0, 'cross', 1, 0, 8, 1)),
    ({'encoder': [(1, 1, 6, 1, 0.6)], 'cross': [(1, 0, 8, 1, 0.8)]},
     {'encoder': [(1, 1, 6, 4, 0.6)], 'cross': [(1, 0, 8, 4, 0.7)]}, (0, 'encoder', 1, 1, 6, 1)),
    # Nothing moves clearly: the largest weight.
    ({'encoder': [(1, 1, 6, 1, 0.5)], 'cross': [(2, 0, 1, 4, 0.8)]},
     {'encoder': [(1, 1, 6, 1, 0.6)], 'cross': [(2, 0, 1, 8, 0.9)]}, (1, 'encoder', 1, 1, 6, 1))])
def test_a_report_of_two_alike_sentences_opens_with_what_differs(links, other_links, expected):
  other = [*WORDS[:-1], 'wide']
  chosen = first_view.choose([constructed(WORDS, **links), constructed(other, **other_links)])
  assert chosen[:6] == expected and chosen.beside == 1 - chosen.sentence


def test_sentences_with_little_in_common_are_not_contrasted():
  other = 'she reads books while it rains on mondays again'.split()
  chosen = first_view.choose([constructed(WORDS, cross=[(0, 1, 8, 1, 0.8)]), constructed(other, cross=[(0, 1, 8, 2, 0.9)])])
  assert chosen[:6] == (1, 'cross', 0, 1, 8, 2)


def test_a_sentence_of_one_word_has_a_first_view():
  chosen = first_view.choose([constructed(['a'], encoder=[], cross=[])])
  assert chosen == first_view.FirstView(0, 'encoder', 0, 0, 0, 0, 1.0)


def test_even_attention_is_that_of_all_tokens_that_a_head_may_see(captures):
  for seen in captures:
    alike = {kind: (weights > 0) / (weights > 0).sum(-1, keepdims=True) for kind, weights in seen.weights.items()}
    for kind in alike:
      found = dataclasses.replace(seen, weights=alike).by_word(kind)
      np.testing.assert_allclose(found, np.broadcast_to(seen.even(kind), found.shape), atol=1e-6)
