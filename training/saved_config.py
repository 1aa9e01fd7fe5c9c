"""config.json, as any version of train.py wrote it, read as a configuration of the present one."""

import json
from collections.abc import Mapping
from typing import Any

from checks import files
from checks.errors import ConfigError, DamagedError
from configs import default
from options.configurations import leaves, with_options
from options.mistakes import listed
from options.option_types import type_mistakes
from training.json_files import as_written


def read(path: str) -> dict[str, Any]:
  """Return a saved configuration, with the present names of renamed options.

  Options newer than the run get their defaults, or those of default.DECIDED: what the program did without them.

  Raises:
    DamagedError: when the file is not what train.py wrote.
    ConfigError: when options are of other types than in configs/default.py.
  """
  try:
    saved = _renamed(json.loads(files.of(path).read(path)))
  except (ValueError, AttributeError, TypeError) as error:
    raise DamagedError(f'{path} is damaged: {error}; expected what train.py wrote') from None
  if mistakes := list(type_mistakes(saved)):
    raise ConfigError(f'{path} is not what train.py wrote: {listed(mistakes)}')
  return _laid_over(saved, as_written(with_options(default.get_config().to_dict(), default.DECIDED)))


def with_decided(config: Mapping[str, Any], saved: Mapping[str, Any]) -> dict[str, Any]:
  """Return a configuration in which unset options that a run has decided (default.DECIDED) have the run's values.

  Args:
    config: as it is asked for.
    saved: the run's, see read().
  """
  asked, decided = leaves(config), leaves(saved)
  return with_options(config, {name: decided[name] for name in default.DECIDED if asked[name] is None})


def _laid_over(tree: dict, ground: dict) -> dict:
  """Return `ground` with the values of `tree` in place of its own; sections are merged option by option."""
  both = {name: _laid_over(tree[name], ground[name]) for name in tree.keys() & ground.keys()
          if isinstance(tree[name], dict) and isinstance(ground[name], dict)}
  return ground | tree | both


def _renamed(tree: dict) -> dict:
  """Return a saved configuration with the present names and values of options that have been renamed."""
  for old, new in default.RENAMED.items():
    section, _, leaf = old.rpartition('.')
    found = tree
    for part in filter(None, section.split('.')):
      found = found.get(part, {})
    if leaf in found:
      value = default.RENAMED_VALUES.get(old, lambda same: same)(found.pop(leaf))
      *sections, leaf = new.split('.')
      place = tree
      for part in sections:
        place = place.setdefault(part, {})
      place.setdefault(leaf, json.loads(json.dumps(value)))
  return tree
