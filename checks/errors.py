"""Bad input and bad options: what was expected, what was found, and what to do."""

from collections.abc import Iterable


class DataError(Exception):
  """A corpus, vocabulary or line that cannot be used; scripts end with this exit code."""

  exit_code = 3


def refuse(mistakes: Iterable[str]) -> None:
  """Raises ValueError with all of a record's mistakes, one a line, if there are any."""
  if found := list(mistakes):
    raise ValueError('\n'.join(found))
