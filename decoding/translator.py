"""Raw lines in, raw lines out: lines -> batches -> search -> lines in their order."""

import dataclasses
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from checks.errors import ConfigError
from configs import default
from corpora.vocabulary import Vocabulary
from options import sections
from training import hardware
from training.checkpoint import BLEU, Checkpoints, Measure
from training.run_folder import RunFolder, read_json
from transformer import architectures, partitioning, search, tokens
from transformer.config import ArchitectureConfig, LanguageModelConfig, ModelConfig, RecurrentConfig
from transformer.model import Model
from transformer.search import SearchConfig, constraints, coverage, ensemble
from transformer.search import cache as beam_cache

LONGEST_SOURCE = 1024  # tokens; what is longer is cut, and counted in Translator.cut; a model may know fewer
_ROWS = 8
_PARTS = 1 << 20  # of a line in parts, each draws what the line that many lines further on would
_MARGIN = 8  # places of a cache beyond the source's length, until a translation needs more
_OUT_OF_MEMORY = 'RESOURCE_EXHAUSTED'  # how XLA begins its message

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


def without_effect(config, given: Iterable[str], idle: Mapping[str, str] = MappingProxyType({})) -> list[str]:
  """Mistakes in what a user asked for: options, by dotted name, that the configured architecture does not have, and
  those that another option leaves without a meaning: those of ACTS_WHEN, and `idle` ones, with the reason."""
  architecture = config.model.architecture
  known = _OPTIONS.get(architecture, set(given)) | {'model.architecture'}  # an unknown one is a mistake of its own
  wrong = [f'config.{name} has no effect: model.architecture is {architecture!r}, which has no such option; '
           'leave it out, or choose another architecture'
           for name in given if name.startswith(('model.', 'recurrent.')) and name not in known]
  for options, switch, values, but in default.ACTS_WHEN:
    if (config[switch] in values) == but:
      remedy = 'something else' if but else ' or '.join(values)
      wrong += [f'config.{name} has no effect: {switch} is {config[switch]!r}; leave it out, or set {switch} to {remedy}'
                for name in given if name in options or name.partition('.')[0] in options]


def check_asked(config, search_options: Iterable[str]) -> None:
  """Raises ConfigError when one of the options of decode.py changes nothing in a run of this configuration."""
  if wrong := without_effect(config, [f'search.{name}' for name in search_options]):
    raise ConfigError('\n  '.join(wrong).replace('config.search.', '--search.'))


def model_record(build: Callable, config, source_size: int, target_size: int) -> ModelRecord:
  """The model's record, of the type that config.model.architecture names.

  Args:
    build: sections.build, or what gather_errors() gives.
    config: the run's configuration.
    source_size, target_size: entries of the vocabularies.
  """
  chosen = build(ArchitectureConfig, config.model)  # None when it is wrong and mistakes are gathered
  return chosen and _RECORDS[chosen.architecture](build, config, vocab_size=source_size, target_vocab_size=target_size)


def model_config(config, source_vocabulary, target_vocabulary) -> ModelRecord:
  """The model's record from a run's configuration and its vocabularies."""
  with sections.gather_errors(config) as build:
    return model_record(build, config, source_vocabulary.size, target_vocabulary.size)


class Trained(NamedTuple):
  """A run's model with the parameters of a checkpoint, read from its folder."""

  config: ml_collections.ConfigDict  # the run's, search options replaced
  source: Vocabulary
  target: Vocabulary
  model: Model
  params: Any
  search: SearchConfig


def read_run(workdir: str, checkpoint: str, measure: Measure, search_options: dict[str, Any], n_best: int = 1) -> Trained:
  """What load() starts from, for any task.

  Args:
    measure: by which checkpoint 'best' is the best.
    workdir, checkpoint, search_options, n_best: see load.
  """
  folder = RunFolder.open(workdir)
  config = ml_collections.ConfigDict(folder.read_config())
  config.search.update(search_options)
  check_asked(config, search_options)
  source, target = folder.load_vocabularies()
  model = architectures.build(model_config(config, source, target))
  with sections.gather_errors() as build:
    search_config = build(SearchConfig, config.search, n_best=n_best)
  checkpoints = Checkpoints(folder.checkpoints, measure=measure)
  wanted = jax.eval_shape(model.init, jax.random.key(0))
  params = checkpoints.average(chosen_steps(folder, checkpoints, checkpoint), wanted)
  return Trained(config, source, target, model, params, search_config)


def chosen_steps(folder: RunFolder, checkpoints: Checkpoints, wanted: str) -> list[int]:
  """The steps to average: 'final' are those that the run's results.json was scored with, else see resolve().

  A run without results, or one that went on after them, has no final steps: 'final' is its best then.
  """
  if wanted != 'final':
    return checkpoints.resolve(wanted)
  steps, there = (read_json(folder.results)['averaged_steps'] if os.path.isfile(folder.results) else []), checkpoints.steps()
  return steps if steps and steps[-1] == there[-1] and set(steps) <= set(there) else checkpoints.resolve('best')


def load(workdir: str, checkpoint: str = 'final', n_best: int = 1, **search_options) -> 'Translator':
  """A run, ready to translate: load('runs/phrasebook').translate(['The dog sleeps.'])[0].text

  Args:
    workdir: folder of a run; several, separated by commas, translate together as an ensemble.
    checkpoint: 'final' (those averaged for the run's results), 'best', 'latest', 'average:N' or a step; one for all
      runs, or as many as there are, separated by commas. Several of one run are an ensemble, too.
    n_best: translations of each line that are wanted; of what is asked for, so no option of a run.
    search_options: fields of SearchConfig that shall differ from the (first) run's own, and batch_tokens.

  Raises:
    ConfigError, CheckpointError: when a folder is no run or has no such checkpoint, or vocabularies differ.
  """
  folders, wanted = workdir.split(','), checkpoint.split(',')
  if len(folders) > 1 and len(wanted) > 1 and len(folders) != len(wanted):
    raise ConfigError(f'--workdir names {len(folders)} runs and --checkpoint {len(wanted)}; expected one '
                                   'checkpoint for all, or one for each')
  count = max(len(folders), len(wanted))
  runs = [read_run(folder, step, BLEU, search_options, 1 if number else n_best)  # the first run's search counts
          for number, (folder, step) in enumerate(zip(folders * (count // len(folders)), wanted * (count // len(wanted))))]
  first = runs[0]
  for folder, run in zip(folders, runs):
    if (run.source.fingerprint, run.target.fingerprint) != (first.source.fingerprint, first.target.fingerprint):
      raise ConfigError(f'{folder} has another vocabulary than {folders[0]}; the models of an ensemble '
                                     'have to share one (--config.init_from, or vocabulary.source_model)')
  made = Translator([run.model for run in runs], [run.params for run in runs], first.source, first.target, first.search,
                    hardware.search_tokens(first.config.search.batch_tokens))
  made.longest_trained = min(run.config.data.max_length for run in runs)
  return made


class Request(NamedTuple):
  """A line to translate, and what its translation has to be like."""

  source: str
  prefix: str = ''  # what the translation begins with
  required: tuple[str, ...] = ()  # phrases that it contains
  forbidden: tuple[str, ...] = ()  # phrases that it does not
  line: int | None = None  # number of its line, from 0; None: its place among the requests
  part: int = 0  # number of this part, where a line is translated in parts


class Translation(NamedTuple):
  """One line's best translation, and with it the next best."""

  text: str
  score: float = 0.0  # log-probability / length penalty (+ coverage penalty), by which hypotheses were ranked
  log_prob: float = 0.0  # natural logarithm, EOS included
  ids: tuple[int, ...] = ()  # EOS left out
  token_log_probs: tuple[float, ...] = ()  # of each id, and of EOS
  others: tuple['Translation', ...] = ()  # best first


class Translator:
  """One model, or several as an ensemble, with vocabularies and search options, ready for lines.

  The rows that a device searches together depend on nothing but the length of their sentences, and a sentence's length
  class on the sentence alone: a line is translated in the same shapes whatever stands beside it and however many
  devices there are, so its translation depends on neither. Each device searches for itself, until its own rows are done.
  """

  def __init__(self, models: Sequence[Model], params: Sequence[Any], source_vocabulary, target_vocabulary,
               config: SearchConfig, batch_tokens: int = 2048, say: Callable[[str], Any] | None = None,
               devices: Sequence[Any] | None = None):
    """Ready at once; nothing is computed yet.

    Args:
      models, params: of an ensemble's members; mostly one.
      source_vocabulary, target_vocabulary: of all of them.
      config: how to search.
      batch_tokens: bounds rows × beams × source length of a device's search batch, padding included.
      say: is told what a user should know before it happens.
      devices: those to search on; by default all of this process.
    """
    for model in models:
      check_attention(model, config)
    self._models, self._source, self._target = list(models), source_vocabulary, target_vocabulary
    self._config, self._batch_tokens, self.say = config, batch_tokens, say or (lambda text: None)
    devices = list(devices or jax.local_devices())
    self._mesh = jax.make_mesh((len(devices),), (partitioning.DATA,), axis_types=(jax.sharding.AxisType.Auto,),
                               devices=devices)
    self.params = params
    self._compiled = self._sharded(self._search)
    self._scoring = self._sharded(self._score)
    self.longest_source = min(longest_source(model, config) for model in models)
    self.longest_trained: int | None = None  # tokens of the longest source in training, where that is known
    self._halvings = 0  # of the rows of a search batch, where memory was short
    self._shapes: set[tuple[int, int]] = set()  # rows and source length of the search batches so far
    self._largest = 0  # bytes of the largest cache so far
    self._cut: list[int] = []  # lines cut to longest_source tokens so far, counted from 1
    self._long: list[int] = []  # lines that are not cut, but longer than longest_trained
    self._close: list[int] = []  # lines whose two best translations are as good as equal

  @property
  def params(self) -> list[Any]:
    """Of each model, on every device."""
    return self._params

  @params.setter
  def params(self, params: Sequence[Any]) -> None:
    self._params = jax.device_put(partitioning.own_copy(list(params)), NamedSharding(self._mesh, PartitionSpec()))

  @property
  def parts(self) -> tuple[Model, Any, Any]:
    """The (first) model, and the vocabularies of source and target."""
    return self._models[0], self._source, self._target

  @property
  def search_config(self) -> SearchConfig:
    """How translations are looked for."""
    return self._config

  def _sharded(self, function: Callable) -> Callable:
    """function(params, rows) with its rows split over the devices, each of which works on its own."""
    every, split = PartitionSpec(), PartitionSpec(partitioning.DATA)
    return jax.jit(jax.shard_map(function, mesh=self._mesh, in_specs=(every, split), out_specs=split, check_vma=False))

  def _init_caches(self, params: Sequence[Any], source: tokens.Tokens) -> list[Any]:
    """As long as most translations are; the search lets them grow."""
    return [cache for _, cache, _ in self._members(params, source)]

  def _members(self, params: Sequence[Any], source: tokens.Tokens) -> list[tuple[Callable, Any, Callable]]:
    """Of each model its step function, its cache, and how that grows."""
    (rows, length), width, found = source.ids.shape, self._config.width, []
    for model, own in zip(self._models, params):
      bound = lambda step, own=own: lambda cache, token: step(own, cache, token)
      cache = model.init_cache(own, model.encode(own, source), self._first_places(source), width)
      found.append(coverage.cover(bound(model.attend_step), cache, (rows, width, length), model.grow_cache)
                   if self._config.coverage_penalty else (bound(model.decode_step), cache, model.grow_cache))
    return found

  def _coverage(self, source: tokens.Tokens) -> Callable[[Any], jax.Array] | None:
    """The penalty of what a search's cache has seen; an ensemble has looked where its members did on average."""
    if not self._config.coverage_penalty:
      return None
    beams = lambda cache: cache.beams if len(self._models) > 1 else [cache.beams]
    return lambda cache: coverage.penalty(sum(looked for _, looked in beams(cache)) / len(self._models),
                                          coverage.ordinary(source.segments), self._config.coverage_penalty)

  def _first_places(self, source: tokens.Tokens) -> int:
    return source.ids.shape[1] + min(_MARGIN, self._config.extra_length)

  def _search(self, params: Sequence[Any], batch: 'SearchBatch') -> search.Hypotheses:
    """The hypotheses of each row."""
    source, width = batch.source, self._config.width
    real = (source.segments > 0).sum(axis=1)
    limits = jnp.where(real > 0, real + self._config.extra_length, 1)  # an empty row ends at once
    steps, caches, grows = zip(*self._members(params, source))
    step, cache, grow = ensemble.combine(steps, caches, grows) if len(steps) > 1 else (steps[0], caches[0], grows[0])
    rules = []
    if batch.prefix is not None:
      rules.append(constraints.prefix(batch.prefix.ids, (batch.prefix.segments > 0).sum(axis=1)))
    if batch.forbidden is not None:
      rules.append(constraints.forbidden(batch.forbidden, width))
    if batch.required is not None:
      rules.append(constraints.required(batch.required, width, self._target.eos_id))
    length = source.ids.shape[1] + self._config.extra_length
    return search.search(search.SearchProblem(
        step, cache, limits, length, self._target.bos_id, self._target.eos_id, self._target.pad_id,
        search.row_keys(batch.seeds, batch.lines), rules, search.Growth(self._first_places(source), grow),
        self._coverage(source)), self._config)

  def encode(self, lines: Sequence[str]) -> list[list[int]]:
    """What the model reads of each line: ids that end in EOS, cut to longest_source; none of a blank line."""
    return [self._cut_to_fit(ids) for ids in self._encode_whole(lines)]

  def _cut_to_fit(self, ids: list[int]) -> list[int]:
    longest = self.longest_source
    return ids if len(ids) <= longest else ids[:longest - 1] + ids[-1:]

  def _encode_whole(self, lines: Sequence[str]) -> list[list[int]]:
    return [[*ids, self._source.eos_id] if line.strip() else []
            for line, ids in zip(lines, self._source.encode_batch(list(lines)))]

  def translate(self, lines: Sequence[str | Request], progress: Callable[[int], Any] | None = None, first: int = 0,
                draw: int = 0) -> list[Translation]:
    """One translation per line, in order; a blank line stays blank.

    Args:
      lines: raw text without line ends, or requests.
      progress: called with the number of lines just finished.
      first: number of the first line, from 0; sampling depends on a line's number ...
      draw: ... and on this, added to the seed: 0, 1, … are as many samples.

    Raises:
      ConfigError: when the phrases of a request leave no room for a translation.
    """
    requests = [Request(line) if isinstance(line, str) else line for line in lines]
    numbers = [first + place if request.line is None else request.line for place, request in enumerate(requests)]
    draws = [number + request.part * _PARTS & 0x7fffffff for number, request in zip(numbers, requests)]
    encoded = self._encode([request.source for request in requests], numbers)
    wishes = [self._wishes(number + 1, request) for number, request in zip(numbers, requests)]
    out = [Translation('')] * len(lines)
    for length, members in search_batches({i: len(s) for i, s in enumerate(encoded) if s},
                                          self._batch_tokens, self._mesh.size, self._config.width):
      while members:
        rows = max(1, search_rows(length, self._batch_tokens, self._config.width) >> self._halvings)
        chosen = members[:rows * self._mesh.size]
        batch = self._batch(chosen, encoded, wishes, rows * self._mesh.size, length, draws, draw)
        self._tell_memory(rows, length)
        try:
          found = jax.device_get(self._compiled(self.params, batch))
        except jax.errors.JaxRuntimeError as error:
          if _OUT_OF_MEMORY not in str(error) or rows == 1:
            raise
          self._halvings += 1
          self.say(f'out of memory with {rows} rows of {length} tokens and {self._config.width} beams: going on with '
                   f'half as many (--search.batch_tokens={self._batch_tokens >> self._halvings} would begin with them)')
          continue
        for row, index in enumerate(chosen):
          out[index] = self._read(jax.tree.map(lambda leaf, row=row: leaf[row], found), numbers[index] + 1)
        members = members[len(chosen):]
        if progress:
          progress(len(chosen))
    return out

  def _encode(self, lines: Sequence[str], numbers: Sequence[int]) -> list[list[int]]:
    """What encode() gives, telling which lines are cut; `numbers` are the lines', from 0."""
    whole = self._encode_whole(lines)
    for number, ids in zip(numbers, whole):
      if len(ids) > self.longest_source:
        self._cut.append(number + 1)
        self.say(f'line {number + 1:,} has {len(ids):,} tokens and is cut to {self.longest_source:,}')
      elif self.longest_trained and len(ids) > self.longest_trained:
        self._long.append(number + 1)
    return [self._cut_to_fit(ids) for ids in whole]

  def _wishes(self, number: int, request: Request) -> 'Wishes':
    spell = lambda phrases: [self._target.encode(phrase) for phrase in phrases]
    wishes = Wishes(self._target.encode(request.prefix) if request.prefix else [], spell(request.required),
                    spell(request.forbidden))
    needed = len(wishes.prefix) + sum(map(len, wishes.required))
    if needed >= self._config.extra_length:
      raise ConfigError(
          f'line {number}: its prefix and required phrases have {needed} tokens; expected fewer than '
          f'search.extra_length, {self._config.extra_length}: raise it or shorten them')
    return wishes

  def _batch(self, members: Sequence[int], encoded: Sequence[list[int]], wishes: Sequence['Wishes'], rows: int,
             length: int, draws: Sequence[int], draw: int) -> 'SearchBatch':
    theirs = [wishes[i] for i in members]
    longest = max(len(wish.prefix) for wish in theirs)
    prefix = tokens.pad([wish.prefix for wish in theirs], rows, -(-longest // _ROWS) * _ROWS, self._target.pad_id)
    return SearchBatch(
        source=tokens.pad([encoded[i] for i in members], rows, length, self._source.pad_id),
        lines=line_numbers([draws[i] for i in members], rows),
        seeds=np.full(rows, self._config.seed + draw, np.int32), prefix=prefix if longest else None,
        required=lay_phrases([wish.required for wish in theirs], rows, to_the_right=False),
        forbidden=lay_phrases([wish.forbidden for wish in theirs], rows, to_the_right=True))

  def _tell_memory(self, rows: int, length: int) -> None:
    """Says how large the cache of a search batch will be, when it is the largest so far."""
    if (rows, length) in self._shapes:
      return
    self._shapes.add((rows, length))
    blank = jax.ShapeDtypeStruct((rows, length), jnp.int32)
    size = beam_cache.num_bytes(jax.eval_shape(self._init_caches, self.params, tokens.Tokens(blank, blank, blank)))
    if size > self._largest:
      self._largest = size
      self.say(f'search batches of up to {rows} rows × {length} source tokens, {self._config.width} beams: '
               f'{size / 2**20:,.1f} MiB of cache'
               + (f' on each of {self._mesh.size} devices' if self._mesh.size > 1 else ''))

  def _read(self, found: search.Hypotheses, number: int) -> Translation:
    """One line's translations, from its row."""
    scores = found.scores.astype(np.float64)
    listed = []
    for rank in range(len(scores)):
      if len(listed) > self._config.n_best:  # one more than is wanted: it tells whether the best is close
        break
      ids, size = tuple(until(found.tokens[rank], self._target.eos_id)), int(found.lengths[rank])
      if scores[rank] > search.NEVER and ids not in [other.ids for other in listed]:  # groups may find the same
        text = ' '.join(self._target.decode(ids).split('\n'))
        listed.append(Translation(text, float(scores[rank]), float(found.log_probs[rank]), ids,
                                  tuple(found.token_log_probs[rank, :size].astype(float).tolist())))
    if len(listed) > 1 and listed[0].score - listed[1].score < search.NOISE:
      self._close.append(number)
    return listed[0]._replace(others=tuple(listed[1:self._config.n_best]))

  def _score(self, params: Sequence[Any], batch: tokens.Batch) -> tuple[jax.Array, jax.Array | None]:
    """[B, T] log-probability of each target token, 0 under padding, and [B] coverage penalties, None without any."""
    read, real = tokens.shift_right(batch.target, self._target.bos_id), batch.target.segments > 0
    said = [jax.nn.log_softmax(model.decode(own, model.encode(own, batch.source), read), axis=-1)
            for model, own in zip(self._models, params)]
    mean = jax.nn.logsumexp(jnp.stack(said), axis=0) - jnp.log(len(said))
    gained = jnp.take_along_axis(mean, batch.target.ids[..., None], axis=-1)[..., 0]
    covered = self._forced_coverage(params, batch, read) if self._config.coverage_penalty else None
    return jnp.where(real, gained, 0.0), covered

  def _forced_coverage(self, params: Sequence[Any], batch: tokens.Batch, read: tokens.Tokens) -> jax.Array:
    """[B] the coverage penalty of given targets; `read` is what the decoder reads of them."""
    seen = [model.inspect(own, batch.source, read)[1]['cross'] for model, own in zip(self._models, params)]
    weights = sum(layers[coverage.middle(len(layers))].mean(axis=1) for layers in seen) / len(seen)  # [B, T, S]
    looked = jnp.where(batch.target.segments[..., None] > 0, weights, 0.0).sum(axis=1, keepdims=True)
    return coverage.penalty(looked, coverage.ordinary(batch.source.segments), self._config.coverage_penalty)[:, 0]

  def score(self, sources: Sequence[str], targets: Sequence[str], progress: Callable[[int], Any] | None = None
            ) -> list[Translation]:
    """The given translations with their log-probabilities, as translate() has them.

    A target is spelt as the vocabulary spells it, which may be another way than a search has chosen.

    Raises:
      ConfigError: naming the line, when a target is longer than the model can write.
    """
    written = [[*ids, self._target.eos_id] for ids in self._target.encode_batch(list(targets))]
    longest = min((model.longest or LONGEST_SOURCE * 2 for model in self._models))
    for number, ids in enumerate(written, 1):
      if len(ids) > longest:
        raise ConfigError(f'line {number} of the target has {len(ids):,} tokens; expected at most {longest}')
    return self._score_ids(self._encode(sources, range(len(sources))), written, targets, progress)

  def _score_ids(self, sources: Sequence[list[int]], written: Sequence[list[int]], texts: Sequence[str],
                 progress: Callable[[int], Any] | None) -> list[Translation]:
    """`sources` and `written` end in EOS."""
    out = [Translation(text) for text in texts]
    longer = {i: max(len(ids), len(written[i])) for i, ids in enumerate(sources) if ids}
    for length, members in search_batches(longer, self._batch_tokens, self._mesh.size):
      rows = search_rows(length, self._batch_tokens) * self._mesh.size
      batch = tokens.Batch(tokens.pad([sources[i] for i in members], rows, length, self._source.pad_id),
                           tokens.pad([written[i] for i in members], rows, length, self._target.pad_id))
      gained, covered = (None if part is None else np.asarray(part, np.float64)
                         for part in self._scoring(self.params, batch))
      for row, i in enumerate(members):
        each = gained[row, :len(written[i])]
        score = float(each.sum()) / float(self._config.penalty(len(written[i])))
        score += 0.0 if covered is None else float(covered[row])
        out[i] = Translation(texts[i], score, float(each.sum()), tuple(written[i][:-1]), tuple(each.tolist()))
      if progress:
        progress(len(members))
    return out

  def notes(self) -> list[str]:
    """What a user should know of the lines so far."""
    notes = []
    if self._cut:
      notes.append(f'{len(self._cut):,} lines were longer than {self.longest_source} tokens and were cut: '
                   + _some(self._cut))
    if self._long:
      notes.append(f'{len(self._long):,} lines are longer than the {self.longest_trained:,} tokens that training read at '
                   f'most, and such lines are often translated badly: {_some(self._long)}')
    if self._close:
      notes.append(f'{len(self._close):,} lines have two best translations within {search.NOISE:g} of each other, so that another '
                   f'machine may choose the other one: {_some(self._close)}')
    return notes


def _some(lines: Sequence[int]) -> str:
  lines = sorted(set(lines))
  return ', '.join(f'{line:,}' for line in lines[:10]) + (', …' if len(lines) > 10 else '')


class Wishes(NamedTuple):
  """A request's prefix and phrases, as ids."""

  prefix: list[int]
  required: list[list[int]]
  forbidden: list[list[int]]


class SearchBatch(NamedTuple):
  """Rows to search for. None: no row of the batch has any."""

  source: tokens.Tokens
  lines: np.ndarray  # [B] numbers on which what is drawn depends ...
  seeds: np.ndarray  # [B] ... and these
  prefix: tokens.Tokens | None
  required: np.ndarray | None  # [B, P, N], see constraints.required
  forbidden: np.ndarray | None  # [B, P, N], see constraints.forbidden


def lay_phrases(phrases: Sequence[list[list[int]]], rows: int, to_the_right: bool) -> np.ndarray | None:
  """[rows, P, N] as search_rules has phrases, P and N powers of two so that few shapes compile; None without any."""
  if not any(phrases):
    return None
  count, longest = (1 << (max(sizes) - 1).bit_length() for sizes in (
      [len(some) for some in phrases], [len(phrase) for some in phrases for phrase in some]))
  laid = np.full((rows, count, longest), constraints.NO_TOKEN, np.int32)
  for row, some in enumerate(phrases):
    for number, phrase in enumerate(some):
      start = longest - len(phrase) if to_the_right else 0
      laid[row, number, start:start + len(phrase)] = phrase
  return laid


def search_batches(lengths: dict[int, int], batch_tokens: int, devices: int = 1, beams: int = 1
                   ) -> Iterator[tuple[int, list[int]]]:
  """(padded length, lines) of each search batch: the longest first, so that a lack of memory shows at once.

  Args:
    lengths: of each line, by its number, its tokens.
    batch_tokens, beams: of one device, see search_rows.
    devices: that share a batch.
  """
  classes: dict[int, list[int]] = {}
  for line in sorted(lengths, key=lambda line: -lengths[line]):
    classes.setdefault(length_class(lengths[line]), []).append(line)
  for length, members in classes.items():
    rows = search_rows(length, batch_tokens, beams) * devices
    for start in range(0, len(members), rows):
      yield length, members[start:start + rows]


def search_rows(length: int, batch_tokens: int, beams: int = 1) -> int:
  """Rows of a search batch of padded length `length`: at most batch_tokens cells for all beams, but never fewer than 8."""
  return max(_ROWS, batch_tokens // (length * beams) // _ROWS * _ROWS)


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
    raise ConfigError(
        f'search.extra_length is {config.extra_length}, and the model has learned positions for {model.longest} tokens: '
        'none would be left for the source; lower search.extra_length')
  return fitting[-1]


def check_attention(model: Model, config: SearchConfig) -> None:
  """Raises ConfigError when there is a coverage penalty, and nothing that it could be read from."""
  if config.coverage_penalty and model.attend_step is None:
    raise ConfigError(
        f'search.coverage_penalty is {config.coverage_penalty}, and this model has no attention over a source, so that '
        'nothing tells what a translation covers; expected 0 (off)')


def check_model(model: Model, config: SearchConfig) -> None:
  """Raises ConfigError when a model cannot be searched so."""
  check_attention(model, config)
  longest_source(model, config)


def length_class(length: int) -> int:
  """The padded length of a sentence: multiples of 8 up to 64, then steps of a quarter of a power of two."""
  step = max(8, 2 ** (math.ceil(math.log2(length)) - 3))
  return math.ceil(length / step) * step


def until(ids: np.ndarray, eos_id: int) -> list[int]:
  """What stands before the first EOS."""
  end = np.flatnonzero(ids == eos_id)
  return ids[:end[0] if len(end) else len(ids)].tolist()
