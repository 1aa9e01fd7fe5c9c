"""Encoder and decoder layers, §3.1, and stacks of them. Every sub-layer is wrapped in a Residual."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar, cast

import flax.linen as nn
import jax
from jaxtyping import Array, Bool, Float, Int

from transformer import normalization
from transformer.attention import WITNESS, MultiHeadAttention
from transformer.config import ModelConfig
from transformer.dropout import Dropout
from transformer.feed_forward import FeedForward
from transformer.positions import Relation
from transformer.registries import NORMS
from transformer.search.cache import CachedKeyValue, KeyValue
from transformer.tokens import AnyArray

Stream = Float[Array, 'B T D']  # the residual stream, which each sub-layer adds to


class Placement(NamedTuple):
  """The place of the normalisation in a residual sub-layer."""

  enter: Callable[[nn.Module, Stream], Stream]  # (norm, stream) -> what the sub-layer reads
  leave: Callable[[nn.Module, Stream], Stream]  # (norm, stream + sub-layer's output) -> the stream
  normalizes_end: bool  # whether a norm follows the last layer, which leaves the stream unnormalised


NORMS.add('post', Placement(enter=lambda norm, x: x, leave=lambda norm, total: norm(total), normalizes_end=False),
          'Norm(x + Sublayer(x)), the paper')
NORMS.add('pre', Placement(enter=lambda norm, x: norm(x), leave=lambda norm, total: total, normalizes_end=True),
          'x + Sublayer(Norm(x))')


class Residual(nn.Module):
  """The parts around a sub-layer: normalisation, dropout and the addition.

      post (the paper)   Norm(x + Dropout(Sublayer(x)))
      pre                x + Dropout(Sublayer(Norm(x)))
  """

  config: ModelConfig

  def setup(self):
    self.norm, self.placement = normalization.make(self.config), NORMS[self.config.norm]
    self.dropout = Dropout(self.config.dropout)

  def enter(self, x: Stream) -> Stream:
    """Return the input of the sub-layer."""
    return self.placement.enter(self.norm, x)

  def leave(self, x: Stream, y: Stream) -> Stream:
    """Add the sub-layer's output y to the stream x, with dropout and normalisation."""
    return self.placement.leave(self.norm, x + self.dropout(y))


class EncoderLayer(nn.Module):
  """Self-attention, then the feed-forward network. With a causal mask it is a language model's layer."""

  config: ModelConfig

  def setup(self):
    self.self_attention, self.around_self = MultiHeadAttention(self.config), Residual(self.config)
    self.feed_forward, self.around_feed_forward = FeedForward(self.config), Residual(self.config)

  def _after_self(self, x: Stream) -> Stream:
    y = self.around_feed_forward.enter(x)
    return self.around_feed_forward.leave(x, self.feed_forward(y))

  def __call__(self, x: Stream, relation: Relation, mask: Bool[AnyArray, 'B T T']) -> Stream:
    y = self.self_attention(self.around_self.enter(x), mask, relation)
    return self._after_self(self.around_self.leave(x, y))

  def extend(self, x: Float[Array, 'B W D'], relation: Relation, past: CachedKeyValue, step: Int[Array, ' B'],
             mask: Bool[Array, 'B W M']) -> tuple[Float[Array, 'B W D'], CachedKeyValue]:
    """Compute one cached step under a causal mask, over the beams' past: see MultiHeadAttention.extend."""
    y, past = self.self_attention.extend(self.around_self.enter(x), past, step, mask, relation)
    return self._after_self(self.around_self.leave(x, y)), past


class DecoderLayer(nn.Module):
  """Masked self-attention, cross-attention to the encoder's output, then the feed-forward network."""

  config: ModelConfig

  def setup(self):
    self.self_attention, self.around_self = MultiHeadAttention(self.config), Residual(self.config)
    self.cross_attention, self.around_cross = MultiHeadAttention(self.config), Residual(self.config)
    self.feed_forward, self.around_feed_forward = FeedForward(self.config), Residual(self.config)

  def _after_self(self, x: Stream, memory: KeyValue, mask: Bool[AnyArray, 'B T S']) -> Stream:
    y = self.around_cross.enter(x)
    x = self.around_cross.leave(x, self.cross_attention.over(y, memory, mask))
    y = self.around_feed_forward.enter(x)
    return self.around_feed_forward.leave(x, self.feed_forward(y))

  def __call__(self, x: Stream, relation: Relation, memory: Float[Array, 'B S D'], self_mask: Bool[AnyArray, 'B T T'],
               cross_mask: Bool[AnyArray, 'B T S']) -> Stream:
    y = self.self_attention(self.around_self.enter(x), self_mask, relation)
    return self._after_self(self.around_self.leave(x, y), self.cross_memory(memory), cross_mask)

  def cross_memory(self, memory: Float[Array, 'B S D']) -> KeyValue:
    """Return this layer's keys and values of the encoder's output."""
    return self.cross_attention.memory(memory)

  def extend(self, x: Float[Array, 'B W D'], relation: Relation, past: CachedKeyValue, step: Int[Array, ' B'],
             mask: Bool[Array, 'B W M'], memory: KeyValue, cross_mask: Bool[Array, 'B W S']
             ) -> tuple[Float[Array, 'B W D'], CachedKeyValue]:
    """Compute one cached step, over the beams' past (see MultiHeadAttention.extend) and the memory.

    In cross-attention the beams of a sentence are its queries: they share one memory, and it is never copied.
    """
    y, past = self.self_attention.extend(self.around_self.enter(x), past, step, mask, relation)
    return self._after_self(self.around_self.leave(x, y), memory, cross_mask), past


# ---------------------------------------------------------------------------------------------------------- stacks


Layer = TypeVar('Layer', bound=nn.Module)
Config = TypeVar('Config', bound=ModelConfig)


def stack(layer: type[Layer], config: ModelConfig, count: int) -> list[Layer] | Layer:
  """Make `count` layers for a setup(); with scan_layers, one layer whose parameters have a first axis of layers."""
  make = cast(Callable[[ModelConfig], Layer], nn.remat(layer) if config.remat else layer)
  return make(config) if config.scan_layers else [make(config) for _ in range(count)]


def each(stack: Sequence[Layer] | Layer) -> Sequence[Layer]:
  """Return the layers of a stack that is written out. Raises TypeError for a scanned one, which cannot be taken apart."""
  if isinstance(stack, nn.Module):
    raise TypeError('the layers of a scanned stack were asked for; decode with scan_layers=False, see unstacked()')
  return stack


def run(layers: Sequence[nn.Module] | nn.Module, count: int, x: Stream, relations: Relation, *rest: AnyArray) -> Stream:
  """Run the stream x through a stack of `count` layers; `relations` has the terms of all, `rest` goes to each."""
  if not isinstance(layers, nn.Module):
    for number, layer in enumerate(layers):
      x = layer(x, relations.at(number), *rest)
    return x
  scanned = nn.scan(lambda layer, x, relation: (layer(x, relation, *rest), None), length=count,
                    variable_axes={'params': 0, WITNESS: 0}, split_rngs={'params': True, 'dropout': True},
                    metadata_params={nn.PARTITION_NAME: 'layers'})
  return scanned(layers, x, relations)[0]


def written_out(config: Config) -> Config:
  """Return a record with separate layers and einsum attention, for cached steps and for whoever looks inside."""
  return dataclasses.replace(config, scan_layers=False, remat=False, attention_kernel='einsum')


def unstacked(params: dict, names: Sequence[str]) -> dict:
  """Return the parameters with scanned stacks as separate layers: 'name' with a first axis -> name_0, name_1 …"""
  rest = {name: value for name, value in params.items() if name not in names}
  for name in names:
    count = jax.tree.leaves(params[name])[0].shape[0]
    rest |= {f'{name}_{n}': jax.tree.map(lambda leaf, n=n: leaf[n], params[name]) for n in range(count)}
  return rest
