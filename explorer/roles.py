"""What heads do over a corpus, by the definitions of Voita et al. (2019) and Michel et al. (2019).

    positional   at least 90 % of its rows have their maximum at one offset (Voita et al., §5.1)
    syntactic    its maximum is on a relation's other word at least 10 points more often than the word at the best
                 fixed offset is (§5.2)
    rare         its maximum is on one of the sentence's two least frequent words at least 20 points more often than
                 that of a head which attends to all tokens alike (§5.3; the number is ours). A word's weight is the sum
                 over its pieces, and rare words have many: such a head's maximum is mostly on a rare word already
    confidence   the mean over rows of the largest weight, BOS and EOS left out (§4)

Maps are between words, [N, H, Q, M] of one sentence; rows of BOS and EOS do not count. "The maximum" is over all
columns.
"""

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

POSITIONAL = 0.9  # share of rows from which on a head is positional
SYNTACTIC = 0.1  # points above the best fixed offset from which on a head is syntactic
RARE = 2  # how many of a sentence's least frequent words count as rare
RARE_POINTS = 0.2  # points above even attention from which on the role is rare words; Voita et al. give no threshold
SINK = 0.5  # mean weight on BOS and EOS from which on the role is sentence end, or begin


@dataclasses.dataclass(frozen=True)
class Observed:
  """One sentence's attention of one kind, and what is known of its words."""

  maps: np.ndarray  # [N, H, Q, M] between words
  special_rows: tuple[bool, ...]
  special_columns: tuple[bool, ...]
  even: np.ndarray  # [Q, M] of a head that attends to all tokens alike
  rare: frozenset[int] = frozenset()  # columns of the least frequent words
  relations: tuple[tuple[str, int, int], ...] = ()  # (name, row, column) of the weight that the relation expects

  def __post_init__(self):
    words = len(self.special_rows), len(self.special_columns)
    if self.maps.ndim != 4 or self.maps.shape[2:] != words or self.even.shape != words:
      raise ValueError(f'maps have shape {self.maps.shape} and {self.even.shape}; expected [layers, heads, {words[0]}, '
                       f'{words[1]}] and [{words[0]}, {words[1]}]')
    for name, row, column in self.relations:
      if not (0 <= row < self.maps.shape[2] and 0 <= column < self.maps.shape[3]):
        raise ValueError(f'relation {name} joins words {row} and {column} of {self.maps.shape[2:]}')

  @property
  def rows(self) -> np.ndarray:
    """The rows that count, those of words other than BOS and EOS."""
    return np.flatnonzero(~np.array(self.special_rows))

  @property
  def maxima(self) -> np.ndarray:
    """[N, H, rows that count]: the column of the largest weight."""
    return self.maps[:, :, self.rows].argmax(-1)


def positional(corpus: Sequence[Observed]) -> tuple[np.ndarray, np.ndarray]:
  """Find the most frequent offset of each head's maxima and its share, [N, H] each. Offset -1 is the word before."""
  offsets = np.concatenate([each.maxima - each.rows for each in corpus], axis=-1)
  best, share = np.zeros(offsets.shape[:2], int), np.zeros(offsets.shape[:2])
  for place in np.ndindex(best.shape):
    values, counts = np.unique(offsets[place], return_counts=True)
    best[place], share[place] = values[counts.argmax()], counts.max() / offsets.shape[-1]
  return best, share


def syntactic(corpus: Sequence[Observed]) -> dict[str, tuple[np.ndarray, float, int]]:
  """Return for each relation how often each head's maximum meets it [N, H], how often the best offset does, cases."""
  hits, offsets = collections.defaultdict(list), collections.defaultdict(collections.Counter)
  for each in corpus:
    for name, row, column in each.relations:
      hits[name].append(each.maps[:, :, row].argmax(-1) == column)
      offsets[name][column - row] += 1
  return {name: (np.mean(found, axis=0), offsets[name].most_common(1)[0][1] / len(found), len(found))
          for name, found in sorted(hits.items())}


def rare(corpus: Sequence[Observed]) -> tuple[np.ndarray, float]:
  """Compute how often each head's maximum, BOS and EOS left out, is on a rare word [N, H], and how often an even head's.

  Of several words on which an even head's weight is largest each counts in part.
  """
  found, evenly = [], []
  for each in corpus:
    is_rare = np.isin(np.arange(len(each.special_columns)), list(each.rare))
    plain = np.where(np.array(each.special_columns), -1.0, each.maps[:, :, each.rows])
    found.append(is_rare[plain.argmax(-1)])
    even = np.where(np.array(each.special_columns), -1.0, each.even[each.rows])
    largest = np.isclose(even, even.max(-1, keepdims=True))
    evenly.append((largest & is_rare).sum(-1) / largest.sum(-1))
  return np.concatenate(found, axis=-1).mean(-1), float(np.concatenate(evenly).mean())


def confidence(corpus: Sequence[Observed]) -> np.ndarray:
  """Compute the mean over rows of the largest weight on a word, BOS and EOS left out, [N, H]."""
  return np.concatenate([np.where(np.array(each.special_columns), 0.0, each.maps[:, :, each.rows]).max(-1)
                         for each in corpus], axis=-1).mean(-1)


def spread(corpus: Sequence[Observed]) -> dict[str, np.ndarray]:
  """Measure how spread out and how local each head's weights are, as means over rows, [N, H] each.

  entropy (bits), near: mass within one word of the row's own place, first and last: mass on the first and on the last
  column, special: mass on BOS and EOS.
  """
  found = collections.defaultdict(list)
  for each in corpus:
    maps = each.maps[:, :, each.rows]
    columns = np.arange(maps.shape[-1])
    found['entropy'].append(-(maps * np.log2(np.maximum(maps, 1e-12))).sum(-1))
    found['near'].append((maps * (np.abs(columns[None] - each.rows[:, None]) <= 1)).sum(-1))
    found['first'].append(maps[..., 0])
    found['last'].append(maps[..., -1])
    found['special'].append((maps * np.array(each.special_columns)).sum(-1))
  return {name: np.concatenate(values, axis=-1).mean(-1) for name, values in found.items()}


def rarest(words: Sequence[str], special: Sequence[bool], frequency: Mapping[str, int]) -> frozenset[int]:
  """Return the places of the RARE least frequent words of a sentence; of equally frequent ones the first."""
  plain = [place for place in range(len(words)) if not special[place]]
  return frozenset(sorted(plain, key=lambda place: frequency[words[place]])[:RARE])


def describe(corpus: Sequence[Observed]) -> list[list[dict[str, Any]]]:
  """Describe every head, by layer: its roles' names and all of the figures above."""
  (offset, share), (on_rare, evenly) = positional(corpus), rare(corpus)
  sure, blurred, relations = confidence(corpus), spread(corpus), syntactic(corpus)
  columns = corpus[0].special_columns
  edge = 'sentence begin' if columns[0] and not columns[-1] else 'sentence end'  # a decoder reads BOS, and never EOS

  def of(place: tuple[int, int]) -> dict[str, Any]:
    names = [f'positional {offset[place]:+d}'] if share[place] >= POSITIONAL else []
    names += [name for name, (met, fixed, _) in relations.items() if met[place] >= fixed + SYNTACTIC]
    names += ['rare words'] if on_rare[place] >= evenly + RARE_POINTS else []
    names += [edge] if blurred['special'][place] >= SINK else []
    return {
        'roles': names, 'offset': int(offset[place]), 'offset_share': _short(share[place]),
        'rare': _short(on_rare[place]), 'rare_evenly': _short(evenly), 'confidence': _short(sure[place]),
        **{name: _short(values[place]) for name, values in blurred.items()},
        'relations': {name: {'met': _short(met[place]), 'best_fixed_offset': _short(fixed), 'cases': cases}
                      for name, (met, fixed, cases) in relations.items()}}

  return [[of((layer, head)) for head in range(offset.shape[1])] for layer in range(offset.shape[0])]


def _short(value: float) -> float:
  return round(float(value), 4)
