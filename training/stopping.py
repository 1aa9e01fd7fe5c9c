"""How a run stops on Ctrl-C, SIGTERM or a closed terminal, in one process or in several."""

import concurrent.futures
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

import jax
from jax._src import distributed  # the key-value store that processes share has no public name
from jax.experimental import multihost_utils

from checks import signals
from checks.exit_codes import INTERRUPTED, PREEMPTED

Item = TypeVar('Item')
_POLL = 0.05  # seconds between two looks at whether a stop was requested, while waiting
_VERY_LONG = 10**9  # milliseconds; a process that dies is noticed by its heartbeat


class Stopped(BaseException):
  """A stop was requested during work that may be abandoned. No `except Exception` catches it."""


class StopRequest:
  """Ctrl-C, SIGTERM or a closed terminal requests a stop after the current step; a second Ctrl-C ends the program at once.

  The handlers raise nothing, since what they raise can be swallowed (see checks/signals.py). Whoever waits asks again and
  again whether a stop was requested, and raises Stopped itself.

  In a run of several processes jax itself listens for SIGTERM, and all of them agree on the step after which they stop.
  """

  def __init__(self):
    self.exit_code = 0
    self._before, self._asked = {}, 0  # the exit code of what this process was asked by
    self._calls = self._votes = 0  # equal in all processes

  def __enter__(self):
    for number, code in signals.stop_codes().items():
      if number != signal.SIGTERM or jax.process_count() == 1:
        self._before[number] = signal.signal(number, lambda number, _, code=code: self._ask(number, code))
    return self

  def _ask(self, number: int, code: int) -> None:
    if number == signal.SIGHUP:
      signals.leave_terminal()
    if self._asked and number == signal.SIGINT:
      signals.exit_now('Ended at once. The same command resumes from the last checkpoint.', code)
    self._asked = code
    if jax.process_count() > 1:
      os.kill(os.getpid(), signal.SIGTERM)  # jax tells the others, and all stop after the same step
    else:
      self.exit_code = code

  def __exit__(self, *_):
    for number, handler in self._before.items():
      signal.signal(number, handler)

  def is_asked(self) -> bool:
    """Return whether to stop now. Every process has to call this equally often."""
    if jax.process_count() > 1 and not self.exit_code:
      self._calls += 1
      if multihost_utils.reached_preemption_sync_point(self._calls):
        self.exit_code = self._asked or PREEMPTED
    return bool(self.exit_code)

  def check(self) -> None:
    """Raise Stopped when a stop was requested. Every process has to call this equally often."""
    if self.is_asked():
      raise Stopped

  def run(self, function: Callable, *inputs: Any) -> Any:
    """Return function(*inputs), unless a stop abandons it.

    The function runs in a separate thread: a signal handler has to wait for native code in the main thread, and
    compiling or searching can take longer than the time between SIGTERM and the kill that follows. An abandoned
    function may run on until the program ends, so it must not change anything that is saved; and where something is
    saved after it, it must not compute together with other processes, see run_together.

    Raises:
      Stopped: when a stop is requested before or meanwhile; in all processes or in none.
    """
    if self.exit_code and jax.process_count() == 1:
      raise Stopped
    future = Future()
    threading.Thread(target=_settle, args=(future, function, inputs), daemon=True).start()
    if jax.process_count() > 1:
      return self._result_of_all(future)
    while not concurrent.futures.wait([future], _POLL).done:
      if self.exit_code:
        raise Stopped
    return future.result()

  def run_together(self, function: Callable, *inputs: Any) -> Any:
    """Do as run() does, for a function that computes together with other processes and after which work continues.

    No process can leave a joint computation alone. With several processes the function therefore runs in this thread,
    and itself has to call check() between its parts.
    """
    return function(*inputs) if jax.process_count() > 1 else self.run(function, *inputs)

  def _result_of_all(self, future: Future) -> Any:
    """Return the result once every process has its own; raise Stopped when one received a stop before that."""
    self._votes += 1
    while not (stop := self.exit_code or _is_preempted()) and not concurrent.futures.wait([future], 0.1).done:
      pass
    error = None if stop else future.exception()
    if error and not isinstance(error, Stopped):
      raise error
    place, store = f'votes/{self._votes}', distributed.global_state.client
    store.key_value_set(f'{place}/{jax.process_index()}', 'stop' if stop or error else 'done')
    votes = [store.blocking_key_value_get(f'{place}/{number}', _VERY_LONG) for number in range(jax.process_count())]
    if 'stop' in votes:
      self.exit_code = self.exit_code or self._asked or PREEMPTED
      raise Stopped
    return future.result()

  def each(self, items: Iterator[Item]) -> Iterator[Item]:
    """Iterate over items, which a separate thread fetches, one ahead; with several processes, over the items themselves.

    Raises:
      Stopped: when a stop is requested before an item is there. With several processes nothing is raised.
    """
    return items if jax.process_count() > 1 else self._fetched(items)

  def _fetched(self, items: Iterator[Item]) -> Iterator[Item]:
    # Not SimpleQueue: a signal near the end of its timeout makes CPython's wait for ever.
    asked, fetched = queue.Queue(), queue.Queue()
    threading.Thread(target=_fetch, args=(items, asked, fetched), daemon=True).start()
    asked.put(True)
    try:
      while True:
        future = self._next(fetched)
        asked.put(True)
        if isinstance(future.exception(), StopIteration):
          return
        yield future.result()
    finally:
      asked.put(False)

  def _next(self, fetched: 'queue.Queue[Future]') -> Future:
    while True:
      try:
        return fetched.get(timeout=_POLL)
      except queue.Empty:
        if self.exit_code:
          raise Stopped from None


def _is_preempted() -> bool:
  """Return whether a process of the run has received SIGTERM: jax, which listens for it, then sets this key for all."""
  try:
    return bool(distributed.global_state.client.key_value_try_get('RECEIVED_PREEMPTION_NOTICE'))
  except jax.errors.JaxRuntimeError:  # the key is not set
    return False


def _settle(future: Future, function: Callable, inputs: tuple) -> None:
  try:
    future.set_result(function(*inputs))
  except BaseException as error:
    future.set_exception(error)


def _fetch(items: Iterator, asked: queue.Queue, fetched: 'queue.Queue[Future]') -> None:
  """Fetch an item each time that one is asked for, until False comes in place of True."""
  while asked.get():
    future = Future()
    _settle(future, next, (items,))
    fetched.put(future)


def end(code: int) -> int:
  """Return a script's exit code; after a stop, end the program at once instead.

  An abandoned thread may still be compiling, and a normal exit of the interpreter would wait for it.
  """
  if code in (INTERRUPTED, PREEMPTED):
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
  return code
