"""One layer of the encoder and one of the decoder, §3.1, and stacks of them. Residual alone wraps sub-layers."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import flax.linen as nn
import jax

from transformer import normalization
from transformer.attention import WITNESS, MultiHeadAttention
from transformer.config import ModelConfig
from transformer.dropout import Dropout
from transformer.feed_forward import FeedForward
from transformer.positions import Relation
from transformer.registries import NORMS
from transformer.search.cache import CachedKeyValue, KeyValue


class Placement(NamedTuple):
  """Where a residual sub-layer normalises."""

  enter: Callable[[nn.Module, jax.Array], jax.Array]  # (norm, stream) -> what the sub-layer reads
  leave: Callable[[nn.Module, jax.Array], jax.Array]  # (norm, stream + sub-layer's output) -> the stream
  normalizes_end: bool  # whether a norm follows the last layer, which leaves the stream unnormalised


NORMS.add('post', Placement(enter=lambda norm, x: x, leave=lambda norm, total: norm(total), normalizes_end=False),
          'Norm(x + Sublayer(x)), the paper')
NORMS.add('pre', Placement(enter=lambda norm, x: norm(x), leave=lambda norm, total: total, normalizes_end=True),
          'x + Sublayer(Norm(x))')


class Residual(nn.Module):
  """Owns what surrounds a sub-layer: normalisation, dropout and the addition.

      post (the paper)   Norm(x + Dropout(Sublayer(x)))
      pre                x + Dropout(Sublayer(Norm(x)))
  """

  config: ModelConfig

  def setup(self):
    self.norm, self.placement = normalization.make(self.config), NORMS[self.config.norm]
    self.dropout = Dropout(self.config.dropout)

  def enter(self, x: jax.Array) -> jax.Array:
    """What the sub-layer reads."""
    return self.placement.enter(self.norm, x)

  def leave(self, x: jax.Array, y: jax.Array) -> jax.Array:
    """The layer's stream x, with the sub-layer's output y taken in."""
    return self.placement.leave(self.norm, x + self.dropout(y))


class EncoderLayer(nn.Module):
  """Self-attention, then the feed-forward network. Under a causal mask, a language model's layer."""

  config: ModelConfig

  def setup(self):
    self.self_attention, self.around_self = MultiHeadAttention(self.config), Residual(self.config)
    self.feed_forward, self.around_feed_forward = FeedForward(self.config), Residual(self.config)

  def _after_self(self, x: jax.Array) -> jax.Array:
    y = self.around_feed_forward.enter(x)
    return self.around_feed_forward.leave(x, self.feed_forward(y))

  def __call__(self, x: jax.Array, relation: Relation, mask: jax.Array) -> jax.Array:
    """[B, S, D] under mask [B, S, S] -> [B, S, D]."""
    y = self.self_attention(self.around_self.enter(x), mask, relation)
    return self._after_self(self.around_self.leave(x, y))

  def extend(self, x: jax.Array, relation: Relation, past: CachedKeyValue, step: jax.Array, mask: jax.Array
             ) -> tuple[jax.Array, CachedKeyValue]:
    """One cached step under a causal mask: x [B, W, D] over the beams' past, see MultiHeadAttention.extend."""
    y, past = self.self_attention.extend(self.around_self.enter(x), past, step, mask, relation)
    return self._after_self(self.around_self.leave(x, y)), past


class DecoderLayer(nn.Module):
  """Masked self-attention, attention over the encoder's output, then the feed-forward network."""

  config: ModelConfig

  def setup(self):
    self.self_attention, self.around_self = MultiHeadAttention(self.config), Residual(self.config)
    self.cross_attention, self.around_cross = MultiHeadAttention(self.config), Residual(self.config)
    self.feed_forward, self.around_feed_forward = FeedForward(self.config), Residual(self.config)

  def _after_self(self, x: jax.Array, memory: KeyValue, mask: jax.Array) -> jax.Array:
    y = self.around_cross.enter(x)
    x = self.around_cross.leave(x, self.cross_attention.over(y, memory, mask))
    y = self.around_feed_forward.enter(x)
    return self.around_feed_forward.leave(x, self.feed_forward(y))

  def __call__(self, x: jax.Array, relation: Relation, memory: jax.Array, self_mask: jax.Array, cross_mask: jax.Array
               ) -> jax.Array:
    """[B, T, D] over memory [B, S, D], masks [B, T, T] and [B, T, S] -> [B, T, D]."""
    y = self.self_attention(self.around_self.enter(x), self_mask, relation)
    return self._after_self(self.around_self.leave(x, y), self.cross_memory(memory), cross_mask)

  def cross_memory(self, memory: jax.Array) -> KeyValue:
    """This layer's keys and values of the encoder's output [B, S, D]."""
    return self.cross_attention.memory(memory)

  def extend(self, x: jax.Array, relation: Relation, past: CachedKeyValue, step: jax.Array, mask: jax.Array,
             memory: KeyValue, cross_mask: jax.Array) -> tuple[jax.Array, CachedKeyValue]:
    """One cached step: x [B, W, D] over the beams' past, see MultiHeadAttention.extend, and memory [B, S, G, K].

    In cross-attention the beams of a sentence are its queries: they share one memory, and it is never copied.
    """
    y, past = self.self_attention.extend(self.around_self.enter(x), past, step, mask, relation)
    return self._after_self(self.around_self.leave(x, y), memory, cross_mask), past


# ---------------------------------------------------------------------------------------------------------- stacks


def stack(layer: type[nn.Module], config: ModelConfig, count: int) -> list[nn.Module] | nn.Module:
  """`count` layers to be assigned in a setup(); with scan_layers, one whose parameters get a first axis of layers."""
  layer = nn.remat(layer) if config.remat else layer
  return layer(config) if config.scan_layers else [layer(config) for _ in range(count)]


def run(layers: Sequence[nn.Module] | nn.Module, count: int, x: jax.Array, relations: Relation, *rest: jax.Array
        ) -> jax.Array:
  """The stream x through a stack of `count` layers. `relations` is that of all layers; `rest` goes to each."""
  if not isinstance(layers, nn.Module):
    for number, layer in enumerate(layers):
      x = layer(x, relations.at(number), *rest)
    return x
  scanned = nn.scan(lambda layer, x, relation: (layer(x, relation, *rest), None), length=count,
                    variable_axes={'params': 0, WITNESS: 0}, split_rngs={'params': True, 'dropout': True},
                    metadata_params={nn.PARTITION_NAME: 'layers'})
  return scanned(layers, x, relations)[0]


def unstacked(params: dict, names: Sequence[str]) -> dict:
  """The parameters of scanned stacks as those of written-out ones: 'name' with a first axis -> name_0, name_1 …"""
  rest = {name: value for name, value in params.items() if name not in names}
  for name in names:
    count = jax.tree.leaves(params[name])[0].shape[0]
    rest |= {f'{name}_{n}': jax.tree.map(lambda leaf, n=n: leaf[n], params[name]) for n in range(count)}
  return rest
