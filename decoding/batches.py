"""Lines as batches of a few fixed shapes: which lines share a batch, and how their ids are laid out in its arrays."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Int

from decoding.wishes import Wishes
from transformer import tokens
from transformer.search import automaton
from transformer.search.automaton import Automaton
from transformer.tokens import Array

FINE, COARSE = 16, 64  # the smallest steps between the lengths that lines are padded to
QUEUE = 16  # times as many lines as rows are handed to a device at once, see transformer.search.queue
ROWS = 8  # rows of a batch, and tokens of prefixes, are multiples of this, so that few shapes are compiled


class SearchBatch(NamedTuple):
  """The lines of a search. None: no line of the batch has any."""

  source: tokens.Tokens  # [B, S]
  lines: Int[Array, ' B']  # numbers of the lines, on which sampling depends, see row_keys ...
  seeds: Int[Array, ' B']  # ... as it does on these ...
  draws: Int[Array, ' B']  # ... and on these
  prefix: tokens.Tokens | None  # [B, P]
  phrases: Automaton | None  # required and forbidden ones, see constraints.phrases


def length_class(length: int, least: int = FINE) -> int:
  """Return the length to pad a sentence to: multiples of `least` up to 8 times that, then of a quarter of a power of two."""
  step = max(least, 2 ** (math.ceil(math.log2(length)) - 3))
  return math.ceil(length / step) * step


def search_rows(length: int, batch_tokens: int, beams: int = 1) -> int:
  """Return the rows of a batch of padded `length`: at most batch_tokens cells for all beams, but never below 8."""
  return max(ROWS, batch_tokens // (length * beams) // ROWS * ROWS)


def length_classes(lengths: dict[int, int], most: int | None = None, least: int = FINE) -> dict[int, list[int]]:
  """Group lines by the length that they are padded to; the longest come first, so that a lack of memory shows at once.

  Args:
    lengths: the tokens of each line, by its number.
    most: the longest that a line may be padded to; None: any.
    least: see length_class.

  Returns:
    The numbers of the lines, the longest first, by padded length.
  """
  classes: dict[int, list[int]] = {}
  for line in sorted(lengths, key=lambda line: -lengths[line]):
    padded = length_class(lengths[line], least)
    classes.setdefault(padded if most is None else min(padded, most), []).append(line)
  return classes


def search_batches(lengths: dict[int, int], batch_tokens: int, devices: int = 1, beams: int = 1, most: int | None = None
                   ) -> Iterator[tuple[int, list[int]]]:
  """Divide each of the length_classes into batches.

  Args:
    lengths, most: see length_classes.
    batch_tokens, beams: of one device, see search_rows.
    devices: how many share a batch.

  Yields:
    (padded length, numbers of the lines) of each batch.
  """
  for length, members in length_classes(lengths, most).items():
    rows = search_rows(length, batch_tokens, beams) * devices
    for start in range(0, len(members), rows):
      yield length, members[start:start + rows]


def line_numbers(members: Sequence[int], rows: int) -> Int[np.ndarray, ' rows']:
  """Return the number of the line in each row, and 0 in rows without one."""
  return np.pad(np.array(members, np.int32), (0, rows - len(members)))


def dealt(count: int, rows: int, devices: int) -> Int[np.ndarray, ' count']:
  """Return the row of each of `count` lines, dealt in turn to the queues of devices that search so many rows at once."""
  line = np.arange(count)
  return line % devices * (rows * QUEUE) + line // devices


def spread(batch: SearchBatch, places: Int[np.ndarray, ' count'], rows: int, devices: int) -> SearchBatch:
  """Put the lines of a batch into these rows of the queues of all devices."""
  def put(leaf: np.ndarray) -> np.ndarray:
    whole = np.zeros((rows * QUEUE * devices, *leaf.shape[1:]), leaf.dtype)
    whole[places] = leaf
    return whole

  return jax.tree.map(put, batch)


def _places(longest: int) -> int:
  """Return the length that prefixes are padded to."""
  return -(-longest // ROWS) * ROWS


def lay_prefixes(wishes: Sequence[Wishes], rows: int, filler: int, most: int | None = None) -> tokens.Tokens | None:
  """Lay one prefix in each row, padded to a multiple of ROWS, or to the `most` tokens that a model has positions for.

  Return None when no request has a prefix.
  """
  longest = max(len(wish.prefix) for wish in wishes)
  prefixes = tokens.pad([wish.prefix for wish in wishes], rows, min(_places(longest), most or _places(longest)), filler)
  return prefixes if longest else None


def wish_class(wishes: Wishes) -> tuple[int, ...]:
  """Return the sizes of the arrays that wishes are laid in: lines that differ in them do not share a batch."""
  return _places(len(wishes.prefix)), *(automaton.sizes(wishes.phrases) if wishes.phrases else ())


def by_program(lengths: dict[int, int], wishes: Sequence[Wishes], most: int | None, least: int
               ) -> Iterator[tuple[int, list[int]]]:
  """Divide lines by the program that searches for them: by its length class and its wishes', thus by the line alone.

  Args:
    lengths, most, least: see length_classes.
    wishes: of each line, by its number.

  Yields:
    (padded length, numbers of the lines).
  """
  for length, some in length_classes(lengths, most, least).items():
    classes: dict[tuple[int, ...], list[int]] = {}
    for line in some:
      classes.setdefault(wish_class(wishes[line]), []).append(line)
    for alike in classes.values():
      yield length, alike


def lay_automata(wishes: Sequence[Wishes], rows: int) -> Automaton | None:
  """Lay the automaton of one request's phrases in each row; None when no request has any."""
  free = automaton.build((), ())
  tables = [wish.phrases or free for wish in wishes] + [free] * (rows - len(wishes))
  return automaton.stack(tables) if any(wish.phrases for wish in wishes) else None


def until(ids: Int[np.ndarray, ' length'], eos_id: int) -> list[int]:
  """Return the ids before the first EOS."""
  end = np.flatnonzero(ids == eos_id)
  return ids[:end[0] if len(end) else len(ids)].tolist()
