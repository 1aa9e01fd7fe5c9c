"""Batches of labelled examples, each with one sequence or, for a choice among answers, several."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from batching.plan import BATCHINGS, BatchConfig, EqualEpochs, Plan
from batching.shapes import Shape
from batching.store import Side, Store
from transformer import tokens
from transformer.classification import LabelledBatch


class LabelledPlan(Plan):
  """A plan of labelled examples, by the length of each example's longest sequence."""

  def __init__(self, sequences: Sequence[Sequence[Sequence[int]]], labels: Sequence[int], config: BatchConfig,
               seed: int, shuffle: bool = True):
    """Plan batches whose rows are examples.

    Args:
      sequences: for each example, the token ids of its sequences, equally many for all.
      labels: for each example.
      config: its batch_tokens bounds rows × sequences of an example × their length.
      seed, shuffle: as in the other plans.

    Raises:
      DataError: when batch_tokens has no room for a row of each device.
    """
    super().__init__()
    self._sequences, self._labels, self._each = sequences, np.array(labels, np.int32), len(sequences[0])
    longest = np.array([max(map(len, example)) for example in sequences])
    least = config.row_step * self._each * int(longest.max())
    if config.batching == 'buckets' and config.batch_tokens < least:
      raise config.no_room('examples', self._each * int(longest.max()), f'{self._each} × {longest.max()} tokens')
    side = Side(np.zeros(0, np.int32), np.concatenate([[0], np.cumsum(longest)]))  # only the lengths are used
    config = dataclasses.replace(config, batch_tokens=config.batch_tokens // self._each)
    self._rows = BATCHINGS[config.batching](Store(side, side, ''), config, seed, shuffle)
    self.shapes, self.dropped, self.max_shapes = self._rows.shapes, self._rows.dropped, self._rows.max_shapes
    self.batches_per_epoch = self._rows.batches_per_epoch
    self._starts = EqualEpochs(self.batches_per_epoch)

  def _plan_epoch(self, number: int) -> Sequence[tuple[Shape, Sequence[int]]]:
    return self._rows.epoch(number)

  def batch_at(self, step: int, host: int = 0, hosts: int = 1) -> LabelledBatch:
    """Return the batch at step n, or one host's rows of it."""
    epoch, place = self.locate(step)
    shape, examples = self.epoch(epoch)[place]
    rows = shape.rows_of_host(hosts)
    mine = examples[host * rows:(host + 1) * rows]
    flat = tokens.pad([ids for i in mine for ids in self._sequences[i]], rows * self._each, shape.target, filler=0)
    labels = np.zeros(rows, np.int32)
    labels[:len(mine)] = self._labels[mine]
    return LabelledBatch(
        tokens.Tokens(*(leaf.reshape(rows, self._each, shape.target) for leaf in flat)), labels,
        np.arange(rows) < len(mine))

  def cells(self, shape: Shape) -> int:
    """Return the number of tokens that a batch of a shape has room for."""
    return shape.rows * self._each * shape.target

  def padding(self) -> float:
    """Return the share of an epoch's cells that are padding, empty rows included."""
    real = sum(len(ids) for _, examples in self.epoch(0) for i in examples for ids in self._sequences[i])
    return 1.0 - real / sum(self.cells(shape) for shape, _ in self.epoch(0))

  def sentences_per_batch(self) -> float:
    """Return the mean number of examples in a batch."""
    return self._rows.sentences_per_batch()

  def tokens_per_batch(self) -> float:
    """Return the mean number of real tokens in a batch."""
    return (1.0 - self.padding()) * sum(self.cells(shape) for shape, _ in self.epoch(0)) / self.batches_per_epoch
