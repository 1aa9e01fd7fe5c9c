"""The measures of training steps, added up between two lines of metrics."""

import collections
import contextlib
import math
import time
from collections.abc import Iterator
from typing import Any

import jax

from training.failures import in_bits
from transformer import loss


class Meter:
  """Adds up the measures of steps, which stay on the device until a few more steps are under way.

  At most `ahead` steps are in flight: further ones would only queue, and the clock would run ahead of the work.

  Attributes:
    skipped: number of updates in a row that were not finite, up to the last one read from the device.
    first_skipped: measures of the first of them, see failures.in_bits.
  """

  def __init__(self, before: dict[str, Any] | None = None, ahead: int = 2):
    """Start from zero, or from `before`: what suspend() returned when the run was last saved."""
    self._ahead, self._pending, self._summary = ahead, collections.deque(), ''
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
    """Return all that was added since the last read() as values for JSON, which restores them bit for bit."""
    self.settle()
    return {'totals': dict(self._totals), 'steps': self._steps, 'cells': self._cells, 'skipped': self.skipped,
            'first_skipped': self.first_skipped}

  def add(self, measures: dict[str, Any], cells: int, **counts: float) -> None:
    """Add one step's measures.

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
    """Count the time of the block as waiting for a batch."""
    began = time.monotonic()
    yield
    self._waited += time.monotonic() - began

  @contextlib.contextmanager
  def paused(self) -> Iterator[None]:
    """Leave the time of the block, such as compiling, evaluating or saving, out of the time spent on steps."""
    began = time.monotonic()
    yield
    self._since += time.monotonic() - began

  def compiled(self, seconds: float) -> None:
    """Add the time that compiling took."""
    self._compiling += seconds

  def _settle_one(self) -> None:
    measures, cells, counts = self._pending.popleft()
    values = {name: float(value) for name, value in jax.device_get(measures).items()}
    skipped = values.pop('skipped', 0.0)
    if skipped and not self.skipped:
      self.first_skipped = in_bits(values)
    self.skipped = self.skipped + 1 if skipped else 0
    # Measures that are not finite would spoil every mean: a skipped update is counted, and adds nothing else.
    found = {'skipped': skipped} if skipped else {'skipped': 0.0, **values, **counts}
    self._totals.update(found)
    self._settled_since.update(found)
    self._steps += not skipped
    self._cells += 0 if skipped else cells

  def settle(self) -> None:
    """Wait for all steps that were added, and add up their measures."""
    while self._pending:
      self._settle_one()

  def summary(self) -> str:
    """Return the mean loss per token and the real target tokens per second since the last read(), as text.

    Where no step is done since then, return the previous text.
    """
    if self._settled_since['tokens']:
      self._summary = f"loss {self._totals['loss'] / loss.count(self._totals):.3f}, {self._rate('tokens'):,.0f} tokens/s"
    return self._summary

  def _rate(self, name: str) -> float:
    """Return one of the sums since the last read(), per second."""
    return self._settled_since[name] / max(time.monotonic() - self._since, 1e-9)

  def read(self) -> dict[str, float]:
    """Return the metrics of the steps since the last read(), and start again from zero."""
    self.settle()
    totals, tokens = self._totals, self._totals['tokens']
    none = 1 if self._steps else math.nan  # of skipped updates alone there are no means
    count = max(loss.count(totals), 1.0) * none
    measured = {
        'train/loss': totals['loss'] / count,
        'train/perplexity': math.exp(min(totals['nll'] / count, 700.0)),
        'train/accuracy': totals['correct'] / count,
        'train/gradient_norm': totals['gradient_norm'] / max(self._steps, 1) * none,
        'train/skipped': totals['skipped'],
        'train/padding': 1.0 - tokens / max(self._cells, 1) * none,
        'train/tokens_per_second': self._rate('tokens'),
        'train/compile_seconds': self._compiling,
        'train/input_wait': self._waited / max(time.monotonic() - self._since, 1e-9),
    }
    if 'flops' in totals:
      measured['train/tflops'] = self._rate('flops') / 1e12
    self._start()
    return measured
