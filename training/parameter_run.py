"""Write a run of given parameters, which decode.py reads like any other run and from which other runs can start."""

import os
from collections.abc import Mapping
from typing import Any

from training.checkpoint import Checkpoints
from training.run_folder import RunFolder


def write(workdir: str, params: Any, config: Mapping[str, Any], files: Mapping[str, bytes], progress: dict) -> None:
  """Write a run's folder with one checkpoint, of step 1, without an optimizer's state: it cannot be trained further.

  Args:
    workdir: an empty folder, or one that does not exist.
    params: the parameters.
    config: the resolved configuration.
    files: further files of a run, such as vocabularies, by name.
    progress: where the parameters come from, for the checkpoint.
  """
  run = RunFolder(workdir)
  run.files.make_folder(run.path)
  checkpoints = Checkpoints(run.checkpoints, keep_last=1)
  checkpoints.save(1, {'params': params, 'average': ()}, progress=progress)
  checkpoints.wait()
  for name, data in files.items():
    run.write(os.path.join(run.path, name), data)
  run.write_json(run.config, config)  # the last: from now on the folder is a run
