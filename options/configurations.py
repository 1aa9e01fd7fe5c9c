"""Configurations: the Python file that --config=PATH.py:VARIANT names, checked against configs/default.py.

Within this package a configuration is a tree of ml_collections, which knows the type of each option. Other packages get
it as plain nested dictionaries of numbers, texts and tuples.
"""

import contextlib
import copy
import importlib.util
import inspect
import os
import traceback
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ml_collections import config_dict

from checks.errors import ConfigError
from configs import default
from options.mistakes import listed, no_such_option
from options.option_types import type_mistakes

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CONFIGS = os.path.join(ROOT, 'configs')
LENGTHS = ('train.num_steps', 'train.num_epochs', 'train.num_minutes')
# Options of a training that decide nothing of what it learns and measures.
_DECIDE_NOTHING = ('compile', 'compile_cache', 'mesh', 'model.attention_kernel', 'data.cache_dir', 'data.num_threads',
                   'train.loss_chunks', 'train.log_every', 'train.stall_seconds', 'train.heartbeat_seconds',
                   'train.profile_steps', 'train.peak_tflops')


def decides_nothing(name: str) -> bool:
  """Return whether an option, by its dotted name, may differ where the same is to be learnt and measured."""
  return is_one_of(name, _DECIDE_NOTHING)


def is_one_of(name: str, options: Iterable[str]) -> bool:
  """Return whether an option, by its dotted name, is one of these, which may be whole sections."""
  return any(name == one or name.startswith(f'{one}.') for one in options)


def load_config(spec: str) -> dict[str, Any]:
  """Return the configuration of PATH.py or PATH.py:VARIANT as nested dictionaries; for errors see load_tree()."""
  return load_tree(spec).to_dict()


def load_tree(spec: str) -> config_dict.ConfigDict:
  """Return the configuration that a file's get_config() makes.

  Args:
    spec: path of a Python file, and after a colon the variant that get_config() is called with.

  Raises:
    ConfigError: when there is no such file, it fails, or its options are not those of configs/default.py, or are of
      other types.
  """
  module, variant = load_module(spec), spec.partition(':')[2]
  with _config_errors(spec, module.__file__):
    config = module.get_config(variant) if variant else module.get_config()
  if not isinstance(config, config_dict.ConfigDict):
    raise ConfigError(f'--config={spec}: get_config() returned a {type(config).__name__}; expected a ConfigDict')
  known, found = leaves(default_tree()), leaves(config)
  errors = [f'{spec}: config.{name} {no_such_option(name, found[name], known, "config.")}'
            for name in found if name not in known]
  errors += [f'{spec}: config.{name} is missing; start from configs/default.py' for name in known if name not in found]
  errors += [f'{spec}: {mistake}' for mistake in type_mistakes(config)]
  if errors:
    raise ConfigError(listed(errors))
  return config


def default_tree() -> config_dict.ConfigDict:
  """Return the configuration of configs/default.py, which holds every option."""
  return default.get_config()


def shipped_configs() -> list[str]:
  """Return the paths of the configurations that come with this program, relative to the working directory."""
  names = sorted(name for name in os.listdir(CONFIGS) if name.endswith('.py') and not name.startswith('_'))
  return [os.path.relpath(os.path.join(CONFIGS, name)) for name in names]


def shipped_variants() -> list[tuple[str, str]]:
  """Return (name of the file without .py, variant) of each shipped configuration; '' is a default that has no name.

  A file's default comes first: what get_config() makes without an argument.
  """
  found = []
  for path in shipped_configs():
    module = load_module(path)
    default_variant = inspect.signature(module.get_config).parameters['arg'].default
    name = os.path.basename(path).removesuffix('.py')
    found += [(name, variant) for variant in dict.fromkeys([default_variant, *getattr(module, 'VARIANTS', ())])]
  return found


def choose_shipped() -> str:
  """Return the end of a message: the list of shipped configurations."""
  return 'the shipped configurations are ' + ', '.join(shipped_configs())


def load_module(spec: str) -> types.ModuleType:
  """Execute the configuration file of PATH.py:VARIANT. Raises ConfigError when that fails."""
  path = spec.partition(':')[0]
  if not os.path.isfile(path):
    raise ConfigError(f'--config={spec}: there is no file {path}; {choose_shipped()}')
  module_spec = importlib.util.spec_from_file_location('_configuration', path)
  if module_spec is None:
    raise ConfigError(f'--config={spec}: {path} is not a Python file; {choose_shipped()}')
  module = importlib.util.module_from_spec(module_spec)
  with _config_errors(spec, module_spec.origin):
    module_spec.loader.exec_module(module)
  return module


@contextlib.contextmanager
def _config_errors(spec: str, path: str) -> Iterator[None]:
  """Turn whatever a configuration file raises into a ConfigError that names the line."""
  try:
    yield
  except Exception as error:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    raise ConfigError(f'--config={spec} fails' + (f' in line {lines[-1]}' if lines else '')
                      + f': {type(error).__name__}: {error}') from error


# --------------------------------------------------------------------------------------------------- its options


def leaves(config: Mapping[str, Any] | config_dict.ConfigDict, prefix: str = '') -> dict[str, Any]:
  """Return the options of a configuration, or of what a run's config.json holds, by dotted name."""
  flat: dict[str, Any] = {}
  for name, value in config.items():
    inner = isinstance(value, (config_dict.ConfigDict, dict))
    flat |= leaves(value, f'{prefix}{name}.') if inner else {prefix + name: value}
  return flat


def with_options(config: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
  """Return a copy of a plain configuration in which options, by dotted name, have other values."""
  changed = copy.deepcopy(dict(config))
  for name, value in changes.items():
    *sections, option = name.split('.')
    section = changed
    for inner in sections:
      section = section[inner]
    section[option] = value
  return changed


def as_overrides(given: Mapping[str, Any]) -> list[str]:
  """Return options by dotted name as they are written on a command line."""
  written = lambda value: str(value).lower() if isinstance(value, bool) else str(value)
  return [f'--config.{name}={written(value)}' for name, value in given.items()]


def choose_length(tree: config_dict.ConfigDict, given: Mapping[str, Any]) -> None:
  """Leave exactly one of num_steps, num_epochs and num_minutes set; `given` overrides the file's choice.

  Raises:
    ConfigError: when `given`, or without it the file, sets several, or when none is set.
  """
  asked = [name for name in LENGTHS if given.get(name) is not None]
  if len(asked) == 1:
    tree.update_from_flattened_dict({name: None for name in LENGTHS if name not in asked})
  values = leaves(tree)
  chosen = asked or [name for name in LENGTHS if values[name] is not None]
  if len(chosen) != 1:
    raise ConfigError(f'exactly one of {", ".join(LENGTHS)} says how long to train; '
                      f'{"the command line" if asked else "the configuration"} sets '
                      + (' and '.join(f'{name}={values[name]}' for name in chosen) or 'none'))
  if values[chosen[0]] <= 0:
    raise ConfigError(f'config.{chosen[0]} is {values[chosen[0]]}; expected a positive number')
