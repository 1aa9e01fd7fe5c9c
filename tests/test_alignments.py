"""Alignments out of attention, on sentences small enough to link by hand."""

import io
import types

import jax
import numpy as np
import pytest
import sentencepiece

from corpora.vocabulary import Vocabulary
from decoding import alignments
from decoding.requests import Translation
from tests.conftest import SIZES
from tests.explorer_stand_ins import small_vocabulary
from tests.test_long_lines import vocabulary_of_marian
from transformer import architectures
from transformer.config import ModelConfig, RecurrentConfig

TARGET = ['Maria', 'schläft', '.']


def test_error_rate_by_hand():
  gold = [{(0, 0), (1, 1), (2, 2)}, {(0, 0)}]
  assert alignments.error_rate(gold, gold) == 0
  assert alignments.error_rate([{(0, 1)}, {(1, 0)}], gold) == 1
  found = [{(0, 0), (2, 1)}, {(0, 0), (1, 0)}]  # two of four are right, of four in gold
  assert alignments.error_rate(found, gold) == pytest.approx(1 - 2 * 2 / (4 + 4))
  with pytest.raises(ValueError, match='needs links'):
    alignments.error_rate([set()], [set()])
  with pytest.raises(ValueError):
    alignments.error_rate(gold, gold[:1])


@pytest.mark.parametrize('pieces, expected', [
    (['▁Maria', '▁schläft', '.'], [0, 1, 2]), (['▁Ma', 'ri', 'a', '▁', 'schl', 'äft.'], [0, 0, 0, 1, 1, 1]),
    (['▁Maria', '▁schl', '<0xC3>', '<0xA4>', 'ft', '.'], [0, 1, 1, 1, 1, 2])])
def test_a_piece_belongs_to_the_word_that_it_begins_in(pieces, expected):
  np.testing.assert_array_equal(alignments.words_of_pieces(pieces, TARGET), expected)


@pytest.mark.parametrize('pieces, text, expected', [
    (['▁Il', '▁a', '▁10\xa0', '000', '▁euros', '▁.'], 'Il a 10\xa0000 euros .', [0, 1, 2, 3, 4, 5]),
    (['▁10', '<0xC2>', '<0xA0>', '0', '00', '▁.'], '10\xa0000 .', [0, 1, 1, 1, 1, 2]),  # a space in bytes is no letter
    (['▁a', '▁b', '▁c', '▁d'], 'a\tb\u3000c\u2009d', [0, 1, 2, 3]),  # a vocabulary may spell every space alike
    (['▁a', '<0x09>', 'b', '\u3000', 'c'], 'a\tb\u3000c', [0, 1, 1, 2, 2]), (['▁', '▁a', '▁', '▁'], '  a  ', [0, 0, 0, 0]),
    (['▁a', '▁', 'b'], 'a▁b', [0, 1, 1]),
    (['▁a', '<0xE3>', '<0x80>', '▁b'], 'a�� b', [0, 0, 0, 1])])  # bytes of no character
def test_pieces_and_words_agree_on_what_a_space_is(pieces, text, expected):
  np.testing.assert_array_equal(alignments.words_of_pieces(pieces, alignments.words_of(text)), expected)


def vocabulary_of(**options):
  model = io.BytesIO()
  sentencepiece.SentencePieceTrainer.train(
      sentence_iterator=iter(['the dog waits', 'a dog'] * 9), model_writer=model, hard_vocab_limit=False,
      minloglevel=2, vocab_size=280 if options.get('byte_fallback') else 20, **options)
  return Vocabulary(model.getvalue(), 'small')


@pytest.mark.parametrize('make', [
    small_vocabulary, lambda: vocabulary_of(normalization_rule_name='identity'),
    lambda: vocabulary_of(normalization_rule_name='nmt_nfkc'),
    lambda: vocabulary_of(model_type='word'), lambda: vocabulary_of(model_type='char', remove_extra_whitespaces=False)])
def test_unknown_and_normalised_pieces_move_no_word_behind_them(make):
  vocabulary = make()
  for text in ('the 犬 犬 a dog', 'the waits… the ﬁ dog dog', '  a ½  dog the▁dog ', 'a\xa0dog the\u3000a dog'):
    ids, words = vocabulary.encode(text), alignments.words_of(text)
    typed = alignments.surfaces_of_text(vocabulary, text)
    assert len(typed) == len(ids)
    found = alignments.words_of_pieces(typed, words)
    for place, word in enumerate(words):  # each whole word that the vocabulary knows is where it stands
      own = ''.join(np.array(vocabulary.pieces(ids))[found == place]).replace('▁', '')
      assert own.endswith(word) or word not in ('the', 'dog', 'a')
    written = vocabulary.decode(ids)
    assert ''.join(alignments.surfaces_of_ids(vocabulary, ids)) == written
    found = alignments.words_of_pieces(alignments.surfaces_of_ids(vocabulary, ids), alignments.words_of(written))
    known = [(place, word) for place, word in enumerate(alignments.words_of(written)) if word in ('the', 'dog', 'a')]
    for place, word in known:
      assert ''.join(np.array(vocabulary.pieces(ids))[found == place]).replace('▁', '').endswith(word)


def test_pieces_that_stand_for_nothing_are_of_the_word_before_or_behind_them():
  assert alignments.words_of_pieces(['a', '', ' b', '', ''], ['a', 'b']).tolist() == [0, 1, 1, 1, 1]
  assert alignments.words_of_pieces(['', ''], []).tolist() == [0, 0]
  vocabulary, draw = vocabulary_of(byte_fallback=True, normalization_rule_name='identity'), np.random.default_rng(0)
  for _ in range(300):  # as a model writes that has hardly begun to learn: bytes of no character, at the end as well
    ids = draw.integers(3, vocabulary.size, draw.integers(1, 9)).tolist()
    words = alignments.words_of(vocabulary.decode(ids))
    found = alignments.words_of_pieces(alignments.surfaces_of_ids(vocabulary, ids), words)
    assert len(found) == len(ids) and (np.diff(found) >= 0).all() and found.max() <= max(len(words) - 1, 0)


def test_tags_and_unknown_pieces_of_marian_have_their_places():
  vocabulary = vocabulary_of_marian()
  for text in ('>>de<< the 犬 dog', 'the 犬 dog', '>>fr<<the'):
    assert len(alignments.surfaces_of_text(vocabulary, text)) == len(vocabulary.encode(text))
  ids = vocabulary.encode('>>de<< the 犬 dog')
  assert ''.join(alignments.surfaces_of_text(vocabulary, '>>de<< the 犬 dog')).split() == ['>>de<<the', '犬', 'dog']
  assert ''.join(alignments.surfaces_of_ids(vocabulary, ids)) == vocabulary.decode(ids)


def test_links_behind_an_unknown_word_are_of_the_right_words():
  """A stand-in whose target pieces each attend to the source piece of the same place."""
  vocabulary = vocabulary_of(model_type='word')
  text = 'the 犬 犬 a a dog'
  ids = tuple(vocabulary.encode('the dog a a dog'))
  diagonal = lambda source, target: jax.numpy.broadcast_to(
      jax.numpy.eye(target.ids.shape[1], source.ids.shape[1]), (len(source.ids), 1, target.ids.shape[1], source.ids.shape[1]))
  model = types.SimpleNamespace(inspect=lambda params, source, target: (None, {'cross': [diagonal(source, target)]}), longest=None)
  one = types.SimpleNamespace(parts=(model, vocabulary, vocabulary), params=[None], longest_source=99)
  found = Translation(vocabulary.decode(ids), ids=ids)
  (links, _), = alignments.of_translations(one, [text], [found], 'plain')
  assert links == {(0, 0), (1, 1), (3, 2), (4, 3), (5, 4)}  # the second and the third word are one unknown piece


def test_a_words_pieces_add_up():
  #                    Ma   ria  sleeps .
  weights = np.array([[0.3, 0.3, 0.4, 0.0],  # Maria
                      [0.0, 0.0, 0.4, 0.6],  # schl
                      [0.0, 0.1, 0.9, 0.0],  # äft
                      [0.5, 0.0, 0.1, 0.4]])  # .
  assert alignments.word_links(weights, [0, 0, 1, 2], [0, 1, 1, 2]) == {(0, 0), (1, 1), (0, 2)}


def test_the_diagonal_follows_the_lengths():
  assert alignments.diagonal_links(3, 3) == {(0, 0), (1, 1), (2, 2)}
  assert alignments.diagonal_links(2, 4) == {(0, 0), (0, 1), (1, 2), (1, 3)}
  assert alignments.diagonal_links(4, 2) == {(0, 0), (2, 1)}


def test_a_word_may_contain_a_space():
  assert alignments.words_of_pieces(['▁10', '▁000', '▁euros'], ['10 000', 'euros']).tolist() == [0, 0, 1]  # as in CoNLL-U


class Letters:
  """A vocabulary of letters."""

  bos_id, eos_id, pad_id = 2, 3, 0

  def encode_batch(self, texts):
    return [[ord(letter) - 90 for letter in text] for text in texts]


@pytest.mark.parametrize('config, layers, heads', [
    (ModelConfig(**{**SIZES, 'vocab_size': 37, 'target_vocab_size': 37}), 2, 2),
    (RecurrentConfig(37, 37, 7), 1, 1), (RecurrentConfig(37, 37, 7, score='none'), 0, 0)])
def test_attention_is_cut_to_its_sentences(config, layers, heads):
  model = architectures.build(config)
  translator = types.SimpleNamespace(parts=(model, Letters(), Letters()), params=[jax.jit(model.init)(jax.random.key(0))])
  pairs = [('abc', 'hallo'), ('defgh', 'du'), ('i', 'j')]
  seen = list(alignments.attention(translator, pairs))
  assert [[layer.shape for layer in each] for each in seen] == [
      [(heads, len(target), len(source))] * layers for source, target in pairs]
  for each in seen:
    for layer in each:
      assert (layer > 0).all() and (layer.sum(-1) < 1).all()  # the end of the sentence has a share, too


def test_a_long_line_pads_no_other_and_one_layer_is_fetched(monkeypatch):
  """A stand-in of six layers, whose attention only tells the shapes that it was asked for."""
  traced, fetched = [], []

  def inspect(params, source, target):
    traced.append(source.ids.shape)
    shape = len(source.ids), 2, target.ids.shape[1], source.ids.shape[1]
    return None, {'cross': [jax.numpy.full(shape, layer, 'float32') for layer in range(6)]}

  vocabulary = types.SimpleNamespace(bos_id=2, eos_id=3, pad_id=0, pieces=lambda ids: ['▁a'] * len(ids),
                                     encode_batch=lambda texts: [[7] * len(text.split()) for text in texts])
  translator = types.SimpleNamespace(parts=(types.SimpleNamespace(inspect=inspect, longest=700), vocabulary, vocabulary),
                                     params=[None], longest_source=1024)
  get = jax.device_get
  size_of = lambda tree: sum(leaf.size for leaf in jax.tree.leaves(tree))
  monkeypatch.setattr(jax, 'device_get', lambda tree: fetched.append(size_of(tree)) or get(tree))
  sizes = [3, 699, 5, 40, 2] * 20
  found = [Translation(' '.join('a' * size), ids=(7,) * size) for size in sizes]
  aligned = alignments.of_translations(translator, [one.text for one in found], found, 'shift')
  assert [weights.shape for _, weights in aligned] == [(size, size) for size in sizes]  # in the order of the lines
  assert all((weights == 2).all() and weights.base.size == weights.size for _, weights in aligned)  # layer three, no padding
  assert traced == [(1, 700), (50, 48), (50, 16)]  # each compiled once; none longer than the model has positions for
  assert fetched == [700 ** 2] * 20 + [50 * 48 ** 2] + [50 * 16 ** 2] * 2
