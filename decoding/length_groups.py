"""Sentences in groups of like length, to score each group on its own."""

import math
from collections.abc import Sequence
from typing import NamedTuple

MOST_GROUPS = 10
FEWEST_SENTENCES = 20  # BLEU of fewer is too noisy; such a group joins its neighbour


class Group(NamedTuple):
  """Sentences of like length."""

  shortest: int  # words
  longest: int
  places: list[int]  # of the sentences, among all

  @property
  def name(self) -> str:
    """The range of lengths, as tables and figures show it."""
    return f'{self.shortest}–{self.longest}' if self.shortest < self.longest else str(self.longest)


def group_by_length(lengths: Sequence[int]) -> list[Group]:
  """Divide sentences into at most MOST_GROUPS groups of equal width.

  A group of fewer than FEWEST_SENTENCES joins the next longer one; the last such group joins the one before it.

  Args:
    lengths: words of each sentence.
  """
  width = max(1, math.ceil(max(lengths) / MOST_GROUPS))
  groups: list[Group] = []
  start, places = 1, []
  for end in range(width, max(lengths) + width, width):
    places += [place for place, length in enumerate(lengths) if length <= end and (end - width < length or end == width)]
    if len(places) >= FEWEST_SENTENCES:
      groups.append(Group(start, end, places))
      start, places = end + 1, []
  if places and groups:
    groups[-1] = Group(groups[-1].shortest, end, groups[-1].places + places)
  return groups or [Group(1, max(lengths), list(range(len(lengths))))]
