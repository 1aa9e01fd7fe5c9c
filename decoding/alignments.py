"""Word alignments found in cross-attention, and their error rate against known ones (Och & Ney, 2003).

The attention of a target word is taken at the step that predicts it, when the decoder's input is the word before it
(method "plain"), or one step later, when it is itself the input: Shift-Att of Chen et al. (2020, §3.1), method "shift",
which is usually better.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

import jax
import numpy as np
from jaxtyping import Float, Int

from decoding.requests import Translation
from decoding.translator import Translator
from transformer import tokens
from transformer.search import coverage

Links = set[tuple[int, int]]  # (source word, target word), counted from 0
_BYTE = re.compile('<0x[0-9A-F]{2}>')
_ROWS = 50  # sentence pairs of a batch
METHODS = {'plain': 0, 'shift': 1}  # steps from the one that predicts a token to the one whose attention is taken


def error_rate(found: Iterable[Links], gold: Iterable[Links]) -> float:
  """Return 1 - 2 |A ∩ G| / (|A| + |G|) over a corpus: Och & Ney's AER where all gold links are sure. 0 is best.

  Raises:
    ValueError: when there is no link at all.
  """
  both = total = 0
  for some, known in zip(found, gold, strict=True):
    both += len(some & known)
    total += len(some) + len(known)
  if not total:
    raise ValueError('an error rate needs links; expected some, found or known')
  return 1.0 - 2.0 * both / total


def words_of_pieces(pieces: Sequence[str], words: Sequence[str]) -> Int[np.ndarray, ' pieces']:
  """Find the word in which each SentencePiece piece begins.

  It counts in bytes, because a character outside the vocabulary is spelt as several pieces.

  Args:
    pieces: of a text.
    words: of the same text, split at spaces.
  """
  ends = np.cumsum([len(word.encode()) for word in words])
  sizes = [1 if _BYTE.fullmatch(piece) else len(piece.replace('▁', '').encode()) for piece in pieces]
  return np.searchsorted(ends, np.cumsum([0, *sizes])[:-1], side='right')


def word_links(weights: Float[np.ndarray, 'T S'], source_words: Sequence[int], target_words: Sequence[int]) -> Links:
  """Link each target word with the source word that has most of its attention.

  Args:
    weights: the attention of target pieces to source pieces. The weights of a word's pieces are summed on both sides.
    source_words, target_words: the word of each piece.
  """
  by_word = np.zeros((max(target_words) + 1, max(source_words) + 1))
  np.add.at(by_word, np.ix_(target_words, source_words), weights)
  return {(int(by_word[word].argmax()), int(word)) for word in set(target_words)}


def diagonal_links(source_words: int, target_words: int) -> Links:
  """Link each target word with the source word at the same share of the sentence: a baseline that reads lengths only."""
  return {(place * source_words // target_words, place) for place in range(target_words)}


def attention(translator: Translator, pairs: Sequence[tuple[str, str]]) -> Iterator[list[Float[np.ndarray, 'H T S']]]:
  """Compute the cross-attention of each sentence pair, with the target given to the decoder (teacher forcing).

  Yields:
    For each pair one array per layer; EOS and padding are cut off on both sides.
  """
  _, source, target = translator.parts
  sides = zip(*(vocabulary.encode_batch(list(texts)) for vocabulary, texts in zip((source, target), zip(*pairs))))
  return attention_of_ids(translator, list(sides))


def attention_of_ids(translator: Translator, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], shift: int = 0
                     ) -> Iterator[list[Float[np.ndarray, 'H T S']]]:
  """Compute attention() for ids without EOS, each token's row taken `shift` steps after the one that predicts it."""
  model, source, target = translator.parts
  inspect = jax.jit(lambda params, x, y: model.inspect(params, x, tokens.shift_right(y, target.bos_id))[1]['cross'])
  widths = [-(-(max(map(len, ids)) + 1) // 8) * 8 for ids in zip(*pairs)]
  for start in range(0, len(pairs), _ROWS):
    chosen = pairs[start:start + _ROWS]
    laid = [tokens.pad([[*ids, vocabulary.eos_id] for ids in some], _ROWS, width, vocabulary.pad_id)
            for vocabulary, some, width in zip((source, target), zip(*chosen), widths)]
    layers = jax.device_get(inspect(translator.params[0], *laid))
    for row, (source_ids, target_ids) in enumerate(chosen):
      yield [layer[row, :, shift:shift + len(target_ids), :len(source_ids)] for layer in layers]


def of_translations(translator: Translator, sources: Sequence[str], found: Sequence[Translation], method: str
                    ) -> list[tuple[Links, Float[np.ndarray, 'T S']]]:
  """Align each translation with its source.

  The attention is the mean over the heads of the middle layer, the lower one of two, of the first model; Chen et al.
  (2020, Table 3) found the third of six best. A model without attention links nothing.

  Args:
    translator: the one that made the translations.
    sources, found: the lines and their translations.
    method: one of METHODS.

  Returns:
    For each translation its links, and the attention from its pieces to the source's in which they were found.
  """
  _, vocabulary, target = translator.parts
  pairs = [(ids[:translator.longest_source - 1], one.ids)
           for ids, one in zip(vocabulary.encode_batch(list(sources)), found)]
  out: list[tuple[Links, np.ndarray]] = [(set(), np.zeros((0, 0)))] * len(pairs)
  real = [i for i, pair in enumerate(pairs) if all(pair) and sources[i].strip()]
  seen = attention_of_ids(translator, [pairs[i] for i in real], METHODS[method]) if real else []
  for i, layers in zip(real, seen):
    if layers:
      weights = layers[coverage.middle(len(layers))].mean(0)
      places = [words_of_pieces(spelling.pieces(ids), text.split()) for spelling, ids, text in zip(
          (vocabulary, target), pairs[i], (sources[i], found[i].text))]
      out[i] = word_links(weights, *places), weights
  return out
