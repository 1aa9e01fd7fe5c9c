"""The training step as a run takes it: compiled per shape of batch, checked against the memory before it first runs."""

from typing import Any

import jax
import optax

from training import failures
from training.log import Log
from training.supervision import Supervision
from transformer import partitioning, training
from transformer.model import Model


def compile_training(model: Model, objective: training.Objective, optimizer: optax.GradientTransformation,
                     mesh: jax.sharding.Mesh, mode: str, state: training.TrainState, ema_decay: float = 0.0,
                     accumulation_steps: int = 1) -> partitioning.CompiledStep:
  """Return the training step on a mesh; the state stays laid out as it is. Nothing is compiled before a batch comes.

  Args:
    model: for the names of its parameters' dimensions.
    objective: what a step descends on.
    optimizer, ema_decay, accumulation_steps: see training.make_train_step.
    mesh, mode: see partitioning.compile_step.
    state: where its arrays lie.
  """
  step = training.make_train_step(partitioning.gathering(objective, model.axes(), mesh), optimizer, ema_decay,
                                  accumulation_steps)
  out = jax.tree.map(lambda leaf: leaf.sharding, state), partitioning.replicated(mesh)
  return partitioning.compile_step(step, mesh, mode, donate=True, out=out)


class Stepper:
  """step(state, batch, shape, number): one update; a shape that is new is compiled, announced and checked first."""

  def __init__(self, compiled: partitioning.CompiledStep, memory: failures.MemoryOptions, log: Log, run: Supervision):
    """`memory`: the options to name when a step does not fit."""
    self._compiled, self._memory, self._log, self._run = compiled, memory, log, run

  def __call__(self, state: training.TrainState, batch: Any, shape: Any, step: int
               ) -> tuple[training.TrainState, dict[str, jax.Array]]:
    """Return the state after an update, and its measures.

    Raises:
      OutOfMemoryError: before anything runs, when the step needs more memory than there is.
      Stopped: when a stop is asked for while the step is compiled.
    """
    if self._compiled.is_new(batch):
      with self._log.compiling(shape) as compiled, self._log.paused(), self._run.watchdog.paused():
        program = self._run.interruptible(self._compiled.program, state, batch)
        failures.check_memory(program, self._memory, shape, state)
      compiled(program)
    with self._log.profiled(step):
      return self._compiled(state, batch)
