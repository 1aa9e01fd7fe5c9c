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

  t: Int[Array, ' B']  # tokens written so far
  limits: Int[AnyArray, ' B']  # longest outputs, EOS included
  logits: Float[Array, 'B W V']  # of the next token, as the rules before have left them
  normalizer: Float[Array, 'B W']  # log-probability = the model's logit - normalizer


class Progress(NamedTuple):
  """How far hypotheses are on the way to what a rule requires; see allocation. `known` and `state` are as in Rule."""

  propose: Callable[[PyTree, PyTree], Int[Array, 'B W P']]  # (known, state) -> tokens to consider, or NO_TOKEN
  # (known, state, tokens) -> the progress with each of them
  after: Callable[[PyTree, PyTree, Int[Array, 'B W C']], Int[Array, 'B W C']]
  goal: Callable[[PyTree], Int[Array, ' B']]  # (known) -> the progress of a finished output


class Rule(NamedTuple):
  """A constraint, as functions of what is `known` of each sentence and of a `state` of each hypothesis.

  Functions read no other array with rows: a row may be given to another sentence.
  """

  start: Callable[[PyTree, int], PyTree]  # (known, beams W) -> the state before the first token, leaves [B, W, ...]
  limit: Callable[[PyTree, PyTree, Moment], Float[Array, 'B W V']]  # (known, state, moment) -> logits, NEVER: forbidden
  advance: Callable[[PyTree, PyTree, Int[Array, 'B W']], PyTree]  # (known, state, chosen tokens) -> state
  progress: Progress | None = None  # of rules whose hypotheses of every progress have to survive, see required


def begun(rules: Sequence[Rule], known: Sequence[PyTree], beams: int) -> tuple[PyTree, ...]:
  """Return the states of all rules before the first token; `known` has an entry for each rule."""
  return tuple(rule.start(own, beams) for rule, own in zip(rules, known, strict=True))


def obey(rules: Sequence[Rule], known: Sequence[PyTree], states: Sequence[PyTree], moment: Moment) -> Moment:
  """Return the moment with the logits that all rules leave."""
  for rule, own, state in zip(rules, known, states, strict=True):
    moment = moment._replace(logits=rule.limit(own, state, moment))
  return moment


def advanced(rules: Sequence[Rule], known: Sequence[PyTree], states: Sequence[PyTree], tokens: Int[Array, 'B W']
             ) -> tuple[PyTree, ...]:
  """Return the states of all rules after one token more."""
  return tuple(rule.advance(own, state, tokens) for rule, own, state in zip(rules, known, states, strict=True))


def _put_never(logits: Float[Array, 'B W V'], tokens: Int[Array, 'B W P']) -> Float[Array, 'B W V']:
  """Return `logits` with NEVER at `tokens`; NO_TOKEN is none."""
  rows, beams = jnp.arange(logits.shape[0])[:, None, None], jnp.arange(logits.shape[1])[None, :, None]
  place = jnp.where(tokens == NO_TOKEN, logits.shape[-1], tokens)  # beyond the end: dropped
  return logits.at[rows, beams, place].set(NEVER, mode='drop')


class Prefix(NamedTuple):
  """What the outputs of sentences begin with."""

  words: Int[AnyArray, 'B P']  # entries at `lengths` or beyond are not read
  lengths: Int[AnyArray, ' B']  # tokens; 0 forces nothing


def prefix() -> Rule:
  """Make every output begin with its sentence's Prefix, which costs nothing: its tokens have log-probability 0.

  The prefix counts in lengths, and so in limits, which have to be larger than it.
  """
  def limit(known: Prefix, state: PyTree, moment: Moment) -> Float[Array, 'B W V']:
    place = jnp.minimum(moment.t, known.words.shape[1] - 1)
    word = jnp.take_along_axis(known.words, place[:, None], axis=1)[..., None]
    wanted = word == jnp.arange(moment.logits.shape[-1])[None, None]
    lasts = (moment.t < known.lengths)[:, None, None]
    return jnp.where(lasts, jnp.where(wanted, moment.normalizer[..., None], NEVER), moment.logits)

  return Rule(lambda known, beams: (), limit, lambda known, state, tokens: state)  # all hypotheses have the same prefix


def forbidden() -> Rule:
  """Keep every output free of some phrases: the last token of a phrase may not follow the others.

  What is known are the phrases, [B, P, E], each at the right end with NO_TOKEN in front; NO_TOKEN alone is none.
  """
  def start(phrases: Int[Array, 'B P E'], beams: int) -> Int[Array, 'B W R']:
    return jnp.full((phrases.shape[0], beams, phrases.shape[2] - 1), NO_TOKEN - 1, jnp.int32)

  def limit(phrases: Int[Array, 'B P E'], recent: Int[Array, 'B W R'], moment: Moment) -> Float[Array, 'B W V']:
    heads, lasts = phrases[:, None, :, :-1], phrases[:, :, -1]
    complete = ((heads == recent[:, :, None]) | (heads == NO_TOKEN)).all(-1)  # [B, W, P]
    return _put_never(moment.logits, jnp.where(complete, lasts[:, None], NO_TOKEN))

  return Rule(start, limit, lambda known, recent, tokens: jnp.concatenate([recent, tokens[..., None]], -1)[..., 1:])


def required(eos_id: int) -> Rule:
  """Make every output contain some phrases: constrained search by dynamic beam allocation (Post & Vilar, 2018).

  A hypothesis counts the tokens of each phrase that it has written. It may leave a phrase half-way, and then has to
  begin it again. It may end when all phrases are complete, and is forced to write them when the places left are just
  enough; limits have to hold them all and EOS. The search keeps hypotheses of every number of tokens met (allocation).

  What is known are the phrases, [B, P, E], each at the left end with NO_TOKEN behind; NO_TOKEN alone is none.
  """
  sizes_of = lambda phrases: (phrases != NO_TOKEN).sum(-1)[:, None]  # [B, 1, P]

  def following(phrases: Int[Array, 'B P E'], met: Int[Array, 'B W P']) -> Int[Array, 'B W P']:
    """Return the next token of each phrase that may go on: of the one half-way, or of each not begun."""
    sizes = sizes_of(phrases)
    half = (met > 0) & (met < sizes)
    place = jnp.minimum(met, phrases.shape[2] - 1)
    after = jnp.take_along_axis(jnp.broadcast_to(phrases[:, None], (*met.shape, phrases.shape[2])), place[..., None],
                                axis=-1)[..., 0]
    return jnp.where((met < sizes) & (half | ~half.any(-1, keepdims=True)), after, NO_TOKEN)

  def step(phrases: Int[Array, 'B P E'], met: Int[Array, 'B W P'], token: Int[Array, 'B W']) -> Int[Array, 'B W P']:
    """Return the tokens met of each phrase after one token more."""
    sizes = sizes_of(phrases)
    half = (met > 0) & (met < sizes)
    goes_on = half & (following(phrases, met) == token[..., None])
    dropped = jnp.where(half & ~goes_on, 0, met)
    begins = (dropped == 0) & (sizes > 0) & (phrases[:, None, :, 0] == token[..., None])
    begins &= ~goes_on.any(-1, keepdims=True)
    begins &= jnp.cumsum(begins, axis=-1) == 1  # one phrase at a time
    return dropped + goes_on + begins

  def limit(phrases: Int[Array, 'B P E'], met: Int[Array, 'B W P'], moment: Moment) -> Float[Array, 'B W V']:
    sizes = sizes_of(phrases)
    half = jnp.where((met > 0) & (met < sizes), met, 0).sum(-1)
    missing = (sizes - met).sum(-1)
    spare = (moment.limits - 1 - moment.t)[:, None] - missing
    forced = (missing > 0) & (spare < 1 + half)  # leaving a phrase costs what is written of it, and one place
    restarts = (met < sizes) & (spare >= half)[..., None]  # beginning again costs what is written of it alone
    restarts = jnp.where(restarts, phrases[:, None, :, 0], NO_TOKEN)
    vocabulary = jnp.arange(moment.logits.shape[-1])
    wanted = (jnp.concatenate([following(phrases, met), restarts], -1)[..., None] == vocabulary[None, None, None]).any(2)
    allowed = jnp.where(forced[..., None], wanted, (missing == 0)[..., None] | (vocabulary != eos_id)[None, None])
    return jnp.where(allowed, moment.logits, NEVER)

  def progress(phrases: Int[Array, 'B P E'], met: Int[Array, 'B W P'], tokens: Int[Array, 'B W C']
               ) -> Int[Array, 'B W C']:
    return jax.vmap(lambda token: step(phrases, met, token), in_axes=2, out_axes=2)(tokens).sum(-1)

  def start(phrases: Int[Array, 'B P E'], beams: int) -> Int[Array, 'B W P']:
    return jnp.zeros((phrases.shape[0], beams, phrases.shape[1]), jnp.int32)

  return Rule(start, limit, step, Progress(following, progress, lambda phrases: sizes_of(phrases).sum((1, 2))))
