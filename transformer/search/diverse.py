"""Diverse beam search (Vijayakumar et al., 2018): groups of a beam that look for different outputs."""

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from transformer.search.config import SearchConfig
from transformer.search.constraints import Moment
from transformer.search.continuations import Continuations, likeliest, split
from transformer.search.hypotheses import NEVER, Hypotheses, take
from transformer.tokens import Array


def choose(moment: Moment, tokens: Int[Array, 'B W L'], log_probs: Float[Array, 'B W'], eos_id: int,
           config: SearchConfig) -> tuple[Continuations, Continuations]:
  """Choose group after group, each avoiding the tokens that earlier groups took at this step (Eq. 5).

  Only the choice is changed; log-probabilities stay the model's. Groups may hold the same hypothesis, except at the last
  place but one, since there it has to end, and an output is listed once.

  Args:
    moment: the step, its logits as the rules have left them.
    tokens: the hypotheses.
    log_probs: theirs.
    eos_id: the id of EOS.
    config: how to search.

  Returns:
    (those that go on, those that end), as split() does.
  """
  t, limits, logits, normalizer = moment
  size, taken = config.beam_size // config.groups, jnp.zeros((logits.shape[0], logits.shape[-1]))
  alike = (tokens[:, :, None] == tokens[:, None]).all(-1) & (t + 2 >= limits)[:, None, None]
  going, over = [], []
  for start in range(0, config.beam_size, size):
    part = slice(start, start + size)
    avoiding = logits[:, part] - config.diversity * taken[:, None]
    options = likeliest(Moment(t, limits, avoiding, normalizer[:, part]), log_probs[:, part], eos_id, config.min_length,
                        size + start)
    for earlier in going:
      options = _without(options, earlier, start, alike, eos_id)
    live, ended = split(options, size, eos_id)
    for found, group in ((going, live), (over, ended)):
      cost = config.diversity * jnp.take_along_axis(taken, group.token, axis=1)
      exists = group.total > NEVER
      found.append(group._replace(total=jnp.where(exists, group.total + cost, NEVER), gained=group.gained + cost,
                                  parent=group.parent + start))
    times = jnp.where(live.total > NEVER, 1.0, 0.0)
    taken = taken.at[jnp.arange(taken.shape[0])[:, None], live.token].add(times)
  join = lambda groups: jax.tree.map(lambda *parts: jnp.concatenate(parts, axis=1), *groups)
  return join(going), join(over)


def _without(options: Continuations, earlier: Continuations, start: int, alike: Bool[Array, 'B W W'], eos_id: int
             ) -> Continuations:
  """Return the options of the group that begins at beam `start`, without those that an earlier group goes on with."""
  pairs = jax.vmap(lambda same, own, other: same[own][:, other])(alike, options.parent + start, earlier.parent)
  same = pairs & (options.token[:, :, None] == earlier.token[:, None]) & (earlier.total > NEVER)[:, None]
  return options._replace(total=jnp.where(same.any(-1) & (options.token != eos_id), NEVER, options.total))


def without_repeats(ended: Hypotheses, groups: int) -> Hypotheses:
  """Return the hypotheses that end at one step, without those that another group has ended, too.

  Equal outputs are equally long, so that they end at the same step.
  """
  if groups == 1:
    return ended
  same = (ended.tokens[:, :, None] == ended.tokens[:, None]).all(-1) & ended.found[:, None]  # [B, W, W]
  repeated = (same & jnp.tri(same.shape[1], k=-1, dtype=bool)[None]).any(-1)
  never = lambda values: jnp.where(repeated, NEVER, values)
  return ended._replace(scores=never(ended.scores), log_probs=never(ended.log_probs))


def joined(found: Hypotheses, config: SearchConfig) -> Hypotheses:
  """Return the W outputs of all groups' lists, best first: each group's share, then whatever else was found."""
  width, batch = config.beam_size, found.scores.shape[0]
  place = jnp.arange(found.scores.shape[1]) % (found.scores.shape[1] // config.groups)
  beyond = jnp.broadcast_to(place >= width // config.groups, (batch, place.shape[0]))
  chosen = take(found, jnp.lexsort((-found.scores, beyond | ~found.found), axis=-1)[:, :width])
  return take(chosen, jnp.argsort(-chosen.scores, axis=-1, stable=True))
