"""Close each head in turn and measure the effect: on a translation's log-probability, and on what the search writes."""

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from decoding.requests import Request
from explorer import gates
from explorer.capture import TokenPair, by_group, padded_batch
from explorer.gates import Gates, Head
from transformer import tokens
from transformer.model import Model, Params


class Effect(NamedTuple):
  """The effect of closing one head on one translation."""

  change: float  # of the translation's log-probability under teacher forcing (natural logarithm, EOS included)
  text: str  # what the search writes without the head


@functools.lru_cache(maxsize=8)
def forced_scorer(model: Model, bos_id: int) -> Callable:
  """Compile (params, gates, source, target) -> [B] log-probabilities under teacher forcing."""

  def score(params: Params, of: Gates, source: tokens.Tokens, target: tokens.Tokens) -> jax.Array:
    params = gates.apply(params, of)
    logits = model.decode(params, model.encode(params, source), tokens.shift_right(target, bos_id))
    taken = jnp.take_along_axis(jax.nn.log_softmax(logits), target.ids[..., None], axis=-1)[..., 0]
    return jnp.where(target.segments > 0, taken, 0.0).sum(axis=1)

  return jax.jit(score)


def measure(translator: Any, lines: Sequence[str | Request], pairs: Sequence[TokenPair],
            progress: Callable[[], Any] = lambda: None) -> tuple[np.ndarray, list[Mapping[Head, Effect]]]:
  """Measure the effect of closing each head in turn; the translator's parameters are restored at the end.

  Args:
    translator: decoding.translator.Translator.
    lines: the sources as text, or requests.
    pairs: the same sentences with their translations; where there are more, they are the lines again, from the first.
    progress: called after each head.

  Returns:
    Log-probabilities [pairs] with every head open, and for each pair the effect of every head.
  """
  model, source, target = translator.parts
  score, whole = forced_scorer(model, target.bos_id), translator.params[0]
  opened = gates.open_gates(whole)

  def scored(of: Gates) -> np.ndarray:
    return np.asarray(by_group(pairs, lambda some: np.asarray(
        score(whole, of, *padded_batch(model, some, source.pad_id, target.pad_id)))))

  before = scored(opened)
  effects: list[dict[Head, Effect]] = [{} for _ in pairs]
  try:
    for head in gates.heads(opened):
      closed = gates.closing(opened, head)
      changes = scored(closed) - before
      translator.params = [gates.apply(whole, closed)]
      for of_pair, change, written in zip(effects, changes, itertools.cycle(translator.translate(lines))):
        of_pair[head] = Effect(float(change), written.text)
      progress()
  finally:
    translator.params = [whole]
  return before, effects
