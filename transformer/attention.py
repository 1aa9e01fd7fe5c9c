"""Attention, §3.2: weights from scores, multi-head attention, and its cached step.
"""

from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Float32, Int

from transformer import attention_kernels, attention_scores, dtypes, initializers, positions
from transformer.config import ModelConfig
from transformer.dropout import Dropout
from transformer.masks import Mask
from transformer.positions import NOTHING, Relation
from transformer.search import cache as beam_cache
from transformer.search.cache import CachedKeyValue, KeyValue
from transformer.tokens import AnyArray

WITNESS = 'witness'  # the collection in which heads record, for model.inspect, their weights and what made them


class Operands(NamedTuple):
  """The operands of Eq. 1 for each head, as the scores take them: already rotated, with rotary positions."""

  query: Float[Array, 'B Q H K']
  key: Float[Array, 'B M G K']
  value: Float[Array, 'B M G U']


class Projections(NamedTuple):
  """What each head projects to queries and keys, and by what (§3.2.2): q = x W^Q, k = y W^K, before any rotation."""

  query_input: Float[Array, 'B Q D']
  key_input: Float[Array, 'B M D']
  w_query: Float[Array, 'D H K']
  w_key: Float[Array, 'D G K']


def masked_softmax(scores: Float32[Array, 'B G R Q M'], mask: Mask) -> Float32[Array, 'B G R Q M']:
  """The softmax of Eq. 1 over the entries that a query may attend to, in float32.

  A masked score is the dtype's own minimum, so a masked weight is exactly 0. A query that may attend to nothing
  has weights 0 throughout (not NaN, not uniform), and so the context 0.

  Returns:
    Weights; each row sums to 1, or to 0 where the mask is empty.
  """
  mask = mask[:, None, None]
  scores = jnp.where(mask, scores, jnp.finfo(jnp.float32).min)
  return jnp.where(mask, jax.nn.softmax(scores, axis=-1), 0.0)


def weighted_sum(weights: Float[Array, 'B G R Q M'], value: Float[Array, 'B M G U'],
                 edges: Float[Array, '*rows Q M U'] | None = None) -> Float[Array, 'B Q G*R U']:
  """Sum the values, and `edges` where they are given, by the weights."""
  weights = weights.astype(value.dtype)
  context = jnp.einsum('bgrqm,bmgu->bgrqu', weights, value)
  if edges is not None:
    context += jnp.einsum(f'bgrqm,{"b" * (edges.ndim - 3)}qmu->bgrqu', weights, edges)
  context = context.transpose(0, 3, 1, 2, 4)
  return context.reshape(*context.shape[:2], -1, context.shape[-1])


def attend(query: Float[Array, 'B Q H K'], memory: KeyValue, mask: Mask
           ) -> tuple[Float[Array, 'B Q H U'], Float32[Array, 'B H Q M']]:
  """Scaled dot-product attention without any parameter (Eq. 1): the context and the weights.

  Args:
    query: its heads are a multiple of the memory's.
    memory: the keys and values attended to.
    mask: see Mask.
  """
  query = grouped(query, memory)
  weights = masked_softmax(attention_scores.dot_products(query, memory.key) * query.shape[-1] ** -0.5, mask)
  return weighted_sum(weights, memory.value), by_head(weights)


def grouped(query: Float[Array, 'B Q H K'], memory: KeyValue) -> Float[Array, 'B Q G R K']:
  """Group query heads by the head of keys and values that they read: h reads h // R (Ainslie et al., 2023)."""
  batch, queries, _, width = query.shape
  return query.reshape(batch, queries, memory.key.shape[2], -1, width)


def by_head(weights: Float[Array, 'B G R Q M']) -> Float[Array, 'B G*R Q M']:
  """Return the weights with all heads on one axis."""
  return weights.reshape(weights.shape[0], -1, *weights.shape[3:])


class MultiHeadAttention(nn.Module):
  """MultiHead(Q, K, V) = Concat(head_1 … head_h) W^O, head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V) (§3.2.2).

  Every head projects all of d_model; the products are written head by head, [D, H, K].
  """

  config: ModelConfig

  def setup(self):
    cfg = self.config
    self.score, self.dropout = attention_scores.make(cfg), Dropout(cfg.attention_dropout)
    self.kernel = attention_kernels.chosen(cfg)
    keys, values = (cfg.kv_heads, cfg.key_size), (cfg.kv_heads, cfg.value_size)
    self._declare('query', ('embed', 'heads', 'kv'), (cfg.d_model, cfg.num_heads, cfg.key_size))
    self._declare('key', ('embed', 'heads', 'kv'), (cfg.d_model, *keys))
    self._declare('value', ('embed', 'heads', 'kv'), (cfg.d_model, *values))
    self._declare('out', ('heads', 'kv', 'embed'), (cfg.num_heads, cfg.value_size, cfg.d_model))

  def _declare(self, name: str, axes: tuple[str, ...], shape: tuple[int, ...]) -> None:
    """Declare a projection, and its bias if attention has biases. `out` sums over heads, the others produce them."""
    inputs = 2 if name == 'out' else 1
    every = tuple(range(len(shape)))
    init = initializers.matrix(self.config.initializer, in_axis=every[:inputs], out_axis=every[inputs:])
    param = lambda prefix, init, cut: setattr(self, f'{prefix}_{name}', self.param(
        f'{prefix}_{name}', initializers.with_axes(init, axes[cut:]), shape[cut:], jnp.float32))
    param('w', init, 0)
    if self.config.attention_bias:
      param('b', nn.initializers.zeros_init(), inputs)

  def _project(self, equation: str, x: Float[Array, '...'], name: str) -> Float[Array, '...']:
    dtype = dtypes.of(self.config)
    y = jnp.einsum(equation, x, getattr(self, f'w_{name}').astype(dtype))
    return y + getattr(self, f'b_{name}').astype(dtype)[None, None] if self.config.attention_bias else y

  def _turned(self, x: Float[Array, 'B Q H K'], relation: Relation) -> Float[Array, 'B Q H K']:
    return x if relation.angles is None else positions.turn(x, relation.angles, self.config.position_layout)

  def queries(self, x: Float[Array, 'B Q D'], relation: Relation = NOTHING) -> Float[Array, 'B Q H K']:
    """Project x to the queries of every head, rotated if positions are rotary."""
    self.sow(WITNESS, 'query_side', (x, self.w_query))
    return self._turned(self.score.prepare(self._project('bqd,dhk->bqhk', x, 'query')), relation)

  def memory(self, y: Float[Array, 'B M D'], relation: Relation = NOTHING) -> KeyValue:
    """Project y to keys and values, once for all queries that attend to it."""
    self.sow(WITNESS, 'key_side', (y, self.w_key))
    return KeyValue(self._turned(self._project('bmd,dgk->bmgk', y, 'key'), relation),
                    self._project('bmd,dgu->bmgu', y, 'value'))

  def attend(self, query: Float[Array, 'B Q H K'], memory: KeyValue, mask: Mask, relation: Relation = NOTHING
             ) -> Float[Array, 'B Q D']:
    """Attend with the queries to a projected memory."""
    if self.kernel and self.kernel.takes(query.shape[1], memory.key.shape[1]):
      bias = None if relation.bias is None else relation.bias.reshape(-1, *relation.bias.shape[-3:])
      context = self.kernel.attend(query, memory, mask, 1 / self.score.divisor(), bias)
    else:
      context = self._attend_by_einsum(query, memory, mask, relation)
    return self._project('bqhu,hud->bqd', context, 'out')

  def _attend_by_einsum(self, query: Float[Array, 'B Q H K'], memory: KeyValue, mask: Mask, relation: Relation
                        ) -> Float[Array, 'B Q H U']:
    scores = self.score.compare(grouped(query, memory), memory.key, relation.edges(relation.key_table, query.dtype))
    if relation.bias is not None:
      scores += relation.bias.reshape(-1, *scores.shape[1:])
    weights = masked_softmax(scores, mask)
    # Recorded only when the caller makes the collection mutable.
    self.sow(WITNESS, 'weights', by_head(weights))
    self.sow(WITNESS, 'operands', Operands(query, *memory))
    return weighted_sum(self.dropout(weights), memory.value, relation.edges(relation.value_table, query.dtype))

  def __call__(self, x: Float[Array, 'B Q D'], mask: Bool[AnyArray, '#B Q Q'], relation: Relation = NOTHING
               ) -> Float[Array, 'B Q D']:
    """Self-attention."""
    return self.attend(self.queries(x, relation), self.memory(x, relation), mask, relation)

  def over(self, x: Float[Array, 'B Q D'], memory: KeyValue, mask: Mask) -> Float[Array, 'B Q D']:
    """Cross-attention: the queries of x attend to the projected memory of another text."""
    return self.attend(self.queries(x), memory, mask)

  def extend(self, x: Float[Array, 'B W D'], past: CachedKeyValue, step: Int[Array, ' B'], mask: Bool[Array, 'B W M'],
             relation: Relation = NOTHING) -> tuple[Float[Array, 'B W D'], CachedKeyValue]:
    """One cached step of causal self-attention: every beam's newest token attends to its own past.

    The beams are the queries; the entries are what all beams wrote, place by place.

    Args:
      x: the newest token of each beam.
      past: a layer's cache (beam_cache.blank), filled before `step`.
      step: the place being written, of each sentence.
      mask: which entries belong to each hypothesis (beam_cache.visible).
      relation: of this place to the places of the entries (Relation.of_beams).

    Returns:
      The output for every beam, and the cache with place `step` filled.
    """
    past = beam_cache.write(past, self.memory(x, relation), step)
    return self.attend(self.queries(x, relation), beam_cache.from_cache_layout(past), mask, relation), past
