"""Whether a folder holds the finished run of a configuration, for programs that start many runs."""

import os
from collections.abc import Mapping
from typing import Any

from checks.errors import DamagedError
from options.configurations import with_options
from training.json_files import read_json
from training.run_folder import RunFolder
from training.saved_config import with_decided


def is_finished(folder: RunFolder, config: Mapping[str, Any]) -> bool:
  """Return whether a folder holds the final scores of exactly this configuration, trained for exactly this long.

  Args:
    folder: of the run, whether there is one or not.
    config: what its config.json will be, as written.
  """
  if not (os.path.isfile(folder.results) and os.path.isfile(folder.config)):
    return False
  try:
    saved = RunFolder.open(folder.path).read_config()
  except DamagedError:  # train.py says what can be made again
    return False
  wherever = lambda config: with_options(config, {'compile_cache': None})
  return (wherever(saved) == wherever(with_decided(config, saved))
          and has_reached_its_end(read_json(folder.results), config))


def has_reached_its_end(results: Mapping[str, Any], config: Mapping[str, Any]) -> bool:
  """Return whether results.json is of a run that trained for as long as its configuration says."""
  length = results.get('length', {})
  return bool(length) and all(config['train'][name] == value for name, value in length.items())
