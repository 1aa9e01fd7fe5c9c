"""The lines of one file in any order: where each stands is kept, in twelve bytes, and its text is read when it is wanted.

A packed file is unpacked once, into a temporary file that is gone when the program ends, however it ends.
"""

import array
import contextlib
import os
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from typing import IO, NamedTuple

from checks.errors import DataError, naming
from corpora.text_files import BOM, TextFile, decode_lines, is_packed

_CHUNK = 4096  # lines read at a time


class Places(NamedTuple):
  """Where lines stand in a file, in the order in which they are wanted."""

  starts: 'array.array[int]'  # of each line, the first byte
  sizes: 'array.array[int]'  # of each line, the bytes, without the line end

  def take(self, lines: Iterable[int]) -> 'Places':
    """Return the places of some of the lines, by their numbers here."""
    lines = array.array('q', lines)
    return Places(*(array.array(column.typecode, map(column.__getitem__, lines)) for column in self))


class IndexedLines:
  """A text file, plain or gzip, that is read once from its begin to its end and then line by line, in any order."""

  def __init__(self, path: str):
    """Name the file; nothing is read here."""
    self.places = Places(array.array('q'), array.array('I'))  # of all lines that were scanned
    self._file = TextFile.of(path)
    self._unpacked: IO[bytes] | None = None  # what a packed file holds

  def scan(self, notes: list[str] | None = None) -> Iterator[str]:
    """Yield all lines, and keep where each stands: to be called once, and read to its end, before anything else.

    Args:
      notes: gets a note on what was removed.

    Raises:
      DataError: as text_files.TextFile.blocks does, and when there is no room to unpack a packed file.
    """
    packed, begin = False, 0
    for data, lines in self._file.blocks(notes):
      packed = packed if begin else is_packed(self._file.path)
      self._keep_places(data, begin)
      if packed:
        self._unpack(data)
      begin += len(data)
      yield from lines

  def read(self, places: Places) -> Iterator[str]:
    """Yield the lines at some places. Raises DataError when the file has changed since it was scanned."""
    self._file.check()
    with contextlib.nullcontext(self._unpacked) if self._unpacked else open(self._file.path, 'rb') as file:
      for begin in range(0, len(places.starts), _CHUNK):
        chunk = zip(*(column[begin:begin + _CHUNK] for column in places))
        # Not seek and read: all who read a packed file share the position in what was unpacked.
        lines = [os.pread(file.fileno(), size, start) for start, size in chunk]
        self._file.check()
        yield from decode_lines(b'\n'.join(lines) + b'\n', self._file.path, before=1)

  def _keep_places(self, data: bytes, begin: int) -> None:
    sizes = [len(line) for line in data.split(b'\n')]
    if data.endswith(b'\n'):
      sizes.pop()
    if begin == 0 and data.startswith(BOM):
      begin, sizes[0] = len(BOM), sizes[0] - len(BOM)
    for size in sizes:
      self.places.starts.append(begin)
      begin += size + 1
    self.places.sizes.extend(sizes)

  def _unpack(self, data: bytes) -> None:
    folder = tempfile.gettempdir()
    try:
      with naming(folder):
        if self._unpacked is None:
          self._unpacked = tempfile.TemporaryFile()
          weakref.finalize(self, self._unpacked.close)
        self._unpacked.write(data)
        self._unpacked.flush()  # os.pread does not see what is still in Python's buffer
    except OSError as error:
      raise DataError(f'{self._file.path} is packed, and {folder} has no room for an unpacked copy ({error.strerror}), '
                      'from which its lines are read; set TMPDIR to a folder that has, or unpack the file') from None
