"""Alignments out of attention, on sentences small enough to link by hand."""

import types

import jax
import numpy as np
import pytest

from decoding import alignments
from tests.conftest import SIZES
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
