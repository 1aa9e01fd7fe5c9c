"""Time of a training step: forward, smoothed loss, backward and update on random rows of one shape, no padding.

    python -m benchmarks.train_step
    python -m benchmarks.train_step --d-model 512 --layers 6 --heads 8 --d-ff 2048 --batch 32
    python -m benchmarks.train_step --dtype bfloat16 --vocab 32000 --batch 256 --length 64 --peak-tflops 989

Prints one JSON line: seconds of a step (median and fastest), tokens a second and, if the device's peak is known, model
FLOP utilisation (MFU), whose formula is in training/hardware.py. Dropout is applied to attention weights as well, as
in other libraries' models of the same shape; `--attention-dropout 0` is as in the paper.
"""

import argparse
import json
import statistics
import time

import jax
import numpy as np

from benchmarks import step_options
from checks import memory
from training import hardware
from transformer import architectures, optimizer, training
from transformer.config import LossConfig, ModelConfig, OptimizerConfig
from transformer.tokens import Batch, Tokens

BOS = 2


def parse() -> argparse.Namespace:
  parser = step_options.parser(__doc__)
  parser.add_argument('--attention-kernel', default='einsum', help='model.attention_kernel')
  parser.add_argument('--dropout-bits', default='threefry', help='train.dropout_bits')
  parser.add_argument('--logits-dtype', default='float32', help='train.logits_dtype')
  parser.add_argument('--dtype', default='float32', help='of products: float32 or bfloat16')
  parser.add_argument('--peak-tflops', type=float, default=None, help='of the device, where its name is not known')
  return step_options.parsed(parser)


def main() -> None:
  memory.keep()  # as train.py does
  options = parse()
  model = architectures.build(ModelConfig(
      options.vocab, options.vocab, options.d_model, num_heads=options.heads, num_layers=options.layers,
      d_ff=options.d_ff, dropout=options.dropout, attention_dropout=options.attention_dropout, dtype=options.dtype,
      attention_kernel=options.attention_kernel))
  update = optimizer.build(
      OptimizerConfig(options.d_model, kind='adamw', schedule='constant', peak=1e-4, warmup_steps=0))
  state = jax.jit(lambda key: training.init_state(model, update, key, dropout_bits=options.dropout_bits))(
      jax.random.key(0))
  objective = training.cross_entropy(model, LossConfig(0.1, logits_dtype=options.logits_dtype), BOS)
  step = jax.jit(training.make_train_step(objective, update),
                 donate_argnums=0)
  draw = np.random.default_rng(0)
  shape = options.batch, options.length
  positions = np.tile(np.arange(options.length, dtype=np.int32), (options.batch, 1))
  side = lambda: Tokens(draw.integers(4, options.vocab, shape, np.int32), positions, np.ones(shape, np.int32))
  batches = [jax.device_put(Batch(side(), side())) for _ in range(4)]
  times = []
  for number in range(options.warmup + options.steps):
    start = time.perf_counter()
    for turn in range(options.together):
      state, measures = step(state, batches[(number + turn) % len(batches)])
    loss = float(measures['loss'] / measures['tokens'])
    times.append((time.perf_counter() - start) / options.together)
  times = times[options.warmup:]
  median, device, tokens = statistics.median(times), jax.devices()[0], options.batch * options.length
  costs, peak = hardware.flops_per_token(state.params), hardware.peak_tflops(device.device_kind, options.peak_tflops)
  tflops = tokens * sum(costs) / median / 1e12
  print(json.dumps({
      'system': f'this, jax {jax.__version__}', 'device': device.device_kind,
      'parameters': sum(leaf.size for leaf in jax.tree.leaves(state.params)), 'final_loss': loss,
      'step_seconds_median': median, 'step_seconds_min': min(times), 'source_tokens_per_second': tokens / median,
      'target_tokens_per_second': tokens / median, 'model_tflops': tflops, 'mfu': peak and tflops / peak,
      **vars(options)}))


if __name__ == '__main__':
  main()
