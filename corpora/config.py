"""The options of a corpus, section `data`, and the registry of kinds, `data.kind`.

A kind registers itself in KINDS next to the code that loads it, with the options that it reads; all others have no
effect with that kind. Import CorpusConfig and LabelledConfig from `loading.py`, which imports all kinds: their checks
know only the kinds that have been imported.
"""

import dataclasses
import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

from checks.choices import Registry
from checks.refusals import refuse
from corpora.documents import DOCUMENTS
from corpora.labelled import TASKS, LabelledCorpus
from corpora.splits import Corpus

LANGUAGES = {'en': 'English', 'de': 'German', 'fr': 'French', 'cs': 'Czech', 'es': 'Spanish', 'ro': 'Romanian',
             'ru': 'Russian', 'fi': 'Finnish', 'zh': 'Chinese', 'it': 'Italian', 'nl': 'Dutch', 'pt': 'Portuguese',
             'mul': 'several languages'}
MULTILINGUAL = 'mul'  # the code of text in several languages, ISO 639-3


def language_tag(language: str) -> str:
  """Return the word in front of each source of a model into several languages that is translated into this one."""
  return f'<2{language}>'


PATHS = ('directory', 'tsv', 'jsonl', 'text')  # the options that name a file or folder


class Kind(NamedTuple):
  """A kind of corpus."""

  load: Callable[..., Corpus | LabelledCorpus]  # (options) -> corpus; raises DataError when text is missing or damaged
  holds: str  # what its splits hold: 'pairs', 'documents' or 'examples'
  needs: str | None = None  # the option that names its text, which has no default
  public: str = ''  # a public text of this kind, with its address

  @property
  def remedy(self) -> str:
    """What to do, in a message, where the option that names the text is unset or names nothing that is there."""
    return (f'name text of yours with --config.data.{self.needs}=…' + (f', or fetch {self.public}' if self.public else '')
            + '; docs/data.md describes the files')


KINDS: Registry[Kind] = Registry('data.kind')
# Kinds that hold out lines by the seed, each with the kind that reads a file for each split.
HELD_OUT_BY_SEED = {'tsv': 'text', 'jsonl': 'text', 'labelled_tsv': 'labelled_text'}
SPLITS = ('train_split', 'validation_split', 'test_splits')  # options of kinds whose splits have names
SIDES = ('source_language', 'target_language')  # options of kinds whose text has a language for each side, or one of two


def _mistakes_of_kind(config: 'CorpusConfig | LabelledConfig', *held: str) -> Iterator[str]:
  """Yield what is wrong with a record's kind, whose splits must hold one of `held`."""
  kind = KINDS.get(config.kind)
  if kind is None or kind.holds not in held:
    fitting = [name for name, one in KINDS.items() if one.holds in held]
    yield f'kind is {config.kind!r}; expected one of {", ".join(fitting)}'
  elif kind.needs and not getattr(config, kind.needs):
    yield f'{kind.needs} is not set: kind {config.kind!r} reads it; {kind.remedy}'


def _take_list(config: 'CorpusConfig | LabelledConfig') -> None:
  """Turn the list of test splits, as it comes from JSON, into a tuple."""
  if isinstance(config.test_splits, list):
    object.__setattr__(config, 'test_splits', tuple(config.test_splits))


def _mistakes_of_tests(names: tuple[str, ...]) -> Iterator[str]:
  """Yield what is wrong with the names of the test splits."""
  if (not isinstance(names, tuple) or not all(isinstance(name, str) and name for name in names)
      or len(set(names)) < len(names)):
    yield f'test_splits is {names!r}; expected a tuple of different names, such as ("test",), or () for no test'


@dataclasses.dataclass(frozen=True)
class CorpusConfig:
  """Which corpus of pairs or documents, in which direction, and which of its splits."""

  kind: str
  source_language: str
  target_language: str
  train_split: str = 'train'  # stem of the files, or name of the TFDS split
  validation_split: str = 'val'
  test_splits: tuple[str, ...] = ('test',)  # the same for each test set; kinds that split one file make their own
  directory: str | None = None  # kind text
  tsv: str | None = None  # kind tsv
  tsv_source_column: int = 1
  tsv_target_column: int = 2
  jsonl: str | None = None  # kind jsonl
  jsonl_source_field: str = 'source'
  jsonl_target_field: str = 'target'
  heldout: int = 1000  # of an unsplit file: pairs held out for validation, and as many for the test
  text: str | None = None  # kind running_text
  validation_text: str | None = None  # kind running_text; None: held out of `text`
  test_text: str | None = None  # kind running_text; None: held out of `text`, or no test where validation has a file
  document: str = 'file'  # kind running_text: an entry of documents.DOCUMENTS
  heldout_share: float = 0.05  # kind running_text: share of the text's bytes held out for a split
  tfds_name: str | None = None  # kind tfds
  tfds_dir: str | None = None  # kind tfds; None: TFDS's own default, ~/tensorflow_datasets
  cache_dir: str | None = None  # kind phrasebook; None: the user's cache
  seed: int = 0  # decides which pairs of an unsplit file are held out

  def __post_init__(self):
    _take_list(self)
    refuse(self._mistakes())

  def _mistakes(self) -> Iterator[str]:
    yield from _mistakes_of_kind(self, 'pairs', 'documents')
    yield from _mistakes_of_tests(self.test_splits)
    if self.source_language == self.target_language:
      yield f'source_language and target_language are both {self.source_language!r}'
    if min(self.tsv_source_column, self.tsv_target_column) < 1 or self.tsv_source_column == self.tsv_target_column:
      yield (f'tsv_source_column {self.tsv_source_column} and tsv_target_column {self.tsv_target_column} '
             'must be two different numbers, counted from 1')
    if not self.jsonl_source_field or not self.jsonl_target_field or self.jsonl_source_field == self.jsonl_target_field:
      yield (f'jsonl_source_field {self.jsonl_source_field!r} and jsonl_target_field {self.jsonl_target_field!r} '
             'must be the names of two different fields')
    if self.heldout < 1:
      yield f'heldout is {self.heldout}; expected a positive number of pairs'
    yield from DOCUMENTS.mistakes(self.document)
    if not 0.0 < self.heldout_share < 0.5:
      yield (f'heldout_share is {self.heldout_share}; expected a share above 0 and below 0.5, since '
             'validation and test both take it')

  def idle(self) -> dict[str, str]:
    """Return the options of a corpus that have no effect beside the others, each with the reason."""
    own = {'heldout_share': f'validation_text is {self.validation_text!r}; nothing of text is held out beside it'}
    return (own if self.validation_text else {}) | KINDS.idle(self.kind)

  @property
  def prepared_dir(self) -> str | None:
    """Where the phrasebook is prepared; None: in the user's cache. A given tfds_dir goes first, as it always has."""
    return self.tfds_dir or (os.path.join(self.cache_dir, 'prepared') if self.cache_dir else None)

  @property
  def direction(self) -> str:
    """'English to German', from the language codes."""
    return ' to '.join(LANGUAGES.get(code, code) for code in (self.source_language, self.target_language))


@dataclasses.dataclass(frozen=True)
class LabelledConfig:
  """Which labelled corpus, and which of its splits."""

  task: str  # an entry of labelled.TASKS
  kind: str = 'labelled_phrasebook'
  train_split: str = 'train'  # stem of the file, <directory>/<split>.tsv
  validation_split: str = 'validation'
  test_splits: tuple[str, ...] = ('test',)
  directory: str | None = None  # kind labelled_text
  tsv: str | None = None  # kind labelled_tsv
  heldout: int = 1000  # kind labelled_tsv: examples held out for validation, and as many for the test
  seed: int = 0  # decides which examples of an unsplit file are held out

  def __post_init__(self):
    _take_list(self)
    refuse(self._mistakes())

  def _mistakes(self) -> Iterator[str]:
    yield from TASKS.mistakes(self.task)
    yield from _mistakes_of_kind(self, 'examples')
    yield from _mistakes_of_tests(self.test_splits)
    if self.heldout < 1:
      yield f'heldout is {self.heldout}; expected a positive number of examples'

  def idle(self) -> dict[str, str]:
    """Return the options of a corpus that have no effect with this kind, each with the reason."""
    return KINDS.idle(self.kind)
