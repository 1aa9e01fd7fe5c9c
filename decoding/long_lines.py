"""Translation of lines that are too long for a model, in parts: each line is split, and its translations are joined."""

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from checks.errors import ConfigError
from decoding.requests import Request, Translation
from decoding.scores import between_sentences, language_of
from decoding.tags import Tags
from decoding.translator import Translator

# Where a text is split: between sentences, else between clauses, else between words, else anywhere.
_SENTENCES = re.compile(r'(?<=[.!?…])\s+|(?<=[.!?…]["”“’»)\]])\s+|(?<=[。！？])(?![」』”’）])|(?<=[。！？][」』”’）])')
_FINER = re.compile(r'(?<=[,;:–—])\s+|(?<=[，；：、])'), re.compile(r'\s+'), re.compile('')
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


def _split_finer(text: str, fits: Callable[[str], bool], seams: Sequence[re.Pattern]) -> Iterator[str]:
  """Yield a text, or else its parts at the first of the seams, each of which is split at the others if it has to be."""
  if not seams or fits(text):
    yield text
    return
  seam, *finer = seams
  for part in _packed(text, seam, fits):
    yield from _split_finer(part, fits, finer)


def _packed(text: str, seam: re.Pattern, fits: Callable[[str], bool]) -> Iterator[str]:
  """Cut a text at some of its seams into as few parts as hold it; what has no seam within and does not fit is a part."""
  if seam.pattern:
    starts = [0, *(found.end() for found in seam.finditer(text))]
    ends = [*(found.start() for found in seam.finditer(text)), len(text)]
  else:  # between any two characters, which lists of a very long text have no room for
    starts, ends = range(len(text)), range(1, len(text) + 1)
  start = 0
  while start < len(starts):
    end, more, growing = start, 1, True  # the part has the pieces from `start` to `end`
    while more:  # twice as many pieces as long as they fit, then half as many
      fit = end + more < len(ends) and fits(text[starts[start]:ends[end + more]])
      end += more * fit
      growing = growing and fit
      more = more * 2 if growing else more // 2
    if part := text[starts[start]:ends[end]]:
      yield part
    start = end + 1


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
      language: of the translations, such as 'de', or MULTILINGUAL.
    """
    self._translator = translator
    self._longest = min(longest, translator.longest_source)
    self._language = language
    self._tags = Tags(translator.parts[1])
    self._split: dict[int, int] = {}  # parts of each line split so far, by its number from 1

  def translate(self, lines: Sequence[str | Request], progress: Callable[[float], object] | None = None, first: int = 0,
                draw: int = 0) -> list[Translation]:
    """Translate as Translator.translate does; a line that is too long is reported and translated in parts."""
    requests = [Request(line) if isinstance(line, str) else line for line in lines]
    parts = self._parts(requests, first)
    of_line: list[list[Translation]] = [[] for _ in lines]
    while some := list(itertools.islice(parts, _AT_ONCE)):
      share = sum(part.share for part in some) / len(some)
      found = self._translator.translate([part.request for part in some],
                                         progress and (lambda count, share=share: progress(count * share)), first, draw)
      for part, one in zip(some, found):
        of_line[part.place].append(one if part.whole else Translation(one.text, one.score, one.log_prob))
    return [self._joined(request.source, found) for request, found in zip(requests, of_line)]

  def _parts(self, requests: Sequence[Request], first: int) -> Iterator[_Part]:
    """Yield the parts of the lines of some requests; `first` is the number of the first, from 0."""
    for place, request in enumerate(requests):
      line, size, number = first + place, self._size(request.source), 0
      if size <= self._longest:
        yield _Part(request._replace(line=line), place, 1.0, whole=True)
        continue
      self._refuse(line + 1, size, request)
      self._report(line + 1, size)
      tag, rest = self._tags.split(request.source)  # every part needs the tag
      for number, text in enumerate(split(rest, lambda text, tag=tag: self._size(tag + text) <= self._longest)):
        yield _Part(request._replace(source=tag + text, prefix='' if number else request.prefix, line=line, part=number),
                    place, len(text) / len(rest), whole=False)
      self._split[line + 1] = number + 1

  def _size(self, text: str) -> int:
    """Return the tokens of a source, EOS included."""
    return len(self._translator.parts[1].encode(text)) + 1

  def check(self, requests: Sequence[Request]) -> None:
    """Raise ConfigError naming the first line that has required phrases and would be split."""
    for line, request in enumerate(requests, 1):
      if request.required and (size := self._size(request.source)) > self._longest:
        self._refuse(line, size, request)

  def _refuse(self, line: int, size: int, request: Request) -> None:
    """Raise ConfigError when a line to split has required phrases."""
    if request.required:
      raise ConfigError(f'line {line:,} has {size:,} tokens and would be split into parts of up to {self._longest:,}, '
                        'but it is not known which part its required phrases belong to; split the line yourself, or leave them out')

  def _report(self, line: int, size: int) -> None:
    """Report that a line is split, once."""
    if line not in self._split:  # minimum Bayes risk translates the same line many times
      self._split[line] = 0  # until they are counted
      self._translator.say(f'line {line:,} has {size:,} tokens and is translated in parts of up to {self._longest:,}')

  def _joined(self, line: str, parts: Sequence[Translation]) -> Translation:
    """Join the translations of a line's parts."""
    if len(parts) == 1:
      return parts[0]
    between = between_sentences(language_of([line], self._language))
    return Translation(between.join(part.text for part in parts if part.text.strip()),
                       sum(part.score for part in parts), sum(part.log_prob for part in parts))

  def notes(self) -> list[str]:
    """Return notes for the user on the lines translated so far, a sentence each."""
    split = [f'lines longer than {self._longest:,} tokens were translated in parts: {len(self._split):,} in '
             f'{sum(self._split.values()):,} parts'] if self._split else []
    return split + self._translator.notes()
