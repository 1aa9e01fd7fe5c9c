"""Atomic writing: a file is there whole or not at all."""

import os

from checks.errors import naming


def write_whole(path: str, data: bytes | str) -> None:
  """Write PATH.unfinished, then rename it to PATH, so that PATH is never incomplete; text is written as UTF-8."""
  with naming(path), open(f'{path}.unfinished', 'wb') as file:
    file.write(data.encode() if isinstance(data, str) else data)
  os.replace(f'{path}.unfinished', path)
