"""The choices of the library's options, one registry for each option. Implementations register next to their code.

Records use the registries to check a choice, modules to find what it names. `import transformer` fills them all.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import flax.linen as nn
import jax.numpy as jnp

from checks.choices import Registry

if TYPE_CHECKING:  # the entries' types alone: their modules import the records, and those this file
  from transformer import (
    attention_kernels,
    attention_scores,
    feed_forward,
    initializers,
    layers,
    optimizer,
    partitioning,
    positions,
    training,
  )
  from transformer.model import Family
  from transformer.recurrent import attention, cells
  from transformer.recurrent import model as recurrent

ARCHITECTURES: 'Registry[Family]' = Registry('model.architecture')  # a record's type, how to build and to describe it
ATTENTION_SCORES: 'Registry[type[attention_scores.Score]]' = Registry('model.attention_score')
ATTENTION_KERNELS: 'Registry[attention_kernels.Kernel | None]' = Registry('model.attention_kernel')  # None: einsum
POSITIONS: 'Registry[type[positions.Absent]]' = Registry('model.positions')
POSITION_LAYOUTS: Registry[int] = Registry('model.position_layout')  # in positions: the axis of a pair's two columns
POSITION_FREQUENCIES: Registry[Callable] = Registry('model.position_frequencies')  # in positions: width -> wavenumbers
NORMS: 'Registry[layers.Placement]' = Registry('model.norm')  # the place of a sub-layer's normalisation
NORMALIZATIONS: Registry[type[nn.Module]] = Registry('model.normalization')  # in normalization
ACTIVATIONS: 'Registry[feed_forward.Activation]' = Registry('model.activation')
INITIALIZERS: 'Registry[initializers.Variance]' = Registry('model.initializer')
DTYPES: Registry[jnp.dtype] = Registry('model.dtype')  # in dtypes
LOGITS_DTYPES: Registry[jnp.dtype] = Registry('train.logits_dtype')  # in loss
CELLS: 'Registry[cells.Cell]' = Registry('recurrent.cell')
RECURRENT_SCORES: 'Registry[type[attention.Score] | None]' = Registry('recurrent.score')  # None: no attention
CONTEXTS: 'Registry[type[recurrent.FirstState]]' = Registry('recurrent.context')  # of models without attention
DROPOUT_BITS: Registry[Callable] = Registry('train.dropout_bits')  # in dropout: root key -> key that dropout draws from
OPTIMIZERS: 'Registry[optimizer.Rule]' = Registry('optimizer.kind')  # from a gradient to a direction
SCHEDULES: 'Registry[optimizer.Schedule]' = Registry('optimizer.schedule')  # the learning rate at a step
SMOOTHINGS: Registry[Callable] = Registry('train.smoothing_over')  # in loss: (share, V) -> share over all V
CONSISTENCIES: 'Registry[training.Consistency]' = Registry('train.consistency')  # an objective of one pass or of two
COMPILATIONS: 'Registry[partitioning.Compilation]' = Registry('compile')  # how a step is compiled
