"""The number of shapes of a run's batches: as many as pay within the run's length, unless data.max_shapes gives one.

A run's first start decides it, and config.json keeps it as data.max_shapes, so that the batches of a run depend neither
on the machine that it goes on on, nor on how long it becomes.
"""

import dataclasses

import jax

from batching.plan import BatchConfig, Plan
from batching.shapes import Costs
from options.configurations import with_options
from tasks.records import Setup
from training import device_speed, hardware, peers
from training.run_folder import RunFolder
from transformer.model import Model


def weighed(setup: Setup, folder: RunFolder, model: Model) -> BatchConfig:
  """Return the options of training's batches, with the costs to weigh where the number of shapes is still open.

  Args:
    setup: the records, as read from the configuration.
    folder: the run's, which holds its configuration. Process 0 has to call this and settle() before the others.
    model: to be trained.
  """
  kept = folder.read_config()['data']['max_shapes']
  if 'max_shapes' in setup.batches.idle():
    return setup.batches
  return dataclasses.replace(setup.batches, max_shapes=costs(setup, model) if kept is None else kept)


def costs(setup: Setup, model: Model) -> Costs:
  """Return what shapes and padding cost a run on this machine. A program is compiled to find out, once a machine."""
  loop = setup.loop
  each = sum(hardware.flops_per_token(jax.eval_shape(model.init, jax.random.key(0)))) / 2
  token_seconds = each / device_speed.flops_per_second(loop.peak_tflops)
  tokens = None
  if loop.num_minutes is not None:
    tokens = 60 * loop.num_minutes / token_seconds
  elif loop.num_steps is not None:
    tokens = 2.0 * loop.num_steps * setup.batches.batch_tokens
  return Costs(device_speed.compile_seconds(), token_seconds, tokens, loop.num_epochs)


def settle(setup: Setup, folder: RunFolder, plan: Plan) -> Setup:
  """Return the records with the number of shapes that the plan was fitted with, and write it where the run has none.

  Args:
    setup: the records that weighed() had.
    folder: the run's.
    plan: training's, made of what weighed() returned.
  """
  if 'max_shapes' in setup.batches.idle():
    return setup
  decided, saved = {'data.max_shapes': plan.max_shapes}, folder.read_config()
  if saved['data']['max_shapes'] is None and peers.is_main():
    folder.write_json(folder.config, with_options(saved, decided))
  return dataclasses.replace(setup, batches=dataclasses.replace(setup.batches, max_shapes=plan.max_shapes),
                             saved=with_options(setup.saved, decided))
