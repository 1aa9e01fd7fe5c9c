"""The output of decode.py: standard output, or a file that one job writes at a time."""

import contextlib
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from typing import IO

from checks import locks
from checks.errors import ConfigError, naming
from options.flags import LOCK_END
from training import peers
from training.run_folder import FolderBusyError

_OWNER = 'process '  # how the content of a lock file begins


def put(lines: Sequence[str]) -> None:
  """Write lines to standard output, and flush it."""
  with naming('standard output'):
    sys.stdout.buffer.write(''.join(f'{line}\n' for line in lines).encode())
    sys.stdout.buffer.flush()


@contextlib.contextmanager
def claimed(path: str) -> Iterator[None]:
  """Keep other jobs from writing an output of decode.py during the block, see locked().

  Of the processes that share a job, process 0 has the lock. Standard output, -, has none.
  """
  with contextlib.nullcontext() if path == '-' or not peers.is_main() else locked(path, f'--output={path}'):
    yield


@contextlib.contextmanager
def locked(path: str, option: str) -> Iterator[None]:
  """Keep other jobs from writing a file during the block, by a lock on the file PATH.lock.

  The lock ends with its process, however that ends. No device is touched: on a TPU, that would keep it from child processes.

  Args:
    path: of the file.
    option: what messages call it, as in --output=PATH.

  Raises:
    ConfigError: when PATH.lock is a file of another kind.
    FolderBusyError: naming the process that writes this file.
  """
  place = path + LOCK_END
  with _opened(place, option):
    try:
      yield
    finally:
      with contextlib.suppress(FileNotFoundError):
        os.remove(place)  # while it is locked: whoever has opened it by now finds another file there, or none


def _opened(place: str, option: str) -> IO[str]:
  """Return the locked file at `place`; closing it ends the lock."""
  while True:
    file = open(place, 'a+', encoding='utf-8', errors='replace')
    try:
      if not locks.locked(file, place):
        file.seek(0)
        owner = file.read() or 'another process'
        raise FolderBusyError(f'{option} is being written by {owner}; wait for its end, stop it, or give another path')
      if _is_at(file, place):
        with naming(place):
          _sign(file, place)
        return file
    except BaseException:
      with contextlib.suppress(OSError):  # on a full disk, closing tries to write once more
        file.close()
      raise
    file.close()  # the job that had it has just ended and removed it


def _is_at(file: IO[str], place: str) -> bool:
  try:
    return os.path.samestat(os.fstat(file.fileno()), os.stat(place))
  except FileNotFoundError:
    return False


def _sign(file: IO[str], place: str) -> None:
  """Write into a lock file which process has it."""
  file.seek(0)
  if (before := file.read()) and not before.startswith(_OWNER):
    raise ConfigError(f'{place} is where decode.py would keep the lock of its output, but it is another file; move it, '
                      'or give another --output')
  file.truncate(0)
  file.write(f'{_OWNER}{os.getpid()} on {socket.gethostname()}')
  file.flush()
