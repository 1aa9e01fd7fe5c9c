"""From a corpus to batches: corpus -> token store -> batch plan -> the batch at step n.

Text is tokenised once into a store on disk (ids and offsets, memory-mapped), named by a hash of everything that made
it. From the sentences' lengths alone a plan says which sentences form which batch of which epoch. So the batch at
step n is a pure function of (seed, n): the iterator's whole state is one integer, and neither a restart nor the
number of hosts changes what is trained on. With subword sampling each epoch has a store of its own, made ahead.
"""

import bisect
import concurrent.futures
import dataclasses
import functools
import hashlib
import itertools
import json
import math
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import grain.python as grain
import numpy as np

import corpora
import packing
from checks.errors import DataError
from checks.refusals import refuse
from checks.whole_files import write_whole
from transformer import classification, tokens

ROWS = 8  # rows of every batch are a multiple of this, so that a mesh of 1, 2, 4 or 8 divides them
_STORE_VERSION = 2  # raised when the same text would be stored in another way
_GRID = 48  # values per side among which the fitted shapes' lengths are chosen
_ROOM = 1.5  # with subword sampling: longest length that the shapes hold, times the longest of the first epoch


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
  shortest: tuple[int, int] = (2, 2)  # tokens of a source and of a target that is not empty: more than an EOS
  changing = False  # whether each epoch has other ids

  def at(self, epoch: int) -> 'Store':
    """The store that an epoch reads: this one."""
    return self

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
  return _open(store_fingerprint(split, source_vocabulary, target_vocabulary), folder,
               lambda place: _write_store(split, source_vocabulary, target_vocabulary, place, progress))


def open_text_store(split: corpora.TextSplit, vocabulary, length: int, folder: str, progress=None) -> Store:
  """The store of running text: documents, each ended by EOS, cut into blocks of `length` tokens.

  A block goes on where the one before it ended; a document's last block is as long as what is left of it. Blocks are
  targets; their sources have no tokens at all.

  Args:
    split: the documents.
    vocabulary: corpora.vocabulary.Vocabulary.
    length: tokens of a block.
    folder, progress: as in open_store; progress counts documents.
  """
  parts = [_STORE_VERSION, 'blocks', length, split.fingerprint, vocabulary.fingerprint]
  fingerprint = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:20]
  return _open(fingerprint, folder, lambda place: _write_blocks(split, vocabulary, length, place, progress),
               shortest=(0, 1))


def _open(fingerprint: str, folder: str, write: Callable[[str], None], shortest: tuple[int, int] = (2, 2)) -> Store:
  """The store of that fingerprint; write(folder) makes it where it is not there."""
  place = os.path.join(folder, fingerprint)
  if not os.path.isdir(place):
    os.makedirs(folder, exist_ok=True)
    unfinished = tempfile.mkdtemp(prefix=f'{fingerprint}.unfinished-', dir=folder)
    try:
      write(unfinished)
      os.rename(unfinished, place)
    except BaseException:
      shutil.rmtree(unfinished, ignore_errors=True)
      if not os.path.isdir(place):  # else another process was faster, and its store is as good
        raise
  side = lambda name: Side(_load(os.path.join(place, f'{name}.ids.npy'), 'r'),
                           _load(os.path.join(place, f'{name}.offsets.npy')))
  return Store(side('source'), side('target'), fingerprint, shortest)


def _load(path: str, mmap_mode: str | None = None) -> np.ndarray:
  """One array of a store. NumPy reads no pickled objects here, and no more than there is."""
  try:
    return np.load(path, mmap_mode=mmap_mode)
  except (ValueError, OSError, EOFError) as error:
    raise DataError(f'{path} is damaged ({error}); delete its folder: it is made again') from None


def _write_store(split, source_vocabulary, target_vocabulary, place, progress, chunk=4096) -> None:
  sides = {'source': source_vocabulary, 'target': target_vocabulary}
  ids, lengths = {name: [] for name in sides}, {name: [] for name in sides}
  pairs = iter(progress(split) if progress else split)
  while texts := list(itertools.islice(pairs, chunk)):
    first = len(lengths['source'])
    for name, vocabulary in sides.items():
      encoded = vocabulary.encode_batch([getattr(pair, name) for pair in texts], first)
      lengths[name] += [len(sentence) + 1 for sentence in encoded]
      ids[name].append(np.fromiter(
          (token for sentence in encoded for token in (*sentence, vocabulary.eos_id)), np.int32))
  for name in sides:
    _write_side(place, name, ids[name], lengths[name])


def _write_blocks(split, vocabulary, length, place, progress) -> None:
  ids, lengths = [], []
  for text in progress(split) if progress else split:
    document = np.array([*vocabulary.encode_document(text), vocabulary.eos_id], np.int32)
    if (document == vocabulary.unk_id).any():
      raise DataError(f'{split.name}: the vocabulary knows no entry for some of the text; perplexity would count less '
                      'than there is. Give one that has bytes (vocabulary.byte_fallback)')
    ids.append(document)
    lengths += [min(length, len(document) - start) for start in range(0, len(document), length)]
  _write_side(place, 'source', [], [0] * len(lengths))
  _write_side(place, 'target', ids, lengths)


def _write_side(place: str, name: str, ids: list[np.ndarray], lengths: list[int]) -> None:
  np.save(os.path.join(place, f'{name}.ids.npy'), np.concatenate(ids) if ids else np.zeros(0, np.int32))
  np.save(os.path.join(place, f'{name}.offsets.npy'), np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))


class SampledStores:
  """A split tokenised anew for each epoch, under a folder of its own: subword regularisation.

  The next epoch's store can be made in the background while one is read. Older ones are removed, except for the
  first, from which a plan's shapes are fitted. All of it may be deleted at any time and is then made again, the same.
  """

  changing = True

  def __init__(self, split: corpora.Split, vocabularies: Callable[[int], tuple], folder: str, progress=None):
    """vocabularies(epoch) -> (source, target); progress wraps the iterator over the first store's pairs."""
    self.folder = folder
    self._split, self._vocabularies, self._progress = split, vocabularies, progress
    self._lock, self._begun = threading.Lock(), {}

  def at(self, epoch: int) -> Store:
    """The store that an epoch reads; made now when it has not been made ahead."""
    store = self._begin(epoch).result()
    self._forget(epoch)
    return store

  def make_ahead(self, epoch: int) -> None:
    """Has an epoch's store made in the background, if that has not begun."""
    self._begin(epoch)

  def _begin(self, epoch: int) -> concurrent.futures.Future:
    with self._lock:
      if epoch not in self._begun:
        self._begun[epoch] = concurrent.futures.Future()
        threading.Thread(target=self._make, args=(epoch, self._begun[epoch])).start()
      return self._begun[epoch]

  def _make(self, epoch: int, future: concurrent.futures.Future) -> None:
    shown = lambda pairs: _while_main_lives(self._progress(pairs) if self._progress and not epoch else pairs)
    try:
      future.set_result(open_store(self._split, *self._vocabularies(epoch), self._place(epoch), shown))
    except BaseException as error:
      future.set_exception(error)

  def _place(self, epoch: int) -> str:
    return os.path.join(self.folder, f'epoch_{epoch:05d}')

  def _forget(self, epoch: int) -> None:
    """Removes what lies before the epoch that comes before `epoch`."""
    with self._lock:
      self._begun = {number: store for number, store in self._begun.items() if number >= epoch - 1 or not number}
    for number in range(1, epoch - 1):
      shutil.rmtree(self._place(number), ignore_errors=True)


def _while_main_lives(pairs: Iterable) -> Iterator:
  """The pairs; raises when the program is ending, so that a store begun in the background does not hold it up."""
  for pair in pairs:
    if not threading.main_thread().is_alive():
      raise InterruptedError('the program is ending')
    yield pair


# -------------------------------------------------------------------------------------------------- the batch plan


@dataclasses.dataclass(frozen=True)
class BatchConfig:
  """How sentences become batches."""

  batching: str  # 'buckets': shapes fitted to the corpus; 'fixed': one shape for all; 'packed': see PackedPlan
  batch_tokens: int  # rows × length of the longer side, padding included, is at most this; not for 'fixed'
  max_length: int  # tokens of either side, EOS included; longer pairs are left out and counted
  max_shapes: int = 16  # each shape is compiled once
  fixed_rows: int | None = None  # the three numbers of 'fixed'
  fixed_source_length: int | None = None
  fixed_target_length: int | None = None
  accumulation_steps: int = 1  # micro-batches that a batch is to be split into, each with a multiple of 8 rows
  packed_length: int = 256  # tokens of a packed row's longer side; longer pairs are left out
  subword_sampling: str = 'none'

  def __post_init__(self):
    refuse(self._mistakes())

  def _mistakes(self) -> Iterator[str]:
    if self.batching not in ('buckets', 'fixed', 'packed'):
      yield f'batching is {self.batching!r}; expected buckets, fixed or packed'
    if self.batching == 'packed' and self.subword_sampling != 'none':
      yield (f'batching packed with subword_sampling {self.subword_sampling!r}: which sentences share a row '
             'is decided once, from lengths that do not change; expected buckets, or subword_sampling none')
    sizes = [self.fixed_rows, self.fixed_source_length, self.fixed_target_length] if self.batching == 'fixed' else []
    if None in sizes:
      yield 'batching fixed needs fixed_rows, fixed_source_length and fixed_target_length'
    for name in ('batch_tokens', 'max_length', 'max_shapes', 'accumulation_steps', 'packed_length'):
      if getattr(self, name) < 1:
        yield f'{name} is {getattr(self, name)}; expected a positive number'
    if sizes and None not in sizes and self.accumulation_steps > 0 and self.fixed_rows % self.row_step:
      yield f'fixed_rows is {self.fixed_rows}; expected a multiple of {self.row_step}{self.row_reason}'

  @property
  def row_step(self) -> int:
    """Rows of every batch are a multiple of this."""
    return ROWS * self.accumulation_steps

  @property
  def row_reason(self) -> str:
    """Where row_step comes from, for messages."""
    return '' if self.accumulation_steps == 1 else (
        f' ({ROWS} for each of train.accumulation_steps = {self.accumulation_steps} micro-batches)')

  def for_evaluation(self) -> 'BatchConfig':
    """Batches as large as one micro-batch, in few shapes: they are compiled for little use."""
    return dataclasses.replace(
        self, batching='buckets' if self.batching == 'packed' else self.batching, accumulation_steps=1,
        max_shapes=min(4, self.max_shapes),
        batch_tokens=max(1, self.batch_tokens // self.accumulation_steps),
        fixed_rows=self.fixed_rows and max(ROWS, self.fixed_rows // self.accumulation_steps))


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

  Sentences of a shape that do not fill a last batch ride, that epoch, in the next longer shape, so that only the
  longest shape, which holds every sentence, has a batch with empty rows. Epochs have the same number of batches;
  with subword sampling each its own, since then lengths differ.

  Attributes:
    shapes: the distinct shapes, largest first.
    batches_per_epoch: steps of one epoch; with subword sampling, of the first.
    dropped: pairs left out because a side is empty or too long; with subword sampling, of the first epoch.
  """

  def __init__(self, store: Store | SampledStores, config: BatchConfig, seed: int, shuffle: bool = True):
    self._store, self._seed, self._shuffle, self._lock = store, seed, shuffle, threading.RLock()
    first = store.at(0)
    limits = ((config.fixed_source_length, config.fixed_target_length) if config.batching == 'fixed'
              else (config.max_length, config.max_length))
    kept = _kept(first, limits)
    self.dropped = len(first) - len(kept)
    if not len(kept):
      raise DataError(f'no sentence pair is left: all {len(first)} have an empty side or more than {limits[0]} source '
                      f'or {limits[1]} target tokens; raise data.max_length')
    shapes = _shapes(first.source.lengths[kept], first.target.lengths[kept], config, limits, store.changing)
    # What is longer than the largest shape is left out: by max_length, or, when lengths change, in that epoch.
    self._limits = max(shape.source for shape in shapes), max(shape.target for shape in shapes)
    self._members = lambda epoch: _assign(_kept(store.at(epoch), self._limits), store.at(epoch), shapes)
    self._first = self._members(0)
    self._remembered = functools.lru_cache(maxsize=2)(self._epoch)
    used = shapes if store.changing else [member.shape for member in self._first]
    self.shapes = sorted(used, key=lambda s: (s.size, s.target), reverse=True)
    self._lengths = first.source.lengths, first.target.lengths
    self.batches_per_epoch = len(self.epoch(0))
    self._epochs = (_CountedEpochs(lambda number: len(self.epoch(number)), _counts_path(store, config, seed))
                    if store.changing else _EqualEpochs(self.batches_per_epoch))

  @property
  def store(self) -> Store:
    """The tokens, with subword sampling those of the first epoch."""
    return self._store.at(0)

  def epoch(self, number: int) -> list[tuple[Shape, np.ndarray]]:
    """The batches of an epoch in order, each a shape and the sentences of its rows."""
    with self._lock:
      return self._remembered(number)

  def _epoch(self, number: int) -> list[tuple[Shape, np.ndarray]]:
    members = self._members(number) if number and self._store.changing else self._first
    batches, carried = [], {}
    for place, member in enumerate(members):
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
      order = np.random.default_rng([self._seed, number, len(members)]).permutation(len(batches))
      batches = [batches[i] for i in order]
    if number == 0:  # whatever does not fit into memory shall fail at step 0
      first = max(range(len(batches)), key=lambda i: (batches[i][0].size, batches[i][0].target))
      batches[0], batches[first] = batches[first], batches[0]
    return batches

  def locate(self, step: int) -> tuple[int, int]:
    """Epoch and place in it of the batch at step n."""
    with self._lock:
      return self._epochs.locate(step)

  def epochs_done(self, steps: int) -> float:
    """How many times the text has been seen after so many steps, at least one."""
    epoch, place = self.locate(steps - 1)
    return epoch + (place + 1) / len(self.epoch(epoch))

  def shape_at(self, step: int) -> Shape:
    """Shape of the batch at step n."""
    epoch, place = self.locate(step)
    return self.epoch(epoch)[place][0]

  def batch_at(self, step: int, host: int = 0, hosts: int = 1) -> tokens.Batch:
    """The batch at step n, or one host's rows of it."""
    epoch, place = self.locate(step)
    shape, sentences = self.epoch(epoch)[place]
    store = self._store.at(epoch)
    if self._store.changing:
      self._store.make_ahead(epoch + 1)
    rows = _share(shape, hosts)
    mine = sentences[host * rows:(host + 1) * rows]
    pad = lambda side, length: tokens.pad([side[i] for i in mine], rows, length, filler=0)
    return tokens.Batch(pad(store.source, shape.source), pad(store.target, shape.target))

  def cells(self, shape: Shape) -> int:
    """Target tokens that a batch of a shape has room for."""
    return shape.rows * shape.target

  def padding(self) -> float:
    """Share of an epoch's cells that are padding, empty rows included."""
    real = sum(int(side[member.sentences].sum()) for member in self._first for side in self._lengths)
    return 1.0 - real / sum(shape.size for shape, _ in self.epoch(0))

  def sentences_per_batch(self) -> float:
    """Mean number of sentence pairs in a batch."""
    return sum(len(member.sentences) for member in self._first) / self.batches_per_epoch

  def tokens_per_batch(self) -> float:
    """Mean number of real target tokens in a batch."""
    return sum(int(self._lengths[1][member.sentences].sum()) for member in self._first) / self.batches_per_epoch


def _share(shape: Shape, hosts: int) -> int:
  """Rows of a batch that each of `hosts` hosts reads."""
  if shape.rows % hosts:
    raise DataError(f'batches of {shape.rows} rows do not divide over {hosts} hosts')
  return shape.rows // hosts


class _EqualEpochs(NamedTuple):
  """Epochs of one length."""

  batches: int

  def locate(self, step: int) -> tuple[int, int]:
    """(epoch, place in it) of a step."""
    return divmod(step, self.batches)


class _CountedEpochs:
  """Epochs each with its own number of batches, which is known once its text is tokenised.

  The numbers are written down, so that a run that goes on need not tokenise the epochs gone by; where the file is
  lost they are counted again.
  """

  def __init__(self, count: Callable[[int], int], path: str):
    self._count, self._path, self._starts = count, path, [0]
    if os.path.isfile(path):
      with open(path, encoding='utf-8') as file:
        self._starts = json.load(file)

  def locate(self, step: int) -> tuple[int, int]:
    """(epoch, place in it) of a step."""
    while self._starts[-1] <= step:
      self._starts.append(self._starts[-1] + self._count(len(self._starts) - 1))
      write_whole(self._path, json.dumps(self._starts))
    epoch = bisect.bisect_right(self._starts, step) - 1
    return epoch, step - self._starts[epoch]


def _counts_path(stores: SampledStores, config: BatchConfig, seed: int) -> str:
  """Where the first steps of epochs are written down, named by everything that decides them."""
  parts = [stores.at(0).fingerprint, dataclasses.asdict(config), seed]
  return os.path.join(stores.folder, f'starts_{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:20]}.json')


def _kept(store: Store, limits: tuple[int, int]) -> np.ndarray:
  """Sentences of which neither side is empty or too long."""
  source, target = store.source.lengths, store.target.lengths
  least = store.shortest
  return np.flatnonzero((source <= limits[0]) & (target <= limits[1]) & (source >= least[0]) & (target >= least[1]))


def _shapes(source: np.ndarray, target: np.ndarray, config: BatchConfig, limits: tuple[int, int], changing: bool
            ) -> list[Shape]:
  """The shapes for sentences of these lengths; for lengths that change, with room for somewhat longer ones."""
  if config.batching == 'fixed':
    return [Shape(config.fixed_rows, *limits)]
  if changing:
    most = config.batch_tokens // config.row_step  # a longer sentence would not fit into any batch
    source, target = (np.append(lengths, max(lengths.max(), min(limit, most, math.ceil(_ROOM * lengths.max()))))
                      for lengths, limit in zip((source, target), limits))
  return [Shape(_rows(config, s, t), s, t) for s, t in fit_lengths(source, target, config.max_shapes)]


def _rows(config: BatchConfig, source: int, target: int) -> int:
  rows = config.batch_tokens // max(source, target) // config.row_step * config.row_step
  if not rows:
    raise DataError(f'train.batch_tokens {config.batch_tokens} holds fewer than {config.row_step} rows'
                    f'{config.row_reason} of {max(source, target)} tokens, the longest sentences; raise it to '
                    f'{config.row_step * max(source, target)} or lower data.max_length')
  return rows


def _assign(kept: np.ndarray, store: Store, shapes: Sequence[Shape]) -> list[_Member]:
  """Each sentence to the cheapest shape that holds it; shapes from small to large, so that leftovers move onwards."""
  source, target = store.source.lengths[kept], store.target.lengths[kept]
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


# --------------------------------------------------------------------------------------------------- packed rows


class PackedPlan(Plan):
  """Which sentences form the batch at step n, several to a row, each a segment of its own.

  All batches have one shape. Who shares a row is decided once; in each epoch sentences of the same two lengths change
  places, and rows their order, so that an epoch's batches are known without those before it.
  """

  def __init__(self, store: Store, config: BatchConfig, seed: int, shuffle: bool = True):
    limit = min(config.max_length, config.packed_length)
    kept = _kept(store, (limit, limit))
    if not len(kept):
      raise DataError(f'no sentence pair is left: all {len(store)} have an empty side or more than {limit} tokens on '
                      'one; raise data.max_length and data.packed_length')
    self._store, self._seed, self._shuffle, self._sentences = store, seed, shuffle, kept
    self._sides = [side.lengths[kept] for side in (store.source, store.target)]
    room = packing.capacities(*self._sides, config.packed_length)
    self._packing = packing.pack(*self._sides, room, np.random.default_rng([seed]))
    shape = Shape(_rows(config, *room), *room)
    self.shapes, self.dropped = [shape], len(store) - len(kept)
    self.batches_per_epoch = math.ceil(len(self._packing) / shape.rows)
    self._epochs, self._lock = _EqualEpochs(self.batches_per_epoch), threading.RLock()
    self._remembered = functools.lru_cache(maxsize=2)(self._epoch)

  def _epoch(self, number: int) -> list[tuple[Shape, list[np.ndarray]]]:
    """The batches of an epoch, each a shape and the sentences of each of its rows."""
    rows = packing.redealt(self._packing, *self._sides, np.random.default_rng([self._seed, number])
                           ) if self._shuffle else self._packing
    return _PackedEpoch(self.shapes[0], rows, self._sentences)

  def batch_at(self, step: int, host: int = 0, hosts: int = 1) -> tokens.Batch:
    """The batch at step n, or one host's rows of it."""
    epoch, place = self.locate(step)
    shape, members = self.epoch(epoch)[place]
    rows = _share(shape, hosts)
    mine = members[host * rows:(host + 1) * rows]
    lay = lambda side, length: tokens.pack([[side[i] for i in row] for row in mine], rows, length, filler=0)
    return tokens.Batch(lay(self._store.source, shape.source), lay(self._store.target, shape.target))

  def padding(self) -> float:
    """Share of an epoch's cells that are padding, empty rows included."""
    return 1.0 - sum(int(side.sum()) for side in self._sides) / (self.batches_per_epoch * self.shapes[0].size)

  def sentences_per_batch(self) -> float:
    """Mean number of sentence pairs in a batch."""
    return len(self._sentences) / self.batches_per_epoch

  def tokens_per_batch(self) -> float:
    """Mean number of real target tokens in a batch."""
    return int(self._sides[1].sum()) / self.batches_per_epoch


class _PackedEpoch:
  """Batches of packed rows, made when asked for: a list of all rows of a large corpus would not be small."""

  def __init__(self, shape: Shape, rows: packing.Packing, sentences: np.ndarray):
    self._shape, self._rows, self._sentences = shape, rows, sentences

  def __len__(self) -> int:
    return math.ceil(len(self._rows) / self._shape.rows)

  def __getitem__(self, place: int) -> tuple[Shape, list[np.ndarray]]:
    if not 0 <= place < len(self):
      raise IndexError(place)
    first = place * self._shape.rows
    numbers = range(first, min(first + self._shape.rows, len(self._rows)))
    return self._shape, [self._sentences[self._rows.row(number)] for number in numbers]


def make_plan(store: Store | SampledStores, config: BatchConfig, seed: int, shuffle: bool = True) -> Plan:
  """The plan that config.batching asks for."""
  return (PackedPlan if config.batching == 'packed' else Plan)(store, config, seed, shuffle)


def batches(plan: Plan, start: int, stop: int, host: int = 0, hosts: int = 1, num_threads: int = 2
            ) -> Iterator[tokens.Batch]:
  """Batches start … stop - 1, prepared ahead by threads (no worker processes; nothing of their state is saved)."""
  at = functools.partial(plan.batch_at, host=host, hosts=hosts)
  options = grain.ReadOptions(num_threads=num_threads, prefetch_buffer_size=2 * num_threads)
  return iter(grain.MapDataset.range(start, stop).map(at).to_iter_dataset(options))


# ------------------------------------------------------------------------------------------------ labelled examples


class LabelledPlan(Plan):
  """Which labelled examples form the batch at step n: a Plan by the longest of each example's sequences."""

  def __init__(self, sequences: Sequence[Sequence[Sequence[int]]], labels: Sequence[int], config: BatchConfig,
               seed: int, shuffle: bool = True):
    """`sequences`: of each example equally many lists of ids. Rows of a batch are examples."""
    self._sequences, self._labels, self._each = sequences, np.array(labels, np.int32), len(sequences[0])
    longest = np.array([max(map(len, example)) for example in sequences])
    if config.batching == 'buckets' and config.batch_tokens < ROWS * self._each * longest.max():
      raise DataError(f'train.batch_tokens {config.batch_tokens} holds fewer than {ROWS} examples of {self._each} × '
                      f'{longest.max()} tokens, the longest; raise it to {ROWS * self._each * longest.max()} or lower '
                      'data.max_length')
    side = Side(np.zeros(0, np.int32), np.concatenate([[0], np.cumsum(longest)]))
    super().__init__(Store(side, side, ''), dataclasses.replace(config, batch_tokens=config.batch_tokens // self._each),
                     seed, shuffle)

  def batch_at(self, step: int, host: int = 0, hosts: int = 1) -> classification.LabelledBatch:
    """The batch at step n, or one host's rows of it."""
    shape, examples = self.epoch(step // self.batches_per_epoch)[step % self.batches_per_epoch]
    rows = _share(shape, hosts)
    mine = examples[host * rows:(host + 1) * rows]
    flat = tokens.pad([ids for i in mine for ids in self._sequences[i]], rows * self._each, shape.target, filler=0)
    labels = np.zeros(rows, np.int32)
    labels[:len(mine)] = self._labels[mine]
    return classification.LabelledBatch(
        tokens.Tokens(*(leaf.reshape(rows, self._each, shape.target) for leaf in flat)), labels,
        np.arange(rows) < len(mine))

  def cells(self, shape: Shape) -> int:
    """Tokens that a batch of a shape has room for."""
    return shape.rows * self._each * shape.target

  def padding(self) -> float:
    """Share of an epoch's cells that are padding, empty rows included."""
    real = sum(len(ids) for _, examples in self.epoch(0) for i in examples for ids in self._sequences[i])
    return 1.0 - real / sum(self.cells(shape) for shape, _ in self.epoch(0))

  def tokens_per_batch(self) -> float:
    """Mean number of real tokens in a batch."""
    return (1.0 - self.padding()) * sum(self.cells(shape) for shape, _ in self.epoch(0)) / self.batches_per_epoch
