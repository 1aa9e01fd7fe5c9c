"""One file of items, split so that nothing held out is trained on.

Items that share a sentence form a group; whole groups are held out, drawn by the seed. The order of the items, the
seed and LARGEST_GROUP decide which items are held out: a change to any of them changes the splits of runs.
"""

import array
import random
from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from checks.errors import DataError

LARGEST_GROUP = 10  # items that share sentences with each other: larger groups are never held out


def split_by_key(keys: Sequence[Sequence[Hashable]], heldout: int, seed: int, name: str, noun: str
                 ) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
  """Return the items of training, validation and test, and how many were dropped: no key is in two splits.

  Args:
    keys: the keys of each item; items with a common key form a group.
    heldout, seed, name, noun: as in split_groups.
  """
  numbers: dict[Hashable, int] = {}
  numbered = [[numbers.setdefault(key, len(numbers)) for key in of_item] for of_item in keys]
  return split_groups(groups_of(numbered, len(keys), len(numbers)), heldout, seed, name, noun)


def split_groups(group: np.ndarray, heldout: int, seed: int, name: str, noun: str
                 ) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
  """Return the items of training, validation and test, and how many were dropped: no group is in two splits.

  Training has whole groups, in the order of their first items. Validation and test take the first item of each of their
  groups; its other items are dropped.

  Args:
    group: [items] int32, of each item the first item of its group; see groups_of.
    heldout: number of items to validate with, each of another group, and of items to test on.
    seed: draws the groups that are held out.
    name, noun: of the file and of its items, for messages.
  """
  sizes = np.bincount(group, minlength=len(group))  # of the group that begins with each item
  order = array.array('q', np.flatnonzero(sizes).astype(np.int64).tobytes())
  random.Random(seed).shuffle(order)
  drawn = np.frombuffer(order, np.int64)
  # Large groups ("Tom" sentences chained through shared translations) would cost many items: they stay in training.
  small = drawn[sizes[drawn] <= LARGEST_GROUP]
  most = min(len(small), len(drawn) - 1) // 2
  if heldout > most:
    raise DataError(f'{name} has {len(group):,} {noun} in {len(drawn):,} groups without a common sentence; to hold out '
                    f'2 × {heldout:,} {noun} and train on the rest is not possible. ' +
                    (f'Set --config.data.heldout to {most:,} or less' if most else
                     'Bring separate files for each split: --config.data.kind=text, or labelled_text for labelled examples'))
  held = small[:2 * heldout]
  is_held = np.zeros(len(group), bool)
  is_held[held] = True
  grouped = np.argsort(group, kind='stable')
  return grouped[~is_held[group[grouped]]], held[:heldout], held[heldout:], int(sizes[held].sum()) - len(held)


def groups_of(keys: Iterable[Sequence[int]], items: int, numbers: int) -> np.ndarray:
  """Return of each item the first one of its group, [items] int32: the connected components of items that share a key.

  Args:
    keys: the keys of each item, numbers from 0 on.
    items: how many there are.
    numbers: of keys that there are.
  """
  parent, owner = array.array('i', range(items)), array.array('i', [-1]) * numbers  # union-find

  def root(i: int) -> int:
    while parent[i] != i:
      parent[i] = parent[parent[i]]
      i = parent[i]
    return i

  for i, of_item in enumerate(keys):
    for key in of_item:
      if owner[key] < 0:
        owner[key] = i
      a, b = root(owner[key]), root(i)
      parent[max(a, b)] = min(a, b)
  for i in range(items):
    parent[i] = parent[parent[i]]  # of earlier items the parent is the root already
  return np.frombuffer(parent, np.int32)
