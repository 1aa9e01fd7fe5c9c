"""The input of a search: a step function, the sentences with their caches, and what outputs must contain.

A SearchProblem is the same for all sentences; Sentences holds what differs from one to the next, as arrays with a row for
each. So a row can be given to another sentence while its neighbours go on (queue).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

import jax.numpy as jnp
from jaxtyping import Bool, Float, Int, Key, PyTree

from transformer.search.constraints import Rule
from transformer.tokens import AnyArray, Array, Tokens

Record = TypeVar('Record')


@runtime_checkable
class SearchCache(Protocol):
  """The state that a step function carries from step to step: a NamedTuple with a field `beams`.

  Every leaf has a first axis of sentences.
  """

  @property
  def beams(self) -> PyTree:
    """The leaves [B, W, ...] that belong to hypotheses. A search reorders these and touches no other field."""
    ...

  def _replace(self: Record, **fields: PyTree) -> Record:
    """Return a copy with some fields replaced, as every NamedTuple can."""
    ...


Cache = TypeVar('Cache', bound=SearchCache)
# (cache, newest token of each hypothesis) -> (logits of the next token in float32, cache)
Step = Callable[[Cache, Int[Array, 'B W']], tuple[Float[Array, 'B W V'], Cache]]


class Sentences(NamedTuple):
  """B sentences to search for; every leaf has a first axis B."""

  cache: SearchCache  # before the first step, with SearchConfig.width beams
  limits: Int[AnyArray, ' B']  # longest output of each sentence, EOS included; at least 1
  keys: Key[Array, ' B'] | None = None  # for sampling, one for each sentence, see row_keys
  rules: Sequence[PyTree] = ()  # what each of SearchProblem.rules has to know of the sentences
  # What outputs begin with, see beginning; the cache has already read BOS and all of it but the last token.
  written: Tokens | None = None

  @property
  def num_written(self) -> Int[Array, ' B']:
    """The number of tokens that are written before the first step."""
    if self.written is None:
      return jnp.zeros(self.limits.shape, jnp.int32)
    return (jnp.asarray(self.written.segments) > 0).sum(axis=1).astype(jnp.int32)


class SearchProblem(NamedTuple):
  """What to search: outputs that a step function finds likely. SearchConfig says how.

  Every output ends in EOS: at its last allowed place a hypothesis may only end.
  """

  step: Step
  length: int  # L, at least the largest limit
  bos_id: int  # the token before every output, not a part of it
  eos_id: int
  filler: int  # the id that stands after EOS
  rules: Sequence[Rule] = ()  # what outputs must and must not contain
  # (cache after a step) -> the coverage penalty of hypotheses that end with it, see coverage.cover; beam search alone
  coverage: Callable[[SearchCache], Float[Array, 'B W']] | None = None
  places: int | None = None  # tokens that the cache has room for; sentences that need more are given up; None: all L

  def outgrown(self, written: Int[Array, ' B'], limits: Int[AnyArray, ' B']
               ) -> Bool[Array, ' B']:
    """Return which sentences have no place left for the token after `written`, though more are allowed."""
    return (written >= (self.length if self.places is None else self.places)) & (written < limits)


class Algorithm(NamedTuple):
  """A way to search, as functions of a state: a NamedTuple whose leaves have a first axis of sentences.

  Of a state is known: `sentences`, what it is about; `t`, the tokens that each has written; `done`, which sentences need
  no further step, or may take none; and `given_up`, which of these outgrew the cache and are not answered.
  """

  start: Callable[[Sentences], PyTree]  # -> the state before the first step
  advance: Callable[[PyTree], PyTree]  # one step of every sentence; those that are done stay as they are
  finish: Callable[[PyTree], PyTree]  # -> Hypotheses
