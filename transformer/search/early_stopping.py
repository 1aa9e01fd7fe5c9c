"""When a sentence of beam search is done: at which length its live hypotheses are compared with those that ended.

A live hypothesis can still become better than its log-probability divided by the length penalty now: further tokens may
cost next to nothing while the penalty grows. A new way is a function (tokens written, limit) -> length, registered below.
"""

from collections.abc import Callable

from jaxtyping import Int

from checks.choices import Registry
from transformer.tokens import AnyArray, Array

EARLY_STOPPING: Registry[Callable[[Int[Array, ' B'], Int[AnyArray, ' B']], Int[AnyArray, ' B']]] = Registry(
    'search.early_stopping')


@EARLY_STOPPING.register('exact', 'when no other output can become better')
def exact(written: Int[Array, ' B'], limits: Int[AnyArray, ' B']) -> Int[AnyArray, ' B']:
  """The limit: there the penalty is largest, so that no live hypothesis can ever enter what was found."""
  del written
  return limits


@EARLY_STOPPING.register('heuristic', 'when no other hypothesis is better at its present length')
def heuristic(written: Int[Array, ' B'], limits: Int[AnyArray, ' B']) -> Int[AnyArray, ' B']:
  """The length so far: fewer steps, but a longer output that would have become better is now and then missed."""
  del limits
  return written
