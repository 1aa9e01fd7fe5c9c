"""Messages about mistakes: all of them together, each with the option that was probably meant."""

import difflib
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from configs import default


def listed(mistakes: Sequence[str]) -> str:
  """Return one message that lists all mistakes, each of them once."""
  mistakes = list(dict.fromkeys(mistakes))
  return mistakes[0] if len(mistakes) == 1 else f'{len(mistakes)} mistakes\n  ' + '\n  '.join(mistakes)


def no_such_option(name: str, value: Any, known: Mapping[str, Any], prefix: str) -> str:
  """Return the message that an option does not exist, with the one that was probably meant.

  Args:
    name: its dotted name.
    value: the value that the user gave it.
    known: the options that there are, with values of their types.
    prefix: what stands before names where the user wrote it: '--config.', '--search.', or 'config.' of a file.
  """
  tree = prefix.strip('-.')
  if successor := default.RENAMED.get(f'{tree}.{name}'.removeprefix('config.')):
    successor = successor.removeprefix(f'{tree}.')
    return f'is called {prefix}{successor} now; write {prefix}{successor}={_as_type_of(known.get(successor), value)}'
  if inside := [option for option in known if option.startswith(f'{name}.')]:
    return f'is a section; its options are {", ".join(inside)}'
  return f'is no option; {did_you_mean(prefix + option for option in nearest(name, known))}'


def _as_type_of(now: Any, value: Any) -> str:
  """Return a value as typed for the successor of its option: a list gets it as its only entry, or stays empty."""
  if isinstance(now, tuple):
    return f'"{() if value in (None, "None") else (value,)}"'
  return '…' if value is None else shlex.quote(str(value))


def nearest(name: str, known: Iterable[str]) -> list[str]:
  """Return options of a similar name: the same last part in other sections, else the most similar."""
  known, last = list(known), lambda option: option.rpartition('.')[2]
  if same := [option for option in known if last(option) == last(name)]:
    return same
  if whole := difflib.get_close_matches(name, known, 1, 0.7):
    return whole
  close = difflib.get_close_matches(last(name), [last(option) for option in known], 1, 0.6)
  return [option for option in known if last(option) in close]


def did_you_mean(options: Iterable[str]) -> str:
  """Return the question that ends a message about an unknown option."""
  found = ' or '.join(options)
  return f'did you mean {found}?' if found else '--helpfull lists all'
