"""Write a copy of a run with some of its heads closed into a new folder, which decode.py reads like any other run."""

import os
from collections.abc import Sequence
from typing import Any

from checks.errors import ConfigError
from training.checkpoint import Checkpoints
from training.json_files import read_json, write_json
from training.run_folder import RunFolder

_COPIED = ('vocabulary.model', 'source.model', 'target.model', 'words.txt.gz', 'suggestions.json', 'environment.json')


def write(run: RunFolder, workdir: str, params: Any, closed: Sequence[str]) -> None:
  """Write a copy of `run` that has these parameters.

  It has one checkpoint, of step 1, without an optimiser's state: it can be decoded with, and other runs can start from
  it (--init_from), but it cannot be trained further itself.

  Args:
    run: the folder whose configuration and vocabularies are copied.
    workdir: the new run's folder.
    params: the parameters, heads closed.
    closed: the closed heads' names, for pruned.json.

  Raises:
    ConfigError: when the folder exists and is not empty.
  """
  if os.path.isdir(workdir) and os.listdir(workdir):
    raise ConfigError(f'--pruned_workdir={workdir} is not empty; give a new or empty folder')
  os.makedirs(workdir, exist_ok=True)
  pruned = RunFolder(workdir)
  checkpoints = Checkpoints(pruned.checkpoints, keep_last=1)
  checkpoints.save(1, {'params': params, 'average': ()}, progress={'pruned_from': run.path})
  checkpoints.wait()
  write_json(os.path.join(workdir, 'pruned.json'), {'run': run.path, 'closed': list(closed)})
  for name in _COPIED:
    if os.path.isfile(path := os.path.join(run.path, name)):
      with open(path, 'rb') as file:
        pruned.write(os.path.join(workdir, name), file.read())
  pruned.write_json(pruned.config, read_json(run.config))  # the last: from now on the folder is a run
