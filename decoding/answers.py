"""The interface of decode.py to a trained run of any task: one line of output for each line of text, in order."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from checks.errors import ConfigError
from decoding import minimum_bayes_risk, output_formats, scores
from decoding.long_lines import Splitter
from decoding.translator import Translator

Progress = Callable[[int], Any]  # is called with the number of lines just finished


class Answers(Protocol):
  """A trained run that answers lines of text."""

  verb: str  # for a progress bar, such as 'translating'
  part_lines: int | None  # a job of more lines is written in parts, so that it can be resumed; None: never

  def answer(self, lines: Sequence[str], first: int = 0, progress: Progress | None = None) -> list[str]:
    """Return a line of output for each line; `first` is the number of the first, from 0."""

  def check(self, lines: Sequence[str]) -> None:
    """Raise ConfigError, naming the line, where one of a job cannot be answered: before the first part is."""

  def plain(self, line: str) -> str:
    """Return the text that a line of input stands for."""

  def fingerprint(self) -> str:
    """Return a hash of the model and the search behind the answers, by which a job in parts knows its own parts."""

  def notes(self) -> list[str]:
    """Return notes for the user on the lines so far."""


class Written(Protocol):
  """A model's output for a line."""

  @property
  def text(self) -> str:
    """The output as one line."""


class PlainAnswers:
  """Answers that are a model's output as it is, one text for each line."""

  part_lines = None

  def __init__(self, verb: str, write: Callable[[Sequence[str], Progress | None], Sequence[Written]],
               notes: Callable[[], list[str]], plain: Callable[[str], str]):
    """Take the functions that answer lines (`write`), return notes on them, and return the text of a line (`plain`)."""
    self.verb, self._write, self.notes, self.plain = verb, write, notes, plain

  def answer(self, lines: Sequence[str], first: int = 0, progress: Progress | None = None) -> list[str]:
    """Return the model's output for each line."""
    del first
    return [found.text for found in self._write(lines, progress)]

  def check(self, lines: Sequence[str]) -> None:
    """Check nothing: all lines are answered at once, and whoever answers them says what is wrong."""
    del lines

  def fingerprint(self) -> str:
    """Return '': such answers are not written in parts."""
    return ''


class TranslationOptions(NamedTuple):
  """How lines are read, translated and written."""

  columns: tuple[str, ...] = ('source',)  # of the input, see output_formats.requests
  form: output_formats.Format = output_formats.Format()
  samples: int | None = None  # of each line, for minimum Bayes risk
  utility: str = 'chrf'
  language: str = ''  # of the translations, or MULTILINGUAL
  part_lines: int = 20_000
  stats: bool = False  # whether the notes say what the search computed


class TranslationAnswers:
  """Translations in the requested format."""

  verb = 'translating'

  def __init__(self, translator: Translator, options: TranslationOptions, splitter: Splitter | None = None):
    """Wrap a translator; `splitter` splits lines that are too long for it."""
    self._translator, self._options, self._splitter, self._lines = translator, options, splitter, splitter or translator
    self.part_lines = options.part_lines

  def check(self, lines: Sequence[str]) -> None:
    """Raise ConfigError naming the first line with too many columns, or that cannot be split as it would have to be."""
    asked = output_formats.requests(lines, self._options.columns)
    if self._splitter:
      self._splitter.check(asked)

  def plain(self, line: str) -> str:
    """Return the sentence to translate, without the columns of wishes."""
    return output_formats.source_of(line, self._options.columns)

  def fingerprint(self) -> str:
    """Return the translator's."""
    return self._translator.fingerprint()

  def answer(self, lines: Sequence[str], first: int = 0, progress: Progress | None = None) -> list[str]:
    """Return the translation of each line, as text, JSON or alignment."""
    options = self._options
    asked = output_formats.requests(lines, options.columns, first)
    if options.samples:
      languages = [scores.language_of([request.source], options.language) for request in asked]
      found = minimum_bayes_risk.translate(self._lines, asked, options.samples, options.utility, progress, first, languages)
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
    """Return notes for the user on the lines so far."""
    return self._lines.notes() + [self._translator.tally.describe()] * self._options.stats


def scoring(answers: Answers) -> TranslationAnswers:
  """Return `answers` if they are translations, which alone can score given ones. Raises ConfigError otherwise."""
  if not isinstance(answers, TranslationAnswers):
    raise ConfigError('--target gives translations to score; this run does not translate')
  return answers
