"""Initial values of the parameters. The paper does not give them; tensor2tensor's choices are the default."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, cast

import flax.linen as nn
import jax
from flax.linen.initializers import Initializer

from transformer.registries import INITIALIZERS


class Variance(NamedTuple):
  """The distribution of a matrix's entries, as arguments of jax.nn.initializers.variance_scaling."""

  scale: float
  mode: Literal['fan_in', 'fan_avg']  # fan_in: scale / inputs; fan_avg: scale / mean of inputs and outputs
  distribution: Literal['uniform', 'truncated_normal']


INITIALIZERS.add('xavier_uniform', Variance(1.0, 'fan_avg', 'uniform'))  # Glorot & Bengio, 2010
INITIALIZERS.add('xavier_normal', Variance(1.0, 'fan_avg', 'truncated_normal'))
INITIALIZERS.add('lecun_normal', Variance(1.0, 'fan_in', 'truncated_normal'))


def matrix(kind: str, in_axis: int | Sequence[int] = -2, out_axis: int | Sequence[int] = -1,
           batch_axis: int | Sequence[int] = ()) -> Initializer:
  """Return the initialiser of a projection whose inputs and outputs are the given axes.

  Args:
    kind: its name in INITIALIZERS.
    in_axis: axis or axes summed over.
    out_axis: axis or axes produced; the head axis counts beside d_k, so that h heads start like one wide matrix.
    batch_axis: axis or axes that number separate matrices.
  """
  return jax.nn.initializers.variance_scaling(*INITIALIZERS[kind], in_axis=in_axis, out_axis=out_axis,
                                              batch_axis=batch_axis)


def embedding(d_model: int) -> Initializer:
  """N(0, 1/d_model): after the factor √d_model of §3.4 the embeddings have unit variance."""
  return nn.initializers.normal(stddev=d_model**-0.5)


def with_axes(init: Initializer, names: tuple[str | None, ...]) -> Initializer:
  """Return `init` whose values carry the names of their axes, by which partitioning.AXIS_RULES splits them."""
  return cast(Initializer, nn.with_logical_partitioning(init, names))  # modules get the array: Linen takes the names off
