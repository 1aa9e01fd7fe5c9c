"""Errors that a user can correct: scripts print their message, without a traceback, and end with their exit code."""

import contextlib
import errno
import os
from collections.abc import Iterator

from checks import exit_codes


class ConfigError(Exception):
  """A mistake on the command line or in a configuration."""

  exit_code = exit_codes.CONFIG


class DataError(Exception):
  """A corpus, vocabulary or line that cannot be used."""

  exit_code = exit_codes.DATA


class DamagedError(Exception):
  """A file of a run that differs from what the run wrote, or is gone."""

  exit_code = exit_codes.CHECKPOINT


class FileError(Exception):
  """A file of a run or an output that is missing or cannot be read or written."""

  exit_code = exit_codes.CHECKPOINT


# What the operating system reports when a file cannot be read or written, with what to do. Of those that mean other
# things, too, when they come from a process or a connection, only errors that name a file count.
_FULL = {errno.ENOSPC: 'make room', errno.EDQUOT: 'make room', errno.EFBIG: 'allow larger files, or choose another disk',
         errno.EROFS: 'choose a folder that can be written to'}
_DENIED = {errno.EACCES: 'change its permissions, or choose another place',
           errno.EPERM: 'change its permissions, or choose another place', errno.EIO: 'check the disk',
           errno.ENOTDIR: 'choose a place below a folder', errno.EEXIST: 'move it away, or choose another place',
           errno.ENAMETOOLONG: 'choose a shorter path', errno.ELOOP: 'mend the link, or choose another place'}


def file_error(error: Exception) -> Exception:
  """Return a FileError in place of an OSError about a disk, a path or permissions; return other errors unchanged."""
  if not isinstance(error, OSError) or error.errno is None:
    return error
  remedy = _FULL.get(error.errno) or (_DENIED.get(error.errno) if error.filename is not None else None)
  if remedy is None:
    return error
  path = 'a file' if error.filename is None else os.fsdecode(error.filename) if isinstance(
      error.filename, (str, bytes)) else error.filename
  return FileError(f'{path} cannot be read or written: {error.strerror}; {remedy}, and give the same command again')


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
  """Let OSErrors of the block name a file: those of writing to an open file, such as on a full disk, name none."""
  try:
    yield
  except OSError as error:
    if error.errno is not None and error.filename is None:
      error.filename = path
    raise


@contextlib.contextmanager
def config_errors() -> Iterator[None]:
  """Turn a ValueError about options, of a record or of the library, into a ConfigError."""
  try:
    yield
  except ValueError as error:
    raise ConfigError(str(error)) from error
