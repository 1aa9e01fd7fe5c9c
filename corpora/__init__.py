"""Where text comes from: named splits of sentence pairs. A new kind of corpus gets a module here and a line in load().

    phrasebook     the embedded corpus: a grammar, so that the first run needs no download
    text_files     two text files per split, or one file with tab-separated columns
    tfds_sets      TFDS translation sets, WMT among them
    running_text   running text for language models: splits of documents, not of pairs; a file, or the phrasebook's
    labelled       labelled text, for fine-tuning a language model: splits of examples, loaded by labelled.load
    cleaning       what of the training pairs is dropped, and what is mixed in
    vocabulary     SentencePiece
    subword_sampling  text in other pieces each epoch
    whole_files    files that are there whole or not at all, for everything that writes

Knows neither models nor runs.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from checks.refusals import refuse

KINDS = ('phrasebook', 'text', 'tsv', 'tfds', 'running_text', 'phrasebook_text')
DOCUMENTS = ('file', 'paragraph', 'line')
LANGUAGES = {'en': 'English', 'de': 'German', 'fr': 'French', 'cs': 'Czech', 'es': 'Spanish', 'ro': 'Romanian',
             'ru': 'Russian', 'fi': 'Finnish', 'zh': 'Chinese', 'it': 'Italian', 'nl': 'Dutch', 'pt': 'Portuguese'}


class Pair(NamedTuple):
  """A sentence and its translation, raw text without line ends."""

  source: str
  target: str


@dataclasses.dataclass(frozen=True)
class Split:
  """A named list of pairs, read anew each time it is iterated over."""

  name: str  # stands beside every score
  fingerprint: str  # SHA-256 of whatever made the text
  size: int
  read: Callable[[], Iterator[Pair]]

  def __iter__(self) -> Iterator[Pair]:
    return self.read()

  def __len__(self) -> int:
    return self.size

  @property
  def extent(self) -> str:
    """How much text it is, for people."""
    return f'{self.size:,} pairs'


@dataclasses.dataclass(frozen=True)
class TextSplit(Split):
  """A named list of documents (texts of one or more lines), not of pairs; see running_text."""

  num_bytes: int = 0  # UTF-8, separators of documents included

  @property
  def extent(self) -> str:
    return f'{self.num_bytes:,} bytes' + (f' in {self.size:,} documents' if self.size > 1 else '')


@dataclasses.dataclass(frozen=True)
class Corpus:
  """Pairs, or documents, to train on, to validate with and to test on."""

  name: str
  source_language: str
  target_language: str
  train: Split
  validation: Split
  test: Split | None
  notes: tuple[str, ...] = ()  # told at the start of a run: direction, what was dropped and why
  labels: tuple[str, ...] = ()  # of labelled text
  showcase: tuple[Pair, ...] = ()  # sentences that a finished run translates beside their references
  suggestions: tuple[str, ...] = ()  # source sentences that a user may try
  measure: Callable[[list[str]], dict[str, Any]] | None = None  # further figures of the test split's translations


@dataclasses.dataclass(frozen=True)
class CorpusConfig:
  """Which corpus, which way, which splits."""

  kind: str
  source_language: str
  target_language: str
  train_split: str = 'train'  # stem of the files, or name of the TFDS split
  validation_split: str = 'val'
  test_split: str | None = 'test'
  directory: str | None = None  # kind text
  tsv: str | None = None  # kind tsv
  tsv_source_column: int = 1
  tsv_target_column: int = 2
  heldout: int = 1000  # kind tsv: pairs held out for validation, and as many for the test
  text: str | None = None  # kind running_text
  validation_text: str | None = None  # kind running_text; None: held out of `text`
  test_text: str | None = None  # kind running_text; None: held out of `text`, or no test where validation has a file
  document: str = 'file'  # kind running_text: see running_text
  heldout_share: float = 0.05  # kind running_text: share of the text's bytes held out for a split
  tfds_name: str | None = None  # kind tfds
  tfds_dir: str | None = None  # None: TFDS's own default, ~/tensorflow_datasets
  seed: int = 0  # decides which pairs of an unsplit file are held out

  def __post_init__(self):
    refuse(self._mistakes())

  def _mistakes(self) -> Iterator[str]:
    if self.kind not in KINDS:
      yield f'kind is {self.kind!r}; expected one of {", ".join(KINDS)}'
    if self.source_language == self.target_language:
      yield f'source_language and target_language are both {self.source_language!r}'
    needs = {'text': 'directory', 'tsv': 'tsv', 'tfds': 'tfds_name', 'running_text': 'text'}
    if self.kind in needs and not getattr(self, needs[self.kind]):
      yield (f'{needs[self.kind]} is not set: kind {self.kind!r} reads it; '
             f'add --config.data.{needs[self.kind]}=…')
    if min(self.tsv_source_column, self.tsv_target_column) < 1 or self.tsv_source_column == self.tsv_target_column:
      yield (f'tsv_source_column {self.tsv_source_column} and tsv_target_column {self.tsv_target_column} '
             'must be two different numbers, counted from 1')
    if self.heldout < 1:
      yield f'heldout is {self.heldout}; expected a positive number of pairs'
    if self.document not in DOCUMENTS:
      yield f'document is {self.document!r}; expected one of {", ".join(DOCUMENTS)}'
    if not 0.0 < self.heldout_share < 0.5:
      yield (f'heldout_share is {self.heldout_share}; expected a share above 0 and below 0.5, since '
             'validation and test both take it')


def load(config: CorpusConfig) -> Corpus:
  """The corpus of a configuration. Raises DataError when its text is missing or damaged."""
  if config.kind == 'phrasebook':
    from corpora.phrasebook import builder
    return builder.corpus(config)
  if config.kind == 'tfds':
    from corpora import tfds_sets
    return tfds_sets.corpus(config)
  if config.kind in ('running_text', 'phrasebook_text'):
    from corpora import running_text
    return running_text.corpus(config) if config.kind == 'running_text' else running_text.phrasebook_corpus(config)
  from corpora import text_files
  return text_files.directory_corpus(config) if config.kind == 'text' else text_files.tsv_corpus(config)


def direction(config: CorpusConfig) -> str:
  """'English to German', from the language codes."""
  name = lambda code: LANGUAGES.get(code, code)
  return f'{name(config.source_language)} to {name(config.target_language)}'


def counted(name: str, lines: int) -> str:
  """A news test with its number of lines, because newstest2014 exists in two: 'newstest2013 (3,000 lines)'."""
  return f'{name} ({lines:,} lines)'


def holds(kind: str) -> str:
  """Return what the splits of a kind of corpus hold: 'pairs', 'documents' or 'examples'."""
  return {'running_text': 'documents', 'phrasebook_text': 'documents', 'labelled_phrasebook': 'examples', 'labelled_text': 'examples', 'labelled_tsv': 'examples'}.get(kind, 'pairs')
