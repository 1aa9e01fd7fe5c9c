"""The limits of a model: how long its sources may be, and whether it has cross-attention that a search can read."""

from checks.errors import ConfigError
from transformer.model import Model
from transformer.search import SearchConfig

LONGEST_SOURCE = 1024  # tokens; longer sources are cut, or translated in parts; a model may know fewer


def longest_source(model: Model, config: SearchConfig) -> int:
  """Return the tokens of the longest source, and so padded length, for whose longest translation the model has positions.

  Raises:
    ConfigError: when there is none.
  """
  if model.longest is None:
    return LONGEST_SOURCE
  left = model.longest - config.extra_length
  if left < 1:
    raise ConfigError(
        f'search.extra_length is {config.extra_length}, and the model has learned positions for {model.longest} tokens: '
        'none would be left for the source; lower search.extra_length')
  return min(left, LONGEST_SOURCE)


def check_attention(model: Model, config: SearchConfig) -> None:
  """Raise ConfigError when there is a coverage penalty, but the model has no attention to compute it from."""
  if config.coverage_penalty and model.attend_step is None:
    raise ConfigError(
        f'search.coverage_penalty is {config.coverage_penalty}, but this model has no attention over a source, from '
        'which coverage is computed; expected 0 (off)')
