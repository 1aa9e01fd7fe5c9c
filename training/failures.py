"""What a run does when its numbers or its memory fail: it stops, says where, and leaves what shows it again."""

import contextlib
import dataclasses
import hashlib
import os
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

from checks import exit_codes
from checks.refusals import refuse
from training import hardware, peers
from training.run_folder import RunFolder, read_json, write_json
from transformer.partitioning import Program, bytes_per_device


@dataclasses.dataclass(frozen=True)
class GuardConfig:
  """When a run gives up."""

  max_skipped: int  # updates in a row that are not finite
  stall_seconds: float  # without progress; 0 is never
  heartbeat_seconds: int  # of another process's silence

  def __post_init__(self):
    refuse(self._mistakes())

  def _mistakes(self) -> Iterator[str]:
    if self.max_skipped < 1:
      yield f'max_skipped is {self.max_skipped}; expected a positive number of updates'
    if self.stall_seconds < 0:
      yield f'stall_seconds is {self.stall_seconds}; expected 0 (never) or a positive number of seconds'
    if self.heartbeat_seconds < 5:
      yield f'heartbeat_seconds is {self.heartbeat_seconds}; expected 5 or more'


class NonFiniteError(Exception):
  """Too many updates in a row were not finite; scripts end with this exit code."""

  exit_code = exit_codes.NON_FINITE


class OutOfMemoryError(Exception):
  """A step that does not fit; scripts end with this exit code."""

  exit_code = exit_codes.OUT_OF_MEMORY


# ------------------------------------------------------------------------------------------------ what is not finite


def in_bits(measures: dict[str, Any]) -> dict[str, str]:
  """Measures as text that loses no bit; NaN and infinity have names."""
  return {name: float(value).hex() for name, value in measures.items()}


def fingerprint(batch: Any) -> str:
  """SHA-256 of a batch's arrays, shapes and all."""
  digest = hashlib.sha256()
  for leaf in jax.tree.leaves(batch):
    digest.update(f'{leaf.dtype} {leaf.shape} '.encode() + np.ascontiguousarray(leaf).tobytes())
  return digest.hexdigest()


def dump(folder: RunFolder, state: Any, measures: dict[str, str], batch: Any, skipped: int) -> None:
  """Writes down what a step that was not finite started from and found, for replay(), and raises NonFiniteError.

  Args:
    folder: the run's.
    state: the train state before the step; skipped steps have left it as it was but for its number.
    measures: what the step returned, in_bits().
    batch: this process's rows of the step's batch.
    skipped: how many steps in a row were not finite.
  """
  step = int(state.step)
  place = os.path.join(folder.nonfinite, f'step_{step:08d}')
  with ocp.StandardCheckpointer() as writer:
    writer.save(os.path.join(place, 'state'), state, force=True)
  if peers.is_main():
    write_json(os.path.join(place, 'step.json'), {'step': step, 'measures': measures, 'batch': fingerprint(batch)})
  wrong = ', '.join(f'{name} {float.fromhex(value):g}' for name, value in measures.items())
  raise NonFiniteError(
      f'{skipped} updates in a row were not finite, the first after step {step:,} ({wrong}). All were skipped: the '
      f'checkpoints are sound. What that update started from lies in {place}; the same command with --replay={step} '
      'computes it again. A lower learning rate (optimizer.peak or learning_rate_scale), a longer warm-up or '
      'optimizer.clip_norm may help, in another --workdir')


def read_dump(folder: RunFolder, step: int, wanted: Any) -> tuple[Any, dict[str, Any]]:
  """The state before a step that was dumped, and what step.json holds.

  Args:
    folder: the run's.
    step: its number.
    wanted: the state as ShapeDtypeStructs that carry shardings.

  Raises:
    NonFiniteError: when there is no such dump.
  """
  place = os.path.join(folder.nonfinite, f'step_{step:08d}')
  if not os.path.isfile(os.path.join(place, 'step.json')):
    there = sorted(os.listdir(folder.nonfinite)) if os.path.isdir(folder.nonfinite) else []
    raise NonFiniteError(f'no dump of step {step} in {folder.nonfinite}; it holds {", ".join(there) or "nothing"}')
  with ocp.StandardCheckpointer() as reader:
    return reader.restore(os.path.join(place, 'state'), wanted), read_json(os.path.join(place, 'step.json'))


# ------------------------------------------------------------------------------------------------------------ memory


def check_memory(program: Program, config: Any, shape: Any, state: Any) -> None:
  """Raises OutOfMemoryError when a program, of which nothing has run yet, needs more than the device has."""
  device = jax.local_devices()[0]
  room, need = hardware.available_bytes(device), program.peak_bytes
  if room is None or need is None:
    return
  if device.platform == 'cpu':  # what is left there is beside the inputs, which are in memory already
    room += program.memory.argument_size_in_bytes
  if need > room:
    raise OutOfMemoryError(f'a step over {shape.rows} × ({shape.source}, {shape.target}) needs '
                           f'{hardware.in_units(need)} on a device that has {hardware.in_units(room)}; '
                           + remedies(program, config, shape, state, room))


@contextlib.contextmanager
def lack_of_memory_told(config: Any) -> Iterator[None]:
  """Turns the backend's own lack of memory into an OutOfMemoryError."""
  try:
    yield
  except jax.errors.JaxRuntimeError as error:
    if 'RESOURCE_EXHAUSTED' not in str(error) and 'Out of memory' not in str(error):
      raise
    raise OutOfMemoryError(f'out of memory: {str(error).splitlines()[0]}; {_halved(config, 2)}') from error


def remedies(program: Program, config: Any, shape: Any, state: Any, room: int) -> str:
  """Two overrides that would fit. What a step needs beside state and gradient grows with its rows."""
  fixed = program.memory.argument_size_in_bytes + bytes_per_device(state.params)
  growing = program.peak_bytes - fixed
  spare = 0.9 * room - fixed  # XLA lays smaller batches out in another way: a tenth is left to it
  parts = 2
  while spare > 0 and growing / parts > spare and parts < shape.rows // 8:
    parts *= 2
  if spare <= 0 or growing / parts > spare:
    return ('parameters, gradient and the optimizer\'s state leave no room for the smallest batch: split them with '
            f'--config.mesh.fsdp={2 * config.mesh.fsdp}, or lower --config.model.d_model={config.model.d_model // 2}')
  return _halved(config, parts)


def _halved(config: Any, parts: int) -> str:
  train = config.train
  return (f'either of these would need about 1/{parts} beside the parameters: '
          f'--config.train.accumulation_steps={parts * train.accumulation_steps} (the same updates, in parts) or '
          f'--config.train.batch_tokens={train.batch_tokens // parts} (smaller updates), in another --workdir if the '
          'run has begun')
