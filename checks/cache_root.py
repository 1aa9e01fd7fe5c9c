"""The user's cache, for what can be made again and belongs to no run: compiled programs and prepared corpora.

    $XDG_CACHE_HOME/attention-is-all-you-need-jax     programs/   compiled programs, see training.hardware.keep_programs
    (~/.cache/… where that is unset)                  prepared/   the phrasebook as TensorFlow Datasets stores it
                                                      speed/      seconds to compile a step, see training.device_speed
                                                      data/       token stores of runs in buckets, named by their hash
                                                      runs/       what else such a run needs a disk for, see bucket.py

A run's folder may come from elsewhere, and a compiled program is code: so programs lie here, where only this user can
have written them. All of it may be deleted at any time.
"""

import os
import stat

NAME = 'attention-is-all-you-need-jax'


def root() -> str:
  """Return the path of the cache, which may not exist yet. A relative $XDG_CACHE_HOME counts as unset, as XDG says."""
  base = os.environ.get('XDG_CACHE_HOME', '')
  return os.path.join(base if os.path.isabs(base) else os.path.expanduser('~/.cache'), NAME)


def programs() -> str:
  """Return the folder of compiled programs: $JAX_COMPILATION_CACHE_DIR, else the cache's own, which is made.

  Raises:
    OSError: see private_folder().
  """
  return os.environ.get('JAX_COMPILATION_CACHE_DIR') or private_folder('programs')


def prepared() -> str:
  """Return the folder of prepared corpora, which is made. Raises OSError, see private_folder()."""
  return private_folder('prepared')


def private_folder(name: str) -> str:
  """Make a folder of the cache, with mode 0700, and return its path.

  Raises:
    OSError: when it cannot be made or written to, or when another user could have written to it.
  """
  for path in (root(), os.path.join(root(), name)):
    if not os.path.isabs(path):  # a user without a home
      raise OSError(f'{path} is no place for a cache: set HOME or XDG_CACHE_HOME to an absolute path')
    try:
      os.makedirs(path, 0o700, exist_ok=True)
    except OSError as error:
      raise OSError(f'{path} cannot be made ({error.strerror})') from None
    found = os.stat(path)
    if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
      raise OSError(f'{path} can be written to by other users: make it yours with mode 0700')
    if not os.access(path, os.W_OK | os.X_OK):
      raise OSError(f'{path} cannot be written to')
  return path
