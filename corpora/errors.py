"""The error of bad input: what was expected, what was found, and what to do."""


class DataError(Exception):
  """A corpus, vocabulary or line that cannot be used; scripts end with this exit code."""

  exit_code = 3
