"""Whole files: written atomically, there whole or not at all; and the sums by which a changed one is noticed."""

import concurrent.futures
import contextlib
import hashlib
import json
import os
from typing import Any

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


def digest_of(content: Any) -> str:
  """Return the SHA-256 of what JSON can hold, whatever the order of its names."""
  return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def sum_of(path: str) -> str:
  """Return the SHA-256 of a file."""
  with open(path, 'rb') as file:
    return hashlib.file_digest(file, 'sha256').hexdigest()


def sums_of(folder: str) -> dict[str, str]:
  """Return the SHA-256 of every file below a folder, by the file's path relative to it."""
  paths = [os.path.join(place, name) for place, _, names in os.walk(folder) for name in names]
  with concurrent.futures.ThreadPoolExecutor() as pool:  # hashing lets go of the interpreter's lock
    return dict(zip((os.path.relpath(path, folder) for path in paths), pool.map(sum_of, paths)))
