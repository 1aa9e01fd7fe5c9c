"""The small files of an existing run as a start found them, to be put back where that start is refused before it trains."""

import json
import os
from typing import Any

from checks import files
from training.manifest import Manifest

_NAMES = ('config.json', 'environment.json', 'suggestions.json', 'labels.json')  # which each start writes


class AsFound:
  """What a run's folder held of them, and of its text's fingerprints."""

  def __init__(self, folder: str, manifest: Manifest):
    """Read them; `manifest` is the folder's."""
    self._manifest, self._files = manifest, files.of(folder)
    self._paths = {name: os.path.join(folder, name) for name in _NAMES}
    self._contents = {name: self._files.read(path) for name, path in self._paths.items() if self._files.is_file(path)}
    self._texts = manifest.read()['texts']

  def option(self, name: str) -> Any:
    """Return the value of an option, by its dotted name, as the run had it; None where it had none."""
    found: Any = json.loads(self._contents.get('config.json', b'{}'))
    for part in name.split('.'):
      found = found.get(part, {})
    return None if found == {} else found

  def put_back(self) -> None:
    """Write them again, and remove those that were not there."""
    for name, content in self._contents.items():
      self._manifest.write(name, content)
    added = [name for name, path in self._paths.items() if name not in self._contents and self._files.is_file(path)]
    for name in added:
      self._files.remove(self._paths[name])
    if added or self._manifest.read()['texts'] != self._texts:
      with self._manifest.changing() as content:
        content['texts'] = self._texts
        content['files'] = {name: sums for name, sums in content['files'].items() if name not in added}
