"""The share of a run's time that comparing and summing its files takes.

    python -m benchmarks.verification --config=configs/phrasebook.py --workdir=runs/phrasebook

Takes the options of train.py, and trains as it does. At the end it prints one JSON line: the run's seconds from the
reading of its options to its results; the seconds in which SHA-256 sums were computed, or the manifest was read or
written, in all threads together; and their share.
"""

import functools
import json
import sys
import threading
import time
from collections.abc import Callable

import jax

import train
from batching import store
from checks.disk import Disk
from options import train_options
from training.manifest import Manifest

SPENT: list[float] = []
_WITHIN = threading.local()


def timed(function: Callable) -> Callable:
  """Return the function, which adds its seconds to SPENT unless another such function has called it."""
  @functools.wraps(function)
  def call(*inputs, **named):
    if getattr(_WITHIN, 'one', False):
      return function(*inputs, **named)
    _WITHIN.one, began = True, time.perf_counter()
    try:
      return function(*inputs, **named)
    finally:
      _WITHIN.one = False
      SPENT.append(time.perf_counter() - began)

  return call


def main() -> int:
  for place, names in ((Manifest, ('read', 'write', 'record_checkpoint')), (Disk, ('sum_of', 'sums_of')),
                       (store, ('sum_of',))):
    for name in names:
      setattr(place, name, timed(getattr(place, name)))
  began = time.perf_counter()
  code = train.main(train_options.parse(sys.argv, __doc__))
  seconds, spent = time.perf_counter() - began, sum(SPENT)
  print(json.dumps({'system': f'this, jax {jax.__version__}', 'seconds': seconds, 'verification_seconds': spent,
                    'share': spent / seconds, 'arguments': sys.argv[1:]}))
  return code


if __name__ == '__main__':
  sys.exit(main())
