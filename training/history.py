"""What a run has learnt and measured: set aside where it begins anew, and brought back where such a start is refused.

It is moved to earlier/1, 2, … of the run's folder. A folder that is a link to another disk stays, for what is learnt next:
what it holds is moved to earlier/1, 2, … within it.
"""

import os
from typing import Any

from checks import files
from training.manifest import Manifest

NAMES = ('checkpoints', 'replaced', 'metrics.jsonl', 'results.json', 'samples', 'tensorboard', 'attention', 'nonfinite',
         'profile')
_STAYS = ('earlier', 'lost+found')  # in a folder that is a link, or a disk's root


class History:
  """The history in a run's folder."""

  def __init__(self, folder: str, manifest: Manifest):
    """Point to the history of a folder, of which there may be none yet; `manifest` is the folder's."""
    self._folder, self._manifest, self._files = folder, manifest, files.of(folder)
    self._homes: dict[str, str] = {}  # the folders that something was set aside in → where it lies
    self._listed: dict[str, Any] = {}  # the part of the manifest that is about it

  def set_aside(self) -> None:
    """Move the history away, and list it no longer."""
    linked = [place for name in NAMES if self._files.is_elsewhere(place := os.path.join(self._folder, name))]
    aside = {home: os.path.join(home, 'earlier') for home in (self._folder, *linked)}
    before = [int(name) for place in aside.values() for name in self._files.names(place) if name.isdigit()]
    self._homes = {home: os.path.join(place, str(1 + max(before, default=0))) for home, place in aside.items()}
    for home, target in self._homes.items():
      self._files.make_folder(target)
      for name in self._files.names(home) if home in linked else NAMES:
        source = os.path.join(home, name)
        if name not in _STAYS and source not in linked and (self._files.is_folder(source) or self._files.is_file(source)):
          self._files.move(source, os.path.join(target, name))
    with self._manifest.changing() as content:  # last: a start that finds only a part moved asks again
      listed = {name: sums for name, sums in content['files'].items() if name.split('/')[0] in NAMES}
      self._listed = {'checkpoints': content['checkpoints'], 'files': listed}
      content['checkpoints'] = {}
      content['files'] = {name: sums for name, sums in content['files'].items() if name not in listed}
    print(f'Beginning at step 0; what the run had learnt and measured lies in {" and ".join(self._homes.values())}.',
          flush=True)

  def bring_back(self) -> None:
    """Move what was set aside to where it was, if anything was."""
    if not self._homes:
      return
    with self._manifest.changing() as content:  # first: a start that finds only a part moved asks again
      content['checkpoints'] = self._listed['checkpoints']
      content['files'] |= self._listed['files']
    for home, place in self._homes.items():
      for name in self._files.names(place):
        self._files.move(os.path.join(place, name), os.path.join(home, name))
      self._files.remove_folder(place)
    self._homes = {}
