"""One file of items, split so that nothing held out is trained on.

Items that share a sentence form a group; whole groups are held out, drawn by the seed. The order of the items, the
seed and LARGEST_GROUP decide which items are held out: a change to any of them changes the splits of runs.
"""

import collections
import os
import random
from collections.abc import Hashable, Sequence

from checks.errors import DataError
from corpora.config import CorpusConfig
from corpora.splits import Corpus, Pair, in_memory

LARGEST_GROUP = 10  # pairs that share sentences with each other: larger groups are never held out


def split_pairs(pairs: Sequence[Pair], path: str, config: CorpusConfig, notes: list[str]) -> Corpus:
  """Split the pairs of one file into a corpus, without repeated pairs and those with an empty side.

  Pairs that share a sentence, in either language, form a group (the same sentence has many translations in
  Tatoeba), so that no held-out sentence of either language is in training. Validation and test take one pair of
  each of their groups; a group's further pairs are dropped.

  Args:
    pairs: in the order of the file.
    path: of the file; names the corpus and its splits.
    config: its languages, `heldout` and seed.
    notes: on what was dropped from the file so far; the corpus gets these and further ones.
  """
  distinct = list(dict.fromkeys(pairs))
  if len(distinct) < len(pairs):
    notes.append(f'{len(pairs) - len(distinct):,} repeated pairs dropped')
  pairs = without_empty(distinct, path, notes)
  keys = [(('source', pair.source), ('target', pair.target)) for pair in pairs]
  *parts, dropped = split_by_key(keys, config.heldout, config.seed, path, 'pairs')
  if dropped:
    notes.append(f'{dropped:,} pairs dropped because a sentence of theirs is held out')
  train, validation, test = (
      in_memory(f'{os.path.basename(path)} {split}', [pairs[i] for i in part])
      for split, part in zip(('train', 'validation', 'test'), parts))
  return Corpus(path, config.source_language, config.target_language, train, validation, (test,), tuple(notes))


def without_empty(pairs: Sequence[Pair], name: str, notes: list[str]) -> list[Pair]:
  """Return the pairs with text on both sides; add to `notes` how many lack it. Raises DataError when none is left."""
  kept = list(filter(has_text, pairs))
  report_empty(len(pairs) - len(kept), len(kept), name, notes)
  return kept


def has_text(pair: Pair) -> bool:
  """Return whether both sides of a pair hold more than spaces."""
  return bool(pair.source.strip() and pair.target.strip())


def report_empty(dropped: int, kept: int, name: str, notes: list[str]) -> None:
  """Add to `notes` how many pairs of a file were dropped for an empty side. Raises DataError when none is left."""
  if not kept:
    raise DataError(f'{name}: no pair has text on both sides')
  if dropped:
    notes.append(f'{name}: {dropped:,} pairs with an empty side dropped')


def split_by_key(keys: Sequence[Sequence[Hashable]], heldout: int, seed: int, name: str, noun: str
                 ) -> tuple[list[int], list[int], list[int], int]:
  """Return the items of training, validation and test, and how many were dropped: no key is in two splits.

  Args:
    keys: the keys of each item; items with a common key form a group.
    heldout: number of items to validate with, each of another group, and of items to test on.
    seed: draws the groups that are held out.
    name, noun: of the file and of its items, for messages.
  """
  groups = _groups(keys)
  order = sorted(groups)
  random.Random(seed).shuffle(order)
  # Large groups ("Tom" sentences chained through shared translations) would cost many items: they stay in training.
  small = [group for group in order if len(groups[group]) <= LARGEST_GROUP]
  most = min(len(small), len(groups) - 1) // 2
  if heldout > most:
    raise DataError(f'{name} has {len(keys):,} {noun} in {len(groups):,} groups without a common sentence; to hold out '
                    f'2 × {heldout:,} {noun} and train on the rest is not possible. ' +
                    (f'Set --config.data.heldout to {most:,} or less' if most else
                     'Bring separate files for each split, see --config.data.kind=text'))
  held = small[:2 * heldout]
  training = sorted(groups.keys() - set(held))
  one_each = lambda chosen: [groups[group][0] for group in chosen]
  dropped = sum(len(groups[group]) - 1 for group in held)
  return [i for group in training for i in groups[group]], one_each(held[:heldout]), one_each(held[heldout:]), dropped


def _groups(keys: Sequence[Sequence[Hashable]]) -> dict[int, list[int]]:
  """Return the connected components of items that share a key, first member -> members, by union-find."""
  parent = list(range(len(keys)))

  def root(i):
    while parent[i] != i:
      parent[i] = parent[parent[i]]
      i = parent[i]
    return i

  owner = {}
  for i, of_item in enumerate(keys):
    for key in of_item:
      a, b = root(owner.setdefault(key, i)), root(i)
      parent[max(a, b)] = min(a, b)
  groups = collections.defaultdict(list)
  for i in range(len(keys)):
    groups[root(i)].append(i)
  return dict(groups)
