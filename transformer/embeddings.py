"""Embedding tables (§3.4): which ones a model has, and the embeddings and logits that are computed from them.

    share_embeddings, tie_output   embedding                                                  §3.4, the default
    share_embeddings               embedding, output_projection
    tie_output                     source_embedding, target_embedding
    neither                        source_embedding, target_embedding, output_projection

With output_bias there is a vector output_bias beside them, which the logits get added.
"""

import functools
import math
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, Int

from transformer import dtypes, initializers, products
from transformer.config import AnyModelConfig, ModelConfig
from transformer.tokens import AnyArray


class Tables(NamedTuple):
  """The tables of a model; one parameter may serve as several of them."""

  source: Float32[Array, 'V D']
  target: Float32[Array, 'V D']
  output: Float32[Array, 'V D']


def tables(module: nn.Module, config: AnyModelConfig) -> Tables:
  """Makes the tables parameters of `module`, whose setup calls this."""
  init = initializers.with_axes(initializers.embedding(config.d_model), ('vocab', 'embed_table'))
  parameter = lambda name, rows: module.param(name, init, (rows, config.d_model), jnp.float32)
  if config.share_embeddings:
    source = target = parameter('embedding', config.vocab_size)
  else:
    source = parameter('source_embedding', config.vocab_size)
    target = parameter('target_embedding', config.target_vocab_size)
  output = target if config.tie_output else parameter('output_projection', config.target_vocab_size)
  return Tables(source, target, output)


def look_up(table: Float[AnyArray, 'V D'], ids: Int[AnyArray, '*B T']) -> Float[Array, '*B T D']:
  """Return rows of a table; an id beyond the table, such as tokens.CUT, gives zeros and no gradient."""
  return jnp.asarray(table).at[ids].get(mode='fill', fill_value=0.0)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _look_up_rounded(table: Float32[AnyArray, 'V D'], ids: Int[AnyArray, '*B T'], dtype: jnp.dtype
                     ) -> Float[Array, '*B T D']:
  """Look up in the table rounded to `dtype`, as the output projection reads it; add its gradient up in float32."""
  return look_up(jnp.asarray(table, dtype), ids)


def _look_up_forward(table, ids, dtype):
  return _look_up_rounded(table, ids, dtype), (table, ids)


def _look_up_backward(dtype, saved, gradient):
  table, ids = saved
  return *jax.vjp(lambda table: look_up(table, ids), table)[1](gradient.astype(jnp.float32)), None


_look_up_rounded.defvjp(_look_up_forward, _look_up_backward)


def embed(table: Float32[AnyArray, 'V D'], ids: Int[AnyArray, '*B T'], config: AnyModelConfig
          ) -> Float32[Array, '*B T D']:
  """Embeddings times √d_model: of about the size of the positions that are added to them (§3.4).

  The table is rounded to the model's dtype first, so that a mesh that splits it gathers no more bytes than that.
  """
  dtype = dtypes.of(config)
  rows = look_up(table, ids) if dtype == jnp.float32 else _look_up_rounded(table, ids, dtype)
  return jnp.asarray(rows, jnp.float32) * math.sqrt(table.shape[-1])


def output_bias(module: nn.Module, config: ModelConfig) -> Float32[Array, ' V'] | None:
  """Makes the bias of the logits a parameter of `module`, where the configuration asks for one."""
  if not config.output_bias:
    return None
  init = initializers.with_axes(nn.initializers.zeros_init(), ('vocab',))
  return module.param('output_bias', init, (config.target_vocab_size,), jnp.float32)


def logits(x: Float[Array, 'B T D'], table: Float32[AnyArray, 'V D'], bias: Float32[AnyArray, ' V'] | None = None
           ) -> Float32[Array, 'B T V']:
  """The output projection of x (§3.4), accumulated and kept in float32 whatever the dtype of x."""
  found = products.einsum('btd,vd->btv', x, jnp.asarray(table, x.dtype))
  return found if bias is None else found + bias[None, None]
