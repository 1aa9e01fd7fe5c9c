"""Tags at the beginning of a source, such as <2de>, which choose the language that it is translated into."""

import re
from collections.abc import Iterable

from corpora.marian_vocabulary import TAG, MarianVocabulary
from corpora.vocabulary import Vocabulary


def marian_tag(text: str) -> str:
  """Return the tag with which a source begins for a MarianVocabulary; '' where there is none."""
  found = TAG.match(text)
  return found[0] if found else ''


class Tags:
  """The tags that a vocabulary knows."""

  def __init__(self, vocabulary: Vocabulary):
    """Read the tags of a vocabulary: of SentencePiece's own form, every entry that was made as one and is a whole word."""
    self._is_marian = isinstance(vocabulary, MarianVocabulary)
    own = () if self._is_marian else (
        entry.piece for entry in vocabulary.proto.pieces if entry.type == entry.USER_DEFINED)
    self._words = re.compile(rf'(?:{_any_of(own)}\s+)*')

  def split(self, text: str) -> tuple[str, str]:
    """Return the tags with which a source begins, with the spaces behind them, and the rest of it."""
    tag = marian_tag(text) if self._is_marian else self._words.match(text)[0]
    rest = text[len(tag):].lstrip() if tag else text
    return text[:len(text) - len(rest)], rest


def _any_of(texts: Iterable[str]) -> str:
  """Return the regular expression of any of some texts; of none, one that matches nothing."""
  return f'(?:{"|".join(map(re.escape, texts)) or "(?!)"})'
