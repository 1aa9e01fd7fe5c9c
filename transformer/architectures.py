"""The families of models behind one door: from a record to a Model, by the record's type.

A new family gets its record in config.py, its build() in a module of its own, and a line in FAMILIES.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from transformer import language_model, model, recurrent
from transformer.config import LanguageModelConfig, ModelConfig, RecurrentConfig


class Family(NamedTuple):
  """What is done with a record of one type."""

  build: Callable[[Any], model.Model]
  describe: Callable[[Any], str]  # in the words of a sentence, sizes included


def _describe_transformer(config: ModelConfig) -> str:
  return f'{config.num_layers}+{config.decoder_layers} layers, d_model {config.d_model}'


def _describe_recurrent(config: RecurrentConfig) -> str:
  reader = 'read both ways' if config.bidirectional else 'read backward' if config.reverse_source else 'read forward'
  how = (f'no attention, the last state at {"every" if config.context == "every" else "the first"} step'
         if config.score == 'none' else f'{config.score} score')
  fed = ', input feeding' if config.input_feeding else ''
  return (f'{config.num_layers}+{config.num_layers} {config.cell.upper()} layers, d_model {config.d_model}, source '
          f'{reader}, {how}{fed}')


def _describe_language_model(config: LanguageModelConfig) -> str:
  return f'{config.num_layers} layers without an encoder, d_model {config.d_model}'


FAMILIES = {
    ModelConfig: Family(model.build, _describe_transformer),
    RecurrentConfig: Family(recurrent.build, _describe_recurrent),
    LanguageModelConfig: Family(language_model.build, _describe_language_model),
}


def build(config: Any) -> model.Model:
  """The model of a record, as functions of its parameters."""
  return FAMILIES[type(config)].build(config)


def describe(config: Any) -> str:
  """What a model is, for people."""
  return FAMILIES[type(config)].describe(config)
