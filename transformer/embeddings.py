"""Embedding tables: which a model has, and the two things read from them, embeddings and logits (§3.4).

    share_embeddings, tie_output   embedding                                                  §3.4, the default
    share_embeddings               embedding, output_projection
    tie_output                     source_embedding, target_embedding
    neither                        source_embedding, target_embedding, output_projection
"""

import math
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from transformer import initializers
from transformer.config import AnyModelConfig


class Tables(NamedTuple):
  """Each [V, D] float32; one parameter may stand in several places."""

  source: jax.Array
  target: jax.Array
  output: jax.Array


def tables(module: nn.Module, config: AnyModelConfig) -> Tables:
  """Makes the tables parameters of `module`, whose setup calls this."""
  init = nn.with_logical_partitioning(initializers.embedding(config.d_model), ('vocab', 'embed_table'))
  parameter = lambda name, rows: module.param(name, init, (rows, config.d_model), jnp.float32)
  if config.share_embeddings:
    source = target = parameter('embedding', config.vocab_size)
  else:
    source = parameter('source_embedding', config.vocab_size)
    target = parameter('target_embedding', config.target_vocab_size)
  output = target if config.tie_output else parameter('output_projection', config.target_vocab_size)
  return Tables(source, target, output)


def look_up(table: jax.Array, ids: jax.Array) -> jax.Array:
  """Rows [..., D] of a table [V, D]; an id beyond the table, such as tokens.CUT, gives zeros and no gradient."""
  return table.at[ids].get(mode='fill', fill_value=0.0)


def embed(table: jax.Array, ids: jax.Array) -> jax.Array:
  """Embeddings times √d_model, [..., D] float32: of about the size of the positions that are added to them (§3.4)."""
  return look_up(table, ids) * math.sqrt(table.shape[-1])


def logits(x: jax.Array, table: jax.Array) -> jax.Array:
  """[B, T, D] of any precision -> [B, T, V], accumulated and kept in float32."""
  return jnp.einsum('btd,vd->btv', x, table.astype(x.dtype), preferred_element_type=jnp.float32)
