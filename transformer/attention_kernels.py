"""Attention kernels: by which code Eq. 1 is computed over whole texts. A new kernel is registered here under its name.

'einsum' is transformer/attention.py itself: products and softmax written out, for every score, position and mask. The
others compute the context in one call that keeps no weights. They equal it up to rounding; what they cannot compute is
refused by the model's record. Cached steps and inspect() always take einsum, see layers.written_out.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from transformer import attention_scores
from transformer.config import AnyModelConfig, ModelConfig
from transformer.masks import Mask
from transformer.registries import ATTENTION_KERNELS, ATTENTION_SCORES, POSITIONS
from transformer.search.cache import KeyValue

Bias = Float[Array, '#B H Q M']


class Kernel(NamedTuple):
  """A kernel of jax.nn.dot_product_attention, and what it takes."""

  implementation: Literal['xla', 'cudnn']
  shortest: int = 1  # tokens: texts with fewer, on either side, are left to einsum
  multiple: int = 1  # and texts whose tokens, padding included, are no multiple of it
  on_gpu_only: bool = False  # elsewhere einsum takes its place, so that a run can be read on any device
  half_only: bool = False  # whether float32 is beyond it
  widths: Sequence[int] | None = None  # d_k that it takes; None: any
  adds_bias: bool = True  # whether it takes what positions add to the scores

  def fits(self, length: int) -> bool:
    """Return whether it takes texts of so many tokens, padding included."""
    return length >= self.shortest and not length % self.multiple

  def takes(self, queries: int, entries: int) -> bool:
    """Return whether it computes attention of so many queries to so many entries, on the devices that jax has."""
    return self.fits(queries) and self.fits(entries) and not (self.on_gpu_only and jax.default_backend() != 'gpu')

  def attend(self, query: Float[Array, 'B Q H K'], memory: KeyValue, mask: Mask, scale: float, bias: Bias | None
             ) -> Float[Array, 'B Q H K']:
    """Return softmax(scale · q kᵀ + bias) v; a query that may attend to nothing has the context 0, as with einsum.

    Args:
      query: its heads are a multiple of the memory's, grouped as attention.grouped does.
      memory: keys and values of the same width.
      mask: see masks.Mask.
      scale: factor of the products.
      bias: what positions add to the scores.
    """
    mask = jnp.asarray(mask)
    context = jax.nn.dot_product_attention(query, memory.key, memory.value, bias, mask[:, None], scale=scale,
                                           implementation=self.implementation)
    return jnp.where(mask.any(axis=-1)[:, :, None, None], context, jnp.zeros_like(context))

  def mistakes(self, config: ModelConfig) -> Iterator[str]:
    """Yield a sentence for each choice of a record that the kernel cannot compute."""
    refused = lambda found, why: (f'attention_kernel is {config.attention_kernel}, but {found}: {why}; change it, or '
                                  'set attention_kernel=einsum')
    if config.attention_dropout:
      yield refused(f'attention_dropout is {config.attention_dropout}', 'the kernel keeps no weights to drop')
    score = ATTENTION_SCORES.get(config.attention_score)
    # Compared with the base class: a score that overrides it computes something else.
    if score and score.compare is not attention_scores.Score.compare:
      yield refused(f'attention_score is {config.attention_score}', 'the kernel computes scaled products of q and k')
    if config.key_size != config.value_size:
      yield refused(f'd_k is {config.key_size} and d_v {config.value_size}', 'the kernel takes one width')
    positions = POSITIONS.get(config.positions)
    if positions and (positions.adds_vectors or positions.adds_bias and not self.adds_bias):
      yield refused(f'positions is {config.positions}', 'the kernel cannot add its terms')
    if self.half_only and config.dtype == 'float32':
      yield refused('dtype is float32', 'the kernel takes bfloat16')
    if self.widths and config.key_size not in self.widths:
      yield refused(f'd_k is {config.key_size}',
                    f'the kernel takes multiples of {self.widths[0]} up to {self.widths[-1]}')


ATTENTION_KERNELS.add('einsum', None, 'products and softmax written out')
ATTENTION_KERNELS.add('xla', Kernel('xla'), "jax's own")
ATTENTION_KERNELS.add('cudnn', Kernel('cudnn', shortest=128, multiple=2, on_gpu_only=True, half_only=True,
                                      widths=range(8, 129, 8), adds_bias=False),
                      'fused, for NVIDIA GPUs and texts of 128 tokens and more, of even lengths')


def chosen(config: AnyModelConfig) -> Kernel | None:
  """Return the kernel that a model's record names; None for einsum, and for models without such a choice."""
  return ATTENTION_KERNELS[config.attention_kernel] if isinstance(config, ModelConfig) else None


def check(config: AnyModelConfig, platform: str, lengths: Collection[int] = ()) -> None:
  """Raise ValueError when a run would never use the kernel that it asks for.

  Args:
    config: the model's.
    platform: of the devices that train, as jax.Device.platform names it; or what else they are.
    lengths: tokens of either side of the training batches, padding included; none: not known.
  """
  kernel = chosen(config)
  if kernel is None:
    return
  name = f'model.attention_kernel is {kernel.implementation}'
  if kernel.on_gpu_only and platform not in ('gpu', 'cuda'):
    raise ValueError(f'{name}, which needs NVIDIA GPUs that are there, and the devices are {platform}; '
                     'set model.attention_kernel to xla or einsum')
  if lengths and max(lengths) < kernel.shortest:
    raise ValueError(f'{name}, which takes texts of {kernel.shortest} tokens and more, and the batches have {max(lengths)} at '
                     'most; set model.attention_kernel to xla or einsum, or pack longer rows with data.batching=packed '
                     'and data.packed_length')
  if lengths and not any(map(kernel.fits, lengths)):
    raise ValueError(f'{name}, which takes texts of {kernel.shortest} tokens and more whose number is a multiple of '
                     f'{kernel.multiple}, and the batches have {", ".join(map(str, sorted(set(lengths))))}; set model.attention_kernel '
                     'to xla or einsum, or data.packed_length or the fixed lengths to such a number')
