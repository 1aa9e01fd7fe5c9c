"""What decode.py does with lines of text, whatever the run was trained for: an answer to each line, in order."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from checks.errors import ConfigError
from decoding import minimum_bayes_risk, output_formats
from decoding.requests import Request, Translation
from decoding.translator import Translator

Progress = Callable[[int], Any]  # is called with the number of lines just finished


class Answers(Protocol):
  """A trained run, ready for lines."""

  verb: str  # what a progress bar says: 'translating'
  part_lines: int | None  # a job of more lines is kept in parts, so that it can be continued; None: never

  def answer(self, lines: Sequence[str], first: int = 0, progress: Progress | None = None) -> list[str]:
    """Return a line of output for each line; `first` is the number of the first, from 0."""

  def plain(self, line: str) -> str:
    """Return the text that a line stands for."""

  def notes(self) -> list[str]:
    """Return what a user should know of the lines so far."""


class Written(Protocol):
  """What a model wrote for a line."""

  @property
  def text(self) -> str:
    """One line."""


class PlainAnswers:
  """Answers that are what a model writes, one text for each line."""

  part_lines = None

  def __init__(self, verb: str, write: Callable[[Sequence[str], Progress | None], Sequence[Written]],
               notes: Callable[[], list[str]], plain: Callable[[str], str]):
    """Args: `write` answers lines; `notes` says what is to be known of them; `plain` is the text of a line."""
    self.verb, self._write, self.notes, self.plain = verb, write, notes, plain

  def answer(self, lines: Sequence[str], first: int = 0, progress: Progress | None = None) -> list[str]:
    """Return what the model writes for each line."""
    del first
    return [found.text for found in self._write(lines, progress)]


class TranslationOptions(NamedTuple):
  """What is asked of translations beyond their text."""

  columns: tuple[str, ...] = ('source',)  # of the input, see output_formats.requests
  form: output_formats.Format = output_formats.Format()
  samples: int | None = None  # of each line, for minimum Bayes risk
  utility: str = 'chrf'
  part_lines: int = 20_000


class LineTranslator(Protocol):
  """A Translator, or what stands before one."""

  def translate(self, lines: Sequence[str | Request], progress: Progress | None = None, first: int = 0, draw: int = 0
                ) -> list[Translation]:
    """See Translator.translate."""

  def notes(self) -> list[str]:
    """See Translator.notes."""


class TranslationAnswers:
  """Translations in the format that is asked for."""

  verb = 'translating'

  def __init__(self, translator: Translator, options: TranslationOptions, splitter: LineTranslator | None = None):
    """Args: `splitter` takes lines apart that are too long for `translator`."""
    self._translator, self._options, self._lines = translator, options, splitter or translator
    self.part_lines = options.part_lines

  def plain(self, line: str) -> str:
    """Return the line: it is what it says."""
    return line

  def answer(self, lines: Sequence[str], first: int = 0, progress: Progress | None = None) -> list[str]:
    """Return the translation of each line, as text, JSON or alignment."""
    options = self._options
    asked = output_formats.requests(lines, options.columns, first)
    if options.samples:
      found = minimum_bayes_risk.translate(self._lines, asked, options.samples, options.utility, progress, first)
    else:
      found = self._lines.translate(asked, progress, first)
    return output_formats.write(self._translator, [request.source for request in asked], found, options.form, first)

  def score(self, sources: Sequence[str], targets: Sequence[str], progress: Progress | None = None
            ) -> tuple[list[str], str]:
    """Return a line with the probability of each given translation, and a summary of all."""
    found = self._translator.score(sources, targets, progress)
    written = output_formats.scored(found, self._options.form, self._translator.parts[2])
    return written, output_formats.describe_scored(found)

  def notes(self) -> list[str]:
    """Return what a user should know of the lines so far."""
    return self._lines.notes()


def scoring(answers: Answers) -> TranslationAnswers:
  """Return the answers, which must be translations: others give no probability to given ones."""
  if not isinstance(answers, TranslationAnswers):
    raise ConfigError('--target gives translations to score; this run does not translate')
  return answers
