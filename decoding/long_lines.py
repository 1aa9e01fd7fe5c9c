"""Translation of lines that are too long for a model, in parts: each line is split, and its translations are joined."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from checks.errors import ConfigError
from decoding.requests import Request, Translation
from decoding.translator import Translator

# Where a text is split: between sentences, else between clauses, else between words, else anywhere.
_SENTENCES = re.compile(r'(?<=[.!?…])\s+|(?<=[.!?…]["”“’»)\]])\s+|(?<=[。！？])')
_FINER = ((re.compile(r'(?<=[,;:–—])\s+|(?<=[，；：、])'), ' '), (re.compile(r'\s+'), ' '), (re.compile(''), ''))
_WITHOUT_SPACES = ('zh', 'ja', 'th')  # languages that write none between sentences


def split(text: str, fits: Callable[[str], bool]) -> list[str]:
  """Split a text into parts that fit.

  Each sentence is a part, as in training. A sentence that does not fit is split further, and of its pieces as many as
  fit make a part.

  Args:
    text: a line.
    fits: whether a text is short enough; if a text is, each part of it has to be.
  """
  if fits(text):
    return [text]
  parts = [part for part in _SENTENCES.split(text) if part.strip()]
  for seam, between in _FINER:
    parts = [finer for part in parts for finer in (
        [part] if fits(part) else _packed([piece for piece in seam.split(part) if piece], between, fits))]
  return parts


def _packed(pieces: Sequence[str], between: str, fits: Callable[[str], bool]) -> list[str]:
  """Join the pieces, in order, to as few parts as hold them; a piece that does not fit alone is a part."""
  parts: list[str] = []
  for piece in pieces:
    longer = f'{parts[-1]}{between}{piece}' if parts else piece
    if parts and fits(longer):
      parts[-1] = longer
    else:
      parts.append(piece)
  return parts


class _Parts(NamedTuple):
  """The parts of some lines."""

  requests: list[Request]
  owners: list[int]  # for each part, the place of its line among the lines


class Splitter:
  """A translator of lines of any length, which splits them into parts for another translator.

  A joined translation has the joined text and the summed scores of its parts; tokens and others are left empty.
  """

  def __init__(self, translator: Translator, longest: int, language: str):
    """Wrap a translator.

    Args:
      translator: translates the parts.
      longest: most tokens of a part, EOS included.
      language: of the translations, such as 'de'.
    """
    self._translator = translator
    self._longest = min(longest, translator.longest_source)
    self._between = '' if language in _WITHOUT_SPACES else ' '
    self._split: set[int] = set()  # lines split so far, counted from 1

  def translate(self, lines: Sequence[str | Request], progress: Callable[[float], object] | None = None, first: int = 0,
                draw: int = 0) -> list[Translation]:
    """Translate as Translator.translate does; a line that is too long is reported and translated in parts."""
    parts = self._parts([Request(line) if isinstance(line, str) else line for line in lines], first)
    share = len(lines) / max(len(parts.requests), 1)
    found = self._translator.translate(parts.requests, progress and (lambda count: progress(count * share)), first, draw)
    of_line: list[list[Translation]] = [[] for _ in lines]
    for owner, one in zip(parts.owners, found):
      of_line[owner].append(one)
    return [self._joined(found) for found in of_line]

  def _parts(self, requests: Sequence[Request], first: int) -> _Parts:
    """Split the lines of some requests; `first` is the number of the first, from 0."""
    vocabulary = self._translator.parts[1]
    fits = lambda text: len(vocabulary.encode(text)) < self._longest  # EOS needs a place
    parts = _Parts([], [])
    for place, request in enumerate(requests):
      texts = split(request.source, fits)
      if len(texts) > 1:
        self._report(first + place + 1, len(texts), len(vocabulary.encode(request.source)) + 1, request)
      for number, text in enumerate(texts):
        parts.requests.append(request._replace(source=text, prefix='' if number else request.prefix,
                                               line=first + place, part=number))
        parts.owners.append(place)
    return parts

  def _report(self, line: int, parts: int, size: int, request: Request) -> None:
    """Report that a line is split, once.

    Raises:
      ConfigError: when it has required phrases.
    """
    if request.required:
      raise ConfigError(f'line {line:,} has {size:,} tokens and would be split into {parts} parts, but it is not known '
                        'which part its required phrases belong to; split the line yourself, or leave them out')
    if line not in self._split:  # minimum Bayes risk translates the same line many times
      self._split.add(line)
      self._translator.say(f'line {line:,} has {size:,} tokens and is translated in {parts:,} parts of up to '
                           f'{self._longest:,}')

  def _joined(self, parts: Sequence[Translation]) -> Translation:
    """Join the translations of a line's parts."""
    if len(parts) == 1:
      return parts[0]
    return Translation(self._between.join(part.text for part in parts if part.text.strip()),
                       sum(part.score for part in parts), sum(part.log_prob for part in parts))

  def notes(self) -> list[str]:
    """Return notes for the user on the lines translated so far, a sentence each."""
    split = [f'{len(self._split):,} lines were longer than {self._longest:,} tokens and were translated in parts'
             ] if self._split else []
    return split + self._translator.notes()
