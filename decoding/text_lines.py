"""The lines that a user gives to a script, in a file or typed."""

import sys
from collections.abc import Sequence

from checks.errors import ConfigError
from corpora import text_files
from options.flags import NO_INPUT


def invite() -> None:
  """Tell a user at a terminal to type lines."""
  if sys.stdin.isatty():
    print('Type sentences, one a line; end with Ctrl-D.', file=sys.stderr, flush=True)


def read(source: str) -> list[str]:
  """Read the lines of a file, or of standard input for '-'. Raises ConfigError when standard input is empty."""
  if source != '-':
    return text_files.read_lines(source)
  invite()
  if not (data := sys.stdin.buffer.read()):
    raise ConfigError(NO_INPUT)
  return text_files.decode_lines(data, 'standard input')


def numbered(lines: Sequence[int]) -> str:
  """Count lines, given by their numbers, and list the first ten: "2 lines (3, 7)"."""
  lines = sorted(set(lines))
  listed = ', '.join(f'{line:,}' for line in lines[:10]) + (', …' if len(lines) > 10 else '')
  return f'{len(lines):,} lines ({listed})' if len(lines) > 1 else f'line {listed}'
