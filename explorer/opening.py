"""Where a report opens: the head and the token that tell most, by a rule that anyone can check."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from explorer.capture import Capture
from explorer.gates import KINDS

PRONOUNS = frozenset('it he she they him her them its his their es er sie ihn ihm ihr ihnen'.split())
CONTENT = 4  # letters of a word that is taken to carry content
APART = 2  # words between which a link is not merely one to a neighbour

# Kinds of attention in the order in which they are asked, and whether only pronouns count as queries.
_ORDER = (('encoder', True), ('encoder', False), ('cross', False), ('decoder', False))


class Opening(NamedTuple):
  """One weight between words; numbers from 0."""

  sentence: int
  kind: str
  layer: int
  head: int
  query: int
  key: int
  weight: float


def choose(captures: Sequence[Capture]) -> Opening:
  """The strongest link from a pronoun to a word of content in the source; without pronouns, between words of content.

  The encoder is asked first, then attention over the source, then the decoder's own. Neighbouring words do not count,
  since many heads merely look one step aside.
  """
  for kind, only_pronouns in _ORDER:
    found = [best for number, capture in enumerate(captures) if kind in capture.weights
             if (best := _strongest(number, capture, kind, only_pronouns))]
    if found:
      return max(found, key=lambda opening: opening.weight)
  kind = next(kind for kind in KINDS if kind in captures[0].weights)
  weights = captures[0].by_word(kind)
  place = tuple(map(int, np.unravel_index(weights.argmax(), weights.shape)))
  return Opening(0, kind, *place, float(weights[place]))


def _strongest(number: int, capture: Capture, kind: str, only_pronouns: bool) -> Opening | None:
  """The strongest link of one sentence that counts, or None."""
  rows, columns = capture.axes(kind)
  pronoun = np.array([word.lower() in PRONOUNS for word in rows.words])
  content = lambda text: np.array([len(word) >= CONTENT and word.isalpha() for word in text.words])
  apart = np.abs(np.subtract.outer(np.arange(len(rows.words)), np.arange(len(columns.words)))) >= APART
  counts = (pronoun if only_pronouns else content(rows))[:, None] & content(columns)[None]
  counts = counts & apart if kind != 'cross' else counts
  if not counts.any():
    return None
  weights = np.where(counts, capture.by_word(kind), -1.0)
  place = tuple(map(int, np.unravel_index(weights.argmax(), weights.shape)))
  return Opening(number, kind, *place, float(weights[place]))
