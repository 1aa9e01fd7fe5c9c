"""The manifest of a run: SHA-256 sums of every file that decides a result, in manifest.json.

    files        the sums of the run's own files, by name: config.json, vocabularies, words, results, …
    checkpoints  by step: the sum of each file, the validation metrics measured there, and size and sum of metrics.jsonl
    texts        the fingerprints of the text that the run was begun with, by split
    stores       the fingerprint of each token store → the sum of its list of sums (batching/store.py)
    sha256       of all that, so that a spoiled manifest is noticed itself

A file that may lawfully change is written through write(): the manifest lists the new content before the file has it,
and the old content until then, so that a run that is killed in between is not taken for a damaged one.

Only one process of a run writes. Names are relative to the run's folder, which may be copied and moved.
"""

import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from checks import files
from checks.errors import DamagedError
from checks.whole_files import sealed, unsealed

NAME = 'manifest.json'
NOT_YET = 'not yet'  # among the sums of a file that is about to be written for the first time
Content = dict[str, Any]

_EMPTY = {'files': {}, 'checkpoints': {}, 'texts': {}, 'stores': {}}
_ATTEMPTS = 3  # of a reader beside a run that trains, which may see a file and its entry at different moments
_CHANGING = threading.RLock()  # checkpoints are recorded in a thread of their own


class Manifest:
  """The manifest in a run's folder. Each method reads the file anew, so that all see what one has recorded."""

  def __init__(self, folder: str):
    """Point to the manifest of a folder, which may not exist yet."""
    self._folder, self._files = folder, files.of(folder)
    self.path = os.path.join(folder, NAME)

  def exists(self) -> bool:
    """Return whether the folder has a manifest."""
    return self._files.is_file(self.path)

  # ------------------------------------------------------------------------------------------------------ reading

  def read(self) -> Content:
    """Return the content; that of an empty manifest when there is none. Raises DamagedError when it is spoiled."""
    try:
      content = unsealed(self._files.read(self.path).decode())
      sound = _is_sound(content)
    except (FileNotFoundError, NotADirectoryError):
      return json.loads(json.dumps(_EMPTY))
    except (ValueError, TypeError, AttributeError, KeyError):
      sound = False
    if not sound:
      raise DamagedError(f'{self.path} is damaged: it is not what train.py wrote; put it back from a copy of the run, or '
                         'delete it: the files of the run are then taken as they are')
    return content

  def problems(self) -> dict[str, str]:
    """Return what is wrong with the run's own files, in words, by name; empty when all are as they were written."""
    for _ in range(_ATTEMPTS):
      listed = self.read()['files']
      found = {name: problem for name, sums in listed.items() if (problem := self._problem(name, sums))}
      if not found or listed == self.read()['files']:
        break
    return found

  def check(self, needed: Callable[[str], bool] = lambda name: True) -> dict[str, str]:
    """Raise DamagedError naming each needed file of the run that differs from what was written.

    Args:
      needed: of a file's name: whether there is nothing to be done without it.

    Returns:
      What is wrong with files that are not needed; see problems().
    """
    found = self.problems()
    if wrong := [name for name in found if needed(name)]:
      raise DamagedError('\n'.join(f'{os.path.join(self._folder, name)} {found[name]}' for name in wrong)
                         + '\nPut it back from a copy of the run.')
    return found

  def _problem(self, name: str, sums: Iterable[str]) -> str | None:
    path = os.path.join(self._folder, name)
    if not self._files.is_file(path):
      return None if NOT_YET in sums else f'is missing, though {NAME} lists it'
    return None if self._files.sum_of(path) in sums else f'is damaged: it differs from what {NAME} lists'

  # ------------------------------------------------------------------------------------------------------ writing

  @contextlib.contextmanager
  def changing(self) -> Iterator[Content]:
    """Yield the content, to be changed by the block; it is written, whole, at the block's end."""
    with _CHANGING:
      content = self.read()
      yield content
      self._files.write(self.path, sealed(content))

  def begin(self) -> None:
    """Write the manifest of a run that has nothing yet, whatever there was."""
    with _CHANGING:
      self._files.write(self.path, sealed(_EMPTY))

  def write(self, name: str, data: bytes) -> None:
    """Write one of the run's own files, and list it."""
    new, path = hashlib.sha256(data).hexdigest(), os.path.join(self._folder, name)
    before = self._files.sum_of(path) if self._files.is_file(path) else NOT_YET
    if before == new and self.read()['files'].get(name) == [new]:
      return
    with self.changing() as content:
      content['files'][name] = [*dict.fromkeys([new, *(content['files'].get(name) or [before])])]
    self._files.write(path, data)
    with self.changing() as content:
      content['files'][name] = [new]

  def forget(self, names: Iterable[str]) -> None:
    """List these files no longer."""
    with self.changing() as content:
      for name in names:
        content['files'].pop(name, None)

  def record_checkpoint(self, step: int, entry: Mapping[str, Any], kept: Iterable[int]) -> None:
    """List a checkpoint; of those listed before, keep the steps in `kept` only.

    Args:
      step: its step.
      entry: 'files', the sum of each by its path; 'metrics', measured there, or None; and perhaps 'history', size and sum
        of metrics.jsonl up to there.
      kept: steps.
    """
    with self.changing() as content:
      listed = content['checkpoints'] | {str(step): dict(entry)}
      content['checkpoints'] = {number: listed[number] for number in listed if int(number) in {*kept, step}}

  def checkpoints(self) -> dict[int, dict[str, Any]]:
    """Return the entries of all listed checkpoints, by step; of an earlier version's run those of its own lists."""
    entries = self.read()['checkpoints'] if self.exists() else self._earlier_sums()
    return {int(step): entry for step, entry in entries.items()}

  # --------------------------------------------------------------------------- runs from before there were manifests

  def adopt(self, names: Iterable[str], texts: Mapping[str, str]) -> None:
    """Make the manifest of a run that has none: its files, those of `names`, are taken as they are."""
    checkpoints = self._earlier_sums()
    place = os.path.join(self._folder, 'checkpoints')
    if not checkpoints:
      checkpoints = {step: {'files': self._files.sums_of(os.path.join(place, step))}
                     for step in self._files.names(place) if step.isdigit()}
    for step, entry in checkpoints.items():
      entry['metrics'] = None
      with contextlib.suppress(FileNotFoundError, ValueError):
        entry['metrics'] = json.loads(self._files.read(os.path.join(place, step, 'metrics', 'metrics')))
    with self.changing() as content:
      content['files'] = {name: [self._files.sum_of(path)] for name in names
                          if self._files.is_file(path := os.path.join(self._folder, name))}
      content['checkpoints'], content['texts'] = checkpoints, dict(texts)
    self._files.remove_folder(self._earlier)

  @property
  def _earlier(self) -> str:
    return os.path.join(self._folder, 'checkpoints', 'checksums')

  def _earlier_sums(self) -> dict[str, dict[str, Any]]:
    """Return the entries of checkpoints that an earlier version wrote, which kept a list of sums for each step."""
    entries = {}
    for name in self._files.names(self._earlier):
      path = os.path.join(self._earlier, name)
      try:
        entries[name.removesuffix('.json')] = {'files': dict(json.loads(self._files.read(path)))}
      except (ValueError, TypeError):
        raise DamagedError(f'{path} is damaged; put it back from a copy of the run') from None
    return {step: entry for step, entry in entries.items() if step.isdigit()}


def _is_sound(content: Content) -> bool:
  """Return whether the content has the form that this file's head describes, and names nothing outside of the folder."""
  inside = lambda name: not os.path.isabs(name) and '..' not in name.split('/')
  sums = lambda found: all(inside(name) and isinstance(value, str) for name, value in found.items())
  return (content.keys() == _EMPTY.keys() and isinstance(content['texts'], dict) and sums(content['stores'])
          and all(inside(name) and isinstance(each, list) for name, each in content['files'].items())
          and all(step.isdigit() and sums(entry['files']) for step, entry in content['checkpoints'].items()))
