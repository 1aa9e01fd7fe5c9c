"""Attention of recurrent decoders: one head over the encoder's outputs, with one of several scores.

A new score is a class here, registered under its name. Queries are the beams, W.
"""

from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Float32

from transformer import dtypes, initializers, products
from transformer.config import RecurrentConfig
from transformer.registries import RECURRENT_SCORES
from transformer.tokens import AnyArray


class Source(NamedTuple):
  """The keys and values of attention, computed once per sentence."""

  keys: Float[Array, 'B S D']
  values: Float[Array, 'B S A']


class Glance(NamedTuple):
  """The source's context vector and attention weights at one step; None where the decoder has none."""

  context: Float[Array, 'B W A'] | None
  weights: Float32[Array, 'B W S'] | None


def projection(module: nn.Module, name: str, rows: int, columns: int) -> Float[Array, '{rows} {columns}']:
  """Declare the parameter of a projection; return it in the dtype of products."""
  init = initializers.with_axes(initializers.matrix(module.config.initializer), ('embed', 'cell'))
  return module.param(name, init, (rows, columns), jnp.float32).astype(dtypes.of(module.config))


class Score(nn.Module):
  """Base class of the scores; by default the dot product."""

  config: RecurrentConfig
  looks_after = True  # whether the query is s(t), after the cells' step (Luong et al.), or s(t-1)
  equal_widths = False  # whether the states of encoder and decoder must be equally wide

  def keys(self, values: Float[Array, 'B S A']) -> Float[Array, 'B S D']:
    """Return the keys, which queries are compared with."""
    return values

  def __call__(self, query: Float[Array, 'B W D'], keys: Float[Array, 'B S D']) -> Float32[Array, 'B W S']:
    """Score the queries against the keys at every place."""
    return products.einsum('bwd,bsd->bws', query.astype(keys.dtype), keys)


RECURRENT_SCORES.add('none', None, 'no attention')


class General(Score):
  """score(s, h) = sᵀW h (Luong et al., 2015, §3.1)."""

  def setup(self):
    self.w_key = projection(self, 'w_key', self.config.annotation_width, self.config.d_model)

  def keys(self, values: Float[Array, 'B S A']) -> Float[Array, 'B S D']:
    return values @ self.w_key


@RECURRENT_SCORES.register('additive', 'Bahdanau et al., 2015')
class Additive(General):
  """score(s, h) = vᵀ tanh(W s + U h) (Bahdanau et al., 2015, §A.1.2)."""

  looks_after = False

  def setup(self):
    super().setup()
    self.w_query = projection(self, 'w_query', self.config.d_model, self.config.d_model)
    self.v = projection(self, 'v', self.config.d_model, 1)[:, 0]

  def __call__(self, query: Float[Array, 'B W D'], keys: Float[Array, 'B S D']) -> Float32[Array, 'B W S']:
    @jax.checkpoint  # else the backward pass keeps a hidden layer [B, S, D] of every step
    def compare(query, keys, v):
      hidden = jnp.tanh(query[:, :, None] + keys[:, None])
      return products.einsum('bwsd,d->bws', hidden, v)

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
    score = RECURRENT_SCORES[self.config.score]
    assert score  # a decoder without a score has no attention, see recurrent.model.make_link
    self.score = score(self.config)

  def source(self, values: Float[Array, 'B S A']) -> Source:
    """Project the encoder's outputs, once for all steps and beams."""
    return Source(self.score.keys(values), values)

  def __call__(self, query: Float[Array, 'B W D'], source: Source, mask: Bool[AnyArray, 'B W S']) -> Glance:
    """Attend to the source where the mask is True. Masked weights are exactly 0; where all are masked, so is c."""
    scores = jnp.where(mask, self.score(query, source.keys), jnp.finfo(jnp.float32).min)
    weights = jnp.where(mask, jax.nn.softmax(scores, axis=-1), 0.0)
    return Glance(jnp.einsum('bws,bsa->bwa', weights.astype(source.values.dtype), source.values), weights)
