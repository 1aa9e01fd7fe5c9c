"""Locks of the operating system on open files, which end with the process that holds them."""

import fcntl
from typing import IO, Any

from checks.errors import FileError


def locked(file: IO[Any], path: str) -> bool:
  """Lock an open file, unless another process has; return whether it is locked now.

  Raises:
    FileError: where files cannot be locked at all, as on some network disks; without it they would look busy for ever.
  """
  try:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
  except BlockingIOError:
    return False
  except OSError as error:
    raise FileError(f'{path} cannot be locked: {error.strerror}; choose a folder on a disk that has locks, and give the '
                    'same command again') from None
  return True
