"""Which texts of many are equal, found by hashes of 16 bytes each, so that the texts themselves need not be in memory."""

import hashlib
from collections.abc import Sequence

import numpy as np

_SIZE = 16  # bytes of a digest


def digest(text: str) -> bytes:
  """Return the hash of a text; different texts have different ones."""
  return hashlib.blake2b(text.encode(), digest_size=_SIZE).digest()


def columns(digests: bytearray) -> Sequence[np.ndarray]:
  """Return two arrays, [items] uint64 each, that share the memory of digests standing one after the other."""
  return np.frombuffer(digests, np.uint64).reshape(-1, _SIZE // 8).T


def repeated(keys: Sequence[np.ndarray]) -> np.ndarray:
  """Return the places of the items that equal an earlier one, in no particular order.

  Args:
    keys: arrays, [items] each; items are equal when they are equal in all of them.
  """
  order, equal = _sorted(keys)
  return order[1:][equal]


def numbered(keys: Sequence[np.ndarray]) -> np.ndarray:
  """Return a number for each item, [items] int32, from 0 on and without gaps; equal items, and they alone, share one."""
  order, equal = _sorted(keys)
  numbers = np.zeros(len(order), np.int32)
  numbers[order[1:]] = np.cumsum(~equal, dtype=np.int32)
  return numbers


def _sorted(keys: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
  """Return an order of the items in which equal ones are neighbours, the first one first, and who equals its forerunner."""
  order = np.lexsort(keys)  # stable
  equal = np.ones(max(len(order) - 1, 0), bool)
  for key in keys:
    ordered = key[order]
    equal &= ordered[1:] == ordered[:-1]
  return order, equal
