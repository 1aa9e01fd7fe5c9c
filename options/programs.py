"""A script as a program: it answers --help and mistakes at once, and ends with an exit code."""

import contextlib
import os
import select
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from checks import exit_codes, startup
from checks.errors import ConfigError, file_error, naming
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
    text = help_text(doc, script_flags, tree_name, everything='--helpfull' in asked)
    run(_print, text)
  try:
    yield
  except ConfigError as error:
    _fail(error)


def run(main: Callable[..., int | None], *options: Any) -> NoReturn:
  """Call main(*options) and end the program with its exit code.

  An exception that has an `exit_code`, or that a disk, a path or permissions explain, is printed as a message, without a
  traceback. Ctrl-C ends with 130. Where the reader of a pipe has ended, as `head` does, the program ends silently.
  """
  startup.imported()
  try:
    code = main(*options) or exit_codes.DONE
    _flush()
  except KeyboardInterrupt:
    print('Interrupted.', file=sys.stderr)
    sys.exit(exit_codes.INTERRUPTED)
  except Exception as error:
    if isinstance(error, BrokenPipeError) and _is_pipe_closed():
      _discard(1, 2)
      sys.exit(exit_codes.PIPE_CLOSED)
    explained = file_error(error)
    if not isinstance(getattr(explained, 'exit_code', None), int):
      raise
    try:
      _flush()
    except OSError:
      _discard(1)
    _fail(explained)
  sys.exit(code)


def _print(text: str) -> None:
  with naming('standard output'):
    print(text)


def _flush() -> None:
  with naming('standard output'):
    if sys.stdout:  # None where it is closed
      sys.stdout.flush()


def _is_pipe_closed() -> bool:
  """Return whether standard output or standard error is a pipe that nobody reads any more."""
  poll = select.poll()
  for number in (1, 2):
    poll.register(number, 0)  # errors and ends are always reported
  return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def _discard(*descriptors: int) -> None:
  """Discard what is left to write to standard output or error, which the interpreter would try again at its end."""
  nowhere = os.open(os.devnull, os.O_WRONLY)
  for number in descriptors:
    os.dup2(nowhere, number)


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
