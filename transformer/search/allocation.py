"""Dynamic beam allocation (Post & Vilar, 2018, §4.2): a beam shared out over the progress of its hypotheses.

Outputs that must contain phrases (constraints.phrases) would otherwise have no hypothesis that has begun them. Where more
tokens are required than the beam has places, only the shares next to the goal have some; what no hypothesis there can
fill is handed down, so that the places are those of the hypotheses that have come furthest.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Float, PyTree

from transformer.search.config import SearchConfig
from transformer.search.constraints import NO_TOKEN, Moment, Progress
from transformer.search.continuations import Continuations, likeliest_of_each
from transformer.search.hypotheses import NEVER, take
from transformer.tokens import Array


def choose(moment: Moment, log_probs: Float[Array, 'B W'], eos_id: int, config: SearchConfig, progress: Progress,
           known: PyTree, state: PyTree
           ) -> tuple[Continuations, Continuations]:
  """Give each number of required tokens met its share of the beam.

  The tokens that the rule proposes are considered beside the likeliest continuations. Each share keeps its best; places
  that it does not fill go to the share of one token less, and those that the last one leaves to the best of all others.

  Returns:
    (those that go on, those that end), as continuations.split() does.
  """
  batch, width = log_probs.shape
  options = likeliest_of_each(moment, log_probs, eos_id, config.min_length)
  proposed = progress.propose(known, state)
  listed = (proposed[..., None] == options.token[:, :, None]).any(-1) | (proposed == NO_TOKEN)
  gained = jnp.take_along_axis(moment.logits, jnp.maximum(proposed, 0), axis=-1) - moment.normalizer[..., None]
  total = jnp.where(listed, NEVER, jnp.maximum(log_probs[..., None] + gained, NEVER))
  parent = jnp.broadcast_to(jnp.arange(width)[None, :, None], proposed.shape)
  more = Continuations(total, parent, jnp.maximum(proposed, 0), gained)
  both = jax.tree.map(lambda a, b: jnp.concatenate([a, b], axis=-1), options, more)
  share = progress.after(known, state, both.token).reshape(batch, -1)
  both = jax.tree.map(lambda x: x.reshape(batch, -1), both)

  ended, number = both.token == eos_id, jnp.arange(both.total.shape[1])
  theirs, ours = both.total[:, None], both.total[:, :, None]  # [B, 1, C] and [B, C, 1]
  better = (theirs > ours) | (theirs == ours) & (number[None] < number[:, None])[None]
  rank = (better & (share[:, None] == share[:, :, None])).sum(-1)
  goal = progress.goal(known)
  there = both.total > NEVER

  def hand_down(turn: Array, given: tuple[Array, Array]) -> tuple[Array, Array]:
    quota, unused = given  # [B, C] and [B]
    number = most - turn
    own = jnp.where(number <= goal, width // (goal + 1), 0) + jnp.where(number == goal, width % (goal + 1), 0) + unused
    of_share = share == number
    return jnp.where(of_share, own[:, None], quota), jnp.maximum(own - (of_share & there).sum(-1), 0)

  most = goal.max()  # shares above a sentence's own goal hand down nothing
  quota, _ = jax.lax.fori_loop(0, most + 1, hand_down, (jnp.zeros_like(share), jnp.zeros_like(goal)))
  served = (rank < quota) & there

  over, order = jax.lax.top_k(jnp.where(ended & served, both.total, NEVER), width)
  over = take(both, order)._replace(total=over)
  live = jnp.where(ended, NEVER, both.total)
  # Those within their quota come before all others; both by log-probability.
  chosen = take(both._replace(total=live), jnp.lexsort((-live, ~served | ended), axis=-1)[:, :width])
  return jax.tree.map(lambda x: jnp.take_along_axis(x, jnp.argsort(-chosen.total, axis=-1), axis=1), chosen), over
