"""Raw lines in, raw lines out: lines -> batches -> search -> lines in their order."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np

from corpora.vocabulary import Vocabulary
from experiment import command_line
from experiment.checkpoint import BLEU, Checkpoints, Measure
from experiment.run_folder import RunFolder
from transformer import architectures, search, tokens
from transformer.config import ArchitectureConfig, LanguageModelConfig, ModelConfig, RecurrentConfig, SearchConfig
from transformer.model import Model

LONGEST_SOURCE = 1024  # tokens; what is longer is cut, and counted in Translator.cut; a model may know fewer
_ROWS = 8

ModelRecord = ModelConfig | RecurrentConfig | LanguageModelConfig


_SHARED = ('d_model', 'num_layers', 'num_decoder_layers', 'dropout', 'share_embeddings', 'tie_output', 'initializer',
           'dtype')  # what a recurrent model takes from the section `model`


def _recurrent(build: Callable, config, **sizes: int) -> RecurrentConfig:
  shared = {name: config.model[name] for name in _SHARED if name in config.model}  # build() tells what is missing
  return build(RecurrentConfig, config.recurrent, **shared, **sizes)


# How each architecture's record is made from the sections of a configuration.
_RECORDS = {
    'transformer': lambda build, config, **sizes: build(ModelConfig, config.model, **sizes),
    'recurrent': _recurrent,
    'language_model': lambda build, config, **sizes: build(LanguageModelConfig, config.model, **sizes),
}


def _named(section: str, record: type) -> set[str]:
  return {f'{section}.{field.name}' for field in dataclasses.fields(record)}


# The options that each architecture has.
_OPTIONS = {
    'transformer': _named('model', ModelConfig),
    'recurrent': _named('recurrent', RecurrentConfig) | {f'model.{name}' for name in _SHARED},
    'language_model': _named('model', LanguageModelConfig),
}


def without_effect(config, given: Iterable[str]) -> list[str]:
  """Mistakes in what a user asked for: options, by dotted name, that the configured architecture does not have."""
  architecture = config.model.architecture
  known = _OPTIONS.get(architecture, set()) | {'model.architecture'}
  return [f'config.{name} has no effect: model.architecture is {architecture!r}, which has no such option; '
          'leave it out, or choose another architecture'
          for name in given if name.startswith(('model.', 'recurrent.')) and name not in known]


def model_record(build: Callable, config, source_size: int, target_size: int) -> ModelRecord:
  """The model's record, of the type that config.model.architecture names.

  Args:
    build: command_line.build, or what gather_errors() gives.
    config: the run's configuration.
    source_size, target_size: entries of the vocabularies.
  """
  chosen = build(ArchitectureConfig, config.model)  # None when it is wrong and mistakes are gathered
  return chosen and _RECORDS[chosen.architecture](build, config, vocab_size=source_size, target_vocab_size=target_size)


def model_config(config, source_vocabulary, target_vocabulary) -> ModelRecord:
  """The model's record from a run's configuration and its vocabularies."""
  with command_line.gather_errors(config) as build:
    return model_record(build, config, source_vocabulary.size, target_vocabulary.size)


class Trained(NamedTuple):
  """A run's model with the parameters of a checkpoint, read from its folder."""

  config: ml_collections.ConfigDict  # the run's, search options replaced
  source: Vocabulary
  target: Vocabulary
  model: Model
  params: Any
  search: SearchConfig


def read_run(workdir: str, checkpoint: str, measure: Measure, search_options: dict[str, Any]) -> Trained:
  """What load() starts from, for any task.

  Args:
    measure: by which checkpoint 'best' is the best.
    workdir, checkpoint, search_options: see load.
  """
  folder = RunFolder.open(workdir)
  config = ml_collections.ConfigDict(folder.read_config())
  config.search.update(search_options)
  source, target = folder.load_vocabularies()
  model = architectures.build(model_config(config, source, target))
  with command_line.gather_errors() as build:
    search_config = build(SearchConfig, config.search)
  checkpoints = Checkpoints(folder.checkpoints, measure=measure)
  wanted = jax.eval_shape(model.init, jax.random.key(0))
  params = checkpoints.average(checkpoints.resolve(checkpoint), wanted)
  return Trained(config, source, target, model, params, search_config)


def load(workdir: str, checkpoint: str = 'best', **search_options) -> 'Translator':
  """A run, ready to translate: load('runs/phrasebook').translate(['The dog sleeps.'])[0].text

  Args:
    workdir: folder of a run.
    checkpoint: 'best', 'latest', 'average:N' or a step.
    search_options: fields of SearchConfig that shall differ from the run's own, and batch_tokens.

  Raises:
    ConfigError, CheckpointError: when the folder is no run or has no such checkpoint.
  """
  run = read_run(workdir, checkpoint, BLEU, search_options)
  return Translator(run.model, run.params, run.source, run.target, run.search, run.config.search.batch_tokens)


class Translation(NamedTuple):
  """One line's best translation."""

  text: str
  score: float  # log-probability / length penalty, by which hypotheses were ranked
  log_prob: float  # natural logarithm, EOS included
  ids: tuple[int, ...] = ()  # as the search wrote them, without EOS


class Translator:
  """A model with its vocabularies and search options, ready for lines.

  The rows of a search batch depend on nothing but the length of its sentences, and a sentence's length class on the
  sentence alone: a line is translated in the same shapes whatever stands beside it, so its translation does not
  depend on its neighbours.
  """

  def __init__(self, model: Model, params: Any, source_vocabulary, target_vocabulary, config: SearchConfig,
               batch_tokens: int = 2048):
    """batch_tokens bounds rows × source length of a search batch, padding included; each row holds a whole beam."""
    self._model, self.params = model, params
    self._source, self._target = source_vocabulary, target_vocabulary
    self._config, self._batch_tokens = config, batch_tokens
    self._compiled = jax.jit(self._search)
    self.longest_source = longest_source(model, config)
    self.cut = 0  # lines cut to longest_source tokens so far

  @property
  def parts(self) -> tuple[Model, Any, Any]:
    """The model, and the vocabularies of source and target."""
    return self._model, self._source, self._target

  @property
  def search_config(self) -> SearchConfig:
    """How translations are looked for."""
    return self._config

  def _search(self, params, source: tokens.Tokens, lines: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Best hypothesis of each row: tokens [B, L], score [B], log-probability [B]. `lines` [B] seed what is drawn."""
    length = source.ids.shape[1] + self._config.extra_length
    real = (source.segments > 0).sum(axis=1)
    limits = jnp.where(real > 0, real + self._config.extra_length, 1)  # an empty row ends at once
    cache = self._model.init_cache(params, self._model.encode(params, source), length, self._config.width)
    best = search.search(lambda cache, token: self._model.decode_step(params, cache, token), cache, limits, length,
                         self._target.bos_id, self._target.eos_id, self._target.pad_id, self._config,
                         search.row_keys(self._config.seed, lines))
    return best.tokens[:, 0], best.scores[:, 0], best.log_probs[:, 0]

  def _encode_whole(self, lines: Sequence[str]) -> list[list[int]]:
    return [[*ids, self._source.eos_id] if line.strip() else []
            for line, ids in zip(lines, self._source.encode_batch(list(lines)))]

  def _cut(self, sentences: list[list[int]]) -> list[list[int]]:
    longest = self.longest_source
    return [s if len(s) <= longest else s[:longest - 1] + s[-1:] for s in sentences]

  def encode(self, lines: Sequence[str]) -> list[list[int]]:
    """What the model reads of each line: ids that end in EOS, cut to longest_source; none of a blank line."""
    return self._cut(self._encode_whole(lines))

  def translate(self, lines: Sequence[str], progress: Callable[[int], Any] | None = None) -> list[Translation]:
    """One translation per line, in order; a blank line stays blank.

    Args:
      lines: raw text without line ends.
      progress: called with the number of lines just finished.
    """
    whole = self._encode_whole(lines)
    self.cut += sum(len(sentence) > self.longest_source for sentence in whole)
    encoded = self._cut(whole)
    out = [Translation('', 0.0, 0.0)] * len(lines)
    for length, members in search_batches({i: len(s) for i, s in enumerate(encoded) if s}, self._batch_tokens):
      rows = search_rows(length, self._batch_tokens)
      source = tokens.pad([encoded[i] for i in members], rows, length, self._source.pad_id)
      found = self._compiled(self.params, source, line_numbers(members, rows))
      ids, scores, log_probs = jax.device_get(found)
      for row, index in enumerate(members):
        written = until(ids[row], self._target.eos_id)
        text = ' '.join(self._target.decode(written).split('\n'))
        out[index] = Translation(text, float(scores[row]), float(log_probs[row]), tuple(written))
      if progress:
        progress(len(members))
    return out

  def notes(self) -> list[str]:
    """What a user should know of the lines so far."""
    return [f'{self.cut:,} lines were longer than {self.longest_source} tokens and were cut'] if self.cut else []


def search_batches(lengths: dict[int, int], batch_tokens: int) -> Iterator[tuple[int, list[int]]]:
  """(padded length, lines) of each search batch: the longest first, so that a lack of memory shows at once.

  Args:
    lengths: of each line, by its number, its tokens.
    batch_tokens: see search_rows.
  """
  classes: dict[int, list[int]] = {}
  for line in sorted(lengths, key=lambda line: -lengths[line]):
    classes.setdefault(length_class(lengths[line]), []).append(line)
  for length, members in classes.items():
    rows = search_rows(length, batch_tokens)
    for start in range(0, len(members), rows):
      yield length, members[start:start + rows]


def search_rows(length: int, batch_tokens: int) -> int:
  """Rows of a search batch of padded length `length`: at most batch_tokens cells, but never fewer than 8 rows."""
  return max(_ROWS, batch_tokens // length // _ROWS * _ROWS)


def line_numbers(members: Sequence[int], rows: int) -> np.ndarray:
  """[rows] int32: the line in each row, and 0 in rows without one."""
  return np.pad(np.array(members, np.int32), (0, rows - len(members)))


def longest_source(model: Model, config: SearchConfig) -> int:
  """Tokens of the longest source whose length class, and whose longest translation, the model has positions for.

  Raises:
    ConfigError: when there is none.
  """
  if model.longest is None:
    return LONGEST_SOURCE
  fitting = [n for n in range(1, LONGEST_SOURCE + 1) if length_class(n) + config.extra_length <= model.longest]
  if not fitting:
    raise command_line.ConfigError(
        f'search.extra_length is {config.extra_length}, and the model has learned positions for {model.longest} tokens: '
        'none would be left for the source; lower search.extra_length')
  return fitting[-1]


def length_class(length: int) -> int:
  """The padded length of a sentence: multiples of 8 up to 64, then steps of a quarter of a power of two."""
  step = max(8, 2 ** (math.ceil(math.log2(length)) - 3))
  return math.ceil(length / step) * step


def until(ids: np.ndarray, eos_id: int) -> list[int]:
  """What stands before the first EOS."""
  end = np.flatnonzero(ids == eos_id)
  return ids[:end[0] if len(end) else len(ids)].tolist()
