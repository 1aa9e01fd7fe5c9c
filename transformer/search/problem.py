"""The input of a search: a step function with its cache, the lengths allowed, and what outputs must contain."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

from jaxtyping import Float, Int, Key, PyTree

from transformer.search.constraints import Rule
from transformer.tokens import AnyArray, Array

Record = TypeVar('Record')


@runtime_checkable
class SearchCache(Protocol):
  """The state that a step function carries from step to step: a NamedTuple with a field `beams`."""

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
Grow = Callable[[Cache, int], Cache]  # (cache, places) -> a longer cache


class Growth(NamedTuple):
  """How a cache that begins short grows.

  Few outputs reach their limit, and each step reads the whole cache, so a short one is faster.
  """

  length: int  # places of the cache that a search begins with
  grow: Grow


class SearchProblem(NamedTuple):
  """What to search: for each of B sentences, outputs that a step function finds likely. SearchConfig says how.

  Every output ends in EOS: at its last allowed place a hypothesis may only end.
  """

  step: Step
  cache: SearchCache  # before the first step, with SearchConfig.width beams
  limits: Int[AnyArray, ' B']  # longest output of each sentence, EOS included; at least 1
  length: int  # L, at least the largest limit
  bos_id: int  # the token before every output, not a part of it
  eos_id: int
  filler: int  # the id that stands after EOS
  keys: Key[Array, ' B'] | None = None  # for sampling, one for each sentence, see row_keys
  rules: Sequence[Rule] = ()  # what outputs must and must not contain
  growth: Growth | None = None  # for a cache of fewer than L places
  # (cache after a step) -> the coverage penalty of hypotheses that end with it, see coverage.cover; beam search alone
  coverage: Callable[[SearchCache], Float[Array, 'B W']] | None = None
