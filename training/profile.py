"""A profile of a few steps, in jax's format: TensorBoard and Perfetto open it."""

from collections.abc import Callable
from typing import Any

import jax


class Profile:
  """Records `count` steps, after the first steps of a start, which compile."""

  def __init__(self, folder: str, step: int, count: int, after: int = 3):
    """Record `count` steps, once `after` steps from `step` are done; none where count is 0."""
    self._folder, self._first, self._last, self._is_open = folder, step + after, step + after + count - 1, False
    self._measures: Any = None  # of the newest step; its state is overwritten by the next one

  def of(self, step: int, advance: Callable[[], tuple[Any, Any]]) -> tuple[Any, Any]:
    """Return what a step returns, its state and its measures, and record it where it is one of the `count` steps.

    Devices lag behind: what is recorded begins once they are done with the steps before, and ends with the last of its own.
    """
    if step > self._last:
      return advance()
    if step == self._first:
      jax.block_until_ready(self._measures)
      jax.profiler.start_trace(self._folder, create_perfetto_trace=True)
      self._is_open = True
    if step < self._first:
      state, self._measures = advance()
    else:
      with jax.profiler.StepTraceAnnotation('train', step_num=step):
        state, self._measures = advance()
    if step == self._last:
      self.close()
    return state, self._measures

  def close(self) -> None:
    """Write the profile, if one is being recorded; also called when the run ends before the last of its steps."""
    if self._is_open:
      jax.block_until_ready(self._measures)
      jax.profiler.stop_trace()
      self._is_open = False
