"""Lines too long for a model, taken apart and put together again: one line in, one line out."""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from checks.errors import ConfigError
from decoding.translator import Request, Translation, Translator

# Where a text comes apart: between sentences, else between clauses, else between words, else anywhere.
_SENTENCES = re.compile(r'(?<=[.!?…])\s+|(?<=[.!?…]["”“’»)\]])\s+|(?<=[。！？])')
_FINER = ((re.compile(r'(?<=[,;:–—])\s+|(?<=[，；：、])'), ' '), (re.compile(r'\s+'), ' '), (re.compile(''), ''))
_WITHOUT_SPACES = ('zh', 'ja', 'th')  # languages that write none between sentences


def split(text: str, fits: Callable[[str], bool]) -> list[str]:
  """`text` in parts that fit. Sentences stand alone, as in training; of what is finer, as much as fits makes a part.

  Args:
    fits: whether a text is short enough; the parts of one that is are, too.
  """
  if fits(text):
    return [text]
  parts = [part for part in _SENTENCES.split(text) if part.strip()]
  for seam, between in _FINER:
    parts = [finer for part in parts for finer in (
        [part] if fits(part) else _packed([piece for piece in seam.split(part) if piece], between, fits))]
  return parts


def _packed(pieces: Sequence[str], between: str, fits: Callable[[str], bool]) -> list[str]:
  """The pieces in order, in as few parts as hold them; a piece that does not fit alone is a part."""
  parts: list[str] = []
  for piece in pieces:
    longer = f'{parts[-1]}{between}{piece}' if parts else piece
    if parts and fits(longer):
      parts[-1] = longer
    else:
      parts.append(piece)
  return parts


class _Apart(NamedTuple):
  """The parts of some lines, and whose they are."""

  requests: list[Request]
  owners: list[int]  # the line of each, by its place


class Splitter:
  """A translator of lines of any length. Text and score of a joined translation are its parts' together, no more."""

  def __init__(self, translator: Translator, longest: int, language: str):
    """
    Args:
      translator: of the parts.
      longest: tokens of a part at most, EOS included.
      language: of the translations.
    """
    self._translator = translator
    self._longest = min(longest, translator.longest_source)
    self._between = '' if language in _WITHOUT_SPACES else ' '
    self._split: set[int] = set()  # lines taken apart so far, counted from 1

  def translate(self, lines: Sequence[str | Request], progress: Callable[[int], Any] | None = None, first: int = 0,
                draw: int = 0) -> list[Translation]:
    """As Translator.translate; a line too long is translated in parts and named."""
    apart = self._apart([Request(line) if isinstance(line, str) else line for line in lines], first)
    share = len(lines) / max(len(apart.requests), 1)
    found = self._translator.translate(apart.requests, progress and (lambda count: progress(count * share)), first, draw)
    of_line: list[list[Translation]] = [[] for _ in lines]
    for owner, one in zip(apart.owners, found):
      of_line[owner].append(one)
    return [self._joined(parts) for parts in of_line]

  def _apart(self, requests: Sequence[Request], first: int) -> _Apart:
    vocabulary = self._translator.parts[1]
    fits = lambda text: len(vocabulary.encode(text)) < self._longest  # EOS needs a place
    apart = _Apart([], [])
    for place, request in enumerate(requests):
      parts = split(request.source, fits)
      if len(parts) > 1:
        self._tell(first + place + 1, len(parts), len(vocabulary.encode(request.source)) + 1, request)
      for number, part in enumerate(parts):
        apart.requests.append(request._replace(source=part, prefix='' if number else request.prefix,
                                               line=first + place, part=number))
        apart.owners.append(place)
    return apart

  def _tell(self, line: int, parts: int, size: int, request: Request) -> None:
    if request.required:
      raise ConfigError(f'line {line:,} has {size:,} tokens and would be split into {parts}: nothing tells to which part '
                        'its required phrases belong; split the line yourself, or leave them out')
    if line not in self._split:  # samples are drawn of the same line again and again
      self._split.add(line)
      self._translator.say(f'line {line:,} has {size:,} tokens and is translated in {parts:,} parts of up to '
                           f'{self._longest:,}')

  def _joined(self, parts: Sequence[Translation]) -> Translation:
    if len(parts) == 1:
      return parts[0]
    return Translation(self._between.join(part.text for part in parts if part.text.strip()),
                       sum(part.score for part in parts), sum(part.log_prob for part in parts))

  def notes(self) -> list[str]:
    """What a user should know of the lines so far."""
    split = [f'{len(self._split):,} lines were longer than {self._longest:,} tokens and were translated in parts'
             ] if self._split else []
    return split + self._translator.notes()
