"""The output of decode.py: standard output, or a file that one job writes at a time."""

import contextlib
import fcntl
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from typing import IO

from checks.errors import ConfigError, naming
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
  """Keep other jobs from writing an output during the block, by a lock on the file PATH.lock.

  The lock ends with its process, however that ends. Of the processes that share a job, process 0 has it.

  Args:
    path: of the output; - is standard output, which is not locked.

  Raises:
    ConfigError: when PATH.lock is a file of another kind.
    FolderBusyError: naming the process that writes this output.
  """
  if path == '-' or not peers.is_main():
    yield
    return
  place = f'{path}.lock'
  with _locked(place, path):
    try:
      yield
    finally:
      with contextlib.suppress(FileNotFoundError):
        os.remove(place)  # while it is locked: whoever has opened it by now finds another file there, or none


def _locked(place: str, path: str) -> IO[str]:
  """Return the locked file at `place`; closing it ends the lock."""
  while True:
    file = open(place, 'a+', encoding='utf-8', errors='replace')
    try:
      fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
      if _is_at(file, place):
        _sign(file, place)
        return file
    except BlockingIOError:
      file.seek(0)
      owner = file.read() or 'another process'
      file.close()
      raise FolderBusyError(f'--output={path} is being written by {owner}; wait for its end, stop it, or give another '
                            'path') from None
    except BaseException:
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
