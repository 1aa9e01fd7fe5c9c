"""A script as a program: it answers --help and mistakes at once, and ends with an exit code."""

import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from checks import exit_codes
from checks.errors import ConfigError
from options.flags import Flag
from options.help import help_text

_HELP = ('--help', '-help', '-h', '--helpfull')


@contextlib.contextmanager
def answering(argv: Sequence[str], doc: str, script_flags: Sequence[Flag], tree_name: str = '') -> Iterator[None]:
  """End the program with the help text on --help, or with a message when the block raises a ConfigError.

  Args:
    argv: the program's name and its arguments.
    doc: the script's docstring, which says what it does.
    script_flags, tree_name: see parsing.parse().
  """
  if asked := set(_HELP) & set(argv[1:]):
    print(help_text(doc, script_flags, tree_name, everything='--helpfull' in asked))
    sys.exit(exit_codes.DONE)
  try:
    yield
  except ConfigError as error:
    _fail(error)


def run(main: Callable[..., int | None], *options: Any) -> NoReturn:
  """Call main(*options) and end the program with its exit code.

  An exception that has an `exit_code` is printed as a message, without a traceback. Ctrl-C ends with 130.
  """
  try:
    sys.exit(main(*options) or exit_codes.DONE)
  except KeyboardInterrupt:
    print('Interrupted.', file=sys.stderr)
    sys.exit(exit_codes.INTERRUPTED)
  except Exception as error:
    if not isinstance(getattr(error, 'exit_code', None), int):
      raise
    _fail(error)


def python() -> str:
  """Return this interpreter as one types it on a command line: `python` where that is the same, else its path."""
  here, found = os.path.abspath(sys.executable), shutil.which('python')
  # Links are not followed: the interpreters of two environments can be the same file, but have different packages.
  if found and os.path.dirname(os.path.abspath(found)) == os.path.dirname(here) and os.path.samefile(found, here):
    return 'python'
  relative = os.path.relpath(here)
  return here if relative.startswith(os.pardir) else relative


def _fail(error: Exception) -> NoReturn:
  print(f'error: {error}', file=sys.stderr)
  sys.exit(error.exit_code)
