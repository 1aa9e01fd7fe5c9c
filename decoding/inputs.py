"""The input of decode.py: lines and their references, from files, standard input, or splits of a corpus."""

import dataclasses
import re
import sys
from collections.abc import Sequence

from checks.errors import ConfigError, DataError
from corpora import loading, text_files, tfds_sets
from corpora.config import MULTILINGUAL
from corpora.splits import Corpus, Pair
from decoding import scores, text_lines
from options.decode_options import DecodeOptions
from options.flags import matching
from training.environment import is_unchanged

SPLIT = 'split:'  # before the name of one of the run's own splits, in place of a file
TFDS = re.compile(r'tfds:([^:]+(?::\d+\.\d+\.\d+)?):(.+)')  # a set, mostly with a variant, and a split of it

Lines = tuple[list[str] | None, list[list[str]]]  # lines and references; None: lines are read as they arrive


def read(options: DecodeOptions, corpus: loading.CorpusConfig, as_they_come: bool, environment: str | None = None) -> Lines:
  """Return lines and references.

  Args:
    options: of decode.py.
    corpus: the run's, for its splits and languages.
    as_they_come: whether lines of standard input may be answered before its end.
    environment: path of the run's environment.json, by which its own splits are known; None: they are taken as they are.

  Raises:
    ConfigError, DataError: when a split is unknown or no longer the run's, a file cannot be read, or counts differ.
  """
  references = [text_files.read_lines(path) for path in options.references]
  if as_they_come and options.input == options.output == '-' and not (references or options.target):
    text_lines.invite()
    return None, []
  pairs = pairs_of(options.input, corpus, environment)
  lines = ([pair.source for pair in pairs] if pairs is not None else
           [line for path in matching(options.input) for line in text_lines.read(path)])
  for path, known in zip(options.references, references):
    scores.check_counts(lines, known, options.input, path)
  if options.paper_bleu and scores.language_of(lines, corpus.target_language) == MULTILINGUAL:
    raise ConfigError(f'--paper_bleu={options.paper_bleu} finds words by the rules of one language, and --input={options.input} is '
                      'translated into several, or has lines without a tag; give the lines of one language, or leave it out')
  return lines, references or ([] if pairs is None else [[pair.target for pair in pairs]])


def typed(options: DecodeOptions, lines: list[str] | None, batch_tokens: int | None) -> DecodeOptions:
  """Return the options, with the fewest rows of a search for lines that are typed: only one of the rows has a line then.

  Args:
    options: of decode.py.
    lines: see Lines.
    batch_tokens: search.batch_tokens as the run or the options have it, which counts where it is set.
  """
  if lines is not None or batch_tokens is not None or not sys.stdin.isatty():
    return options
  return dataclasses.replace(options, search={**options.search, 'batch_tokens': 1})


def pairs_of(text: str, corpus: loading.CorpusConfig, environment: str | None) -> Sequence[Pair] | None:
  """Return the pairs of the split, of the run's own corpus or of a TFDS set, that an input names; None for files."""
  if text.startswith('tfds:'):
    return tfds_pairs(text, corpus)
  return split_of(text, loading.load(corpus), environment) if text.startswith(SPLIT) else None


def split_of(wanted: str, corpus: Corpus, environment: str | None = None) -> list[Pair]:
  """Return a split of the run's own corpus, by its role or its name: split:test is the first test set. See read()."""
  name, known = wanted.removeprefix(SPLIT), corpus.by_name
  if name not in known:
    raise ConfigError(f'--input={wanted}: expected {SPLIT}NAME with one of the splits of this run: {", ".join(known)}')
  is_held_out = known[name] is not corpus.train  # which is not the filtered and mixed text that a run records
  if environment and is_held_out and not is_unchanged(environment, (corpus.train, corpus.validation, *corpus.tests), known[name]):
    raise DataError(f'--input={wanted}: {known[name].name} is no longer the text that this run has read, and may hold what it was '
                    'trained on; put that text back, or give files with --input and --reference')
  return list(known[name])


def tfds_pairs(text: str, corpus: loading.CorpusConfig) -> list[Pair]:
  """Return pairs of a TFDS set in the run's languages, from the folder for sets that the run's options name.

  Raises:
    ConfigError, DataError: when the set or split is misspelt or not available.
  """
  found = TFDS.fullmatch(text)
  if not found:
    raise ConfigError(f'--input={text}: expected tfds:SET:SPLIT, such as tfds:wmt14_translate/de-en:test or '
                      'tfds:wmt14_translate/de-en:test[:100]')
  wanted = loading.CorpusConfig(kind='tfds', tfds_name=found[1], tfds_dir=corpus.tfds_dir,
                                source_language=corpus.source_language, target_language=corpus.target_language)
  try:
    return list(tfds_sets.split(wanted, found[2]))
  except DataError as error:
    raise DataError(f'--input={text}: {error}') from None
