"""Name the tokens of a text for the axes of an attention map: piece by piece, or word by word."""

import dataclasses
import re
import unicodedata
from collections.abc import Sequence

import numpy as np

from corpora.vocabulary import Vocabulary
from corpora.words import is_mark
from decoding.continuer import LINE_END

_BYTE = re.compile('<0x[0-9A-F]{2}>')
_SPACE = '▁'  # SentencePiece's mark of a space
_INSIDE = "'’-"  # stands inside words
_WITHOUT_SPACES = ('CJK', 'HIRAGANA', 'KATAKANA', 'THAI', 'LAO', 'KHMER')  # scripts, as Unicode names characters


@dataclasses.dataclass(frozen=True)
class Text:
  """The names of a row of tokens. A word is one or more pieces; a special token is a word of its own."""

  pieces: tuple[str, ...]  # a piece that continues a word begins with ·
  words: tuple[str, ...]
  word_of_piece: tuple[int, ...]  # 0, 0, 1, … : grows by 0 or 1
  special: tuple[bool, ...]  # of each piece, whether it is BOS or EOS

  def __post_init__(self):
    count = len(self.pieces)
    if not len(self.word_of_piece) == len(self.special) == count:
      raise ValueError(f'{count} pieces with {len(self.word_of_piece)} words and {len(self.special)} marks; expected '
                       'one of each for every piece')
    steps = np.diff(self.word_of_piece, prepend=-1, append=len(self.words))
    if count and not (set(steps[:-1].tolist()) <= {0, 1} and steps[0] == steps[-1] == 1):
      raise ValueError(f'word_of_piece is {self.word_of_piece}; expected 0, then the same word or the next, up to '
                       f'{len(self.words) - 1}')

  @property
  def special_words(self) -> tuple[bool, ...]:
    """Of each word, whether it is BOS or EOS."""
    return tuple(self.special[self.word_of_piece.index(word)] for word in range(len(self.words)))


def _letter(character: str) -> bool:
  """Return whether the character continues the word of a letter before it."""
  if character in _INSIDE:
    return True
  return (character.isalnum() or is_mark(character)) and not unicodedata.name(character, '').startswith(_WITHOUT_SPACES)


def begins_word(before: str, piece: str) -> bool:
  """Return whether a piece begins a word, after the piece `before` ('' at the text's beginning).

  A space begins one, so does a character other than a letter, and so does each piece in scripts without spaces. A
  combining mark belongs to the character before it in every script.
  """
  if not before or piece.startswith(_SPACE):
    return True
  if not piece:  # a further byte of the same character
    return False
  return before != _SPACE and not is_mark(piece[0]) and not (_letter(before[-1]) and _letter(piece[0]))


def describe(ids: Sequence[int], vocabulary: Vocabulary) -> Text:
  """Return the Text of ids, which may contain BOS and EOS."""
  names = {vocabulary.bos_id: '⟨bos⟩', vocabulary.eos_id: '⟨eos⟩'}
  spelt = vocabulary.pieces(ids)
  special = [i in names for i in ids]
  added = _characters(spelt)
  first, before = [], ''
  for mark, piece in zip(special, added):
    first.append(mark or begins_word(before, piece))
    before = '' if mark else piece or before
  word_of_piece = np.cumsum(first) - 1
  words = [[] for _ in range(int(word_of_piece[-1]) + 1 if len(spelt) else 0)]
  for i, word in zip(ids, word_of_piece):
    words[word].append(i)
  return Text(
      pieces=tuple(names[i] if i in names else _piece(piece, begins) for i, piece, begins in zip(ids, spelt, first)),
      words=tuple(names[w[0]] if w[0] in names else vocabulary.decode(w).replace('\n', LINE_END).strip() or _SPACE for w in words),
      word_of_piece=tuple(word_of_piece.tolist()), special=tuple(special))


def _piece(piece: str, begins: bool) -> str:
  bare = piece.removeprefix(_SPACE) or _SPACE
  return bare if begins else f'·{bare}'


def labels(ids: Sequence[int], vocabulary: Vocabulary) -> list[str]:
  """Name tokens outside a text, such as candidates for the next one.

  A comma begins a word with a space before it and without: to tell the two, the space is shown.
  """
  names = {vocabulary.bos_id: '⟨bos⟩', vocabulary.eos_id: '⟨eos⟩'}

  def named(piece: str) -> str:
    bare = piece.removeprefix(_SPACE)
    return piece if piece != bare and bare and begins_word('x', bare) else _piece(piece, begins_word('x', piece))

  return [names[i] if i in names else named(piece) for i, piece in zip(ids, vocabulary.pieces(ids))]


def _characters(pieces: Sequence[str]) -> list[str]:
  """Replace bytes by the character that they spell, at its first byte, and by nothing at its other bytes.

  A character outside the vocabulary is spelt as its bytes in UTF-8, <0xE2>, <0x82>, <0xAC>.
  """
  values = [int(piece[3:5], 16) if _BYTE.fullmatch(piece) else None for piece in pieces]
  found = list(pieces)
  for place, value in enumerate(values):
    if value is not None:
      further = 0x80 <= value < 0xC0  # a byte 10xxxxxx continues a character
      size = 1 if value < 0xC0 else 2 if value < 0xE0 else 3 if value < 0xF0 else 4
      whole = bytes(v for v in values[place:place + size] if v is not None)
      found[place] = '' if further else whole.decode('utf-8', 'replace')
  return found


def pool(weights: np.ndarray, queries: Sequence[int], keys: Sequence[int]) -> np.ndarray:
  """Pool attention between pieces to words: sum over a word's keys, average over its queries.

  A row of pieces that sums to one gives a row of words that sums to one.

  Args:
    weights: [..., Q, M] between pieces.
    queries, keys: the word of each piece, see Text.word_of_piece.

  Returns:
    [..., words of queries, words of keys].
  """
  of_query = np.eye(max(queries) + 1, dtype=weights.dtype)[list(queries)]  # [Q, words]
  of_key = np.eye(max(keys) + 1, dtype=weights.dtype)[list(keys)]
  return (of_query / of_query.sum(0)).T @ weights @ of_key
