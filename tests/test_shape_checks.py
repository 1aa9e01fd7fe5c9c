"""Signatures are held while the tests run: what enters and what is returned."""

import jax.numpy as jnp
import pytest
from jaxtyping import Array, Float, TypeCheckError, jaxtyped

from tests.shape_checks import check
from transformer import embeddings, masks


@jaxtyped(typechecker=check)
def echoed(x: Float[Array, 'B D'], answer) -> Float[Array, ' B']:
  return answer


def test_arguments_and_what_is_returned_have_the_shapes_of_the_signature():
  x = jnp.ones((2, 3))
  assert echoed(x, x[:, 0]).shape == (2,)
  with pytest.raises(TypeCheckError, match='the parameters'):
    echoed(x[0], x[:, 0])
  for answer in (x[0], x, x[:, 0].astype(int), None):  # D's size in place of B's, another rank, another type
    with pytest.raises(TypeCheckError, match='the return value'):
      echoed(x, answer)


def test_the_library_is_held_to_its_signatures():
  with pytest.raises(TypeCheckError, match='masks.causal_mask'):
    masks.causal_mask('5')
  with pytest.raises(TypeCheckError, match='embeddings.look_up'):
    embeddings.look_up(jnp.ones(3), jnp.ones(3, int))
