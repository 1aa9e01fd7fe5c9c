"""Errors that a user can mend: scripts print their message, without a traceback, and end with their exit code."""

from checks import exit_codes


class ConfigError(Exception):
  """A mistake on the command line or in a configuration."""

  exit_code = exit_codes.CONFIG


class DataError(Exception):
  """A corpus, vocabulary or line that cannot be used."""

  exit_code = exit_codes.DATA
