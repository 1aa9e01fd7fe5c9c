"""A run's options as records (frozen dataclasses), which all other code reads in place of a configuration."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from checks.refusals import positive, refuse
from corpora import cleaning, loading, subword_sampling
from corpora import vocabulary as vocabularies
from input_pipeline import BatchConfig
from training.evaluation import EvaluationConfig
from training.failures import MemoryOptions
from training.loop import LoopConfig
from training.supervision import GuardConfig
from transformer.config import (
  ClassificationConfig,
  ConsistencyConfig,
  LanguageModelConfig,
  LossConfig,
  MeshConfig,
  ModelConfig,
  OptimizerConfig,
  RecurrentConfig,
)
from transformer.search import SearchConfig

ModelRecord = ModelConfig | RecurrentConfig | LanguageModelConfig


@dataclasses.dataclass(frozen=True)
class DecodingConfig:
  """How much is decoded at a time, and what of it is written."""

  batch_tokens: int | None  # rows x beams x source length of a device's search batch; None: what suits the platform
  include_prompt: bool  # language models: a continuation begins with its prompt

  def __post_init__(self):
    if self.batch_tokens is not None:
      refuse(positive(batch_tokens=self.batch_tokens))


@dataclasses.dataclass(frozen=True)
class PlacesConfig:
  """Where a run finds its start and keeps its caches; all of this may change when the run resumes."""

  init_from: str | None  # folder of the run whose parameters and vocabulary to start from
  compile_cache: str | None  # None: in the user's cache, checks.cache_root
  cache_dir: str | None  # where vocabularies and tokenised text lie; None: in the run's folder
  num_threads: int  # that prepare batches

  def __post_init__(self):
    if self.num_threads < 0:
      raise ValueError(f'num_threads is {self.num_threads}; expected 0 (batches are prepared between steps) or more')


@dataclasses.dataclass(frozen=True)
class Setup:
  """All options of a run, each in the record of the code that reads it."""

  saved: Mapping[str, Any]  # as config.json holds them
  seed: int
  task: str  # key of tasks.task.TASKS
  corpus: loading.CorpusConfig | loading.LabelledConfig
  cleaning: cleaning.CleaningConfig
  vocabulary: vocabularies.VocabularyConfig
  sampling: subword_sampling.SamplingConfig
  batches: BatchConfig
  model: ModelRecord  # with the configured vocabulary sizes; sized() sets the actual ones
  loss: LossConfig
  consistency: ConsistencyConfig
  classification: ClassificationConfig  # of labelled text; two outputs until the labels are read
  optimizer: OptimizerConfig
  search: SearchConfig
  decoding: DecodingConfig
  mesh: MeshConfig
  guards: GuardConfig
  loop: LoopConfig
  evaluation: EvaluationConfig
  places: PlacesConfig

  @property
  def memory(self) -> MemoryOptions:
    """The options that can make a step need less memory."""
    batches = self.batches
    fixed_rows = None if 'fixed_rows' in batches.idle() else batches.fixed_rows
    return MemoryOptions(self.mesh.fsdp, self.model.d_model, self.loop.accumulation_steps, batches.batch_tokens,
                         batches.row_multiple, fixed_rows, batches.lengths)

  def sized(self, source_size: int, target_size: int) -> ModelRecord:
    """Return the model's record for vocabularies of these sizes. Raises ValueError as the record does."""
    return dataclasses.replace(self.model, vocab_size=source_size, target_vocab_size=target_size)
