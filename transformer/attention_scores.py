"""Attention scores: how well a query matches a key. A new score is a class here, registered under its name.

A score has three methods. `prepare` changes the queries before rotary positions rotate them (most scores leave them as
they are). `divisor` gives the number that products are divided by. `compare` takes the queries, with R heads for each of the G heads of keys; the keys; and as edges what
relative positions add to the keys, one vector for each query and entry.
"""

import functools
import math
from typing import Optional

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32

from transformer import initializers, products
from transformer.config import ModelConfig
from transformer.registries import ATTENTION_SCORES

# Edges: for each query and entry, what relative positions add to the key; the same for all rows or of each.
Queries = Float[Array, 'B Q G R K']
Keys = Float[Array, 'B M G K']
Edges = Optional[Float[Array, '*rows Q M K']]
Scores = Float32[Array, 'B G R Q M']


def dot_products(query: Queries, key: Keys, edges: Edges = None) -> Scores:
  """q · (k + edge), each product summed in float32."""
  # Not einsum, which would put the keys first and transpose the result; this product is [B, G, Q, R, M].
  pairs = functools.partial(jax.lax.dot_general, dimension_numbers=(((4,), (3,)), ((0, 2), (0, 2))))
  scores = products.of_function(pairs, query, key).swapaxes(2, 3)
  if edges is not None:  # no [B, Q, M, K] is made: the sum over K splits in two
    scores += products.einsum(f'bqgrk,{"b" * (edges.ndim - 3)}qmk->bgrqm', query, edges)
  return scores


class Score(nn.Module):
  """Base class of the scores; by default the dot product."""

  config: ModelConfig
  of_products = True  # whether it is a product of query and key, in which rotary positions leave their distance

  def prepare(self, query: Float[Array, 'B Q H K']) -> Float[Array, 'B Q H K']:
    return query

  def divisor(self) -> float:
    return 1.0

  def compare(self, query: Queries, key: Keys, edges: Edges) -> Scores:
    return dot_products(query, key, edges) / self.divisor()


@ATTENTION_SCORES.register('scaled_dot')
class ScaledDot(Score):
  """q · k / √d_k (Vaswani et al., 2017, Eq. 1)."""

  def divisor(self) -> float:
    return math.sqrt(self.config.key_size)


@ATTENTION_SCORES.register('dot')
class Dot(Score):
  """q · k (Luong et al., 2015, "dot")."""


@ATTENTION_SCORES.register('multiplicative', 'q W k')
class Multiplicative(Score):
  """qᵀ W k, with a matrix W for each head (Luong et al., 2015, "general")."""

  def setup(self):
    cfg = self.config
    init = initializers.matrix(cfg.initializer, in_axis=1, out_axis=2, batch_axis=0)
    self.w_score = self.param('w_score', initializers.with_axes(init, ('heads', 'kv', None)),
                              (cfg.num_heads, cfg.key_size, cfg.key_size), jnp.float32)

  def prepare(self, query: Float[Array, 'B Q H K']) -> Float[Array, 'B Q H K']:
    return jnp.einsum('bqhk,hkc->bqhc', query, self.w_score.astype(query.dtype))


@ATTENTION_SCORES.register('additive', 'v tanh(q + k)')
class Additive(Score):
  """v · tanh(q + k), with a vector v for each head (Bahdanau et al., 2015; q and k are its W s and U h).

  Materialises [B, H, Q, M, K]: much slower than a product of q and k, and K times as much memory.
  """

  of_products = False

  def setup(self):
    cfg = self.config
    init = nn.initializers.normal(stddev=cfg.key_size**-0.5)
    self.v_score = self.param('v_score', initializers.with_axes(init, ('heads', 'kv')),
                              (cfg.num_heads, cfg.key_size), jnp.float32)

  def compare(self, query: Queries, key: Keys, edges: Edges) -> Scores:
    total = query.transpose(0, 2, 3, 1, 4)[:, :, :, :, None] + key.transpose(0, 2, 1, 3)[:, :, None, None]
    if edges is not None:
      total += edges.reshape(-1, 1, 1, *edges.shape[-3:])
    weight = self.v_score.reshape(*query.shape[2:]).astype(total.dtype)  # [G, R, K]
    return products.einsum('bgrqmk,grk->bgrqm', jnp.tanh(total), weight)


def make(config: ModelConfig) -> Score:
  """Make the score that `config.attention_score` names."""
  return ATTENTION_SCORES[config.attention_score](config)
