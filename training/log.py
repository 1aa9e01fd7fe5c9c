"""A run's log, for the training loop: the terminal, metrics.jsonl and TensorBoard, the profile and the clock."""

import collections
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax

from batching.plan import Plan
from batching.shapes import Shape
from training import hardware, peers
from training.loop import Loop, Progress
from training.meter import Meter
from training.metrics import Metrics
from training.profile import Profile
from training.progress import ProgressBar
from training.run_folder import RunFolder
from transformer.partitioning import Program


class Log:
  """Records the measures of steps and the time that everything takes. A context manager, which closes its files."""

  def __init__(self, folder: RunFolder, loop: Loop, step: int, progress: Progress, flops: tuple[float, float],
               peak_tflops: float | None, learning_rate: Callable[[int], Any]):
    """Open the log of a run that starts or resumes at `step`.

    Args:
      folder: the run's; only the main process writes there.
      loop: decides which steps get a line of metrics.
      step, progress: how far the run is; progress.seconds is kept up to date.
      flops: of a source token and of a target token, see hardware.flops_per_token.
      peak_tflops: of all devices together; None where it is unknown.
      learning_rate: returns that of an update, given the number of updates before it.
    """
    self._loop, self._progress, self._flops, self._peak = loop, progress, flops, peak_tflops
    self._rate = learning_rate
    self._start = time.monotonic() - progress.seconds
    self._seconds: collections.Counter[str] = collections.Counter()  # of this start: compiling, waiting, paused
    self._began = time.monotonic()
    self._meter = Meter(progress.meter)
    self._metrics = Metrics(folder, step) if peers.is_main() else None
    self._profile = Profile(folder.profile, step, loop.config.profile_steps if peers.is_main() else 0)
    self._bar = ProgressBar(loop.total_steps, (loop.config.num_minutes or 0) * 60, step, progress.seconds)

  def __enter__(self) -> 'Log':
    self._bar.__enter__()
    return self

  def __exit__(self, *error: Any) -> None:
    self._profile.close()
    self._bar.__exit__(*error)
    if self._metrics:
      self._metrics.close()

  @property
  def skipped(self) -> int:
    """The number of updates in a row that were not finite, see Meter."""
    return self._meter.skipped

  @property
  def first_skipped(self) -> dict[str, str]:
    """The measures of the first of them, see failures.in_bits."""
    return self._meter.first_skipped

  def settle(self) -> None:
    """Wait for the measures of all steps so far."""
    self._meter.settle()

  def waiting(self) -> contextlib.AbstractContextManager[None]:
    """Count the time of the block as waiting for a batch."""
    return self._meter.waiting()

  @contextlib.contextmanager
  def paused(self, what: str = 'paused') -> Iterator[None]:
    """Leave the time of the block, such as evaluating or saving, out of the time spent on steps."""
    began = time.monotonic()
    with self._meter.paused():
      yield
    self._seconds[what] += time.monotonic() - began

  @contextlib.contextmanager
  def compiling(self, shape: Any, ready: bool) -> Iterator[Callable[[Program], None]]:
    """Announce that a step is being compiled, unless it is ready, and pause while the block waits for its program.

    Yields:
      A function to call with the program once that may run.
    """
    if not ready:
      self._bar.announce_compilation(shape)

    def compiled(program: Program) -> None:
      self._seconds['compiling'] += program.seconds
      self._meter.compiled(program.seconds)
      self._bar.compiled(shape, program.seconds, program.peak_bytes)

    with self.paused('waiting'):
      yield compiled

  def profiled(self, step: int, advance: Callable[[], tuple[Any, Any]]) -> tuple[Any, Any]:
    """Return what a step returns, profiled where it is one of those that train.profile_steps asks for."""
    return self._profile.of(step, advance)

  def add(self, step: int, measures: Mapping[str, Any], batch: Any, shape: Shape, plan: Plan) -> None:
    """Record an update, after which `step` updates are done, and write a line of metrics where one is due.

    Args:
      measures: what the update returned; read from the device only once a few more steps are under way.
      batch: this process's rows of its batch.
      shape: of the batch.
      plan: training's.
    """
    shares = shape.rows / jax.tree.leaves(batch)[0].shape[0]  # processes that have other rows, each about as many tokens
    self._meter.add(dict(measures), plan.cells(shape), flops=shares * hardware.step_flops(self._flops, batch))
    self._tell_time(agreed=self._loop.is_log(step))
    self._bar.advance(step, time.monotonic() - self._start, self._meter)
    if self._loop.is_log(step):
      self._write(step, self._with_mfu(self._meter.read()) | {
          'train/learning_rate': float(jax.device_get(self._rate(step - 1))),
          'seconds': self._progress.seconds, 'epoch': plan.epochs_done(step)})
    if step == plan.batches_per_epoch:
      self._report_first_epoch(plan.padding())

  def _tell_time(self, agreed: bool) -> None:
    """Bring progress.seconds up to date; where time ends a run of several processes, to the clock of process 0.

    By their own clocks processes could end at different steps, and wait for each other for ever. Since the answer of
    process 0 waits for the step, it is asked for only now and then, when `agreed` is true on all of them.
    """
    seconds = time.monotonic() - self._start
    if jax.process_count() == 1 or self._loop.total_steps is not None:
      self._progress.seconds = seconds
    elif agreed:
      self._progress.seconds = peers.agreed(int(10 * seconds)) / 10

  def validation(self, step: int, measured: Mapping[str, float], summary: str) -> None:
    """Record an evaluation: its figures as metrics, its summary on the terminal."""
    self._write(step, {f'validation/{name}': value for name, value in measured.items()})
    self._bar.write(summary)

  def suspend(self) -> None:
    """Store in progress, and in metrics.jsonl, what the log needs to resume as if the run had not been interrupted."""
    if self._metrics:
      self._metrics.settle()
    self._tell_time(agreed=True)
    self._progress.meter = self._meter.suspend()

  def _report_first_epoch(self, padding: float) -> None:
    """Report what took the time of this start until the end of the first epoch, and the epoch's share of padding."""
    self.settle()
    seconds = self._seconds
    trained = time.monotonic() - self._began - seconds['waiting'] - seconds['paused']
    self._bar.write(f'first epoch: {trained:.0f} s training; {seconds["compiling"]:.0f} s compiling steps, of which training '
                    f'waited for {seconds["waiting"]:.0f} s; {padding:.1%} padding')

  def _with_mfu(self, measured: dict[str, float]) -> dict[str, float]:
    """Return the measures, with model FLOPs utilisation where the devices' peak is known."""
    return measured | ({'train/mfu': measured['train/tflops'] / self._peak} if self._peak else {})

  def _write(self, step: int, values: Mapping[str, float]) -> None:
    if self._metrics:
      self._metrics.write(step, values)
