"""Files that are there whole or not at all, for everything that writes."""

import os


def write_whole(path: str, data: bytes | str) -> None:
  """Writes a file beside its place and then moves it there; text is UTF-8. A kill leaves PATH.unfinished at most."""
  with open(f'{path}.unfinished', 'wb') as file:
    file.write(data.encode() if isinstance(data, str) else data)
  os.replace(f'{path}.unfinished', path)
