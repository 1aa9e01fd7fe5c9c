"""Model FLOPs against what XLA counts in the compiled training step; a processor as several devices."""

import os
import subprocess
import sys

import jax
import numpy as np
import pytest

from training import hardware
from transformer import architectures, optimizer, training
from transformer.config import LossConfig, ModelConfig, OptimizerConfig, RecurrentConfig
from transformer.tokens import Batch, Tokens

B, S, T, D, N = 16, 19, 23, 64, 2
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CORES = len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()


def side(length):
  return Tokens(*(np.ones((B, length), np.int32) for _ in range(3)))


@pytest.mark.parametrize('changes', [{}, dict(share_embeddings=False, tie_output=False), dict(num_kv_heads=2)])
def test_model_flops_and_attention_s_own_products_are_what_xla_counts(changes):
  """The rest, a few per cent at these small sizes and less at larger ones, are softmax, normalisation, loss and Adam."""
  model = architectures.build(ModelConfig(307, 307, D, num_heads=4, num_layers=N, d_ff=251, dropout=0.0, **changes))
  update, batch = optimizer.build(OptimizerConfig(D)), Batch(side(S), side(T))
  state = jax.eval_shape(lambda key: training.init_state(model, update, key), jax.random.key(0))
  step = jax.jit(training.make_train_step(training.cross_entropy(model, LossConfig(0.1), 2), update))
  counted = step.lower(state, batch).compile().cost_analysis()['flops']
  formula = hardware.step_flops(hardware.flops_per_token(state.params), batch)
  # Scores and weighted sums: 2 products of 2·M·D a query, forward, and twice that backward; not in the formula.
  attention = 3 * 4 * B * D * N * (S * S + T * T + T * S)
  assert attention < 0.08 * formula
  assert 1.0 < counted / (formula + attention) < 1.06


def test_what_a_recurrent_model_computes_of_the_source_counts_for_source_tokens():
  model = architectures.build(RecurrentConfig(307, 307, D, num_layers=N, dropout=0.0))
  update = optimizer.build(OptimizerConfig(D))
  state = jax.eval_shape(lambda key: training.init_state(model, update, key), jax.random.key(0))
  step = training.make_train_step(training.cross_entropy(model, LossConfig(0.1), 2), update)
  products = lambda source: hardware.product_flops(jax.make_jaxpr(step)(state, Batch(side(source), side(T))).jaxpr)
  of_source = hardware.flops_per_token(state.params)[0]
  further = (products(3 * S) - products(S)) / (B * 2 * S)
  attention = 3 * 2 * T * 2 * 2 * D  # sums of the keys' and the values' 2 D units for each of T queries
  assert of_source < further < 1.1 * (of_source + attention)


@pytest.mark.parametrize('kind, expected', [
    ('TPU v5', 459), ('TPU v5p', 459), ('TPU v5 lite', 197), ('TPU v5e', 197), ('TPU v6 lite', 918), ('TPU v4', 275),
    ('TPU v3', 61.5), ('TPU7x', 1153.5), ('NVIDIA H100 80GB HBM3', 989), ('NVIDIA H100 PCIe', 756),
    ('NVIDIA H100 NVL', 835), ('NVIDIA A100-SXM4-40GB', 312),
    ('Tesla V100-SXM2-16GB', 125), ('NVIDIA L4', 121), ('NVIDIA L40S', None), ('TPU v4 lite', None), ('cpu', None)])
def test_the_peak_is_that_of_the_device_s_whole_name(kind, expected):
  assert hardware.peak_tflops(kind, None) == expected
  assert hardware.peak_tflops(kind, 12.5) == 12.5


def test_products_in_a_scan_count_once_for_each_turn():
  step = lambda x, w: jax.lax.scan(lambda x, w: (jax.jit(jax.numpy.dot)(x, w), None), x, w)[0]
  x, w = (jax.ShapeDtypeStruct(shape, np.float32) for shape in ((5, 3), (7, 3, 3)))
  assert hardware.product_flops(jax.make_jaxpr(step)(x, w).jaxpr) == 7 * 2 * 5 * 3 * 3


@pytest.mark.parametrize('before, flags, asked, expected', [
    ('', '', '', min(CORES, 8)), ('', '--xla_force_host_platform_device_count=3', '', 3), ('', '', '5', 5),
    ('import jax; jax.devices(); ', '', '', 1)], ids=['alone', 'flags', 'asked', 'late'])
def test_a_processor_becomes_as_many_devices_as_it_has_cores_unless_that_is_settled(before, flags, asked, expected):
  program = before + 'from training import hardware; hardware.split_processor(); import jax; print(jax.device_count())'
  own = {name: value for name, value in os.environ.items() if name not in ('XLA_FLAGS', 'JAX_NUM_CPU_DEVICES')}
  wishes = {'JAX_PLATFORMS': 'cpu', 'XLA_FLAGS': flags, 'JAX_NUM_CPU_DEVICES': asked}
  own |= {name: wish for name, wish in wishes.items() if wish}
  done = subprocess.run([sys.executable, '-c', program], cwd=ROOT, env=own, capture_output=True, text=True, check=True)
  assert int(done.stdout) == expected


FAULTS = '''
import ctypes, resource, threading
from checks import memory, startup
if {first}:
  startup.begin()
libc, wait = ctypes.CDLL(None), threading.Event()
for _ in range(20):  # as imports do: threads that have memory of their own
  threading.Thread(target=lambda: (libc.malloc(100), wait.wait()), daemon=True).start()
if not {first}:
  memory.keep()
import jax, jax.numpy as jnp
work = jax.jit(jax.grad(lambda x: (jax.nn.log_softmax(x) ** 2).sum()))
x = jnp.ones((2048, 4096))
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):  # until the heap has room for all
  jax.block_until_ready(work(x))
rounds = []
for _ in range(8):  # the least of them: other threads of the process ask for pages, too
  before = faults()
  jax.block_until_ready(work(x))
  rounds.append(faults() - before)
print(min(rounds))
'''


@pytest.mark.skipif(not sys.platform.startswith('linux'), reason='of glibc')
def test_a_script_keeps_memory_before_threads_have_heaps_and_is_given_no_pages_again():
  given, kept = (float(subprocess.run([sys.executable, '-c', FAULTS.format(first=first)], cwd=ROOT, capture_output=True,
                                      text=True, check=True, env=os.environ | {'JAX_PLATFORMS': 'cpu'}).stdout)
                 for first in (False, True))
  assert given > 9000 and kept < given / 10  # of 4 KiB each, if the system has no larger ones
