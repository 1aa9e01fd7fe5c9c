"""The files of a run on a disk: written by renaming, and locked with flock."""

import contextlib
import errno
import os
import shutil
import socket
from typing import IO

from checks import locks
from checks.errors import naming
from checks.storage import Busy, Claim, Lines, Storage
from checks.whole_files import sum_of, sums_of, write_whole


class Disk(Storage):
  """Files and folders of the operating system."""

  def absolute(self, path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))

  def shown(self, path: str) -> str:
    return os.path.relpath(path)

  def on_disk(self, path: str, name: str, shared: bool = False) -> str:
    del shared
    return os.path.join(path, name)

  def reach(self, path: str) -> None:
    del path

  def is_file(self, path: str) -> bool:
    return os.path.isfile(path)

  def is_folder(self, path: str) -> bool:
    return os.path.isdir(path)

  def is_elsewhere(self, path: str) -> bool:
    return os.path.isdir(path) and (os.path.islink(path) or os.path.ismount(path))

  def names(self, folder: str) -> list[str]:
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []

  def read(self, path: str) -> bytes:
    with open(path, 'rb') as file:
      return file.read()

  def sum_of(self, path: str) -> str:
    return sum_of(path)

  def sums_of(self, folder: str) -> dict[str, str]:
    return sums_of(folder)

  def write(self, path: str, data: bytes | str) -> None:
    write_whole(path, data)

  def lines(self, path: str) -> Lines:
    return _FileOfLines(path)

  def make_folder(self, folder: str) -> None:
    os.makedirs(folder, exist_ok=True)

  def move(self, path: str, target: str) -> None:
    os.makedirs(os.path.dirname(target), exist_ok=True)
    try:
      os.replace(path, target)
    except OSError as error:
      if error.errno != errno.EXDEV:
        raise
      _copy_whole(path, target)  # to another disk, as where a run's checkpoints/ is a link
      _remove(path)

  def remove(self, path: str) -> None:
    os.remove(path)

  def remove_folder(self, folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)

  def claim(self, folder: str) -> Claim:
    return _FileLock(os.path.join(folder, 'lock'))

  def free(self, folder: str) -> int | None:
    return shutil.disk_usage(folder).free

  def blamed(self, error: Exception) -> str | None:
    del error
    return None

  def probe(self, folder: str) -> int | None:
    path = os.path.join(folder, 'probe.unfinished')
    try:
      with open(path, 'wb') as file:
        file.write(bytes(4096))
        file.flush()
        os.fsync(file.fileno())
      return self.free(folder)
    finally:
      with contextlib.suppress(OSError):
        os.remove(path)


def _copy_whole(path: str, target: str) -> None:
  """Copy a file or a folder; `target` is there once all of it has reached the disk, or not at all."""
  unfinished = f'{target}.unfinished'
  try:
    with naming(target):
      _remove(unfinished)  # left by a kill
      _copy(path, unfinished)
      os.replace(unfinished, target)
      _sync(os.path.dirname(target))
  except BaseException:
    with contextlib.suppress(OSError):
      _remove(unfinished)  # on a full disk it takes room
    raise


def _copy(path: str, target: str) -> None:
  """Copy a file, or a folder with all that is in it, to the disk. Unlike shutil.copytree's, errors say what they are of."""
  if os.path.isdir(path):
    os.mkdir(target)
    for name in os.listdir(path):
      _copy(os.path.join(path, name), os.path.join(target, name))
  else:
    shutil.copyfile(path, target)
  _sync(target)


def _sync(path: str) -> None:
  """Return once the content of a file, or what a folder lists, is on the disk."""
  descriptor = os.open(path, os.O_RDONLY)
  try:
    os.fsync(descriptor)
  finally:
    os.close(descriptor)


def _remove(path: str) -> None:
  """Remove a file or a folder, where there is one."""
  if os.path.isdir(path):
    shutil.rmtree(path)
  elif os.path.exists(path):
    os.remove(path)


class _FileLock(Claim):
  """A lock of the operating system on an open file, which ends with the process that holds it."""

  def __init__(self, path: str):
    """Lock a file, and write into it who holds it. Raises Busy when another process does."""
    self._file = self._locked(path)
    try:
      with naming(path):
        self._file.truncate(0)
        self._file.write(f'process {os.getpid()} on {socket.gethostname()}')
        self._file.flush()
    except OSError:  # such as a full disk
      with contextlib.suppress(OSError):  # closing tries to write once more
        self._file.close()
      raise

  @staticmethod
  def _locked(path: str) -> IO[str]:
    while True:
      os.makedirs(os.path.dirname(path), exist_ok=True)
      with contextlib.suppress(FileNotFoundError):  # a start that discards its folder has removed it in this moment
        file = open(path, 'a+', encoding='utf-8')
        if not locks.locked(file, path):
          file.seek(0)
          owner = file.read().strip() or 'another process'
          file.close()
          raise Busy(owner)
        if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
          return file
        file.close()

  def release(self) -> None:
    self._file.close()

  def discard(self, folder: str) -> None:
    # What cannot be removed must not hide why: another start may open the lock meanwhile, and NFS keeps an open file.
    if os.path.islink(folder):  # it stays, and leads to a folder that is empty
      for name in os.listdir(folder):
        with contextlib.suppress(OSError):
          _remove(os.path.join(folder, name))
    else:
      shutil.rmtree(folder, ignore_errors=True)
    self._file.close()
    with contextlib.suppress(OSError):
      os.rmdir(folder)


class _FileOfLines(Lines):
  """An open file; each line reaches the operating system at once."""

  def __init__(self, path: str):
    self._path, self._file = path, open(path, 'a', encoding='utf-8')

  def write(self, line: str) -> None:
    with naming(self._path):
      self._file.write(line)
      self._file.flush()

  def settle(self) -> None:
    pass

  def close(self) -> None:
    with naming(self._path):  # of a full disk, what could not be written before
      self._file.close()
