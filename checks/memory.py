"""Makes the C library keep the memory that it has once got from the system."""

import ctypes
import os

# Parameters of glibc's mallopt: M_MMAP_MAX 0: map no block separately; M_TRIM_THRESHOLD -1: return none to the system;
# M_ARENA_MAX 1: one heap for all threads, because the heaps of single threads are too small for such blocks.
_MALLOC_OPTIONS = ((-4, 0), (-1, -1), (-8, 1))


def keep() -> None:
  """Let what a computation frees be there for the next one. Call it before the first thread starts: it gets a heap.

  XLA allocates its working memory anew at every step. By default glibc takes such large blocks from the system and
  returns them at once, and the system clears each of their pages again: on two cores that takes a quarter of a training
  step or more. Where the C library has no mallopt (macOS, musl) this does nothing. The process keeps the largest amount
  of memory that it has needed.
  """
  mallopt = getattr(ctypes.CDLL(None), 'mallopt', None) if os.name == 'posix' else None
  if mallopt is not None:
    for option, value in _MALLOC_OPTIONS:
      mallopt(option, value)
