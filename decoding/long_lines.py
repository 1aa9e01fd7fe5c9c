"""Translation of lines that are too long for a model, in parts: each line is split, and its translations are joined."""

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from checks.errors import ConfigError
from decoding.requests import Request, Translation
from decoding.translator import Translator

# Where a text is split: between sentences, else between clauses, else between words, else anywhere.
_SENTENCES = re.compile(r'(?<=[.!?…])\s+|(?<=[.!?…]["”“’»)\]])\s+|(?<=[。！？])')
_FINER = ((re.compile(r'(?<=[,;:–—])\s+|(?<=[，；：、])'), ' '), (re.compile(r'\s+'), ' '), (re.compile(''), ''))
_WITHOUT_SPACES = ('zh', 'ja', 'th')  # languages that write none between sentences
_AT_ONCE = 20_000  # parts that are made and translated together: bounds the memory that a very long line takes


def split(text: str, fits: Callable[[str], bool]) -> Iterator[str]:
  """Yield the parts of a text, which fit.

  Each sentence is a part, as in training. A sentence that does not fit is split further, and of its pieces as many as
  fit make a part.

  Args:
    text: a line.
    fits: whether a text is short enough; if a text is, each part of it has to be.
  """
  if fits(text):
    yield text
    return
  for sentence in _SENTENCES.split(text):
    if sentence.strip():
      yield from _split_finer(sentence, fits, _FINER)


def _split_finer(text: str, fits: Callable[[str], bool], seams: Sequence[tuple[re.Pattern, str]]) -> Iterator[str]:
  """Yield a text, or else its parts at the first of the seams, each of which is split at the others if it has to be."""
  if not seams or fits(text):
    yield text
    return
  (seam, between), *finer = seams
  pieces = list(filter(None, seam.split(text))) if seam.pattern else text
  for part in _packed(pieces, between, fits):
    yield from _split_finer(part, fits, finer)


def _packed(pieces: Sequence[str], between: str, fits: Callable[[str], bool]) -> Iterator[str]:
  """Join the pieces, in order, to as few parts as hold them; a piece that does not fit alone is a part."""
  start = 0
  while start < len(pieces):
    end, more, growing = start + 1, 1, True
    while more:  # twice as many pieces as long as they fit, then half as many
      fit = end + more <= len(pieces) and fits(between.join(pieces[start:end + more]))
      end += more * fit
      growing = growing and fit
      more = more * 2 if growing else more // 2
    yield between.join(pieces[start:end])
    start = end


class _Part(NamedTuple):
  """A part of a line, or a whole line."""

  request: Request
  place: int  # of its line among the lines
  share: float  # of its line, which is finished when all of its parts are
  whole: bool  # whether it is the whole line


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
    self._split: dict[int, int] = {}  # parts of each line split so far, by its number from 1

  def translate(self, lines: Sequence[str | Request], progress: Callable[[float], object] | None = None, first: int = 0,
                draw: int = 0) -> list[Translation]:
    """Translate as Translator.translate does; a line that is too long is reported and translated in parts."""
    parts = self._parts([Request(line) if isinstance(line, str) else line for line in lines], first)
    of_line: list[list[Translation]] = [[] for _ in lines]
    while some := list(itertools.islice(parts, _AT_ONCE)):
      share = sum(part.share for part in some) / len(some)
      found = self._translator.translate([part.request for part in some],
                                         progress and (lambda count, share=share: progress(count * share)), first, draw)
      for part, one in zip(some, found):
        of_line[part.place].append(one if part.whole else Translation(one.text, one.score, one.log_prob))
    return [self._joined(found) for found in of_line]

  def _parts(self, requests: Sequence[Request], first: int) -> Iterator[_Part]:
    """Yield the parts of the lines of some requests; `first` is the number of the first, from 0."""
    vocabulary = self._translator.parts[1]
    fits = lambda text: len(vocabulary.encode(text)) < self._longest  # EOS needs a place
    for place, request in enumerate(requests):
      line, size, number = first + place, len(vocabulary.encode(request.source)) + 1, 0
      if size <= self._longest:
        yield _Part(request._replace(line=line), place, 1.0, whole=True)
        continue
      self._report(line + 1, size, request)
      for number, text in enumerate(split(request.source, fits)):
        yield _Part(request._replace(source=text, prefix='' if number else request.prefix, line=line, part=number),
                    place, len(text) / len(request.source), whole=False)
      self._split[line + 1] = number + 1

  def _report(self, line: int, size: int, request: Request) -> None:
    """Report that a line is split, once.

    Raises:
      ConfigError: when it has required phrases.
    """
    if request.required:
      raise ConfigError(f'line {line:,} has {size:,} tokens and would be split into parts of up to {self._longest:,}, '
                        'but it is not known which part its required phrases belong to; split the line yourself, or leave them out')
    if line not in self._split:  # minimum Bayes risk translates the same line many times
      self._split[line] = 0  # until they are counted
      self._translator.say(f'line {line:,} has {size:,} tokens and is translated in parts of up to {self._longest:,}')

  def _joined(self, parts: Sequence[Translation]) -> Translation:
    """Join the translations of a line's parts."""
    if len(parts) == 1:
      return parts[0]
    return Translation(self._between.join(part.text for part in parts if part.text.strip()),
                       sum(part.score for part in parts), sum(part.log_prob for part in parts))

  def notes(self) -> list[str]:
    """Return notes for the user on the lines translated so far, a sentence each."""
    split = [f'lines longer than {self._longest:,} tokens were translated in parts: {len(self._split):,} in '
             f'{sum(self._split.values()):,} parts'] if self._split else []
    return split + self._translator.notes()
