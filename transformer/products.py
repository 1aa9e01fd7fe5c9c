"""Products whose sums are kept in float32: logits, attention scores and recurrent gates.

    forward    operands in the model's dtype, sum and result in float32
    backward   the gradient of the result is rounded to the model's dtype, so that the two products of the backward
               pass have operands of that dtype, too; their sums are float32, their results the model's dtype

Autodiff alone would multiply the float32 gradient with the operands: float32 products, in a bfloat16 model, which cost
several times as much on a TPU or GPU.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32

from transformer.tokens import AnyArray

Operand = Float[AnyArray, '...']


def einsum(equation: str, x: Operand, y: Operand) -> Float32[Array, '...']:
  """Return jnp.einsum(equation, x, y) with sums and result in float32. See of_function."""
  return of_function(functools.partial(jnp.einsum, equation), x, y)


def of_function(multiply: Callable, x: Operand, y: Operand) -> Float32[Array, '...']:
  """Return multiply(x, y) with sums and result in float32; backward products are as the module's docstring says.

  Args:
    multiply: a product that is linear in x and in y, and takes `preferred_element_type`.
    x: the first operand, any dtype.
    y: the second operand, of the same dtype.
  """
  if x.dtype == jnp.float32:
    return multiply(x, y)
  return _rounded(multiply, x, y)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _rounded(multiply: Callable, x: Operand, y: Operand) -> Float32[Array, '...']:
  return multiply(x, y, preferred_element_type=jnp.float32)


def _forward(multiply, x, y):
  return _rounded(multiply, x, y), (x, y)


def _backward(multiply, operands, gradient):
  x, y = operands
  return (gradient_of(x, lambda x: multiply(x, y), gradient), gradient_of(y, lambda y: multiply(x, y), gradient))


_rounded.defvjp(_forward, _backward)


def gradient_of(operand: Operand, multiply: Callable, gradient: Operand) -> Operand:
  """Return the gradient of an operand from that of its product multiply(operand), rounded to the operand's dtype.

  It is transposed, not differentiated by jax.vjp, which would write down the forward product once more.
  """
  return jax.linear_transpose(multiply, operand)(gradient.astype(operand.dtype))[0]
