"""Begins a script, before anything that takes seconds to import or may not be installed is imported."""

import atexit
import gc
import os
import sys
from types import TracebackType

from checks import memory, signals
from checks.exit_codes import CONFIG

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def begin(message: str = 'Interrupted.') -> None:
  """From now on, keep memory, let Ctrl-C, SIGTERM and SIGHUP end the program, and report a package that is missing in a sentence.

  Call it first of all. Garbage is not looked for until imported() is called: what imports make is none, and looking
  through it again and again, and once more at the program's end, takes as long as half of them.

  Args:
    message: printed on these signals, see signals.end_at_once().
  """
  _open_closed()
  gc.disable()
  atexit.register(gc.freeze)
  memory.keep()  # before signals start a thread
  signals.end_at_once(message)
  sys.excepthook = _report


def _open_closed() -> None:
  """Let what is written to an output that is closed, as by 2>&-, go nowhere, not into the next file that is opened."""
  for number, name in ((1, 'stdout'), (2, 'stderr')):
    if getattr(sys, name) is None:
      nowhere = os.open(os.devnull, os.O_WRONLY)
      if nowhere != number:
        os.dup2(nowhere, number)
        os.close(nowhere)
      setattr(sys, name, open(number, 'w', encoding='utf-8', closefd=False))


def imported() -> None:
  """Look for garbage from now on, in what is made from now on. Call it when a script's imports are done."""
  if not gc.isenabled():
    gc.freeze()
    gc.enable()


def _report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
  """Print an exception that nobody has caught: of a package that is missing only what to do, and end with exit code 2."""
  package = error.name.partition('.')[0] if isinstance(error, ModuleNotFoundError) and error.name else ''
  is_here = any(os.path.exists(os.path.join(_ROOT, name)) for name in (package, f'{package}.py'))
  if not package or is_here or package in sys.modules:  # a module of a package that is there is missing
    sys.__excepthook__(kind, error, trace)
    return
  print(f'error: {_advice(package)}', file=sys.stderr)
  sys.exit(CONFIG)


def _advice(package: str) -> str:
  """Return the sentence on a package that this Python does not have, with the environment that has it or how to make one."""
  import shlex  # takes milliseconds, in which a script would not yet handle signals
  made, shown = os.path.join(_ROOT, '.venv'), lambda *names: shlex.quote(os.path.relpath(os.path.join(_ROOT, *names)))
  found = f'{sys.executable} has no package {package}, which is needed; '
  install = f'{shlex.quote(sys.executable)} -m pip install -r {shown("requirements.txt")}'
  if os.path.realpath(sys.prefix) == os.path.realpath(made):
    return f'{found}install what is missing with: {install}'
  python = shown('.venv', 'bin', 'python')
  if os.path.exists(os.path.join(made, 'ready')):
    return f'{found}start the script with {python}, which `make train` has set up'
  return (f'{found}`make train` sets up an environment with everything and trains a first run, after which scripts are '
          f'started with {python}; or install it for this Python, 3.11 or newer: {install}')
