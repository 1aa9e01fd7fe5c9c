"""Running text for a language model: one file, its end held out, or a file for each split.

A text is a list of documents, each of which the model learns to begin and to end (with EOS):

    file        the whole text is one document, line ends included: the model reads on over all of it
    paragraph   what stands between blank lines
    line        each line

A document's separator (a line end, or a blank line) is what its EOS stands for. So every byte of a split is predicted,
and counted in `num_bytes`.
"""

import hashlib
import os

from checks.errors import DataError
from corpora import LANGUAGES, Corpus, CorpusConfig, TextSplit
from corpora.text_files import read_lines

SEPARATORS = {'file': '\n', 'paragraph': '\n\n', 'line': '\n'}


def corpus(config: CorpusConfig) -> Corpus:
  """The text of `config.text`; splits that have no file of their own are cut from its end, in bytes.

  Raises:
    DataError: when a file has no text, or too little to hold some out.
  """
  notes: list[str] = []
  name = os.path.basename(config.text)
  units = _units(config.text, config.document, notes)
  parts = _cut(units, config.document, _shares(config), config.text)
  split = lambda words, units: _split(words, units, config.document)
  own = lambda path: split(os.path.basename(path), _units(path, config.document, notes)) if path else None
  held = [split(f'{name} {words}', part) for words, part in zip(('validation', 'test'), parts[1:])]
  train = split(f'{name} train' if held else name, parts[0])
  validation = own(config.validation_text) or held[0]
  test = own(config.test_text) or (held[1] if len(held) > 1 else None)
  for other in (validation, test):
    if config.document != 'file' and other and (shared := _shared(train, other)):
      notes.append(f'{other.name}: {shared:,} of {len(other):,} documents stand in the training text, too')
  return Corpus(name=config.text, source_language='', target_language='', train=train, validation=validation,
                test=test, notes=tuple(notes))


def phrasebook_corpus(config: CorpusConfig) -> Corpus:
  """The phrasebook's sentences in the configured source language, each a document; its splits are the phrasebook's."""
  from corpora.phrasebook import builder
  pairs = builder.corpus(config)
  language = LANGUAGES[pairs.source_language]
  splits = {name: _split(f'{pairs.name} {language} {name}', [pair.source for pair in getattr(pairs, name)], 'line')
            for name in builder.SPLITS}
  return Corpus(name=f'{pairs.name} ({language})', source_language=pairs.source_language, target_language='',
                notes=(f'{pairs.notes[-1]}; each sentence is a document',), **splits)


def _shares(config: CorpusConfig) -> list[float]:
  """What is held out of the text: validation, and a test where no file is given for either."""
  if config.validation_text:
    return []
  return [config.heldout_share] * (1 if config.test_text else 2)


def _units(path: str, document: str, notes: list[str]) -> list[str]:
  """The documents of a file; or its lines, where the file is the document."""
  lines = read_lines(path, notes)
  if not any(line.strip() for line in lines):
    raise DataError(f'{path} has no text')
  if document == 'file':
    return lines
  if document == 'line':
    kept = [line for line in lines if line.strip()]
    if len(kept) < len(lines):
      notes.append(f'{path}: {len(lines) - len(kept):,} blank lines skipped')
    return kept
  paragraphs: list[list[str]] = [[]]
  for line in lines:
    if line.strip():
      paragraphs[-1].append(line)
    elif paragraphs[-1]:
      paragraphs.append([])
  return ['\n'.join(paragraph) for paragraph in paragraphs if paragraph]


def _cut(units: list[str], document: str, shares: list[float], name: str) -> list[list[str]]:
  """[rest, *one part for each share], in the order of the text; parts end where a unit does."""
  sizes = [len((unit + SEPARATORS[document]).encode()) for unit in units]
  bounds, place, before = [], 0, 0
  wanted = [sum(sizes) * (1.0 - sum(shares[n:])) for n in range(len(shares))]
  for bound in wanted:
    while before < bound and place < len(units):
      before, place = before + sizes[place], place + 1
    bounds.append(place)
  parts = [units[start:stop] for start, stop in zip([0, *bounds], [*bounds, len(units)])]
  if not all(any(unit.strip() for unit in part) for part in parts):
    raise DataError(f'{name} has {len(units):,} {"lines" if document == "file" else document + "s"}; holding out '
                    f'{shares[0]:g} of it {len(shares)} times leaves a part empty. Bring more text, set '
                    '--config.data.heldout_share, or give --config.data.validation_text=FILE')
  return parts


def _split(name: str, units: list[str], document: str) -> TextSplit:
  documents = ['\n'.join(units)] if document == 'file' else units
  digest, separator = hashlib.sha256(), SEPARATORS[document]
  for text in documents:
    digest.update((text + separator).encode() + b'\0')
  size = sum(len((text + separator).encode()) for text in documents)
  return TextSplit(name, digest.hexdigest(), len(documents), lambda: iter(documents), size)


def _shared(train: TextSplit, other: TextSplit) -> int:
  seen = set(train)
  return sum(text in seen for text in other)
