"""Evaluation of a run on held-out text: sums over all tokens of a split, and the figures that its task adds."""

import dataclasses
import functools
import itertools
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

import jax
import numpy as np

from checks.refusals import refuse
from training import peers
from training.background import Compilation, compilations
from training.loop import Progress
from training.preservation import Measure
from training.supervision import Supervision
from transformer import loss, partitioning, training
from transformer.model import Model

Split = TypeVar('Split')
Sums = dict[str, float]  # over all tokens of a split: loss, nll, tokens, correct


@dataclasses.dataclass(frozen=True)
class EvaluationConfig:
  """What an evaluation covers. Raises ValueError on creation."""

  eval_every: int  # updates between evaluations; each shows the next example on the terminal
  eval_sentences: int  # validation sentences that are translated
  num_samples: int  # how many of these are written to samples/
  watch_attention: str | None  # the sentences whose attention is recorded: 'samples', or a file

  def __post_init__(self):
    refuse(f'{name} is {getattr(self, name)}; expected 1 or more'
           for name in ('eval_sentences', 'num_samples') if getattr(self, name) < 1)


class Evaluation(NamedTuple):
  """A task's figures and samples at one evaluation, beside loss and perplexity."""

  measures: dict[str, float]
  samples: list[list[tuple[str, str]]]  # for people to read: lines of (label, text) for each example
  summary: str  # figures and an example, for the terminal


class Score(NamedTuple):
  """A task's figures and outputs on one held-out split at the end of a run."""

  results: dict[str, Any]  # for results.json
  summary: str  # for the terminal
  outputs: list[str]  # the model's outputs, a line each, in order
  example: str  # an input line for the user to try


class Evaluated(Protocol):
  """What the Evaluator needs of a task."""

  measure: Measure
  model: Model
  corpus: Any  # with a split `validation`
  progress: Callable[[int], object]  # called with the number of lines just finished while evaluate() or score() runs

  def evaluation_objective(self) -> training.Objective:
    """Return the loss without dropout."""

  def heldout_plan(self, split: Any) -> Any:
    """Return the batch plan of a split that is evaluated, not trained on."""

  def evaluate(self, params: Any, sums: Sums, step: int) -> Evaluation:
    """Return the task's own figures on validation."""

  def score(self, params: Any, split: Any, sums_of: Callable[[Any, Any], Sums]) -> Score:
    """Return the final figures on a split."""

  def compilations(self, params: Any) -> Iterator[Compilation]:
    """Return calls that compile what evaluate() runs."""


def totals(eval_step: Callable, params: Any, batches: Iterable) -> Sums:
  """Return the sums that eval_step returns, added up over all batches."""
  found: Sums = {}
  for batch in batches:
    for name, value in eval_step(params, batch).items():
      found[name] = found.get(name, 0.0) + float(np.asarray(value))
  return found


def per_token(sums: Mapping[str, float]) -> dict[str, float]:
  """Return loss, perplexity and accuracy per token (per example, for labelled text) from the sums over a split."""
  count = max(loss.count(sums), 1.0)
  return {'loss': sums['loss'] / count, 'perplexity': exponential(sums['nll'] / count),
          'accuracy': sums['correct'] / count}


def exponential(nats: float) -> float:
  """Return exp(nats), capped so that no perplexity is infinite."""
  return math.exp(min(nats, 700.0))


def samples_text(step: int, samples: Iterable[list[tuple[str, str]]]) -> str:
  """Return the samples of one evaluation as text for people to read; see Evaluation.samples."""
  blocks = (''.join(f'{label:<10} {text}\n' for label, text in lines) for lines in samples)
  return f'Step {step:,}\n' + ''.join(f'\n{block}' for block in blocks)


class Evaluator:
  """Evaluates a run: sums over all tokens of a held-out split, and the figures that its task adds."""

  def __init__(self, task: Evaluated, mesh: jax.sharding.Mesh, compiled: str, averaged: bool, run: Supervision):
    """Nothing is computed yet.

    Args:
      task: provides the batches, the loss and its own figures.
      mesh, compiled: where and how a step runs, see partitioning.compile_step.
      averaged: whether the moving average of the parameters is evaluated in place of the parameters.
      run: provides the folder of samples/, the stop requests that may interrupt an evaluation, and the watchdog, to
        which each of its batches, and of the task's, is progress.
    """
    self.mesh, self._task, self._axes = mesh, task, task.model.axes()
    self._averaged, self._folder, self._run = averaged, run.folder, run
    task.progress = run.progress
    objective = partitioning.gathering(task.evaluation_objective(), self._axes, mesh)
    self._eval_step = partitioning.compile_step(training.make_eval_step(objective), mesh, compiled, donate=False)

  def sums(self, params: Any, split: Any) -> Sums:
    """Return the sums of loss, tokens and hits over a split. Raises Stopped when a stop is requested meanwhile."""
    plan, share = self._task.heldout_plan(split), partitioning.share_of_rows(self.mesh)
    # Averaged parameters come replicated; the step is compiled for sharded ones.
    params = partitioning.lay_out(params, partitioning.parameter_shardings(self._axes, params, self.mesh))

    def batches():
      for step in range(plan.batches_per_epoch):
        self._run.stop.check()
        yield plan.batch_at(step, *share)
        self._run.progress()  # the batch is evaluated

    return totals(self._eval_step, params, batches())

  def score(self, params: Any, split: Any) -> Score:
    """Return the task's final figures on a split, of replicated parameters."""
    self._run.progress()  # the compilation of what it runs has as long as each batch
    return self._task.score(params, split, self.sums)

  def compilations(self, state: training.TrainState) -> Iterator[Compilation]:
    """Return calls that compile what evaluations on validation text run, see background.Background.

    Args:
      state: the shapes and shardings of the train state.
    """
    plan, share = self._task.heldout_plan(self._task.corpus.validation), partitioning.share_of_rows(self.mesh)
    batches = (functools.partial(plan.batch_at, step, *share) for _, step in plan.first_uses(0))
    params = self._params(state)
    return itertools.chain(compilations(self._eval_step, params, batches), self._task.compilations(params))

  def whole(self, state: training.TrainState) -> Any:
    """Return the parameters to evaluate, replicated on every device."""
    return partitioning.lay_out(self._params(state), partitioning.replicated(self.mesh))

  def _params(self, state: training.TrainState) -> Any:
    return state.average if self._averaged else state.params

  def evaluate(self, state: training.TrainState, step: int, progress: Progress) -> tuple[dict[str, float], str]:
    """Evaluate on the validation split, update `progress`, and write samples/.

    Returns:
      The figures, and a summary for the terminal.

    Raises:
      stopping.Stopped: when a stop is requested meanwhile; `progress` is then unchanged.
    """
    measure = self._task.measure
    sums = self._run.stop.run_together(self.sums, self._params(state), self._task.corpus.validation)
    found = self._run.stop.run(self._task.evaluate, partitioning.own_copy(self.whole(state)), sums, step)
    # Each process has computed them by itself, and its kernels may round otherwise; what they decide is to be the same.
    measured = peers.agreed_figures(per_token(sums) | found.measures)
    if peers.is_main():
      self._folder.files.write(os.path.join(self._folder.samples, f'step_{step:08d}.txt'), samples_text(step, found.samples))
    better = progress.best is None or measure.rank(measured) > measure.rank({measure.name: progress.best})
    progress.evaluated, progress.best = step, measured[measure.name] if better else progress.best
    progress.evaluations_since_best = 0 if better else progress.evaluations_since_best + 1
    return measured, (f'step {step:,}  validation loss {measured["loss"]:.3f}, perplexity '
                      f'{measured["perplexity"]:.2f}, {found.summary}')
