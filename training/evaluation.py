"""Evaluation of a run on held-out text: sums over all tokens of a split, and what a task makes of them."""

import dataclasses
import math
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

import jax
import numpy as np

from checks.refusals import refuse
from training import peers
from training.checkpoint import Measure
from training.loop import Loop, Progress
from training.supervision import Supervision
from transformer import loss, partitioning, training
from transformer.model import Model

Split = TypeVar('Split')
Sums = dict[str, float]  # over all tokens of a split: loss, nll, tokens, correct


@dataclasses.dataclass(frozen=True)
class EvaluationConfig:
  """What is looked at when a run is evaluated. Raises ValueError on creation."""

  eval_every: int  # updates between evaluations, by which the example shown on the terminal changes
  eval_sentences: int  # validation sentences that are translated
  num_samples: int  # of these, how many are written to samples/
  watch_attention: str | None  # 'samples', or a file of sentences: their attention is recorded

  def __post_init__(self):
    refuse(f'{name} is {getattr(self, name)}; expected 1 or more'
           for name in ('eval_sentences', 'num_samples') if getattr(self, name) < 1)


class Evaluation(NamedTuple):
  """What a task finds at an evaluation, beside loss and perplexity."""

  measures: dict[str, float]
  samples: list[list[tuple[str, str]]]  # for people: of each example, lines of (label, text)
  summary: str  # figures and an example, for the terminal


class Score(NamedTuple):
  """What a task finds on one held-out split at the end of a run."""

  results: dict[str, Any]  # for results.json
  summary: str  # for the terminal
  outputs: list[str]  # what the model wrote, a line each, in order
  example: str  # a line to try


class Evaluated(Protocol):
  """What the evaluator asks of a task."""

  measure: Measure
  model: Model
  corpus: Any  # with a split `validation`

  def evaluation_objective(self) -> training.Objective:
    """Return the loss without dropout, whose sums are added up."""

  def heldout_plan(self, split: Any) -> Any:
    """Return the batch plan of a split that is only read."""

  def evaluate(self, params: Any, sums: Sums, step: int) -> Evaluation:
    """Return the task's own figures on validation."""


def totals(eval_step: Callable, params: Any, batches: Iterable) -> Sums:
  """Add up what eval_step returns, over all batches."""
  found: Sums = {}
  for batch in batches:
    for name, value in eval_step(params, batch).items():
      found[name] = found.get(name, 0.0) + float(np.asarray(value))
  return found


def per_token(sums: Mapping[str, float]) -> dict[str, float]:
  """Return loss, perplexity and accuracy per token (per labelled example): one division, at the end."""
  count = max(loss.count(sums), 1.0)
  return {'loss': sums['loss'] / count, 'perplexity': exponential(sums['nll'] / count),
          'accuracy': sums['correct'] / count}


def exponential(nats: float) -> float:
  """Return exp(nats), kept finite: no perplexity becomes infinite."""
  return math.exp(min(nats, 700.0))


def write_samples(path: str, step: int, samples: Iterable[list[tuple[str, str]]]) -> None:
  """Write what the model makes of the same examples at every evaluation, as text for people."""
  with open(path, 'w', encoding='utf-8') as file:
    file.write(f'Step {step:,}\n')
    for lines in samples:
      file.write('\n' + ''.join(f'{label:<10} {text}\n' for label, text in lines))


class Evaluator:
  """Evaluates a run: figures over all tokens of a held-out split, and what its task makes of them."""

  def __init__(self, task: Evaluated, mesh: jax.sharding.Mesh, compiled: str, averaged: bool, run: Supervision):
    """Nothing is computed yet.

    Args:
      task: whose batches are read and whose figures are asked for.
      mesh, compiled: where and how a step runs, see partitioning.compile_step.
      averaged: whether the moving average of the parameters is evaluated in place of the parameters.
      run: whose folder has samples/, and what may end an evaluation.
    """
    self.mesh, self._task, self._axes = mesh, task, task.model.axes()
    self._averaged, self._folder, self._stop = averaged, run.folder, run.stop
    objective = partitioning.gathering(task.evaluation_objective(), self._axes, mesh)
    self._eval_step = partitioning.compile_step(training.make_eval_step(objective), mesh, compiled, donate=False)

  def sums(self, params: Any, split: Any) -> Sums:
    """Return loss, tokens and hits over all of a split. Raises Stopped when a stop is asked for meanwhile."""
    plan, share = self._task.heldout_plan(split), partitioning.share_of_rows(self.mesh)
    # Averaged parameters come whole; the step is compiled for split ones.
    params = partitioning.lay_out(params, partitioning.parameter_shardings(self._axes, params, self.mesh))

    def batches():
      for step in range(plan.batches_per_epoch):
        self._stop.check()
        yield plan.batch_at(step, *share)

    return totals(self._eval_step, params, batches())

  def whole(self, state: training.TrainState) -> Any:
    """Return the parameters to evaluate, whole on every device."""
    return partitioning.lay_out(self._params(state), partitioning.replicated(self.mesh))

  def _params(self, state: training.TrainState) -> Any:
    return state.average if self._averaged else state.params

  def evaluate(self, state: training.TrainState, step: int, loop: Loop, progress: Progress
               ) -> tuple[dict[str, float], str]:
    """Evaluate on the validation split, bring progress up to date, and write samples/.

    Returns:
      The figures, and a summary for the terminal.

    Raises:
      stopping.Stopped: when a stop is asked for meanwhile; progress is as before then.
    """
    measure = self._task.measure
    sums = self._stop.run_together(self.sums, self._params(state), self._task.corpus.validation)
    found = self._stop.run(self._task.evaluate, self.whole(state), sums, step)
    measured = per_token(sums) | found.measures
    if peers.is_main():
      write_samples(os.path.join(self._folder.samples, f'step_{step:08d}.txt'), step, found.samples)
    better = progress.best is None or measure.rank(measured) > measure.rank({measure.name: progress.best})
    progress.evaluated, progress.best = step, measured[measure.name] if better else progress.best
    progress.evaluations_since_best = 0 if better else progress.evaluations_since_best + 1
    progress.stopped_early = loop.lost_patience(progress.evaluations_since_best)
    return measured, (f'step {step:,}  validation loss {measured["loss"]:.3f}, perplexity '
                      f'{measured["perplexity"]:.2f}, {found.summary}')
