"""Compiles a run's training step for devices that are not here, and reads off what it needs of them.

XLA first optimises the program for one device, collectives included, and plans its memory; that is all that is read,
and takes seconds. Machine code, which takes minutes for a TPU, is made only where its estimated cycles are asked for.
The compiler cannot be stopped in between and writes to standard error, so each program is compiled in a process of its
own (`python -m training.ahead_of_time`), which ends when the plan is on disk.
"""

import dataclasses
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from batching.shapes import Shape
from checks.errors import ConfigError, config_errors
from training import hardware, optimized_module, topologies
from training.json_files import read_json, write_json
from training.optimized_module import Array, Collective
from training.stepping import abstract_state, compile_training
from transformer import architectures, partitioning, training
from transformer import optimizer as optimizers
from transformer.config import ConsistencyConfig, LossConfig, MeshConfig, OptimizerConfig
from transformer.registries import ARCHITECTURES, COMPILATIONS
from transformer.tokens import Batch, Tokens

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_BOS = 1  # a constant in the program; any id gives the same one
_STEP, _FOUND, _ERRORS = 'step.json', 'compiled.json', 'errors.txt'  # files in the folder of a compilation


@dataclasses.dataclass(frozen=True)
class Step:
  """A training step to compile: all that decides the program. Its fields are plain values, or records of them."""

  topology: str  # see topologies.find
  shape: Shape
  architecture: str  # an entry of ARCHITECTURES
  model: Any  # that architecture's record
  loss: LossConfig
  consistency: ConsistencyConfig
  optimizer: OptimizerConfig
  mesh: MeshConfig
  total_steps: int | None  # a constant in the program
  ema_decay: float
  accumulation_steps: int
  dropout_bits: str
  cycles: bool = False  # whether to make machine code, for its estimated cycles


class Compiled(NamedTuple):
  """What a step needs of each device, by its compiler."""

  kind: str  # jax.Device.device_kind
  mesh: dict[str, int]  # devices along each axis
  need: int  # bytes of memory, inputs included
  fixed: int  # those of state, batch and gradient, whatever the rows
  room: int | None  # bytes that a program may use; None where nothing limits them
  collectives: tuple[Collective, ...]
  undivided: tuple[str, ...]  # parameters that stay whole because the mesh does not divide them: names and shapes
  products: float  # operations of the matrix products of a step
  formula: float  # those that hardware.flops_per_token() counts when no token is padding
  cycles: int | None  # estimated, of a step; None without machine code, or where the compiler estimates none
  clock: float | None  # estimated cycles a second, as far as known
  seconds: float  # that tracing and compiling took

  @property
  def fits(self) -> bool:
    """Whether the devices have the memory."""
    return self.room is None or self.need <= self.room

  @property
  def estimate(self) -> float | None:
    """Seconds of a step by the compiler's estimate: a model without collectives, sorts and waiting."""
    return self.cycles / self.clock if self.cycles and self.clock else None

  def utilisation(self, peak: float | None) -> float | None:
    """Return the model FLOPs utilisation by the estimate, for devices of `peak` teraflops."""
    return self.formula / (peak * 1e12) / self.estimate if peak and self.estimate else None


def compile_step(step: Step) -> Compiled:
  """Compile a step in a process of its own.

  Raises:
    ConfigError: when there is no such topology, its compiler is not installed, or mesh or rows do not fit it.
    RuntimeError: when the compiler fails.
  """
  with tempfile.TemporaryDirectory() as folder:
    write_json(os.path.join(folder, _STEP), dataclasses.asdict(step))
    path = os.pathsep.join(filter(None, (_ROOT, os.environ.get('PYTHONPATH'))))
    environment = os.environ | {'PYTHONPATH': path} | topologies.environment(step.topology)
    with open(os.path.join(folder, _ERRORS), 'wb') as errors:
      # In a session of its own, so that Ctrl-C reaches this process alone; the other ends with it.
      ended = subprocess.run([sys.executable, '-m', 'training.ahead_of_time', folder, str(os.getpid())], stdout=errors,
                             stderr=errors, env=environment, start_new_session=True)
    if not os.path.isfile(os.path.join(folder, _FOUND)):
      with open(os.path.join(folder, _ERRORS), encoding='utf-8', errors='replace') as file:
        raise RuntimeError(f'compiling for {step.topology} ended with exit code {ended.returncode}:\n{file.read()[-4000:]}')
    found = read_json(os.path.join(folder, _FOUND))
  if 'mistake' in found:
    raise ConfigError(found['mistake'])
  collectives = tuple(Collective(kind, tuple(Array(dtype, tuple(shape)) for dtype, shape in results), runs)
                      for kind, results, runs in found['collectives'])
  return Compiled(**found | {'collectives': collectives, 'undivided': tuple(found['undivided'])})


# ------------------------------------------------------------------------------------------- in the other process


def main(folder: str, parent: int) -> None:
  """Compile the step that the folder describes, write what was found there, and end the process.

  Args:
    folder: made by compile_step.
    parent: number of the process that waits for it; when that ends, this one does, too.
  """
  threading.Thread(target=_end_with, args=(parent, folder), daemon=True).start()
  try:
    found = _compile(_read(os.path.join(folder, _STEP)), folder)._asdict()
  except ConfigError as error:
    found = {'mistake': str(error)}
  write_json(os.path.join(folder, _FOUND), found)
  os._exit(0)  # what is left of the compilation runs in a thread that cannot be stopped


def _end_with(parent: int, folder: str) -> None:
  """End this process, and remove its folder, once the one that started it is gone."""
  while os.getppid() == parent:
    time.sleep(0.5)
  shutil.rmtree(folder, ignore_errors=True)
  os._exit(1)


def _read(path: str) -> Step:
  values = read_json(path)
  records = {'model': ARCHITECTURES[values['architecture']].record, 'loss': LossConfig, 'mesh': MeshConfig,
             'consistency': ConsistencyConfig, 'optimizer': OptimizerConfig}
  made = {name: record(**values[name]) for name, record in records.items()}
  return Step(**values | made | {'shape': Shape(*values['shape'])})


def _compile(step: Step, folder: str) -> Compiled:
  topology, start = topologies.find(step.topology), time.monotonic()
  with config_errors():
    mesh = partitioning.make_mesh(step.mesh, topology.devices)
    partitioning.check_rows(step.shape.rows, mesh, step.accumulation_steps)
  if COMPILATIONS[step.mesh.compile].rows_alone:
    raise ConfigError(f'config.compile is {step.mesh.compile!r}; --compile_for compiles with jit')
  model = architectures.build(step.model)
  optimizer = optimizers.build(step.optimizer, step.total_steps)
  state = abstract_state(lambda key: training.init_state(model, optimizer, key, step.ema_decay, step.dropout_bits),
                         model, mesh)
  batch = abstract_batch(step.shape, mesh)
  objective = training.build_objective(model, step.loss, _BOS, step.consistency)
  traced = compile_training(model, objective, optimizer, mesh, step.mesh.compile, state, step.ema_decay,
                            step.accumulation_steps).trace(state, batch)
  text, report, machine_code = _optimise(traced.lower(), folder, step.cycles)
  module = optimized_module.Module(text)
  costs = hardware.flops_per_token(state.params)
  return Compiled(
      kind=mesh.devices.flat[0].device_kind, mesh=dict(mesh.shape), need=optimized_module.memory(report),
      fixed=sum(map(partitioning.bytes_per_device, (state, batch, state.params))), room=topology.memory,
      collectives=tuple(module.collectives()),
      undivided=tuple(partitioning.undivided(model.axes(), state.params, mesh)),
      products=hardware.product_flops(traced.jaxpr.jaxpr) / mesh.size,
      formula=step.shape.rows * (costs[0] * step.shape.source + costs[1] * step.shape.target) / mesh.size,
      cycles=optimized_module.Module(machine_code).cycles() if machine_code else None, clock=topology.clock,
      seconds=time.monotonic() - start)


def abstract_batch(shape: Shape, mesh: jax.sharding.Mesh) -> Batch:
  """Return a batch of a shape, spread over a mesh, as ShapeDtypeStructs."""
  side = lambda length: Tokens(*[jax.ShapeDtypeStruct((shape.rows, length), jnp.int32,
                                                      sharding=partitioning.spread(mesh))] * 3)
  return Batch(side(shape.source), side(shape.target))


def _optimise(lowered: jax.stages.Lowered, folder: str, whole: bool) -> tuple[str, str, str | None]:
  """Return the optimised module and the memory report that XLA writes out, and the finished program's text if `whole`."""
  finished: list[Any] = []

  def run() -> None:
    try:
      finished.append(lowered.compile(compiler_options={'xla_dump_to': folder, 'xla_dump_hlo_as_text': True}))
    except Exception as error:  # as when the plan needs more memory than there is; it is on disk then
      finished.append(error)

  paths = [os.path.join(folder, f'*after_optimizations{end}.txt') for end in ('', '-memory-usage-report')]
  threading.Thread(target=run, daemon=True).start()
  while not (finished or not whole and all(glob.glob(path) for path in paths)):
    time.sleep(0.1)
  if not all(glob.glob(path) for path in paths):
    raise RuntimeError(f'XLA wrote no optimised module: {finished[0]}')
  contents = [_content(*glob.glob(path)) for path in paths]
  return *contents, finished[0].as_text() if finished and not isinstance(finished[0], Exception) else None


def _content(path: str) -> str:
  """Return a file's text once it no longer grows."""
  size = -1
  while size != (size := os.path.getsize(path)) or not size:
    time.sleep(0.3)
  with open(path, encoding='utf-8') as file:
    return file.read()


if __name__ == '__main__':
  main(sys.argv[1], int(sys.argv[2]))
