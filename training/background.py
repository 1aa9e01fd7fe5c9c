"""Compiles programs ahead of the steps that need them, in threads beside those steps."""

import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax

from checks import machine
from transformer.partitioning import CompiledStep

_MOST_WORKERS = 2
_CORES_OF_STEPS = 4  # on a CPU, for each thread that compiles: with fewer, both take longer than one after the other

Compilation = Callable[[], object]  # compiles one program


def compile_beside(step: CompiledStep, first: Any, batch: Callable[[], Any]) -> None:
  """Begin to compile a step in a thread, beside what is done before its first call, which waits for the program.

  Does nothing where compilations() yields nothing, nor in one of several processes, see workers().

  Args:
    step: the step.
    first: the shapes and shardings of its first input.
    batch: returns a host batch of the shape to compile for.
  """
  if jax.process_count() == 1:
    for compilation in compilations(step, first, [batch]):
      threading.Thread(target=_attempt, args=(compilation,), name='first step').start()


def _attempt(compilation: Compilation) -> None:
  with contextlib.suppress(Exception):  # the step that needs the program raises it
    compilation()


def workers() -> int:
  """Return the number of threads that compile beside the steps; 0: each program is compiled when it is needed.

  Steps on an accelerator leave the host's cores to them; steps on a CPU use these themselves. Several processes of a run
  compile one program after the other, all in the same order, because a compiler may wait for what another process
  finds out about the same program.
  """
  spare = machine.cores() // _CORES_OF_STEPS if jax.default_backend() == 'cpu' else machine.cores()
  return min(spare, 1 if jax.process_count() > 1 else _MOST_WORKERS)


class Background:
  """Threads that compile programs in order. A context manager, at whose end those that have not begun are dropped.

  What a compilation raises is the program's own, see CompiledStep.program(). What the iterable of compilations raises
  ends the block, at its end.
  """

  def __init__(self, is_stopping: Callable[[], bool]):
    """Nothing is compiled yet. is_stopping() returns, at the end, whether to abandon what is still being compiled."""
    self._workers = workers()
    self._pool = concurrent.futures.ThreadPoolExecutor(max(1, self._workers), thread_name_prefix='compile')
    self._is_stopping, self._lock, self._ended = is_stopping, threading.Lock(), False
    self._working: list[concurrent.futures.Future[None]] = []

  def begin(self, compilations: Iterable[Compilation]) -> None:
    """Begin to compile in the order of the iterable, which the threads, where there are any, read as they get on."""
    self._waiting = iter(compilations)
    self._working = [self._pool.submit(self._work) for _ in range(self._workers)]

  def wait(self) -> None:
    """Wait until everything is compiled."""
    concurrent.futures.wait(self._working)

  def _work(self) -> None:
    while compilation := self._next():
      _attempt(compilation)

  def _next(self) -> Compilation | None:
    with self._lock:
      return None if self._ended else next(self._waiting, None)

  def __enter__(self) -> 'Background':
    return self

  def __exit__(self, kind: type[BaseException] | None, *_) -> None:
    self._ended, stopping = True, self._is_stopping()
    # A thread that compiles while the interpreter ends could bring it down; after a stop the process ends at once.
    self._pool.shutdown(wait=not stopping, cancel_futures=True)
    if not stopping and kind is None:
      for work in self._working:
        work.result()


def compilations(step: CompiledStep, first: Any, batches: Iterable[Callable[[], Any]]) -> Iterator[Compilation]:
  """Yield calls that compile a step for batches, each of another shape; none where that takes arrays (by_shapes).

  Args:
    step: the step.
    first: the shapes and shardings of its first input.
    batches: calls that return a host batch.
  """
  for batch in batches if step.by_shapes else ():
    yield lambda batch=batch: step.program(first, batch())
