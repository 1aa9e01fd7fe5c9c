"""The tree of a beam search: every hypothesis that it considered.

The same search as transformer.search.beam_search, for one sentence, which also records what it drops. At each step the
2W best continuations of the W live hypotheses are considered: those among the W best that end are finished, the W best
of the others are kept, the rest are pruned.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import numpy as np

from explorer.capture import padded_length
from transformer import tokens
from transformer.model import Model, Params
from transformer.search import SearchConfig
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
  """The step at which a reference leaves the beam."""

  step: int
  token: int  # the reference's, which was not kept
  log_prob: float  # of the reference up to it
  least_kept: float  # log-probability of the worst hypothesis that was kept instead


def grow(step: Step, cache: SearchCache, limit: int, bos_id: int, eos_id: int, config: SearchConfig) -> Tree:
  """Search for one sentence, and record the tree.

  Args:
    step, cache: see SearchProblem; of one row and config.beam_size beams.
    limit: longest output, EOS included.
    bos_id, eos_id: ids.
    config: beam size, at least 2, and length penalty.

  Raises:
    ValueError: when the configuration is not one of a beam.
  """
  width = config.beam_size
  if width < 2 or config.strategy != 'beam':
    raise ValueError(f'beam_size is {width} and strategy {config.strategy!r}; a tree needs a beam of 2 or more')
  penalty = lambda length: float(config.penalty(length))
  nodes: list[Node] = []
  live, log_probs, found = [-1], np.zeros(1), []
  last = np.full((1, width), bos_id, np.int32)
  for t in range(limit):
    logits, cache = step(cache, last)
    gained = np.asarray(jax.nn.log_softmax(logits))[0, :len(live)]
    if t + 1 == limit:
      gained = np.where(np.arange(gained.shape[-1]) == eos_id, gained, -np.inf)
    total = log_probs[:, None] + gained
    order = np.argsort(-total, axis=None, kind='stable')[:2 * width]
    beams, chosen = np.unravel_index(order[np.isfinite(total.ravel()[order])], total.shape)
    next_live, parents = [], []
    for rank, (beam, token) in enumerate(zip(beams.tolist(), chosen.tolist())):
      ends = token == eos_id
      fate = (FINISHED if rank < width else PRUNED) if ends else KEPT if len(next_live) < width else PRUNED
      score = float(total[beam, token]) / penalty(t + 1) if fate == FINISHED else None
      nodes.append(Node(live[beam], t, token, float(total[beam, token]), fate, score))
      if fate == KEPT:
        next_live.append(len(nodes) - 1)
        parents.append(beam)
      elif fate == FINISHED:
        found.append(len(nodes) - 1)
    found = sorted(found, key=lambda node: -nodes[node].score)[:width]
    if not next_live or len(found) == width and nodes[found[-1]].score >= nodes[next_live[0]].log_prob / penalty(limit):
      break
    live, log_probs = next_live, np.array([nodes[node].log_prob for node in next_live])
    filled = np.array([*parents, *[0] * (width - len(parents))])
    cache = cache._replace(beams=jax.tree.map(lambda leaf, filled=filled: leaf[:, filled], cache.beams))
    last = np.array([[nodes[node].token for node in live] + [eos_id] * (width - len(live))], np.int32)
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
      return Departure(step, token, float(np.sum(log_probs[:step + 1])), min(kept)) if kept else None
    place = found
  return None
