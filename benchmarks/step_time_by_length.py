"""Time of a training step against sentence length: a recurrent model with attention, and the Transformer (§4, Table 1).

    python -m benchmarks.step_time_by_length
    python -m benchmarks.step_time_by_length --lengths 8 64 256 --tokens 4096 --repeats 9

Both have about the same number of parameters, and every batch the same number of tokens: rows × length. The two are
timed in turn, and the fastest step of each counts, since other work on the machine can only add time. Prints one JSON
line per length, then a table. Ids are random and rows full.

"Longest path" counts the operations of one forward pass that must run one after the other. Recurrent: a cell for each
source token, then for each target token attention and a cell. Transformer: two sub-layers in each layer of the encoder,
three in each of the decoder.
"""

import argparse
import json
import time
from typing import Any, NamedTuple

import jax
import numpy as np

from checks import memory
from transformer import architectures, optimizer, training
from transformer.config import LossConfig, ModelConfig, OptimizerConfig, RecurrentConfig
from transformer.model import Model, count_parameters
from transformer.tokens import Batch, Tokens

BOS = 2


class Measured(NamedTuple):
  """The measurements of both models at one length."""

  length: int  # of source and of target
  rows: int
  recurrent_seconds: float  # fastest training step
  transformer_seconds: float
  recurrent_path: int
  transformer_path: int


def main() -> None:
  memory.keep()  # as train.py does
  options = parse()
  transformer = architectures.build(ModelConfig(
      options.vocabulary, options.vocabulary, options.d_model, num_heads=options.d_model // 32 or 1,
      num_layers=options.num_layers, d_ff=4 * options.d_model, dropout=0.1))
  recurrent = recurrent_of_size(count_parameters(transformer), options.vocabulary)
  device = jax.devices()[0]
  print(f'Transformer {count_parameters(transformer):,} parameters ({architectures.describe(transformer.config)}); '
        f'recurrent {count_parameters(recurrent):,} ({architectures.describe(recurrent.config)}); '
        f'{options.tokens:,} tokens a batch on each side; {jax.device_count()} × {device.device_kind}', flush=True)
  measured = []
  for length in options.lengths:
    measured.append(measure(recurrent, transformer, length, options.tokens // length, options.repeats))
    print(json.dumps(measured[-1]._asdict()), flush=True)
  print(table(measured))


def parse() -> argparse.Namespace:
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument('--lengths', type=int, nargs='+', default=[8, 16, 32, 64, 128, 256], help='tokens of a sentence')
  parser.add_argument('--tokens', type=int, default=2048, help='tokens of a batch, on each side')
  parser.add_argument('--repeats', type=int, default=5, help='timed steps of each model; the fastest counts')
  parser.add_argument('--d_model', type=int, default=128, help="the Transformer's width; d_ff is four times that")
  parser.add_argument('--num_layers', type=int, default=3, help="the Transformer's layers, on each side")
  parser.add_argument('--vocabulary', type=int, default=3000, help='entries of the joint vocabulary')
  options = parser.parse_args()
  if max(options.lengths) > options.tokens:
    parser.error(f'a batch of {options.tokens} tokens does not hold a sentence of {max(options.lengths)}')
  return options


def recurrent_of_size(parameters: int, vocabulary: int) -> Model:
  """Build RNNsearch (Bahdanau et al., 2015) in the width whose number of parameters is nearest to `parameters`."""
  built = lambda width: architectures.build(RecurrentConfig(vocabulary, vocabulary, width, num_layers=1, dropout=0.1))
  low, high = 8, 16
  while count_parameters(built(high)) < parameters:
    low, high = high, 2 * high
  while high - low > 8:  # widths in steps of 8
    middle = (low + high) // 16 * 8
    low, high = (middle, high) if count_parameters(built(middle)) < parameters else (low, middle)
  return min(built(low), built(high), key=lambda model: abs(count_parameters(model) - parameters))


def longest_path(model: Model, length: int) -> int:
  """Count the operations of a forward pass over sentences of `length` tokens that must run one after the other."""
  return length + 2 * length if isinstance(model.config, RecurrentConfig) else 5 * model.config.num_layers


class Runner:
  """A model's training step with its state, ready to be timed."""

  def __init__(self, model: Model):
    update = optimizer.build(OptimizerConfig(model.config.d_model))
    self._state: Any = jax.jit(lambda key: training.init_state(model, update, key))(jax.random.key(0))
    self._step = jax.jit(training.make_train_step(training.cross_entropy(model, LossConfig(), BOS), update),
                         donate_argnums=0)

  def seconds(self, batch: Batch) -> float:
    """Measure the seconds of one step, until its results are there."""
    start = time.perf_counter()
    self._state, measures = self._step(self._state, batch)
    jax.block_until_ready((self._state, measures))
    return time.perf_counter() - start


def random_batch(rows: int, length: int, vocabulary: int) -> Batch:
  draw = np.random.default_rng(length)
  side = lambda: Tokens(draw.integers(4, vocabulary, (rows, length), np.int32),
                        np.tile(np.arange(length, dtype=np.int32), (rows, 1)), np.ones((rows, length), np.int32))
  return jax.device_put(Batch(side(), side()))


def measure(recurrent: Model, transformer: Model, length: int, rows: int, repeats: int) -> Measured:
  """Measure the fastest of `repeats` steps of each model, in turn, after one step that compiles."""
  runners, batch = (Runner(recurrent), Runner(transformer)), random_batch(rows, length, recurrent.config.vocab_size)
  for runner in runners:
    runner.seconds(batch)
  times = [[runner.seconds(batch) for runner in runners] for _ in range(repeats)]
  slow, fast = (min(column) for column in zip(*times))
  return Measured(length, rows, slow, fast, longest_path(recurrent, length), longest_path(transformer, length))


def table(measured: list[Measured]) -> str:
  """Format the measurements as a Markdown table."""
  lines = ['| length | rows | recurrent, ms a step | Transformer, ms a step | ratio | longest path, recurrent '
           '| Transformer |', '|' + '---:|' * 7]
  for m in measured:
    lines.append(f'| {m.length} | {m.rows} | {1e3 * m.recurrent_seconds:.0f} | {1e3 * m.transformer_seconds:.0f} '
                 f'| {m.recurrent_seconds / m.transformer_seconds:.1f} | {m.recurrent_path:,} '
                 f'| {m.transformer_path} |')
  return '\n'.join(lines)


if __name__ == '__main__':
  main()
