"""Z2: what the TPUs' own compiler says of the paper's models on slices that need not be here; make test-tpu.

Each bound is stated from the model's sizes. On top of these, logits and random bits never cross between devices, and
are never whole on one: the four gigabytes that a global mask takes would show in its memory.
"""

import functools

import jax
import jax.numpy as jnp
import pytest

from options import train_options
from options.configurations import ROOT
from tasks import compiling, setup
from training import ahead_of_time, optimized_module, topologies
from transformer import architectures
from transformer import model as models
from transformer.search import largest

pytestmark = pytest.mark.tpu
V, L, N = 37_000, 64, 6  # entries of the vocabulary, tokens of a side, layers of a side
WIDTH = {'base': 512, 'big': 1024}
GIB = 2 ** 30
REDUCED, GATHERED = {'all-reduce'}, {'all-reduce', 'all-gather', 'collective-permute'}
# size, slice, rows, fsdp, tensor, kinds of collectives, GiB of a device.
PLACES = [
    ('base', 'v5e:2x2', 384, 1, 1, REDUCED, 3.55), ('base', 'v5e:2x2', 384, 4, 1, GATHERED, 3.1),
    ('base', 'v5e:2x2', 384, 1, 2, REDUCED, 3.30), ('base', 'v5e:4x4', 1536, 1, 1, REDUCED, 3.55),
    ('base', 'v5e:4x4', 1536, 8, 2, GATHERED, 3.2), ('base', 'v5e:16x16', 6144, 1, 1, REDUCED, 1.53),
    ('big', 'v5e:2x2', 384, 1, 1, REDUCED, 7.12), ('big', 'v5e:2x2', 384, 4, 1, GATHERED, 5.8),
    ('big', 'v5e:2x2', 384, 1, 2, REDUCED, 6.4), ('big', 'v5e:4x4', 1536, 1, 1, REDUCED, 7.12),
    ('big', 'v5e:4x4', 1536, 8, 2, GATHERED, 5.56),
]


def compiled(size, topology, rows, *more):
  asked = train_options.read(['train.py', f'--config={ROOT}/configs/wmt_de_en.py:{size}', f'--compile_for={topology}',
                              f'--shapes={rows}x{L}x{L}', '--config.model.dtype=bfloat16', *more])
  step = next(compiling.steps(setup.read(asked), asked))
  return ahead_of_time.compile_step(step), models.count_parameters(architectures.build(step.model))


def most_bytes(parameters, size, rows_of_device, fsdp, tensor):
  """What devices may exchange in a step, in bytes on each: the tied table in float32, all else in bfloat16."""
  gradient = 2 * parameters + 2 * V * WIDTH[size]
  # An encoder layer adds up its two outputs and, going back, four inputs over `tensor`, a decoder layer three and seven.
  activations = 16 * N * rows_of_device * L * WIDTH[size] * 2 if tensor > 1 else 0
  return gradient + activations + (gradient if fsdp > 1 else 0)  # fsdp first gathers what it adds up in the end


@pytest.mark.parametrize('size, topology, rows, fsdp, tensor, kinds, gib', PLACES)
def test_Z2_collectives_bytes_and_memory(size, topology, rows, fsdp, tensor, kinds, gib):
  found, parameters = compiled(size, topology, rows, f'--config.mesh.fsdp={fsdp}', f'--config.mesh.tensor={tensor}')
  traffic = optimized_module.traffic(found.collectives)
  assert {kind for kind, _ in traffic} <= kinds
  shards = found.mesh['data'] * found.mesh['fsdp']
  assert sum(size for _, size in traffic.values()) <= 1.01 * most_bytes(parameters, size, rows // shards, fsdp, tensor)
  carried = {array for collective in found.collectives for array in collective.results}
  assert not {array for array in carried if len(array.shape) > 2 and {V, V // tensor} & set(array.shape)}, 'logits'
  assert not {array for array in carried if array.dtype[0] in 'su' and array.size > 1e6}, 'random bits'
  assert found.need <= 1.1 * gib * GIB and found.fits
  assert 1.0 < found.products / found.formula < 1.05


def test_Z2_micro_batches_do_not_multiply_the_table_s_bytes():
  found, _ = compiled('base', 'v5e:2x2', 768, '--config.mesh.fsdp=4', '--config.train.accumulation_steps=4')
  added = optimized_module.traffic(found.collectives)['all-reduce', 'f32']
  assert 1 <= added.size / (4 * V * WIDTH['base']) < 1.02


def test_Z2_cuda():
  found, parameters = compiled('base', 'h100:4', 384)
  traffic = optimized_module.traffic(found.collectives)
  assert found.kind == 'NVIDIA H100 80GB HBM3' and found.fits
  assert {kind for kind, _ in traffic} == REDUCED
  assert sum(size for _, size in traffic.values()) <= 1.01 * most_bytes(parameters, 'base', 96, 1, 1)


def test_the_smallest_program_has_estimated_cycles():
  found, _ = compiled('base', 'v5e:2x2', 8, '--config.model.num_layers=1', '--config.vocabulary.size=500',
                   '--compile_for_cycles')
  assert found.cycles > 1000 and 0 < found.utilisation(197.0) < 1


def test_the_choice_of_a_beam_copies_no_scores(monkeypatch):
  for name, value in topologies.environment('v5e:2x2').items():
    monkeypatch.setenv(name, value)
  one = jax.sharding.SingleDeviceSharding(topologies.find('v5e:2x2').devices[0])
  inputs = [jax.ShapeDtypeStruct(shape, jnp.float32, sharding=one) for shape in ((64, 4, V), (64, 4))]

  def cycles(how):
    program = jax.jit(functools.partial(how, wanted=8)).trace(*inputs).lower(lowering_platforms=('tpu',)).compile()
    return optimized_module.Module(program.as_text()).cycles()

  strides = cycles(functools.partial(largest.by_strides, stride=1024))
  assert 4 * strides < cycles(functools.partial(largest.by_neighbours, size=37))
