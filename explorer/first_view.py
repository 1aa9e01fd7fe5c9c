"""Choose what a report shows first, by rules that anyone can check: a contrast between two sentences, or else one large
attention weight between two words."""

import difflib
import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from explorer.capture import Capture
from explorer.gates import KINDS
from explorer.texts import Text

PRONOUNS = frozenset('it he she they him her them its his es er sie ihn ihm ihr ihnen'.split())
CONTENT = 4  # letters from which on a word counts as a content word
APART = 2  # least distance of the two words, so that neighbours do not count
ALIKE = 0.5  # least share of words that two sentences have in common to be compared
CLEAR = 0.3  # least share of its attention that a head moves, for a contrast

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
  beside: int | None = None  # the sentence beside it


def choose(captures: Sequence[Capture]) -> FirstView:
  """Choose the clearest contrast between two of the sentences, or else one large weight of one sentence.

  Where there is no contrast: encoder self-attention's largest weight from a pronoun to a content word, or else between
  content words. Where encoder self-attention has none, cross-attention is searched, then decoder self-attention.
  Neighbouring words do not count, since many heads merely attend one position away. Of two sentences, the other stands
  beside it.
  """
  contrasts = [found for one, other in itertools.combinations(range(len(captures)), 2)
               for found in _contrasts(captures, one, other)]
  if contrasts:
    return max(contrasts, key=lambda found: found[0])[1]
  found = _largest(captures)
  return found._replace(beside=1 - found.sentence if len(captures) == 2 else None)


# ---------------------------------------------------------------------------------------------------------- contrast


def _contrasts(captures: Sequence[Capture], one: int, other: int
               ) -> Iterator[tuple[tuple[bool, float, bool], FirstView]]:
  """Find where a head attends to one word in one sentence and to another in the other, and how clearly.

  Compared are rows that go together: words at one place that differ (in the decoder: where the translations differ),
  and in the encoder pronouns, too. A row counts by the word with its largest weight, a content word. Rows of pronouns
  come first, since a word's own translation moves with the word. How clear: the least share that either row gives its
  own word more than the other row does, in hundredths; among equals, words that both sentences have come first.
  """
  for kind in KINDS:
    if kind not in captures[one].weights or kind not in captures[other].weights:
      continue
    (rows, columns), (other_rows, other_columns) = captures[one].axes(kind), captures[other].axes(kind)
    weights, other_weights = captures[one].by_word(kind), captures[other].by_word(kind)
    keys = _common(columns, other_columns)
    for i, j in _rows_to_compare(rows, other_rows, pronouns=kind == 'encoder'):
      for place in np.ndindex(weights.shape[:2]):
        row, other_row = weights[place][i], other_weights[place][j]
        key, other_key = int(row.argmax()), int(other_row.argmax())
        words = columns.words[key], other_columns.words[other_key]
        if words[0] == words[1] or not all(map(_is_content, words)) or (
            kind != 'cross' and min(abs(i - key), abs(j - other_key)) < APART):
          continue
        there, here = keys.get(key), next((k for k, match in keys.items() if match == other_key), None)
        moved = min(row[key] - (0 if there is None else other_row[there]),
                    other_row[other_key] - (0 if here is None else row[here]))
        if moved >= CLEAR:
          pronoun = rows.words[i].lower() in PRONOUNS
          yield ((pronoun, round(float(moved), 2), None not in (there, here)),
                 FirstView(one, kind, *place, i, key, float(row[key]), other))


def _is_content(word: str) -> bool:
  return len(word) >= CONTENT and word.isalpha()


def _common(one: Text, other: Text) -> dict[int, int]:
  """Return the words that two texts have in common, in order: place in one -> place in the other."""
  blocks = difflib.SequenceMatcher(None, one.words, other.words, autojunk=False).get_matching_blocks()
  return {a + n: b + n for a, b, size in blocks for n in range(size)}


def _rows_to_compare(one: Text, other: Text, pronouns: bool) -> list[tuple[int, int]]:
  """Return the places of words that stand for each other and differ; with `pronouns`, of common pronouns as well."""
  matcher = difflib.SequenceMatcher(None, one.words, other.words, autojunk=False)
  if matcher.ratio() < ALIKE:
    return []
  changes = [pair for name, a, to, b, other_to in matcher.get_opcodes() if name == 'replace'
             for pair in zip(range(a, to), range(b, other_to))]
  return changes + [(i, j) for i, j in _common(one, other).items() if pronouns and one.words[i].lower() in PRONOUNS]


# -------------------------------------------------------------------------------------------------------- one weight


def _largest(captures: Sequence[Capture]) -> FirstView:
  """Choose the largest weight that counts."""
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
  content = lambda text: np.array([_is_content(word) for word in text.words])
  apart = np.abs(np.subtract.outer(np.arange(len(rows.words)), np.arange(len(columns.words)))) >= APART
  counts = (pronoun if only_pronouns else content(rows))[:, None] & content(columns)[None]
  counts = counts & apart if kind != 'cross' else counts
  if not counts.any():
    return None
  weights = np.where(counts, capture.by_word(kind), -1.0)
  place = tuple(map(int, np.unravel_index(weights.argmax(), weights.shape)))
  return FirstView(number, kind, *place, float(weights[place]))
