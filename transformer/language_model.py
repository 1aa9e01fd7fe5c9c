"""The decoder-only language model of the GPT line (Radford et al., 2018, 2019), as pure functions of its parameters.

Figure 1's decoder without cross-attention: a layer is masked self-attention and the feed-forward network. It is a
Model like the encoder-decoder, with a source of no columns, so that trainer, loss and search are those of translation.
A prompt is not a source but the beginning of the target (search.beginning).

    GPT    (Radford et al., 2018, §4.1)   norm post, learned positions, GELU, biases
    GPT-2  (Radford et al., 2019, §2.3)   norm pre with a final normalisation, else the same

Embeddings are scaled by √d_model as in §3.4 of Vaswani et al., which neither of the two does.
"""

import dataclasses
from collections.abc import Callable

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, Int

from transformer import dtypes, embeddings, layers, masks, normalization, positions
from transformer.config import LanguageModelConfig
from transformer.dropout import Dropout
from transformer.model import (
    Beams,
    Cache,
    Family,
    Logits,
    Model,
    Params,
    Record,
    StepLogits,
    Witness,
    apply_method,
    of_module,
    witnessed,
)
from transformer.registries import ARCHITECTURES, NORMS, POSITIONS
from transformer.search import cache as beam_cache
from transformer.tokens import AnyArray, Tokens, real_ids


@dataclasses.dataclass(frozen=True)
class LanguageModel(Model):
  """A model that also gives access to its last hidden states, for another head on top of them (classification)."""

  hidden: Callable[..., Float[Array, 'B T D']] = dataclasses.field(kw_only=True)  # (params, target, key=None)
  logits: Callable[[Params, Float[Array, 'B T D']], Logits] = dataclasses.field(kw_only=True)  # (params, hidden)


class Decoder(nn.Module):
  """p(token | the tokens before it). of_module() turns its methods into functions."""

  config: LanguageModelConfig

  def setup(self):
    cfg = self.config
    self.tables = embeddings.tables(self, cfg)
    self.output_bias = embeddings.output_bias(self, cfg)
    self.layers = layers.stack(layers.EncoderLayer, cfg, cfg.num_layers)
    self.positions = positions.make(cfg, cfg.num_layers, causal=True)
    self.embedding_dropout = Dropout(cfg.dropout)
    if NORMS[cfg.norm].normalizes_end:
      self.final_norm = normalization.make(cfg)

  def _embed(self, ids: Int[AnyArray, 'B T'], places: Float32[Array, '#B #T D'] | float) -> Float[Array, 'B T D']:
    x = embeddings.embed(self.tables.target, ids, self.config) + places
    return self.embedding_dropout(x.astype(dtypes.of(self.config)))

  def _finish(self, x: Float[Array, 'B T D']) -> Float[Array, 'B T D']:
    return self.final_norm(x) if NORMS[self.config.norm].normalizes_end else x

  def encode(self, source: Tokens) -> Tokens:
    """Return the source itself, which has no columns and serves only to give the number of rows."""
    if source.ids.shape[1]:
      raise ValueError(f'a language model has no source, found {source.ids.shape[1]} columns; give a prompt as the '
                       "target's beginning (search.beginning)")
    return source

  def hidden(self, target: Tokens) -> Float[Array, 'B T D']:
    """Return the last layer's output at each place, normalised, before the output projection."""
    length = target.ids.shape[1]
    x = self._embed(real_ids(target), self.positions.embed(target.positions, length))
    mask = masks.segment_mask(target.segments, target.segments) & masks.causal_mask(length)
    relations = self.positions.relate(jnp.arange(length), jnp.arange(length))
    return self._finish(layers.run(self.layers, self.config.num_layers, x, relations, mask))

  def decode(self, memory: Tokens, target: Tokens) -> Logits:
    """Return the logits under teacher forcing; `memory` is not read."""
    return self.logits(self.states(memory, target))

  def states(self, memory: Tokens, target: Tokens) -> Float[Array, 'B T D']:
    """Return hidden(target); `memory` is not read."""
    del memory
    return self.hidden(target)

  def logits(self, x: Float[Array, 'B T D']) -> Logits:
    return embeddings.logits(x, self.tables.output, self.output_bias)

  def init_cache(self, memory: Tokens, length: int, beams: int) -> Cache:
    batch = memory.ids.shape[0]
    return Cache(
        beams=beam_cache.origins(batch, beams, length),
        past=[beam_cache.blank(self.config, batch, beams, length) for _ in layers.each(self.layers)],
        source=(),
        step=jnp.zeros(batch, jnp.int32))

  def decode_step(self, cache: Cache, tokens: Beams) -> tuple[StepLogits, Cache]:
    beams, length = cache.beams.shape[1:]
    x = self._embed(tokens, self.positions.embed(cache.step[:, None], length))
    relations = self.positions.relate(cache.step, jnp.arange(length)).of_beams(beams)
    origin = beam_cache.with_own_token(cache.beams, cache.step)
    mask = beam_cache.visible(origin, cache.step)
    written = []
    for number, (layer, past) in enumerate(zip(layers.each(self.layers), cache.past)):
      x, past = layer.extend(x, relations.at(number), past, cache.step, mask)
      written.append(past)
    return self.logits(self._finish(x)), Cache(origin, written, cache.source, cache.step + 1)

  def prefill(self, cache: Cache, target: Tokens) -> Cache:
    length = target.ids.shape[1]
    x = self._embed(real_ids(target), self.positions.embed(target.positions, length))
    relations = self.positions.relate(jnp.arange(length), jnp.arange(length))
    opening = beam_cache.Opening.of(self.config, cache.beams, length)
    written = []
    for number, layer in enumerate(layers.each(self.layers)):
      x, past = layer.extend(x, relations.at(number), opening.past, opening.step, opening.mask)
      written.append(opening.spread(past))
    return cache._replace(past=written, step=(target.segments > 0).sum(axis=1).astype(jnp.int32))

  def __call__(self, source: Tokens, target: Tokens) -> Logits:
    """Encode and decode; initialisation and inspect() call this."""
    return self.decode(self.encode(source), target)


def build(config: LanguageModelConfig) -> LanguageModel:
  """Build the language model of `config`, as functions of its parameters."""
  def record(seen: Witness) -> Record:
    return witnessed(encoder=[], decoder=[seen[f'layers_{n}']['self_attention'] for n in range(config.num_layers)],
                     cross=[])

  module = Decoder(config)
  model = of_module(
      module, record, source_length=0,
      written_out=Decoder(layers.written_out(config)),
      stacks=('layers',) if config.scan_layers else (),
      longest=POSITIONS[config.positions].longest(config))
  hidden = apply_method(module, 'hidden')
  return LanguageModel(**vars(model), hidden=lambda params, target, key=None: hidden(params, target, key=key))


def _describe(config: LanguageModelConfig) -> str:
  return f'{config.num_layers} layers without an encoder, d_model {config.d_model}'


ARCHITECTURES.add('language_model', Family(LanguageModelConfig, build, _describe), 'the decoder alone')
