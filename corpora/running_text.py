"""Running text for a language model: one file, its end held out, or a file for each split.

A text is a list of documents (see documents.py), each of which the model learns to begin and to end (with EOS). Every
byte of a split is predicted, separators included, and counted in `num_bytes`.
"""

import hashlib
import os

from checks.errors import DataError
from corpora.config import KINDS, CorpusConfig, Kind
from corpora.documents import DOCUMENTS
from corpora.splits import Corpus, TextSplit
from corpora.text_files import read_lines


def corpus(config: CorpusConfig) -> Corpus:
  """Load the text of `config.text`; splits that have no file of their own are cut from its end, in bytes.

  Raises:
    DataError: when a file has no text, or too little to hold some out.
  """
  notes: list[str] = []
  name = os.path.basename(config.text)
  units = _units(config.text, config.document, notes)
  parts = _cut(units, config.document, _shares(config), config.text)
  split = lambda words, units: as_split(words, units, config.document)
  own = lambda path: split(os.path.basename(path), _units(path, config.document, notes)) if path else None
  held = [split(f'{name} {words}', part) for words, part in zip(('validation', 'test'), parts[1:])]
  train = split(f'{name} train' if held else name, parts[0])
  validation = own(config.validation_text) or held[0]
  tests = (own(config.test_text),) if config.test_text else tuple(held[1:])
  for other in (validation, *tests):
    if not DOCUMENTS[config.document].whole and (shared := _shared(train, other)):
      notes.append(f'{other.name}: {shared:,} of {len(other):,} documents stand in the training text, too')
  return Corpus(name=config.text, source_language='', target_language='', train=train, validation=validation,
                tests=tests, notes=tuple(notes))


def _shares(config: CorpusConfig) -> list[float]:
  """Return the shares held out of the text: for validation and for the test, where they have no file."""
  if config.validation_text:
    return []
  return [config.heldout_share] * (1 if config.test_text else 2)


def _units(path: str, document: str, notes: list[str]) -> list[str]:
  """Return the documents of a file, or its lines where the file is one document."""
  lines = read_lines(path, notes)
  if not any(line.strip() for line in lines):
    raise DataError(f'{path} has no text')
  return DOCUMENTS[document].units(lines, path, notes)


def _cut(units: list[str], document: str, shares: list[float], name: str) -> list[list[str]]:
  """Return [rest, *one part for each share], in the order of the text; parts end where a unit does."""
  division = DOCUMENTS[document]
  sizes = [len((unit + division.separator).encode()) for unit in units]
  bounds, place, before = [], 0, 0
  wanted = [sum(sizes) * (1.0 - sum(shares[n:])) for n in range(len(shares))]
  for bound in wanted:
    while before < bound and place < len(units):
      before, place = before + sizes[place], place + 1
    bounds.append(place)
  parts = [units[start:stop] for start, stop in zip([0, *bounds], [*bounds, len(units)])]
  if not all(any(unit.strip() for unit in part) for part in parts):
    raise DataError(f'{name} has {len(units):,} {division.noun}; holding out '
                    f'{shares[0]:g} of it {len(shares)} times leaves a part empty. Bring more text, set '
                    '--config.data.heldout_share, or give --config.data.validation_text=FILE')
  return parts


def as_split(name: str, units: list[str], document: str) -> TextSplit:
  """Return a split of units (lines, paragraphs); `document`, an entry of DOCUMENTS, says what its documents are."""
  division, digest = DOCUMENTS[document], hashlib.sha256()
  documents, separator = ['\n'.join(units)] if division.whole else units, division.separator
  for text in documents:
    digest.update((text + separator).encode() + b'\0')
  size = sum(len((text + separator).encode()) for text in documents)
  return TextSplit(name, digest.hexdigest(), len(documents), lambda: iter(documents), num_bytes=size)


def _shared(train: TextSplit, other: TextSplit) -> int:
  """Count the documents of the other split that occur in training, too."""
  seen = set(train)
  return sum(text in seen for text in other)


KINDS.add('running_text', Kind(corpus, 'documents', 'text', 'tinyshakespeare from github.com/karpathy/char-rnn, '
                               'data/tinyshakespeare/input.txt'),
          'documents: one file, its end held out, or a file per split',
          uses=('text', 'validation_text', 'test_text', 'document', 'heldout_share'))
