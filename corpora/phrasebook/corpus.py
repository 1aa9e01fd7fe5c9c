"""The phrasebook's corpora, as kinds of corpora: sentence pairs, running text, and labelled examples.

What makes them is imported when one is loaded: TensorFlow Datasets takes seconds.
"""

from corpora.config import KINDS, LANGUAGES, SIDES, CorpusConfig, Kind, LabelledConfig
from corpora.labelled import LabelledCorpus
from corpora.running_text import as_split
from corpora.splits import Corpus


def pairs(config: CorpusConfig) -> Corpus:
  """Load the phrasebook in the configured direction. Raises DataError for a language that it does not have."""
  from corpora.phrasebook import builder
  return builder.corpus(config)


def sentences(config: CorpusConfig) -> Corpus:
  """Load the phrasebook's sentences in the configured source language, each a document, in the phrasebook's splits."""
  found = pairs(config)
  language = LANGUAGES[found.source_language]
  train, validation, test = (
      as_split(f'{found.name} {language} {name}', [pair.source for pair in split], 'line')
      for name, split in (('train', found.train), ('validation', found.validation), ('test', found.tests[0])))
  return Corpus(f'{found.name} ({language})', found.source_language, '', train, validation, (test,),
                notes=(f'{found.notes[-1]}; each sentence is a document',))


def examples(config: LabelledConfig) -> LabelledCorpus:
  """Generate the phrasebook's labelled set of the configured task."""
  from corpora.phrasebook import labelled_tasks
  return labelled_tasks.corpus(config.task)


KINDS.add('phrasebook', Kind(pairs, 'pairs'), 'pairs: English-German, generated', uses=('tfds_dir', *SIDES))
KINDS.add('phrasebook_text', Kind(sentences, 'documents'), "documents: the phrasebook's sentences",
          uses=('tfds_dir', *SIDES))
KINDS.add('labelled_phrasebook', Kind(examples, 'examples'), 'labelled examples: English, generated', uses=('task',))
