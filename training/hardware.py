"""What a step costs and what the hardware could do: floating-point operations, MFU, memory.

Model FLOPs utilisation (Chowdhery et al., 2022, appendix B) is the number of operations per second that the model
itself requires, divided by the devices' peak. We count products with parameters: two operations for each parameter and
token in the forward pass, and four in the backward pass. We do not count padding, attention's products of queries,
keys and values (a few percent at the lengths of translation), normalisation, recomputation and the optimiser.
"""

import contextlib
import math
import os
import re
import resource
import sys
from typing import Any

import jax

from checks import cache_root, machine
from transformer.tokens import Batch

# Dense bfloat16 peak of one device in teraflops (vendors' data sheets), by jax's name for it: the whole name of a TPU,
# one of the words in a GPU's. A chip of v2, v3 and TPU7x is two devices, of v4 and v5p one.
PEAKS = {
    'NVIDIA H100 PCIe': 756.0, 'NVIDIA H100 NVL': 835.0, 'NVIDIA H200 NVL': 835.0,
    'H200': 989.0, 'H100': 989.0, 'A100': 312.0, 'L4': 121.0, 'V100': 125.0,
    'TPU7x': 1153.5, 'TPU v6 lite': 918.0, 'TPU v6e': 918.0, 'TPU v5': 459.0, 'TPU v5p': 459.0, 'TPU v5 lite': 197.0,
    'TPU v5e': 197.0, 'TPU v4': 275.0, 'TPU v3': 61.5, 'TPU v2': 23.0,
}
_MOST_PARTS = 8  # devices on one processor; more have not been tried
_SEARCH_TOKENS, _SEARCH_TOKENS_ELSEWHERE = {'cpu': 2048}, 8192  # the second is a guess: accelerators need more rows
_NO_PRODUCT = re.compile(r'positions|norm|bias|scale|(^|\.)b(\d|_)|source_embedding')
_OF_SOURCE = re.compile(r'encoder|cross_attention\.w_(key|value)|(for|back)ward_layers|link\.attention\.score\.w_key')


def peak_tflops(kind: str, given: float | None) -> float | None:
  """Return the peak of one device in teraflops: what the user gave, else from PEAKS; None when unknown, as on a CPU.

  Args:
    kind: its jax.Device.device_kind.
    given: --config.train.peak_tflops.
  """
  return given or next((PEAKS[name] for name in (kind, *re.split(r'[\s-]', kind)) if name in PEAKS), None)


def peak_of(mesh: jax.sharding.Mesh, given: float | None) -> float | None:
  """Return the peak of all devices of a mesh together, see peak_tflops."""
  peak = peak_tflops(mesh.devices.flat[0].device_kind, given)
  return peak * mesh.size if peak else None


def flops_per_token(params: Any) -> tuple[float, float]:
  """Return the operations of a training step for each source token and for each target token, as defined above.

  The encoder's parameters, and those of the keys and values that the decoder attends to, apply to source tokens; all
  others to target tokens. Looking up an embedding costs nothing: a tied table counts once, as the output projection.
  """
  of_source = of_target = 0
  names = {jax.tree_util.keystr(path, simple=True, separator='.'): leaf
           for path, leaf in jax.tree_util.tree_leaves_with_path(params)}
  untied = any(name.endswith('output_projection') for name in names)
  for name, leaf in names.items():
    if _NO_PRODUCT.search(name) or untied and name.endswith('embedding'):
      continue
    if _OF_SOURCE.search(name):
      of_source += math.prod(leaf.shape)
    else:
      of_target += math.prod(leaf.shape)
  return 6.0 * of_source, 6.0 * of_target


def product_flops(jaxpr: Any) -> float:
  """Return the operations of all matrix products in a traced function, over all devices.

  Products within a scan count once for each of its turns; those in other loops count once.

  Args:
    jaxpr: a Jaxpr, see jax.make_jaxpr.
  """
  total = 0.0
  for equation in jaxpr.eqns:
    if equation.primitive.name == 'dot_general':
      (contracted, _), _ = equation.params['dimension_numbers']
      shape = equation.invars[0].aval.shape
      total += 2.0 * math.prod(equation.outvars[0].aval.shape) * math.prod(shape[axis] for axis in contracted)
    turns = equation.params['length'] if equation.primitive.name == 'scan' else 1
    for value in jax.tree.leaves(list(equation.params.values())):
      inner = getattr(value, 'jaxpr', value)  # an inner function, open or closed, or some other parameter
      if hasattr(inner, 'eqns'):
        total += turns * product_flops(inner)
  return total


def step_flops(costs: tuple[float, float], batch: Any) -> float:
  """Return the operations of a training step over this process's rows of a batch; `costs` as in flops_per_token()."""
  real = lambda side: int((side.segments > 0).sum())
  if isinstance(batch, Batch):
    return costs[0] * real(batch.source) + costs[1] * real(batch.target)
  return costs[1] * real(batch.sequences)


def keep_programs(given: str | None = None) -> None:
  """Let jax keep compiled programs, which are code, in a folder of the user's: this is the only place that sets it.

  Where the folder cannot be used, nothing is kept and a note says so. Programs that compile in less than half a second
  are not kept, unless $JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS sets another limit.

  Args:
    given: config.compile_cache of the user's own command; None: the user's cache. Never what a run's folder names.
  """
  try:
    if given and '://' not in given:
      os.makedirs(given, exist_ok=True)
    folder = given or cache_root.programs()
  except OSError as error:
    print(f'Note: {error}; programs are compiled anew at every start. --config.compile_cache of train.py, or '
          '$JAX_COMPILATION_CACHE_DIR, names another folder', file=sys.stderr, flush=True)
    folder = None
  jax.config.update('jax_compilation_cache_dir', folder)
  if 'JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS' not in os.environ:  # which jax has read
    jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.5)


def split_processor() -> None:
  """Make a device of each core that this process may use, up to _MOST_PARTS, for work that devices do independently.

  Beam search consists of many small products: two cores do more as two devices than as two threads of one. Accelerators
  are unaffected; nothing changes where the user has set a number of devices, or jax has already initialised them.
  """
  if jax.config.jax_num_cpu_devices < 0 and 'host_platform_device_count' not in os.environ.get('XLA_FLAGS', ''):
    with contextlib.suppress(RuntimeError):  # raised when jax has already initialised its devices
      jax.config.update('jax_num_cpu_devices', min(machine.cores(), _MOST_PARTS))


def search_tokens(wanted: int | None) -> int:
  """Return rows × beams × source length of a device's search batch: the configured number, else the platform's."""
  return wanted or _SEARCH_TOKENS.get(jax.default_backend(), _SEARCH_TOKENS_ELSEWHERE)


def available_bytes(device: Any) -> int | None:
  """Return the bytes that a program may use on a device: its own limit or, on a CPU, what is left of `ulimit -v`.

  Returns None where nothing sets a limit.
  """
  stats = device.memory_stats() or {}
  if 'bytes_limit' in stats:
    return stats['bytes_limit']
  limit = resource.getrlimit(resource.RLIMIT_AS)[0]
  if device.platform != 'cpu' or not os.path.isfile('/proc/self/statm'):
    return None
  with open('/proc/self/statm', encoding='ascii') as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
  return None if limit == resource.RLIM_INFINITY else max(limit - used, 0)


def in_units(count: float) -> str:
  """Return a number of bytes as text, such as '1.5 GB'."""
  for unit in ('bytes', 'kB', 'MB', 'GB'):
    if count < 1000 or unit == 'GB':
      return f'{count:.0f} {unit}' if unit == 'bytes' else f'{count:.1f} {unit}'
    count /= 1000
