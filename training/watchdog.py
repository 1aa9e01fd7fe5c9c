"""A watchdog, which ends a program that no longer makes progress."""

import contextlib
import faulthandler
import math
import os
import sys
import threading
import time
from collections.abc import Iterator

import jax

from checks.exit_codes import STALLED


class Watchdog:
  """Ends the program when it stalls: a lost network, a disk or another process that no longer answers.

  It watches from the first beat() on.
  """

  def __init__(self, seconds: float):
    """End the program after `seconds` without beat(); 0 is never."""
    self._seconds, self._last, self._ended = seconds, math.inf, threading.Event()

  def beat(self) -> None:
    """Record that the program has made progress."""
    self._last = time.monotonic()

  @contextlib.contextmanager
  def paused(self) -> Iterator[None]:
    """Do not watch during the block: compiling may take any time."""
    self._last = math.inf
    yield
    self.beat()

  def __enter__(self) -> 'Watchdog':
    if self._seconds:
      threading.Thread(target=self._watch, daemon=True).start()
    return self

  def __exit__(self, *_) -> None:
    self._ended.set()

  def _watch(self) -> None:
    interval = min(1.0, self._seconds / 4)
    seen, silent, woken = math.inf, 0.0, time.monotonic()
    while not self._ended.wait(interval):
      now = time.monotonic()
      # Behind Ctrl-Z, or on a machine that was asleep, this thread has not woken either: that time is no stall.
      passed, woken = min(now - woken, 2 * interval), now
      if self._last != seen:
        seen, silent = self._last, 0.0
      silent += passed
      if silent > self._seconds and math.isfinite(seen):
        print(f'error: stalled: nothing happened for {silent:.0f} s (train.stall_seconds is {self._seconds:g}). '
              f'The stack of each thread of process {jax.process_index()}:', file=sys.stderr, flush=True)
        faulthandler.dump_traceback(all_threads=True)
        os._exit(STALLED)
