"""MarianMT as Hugging Face's transformers has it: which of its tensors and options are which of ours.

MarianMT is Vaswani et al.'s Transformer with normalisation after each sub-layer, biases in attention, sines in two
halves of the columns, and a bias of the logits. Its matrices are the transposes of ours, all heads on one axis.
Pegasus is the same with normalisation before each sub-layer and at the end of both stacks.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from transformer.config import ModelConfig

SHARED = 'model.shared.weight'
# Layers: (where in our layer, its name there).
_NORMS = {'self': 'self_attn_layer_norm', 'cross': 'encoder_attn_layer_norm', 'feed_forward': 'final_layer_norm'}
_ATTENTIONS = {'self': 'self_attn', 'cross': 'encoder_attn'}
_PROJECTIONS = {'query': 'q_proj', 'key': 'k_proj', 'value': 'v_proj', 'out': 'out_proj'}
# The names of activations: theirs, ours.
ACTIVATIONS = {'relu': 'relu', 'gelu': 'gelu', 'swish': 'swish', 'silu': 'swish'}
EPSILON = 1e-5  # which their layer normalisation always has


class Named(NamedTuple):
  """One tensor under both names."""

  ours: tuple[str, ...]  # the path in our tree of parameters
  theirs: str
  form: str = 'flat'  # 'matrix': [outputs, inputs], ours transposed; 'flat': one axis; 'same'; 'row': [1, V]


def tables(config: ModelConfig) -> Iterator[Named]:
  """Yield the embeddings, the output projection and its bias."""
  if config.share_embeddings:
    yield Named(('embedding',), SHARED, 'same')
  else:
    yield Named(('source_embedding',), 'model.encoder.embed_tokens.weight', 'same')
    yield Named(('target_embedding',), 'model.decoder.embed_tokens.weight', 'same')
  if not config.tie_output:
    yield Named(('output_projection',), 'lm_head.weight', 'same')
  if config.output_bias:
    yield Named(('output_bias',), 'final_logits_bias', 'row')


def tensors(config: ModelConfig) -> Iterator[Named]:
  """Yield every tensor of a model that has attention_bias, feed_forward_bias and norm_bias."""
  yield from tables(config)
  for side, count in (('encoder', config.num_layers), ('decoder', config.decoder_layers)):
    for number in range(count):
      yield from _layer(f'{side}_layers_{number}', f'model.{side}.layers.{number}', side == 'decoder')
    if config.norm == 'pre':
      yield from _norm((f'{side}_norm',), f'model.{side}.layer_norm')


def _layer(ours: str, theirs: str, is_decoder: bool) -> Iterator[Named]:
  for kind, attention in _ATTENTIONS.items():
    if kind == 'self' or is_decoder:
      for part, projection in _PROJECTIONS.items():
        yield Named((ours, f'{kind}_attention', f'w_{part}'), f'{theirs}.{attention}.{projection}.weight', 'matrix')
        yield Named((ours, f'{kind}_attention', f'b_{part}'), f'{theirs}.{attention}.{projection}.bias')
  for number in (1, 2):
    yield Named((ours, 'feed_forward', f'w{number}'), f'{theirs}.fc{number}.weight', 'matrix')
    yield Named((ours, 'feed_forward', f'b{number}'), f'{theirs}.fc{number}.bias')
  for kind, norm in _NORMS.items():
    if kind != 'cross' or is_decoder:
      yield from _norm((ours, f'around_{kind}', 'norm'), f'{theirs}.{norm}')


def _norm(ours: tuple[str, ...], theirs: str) -> Iterator[Named]:
  yield Named((*ours, 'scale'), f'{theirs}.weight')
  yield Named((*ours, 'bias'), f'{theirs}.bias')


def to_theirs(name: Named, ours: np.ndarray) -> np.ndarray:
  """Return one of our tensors in their shape."""
  if name.form == 'matrix':
    inputs = math.prod(ours.shape[:2] if name.ours[-1] == 'w_out' else ours.shape[:1])  # w_out reads all heads
    return ours.reshape(inputs, -1).T
  return ours if name.form == 'same' else ours.reshape(1, -1) if name.form == 'row' else ours.reshape(-1)


def their_shape(name: Named, ours: tuple[int, ...]) -> tuple[int, ...]:
  """Return the shape that a tensor of ours has there."""
  return to_theirs(name, np.broadcast_to(np.float32(0), ours)).shape


def to_ours(name: Named, theirs: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
  """Return one of their tensors in our shape, as float32."""
  return np.array((theirs.T if name.form == 'matrix' else theirs).reshape(shape), np.float32, order='C')


def nested(leaves: Mapping[tuple[str, ...], Any]) -> dict[str, Any]:
  """Return a tree of parameters from its leaves by path."""
  tree: dict[str, Any] = {}
  for path, leaf in leaves.items():
    place = tree
    for part in path[:-1]:
      place = place.setdefault(part, {})
    place[path[-1]] = leaf
  return tree


def leaves(tree: Mapping[str, Any], path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
  """Return the leaves of a tree of parameters by path."""
  found: dict[tuple[str, ...], Any] = {}
  for name, part in tree.items():
    found |= leaves(part, (*path, name)) if isinstance(part, Mapping) else {(*path, name): part}
  return found
