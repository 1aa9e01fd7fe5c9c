"""Errors that a user can correct: scripts print their message, without a traceback, and end with their exit code."""

import contextlib
from collections.abc import Iterator

from checks import exit_codes


class ConfigError(Exception):
  """A mistake on the command line or in a configuration."""

  exit_code = exit_codes.CONFIG


class DataError(Exception):
  """A corpus, vocabulary or line that cannot be used."""

  exit_code = exit_codes.DATA


class DamagedError(Exception):
  """A file of a run that differs from what the run wrote, or is gone."""

  exit_code = exit_codes.CHECKPOINT


@contextlib.contextmanager
def config_errors() -> Iterator[None]:
  """Turn a ValueError about options, of a record or of the library, into a ConfigError."""
  try:
    yield
  except ValueError as error:
    raise ConfigError(str(error)) from error
