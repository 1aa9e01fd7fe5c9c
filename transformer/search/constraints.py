"""What an output must or must not contain, as rules that a search follows step by step.

A rule sees the logits of the next token and forbids: it puts NEVER where a token may not follow. The cost of a token
stays the model's own log-probability; a rule neither adds to it nor takes from it. The state of a rule belongs to
hypotheses, so a search moves it with them.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int, PyTree

from transformer.search.hypotheses import NEVER
from transformer.tokens import AnyArray, Array

NO_TOKEN = -1  # fills the places of shorter phrases


class Moment(NamedTuple):
  """The model's output at one step of a search, as rules see it."""

  t: Int[Array, '']  # tokens written so far
  limits: Int[AnyArray, ' B']  # longest outputs, EOS included
  logits: Float[Array, 'B W V']  # of the next token, as the rules before have left them
  normalizer: Float[Array, 'B W']  # log-probability = the model's logit - normalizer


class Progress(NamedTuple):
  """How far hypotheses are on the way to what a rule requires; see allocation."""

  propose: Callable[[PyTree], Int[Array, 'B W P']]  # (state) -> tokens to consider, or NO_TOKEN
  after: Callable[[PyTree, Int[Array, 'B W C']], Int[Array, 'B W C']]  # (state, tokens) -> progress with each of them
  goal: Int[Array, ' B']  # the progress of a finished output


class Rule(NamedTuple):
  """A constraint: a state for each hypothesis, and functions of it."""

  state: PyTree  # leaves [B, W, ...]
  limit: Callable[[PyTree, Moment], Float[Array, 'B W V']]  # -> the logits, NEVER where forbidden
  advance: Callable[[PyTree, Int[Array, 'B W']], PyTree]  # (state, chosen tokens) -> state
  progress: Progress | None = None  # of rules whose hypotheses of every progress have to survive, see required


def obey(rules: Sequence[Rule], states: Sequence[PyTree], moment: Moment) -> Moment:
  """Return the moment with the logits that all rules leave."""
  for rule, state in zip(rules, states):
    moment = moment._replace(logits=rule.limit(state, moment))
  return moment


def _put_never(logits: Float[Array, 'B W V'], tokens: Int[Array, 'B W P']) -> Float[Array, 'B W V']:
  """Return `logits` with NEVER at `tokens`; NO_TOKEN is none."""
  rows, beams = jnp.arange(logits.shape[0])[:, None, None], jnp.arange(logits.shape[1])[None, :, None]
  place = jnp.where(tokens == NO_TOKEN, logits.shape[-1], tokens)  # beyond the end: dropped
  return logits.at[rows, beams, place].set(NEVER, mode='drop')


def prefix(words: Int[Array, 'B P'], lengths: Int[Array, ' B']) -> Rule:
  """Make every output begin with its sentence's prefix, which costs nothing: its tokens have log-probability 0.

  The prefix counts in lengths, and so in limits, which have to be larger than it.

  Args:
    words: the prefixes; entries at `lengths` or beyond are not read.
    lengths: tokens of each prefix; 0 forces nothing.
  """
  def limit(state: PyTree, moment: Moment) -> Float[Array, 'B W V']:
    place = jnp.minimum(moment.t, words.shape[1] - 1)
    wanted = words[:, place][:, None, None] == jnp.arange(moment.logits.shape[-1])[None, None]
    lasts = (moment.t < lengths)[:, None, None]
    return jnp.where(lasts, jnp.where(wanted, moment.normalizer[..., None], NEVER), moment.logits)

  return Rule((), limit, lambda state, tokens: state)  # all hypotheses have the same prefix


def forbidden(phrases: Int[Array, 'B P E'], beams: int) -> Rule:
  """Keep every output free of some phrases: the last token of a phrase may not follow the others.

  Args:
    phrases: of each sentence, each at the right end with NO_TOKEN in front; a phrase of NO_TOKEN alone is none.
    beams: W.
  """
  batch, _, longest = phrases.shape
  heads, lasts = phrases[:, None, :, :-1], phrases[:, :, -1]

  def limit(recent: Int[Array, 'B W R'], moment: Moment) -> Float[Array, 'B W V']:
    complete = ((heads == recent[:, :, None]) | (heads == NO_TOKEN)).all(-1)  # [B, W, P]
    return _put_never(moment.logits, jnp.where(complete, lasts[:, None], NO_TOKEN))

  return Rule(jnp.full((batch, beams, longest - 1), NO_TOKEN - 1, jnp.int32), limit,
              lambda recent, tokens: jnp.concatenate([recent, tokens[..., None]], axis=-1)[..., 1:])


def required(phrases: Int[Array, 'B P E'], beams: int, eos_id: int) -> Rule:
  """Make every output contain some phrases: constrained search by dynamic beam allocation (Post & Vilar, 2018).

  A hypothesis counts the tokens of each phrase that it has written. It may leave a phrase half-way, and then has to
  begin it again. It may end when all phrases are complete, and is forced to write them when the places left are just
  enough; limits have to hold them all and EOS. The search keeps hypotheses of every number of tokens met (allocation).

  Args:
    phrases: of each sentence, each at the left end with NO_TOKEN behind; a phrase of NO_TOKEN alone is none.
    beams: W.
    eos_id: the id of EOS.
  """
  batch, count, _ = phrases.shape
  sizes = (phrases != NO_TOKEN).sum(-1)[:, None]  # [B, 1, P]

  def following(met: Int[Array, 'B W P']) -> Int[Array, 'B W P']:
    """Return the next token of each phrase that may go on: of the one half-way, or of each not begun."""
    half = (met > 0) & (met < sizes)
    place = jnp.minimum(met, phrases.shape[2] - 1)
    after = jnp.take_along_axis(jnp.broadcast_to(phrases[:, None], (*met.shape, phrases.shape[2])), place[..., None],
                                axis=-1)[..., 0]
    return jnp.where((met < sizes) & (half | ~half.any(-1, keepdims=True)), after, NO_TOKEN)

  def step(met: Int[Array, 'B W P'], token: Int[Array, 'B W']) -> Int[Array, 'B W P']:
    """Return the tokens met of each phrase after one token more."""
    half = (met > 0) & (met < sizes)
    goes_on = half & (following(met) == token[..., None])
    dropped = jnp.where(half & ~goes_on, 0, met)
    begins = (dropped == 0) & (sizes > 0) & (phrases[:, None, :, 0] == token[..., None])
    begins &= ~goes_on.any(-1, keepdims=True)
    begins &= jnp.cumsum(begins, axis=-1) == 1  # one phrase at a time
    return dropped + goes_on + begins

  def limit(met: Int[Array, 'B W P'], moment: Moment) -> Float[Array, 'B W V']:
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

  def progress(met: Int[Array, 'B W P'], tokens: Int[Array, 'B W C']) -> Int[Array, 'B W C']:
    after = jax.vmap(step, in_axes=(None, 2), out_axes=2)(met, tokens)
    return after.sum(-1)

  return Rule(jnp.zeros((batch, beams, count), jnp.int32), limit, step, Progress(following, progress, sizes.sum((1, 2))))
