"""How much heads matter: the gradient of the loss at their gates, the loss without them, and pruning by either.

Michel et al. (2019), "Are Sixteen Heads Really Better than One?": the importance of a head is E |∂L/∂gate| over
sentences (Eq. 3), and pruning closes the least important heads first. Their importances are divided by the norm of
their layer's before layers are compared; so are these, in `ranked`.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from explorer import capture, effects, gates
from explorer.capture import Reading
from explorer.gates import Gates, Head
from transformer.model import Model, Params

_ROWS = 16


def batches(readings: Sequence[Reading], source_filler: int, target_filler: int) -> Iterator[tuple[Any, int]]:
  """(source and target of _ROWS rows, how many are real): sentences of like length together; the last is filled up."""
  order = sorted(readings, key=lambda reading: (len(reading.source), len(reading.target)))
  for start in range(0, len(order), _ROWS):
    rows = order[start:start + _ROWS]
    filled = [*rows, *rows[:1] * (_ROWS - len(rows))]
    yield capture.laid_out(filled, source_filler, target_filler), len(rows)


@functools.lru_cache(maxsize=8)
def _sensitivity(model: Model, bos_id: int) -> Callable:
  """A compiled function (params, gates, source, target) -> |∂ loss of each sentence / ∂ gate|, leaves [B, N, H]."""
  score = effects.forced_scorer(model, bos_id)

  def of_sentence(of: Gates, params: Params, source: Any, target: Any) -> jax.Array:
    row = lambda side: jax.tree.map(lambda leaf: leaf[None], side)
    return -score(params, of, row(source), row(target))[0]

  gradient = jax.vmap(jax.grad(of_sentence), in_axes=(None, None, 0, 0))
  return jax.jit(lambda params, of, source, target: jax.tree.map(jnp.abs, gradient(of, params, source, target)))


def importance(model: Model, params: Params, readings: Sequence[Reading], vocabularies: tuple[Any, Any]) -> Gates:
  """E |∂L/∂gate| of every head at open gates; L is a sentence's negative log-probability. Leaves [N, H]."""
  source, target = vocabularies
  opened, total = gates.open_gates(params), None
  sensitivity = _sensitivity(model, target.bos_id)
  for batch, real in batches(readings, source.pad_id, target.pad_id):
    slopes = jax.device_get(sensitivity(params, opened, *batch))
    found = jax.tree.map(lambda leaf, real=real: leaf[:real].sum(0), slopes)
    total = found if total is None else jax.tree.map(np.add, total, found)
  return jax.tree.map(lambda leaf: leaf / len(readings), total)


def ranked(importances: Gates) -> list[Head]:
  """Heads from the least important on, each layer's importances divided by their norm."""
  normed = {kind: values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-30)
            for kind, values in importances.items()}
  return sorted(gates.heads(normed), key=lambda head: normed[head.kind][head.layer, head.head])


def loss(model: Model, params: Params, of: Gates, readings: Sequence[Reading], vocabularies: tuple[Any, Any]) -> float:
  """Negative log-probability of the targets for each of their tokens, under gates."""
  source, target = vocabularies
  score = effects.forced_scorer(model, target.bos_id)
  total = sum(float(score(params, of, *batch)[:real].sum())
              for batch, real in batches(readings, source.pad_id, target.pad_id))
  return -total / sum(len(reading.target) for reading in readings)


def left_out(model: Model, params: Params, readings: Sequence[Reading], vocabularies: tuple[Any, Any],
             progress: Callable[[], Any] = lambda: None) -> tuple[float, Gates]:
  """The loss, and by how much it rises without each head alone, leaves [N, H]."""
  opened = gates.open_gates(params)
  whole, rise = loss(model, params, opened, readings, vocabularies), jax.tree.map(np.zeros_like, opened)
  for head in gates.heads(opened):
    rise[head.kind][head.layer, head.head] = loss(
        model, params, gates.closing(opened, head), readings, vocabularies) - whole
    progress()
  return whole, rise


def pruned(params: Params, order: Sequence[Head], count: int) -> Params:
  """The parameters with the first `count` heads of an order closed. Raises ValueError when there are not so many."""
  if not 0 <= count < len(order):
    raise ValueError(f'{count} heads are to be closed of {len(order)}; expected fewer than there are')
  return gates.apply(params, gates.closing(gates.open_gates(params), *order[:count]))
