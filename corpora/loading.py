"""The corpus that a configuration names. Importing this module registers every kind of corpus.

Large packages, such as TensorFlow Datasets, are imported only when a corpus that needs them is loaded.
"""

import os
from typing import overload

from checks.errors import DataError
from corpora import (  # noqa: F401  (for KINDS)
    column_files,
    json_lines,
    labelled_files,
    running_text,
    text_files,
    tfds_sets,
)
from corpora.config import KINDS, PATHS, CorpusConfig, LabelledConfig
from corpora.labelled import LabelledCorpus
from corpora.phrasebook import corpus as phrasebook  # noqa: F401  (for KINDS)
from corpora.splits import Corpus


@overload
def load(config: CorpusConfig) -> Corpus: ...
@overload
def load(config: LabelledConfig) -> LabelledCorpus: ...


def load(config: CorpusConfig | LabelledConfig) -> Corpus | LabelledCorpus:
  """Load the corpus of a configuration. Raises DataError when its text is missing, saying where it is had, or damaged."""
  kind = KINDS[config.kind]
  try:
    return kind.load(config)
  except DataError as error:
    if kind.needs not in PATHS or os.path.exists(getattr(config, kind.needs)):
      raise
    raise DataError(f'{error}. To go on, {kind.remedy}') from None


def holds(kind: str) -> str | None:
  """Return what the splits of a kind of corpus hold: 'pairs', 'documents' or 'examples'; None for an unknown kind."""
  return KINDS[kind].holds if kind in KINDS else None
