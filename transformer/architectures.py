"""The families of models behind one door: from a record to a Model, by the record's type.

A new family is a module like model, language_model or recurrent.model, with an entry of ARCHITECTURES, and a record in
config/.
"""

from transformer.config import AnyModelConfig
from transformer.model import Family, Model
from transformer.registries import ARCHITECTURES


def family(config: AnyModelConfig) -> Family:
  """The architecture that a record belongs to."""
  return next(entry for entry in ARCHITECTURES.values() if entry.record is type(config))


def build(config: AnyModelConfig) -> Model:
  """The model of a record, as functions of its parameters."""
  return family(config).build(config)


def describe(config: AnyModelConfig) -> str:
  """What a model is, for people."""
  return family(config).describe(config)
