"""An update that was not finite, computed again from its dump: train.py --replay=STEP."""

from typing import Any

import jax

from checks.exit_codes import DONE, UNEXPECTED
from training import failures, peers
from training.run_folder import RunFolder
from transformer import training
from transformer.partitioning import CompiledStep


def replay(step_fn: CompiledStep, state: training.TrainState, folder: RunFolder, step: int, batch: Any) -> int:
  """Compute an update again, print whether the result is the same, bit for bit, and return the exit code.

  Args:
    step_fn: the training step.
    state: a train state with the shapes and shardings of the dumped one.
    folder: the run's, which holds the dump.
    step: the number of the update.
    batch: this process's rows of its batch.

  Raises:
    NonFiniteError: when there is no such dump.
  """
  wanted = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding), state)
  before, found = failures.read_dump(folder, step, wanted)
  _, measures = step_fn(before, batch)
  now = failures.in_bits({name: value for name, value in jax.device_get(measures).items() if name != 'skipped'})
  same = now == found['measures'] and (not peers.is_main() or failures.fingerprint(batch) == found['batch'])
  for name, value in now.items():
    print(f'{name:<16} {float.fromhex(value):<24g} then {float.fromhex(found["measures"][name]):g}')
  print(f'Step {step:,} ' + ('came out the same, bit for bit.' if same else 'came out different.'), flush=True)
  return DONE if same else UNEXPECTED
