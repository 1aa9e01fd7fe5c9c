"""The decoder-only language model of the GPT line (Radford et al., 2018, 2019), as pure functions of its parameters.

Figure 1's decoder without its attention over an encoder: a layer is masked self-attention and the feed-forward network.
It fulfils the same Model record as the encoder-decoder, with a source of no columns, so that trainer, loss and search
are those of translation. A prompt is no source: it is the beginning of the target (search.constraints.prefix).

    GPT    (Radford et al., 2018, §4.1)   norm post, learned positions, GELU, biases
    GPT-2  (Radford et al., 2019, §2.3)   norm pre with a final normalisation, else the same

Embeddings are scaled by √d_model as in §3.4 of Vaswani et al., which neither of the two does.
"""

import dataclasses
import functools

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer import embeddings, layers, masks, normalization, positions
from transformer.attention import WITNESS
from transformer.config import LanguageModelConfig
from transformer.dropout import Dropout
from transformer.model import Cache, Model, Params, witnessed
from transformer.search import cache as beam_cache
from transformer.tokens import Tokens


class LanguageModel(nn.Module):
  """p(token | the tokens before it). The methods are what build() turns into functions."""

  config: LanguageModelConfig

  def setup(self):
    cfg = self.config
    self.tables = embeddings.tables(self, cfg)
    self.layers = layers.stack(layers.EncoderLayer, cfg, cfg.num_layers)
    self.positions = positions.make(cfg, cfg.num_layers, causal=True)
    self.embedding_dropout = Dropout(cfg.dropout)
    if cfg.norm == 'pre':  # a pre-norm stream leaves its last layer unnormalised
      self.final_norm = normalization.make(cfg)

  def _embed(self, ids: jax.Array, places: jax.Array | float) -> jax.Array:
    """ids [B, T] and places [B or 1, T, D] -> [B, T, D]."""
    x = embeddings.embed(self.tables.target, ids) + places
    return self.embedding_dropout(x.astype(jnp.dtype(self.config.dtype)))

  def _finish(self, x: jax.Array) -> jax.Array:
    return self.final_norm(x) if self.config.norm == 'pre' else x

  def encode(self, source: Tokens) -> Tokens:
    """The source itself, which has no columns: it says how many rows there are."""
    if source.ids.shape[1]:
      raise ValueError(f'a language model has no source, found {source.ids.shape[1]} columns; give a prompt as the '
                       "target's beginning (search.constraints.prefix)")
    return source

  def hidden(self, target: Tokens) -> jax.Array:
    """[B, T, D]: what the last layer says at each place, normalised, before the output projection."""
    length = target.ids.shape[1]
    x = self._embed(target.ids, self.positions.embed(target.positions, length))
    mask = masks.segment_mask(target.segments, target.segments) & masks.causal_mask(length)
    relations = self.positions.relate(jnp.arange(length), jnp.arange(length))
    return self._finish(layers.run(self.layers, self.config.num_layers, x, relations, mask))

  def decode(self, memory: Tokens, target: Tokens) -> jax.Array:
    """Teacher forcing: [B, T, V] float32; `memory` says nothing."""
    del memory
    return self._logits(self.hidden(target))

  def _logits(self, x: jax.Array) -> jax.Array:
    """[B, T, D] -> [B, T, V] float32."""
    return embeddings.logits(x, self.tables.output)

  def init_cache(self, memory: Tokens, length: int, beams: int) -> Cache:
    batch = memory.ids.shape[0]
    return Cache(
        beams=beam_cache.origins(batch, beams, length),
        past=[beam_cache.blank(self.config, batch, beams, length) for _ in self.layers],
        source=(),
        step=jnp.zeros((), jnp.int32))

  def decode_step(self, cache: Cache, tokens: jax.Array) -> tuple[jax.Array, Cache]:
    beams, length = cache.beams.shape[1:]
    x = self._embed(tokens, self.positions.embed(cache.step[None, None], length))
    relations = self.positions.relate(cache.step[None], jnp.arange(length)).of_beams(beams)
    origin = beam_cache.with_own_token(cache.beams, cache.step)
    mask = beam_cache.visible(origin, cache.step)
    written = []
    for number, (layer, past) in enumerate(zip(self.layers, cache.past)):
      x, past = layer.extend(x, relations.at(number), past, cache.step, mask)
      written.append(past)
    return self._logits(self._finish(x)), Cache(origin, written, cache.source, cache.step + 1)

  def __call__(self, source: Tokens, target: Tokens) -> jax.Array:
    """Both at once; what initialisation traces and inspect() reads."""
    return self.decode(self.encode(source), target)


def build(config: LanguageModelConfig) -> Model:
  """The language model of `config` as functions of its parameters."""
  module = LanguageModel(config)
  # Decoding and inspection go layer by layer: a scanned stack is written out for them.
  plain = LanguageModel(dataclasses.replace(config, scan_layers=False, remat=False))
  stacks = ('layers',) if config.scan_layers else ()

  def variables(key: jax.Array):
    blank = lambda length: Tokens(*(jnp.zeros((1, length), jnp.int32) for _ in Tokens._fields))
    return module.init(key, blank(0), blank(2))['params']

  def call(method, params: Params, *inputs, key: jax.Array | None = None):
    return module.apply({'params': params}, *inputs, method=method, rngs=None if key is None else {'dropout': key})

  def call_plain(method, params: Params, *inputs, **options):
    return plain.apply({'params': layers.unstacked(params, stacks)}, *inputs, method=method, **options)

  def inspect(params: Params, source: Tokens, target: Tokens):
    logits, seen = call_plain('__call__', params, source, target, mutable=[WITNESS])
    layers_seen = [seen[WITNESS][f'layers_{n}']['self_attention'] for n in range(config.num_layers)]
    return logits, witnessed(encoder=[], decoder=layers_seen, cross=[])

  return Model(
      config=config,
      init=lambda key: nn.unbox(variables(key)),
      axes=lambda: nn.get_partition_spec(jax.eval_shape(variables, jax.random.key(0))),
      encode=lambda params, source, key=None: call('encode', params, source, key=key),
      decode=lambda params, memory, target, key=None: call('decode', params, memory, target, key=key),
      init_cache=lambda params, memory, length, beams=1: call_plain(
          functools.partial(LanguageModel.init_cache, length=length, beams=beams), params, memory),
      decode_step=lambda params, cache, tokens: call_plain('decode_step', params, cache, tokens),
      grow_cache=beam_cache.grow,
      inspect=inspect,
      longest=config.max_positions if config.positions == 'learned' else None,
      hidden=lambda params, target, key=None: call('hidden', params, target, key=key),
      logits=lambda params, states: call('_logits', params, states))
