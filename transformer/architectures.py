"""From a configuration record to its Model: the type of the record decides the architecture.

A new architecture is a module such as model, language_model or recurrent.model with an entry in ARCHITECTURES, and a
record in config/.
"""

from transformer.config import AnyModelConfig
from transformer.model import Family, Model
from transformer.registries import ARCHITECTURES


def family(config: AnyModelConfig) -> Family:
  """Return the architecture that a record belongs to."""
  return next(entry for entry in ARCHITECTURES.values() if entry.record is type(config))


def build(config: AnyModelConfig) -> Model:
  """Build the model of a record, as functions of its parameters."""
  return family(config).build(config)


def describe(config: AnyModelConfig) -> str:
  """Describe a record's model for people, sizes included."""
  return family(config).describe(config)
