"""The tree of a beam search: every hypothesis that it considered.

The same search as transformer.search.beam_search, for one sentence, which also records what it drops. At each step the
2W best continuations of the W live hypotheses are considered: those among the W best that end are finished, the W best
of the others are kept, the rest are pruned. What may not be written, and when the search is done, are the library's own
rules. Two searches are not repeated here and have no tree, see `refusal`: diverse beams and coverage penalties.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from explorer.capture import padded_length
from transformer import tokens
from transformer.model import Model, Params
from transformer.search import NEVER, SearchConfig, constraints
from transformer.search.early_stopping import EARLY_STOPPING, Standing
from transformer.search.hypotheses import take
from transformer.search.problem import SearchCache, Step

KEPT, PRUNED, FINISHED = 'kept', 'pruned', 'finished'


class Node(NamedTuple):
  """A hypothesis: its parent with one more token."""

  parent: int  # the parent's place among the nodes; -1 for a first token
  step: int
  token: int
  log_prob: float  # of the whole hypothesis
  fate: str  # KEPT, PRUNED or FINISHED
  score: float | None  # of finished ones: log_prob / length penalty


class Tree(NamedTuple):
  """The hypotheses that a search considered."""

  nodes: list[Node]
  best: list[int]  # the places of the result's nodes, first token first

  def tokens_of(self, node: int) -> list[int]:
    """Return the tokens of the hypothesis at place `node`, from the first."""
    found = []
    while node >= 0:
      found.append(self.nodes[node].token)
      node = self.nodes[node].parent
    return found[::-1]


class Departure(NamedTuple):
  """The step at which a reference leaves the beam, or before which the search ended."""

  step: int
  token: int  # the reference's, which was not kept
  log_prob: float  # of the reference up to it
  least_kept: float | None  # log-probability of the worst hypothesis that was kept instead; None: the search had ended


def refusal(config: SearchConfig) -> str:
  """Return why a search of several beams has no tree here, as a sentence; '' where it has one."""
  if config.groups > 1:
    return f'search.groups is {config.groups}: diverse beam search keeps as many beams beside each other, each its own tree.'
  if config.coverage_penalty:
    return (f'search.coverage_penalty is {config.coverage_penalty:g}: hypotheses are scored by their attention, too, which '
            'the tree does not follow.')
  return ''


def penalty_name(config: SearchConfig) -> str:
  """Return the length penalty of a search in words, such as 'gnmt, alpha 0.6'."""
  return config.length_penalty + ('' if 'alpha' in config.idle() else f', alpha {config.alpha:g}')


class _Bans:
  """What the live hypotheses of one sentence may not write next: EOS too early, all but EOS too late, and n-grams again."""

  def __init__(self, limit: int, eos_id: int, config: SearchConfig):
    self._limit, self._eos_id, self._config = limit, eos_id, config
    self._limits = np.array([limit], np.int32)
    size = config.no_repeat_ngram
    self._rules = [constraints.no_repeat_ngram(size, limit, eos_id, config.min_length)] if size else []
    self._known = [constraints.Repeatable(jnp.asarray(self._limits), None) for _ in self._rules]
    self._states = constraints.begun(self._rules, self._known, config.beam_size)

  def obeyed(self, t: int, logits: jax.Array) -> np.ndarray:
    """Return the log-probabilities [W, V] of the next tokens, -inf for those that may not follow, from logits [1, W, V]."""
    normalizer = jax.nn.logsumexp(logits, axis=-1)
    moment = constraints.Moment(np.array([t], np.int32), self._limits, logits, normalizer)
    left = constraints.obey(self._rules, self._known, self._states, moment).logits
    gained = np.asarray(jnp.where(left > NEVER, left - normalizer[..., None], -jnp.inf))[0]
    is_end = np.arange(gained.shape[-1]) == self._eos_id
    if t + 1 == self._limit:
      return np.where(is_end, gained, -np.inf)
    return np.where(is_end & (t < self._config.min_length), -np.inf, gained)

  def follow(self, parents: np.ndarray, chosen: np.ndarray) -> None:
    """Go on with the hypotheses [W] that are kept, by their parents and newest tokens."""
    states = tuple(take(state, jnp.asarray(parents[None])) for state in self._states)
    self._states = constraints.advanced(self._rules, self._known, states, jnp.asarray(chosen[None], jnp.int32))


def _is_done(scores: Sequence[float], live: float, length: int, limit: int, config: SearchConfig) -> bool:
  """Return whether a search is done, whose finished hypotheses have these `scores`, best first.

  Args:
    live: log-probability of the best live hypothesis.
    length: tokens of what ends now.
    limit: tokens of the longest output.
    config: how to search.
  """
  listed = np.full((1, 1, config.beam_size), NEVER, np.float32)
  listed[0, 0, :len(scores)] = scores
  penalty = lambda length: config.penalty(length).reshape(1, 1)
  standing = Standing(jnp.asarray(listed), jnp.full((1, 1), live), penalty(length), penalty(limit), config.n_best,
                      config.beam_size)
  return bool(EARLY_STOPPING[config.early_stopping](standing).all())


def grow(step: Step, cache: SearchCache, limit: int, bos_id: int, eos_id: int, config: SearchConfig) -> Tree:
  """Search for one sentence, and record the tree.

  Args:
    step, cache: see SearchProblem; of one row and config.beam_size beams.
    limit: longest output, EOS included.
    bos_id, eos_id: ids.
    config: of a beam of at least 2, without what `refusal` names.

  Raises:
    ValueError: when the configuration is not one of a beam that has a tree.
  """
  width = config.beam_size
  if width < 2 or config.strategy != 'beam':
    raise ValueError(f'beam_size is {width} and strategy {config.strategy!r}; a tree needs a beam of 2 or more')
  if reason := refusal(config):
    raise ValueError(f'{reason} Expected a plain beam')
  nodes: list[Node] = []
  live, log_probs, found = [-1], np.zeros(1), []
  last, bans = np.full((1, width), bos_id, np.int32), _Bans(limit, eos_id, config)
  for t in range(limit):
    logits, cache = step(cache, last)
    total = log_probs[:, None] + bans.obeyed(t, logits)[:len(live)]
    order = np.argsort(-total, axis=None, kind='stable')[:2 * width]
    beams, chosen = np.unravel_index(order[np.isfinite(total.ravel()[order])], total.shape)
    penalty, next_live, parents = float(config.penalty(t + 1)), [], []
    for rank, (beam, token) in enumerate(zip(beams.tolist(), chosen.tolist())):
      ends = token == eos_id
      fate = (FINISHED if rank < width else PRUNED) if ends else KEPT if len(next_live) < width else PRUNED
      score = float(total[beam, token]) / penalty if fate == FINISHED else None
      nodes.append(Node(live[beam], t, token, float(total[beam, token]), fate, score))
      if fate == KEPT:
        next_live.append(len(nodes) - 1)
        parents.append(beam)
      elif fate == FINISHED:
        found.append(len(nodes) - 1)
    found = sorted(found, key=lambda node: -nodes[node].score)[:width]
    if not next_live or _is_done([nodes[node].score for node in found], nodes[next_live[0]].log_prob, t + 1, limit, config):
      break
    live, log_probs = next_live, np.array([nodes[node].log_prob for node in next_live])
    filled = np.array([*parents, *[0] * (width - len(parents))])
    cache = cache._replace(beams=jax.tree.map(lambda leaf, filled=filled: leaf[:, filled], cache.beams))
    last = np.array([[nodes[node].token for node in live] + [eos_id] * (width - len(live))], np.int32)
    bans.follow(filled, last[0])
  path, node = [], found[0]
  while node >= 0:
    path.append(node)
    node = nodes[node].parent
  return Tree(nodes, path[::-1])


def search(model: Model, params: Params, source: Sequence[int], bos_id: int, eos_id: int, config: SearchConfig) -> Tree:
  """Search for the translation of a sentence, and record the tree; `source` are ids that end in EOS."""
  length = padded_length(len(source), None if model.longest is None else model.longest - config.extra_length)
  begin, step = _compiled(model, config.extra_length, config.beam_size)
  cache = begin(params, tokens.pad([source], 1, length, 0))
  return grow(functools.partial(step, params), cache, len(source) + config.extra_length, bos_id, eos_id, config)


@functools.lru_cache(maxsize=8)
def _compiled(model: Model, extra_length: int, width: int) -> tuple[Callable, Callable]:
  """Compile the beginning of a search, (params, source) -> cache, and its step; sentences of one padded length share both."""

  def begin(params: Params, source: tokens.Tokens) -> SearchCache:
    return model.init_cache(params, model.encode(params, source), source.ids.shape[1] + extra_length, width)

  return jax.jit(begin), jax.jit(model.decode_step)


def departure(tree: Tree, reference: Sequence[int], log_probs: Sequence[float]) -> Departure | None:
  """Find the step at which a reference was not kept; None when the search kept all of it.

  Args:
    tree: of the search.
    reference: its tokens, EOS included.
    log_probs: of each of them, with the reference given to the decoder (teacher forcing).
  """
  place = -1
  for step, token in enumerate(reference):
    children = {node.token: number for number, node in enumerate(tree.nodes)
                if (node.parent, node.step) == (place, step)}
    found = children.get(token)
    if found is None or tree.nodes[found].fate == PRUNED:
      kept = [node.log_prob for node in tree.nodes if node.step == step and node.fate != PRUNED]
      return Departure(step, token, float(np.sum(log_probs[:step + 1])), min(kept, default=None))
    place = found
  return None
