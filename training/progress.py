"""What a run shows while it works: a bar on a terminal, plain lines elsewhere, and the numbers of the metrics file."""

import collections
import contextlib
import math
import sys
import time
from collections.abc import Iterator
from typing import Any

import jax
import tqdm

from training.failures import in_bits
from training.hardware import in_units
from transformer import loss


class Clock:
  """Seconds of a run over all its restarts."""

  def __init__(self, before: float):
    self._before, self._start = before, time.monotonic()

  def seconds(self) -> float:
    return self._before + time.monotonic() - self._start


class Meter:
  """Adds up the measures of steps; what it keeps stays on the device until somebody reads.

  At most `ahead` steps are left in flight: further ones would only queue, and the clock would run ahead of the work.

  Attributes:
    skipped: updates in a row, up to the last one settled, that were not finite.
    first_skipped: measures of the first of them, in bits.
  """

  def __init__(self, before: dict[str, Any] | None = None, ahead: int = 2):
    """`before`: what suspend() gave when the run was last saved."""
    self._ahead, self._pending, self._told = ahead, collections.deque(), ''
    self.skipped, self.first_skipped = 0, {}
    self._start()
    if before:
      self.skipped, self.first_skipped = before['skipped'], before['first_skipped']
      self._steps, self._cells = before['steps'], before['cells']
      self._totals.update(before['totals'])

  def _start(self) -> None:
    self._totals, self._steps, self._cells = collections.Counter(), 0, 0
    self._since, self._settled_since = time.monotonic(), collections.Counter()
    self._waited = self._compiling = 0.0

  def suspend(self) -> dict[str, Any]:
    """All that was added since the last read, as JSON; numbers come back as they were, bit for bit."""
    self.settle()
    return {'totals': dict(self._totals), 'steps': self._steps, 'cells': self._cells, 'skipped': self.skipped,
            'first_skipped': self.first_skipped}

  def add(self, measures: dict[str, Any], cells: int, **counts: float) -> None:
    """Takes in one step's measures.

    Args:
      measures: what the step returned.
      cells: target cells of its batch, padding included.
      **counts: further numbers to add up, known on the host.
    """
    self._pending.append((measures, cells, counts))
    if len(self._pending) > self._ahead:
      self._settle_one()

  @contextlib.contextmanager
  def waiting(self) -> Iterator[None]:
    """Counts what goes by until a batch is there."""
    began = time.monotonic()
    yield
    self._waited += time.monotonic() - began

  @contextlib.contextmanager
  def paused(self) -> Iterator[None]:
    """Leaves time out that is not spent on steps: compiling, evaluating, saving."""
    began = time.monotonic()
    yield
    self._since += time.monotonic() - began

  def compiled(self, seconds: float) -> None:
    """Takes in what compiling took."""
    self._compiling += seconds

  def _settle_one(self) -> None:
    measures, cells, counts = self._pending.popleft()
    values = {name: float(value) for name, value in jax.device_get(measures).items()}
    skipped = values.pop('skipped', 0.0)
    if skipped and not self.skipped:
      self.first_skipped = in_bits(values)
    self.skipped = self.skipped + 1 if skipped else 0
    # What is not finite would spoil every mean; a skipped update is counted and nothing else.
    found = {'skipped': skipped} if skipped else {'skipped': 0.0, **values, **counts}
    self._totals.update(found)
    self._settled_since.update(found)
    self._steps += not skipped
    self._cells += 0 if skipped else cells

  def settle(self) -> None:
    """Waits for all steps that were added."""
    while self._pending:
      self._settle_one()

  def told(self) -> str:
    """Mean loss per token and real target tokens per second of the steps done since the last read, else before it."""
    if self._settled_since['tokens']:
      self._told = f"loss {self._totals['loss'] / loss.count(self._totals):.3f}, {self._rate('tokens'):,.0f} tokens/s"
    return self._told

  def _rate(self, name: str) -> float:
    """Of one of the sums, a second."""
    return self._settled_since[name] / max(time.monotonic() - self._since, 1e-9)

  def read(self) -> dict[str, float]:
    """The metrics since the last read, and a fresh start."""
    self.settle()
    totals, tokens, count = self._totals, self._totals['tokens'], max(loss.count(self._totals), 1.0)
    measured = {
        'train/loss': totals['loss'] / count,
        'train/perplexity': math.exp(min(totals['nll'] / count, 700.0)),
        'train/accuracy': totals['correct'] / count,
        'train/gradient_norm': totals['gradient_norm'] / max(self._steps, 1),
        'train/skipped': totals['skipped'],
        'train/padding': 1.0 - tokens / max(self._cells, 1),
        'train/tokens_per_second': self._rate('tokens'),
        'train/compile_seconds': self._compiling,
        'train/input_wait': self._waited / max(time.monotonic() - self._since, 1e-9),
    }
    if 'flops' in totals:
      measured['train/tflops'] = self._rate('flops') / 1e12
    self._start()
    return measured


class ProgressBar:
  """Training's bar: steps, or minutes when time decides. Where nobody watches (no terminal), a line now and then."""

  def __init__(self, total_steps: int | None, total_seconds: float | None, step: int, seconds: float):
    self._timed = total_steps is None
    self._watched = sys.stderr.isatty()
    self._last_line = -math.inf
    total, done = (total_seconds, min(seconds, total_seconds)) if self._timed else (total_steps, step)
    shown = '{desc} {percentage:3.0f}% |{bar}| {elapsed}<{remaining}{postfix}'
    self._bar = tqdm.tqdm(total=total, initial=done, desc=f'step {step:,}', bar_format=shown, dynamic_ncols=True,
                          disable=not self._watched)

  def __enter__(self):
    return self

  def __exit__(self, *_):
    self._bar.close()

  def announce_compilation(self, shape: Any) -> None:
    """Says so before a step that is compiled first, which takes long."""
    self._say(f'compiling the step for {shape.rows} × ({shape.source}, {shape.target}) …')

  def compiled(self, shape: Any, seconds: float, num_bytes: int | None) -> None:
    """What compiling took, and what the step will need on each device, state included."""
    self._say(f'compiled {shape.rows} × ({shape.source}, {shape.target}) in {seconds:.1f} s'
              + ('' if num_bytes is None else f'; it needs {in_units(num_bytes)} on each device'))

  def _say(self, text: str) -> None:
    if self._watched:
      self._bar.set_postfix_str(text)
    else:
      print(text, flush=True)

  def advance(self, step: int, seconds: float, meter: Meter) -> None:
    """After each step."""
    told = meter.told()
    if self._watched:
      self._bar.set_description(f'step {step:,}', refresh=False)
      self._bar.set_postfix_str(told, refresh=False)
      self._bar.update(min(seconds, self._bar.total) - self._bar.n if self._timed else 1)
    elif time.monotonic() - self._last_line > 20:
      self._last_line = time.monotonic()
      print(f'step {step:,}  {seconds / 60:.1f} min  {told}', flush=True)

  def write(self, text: str) -> None:
    """A line above the bar."""
    if self._watched:
      self._bar.write(text)
    else:
      print(text, flush=True)


class Profile:
  """A profile of a few steps, in jax's format: TensorBoard and Perfetto open it."""

  def __init__(self, folder: str, step: int, count: int, after: int = 3):
    """Of `count` steps, once `after` steps from `step` are done; of none where count is 0."""
    self._folder, self._first, self._last, self._is_open = folder, step + after, step + after + count - 1, False

  @contextlib.contextmanager
  def of(self, step: int) -> Iterator[None]:
    """Around each step."""
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
    """Writes the profile, also when the run ends before the last of its steps."""
    if self._is_open:
      jax.effects_barrier()
      jax.profiler.stop_trace()
      self._is_open = False
