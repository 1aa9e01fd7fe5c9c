"""How a record refuses values that do not fit: all of its mistakes at once, each with what was expected."""

from collections.abc import Iterable, Iterator


def refuse(mistakes: Iterable[str]) -> None:
  """Raise ValueError with all of a record's mistakes, one a line, if there are any."""
  if found := list(mistakes):
    raise ValueError('\n'.join(found))


def positive(**values: float) -> Iterator[str]:
  """Yield a sentence for each named value that is not above zero."""
  for name, value in values.items():
    if value <= 0:
      yield f'{name} is {value}; expected a positive number'


def rates(**values: float) -> Iterator[str]:
  """Yield a sentence for each named value, such as a dropout rate, that is not a probability below 1."""
  for name, value in values.items():
    if not 0.0 <= value < 1.0:
      yield f'{name} is {value}; expected a probability from 0 up to, but not, 1'
