"""What a run shows while it trains: a progress bar on a terminal, plain lines elsewhere."""

import math
import sys
import time
from typing import Any

import tqdm

from training.hardware import in_units
from training.meter import Meter


class ProgressBar:
  """The progress bar of training, over steps or, where time limits the run, seconds; without a terminal, lines."""

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
    """Announce that the step is being compiled for a shape of batch, which takes long."""
    self._say(f'compiling the step for {shape.rows} × ({shape.source}, {shape.target}) …')

  def compiled(self, shape: Any, seconds: float, num_bytes: int | None) -> None:
    """Show how long compiling took, and how much memory the step will need on each device, state included."""
    self._say(f'compiled {shape.rows} × ({shape.source}, {shape.target}) in {seconds:.1f} s'
              + ('' if num_bytes is None else f'; it needs {in_units(num_bytes)} on each device'))

  def _say(self, text: str) -> None:
    if self._watched:
      self._bar.set_postfix_str(text)
    else:
      print(text, flush=True)

  def advance(self, step: int, seconds: float, meter: Meter) -> None:
    """Show that `step` updates are done."""
    summary = meter.summary()
    if self._watched:
      self._bar.set_description(f'step {step:,}', refresh=False)
      self._bar.set_postfix_str(summary, refresh=False)
      self._bar.update(min(seconds, self._bar.total) - self._bar.n if self._timed else 1)
    elif time.monotonic() - self._last_line > 20:
      self._last_line = time.monotonic()
      print(f'step {step:,}  {seconds / 60:.1f} min  {summary}', flush=True)

  def write(self, text: str) -> None:
    """Print a line above the bar."""
    if self._watched:
      self._bar.write(text)
    else:
      print(text, flush=True)
