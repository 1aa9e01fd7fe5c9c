"""An automaton that reads an output token by token and knows which phrases it has, and what it still needs.

The nodes of Aho and Corasick (1975) say how much of each phrase has just been written; with the set of required phrases
that an output has already, they are the states. A transition that completes a forbidden phrase leads to DEAD, and so
does one after which the required phrases can no longer all be written. The tables of a sentence are made on the host;
constraints.phrases reads them in a search.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from transformer.tokens import AnyArray

NO_TOKEN = -1  # fills the places of fewer tokens
DEAD, START = 0, 1  # states: of what cannot become an output, and of nothing written
IMPOSSIBLE = 1 << 20  # what DEAD needs
MOST_REQUIRED, MOST_STATES, MOST_TRANSITIONS = 32, 1 << 12, 1 << 17  # of an automaton; a transition takes two bytes

Phrase = tuple[int, ...]  # token ids, at least one, and none of them EOS


class TooManyPhrases(ValueError):
  """An automaton would have more than MOST_REQUIRED required phrases, MOST_STATES states or MOST_TRANSITIONS."""


class Automaton(NamedTuple):
  """The tables of a sentence, or of a batch. E tokens occur in phrases; all others are alike. Z states."""

  tokens: Int[AnyArray, '*B E']  # those that occur in phrases
  next: Int[AnyArray, '*B Z X']  # states; X = 1 + E: after any other token, then after each of `tokens`
  need: Int[AnyArray, '*B Z']  # fewest tokens, EOS included, that complete an output; 1: it may end now
  progress: Int[AnyArray, '*B Z']  # tokens of required phrases written so far, those of the unfinished one included
  begun: Int[AnyArray, '*B Z']  # tokens written of the unfinished required phrase
  proposed: Int[AnyArray, '*B Z P']  # tokens that further the required phrases, NO_TOKEN behind; P = 0: none required
  goal: Int[AnyArray, '*B']  # the progress of an output that has all required phrases


@functools.lru_cache(maxsize=32)
def build(required: tuple[Phrase, ...], forbidden: tuple[Phrase, ...]) -> Automaton:
  """Make the automaton of the outputs that have all required phrases and no forbidden one.

  Occurrences of phrases may overlap. Some token has to occur in no phrase, as in every vocabulary with special tokens:
  an output can then always go on without any phrase.

  Args:
    required: different phrases.
    forbidden: phrases.

  Returns:
    The tables; need[START] is IMPOSSIBLE where the phrases contradict each other.

  Raises:
    TooManyPhrases: when the tables would be too large.
  """
  tokens = sorted({token for phrase in (*required, *forbidden) for token in phrase})
  if len(required) > MOST_REQUIRED:
    raise TooManyPhrases
  trie = _grow(required, forbidden, tokens)
  states, after = _explore(trie)
  met = np.array([mask for mask, _ in states], np.int64)
  need = np.where(met == (1 << len(required)) - 1, 1, IMPOSSIBLE).astype(np.int32)
  need[DEAD], before = IMPOSSIBLE, None
  while before is None or (need < before).any():
    before, need = need, np.minimum(need, 1 + need[after].min(axis=1))
  after = np.where(need[after] < IMPOSSIBLE, after, DEAD)
  begun = np.array([trie.begun(mask, node) for mask, node in states], np.int32)
  progress = begun + sum((((met >> number) & 1) * len(phrase) for number, phrase in enumerate(required)),
                         np.zeros(len(states), np.int64)).astype(np.int32)
  listed = after[:, 1:]
  furthers = (listed != DEAD) & ((progress[listed] > progress[:, None]) | (need[listed] < need[:, None]))
  furthers[DEAD] = False
  order = np.argsort(~furthers, axis=1, kind='stable')[:, :furthers.sum(axis=1).max()]
  proposed = np.where(np.take_along_axis(furthers, order, axis=1), np.array(tokens, np.int32)[order], NO_TOKEN)
  return Automaton(np.array(tokens, np.int32), after.astype(np.int16), need, progress, begun, proposed,
                   np.array(sum(map(len, required)), np.int32))


def shortest(automaton: Automaton, prefix: Sequence[int]) -> int:
  """Return the fewest tokens, EOS included, of an output with this prefix; IMPOSSIBLE or more where there is none."""
  column = {token: number for number, token in enumerate(automaton.tokens.tolist(), 1)}
  state = START
  for token in prefix:
    state = automaton.next[state, column.get(token, 0)]
  return len(prefix) + int(automaton.need[state])


def sizes(automaton: Automaton) -> tuple[int, int, int]:
  """Return E, Z and P of the arrays that stack() lays an automaton in: few different ones, so that few are compiled."""
  padded = lambda size, least: max(least, 1 << (size - 1).bit_length())
  (listed,), (states, proposed) = automaton.tokens.shape, automaton.proposed.shape
  return padded(listed, 8), padded(states, 32), padded(proposed, 4) if proposed else 0


def stack(automata: Sequence[Automaton]) -> Automaton:
  """Lay the tables of several sentences in arrays of the largest of their sizes()."""
  listed, states, proposed = map(max, zip(*map(sizes, automata)))
  fill = (NO_TOKEN, DEAD, IMPOSSIBLE, 0, 0, NO_TOKEN, 0)
  shapes = ((listed,), (states, 1 + listed), (states,), (states,), (states,), (states, proposed), ())
  laid = [np.full((len(automata), *shape), filler, part.dtype)
          for shape, filler, part in zip(shapes, fill, automata[0])]
  for row, one in enumerate(automata):
    for whole, part in zip(laid, one):
      whole[(row, *map(slice, part.shape))] = part
  return Automaton(*laid)


class _Trie(NamedTuple):
  """All phrases as paths from node 0. A node is the text on its path; a longer one has a higher number."""

  goto: Int[np.ndarray, 'N X']  # the longest node that a text ends in after any other token, and after each token
  fail: Int[np.ndarray, ' N']  # the longest shorter node that a node ends in
  depth: Int[np.ndarray, ' N']  # tokens of a node
  has: Int[np.ndarray, ' N']  # bit set of the required phrases that a node ends in
  begins: Int[np.ndarray, ' N']  # bit set of the required phrases that a node is the beginning of
  bans: Int[np.ndarray, ' N']  # 1 where a node ends in a forbidden phrase
  threatens: Int[np.ndarray, ' N']  # 1 where a node is the beginning of a forbidden phrase

  def begun(self, met: int, node: int) -> int:
    """Return the tokens of the longest required phrase not met that a node ends in the beginning of."""
    while node and not self.begins[node] & ~met:
      node = self.fail[node]
    return int(self.depth[node])

  def relevant(self, met: int) -> Int[np.ndarray, ' N']:
    """Return, for each node, the longest that it ends in and that begins a phrase not met: the others are the same."""
    found = np.zeros(len(self.fail), np.int64)
    for node in range(1, len(found)):
      found[node] = node if self.begins[node] & ~met or self.threatens[node] else found[self.fail[node]]
    return found


def _grow(required: Sequence[Phrase], forbidden: Sequence[Phrase], tokens: Sequence[int]) -> _Trie:
  """Make the trie of all phrases, which have these tokens."""
  column = {token: number for number, token in enumerate(tokens, 1)}
  texts = sorted({phrase[:size] for phrase in (*required, *forbidden) for size in range(1, len(phrase) + 1)}, key=len)
  node = {text: number for number, text in enumerate([(), *texts])}
  if len(node) * (1 + len(tokens)) > 8 * MOST_TRANSITIONS:  # nodes that end in a forbidden phrase are no states
    raise TooManyPhrases
  goto = np.zeros((len(node), 1 + len(tokens)), np.int64)
  fail, has, begins, bans, threatens = np.zeros((5, len(node)), np.int64)
  for number, phrase in enumerate(required):
    has[node[phrase]] |= 1 << number
    begins[[node[phrase[:size]] for size in range(1, len(phrase))]] |= 1 << number
  for phrase in forbidden:
    bans[node[phrase]] = 1
    threatens[[node[phrase[:size]] for size in range(1, len(phrase))]] = 1
  children: list[list[int]] = [[] for _ in node]
  for text in texts:
    children[node[text[:-1]]].append(node[text])
  last = [0, *(column[text[-1]] for text in texts)]
  for here, below in enumerate(children):  # the shortest first: its link leads to a row that is complete
    link = fail[here]
    has[here] |= has[link]
    bans[here] |= bans[link]
    goto[here] = goto[link]
    for child in below:
      fail[child] = goto[link, last[child]] if here else 0
      goto[here, last[child]] = child
  return _Trie(goto, fail, np.array([len(text) for text in node]), has, begins, bans, threatens)


def _explore(trie: _Trie) -> tuple[list[tuple[int, int]], Int[np.ndarray, 'Z X']]:
  """Find all states that are reached from START: (required phrases met, node) of each, and the transitions.

  DEAD comes first, as (-1, 0).
  """
  nodes, relevant = len(trie.fail), functools.cache(trie.relevant)
  dead, start, width = -nodes, 0, trie.goto.shape[1]  # a state is coded as met * nodes + node
  order, number, rows = [dead, start], {dead: DEAD, start: START}, [[DEAD] * width]
  while len(rows) < len(order):
    met, node = divmod(order[len(rows)], nodes)
    after = trie.goto[node]
    having = met | trie.has[after]
    reached = having * nodes
    for mask in np.unique(having).tolist():
      reached += np.where(having == mask, relevant(mask)[after], 0)
    codes = np.where(trie.bans[after], dead, reached).tolist()
    order += [code for code in dict.fromkeys(codes) if code not in number]
    number.update(zip(order[len(number):], range(len(number), len(order))))
    if len(order) > MOST_STATES or len(order) * width > MOST_TRANSITIONS:
      raise TooManyPhrases
    rows.append([number[code] for code in codes])
  return [divmod(code, nodes) for code in order], np.array(rows, np.int64)
