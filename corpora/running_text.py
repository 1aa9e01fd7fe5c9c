"""Running text for a language model: one file, its end held out, or a file for each split.

A text is a list of documents (see documents.py), each of which the model learns to begin and to end (with EOS). Every
byte of a split is predicted, separators included, and counted in `num_bytes`. The training text is read block by block
whenever it is wanted, so that it may be larger than memory, also where it is one document.
"""

import hashlib
import itertools
import math
import os
from collections.abc import Callable, Iterable, Iterator

from checks.errors import DataError
from checks.progress import shown
from corpora.config import KINDS, CorpusConfig, Kind
from corpora.documents import DOCUMENTS
from corpora.splits import Corpus, TextSplit
from corpora.text_files import TextFile

_CHUNK = 4096  # units hashed at a time


def corpus(config: CorpusConfig) -> Corpus:
  """Load the text of `config.text`; splits that have no file of their own are cut from its end, in bytes.

  Raises:
    DataError: when a file has no text, or too little to hold some out; and while the training text is read, when its
      file is no longer what was read here.
  """
  notes: list[str] = []
  name, document, shares = os.path.basename(config.text), config.document, _shares(config)
  units, held = _reader(config.text, document), []
  own = lambda path: as_split(os.path.basename(path), list(_reader(path, document)(notes)), document) if path else None
  validation, test = own(config.validation_text), own(config.test_text)  # before the training text, which takes longer
  if shares:
    train, *held = _cut(name, units, shares, config, notes)
  else:
    train = as_split(name, _shown(units(notes), name), document, units)
  validation = validation or held[0]
  tests = (test,) if config.test_text else tuple(held[1:])
  if not DOCUMENTS[document].whole:
    notes += _shared(train, (validation, *tests))
  return Corpus(name=config.text, source_language='', target_language='', train=train, validation=validation,
                tests=tests, notes=tuple(notes))


def _shares(config: CorpusConfig) -> list[float]:
  """Return the shares held out of the text: for validation and for the test, where they have no file."""
  if config.validation_text:
    return []
  return [config.heldout_share] * (1 if config.test_text else 2)


Units = Callable[..., Iterator[str]]  # (notes=None) -> units, read anew from their file; notes get what was left out


def _reader(path: str, document: str) -> Units:
  """Return what yields the documents of a file, or its lines where the file is one document."""
  file = TextFile.of(path)
  if not any(line.strip() for line in file.lines()):
    raise DataError(f'{path} has no text')
  return lambda notes=None: DOCUMENTS[document].units(file.lines(notes), path, notes)


def _shown(units: Iterable[str], name: str) -> Iterator[str]:
  return shown(units, f'reading {name}', ' units')


def _cut(name: str, units: Units, shares: list[float], config: CorpusConfig, notes: list[str]) -> list[TextSplit]:
  """Return the splits [rest, *one for each share], in the order of the text; splits end where a unit does.

  The first reads the file anew whenever it is wanted; the others are held in memory.
  """
  division = DOCUMENTS[config.document]
  total, count = 0, 0
  for unit in _shown(units(notes), name):
    total, count = total + _size(unit, division.separator), count + 1
  first, *bounds = [total * (1.0 - sum(shares[n:])) for n in range(len(shares))]
  training = lambda: _until(first, units(), division.separator)
  rest = units()
  train = as_split(f'{name} train', _until(first, rest, division.separator), config.document, training)
  parts, before = [], train.num_bytes
  for bound in (*bounds, math.inf):
    parts.append(list(_until(bound, rest, division.separator, before)))
    before += sum(_size(unit, division.separator) for unit in parts[-1])
  if not all(any(unit.strip() for unit in part) for part in (training(), *parts)):
    raise DataError(f'{config.text} has {count:,} {division.noun}; holding out '
                    f'{shares[0]:g} of it {len(shares)} times leaves a part empty. Bring more text, set '
                    '--config.data.heldout_share, or give --config.data.validation_text=FILE')
  return [train, *(as_split(f'{name} {words}', part, config.document)
                   for words, part in zip(('validation', 'test'), parts))]


def _until(bound: float, units: Iterator[str], separator: str, before: int = 0) -> Iterator[str]:
  """Yield the next units that begin fewer than `bound` bytes from the begin of the text; `before` of them are past."""
  while before < bound and (unit := next(units, None)) is not None:
    before += _size(unit, separator)
    yield unit


def _size(unit: str, separator: str) -> int:
  return len((unit + separator).encode())


def as_split(name: str, units: Iterable[str], document: str, read: Units | None = None) -> TextSplit:
  """Return a split of units (lines, paragraphs).

  Args:
    name: of the split.
    units: read here, to hash and to count them.
    document: an entry of DOCUMENTS, says what their documents are.
    read: yields the units anew; where it is not given, `units` is a list and stays in memory.
  """
  division, digest, count, size = DOCUMENTS[document], hashlib.sha256(), 0, 0
  read = read or (lambda: iter(units))
  ending = '' if division.whole else '\0'  # of a unit that is a document
  rest = iter(units)
  while chunk := [unit + division.separator for unit in itertools.islice(rest, _CHUNK)]:
    content = ''.join(unit + ending for unit in chunk).encode()
    digest.update(content)
    count += len(chunk)
    size += len(content) - len(ending) * len(chunk)
  if division.whole:
    digest.update(b'\0')
    return TextSplit(name, digest.hexdigest(), 1, lambda: iter(['\n'.join(read())]), num_bytes=size,
                     read_lines=lambda: iter([read()]))
  return TextSplit(name, digest.hexdigest(), count, read, num_bytes=size)


def _shared(train: TextSplit, others: Iterable[TextSplit]) -> Iterator[str]:
  """Yield a note for each of the other splits of which some documents occur in training, too."""
  asked = {text for other in others for text in other}
  seen = {text for text in train if text in asked}
  for other in others:
    if shared := sum(text in seen for text in other):
      yield f'{other.name}: {shared:,} of {len(other):,} documents stand in the training text, too'


KINDS.add('running_text', Kind(corpus, 'documents', 'text', 'tinyshakespeare from github.com/karpathy/char-rnn, '
                               'data/tinyshakespeare/input.txt'),
          'documents: one file, its end held out, or a file per split',
          uses=('text', 'validation_text', 'test_text', 'document', 'heldout_share'))
