"""Where arrays live, and the one place that compiles a step: jax.jit over a mesh, or jax.pmap.

To shard another parameter axis, change AXIS_RULES. Steps come from training.py and know nothing of this file.
"""

import functools
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from transformer.tokens import Batch

# Logical axis of a parameter -> mesh axis it is split over; None keeps every device a full copy.
AXIS_RULES = (
    ('vocab', None),
    ('embed_table', None),
    ('embed', None),
    ('heads', None),
    ('kv', None),
    ('mlp', None),
    ('layers', None),  # of scanned stacks
)
DATA = 'data'  # the mesh axis over which the sentences of a batch are split


def make_mesh(data: int = -1) -> Mesh:
  """A mesh whose axis 'data' holds `data` devices; -1 takes all there are.

  Raises:
    ValueError: when there are not that many devices.
  """
  devices = jax.devices()
  size = len(devices) if data == -1 else data
  if not 1 <= size <= len(devices):
    raise ValueError(f'mesh.data is {data}, but there are {len(devices)} devices; -1 takes all')
  return jax.make_mesh((size,), (DATA,), axis_types=(jax.sharding.AxisType.Auto,), devices=devices[:size])


def replicated(mesh: Mesh) -> NamedSharding:
  """Every device holds all of it."""
  return NamedSharding(mesh, PartitionSpec())


def parameter_shardings(axes: Any, mesh: Mesh) -> Any:
  """Shardings of the parameters from their logical axis names (Model.axes) by AXIS_RULES."""
  return nn.logical_to_mesh_sharding(axes, mesh, list(AXIS_RULES))


def check_rows(rows: int, mesh: Mesh) -> None:
  """Raises ValueError naming both when a batch's rows do not divide over the mesh."""
  if rows % mesh.shape[DATA]:
    raise ValueError(f'batches of {rows} rows do not divide over mesh.data = {mesh.shape[DATA]} devices; '
                     'rows are multiples of 8: choose a mesh that divides them')


def place(batch: Batch, mesh: Mesh) -> Batch:
  """Puts a host's rows of the global batch on its devices, split over 'data'."""
  rows = NamedSharding(mesh, PartitionSpec(DATA))
  return jax.tree.map(lambda x: jax.make_array_from_process_local_data(rows, np.asarray(x)), batch)


def compile_step(step: Callable, mesh: Mesh, mode: str, donate: bool) -> Callable:
  """The step as one program: f(first, batch) over host batches, first being the train state or the parameters.

  Args:
    step: step(first, batch, axis=None), see training.py.
    mesh: the devices.
    mode: 'jit' (one global program; XLA inserts the sums) or 'pmap' (one program per device, sums by psum).
    donate: whether `first` may be overwritten.
  """
  if mode == 'jit':
    compiled = jax.jit(step, donate_argnums=(0,) if donate else ())
    return lambda first, batch: compiled(first, place(batch, mesh))

  count = mesh.shape[DATA]
  mapped = jax.pmap(functools.partial(step, axis=DATA), axis_name=DATA, in_axes=(None, 0), out_axes=None,
                    devices=list(mesh.devices.flat))
  split = lambda x: np.asarray(x).reshape((count, x.shape[0] // count) + x.shape[1:])
  return lambda first, batch: mapped(first, jax.tree.map(split, batch))
