"""Diverse beam search (Vijayakumar et al., 2018): groups of a beam that look for different outputs."""

import jax
import jax.numpy as jnp
from jaxtyping import Float

from transformer.search.config import SearchConfig
from transformer.search.constraints import Moment
from transformer.search.continuations import Continuations, likeliest, split
from transformer.search.hypotheses import NEVER
from transformer.tokens import Array


def choose(moment: Moment, log_probs: Float[Array, 'B W'], eos_id: int, config: SearchConfig
           ) -> tuple[Continuations, Continuations]:
  """Choose group after group, each avoiding the tokens that earlier groups took at this step (Eq. 5).

  Only the choice is changed; log-probabilities stay the model's.

  Returns:
    (those that go on, those that end), as split() does.
  """
  t, limits, logits, normalizer = moment
  size, taken = config.beam_size // config.groups, jnp.zeros((logits.shape[0], logits.shape[-1]))
  going, over = [], []
  for start in range(0, config.beam_size, size):
    part = slice(start, start + size)
    avoiding = logits[:, part] - config.diversity * taken[:, None]
    options = likeliest(Moment(t, limits, avoiding, normalizer[:, part]), log_probs[:, part], eos_id, config.min_length,
                        size)
    live, ended = split(options, size, eos_id)
    for found, group in ((going, live), (over, ended)):
      cost = config.diversity * jnp.take_along_axis(taken, group.token, axis=1)
      exists = group.total > NEVER
      found.append(group._replace(total=jnp.where(exists, group.total + cost, NEVER), gained=group.gained + cost,
                                  parent=group.parent + start))
    taken = taken.at[jnp.arange(taken.shape[0])[:, None], live.token].add(1.0)
  join = lambda groups: jax.tree.map(lambda *parts: jnp.concatenate(parts, axis=1), *groups)
  return join(going), join(over)
