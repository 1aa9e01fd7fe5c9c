"""What closing a head does to a translation: the change of its log-probability, and what the search then writes."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from explorer import gates
from explorer.capture import Reading, laid_out
from explorer.gates import Gates, Head
from transformer import tokens
from transformer.model import Model, Params


class Effect(NamedTuple):
  """Of one head, on one translation."""

  change: float  # of its log-probability (natural logarithm, EOS included) when it is read out to the decoder
  text: str  # what the search writes without the head


@functools.lru_cache(maxsize=8)
def forced_scorer(model: Model, bos_id: int) -> Callable:
  """A compiled function (params, gates, source, target) -> log-probabilities [B] of targets read out to the decoder."""

  def score(params: Params, of: Gates, source: tokens.Tokens, target: tokens.Tokens) -> jax.Array:
    params = gates.apply(params, of)
    logits = model.decode(params, model.encode(params, source), tokens.shift_right(target, bos_id))
    taken = jnp.take_along_axis(jax.nn.log_softmax(logits), target.ids[..., None], axis=-1)[..., 0]
    return jnp.where(target.segments > 0, taken, 0.0).sum(axis=1)

  return jax.jit(score)


def measure(translator: Any, lines: Sequence[str], readings: Sequence[Reading],
            progress: Callable[[], Any] = lambda: None) -> tuple[np.ndarray, list[Mapping[Head, Effect]]]:
  """Closes one head after the other.

  Args:
    translator: decoding.translator.Translator.
    lines: the sources as text.
    readings: the same sentences with their translations.
    progress: called after each head.

  Returns:
    Log-probabilities [sentences] with every head open, and of each sentence the effect of every head.
  """
  model, source, target = translator.parts
  batch = laid_out(readings, source.pad_id, target.pad_id)
  score, opened, whole = forced_scorer(model, target.bos_id), gates.open_gates(translator.params[0]), translator.params[0]
  before = np.asarray(score(whole, opened, *batch))
  effects: list[dict[Head, Effect]] = [{} for _ in lines]
  try:
    for head in gates.heads(opened):
      closed = gates.closing(opened, head)
      changes = np.asarray(score(whole, closed, *batch)) - before
      translator.params = [gates.apply(whole, closed)]
      for of_line, change, written in zip(effects, changes, translator.translate(lines)):
        of_line[head] = Effect(float(change), written.text)
      progress()
  finally:
    translator.params = [whole]
  return before, effects
