"""Checkpoints of a run, through Orbax: save, verify, restore, compare with the wanted model, average.

A checkpoint holds the train state, and as JSON the run's progress and the validation scores measured at its step.
Orbax commits a checkpoint by a rename, whole or not at all, but does not detect flipped bits. So the run's manifest
lists the SHA-256 of each of its files, and a checkpoint that does not match them is never read.
"""

import concurrent.futures
import hashlib
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import orbax.checkpoint as ocp

from checks import errors, exit_codes, files
from training import fit, full_disk, peers, preservation
from training.manifest import Manifest
from training.preservation import BLEU, Measure
from transformer import partitioning

logging.getLogger('absl').setLevel(logging.ERROR)  # Orbax logs every save through absl
full_disk.report_once()

# Orbax cuts each array that several devices hold into a slice for each, so that they are fetched and written side by
# side. Slices below a megabyte cost more than they save: each is a program of its own.
ocp.type_handlers.get_type_handler(jax.Array)._min_slice_bytes_for_replica_parallel = 2**20


class CheckpointError(Exception):
  """A checkpoint that is missing or does not fit; scripts end with this exit code."""

  exit_code = exit_codes.CHECKPOINT


class DamagedError(CheckpointError, errors.DamagedError):
  """A checkpoint whose files differ from those that were saved, or are gone."""


class _Storage(ocp.CheckpointManager):
  """Orbax's manager, but for two things: metrics of a listed step are those of the run's manifest, and it asks for no stop.

  Orbax reads the metrics of all steps whenever it opens the folder, to know the best, and before any file is verified.
  """

  def __init__(self, folder: str, options: ocp.CheckpointManagerOptions, manifest: Manifest):
    """Open a folder of checkpoints; see Checkpoints."""
    self._manifest = manifest
    super().__init__(folder, options=options)

  def reached_preemption(self, step: int) -> bool:
    """Return False: jax counts these questions, and a run that asks by other numbers would miss its own (see stopping)."""
    return False

  def metrics(self, step: int) -> dict[str, float] | None:
    """Return the validation metrics of a step, or None.

    Raises:
      DamagedError: when a run without a manifest has metrics that are no JSON.
    """
    entry = self._manifest.checkpoints().get(step, {})
    if 'metrics' in entry:
      return entry['metrics']
    try:
      return super().metrics(step)
    except ValueError as error:
      if self._manifest.exists():  # the step was not listed before the run was killed: it counts as damaged
        return None
      raise DamagedError(f'{self.directory}/{step}/metrics/metrics is damaged ({error}); put it back from a copy, or '
                         f'remove the folder of that checkpoint') from None


class Checkpoints:
  """The checkpoints in one folder: the newest few, and the best few by a validation metric."""

  def __init__(self, folder: str, keep_last: int | None = None, keep_best: int = 0, measure: Measure = BLEU,
               is_planned: Callable[[int], bool] = lambda step: True):
    """Open the folder; with `keep_last` None it is only read, and every checkpoint is kept.

    The newest are `keep_last` of all, and as many of those that were planned: stops that save take no place from them.
    """
    self._files = files.of(folder)
    self._folder, self._measure = self._files.absolute(folder), measure
    self._manifest = Manifest(os.path.dirname(self._folder))
    policy = preservation.policy(keep_last, keep_best, measure.rank, is_planned)
    self._manager = _Storage(self._folder, ocp.CheckpointManagerOptions(
        preservation_policy=policy, best_fn=measure.rank,
        create=keep_last is not None, read_only=keep_last is None, cleanup_tmp_directories=keep_last is not None),
        self._manifest)
    self._pool, self._finishing = concurrent.futures.ThreadPoolExecutor(1), None
    self._whole: set[int] = set()  # the steps that were found whole and are not read yet

  def save(self, step: int, state: Any, progress: dict, metrics: dict | None = None) -> None:
    """Start saving; wait() returns when it is done. `metrics` are the validation metrics of this step, if any.

    A checkpoint of the same step, which a stop before the evaluation may have left, is replaced.

    Raises:
      CheckpointError: when the disk is full.
    """
    self.wait()
    entry = {'metrics': metrics, 'history': self._history()}
    try:
      if step in self.steps():
        self._put_by(step)
      self._manager.save(step, metrics=metrics, args=ocp.args.Composite(
          state=ocp.args.StandardSave(state), progress=ocp.args.JsonSave(progress)))
    except Exception as error:
      raise self._explained(error, step) from error
    self._finishing = step, self._pool.submit(self._finish, step, entry)  # listed as soon as it is whole: a kill may come
    if jax.default_backend() == 'cpu':  # on a CPU the next step would overwrite the memory being saved
      self.wait()

  def wait(self) -> None:
    """Wait until everything is on disk. Raises CheckpointError when the disk is full."""
    if self._finishing:
      (step, future), self._finishing = self._finishing, None
      try:
        future.result()
      except Exception as error:
        raise self._explained(error, step) from error
      peers.meet(f'checkpoint {step}')  # in the main thread, where all collectives are

  def _finish(self, step: int, entry: dict[str, Any]) -> None:
    """Wait until a step is committed, then list it in the manifest."""
    self._manager.wait_until_finished()
    if peers.is_main():
      entry = entry | {'files': self._files.sums_of(os.path.join(self._folder, str(step)))}
      self._manifest.record_checkpoint(step, entry, kept=self._manager.all_steps())
      self._files.remove_folder(self._put_by_place(step))

  def _history(self) -> list[Any] | None:
    """Return size and sum of metrics.jsonl, which holds what was measured up to here."""
    path = os.path.join(os.path.dirname(self._folder), 'metrics.jsonl')
    if not peers.is_main() or not self._files.is_file(path):
      return None
    content = self._files.read(path)
    return [len(content), hashlib.sha256(content).hexdigest()]

  def _put_by(self, step: int) -> None:
    """Move a checkpoint out of the way of another one of its step, until that one is whole."""
    if peers.is_main():
      self._files.remove_folder(self._put_by_place(step))
      self._files.move(os.path.join(self._folder, str(step)), self._put_by_place(step))
    peers.meet(f'checkpoint {step} is put by')
    self._manager.reload()

  def _put_by_place(self, step: int) -> str:
    """Return where the checkpoint of a step is put by: on the disk that it lies on, where that takes no room."""
    beside = self._folder if self._files.is_elsewhere(self._folder) else os.path.dirname(self._folder)
    return os.path.join(beside, 'replaced', str(step))

  def _bring_back(self) -> None:
    """Move checkpoints back that were put by for others that never became whole."""
    listed = self._manifest.checkpoints()
    # Earlier versions put them by beside a folder on another disk.
    for place in {os.path.dirname(self._put_by_place(0)), os.path.join(os.path.dirname(self._folder), 'replaced')}:
      for name in filter(str.isdigit, self._files.names(place)):  # a kill may leave an unfinished copy beside them
        put_by, there = os.path.join(place, name), os.path.join(self._folder, name)
        # In a bucket, where objects are moved one by one, either of the two may be there in part.
        whole = int(name) in listed and not self._difference(put_by, listed[int(name)]['files'])
        if not self._files.is_folder(there) or whole and self.damage(int(name)):
          self._files.remove_folder(there)
          self._files.move(put_by, there)
      self._files.remove_folder(place)

  def _explained(self, error: Exception, step: int) -> Exception:
    """Return a CheckpointError in place of an error of saving that a full disk or the bucket explains, else the error."""
    run = os.path.dirname(self._folder)
    full = run if os.path.dirname(str(getattr(error, 'filename', ''))) == run else self._folder  # with the manifest, or not
    if full_disk.is_cause(error) and (free := self._files.free(full)) is not None:
      what, remedy = f'no room to save step {step} in {full} ({free:,} bytes are free)', (
          'Make room, or lower train.keep_last and keep_best')
    elif blamed := self._files.blamed(error):
      what, remedy = f'step {step} could not be saved in {self._folder} ({blamed})', 'Look at the network and the bucket'
    else:
      return error
    rest = [found for found in self.steps() if found != step]
    return CheckpointError(f'{what}; ' + (f'step {rest[-1]} is whole. ' if rest else 'there is no earlier one. ')
                           + f'{remedy}, and give the same command again')

  def damage(self, step: int) -> str | None:
    """Return in words how a step's files differ from what was saved; None when they do not.

    A step that the manifest does not list was interrupted between its commit and its listing. In a run without a
    manifest, of before there were any sums, Orbax's commit is trusted.
    """
    listed = self._manifest.checkpoints()
    if step not in listed:
      return 'the run was killed while it was saved' if listed or self._manifest.exists() else None
    return self._difference(os.path.join(self._folder, str(step)), listed[step]['files'])

  def _difference(self, place: str, saved: Mapping[str, str]) -> str | None:
    """Return in words how the files of a checkpoint differ from these sums; None when they do not."""
    try:
      found = self._files.sums_of(place)
    except FileNotFoundError:  # it is being removed
      found = {}
    if not found:
      return 'it is missing'
    found = {name: value for name, value in found.items() if name in saved or not os.path.basename(name).startswith('.')}
    for name in sorted(saved.keys() | found.keys()):
      if name not in found:
        return f'{name} is missing'
      if name not in saved:
        return f'{name} was not saved with it'
      if saved[name] != found[name]:
        return f'{name} has changed since it was saved'
    return None

  def check(self, step: int) -> None:
    """Raise DamagedError when a step's files differ from what was saved; what was compared is read without doing so again."""
    if step not in self._whole and (problem := self.damage(step)):
      if self._manifest.exists() and step not in self.known():
        raise CheckpointError(f'checkpoint {step} in {self._folder} was removed: the run goes on. Give the command again')
      rest = [found for found in self.steps() if found != step]
      raise DamagedError(f'checkpoint {step} in {self._folder} is damaged: {problem}; put it back from a copy' + (
          f', or choose another: there are steps {", ".join(map(str, rest))}' if rest else
          '' if self.steps() else '. No checkpoint is there: is the disk that holds them mounted?'))
    self._whole.add(step)

  def newest_whole(self) -> tuple[int | None, list[str]]:
    """Return the newest undamaged step (or None), and a note on each newer one, which is moved to damaged/.

    A step that was committed, but not listed before the run was killed, counts only where no listed one is whole.

    Raises:
      CheckpointError: when the run has had checkpoints, and none of them is whole.
    """
    found, notes = 0, []
    if peers.is_main():
      self._bring_back()
      self._manager.reload()
      listed, steps = self._manifest.checkpoints(), self.steps()
      problems = {}
      for step in reversed(steps):
        if (problem := self.damage(step)) is None:
          self._whole.add(step)
          break
        problems[step] = problem
      whole = [step for step in steps if step not in problems]
      unlisted = [step for step in problems if step not in listed]
      if not whole and unlisted:  # the newest first: Orbax has committed it
        entry = {'files': self._files.sums_of(os.path.join(self._folder, str(unlisted[0]))),
                 'metrics': self._manager.metrics(unlisted[0])}
        self._manifest.record_checkpoint(unlisted[0], entry, kept=listed)
        notes.append(f'the run was killed while checkpoint {unlisted[0]} was saved; it is taken as it is')
        whole = [unlisted[0]]
        del problems[unlisted[0]]
      for step, problem in problems.items():
        notes.append(f'checkpoint {step} is damaged ({problem}) and was moved to damaged/{step}')
        self._set_aside(step)
      lost = sorted((step for step in listed if step not in steps), reverse=True)
      notes += [f'checkpoint {step}, which the manifest lists, is missing' for step in lost
                if not whole or step > whole[-1]]
      found = whole[-1] if whole else -2 if listed else -1
    found = peers.agreed(found)
    self._manager.reload()
    if found == -2:
      raise CheckpointError(f'no checkpoint in {self._folder} is whole:\n  ' + '\n  '.join(notes)
                            + '\nIs the disk that holds them mounted? Put them back from a copy, or begin at step 0 with '
                              '--begin_anew, which sets aside what the run has measured')
    return (None if found == -1 else found), notes

  def _set_aside(self, step: int) -> None:
    aside = os.path.join(os.path.dirname(self._folder), 'damaged', str(step))
    self._files.remove_folder(aside)
    self._files.move(os.path.join(self._folder, str(step)), aside)

  def steps(self) -> list[int]:
    """Return the steps that are there, oldest first."""
    return sorted(self._manager.all_steps())

  def known(self) -> list[int]:
    """Return the steps that should be there, oldest first: those that the manifest lists, where there is one."""
    return sorted(self._manifest.checkpoints()) if self._manifest.exists() else self.steps()

  def best(self) -> int | None:
    """Return the step with the best validation metric, or None when no step has metrics."""
    measured = {step: self._manager.metrics(step) for step in self.known()}
    return max((step for step in measured if measured[step]), default=None,
               key=lambda step: self._measure.rank(measured[step]))

  def restore(self, step: int, wanted: Any) -> tuple[Any, dict]:
    """Return the state and the progress saved at a step.

    Args:
      step: one of steps().
      wanted: the state as ShapeDtypeStructs that carry the target shardings.

    Raises:
      CheckpointError: naming a leaf that does not fit, before any array is read.
      DamagedError: see check().
    """
    self.check(step)
    self._compare(step, self._saved_tree(step), wanted)
    saved = self._manager.restore(step, args=ocp.args.Composite(
        state=ocp.args.StandardRestore(wanted), progress=ocp.args.JsonRestore()))
    self._whole.discard(step)
    # Restored buffers may not be donatable, and with their own shardings a step would be another program than a new run's.
    return partitioning.lay_out(saved.state, jax.tree.map(lambda leaf: leaf.sharding, wanted)), saved.progress

  def check_vocabularies(self, step: int, fingerprints: Sequence[str]) -> None:
    """Raise CheckpointError when a step was trained with other vocabularies than those of these fingerprints.

    Raises:
      DamagedError: see check().
    """
    self.check(step)
    with ocp.Checkpointer(ocp.JsonCheckpointHandler()) as reader:
      progress = reader.restore(os.path.join(self._folder, str(step), 'progress'))
    if progress.get('vocabulary') not in (None, [], list(fingerprints)):  # earlier versions did not name them
      raise CheckpointError(f'checkpoint {step} in {self._folder} was trained with another vocabulary than the one it is to '
                            "be used with; restore the run's own files of vocabulary.*, or give another --workdir")

  def restore_params(self, step: int, wanted: Any, averaged: bool = True) -> Any:
    """Return the parameters alone; with `averaged`, their moving average where the run keeps one."""
    self.check(step)
    field = self.check_fits(step, wanted, averaged)
    abstract = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=getattr(
        leaf, 'sharding', None) or jax.sharding.SingleDeviceSharding(jax.local_devices()[0])), wanted)
    # A separate reader: a manager that has saved can restore only in the form in which it saved.
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as reader:
      restored = reader.restore(os.path.join(self._folder, str(step), 'state'), args=ocp.args.PyTreeRestore(
          item={field: abstract}, partial_restore=True,
          restore_args={field: ocp.checkpoint_utils.construct_restore_args(abstract)}))
    self._whole.discard(step)
    return restored[field]

  def check_fits(self, step: int, wanted: Any, averaged: bool = True) -> str:
    """Return under which name the parameters of restore_params are saved. Raises CheckpointError when their shapes differ."""
    tree = self._saved_tree(step)
    field = 'average' if averaged and isinstance(tree['average'], dict) else 'params'
    self._compare(step, tree[field], wanted, f'{field}.')
    return field

  def average(self, steps: list[int], wanted: Any) -> Any:
    """Return the arithmetic mean of the parameters of several steps (§6.1), added up in float32 one by one."""
    total = self.restore_params(steps[0], wanted)
    for step in steps[1:]:
      total = jax.tree.map(lambda a, b: a + b, total, self.restore_params(step, wanted))
    return jax.tree.map(lambda a: a / len(steps), total)

  def resolve(self, wanted: str, apart: Callable[[list[int]], list[int]] = lambda steps: steps) -> list[int]:
    """Return the steps that 'best', 'latest', 'average:N' (the last N) or a step's number means; average several.

    Which steps 'final' means is not known here, but from the run's results: see chosen_steps() in tasks/trained.py.

    Args:
      wanted: one of these.
      apart: returns those of the steps that count where the last N are wanted, see LoopConfig.to_average.

    Raises:
      CheckpointError: when there are no such steps, naming those that exist.
    """
    steps = self.known()
    if not steps:
      raise CheckpointError(f'{self._folder} holds no checkpoint yet; train first')
    there = f'there are steps {", ".join(map(str, steps))}'
    kind, _, count = wanted.partition(':')
    if wanted == 'latest':
      return steps[-1:]
    if wanted == 'best':
      return [self.best() or steps[-1]]  # a run too short for an evaluation has no best
    if kind == 'average' and count.isdigit() and int(count):
      if int(count) > len(counted := apart(steps)):
        raise CheckpointError(f'--checkpoint={wanted} asks for {count} checkpoints; {there}' + (
            f', of which only {", ".join(map(str, counted))} count: a stop has saved the others, or the next one is too '
            'close to them' if counted != steps else ''))
      return counted[-int(count):]
    if wanted.isdigit():
      if int(wanted) not in steps:
        raise CheckpointError(f'no checkpoint of step {wanted}; {there}')
      return [int(wanted)]
    raise CheckpointError(f'--checkpoint={wanted}: expected final, best, latest, average:N or the number of a '
                          f'step; {there}')

  def _saved_tree(self, step: int) -> dict:
    """Return the names, shapes and dtypes of a saved state, read from the checkpoint's metadata alone."""
    with ocp.StandardCheckpointer() as reader:
      return reader.metadata(os.path.join(self._folder, str(step), 'state')).item_metadata.tree

  def _compare(self, step: int, saved: Any, wanted: Any, prefix: str = '') -> None:
    if found := fit.difference(saved, wanted, prefix):
      raise CheckpointError(f'checkpoint {step} in {self._folder} belongs to another configuration: {found}; use the '
                            'configuration of that run, or another folder')
