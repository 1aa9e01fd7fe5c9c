"""Whole files: written atomically, there whole or not at all; and the sums by which a changed one is noticed."""

import concurrent.futures
import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from typing import IO, Any

from checks.errors import naming


def write_whole(path: str, data: bytes | str) -> None:
  """Write PATH.unfinished, then rename it to PATH, so that PATH is never incomplete; text is written as UTF-8.

  A link at PATH is replaced, not followed: a file of one run may be a link to that of another, which must stay as it is.
  """
  with whole(path) as file:
    file.write(data.encode() if isinstance(data, str) else data)


@contextlib.contextmanager
def whole(path: str, shared: bool = False) -> Iterator[IO[bytes]]:
  """Yield the open file PATH.unfinished, which becomes PATH at the end of the block; after an error it is removed.

  Args:
    path: of the file.
    shared: whether other processes may write the same file meanwhile: the unfinished one's name then ends in a draw.
  """
  unfinished = f'{path}.unfinished' + (f'-{secrets.token_hex(8)}' if shared else '')
  try:
    with naming(path), open(unfinished, 'wb') as file:
      yield file
    os.replace(unfinished, path)
  except BaseException:
    with contextlib.suppress(OSError):
      os.remove(unfinished)  # on a full disk it takes room
    raise


def digest_of(content: Any) -> str:
  """Return the SHA-256 of what JSON can hold, whatever the order of its names."""
  return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def sealed(content: dict[str, Any]) -> str:
  """Return the JSON text of a dictionary with the digest of it, by which unsealed() notices a changed one."""
  return json.dumps(content | {'sha256': digest_of(content)}, indent=1) + '\n'


def unsealed(text: str) -> dict[str, Any]:
  """Return what sealed() made a text of. Raises ValueError when it is not what was written."""
  content = json.loads(text)
  if not isinstance(content, dict) or content.pop('sha256', None) != digest_of(content):
    raise ValueError('the digest is not that of the content')
  return content


def sum_of(path: str) -> str:
  """Return the SHA-256 of a file."""
  with open(path, 'rb') as file:
    return hashlib.file_digest(file, 'sha256').hexdigest()


def sums_of(folder: str) -> dict[str, str]:
  """Return the SHA-256 of every file below a folder, by the file's path relative to it."""
  paths = [os.path.join(place, name) for place, _, names in os.walk(folder) for name in names]
  with concurrent.futures.ThreadPoolExecutor() as pool:  # hashing lets go of the interpreter's lock
    return dict(zip((os.path.relpath(path, folder) for path in paths), pool.map(sum_of, paths)))
