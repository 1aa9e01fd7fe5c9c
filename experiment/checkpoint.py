"""Checkpoints of a run, through Orbax: save, restore, compare with the wanted model, average.

A checkpoint holds the train state, and as JSON the run's progress and the validation scores measured at its step.
"""

import logging
import math
import os
from typing import Any, NamedTuple

import jax
import orbax.checkpoint as ocp
from orbax.checkpoint import checkpoint_managers

logging.getLogger('absl').setLevel(logging.ERROR)  # Orbax narrates every save through absl


class CheckpointError(Exception):
  """A checkpoint that is missing or does not fit; scripts end with this exit code."""

  exit_code = 5


class Measure(NamedTuple):
  """A figure on validation text by which one checkpoint is better than another."""

  name: str  # among the metrics that save() is given
  higher_is_better: bool = True

  def rank(self, metrics: dict) -> float:
    """Larger for better; NaN, which sorts nowhere, is worse than any."""
    value = float(metrics[self.name])
    return -math.inf if math.isnan(value) else value if self.higher_is_better else -value


BLEU = Measure('bleu')


class Checkpoints:
  """The checkpoints in one folder: the newest few, and the best few by a measure on validation text besides."""

  def __init__(self, folder: str, keep_last: int | None = None, keep_best: int = 0, measure: Measure = BLEU):
    """keep_last None keeps all: for readers."""
    self._folder, self._measure = os.path.abspath(folder), measure
    best = checkpoint_managers.BestN(get_metric_fn=measure.rank, n=keep_best, keep_checkpoints_without_metrics=False)
    policies = [checkpoint_managers.LatestN(keep_last), *([best] if keep_best else [])]
    self._manager = ocp.CheckpointManager(self._folder, options=ocp.CheckpointManagerOptions(
        preservation_policy=checkpoint_managers.AnyPreservationPolicy(policies), best_fn=measure.rank,
        create=keep_last is not None, read_only=keep_last is None, cleanup_tmp_directories=keep_last is not None))

  def save(self, step: int, state: Any, progress: dict, metrics: dict | None = None) -> None:
    """Starts saving; wait() ends it. `metrics` are validation figures measured at this step, if any."""
    self._manager.save(step, metrics=metrics, args=ocp.args.Composite(
        state=ocp.args.StandardSave(state), progress=ocp.args.JsonSave(progress)))

  def wait(self) -> None:
    """Returns when everything is on disk."""
    self._manager.wait_until_finished()

  def steps(self) -> list[int]:
    """Steps that can be restored, oldest first."""
    return sorted(self._manager.all_steps())

  def latest(self) -> int | None:
    """The newest step, or None."""
    return max(self.steps(), default=None)

  def best(self) -> int | None:
    """The step that measured best on validation, or None when none was measured."""
    measured = {step: self._manager.metrics(step) for step in self.steps()}
    return max((step for step in measured if measured[step]), default=None,
               key=lambda step: self._measure.rank(measured[step]))

  def restore(self, step: int, wanted: Any) -> tuple[Any, dict]:
    """The state and progress saved at a step.

    Args:
      step: one of steps().
      wanted: the state as ShapeDtypeStructs that carry the target shardings.

    Raises:
      CheckpointError: naming the first leaf that does not fit, before anything is read.
    """
    self._compare(step, self._saved_tree(step), wanted)
    saved = self._manager.restore(step, args=ocp.args.Composite(
        state=ocp.args.StandardRestore(wanted), progress=ocp.args.JsonRestore()))
    return jax.jit(lambda state: state)(saved.state), saved.progress  # restored buffers may not be donatable

  def restore_params(self, step: int, wanted: Any, averaged: bool = True) -> Any:
    """The parameters alone; with `averaged`, their moving average where the run keeps one."""
    tree = self._saved_tree(step)
    field = 'average' if averaged and isinstance(tree['average'], dict) else 'params'
    self._compare(step, tree[field], wanted, f'{field}.')
    abstract = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=getattr(
        leaf, 'sharding', None) or jax.sharding.SingleDeviceSharding(jax.devices()[0])), wanted)
    # A reader of its own: a manager that has saved is bound to the way it saved.
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as reader:
      restored = reader.restore(os.path.join(self._folder, str(step), 'state'), args=ocp.args.PyTreeRestore(
          item={field: abstract}, partial_restore=True,
          restore_args={field: ocp.checkpoint_utils.construct_restore_args(abstract)}))
    return restored[field]

  def average(self, steps: list[int], wanted: Any) -> Any:
    """Arithmetic mean of the parameters of several steps (§6.1), added up in float32 one after the other."""
    total = self.restore_params(steps[0], wanted)
    for step in steps[1:]:
      total = jax.tree.map(lambda a, b: a + b, total, self.restore_params(step, wanted))
    return jax.tree.map(lambda a: a / len(steps), total)

  def resolve(self, wanted: str) -> list[int]:
    """The steps meant by 'best', 'latest', 'average:N' (the last N) or a step's number; several are to be averaged.

    Raises:
      CheckpointError: naming the steps that are there.
    """
    steps = self.steps()
    if not steps:
      raise CheckpointError(f'{self._folder} holds no checkpoint yet; train first')
    there = f'there are steps {", ".join(map(str, steps))}'
    kind, _, count = wanted.partition(':')
    if wanted == 'latest':
      return steps[-1:]
    if wanted == 'best':
      return [self.best() or steps[-1]]  # a run too short for an evaluation has only its last
    if kind == 'average' and count.isdigit() and int(count):
      if int(count) > len(steps):
        raise CheckpointError(f'--checkpoint={wanted} asks for {count} checkpoints; {there}')
      return steps[-int(count):]
    if wanted.isdigit():
      if int(wanted) not in steps:
        raise CheckpointError(f'no checkpoint of step {wanted}; {there}')
      return [int(wanted)]
    raise CheckpointError(f'--checkpoint={wanted}: expected best, latest, average:N or the number of a step; {there}')

  def _saved_tree(self, step: int) -> dict:
    """Names, shapes and dtypes of what was saved, read from the checkpoint's description alone."""
    with ocp.StandardCheckpointer() as reader:
      return reader.metadata(os.path.join(self._folder, str(step), 'state')).item_metadata.tree

  def _compare(self, step: int, saved: Any, wanted: Any, prefix: str = '') -> None:
    have, want = _describe(saved, prefix), _describe(wanted, prefix)
    for name in [*want, *(have.keys() - want.keys())]:
      if have.get(name) != want.get(name):
        raise CheckpointError(
            f'checkpoint {step} in {self._folder} belongs to another configuration: {name} is '
            f'{have.get(name, "absent")} there and {want.get(name, "absent")} in this one; '
            'use the configuration of that run, or another --workdir')


def _describe(tree: Any, prefix: str) -> dict[str, str]:
  """'float32 (512, 8, 64)' of each leaf by its dotted name. Random keys are saved as their bits."""
  described = {}
  for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
    if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
      leaf = jax.eval_shape(jax.random.key_data, leaf)
    described[prefix + jax.tree_util.keystr(path, simple=True, separator='.')] = f'{leaf.dtype} {tuple(leaf.shape)}'
  return described
