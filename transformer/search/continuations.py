"""The choice at each step of a beam search: which hypotheses go on, with which token, and which end."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from transformer.search.constraints import Moment
from transformer.search.hypotheses import NEVER, take
from transformer.search.largest import largest
from transformer.tokens import Array


class Continuations(NamedTuple):
  """Hypotheses with one token more: those of each sentence side by side, or those of each of its hypotheses."""

  total: Float[Array, 'B *W C']  # log-probability
  parent: Int[Array, 'B *W C']  # the beam that the token is added to
  token: Int[Array, 'B *W C']
  gained: Float[Array, 'B *W C']  # the token's log-probability


def likeliest(moment: Moment, log_probs: Float[Array, 'B W'], eos_id: int, min_length: int, going: int
              ) -> Continuations:
  """Find the likeliest continuations of each sentence's hypotheses, enough of them for `going` to go on.

  All work on whole vocabularies is done in `largest`; only among the few continuations that it finds is it checked
  whether a hypothesis must end, or may not yet.

  Args:
    moment: the step, its logits as the rules have left them.
    log_probs: of the hypotheses.
    eos_id: the id of EOS.
    min_length: fewest tokens before EOS.
    going: hypotheses that are to go on.
  """
  t, limits, logits, normalizer = moment
  width = logits.shape[1]
  best, parent, token = largest(logits, log_probs - normalizer, 2 * going + (width if min_length else 0))
  if min_length:  # at most one end of each hypothesis is among them
    best = jnp.where((token == eos_id) & (t < min_length)[:, None], NEVER, best)
  # At its last place a hypothesis may only end.
  place = jnp.arange(best.shape[-1])
  end = jnp.where(place < width, logits[:, place % width, eos_id], NEVER)
  last = (t + 1 >= limits)[:, None]
  best, parent, token = (jnp.where(last, only, some) for only, some in (
      (end, best), (place % width, parent), (eos_id, token)))
  gained = best - jnp.take_along_axis(normalizer, parent, axis=1)
  total = jnp.maximum(jnp.take_along_axis(log_probs, parent, axis=1) + gained, NEVER)
  return Continuations(total, parent, token, gained)


def likeliest_of_each(moment: Moment, log_probs: Float[Array, 'B W'], eos_id: int, min_length: int) -> Continuations:
  """Find the likeliest continuations of each hypothesis, [B, W, C]; arguments as in likeliest()."""
  batch, width = log_probs.shape
  alone = lambda x: x.reshape(batch * width, 1, *x.shape[2:])
  moment = Moment(jnp.repeat(moment.t, width), jnp.repeat(moment.limits, width), alone(moment.logits), alone(moment.normalizer))
  found = likeliest(moment, alone(log_probs), eos_id, min_length, width)
  found = jax.tree.map(lambda x: x.reshape(batch, width, -1), found)
  return found._replace(parent=jnp.broadcast_to(jnp.arange(width)[None, :, None], found.token.shape))


def split(options: Continuations, width: int, eos_id: int) -> tuple[Continuations, Continuations]:
  """Divide the continuations of each sentence into the `width` best that go on, and those that end.

  A hypothesis ends when EOS is among the `width` best continuations of its sentence.

  Returns:
    (those that go on, those that end), each [B, width], with NEVER as the total of one that does not exist.
  """
  total, order = jax.lax.top_k(options.total, 2 * width)
  best = take(options, order)
  ended = best.token == eos_id
  over = jax.tree.map(lambda x: x[:, :width], best)
  over = over._replace(total=jnp.where(ended[:, :width], over.total, NEVER))
  total, order = jax.lax.top_k(jnp.where(ended, NEVER, total), width)
  return take(best, order)._replace(total=total), over
