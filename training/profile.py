"""A profile of a few steps, in jax's format: TensorBoard and Perfetto open it."""

import contextlib
from collections.abc import Iterator

import jax


class Profile:
  """Records `count` steps, after the first steps of a start, which compile."""

  def __init__(self, folder: str, step: int, count: int, after: int = 3):
    """Record `count` steps, once `after` steps from `step` are done; none where count is 0."""
    self._folder, self._first, self._last, self._is_open = folder, step + after, step + after + count - 1, False

  @contextlib.contextmanager
  def of(self, step: int) -> Iterator[None]:
    """Return the context in which to run a step, which records it where it is one of the `count` steps."""
    if not self._first <= step <= self._last:
      yield
      return
    if step == self._first:
      jax.profiler.start_trace(self._folder, create_perfetto_trace=True)
      self._is_open = True
    with jax.profiler.StepTraceAnnotation('train', step_num=step):
      yield
    if step == self._last:
      self.close()

  def close(self) -> None:
    """Write the profile, if one is being recorded; also called when the run ends before the last of its steps."""
    if self._is_open:
      jax.effects_barrier()
      jax.profiler.stop_trace()
      self._is_open = False
