"""Shapes of batches, and lengths to pad to, so that few programs are compiled and little is padded."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from checks.errors import DataError

MOST = 16  # shapes of a run's batches, unless data.max_shapes gives another number
ROWS = 8  # rows of every batch are a multiple of this, so that every run can go on on 1, 2, 4 or 8 devices
_GRID = 48  # values per side among which the fitted shapes' lengths are chosen
_NEAR = [(i, j) for i in range(-2, 3) for j in range(-2, 3)]  # steps on the grid that improve a rectangle


class Shape(NamedTuple):
  """Rows and lengths of a batch."""

  rows: int
  source: int
  target: int

  @property
  def size(self) -> int:
    """The number of token positions on both sides, padding included."""
    return self.rows * (self.source + self.target)

  def rows_of_host(self, hosts: int) -> int:
    """Return the rows that each of `hosts` hosts reads. Raises DataError when they do not divide."""
    if self.rows % hosts:
      raise DataError(f'batches of {self.rows} rows do not divide over {hosts} hosts')
    return self.rows // hosts


class Costs(NamedTuple):
  """What further shapes cost a run, and what the padding that they avoid would cost it; see count_that_pays()."""

  compile_seconds: float  # that each shape adds to the run
  token_seconds: float  # that training takes for a token position of a batch, source or target, padding included
  tokens: float | None = None  # token positions of all batches of the run; None: `epochs` passes over the text
  epochs: float | None = None


def row_multiple(parts: int) -> int:
  """Return the number that the rows of batches are multiples of, so that they divide into `parts` equal parts."""
  return math.lcm(ROWS, parts)


def fit_lengths(source: np.ndarray, target: np.ndarray, count: int) -> list[tuple[int, int]]:
  """Return at most `count` (source, target) rectangles that hold all sentences with little padding.

  Greedy: start from the rectangle that holds everything and add the one that saves most, until there are `count`;
  then move each in turn to the best place near its own, until nothing improves. A sentence counts for the cheapest
  rectangle that holds it.

  Args:
    source, target: [sentences] lengths.
    count: at least 1.
  """
  grid_s, grid_t = _grid(source), _grid(target)
  return sorted((int(grid_s[i]), int(grid_t[j])) for i, j in _Fit.of(source, target).chosen(count))


def count_that_pays(source: np.ndarray, target: np.ndarray, costs: Costs, most: int = MOST) -> int:
  """Return the number of shapes with which compiling and computing padding take a run least time together.

  Args:
    source, target: [sentences] lengths.
    costs: of this run.
    most: the largest number to return.
  """
  fit, real = _Fit.of(source, target), int(source.sum() + target.sum())

  def seconds(count: int) -> float:
    cells = fit.cells(fit.chosen(count))
    computed = costs.epochs * cells if costs.tokens is None else costs.tokens
    return count * costs.compile_seconds + computed * costs.token_seconds * (1.0 - real / cells)

  return min(range(1, most + 1), key=seconds)


class _Fit(NamedTuple):
  """Rectangles on a grid of lengths; a place (i, j) is the rectangle that holds all sentences up to there."""

  crowd: np.ndarray  # [source grid, target grid] sentences of these lengths
  cost: np.ndarray  # [source grid, target grid] cells that a sentence takes in the rectangle

  @classmethod
  def of(cls, source: np.ndarray, target: np.ndarray) -> '_Fit':
    """Return the grid of sentences with these lengths."""
    grid_s, grid_t = _grid(source), _grid(target)
    crowd = np.zeros((len(grid_s), len(grid_t)))
    np.add.at(crowd, (np.searchsorted(grid_s, source), np.searchsorted(grid_t, target)), 1)
    return cls(crowd, grid_s[:, None] + grid_t[None, :])

  def chosen(self, count: int) -> list[tuple[int, int]]:
    """Return at most `count` rectangles with little padding, see fit_lengths()."""
    chosen = [self.whole]
    while len(chosen) < count:
      place, gain = self.best_of(self.places, chosen)
      if not gain:
        break
      chosen.append(place)
    improved = True
    while improved:
      improved = False
      for index, place in list(enumerate(chosen))[1:]:
        rest = chosen[:index] + chosen[index + 1:]
        best, gain = self.best_of(self.around(place), rest)
        if gain > self.gain(place, self.covered(rest)):
          chosen[index], improved = best, True
    return chosen

  def cells(self, chosen: Iterable[tuple[int, int]]) -> float:
    """Return the cells that all sentences take, each in the cheapest of the chosen rectangles."""
    return float((self.crowd * self.covered(chosen)).sum())

  @property
  def whole(self) -> tuple[int, int]:
    """The rectangle that holds every sentence."""
    return self.crowd.shape[0] - 1, self.crowd.shape[1] - 1

  @property
  def places(self) -> list[tuple[int, int]]:
    """All rectangles."""
    return list(zip(*np.nonzero(np.ones_like(self.crowd))))

  def around(self, place: tuple[int, int]) -> list[tuple[int, int]]:
    """Return the rectangles whose sides are at most two steps longer or shorter, in order."""
    return sorted({tuple(min(max(at + step, 0), last) for at, step, last in zip(place, steps, self.whole))
                   for steps in _NEAR})

  def covered(self, chosen: Iterable[tuple[int, int]]) -> np.ndarray:
    """Return what a sentence of each grid point costs in the cheapest of the chosen rectangles."""
    current = np.full(self.crowd.shape, np.inf)
    for i, j in chosen:
      current[:i + 1, :j + 1] = np.minimum(current[:i + 1, :j + 1], self.cost[i, j])
    return current

  def gain(self, place: tuple[int, int], current: np.ndarray) -> float:
    """Return the cells that a further rectangle saves."""
    i, j = place
    return (self.crowd[:i + 1, :j + 1] * np.maximum(current[:i + 1, :j + 1] - self.cost[i, j], 0)).sum()

  def best_of(self, places: list[tuple[int, int]], chosen: Iterable[tuple[int, int]]
              ) -> tuple[tuple[int, int], float]:
    """Return the first of the places that saves most beside the chosen rectangles, and how much."""
    current = self.covered(chosen)
    gains = [self.gain(place, current) for place in places]
    best = int(np.argmax(gains))
    return places[best], gains[best]


def _grid(lengths: np.ndarray) -> np.ndarray:
  """Return the distinct lengths, thinned to quantiles when there are many; the longest is always among them."""
  values = np.unique(lengths)
  if len(values) > _GRID:
    values = np.unique(np.quantile(lengths, np.linspace(0, 1, _GRID), method='higher'))
  return np.unique(np.append(values, lengths.max()))
