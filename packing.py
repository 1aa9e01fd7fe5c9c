"""Which sentences share a row: packing of (source, target) lengths into rows of two capacities.

A row is full when either of its sides is. First sentences are laid out in a drawn order, row by row; then short ones
that were kept back are put where they leave least room on both sides. All of it works on arrays: millions of pairs
take seconds.
"""

from typing import NamedTuple

import numpy as np

_KEPT_BACK = 0.25  # share of the sentences, the shortest, that fill what the others leave


class Packing(NamedTuple):
  """Rows as lists of sentences: row r holds sentences[starts[r]:starts[r + 1]]."""

  sentences: np.ndarray  # [sentences] int64
  starts: np.ndarray  # [rows + 1] int64

  def __len__(self) -> int:
    return len(self.starts) - 1

  def row(self, number: int) -> np.ndarray:
    """The sentences of a row."""
    return self.sentences[self.starts[number]:self.starts[number + 1]]


def capacities(source: np.ndarray, target: np.ndarray, length: int) -> tuple[int, int]:
  """Tokens of a row's sides: `length` for the language that is longer, in all, the other in proportion.

  Never less than a side's longest sentence.
  """
  totals = source.sum(), target.sum()
  fitted = [-(-length * int(total) // int(max(totals))) for total in totals]
  return max(fitted[0], int(source.max())), max(fitted[1], int(target.max()))


def pack(source: np.ndarray, target: np.ndarray, room: tuple[int, int], draw: np.random.Generator) -> Packing:
  """Rows that hold every sentence once.

  Args:
    source, target: [sentences] lengths; none exceeds its room.
    room: tokens of a row's sides.
    draw: decides who shares a row.
  """
  order = draw.permutation(len(source))
  kept_back = np.zeros(len(source), bool)
  size = source + target
  kept_back[size <= np.quantile(size, _KEPT_BACK)] = True
  if kept_back.all():  # all of one size
    kept_back[:] = False
  row_of, count = np.empty(len(source), np.int64), 0
  left = [room[side] - np.zeros(0, np.int64) for side in (0, 1)]
  for members in (order[~kept_back], order[kept_back]):
    if count:
      members = _fill(source, target, members, left, row_of)
    rows, fresh = _in_turn(source[members], target[members], room)
    row_of[members] = count + rows
    count += fresh
    left = [np.bincount(rows, side[members], fresh).astype(np.int64) for side in (source, target)]
    left = [capacity - used for capacity, used in zip(room, left)]
  by_row = np.argsort(row_of, kind='stable')
  return Packing(by_row, np.concatenate([[0], np.cumsum(np.bincount(row_of, minlength=count))]))


def _in_turn(source: np.ndarray, target: np.ndarray, room: tuple[int, int]) -> tuple[np.ndarray, int]:
  """The row of each sentence when a row is filled until the next sentence does not fit; and the number of rows."""
  if not len(source):
    return np.zeros(0, np.int64), 0
  ends = [np.concatenate([[0], np.cumsum(side)]) for side in (source, target)]
  # For every sentence, where the row ends that would begin with it.
  following = np.minimum(*(np.searchsorted(end, end[:-1] + capacity, 'right') - 1
                           for end, capacity in zip(ends, room))).tolist()
  starts, place = [], 0
  while place < len(following):
    starts.append(place)
    place = following[place]
  first = np.zeros(len(source), np.int64)
  first[starts[1:]] = 1
  return np.cumsum(first), len(starts)


def _fill(source: np.ndarray, target: np.ndarray, members: np.ndarray, left: list[np.ndarray], row_of: np.ndarray
          ) -> np.ndarray:
  """Puts sentences into rows where they leave least room; returns those that fit nowhere.

  Args:
    source, target: [sentences] lengths.
    members: which of them.
    left: room in each row, source and target; brought up to date.
    row_of: where each sentence's row is written.
  """
  kinds, kind_of, counts = np.unique(
      np.stack([source[members], target[members]], 1), axis=0, return_inverse=True, return_counts=True)
  grouped = np.split(members[np.argsort(kind_of.ravel(), kind='stable')], np.cumsum(counts)[:-1])
  over = []
  for kind in np.argsort(-kinds.sum(1), kind='stable'):  # large ones first: small ones fit more places
    (s, t), waiting = kinds[kind], grouped[kind]
    while len(waiting):
      fitting = np.flatnonzero((left[0] >= s) & (left[1] >= t))
      if not len(fitting):
        over.append(waiting)
        break
      slack = left[0][fitting] + left[1][fitting]
      best = fitting[np.argsort(slack, kind='stable')[:len(waiting)]]
      row_of[waiting[:len(best)]] = best
      left[0][best] -= s
      left[1][best] -= t
      waiting = waiting[len(best):]
  return np.concatenate(over) if over else members[:0]


def redealt(packing: Packing, source: np.ndarray, target: np.ndarray, draw: np.random.Generator) -> Packing:
  """The same rows with other sentences of the same lengths in their places, in another order.

  So all epochs have equally many rows, and none has to know those before it.
  """
  kind = source.astype(np.int64) * (int(target.max()) + 1) + target
  by_kind = np.argsort(kind, kind='stable')
  drawn = np.lexsort((draw.random(len(kind)), kind))
  other = np.empty(len(kind), np.int64)
  other[by_kind] = drawn
  order = draw.permutation(len(packing))
  sizes = np.diff(packing.starts)[order]
  starts = np.concatenate([[0], np.cumsum(sizes)])
  places = np.repeat(packing.starts[:-1][order] - starts[:-1], sizes) + np.arange(len(kind))
  return Packing(other[packing.sentences[places]], starts)
