"""What a search returns, and how rows of hypotheses are moved and written."""

from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int, Shaped

from transformer.tokens import AnyArray, Array

NEVER = jnp.finfo(jnp.float32).min  # the logit of a forbidden token, the score of a hypothesis that does not exist
NOISE = 2e-5  # largest difference that another machine or batch size may make to a score

Tree = TypeVar('Tree')


class Hypotheses(NamedTuple):
  """Finished outputs of each sentence, best first."""

  tokens: Int[Array, 'B W L']  # filler after EOS
  scores: Float[Array, 'B W']  # log-probability / length penalty (+ coverage penalty); NEVER where fewer were found, see found
  log_probs: Float[Array, 'B W']  # natural logarithms, EOS included
  lengths: Int[Array, 'B W']  # tokens, EOS included
  token_log_probs: Float[Array, 'B W L']  # of each token, 0 after EOS

  @property
  def found(self) -> Bool[AnyArray, '*B W']:
    """Which of them were found. The rest has no output: its tokens mean nothing."""
    return self.scores > NEVER


def take(tree: Tree, index: Int[Array, 'B C']) -> Tree:
  """Take entries of axis 1 by index, in every leaf [B, W, ...] of a tree; the leaves become [B, C, ...]."""
  return jax.tree.map(lambda x: jax.vmap(lambda row, chosen: row[chosen])(x, index), tree)


def write(rows: Shaped[Array, 'B W L'], values: Shaped[Array, 'B W'], t: Int[Array, ' B']) -> Shaped[Array, 'B W L']:
  """Return `rows` with `values` at place t of each sentence."""
  here = jnp.arange(rows.shape[2])[None, None] == t[:, None, None]
  return jnp.where(here, values[:, :, None].astype(rows.dtype), rows)
