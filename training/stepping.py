"""The training step of a run: compiled for each shape of batch, and checked against the memory before it first runs."""

from collections.abc import Callable
from typing import Any

import jax
import optax

from training import failures
from training.log import Log
from training.supervision import Supervision
from transformer import partitioning, training
from transformer.model import Model


def abstract_state(fresh: Callable[[Any], training.TrainState], model: Model, mesh: jax.sharding.Mesh
                   ) -> training.TrainState:
  """Return the shapes and shardings of the state that fresh(key) makes, as ShapeDtypeStructs."""
  shapes = jax.eval_shape(fresh, jax.random.key(0))
  return partitioning.with_shardings(shapes, partitioning.state_shardings(model.axes(), shapes, mesh))


def compile_training(model: Model, objective: training.Objective, optimizer: optax.GradientTransformation,
                     mesh: jax.sharding.Mesh, mode: str, state: training.TrainState, ema_decay: float = 0.0,
                     accumulation_steps: int = 1) -> partitioning.CompiledStep:
  """Return the training step on a mesh, which keeps the shardings of the state. Nothing is compiled yet.

  Args:
    model: gives the names of its parameters' dimensions.
    objective: the loss that a step minimises.
    optimizer, ema_decay, accumulation_steps: see training.make_train_step.
    mesh, mode: see partitioning.compile_step.
    state: gives the shardings of its arrays.
  """
  step = training.make_train_step(partitioning.gathering(objective, model.axes(), mesh), optimizer, ema_decay,
                                  accumulation_steps)
  out = jax.tree.map(lambda leaf: leaf.sharding, state), partitioning.replicated(mesh)
  return partitioning.compile_step(step, mesh, mode, donate=True, out=out)


class Stepper:
  """step(state, batch, shape, number): one update. For a new shape, it is first announced, compiled and checked."""

  def __init__(self, compiled: partitioning.CompiledStep, memory: failures.MemoryOptions, log: Log, run: Supervision):
    """Nothing runs yet. `memory` holds the options that messages name when a step does not fit."""
    self._compiled, self._memory, self._log, self._run = compiled, memory, log, run

  def __call__(self, state: training.TrainState, batch: Any, shape: Any, step: int
               ) -> tuple[training.TrainState, dict[str, jax.Array]]:
    """Return the state after an update, and its measures.

    Raises:
      OutOfMemoryError: before anything runs, when the step needs more memory than there is.
      Stopped: when a stop is requested while the step is compiled.
    """
    if self._compiled.is_new(batch):
      with self._log.compiling(shape) as compiled, self._log.paused(), self._run.watchdog.paused():
        program = self._run.interruptible(self._compiled.program, state, batch)
        failures.check_memory(program, self._memory, shape, state)
      compiled(program)
    with self._log.profiled(step):
      return self._compiled(state, batch)
