"""A search in two stages: with a short cache, which suffices for most outputs, then, if need be, with a long one."""

from collections.abc import Callable
from typing import Protocol, TypeVar, runtime_checkable

import jax
from jaxtyping import Bool, Int, PyTree

from transformer.search.problem import Growth, Record, SearchCache
from transformer.tokens import Array


@runtime_checkable
class _Moving(Protocol):
  """The state of a search, a NamedTuple."""

  @property
  def t(self) -> Int[Array, '']:
    """Tokens written so far."""
    ...

  @property
  def cache(self) -> SearchCache:
    """The cache of the step function."""
    ...

  def _replace(self: Record, **fields: PyTree) -> Record:
    """Return a copy with some fields replaced, as every NamedTuple can."""
    ...


State = TypeVar('State', bound=_Moving)


def run_in_stages(state: State, advance: Callable[[State], State], is_going_on: Callable[[State], Bool[Array, '']],
                  length: int, growth: Growth | None) -> State:
  """Return the state after at most `length` steps, its cache left out.

  The cache grows when, and only if, its first places are full and some sentence is not done.
  """
  run = lambda state, places: jax.lax.while_loop(lambda s: (s.t < places) & is_going_on(s), advance, state)
  without_cache = lambda state: state._replace(cache=())
  if growth is None or growth.length >= length:
    return without_cache(run(state, length))
  rest = lambda state: without_cache(run(state._replace(cache=growth.grow(state.cache, length)), length))
  state = run(state, growth.length)
  return jax.lax.cond(is_going_on(state), rest, without_cache, state)
