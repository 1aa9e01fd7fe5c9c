"""Greedy and beam search (§6.1), diverse beams and sampling, over any step function. Knows no model: a step function and
its cache are enough.

A step function takes (cache, tokens [B, W]) and returns (logits [B, W, V] float32, cache). The cache is a NamedTuple
whose field `beams` holds the leaves [B, W, ...] that belong to hypotheses; those are reordered here, nothing else is.
Every output ends in EOS: at its last allowed place a hypothesis may only end. Rules (search_rules) say what else an
output must or must not contain.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from transformer.config import SearchConfig
from transformer.search_rules import NEVER, NO_TOKEN, Moment, Rule

Step = Callable[[Any, jax.Array], tuple[jax.Array, Any]]


class Hypotheses(NamedTuple):
  """Finished translations, best first."""

  tokens: jax.Array  # [B, W, L] int32, filler after EOS
  scores: jax.Array  # [B, W] log-probability / length penalty (+ coverage penalty); NEVER where fewer were found
  log_probs: jax.Array  # [B, W] natural logarithms, EOS included
  lengths: jax.Array  # [B, W] tokens, EOS included
  token_log_probs: jax.Array  # [B, W, L] of each token, 0 after EOS


class _Beam(NamedTuple):
  """What moves while searching. t counts tokens written."""

  t: jax.Array  # []
  cache: Any
  last: jax.Array  # [B, W] newest token of each live hypothesis
  tokens: jax.Array  # [B, W, L] live hypotheses
  token_log_probs: jax.Array  # [B, W, L]
  log_probs: jax.Array  # [B, W] their log-probabilities, best first in each group
  states: tuple[Any, ...]  # of the rules
  found: Hypotheses
  done: jax.Array  # [B] the n_best of `found` are certain


class _Walk(NamedTuple):
  """What moves while one hypothesis per sentence is written."""

  t: jax.Array  # []
  cache: Any
  last: jax.Array  # [B, 1]
  tokens: jax.Array  # [B, 1, L]
  token_log_probs: jax.Array  # [B, 1, L]
  ends: jax.Array  # [B, 1] length once it has ended, else 0
  states: tuple[Any, ...]  # of the rules


class Growth(NamedTuple):
  """A cache that begins short: few outputs are as long as they may be, and each step looks at all of the cache."""

  length: int  # places of the cache that a search begins with
  grow: Callable[[Any, int], Any]  # (cache, places) -> a longer cache


class _Continuations(NamedTuple):
  """Hypotheses with one token more, of one sentence side by side."""

  total: jax.Array  # [B, N] log-probability
  parent: jax.Array  # [B, N] the beam that goes on
  token: jax.Array  # [B, N]
  gained: jax.Array  # [B, N] the token's log-probability


def length_penalty(length: jax.Array, config: SearchConfig) -> jax.Array:
  """What a log-probability is divided by; lengths count EOS.

    gnmt    ((5 + |y|) / 6)^alpha     Wu et al., 2016, Eq. 14; the paper's, with alpha 0.6
    length  |y|^alpha
    none    1
  """
  length = jnp.asarray(length, jnp.float32)
  if config.length_penalty == 'gnmt':
    return ((5.0 + length) / 6.0) ** config.alpha
  return length**config.alpha if config.length_penalty == 'length' else jnp.ones_like(length)


NOISE = 2e-5  # what the arithmetic of another machine or batch size may add to a score
_FEW = 1024  # entries that one sort is quick at
_GROUP = 32  # about so many entries are looked at together


def largest(scores: jax.Array, offsets: jax.Array, count: int) -> tuple[jax.Array, jax.Array, jax.Array]:
  """The `count` largest of scores [B, W, V] + offsets [B, W] in each row B: jax.lax.top_k, in two stages for many entries.

  The entries of a beam are laid in groups. The groups with the largest maxima hold the largest entries, so the second
  stage sorts those alone. Among equal entries either may be taken.

  Returns:
    Of each, [B, count], largest first: its score without offset, its place in W and its place in V.
  """
  (batch, beams, entries), wanted = scores.shape, min(count, scores.shape[1] * scores.shape[2])
  size = _group_size(entries)
  groups = -(-entries // size)
  if beams * entries <= _FEW or wanted > beams * groups // 4:
    _, place = jax.lax.top_k((scores + offsets[..., None]).reshape(batch, -1), wanted)
    beam, token = place // entries, place % entries
  else:
    padding = ((0, 0), (0, 0), (0, groups * size - entries))
    grouped = jnp.pad(scores, padding, constant_values=-jnp.inf).reshape(batch, beams, groups, size)
    _, chosen = jax.lax.top_k((grouped.max(-1) + offsets[..., None]).reshape(batch, -1), wanted)  # [B, wanted]
    inside = jnp.take_along_axis(grouped.reshape(batch, -1, size), chosen[..., None], axis=1)
    inside += jnp.take_along_axis(offsets, chosen // groups, axis=1)[..., None]
    _, place = jax.lax.top_k(inside.reshape(batch, -1), wanted)
    chosen = jnp.take_along_axis(chosen, place // size, axis=1)
    beam, token = chosen // groups, chosen % groups * size + place % size
  return jnp.take_along_axis(scores.reshape(batch, -1), beam * entries + token, axis=1), beam, token


def _group_size(entries: int) -> int:
  """From half to twice _GROUP, that which leaves the fewest places empty: where it is none, nothing is padded."""
  return min(range(_GROUP // 2, 2 * _GROUP + 1), key=lambda size: (-entries % size, abs(size - _GROUP)))


def _take(tree: Any, index: jax.Array) -> Any:
  """Rows of axis 1 by index [B, W'], in every leaf."""
  return jax.tree.map(lambda x: jax.vmap(lambda row, chosen: row[chosen])(x, index), tree)


def _write(rows: jax.Array, values: jax.Array, t: jax.Array) -> jax.Array:
  """rows [B, W, L] with values [B, W] at place t."""
  return jax.lax.dynamic_update_slice_in_dim(rows, values[:, :, None].astype(rows.dtype), t, axis=2)


def _in_stages(state: Any, advance: Callable, going_on: Callable, length: int, growth: Growth | None) -> Any:
  """The state after all steps, its cache left out; the cache grows when, and only if, its first places are full."""
  run = lambda state, places: jax.lax.while_loop(lambda s: (s.t < places) & going_on(s), advance, state)
  without_cache = lambda state: state._replace(cache=())
  if growth is None or growth.length >= length:
    return without_cache(run(state, length))
  rest = lambda state: without_cache(run(state._replace(cache=growth.grow(state.cache, length)), length))
  state = run(state, growth.length)
  return jax.lax.cond(going_on(state), rest, without_cache, state)


def _obey(rules: Sequence[Rule], states: Sequence[Any], moment: Moment) -> jax.Array:
  """The logits that all rules leave."""
  for rule, state in zip(rules, states):
    moment = moment._replace(logits=rule.limit(state, moment))
  return moment.logits


def _end(logits: jax.Array, t: jax.Array, limits: jax.Array, eos_id: int, config: SearchConfig) -> jax.Array:
  """Leaves EOS alone possible where a sentence has reached its last place, and everything else before min_length."""
  is_eos = (jnp.arange(logits.shape[-1]) == eos_id)[None, None]
  last = (t + 1 >= limits)[:, None, None]
  return jnp.where(jnp.where(last, ~is_eos, is_eos & (t < config.min_length)), NEVER, logits)


# ------------------------------------------------------------------------------------------- one hypothesis a sentence


def _walk(step: Step, cache: Any, limits: jax.Array, length: int, bos_id: int, eos_id: int, filler: int,
          config: SearchConfig, rules: Sequence[Rule], growth: Growth | None,
          choose: Callable[[jax.Array, jax.Array], jax.Array]) -> Hypotheses:
  """One hypothesis per sentence, its tokens chosen one by one: choose(logits [B, 1, V], place []) -> [B, 1]."""
  batch = limits.shape[0]

  def advance(state: _Walk) -> _Walk:
    t = state.t
    logits, cache = step(state.cache, state.last)
    normalizer = jax.nn.logsumexp(logits, axis=-1)  # before anything is forbidden: a forced end has its price too
    logits = _end(_obey(rules, state.states, Moment(t, limits, logits, normalizer)), t, limits, eos_id, config)
    chosen = choose(logits, t).astype(jnp.int32)
    gained = jnp.take_along_axis(logits, chosen[..., None], axis=-1)[..., 0] - normalizer
    states = tuple(rule.advance(moved, chosen) for rule, moved in zip(rules, state.states))
    alive = state.ends == 0
    chosen = jnp.where(alive, chosen, filler)
    ends = jnp.where(alive & (chosen == eos_id), t + 1, state.ends)
    gains = _write(state.token_log_probs, jnp.where(alive, gained, 0.0), t)
    return _Walk(t + 1, cache, chosen, _write(state.tokens, chosen, t), gains, ends, states)

  start = _Walk(jnp.zeros((), jnp.int32), cache, jnp.full((batch, 1), bos_id, jnp.int32),
                jnp.full((batch, 1, length), filler, jnp.int32), jnp.zeros((batch, 1, length)),
                jnp.zeros((batch, 1), jnp.int32), tuple(rule.state for rule in rules))
  end = _in_stages(start, advance, lambda state: (state.ends == 0).any(), length, growth)
  log_probs = end.token_log_probs.sum(-1)
  return Hypotheses(end.tokens, log_probs / length_penalty(end.ends, config), log_probs, end.ends, end.token_log_probs)


def greedy_search(step: Step, cache: Any, limits: jax.Array, length: int, bos_id: int, eos_id: int, filler: int,
                  config: SearchConfig, rules: Sequence[Rule] = (), growth: Growth | None = None) -> Hypotheses:
  """The most likely token at each step; arguments as in beam_search, with a cache of one beam."""
  return _walk(step, cache, limits, length, bos_id, eos_id, filler, config, rules, growth,
               lambda logits, t: logits.argmax(-1))


def truncate(logits: jax.Array, config: SearchConfig) -> jax.Array:
  """The distribution that sampling draws from, as logits [..., V]; what is cut off stands at -inf.

    temperature   softmax(logits / temperature)
    top_k         of that, the k most likely tokens, and any as likely as the last of them (Fan et al., 2018)
    top_p         of what is left, the nucleus: the fewest most likely tokens that together have probability p or more
                  (Holtzman et al., 2020, Eq. 2)
  """
  logits = logits / config.temperature
  if config.top_k:
    least = jax.lax.top_k(logits, min(config.top_k, logits.shape[-1]))[0][..., -1:]
    logits = jnp.where(logits >= least, logits, -jnp.inf)
  if config.top_p < 1.0:
    probabilities = jax.nn.softmax(logits, axis=-1)
    falling = jnp.flip(jnp.sort(probabilities, axis=-1), axis=-1)
    before = jnp.cumsum(falling, axis=-1) - falling  # of all that is more likely
    least = jnp.min(jnp.where(before < config.top_p, falling, jnp.inf), axis=-1, keepdims=True)
    logits = jnp.where(probabilities >= least, logits, -jnp.inf)
  return logits


def sample(step: Step, cache: Any, limits: jax.Array, length: int, bos_id: int, eos_id: int, filler: int,
           config: SearchConfig, keys: jax.Array, rules: Sequence[Rule] = (), growth: Growth | None = None
           ) -> Hypotheses:
  """Tokens drawn from the model's distribution, see truncate; other arguments as in greedy_search.

  Log-probabilities are the model's own, without temperature and truncation.

  Args:
    keys: [B] typed random keys, one for each sentence: what is drawn for it depends on no neighbour.
  """
  def draw(logits, t):
    at_place = jax.vmap(lambda key: jax.random.fold_in(key, t))(keys)
    return jax.vmap(jax.random.categorical)(at_place, truncate(logits[:, 0], config))[:, None]

  return _walk(step, cache, limits, length, bos_id, eos_id, filler, config, rules, growth, draw)


# ----------------------------------------------------------------------------------------------------------- beams


def _continuations(logits: jax.Array, normalizer: jax.Array, log_probs: jax.Array, t: jax.Array, limits: jax.Array,
                   eos_id: int, config: SearchConfig, going: int) -> _Continuations:
  """The likeliest continuations of each sentence's hypotheses, [B, N]: enough of them for `going` to go on.

  All work on whole vocabularies is done before; what may only end, or not yet, is settled among the few.
  """
  width = logits.shape[1]
  best, parent, token = largest(logits, log_probs - normalizer, 2 * going + (width if config.min_length else 0))
  if config.min_length:  # at most one end of each hypothesis is among them
    best = jnp.where((token == eos_id) & (t < config.min_length), NEVER, best)
  # At its last place a hypothesis may only end.
  place = jnp.arange(best.shape[-1])
  end = jnp.where(place < width, logits[:, place % width, eos_id], NEVER)
  last = (t + 1 >= limits)[:, None]
  best, parent, token = (jnp.where(last, only, some) for only, some in (
      (end, best), (place % width, parent), (eos_id, token)))
  gained = best - jnp.take_along_axis(normalizer, parent, axis=1)
  total = jnp.maximum(jnp.take_along_axis(log_probs, parent, axis=1) + gained, NEVER)
  return _Continuations(total, parent, token, gained)


def _continuations_of_each(logits: jax.Array, normalizer: jax.Array, log_probs: jax.Array, t: jax.Array,
                           limits: jax.Array, eos_id: int, config: SearchConfig) -> _Continuations:
  """The likeliest continuations of each hypothesis, [B, W, N]."""
  batch, width = log_probs.shape
  alone = lambda x: x.reshape(batch * width, 1, *x.shape[2:])
  limits = jnp.repeat(limits, width)
  found = _continuations(alone(logits), alone(normalizer), alone(log_probs), t, limits, eos_id, config, width)
  found = jax.tree.map(lambda x: x.reshape(batch, width, -1), found)
  return found._replace(parent=jnp.broadcast_to(jnp.arange(width)[None, :, None], found.token.shape))


def _split(options: _Continuations, width: int, eos_id: int) -> tuple[_Continuations, _Continuations]:
  """(the `width` best that go on, those that ended among the `width` best), of one sentence's continuations."""
  total, order = jax.lax.top_k(options.total, 2 * width)
  best = _take(options, order)
  ended = best.token == eos_id
  over = jax.tree.map(lambda x: x[:, :width], best)
  over = over._replace(total=jnp.where(ended[:, :width], over.total, NEVER))
  total, order = jax.lax.top_k(jnp.where(ended, NEVER, total), width)
  return _take(best, order)._replace(total=total), over


def _diverse(logits: jax.Array, normalizer: jax.Array, log_probs: jax.Array, t: jax.Array, limits: jax.Array,
             eos_id: int, config: SearchConfig) -> tuple[_Continuations, _Continuations]:
  """Group after group, each shunning the tokens that those before it took now (Vijayakumar et al., 2018, Eq. 5).

  Only the choice is changed; log-probabilities stay the model's.
  """
  size, taken = config.beam_size // config.groups, jnp.zeros((logits.shape[0], logits.shape[-1]))
  going, over = [], []
  for start in range(0, config.beam_size, size):
    part = slice(start, start + size)
    shunned = logits[:, part] - config.diversity * taken[:, None]
    options = _continuations(shunned, normalizer[:, part], log_probs[:, part], t, limits, eos_id, config, size)
    live, ended = _split(options, size, eos_id)
    for found, group in ((going, live), (over, ended)):
      cost = config.diversity * jnp.take_along_axis(taken, group.token, axis=1)
      exists = group.total > NEVER
      found.append(group._replace(total=jnp.where(exists, group.total + cost, NEVER), gained=group.gained + cost,
                                  parent=group.parent + start))
    taken = taken.at[jnp.arange(taken.shape[0])[:, None], live.token].add(1.0)
  join = lambda groups: jax.tree.map(lambda *parts: jnp.concatenate(parts, axis=1), *groups)
  return join(going), join(over)


def _by_progress(logits: jax.Array, normalizer: jax.Array, log_probs: jax.Array, t: jax.Array, limits: jax.Array,
                 eos_id: int, config: SearchConfig, rule: Rule, state: Any) -> tuple[_Continuations, _Continuations]:
  """Dynamic beam allocation (Post & Vilar, 2018, §4.2): every number of required tokens met has its share of the beam.

  The rule's proposals stand beside the likeliest continuations. Each share keeps its best; places that a share does
  not fill go to the best of the others.
  """
  batch, width = log_probs.shape
  options = _continuations_of_each(logits, normalizer, log_probs, t, limits, eos_id, config)
  proposed = rule.propose(state)
  known = (proposed[..., None] == options.token[:, :, None]).any(-1) | (proposed == NO_TOKEN)
  gained = jnp.take_along_axis(logits, jnp.maximum(proposed, 0), axis=-1) - normalizer[..., None]
  total = jnp.where(known, NEVER, jnp.maximum(log_probs[..., None] + gained, NEVER))
  parent = jnp.broadcast_to(jnp.arange(width)[None, :, None], proposed.shape)
  more = _Continuations(total, parent, jnp.maximum(proposed, 0), gained)
  both = jax.tree.map(lambda a, b: jnp.concatenate([a, b], axis=-1), options, more)
  share = rule.progress(state, both.token).reshape(batch, -1)
  both = jax.tree.map(lambda x: x.reshape(batch, -1), both)

  ended, number = both.token == eos_id, jnp.arange(both.total.shape[1])
  theirs, ours = both.total[:, None], both.total[:, :, None]  # [B, 1, N] and [B, N, 1]
  better = (theirs > ours) | (theirs == ours) & (number[None] < number[:, None])[None]
  rank = (better & (share[:, None] == share[:, :, None])).sum(-1)
  shares = rule.goal[:, None] + 1
  quota = width // shares + jnp.where(share == rule.goal[:, None], width % shares, 0)
  served = (rank < quota) & (both.total > NEVER)

  over, order = jax.lax.top_k(jnp.where(ended & served, both.total, NEVER), width)
  over = _take(both, order)._replace(total=over)
  live = jnp.where(ended, NEVER, both.total)
  # Those within their quota come before all others; both by log-probability.
  chosen = _take(both._replace(total=live), jnp.lexsort((-live, ~served | ended), axis=-1)[:, :width])
  return jax.tree.map(lambda x: jnp.take_along_axis(x, jnp.argsort(-chosen.total, axis=-1), axis=1), chosen), over


def _start(cache: Any, batch: int, length: int, bos_id: int, filler: int, config: SearchConfig, rules: Sequence[Rule]
           ) -> _Beam:
  """Before the first step: nothing written, nothing found."""
  width = config.beam_size
  blank, nothing = jnp.full((batch, width, length), filler, jnp.int32), jnp.full((batch, width), NEVER)
  none = Hypotheses(blank, nothing, nothing, jnp.zeros((batch, width), jnp.int32), jnp.zeros((batch, width, length)))
  # The beams start equal: only the first of each group may speak.
  first = jnp.where(jnp.arange(width) % (width // config.groups) == 0, 0.0, NEVER)
  return _Beam(jnp.zeros((), jnp.int32), cache, jnp.full((batch, width), bos_id, jnp.int32), blank,
               jnp.zeros((batch, width, length)), jnp.broadcast_to(first[None], (batch, width)),
               tuple(rule.state for rule in rules), none, jnp.zeros(batch, bool))


def _extended(rows: jax.Array, options: _Continuations, values: jax.Array, t: jax.Array) -> jax.Array:
  """What stands in rows [B, W, L] for the parents of `options`, with their own values [B, W'] at place t."""
  return _write(_take(rows, options.parent), values, t)


def _collected(beam: _Beam, over: _Continuations, scores: jax.Array) -> Hypotheses:
  """The W best of what was found before and what ends now, with `scores`; a sentence that is done keeps what it has."""
  ended = Hypotheses(_extended(beam.tokens, over, over.token, beam.t), scores, over.total,
                     jnp.full_like(over.parent, beam.t + 1),
                     _extended(beam.token_log_probs, over, over.gained, beam.t))
  pool = jax.tree.map(lambda old, new: jnp.concatenate([old, new], axis=1), beam.found, ended)
  _, order = jax.lax.top_k(pool.scores, scores.shape[1])
  return jax.tree.map(lambda old, new: jnp.where(beam.done.reshape((-1,) + (1,) * (old.ndim - 1)), old, new),
                      beam.found, _take(pool, order))


def _halving(beam: _Beam, advancing: Callable[[jax.Array], Callable], limits: jax.Array, length: int,
             growth: Growth | None, halvings: int) -> Hypotheses:
  """What a beam search finds that goes on with half its rows as soon as half are done, and so on, so many times.

  Shapes stay static: each size of the batch has its own loop. Rows that outgrow the first places of the cache before
  half are done go on as they are.
  """
  rows = limits.shape[0]
  few = rows // 2 if halvings else 0  # unfinished rows at which this size ends
  first, advance = min(growth.length, length) if growth else length, advancing(limits)
  unfinished = lambda beam: (~beam.done).sum()
  run = lambda beam, places, few: jax.lax.while_loop(
      lambda beam: (beam.t < places) & (unfinished(beam) > few), advance, beam)

  def rest(beam: _Beam) -> Hypotheses:
    beam = beam._replace(cache=growth.grow(beam.cache, length)) if first < length else beam
    return run(beam, length, 0).found

  def half(beam: _Beam) -> Hypotheses:
    chosen = jnp.argsort(beam.done, stable=True)[:few]
    part = jax.tree.map(lambda leaf: leaf[chosen] if leaf.ndim else leaf, beam)  # the number of a step has no rows
    found = _halving(part, advancing, limits[chosen], length, growth, halvings - 1)
    return jax.tree.map(lambda whole, some: whole.at[chosen].set(some), beam.found, found)

  beam = run(beam, first, few)
  return jax.lax.cond(unfinished(beam) > few, rest, half if few else lambda beam: beam.found, beam)


def beam_search(step: Step, cache: Any, limits: jax.Array, length: int, bos_id: int, eos_id: int, filler: int,
                config: SearchConfig, rules: Sequence[Rule] = (), growth: Growth | None = None,
                stop_early: bool = True, coverage: Callable[[Any], jax.Array] | None = None) -> Hypotheses:
  """Keeps the W best hypotheses at each step, and the W best that ended.

  A hypothesis ends when EOS is among the W best continuations of its sentence. A sentence is done when no live
  hypothesis could enter its n_best finished ones, or come as close to them as rounding, even if all its remaining tokens
  were certain: its log-probability can only fall and its penalty is largest at the limit (alpha >= 0). From then on its
  row is frozen, so neighbours in a batch cannot change it; finished ones beyond n_best are the best up to then. A
  coverage penalty is part of the scores of hypotheses that ended. Of those alive, all of one length, it says little that
  is true yet, so they go by their log-probability; it is never above 0, so the bound holds.

  Args:
    step, cache: see the file's head; the cache has W = config.beam_size beams.
    limits: [B] int32, longest output of each sentence, EOS included; at least 1.
    length: L, at least the largest limit.
    bos_id, eos_id, filler: ids; the filler stands after EOS.
    config: beam size, n_best, groups, length penalty, shortest output and halvings, which rules and a coverage penalty rule out.
    rules: what outputs must or must not contain.
    growth: when the cache has fewer places than L, how it gets the others.
    stop_early: False goes on until every limit, for comparison.
    coverage: (cache after a step) -> [B, W] the coverage penalty of what ends with that step, see transformer.coverage.
  """
  width = config.beam_size
  allotting = [number for number, rule in enumerate(rules) if rule.propose]
  wanted = config.n_best if config.groups == 1 else width  # of what groups find, some may be the same

  def advancing(limits: jax.Array) -> Callable[[_Beam], _Beam]:
    """One step of rows with these limits."""
    at_limit = length_penalty(limits, config)

    def chosen(beam: _Beam, logits: jax.Array, normalizer: jax.Array) -> tuple[_Continuations, _Continuations]:
      logits = _obey(rules, beam.states, Moment(beam.t, limits, logits, normalizer))
      state = logits, normalizer, beam.log_probs, beam.t, limits, eos_id, config
      if config.groups > 1:
        return _diverse(*state)
      for number in allotting:
        return _by_progress(*state, rules[number], beam.states[number])
      return _split(_continuations(*state, width), width, eos_id)

    def advance(beam: _Beam) -> _Beam:
      logits, cache = step(beam.cache, beam.last)
      normalizer = jax.nn.logsumexp(logits, axis=-1)  # before anything is forbidden, as in greedy search
      live, over = chosen(beam, logits, normalizer)
      score = over.total / length_penalty(beam.t + 1, config)
      if coverage is not None:
        score += jnp.take_along_axis(coverage(cache), over.parent, axis=1)
      found = _collected(beam, over, jnp.where(over.total > NEVER, score, NEVER))
      best = live.total.max(axis=1)
      bound = jnp.where(best > NEVER, best / at_limit, NEVER)
      certain = found.scores[:, wanted - 1] - NOISE >= bound
      states = tuple(rule.advance(_take(state, live.parent), live.token) for rule, state in zip(rules, beam.states))
      return _Beam(beam.t + 1, cache._replace(beams=_take(cache.beams, live.parent)), live.token,
                   _extended(beam.tokens, live, live.token, beam.t),
                   _extended(beam.token_log_probs, live, live.gained, beam.t), live.total, states, found,
                   beam.done | (stop_early & certain))

    return advance

  start = _start(cache, limits.shape[0], length, bos_id, filler, config, rules)
  if config.halvings and not rules and coverage is None:  # those hold what belongs to all rows
    return _halving(start, advancing, limits, length, growth, config.halvings)
  return _in_stages(start, advancing(limits), lambda beam: ~beam.done.all(), length, growth).found


def _best(step, cache, limits, length, bos_id, eos_id, filler, config, keys, rules, growth):
  """Greedy search for a beam of one, beam search otherwise."""
  del keys
  how = greedy_search if config.beam_size == 1 else beam_search
  return how(step, cache, limits, length, bos_id, eos_id, filler, config, rules, growth)


STRATEGIES = {'beam': _best, 'sample': sample}


def search(step: Step, cache: Any, limits: jax.Array, length: int, bos_id: int, eos_id: int, filler: int,
           config: SearchConfig, keys: jax.Array | None = None, rules: Sequence[Rule] = (), growth: Growth | None = None,
           coverage: Callable[[Any], jax.Array] | None = None) -> Hypotheses:
  """What config.strategy says, over a cache of config.width beams; other arguments as in beam_search and sample."""
  if coverage is not None:  # only a beam has anything to choose from (SearchConfig)
    return beam_search(step, cache, limits, length, bos_id, eos_id, filler, config, rules, growth, coverage=coverage)
  return STRATEGIES[config.strategy](step, cache, limits, length, bos_id, eos_id, filler, config, keys, rules, growth)


def row_keys(seed: int | jax.Array, rows: jax.Array) -> jax.Array:
  """[B] keys for sample(), from a seed (or one for each) and numbers [B] that tell sentences apart, such as lines'."""
  return jax.vmap(lambda seed, row: jax.random.fold_in(jax.random.key(seed), row))(
      jnp.broadcast_to(jnp.asarray(seed), rows.shape), rows)


class EnsembleCache(NamedTuple):
  """The caches of several models; see ensemble."""

  beams: tuple[Any, ...]  # each cache's own beams, which a search reorders
  rest: tuple[Any, ...]  # the caches without them


def ensemble(steps: Sequence[Step], caches: Sequence[Any], grows: Sequence[Callable] = ()
             ) -> tuple[Step, EnsembleCache, Callable[[EnsembleCache, int], EnsembleCache]]:
  """Several models as one: the next token has the mean of their probabilities.

  Returns:
    A step function, its cache, and how that grows (see Growth) where `grows` says how each does.
  """
  parts = lambda cache: [rest._replace(beams=beams) for beams, rest in zip(cache.beams, cache.rest)]

  def step(cache: EnsembleCache, tokens: jax.Array) -> tuple[jax.Array, EnsembleCache]:
    said = [one(part, tokens) for one, part in zip(steps, parts(cache))]
    log_probs = jnp.stack([jax.nn.log_softmax(logits, axis=-1) for logits, _ in said])
    return jax.nn.logsumexp(log_probs, axis=0) - jnp.log(len(said)), join([inner for _, inner in said])

  def join(parts: Sequence[Any]) -> EnsembleCache:
    return EnsembleCache(tuple(part.beams for part in parts), tuple(part._replace(beams=()) for part in parts))

  grow = lambda cache, length: join([one(part, length) for one, part in zip(grows, parts(cache))])
  return step, join(caches), grow
