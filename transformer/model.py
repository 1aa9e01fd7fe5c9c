"""The encoder-decoder, Figure 1, as pure functions of its parameters.

A Model is what trainer, search and explorer know of any architecture: `encode`, `decode` (teacher forcing),
`init_cache` and `decode_step` (one token at a time), and `inspect`, the witness. Dropout acts when a key is given
and not otherwise; there is no training flag.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer import initializers, masks, positions
from transformer.attention import WITNESS, KeyValue
from transformer.config import ModelConfig
from transformer.layers import DecoderLayer, Dropout, EncoderLayer, LayerNorm
from transformer.tokens import Tokens

Params = Any  # a nested dict of float32 arrays


class Memory(NamedTuple):
  """The encoder's output, and which of it is real."""

  values: jax.Array  # [B, S, D]
  segments: jax.Array  # [B, S], 0 where padded


class Cache(NamedTuple):
  """What decoding step by step carries. A search reorders `beams` as hypotheses move; it never touches the rest."""

  beams: Any  # leaves [B, W, ...]: here one KeyValue [B, W, T, H, K] per layer
  source: Any  # leaves [B, ...]: here one KeyValue [B, S, H, K] per layer, and the mask [B, W, S]
  step: jax.Array  # [] int32: tokens fed so far


class Model(NamedTuple):
  """Pure functions over parameters; see the file's head. Shapes: B sentences, S source, T target, V vocabulary."""

  config: Any
  init: Callable  # (key) -> params
  axes: Callable  # () -> the logical axis names of each parameter, a tree of PartitionSpec like params
  encode: Callable  # (params, source, key=None) -> memory
  decode: Callable  # (params, memory, target, key=None) -> logits [B, T, V] float32; target starts from BOS
  init_cache: Callable  # (params, memory, length, beams=1) -> cache
  decode_step: Callable  # (params, cache, tokens [B, W]) -> (logits [B, W, V] float32, cache)
  inspect: Callable  # (params, source, target) -> (logits, record): every head's weights, [B, H, Q, M]


class EncoderDecoder(nn.Module):
  """Figure 1. The methods are what build() turns into functions."""

  config: ModelConfig

  def setup(self):
    cfg = self.config
    table = lambda name, rows: self.param(name, nn.with_logical_partitioning(
        initializers.embedding(cfg.d_model), ('vocab', 'embed_table')), (rows, cfg.d_model), jnp.float32)
    if cfg.share_embeddings:
      self.source_table = self.target_table = table('embedding', cfg.vocab_size)
    else:
      self.source_table = table('source_embedding', cfg.vocab_size)
      self.target_table = table('target_embedding', cfg.target_vocab_size)
    self.output_table = self.target_table if cfg.tie_output else table('output_projection', cfg.target_vocab_size)
    self.encoder_layers = [EncoderLayer(cfg) for _ in range(cfg.num_layers)]
    self.decoder_layers = [DecoderLayer(cfg) for _ in range(cfg.num_layers)]
    self.embedding_dropout = Dropout(cfg.dropout)
    if cfg.norm == 'pre':  # a pre-norm stream leaves its last layer unnormalised
      self.encoder_norm, self.decoder_norm = LayerNorm(cfg), LayerNorm(cfg)

  def _embed(self, table: jax.Array, ids: jax.Array, places: jax.Array) -> jax.Array:
    """Embeddings times √d_model plus positions (§3.4, §3.5); ids [B, T] and places [B or 1, T, D] -> [B, T, D]."""
    x = table[ids] * math.sqrt(self.config.d_model) + places
    return self.embedding_dropout(x.astype(jnp.dtype(self.config.dtype)))

  def _places(self, length: int) -> jax.Array:
    cfg = self.config
    return jnp.asarray(positions.sinusoids(length, cfg.d_model, cfg.position_layout, cfg.position_frequencies))

  def encode(self, source: Tokens) -> Memory:
    x = self._embed(self.source_table, source.ids, self._places(source.ids.shape[1])[source.positions])
    mask = masks.segment_mask(source.segments, source.segments)
    for layer in self.encoder_layers:
      x = layer(x, mask)
    return Memory(self.encoder_norm(x) if self.config.norm == 'pre' else x, source.segments)

  def decode(self, memory: Memory, target: Tokens) -> jax.Array:
    length = target.ids.shape[1]
    x = self._embed(self.target_table, target.ids, self._places(length)[target.positions])
    self_mask = masks.segment_mask(target.segments, target.segments) & masks.causal_mask(length)
    cross_mask = masks.segment_mask(target.segments, memory.segments)
    for layer in self.decoder_layers:
      x = layer(x, memory.values, self_mask, cross_mask)
    return self._logits(x)

  def _logits(self, x: jax.Array) -> jax.Array:
    """[B, T, D] -> [B, T, V], accumulated and kept in float32."""
    x = self.decoder_norm(x) if self.config.norm == 'pre' else x
    return jnp.einsum('btd,vd->btv', x, self.output_table.astype(x.dtype), preferred_element_type=jnp.float32)

  def init_cache(self, memory: Memory, length: int, beams: int) -> Cache:
    cfg, batch = self.config, memory.values.shape[0]
    blank = jnp.zeros((batch, beams, length, cfg.num_heads, cfg.d_k), jnp.dtype(cfg.dtype))
    return Cache(
        beams=[KeyValue(blank, blank) for _ in self.decoder_layers],
        source=([layer.cross_memory(memory.values) for layer in self.decoder_layers],
                masks.padding_mask(memory.segments, beams)),
        step=jnp.zeros((), jnp.int32))

  def decode_step(self, cache: Cache, tokens: jax.Array) -> tuple[jax.Array, Cache]:
    length = cache.beams[0].key.shape[2]
    x = self._embed(self.target_table, tokens, self._places(length)[cache.step][None, None])
    memories, cross_mask = cache.source
    beams = []
    for layer, past, memory in zip(self.decoder_layers, cache.beams, memories):
      x, past = layer.extend(x, past, memory, cross_mask, cache.step)
      beams.append(past)
    return self._logits(x), cache._replace(beams=beams, step=cache.step + 1)

  def __call__(self, source: Tokens, target: Tokens) -> jax.Array:
    """Both halves at once; what initialisation traces and inspect() reads."""
    return self.decode(self.encode(source), target)


def build(config: ModelConfig) -> Model:
  """The Transformer of `config` as functions of its parameters."""
  module = EncoderDecoder(config)

  def variables(key: jax.Array):
    blank = Tokens(*(jnp.zeros((1, 2), jnp.int32) for _ in Tokens._fields))
    return module.init(key, blank, blank)['params']

  def call(method, params: Params, *inputs, key: jax.Array | None = None):
    return module.apply({'params': params}, *inputs, method=method, rngs=None if key is None else {'dropout': key})

  def inspect(params: Params, source: Tokens, target: Tokens):
    logits, seen = module.apply({'params': params}, source, target, mutable=[WITNESS])
    weights = lambda side, part: [seen[WITNESS][f'{side}_layers_{n}'][part]['weights'][0]
                                  for n in range(config.num_layers)]
    return logits, {
        'encoder': weights('encoder', 'self_attention'),  # per layer [B, H, S, S]
        'decoder': weights('decoder', 'self_attention'),  # per layer [B, H, T, T]
        'cross': weights('decoder', 'cross_attention'),  # per layer [B, H, T, S]
    }

  return Model(
      config=config,
      init=lambda key: nn.unbox(variables(key)),
      axes=lambda: nn.get_partition_spec(jax.eval_shape(variables, jax.random.key(0))),
      encode=lambda params, source, key=None: call('encode', params, source, key=key),
      decode=lambda params, memory, target, key=None: call('decode', params, memory, target, key=key),
      init_cache=lambda params, memory, length, beams=1: call(
          functools.partial(EncoderDecoder.init_cache, length=length, beams=beams), params, memory),
      decode_step=lambda params, cache, tokens: call('decode_step', params, cache, tokens),
      inspect=inspect)


def count_parameters(model: Model) -> int:
  """Number of parameters, without making any (Table 3's last column)."""
  shapes = jax.eval_shape(model.init, jax.random.key(0))
  return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(shapes))
