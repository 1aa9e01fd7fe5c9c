"""Speed of making batches on the host: target tokens a second from a token store to NumPy batches, on one thread.

    python -m benchmarks.input_speed
    python -m benchmarks.input_speed --batching packed --pairs 500000 --batch-tokens 25000

The store is in memory, with random ids: lengths are lognormal and correlated between the two sides. Planning an epoch
is timed separately. Prints one JSON line.
"""

import argparse
import json
import math
import time

import numpy as np

from batching.store import Side, Store
from input_pipeline import BatchConfig, make_plan


def parse() -> argparse.Namespace:
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument('--batching', choices=('buckets', 'packed'), default='buckets')
  parser.add_argument('--pairs', type=int, default=200_000)
  parser.add_argument('--mean', type=float, default=24.0, help='median tokens of a sentence')
  parser.add_argument('--batch-tokens', type=int, default=25_000)
  parser.add_argument('--batches', type=int, default=200, help='timed')
  return parser.parse_args()


def made_up(pairs: int, mean: float) -> Store:
  """Make a store of random ids in sentences of 2 to 256 tokens."""
  draw = np.random.default_rng(0)
  first, second = draw.normal(size=(2, pairs))
  side = lambda normal: np.clip(np.exp(math.log(mean) + 0.5 * normal).round().astype(int), 2, 256)
  sides = []
  for lengths in (side(first), side(0.85 * first + 0.53 * second)):
    sides.append(Side(draw.integers(4, 32_000, lengths.sum(), np.int32), np.concatenate([[0], np.cumsum(lengths)])))
  return Store(*sides, 'made up')


def main() -> None:
  options = parse()
  store = made_up(options.pairs, options.mean)
  start = time.process_time()
  plan = make_plan(store, BatchConfig(options.batching, options.batch_tokens, 256), 0)
  plan.epoch(0)
  planning, start, tokens = time.process_time() - start, time.process_time(), 0
  for step in range(min(options.batches, plan.batches_per_epoch)):
    tokens += int((plan.batch_at(step).target.segments > 0).sum())
  seconds = time.process_time() - start
  print(json.dumps({'target_tokens_per_second': tokens / seconds, 'planning_seconds': planning,
                    'padding': plan.padding(), **vars(options)}))


if __name__ == '__main__':
  main()
