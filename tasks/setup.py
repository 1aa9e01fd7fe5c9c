"""A run's configuration as the records that the library takes, with every mistake in it told at once."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import corpora
from corpora import cleaning, subword_sampling
from corpora import vocabulary as vocabularies
from input_pipeline import BatchConfig
from options import command_line
from tasks import registry
from tasks.from_folder import ModelRecord, model_record, without_effect
from training import failures
from training.loop import LoopConfig
from transformer import architectures
from transformer import optimizer as optimizers
from transformer.config import ConsistencyConfig, LossConfig, MeshConfig, OptimizerConfig
from transformer.search import SearchConfig


class Records(NamedTuple):
  """The configuration's sections as the records that the library takes, each checked."""

  corpus: corpora.CorpusConfig
  cleaning: cleaning.CleaningConfig
  vocabulary: vocabularies.VocabularyConfig
  sampling: subword_sampling.SamplingConfig
  batches: BatchConfig
  loss: LossConfig
  consistency: ConsistencyConfig
  optimizer: OptimizerConfig
  search: SearchConfig
  mesh: MeshConfig
  guards: failures.GuardConfig
  loop: LoopConfig
  task: registry.Task


def check(config, given: Sequence[str] = ()) -> Records:
  """All sections turned into records; every mistake is reported at once, before any file is read or made.

  Args:
    config: the resolved configuration.
    given: dotted names of the options that somebody asked for; one that changes nothing is a mistake.
  """
  with command_line.gather_errors(config) as build:
    data, train_ = config.data, config.train
    build.mistakes += without_effect(config, given)
    task = build.attempt(registry.of, config)
    model = model_record(build, config, config.vocabulary.size, config.vocabulary.size)
    records = Records(
        corpus=task and build(task.corpus_config, data, seed=config.seed),
        cleaning=build(cleaning.CleaningConfig, data, mix=tuple(data.mix)),
        vocabulary=build(vocabularies.VocabularyConfig, config.vocabulary),
        sampling=build(subword_sampling.SamplingConfig, data, vocabulary_kind=config.vocabulary.kind),
        batches=build(BatchConfig, data, batch_tokens=train_.batch_tokens,
                      accumulation_steps=train_.accumulation_steps),
        loss=build(LossConfig, train_),
        consistency=build(ConsistencyConfig, train_, dropout=largest_dropout(model)),
        optimizer=build(OptimizerConfig, config.optimizer, d_model=config.model.d_model,
                        length_known=train_.num_minutes is None),
        search=build(SearchConfig, config.search, n_best=1),
        mesh=build(MeshConfig, config.mesh, compile=config.compile),
        guards=build(failures.GuardConfig, train_),
        loop=build(LoopConfig, train_),
        task=task)
    if task and model and records.search:
      build.attempt(task.check_model, architectures.build(model), records.search)
    if task and task.texts != 'pairs' and records.cleaning not in (None, cleaning.CleaningConfig()):
      build.mistakes.append(f'config.data: filters, tag and mix are for pairs, and kind {data.kind!r} holds '
                            f'{task.texts}; leave max_characters to mix at their defaults')
    if task and train_.watch_attention is not None and task.samples is None:
      build.mistakes.append(f'config.train.watch_attention is {train_.watch_attention!r}; it is for translators and '
                            f'language models, and data.kind {data.kind!r} holds {task.texts}')
    if train_.num_steps and records.optimizer:  # epochs are known in steps once the text is
      build.attempt(optimizers.learning_rate, records.optimizer, train_.num_steps)
  return records


def largest_dropout(model: ModelRecord | None) -> float:
  """The largest of a model record's rates; of a record that was refused, any."""
  return max(getattr(model, field.name) for field in dataclasses.fields(model)
             if field.name.endswith('dropout')) if model else 1.0
