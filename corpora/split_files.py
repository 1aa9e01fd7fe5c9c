"""Which files the name of a split stands for, in a folder of text: `<split>.<language>`, plain or `.gz`."""

import contextlib
import difflib
import glob
import os
from collections.abc import Sequence

from checks.errors import DataError


def stems(directory: str, name: str, endings: Sequence[str]) -> list[str]:
  """Return the stems of the files that a split's name stands for: `<stem>.<ending>` or `<stem>.<ending>.gz`.

  Args:
    directory: where the files lie.
    name: a stem; or several, separated by commas and read in this order, with the wildcards of a shell (*, ?, […]),
      whose files are read in the order of their names, none twice. A file that has the whole name is that file.
    endings: of the files; a stem counts when any of them is there.

  Raises:
    DataError: when wildcards match no file, naming them; and when there is nothing between the commas.
  """
  if not is_pattern(name) or any(path_of(directory, f'{name}.{ending}') for ending in endings):
    return [name]
  found = []
  for part in filter(None, map(str.strip, name.split(','))):
    if not glob.has_magic(part):
      found.append(part)
      continue
    tails = [f'.{ending}{packed}' for ending in endings for packed in ('', '.gz')]
    matched = sorted({match.removesuffix(tail) for tail in tails
                      for match in glob.glob(part + tail, root_dir=directory)})
    if not matched:
      raise DataError(f'no file matches {" or ".join(f"{part}.{ending}" for ending in endings)} (plain or .gz); '
                      + (listing(directory, part) if os.path.isdir(directory) else f'there is no folder {directory}'))
    found += matched
  if not found:
    raise DataError(f'no file is named by {name!r}; expected the name of a split, or several separated by commas, such as '
                    "'europarl,news-*'")
  return list(dict.fromkeys(found))


def files_there(directory: str, name: str, endings: Sequence[str]) -> list[str]:
  """Return the paths of the files of a split that are there; see stems."""
  with contextlib.suppress(DataError):  # wildcards that match no file, or commas alone
    paths = [path_of(directory, f'{stem}.{ending}') for stem in stems(directory, name, endings) for ending in endings]
    return [path for path in paths if path]
  return []


def is_pattern(name: str) -> bool:
  """Return whether a split's name may stand for several files."""
  return ',' in name or glob.has_magic(name)


def is_within(name: str) -> bool:
  """Return whether a split's name stands for files of whatever folder it is looked for in, and of no other."""
  parts = [part.strip() for part in name.split(',')]
  return not any(os.path.isabs(part) or os.pardir in part.split('/') for part in (name, *parts))


def find(directory: str, name: str, advice: str) -> str:
  """Return the path of a file or of its `.gz`. If neither exists, raise DataError with what is there and `advice`."""
  if not os.path.isdir(directory):
    raise DataError(f'no folder {directory}; expected one with files such as {name} (plain or .gz)')
  if path := path_of(directory, name):
    return path
  for path in _paths(directory, name):
    if os.path.lexists(path):
      raise DataError(f'{path} is {other_than_a_file(path)}; expected a text file. {listing(directory, name)}')
  raise DataError(f'neither {name} nor {name}.gz is there; {listing(directory, name)}. {advice}')


def path_of(directory: str, name: str) -> str | None:
  """Return the path of a file, or else of its `.gz`; None when neither is there."""
  return next((path for path in _paths(directory, name) if os.path.isfile(path)), None)


def _paths(directory: str, name: str) -> list[str]:
  return [os.path.join(directory, candidate) for candidate in (name, f'{name}.gz')]


def other_than_a_file(path: str) -> str:
  """Return what is at a path where there is no regular file, for messages."""
  return ('a folder' if os.path.isdir(path) else 'a link that leads nowhere' if not os.path.exists(path)
          else 'no regular file, and is read more than once')


def listing(folder: str, wanted: str) -> str:
  """List a folder's files for a message, names similar to the wanted one first."""
  names = sorted(os.listdir(folder))
  near = difflib.get_close_matches(os.path.basename(wanted), names, n=3)
  return f'{folder} holds: {", ".join(dict.fromkeys(near + names[:20])) or "nothing"}'
