"""The number that the rows of a run's batches are multiples of, so that the devices of its mesh can share them.

A run's first start decides it, and config.json keeps it as data.row_multiple. The batches of a run therefore do not
depend on the devices that it goes on with, and a mesh that cannot share them is refused before any text is read.
"""

import dataclasses

from jax.sharding import AbstractMesh, Mesh

from batching import shapes
from checks.errors import ConfigError, config_errors
from options.configurations import with_options
from tasks.records import Setup
from tasks.task import Task
from training import peers
from training.run_folder import RunFolder
from transformer import attention_kernels, partitioning


def settle(setup: Setup, folder: RunFolder, mesh: Mesh | AbstractMesh) -> Setup:
  """Return the records of a run with its data.row_multiple, which is decided and written where the run has none yet.

  Args:
    setup: the records, as read from the configuration.
    folder: the run's, which holds its configuration. Process 0 has to call this before the others.
    mesh: the devices that the run starts or goes on with.

  Raises:
    ConfigError: when the mesh does not divide the rows, or fixed_rows is no multiple of them.
  """
  saved, parts = folder.read_config(), partitioning.row_parts(mesh)
  kept = saved['data']['row_multiple']
  multiple = shapes.row_multiple(parts) if kept is None else kept
  with config_errors():
    batches = dataclasses.replace(setup.batches, row_multiple=multiple)
  if batches.divisible_rows % parts:
    raise ConfigError(_refusal(folder, batches.divisible_rows, mesh))
  if kept is None and peers.is_main():
    folder.write_json(folder.config, with_options(saved, {'data.row_multiple': multiple}))
  return dataclasses.replace(setup, batches=batches, saved=with_options(setup.saved, {'data.row_multiple': multiple}))


def _refusal(folder: RunFolder, rows: int, mesh: Mesh | AbstractMesh) -> str:
  """Return why a mesh cannot share a run's batches, and what to do."""
  data, fsdp, parts = mesh.shape[partitioning.DATA], mesh.shape[partitioning.FSDP], partitioning.row_parts(mesh)
  fitting = [number for number in range(1, parts) if rows % number == 0]
  products = ' or '.join(map(str, fitting[-3:]))
  return (f'{folder.path} has batches whose rows are multiples of {rows} (data.row_multiple or fixed_rows, kept since '
          f'the run began), and mesh.data {data} × mesh.fsdp {fsdp} would split them into {parts} parts, which do not '
          f'divide that. Choose mesh.data and mesh.fsdp whose product is {products}, such as '
          f'--config.mesh.data={fitting[-1]} --config.mesh.fsdp=1 (mesh.tensor can take further devices); or begin a '
          f'run with rows for {parts} parts, in another --workdir or with --begin_anew. A run that is to go on on more '
          f'devices than it begins on begins with --config.data.row_multiple={shapes.row_multiple(parts)}.')


def check(task: Task, mesh: Mesh) -> None:
  """Raise ValueError when batches do not fit the devices.

  That is, when a micro-batch of training, or a batch of validation or of a test set, does not divide over the mesh, or
  when the model's attention kernel would compute none of them there.
  """
  lengths = {length for shape in task.batches.shapes for length in (shape.source, shape.target)}
  attention_kernels.check(task.model.config, mesh.devices.flat[0].platform, lengths)
  for shape in task.batches.shapes:
    partitioning.check_rows(shape.rows, mesh, task.setup.loop.accumulation_steps)
  tests = task.examined if task.batched_scores else ()  # refused now, not after days of training
  for split in dict.fromkeys((task.corpus.validation, *tests)):
    for shape in task.heldout_plan(split).shapes:
      partitioning.check_rows(shape.rows, mesh)
