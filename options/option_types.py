"""The types of options: which values an option of configs/default.py may have, in words for messages."""

import copy
import math
from collections.abc import Iterator, Mapping
from typing import Any

from ml_collections import config_dict

from configs import default

_ARTICLES = {int: 'a whole number', float: 'a number', bool: 'true or false', str: 'a text', tuple: 'a tuple'}
_FOUND = {int: 'a whole number', float: 'a number', bool: 'true or false', str: 'text', tuple: 'a tuple',
          list: 'a list', dict: 'a section', type(None): 'nothing'}


def type_of(tree: config_dict.ConfigDict, name: str) -> type:
  """Return the type of an option, given by its dotted name; also of a placeholder without a value."""
  section, option = _section_of(tree, name)
  return section.get_type(option)


def may_be_none(tree: config_dict.ConfigDict, name: str) -> bool:
  """Return whether an option may be without a value."""
  return isinstance(_field(tree, name), config_dict.FieldReference)


def only(tree: config_dict.ConfigDict, name: str) -> config_dict.ConfigDict:
  """Return a tree that holds a copy of one option of `tree`, in its section, and nothing else."""
  found = copy.deepcopy(_field(tree, name))
  for part in reversed(name.split('.')):
    found = config_dict.ConfigDict({part: found})
  return found


def article(kind: type) -> str:
  """Return a type in words, such as 'a whole number'."""
  return _ARTICLES.get(kind, f'a {kind.__name__}')


def type_mistakes(config: Mapping[str, Any] | config_dict.ConfigDict, before: str = 'config.',
                  known: config_dict.ConfigDict | None = None) -> Iterator[str]:
  """Yield a sentence for each value of a configuration that is of another type than its option in configs/default.py.

  A whole number may stand for a number, and a list, which JSON has, for a tuple. Unknown options are not checked.

  Args:
    config: the configuration, or a section of it.
    before: what stands before the names in messages.
    known: the same section of the default configuration; None: all of it.
  """
  known = default.get_config() if known is None else known
  for name, value in config.items():
    if name not in known:
      continue
    section = isinstance(known[name], config_dict.ConfigDict)
    if section and isinstance(value, (Mapping, config_dict.ConfigDict)):
      yield from type_mistakes(value, f'{before}{name}.', known[name])
    elif section:
      yield f'{before}{name} is {_described(value)}; expected a section of options'
    elif not (_fits(value, type_of(known, name)) or value is None and may_be_none(known, name)):
      yield f'{before}{name} is {_described(value)}; expected {article(type_of(known, name))}'


def _fits(value: Any, kind: type) -> bool:
  allowed = {float: (float, int), tuple: (tuple, list)}.get(kind, (kind,))
  return type(value) in allowed and is_finite(value)


def is_finite(value: Any) -> bool:
  """Return False for the numbers that no option may have: infinity, and what is no number."""
  return not isinstance(value, float) or math.isfinite(value)


def _described(value: Any) -> str:
  found = _FOUND.get(type(value), type(value).__name__)
  return found if isinstance(value, (Mapping, config_dict.ConfigDict, type(None))) else f'{value!r} ({found})'


def _field(tree: config_dict.ConfigDict, name: str) -> Any:
  """Return an option's value; of a placeholder, its config_dict.FieldReference."""
  section, option = _section_of(tree, name)
  return dict(section.items(preserve_field_references=True))[option]


def _section_of(tree: config_dict.ConfigDict, name: str) -> tuple[config_dict.ConfigDict, str]:
  """Return the section that holds an option, and the option's name in it."""
  *sections, option = name.split('.')
  for section in sections:
    tree = tree[section]
  return tree, option
