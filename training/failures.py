"""Updates that are not finite and lack of memory: the run ends, says where, and leaves what reproduces the failure."""

import contextlib
import dataclasses
import hashlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

from checks import exit_codes
from training import full_disk, hardware, peers
from training.json_files import read_json, write_json
from training.run_folder import RunFolder
from transformer.partitioning import Program, bytes_per_device


class NonFiniteError(Exception):
  """Too many updates in a row were not finite; scripts end with this exit code."""

  exit_code = exit_codes.NON_FINITE


class OutOfMemoryError(Exception):
  """A step that does not fit into memory; scripts end with this exit code."""

  exit_code = exit_codes.OUT_OF_MEMORY


# ------------------------------------------------------------------------------------------------ what is not finite


def in_bits(measures: dict[str, Any]) -> dict[str, str]:
  """Return measures as hexadecimal text, which is exact and can hold NaN and infinity."""
  return {name: float(value).hex() for name, value in measures.items()}


def fingerprint(batch: Any) -> str:
  """Return the SHA-256 of a batch's arrays, with their dtypes and shapes."""
  digest = hashlib.sha256()
  for leaf in jax.tree.leaves(batch):
    digest.update(f'{leaf.dtype} {leaf.shape} '.encode() + np.ascontiguousarray(leaf).tobytes())
  return digest.hexdigest()


def dump(folder: RunFolder, state: Any, measures: dict[str, str], batch: Any, skipped: int) -> None:
  """Write the state before a step that was not finite and its measures, for replay(), and raise NonFiniteError.

  Args:
    folder: the run's.
    state: the train state before the step; the skipped steps have changed only its step number.
    measures: what the step returned, as in_bits() gives it.
    batch: this process's rows of the step's batch.
    skipped: how many steps in a row were not finite.
  """
  step = int(state.step)
  place = os.path.join(folder.nonfinite, f'step_{step:08d}')
  kept = f'The state before that update is in {place}; the same command with --replay={step} computes it again'
  try:
    with ocp.StandardCheckpointer() as writer:
      writer.save(os.path.join(place, 'state'), state, force=True)
    if peers.is_main():
      write_json(os.path.join(place, 'step.json'), {'step': step, 'measures': measures, 'batch': fingerprint(batch)})
  except Exception as error:
    if not full_disk.is_cause(error):
      raise
    kept = f'The state before that update is not kept: there was no room for it in {place}'
  wrong = ', '.join(f'{name} {float.fromhex(value):g}' for name, value in measures.items())
  raise NonFiniteError(
      f'{skipped} updates in a row were not finite, the first after step {step:,} ({wrong}). All were skipped: the '
      f'checkpoints are sound. {kept}. A lower learning rate (optimizer.peak or learning_rate_scale), a longer warm-up or '
      'optimizer.clip_norm may help, in another --workdir')


def read_dump(folder: RunFolder, step: int, wanted: Any) -> tuple[Any, dict[str, Any]]:
  """Return the state before a dumped step, and the content of its step.json.

  Args:
    folder: the run's.
    step: the number of the step.
    wanted: the state as ShapeDtypeStructs that carry shardings.

  Raises:
    NonFiniteError: when there is no such dump.
  """
  place = os.path.join(folder.nonfinite, f'step_{step:08d}')
  if not folder.has(os.path.join(place, 'step.json')):
    there = folder.files.names(folder.nonfinite)
    raise NonFiniteError(f'no dump of step {step} in {folder.nonfinite}; it holds {", ".join(there) or "nothing"}')
  with ocp.StandardCheckpointer() as reader:
    return reader.restore(os.path.join(place, 'state'), wanted), read_json(os.path.join(place, 'step.json'))


# ------------------------------------------------------------------------------------------------------------ memory


@dataclasses.dataclass(frozen=True)
class MemoryOptions:
  """A run's values of the options that can make a step need less memory."""

  fsdp: int
  d_model: int
  accumulation_steps: int
  batch_tokens: int
  row_multiple: int  # rows of a micro-batch are a multiple of it
  fixed_rows: int | None  # of every batch, where batch_tokens has no effect
  lengths: Mapping[str, int]  # the options of `data` that say how long a row may be

  @property
  def fewest(self) -> int:
    """The fewest rows that a batch may have."""
    return self.row_multiple * self.accumulation_steps

  @property
  def sure_rows(self) -> int:
    """The rows that a batch has at least, however long its sentences are."""
    return self.batch_tokens // max(self.lengths.values()) if self.fixed_rows is None else self.fixed_rows


def check_memory(program: Program, options: MemoryOptions, shape: Any, state: Any, rows: int) -> None:
  """Raise OutOfMemoryError when a compiled program, before it first runs, needs more memory than the device has.

  Args:
    program: the step.
    options: the run's.
    shape: of the batch.
    state: the train state.
    rows: the fewest rows of any shape of the run.
  """
  device = jax.local_devices()[0]
  room, need = hardware.available_bytes(device), program.peak_bytes
  if room is None or need is None:
    return
  if device.platform == 'cpu':  # there `room` is what is left beside the inputs, which are in memory already
    room += program.memory.argument_size_in_bytes
  if need > room:
    raise OutOfMemoryError(f'a step over {shape.rows} × ({shape.source}, {shape.target}) needs '
                           f'{hardware.in_units(need)} on a device that has {hardware.in_units(room)}; '
                           + remedies(need, program.memory.argument_size_in_bytes + bytes_per_device(state.params),
                                      room, rows, options))


@contextlib.contextmanager
def lack_of_memory_named(options: MemoryOptions) -> Iterator[None]:
  """Turn the backend's out-of-memory error into an OutOfMemoryError that names options that would help."""
  try:
    yield
  except jax.errors.JaxRuntimeError as error:
    if 'RESOURCE_EXHAUSTED' not in str(error) and 'Out of memory' not in str(error):
      raise
    advice = _smaller(options, 2) if options.sure_rows >= 2 * options.fewest else _shorter(options)
    raise OutOfMemoryError(f'out of memory: {str(error).splitlines()[0]}; {advice}') from error


def remedies(need: int, fixed: int, room: int, rows: int, options: MemoryOptions) -> str:
  """Return overrides that would fit, if memory beside state and gradient is proportional to a batch's rows.

  Args:
    need: bytes of a device that the step needs.
    fixed: those of them that state, batch and gradient take.
    room: bytes that the device has.
    rows: the fewest of any batch, which decide into how many parts all can be divided.
    options: the run's.
  """
  growing = need - fixed
  spare = 0.9 * room - fixed  # XLA plans smaller batches differently: leave it a tenth
  parts, most = 2, rows // options.fewest
  while spare > 0 and growing / parts > spare and 2 * parts <= most:
    parts *= 2
  if spare <= 0:
    return ('parameters, gradient and the optimizer\'s state leave no room for the smallest batch: split them with '
            f'--config.mesh.fsdp={2 * options.fsdp}, or lower --config.model.d_model={options.d_model // 2}')
  return _smaller(options, parts) if parts <= most and growing / parts <= spare else _shorter(options)


def _smaller(options: MemoryOptions, parts: int) -> str:
  """Return the overrides by which a device computes so many times fewer rows at a time."""
  accumulated = f'--config.train.accumulation_steps={parts * options.accumulation_steps} (the same updates, in parts)'
  fewer = f'--config.train.batch_tokens={options.batch_tokens // parts} (smaller updates)'
  ways = [accumulated, fewer]
  if options.fixed_rows is not None:
    rows = options.fixed_rows // parts // options.fewest * options.fewest
    ways = ([] if options.fixed_rows % (parts * options.fewest) else [accumulated]) + [
        f'--config.data.fixed_rows={rows} (smaller updates)']
  return (f'{"either of these" if ways[1:] else "this"} would need about 1/{parts} beside the parameters: '
          f'{" or ".join(ways)}, in another --workdir if the run has begun')


def _shorter(options: MemoryOptions) -> str:
  """Return the overrides that are left where a batch has no fewer rows."""
  lengths = ' and '.join(f'--config.data.{name}={value // 2}' for name, value in options.lengths.items() if value > 1)
  return (f'fewer rows, which come in multiples of {options.fewest}, would not do: shorten them with {lengths}, split the '
          f'model with --config.mesh.fsdp={2 * options.fsdp}, or lower --config.model.d_model={options.d_model // 2}, in '
          'another --workdir if the run has begun')
