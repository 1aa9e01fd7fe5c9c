"""A folder that is there whole or not at all."""

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Iterator

from checks import files
from checks.errors import ConfigError
from options.flags import new_folder_mistakes

_TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)
_UNFINISHED = '.unfinished'
_LAST = 'config.json'  # without which no folder is a run, nor a model of another toolkit


def check(path: str, option: str) -> None:
  """Raise ConfigError naming the option when no new folder can be made at `path`."""
  for mistake in new_folder_mistakes(option, path):
    raise ConfigError(mistake)


@contextlib.contextmanager
def filling(path: str, option: str) -> Iterator[str]:
  """Yield a folder to write into, which becomes `path` when the block ends and vanishes when it fails.

  Its name ends in a draw, so that two processes with one `path` do not meet: the first that ends makes it, and the other
  is refused. An empty folder that is there stays, with its owner and permissions, and somebody may be in it: what was
  written is moved into it, file by file, config.json last.

  Args:
    path: the folder to make; its parents are made, too, and a link to an empty folder stays.
    option: of the command line that names it, for messages.

  Raises:
    ConfigError: see check(); also when the folder was made by another process meanwhile.
  """
  check(path, option)
  whole = os.path.realpath(os.path.expanduser(path))
  above = os.path.dirname(whole)
  os.makedirs(above, exist_ok=True)
  is_inside = os.path.isdir(whole)
  unfinished = os.path.join(whole if is_inside else above, f'{os.path.basename(whole)}{_UNFINISHED}-{secrets.token_hex(8)}')
  claimed = os.path.join(whole, f'{os.path.basename(whole)}{_UNFINISHED}')
  os.mkdir(unfinished)
  try:
    yield unfinished
    try:
      if is_inside:
        os.replace(unfinished, claimed)  # one process alone can
        unfinished = claimed
        _move_content(unfinished, whole)
      else:
        os.rename(unfinished, whole)
    except OSError as error:
      if error.errno not in _TAKEN:
        raise
      raise ConfigError(f'--{option}={path} is no longer empty: another process has written there meanwhile; give a new '
                        'folder') from None
  finally:
    shutil.rmtree(unfinished, ignore_errors=True)  # what was moved is not there


def _move_content(unfinished: str, whole: str) -> None:
  """Move what a folder holds into the one above it, which holds nothing else but what is not finished."""
  if not all(_UNFINISHED in name for name in os.listdir(whole)):
    raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), whole)
  for name in sorted(os.listdir(unfinished), key=lambda name: (name == _LAST, name)):
    files.DISK.move(os.path.join(unfinished, name), os.path.join(whole, name))
