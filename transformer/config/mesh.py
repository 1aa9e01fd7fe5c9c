"""How devices share the work."""

import dataclasses
from collections.abc import Iterator

from checks.refusals import refuse
from transformer import registries


@dataclasses.dataclass(frozen=True)
class MeshConfig:
  """How many devices share which work. See partitioning."""

  data: int = -1  # parts that a batch's rows are split into; -1: all devices that fsdp and tensor leave
  fsdp: int = 1  # further parts of a batch's rows, over which parameters and optimiser state are split, too
  tensor: int = 1  # parts of heads, of the feed-forward network's units and of the vocabulary
  compile: str = 'jit'  # how a step is compiled, see partitioning

  def __post_init__(self):
    refuse(self._mistakes())

  def _mistakes(self) -> Iterator[str]:
    yield from registries.COMPILATIONS.mistakes(self.compile)
    if self.data < 1 and self.data != -1:
      yield f'mesh.data is {self.data}; expected a positive number of devices, or -1 for all'
    for name in ('fsdp', 'tensor'):
      if getattr(self, name) < 1:
        yield f'mesh.{name} is {getattr(self, name)}; expected a positive number of devices'
    compilation = registries.COMPILATIONS.get(self.compile)
    if compilation and compilation.rows_alone and self.fsdp * self.tensor > 1:
      yield (f'compile is {self.compile}, which can split only batches, but mesh.fsdp is {self.fsdp} and mesh.tensor '
             f'{self.tensor}; expected 1 for both, or compile=jit')
