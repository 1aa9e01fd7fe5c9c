"""Which checkpoints of a run are kept, and the measure by which they are ranked."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from orbax.checkpoint import checkpoint_managers


class Measure(NamedTuple):
  """A validation metric that ranks checkpoints."""

  name: str  # a key of the metrics that are passed to save()
  higher_is_better: bool = True

  def rank(self, metrics: dict) -> float:
    """Return a number that is larger for better metrics; NaN ranks below everything."""
    value = float(metrics[self.name])
    return -math.inf if math.isnan(value) else value if self.higher_is_better else -value


BLEU = Measure('bleu')


def policy(keep_last: int | None, keep_best: int, rank: Callable[[Mapping[str, Any]], float],
           is_planned: Callable[[int], bool]) -> checkpoint_managers.PreservationPolicy:
  """Return Orbax's policy: a checkpoint is kept as one of the newest, or one of the best.

  Args:
    keep_last: of the newest so many of all are kept, and so many of those that were planned, so that those which a stop
      saves take no place from them; None: all.
    keep_best: of those with metrics so many are kept.
    rank: (metrics) -> larger where better.
    is_planned: (step) -> whether a checkpoint of it was planned.
  """
  best = checkpoint_managers.BestN(get_metric_fn=rank, n=keep_best, keep_checkpoints_without_metrics=False)
  return checkpoint_managers.AnyPreservationPolicy([
      checkpoint_managers.LatestN(keep_last), _LatestPlanned(keep_last, is_planned), *([best] if keep_best else [])])


@dataclasses.dataclass
class _LatestPlanned(checkpoint_managers.PreservationPolicy):
  """Keeps the last n checkpoints of those that were planned; with n None all of them."""

  n: int | None
  is_planned: Callable[[int], bool]

  def should_preserve(self, checkpoints: Sequence[Any], *, context: Any) -> Sequence[bool]:
    del context
    planned = [info.step for info in checkpoints if self.is_planned(info.step)]
    kept = planned if self.n is None else planned[max(0, len(planned) - self.n):]
    return [info.step in kept for info in checkpoints]
