"""What a run says of itself: figures over all tokens of a split, and the records in which a task tells its own."""

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from corpora.splits import Corpus
from corpora.vocabulary import Vocabulary
from transformer import loss
from transformer.config import SearchConfig
from transformer.model import Model


class Setting(NamedTuple):
  """What a task looks at when it examines a model: a run, without its training."""

  model: Model
  corpus: Corpus
  source: Vocabulary
  target: Vocabulary
  search: SearchConfig
  config: Any  # the whole configuration


class Examination(NamedTuple):
  """What a task finds at an evaluation, beside loss and perplexity."""

  measures: dict[str, float]
  samples: list[list[tuple[str, str]]]  # for people: of each example, lines of (label, text)
  told: str  # figures and an example, for the terminal


class Conclusion(NamedTuple):
  """What a task finds at the end of a run."""

  results: dict[str, Any]  # for results.json
  told: str
  outputs: list[str]  # what the model wrote, a line each, in order
  example: str  # a line to try


def totals(eval_step: Callable, params: Any, batches: Iterable) -> dict[str, float]:
  """Sums over all tokens of all batches: loss, nll, tokens, correct."""
  found: dict[str, float] = {}
  for batch in batches:
    for name, value in eval_step(params, batch).items():
      found[name] = found.get(name, 0.0) + float(np.asarray(value))
  return found


def per_token(sums: dict[str, float]) -> dict[str, float]:
  """Loss, perplexity and accuracy per token (per labelled example): one division, at the end."""
  count = max(loss.count(sums), 1.0)
  return {'loss': sums['loss'] / count, 'perplexity': exponential(sums['nll'] / count),
          'accuracy': sums['correct'] / count}


def exponential(nats: float) -> float:
  """exp, of which no perplexity becomes infinite."""
  return math.exp(min(nats, 700.0))


def write_samples(path: str, step: int, samples: Iterable[list[tuple[str, str]]]) -> None:
  """What the model makes of the same examples at every evaluation, as text for people."""
  with open(path, 'w', encoding='utf-8') as file:
    file.write(f'Step {step:,}\n')
    for lines in samples:
      file.write('\n' + ''.join(f'{label:<10} {text}\n' for label, text in lines))
