"""Choose what a report shows first: one large attention weight between two words, by a rule that anyone can check."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from explorer.capture import Capture
from explorer.gates import KINDS

PRONOUNS = frozenset('it he she they him her them its his their es er sie ihn ihm ihr ihnen'.split())
CONTENT = 4  # letters from which on a word counts as a content word
APART = 2  # least distance of the two words, so that neighbours do not count

# Kinds of attention in the order in which they are searched, and whether only pronouns count as queries.
_ORDER = (('encoder', True), ('encoder', False), ('cross', False), ('decoder', False))


class FirstView(NamedTuple):
  """One attention weight between words; all numbers count from 0."""

  sentence: int
  kind: str
  layer: int
  head: int
  query: int
  key: int
  weight: float


def choose(captures: Sequence[Capture]) -> FirstView:
  """Choose encoder self-attention's largest weight from a pronoun to a content word, or else between content words.

  Where encoder self-attention has none, cross-attention is searched, then decoder self-attention. Neighbouring words do
  not count, since many heads merely attend one position away.
  """
  for kind, only_pronouns in _ORDER:
    found = [best for number, capture in enumerate(captures) if kind in capture.weights
             if (best := _strongest(number, capture, kind, only_pronouns))]
    if found:
      return max(found, key=lambda view: view.weight)
  kind = next(kind for kind in KINDS if kind in captures[0].weights)
  weights = captures[0].by_word(kind)
  place = tuple(map(int, np.unravel_index(weights.argmax(), weights.shape)))
  return FirstView(0, kind, *place, float(weights[place]))


def _strongest(number: int, capture: Capture, kind: str, only_pronouns: bool) -> FirstView | None:
  """Return the largest weight of one sentence that counts, or None."""
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
  return FirstView(number, kind, *place, float(weights[place]))
