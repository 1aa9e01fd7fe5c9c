"""First values of the parameters. The paper is silent; tensor2tensor's choices are the default."""

import flax.linen as nn
import jax


def matrix(kind: str, in_axis=-2, out_axis=-1, batch_axis=()) -> nn.initializers.Initializer:
  """Initialiser of a projection, with the axes that count as its inputs and outputs.

  Args:
    kind: 'xavier_uniform' and 'xavier_normal' (Glorot & Bengio, 2010), 'lecun_normal'.
    in_axis: axis or axes summed over.
    out_axis: axis or axes produced: a head axis beside d_k counts, so that h heads start like one wide matrix.
    batch_axis: axis or axes over which matrices of their own lie side by side.
  """
  scale, mode, distribution = {
      'xavier_uniform': (1.0, 'fan_avg', 'uniform'),
      'xavier_normal': (1.0, 'fan_avg', 'truncated_normal'),
      'lecun_normal': (1.0, 'fan_in', 'truncated_normal'),
  }[kind]
  return jax.nn.initializers.variance_scaling(scale, mode, distribution, in_axis=in_axis, out_axis=out_axis,
                                             batch_axis=batch_axis)


def embedding(d_model: int) -> nn.initializers.Initializer:
  """N(0, 1/d_model): after the factor √d_model of §3.4 the embeddings have unit variance."""
  return nn.initializers.normal(stddev=d_model**-0.5)
