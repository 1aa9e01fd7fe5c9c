"""Where `sweep.py --search` looks: a range or a list of choices for each option, from --ranges or a configuration file.

    --ranges=optimizer.peak=log:3e-4:3e-3,model.dropout=linear:0.0:0.4,model.norm=choice:pre:post
    SEARCH = {'optimizer.peak': ('log', 3e-4, 3e-3), 'model.dropout': ('linear', 0.0, 0.4), …}
"""

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from checks.errors import ConfigError
from options.configurations import as_overrides, decides_nothing, is_one_of
from options.mistakes import listed

SCALES = {'log': 'log:LOW:HIGH', 'linear': 'linear:LOW:HIGH', 'choice': 'choice:A:B:…'}
# Options that make the validation losses of two trials no measures of the same thing, and why: beside the seed, those
# that decide which validation text there is, how it is cut and which of it is left out as too long …
_TOKENS = 'the validation loss is per token, and the tokens of two vocabularies do not compare'
_SENTENCES = ('it decides which validation text the loss is measured on, and losses on different text do not compare; search '
              'with one value of it')
_NOT_COMPARED = {
    'seed': 'a trial is compared with others of the same seed', 'vocabulary.': _TOKENS,
    'init_from': f'a run that training starts from brings its vocabulary: {_TOKENS}',
    **{f'data.{name}': _SENTENCES for name in (
        'kind', 'tfds_name', 'tfds_dir', 'directory', 'tsv', 'tsv_source_column', 'tsv_target_column', 'jsonl',
        'jsonl_source_field', 'jsonl_target_field', 'heldout', 'text', 'validation_text', 'test_text', 'document',
        'heldout_share', 'task', 'source_language', 'target_language', 'validation_split', 'max_length',
        'fixed_source_length', 'fixed_target_length')}}
# … those that a validation loss does not depend on …
_NO_LOSS = ('search', 'train.num_samples', 'train.watch_attention')
# … and those that decide the text that a vocabulary is made of, where none is supplied.
_MAKES_VOCABULARY = tuple(f'data.{name}' for name in (
    'train_split', 'max_characters', 'max_ratio', 'min_letters', 'drop_identical', 'drop_duplicates', 'drop_control',
    'tag', 'mix'))


@dataclasses.dataclass(frozen=True)
class Range:
  """Where to search for the value of one option."""

  option: str  # its dotted name
  scale: str  # log, linear or choice
  values: tuple[Any, ...]  # the lowest and the highest; or the choices

  @property
  def written(self) -> str:
    """The range as --ranges takes it."""
    return ':'.join([f'{self.option}={self.scale}', *map(_written, self.values)])

  def holds(self, value: Any) -> bool:
    """Return whether a value lies in the range."""
    if self.scale == 'choice':
      return value in self.values
    return isinstance(value, (int, float)) and self.values[0] <= value <= self.values[1]


@dataclasses.dataclass(frozen=True)
class SearchOptions:
  """The checked options of a search."""

  ranges: tuple[Range, ...]
  trials: int  # in the end, with those of earlier calls
  whole_trials: int  # that train to their end before any is stopped early
  min_steps: int  # updates that each trial makes before it may be stopped
  sampler_seed: int  # decides which values are tried


class RangeText(NamedTuple):
  """A range as it was written."""

  option: str
  scale: str
  values: tuple[str, ...]


def of_flag(text: str) -> list[RangeText]:
  """Return the ranges that --ranges lists."""
  found = []
  for part in text.split(','):
    option, _, rest = part.strip().partition('=')
    scale, *values = rest.split(':')
    found.append(RangeText(option, scale, tuple(values)))
  return found


def of_file(ranges: Mapping[str, Sequence[Any]]) -> list[RangeText]:
  """Return the ranges of SEARCH in a configuration file."""
  return [RangeText(option, str(scale), tuple(map(_written, values))) for option, (scale, *values) in ranges.items()]


def resolve(texts: Sequence[RangeText], given: Collection[str], read: Callable[[str, str], Any], is_supplied: bool = False
            ) -> tuple[Range, ...]:
  """Return the ranges with values of their options' types.

  Args:
    texts: the ranges.
    given: options that the command line sets.
    read: (option, text) -> the value that a text on the command line gives an option; raises ConfigError.
    is_supplied: whether all trials have one vocabulary, whatever text they train on.

  Raises:
    ConfigError: naming every mistake.
  """
  found, mistakes = [], []
  for text in texts:
    try:
      one = Range(text.option, text.scale, tuple(read(text.option, value) for value in text.values))
    except ConfigError as error:
      mistakes.append(f'range of {text.option}: {error}')
      continue
    wrong = [f'range {text.option}={":".join((text.scale, *text.values))}: {mistake}' for mistake in _mistakes(one, is_supplied)]
    mistakes += wrong
    if text.option in given:
      mistakes.append(f'range of {text.option}: --config.{text.option} is given, too; give one of them')
    if text.option in [other.option for other in found]:
      mistakes.append(f'{text.option} has two ranges; give one')
    found.append(one)
  if mistakes:
    raise ConfigError(listed(mistakes))
  return tuple(found)


def _mistakes(one: Range, is_supplied: bool) -> Iterator[str]:
  """Yield a sentence for each mistake in a range."""
  yield from (reason for name, reason in _NOT_COMPARED.items()
              if one.option == name or name.endswith('.') and one.option.startswith(name))
  if decides_nothing(one.option) or is_one_of(one.option, _NO_LOSS):
    yield 'the validation loss, by which trials are compared, does not depend on it'
  if one.option in _MAKES_VOCABULARY and not is_supplied:
    yield (f'each trial would make a vocabulary of its own training text: {_TOKENS}; give --config.vocabulary.source_model')
  if one.option == 'data.batching' and 'fixed' in one.values:
    yield f'batching fixed leaves out sentences that others keep: {_SENTENCES}'
  if one.scale not in SCALES:
    yield f'{one.scale!r} is no scale; expected {", ".join(SCALES.values())}'
  elif one.scale == 'choice':
    if len(set(map(_written, one.values))) < max(2, len(one.values)):
      yield f'expected two or more different values, {SCALES["choice"]}'
  elif len(one.values) != 2:
    yield f'expected the lowest and the highest value, {SCALES[one.scale]}'
  elif any(isinstance(value, bool) or not isinstance(value, (int, float)) for value in one.values):
    yield f'its values are no numbers; expected {SCALES["choice"]}'
  elif one.values[0] >= one.values[1]:
    yield 'expected the lowest value before the highest'
  elif one.scale == 'log' and one.values[0] <= 0:
    yield 'a logarithmic range has positive values; expected linear, or a lowest value above 0'


def _written(value: Any) -> str:
  """Return a value as it is typed behind --config.…="""
  return as_overrides({'': value})[0].partition('=')[2]
