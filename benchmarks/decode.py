"""Beam-search throughput on fixed work: random weights, and every output forced to the same length.

    python -m benchmarks.decode
    python -m benchmarks.decode --batch 256 --length 64 --dtype bfloat16

Prints one JSON line. The sentences are divided among all devices (on a CPU, its cores), as decode.py does. `seconds_*`
are wall-clock times of whole searches, encoder included, after one that compiles; `cpu_seconds_median` is the processor
time of all threads, which other work on the machine disturbs less. The floor is the time that the matrix products alone
would take at the speed of one large product, which is measured, too.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable

from checks import memory

if __name__ == '__main__':
  memory.keep()  # as decode.py does, before the imports below start a thread

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

from training import hardware  # noqa: E402
from transformer import architectures, partitioning, search, tokens  # noqa: E402
from transformer.config import ModelConfig  # noqa: E402
from transformer.search import SearchConfig  # noqa: E402

BOS, EOS, FILLER = 2, 3, 0


def main() -> None:
  options = parse()
  hardware.split_processor()
  device = jax.devices()[0]
  translate, arguments = build(options)
  walls, processors = timed(lambda: translate(*arguments), options.runs)
  median = statistics.median(walls)
  products = multiplications(options)
  print(json.dumps({
      'system': f'this project, jax {jax.__version__} {options.dtype}', 'device': device.platform,
      'device_kind': device.device_kind, 'devices': devices(options.batch),
      'seconds_median': median, 'seconds_min': min(walls),
      'cpu_seconds_median': statistics.median(processors), 'sentences_per_second': options.batch / median,
      'target_tokens_per_second': options.batch * options.length / median,
      'floor_seconds': products / speed(options), 'giga_multiplications': products / 1e9, **vars(options)}))


def parse() -> argparse.Namespace:
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  for name, default, help_ in (
      ('d-model', 256, 'width'), ('layers', 3, 'of the encoder, and again of the decoder'), ('heads', 4, 'of attention'),
      ('d-ff', 1024, 'inner width of the feed-forward network'), ('vocab', 8000, 'entries of the vocabulary'),
      ('batch', 64, 'sentences'), ('length', 32, 'tokens of every source and output'), ('beam', 4, 'hypotheses'),
      ('runs', 5, 'timed searches')):
    parser.add_argument(f'--{name}', type=int, default=default, help=help_)
  parser.add_argument('--dtype', default='float32', choices=('float32', 'bfloat16'), help='of products')
  return parser.parse_args()


def build(options: argparse.Namespace) -> tuple[Callable, tuple]:
  """Build the compiled search and its arguments."""
  model = architectures.build(ModelConfig(
      options.vocab, options.vocab, options.d_model, num_heads=options.heads, num_layers=options.layers,
      d_ff=options.d_ff, dtype=options.dtype))
  # EOS is forbidden before the last place and the only token there: the work does not depend on the weights.
  config = SearchConfig(beam_size=options.beam, min_length=options.length - 1, extra_length=options.length)
  mesh = jax.make_mesh((devices(options.batch),), (partitioning.DATA,), axis_types=(jax.sharding.AxisType.Auto,))
  every, split = jax.sharding.PartitionSpec(), jax.sharding.PartitionSpec(partitioning.DATA)

  def translate(params, source):
    limits = jnp.full(source.ids.shape[0], options.length, jnp.int32)
    cache = model.init_cache(params, model.encode(params, source), options.length, options.beam)
    step = lambda cache, last: model.decode_step(params, cache, last)
    problem = search.SearchProblem(step, options.length, BOS, EOS, FILLER)
    return search.search(problem, search.Sentences(cache, limits), config)

  ids = np.random.default_rng(1).integers(4, options.vocab, (options.batch, options.length), np.int32)
  source = tokens.pad(ids.tolist(), options.batch, options.length, FILLER)
  compiled = jax.jit(jax.shard_map(translate, mesh=mesh, in_specs=(every, split), out_specs=split, check_vma=False))
  place = lambda spec: jax.sharding.NamedSharding(mesh, spec)
  arguments = jax.device_put((jax.jit(model.init)(jax.random.key(0)), source), (place(every), place(split)))
  assert (np.asarray(compiled(*arguments).lengths) == options.length).all()
  return compiled, arguments


def devices(batch: int) -> int:
  """Return the largest number of devices that divides a batch."""
  return max(count for count in range(1, jax.device_count() + 1) if batch % count == 0)


def timed(run: Callable, count: int) -> tuple[list[float], list[float]]:
  """Measure the wall-clock and processor seconds of each of `count` runs."""
  walls, processors = [], []
  for _ in range(count):
    wall, processor = time.perf_counter(), time.process_time()
    jax.block_until_ready(run())
    walls.append(time.perf_counter() - wall)
    processors.append(time.process_time() - processor)
  return walls, processors


def multiplications(options: argparse.Namespace) -> float:
  """Count multiplications by weights in encoder and decoder, without attention's own products, a few percent more."""
  square, inner = options.d_model**2, 2 * options.d_model * options.d_ff
  encoder = options.layers * (4 * square + inner) + options.layers * 2 * square  # and cross-attention's keys, values
  decoder = options.layers * (6 * square + inner) + options.d_model * options.vocab
  return float(options.batch * options.length * (encoder + options.beam * decoder))


def speed(options: argparse.Namespace) -> float:
  """Measure the multiplications a second of one large product."""
  size = 2048
  x = jnp.ones((size, size), options.dtype)
  product = jax.jit(lambda x: x @ x)
  jax.block_until_ready(product(x))
  return size**3 / min(timed(lambda: product(x), 5)[0])


if __name__ == '__main__':
  main()
