"""The time to save a checkpoint, and the part of it that the checksums take.

    python -m benchmarks.save
    python -m benchmarks.save --d-model 512 --layers 6 --heads 8 --d-ff 2048 --vocab 37000 --every 600 --step-seconds 1

Prints one JSON line: bytes of a checkpoint with Adam's moments; seconds of a save until all is on disk, and of the
SHA-256 of its files, the last part of it (medians); and both as shares of the time of the steps between two
checkpoints. On a CPU training waits for the whole save, elsewhere only for the copy from the device.
"""

import argparse
import json
import os
import statistics
import tempfile
import time

import jax

from checks.whole_files import sums_of
from training import checkpoint
from transformer import architectures, optimizer, training
from transformer.config import ModelConfig, OptimizerConfig


def parse() -> argparse.Namespace:
  """Parse the options; the defaults are the phrasebook's model, its checkpoints, and its step on two cores."""
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  for name, default, text in (
      ('d-model', 128, 'width'), ('layers', 3, 'of the encoder and of the decoder'), ('heads', 4, 'of attention'),
      ('d-ff', 512, 'inner width'), ('vocab', 3000, 'entries of the joint vocabulary'), ('saves', 5, 'timed saves'),
      ('every', 100, 'steps between two checkpoints')):
    parser.add_argument(f'--{name}', type=int, default=default, help=text)
  parser.add_argument('--step-seconds', type=float, default=0.27, help='of one step')
  return parser.parse_args()


def main() -> None:
  options = parse()
  model = architectures.build(ModelConfig(
      options.vocab, options.vocab, options.d_model, num_heads=options.heads, num_layers=options.layers,
      d_ff=options.d_ff))
  update = optimizer.build(OptimizerConfig(options.d_model))
  state = training.init_state(model, update, jax.random.key(0))
  noise = lambda leaf: jax.random.normal(jax.random.key(leaf.size), leaf.shape)  # zeros would shrink to nothing on disk
  state = state._replace(opt_state=jax.tree.map(
      lambda leaf: noise(leaf) if leaf.ndim else leaf, state.opt_state))
  saves, checksums = [], []
  with tempfile.TemporaryDirectory() as folder:
    writer = checkpoint.Checkpoints(folder, 2)
    for step in range(options.saves + 1):
      start = time.perf_counter()
      writer.save(step, state, {})
      writer.wait()
      saves.append(time.perf_counter() - start)
      place, start = os.path.join(folder, str(step)), time.perf_counter()
      sums_of(place)
      checksums.append(time.perf_counter() - start)
    size = sum(os.path.getsize(os.path.join(place, name)) for place, _, names in os.walk(place) for name in names)
  save, checksum = statistics.median(saves[1:]), statistics.median(checksums[1:])  # the first save sets things up
  between = options.every * options.step_seconds
  print(json.dumps({
      'system': f'this, jax {jax.__version__}', 'parameters': sum(leaf.size for leaf in jax.tree.leaves(state.params)),
      'bytes': size, 'save_seconds': save, 'checksum_seconds': checksum, 'save_share_of_steps': save / between,
      'checksum_share_of_steps': checksum / between, 'checksum_share_of_save': checksum / save, **vars(options)}))


if __name__ == '__main__':
  main()
