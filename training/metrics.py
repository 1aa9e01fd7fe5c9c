"""A run's metrics on disk: metrics.jsonl, a line for each measurement, and the same values as TensorBoard events."""

import hashlib
import io
import json
import math
import os
import shutil
import time
from collections.abc import Mapping

from checks.errors import DamagedError, naming
from training.json_files import read_lines
from training.run_folder import RunFolder


class Metrics:
  """Writes metrics.jsonl and TensorBoard events. A run that resumes at a step discards what was measured after it."""

  def __init__(self, folder: RunFolder, step: int):
    """Open both for a run that starts or resumes at `step`."""
    size = _check_history(folder, step)
    if not step:  # of a history that was set aside or never saved; on a disk, whatever holds the run's folder
      for place in (folder.tensorboard, folder.profile):
        shutil.rmtree(place, ignore_errors=True)
    if folder.has(folder.metrics):
      content = folder.files.read(folder.metrics)
      if size is None:  # of a checkpoint whose entry does not tell
        lines = zip(io.BytesIO(content), read_lines(folder.metrics))
        content = b''.join(line for line, record in lines if record['step'] <= step)
      folder.files.write(folder.metrics, content[:size])
    self._lines = folder.files.lines(folder.metrics)
    self._events = _Events(folder.tensorboard, step)

  def write(self, step: int, values: Mapping[str, float]) -> None:
    """Write the values as one JSON line, where NaN and infinity become null, and as TensorBoard scalars."""
    values = {name: float(value) for name, value in values.items()}
    finite = {name: value if math.isfinite(value) else None for name, value in values.items()}
    self._lines.write(json.dumps({'step': step, **finite}, allow_nan=False) + '\n')
    self._events.write(step, values)

  def settle(self) -> None:
    """Return once metrics.jsonl holds every line."""
    self._lines.settle()

  def close(self) -> None:
    """Write what is buffered, and close both."""
    self._lines.close()
    self._events.close()


class _Events:
  """A file of TensorBoard events, written at once.

  tensorboardX's SummaryWriter has a thread of its own for it, which a full disk ends; from its eleventh value on the run
  would then wait for ever.
  """

  def __init__(self, folder: str, step: int):
    """Open a new file for a run that starts or resumes at `step`; TensorBoard shows no earlier points after it."""
    from tensorboardX import event_file_writer  # slow to import; only training writes events
    from tensorboardX.proto import event_pb2, summary_pb2
    self._event, self._summary, self._folder = event_pb2.Event, summary_pb2.Summary, folder
    os.makedirs(folder, exist_ok=True)
    with naming(folder):
      self._file = event_file_writer.EventsWriter(os.path.join(folder, 'events'))
      if step:
        self._file.write_event(self._event(wall_time=time.time(), step=step + 1, session_log=event_pb2.SessionLog(
            status=event_pb2.SessionLog.START)))
      self._file.flush()

  def write(self, step: int, values: Mapping[str, float]) -> None:
    """Write the values of a step as scalars."""
    scalars = [self._summary.Value(tag=name, simple_value=value) for name, value in values.items()]
    with naming(self._folder):
      self._file.write_event(self._event(wall_time=time.time(), step=step, summary=self._summary(value=scalars)))
      self._file.flush()

  def close(self) -> None:
    """Close the file."""
    with naming(self._folder):
      self._file.close()


def _check_history(folder: RunFolder, step: int) -> int | None:
  """Return the bytes of metrics.jsonl when `step` was saved; None where that was not recorded.

  A line of a later moment may be of the same step: an evaluation that a stop had put off.

  Raises:
    DamagedError: when the file no longer begins with what had been measured then.
  """
  size, expected = folder.manifest.checkpoints().get(step, {}).get('history') or (None, None)
  if not size:
    return size
  if not folder.has(folder.metrics):
    print(f'Note: {folder.metrics} is missing: what was measured up to step {step:,} is lost.', flush=True)
    return size
  if hashlib.sha256(folder.files.read(folder.metrics)[:size]).hexdigest() != expected:
    raise DamagedError(f'{folder.metrics} is damaged: it differs from what had been measured when step {step:,} was saved; '
                       'put it back from a copy, or move it away to resume without it')
  return size
