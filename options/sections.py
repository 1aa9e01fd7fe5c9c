"""Records (frozen dataclasses) from sections of a configuration, with all mistakes reported together."""

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from checks.errors import ConfigError
from options.mistakes import listed


def build(cls: type, section: Mapping[str, Any], *, name: str = '', **extra: Any) -> Any:
  """Make a record (frozen dataclass) from a section of the configuration; no field takes its default.

  Args:
    cls: the dataclass. A section may serve several records, so options that are no field of `cls` are left alone.
    section: gives each field the option of its name.
    name: what the section is called in messages; by default derived from the name of `cls`.
    **extra: further fields, which override the section's.

  Raises:
    ConfigError: when a field has no option, or the record refuses its values (ValueError, TypeError).
  """
  name = name or re.sub('Config$', '', cls.__name__).lower()
  fields = [field.name for field in dataclasses.fields(cls) if field.init]
  if unknown := sorted(extra.keys() - set(fields)):
    raise TypeError(f'{cls.__name__} has no field {", ".join(unknown)}')
  if missing := [field for field in fields if field not in extra and field not in section]:
    raise ConfigError(f'{name}: the configuration lacks {", ".join(missing)}; '
                      'it was made for another version of this program, or not from configs/default.py')
  try:
    return cls(**{field: extra[field] if field in extra else section[field] for field in fields})
  except (ValueError, TypeError) as error:
    raise ConfigError('\n'.join(f'{name}: {mistake}' for mistake in str(error).split('\n'))) from error


class Gathering:
  """The object that gather_errors() yields: it makes records, and collects their mistakes."""

  def __init__(self, config: Mapping[str, Any]):
    self._config, self.mistakes = config, []

  def __call__(self, cls: type, section: Mapping[str, Any], name: str = '', **extra: Any) -> Any:
    """Return the record as build() does, or None where it is refused."""
    names = [f'config.{key}' for key in self._config if self._config[key] is section]
    return self.attempt(build, cls, section, name=name or (names[0] if names else ''), **extra)

  def attempt(self, function: Callable, *inputs: Any, **named: Any) -> Any:
    """Return function(*inputs, **named), or None when it raises a ConfigError or ValueError, which is collected."""
    try:
      return function(*inputs, **named)
    except (ConfigError, ValueError) as error:
      self.mistakes += [line.strip() for line in str(error).split('\n')]
      return None


@contextlib.contextmanager
def gather_errors(config: Mapping[str, Any] | None = None) -> Iterator[Gathering]:
  """Yield a build() whose errors are raised together at the end of the block; it returns None for a refused record.

  A ConfigError that the block itself raises is reported among them.

  With `config`, messages call sections by their names in it ('config.data').
  """
  gathering = Gathering(config or {})
  try:
    yield gathering
  except ConfigError as error:
    gathering.mistakes.append(str(error))
  except Exception:
    if not gathering.mistakes:
      raise  # else its cause is a record that was refused and is None
  if gathering.mistakes:
    raise ConfigError(listed(gathering.mistakes))
