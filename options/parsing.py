"""From the words of a command line to checked values: a script's own flags, and overrides of a tree of options.

Flags are plain (--workdir=runs/a). Overrides have dotted names (--config.model.d_model=256, --search.beam_size=1) and
the syntax of ml_collections. All mistakes are reported together, each with what was expected, before anything heavy is
imported: this package imports neither jax nor code that reads data, unless --help lists the choices of options.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from absl import flags as absl_flags
from ml_collections import config_dict, config_flags

from checks.errors import ConfigError
from options.configurations import choose_shipped, default_tree, leaves, load_tree
from options.flags import Flag, Value, at_home
from options.mistakes import did_you_mean, listed, nearest, no_such_option
from options.option_types import article, is_finite, may_be_none, only, type_of


class Parsed(NamedTuple):
  """A command line, checked."""

  values: dict[str, Value]  # of the script's own flags, by name
  tree: config_dict.ConfigDict  # the configuration, or a section of it, with the overrides
  given: dict[str, Any]  # the overrides alone, by dotted name: {'train.num_steps': 100}
  arguments: tuple[str, ...]  # the command line, each option with its value in one word


def parse(argv: Sequence[str], script_flags: Sequence[Flag], tree_name: str = '',
          check: Callable[[Mapping[str, Value]], Iterable[str]] = lambda values: ()) -> Parsed:
  """Check a command line against a script's flags and the options that it may override.

  Args:
    argv: the program's name and its arguments.
    script_flags: the script's own options.
    tree_name: what overrides begin with: 'config', for those of the file that --config names anywhere on the line; a
      section of the default configuration, such as 'search'; or '', for a script that overrides nothing.
    check: yields further mistakes in the values of the script's flags, where refused values are the defaults.

  Raises:
    ConfigError: naming every mistake.
  """
  known = {flag.name: flag for flag in script_flags}
  # Until the file is read, and if it cannot be, the default configuration says which options there are.
  tree = config_dict.ConfigDict() if not tree_name else default_tree()
  tree = tree if tree_name in ('', 'config') else tree[tree_name]
  tokens, alone, errors = _split(argv[1:], known, tree_name, tree)
  values = {flag.name: flag.default for flag in script_flags if not flag.stands_for}
  values |= _read_values(tokens, alone, known, errors)
  if tree_name == 'config' and values['config']:
    try:
      tree = load_tree(values['config'])
    except ConfigError as error:
      errors.append(str(error))
  named = {token.name for token in tokens if not token.tree}  # mistakes in their values are reported already
  for flag in script_flags:
    is_refused = flag.positional == 'one' and alone  # its word is a mistake that is reported already
    if flag.required and values[flag.name] is None and flag.name not in named and not is_refused:
      errors.append(f'{flag.label} is missing: {flag.help}'
                    + (f'; {choose_shipped()}' if flag.name == 'config' else ''))
  errors += check(values)
  given: dict[str, Any] = {}
  for token in tokens:
    if token.tree:
      try:
        given[token.name] = _override(tree, token)
      except ConfigError as error:
        errors.append(str(error))
    elif token.name not in known:
      errors.append(_unknown_flag(token, known, tree_name, tree))
  if errors:
    raise ConfigError(listed(errors))
  tree.update_from_flattened_dict(given)
  return Parsed(values, tree, given, tuple(token.text for token in tokens) + tuple(word.text for word in alone))


class _Token(NamedTuple):
  """One option as it stands on the command line."""

  text: str  # as typed, for messages
  tree: str  # 'config' of --config.model.d_model; '' of a plain flag
  name: str  # 'model.d_model'
  value: str | None  # None: a boolean without a value
  negated: bool = False  # --noconfig.…


class _Word(NamedTuple):
  """A word on the command line that is neither an option nor the value of one."""

  text: str
  behind: str  # the flag before it, where that takes several texts; else ''


def _split(words: Sequence[str], known: Mapping[str, Flag], tree_name: str, tree: config_dict.ConfigDict
           ) -> tuple[list[_Token], list[_Word], list[str]]:
  """Return the options in order, the words that belong to none of them, and the mistakes that show already here."""
  switches = {flag.name for flag in known.values() if flag.kind is bool}
  switches |= {f'{tree_name}.{name}' for name, value in leaves(tree).items() if isinstance(value, bool)}
  others = {flag.also: flag.name for flag in known.values() if flag.also}
  tokens, alone, errors, rest, typed = [], [], [], list(words), set()
  while rest:
    text = rest.pop(0)
    match = re.fullmatch(r'--?([A-Za-z_][\w.\-]*)(?:=(.*))?', text, re.DOTALL)
    if not match:
      last = known.get(tokens[-1].name) if tokens and not tokens[-1].tree else None
      alone.append(_Word(text, last.label if last and last.kind is tuple else ''))
      continue
    name, value = others.get(match[1], match[1]), match[2]
    typed.add(match[1])
    if name in known and known[name].stands_for:
      name = known[name].stands_for
    first, dot, option = name.partition('.')
    negated = bool(dot and tree_name) and first == f'no{tree_name}'
    overrides = bool(dot and tree_name) and (negated or first == tree_name)
    if value is None and not negated and (overrides or name in known) and _is_value(rest, name in switches):
      value = rest.pop(0)  # --option value
      text = f'{text}={value}'
    if value is None and name in known and known[name].kind is bool:
      value = 'true'
    if not value and name in known:
      errors.append(f'{text} has no value; expected --{name}=…')
      value = ''
    tokens.append(_Token(text, tree_name if overrides else '', option if overrides else name, value, negated))
  errors += [f'--{name} and --{also} are two names of one option; give one' for also, name in others.items()
             if {also, name} <= typed]
  return tokens, alone, errors


def _is_value(rest: Sequence[str], switch: bool) -> bool:
  """Return whether the next argument is the value of the option before it: for a switch, only true or false is."""
  if not rest or re.match(r'--?[A-Za-z_]', rest[0]):
    return False
  return not switch or rest[0].lower() in ('true', 'false')


def _read_values(tokens: Sequence[_Token], alone: Sequence[_Word], known: Mapping[str, Flag], errors: list[str]
                 ) -> dict[str, Value]:
  """Return the values of the given flags; add to `errors` what is wrong with them, and each word that no flag takes."""
  found, left, named = [], list(alone), {token.name for token in tokens if not token.tree}
  for flag in known.values():
    if flag.positional == 'one' and left and flag.name not in named:
      found.append((flag, left.pop(0).text))
  found += [(known[token.name], token.value) for token in tokens
            if not token.tree and token.name in known and token.value]
  rest = next((flag for flag in known.values() if flag.positional == 'rest' and flag.name not in named), None)
  values: dict[str, Value] = {rest.name: tuple(at_home(word.text) for word in left)} if rest and left else {}
  if not rest:
    errors += [f'{word.text!r} stands alone; ' + (f'several values of {word.behind} are separated by commas' if word.behind
                                                  else 'expected --option=value') for word in left]
  for flag, text in found:
    try:
      values[flag.name] = flag.read(text)
    except ConfigError as error:
      errors.append(str(error))
  return values


def _override(tree: config_dict.ConfigDict, token: _Token) -> Any:
  """Return the value that a token gives its option. Raises ConfigError for unknown options and ill-typed values."""
  known = leaves(tree)
  if token.name not in known:
    raise ConfigError(f'{token.text} {no_such_option(token.name, token.value, known, f"--{token.tree}.")}')
  if token.value == 'None' and may_be_none(tree, token.name):
    return None  # ml_collections would make a string of it
  expected = type_of(tree, token.name)
  if token.value is None and expected is not bool:
    raise ConfigError(f'{token.text}: expected {article(expected)}, '
                      + (f'not a switch; write --{token.tree}.{token.name}=…' if token.negated else
                         f'found no value; write {token.text}=…'))
  # ml_collections parses the value, in its own syntax. It stops at the first error, so each option is parsed alone; in
  # a tree of its own, because ml_collections writes a whole tree as YAML for each.
  argument = f'--{"no" if token.negated else ""}{token.tree}.{token.name}'
  argument += '' if token.value is None else f'={token.value}'
  values = absl_flags.FlagValues()
  try:
    if token.negated and token.value is not None:
      raise ValueError
    holder = config_flags.DEFINE_config_dict(
        token.tree, only(tree, token.name), flag_values=values, sys_argv=['', argument])
    values(['', argument])
    found = _at_home(leaves(holder.value)[token.name])
    if not is_finite(found):
      raise ValueError
    return found
  except (absl_flags.Error, ValueError, TypeError):
    value = 'a value' if token.negated else repr(token.value)
    raise ConfigError(f'{token.text}: expected {article(expected)}, found {value}') from None


def _at_home(value: Any) -> Any:
  """Return a value, or each of several, as at_home() does where it is a text."""
  if isinstance(value, tuple):
    return tuple(map(_at_home, value))
  return at_home(value) if isinstance(value, str) else value


def _unknown_flag(token: _Token, known: Mapping[str, Flag], tree_name: str, tree: config_dict.ConfigDict) -> str:
  close = [f'--{name}' for name in difflib.get_close_matches(token.name, known, 1, 0.7)]
  return f'{token.text} is no option; ' + did_you_mean(
      close or [f'--{tree_name}.{name}' for name in nearest(token.name, leaves(tree))])
