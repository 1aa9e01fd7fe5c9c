"""Ends a script on Ctrl-C, SIGTERM or a closed terminal, from its first line on.

A handler must not raise: Python raises wherever the main thread happens to be, and within a callback of the garbage
collector, such as jax's, or a `__del__`, it prints the exception and goes on. So the program ends in the handler itself.
Files are written whole or not at all (checks/whole_files.py), so an end at any moment leaves none that is cut short.
"""

import atexit
import contextlib
import os
import signal
import stat
import threading

from checks.exit_codes import INTERRUPTED, PREEMPTED

CODES = {signal.SIGINT: INTERRUPTED, signal.SIGHUP: PREEMPTED, signal.SIGTERM: PREEMPTED}  # SIGHUP: its terminal is closed
_ending = threading.Lock()  # held by the thread that ends the program
_message = ''


def end_at_once(message: str = 'Interrupted.') -> None:
  """From now on, let the signals of stop_codes() print a message on stderr and end the program with their exit code.

  Scripts call it through startup.begin(), before imports that take seconds. Another handler may take over for a while
  and restore this one. Once the interpreter has begun to close, nothing is left to stop: a signal then no longer changes
  the exit code.
  """
  global _message
  _message = message
  # A handler runs in the main thread once that has left native code: a connection that is waited for, or a compilation.
  # The thread reads the number of the signal at once.
  reader, writer = os.pipe()
  os.set_blocking(writer, False)
  signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
  threading.Thread(target=_watch, args=(reader,), daemon=True).start()
  for number in stop_codes():
    signal.signal(number, _end)
  atexit.register(_ignore)  # what is registered first is called last


def stop_codes() -> dict[int, int]:
  """Return the signals that ask for a stop, with their exit codes; without SIGHUP where it is ignored, as under nohup."""
  return {number: code for number, code in CODES.items()
          if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN}


def leave_terminal() -> None:
  """Discard from now on what is written to a terminal; handlers call it on SIGHUP, after which writing there fails.

  Also what is written to a pipe, as in `| tee log`: whatever reads it ends with the terminal.
  """
  with contextlib.suppress(OSError):
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
      with contextlib.suppress(OSError):  # it is not open
        mode = os.fstat(number).st_mode
        if stat.S_ISCHR(mode) or stat.S_ISFIFO(mode):  # isatty() is False of a closed terminal
          os.dup2(nowhere, number)
    os.close(nowhere)


def restore() -> None:
  """Install the handlers again after a library has put its own in their place, as jax.distributed does with SIGTERM's.

  Without end_at_once() before, this does nothing.
  """
  for number in CODES:
    if signal.getsignal(number) is _end:  # Python's record, which a library in C++ leaves as it is
      signal.signal(number, _end)


def exit_now(message: str, code: int) -> None:
  """Print a message on stderr and end the program, without closing anything; for signal handlers."""
  if not _ending.acquire(blocking=False):
    return  # the other thread ends the program
  try:
    os.write(2, f'{chr(10) * os.isatty(2)}{message}\n'.encode())  # on a terminal, behind ^C or a progress bar
  finally:
    os._exit(code)


def _end(number: int, frame: object = None) -> None:
  exit_now(_message, CODES[signal.Signals(number)])


def _watch(reader: int) -> None:
  while numbers := os.read(reader, 1):
    if signal.getsignal(numbers[0]) is _end:
      _end(numbers[0])


def _ignore() -> None:
  for number in CODES:
    signal.signal(number, signal.SIG_IGN)
