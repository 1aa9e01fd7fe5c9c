"""Attention, §3.2: weights from scores, many heads, and the record that a cached head keeps.

Letters: B sentences, Q queries, M entries looked at, D d_model, H heads, G heads of keys and values, R = H / G query
heads to each, K d_k, U d_v, W beams, T cache length.
"""

from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer import attention_scores, dtypes, initializers, positions
from transformer.config import ModelConfig
from transformer.dropout import Dropout
from transformer.positions import NOTHING, Relation
from transformer.search import cache as beam_cache
from transformer.search.cache import CachedKeyValue, KeyValue

WITNESS = 'witness'  # the collection into which heads put what they did when someone asks (model.inspect)


class Operands(NamedTuple):
  """What Eq. 1 is computed from, head by head, as the scores see it: turned, where positions turn."""

  query: jax.Array  # [B, Q, H, K]
  key: jax.Array  # [B, M, G, K]
  value: jax.Array  # [B, M, G, U]


def masked_softmax(scores: jax.Array, mask: jax.Array) -> jax.Array:
  """The softmax of Eq. 1 over the entries that a query may look at, in float32.

  A masked score is the dtype's own minimum, so a masked weight is exactly 0. A query that may look at nothing
  has weights 0 throughout (not NaN, not uniform), and so the context 0.

  Args:
    scores: [B, G, R, Q, M] float32.
    mask: [B or 1, Q, M] bool, True where the query may look.

  Returns:
    Weights of the same shape; each row sums to 1, or to 0 where the mask is empty.
  """
  mask = mask[:, None, None]
  scores = jnp.where(mask, scores, jnp.finfo(jnp.float32).min)
  return jnp.where(mask, jax.nn.softmax(scores, axis=-1), 0.0)


def weighted_sum(weights: jax.Array, value: jax.Array, edges: jax.Array | None = None) -> jax.Array:
  """Sums of the values [B, M, G, U], and of `edges` [Q, M, U] where there are any, by weights [B, G, R, Q, M].

  Returns:
    [B, Q, H, U].
  """
  weights = weights.astype(value.dtype)
  context = jnp.einsum('bgrqm,bmgu->bgrqu', weights, value)
  if edges is not None:
    context += jnp.einsum('bgrqm,qmu->bgrqu', weights, edges)
  context = context.transpose(0, 3, 1, 2, 4)
  return context.reshape(*context.shape[:2], -1, context.shape[-1])


def attend(query: jax.Array, memory: KeyValue, mask: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Scaled dot-product attention without any parameter (Eq. 1): the context [B, Q, H, U] and the weights [B, H, Q, M].

  Args:
    query: [B, Q, H, K]; a multiple of the memory's G heads.
    memory: what is looked at.
    mask: [B or 1, Q, M] bool, True where the query may look.
  """
  query = grouped(query, memory)
  weights = masked_softmax(attention_scores.dot_products(query, memory.key) * query.shape[-1] ** -0.5, mask)
  return weighted_sum(weights, memory.value), by_head(weights)


def grouped(query: jax.Array, memory: KeyValue) -> jax.Array:
  """[B, Q, H, K] -> [B, Q, G, R, K]: head h reads the keys and values of head h // R (Ainslie et al., 2023)."""
  batch, queries, _, width = query.shape
  return query.reshape(batch, queries, memory.key.shape[2], -1, width)


def by_head(weights: jax.Array) -> jax.Array:
  """[B, G, R, Q, M] -> [B, H, Q, M]."""
  return weights.reshape(weights.shape[0], -1, *weights.shape[3:])


class MultiHeadAttention(nn.Module):
  """MultiHead(Q, K, V) = Concat(head_1 … head_h) W^O, head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V) (§3.2.2).

  Every head projects all of d_model; the products are written head by head, [D, H, K].
  """

  config: ModelConfig

  def setup(self):
    cfg = self.config
    self.score, self.dropout = attention_scores.make(cfg), Dropout(cfg.attention_dropout)
    keys, values = (cfg.kv_heads, cfg.key_size), (cfg.kv_heads, cfg.value_size)
    self._declare('query', ('embed', 'heads', 'kv'), (cfg.d_model, cfg.num_heads, cfg.key_size))
    self._declare('key', ('embed', 'heads', 'kv'), (cfg.d_model, *keys))
    self._declare('value', ('embed', 'heads', 'kv'), (cfg.d_model, *values))
    self._declare('out', ('heads', 'kv', 'embed'), (cfg.num_heads, cfg.value_size, cfg.d_model))

  def _declare(self, name: str, axes: tuple[str, ...], shape: tuple[int, ...]) -> None:
    """A projection, and its bias where there are any. `out` sums over heads, the others make them."""
    inputs = 2 if name == 'out' else 1
    every = tuple(range(len(shape)))
    init = initializers.matrix(self.config.initializer, in_axis=every[:inputs], out_axis=every[inputs:])
    param = lambda prefix, init, cut: setattr(self, f'{prefix}_{name}', self.param(
        f'{prefix}_{name}', nn.with_logical_partitioning(init, axes[cut:]), shape[cut:], jnp.float32))
    param('w', init, 0)
    if self.config.attention_bias:
      param('b', nn.initializers.zeros_init(), inputs)

  def _project(self, equation: str, x: jax.Array, name: str) -> jax.Array:
    dtype = dtypes.of(self.config)
    y = jnp.einsum(equation, x, getattr(self, f'w_{name}').astype(dtype))
    return y + getattr(self, f'b_{name}').astype(dtype)[None, None] if self.config.attention_bias else y

  def _turned(self, x: jax.Array, relation: Relation) -> jax.Array:
    return x if relation.angles is None else positions.turn(x, relation.angles, self.config.position_layout)

  def queries(self, x: jax.Array, relation: Relation = NOTHING) -> jax.Array:
    """[B, Q, D] -> [B, Q, H, K]."""
    return self._turned(self.score.prepare(self._project('bqd,dhk->bqhk', x, 'query')), relation)

  def memory(self, y: jax.Array, relation: Relation = NOTHING) -> KeyValue:
    """Keys and values of [B, M, D]: computed once for what many queries look at."""
    return KeyValue(self._turned(self._project('bmd,dgk->bmgk', y, 'key'), relation),
                    self._project('bmd,dgu->bmgu', y, 'value'))

  def attend(self, query: jax.Array, memory: KeyValue, mask: jax.Array, relation: Relation = NOTHING) -> jax.Array:
    """Queries [B, Q, H, K] over a projected memory; [B, Q, D]."""
    scores = self.score.compare(grouped(query, memory), memory.key, relation.edges(relation.key_table, query.dtype))
    if relation.bias is not None:
      scores += relation.bias.reshape(1, *scores.shape[1:])
    weights = masked_softmax(scores, mask)
    # Kept only when the caller makes the collection mutable.
    self.sow(WITNESS, 'weights', by_head(weights))
    self.sow(WITNESS, 'operands', Operands(query, *memory))
    context = weighted_sum(self.dropout(weights), memory.value, relation.edges(relation.value_table, query.dtype))
    return self._project('bqhu,hud->bqd', context, 'out')

  def __call__(self, x: jax.Array, mask: jax.Array, relation: Relation = NOTHING) -> jax.Array:
    """Self-attention of x [B, Q, D] under mask [B or 1, Q, Q]; [B, Q, D]."""
    return self.attend(self.queries(x, relation), self.memory(x, relation), mask, relation)

  def over(self, x: jax.Array, memory: KeyValue, mask: jax.Array) -> jax.Array:
    """Queries from x [B, Q, D] over another text's projected memory, mask [B or 1, Q, M]; [B, Q, D]."""
    return self.attend(self.queries(x), memory, mask)

  def extend(self, x: jax.Array, past: CachedKeyValue, step: jax.Array, mask: jax.Array, relation: Relation = NOTHING
             ) -> tuple[jax.Array, CachedKeyValue]:
    """One cached step of causal self-attention: every beam's newest token over its own past.

    The beams stand where queries stand in training, and what all of them wrote, place by place, where entries do.

    Args:
      x: [B, W, D] the newest token of each beam.
      past: a layer's cache (beam_cache.blank), filled before `step`.
      step: [] int32, the place being written.
      mask: [B, W, T·W] bool, which entries are a hypothesis's own (beam_cache.visible).
      relation: of this one place to those of the entries (Relation.of_beams).

    Returns:
      [B, W, D], and the cache with place `step` filled.
    """
    past = beam_cache.write(past, self.memory(x, relation), step)
    return self.attend(self.queries(x, relation), beam_cache.from_cache_layout(past), mask, relation), past
