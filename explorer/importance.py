"""The importance of heads: the gradient of the loss at their gates, the loss without each of them, and pruning.

Michel et al. (2019), "Are Sixteen Heads Really Better than One?": the importance of a head is E |∂L/∂gate| over
sentences (Eq. 3), and pruning closes the least important heads first. To compare layers, they divide importances by the
norm of their layer's; `ranked` does the same.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from explorer import capture, gates, head_ablation
from explorer.capture import TokenPair
from explorer.gates import Gates, Head
from transformer.model import Model, Params

_ROWS = 16


def batches(model: Model, pairs: Sequence[TokenPair], source_filler: int, target_filler: int
            ) -> Iterator[tuple[Any, int]]:
  """Yield ((sources, targets) of _ROWS rows, how many rows are real), sentences of similar length together.

  The last batch is filled up with copies of its first row.
  """
  order = sorted(pairs, key=lambda pair: (len(pair.source), len(pair.target)))
  for start in range(0, len(order), _ROWS):
    rows = order[start:start + _ROWS]
    filled = [*rows, *rows[:1] * (_ROWS - len(rows))]
    yield capture.padded_batch(model, filled, source_filler, target_filler), len(rows)


@functools.lru_cache(maxsize=8)
def _sensitivity(model: Model, bos_id: int) -> Callable:
  """Compile (params, gates, source, target) -> |∂ loss of each sentence / ∂ gate|, leaves [B, N, H]."""
  score = head_ablation.forced_scorer(model, bos_id)

  def of_sentence(of: Gates, params: Params, source: Any, target: Any) -> jax.Array:
    row = lambda side: jax.tree.map(lambda leaf: leaf[None], side)
    return -score(params, of, row(source), row(target))[0]

  gradient = jax.vmap(jax.grad(of_sentence), in_axes=(None, None, 0, 0))
  return jax.jit(lambda params, of, source, target: jax.tree.map(jnp.abs, gradient(of, params, source, target)))


def importance(model: Model, params: Params, pairs: Sequence[TokenPair], vocabularies: tuple[Any, Any]) -> Gates:
  """Compute E |∂L/∂gate| of every head at open gates; L is a sentence's negative log-probability. Leaves [N, H]."""
  source, target = vocabularies
  opened, total = gates.open_gates(params), None
  sensitivity = _sensitivity(model, target.bos_id)
  for batch, real in batches(model, pairs, source.pad_id, target.pad_id):
    slopes = jax.device_get(sensitivity(params, opened, *batch))
    found = jax.tree.map(lambda leaf, real=real: leaf[:real].sum(0), slopes)
    total = found if total is None else jax.tree.map(np.add, total, found)
  return jax.tree.map(lambda leaf: leaf / len(pairs), total)


def ranked(importances: Gates) -> list[Head]:
  """List all heads, the least important first; each layer's importances are divided by their norm."""
  normed = {kind: values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-30)
            for kind, values in importances.items()}
  return sorted(gates.heads(normed), key=lambda head: normed[head.kind][head.layer, head.head])


def loss(model: Model, params: Params, of: Gates, pairs: Sequence[TokenPair], vocabularies: tuple[Any, Any]) -> float:
  """Compute the mean negative log-probability of the targets' tokens, with these gates, under teacher forcing."""
  source, target = vocabularies
  score = head_ablation.forced_scorer(model, target.bos_id)
  total = sum(float(score(params, of, *batch)[:real].sum())
              for batch, real in batches(model, pairs, source.pad_id, target.pad_id))
  return -total / sum(len(pair.target) for pair in pairs)


def left_out(model: Model, params: Params, pairs: Sequence[TokenPair], vocabularies: tuple[Any, Any],
             progress: Callable[[], Any] = lambda: None) -> tuple[float, Gates]:
  """Compute the loss with all heads open, and by how much it rises when only one head is closed, leaves [N, H]."""
  opened = gates.open_gates(params)
  whole, rise = loss(model, params, opened, pairs, vocabularies), jax.tree.map(np.zeros_like, opened)
  for head in gates.heads(opened):
    rise[head.kind][head.layer, head.head] = loss(
        model, params, gates.closing(opened, head), pairs, vocabularies) - whole
    progress()
  return whole, rise


def pruned(params: Params, order: Sequence[Head], count: int) -> Params:
  """Return the parameters with the first `count` heads of an order closed. Raises ValueError if all would be closed."""
  if not 0 <= count < len(order):
    raise ValueError(f'cannot close {count} of {len(order)} heads; expected fewer than there are')
  return gates.apply(params, gates.closing(gates.open_gates(params), *order[:count]))
