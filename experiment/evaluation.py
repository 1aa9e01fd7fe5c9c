"""What a run says of itself while it trains: validation loss, BLEU on raw references, translations of the same lines."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from experiment import scores
from experiment.translation import Translator


def validation_loss(eval_step: Callable, params: Any, batches: Iterable) -> dict[str, float]:
  """Loss, perplexity and accuracy per token over all batches: sums first, one division at the end."""
  totals = {}
  for batch in batches:
    for name, value in eval_step(params, batch).items():
      totals[name] = totals.get(name, 0.0) + float(np.asarray(value))
  tokens = max(totals['tokens'], 1.0)
  return {'loss': totals['loss'] / tokens, 'perplexity': math.exp(min(totals['nll'] / tokens, 700.0)),
          'accuracy': totals['correct'] / tokens}


def translation_scores(translator: Translator, sources: list[str], references: list[str]
                       ) -> tuple[dict[str, Any], list[str]]:
  """BLEU and chrF of the translated sources against raw references, and the translations."""
  hypotheses = [translation.text for translation in translator.translate(sources)]
  return scores.corpus_scores(hypotheses, references), hypotheses


def write_samples(path: str, step: int, samples: Iterable[tuple[str, str, str]]) -> None:
  """(source, reference, translation) of the same sentences at every evaluation, as text for people."""
  with open(path, 'w', encoding='utf-8') as file:
    file.write(f'Step {step:,}\n')
    for source, reference, hypothesis in samples:
      file.write(f'\nsource     {source}\nreference  {reference}\nmodel      {hypothesis}\n')


def format_examination(pairs: Iterable[tuple[str, str]], hypotheses: list[str]) -> tuple[str, int]:
  """Sentences beside their references with a mark, and how many were right."""
  lines, right = [], 0
  for (source, reference), hypothesis in zip(pairs, hypotheses):
    correct = hypothesis == reference
    right += correct
    lines.append(f'  {"right" if correct else "WRONG"}  {source}\n         {hypothesis}')
    if not correct:
      lines.append(f'         expected: {reference}')
  return '\n'.join(lines), right
