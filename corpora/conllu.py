"""Sentences with their syntax from a CoNLL-U file (https://universaldependencies.org/format.html).

A line for each word, ten columns between tabs, an empty line after each sentence. A multiword token (1-2) is one word
of the text, and so are the words that it stands for; empty nodes (1.1) are no part of the text.
"""

import re
from typing import NamedTuple

from checks.errors import DataError
from corpora import text_files

_COLUMNS = 10
_NUMBER = re.compile(r'(\d+)(?:-(\d+)|(\.\d+))?')
OLD_NAMES = {'dobj': 'obj'}  # of the first version of Universal Dependencies


class Sentence(NamedTuple):
  """One sentence. Words are numbered from 0."""

  text: str
  words: tuple[str, ...]  # the text between spaces; no word contains a space
  dependencies: tuple[tuple[str, int, int], ...]  # (relation without its subtype, word, the word that it depends on)


def read(path: str) -> list[Sentence]:
  """Read all sentences of a file, plain or gzipped.

  Raises:
    DataError: when it is missing, or a line is not CoNLL-U.
  """
  found, block = [], []
  for number, line in enumerate([*text_files.read_lines(path), '']):
    if line.strip() and not line.startswith('#'):
      block.append((number + 1, line.split('\t')))
    elif not line.strip() and block:
      found.append(_sentence(block, path))
      block = []
  return found


def _sentence(block: list[tuple[int, list[str]]], path: str) -> Sentence:
  words, spaces, word_of, heads = [], [], {}, []
  inside = 0  # the last number of the multiword token that is being read
  for line, columns in block:
    match = _NUMBER.fullmatch(columns[0])
    if len(columns) != _COLUMNS or not match:
      raise DataError(f'{path}, line {line}: found {len(columns)} columns, beginning {columns[0]!r}; expected '
                      f'{_COLUMNS} of CoNLL-U, beginning with a number')
    first, last, empty = match.groups()
    if empty:
      continue
    if last or int(first) > inside:
      words.append(columns[1].replace(' ', ''))
      spaces.append('' if 'SpaceAfter=No' in columns[9].split('|') else ' ')
    if last:
      inside = int(last)
      continue
    word_of[first] = len(words) - 1
    heads.append((line, columns[7].split(':')[0], first, columns[6]))
  dependencies = []
  for line, relation, word, head in heads:
    if head != '0' and head not in word_of:
      raise DataError(f'{path}, line {line}: word {word} depends on word {head!r}, which the sentence does not have')
    if head != '0' and word_of[word] != word_of[head]:
      dependencies.append((OLD_NAMES.get(relation, relation), word_of[word], word_of[head]))
  text = ''.join(word + space for word, space in zip(words, spaces)).strip()
  return Sentence(text, tuple(words), tuple(dependencies))
