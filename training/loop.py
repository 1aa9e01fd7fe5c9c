"""How often a run logs, evaluates and saves, and how much it keeps: the options of train.py's loop that no other record has."""

import dataclasses
from collections.abc import Iterator

from checks.refusals import refuse


@dataclasses.dataclass(frozen=True)
class LoopConfig:
  """Validated on creation, so that no run ends at its first evaluation; configs/default.py has what each option means.

  Raises ValueError on creation.
  """

  log_every: int
  eval_every: int
  first_eval: int
  eval_sentences: int
  num_samples: int
  checkpoint_every: int
  keep_last: int
  keep_best: int
  average_last: int
  patience: int
  profile_steps: int
  ema_decay: float
  peak_tflops: float | None

  def __post_init__(self):
    refuse(self._mistakes())

  def _mistakes(self) -> Iterator[str]:
    for name in ('log_every', 'eval_every', 'eval_sentences', 'num_samples', 'checkpoint_every', 'keep_last',
                 'average_last'):
      if getattr(self, name) < 1:
        yield f'{name} is {getattr(self, name)}; expected 1 or more'
    for name in ('first_eval', 'keep_best', 'patience', 'profile_steps'):
      if getattr(self, name) < 0:
        yield f'{name} is {getattr(self, name)}; expected 0 (none) or a positive number'
    if not 0.0 <= self.ema_decay < 1.0:
      yield f'ema_decay is {self.ema_decay}; expected 0 (off) or a share of the average that is kept, below 1'
    if self.peak_tflops is not None and self.peak_tflops <= 0:
      yield f'peak_tflops is {self.peak_tflops}; expected a positive number, or none for that of known devices'
