"""What a result depends on besides the configuration: code, versions, hardware, and the text, which may not change."""

import contextlib
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from checks import files, machine
from checks.errors import DamagedError

PACKAGES = ('jax', 'jaxlib', 'flax', 'optax', 'orbax-checkpoint', 'grain', 'tensorflow-datasets', 'sentencepiece',
            'sacrebleu', 'ml_collections', 'numpy')


def environment(devices: list, data: dict[str, str]) -> dict[str, Any]:
  """Return what a result depends on besides the configuration: code, versions, hardware and data."""
  here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
  git = lambda *words: subprocess.run(['git', '-C', here, *words], capture_output=True, text=True, check=True).stdout
  try:
    git('ls-files', '--error-unmatch', os.path.abspath(__file__))  # an installed copy may lie in a repository of something else
    commit, changed = git('rev-parse', 'HEAD').strip(), bool(git('status', '--porcelain', '-uno').strip())
  except (OSError, subprocess.CalledProcessError):  # no git on this machine, or no repository of this code
    commit, changed = None, None
  return {
      'commit': commit, 'uncommitted_changes': changed, 'command': sys.argv, 'python': platform.python_version(),
      'packages': {name: importlib.metadata.version(name) for name in PACKAGES},
      'platform': platform.platform(), 'processor': _processor(), 'cores': machine.cores(),
      'devices': [f'{device.platform} {device.device_kind}' for device in devices], 'data': data}


def _processor() -> str:
  """Return the name of this machine's processor; where the system does not tell it, that of its instruction set."""
  with contextlib.suppress(OSError), open('/proc/cpuinfo', encoding='utf-8') as file:
    for line in file:
      if line.startswith('model name'):
        return line.partition(':')[2].strip()
  return platform.processor() or platform.machine()


def texts_by_name(splits: Sequence[Any]) -> dict[str, str]:
  """Return the fingerprints of the splits (train, validation, each test set) by name, with those of what filters kept.

  To a name that several have, as files of one name in different folders do, its role is added.
  """
  return {name: split.fingerprint + getattr(split, 'kept', '') for name, split in zip(_names(splits), splits, strict=True)}


def _names(splits: Sequence[Any]) -> list[str]:
  names = [split.name for split in splits]
  roles = ['training', 'validation', *(f'test {place}' for place in range(1, len(names) - 1))]
  return [name if names.count(name) == 1 else f'{name} ({role})' for name, role in zip(names, roles, strict=True)]


def is_unchanged(path: str, splits: Sequence[Any], one: Any) -> bool:
  """Return whether one of the splits (train, validation, each test set) is what a run has read of it, where it has.

  Args:
    path: of the run's environment.json; a run that lacks it is taken at its word.
    splits, one: as loading.load() returns them: before training text is filtered.

  Raises:
    DamagedError: when the file holds something else.
  """
  if not files.of(path).is_file(path):
    return True
  names = _names(splits)
  then = counterparts(dict.fromkeys(names, ''), texts_of(path)).get(names[list(splits).index(one)])
  return then is None or one.fingerprint.startswith(then[:64])  # behind it stands what filters have kept


def starts_of(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
  """Return the environment of each start of a run, in order, from what its environment.json holds."""
  return [record, *record.get('later_starts', [])]


def texts_of(path: str) -> dict[str, str]:
  """Return the fingerprints of text of the start that had the most test sets, from environment.json.

  Raises:
    DamagedError: when the file holds something else.
  """
  try:
    record = json.loads(files.of(path).read(path))
    return max((dict(start['data']) for start in starts_of(record)), key=len)
  except (ValueError, KeyError, TypeError, AttributeError):
    raise DamagedError(f'{path} is damaged; put it back from a copy of the run') from None


def counterparts(now: dict[str, str], before: dict[str, str]) -> dict[str, str]:
  """Return the fingerprint that each present split had before, by its present name; new test sets are left out.

  A test set's counterpart is the earlier one of the same name, or else the one at the same position, unless that one
  still goes by its own name.
  """
  first, last = list(before.items())[:2], list(before.items())[2:]
  found = {name: fingerprint for name, (_, fingerprint) in zip(now, first)}
  for place, name in enumerate(list(now)[2:]):
    if name in before:
      found[name] = before[name]
    elif place < len(last) and last[place][0] not in now:
      found[name] = last[place][1]
  return found
