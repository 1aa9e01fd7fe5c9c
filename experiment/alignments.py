"""Word alignments out of attention, and their error rate against known ones (Och & Ney, 2003)."""

import re
from collections.abc import Iterable, Iterator, Sequence

import jax
import numpy as np

from experiment.translation import Translator
from transformer import tokens

Links = set[tuple[int, int]]  # (source word, target word), counted from 0
_BYTE = re.compile('<0x[0-9A-F]{2}>')
_ROWS = 50


def error_rate(found: Iterable[Links], gold: Iterable[Links]) -> float:
  """1 - 2 |A ∩ G| / (|A| + |G|) over a corpus: Och & Ney's AER where all gold links are sure. 0 is best."""
  both = total = 0
  for some, known in zip(found, gold, strict=True):
    both += len(some & known)
    total += len(some) + len(known)
  if not total:
    raise ValueError('an error rate needs links; expected some, found or known')
  return 1.0 - 2.0 * both / total


def words_of_pieces(pieces: Sequence[str], words: Sequence[str]) -> np.ndarray:
  """The word in which each SentencePiece piece begins; `words` are all that the text has between its spaces.

  Counted in bytes, because a character outside the vocabulary is spelt as several.
  """
  ends = np.cumsum([len(word.encode()) for word in words])
  sizes = [1 if _BYTE.fullmatch(piece) else len(piece.replace('▁', '').encode()) for piece in pieces]
  return np.searchsorted(ends, np.cumsum([0, *sizes])[:-1], side='right')


def word_links(weights: np.ndarray, source_words: Sequence[int], target_words: Sequence[int]) -> Links:
  """Each target word with the source word that it looks at most.

  Args:
    weights: [target pieces, source pieces] of attention. A word's pieces add up in the source, where they share one
      look, and in the target, where they look one after the other.
    source_words, target_words: the word of each piece.
  """
  by_word = np.zeros((max(target_words) + 1, max(source_words) + 1))
  np.add.at(by_word, np.ix_(target_words, source_words), weights)
  return {(int(by_word[word].argmax()), int(word)) for word in set(target_words)}


def diagonal_links(source_words: int, target_words: int) -> Links:
  """The baseline that knows nothing but the lengths: the word at the same share of the sentence."""
  return {(place * source_words // target_words, place) for place in range(target_words)}


def attention(translator: Translator, pairs: Sequence[tuple[str, str]]) -> Iterator[list[np.ndarray]]:
  """Of each sentence pair, its cross-attention while the target is read out to the decoder, layer by layer.

  Yields:
    One array per layer, [H, target pieces, source pieces]; ends of sentences and padding are cut off.
  """
  model, source, target = translator.parts
  sides = [vocabulary.encode_batch(list(texts)) for vocabulary, texts in zip((source, target), zip(*pairs))]
  widths = [max(map(len, ids)) + 1 for ids in sides]
  inspect = jax.jit(lambda params, x, y: model.inspect(params, x, tokens.shift_right(y, target.bos_id))[1]['cross'])
  for start in range(0, len(pairs), _ROWS):
    rows = [ids[start:start + _ROWS] for ids in sides]
    laid = [tokens.pad([[*ids, vocabulary.eos_id] for ids in some], _ROWS, width, vocabulary.pad_id)
            for vocabulary, some, width in zip((source, target), rows, widths)]
    layers = jax.device_get(inspect(translator.params[0], *laid))
    for row, (source_ids, target_ids) in enumerate(zip(*rows)):
      yield [layer[row, :, :len(target_ids), :len(source_ids)] for layer in layers]
