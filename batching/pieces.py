"""Writing a token store piece by piece, so that a store may be larger than memory and a kill loses one piece at most.

A store being written is a folder FINGERPRINT.unfinished with the arrays that have been written so far and pieces.json,
which lists the pieces that are whole: the sentences of each, and for each array the bytes that it added with their
SHA-256. A start that finds such a folder compares the pieces with their sums, cuts off whatever comes after the last
whole one, and goes on from there. The fingerprint is the hash of the text and the vocabularies, so that no piece of
another text is taken for this one's.
"""

import contextlib
import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from typing import IO, Any

import numpy as np

from checks import locks
from checks.errors import naming
from checks.whole_files import sealed, sums_of, write_whole

SUMS = 'sums.json'  # in a finished store: the SHA-256 of each other file, and that of the list itself
_PIECES, _LOCK = 'pieces.json', 'lock'
# The arrays of a store, with the type of their entries.
ARRAYS = {'source.ids.npy': np.int32, 'source.offsets.npy': np.int64,
          'target.ids.npy': np.int32, 'target.offsets.npy': np.int64}
_BLOCK = 1 << 20  # bytes compared at a time
_WAIT = 0.2  # seconds between looks at another process's lock


def write_store(place: str, fingerprint: str, write: Callable[['StoreWriter'], None]) -> None:
  """Make the folder `place` of a store, or return when another process has made it; it appears whole or not at all.

  Processes that want the same store wait for the one that writes it. What a killed one left is gone on with.

  Args:
    place: of the finished store.
    fingerprint: of everything that decides the store's content.
    write: adds to the writer whatever comes after the texts that it has already (StoreWriter.texts).

  Raises:
    OSError: naming the file that cannot be written; the unfinished store is then removed, since it takes room.
  """
  unfinished = f'{place}.unfinished'
  lock = _lock(unfinished, place)
  if lock is None:
    return
  with lock:
    try:
      with contextlib.closing(StoreWriter(unfinished)) as writer:
        write(writer)
        writer.finish()
      sums = {name: found for name, found in sorted(sums_of(unfinished).items()) if name in ARRAYS}
      write_whole(os.path.join(unfinished, SUMS), sealed({'fingerprint': fingerprint, 'files': sums}))
      os.rename(unfinished, place)  # with the lock: without it another process would take the folder for its own
      for name in (_LOCK, _PIECES):
        os.remove(os.path.join(place, name))
    except InterruptedError:  # the program is ending: a later one goes on
      raise
    except Exception:
      shutil.rmtree(unfinished, ignore_errors=True)
      raise


def _lock(unfinished: str, place: str) -> IO[bytes] | None:
  """Return the open lock of an unfinished store, once no other process holds it; None when the store is finished."""
  path, waited = os.path.join(unfinished, _LOCK), False
  while not os.path.isdir(place):
    try:
      os.makedirs(unfinished, exist_ok=True)
      with contextlib.ExitStack() as stack:
        lock = stack.enter_context(open(path, 'ab'))
        if is_free := locks.locked(lock, path):
          if os.path.samestat(os.fstat(lock.fileno()), os.stat(path)) and not os.path.isdir(place):
            stack.pop_all()
            return lock
    except (FileNotFoundError, FileExistsError):  # the other process has finished, or failed, in this moment
      if os.path.isfile(unfinished) or os.path.islink(unfinished):
        raise
      continue
    if not is_free:
      if not waited:
        print(f'Another process writes the token store {place}; waiting for it …', file=sys.stderr, flush=True)
      waited = True
      time.sleep(_WAIT)
  shutil.rmtree(unfinished, ignore_errors=True)  # made in the moment in which the other process had finished
  return None


class StoreWriter:
  """Writes the arrays of a store, at their ends."""

  def __init__(self, folder: str):
    """Open a folder, which may hold what a killed process wrote; what is not a whole piece is cut off."""
    self._folder = folder
    for name in os.listdir(folder):
      if name not in (*ARRAYS, _PIECES, _LOCK):
        os.remove(os.path.join(folder, name))  # such as sums of a store that was killed just before it was whole
    self._pieces = _whole_pieces(folder)
    sizes = {name: sum(piece['arrays'][name][0] for piece in self._pieces) for name in ARRAYS}
    self._arrays = {name: _Array(os.path.join(folder, name), dtype, sizes[name]) for name, dtype in ARRAYS.items()}
    self.texts = sum(piece['texts'] for piece in self._pieces)  # of the split, those that are in the arrays
    self._begun = 0  # those of them that are in no whole piece yet
    if not self._pieces:
      for side in ('source', 'target'):
        self._arrays[f'{side}.offsets.npy'].append(np.zeros(1))
    self._ends = {side: self._arrays[f'{side}.ids.npy'].size for side in ('source', 'target')}

  def add(self, texts: int, **sides: tuple[np.ndarray, Sequence[int]]) -> None:
    """Add sentences.

    Args:
      texts: how many of the split's texts they are made of.
      sides: of 'source' and 'target', the ids of all sentences, [total], and the length of each.
    """
    for side, (ids, lengths) in sides.items():
      self._arrays[f'{side}.ids.npy'].append(ids)
      ends = self._ends[side] + np.cumsum(np.asarray(lengths, np.int64))
      self._arrays[f'{side}.offsets.npy'].append(ends)
      self._ends[side] = int(ends[-1]) if len(ends) else self._ends[side]
    self.texts += texts
    self._begun += texts

  def end_piece(self) -> None:
    """Make what was added since the last piece a piece of its own, which a later start need not make again."""
    arrays = {name: array.flushed() for name, array in self._arrays.items()}
    self._pieces.append({'texts': self._begun, 'arrays': arrays})
    self._begun = 0
    write_whole(os.path.join(self._folder, _PIECES), json.dumps(self._pieces))

  def finish(self) -> None:
    """Make the arrays whole .npy files."""
    self.end_piece()
    for array in self._arrays.values():
      array.write_size()

  def close(self) -> None:
    """Close the files."""
    for array in self._arrays.values():
      array.close()


class _Array:
  """An array on disk that grows at its end, and is a .npy file once it is finished."""

  def __init__(self, path: str, dtype: type, bytes_there: int):
    """Open a file; of its content, the header and so many bytes stay."""
    self._path, self._dtype = path, np.dtype(dtype)
    self._file = open(path, 'r+b' if bytes_there else 'w+b')
    self._write_header(0)  # of the same number of bytes for every size
    self._begin = self._file.tell()
    self._file.truncate(self._begin + bytes_there)
    self._file.seek(0, os.SEEK_END)
    self.size = bytes_there // self._dtype.itemsize
    self._added, self._digest = 0, hashlib.sha256()  # bytes since the last piece

  def append(self, values: np.ndarray) -> None:
    """Write values at the end."""
    content = np.ascontiguousarray(values, self._dtype)
    with naming(self._path):
      self._file.write(content.data)
    self._digest.update(content.data)
    self._added += content.nbytes
    self.size += content.size

  def flushed(self) -> tuple[int, str]:
    """Hand all that was written to the operating system; return the bytes since the last time, and their SHA-256."""
    with naming(self._path):
      self._file.flush()
    added = self._added, self._digest.hexdigest()
    self._added, self._digest = 0, hashlib.sha256()
    return added

  def write_size(self) -> None:
    """Let the header say how many values there are."""
    with naming(self._path):
      self._file.seek(0)
      self._write_header(self.size)

  def close(self) -> None:
    """Close the file."""
    with naming(self._path):
      self._file.close()

  def _write_header(self, size: int) -> None:
    np.lib.format.write_array_header_1_0(self._file, {
        'descr': np.lib.format.dtype_to_descr(self._dtype), 'fortran_order': False, 'shape': (size,)})


def _whole_pieces(folder: str) -> list[dict[str, Any]]:
  """Return the first pieces in the list whose arrays hold what the list says; none when there is no such list."""
  whole: list[dict[str, Any]] = []
  with contextlib.ExitStack() as stack, contextlib.suppress(OSError, ValueError, KeyError, TypeError):
    with open(os.path.join(folder, _PIECES), encoding='utf-8') as file:
      pieces = json.load(file)
    arrays = {name: stack.enter_context(open(os.path.join(folder, name), 'rb')) for name in ARRAYS}
    for array in arrays.values():
      np.lib.format.read_magic(array)
      np.lib.format.read_array_header_1_0(array)
    for piece in pieces:
      if any(_sum_of_next(array, piece['arrays'][name][0]) != piece['arrays'][name][1]
                                   for name, array in arrays.items()):
        break
      whole.append(piece)
  return whole


def _sum_of_next(file: IO[bytes], count: int) -> str:
  """Return the SHA-256 of the next `count` bytes of a file, or of what there is of them."""
  digest = hashlib.sha256()
  while count > 0 and (data := file.read(min(count, _BLOCK))):
    digest.update(data)
    count -= len(data)
  return digest.hexdigest()
