"""How long this machine takes to compile a training step, measured once and kept in the user's cache; and to compute.

The number of shapes of a run's batches is decided with both, so rough figures do. What matters is that they are the
same at each start: runs that differ in their seed alone have the same shapes and so share their programs.
"""

import contextlib
import json
import os
import re
import time

import jax
import jax.numpy as jnp

from checks import cache_root, machine
from checks.whole_files import whole
from training import background, hardware
from transformer import model as models
from transformer import training
from transformer.config import LossConfig, ModelConfig
from transformer.tokens import Batch, Tokens

_DEFAULT = {'cpu': 6.0}  # seconds to compile a step of one shape, where nothing can be measured and kept
_DEFAULT_ELSEWHERE = 20.0
# Seconds to compile a step of 4 + 4 layers, over those of the program that is measured: 11.4 to 2.5, the mean of nine
# shapes in a run on two cores, where the first took 8.3 and the last 13.
_STEP = 4.6
_CORE_FLOPS = 50e9  # of a processor's core, in training
_UTILISATION = 0.3  # share of an accelerator's peak that training reaches
_UNKNOWN_TFLOPS = 100.0  # peak of an accelerator that hardware.PEAKS does not list


def compile_seconds() -> float:
  """Return the seconds that a shape adds to a run: those to compile a step, over the threads that compile ahead.

  They are measured at the first call on this kind of device with this version of jax. Where the user's cache cannot
  keep them, a default is returned.
  """
  device = jax.local_devices()[0]
  try:
    name = re.sub(r'\W+', '_', f'{device.platform} {device.device_kind} {jax.__version__}')
    seconds = _STEP * _program_seconds(os.path.join(cache_root.private_folder('speed'), f'{name}.json'))
  except OSError:
    seconds = _DEFAULT.get(device.platform, _DEFAULT_ELSEWHERE)
  return round(seconds / max(1, background.workers()), 2)


def _program_seconds(path: str) -> float:
  """Return what a file keeps of measure(), which is called where the file does not tell."""
  if (kept := _kept(path)) is not None:
    return kept
  measured = round(measure(), 2)  # as it is read at later starts
  if (kept := _kept(path)) is not None:  # by another start, which took the same seconds to measure
    return kept
  with whole(path, shared=True) as file:
    file.write(json.dumps({'program_seconds': measured}).encode())
  return measured


def _kept(path: str) -> float | None:
  with contextlib.suppress(FileNotFoundError, ValueError, KeyError, TypeError), open(path, encoding='utf-8') as file:
    return float(json.load(file)['program_seconds'])
  return None


def measure() -> float:
  """Return the seconds to compile the gradient of a small model: of the processor if those are fewer, for other work
  on its cores makes the clock's more."""
  config = ModelConfig(vocab_size=1000, target_vocab_size=1000, d_model=128, num_heads=4, num_layers=1, d_ff=256)
  model = models.build(config)
  objective = training.build_objective(model, LossConfig(), 1)
  ids = jax.ShapeDtypeStruct((64, 16), jnp.int32)
  loss = lambda params, batch, key: objective(params, batch, key).loss
  inputs = (jax.eval_shape(model.init, jax.random.key(0)), Batch(*[Tokens(ids, ids, ids)] * 2), jax.random.key(0))
  least = jax.config.jax_persistent_cache_min_compile_time_secs
  jax.config.update('jax_persistent_cache_min_compile_time_secs', 1e9)  # so that it is never found compiled
  try:
    clock, processor = time.monotonic(), time.process_time()
    jax.jit(jax.grad(loss)).lower(*inputs).compile()
    return min(time.monotonic() - clock, time.process_time() - processor)
  finally:
    jax.config.update('jax_persistent_cache_min_compile_time_secs', least)


def flops_per_second(peak: float | None) -> float:
  """Return the operations a second that training reaches on all devices together, roughly.

  Args:
    peak: --config.train.peak_tflops, of a device.
  """
  device = jax.devices()[0]
  if device.platform == 'cpu':
    return _CORE_FLOPS * machine.cores()
  return _UTILISATION * 1e12 * (hardware.peak_tflops(device.device_kind, peak) or _UNKNOWN_TFLOPS) * jax.device_count()
