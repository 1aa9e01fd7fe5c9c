"""The loop of a search: steps until all sentences are done, and waiting sentences in the rows of those that are.

Sentences end at different steps, and a row that is done would be computed for nothing until the last one is. So there
are fewer rows than sentences: as soon as a few rows are done their results are put aside, and they are given to the next
sentences, which begin at their own step 0 while their neighbours go on. The arrays keep their shapes, and every row
is computed as it would be beside any others, so that a sentence's outputs do not depend on its neighbours.

    row 0   a a a a a a a a | d d d d d d d d d d
    row 1   b b b | c c c c c c c c c | e e e e
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Int, PyTree

from transformer.search.hypotheses import NEVER, Hypotheses
from transformer.search.problem import Algorithm, Sentences
from transformer.tokens import AnyArray, Array


class Queue(NamedTuple):
  """N sentences, more than are searched at once."""

  waiting: PyTree  # leaves [N, ...]: what `begin` makes sentences of, in the order in which they get a row
  filled: Int[AnyArray, '']  # how many of them there are; what stands behind them is not read
  begin: Callable[[PyTree], Sentences]  # leaves [Q, ...] -> Q sentences
  rows: int  # R: sentences searched at once
  together: int  # Q: sentences begun at once, as soon as so many rows are free


class Outcome(NamedTuple):
  """What became of N sentences."""

  hypotheses: Hypotheses
  given_up: Bool[Array, ' N']  # outgrew the cache (SearchProblem.places): to be searched again with a longer one
  steps: Int[Array, ' N']  # that a sentence took: the rows that it needed
  computed: Int[Array, ' 1']  # rows computed: R for each step


class _Run(NamedTuple):
  """The state of a queue."""

  state: PyTree  # of R rows
  numbers: Int[Array, ' R']  # the sentence in each row; N: none
  following: Int[Array, '']  # the next to get a row
  results: tuple[Hypotheses, Bool[Array, ' N'], Int[Array, ' N']]
  steps: Int[Array, '']  # of all rows


def run(algorithm: Algorithm, sentences: Sentences) -> Hypotheses:
  """Return the outputs of sentences that are searched together, each in its own row."""
  going = lambda state: ~state.done.all()
  return algorithm.finish(jax.lax.while_loop(going, algorithm.advance, algorithm.start(sentences)))


def run_queue(algorithm: Algorithm, queue: Queue) -> Outcome:
  """Return the outputs of all sentences of a queue."""
  size, together = jax.tree.leaves(queue.waiting)[0].shape[0], queue.together

  @jax.jit  # traced once, for its shapes and for the loop
  def fresh(numbers: Int[Array, ' Q']) -> PyTree:
    """Return the state of sentences before their first step; numbers beyond the last are done at once."""
    part = jax.tree.map(lambda leaf: leaf[jnp.minimum(numbers, size - 1)], queue.waiting)
    state = algorithm.start(queue.begin(part))
    return state._replace(done=state.done | (numbers >= queue.filled))

  outcome = lambda state: (algorithm.finish(state), state.given_up, state.t - state.sentences.num_written)
  put = lambda results, numbers, rows: jax.tree.map(
      lambda whole, some: whole.at[numbers].set(some, mode='drop'), results, rows)

  def refill(run: _Run) -> _Run:
    """Give the first rows that are done, of which there are enough, to the next sentences."""
    rows = jnp.argsort(~run.state.done, stable=True)[:together]
    results = put(run.results, run.numbers[rows], outcome(jax.tree.map(lambda leaf: leaf[rows], run.state)))
    numbers = run.following + jnp.arange(together)
    state = _enter(run.state, fresh(numbers), rows)
    numbers = jnp.where(numbers < queue.filled, numbers, size)
    return _Run(state, run.numbers.at[rows].set(numbers), run.following + together, results, run.steps)

  def going(run: _Run) -> Bool[Array, '']:
    free = run.state.done.sum()
    return (free < queue.rows) & ((free < together) | (run.following >= queue.filled))

  advance = lambda run: run._replace(state=algorithm.advance(run.state), steps=run.steps + 1)
  state = _blank(jax.eval_shape(fresh, jnp.arange(together)), queue.rows)
  state = state._replace(done=jnp.ones(queue.rows, bool))
  hypotheses, *rest = _blank(jax.eval_shape(outcome, state), size)
  results = (hypotheses._replace(scores=jnp.full_like(hypotheses.scores, NEVER)), *rest)  # nothing found yet
  zero = jnp.zeros((), jnp.int32)
  end = jax.lax.while_loop(lambda run: run.following < queue.filled,
                           lambda run: jax.lax.while_loop(going, advance, refill(run)),
                           _Run(state, jnp.full(queue.rows, size), zero, results, zero))
  return Outcome(*put(end.results, end.numbers, outcome(end.state)), computed=(end.steps * queue.rows)[None])


def _blank(shapes: PyTree, rows: int) -> PyTree:
  """Make a tree of zeros like `shapes`, but with `rows` rows."""
  def blank(leaf: jax.ShapeDtypeStruct) -> Array:
    shape = (rows, *leaf.shape[1:])
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
      return jnp.broadcast_to(jax.random.key(0), shape)
    return jnp.zeros(shape, leaf.dtype)

  return jax.tree.map(blank, shapes)


def _enter(state: PyTree, fresh: PyTree, rows: Int[Array, ' Q']) -> PyTree:
  """Return the state with `rows` given to sentences that begin.

  Nothing of the sentences before is left, not even what a mask would hide: a weight of 0 does not hide NaN.
  """
  return jax.tree.map(lambda old, new: old.at[rows].set(new), state, fresh)
