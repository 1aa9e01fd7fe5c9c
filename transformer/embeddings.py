"""Embedding tables (§3.4): which ones a model has, and the embeddings and logits that are computed from them.

    share_embeddings, tie_output   embedding                                                  §3.4, the default
    share_embeddings               embedding, output_projection
    tie_output                     source_embedding, target_embedding
    neither                        source_embedding, target_embedding, output_projection

With output_bias there is a vector output_bias beside them, which the logits get added.

Where several devices share a batch, the gradient of a table that is read at several places should be added up on each
device before it is added up over all: partitioning.copies_of_tables gives the table copies for that, see Table.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, Int, Shaped

from transformer import dtypes, initializers, products
from transformer.config import AnyModelConfig, ModelConfig
from transformer.tokens import AnyArray


class Table(NamedTuple):
  """A table, which gets a gradient of its own for each N-th part of a batch's rows where it has copies."""

  values: Float32[AnyArray, 'V D']
  copies: Float32[AnyArray, 'N V D'] | None = None  # of values; never read, all of the gradient goes to them


class Tables(NamedTuple):
  """The tables of a model; one parameter may serve as several of them."""

  source: Table
  target: Table
  output: Table


def tables(module: nn.Module, config: AnyModelConfig) -> Tables:
  """Makes the tables parameters of `module`, whose setup calls this."""
  init = initializers.with_axes(initializers.embedding(config.d_model), ('vocab', 'embed_table'))

  def parameter(name: str, rows: int) -> Table:
    if not module.is_initializing() and isinstance(given := module.get_variable('params', name), Table):
      return given  # module.param would refuse it
    return Table(module.param(name, init, (rows, config.d_model), jnp.float32))

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


def _for_copies(of_each: Callable, table: Table, *arrays: Shaped[Array, 'B ...']) -> Table:
  """Return the gradients of a table's copies: of_each(*arrays) on the rows of each, [V, D]."""
  assert table.copies is not None
  by_copy = [array.reshape(table.copies.shape[0], -1, *array.shape[1:]) for array in arrays]
  return Table(None, jax.vmap(of_each)(*by_copy))  # pyright: ignore[reportArgumentType]


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _look_up_rounded(table: Table, ids: Int[AnyArray, '*B T'], dtype: jnp.dtype) -> Float[Array, '*B T D']:
  """Look up in the table rounded to `dtype`, as the output projection reads it; add its gradient up in float32."""
  return look_up(jnp.asarray(table.values, dtype), ids)


def _look_up_forward(table, ids, dtype):
  return _look_up_rounded(table, ids, dtype), (table, ids)


def _look_up_backward(dtype, saved, gradient):
  table, ids = saved
  added = lambda ids, gradient: jax.vjp(lambda values: look_up(values, ids), table.values)[1](gradient)[0]
  gradient = gradient.astype(jnp.float32)
  return Table(added(ids, gradient)) if table.copies is None else _for_copies(added, table, ids, gradient), None


_look_up_rounded.defvjp(_look_up_forward, _look_up_backward)


def embed(table: Table, ids: Int[AnyArray, '*B T'], config: AnyModelConfig) -> Float32[Array, '*B T D']:
  """Embeddings times √d_model: of about the size of the positions that are added to them (§3.4).

  The table is rounded to the model's dtype first, so that a mesh that splits it gathers no more bytes than that.
  """
  dtype = dtypes.of(config)
  plain = dtype == jnp.float32 and table.copies is None
  rows = look_up(table.values, ids) if plain else _look_up_rounded(table, ids, dtype)
  return jnp.asarray(rows, jnp.float32) * math.sqrt(table.values.shape[-1])


def output_bias(module: nn.Module, config: ModelConfig) -> Float32[Array, ' V'] | None:
  """Makes the bias of the logits a parameter of `module`, where the configuration asks for one."""
  if not config.output_bias:
    return None
  init = initializers.with_axes(nn.initializers.zeros_init(), ('vocab',))
  return module.param('output_bias', init, (config.target_vocab_size,), jnp.float32)


_PROJECT = 'btd,vd->btv'


def _project(x: Float[Array, 'B T D'], table: Table) -> Float32[Array, 'B T V']:
  return products.einsum(_PROJECT, x, jnp.asarray(table.values, x.dtype))


_project_by_copies = jax.custom_vjp(_project)


def _project_forward(x, table):
  return _project(x, table), (x, table)


def _project_backward(saved, gradient):
  x, table = saved
  values = jnp.asarray(table.values, x.dtype)
  by_values = lambda x, gradient: products.gradient_of(values, lambda values: jnp.einsum(_PROJECT, x, values), gradient)
  of_table = _for_copies(lambda *rows: by_values(*rows).astype(jnp.float32), table, x, gradient)
  return products.gradient_of(x, lambda x: jnp.einsum(_PROJECT, x, values), gradient), of_table


_project_by_copies.defvjp(_project_forward, _project_backward)


def logits(x: Float[Array, 'B T D'], table: Table, bias: Float32[AnyArray, ' V'] | None = None
           ) -> Float32[Array, 'B T V']:
  """The output projection of x (§3.4), accumulated and kept in float32 whatever the dtype of x."""
  found = (_project if table.copies is None else _project_by_copies)(x, table)
  return found if bias is None else found + bias[None, None]
