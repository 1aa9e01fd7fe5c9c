"""From a corpus to batches: corpus -> token store -> batch plan -> the batch at step n.

Text is tokenised once into a store on disk (ids and offsets, memory-mapped), named by a hash of everything that made
it. From the sentences' lengths alone a plan says which sentences form which batch of which epoch. So the batch at
step n is a pure function of (seed, n): the iterator's whole state is one integer, and neither a restart nor the
number of hosts changes what is trained on.
"""

import dataclasses
import functools
import hashlib
import itertools
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import grain.python as grain
import numpy as np

import corpora
from corpora.errors import DataError
from transformer import tokens

ROWS = 8  # rows of every batch are a multiple of this, so that a mesh of 1, 2, 4 or 8 divides them
_STORE_VERSION = 2  # raised when the same text would be stored in another way
_GRID = 48  # values per side among which the fitted shapes' lengths are chosen


# ------------------------------------------------------------------------------------------------ the token store


class Side(NamedTuple):
  """One language of a store: sentence i is ids[offsets[i]:offsets[i + 1]], EOS included."""

  ids: np.ndarray  # [total] int32
  offsets: np.ndarray  # [sentences + 1] int64

  def __getitem__(self, sentence: int) -> np.ndarray:
    return self.ids[self.offsets[sentence]:self.offsets[sentence + 1]]

  @property
  def lengths(self) -> np.ndarray:
    """[sentences] tokens, EOS included."""
    return np.diff(self.offsets)


class Store(NamedTuple):
  """A tokenised split, memory-mapped."""

  source: Side
  target: Side
  fingerprint: str  # of the text and both vocabularies

  def __len__(self) -> int:
    return len(self.source.offsets) - 1


def store_fingerprint(split: corpora.Split, source_vocabulary, target_vocabulary) -> str:
  """Hash of everything that decides a store's content."""
  parts = [_STORE_VERSION, split.fingerprint, source_vocabulary.fingerprint, target_vocabulary.fingerprint]
  return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:20]


def open_store(split: corpora.Split, source_vocabulary, target_vocabulary, folder: str, progress=None) -> Store:
  """The store of a split: read when it is there, made otherwise. Nothing half-written is ever taken for a store.

  Args:
    split: the sentence pairs.
    source_vocabulary, target_vocabulary: corpora.vocabulary.Vocabulary of each side.
    folder: where stores lie; each in a folder named by its fingerprint.
    progress: wraps the iterator over pairs, for a progress bar.
  """
  fingerprint = store_fingerprint(split, source_vocabulary, target_vocabulary)
  place = os.path.join(folder, fingerprint)
  if not os.path.isdir(place):
    os.makedirs(folder, exist_ok=True)
    unfinished = tempfile.mkdtemp(prefix=f'{fingerprint}.unfinished-', dir=folder)
    try:
      _write_store(split, source_vocabulary, target_vocabulary, unfinished, progress)
      os.rename(unfinished, place)
    except BaseException:
      shutil.rmtree(unfinished, ignore_errors=True)
      if not os.path.isdir(place):  # else another process was faster, and its store is as good
        raise
  side = lambda name: Side(np.load(os.path.join(place, f'{name}.ids.npy'), mmap_mode='r'),
                           np.load(os.path.join(place, f'{name}.offsets.npy')))
  return Store(side('source'), side('target'), fingerprint)


def _write_store(split, source_vocabulary, target_vocabulary, place, progress, chunk=4096) -> None:
  sides = {'source': source_vocabulary, 'target': target_vocabulary}
  ids, lengths = {name: [] for name in sides}, {name: [] for name in sides}
  pairs = iter(progress(split) if progress else split)
  while texts := list(itertools.islice(pairs, chunk)):
    for name, vocabulary in sides.items():
      encoded = vocabulary.encode_batch([getattr(pair, name) for pair in texts])
      lengths[name] += [len(sentence) + 1 for sentence in encoded]
      ids[name].append(np.fromiter(
          (token for sentence in encoded for token in (*sentence, vocabulary.eos_id)), np.int32))
  for name in sides:
    flat = np.concatenate(ids[name]) if ids[name] else np.zeros(0, np.int32)
    np.save(os.path.join(place, f'{name}.ids.npy'), flat)
    np.save(os.path.join(place, f'{name}.offsets.npy'), np.concatenate([[0], np.cumsum(lengths[name])]).astype(np.int64))


# -------------------------------------------------------------------------------------------------- the batch plan


@dataclasses.dataclass(frozen=True)
class BatchConfig:
  """How sentences become batches."""

  batching: str  # 'buckets': shapes fitted to the corpus; 'fixed': one shape for all
  batch_tokens: int  # rows × length of the longer side, padding included, is at most this; 'buckets' only
  max_length: int  # tokens of either side, EOS included; longer pairs are left out and counted
  max_shapes: int = 16  # each shape is compiled once
  fixed_rows: int | None = None  # the three numbers of 'fixed'
  fixed_source_length: int | None = None
  fixed_target_length: int | None = None

  def __post_init__(self):
    if self.batching not in ('buckets', 'fixed'):
      raise ValueError(f'batching is {self.batching!r}; expected buckets or fixed')
    if self.batching == 'fixed' and None in (self.fixed_rows, self.fixed_source_length, self.fixed_target_length):
      raise ValueError('batching fixed needs fixed_rows, fixed_source_length and fixed_target_length')
    if self.batching == 'fixed' and self.fixed_rows % ROWS:
      raise ValueError(f'fixed_rows is {self.fixed_rows}; expected a multiple of {ROWS}')
    for name in ('batch_tokens', 'max_length', 'max_shapes'):
      if getattr(self, name) < 1:
        raise ValueError(f'{name} is {getattr(self, name)}; expected a positive number')


class Shape(NamedTuple):
  """Rows and lengths of a batch."""

  rows: int
  source: int
  target: int

  @property
  def size(self) -> int:
    """Cells of both sides."""
    return self.rows * (self.source + self.target)


def fit_lengths(source: np.ndarray, target: np.ndarray, count: int) -> list[tuple[int, int]]:
  """At most `count` (source, target) rectangles that hold all sentences with little padding.

  Greedy: the rectangle that saves most is added to the one that holds everything, until there are `count`; then
  each is moved in turn to the best place near its own, until nothing improves. A sentence counts for the cheapest
  rectangle that holds it.

  Args:
    source, target: [sentences] lengths.
    count: at least 1.
  """
  grid_s, grid_t = _grid(source), _grid(target)
  crowd = np.zeros((len(grid_s), len(grid_t)))
  np.add.at(crowd, (np.searchsorted(grid_s, source), np.searchsorted(grid_t, target)), 1)
  cost = grid_s[:, None] + grid_t[None, :]  # of a sentence in the rectangle of each grid point
  places = list(zip(*np.nonzero(np.ones_like(crowd))))

  def covered(chosen):
    """[grid, grid] cheapest cost of each cell."""
    current = np.full(crowd.shape, np.inf)
    for i, j in chosen:
      current[:i + 1, :j + 1] = np.minimum(current[:i + 1, :j + 1], cost[i, j])
    return current

  def best_addition(current):
    gains = [(crowd[:i + 1, :j + 1] * np.maximum(current[:i + 1, :j + 1] - cost[i, j], 0)).sum() for i, j in places]
    best = int(np.argmax(gains))
    return places[best], gains[best]

  whole = (len(grid_s) - 1, len(grid_t) - 1)
  chosen = [whole]
  while len(chosen) < count:
    place, gain = best_addition(covered(chosen))
    if not gain:
      break
    chosen.append(place)
  near = [(i, j) for i in range(-2, 3) for j in range(-2, 3)]
  improved = True
  while improved:
    improved = False
    for index, (i, j) in list(enumerate(chosen))[1:]:
      moves = {(min(max(i + di, 0), whole[0]), min(max(j + dj, 0), whole[1])) for di, dj in near}
      rest = covered(chosen[:index] + chosen[index + 1:])
      gains = {(a, b): (crowd[:a + 1, :b + 1] * np.maximum(rest[:a + 1, :b + 1] - cost[a, b], 0)).sum()
               for a, b in sorted(moves)}
      best = max(gains, key=gains.get)
      if gains[best] > gains[i, j]:
        chosen[index], improved = best, True
  return sorted((int(grid_s[i]), int(grid_t[j])) for i, j in chosen)


def _grid(lengths: np.ndarray) -> np.ndarray:
  """The distinct lengths, thinned to quantiles when there are many; the longest is always among them."""
  values = np.unique(lengths)
  if len(values) > _GRID:
    values = np.unique(np.quantile(lengths, np.linspace(0, 1, _GRID), method='higher'))
  return np.unique(np.append(values, lengths.max()))


class _Member(NamedTuple):
  """One shape of the plan with the sentences that belong to it."""

  shape: Shape
  sentences: np.ndarray  # indices into the store
  larger: int | None  # place of the cheapest shape that holds this one; what fills no batch here moves there


class Plan:
  """Which sentences form the batch at step n.

  Epochs have the same number of batches. Sentences of a shape that do not fill a last batch ride, that epoch, in
  the next longer shape, so that only the longest shape, which holds every sentence, has a batch with empty rows.

  Attributes:
    shapes: the distinct shapes, largest first.
    batches_per_epoch: steps of one epoch.
    dropped: pairs left out because a side is empty or too long.
  """

  def __init__(self, store: Store, config: BatchConfig, seed: int, shuffle: bool = True):
    self._store, self._seed, self._shuffle = store, seed, shuffle
    source, target = store.source.lengths, store.target.lengths
    limit_s, limit_t = ((config.fixed_source_length, config.fixed_target_length) if config.batching == 'fixed'
                        else (config.max_length, config.max_length))
    kept = np.flatnonzero((source <= limit_s) & (target <= limit_t) & (source > 1) & (target > 1))
    self.dropped = len(store) - len(kept)
    if not len(kept):
      raise DataError(f'no sentence pair is left: all {len(store)} have an empty side or more than {limit_s} source '
                      f'or {limit_t} target tokens; raise data.max_length')
    if config.batching == 'fixed':
      shapes = [Shape(config.fixed_rows, limit_s, limit_t)]
    else:
      shapes = [Shape(_rows(config.batch_tokens, s, t), s, t)
                for s, t in fit_lengths(source[kept], target[kept], config.max_shapes)]
    self._members = _assign(kept, source[kept], target[kept], shapes)
    self.shapes = sorted((member.shape for member in self._members), key=lambda s: (s.size, s.target), reverse=True)
    self._lengths = source, target
    self.batches_per_epoch = len(self.epoch(0))

  @functools.lru_cache(maxsize=2)
  def epoch(self, number: int) -> list[tuple[Shape, np.ndarray]]:
    """The batches of an epoch in order, each a shape and the sentences of its rows."""
    batches, carried = [], {}
    for place, member in enumerate(self._members):
      draw = np.random.default_rng([self._seed, number, place])
      sentences = np.concatenate([member.sentences, *carried.pop(place, [])])
      if self._shuffle:
        sentences = draw.permutation(sentences)
      rows = member.shape.rows
      whole = len(sentences) if member.larger is None else len(sentences) - len(sentences) % rows
      batches += [(member.shape, sentences[start:start + rows]) for start in range(0, whole, rows)]
      if whole < len(sentences):
        carried.setdefault(member.larger, []).append(sentences[whole:])
    if self._shuffle:
      order = np.random.default_rng([self._seed, number, len(self._members)]).permutation(len(batches))
      batches = [batches[i] for i in order]
    if number == 0:  # whatever does not fit into memory shall fail at step 0
      first = max(range(len(batches)), key=lambda i: (batches[i][0].size, batches[i][0].target))
      batches[0], batches[first] = batches[first], batches[0]
    return batches

  def shape_at(self, step: int) -> Shape:
    """Shape of the batch at step n."""
    return self.epoch(step // self.batches_per_epoch)[step % self.batches_per_epoch][0]

  def batch_at(self, step: int, host: int = 0, hosts: int = 1) -> tokens.Batch:
    """The batch at step n, or one host's rows of it."""
    shape, sentences = self.epoch(step // self.batches_per_epoch)[step % self.batches_per_epoch]
    if shape.rows % hosts:
      raise DataError(f'batches of {shape.rows} rows do not divide over {hosts} hosts')
    rows = shape.rows // hosts
    mine = sentences[host * rows:(host + 1) * rows]
    pad = lambda side, length: tokens.pad([side[i] for i in mine], rows, length, filler=0)
    return tokens.Batch(pad(self._store.source, shape.source), pad(self._store.target, shape.target))

  def padding(self) -> float:
    """Share of an epoch's cells that are padding, empty rows included."""
    real = sum(int(side[member.sentences].sum()) for member in self._members for side in self._lengths)
    return 1.0 - real / sum(shape.size for shape, _ in self.epoch(0))

  def sentences_per_batch(self) -> float:
    """Mean number of sentence pairs in a batch."""
    return sum(len(member.sentences) for member in self._members) / self.batches_per_epoch


def _rows(batch_tokens: int, source: int, target: int) -> int:
  rows = batch_tokens // max(source, target) // ROWS * ROWS
  if not rows:
    raise DataError(f'train.batch_tokens {batch_tokens} holds fewer than {ROWS} rows of {max(source, target)} tokens, '
                    f'the longest sentences; raise it to {ROWS * max(source, target)} or lower data.max_length')
  return rows


def _assign(kept, source, target, shapes: Sequence[Shape]) -> list[_Member]:
  """Each sentence to the cheapest shape that holds it; shapes from small to large, so that leftovers move onwards."""
  shapes = sorted(shapes, key=lambda shape: (shape.source + shape.target, shape.source))
  home = np.full(len(kept), -1)
  for place, shape in reversed(list(enumerate(shapes))):
    home[(source <= shape.source) & (target <= shape.target)] = place
  used = [place for place in range(len(shapes)) if (home == place).any() or place == len(shapes) - 1]
  members = []
  for rank, place in enumerate(used):
    larger = [r for r, p in enumerate(used) if r > rank and shapes[p].source >= shapes[place].source
              and shapes[p].target >= shapes[place].target]
    members.append(_Member(shapes[place], kept[home == place], larger[0] if larger else None))
  return members


def batches(plan: Plan, start: int, stop: int, host: int = 0, hosts: int = 1, num_threads: int = 2
            ) -> Iterator[tokens.Batch]:
  """Batches start … stop - 1, prepared ahead by threads (no worker processes; nothing of their state is saved)."""
  at = functools.partial(plan.batch_at, host=host, hosts=hosts)
  options = grain.ReadOptions(num_threads=num_threads, prefetch_buffer_size=2 * num_threads)
  return iter(grain.MapDataset.range(start, stop).map(at).to_iter_dataset(options))
