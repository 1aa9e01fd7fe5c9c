"""The interface of every batch plan, the options of batching, and the registry of plans, `data.batching`.

A plan registers itself in BATCHINGS, next to its code. BatchConfig accepts only plans that have been imported, so
import it from `input_pipeline.py`, which imports all of them.
"""

import abc
import bisect
import contextlib
import dataclasses
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from batching.sampled import SampledStores
from batching.shapes import MOST, ROWS, Costs, Shape
from batching.store import Store
from checks.choices import Registry
from checks.errors import DataError
from checks.refusals import positive, refuse
from checks.whole_files import sealed, unsealed, write_whole
from transformer.classification import LabelledBatch
from transformer.tokens import Batch

BATCHINGS: Registry['type[Plan]'] = Registry('data.batching')  # each is made of (store, config, seed, shuffle)


@dataclasses.dataclass(frozen=True)
class BatchConfig:
  """How sentences become batches."""

  batching: str  # an entry of BATCHINGS
  batch_tokens: int  # rows × length of the longer side, padding included, is at most this; not for 'fixed'
  max_length: int  # tokens of either side, EOS included; longer pairs are left out and counted
  max_shapes: int | Costs = MOST  # most shapes of 'buckets', or what decides how many there are; each is compiled once
  fixed_rows: int | None = None  # the shape of every batch of 'fixed'
  fixed_source_length: int | None = None
  fixed_target_length: int | None = None
  accumulation_steps: int = 1  # micro-batches that a batch is to be split into
  row_multiple: int = ROWS  # rows of each micro-batch, and of each batch of evaluation, are a multiple of this
  packed_length: int = 256  # tokens of a packed row's longer side; longer pairs of training text are left out
  training: 'BatchConfig | None' = None  # of evaluation: the options that these were made of; see for_evaluation
  subword_sampling: str = 'none'

  def __post_init__(self):
    refuse(self._mistakes())

  def _mistakes(self) -> Iterator[str]:
    yield from BATCHINGS.mistakes(self.batching)
    yield from positive(**{name: getattr(self, name) for name in (
        'batch_tokens', 'max_length', 'max_shapes', 'accumulation_steps', 'packed_length')
        if not isinstance(getattr(self, name), Costs)})
    if self.row_multiple < 1 or self.row_multiple % ROWS:
      yield f'row_multiple is {self.row_multiple}; expected a positive multiple of {ROWS}'
    if self.batching in BATCHINGS:
      yield from BATCHINGS[self.batching].mistakes(self)

  def idle(self) -> dict[str, str]:
    """Return the fields that have no effect beside the others, each with the reason."""
    return BATCHINGS.idle(self.batching)

  @property
  def row_step(self) -> int:
    """The number that the rows of every batch are a multiple of."""
    return self.row_multiple * self.accumulation_steps

  @property
  def row_reason(self) -> str:
    """The reason for row_step, for messages."""
    multiple = f'{ROWS}' if self.row_multiple == ROWS else f'data.row_multiple = {self.row_multiple}'
    if self.accumulation_steps > 1:
      return f' ({multiple} for each of train.accumulation_steps = {self.accumulation_steps} micro-batches)'
    return '' if self.row_multiple == ROWS else f' ({multiple}, so that the devices can share them)'

  @property
  def divisible_rows(self) -> int:
    """The number that the rows of every micro-batch, and of every batch of evaluation, are a multiple of."""
    return BATCHINGS[self.batching].divisible_rows(self)

  @property
  def limits(self) -> tuple[int, int]:
    """The longest source and target that are not left out, in tokens."""
    return BATCHINGS[self.batching].limits(self)

  @property
  def lengths(self) -> dict[str, int]:
    """The options that say how long a row may be, with their values."""
    return {name: getattr(self, name) for name in BATCHINGS[self.batching].bounds}

  @property
  def bounds(self) -> str:
    """The same options for messages: 'data.max_length'."""
    return ' and '.join(f'data.{name}' for name in self.lengths)

  def rows_of_lengths(self, source: int, target: int) -> int:
    """Return the rows that a batch of sentences of these lengths may have. Raises DataError when there is no room."""
    rows = self.batch_tokens // max(source, target) // self.row_step * self.row_step
    if not rows:
      raise self.no_room('rows', max(source, target), f'{max(source, target)} tokens')
    return rows

  @property
  def of_held_out(self) -> str:
    """What messages say behind a noun where the plan is of held-out text."""
    return ' of held-out text' if self.training else ''

  def no_room(self, rows: str, tokens: int, longest: str) -> DataError:
    """Return the error when batch_tokens has no room for the fewest rows that a batch may have.

    Args:
      rows: what a batch's rows are, for people.
      tokens: of the longest row.
      longest: the same for people.
    """
    asked, of = self.training or self, self.of_held_out
    return DataError(f'train.batch_tokens {asked.batch_tokens} holds fewer than {asked.row_step} {rows}{asked.row_reason} '
                     f'of {longest}, the longest{of}; raise it to {asked.row_step * tokens} or lower '
                     f'{self.bounds}')

  def for_evaluation(self) -> 'BatchConfig':
    """Return the options of evaluation: batches as large as one micro-batch, in few shapes, to compile little.

    No pair of at most max_length tokens is left out, but for those that are longer than the one shape of 'fixed'.
    """
    return dataclasses.replace(
        self, accumulation_steps=1, max_shapes=min(4, self.max_shapes), training=self,
        batch_tokens=max(1, self.batch_tokens // self.accumulation_steps),
        fixed_rows=self.fixed_rows and max(self.row_multiple, self.fixed_rows // self.accumulation_steps))


class Plan(abc.ABC):
  """A batch plan: which sentences form the batch at step n, as a function of the text's lengths, the seed and n.

  Attributes:
    shapes: the distinct shapes, largest first.
    batches_per_epoch: steps of one epoch; with subword sampling, of the first.
    dropped: pairs left out because a side is empty or too long; with subword sampling, in the first epoch.
    max_shapes: the bound on the number of fitted shapes, given or chosen; None where shapes are not fitted.
  """

  bounds: ClassVar[tuple[str, ...]] = ('max_length',)  # the options of BatchConfig that say how long a row may be
  shapes: list[Shape]
  batches_per_epoch: int
  dropped: int
  max_shapes: int | None = None

  @property
  def store(self) -> Store | None:
    """The tokens; with subword sampling, those of the first epoch. None where they lie in memory alone."""
    return None

  def __init__(self):
    self._lock = threading.RLock()
    self._remembered = functools.lru_cache(maxsize=2)(self._plan_epoch)
    self._starts: EqualEpochs | CountedEpochs | None = None  # set once the first epoch's length is known

  @classmethod
  def mistakes(cls, config: BatchConfig) -> Iterator[str]:
    """Yield a sentence for each option that does not fit this plan."""
    return iter(())

  @property
  def fewest_rows(self) -> int:
    """The fewest rows that a batch has."""
    return min(shape.rows for shape in self.shapes)

  @classmethod
  def limits(cls, config: BatchConfig) -> tuple[int, int]:
    """Return the longest source and target that are not left out, in tokens."""
    return config.max_length, config.max_length

  @classmethod
  def divisible_rows(cls, config: BatchConfig) -> int:
    """Return the number that the rows of every micro-batch, and of every batch of evaluation, are a multiple of."""
    return config.row_multiple

  @abc.abstractmethod
  def _plan_epoch(self, number: int) -> Sequence[tuple[Shape, Sequence[int]]]:
    """Return the batches of an epoch; epoch() caches them."""

  @abc.abstractmethod
  def batch_at(self, step: int, host: int = 0, hosts: int = 1) -> Batch | LabelledBatch:
    """Return the batch at step n, or one host's rows of it."""

  @abc.abstractmethod
  def padding(self) -> float:
    """Return the share of an epoch's cells that are padding, empty rows included."""

  @abc.abstractmethod
  def sentences_per_batch(self) -> float:
    """Return the mean number of sentence pairs in a batch."""

  @abc.abstractmethod
  def tokens_per_batch(self) -> float:
    """Return the mean number of real target tokens in a batch."""

  def cells(self, shape: Shape) -> int:
    """Return the number of target tokens that a batch of a shape has room for."""
    return shape.rows * shape.target

  def epoch(self, number: int) -> Sequence[tuple[Shape, Sequence[int]]]:
    """Return the batches of an epoch in order, each a shape and the numbers of the sentences in its rows."""
    with self._lock:
      return self._remembered(number)

  def locate(self, step: int) -> tuple[int, int]:
    """Return the epoch of the batch at step n, and its place there."""
    with self._lock:
      return self._starts.locate(step)

  def epochs_done(self, steps: int) -> float:
    """Return how many times the text has been read after so many steps, at least one."""
    epoch, place = self.locate(steps - 1)
    return epoch + (place + 1) / len(self.epoch(epoch))

  def shape_at(self, step: int) -> Shape:
    """Return the shape of the batch at step n."""
    epoch, place = self.locate(step)
    return self.epoch(epoch)[place][0]

  def first_uses(self, start: int, stop: int | None = None) -> Iterator[tuple[Shape, int]]:
    """Yield each shape of the batches from step `start` to the end of its epoch, with the first step that has it.

    Args:
      start: a step.
      stop: the step at which the run ends; None where that is not known.
    """
    number, place = self.locate(start)
    batches, left = self.epoch(number), set(self.shapes)
    end = len(batches) if stop is None else min(len(batches), place + stop - start)
    for here in range(place, end):
      if (shape := batches[here][0]) in left:
        left.remove(shape)
        yield shape, start + here - place
      if not left:
        return


class EqualEpochs(NamedTuple):
  """Epochs of one length."""

  batches: int

  def locate(self, step: int) -> tuple[int, int]:
    """Return (epoch, place in it) of a step."""
    return divmod(step, self.batches)


class CountedEpochs:
  """Epochs of different lengths; an epoch's number of batches is known once its text is tokenised.

  The numbers are kept in a file, so that a resumed run need not tokenise past epochs. Where the file is lost or damaged,
  they are counted again, which takes as long as it took to tokenise them, and a note says so.
  """

  def __init__(self, count: Callable[[int], int], path: str):
    """Read the file `path`, where it exists; count(epoch) returns an epoch's number of batches."""
    self._count, self._path = count, path
    self._starts = [0]  # the first step of each epoch whose predecessors have been counted
    with contextlib.suppress(OSError, ValueError, KeyError), open(path, encoding='utf-8') as file:
      self._starts = unsealed(file.read())['starts']

  def locate(self, step: int) -> tuple[int, int]:
    """Return (epoch, place in it) of a step."""
    while self._starts[-1] <= step:
      if len(self._starts) == 2 and step >= 2 * self._starts[1]:
        print(f'Tokenising the text of about {step // self._starts[1]} past epochs again, to know where each begins: the file that '
              f'said so, {self._path}, is lost', flush=True)
      self._starts.append(self._starts[-1] + self._count(len(self._starts) - 1))
      with contextlib.suppress(FileNotFoundError):  # another process of the run has put its own there, which says the same
        write_whole(self._path, sealed({'starts': self._starts}))
    epoch = bisect.bisect_right(self._starts, step) - 1
    return epoch, step - self._starts[epoch]


def refuse_nothing_left(kept: np.ndarray, store: Store | SampledStores, config: BatchConfig, limits: str) -> None:
  """Raise DataError when no sentence pair is short enough for a plan; `limits` says how long they may be."""
  if not len(kept):
    raise DataError(f'no sentence pair{config.of_held_out} is left: all {len(store.at(0))} have an empty side or more than {limits}; raise '
                    f'{config.bounds}')
