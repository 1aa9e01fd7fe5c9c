"""What a run shows while it works: a bar on a terminal, plain lines elsewhere, and the numbers of the metrics file."""

import collections
import math
import sys
import time
from typing import Any

import jax
import tqdm

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
  """

  def __init__(self, ahead: int = 2):
    self._ahead, self._pending, self._told = ahead, collections.deque(), ''
    self._start()

  def _start(self) -> None:
    self._totals, self._steps, self._cells, self._since = collections.Counter(), 0, 0, time.monotonic()

  def add(self, measures: dict[str, Any], cells: int) -> None:
    """Takes in one step's measures and the number of target cells of its batch, padding included."""
    self._pending.append(measures)
    self._cells += cells
    if len(self._pending) > self._ahead:
      self._settle()

  def _settle(self) -> None:
    self._totals.update({name: float(value) for name, value in jax.device_get(self._pending.popleft()).items()})
    self._steps += 1

  def told(self) -> str:
    """Mean loss per token and real target tokens per second of the steps done since the last read, else before it."""
    if self._steps:
      self._told = f"loss {self._totals['loss'] / loss.count(self._totals):.3f}, {self._speed():,.0f} tokens/s"
    return self._told

  def _speed(self) -> float:
    return self._totals['tokens'] / max(time.monotonic() - self._since, 1e-9)

  def read(self) -> dict[str, float]:
    """The metrics since the last read, and a fresh start."""
    while self._pending:
      self._settle()
    totals, tokens, count = self._totals, self._totals['tokens'], max(loss.count(self._totals), 1.0)
    measured = {
        'train/loss': totals['loss'] / count,
        'train/perplexity': math.exp(min(totals['nll'] / count, 700.0)),
        'train/accuracy': totals['correct'] / count,
        'train/gradient_norm': totals['gradient_norm'] / max(self._steps, 1),
        'train/tokens_per_second': self._speed(),
        'train/padding': 1.0 - tokens / max(self._cells, 1),
    }
    self._start()
    return measured


class ProgressBar:
  """Training's bar: steps, or minutes when time decides. Where nobody watches (no terminal), a line now and then."""

  def __init__(self, total_steps: int | None, total_seconds: float | None, step: int, seconds: float):
    self._timed = total_steps is None
    self._watched = sys.stderr.isatty()
    self._shapes, self._last_line = set(), -math.inf
    total, done = (total_seconds, min(seconds, total_seconds)) if self._timed else (total_steps, step)
    shown = '{desc} {percentage:3.0f}% |{bar}| {elapsed}<{remaining}{postfix}'
    self._bar = tqdm.tqdm(total=total, initial=done, desc=f'step {step:,}', bar_format=shown, dynamic_ncols=True,
                          disable=not self._watched)

  def __enter__(self):
    return self

  def __exit__(self, *_):
    self._bar.close()

  def announce_compilation(self, shape: Any) -> None:
    """Says so when a shape is met for the first time, since the next step then takes long."""
    if shape not in self._shapes:
      self._shapes.add(shape)
      self._say(f'compiling the step for {shape.rows} × ({shape.source}, {shape.target}) …')

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
