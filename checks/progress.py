"""Progress bars, on terminals alone."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar('Item')


def shown(items: Iterable[Item], what: str, unit: str, total: int | None = None) -> Iterator[Item]:
  """Iterate over items, with a progress bar on stderr where that is a terminal.

  Args:
    items: of any number.
    what: is being done, in front of the bar: 'tokenising'.
    unit: of the items, with a space before it: ' pairs'.
    total: the number of items, where it is known.
  """
  import tqdm  # not needed to know which kinds of corpora there are
  return iter(tqdm.tqdm(items, total=total, desc=what, unit=unit, leave=False, disable=None))
