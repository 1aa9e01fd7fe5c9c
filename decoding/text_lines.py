"""The lines that a user gives to a script, in a file or typed."""

import sys

from corpora import text_files


def invite() -> None:
  """Tell a user at a terminal to type lines."""
  if sys.stdin.isatty():
    print('Type sentences, one a line; end with Ctrl-D.', file=sys.stderr, flush=True)


def read(source: str) -> list[str]:
  """Read the lines of a file, or of standard input for '-'."""
  if source != '-':
    return text_files.read_lines(source)
  invite()
  return text_files.decode_lines(sys.stdin.buffer.read(), 'standard input')
