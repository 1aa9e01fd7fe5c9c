"""Write a copy of a run with some of its heads closed into a new folder, which decode.py reads like any other run."""

import os
from collections.abc import Sequence
from typing import Any

from checks.errors import ConfigError
from options.flags import new_folder_mistakes
from training import parameter_run
from training.json_files import read_json, write_json
from training.run_folder import RunFolder

_COPIED = ('vocabulary.model', 'source.model', 'target.model', 'words.txt.gz', 'suggestions.json', 'environment.json',
           'imported.json')


def write(run: RunFolder, workdir: str, params: Any, closed: Sequence[str]) -> None:
  """Write a copy of `run` that has these parameters, as parameter_run.write does.

  Args:
    run: the folder whose configuration and vocabularies are copied.
    workdir: the new run's folder.
    params: the parameters, heads closed.
    closed: the closed heads' names, for pruned.json.

  Raises:
    ConfigError: when no new folder can be made there.
  """
  for mistake in new_folder_mistakes('pruned_workdir', workdir):
    raise ConfigError(mistake)
  files = {}
  for name in _COPIED:
    if run.has(path := os.path.join(run.path, name)):
      files[name] = run.files.read(path)
  parameter_run.write(workdir, params, read_json(run.config), files, progress={'pruned_from': run.path})
  write_json(os.path.join(workdir, 'pruned.json'), {'run': run.path, 'closed': list(closed)})
