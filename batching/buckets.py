"""Batches of sentences of similar lengths, in shapes fitted to the corpus (§5.1); or all batches of one fixed shape."""

import dataclasses
import hashlib
import json
import math
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from batching.plan import BATCHINGS, BatchConfig, CountedEpochs, EqualEpochs, Plan, refuse_nothing_left
from batching.sampled import SampledStores
from batching.shapes import Costs, Shape, count_that_pays, fit_lengths
from batching.store import Store
from checks.refusals import positive
from transformer import tokens

_ROOM = 1.5  # with subword sampling: the longest length that the shapes hold, over the longest in the first epoch


class _Bucket(NamedTuple):
  """One shape of the plan with the sentences that belong to it."""

  shape: Shape
  sentences: np.ndarray  # indices into the store
  larger: int | None  # index of the cheapest bucket that holds these; those that fill no batch move there


@BATCHINGS.register('buckets', 'shapes fitted to the corpus', uses=('max_shapes', 'batch_tokens'))
class BucketPlan(Plan):
  """A plan in which sentences of similar lengths share a batch.

  In each epoch, the sentences of a shape that do not fill its last batch move to the next longer shape, so that only
  the longest shape, which holds every sentence, has a batch with empty rows. All epochs have the same number of
  batches; with subword sampling their numbers differ, since lengths do.
  """

  def __init__(self, store: Store | SampledStores, config: BatchConfig, seed: int, shuffle: bool = True):
    """Plan batches; `shuffle` draws which sentences share one, and their order, anew in each epoch."""
    super().__init__()
    self._store, self._seed, self._shuffle = store, seed, shuffle
    first, limits = store.at(0), config.limits
    kept = first.within(limits)
    self.dropped = len(first) - len(kept)
    refuse_nothing_left(kept, store, config, f'{limits[0]} source or {limits[1]} target tokens')
    lengths = first.source.lengths[kept], first.target.lengths[kept]
    if isinstance(config.max_shapes, Costs):
      config = dataclasses.replace(config, max_shapes=count_that_pays(*lengths, config.max_shapes))
    self.max_shapes = config.max_shapes
    shapes = self._fit(*lengths, config)
    # Sentences longer than the largest shape are left out: by max_length or, where lengths change, in that epoch.
    held = max(shape.source for shape in shapes), max(shape.target for shape in shapes)
    self._buckets = lambda epoch: _assign(store.at(epoch).within(held), store.at(epoch), shapes)
    self._first = self._buckets(0)
    used = shapes if store.changing else [bucket.shape for bucket in self._first]
    self.shapes = sorted(used, key=lambda s: (s.size, s.target), reverse=True)
    self._lengths = first.source.lengths, first.target.lengths
    self.batches_per_epoch = len(self.epoch(0))
    self._starts = (CountedEpochs(lambda number: len(self.epoch(number)), _counts_path(store, config, seed))
                    if store.changing else EqualEpochs(self.batches_per_epoch))

  def _fit(self, source: np.ndarray, target: np.ndarray, config: BatchConfig) -> list[Shape]:
    """Return the shapes for sentences of these lengths; for lengths that change, with room for longer ones."""
    if self._store.changing:
      most = config.batch_tokens // config.row_step  # a longer sentence would not fit into any batch
      source, target = (np.append(lengths, max(lengths.max(), min(limit, most, math.ceil(_ROOM * lengths.max()))))
                        for lengths, limit in zip((source, target), config.limits))
    fitted = fit_lengths(source, target, config.max_shapes)
    config.rows_of_lengths(*map(max, zip(*fitted)))  # where there is no room, of the longest: what the message names
    return [Shape(config.rows_of_lengths(s, t), s, t) for s, t in fitted]

  @property
  def store(self) -> Store:
    """The tokens; with subword sampling, those of the first epoch."""
    return self._store.at(0)

  def _plan_epoch(self, number: int) -> list[tuple[Shape, np.ndarray]]:
    buckets = self._buckets(number) if number and self._store.changing else self._first
    batches, carried = [], {}
    for place, bucket in enumerate(buckets):
      draw = np.random.default_rng([self._seed, number, place])
      sentences = np.concatenate([bucket.sentences, *carried.pop(place, [])])
      if self._shuffle:
        sentences = draw.permutation(sentences)
      rows = bucket.shape.rows
      whole = len(sentences) if bucket.larger is None else len(sentences) - len(sentences) % rows
      batches += [(bucket.shape, sentences[start:start + rows]) for start in range(0, whole, rows)]
      if whole < len(sentences):
        carried.setdefault(bucket.larger, []).append(sentences[whole:])
    if self._shuffle:
      order = np.random.default_rng([self._seed, number, len(buckets)]).permutation(len(batches))
      batches = [batches[i] for i in order]
    if number == 0:  # the largest batch comes first, so that a lack of memory shows at step 0
      first = max(range(len(batches)), key=lambda i: (batches[i][0].size, batches[i][0].target))
      batches[0], batches[first] = batches[first], batches[0]
    return batches

  def batch_at(self, step: int, host: int = 0, hosts: int = 1) -> tokens.Batch:
    """Return the batch at step n, or one host's rows of it."""
    epoch, place = self.locate(step)
    shape, sentences = self.epoch(epoch)[place]
    store = self._store.at(epoch)
    if self._store.changing:
      self._store.make_ahead(epoch + 1)
    rows = shape.rows_of_host(hosts)
    mine = sentences[host * rows:(host + 1) * rows]
    pad = lambda side, length: tokens.pad([side[i] for i in mine], rows, length, filler=0)
    return tokens.Batch(pad(store.source, shape.source), pad(store.target, shape.target))

  def padding(self) -> float:
    """Return the share of an epoch's cells that are padding, empty rows included."""
    real = sum(int(side[bucket.sentences].sum()) for bucket in self._first for side in self._lengths)
    return 1.0 - real / sum(shape.size for shape, _ in self.epoch(0))

  def sentences_per_batch(self) -> float:
    """Return the mean number of sentence pairs in a batch."""
    return sum(len(bucket.sentences) for bucket in self._first) / self.batches_per_epoch

  def tokens_per_batch(self) -> float:
    """Return the mean number of real target tokens in a batch."""
    return sum(int(self._lengths[1][bucket.sentences].sum()) for bucket in self._first) / self.batches_per_epoch


@BATCHINGS.register('fixed', 'one shape for all', uses=('fixed_rows', 'fixed_source_length', 'fixed_target_length'))
class FixedPlan(BucketPlan):
  """A plan in which every batch has the shape that the options name."""

  bounds = ('fixed_source_length', 'fixed_target_length')

  @classmethod
  def mistakes(cls, config: BatchConfig) -> Iterator[str]:
    """Yield a sentence where the three sizes are missing or do not fit."""
    if None in (config.fixed_rows, config.fixed_source_length, config.fixed_target_length):
      yield 'batching fixed needs fixed_rows, fixed_source_length and fixed_target_length'
      return
    yield from positive(fixed_rows=config.fixed_rows, fixed_target_length=config.fixed_target_length)
    if config.fixed_source_length < 0:  # text without a source has 0
      yield f'fixed_source_length is {config.fixed_source_length}; expected the tokens that a source is padded to'
    if config.row_step > 0 and config.fixed_rows % config.row_step:
      yield f'fixed_rows is {config.fixed_rows}; expected a multiple of {config.row_step}{config.row_reason}'

  @classmethod
  def divisible_rows(cls, config: BatchConfig) -> int:
    """Return the rows of a micro-batch: all have as many."""
    return config.fixed_rows // config.accumulation_steps

  @classmethod
  def limits(cls, config: BatchConfig) -> tuple[int, int]:
    """Return the longest source and target that the shape holds."""
    return config.fixed_source_length, config.fixed_target_length

  def _fit(self, source: np.ndarray, target: np.ndarray, config: BatchConfig) -> list[Shape]:
    return [Shape(config.fixed_rows, *config.limits)]


def _counts_path(stores: SampledStores, config: BatchConfig, seed: int) -> str:
  """Return the file that keeps the first steps of epochs, named by everything that decides them."""
  # Earlier versions had a field `stretched` in place of `training`, and files keep their names.
  named = {'stretched' if name == 'training' else name: value for name, value in dataclasses.asdict(config).items()}
  parts = [stores.at(0).fingerprint, named | {'stretched': False}, seed]
  return os.path.join(stores.folder, f'starts_{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:20]}.json')


def _assign(kept: np.ndarray, store: Store, shapes: Sequence[Shape]) -> list[_Bucket]:
  """Put each sentence into the cheapest shape that holds it; shapes from small to large, so that leftovers move on."""
  source, target = store.source.lengths[kept], store.target.lengths[kept]
  shapes = sorted(shapes, key=lambda shape: (shape.source + shape.target, shape.source))
  home = np.full(len(kept), -1)
  for place, shape in reversed(list(enumerate(shapes))):
    home[(source <= shape.source) & (target <= shape.target)] = place
  used = [place for place in range(len(shapes)) if (home == place).any() or place == len(shapes) - 1]
  buckets = []
  for rank, place in enumerate(used):
    larger = [r for r, p in enumerate(used) if r > rank and shapes[p].source >= shapes[place].source
              and shapes[p].target >= shapes[place].target]
    buckets.append(_Bucket(shapes[place], kept[home == place], larger[0] if larger else None))
  return buckets
