"""The training step of a run: compiled for each shape of batch, and checked against the memory before it first runs."""

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import optax

from batching.plan import Plan
from batching.shapes import Shape
from training import failures
from training.background import Background, Compilation, compilations
from training.evaluation import Evaluator
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
  axes = model.axes()
  step = training.make_train_step(partitioning.gathering(objective, axes, mesh), optimizer, ema_decay,
                                  accumulation_steps, partitioning.copies_of_tables(axes, mesh, mode))
  out = jax.tree.map(lambda leaf: leaf.sharding, state), partitioning.replicated(mesh)
  return partitioning.compile_step(step, mesh, mode, donate=True, out=out)


def _abstract(leaf: jax.Array) -> jax.ShapeDtypeStruct:
  """Return what a program that takes this array is compiled for."""
  return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding, weak_type=getattr(leaf, 'weak_type', False))


class Stepper:
  """step(state, batch, shape, number): one update. At a shape's first step its program is announced and checked.

  While the first step is compiled no other step is, so that lack of memory shows there. What else will be needed is then
  compiled in the background, and whoever needs a program waits for it where it is not ready yet. A context manager, at
  whose end nothing further is compiled.
  """

  def __init__(self, compiled: partitioning.CompiledStep, plan: Plan, share: partitioning.Share, last: int | None,
               memory: failures.MemoryOptions, log: Log, run: Supervision, evaluator: Evaluator):
    """Nothing runs yet.

    Args:
      compiled: the step.
      plan, share: of training's batches, and this process's rows of them.
      last: the step at which the run ends; None where that is not known.
      memory: the options that messages name when a step does not fit.
      log, run: where compilations are reported, and what stops them.
      evaluator: what evaluations run is compiled ahead as well.
    """
    self._compiled, self._plan, self._share, self._last = compiled, plan, share, last
    self._memory, self._log, self._run, self._evaluator = memory, log, run, evaluator
    self._ahead, self._seen = Background(lambda: bool(run.stop.exit_code)), set()

  def __enter__(self) -> 'Stepper':
    self._ahead.__enter__()
    return self

  def __exit__(self, *error: Any) -> None:
    self._ahead.__exit__(*error)

  def __call__(self, state: training.TrainState, batch: Any, shape: Shape, step: int
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
        failures.check_memory(program, self._memory, shape, state, self._plan.fewest_rows)
      compiled(program)
      if not self._seen:
        self._ahead.begin(self._further(jax.tree.map(_abstract, state), step))  # a step overwrites the arrays
      self._seen.add(shape)
    return self._log.profiled(step, lambda: self._compiled(state, batch))

  def wait(self) -> None:
    """Wait until everything is compiled. Raises Stopped when a stop is requested meanwhile."""
    with self._log.paused('waiting'), self._run.watchdog.paused():
      self._run.interruptible(self._ahead.wait)

  def _further(self, state: training.TrainState, step: int) -> Iterator[Compilation]:
    """Return what to compile once the step `step` is compiled, in the order in which it will be needed."""
    batches = (functools.partial(self._plan.batch_at, first, *self._share)
               for _, first in self._plan.first_uses(step, self._last))
    return itertools.chain(compilations(self._compiled, state, batches), self._evaluator.compilations(state))
