"""When a run logs, evaluates, saves and ends: the options of the training loop, and what they decide at each step."""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from checks.refusals import refuse
from transformer.registries import DROPOUT_BITS


@dataclasses.dataclass(frozen=True)
class LoopConfig:
  """The options of the training loop; configs/default.py says what each means.

  Exactly one of num_steps, num_epochs and num_minutes is set. Raises ValueError on creation.
  """

  num_steps: int | None
  num_epochs: float | None
  num_minutes: float | None
  log_every: int
  eval_every: int
  first_eval: int
  checkpoint_every: int
  keep_last: int
  keep_best: int
  average_last: int
  patience: int
  profile_steps: int
  accumulation_steps: int
  dropout_bits: str
  ema_decay: float
  peak_tflops: float | None

  def __post_init__(self):
    refuse(self._mistakes())

  def _mistakes(self) -> Iterator[str]:
    yield from DROPOUT_BITS.mistakes(self.dropout_bits)
    for name in ('log_every', 'eval_every', 'checkpoint_every', 'keep_last', 'average_last'):
      if getattr(self, name) < 1:
        yield f'{name} is {getattr(self, name)}; expected 1 or more'
    for name in ('first_eval', 'keep_best', 'patience', 'profile_steps'):
      if getattr(self, name) < 0:
        yield f'{name} is {getattr(self, name)}; expected 0 (none) or a positive number'
    if not 0.0 <= self.ema_decay < 1.0:
      yield f'ema_decay is {self.ema_decay}; expected 0 (off) or a share of the average that is kept, below 1'
    if self.peak_tflops is not None and self.peak_tflops <= 0:
      yield f'peak_tflops is {self.peak_tflops}; expected a positive number, or none for that of known devices'

  @property
  def length(self) -> dict[str, float | None]:
    """The configured length of the run, as results.json records it."""
    return {name: getattr(self, name) for name in ('num_steps', 'num_epochs', 'num_minutes')}

  @property
  def kept(self) -> int:
    """How many of the newest planned checkpoints are kept."""
    return max(self.keep_last, self.average_last)

  @property
  def longer(self) -> str | None:
    """The option that doubles the length of a run limited by num_minutes; None for other runs."""
    return None if self.num_minutes is None else f'num_minutes={2 * self.num_minutes:g}'

  def is_planned_evaluation(self, step: int) -> bool:
    """Return whether eval_every or first_eval puts an evaluation, which also saves, at this step."""
    return step > 0 and (step % self.eval_every == 0 or step == self.first_eval)

  def is_planned_save(self, step: int) -> bool:
    """Return whether checkpoint_every puts a checkpoint at this step, whether or not it is evaluated."""
    return step > 0 and step % self.checkpoint_every == 0

  def is_planned(self, step: int) -> bool:
    """Return whether a checkpoint of this step was planned, and is not there for a stop alone."""
    return self.is_planned_save(step) or self.is_planned_evaluation(step)

  def lost_patience(self, evaluations_since_best: int) -> bool:
    """Return whether this many evaluations since the best one end the run."""
    return 0 < self.patience <= evaluations_since_best

  def to_average(self, steps: Sequence[int], most: int | None = None) -> list[int]:
    """Return the steps whose parameters are averaged for the final score: at most average_last, the last among them.

    Two checkpoints a few steps apart hold nearly the same parameters, which the mean would count twice. So those before
    the last count only where they were planned, not where a stop saved the run in between, and only where they lie half
    an interval or more before the next that counts: an evaluation saves, too, and the run may end just after either. One
    that is kept only as the best of long ago does not count, whatever average_last was then: the mean ends where more
    than one planned checkpoint is missing. Nor do untrained parameters, which a stop may have saved.

    Args:
      steps: of the checkpoints that are there, oldest first; the last is the run's end.
      most: how many, in place of average_last.
    """
    interval, newest_first, later = min(self.checkpoint_every, self.eval_every), [steps[-1]], steps[-1]
    planned = [step for step in steps if self.is_planned(step)]
    for step in reversed(planned[-self.kept:]):
      if later - step > 2 * interval:  # one may have been damaged
        break
      if newest_first[-1] - step >= interval / 2:
        newest_first.append(step)
      later = step
    return newest_first[:most or self.average_last][::-1]

  def over(self, batches_per_epoch: int) -> 'Loop':
    """Return the loop of a run whose epochs have `batches_per_epoch` batches."""
    total = self.num_steps
    if self.num_epochs is not None:
      total = math.ceil(self.num_epochs * batches_per_epoch)
    return Loop(self, total)


@dataclasses.dataclass
class Progress:
  """What a checkpoint holds beside the train state: plain numbers, written as JSON."""

  seconds: float = 0.0  # spent training, evaluation and compilation included, over all restarts
  best: float | None = None  # the task's measure on validation, so far
  evaluations_since_best: int = 0
  evaluated: int = -1  # the last step that was evaluated
  meter: dict[str, Any] = dataclasses.field(default_factory=dict)  # measures that are in no line of metrics yet
  vocabulary: list[str] = dataclasses.field(default_factory=list)  # fingerprints, source and target

  @classmethod
  def restored(cls, saved: Mapping[str, Any], vocabulary: list[str]) -> 'Progress':
    """Return what a checkpoint held, of earlier versions as well, which saved more, with the present fingerprints."""
    known = {field.name for field in dataclasses.fields(cls)}
    return cls(**{name: value for name, value in saved.items() if name in known} | {'vocabulary': vocabulary})


@dataclasses.dataclass(frozen=True)
class Loop:
  """What happens at which step of a run."""

  config: LoopConfig
  total_steps: int | None  # None when time decides

  def steps(self, first: int) -> Iterator[int]:
    """Return an endless iterator over the number of updates done, from `first` on; end it when is_over() is true."""
    return itertools.count(first)

  def is_over(self, step: int, progress: Progress) -> bool:
    """Return whether the run has reached its length, or ends early because evaluations no longer improve."""
    if self.config.lost_patience(progress.evaluations_since_best):
      return True
    if self.total_steps is None:
      return progress.seconds >= 60 * self.config.num_minutes
    return step >= self.total_steps

  def is_evaluation(self, step: int, progress: Progress) -> bool:
    """Return whether an evaluation is due at this step and not completed yet; a stop may have interrupted it."""
    return self.config.is_planned_evaluation(step) and step > progress.evaluated

  def is_log(self, step: int) -> bool:
    """Return whether this step gets a line of metrics."""
    return step % self.config.log_every == 0

  def describe(self, batches_per_epoch: int) -> str:
    """Return the length as text: '2,500 steps (3.1 epochs)' or '10 minutes'."""
    if self.total_steps is None:
      return f'{self.config.num_minutes:g} minutes'
    return f'{self.total_steps:,} steps ({self.total_steps / batches_per_epoch:.1f} epochs)'
