"""Tiny runs on 16 and 32 simulated devices. test_pods.py starts this as a process of its own: the tests have eight.

    python -m tests.on_32_devices CORPUS FOLDER
"""

import os
import signal
import sys

import jax

import decode
import train
from checks.exit_codes import DONE, PREEMPTED
from options import decode_options, train_options
from tests.tiny_runs import arguments

SAVE = train.save


def advance(corpus, workdir, until, mesh, *flags):
  """Begin a run, or go on with it, on data × fsdp × tensor devices; end it with SIGTERM after the save of a step."""
  def save(run, checkpoints, state, step, *more):
    SAVE(run, checkpoints, state, step, *more)
    if step == until:
      os.kill(os.getpid(), signal.SIGTERM)

  train.save = save
  sizes = [f'--config.mesh.{axis}={size}' for axis, size in zip(('data', 'fsdp', 'tensor'), mesh)]
  asked = arguments(corpus, workdir, *flags, *sizes, '--config.train.num_steps=6', '--config.optimizer.warmup_steps=4')
  if '--config.data.batching=packed' in flags:
    asked.remove('--config.data.max_shapes=1')
  code = train.main(train_options.parse(asked, ''))
  assert code == PREEMPTED, (workdir, mesh, code)


def main(corpus, folder):
  """Train each run of the tests, and translate."""
  run, rows = f'{folder}/run', '--config.train.batch_tokens=512'
  for until, mesh in ((2, (32, 1, 1)), (4, (2, 8, 2)), (6, (16, 1, 1))):
    advance(corpus, run, until, mesh, rows)
  advance(corpus, f'{folder}/whole', 6, (8, 1, 1), rows, '--config.data.row_multiple=32')

  micro = ['--config.train.batch_tokens=1024', '--config.train.accumulation_steps=4', '--config.model.dropout=0.0',
           '--config.data.batching=packed', '--config.data.packed_length=16', '--config.train.eval_every=2']
  advance(corpus, f'{folder}/pmap', 2, (16, 1, 1), *micro, '--config.compile=pmap')
  advance(corpus, f'{folder}/jit', 2, (8, 1, 1), *micro, '--config.data.row_multiple=16')

  with open(f'{folder}/lines', 'w') as file:
    file.writelines(f'{word} dog two cat\n' for word in 'one two three house tree'.split())
  assert decode.main(decode_options.parse(
      ['decode.py', f'--workdir={run}', f'--input={folder}/lines', f'--output={folder}/answers', '--checkpoint=latest',
       '--search.min_length=5'], '')) == DONE


if __name__ == '__main__':
  jax.config.update('jax_num_cpu_devices', 32)
  main(*sys.argv[1:])
