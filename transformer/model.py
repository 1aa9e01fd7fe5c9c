"""The encoder-decoder, Figure 1, as pure functions of its parameters.

A Model is what trainer, search and explorer know of any architecture: `encode`, `decode` (teacher forcing),
`init_cache` and `decode_step` (one token at a time), and `inspect`, which also returns the attention weights. Dropout
is active only when a key is given; there is no training flag. of_module() makes a Model of any Linen module.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, Int, Key, PyTree

from transformer import dtypes, embeddings, layers, masks, normalization, positions
from transformer.attention import WITNESS, Projections
from transformer.config import AnyModelConfig, ModelConfig
from transformer.dropout import Dropout
from transformer.registries import ARCHITECTURES, NORMS, POSITIONS
from transformer.search import cache as beam_cache
from transformer.search import coverage
from transformer.tokens import AnyArray, Tokens, real_ids

Params = PyTree[Float[AnyArray, '...']]  # a nested dict of float32 arrays
Witness = Mapping[str, Any]  # a module's collection WITNESS
Record = dict[str, Any]  # see witnessed
Axes = PyTree[jax.sharding.PartitionSpec]  # a tree like that of the parameters
Logits = Float32[Array, 'B T V']
StepLogits = Float32[Array, 'B W V']
Beams = Int[AnyArray, 'B W']  # the newest token of each beam
Looked = Float32[Array, 'B W S']  # cross-attention of each beam's newest token


class Memory(NamedTuple):
  """The encoder's output, and which places are real."""

  values: Float[Array, 'B S D']
  segments: Int[AnyArray, 'B S']  # 0 where padded


class Cache(NamedTuple):
  """The state of step-by-step decoding. A search reorders `beams` with its hypotheses and never touches the rest."""

  beams: Any  # leaves [B, W, ...]: here origins [B, W, T], by which hypotheses find their past (search.cache)
  past: Any  # leaves [B, ...], which a step writes: here one CachedKeyValue per layer, see search.cache.to_cache_layout
  source: Any  # leaves [B, ...], which steps only read: here one CachedKeyValue per layer, and the mask [B, W, S]
  step: Int[Array, ' B']  # tokens fed so far to each sentence


AttendStep = Callable[[Params, Cache, Beams], tuple[StepLogits, Cache, Looked]]


@dataclasses.dataclass(frozen=True)
class Model:
  """Pure functions of the parameters; see the module's docstring."""

  config: AnyModelConfig
  init: Callable[[Key[Array, '']], Params]  # (key) -> params
  axes: Callable[[], Axes]  # () -> the logical axis names of each parameter
  encode: Callable  # (params, source, key=None) -> memory
  decode: Callable[..., Logits]  # (params, memory, target, key=None) -> logits; target starts from BOS
  init_cache: Callable[..., Cache]  # (params, memory, length, beams=1) -> cache
  decode_step: Callable[[Params, Cache, Beams], tuple[StepLogits, Cache]]
  inspect: Callable[[Params, Tokens, Tokens], tuple[Logits, Record]]  # (params, source, target); see witnessed
  attend_step: AttendStep | None = None  # decode_step, and its cross-attention; None: there is none
  # (params, cache, target) -> cache: decode_step for all tokens that outputs begin with, BOS in front, in one pass. The
  # cache is a fresh one. None for models whose steps have to follow each other.
  prefill: Callable[[Params, Cache, Tokens], Cache] | None = None
  longest: int | None = None  # tokens of the longest text that the model can read or write; None: any
  # decode in two parts, None for models that have no such parts: what the output projection reads, and the projection.
  states: Callable[..., Float[Array, 'B T D']] | None = None  # (params, memory, target, key=None)
  logits: Callable[[Params, Float[Array, 'B T D']], Logits] | None = None  # (params, states)


class Family(NamedTuple):
  """An architecture: its record, and what is made from one."""

  record: type[AnyModelConfig]
  build: Callable[[Any], Model]  # of the record
  describe: Callable[[Any], str]  # a phrase for people, sizes included


def of_module(module: nn.Module, record: Callable[[Witness], Record], looked: Callable[[Witness], Looked] | None = None,
              written_out: nn.Module | None = None, stacks: Sequence[str] = (), source_length: int = 2,
              longest: int | None = None) -> Model:
  """Turn a Linen module's methods into functions of its parameters.

  Args:
    module: has a `config` and the methods encode, decode, init_cache and decode_step, and may have prefill, and states
      and logits, the two parts of decode; called with a source and a target, it does both, which is what initialisation traces and
      inspect() reads.
    record: makes what inspect() returns from the collection WITNESS of that call.
    looked: makes a step's cross-attention from the collection WITNESS of decode_step; None: there is none.
    written_out: where `module` scans over its layers, the same with separate layers, for decode_step and inspect().
    stacks: names of the scanned stacks, whose parameters are split into layers for it.
    source_length: tokens of the source that initialisation traces.
    longest: see Model.
  """
  stepping = written_out or module

  @jax.jit  # so that whoever asks for parameters, their shapes or their axes shares one trace
  def variables(key: Key[Array, '']):
    blank = lambda length: Tokens(*(jnp.zeros((1, length), jnp.int32) for _ in Tokens._fields))
    return module.init(key, blank(source_length), blank(2))['params']

  def step(method: str, params: Params, *inputs, **options) -> Any:
    return stepping.apply({'params': layers.unstacked(params, stacks)}, *inputs, method=method, **options)

  def attend_step(params: Params, cache: Cache, tokens: Beams) -> tuple[StepLogits, Cache, Looked]:
    (logits, cache), seen = step('decode_step', params, cache, tokens, mutable=[WITNESS])
    assert looked  # else Model.attend_step is None
    return logits, cache, looked(seen[WITNESS])

  def prefill(params: Params, cache: Cache, target: Tokens) -> Cache:
    return step('prefill', params, cache, target)

  def inspect(params: Params, source: Tokens, target: Tokens) -> tuple[Logits, Record]:
    logits, seen = step('__call__', params, source, target, mutable=[WITNESS])
    return logits, record(seen.get(WITNESS, {}))

  encode, decode, states = (apply_method(module, method) for method in ('encode', 'decode', 'states'))
  in_parts = hasattr(module, 'states') or None
  return Model(
      config=module.config,
      init=lambda key: nn.unbox(variables(key)),
      axes=lambda: nn.get_partition_spec(jax.eval_shape(variables, jax.random.key(0))),
      encode=lambda params, source, key=None: encode(params, source, key=key),
      decode=lambda params, memory, target, key=None: decode(params, memory, target, key=key),
      init_cache=lambda params, memory, length, beams=1: step(
          'init_cache', params, memory, length=length, beams=beams),
      decode_step=lambda params, cache, tokens: step('decode_step', params, cache, tokens),
      inspect=inspect,
      attend_step=looked and attend_step,
      prefill=prefill if hasattr(module, 'prefill') else None,
      longest=longest,
      states=in_parts and (lambda params, memory, target, key=None: states(params, memory, target, key=key)),
      logits=in_parts and apply_method(module, 'logits'))


def apply_method(module: nn.Module, method: str) -> Callable:
  """Return a method as a function (params, *inputs, key=None), with dropout where a key is given."""
  def call(params: Params, *inputs, key: Key[Array, ''] | None = None):
    return module.apply({'params': params}, *inputs, method=method, rngs=None if key is None else {'dropout': key})

  return call


class EncoderDecoder(nn.Module):
  """Figure 1. of_module() turns its methods into functions."""

  config: ModelConfig

  def setup(self):
    cfg = self.config
    self.tables = embeddings.tables(self, cfg)
    self.output_bias = embeddings.output_bias(self, cfg)
    self.encoder_layers = layers.stack(layers.EncoderLayer, cfg, cfg.num_layers)
    self.decoder_layers = layers.stack(layers.DecoderLayer, cfg, cfg.decoder_layers)
    self.encoder_positions = positions.make(cfg, cfg.num_layers, causal=False)
    self.decoder_positions = positions.make(cfg, cfg.decoder_layers, causal=True)
    self.embedding_dropout = Dropout(cfg.dropout)
    if NORMS[cfg.norm].normalizes_end:
      self.encoder_norm, self.decoder_norm = normalization.make(cfg), normalization.make(cfg)

  def _embed(self, table: embeddings.Table, ids: Int[AnyArray, 'B T'], places: Float32[Array, '#B #T D'] | float
             ) -> Float[Array, 'B T D']:
    """Embeddings times √d_model plus positions (§3.4, §3.5)."""
    x = embeddings.embed(table, ids, self.config) + places
    return self.embedding_dropout(x.astype(dtypes.of(self.config)))

  def encode(self, source: Tokens) -> Memory:
    length = source.ids.shape[1]
    x = self._embed(self.tables.source, real_ids(source), self.encoder_positions.embed(source.positions, length))
    mask = masks.segment_mask(source.segments, source.segments)
    relations = self.encoder_positions.relate(jnp.arange(length), jnp.arange(length))
    x = layers.run(self.encoder_layers, self.config.num_layers, x, relations, mask)
    return Memory(self.encoder_norm(x) if NORMS[self.config.norm].normalizes_end else x, source.segments)

  def decode(self, memory: Memory, target: Tokens) -> Logits:
    return self.logits(self.states(memory, target))

  def states(self, memory: Memory, target: Tokens) -> Float[Array, 'B T D']:
    """Return the last layer's output at each place, normalised, before the output projection."""
    length = target.ids.shape[1]
    x = self._embed(self.tables.target, real_ids(target), self.decoder_positions.embed(target.positions, length))
    self_mask = masks.segment_mask(target.segments, target.segments) & masks.causal_mask(length)
    cross_mask = masks.segment_mask(target.segments, memory.segments)
    relations = self.decoder_positions.relate(jnp.arange(length), jnp.arange(length))
    x = layers.run(self.decoder_layers, self.config.decoder_layers, x, relations, memory.values, self_mask, cross_mask)
    return self._finish(x)

  def _finish(self, x: Float[Array, 'B T D']) -> Float[Array, 'B T D']:
    return self.decoder_norm(x) if NORMS[self.config.norm].normalizes_end else x

  def logits(self, x: Float[Array, 'B T D']) -> Logits:
    return embeddings.logits(x, self.tables.output, self.output_bias)

  def init_cache(self, memory: Memory, length: int, beams: int) -> Cache:
    batch = memory.values.shape[0]
    return Cache(
        beams=beam_cache.origins(batch, beams, length),
        past=[beam_cache.blank(self.config, batch, beams, length) for _ in layers.each(self.decoder_layers)],
        source=(jax.lax.optimization_barrier(  # else XLA transposes them at every step
            [beam_cache.to_cache_layout(layer.cross_memory(memory.values)) for layer in layers.each(self.decoder_layers)]),
                masks.padding_mask(memory.segments, beams)),
        step=jnp.zeros(batch, jnp.int32))

  def decode_step(self, cache: Cache, tokens: Beams) -> tuple[StepLogits, Cache]:
    beams, length = cache.beams.shape[1:]
    x = self._embed(self.tables.target, tokens, self.decoder_positions.embed(cache.step[:, None], length))
    relations = self.decoder_positions.relate(cache.step, jnp.arange(length)).of_beams(beams)
    origin = beam_cache.with_own_token(cache.beams, cache.step)
    mask = beam_cache.visible(origin, cache.step)
    memories, cross_mask = cache.source
    written = []
    for number, (layer, past, memory) in enumerate(zip(layers.each(self.decoder_layers), cache.past, memories)):
      x, past = layer.extend(x, relations.at(number), past, cache.step, mask, beam_cache.from_cache_layout(memory), cross_mask)
      written.append(past)
    return self.logits(self._finish(x)), Cache(origin, written, cache.source, cache.step + 1)

  def prefill(self, cache: Cache, target: Tokens) -> Cache:
    batch, length = target.ids.shape
    x = self._embed(self.tables.target, real_ids(target), self.decoder_positions.embed(target.positions, length))
    relations = self.decoder_positions.relate(jnp.arange(length), jnp.arange(length))
    memories, cross_mask = cache.source
    cross_mask = jnp.broadcast_to(cross_mask[:, :1], (batch, length, cross_mask.shape[2]))
    opening = beam_cache.Opening.of(self.config, cache.beams, length)
    written = []
    for number, (layer, memory) in enumerate(zip(layers.each(self.decoder_layers), memories)):
      x, past = layer.extend(x, relations.at(number), opening.past, opening.step, opening.mask,
                             beam_cache.from_cache_layout(memory), cross_mask)
      written.append(opening.spread(past))
    return cache._replace(past=written, step=(target.segments > 0).sum(axis=1).astype(jnp.int32))

  def __call__(self, source: Tokens, target: Tokens) -> Logits:
    """Encode and decode; initialisation and inspect() call this."""
    return self.decode(self.encode(source), target)


def witnessed(encoder: Sequence[Witness], decoder: Sequence[Witness], cross: Sequence[Witness]) -> Record:
  """Make the record that inspect() returns, from what each layer's attention put into WITNESS.

  Returns:
    'encoder', 'decoder' and 'cross': per layer the weights, [B, H, S, S], [B, H, T, T] and [B, H, T, S]; and
    'operands' and 'projections', with the same three names: per layer an Operands and a Projections. Under jit, what a
    caller drops is not computed.
  """
  kinds = {'encoder': encoder, 'decoder': decoder, 'cross': cross}
  taken = lambda name: {kind: [layer[name][0] for layer in layers] for kind, layers in kinds.items()}

  def projections(layer: Witness) -> Projections:
    (query_input, w_query), (key_input, w_key) = layer['query_side'][0], layer['key_side'][0]
    return Projections(query_input, key_input, w_query, w_key)

  return taken('weights') | {
      'operands': taken('operands'),
      'projections': {kind: [projections(layer) for layer in layers] for kind, layers in kinds.items()}}


def build(config: ModelConfig) -> Model:
  """Build the Transformer of `config`, as functions of its parameters."""
  def record(seen: Witness) -> Record:
    parts = lambda side, count, part: [seen[f'{side}_layers_{n}'][part] for n in range(count)]
    return witnessed(
        encoder=parts('encoder', config.num_layers, 'self_attention'),
        decoder=parts('decoder', config.decoder_layers, 'self_attention'),
        cross=parts('decoder', config.decoder_layers, 'cross_attention'))

  def looked(seen: Witness) -> Looked:
    layer = seen[f'decoder_layers_{coverage.middle(config.decoder_layers)}']
    return layer['cross_attention']['weights'][0].mean(axis=1)

  return of_module(
      EncoderDecoder(config), record, looked,
      written_out=EncoderDecoder(layers.written_out(config)),
      stacks=('encoder_layers', 'decoder_layers') if config.scan_layers else (),
      longest=POSITIONS[config.positions].longest(config))


def _describe(config: ModelConfig) -> str:
  return f'{config.num_layers}+{config.decoder_layers} layers, d_model {config.d_model}'


ARCHITECTURES.add('transformer', Family(ModelConfig, build, _describe), 'encoder and decoder')


def check_length(model: Model, length: int) -> None:
  """Raise ValueError when texts of `length` tokens are longer than the model can read."""
  if model.longest is not None and length > model.longest:
    raise ValueError(f'texts have up to {length} tokens, but the model has learned positions for {model.longest}; '
                     'raise model.max_positions, or lower data.max_length and, for packed rows, data.packed_length')


def count_parameters(model: Model) -> int:
  """Count a model's parameters without creating them (Table 3's last column)."""
  shapes = jax.eval_shape(model.init, jax.random.key(0))
  return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(shapes))
