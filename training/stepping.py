"""The training step of a run: compiled for each shape of batch, and checked against the memory before it first runs."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import optax

from training import failures
from training.background import Compilation
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


def compilations(step: partitioning.CompiledStep, first: Any, batches: Iterable[Callable[[], Any]]
                 ) -> Iterator[Compilation]:
  """Yield calls that compile a step for batches, each of another shape.

  Args:
    step: the step.
    first: its first input, of which only shapes and shardings are kept.
    batches: calls that return a host batch.
  """
  abstract = jax.tree.map(
      lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding, weak_type=leaf.weak_type), first)
  for batch in batches:
    yield lambda batch=batch: step.program(abstract, batch())


class Stepper:
  """step(state, batch, shape, number): one update. At a shape's first step its program is announced and checked.

  While the first step is compiled nothing else is, so that lack of memory shows there; what follows is compiled in the
  background, and a step waits for its program only where that is not ready yet.
  """

  def __init__(self, compiled: partitioning.CompiledStep, memory: failures.MemoryOptions, log: Log, run: Supervision,
               after_first: Callable[[training.TrainState], object] = lambda state: None):
    """Nothing runs yet.

    Args:
      compiled: the step.
      memory: the options that messages name when a step does not fit.
      log, run: where compilations are reported, and what stops them.
      after_first: called with the state once the first program is compiled and fits, to compile others ahead.
    """
    self._compiled, self._memory, self._log, self._run = compiled, memory, log, run
    self._seen, self._after_first = set(), after_first

  def __call__(self, state: training.TrainState, batch: Any, shape: Any, step: int
               ) -> tuple[training.TrainState, dict[str, jax.Array]]:
    """Return the state after an update, and its measures.

    Raises:
      OutOfMemoryError: before anything runs, when the step needs more memory than there is.
      Stopped: when a stop is requested while the step is compiled.
      Exception: what compiling it in the background has raised.
    """
    if shape not in self._seen:  # not whether it is compiled: all processes have to ask for a stop equally often
      ready = self._compiled.is_ready(batch)
      with self._log.compiling(shape, ready) as compiled, self._run.watchdog.paused():
        program = self._run.interruptible(self._compiled.program, state, batch)
        failures.check_memory(program, self._memory, shape, state)
      compiled(program)
      if not self._seen:
        self._after_first(state)
      self._seen.add(shape)
    with self._log.profiled(step):
      return self._compiled(state, batch)
