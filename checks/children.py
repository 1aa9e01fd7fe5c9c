"""Runs scripts as child processes, one after the other: shows what they write, and passes on what asks for a stop.

A child has a session of its own, so that Ctrl-C on a terminal reaches only its parent, which passes it on once: at a
second one, train.py would stop without saving. It writes to its log itself: with a pipe, its next line would end it
once the parent is killed. So a parent that is killed leaves a child that goes on; whoever starts the same work again
waits for the lock that it holds.
"""

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from checks import locks, signals
from checks.errors import naming
from checks.exit_codes import DONE

POLL_SECONDS = 0.5  # between two readings of a child's log
_TAIL_BYTES = 50_000  # read from the end of a log; no message is longer


class Stopped(Exception):
  """The program was asked to stop, and its child has stopped, too."""

  def __init__(self, message: str, exit_code: int):
    super().__init__(message)
    self.exit_code = exit_code


class StopAsked(Exception):
  """A signal asked for a stop, and no child of this program runs any more; its text, if any, comes behind the message."""


class Stops:
  """The signals that asked for a stop: Ctrl-C, SIGTERM or a closed terminal."""

  def __init__(self):
    self._numbers, self._passed_on = [], 0

  def ask(self, number: int) -> None:
    """Note a signal; called by its handler, which raises nothing, since that could be swallowed."""
    if number == signal.SIGHUP:
      signals.leave_terminal()
    self._numbers.append(number)

  @property
  def exit_code(self) -> int:
    return signals.CODES[signal.Signals(self._numbers[-1])]

  @property
  def are_asked(self) -> bool:
    """Whether a stop was asked for."""
    return bool(self._numbers)

  def check(self, text: str = '') -> None:
    """Raise StopAsked, with a text, when a stop was asked for."""
    if self.are_asked:
      raise StopAsked(text)

  def pass_on(self, child: subprocess.Popen) -> None:
    """Send the child the signals that it has not got yet: SIGTERM for a closed terminal, to which it does not write."""
    while self._passed_on < len(self._numbers):
      number = self._numbers[self._passed_on]
      child.send_signal(signal.SIGTERM if number == signal.SIGHUP else number)
      self._passed_on += 1


@contextlib.contextmanager
def stop_signals() -> Iterator[Stops]:
  """Note the signals that ask for a stop, within the block."""
  stops = Stops()
  before = {number: signal.signal(number, lambda number, _: stops.ask(number)) for number in signals.stop_codes()}
  try:
    yield stops
  finally:
    for number, handler in before.items():
      signal.signal(number, handler)


def wait_until_free(lock: str, stops: Stops, tell: Callable[[], Any]) -> None:
  """Wait until no process holds a lock: a parent that was killed leaves its child at work.

  Args:
    lock: path of a file that its owner locks with flock; where there is none, nobody holds it.
    stops: end the waiting, with StopAsked, not the process that is waited for.
    tell: called once when it has to be waited for.
  """
  if not os.path.isfile(lock):
    return
  told = False
  with open(lock, 'a', encoding='utf-8') as file:
    while True:
      stops.check(' The process that it waited for goes on; to end that, too, send it SIGTERM.' if told else '')
      if locks.locked(file, lock):
        return
      if not told:
        tell()
      told = True
      time.sleep(POLL_SECONDS)


class View(Protocol):
  """What shows a child's log on the terminal while the child runs; a context manager."""

  def begin(self, log: str, start: int) -> None:
    """Begin to show the log from a position."""

  def update(self) -> None:
    """Show what is new."""

  def end(self) -> None:
    """Show the rest, and leave the terminal tidy."""


def run(command: Sequence[str], typed: str, log: str, view: View, stops: Stops,
        is_enough: Callable[[], bool] = lambda: False) -> tuple[int, str]:
  """Run a child to its end; return its exit code, and its last error message or else its last line.

  Signals are passed on to the child; once it has saved and ended, they raise StopAsked. What else ends the parent, such
  as a terminal's output that nobody reads any more, stops the child, too.

  Args:
    command: the child's words.
    typed: the same as one types it, for the log.
    log: path of the file that gets its output, behind what it holds.
    view: shows that output.
    stops: the signals that ask for a stop.
    is_enough: whether the child is to be stopped, by SIGTERM, before its end; asked while it runs.
  """
  stops.check()
  os.makedirs(os.path.dirname(log) or '.', exist_ok=True)
  with open(log, 'ab', buffering=0) as file:
    with naming(log):
      file.write(f'$ {typed}\n'.encode())
    start = file.tell()
    view.begin(log, start)
    try:
      child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                               start_new_session=True, env=os.environ | {'PYTHONUNBUFFERED': '1'})
      _follow(child, view, stops, is_enough)
    finally:
      view.end()
  lines, code = said(log, start), child.returncode
  starts = [place for place, line in enumerate(lines) if line.startswith('error:')]
  last = '\n    '.join(lines[starts[-1]:] if starts else lines[-1:])
  # What was to be stopped may have failed while it saved, as on a full disk.
  stops.check('' if code == DONE or _is_stop(code) else f'\nIts process FAILED with exit code {code}: {last}\n    '
              f'its output is in {log}')
  return code, last


def _is_stop(code: int) -> bool:
  """Return whether a child's exit code is that of a signal that asks for a stop, also of one before its first line."""
  return code in signals.CODES.values() or -code in signals.CODES


def unfinished(code: int, last: str) -> str:
  """Return in words how a child has ended that did not finish, and was not stopped by this program: see run()."""
  if _is_stop(code):
    return f'STOPPED by a signal that it alone got (exit code {code}); the same command resumes it'
  return f'FAILED with exit code {code}: {last}'


def _follow(child: subprocess.Popen, view: View, stops: Stops, is_enough: Callable[[], bool]) -> None:
  """Wait until the child ends; meanwhile, pass on signals, stop it when it is enough, and show what it writes."""
  stopping = False
  try:
    while True:
      stops.pass_on(child)
      if not (stopping or stops.are_asked) and is_enough():
        child.terminate()  # once: at a second signal it would end without saving
        stopping = True
      try:
        child.wait(POLL_SECONDS)
        return
      except subprocess.TimeoutExpired:
        view.update()
  except BaseException:
    if not (stopping or stops.are_asked):
      child.terminate()
    while child.poll() is None:  # it may have to save
      stops.pass_on(child)
      time.sleep(POLL_SECONDS)
    raise


def said(log: str, start: int) -> list[str]:
  """Return the last lines after a position in a log, without blank ones."""
  with open(log, 'rb') as file:
    file.seek(max(start, os.path.getsize(log) - _TAIL_BYTES))
    lines = file.read().decode(errors='replace').splitlines()
  return [line.strip() for line in lines if line.strip()]


def command_line(python: str, command: Sequence[str]) -> str:
  """Return a child's command as one types it in a shell, with this name of the interpreter."""
  return shlex.join([python, *command[1:]])


class StatusLine:
  """The last line of a terminal, written over and over; elsewhere nothing is written."""

  def __init__(self):
    self.shown = sys.stdout.isatty()

  def write(self, text: str) -> None:
    """Put a text in place of the one before, cut at the terminal's width."""
    if self.shown:
      width = shutil.get_terminal_size().columns  # 80 where the terminal does not know
      print(f'\r\x1b[K{text[:width - 1]}', end='', flush=True)

  def clear(self) -> None:
    """Leave the line empty."""
    if self.shown:
      print('\r\x1b[K', end='', flush=True)


class NewestLine:
  """A View: a line of the terminal that always shows the log's newest line, cleared at the end; elsewhere, its path."""

  def __init__(self, head: str):
    self._head, self._log, self._start, self._line = head, '', 0, StatusLine()

  def begin(self, log: str, start: int) -> None:
    """Say that the child has started, and where its output goes."""
    self._log, self._start = log, start
    if self._line.shown:
      self._line.write(f'{self._head}: starting')
    else:
      print(f'{self._head}: started, see {os.path.relpath(log)}', flush=True)

  def update(self) -> None:
    """Show the newest line of the log."""
    if self._line.shown and (lines := said(self._log, self._start)):
      self._line.write(f'{self._head}: {lines[-1]}')

  def end(self) -> None:
    """Clear the line."""
    self._line.clear()


class Echo:
  """A View: all that the child writes, and how far it is: on a terminal in a line below, elsewhere when it changes."""

  def __init__(self, progress: Callable[[], str] = lambda: ''):
    """Take the function that returns how far the child is, in a few words; '' where its output says so."""
    self._progress, self._log, self._place, self._line, self._far = progress, '', 0, StatusLine(), ''

  def begin(self, log: str, start: int) -> None:
    """Begin to show the log from a position."""
    self._log, self._place = log, start

  def update(self) -> None:
    """Print what the child has written since, in whole lines."""
    with open(self._log, 'rb') as file:
      file.seek(self._place)
      new = file.read()
    self._print(new[:new.rfind(b'\n') + 1])
    self._tell()

  def _tell(self) -> None:
    far = self._progress()
    if far and self._line.shown:
      self._line.write(far)
    elif far != self._far:
      print(far, flush=True)
    self._far = far

  def end(self) -> None:
    """Print the rest, and how far the child has come."""
    with open(self._log, 'rb') as file:
      file.seek(self._place)
      self._print(file.read())
    self._tell()
    self._line.clear()

  def _print(self, new: bytes) -> None:
    if new:
      self._line.clear()
      print(new.decode(errors='replace'), end='' if new.endswith(b'\n') else '\n', flush=True)
      self._place += len(new)
