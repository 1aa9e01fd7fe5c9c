"""The phrasebook, an English-German corpus made by a grammar, as a TFDS builder.

Importing this module makes `tfds.builder('phrasebook')` known; it is prepared offline, in seconds. Beside each sentence
pair stand its kind, gold relations between words, word alignments, names that training never shows, and for pronoun
pairs what "it" stands for (see `_features`); scores evaluates translations by them. The sentences come from kinds and the
modules that it imports, which may be added to; the version carries a hash of all of them, so that TFDS never serves
another corpus than the source's.
"""

import contextlib
import functools
import hashlib
import inspect
import io
import logging
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from checks import cache_root, errors
from corpora.config import CorpusConfig
from corpora.phrasebook import (
  clauses,
  deeds,
  draws,
  grammar,
  kinds,
  lexicon,
  names,
  numbers,
  places,
  pronouns,
  scores,
  sense,
  splits,
  voices,
)
from corpora.splits import Corpus, Pair, Split

LANGUAGES = ('en', 'de')
SPLITS = ('train', 'validation', 'test')
RELATIONS = ('subject', 'object', 'adjective', 'antecedent')  # the first column of the feature `relations`


# -------------------------------------------------------------------------------------------------- the builder


SOURCES = (lexicon, grammar, names, sense, draws, pronouns, deeds, places, numbers, clauses, voices, kinds, splits)


@functools.cache
def fingerprint() -> str:
  """Return the SHA-256 (hex) of the sources that make the sentences, sizes included."""
  digest = hashlib.sha256()
  for module in SOURCES:
    digest.update(inspect.getsource(module).encode())
  return digest.hexdigest()


def _features() -> tfds.features.FeaturesDict:
  """Return what a record holds: the pair and its annotations. Tokens are numbered as grammar.tokens splits them."""
  text = tfds.features.Text
  return tfds.features.FeaturesDict({
      'en': text(),
      'de': text(),
      'kind': text(),  # family of the sentence
      'unseen_names': text(),  # names that training never shows, separated by spaces
      'name_classes': text(),  # of each of them: first name, surname or city, separated by commas
      # [relations, 3]: index into RELATIONS, English token of the verb (noun, pronoun), English token of its subject
      # or object (adjective, antecedent)
      'relations': tfds.features.Tensor(shape=(None, 3), dtype=np.int32),
      'alignment': tfds.features.Tensor(shape=(None, 2), dtype=np.int32),  # [links, 2]: English token, German token
      # Of pronoun pairs; '' for all other sentences:
      'pair': text(),  # the same for both readings
      'reading': text(),  # a: "it" is the first noun; b: the second
      'pronoun': text(),  # the right German pronoun
      'candidates': text(),  # the German pronouns of the first and of the second noun
      'antecedent': text(),  # the English noun that "it" stands for
      'adjective': text(),  # the English adjective that decides
      'frame': text(),  # the English verb, behind "not" where it is negated; with the adjective, the reading's key
      'unseen_key': text(),  # 'yes' where training has no pair with the key of this reading, or of the other
  })


def _annotation(item: grammar.Example) -> dict[str, Any]:
  """Return an example as the builder's features."""
  relations = [(RELATIONS.index(name), head, dependent) for name, head, dependent in item.relations]
  return {
      'en': item.english, 'de': item.german, 'kind': item.kind,
      'unseen_names': ' '.join(name for name, _ in item.unseen_names),
      'name_classes': ','.join(kind for _, kind in item.unseen_names),
      'relations': np.array(relations, np.int32).reshape(-1, 3),
      'alignment': np.array(item.alignment, np.int32).reshape(-1, 2),
      'pair': item.reading.pair, 'reading': item.reading.letter, 'pronoun': item.reading.pronoun,
      'candidates': ' '.join(item.reading.candidates), 'antecedent': item.reading.antecedent,
      'adjective': item.reading.adjective, 'frame': item.reading.frame,
      'unseen_key': 'yes' if item.reading.held_out else '',
  }


class Phrasebook(tfds.core.GeneratorBasedBuilder):
  """English-German sentences out of a grammar, with gold relations, alignments and pronoun pairs."""

  VERSION = tfds.core.Version(f'2.0.{int(fingerprint()[:7], 16)}')
  RELEASE_NOTES = {str(VERSION): 'The last number is a hash of the grammar.'}

  def _info(self) -> tfds.core.DatasetInfo:
    return self.dataset_info_from_configs(
        description='Generated English-German sentence pairs with gold relations, alignments and pronoun pairs.',
        features=_features(), supervised_keys=LANGUAGES, disable_shuffling=True)

  def _split_generators(self, dl_manager) -> dict[str, Iterator]:
    del dl_manager  # nothing is downloaded
    return {split: self._generate_examples(split) for split in SPLITS}

  def _generate_examples(self, split: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for index, item in enumerate(splits.generate(split)):
      yield index, _annotation(item)


@contextlib.contextmanager
def _quietly():
  """Silence TFDS's progress bars, log lines and printed notes."""
  logger = logging.getLogger('absl')
  level = logger.level
  logger.setLevel(logging.ERROR)
  tfds.disable_progress_bar()
  try:
    with contextlib.redirect_stdout(io.StringIO()):
      yield
  finally:
    logger.setLevel(level)
    tfds.enable_progress_bar()


def prepared(data_dir: str | None = None) -> tfds.core.DatasetBuilder:
  """Return the builder, its files written where they are not there; `data_dir` None is the user's cache.

  Raises:
    DataError: when they cannot be written.
  """
  try:
    with _quietly():
      builder = tfds.builder('phrasebook', data_dir=data_dir or cache_root.prepared())
      try:
        builder.download_and_prepare(file_format='array_record')
      except OSError:
        builder = tfds.builder('phrasebook', data_dir=data_dir or cache_root.prepared())
        if not builder.is_prepared():  # otherwise a run that started at the same time was faster
          raise
  except OSError as error:
    raise errors.DataError(f'the phrasebook cannot be prepared: {error}; give a folder with --config.data.cache_dir, '
                           'or set XDG_CACHE_HOME') from None
  return builder


# --------------------------------------------------------------------------------------------------- the corpus


def _records(builder: tfds.core.DatasetBuilder, split: str, features: tfds.features.FeaturesDict) -> Iterator[dict]:
  """Iterate over a split's records, decoding `features` only (TFDS would decode all, ten times slower)."""
  raw = builder.as_data_source(split).data_source
  for start in range(0, len(raw), 4096):
    for record in raw.__getitems__(list(range(start, min(start + 4096, len(raw))))):
      yield features.deserialize_example_np(record)


def _pairs(builder: tfds.core.DatasetBuilder, split: str, source: str, target: str) -> Iterator[Pair]:
  text = tfds.features.Text
  for record in _records(builder, split, tfds.features.FeaturesDict({source: text(), target: text()})):
    yield Pair(record[source].decode(), record[target].decode())


def _split(builder: tfds.core.DatasetBuilder, split: str, source: str, target: str) -> Split:
  made_of = f'{fingerprint()} {split} {source} {target}'
  return Split(f'phrasebook {split}', hashlib.sha256(made_of.encode()).hexdigest(),
                       builder.info.splits[split].num_examples,
                       functools.partial(_pairs, builder, split, source, target))


def corpus(config: CorpusConfig) -> Corpus:
  """Load the phrasebook in the configured direction. Raises DataError for a language that it does not have."""
  source, target = config.source_language, config.target_language
  if {source, target} != set(LANGUAGES):
    raise errors.DataError(f'the phrasebook has English and German (en, de); found {source} to {target}. Set '
                           'config.data.source_language and config.data.target_language to en and de, either way')
  builder = prepared(config.prepared_dir)
  return Corpus(
      name='phrasebook', source_language=source, target_language=target,
      train=_split(builder, 'train', source, target), validation=_split(builder, 'validation', source, target),
      tests=(_split(builder, 'test', source, target),),
      notes=(config.direction, f'phrasebook {builder.version}: generated, prepared in {builder.data_dir}'),
      showcase=tuple(Pair(*pair) if source == 'en' else Pair(*pair[::-1]) for pair in showcase()),
      suggestions=tuple(suggestions() if source == 'en' else (german for _, german in showcase()[:4])),
      measure=functools.partial(_measure, config.prepared_dir, target))


def examples(split: str, data_dir: str | None = None) -> list[dict[str, Any]]:
  """Return a split's annotations in the order of its pairs: str for text, arrays for indices; see `_features`."""
  decoded = _records(prepared(data_dir), split, _features())
  return [{key: value.decode() if isinstance(value, bytes) else value for key, value in record.items()}
          for record in decoded]


def showcase() -> list[tuple[str, str]]:
  """Return (English, German) sentences, never trained on: those that texts on attention discuss, and a few others."""
  return [(item.english, item.german) for item in splits.showcase()]


def suggestions() -> list[str]:
  """Return English sentences to try on a trained model, made of words that training has seen."""
  return ['The dog sleeps.', 'The tired cat slept under the table.', 'My brother gave her an old book.',
          'Yesterday the woman called her son.', 'The suitcase didn\'t fit into the car because it was too big.',
          'I know that he sold the expensive car.', 'Maria wants to buy twenty-one green apples.']


def _measure(data_dir: str | None, language: str, hypotheses: list[str], pieces: Callable[[str], int]
             ) -> dict[str, Any]:
  """Return further figures of the test set's translations."""
  return scores.measure(examples('test', data_dir), hypotheses, language, pieces)
