"""Does a head resolve the pronoun "it"? A test on the phrasebook's pronoun pairs.

"The animal didn't cross the street because it was too tired / too wide": two sentences that differ in one adjective,
which decides the noun that "it" stands for. A head resolves a pair when in both readings its weight from "it" is larger
on the right noun than on the other. A head that always prefers the first noun, the nearer one, or any fixed place,
scores 0. The best head is chosen on validation and evaluated on test, beside the best head of a model with random
weights, and the best on sentences whose words are shuffled.

In encoder self-attention the weights are those from "it", in cross-attention those from the German pronoun.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from explorer.gates import Head


@dataclasses.dataclass(frozen=True)
class Reading:
  """One sentence of a pair, with the attention weights from its "it". Words of the source are numbered from 0."""

  pair: str
  right: int  # the noun that "it" stands for
  wrong: int  # the other noun
  adjective: int  # the adjective that decides
  pronoun: int  # "it"
  rows: Mapping[str, np.ndarray]  # 'encoder' and 'cross', [N, H, words]: weights from "it" or its translation

  def __post_init__(self):
    if self.right == self.wrong:
      raise ValueError(f'pair {self.pair!r}: "it" can only be word {self.right}; expected two nouns')


@dataclasses.dataclass(frozen=True)
class Finding:
  """The best head of one kind."""

  head: Head
  validation: float  # share of pairs right; the head was chosen by it
  test: float
  adjective: float  # share of test sentences in which its largest weight is on the deciding adjective


def antecedent_right(readings: Sequence[Reading], kind: str) -> np.ndarray:
  """Compute the share of pairs [N, H] in which a head's weight is larger on the right noun in both readings."""
  by_pair: dict[str, list[np.ndarray]] = {}
  for reading in readings:
    row = reading.rows[kind]
    by_pair.setdefault(reading.pair, []).append(row[..., reading.right] > row[..., reading.wrong])
  complete = [np.logical_and(*both) for both in by_pair.values() if len(both) == 2]
  if not complete:
    raise ValueError('found no pronoun pair with both of its readings')
  return np.mean(complete, axis=0)


def at_adjective(readings: Sequence[Reading], kind: str) -> np.ndarray:
  """Compute how often each head's largest weight from "it" is on the deciding adjective [N, H]."""
  return np.mean([reading.rows[kind].argmax(-1) == reading.adjective for reading in readings], axis=0)


def best_head(validation: Sequence[Reading], test: Sequence[Reading], kind: str) -> Finding:
  """Find the head that resolves most pairs of validation, and evaluate it on test."""
  chosen = antecedent_right(validation, kind)
  place = tuple(map(int, np.unravel_index(chosen.argmax(), chosen.shape)))
  return Finding(Head(kind, *place), float(chosen[place]), float(antecedent_right(test, kind)[place]),
                 float(at_adjective(test, kind)[place]))


def adjective_head(validation: Sequence[Reading], test: Sequence[Reading], kind: str) -> dict[str, Any]:
  """Find the head that attends most to the deciding adjective most often on validation; its share there and on test."""
  chosen = at_adjective(validation, kind)
  place = tuple(map(int, np.unravel_index(chosen.argmax(), chosen.shape)))
  return {'head': Head(kind, *place).name, 'validation': round(float(chosen[place]), 4),
          'test': round(float(at_adjective(test, kind)[place]), 4)}


def best_offset(validation: Sequence[Reading], test: Sequence[Reading]) -> tuple[int, float]:
  """Find the distance from "it" that most antecedents have on validation, and how often they have it on test.

  Such a rule chooses the same word in both readings, so it resolves no pair; this is its share of sentences.
  """
  distances = [reading.right - reading.pronoun for reading in validation]
  values, counts = np.unique(distances, return_counts=True)
  chosen = int(values[counts.argmax()])
  return chosen, float(np.mean([reading.right - reading.pronoun == chosen for reading in test]))


def fixed_offset_pairs(readings: Sequence[Reading], offset: int) -> float:
  """Compute the share of pairs that the rule "the noun nearer to this distance from it" resolves.

  It is 0 when the two sentences of a pair have the same nouns.
  """
  by_pair: dict[str, list[bool]] = {}
  for reading in readings:
    far = lambda noun, reading=reading: abs(noun - reading.pronoun - offset)
    by_pair.setdefault(reading.pair, []).append(far(reading.right) < far(reading.wrong))
  return float(np.mean([all(both) for both in by_pair.values() if len(both) == 2]))


def as_record(finding: Finding) -> dict[str, Any]:
  """Return the finding as JSON."""
  return {'head': finding.head.name, 'pairs_right_validation': round(finding.validation, 4),
          'pairs_right_test': round(finding.test, 4), 'looks_at_adjective_test': round(finding.adjective, 4)}
