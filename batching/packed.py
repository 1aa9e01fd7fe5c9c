"""Packing: several sentences in a row, each a segment of its own, so that little of a row is padding.

A row has a capacity for source tokens and one for target tokens, and is full when either is used up. First, sentences
in random order fill row after row; then short ones that were kept back go where they leave least room on both sides.
All of it works on arrays: millions of pairs take seconds.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from batching.plan import BATCHINGS, BatchConfig, EqualEpochs, Plan, refuse_nothing_left
from batching.shapes import Shape
from batching.store import Store
from transformer import tokens

_KEPT_BACK = 0.25  # share of the sentences, the shortest, that fill what the others leave


class Packing(NamedTuple):
  """Rows as lists of sentences: row r holds sentences[starts[r]:starts[r + 1]]."""

  sentences: np.ndarray  # [sentences] int64
  starts: np.ndarray  # [rows + 1] int64

  def __len__(self) -> int:
    return len(self.starts) - 1

  def row(self, number: int) -> np.ndarray:
    """Return the sentences of a row."""
    return self.sentences[self.starts[number]:self.starts[number + 1]]


def capacities(source: np.ndarray, target: np.ndarray, length: int) -> tuple[int, int]:
  """Return the tokens of a row's sides: `length` for the language with more text, the other in proportion.

  Never less than a side's longest sentence.
  """
  totals = source.sum(), target.sum()
  fitted = [-(-length * int(total) // int(max(totals))) for total in totals]
  return max(fitted[0], int(source.max())), max(fitted[1], int(target.max()))


def pack(source: np.ndarray, target: np.ndarray, room: tuple[int, int], draw: np.random.Generator) -> Packing:
  """Return rows that hold every sentence once.

  Args:
    source, target: [sentences] lengths; none exceeds its room.
    room: tokens of a row's sides.
    draw: decides which sentences share a row.
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
  """Return each sentence's row, when rows are filled until the next sentence does not fit; and the number of rows."""
  if not len(source):
    return np.zeros(0, np.int64), 0
  ends = [np.concatenate([[0], np.cumsum(side)]) for side in (source, target)]
  # For every sentence, the end of the row that would begin with it.
  following = np.minimum(*(np.searchsorted(end, end[:-1] + capacity, 'right') - 1
                           for end, capacity in zip(ends, room)))
  starts, place = [], 0
  while place < len(following):
    starts.append(place)
    place = following.item(place)
  first = np.zeros(len(source), np.int64)
  first[starts[1:]] = 1
  return np.cumsum(first), len(starts)


def _fill(source: np.ndarray, target: np.ndarray, members: np.ndarray, left: list[np.ndarray], row_of: np.ndarray
          ) -> np.ndarray:
  """Put sentences into rows where they leave least room; return those that fit nowhere.

  Args:
    source, target: [sentences] lengths.
    members: which of them.
    left: room in each row, of source and target; changed in place.
    row_of: each sentence's row; changed in place.
  """
  kinds, kind_of, counts = np.unique(
      np.stack([source[members], target[members]], 1), axis=0, return_inverse=True, return_counts=True)
  grouped = np.split(members[np.argsort(kind_of.ravel(), kind='stable')], np.cumsum(counts)[:-1])
  over = []  # sentences that fit nowhere
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
  """Return the same rows in another order, with other sentences of the same lengths in their places.

  All epochs thus have equally many rows, and an epoch's rows do not depend on the epochs before it.
  """
  kind = source.astype(np.int64) * (int(target.max()) + 1) + target
  drawn = np.lexsort((draw.random(len(kind)), kind))
  other = np.empty_like(drawn)
  other[np.argsort(kind, kind='stable')] = drawn
  del kind, drawn  # of millions of sentences each is large
  order = draw.permutation(len(packing))
  sizes = np.diff(packing.starts)[order]
  starts = np.concatenate([[0], np.cumsum(sizes)])
  places = np.arange(len(other))
  places += np.repeat(packing.starts[:-1][order] - starts[:-1], sizes)
  return Packing(other[packing.sentences[places]], starts)


@BATCHINGS.register('packed', 'several sentences to a row', uses=('packed_length', 'batch_tokens'))
class PackedPlan(Plan):
  """A plan in which several sentences share a row, each a segment of its own.

  All batches have one shape. Which sentences share a row is decided once; in each epoch sentences of the same two
  lengths change places, and rows their order, so that an epoch's batches are known without those before it.
  """

  def __init__(self, store: Store, config: BatchConfig, seed: int, shuffle: bool = True):
    """Plan batches; `shuffle` draws sentences' places, and the order of rows, anew in each epoch."""
    super().__init__()
    kept = store.within(config.limits)
    refuse_nothing_left(kept, store, config, f'{config.limits[0]} tokens on one')
    self._store, self._seed, self._shuffle, self._sentences = store, seed, shuffle, kept
    self._sides = [side.lengths[kept] for side in (store.source, store.target)]
    room = capacities(*self._sides, config.packed_length)
    self._packing = pack(*self._sides, room, np.random.default_rng([seed]))
    shape = Shape(config.rows_of_lengths(*room), *room)
    self.shapes, self.dropped = [shape], len(store) - len(kept)
    self.batches_per_epoch = math.ceil(len(self._packing) / shape.rows)
    self._starts = EqualEpochs(self.batches_per_epoch)

  bounds = ('max_length', 'packed_length')

  @classmethod
  def limits(cls, config: BatchConfig) -> tuple[int, int]:
    """Return the longest source and target that are not left out; rows of held-out text are as long as the longest."""
    limit = config.max_length if config.training else min(config.max_length, config.packed_length)
    return limit, limit

  @classmethod
  def mistakes(cls, config: BatchConfig) -> Iterator[str]:
    """Yield why packing does not go with subword sampling, where that is on."""
    if config.subword_sampling != 'none':
      yield (f'batching packed with subword_sampling {config.subword_sampling!r}: which sentences share a row '
             'is decided once, from lengths that do not change; expected buckets, or subword_sampling none')

  @property
  def store(self) -> Store:
    """The tokens."""
    return self._store

  def _plan_epoch(self, number: int) -> '_PackedEpoch':
    rows = redealt(self._packing, *self._sides, np.random.default_rng([self._seed, number])
                   ) if self._shuffle else self._packing
    return _PackedEpoch(self.shapes[0], rows, self._sentences)

  def batch_at(self, step: int, host: int = 0, hosts: int = 1) -> tokens.Batch:
    """Return the batch at step n, or one host's rows of it."""
    epoch, place = self.locate(step)
    shape, members = self.epoch(epoch)[place]
    rows = shape.rows_of_host(hosts)
    mine = members[host * rows:(host + 1) * rows]
    lay = lambda side, length: tokens.pack([[side[i] for i in row] for row in mine], rows, length, filler=0)
    return tokens.Batch(lay(self._store.source, shape.source), lay(self._store.target, shape.target))

  def padding(self) -> float:
    """Return the share of an epoch's cells that are padding, empty rows included."""
    return 1.0 - sum(int(side.sum()) for side in self._sides) / (self.batches_per_epoch * self.shapes[0].size)

  def sentences_per_batch(self) -> float:
    """Return the mean number of sentence pairs in a batch."""
    return len(self._sentences) / self.batches_per_epoch

  def tokens_per_batch(self) -> float:
    """Return the mean number of real target tokens in a batch."""
    return int(self._sides[1].sum()) / self.batches_per_epoch


class _PackedEpoch:
  """The batches of an epoch of packed rows: of each, its shape and the sentences of each of its rows.

  A batch is made when it is accessed, because a list of all rows of a large corpus would take much memory.
  """

  def __init__(self, shape: Shape, rows: Packing, sentences: np.ndarray):
    self._shape, self._rows, self._sentences = shape, rows, sentences

  def __len__(self) -> int:
    return math.ceil(len(self._rows) / self._shape.rows)

  def __getitem__(self, place: int) -> tuple[Shape, list[np.ndarray]]:
    if not 0 <= place < len(self):
      raise IndexError(place)
    first = place * self._shape.rows
    numbers = range(first, min(first + self._shape.rows, len(self._rows)))
    return self._shape, [self._sentences[self._rows.row(number)] for number in numbers]
