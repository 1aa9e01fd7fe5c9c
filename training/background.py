"""Compiles programs ahead of the steps that need them, in threads beside those steps."""

import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Iterable

import jax

from training import hardware

_MOST_WORKERS = 2  # more would slow down the steps that run meanwhile

Compilation = Callable[[], object]  # compiles one program


def workers() -> int:
  """Return the number of threads that compile: no more than this process has cores for.

  Several processes of a run compile one program after the other, all in the same order, because a compiler may wait for
  what another process finds out about the same program.
  """
  return 1 if jax.process_count() > 1 else min(_MOST_WORKERS, hardware.cores())


class Background:
  """Threads that compile programs in order. A context manager, at whose end those that have not begun are dropped.

  What a compilation raises is not raised here: it is the program's own, see CompiledStep.program().
  """

  def __init__(self, is_stopping: Callable[[], bool]):
    """Nothing is compiled yet. is_stopping() returns, at the end, whether to abandon what is still being compiled."""
    self._pool = concurrent.futures.ThreadPoolExecutor(workers(), thread_name_prefix='compile')
    self._is_stopping, self._lock, self._ended = is_stopping, threading.Lock(), False

  def begin(self, compilations: Iterable[Compilation]) -> None:
    """Begin to compile in the order of the iterable, which the threads read as they get on."""
    self._waiting = iter(compilations)
    for _ in range(workers()):
      self._pool.submit(self._work)

  def _work(self) -> None:
    while compilation := self._next():
      with contextlib.suppress(Exception):
        compilation()

  def _next(self) -> Compilation | None:
    with self._lock:
      return None if self._ended else next(self._waiting, None)

  def __enter__(self) -> 'Background':
    return self

  def __exit__(self, *_) -> None:
    # A thread that compiles while the interpreter ends could bring it down; after a stop the process ends at once.
    self._ended = True
    self._pool.shutdown(wait=not self._is_stopping(), cancel_futures=True)
