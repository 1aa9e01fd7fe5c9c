"""A store for each epoch: with subword sampling, a split is tokenised anew in every epoch."""

import concurrent.futures
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

from batching.store import Progress, Store, Tokeniser, open_store
from corpora.splits import Split


class SampledStores:
  """A split tokenised anew for each epoch, under a folder of its own.

  The next epoch's store can be made in the background while one is read. Older ones are removed, except for the
  first, from which a plan's shapes are fitted. All of it may be deleted at any time and is then made again, the same.
  """

  changing = True

  def __init__(self, split: Split, vocabularies: Callable[[int], Sequence[Tokeniser]], folder: str,
               progress: Progress | None = None):
    """Prepare the stores of a split; nothing is tokenised yet.

    Args:
      split: the sentence pairs.
      vocabularies: returns, for an epoch, those of source and target.
      folder: where the epochs' stores lie.
      progress: wraps the iterator over the first store's pairs.
    """
    self.folder = folder
    self._split, self._vocabularies, self._progress = split, vocabularies, progress
    self._lock = threading.Lock()
    self._begun: dict[int, concurrent.futures.Future[Store]] = {}  # the stores of epochs, made or being made
    self._oldest = 1  # of the epochs but the first, none before it has a store on disk

  def at(self, epoch: int) -> Store:
    """Return the store that an epoch reads, making it now when it has not been made ahead."""
    store = self._begin(epoch).result()
    self._forget(epoch)
    return store

  def make_ahead(self, epoch: int) -> None:
    """Start making an epoch's store in the background, unless that has begun."""
    self._begin(epoch)

  def _begin(self, epoch: int) -> concurrent.futures.Future:
    with self._lock:
      if epoch not in self._begun:
        self._begun[epoch] = concurrent.futures.Future()
        self._oldest = min(self._oldest, max(1, epoch))
        threading.Thread(target=self._make, args=(epoch, self._begun[epoch])).start()
      return self._begun[epoch]

  def _make(self, epoch: int, future: concurrent.futures.Future) -> None:
    shown = lambda pairs: _while_main_lives(self._progress(pairs) if self._progress and not epoch else pairs)
    try:
      store = open_store(self._split, *self._vocabularies(epoch), self._place(epoch), shown)
      store.verify()
      future.set_result(store)
    except BaseException as error:
      future.set_exception(error)

  def _place(self, epoch: int) -> str:
    return os.path.join(self.folder, f'epoch_{epoch:05d}')

  def _forget(self, epoch: int) -> None:
    """Remove the stores older than the epoch before `epoch`, except for the first."""
    with self._lock:
      self._begun = {number: store for number, store in self._begun.items() if number >= epoch - 1 or not number}
      old = range(self._oldest, epoch - 1)
      self._oldest = max(self._oldest, epoch - 1)
    for number in old:
      shutil.rmtree(self._place(number), ignore_errors=True)


def _while_main_lives(pairs: Iterable) -> Iterator:
  """Yield the pairs; raise when the program is ending, so that a store made in the background does not delay it."""
  for pair in pairs:
    if not threading.main_thread().is_alive():
      raise InterruptedError('the program is ending')
    yield pair
