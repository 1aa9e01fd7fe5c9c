"""Greedy and beam search (§6.1) and sampling, over any step function. Knows no model: a step function and its cache
are enough.

A step function takes (cache, tokens [B, W]) and returns (logits [B, W, V] float32, cache). The cache is a NamedTuple
whose field `beams` holds the leaves [B, W, ...] that belong to hypotheses; those are reordered here, nothing else is.
Every output ends in EOS: at its last allowed place a hypothesis may only end.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from transformer.config import SearchConfig

NEVER = jnp.finfo(jnp.float32).min  # the score of a hypothesis that does not exist
Step = Callable[[Any, jax.Array], tuple[jax.Array, Any]]


class Hypotheses(NamedTuple):
  """Finished translations, best first."""

  tokens: jax.Array  # [B, W, L] int32, filler after EOS
  scores: jax.Array  # [B, W] log-probability / length penalty; NEVER where fewer than W were found
  log_probs: jax.Array  # [B, W] natural logarithms, EOS included
  lengths: jax.Array  # [B, W] tokens, EOS included


class _Beam(NamedTuple):
  """What moves while searching. t counts tokens written."""

  t: jax.Array  # []
  cache: Any
  last: jax.Array  # [B, W] newest token of each live hypothesis
  tokens: jax.Array  # [B, W, L] live hypotheses
  log_probs: jax.Array  # [B, W] their log-probabilities, best first
  found: Hypotheses
  done: jax.Array  # [B] nothing alive can still enter `found`


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


def _only_end(logits: jax.Array, last_place: jax.Array, eos_id: int) -> jax.Array:
  """Leaves EOS alone with a finite score where a sentence has reached its last place [B]."""
  forbidden = last_place[:, None, None] & (jnp.arange(logits.shape[-1]) != eos_id)[None, None]
  return jnp.where(forbidden, NEVER, logits)


_COLUMNS = 256
_FEW = 4 * _COLUMNS  # entries that one sort is quick at


def largest(scores: jax.Array, count: int) -> tuple[jax.Array, jax.Array]:
  """The `count` largest entries of each row [..., V], and their places: jax.lax.top_k, in two stages for many entries.

  The row is laid in columns. The columns with the largest maxima hold the largest entries, so the second stage sorts
  those alone. Among equal entries either may be taken.
  """
  entries = scores.shape[-1]
  if entries <= _FEW or count > _COLUMNS // 4:
    return jax.lax.top_k(scores, min(count, entries))
  rows = scores.reshape(-1, entries)
  whole = entries // _COLUMNS * _COLUMNS
  maxima = rows[:, :whole].reshape(rows.shape[0], -1, _COLUMNS).max(axis=1)
  tail = rows[:, whole:]
  maxima = jnp.maximum(maxima, jnp.pad(tail, ((0, 0), (0, whole + _COLUMNS - entries)), constant_values=-jnp.inf))
  _, chosen = jax.lax.top_k(maxima, count)  # [., count] columns
  depth = -(-entries // _COLUMNS)
  candidates = (chosen[:, None] + _COLUMNS * jnp.arange(depth)[None, :, None]).reshape(-1, depth * count)
  inside = jnp.take_along_axis(rows, jnp.minimum(candidates, entries - 1), axis=1)
  best, place = jax.lax.top_k(jnp.where(candidates < entries, inside, -jnp.inf), count)
  place = jnp.take_along_axis(candidates, place, axis=1)
  return best.reshape(*scores.shape[:-1], count), place.reshape(*scores.shape[:-1], count)


def _take(tree: Any, index: jax.Array) -> Any:
  """Rows of axis 1 by index [B, W'], in every leaf."""
  return jax.tree.map(lambda x: jax.vmap(lambda row, chosen: row[chosen])(x, index), tree)


def _walk(step: Step, cache: Any, limits: jax.Array, length: int, bos_id: int, eos_id: int, filler: int,
          choose: Callable[[jax.Array, jax.Array], jax.Array]) -> Hypotheses:
  """One hypothesis per sentence, its tokens chosen one by one: choose(logits [B, 1, V], place []) -> [B, 1]."""
  batch = limits.shape[0]

  def advance(state):
    t, cache, last, tokens, log_probs, ends = state
    logits, cache = step(cache, last)
    normalizer = jax.nn.logsumexp(logits, axis=-1)  # before anything is forbidden: a forced end has its price too
    logits = _only_end(logits, t + 1 >= limits, eos_id)
    chosen = choose(logits, t).astype(jnp.int32)
    gained = jnp.take_along_axis(logits, chosen[..., None], axis=-1)[..., 0] - normalizer
    alive = ends == 0
    chosen = jnp.where(alive, chosen, filler)
    tokens = jax.lax.dynamic_update_slice_in_dim(tokens, chosen[:, :, None], t, axis=2)
    ends = jnp.where(alive & (chosen == eos_id), t + 1, ends)
    return t + 1, cache, chosen, tokens, log_probs + jnp.where(alive, gained, 0.0), ends

  start = (jnp.zeros((), jnp.int32), cache, jnp.full((batch, 1), bos_id, jnp.int32),
           jnp.full((batch, 1, length), filler, jnp.int32), jnp.zeros((batch, 1)), jnp.zeros((batch, 1), jnp.int32))
  *_, tokens, log_probs, ends = jax.lax.while_loop(lambda s: (s[0] < length) & (s[-1] == 0).any(), advance, start)
  return Hypotheses(tokens, log_probs, log_probs, ends)


def greedy_search(step: Step, cache: Any, limits: jax.Array, length: int, bos_id: int, eos_id: int, filler: int
                  ) -> Hypotheses:
  """The most likely token at each step.

  Args:
    step, cache: see the file's head; the cache has one beam.
    limits: [B] int32, longest output of each sentence, EOS included; at least 1.
    length: L, at least the largest limit.
    bos_id, eos_id, filler: ids; the filler stands after EOS.
  """
  return _walk(step, cache, limits, length, bos_id, eos_id, filler, lambda logits, t: logits.argmax(-1))


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
           config: SearchConfig, keys: jax.Array) -> Hypotheses:
  """Tokens drawn from the model's distribution, see truncate; other arguments as in greedy_search.

  Log-probabilities are the model's own, without temperature and truncation.

  Args:
    keys: [B] typed random keys, one for each sentence: what is drawn for it depends on no neighbour.
  """
  def draw(logits, t):
    at_place = jax.vmap(lambda key: jax.random.fold_in(key, t))(keys)
    return jax.vmap(jax.random.categorical)(at_place, truncate(logits[:, 0], config))[:, None]

  return _walk(step, cache, limits, length, bos_id, eos_id, filler, draw)


def beam_search(step: Step, cache: Any, limits: jax.Array, length: int, bos_id: int, eos_id: int, filler: int,
                config: SearchConfig) -> Hypotheses:
  """Keeps the W best hypotheses at each step, and the W best that ended.

  A hypothesis ends when EOS is among the W best continuations of its sentence. A sentence is done when no live
  hypothesis could enter its finished ones even if all its remaining tokens were certain: its log-probability can
  only fall and its penalty is largest at the limit (alpha >= 0). From then on its row is frozen, so neighbours in a
  batch cannot change it.

  Args:
    step, cache: see the file's head; the cache has W = config.beam_size beams.
    limits: [B] int32, longest output of each sentence, EOS included; at least 1.
    length: L, at least the largest limit.
    bos_id, eos_id, filler: ids; the filler stands after EOS.
    config: beam size and length penalty.
  """
  batch, width = limits.shape[0], config.beam_size
  at_limit = length_penalty(limits, config)

  def continuations(logits, last_place, log_probs):
    """The 2W best (parent, token) of each sentence: W of them at least go on. Per beam first, then jointly."""
    normalizer = jax.nn.logsumexp(logits, axis=-1, keepdims=True)  # before anything is forbidden, as in greedy_search
    best, token = largest(_only_end(logits, last_place, eos_id), 2 * width)
    total = log_probs[..., None] + best - normalizer
    total = jnp.maximum(total, NEVER).reshape(batch, -1)
    total, place = jax.lax.top_k(total, 2 * width)
    return total, place // best.shape[-1], jnp.take_along_axis(token.reshape(batch, -1), place, axis=1)

  def advance(beam: _Beam) -> _Beam:
    logits, cache = step(beam.cache, beam.last)
    total, parent, token = continuations(logits, beam.t + 1 >= limits, beam.log_probs)
    tokens = jax.lax.dynamic_update_slice_in_dim(_take(beam.tokens, parent), token[:, :, None], beam.t, axis=2)
    ended = token == eos_id

    among_best = ended & (jnp.arange(2 * width) < width)[None] & (total > NEVER)
    scores = jnp.where(among_best, total / length_penalty(beam.t + 1, config), NEVER)
    candidates = Hypotheses(tokens, scores, total, jnp.full_like(parent, beam.t + 1))
    pool = jax.tree.map(lambda old, new: jnp.concatenate([old, new], axis=1), beam.found, candidates)
    _, order = jax.lax.top_k(pool.scores, width)
    found = jax.tree.map(lambda old, new: jnp.where(beam.done.reshape((-1,) + (1,) * (old.ndim - 1)), old, new),
                         beam.found, _take(pool, order))

    log_probs, order = jax.lax.top_k(jnp.where(ended, NEVER, total), width)
    parent = jnp.take_along_axis(parent, order, axis=1)
    bound = jnp.where(log_probs[:, 0] > NEVER, log_probs[:, 0] / at_limit, NEVER)
    return _Beam(beam.t + 1, cache._replace(beams=_take(cache.beams, parent)),
                 jnp.take_along_axis(token, order, axis=1), _take(tokens, order), log_probs, found,
                 beam.done | (found.scores[:, -1] >= bound))

  blank = jnp.full((batch, width, length), filler, jnp.int32)
  nothing = Hypotheses(blank, jnp.full((batch, width), NEVER), jnp.full((batch, width), NEVER),
                       jnp.zeros((batch, width), jnp.int32))
  first_alone = jnp.where(jnp.arange(width) == 0, 0.0, NEVER)  # the beams start equal: only one may speak
  start = _Beam(jnp.zeros((), jnp.int32), cache, jnp.full((batch, width), bos_id, jnp.int32), blank,
                jnp.broadcast_to(first_alone[None], (batch, width)), nothing, jnp.zeros(batch, bool))
  return jax.lax.while_loop(lambda beam: (beam.t < length) & ~beam.done.all(), advance, start).found


def _best(step, cache, limits, length, bos_id, eos_id, filler, config, keys):
  """Greedy search for a beam of one, beam search otherwise."""
  del keys
  if config.beam_size == 1:
    return greedy_search(step, cache, limits, length, bos_id, eos_id, filler)
  return beam_search(step, cache, limits, length, bos_id, eos_id, filler, config)


STRATEGIES = {'beam': _best, 'sample': sample}


def search(step: Step, cache: Any, limits: jax.Array, length: int, bos_id: int, eos_id: int, filler: int,
           config: SearchConfig, keys: jax.Array | None = None) -> Hypotheses:
  """What config.strategy says, over a cache of config.width beams; other arguments as in beam_search and sample."""
  found = STRATEGIES[config.strategy](step, cache, limits, length, bos_id, eos_id, filler, config, keys)
  if config.width > 1:  # beam search has scored its hypotheses itself
    return found
  return found._replace(scores=found.log_probs / length_penalty(found.lengths, config))


def row_keys(seed: int | jax.Array, rows: jax.Array) -> jax.Array:
  """[B] keys for sample(), from a seed and numbers [B] that tell sentences apart, such as those of their lines."""
  return jax.vmap(lambda row: jax.random.fold_in(jax.random.key(seed), row))(rows)


class PrefixedCache(NamedTuple):
  """A cache together with the prefixes that its hypotheses have to begin with; see force_prefix."""

  beams: Any  # the cache's own beams, which a search reorders
  rest: Any  # the cache without them
  prefix: jax.Array  # [B, P] int32
  lengths: jax.Array  # [B] tokens of each prefix; 0 forces nothing
  t: jax.Array  # [] int32: tokens fed so far


def force_prefix(step: Step, cache: Any, prefix: jax.Array, lengths: jax.Array) -> tuple[Step, PrefixedCache]:
  """A step function and cache under which every hypothesis begins with its sentence's prefix.

  While the prefix lasts its next token alone is possible, and costs nothing: it has log-probability 0. The prefix
  counts in lengths, and so in limits, which have to be larger than it.

  Args:
    step, cache: see the file's head; any number of beams.
    prefix: [B, P] int32; what stands at `lengths` or beyond is not read.
    lengths: [B] int32.
  """
  def forced(cache: PrefixedCache, tokens: jax.Array):
    logits, inner = step(cache.rest._replace(beams=cache.beams), tokens)
    place = jnp.minimum(cache.t, cache.prefix.shape[1] - 1)
    wanted = cache.prefix[:, place][:, None, None] == jnp.arange(logits.shape[-1])[None, None]
    lasts = (cache.t < cache.lengths)[:, None, None]
    logits = jnp.where(lasts, jnp.where(wanted, 0.0, NEVER), logits)
    return logits, cache._replace(beams=inner.beams, rest=inner._replace(beams=()), t=cache.t + 1)

  return forced, PrefixedCache(cache.beams, cache._replace(beams=()), prefix, lengths, jnp.zeros((), jnp.int32))
