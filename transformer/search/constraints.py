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

from transformer.search.automaton import NO_TOKEN, START, Automaton
from transformer.search.hypotheses import NEVER, take
from transformer.tokens import AnyArray, Array


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
  progress: Progress | None = None  # of rules whose hypotheses of every progress have to survive, see phrases


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


def phrases(eos_id: int, are_required: bool) -> Rule:
  """Make every output contain its sentence's required phrases and none of its forbidden ones.

  What is known is the Automaton of the sentences. A token is forbidden when the phrases could not be kept to after it
  within the limit, and EOS until all required phrases are written. So a hypothesis always has a token left, provided
  that its sentence can be completed at all (automaton.shortest is at most the limit) and that some token occurs in no
  phrase.

  Args:
    eos_id: the id of EOS, which no phrase contains.
    are_required: whether any phrase is. If so, the search keeps hypotheses of every number of their tokens written
      (dynamic beam allocation, Post & Vilar, 2018).
  """
  def limit(known: Automaton, state: Int[Array, 'B W'], moment: Moment) -> Float[Array, 'B W V']:
    left = (moment.limits - moment.t - 1)[:, None, None]  # places after this token
    fits = _entries(known.need, take(known.next, state)) <= left  # [B, W, X]
    may_end = take(known.need, state) == 1
    listed = jnp.broadcast_to(known.tokens[:, None], fits[..., 1:].shape)
    kept = jnp.take_along_axis(moment.logits, jnp.maximum(listed, 0), axis=-1)
    logits = jnp.where(fits[..., :1], moment.logits, NEVER)
    logits = _put(logits, listed, jnp.where(fits[..., 1:], kept, NEVER))
    return logits.at[..., eos_id].set(jnp.where(may_end, moment.logits[..., eos_id], NEVER))

  progress = Progress(lambda known, state: take(known.proposed, state),
                      lambda known, state, tokens: _entries(known.progress, _after(known, state, tokens)),
                      lambda known: known.goal)
  return Rule(lambda known, beams: jnp.full((known.goal.shape[0], beams), START, jnp.int32), limit,
              lambda known, state, tokens: _after(known, state, tokens[..., None])[..., 0],
              progress if are_required else None)


class Repeatable(NamedTuple):
  """What no_repeat_ngram has to know of sentences."""

  limits: Int[AnyArray, ' B']
  phrases: Automaton | None  # of the rule phrases, if there is one


def no_repeat_ngram(size: int, length: int, eos_id: int, min_length: int) -> Rule:
  """Forbid to write the same `size` tokens in a row twice in one output, what it begins with included.

  What is known is Repeatable. Wishes go first, so this has to be the last of the rules. A repetition is allowed where
  no other token is: where the places left are just enough for required phrases. And a required phrase that is not
  written yet may be written to its end although a part of it stands elsewhere ("New York Times" after "New
  York").

  Args:
    size: tokens of an n-gram, at least 1.
    length: L, of the longest output.
    eos_id: the id of EOS.
    min_length: fewest tokens before EOS.
  """
  def start(known: Repeatable, beams: int) -> PyTree:
    nothing = jnp.full((known.limits.shape[0], beams, max(length, size)), NO_TOKEN, jnp.int32)
    return nothing, None if known.phrases is None else jnp.full(nothing.shape[:2], START, jnp.int32)

  def limit(known: Repeatable, state: PyTree, moment: Moment) -> Float[Array, 'B W V']:
    text, written = state
    starts = text.shape[-1] - size + 1  # n-grams among the places of `text`
    repeated = jnp.ones((*text.shape[:2], starts), bool)
    for place in range(size - 1):
      repeated &= text[..., place:place + starts] == text[..., starts + place, None]
    banned = jnp.where(repeated, text[..., size - 1:], NO_TOKEN)
    if known.phrases is not None:
      going_on = (take(known.phrases.begun, written) >= size - 1)[..., None]
      needed = jnp.where(going_on, take(known.phrases.proposed, written), NO_TOKEN)
      banned = jnp.where((banned[..., None] == needed[:, :, None]).any(-1), NO_TOKEN, banned)
    logits = _put(moment.logits, banned, jnp.full(banned.shape, NEVER))
    too_early = (moment.t < min_length)[:, None, None] & (jnp.arange(logits.shape[-1]) == eos_id)[None, None]
    some_left = (jnp.where(too_early, NEVER, logits) > NEVER).any(-1, keepdims=True)
    return jnp.where(some_left, logits, moment.logits)

  def advance(known: Repeatable, state: PyTree, tokens: Int[Array, 'B W']) -> PyTree:
    text, written = state
    text = jnp.concatenate([text[..., 1:], tokens[..., None]], axis=-1)  # the newest comes last
    return text, None if known.phrases is None else _after(known.phrases, written, tokens[..., None])[..., 0]

  return Rule(start, limit, advance)


def _after(known: Automaton, state: Int[Array, 'B W'], tokens: Int[Array, 'B W C']) -> Int[Array, 'B W C']:
  """Return the state after each of some tokens."""
  same = tokens[..., None] == known.tokens[:, None, None]
  column = jnp.where(same.any(-1), 1 + same.argmax(-1), 0)
  return jnp.take_along_axis(take(known.next, state), column, axis=-1).astype(jnp.int32)


def _entries(rows: Int[AnyArray, 'B Z'], index: Int[AnyArray, 'B W C']) -> Int[Array, 'B W C']:
  """Return the entries of each sentence's row at an index."""
  return jax.vmap(lambda row, chosen: row[chosen])(rows, index)


def _put(logits: Float[Array, 'B W V'], tokens: Int[Array, 'B W P'], values: Float[Array, 'B W P']
         ) -> Float[Array, 'B W V']:
  """Return `logits` with other values at `tokens`; NO_TOKEN is none."""
  rows, beams = jnp.arange(logits.shape[0])[:, None, None], jnp.arange(logits.shape[1])[None, :, None]
  place = jnp.where(tokens == NO_TOKEN, logits.shape[-1], tokens)  # beyond the end: dropped
  return logits.at[rows, beams, place].set(values, mode='drop')
