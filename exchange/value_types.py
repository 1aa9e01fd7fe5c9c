"""What the values in files of JSON have to be, which anyone may have written: config.json and its neighbours."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple


class Type(NamedTuple):
  """A type of values."""

  words: str  # what messages say is expected
  holds: Callable[[Any], bool]


def _is_number(value: Any) -> bool:
  return type(value) is int or isinstance(value, float) and math.isfinite(value)


SIZE = Type('a positive whole number', lambda value: type(value) is int and value > 0)
COUNT = Type('a whole number, 0 or more', lambda value: type(value) is int and value >= 0)
NUMBER = Type('a number', _is_number)
SWITCH = Type('true or false', lambda value: isinstance(value, bool))
TEXT = Type('a text', lambda value: isinstance(value, str))


def without_null(found: Mapping[str, Any]) -> dict[str, Any]:
  """Return the values of a file that are there; null means that one is not."""
  return {name: value for name, value in found.items() if value is not None}


def mistakes(found: Mapping[str, Any], types: Mapping[str, Type], needed: Mapping[str, Type] | None = None) -> Iterator[str]:
  """Yield a sentence for each value that is of another type than it has to be, or is needed and absent.

  Args:
    found: the values by name.
    types: of those that may be absent.
    needed: of those that may not.
  """
  for name, expected in {**(needed or {}), **types}.items():
    if name not in found and name in (needed or {}):
      yield f'{name} is absent; expected {expected.words}'
    if name in found and not expected.holds(found[name]):
      yield f'{name} is {json.dumps(found[name], ensure_ascii=False)}; expected {expected.words}'
