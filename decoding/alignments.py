"""Word alignments found in cross-attention, and their error rate against known ones (Och & Ney, 2003).

The attention of a target word is taken at the step that predicts it, when the decoder's input is the word before it
(method "plain"), or one step later, when it is itself the input: Shift-Att of Chen et al. (2020, §3.1), method "shift",
which is usually better.
"""

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

import jax
import numpy as np
from jaxtyping import Float, Int

from corpora.marian_vocabulary import MarianVocabulary
from corpora.vocabulary import Vocabulary
from decoding.batches import length_classes
from decoding.requests import Translation
from decoding.tags import marian_tag
from decoding.translator import Translator
from transformer import tokens
from transformer.model import Params
from transformer.search import coverage
from transformer.tokens import Array

Links = set[tuple[int, int]]  # (source word, target word), counted from 0
Layers = list[Float[Array, 'B H T S']]
_BYTE = re.compile('<0x[0-9A-F]{2}>')
_ROWS, _CELLS = 50, 1 << 18  # most rows, and rows × length², of a batch: attention takes room for each cell
_SPACE = '▁'  # SentencePiece's own sign
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


def words_of(text: str) -> list[str]:
  """Return the words of a text: what stands between spaces, of any kind that Unicode has. Pieces write "▁" for a space."""
  return text.replace(_SPACE, ' ').split()


def words_of_pieces(pieces: Sequence[str], words: Sequence[str]) -> Int[np.ndarray, ' pieces']:
  """Find the word in which each SentencePiece piece begins; spaces at the end belong to the last word.

  It counts the characters that are no spaces. A character outside the vocabulary is spelt as several pieces, one for
  each byte; a byte that belongs to no character counts as one, since its text is one replacement character.

  Args:
    pieces: of a text.
    words: of the same text: words_of(text), or divided in another way.
  """
  ends = np.cumsum([sum(not letter.isspace() for letter in word) for word in words])
  spelt = [bytes.fromhex(piece[3:5]) if _BYTE.fullmatch(piece) else piece.replace(_SPACE, ' ').encode() for piece in pieces]
  letters = b''.join(spelt).decode(errors='surrogateescape')
  before = np.cumsum([0, *(not letter.isspace() for letter in letters)])
  # Behind the last byte begin pieces that stand for nothing.
  of_byte = np.repeat(before, [*(len(letter.encode(errors='surrogateescape')) for letter in letters), 1])
  begins = np.cumsum([0, *map(len, spelt)])[:-1]
  return np.minimum(np.searchsorted(ends, of_byte[begins], side='right'), max(len(words) - 1, 0))


def surfaces_of_text(vocabulary: Vocabulary, text: str) -> list[str]:
  """Return the part of a text, as it is typed, that each piece of encode(text) stands for.

  The piece itself is spelt otherwise where the vocabulary normalises the text, and where it has no entry for a
  character. What several pieces stand for together is given to the last of them, as SentencePiece does; one that is no
  SentencePiece vocabulary gives its pieces.
  """
  if not isinstance(vocabulary, Vocabulary):
    return vocabulary.pieces(vocabulary.encode_batch([text])[0])
  tag = marian_tag(text) if isinstance(vocabulary, MarianVocabulary) else ''
  encode = vocabulary.sentencepiece.encode
  return [tag] * bool(tag) + _surfaces(encode(text[len(tag):], out_type='serialized_proto'))


def surfaces_of_ids(vocabulary: Vocabulary, ids: Sequence[int]) -> list[str]:
  """Return the part of decode(ids) that each id stands for, as surfaces_of_text() does."""
  if not isinstance(vocabulary, Vocabulary):
    return vocabulary.pieces(ids)
  entries = vocabulary.pieces(ids) if isinstance(vocabulary, MarianVocabulary) else list(map(int, ids))
  return _surfaces(vocabulary.sentencepiece.decode(entries, out_type='serialized_proto'))


def _surfaces(proto: bytes) -> list[str]:
  from sentencepiece import sentencepiece_pb2  # slow to import
  return [piece.surface for piece in sentencepiece_pb2.SentencePieceText.FromString(proto).pieces]


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


def attention(translator: Translator, pairs: Sequence[tuple[str, str]]) -> list[list[Float[np.ndarray, 'H T S']]]:
  """Compute the cross-attention of each sentence pair, with the target given to the decoder (teacher forcing).

  Returns:
    For each pair one array per layer; EOS and padding are cut off on both sides.
  """
  _, source, target = translator.parts
  sides = zip(*(vocabulary.encode_batch(list(texts)) for vocabulary, texts in zip((source, target), zip(*pairs))))
  found = dict(_attention_of_ids(translator, list(sides), 0, _every))
  return [found[place] for place in range(len(pairs))]


def _every(layers: Layers) -> Layers:
  return layers


def _mean_of_middle(layers: Layers) -> Layers:
  """Return the mean over the heads of the middle layer alone, as one head; nothing where there is no layer."""
  return [layers[coverage.middle(len(layers))].mean(axis=1, keepdims=True)] if layers else []


@functools.partial(jax.jit, static_argnames=('inspect', 'bos_id', 'wanted'))  # compiled once for all parts of a job
def _cross(params: Params, source: tokens.Tokens, target: tokens.Tokens, inspect: Callable, bos_id: int,
           wanted: Callable[[Layers], Layers]) -> Layers:
  """Return what is wanted of the cross-attention of each layer; the rest is not computed."""
  return wanted(inspect(params, source, tokens.shift_right(target, bos_id))[1]['cross'])


def _attention_of_ids(translator: Translator, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], shift: int,
                      wanted: Callable[[Layers], Layers]) -> Iterator[tuple[int, list[Float[np.ndarray, 'H T S']]]]:
  """Compute the attention of pairs of ids without EOS, those of similar length together, the longest first.

  The shape of a batch follows from the length class of its pairs alone, as those of a search do.

  Args:
    translator: whose first model is looked into.
    pairs: (source, target).
    shift: steps from the one that predicts a token to the one whose attention is taken.
    wanted: a function from all layers' attention to that which is returned.

  Yields:
    (place among the pairs, attention as in attention()) of each.
  """
  model, source, target = translator.parts
  lengths = {place: max(map(len, pair)) + 1 for place, pair in enumerate(pairs)}  # with EOS
  for length, members in length_classes(lengths, model.longest).items():
    rows = min(_ROWS, max(1, _CELLS // length ** 2))
    for start in range(0, len(members), rows):
      some = members[start:start + rows]
      laid = [tokens.pad([[*pairs[place][side], vocabulary.eos_id] for place in some], rows, length, vocabulary.pad_id)
              for side, vocabulary in enumerate((source, target))]
      layers = jax.device_get(_cross(translator.params[0], *laid, model.inspect, target.bos_id, wanted))
      for row, place in enumerate(some):
        source_ids, target_ids = pairs[place]
        # Copies, which do not keep the padding of the whole batch in memory.
        yield place, [layer[row, :, shift:shift + len(target_ids), :len(source_ids)].copy() for layer in layers]


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
  for place, layers in _attention_of_ids(translator, [pairs[i] for i in real], METHODS[method], _mean_of_middle):
    for weights, in layers:  # one layer, of one head; none where the model has no attention
      i = real[place]
      read = surfaces_of_text(vocabulary, sources[i])[:len(pairs[i][0])]
      places = [words_of_pieces(parts, words_of(text)) for parts, text in (
          (read, sources[i]), (surfaces_of_ids(target, pairs[i][1]), found[i].text))]
      out[i] = word_links(weights, *places), weights
  return out
