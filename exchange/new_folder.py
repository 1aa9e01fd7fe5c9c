"""A folder that is there whole or not at all."""

import contextlib
import os
import shutil
from collections.abc import Iterator

from checks.errors import ConfigError
from options.flags import new_folder_mistakes


def check(path: str, option: str) -> None:
  """Raise ConfigError naming the option when no new folder can be made at `path`."""
  for mistake in new_folder_mistakes(option, path):
    raise ConfigError(mistake)


@contextlib.contextmanager
def filling(path: str, option: str) -> Iterator[str]:
  """Yield a folder beside `path` to write into, which becomes `path` when the block ends and vanishes when it fails.

  Args:
    path: the folder to make; its parents are made, too.
    option: of the command line that names it, for messages.

  Raises:
    ConfigError: see check().
  """
  check(path, option)
  whole = os.path.abspath(os.path.expanduser(path))
  unfinished = f'{whole}.unfinished'
  shutil.rmtree(unfinished, ignore_errors=True)  # what a killed conversion has left
  os.makedirs(unfinished)
  try:
    yield unfinished
    if os.path.isdir(whole):
      os.rmdir(whole)
    os.rename(unfinished, whole)
  except BaseException:
    shutil.rmtree(unfinished, ignore_errors=True)
    raise
