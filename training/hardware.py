"""What a step costs and what the hardware could do: floating-point operations, MFU, memory.

Model FLOPs utilisation (Chowdhery et al., 2022, appendix B) is the operations that the model's formula asks for, per
second, over the devices' peak. Counted are the products with parameters, two operations for each parameter and token
forward and four backward; padding, attention's own products (a few percent at translation's lengths), normalisation,
recomputing and the optimiser are not.
"""

import contextlib
import ctypes
import math
import os
import re
import resource
from typing import Any

import jax

from transformer.tokens import Batch

# Dense bfloat16 peak of one device by jax's name for it, in teraflops (vendors' data sheets).
PEAKS = {
    'H200': 989.0, 'H100': 989.0, 'A100': 312.0, 'L4': 121.0, 'V100': 125.0,
    'TPU v6': 918.0, 'TPU v5p': 459.0, 'TPU v5 lite': 197.0, 'TPU v5e': 197.0, 'TPU v4': 275.0, 'TPU v3': 123.0,
}
# Of glibc's malloc.h: M_MMAP_MAX 0, no block comes from the system alone; M_TRIM_THRESHOLD -1, none goes back;
# M_ARENA_MAX 1, one heap for all threads, for those of single threads are too small for such blocks.
_MALLOC_OPTIONS = ((-4, 0), (-1, -1), (-8, 1))
_MOST_PARTS = 8  # more devices on one processor have not been tried
_SEARCH_TOKENS, _SEARCH_TOKENS_ELSEWHERE = {'cpu': 2048}, 8192  # the latter a guess: accelerators want more rows
_NO_PRODUCT = re.compile(r'positions|norm|bias|scale|(^|\.)b(\d|_)|source_embedding')


def peak_tflops(device: Any, given: float | None) -> float | None:
  """Of one device: what the user gave, else PEAKS; None when nobody knows, as on a CPU."""
  return given or next((peak for name, peak in PEAKS.items() if name in device.device_kind), None)


def peak_of(mesh: jax.sharding.Mesh, given: float | None) -> float | None:
  """Return the peak of all devices of a mesh together, see peak_tflops."""
  peak = peak_tflops(mesh.devices.flat[0], given)
  return peak * mesh.size if peak else None


def flops_per_token(params: Any) -> tuple[float, float]:
  """Operations of a training step for each source token and each target token, see the file's head.

  Parameters of the encoder, and of the decoder's keys and values over its output, see source tokens; all others
  target tokens. An embedding's look-up costs nothing: a tied table counts once, as the output projection.
  """
  of_source = of_target = 0
  names = {jax.tree_util.keystr(path, simple=True, separator='.'): leaf
           for path, leaf in jax.tree_util.tree_leaves_with_path(params)}
  untied = any(name.endswith('output_projection') for name in names)
  for name, leaf in names.items():
    if _NO_PRODUCT.search(name) or untied and name.endswith('embedding'):
      continue
    if re.search(r'encoder|cross_attention\.w_(key|value)', name):
      of_source += math.prod(leaf.shape)
    else:
      of_target += math.prod(leaf.shape)
  return 6.0 * of_source, 6.0 * of_target


def step_flops(costs: tuple[float, float], batch: Any) -> float:
  """Operations of a training step over this process's rows of a batch, of flops_per_token()."""
  real = lambda side: int((side.segments > 0).sum())
  if isinstance(batch, Batch):
    return costs[0] * real(batch.source) + costs[1] * real(batch.target)
  return costs[1] * real(batch.sequences)


def keep_memory() -> None:
  """Has the C library keep the memory that a step frees for the next step; to be called before JAX starts its threads.

  XLA asks for its working memory anew at every step. glibc takes blocks so large from the system and gives them back
  at once, and the system clears each of their pages again: on two cores a quarter of a training step and more. Where
  the C library has no mallopt (macOS, musl) nothing is done. The process keeps the most that it ever needed.
  """
  mallopt = getattr(ctypes.CDLL(None), 'mallopt', None) if os.name == 'posix' else None
  if mallopt is not None:
    for option, value in _MALLOC_OPTIONS:
      mallopt(option, value)


def split_processor() -> None:
  """Makes a device of each core that this process may use, up to _MOST_PARTS, for work that devices do each on their own.

  A search is many small products: two cores get more done as two devices than as two threads of one. Those of
  accelerators stay as they are, and so does whatever the user has asked for, and what jax has already found.
  """
  if jax.config.jax_num_cpu_devices < 0 and 'host_platform_device_count' not in os.environ.get('XLA_FLAGS', ''):
    cores = len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()
    with contextlib.suppress(RuntimeError):  # what jax raises when it knows its devices by now
      jax.config.update('jax_num_cpu_devices', min(cores, _MOST_PARTS))


def search_tokens(wanted: int | None) -> int:
  """Rows × beams × source length of a device's search batch: what the configuration says, or what suits the platform."""
  return wanted or _SEARCH_TOKENS.get(jax.default_backend(), _SEARCH_TOKENS_ELSEWHERE)


def available_bytes(device: Any) -> int | None:
  """Memory that a program may use on a device: its own limit, or, on a CPU, what is left of the process's (ulimit -v).

  None where nothing sets a limit.
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
  """'1.5 GB' of a number of bytes."""
  for unit in ('bytes', 'kB', 'MB', 'GB'):
    if count < 1000 or unit == 'GB':
      return f'{count:.0f} {unit}' if unit == 'bytes' else f'{count:.1f} {unit}'
    count /= 1000
