"""The choices of the library's options, one registry for each option. Implementations register next to their code.

Records use the registries to check a choice, modules to find what it names. `import transformer` fills them all.
"""

from collections.abc import Callable

import flax.linen as nn
import jax.numpy as jnp

from checks.choices import Registry

ARCHITECTURES = Registry('model.architecture')  # model.Family: a record's type, how to build and to describe it
ATTENTION_SCORES: Registry[type[nn.Module]] = Registry('model.attention_score')  # in attention_scores
POSITIONS: Registry[type[nn.Module]] = Registry('model.positions')  # in positions
POSITION_LAYOUTS: Registry[int] = Registry('model.position_layout')  # in positions: the axis of a pair's two columns
POSITION_FREQUENCIES: Registry[Callable] = Registry('model.position_frequencies')  # in positions: width -> wavenumbers
NORMS = Registry('model.norm')  # layers.Placement: the place of a sub-layer's normalisation
NORMALIZATIONS: Registry[type[nn.Module]] = Registry('model.normalization')  # in normalization
ACTIVATIONS = Registry('model.activation')  # feed_forward.Activation
INITIALIZERS = Registry('model.initializer')  # initializers.Variance
DTYPES: Registry[jnp.dtype] = Registry('model.dtype')  # in dtypes
CELLS = Registry('recurrent.cell')  # recurrent.cells.Cell
RECURRENT_SCORES: Registry[type[nn.Module] | None] = Registry('recurrent.score')  # in recurrent.attention
CONTEXTS: Registry[type[nn.Module]] = Registry('recurrent.context')  # in recurrent.model, of models without attention
OPTIMIZERS = Registry('optimizer.kind')  # optimizer.Rule: from a gradient to a direction
SCHEDULES = Registry('optimizer.schedule')  # optimizer.Schedule: the learning rate at a step
SMOOTHINGS: Registry[Callable] = Registry('train.smoothing_over')  # in loss: (share, V) -> share over all V
CONSISTENCIES = Registry('train.consistency')  # training.Consistency: an objective of one pass or of two
COMPILATIONS = Registry('compile')  # partitioning.Compilation: how a step is compiled
