"""A script's own flag: its meaning, its possible values and its default, declared once.

Parsing, the message about a wrong value, and --help all follow from this declaration.
"""

import dataclasses
import glob
import os
import pathlib
import re
import select
import shlex
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, TextIO

from checks.errors import ConfigError

Value = str | int | bool | tuple[str, ...] | None


@dataclasses.dataclass(frozen=True)
class Flag:
  """A flag: --name=value, or --name alone where it is a switch."""

  name: str
  help: str = ''
  kind: type = str  # str, int, bool (a switch) or tuple (texts separated by commas)
  default: Value = None
  # The values that a text, or each text of a tuple, may have, each with a few words for --help, or ''.
  choices: Mapping[str, str] = dataclasses.field(default_factory=dict)
  least: int = 1  # smallest value of a number
  pattern: str = ''  # regular expression for the whole text; goes with `expected`
  expected: str = ''  # what messages say is expected, where kind and choices do not say it
  required: bool = False
  positional: Literal['', 'one', 'rest'] = ''  # given without a name; takes one word, or all that are left
  stands_for: str = ''  # the override that this is short for, such as 'config.init_from'
  also: str = ''  # another name by which it may be given
  only_for: str = ''  # the only task in which it has an effect; '' is all
  paths: bool = False  # whether the texts of a tuple are paths, see split_paths

  @property
  def label(self) -> str:
    """The flag as messages and --help call it."""
    return self.name.upper() if self.positional else f'--{self.name}'

  @property
  def expectation(self) -> str:
    """What a value has to be, in words."""
    if self.choices and not self.expected:
      return ' or '.join(self.choices) if len(self.choices) < 4 else f'one of {", ".join(self.choices)}'
    number = 'a positive whole number' if self.least == 1 else f'a whole number, {self.least} or more'
    return self.expected or {int: number, bool: 'true or false'}.get(self.kind, 'a text')

  def read(self, text: str) -> Value:
    """Return the value that a text on the command line stands for; of texts, see at_home.

    Raises:
      ConfigError: saying what was expected and what was found.
    """
    split = split_paths if self.paths else lambda text: tuple(text.split(','))
    parts = split(text) if self.kind is tuple else (text,)
    if not (set(parts) <= self.choices.keys() or not self.choices) or not re.fullmatch(self.pattern or '(?s:.*)', text):
      raise self._refusal(text)
    if self.kind is int:
      if not re.fullmatch('[0-9]{1,18}', text) or int(text) < self.least:
        raise self._refusal(text)
      return int(text)
    if self.kind is bool:
      if text not in ('true', 'false'):
        raise self._refusal(text)
      return text == 'true'
    return tuple(map(at_home, parts)) if self.kind is tuple else at_home(text)

  def written(self, value: Value) -> str:
    """Return the flag with a value, as it is typed."""
    if isinstance(value, tuple):
      return f'--{self.name}={",".join(value)}'
    return f'--{self.name}={str(value).lower() if isinstance(value, bool) else value}'

  def described(self) -> str:
    """Return the flag's description in --help: its meaning, its choices and its default."""
    choices = ', '.join(f'{name} ({text})' if text else name for name, text in self.choices.items())
    default = f' (default {self.written(self.default).partition("=")[2]})' if self.default not in (None, False, (), '') else ''
    return self.help + (f': {choices}' if choices else '') + (' (required)' if self.required else default)

  def _refusal(self, text: str) -> ConfigError:
    label = self.label if self.positional else f'{self.label}={text}'
    return ConfigError(f'{label}: expected {self.expectation}, found {text!r}')


def at_home(text: str) -> str:
  """Return a text with the home folder for ~ where it begins a path: shells leave --x=~/y as it is."""
  return os.path.expanduser(text) if text.startswith('~') and '/' in text else text


def split_paths(text: str) -> tuple[str, ...]:
  """Return the paths in a text that separates them by commas; a path that exists may itself have commas."""
  words, paths = text.split(','), []
  while words:
    joined = (','.join(words[:count]) for count in range(len(words), 1, -1))
    paths.append(next((path for path in joined if os.path.exists(os.path.expanduser(path))), words[0]))
    del words[:paths[-1].count(',') + 1]
  return tuple(paths)


NO_INPUT = '--input=-: standard input has ended without a line; pipe sentences into it, or give --input=FILE'


LOCK_END, PARTS_END = BESIDE_OUTPUT = ('.lock', '.parts')  # of names beside an output, which a command that was stopped may leave


def input_mistakes(path: str) -> Iterator[str]:
  """Yield NO_INPUT when the path that --input names is -, standard input, and that is known to be empty already."""
  if path == '-' and _is_known_to_be_empty(sys.stdin):
    yield NO_INPUT


def _is_known_to_be_empty(stream: TextIO | None) -> bool:
  """Return whether a stream has ended with nothing to read, as far as this shows without waiting for its writer."""
  if stream is None:  # it is closed
    return True
  try:
    descriptor = stream.fileno()
  except OSError:  # no file is behind it
    return False
  found = os.fstat(descriptor)
  if stat.S_ISREG(found.st_mode):
    return os.lseek(descriptor, 0, os.SEEK_CUR) >= found.st_size
  if stat.S_ISFIFO(found.st_mode):
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return [event for _, event in poll.poll(0)] == [select.POLLHUP]  # all writers have closed it, and it holds nothing
  return os.path.exists(os.devnull) and os.path.samestat(found, os.stat(os.devnull))


def matching(pattern: str) -> list[str]:
  """Return the paths that a pattern such as 'part-*.en' matches, in the order of their names; or the one that it is itself."""
  return [pattern] if os.path.exists(pattern) else sorted(glob.glob(pattern)) or [pattern]


def behind_link(path: str) -> str:
  """Return where an output is written: a link stays, and the file that it points to is replaced in its own folder."""
  return os.path.realpath(path) if os.path.islink(path) else path


def file_mistakes(path: str, **read: Value) -> Iterator[str]:
  """Yield what output_mistakes() does, and that - is no file, for scripts that write nothing but files."""
  if path == '-':
    yield '--output=-: what is written is a file; give its path'
  yield from output_mistakes(path, **read)


def output_mistakes(path: str, **read: Value) -> Iterator[str]:
  """Yield a sentence when no file can be written at the path that --output names, or the script reads that file.

  Args:
    path: - is standard output.
    **read: the paths or patterns of paths that flags of these names give.
  """
  folder = os.path.dirname(behind_link(path)) or '.'
  if path == '-':
    return
  if not os.path.isdir(folder):
    yield f'--output={path}: there is no folder {folder}; make it (mkdir -p {shlex.quote(folder)}), or give another path'
  elif os.path.isdir(path):
    yield f'--output={path} is a folder; give the path of a file in it'
  elif os.path.exists(path) and not os.path.isfile(path):
    yield f'--output={path} is not a regular file, and would be replaced by one; give the path of a file'
  elif not os.access(folder, os.W_OK | os.X_OK):
    yield f'--output={path}: the folder {folder} cannot be written to; change its permissions, or give another path'
  for name, value in read.items():
    given = (value,) if isinstance(value, str) else value or ()
    if os.path.realpath(path) in [os.path.realpath(one) for text in given for one in matching(text)]:
      yield f'--output={path} is a file that --{name} reads, and would replace it; give another path'
    elif pattern := next((text for text in given if not os.path.exists(text) and any(
        pathlib.PurePath(os.path.abspath(path + end)).match(os.path.abspath(text)) for end in ('', *BESIDE_OUTPUT))), None):
      yield (f'--output={path}: --{name}={pattern} would read it, or a file that lies beside it while it is written, when the command '
             'is given again; give another path')


def new_folder_mistakes(option: str, path: str) -> Iterator[str]:
  """Yield a sentence when no folder can be made at the path that an option names; an empty folder will do."""
  if '://' in path:
    yield f'--{option}={path}: expected a folder on a disk; only train.py makes one in a bucket'
    return
  path = os.path.expanduser(path)
  if os.path.lexists(path) and not (os.path.isdir(path) and not os.listdir(path)):
    yield f'--{option}={path} exists and is not empty; give a new folder'
    return
  yield from folder_mistakes(option, path)


def names_in(words: Iterable[str]) -> set[str]:
  """Return the names of the options that stand among the words of a command, also of those whose values are refused."""
  return {word.lstrip('-').partition('=')[0] for word in words if word.startswith('-')}


def folder_mistakes(option: str, path: str, is_written: bool = True) -> Iterator[str]:
  """Yield a sentence when there can be no folder at the path that an option names, or none where it is written to.

  Args:
    option: its name.
    path: of the folder; one that is not there is made.
    is_written: whether something is written to one that is there, too.
  """
  wanted = above = os.path.abspath(os.path.expanduser(path))
  while not os.path.lexists(above):
    above = os.path.dirname(above)
  if not os.path.isdir(above):
    yield f'--{option}={path}: {above} is not a folder; give another path'
  elif (is_written or above != wanted) and not os.access(above, os.W_OK | os.X_OK):
    yield f'--{option}={path}: the folder {above} cannot be written to; change its permissions, or give another path'


# Flags of several scripts.
WORKDIR = Flag('workdir', "the run's folder, made by train.py, on a disk or in a bucket (gs://bucket/run)", required=True)
CHECKPOINT = Flag('checkpoint', 'which parameters: final (the mean of the checkpoints behind the final scores; '
                  'best where there are no scores yet), best (on the validation split), latest, average:N (the mean of '
                  'the last N) or the number of a step', default='final')
