"""What an output must or must not contain, as rules that a search obeys step by step.

A rule sees the logits of the next token, and forbids: it puts NEVER where a token may not follow. What a token costs
stays the model's own log-probability; a rule takes nothing off it and adds nothing. The rule's state belongs to
hypotheses, so a search moves it with them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

NEVER = jnp.finfo(jnp.float32).min  # the logit of what may not be, the score of a hypothesis that does not exist
NO_TOKEN = -1  # fills phrases up


class Moment(NamedTuple):
  """Where a search stands when it asks its rules."""

  t: jax.Array  # [] int32: tokens written so far
  limits: jax.Array  # [B] int32: longest outputs, EOS included
  logits: jax.Array  # [B, W, V] of the next token, as the rules before have left them
  normalizer: jax.Array  # [B, W]: log-probability = the model's logit - normalizer


class Rule(NamedTuple):
  """A state and what is made of it; see the file's head."""

  state: Any  # leaves [B, W, ...]
  limit: Callable[[Any, Moment], jax.Array]  # -> logits [B, W, V]
  advance: Callable[[Any, jax.Array], Any]  # (state, chosen tokens [B, W]) -> state
  # A rule that wants hypotheses of every progress to survive (see required) has these two as well.
  propose: Callable[[Any], jax.Array] | None = None  # (state) -> tokens [B, W, P] to consider, NO_TOKEN where none
  progress: Callable[[Any, jax.Array], jax.Array] | None = None  # (state, tokens [B, W, N]) -> [B, W, N] after them
  goal: jax.Array | None = None  # [B] the progress that is wanted


def _put_never(logits: jax.Array, tokens: jax.Array) -> jax.Array:
  """`logits` [B, W, V] with NEVER at tokens [B, W, N]; NO_TOKEN is none."""
  rows, beams = jnp.arange(logits.shape[0])[:, None, None], jnp.arange(logits.shape[1])[None, :, None]
  place = jnp.where(tokens == NO_TOKEN, logits.shape[-1], tokens)  # beyond the end: dropped
  return logits.at[rows, beams, place].set(NEVER, mode='drop')


def prefix(words: jax.Array, lengths: jax.Array) -> Rule:
  """Every output begins with its sentence's prefix, which costs nothing: its tokens have log-probability 0.

  The prefix counts in lengths, and so in limits, which have to be larger than it.

  Args:
    words: [B, P] int32; what stands at `lengths` or beyond is not read.
    lengths: [B] int32; 0 forces nothing.
  """
  def limit(state, moment: Moment) -> jax.Array:
    place = jnp.minimum(moment.t, words.shape[1] - 1)
    wanted = words[:, place][:, None, None] == jnp.arange(moment.logits.shape[-1])[None, None]
    lasts = (moment.t < lengths)[:, None, None]
    return jnp.where(lasts, jnp.where(wanted, moment.normalizer[..., None], NEVER), moment.logits)

  return Rule((), limit, lambda state, tokens: state)  # all hypotheses are held to the same


def forbidden(phrases: jax.Array, beams: int) -> Rule:
  """No output contains a phrase: its last token may not follow the others.

  Args:
    phrases: [B, P, N] int32, each laid to the right with NO_TOKEN in front; a phrase of NO_TOKEN alone is none.
    beams: W.
  """
  batch, _, longest = phrases.shape
  heads, lasts = phrases[:, None, :, :-1], phrases[:, :, -1]

  def limit(recent: jax.Array, moment: Moment) -> jax.Array:
    complete = ((heads == recent[:, :, None]) | (heads == NO_TOKEN)).all(-1)  # [B, W, P]
    return _put_never(moment.logits, jnp.where(complete, lasts[:, None], NO_TOKEN))

  return Rule(jnp.full((batch, beams, longest - 1), NO_TOKEN - 1, jnp.int32), limit,
              lambda recent, tokens: jnp.concatenate([recent, tokens[..., None]], axis=-1)[..., 1:])


def required(phrases: jax.Array, beams: int, eos_id: int) -> Rule:
  """Every output contains each phrase: constrained search by dynamic beam allocation (Post & Vilar, 2018).

  A hypothesis counts the tokens of each phrase that it has written. It may leave a phrase half-way, and then has to
  begin it again. It may end when all are complete, and is made to write them when the places left are just enough;
  limits have to hold them all and EOS. The search keeps hypotheses of every number of tokens met alive.

  Args:
    phrases: [B, P, N] int32, each laid to the left with NO_TOKEN behind; a phrase of NO_TOKEN alone is none.
    beams: W.
    eos_id: id.
  """
  batch, count, _ = phrases.shape
  sizes = (phrases != NO_TOKEN).sum(-1)[:, None]  # [B, 1, P]

  def following(met: jax.Array) -> jax.Array:
    """[B, W, P] the next token of each phrase that may go on: of the one half-way, of each not begun."""
    half = (met > 0) & (met < sizes)
    place = jnp.minimum(met, phrases.shape[2] - 1)
    after = jnp.take_along_axis(jnp.broadcast_to(phrases[:, None], (*met.shape, phrases.shape[2])), place[..., None],
                                axis=-1)[..., 0]
    return jnp.where((met < sizes) & (half | ~half.any(-1, keepdims=True)), after, NO_TOKEN)

  def step(met: jax.Array, token: jax.Array) -> jax.Array:
    """met [..., P] after a token [...] more."""
    half = (met > 0) & (met < sizes)
    goes_on = half & (following(met) == token[..., None])
    dropped = jnp.where(half & ~goes_on, 0, met)
    begins = (dropped == 0) & (sizes > 0) & (phrases[:, None, :, 0] == token[..., None]) & ~goes_on.any(-1, keepdims=True)
    begins &= jnp.cumsum(begins, axis=-1) == 1  # one phrase at a time
    return dropped + goes_on + begins

  def limit(met: jax.Array, moment: Moment) -> jax.Array:
    half = jnp.where((met > 0) & (met < sizes), met, 0).sum(-1)
    missing = (sizes - met).sum(-1)
    spare = moment.limits[:, None] - 1 - moment.t - missing
    forced = (missing > 0) & (spare < 1 + half)  # leaving a phrase costs what is written of it, and one place
    restarts = (met < sizes) & (spare >= half)[..., None]  # beginning again costs what is written of it alone
    restarts = jnp.where(restarts, phrases[:, None, :, 0], NO_TOKEN)
    vocabulary = jnp.arange(moment.logits.shape[-1])
    wanted = (jnp.concatenate([following(met), restarts], -1)[..., None] == vocabulary[None, None, None]).any(2)
    allowed = jnp.where(forced[..., None], wanted, (missing == 0)[..., None] | (vocabulary != eos_id)[None, None])
    return jnp.where(allowed, moment.logits, NEVER)

  def progress(met: jax.Array, tokens: jax.Array) -> jax.Array:
    after = jax.vmap(step, in_axes=(None, 2), out_axes=2)(met, tokens)
    return after.sum(-1)

  return Rule(jnp.zeros((batch, beams, count), jnp.int32), limit, step, following, progress,
              sizes.sum((1, 2)))
