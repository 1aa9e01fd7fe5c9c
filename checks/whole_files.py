"""Atomic writing: a file is there whole or not at all."""

import contextlib
import os

from checks.errors import naming


def write_whole(path: str, data: bytes | str) -> None:
  """Write PATH.unfinished, then rename it to PATH, so that PATH is never incomplete; text is written as UTF-8."""
  unfinished = f'{path}.unfinished'
  try:
    with naming(path), open(unfinished, 'wb') as file:
      file.write(data.encode() if isinstance(data, str) else data)
    os.replace(unfinished, path)
  except OSError:
    with contextlib.suppress(OSError):
      os.remove(unfinished)  # on a full disk it takes room
    raise
