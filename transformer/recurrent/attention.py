"""Attention as recurrent decoders have it: one head, over the encoder's outputs, with one of several scores.

A new score is a class here, entered under its name.

Letters: B sentences, W queries (beams), S source length, D d_model, A width of the encoder's output.
"""

from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer import dtypes, initializers
from transformer.config import RecurrentConfig
from transformer.registries import RECURRENT_SCORES


class Source(NamedTuple):
  """What attention looks at, computed once per sentence."""

  keys: jax.Array  # [B, S, D]
  values: jax.Array  # [B, S, A]


class Glance(NamedTuple):
  """What the decoder knows of the source at a step; None where its kind has no such thing."""

  context: Any  # [B, W, A or D]
  weights: Any  # [B, W, S] float32


def projection(module: nn.Module, name: str, rows: int, columns: int) -> jax.Array:
  """A parameter [rows, columns] of a projection, in the dtype of products."""
  init = nn.with_logical_partitioning(initializers.matrix(module.config.initializer), ('embed', 'cell'))
  return module.param(name, init, (rows, columns), jnp.float32).astype(dtypes.of(module.config))


class Score(nn.Module):
  """What every score has; the dot product where nothing else is said."""

  config: RecurrentConfig
  looks_after = True  # whether the decoder looks with s(t), after its cells moved (Luong et al.), or before, with s(t-1)
  equal_widths = False  # whether the states of encoder and decoder have to be equally wide

  def keys(self, values: jax.Array) -> jax.Array:
    """What queries are compared with: [B, S, A] -> [B, S, D]."""
    return values

  def __call__(self, query: jax.Array, keys: jax.Array) -> jax.Array:
    """Scores of the queries [B, W, D] at every place, [B, W, S] float32."""
    return jnp.einsum('bwd,bsd->bws', query.astype(keys.dtype), keys, preferred_element_type=jnp.float32)


RECURRENT_SCORES.add('none', None, 'no attention')


class General(Score):
  """score(s, h) = sᵀW h (Luong et al., 2015, §3.1)."""

  def setup(self):
    self.w_key = projection(self, 'w_key', self.config.annotation_width, self.config.d_model)

  def keys(self, values: jax.Array) -> jax.Array:
    return values @ self.w_key


@RECURRENT_SCORES.register('additive', 'Bahdanau et al., 2015')
class Additive(General):
  """score(s, h) = vᵀ tanh(W s + U h) (Bahdanau et al., 2015, §A.1.2)."""

  looks_after = False

  def setup(self):
    super().setup()
    self.w_query = projection(self, 'w_query', self.config.d_model, self.config.d_model)
    self.v = projection(self, 'v', self.config.d_model, 1)[:, 0]

  def __call__(self, query: jax.Array, keys: jax.Array) -> jax.Array:
    @jax.checkpoint  # else the backward pass keeps a hidden layer [B, S, D] of every step
    def compare(query, keys, v):
      hidden = jnp.tanh(query[:, :, None] + keys[:, None])
      return jnp.einsum('bwsd,d->bws', hidden, v, preferred_element_type=jnp.float32)

    return compare(query.astype(keys.dtype) @ self.w_query, keys, self.v)


@RECURRENT_SCORES.register('dot', 'Luong et al., 2015')
class Dot(Score):
  """score(s, h) = sᵀh (Luong et al., 2015, §3.1)."""

  equal_widths = True


RECURRENT_SCORES.add('general', General, 'Luong et al., 2015')


class Attention(nn.Module):
  """A weighted sum of the encoder's outputs, c = Σ α h, with the weights of one score."""

  config: RecurrentConfig

  def setup(self):
    self.score = RECURRENT_SCORES[self.config.score](self.config)

  def source(self, values: jax.Array) -> Source:
    """The encoder's outputs [B, S, A], projected once for all steps and beams."""
    return Source(self.score.keys(values), values)

  def __call__(self, query: jax.Array, source: Source, mask: jax.Array) -> Glance:
    """Looks with [B, W, D] under mask [B, W, S]. Masked weights are exactly 0; where all are masked, so is c."""
    scores = jnp.where(mask, self.score(query, source.keys), jnp.finfo(jnp.float32).min)
    weights = jnp.where(mask, jax.nn.softmax(scores, axis=-1), 0.0)
    return Glance(jnp.einsum('bws,bsa->bwa', weights.astype(source.values.dtype), source.values), weights)
