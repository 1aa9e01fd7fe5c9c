"""Names of files that must not fall together."""

from collections.abc import Iterable


def distinct(names: Iterable[str], taken: Iterable[str] = ()) -> list[str]:
  """Return the names in order, those that an earlier one or `taken` has with _2, _3, … behind them."""
  found, used = [], set(taken)
  for name in names:
    number, free = 1, name
    while free in used:
      number += 1
      free = f'{name}_{number}'
    used.add(free)
    found.append(free)
  return found
