"""The layout of arrays over devices, and the compilation of steps: jax.jit over a mesh, or jax.pmap.

A mesh has three axes. The rows of a batch are split over `data` and `fsdp`; parameters, and with them the optimiser's
state, over `fsdp` and `tensor`. To shard another dimension of a parameter, change AXIS_RULES. Steps come from
training.py, which does not depend on this file.
"""

import contextlib
import functools
import itertools
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec, Sharding
from jaxtyping import PyTree

from transformer.config import MeshConfig
from transformer.embeddings import Table
from transformer.registries import COMPILATIONS

Axes = PyTree[PartitionSpec]  # names of each parameter's dimensions, see AXIS_RULES
DATA, FSDP, TENSOR = 'data', 'fsdp', 'tensor'  # the axes of a mesh
ROWS = (DATA, FSDP)  # those over which the rows of a batch are split
_TABLE = PartitionSpec('vocab', 'embed_table')  # the names of an embedding table's dimensions


class Axis(NamedTuple):
  """The mesh axes over which a dimension of a parameter is split."""

  kept: tuple[str, ...] = ()  # between steps; the optimiser's state is split in the same way
  computed: tuple[str, ...] = ()  # in forward and backward passes, which first gather what is kept in more parts


# By the name of a dimension (initializers.with_axes in the models). Columns of embedding tables stay whole: rows
# over one axis and columns over another would make XLA copy whole tables from device to device.
AXIS_RULES = {
    'vocab': Axis((TENSOR, FSDP), (TENSOR,)),
    'embed_table': Axis(),
    'embed': Axis((FSDP,)),
    'heads': Axis((TENSOR,), (TENSOR,)),
    'kv': Axis(),
    'mlp': Axis((TENSOR,), (TENSOR,)),
    'cell': Axis((TENSOR,)),  # recurrent: split computation would need a collective at every time step
    'layers': Axis(),  # of scanned stacks
}


def make_mesh(config: MeshConfig | None = None, devices: Sequence[Any] | None = None) -> Mesh:
  """Arrange devices as data x fsdp x tensor: the first, or with data -1 or no config all of them.

  Those of a process lie side by side, so that the rows which it reads do, see share_of_rows(). jax's own order follows the
  wires of a TPU slice, across its hosts: it is taken where there is one process.

  Args:
    config: the sizes of the axes.
    devices: those of all processes (None), or such as programs are only compiled for.

  Raises:
    ValueError: when there are not that many devices.
  """
  devices = list(jax.devices() if devices is None else devices)
  mesh = abstract_mesh(config or MeshConfig(), len(devices))
  if len({device.process_index for device in devices}) == 1:
    with contextlib.suppress(NotImplementedError):  # of sizes for which it would have to split an axis of the slice
      return jax.make_mesh(mesh.axis_sizes, mesh.axis_names, axis_types=mesh.axis_types, devices=devices[:mesh.size])
  devices.sort(key=lambda device: (device.process_index, device.id))
  return Mesh(np.asarray(devices[:mesh.size]).reshape(mesh.axis_sizes), mesh.axis_names, axis_types=mesh.axis_types)


def abstract_mesh(config: MeshConfig, count: int) -> AbstractMesh:
  """Return the mesh that make_mesh() makes of `count` devices, without them. Raises ValueError as it does."""
  rest = config.fsdp * config.tensor
  data = count // rest if config.data == -1 else config.data
  if not 1 <= data * rest <= count or config.data == -1 and count % rest:
    raise ValueError(f'mesh data {config.data} × fsdp {config.fsdp} × tensor {config.tensor} does not fit '
                     f'{count} devices; expected a product of at most {count}, or with data -1, which '
                     'takes all, an fsdp × tensor that divides it')
  return AbstractMesh((data, config.fsdp, config.tensor), (DATA, FSDP, TENSOR), (jax.sharding.AxisType.Auto,) * 3)


# ------------------------------------------------------------------------------------------------------ parameters


def replicated(mesh: Mesh) -> NamedSharding:
  """Return the sharding of arrays that every device holds whole."""
  return NamedSharding(mesh, PartitionSpec())


def lay_out(tree: PyTree, shardings: PyTree[Sharding]) -> PyTree:
  """Move the arrays to where `shardings` (one, or a tree of them) say."""
  return jax.jit(_unchanged, out_shardings=shardings)(tree)


def _unchanged(tree: PyTree) -> PyTree:
  return tree  # one function for all calls, so that a layout is compiled once


def _split(names: PartitionSpec, shape: tuple[int, ...], mesh: Mesh, stage: str) -> list[tuple[str, ...]]:
  """Return the mesh axes of each dimension of a parameter. Axes that do not divide it are left out, the last first."""
  found = []
  for name, size in itertools.zip_longest(names, shape):
    over = getattr(AXIS_RULES[name], stage) if name else ()
    while size % math.prod(mesh.shape[axis] for axis in over):
      over = over[:-1]
    found.append(over)
  return found


def parameter_shardings(axes: Axes, shapes: PyTree, mesh: Mesh) -> PyTree[NamedSharding]:
  """Return the shardings by AXIS_RULES that parameters are kept in.

  Args:
    axes: the names of each parameter's dimensions (Model.axes).
    shapes: the parameters, or their shapes.
    mesh: the devices.
  """
  place = lambda leaf, names: NamedSharding(mesh, PartitionSpec(*_split(names, leaf.shape, mesh, 'kept')))
  return jax.tree.map(place, shapes, axes)


def with_shardings(shapes: PyTree, shardings: PyTree[NamedSharding]) -> PyTree[jax.ShapeDtypeStruct]:
  """Return shapes that carry shardings: a tree of arrays or shapes, and a tree of shardings like it."""
  return jax.tree.map(lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding), shapes,
                      shardings)


def undivided(axes: Axes, shapes: PyTree, mesh: Mesh) -> list[str]:
  """List parameters with a dimension that stays whole because its mesh axes do not divide it: names and shapes."""
  count = lambda dimensions: sum(mesh.shape[axis] > 1 for over in dimensions for axis in over)
  return [f"{jax.tree_util.keystr(path, simple=True, separator='.')} {tuple(leaf.shape)}"
          for (path, leaf), names in zip(jax.tree_util.tree_leaves_with_path(shapes), jax.tree.leaves(axes))
          if count(_split(names, leaf.shape, mesh, 'kept')) < count(AXIS_RULES[name].kept for name in names if name)]


def state_shardings(axes: Axes, state: PyTree, mesh: Mesh) -> PyTree[NamedSharding]:
  """Return the shardings of a train state: whatever has a parameter's name and shape is split like that parameter.

  So moments and averages are split like the parameters they belong to; all else is whole on every device.

  Args:
    axes: Model.axes().
    state: a TrainState, or its shapes.
    mesh: the devices.
  """
  shardings = parameter_shardings(axes, state.params, mesh)
  known = {path: (leaf.shape, sharding) for (path, leaf), sharding in zip(
      jax.tree_util.tree_leaves_with_path(state.params), jax.tree.leaves(shardings))}

  def find(path, leaf):
    for start in range(len(path)):
      shape, sharding = known.get(path[start:], (None, None))
      if shape == leaf.shape:
        return sharding
    return replicated(mesh)

  return jax.tree_util.tree_map_with_path(find, state)


def own_copy(tree: PyTree) -> PyTree:
  """Return the arrays as this process holds them; those shared with other processes must be whole on every device."""
  shared = lambda leaf: isinstance(leaf, jax.Array) and not leaf.is_fully_addressable
  return jax.tree.map(lambda leaf: leaf.addressable_data(0) if shared(leaf) else leaf, tree)


def gathering(objective: Callable, axes: Axes, mesh: Mesh) -> Callable:
  """Make an objective that first gathers the parameters as far as computation needs them whole (AXIS_RULES).

  The gradient of a gathered parameter is summed over all devices; that of a Table's copies is not. Where the mesh splits
  no parameter, the objective itself is returned.
  """
  if mesh.shape[FSDP] * mesh.shape[TENSOR] == 1:
    return objective

  def gathered(params: PyTree, *inputs, **options):
    gather = lambda names, leaf: jax.lax.with_sharding_constraint(
        leaf, NamedSharding(mesh, PartitionSpec(*_split(names, leaf.shape, mesh, 'computed'))))
    whole = lambda names, leaf: (
        leaf._replace(values=gather(names, leaf.values)) if isinstance(leaf, Table) else gather(names, leaf))
    return objective(jax.tree.map(whole, axes, params), *inputs, **options)

  return gathered


def copies_of_tables(axes: Axes, mesh: Mesh, mode: str = 'jit') -> Callable[[PyTree], PyTree] | None:
  """Make the function that gives each embedding table a copy for each part of a batch's rows.

  Devices would add up a table's gradient for each of its uses, in each micro-batch. The gradient of a copy is the
  device's own; those of all copies are added up at the end, in float32, once a step.

  Args:
    axes, mesh: see gathering.
    mode: compile_step's.

  Returns:
    (params) -> params with a Table for each table; None where the mesh does not split rows, or a device has arrays of
    its own anyway.
  """
  parts = row_parts(mesh)
  if parts == 1 or COMPILATIONS[mode].rows_alone:
    return None

  def copied(names: PartitionSpec, leaf: jax.Array) -> jax.Array | Table:
    if names != _TABLE:
      return leaf
    where = NamedSharding(mesh, PartitionSpec(ROWS, *_split(names, leaf.shape, mesh, 'computed')))
    copies = jax.lax.with_sharding_constraint(jnp.broadcast_to(leaf, (parts, *leaf.shape)), where)
    return Table(jax.lax.stop_gradient(leaf), copies)

  return lambda params: jax.tree.map(copied, axes, params)


def bytes_of(tree: PyTree) -> int:
  """Count the bytes of arrays or shapes, each once."""
  return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def bytes_per_device(tree: PyTree) -> int:
  """Count the bytes that one device holds of arrays, or of shapes that carry shardings."""
  return sum(math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


# --------------------------------------------------------------------------------------------------------- batches


def row_parts(mesh: Mesh | AbstractMesh) -> int:
  """Return the number of equal parts that the rows of a batch are split into."""
  return math.prod(mesh.shape[axis] for axis in ROWS)


def check_rows(rows: int, mesh: Mesh, micro_batches: int = 1) -> None:
  """Raise ValueError when a batch's rows do not split into micro-batches, each divided over the mesh."""
  if rows % (row_parts(mesh) * micro_batches):
    raise ValueError(f'batches of {rows} rows do not divide over mesh.data × mesh.fsdp = {row_parts(mesh)} devices and '
                     f'train.accumulation_steps = {micro_batches} micro-batches; choose numbers that divide them')


def spread(mesh: Mesh) -> NamedSharding:
  """Return the sharding of arrays whose first dimension is the rows of a batch."""
  return NamedSharding(mesh, PartitionSpec(ROWS))


class Share(NamedTuple):
  """The rows of each batch that a process reads: the part numbered `host` of `hosts` equal parts."""

  host: int
  hosts: int


def share_of_rows(mesh: Mesh) -> Share:
  """Return this process's share: the rows that its own devices hold. Processes along `tensor` read the same rows.

  Raises:
    ValueError: when those rows do not lie side by side.
  """
  blocks = mesh.devices.reshape(-1, mesh.shape[TENSOR])  # [data x fsdp, tensor]
  mine = [place for place, devices in enumerate(blocks)
          if any(device.process_index == jax.process_index() for device in devices)]
  if not mine or mine != list(range(mine[0], mine[0] + len(mine))) or len(blocks) % len(mine) or mine[0] % len(mine):
    raise ValueError(f'process {jax.process_index()} holds the parts {mine} of {len(blocks)} of each batch; expected '
                     'equally many of every process, side by side: use a mesh that takes all devices')
  return Share(mine[0] // len(mine), len(blocks) // len(mine))


def place(batch: PyTree, mesh: Mesh) -> PyTree[jax.Array]:
  """Put a process's rows of the global batch on its devices."""
  return jax.tree.map(lambda x: jax.make_array_from_process_local_data(spread(mesh), np.asarray(x)), batch)


# ----------------------------------------------------------------------------------------------------------- steps


class Program(NamedTuple):
  """A step compiled for one shape of batch."""

  call: Callable
  seconds: float  # taken to compile it
  memory: Any  # XLA's memory analysis, in bytes of one device; None where the backend has none

  @property
  def peak_bytes(self) -> int | None:
    """Memory of one device that the step needs: inputs, outputs that do not reuse an input's, and temporaries."""
    if self.memory is None:
      return None
    return (self.memory.argument_size_in_bytes + self.memory.output_size_in_bytes + self.memory.temp_size_in_bytes
            - self.memory.alias_size_in_bytes)


class CompiledStep:
  """A step over host batches: step(first, batch), first being the train state or the parameters.

  A program is compiled for each shape of batch, when the first such batch comes or when program() is called.
  """

  def __init__(self, function: Any, lay: Callable, lay_out_to_compile: Callable | None = None, by_shapes: bool = True):
    """Wrap a step that jax.jit or jax.pmap returned.

    Args:
      function: the step.
      lay: puts a host batch onto the devices, as the compiled step takes it.
      lay_out_to_compile: lays out a host batch as `function` is compiled for it; None: `lay`.
      by_shapes: whether `function` can be compiled for the shapes of its first input alone, without its arrays.
    """
    self.by_shapes = by_shapes
    self._function, self._lay = function, lay
    self._programs: dict[tuple[tuple[int, ...], ...], Future[Program]] = {}  # by the shapes of a batch's arrays
    self._lock = threading.Lock()
    self._lay_out_to_compile = lay_out_to_compile or lay

  def program(self, first: PyTree, batch: PyTree) -> Program:
    """Return the program for batches of this shape, compiled if it is new; may be called in several threads at once.

    Where another thread is compiling it, this waits for it; where compiling has failed, this raises the same error.

    Args:
      first: the first input or, where `by_shapes` is true, its shapes as ShapeDtypeStructs that carry shardings.
      batch: any host batch of this shape.
    """
    with self._lock:
      key = self._key(batch)
      is_new = key not in self._programs
      future = self._programs.setdefault(key, Future())
    if is_new:
      try:
        start = time.monotonic()
        compiled = self._function.lower(first, self._lay_out_to_compile(batch)).compile()
        future.set_result(Program(compiled, time.monotonic() - start, compiled.memory_analysis()))
      except BaseException as error:
        future.set_exception(error)
    return future.result()

  def trace(self, first: PyTree, batch: PyTree) -> jax.stages.Traced:
    """Trace the step for arrays that need not exist: both are trees of ShapeDtypeStructs with shardings. Not for pmap."""
    return self._function.trace(first, batch)

  def is_ready(self, batch: PyTree) -> bool:
    """Return whether program() has a program for batches of this shape, or an error, without waiting."""
    future = self._programs.get(self._key(batch))
    return future is not None and future.done()

  def _key(self, batch: PyTree) -> tuple[tuple[int, ...], ...]:
    return tuple(leaf.shape for leaf in jax.tree.leaves(batch))

  def __call__(self, first: PyTree, batch: PyTree) -> PyTree:
    return self.program(first, batch).call(first, self._lay(batch))


def compile_step(step: Callable, mesh: Mesh, mode: str, donate: bool, out: PyTree[NamedSharding] | None = None
                 ) -> CompiledStep:
  """Compile the step as one program.

  Args:
    step: step(first, batch, axis=None), see training.py.
    mesh: the devices.
    mode: an entry of COMPILATIONS.
    donate: whether `first` may be overwritten.
    out: shardings of what the step returns; None leaves them to XLA. Read by 'jit' alone.
  """
  return COMPILATIONS[mode].compile(step, mesh, donate, out)


class Compilation(NamedTuple):
  """A way to compile a step."""

  compile: Callable[[Callable, Mesh, bool, PyTree], CompiledStep]  # (step, mesh, donate, out), see compile_step
  rows_alone: bool  # whether a mesh can split the rows of a batch and nothing else


def _by_jit(step: Callable, mesh: Mesh, donate: bool, out: PyTree) -> CompiledStep:
  # Else each device would draw the bits of rbg (train.dropout_bits) for all rows of a batch and keep its own.
  options = {'xla_tpu_spmd_rng_bit_generator_unsafe': True} if mesh.devices.flat[0].platform == 'tpu' else None
  return CompiledStep(jax.jit(step, donate_argnums=(0,) if donate else (), out_shardings=out, compiler_options=options),
                      functools.partial(place, mesh=mesh))


def _by_pmap(step: Callable, mesh: Mesh, donate: bool, out: PyTree) -> CompiledStep:
  count = sum(device.process_index == jax.process_index() for device in mesh.devices.flat)  # each gives its own rows
  mapped = jax.pmap(functools.partial(step, axis=DATA), axis_name=DATA, in_axes=(None, 0), out_axes=None,
                    devices=list(mesh.devices.flat), donate_argnums=(0,) if donate else ())
  split = lambda x: np.asarray(x).reshape((count, x.shape[0] // count) + x.shape[1:])
  deal = functools.partial(jax.tree.map, split)
  # pmap is compiled for what one process has, but what it compiles takes the arrays of all processes. With several it
  # converts the ones into the others before it compiles, and so needs arrays.
  return CompiledStep(mapped, lambda batch: place(deal(batch), mesh), deal, by_shapes=jax.process_count() == 1)


COMPILATIONS.add('jit', Compilation(_by_jit, rows_alone=False), 'one program over the mesh; XLA inserts the sums')
COMPILATIONS.add('pmap', Compilation(_by_pmap, rows_alone=True), 'one per device, sums by psum: data parallelism only')
