"""Write a translator for CTranslate2, from arrays, through that package's own specification of a Transformer."""

import importlib
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from checks.whole_files import write_whole
from exchange.translator_arrays import Leaves, Translation, others, pieces, sentencepiece_model
from transformer import positions
from transformer.config import ModelConfig
from transformer.registries import ACTIVATIONS
from transformer.search import SearchConfig

_LONGEST = 1024  # rows of the table of sines: tokens of the longest text
_ACTIVATIONS = {'relu': 'RELU', 'gelu': 'GELU', 'swish': 'SWISH', 'swiglu': 'SWISH'}
_POSITIONS = ('sinusoidal', 'learned', 'rotary', 'relative', 't5', 'none')


def mistakes(config: ModelConfig) -> Iterator[str]:
  """Yield a sentence for each option that CTranslate2 does not have, and when it is not installed."""
  yield from others(config, positions=_POSITIONS, normalization=('layer_norm', 'rms_norm'), activation=tuple(_ACTIVATIONS))
  if config.positions == 'rotary':
    yield from others(config, position_frequencies=('paper',))
  try:
    importlib.import_module('ctranslate2.specs')
  except ImportError:
    yield '--to=ctranslate2 needs the package ctranslate2; install it: pip install ctranslate2'


def notes(config: ModelConfig, search: SearchConfig) -> Iterator[str]:
  """Yield nothing: what is computed is the same, and how to search is said with each call."""
  del config, search
  yield from ()


def write(folder: str, made: Translation, search: SearchConfig, quantization: str) -> None:
  """Write the model and the two SentencePiece models into an empty folder.

  Args:
    folder: an existing, empty one.
    made: the translator.
    search: not read: CTranslate2 takes beam_size and length_penalty with each call.
    quantization: the type of the matrices.
  """
  del search
  spec = specification(made)
  spec.validate()
  spec.optimize(quantization=None if quantization == 'float32' else quantization)
  spec.save(folder)
  for side, vocabulary in (('source', made.source), ('target', made.target)):
    write_whole(os.path.join(folder, f'{side}.spm'), sentencepiece_model(vocabulary))


def specification(made: Translation) -> Any:
  """Return the model as CTranslate2's TransformerSpec."""
  specs = importlib.import_module('ctranslate2.specs')
  config, arrays = made.config, made.arrays
  both = dict(num_heads=config.num_heads, pre_norm=config.norm == 'pre', rms_norm=config.normalization == 'rms_norm',
              activation=specs.Activation[_ACTIVATIONS[config.activation]], ffn_glu=ACTIVATIONS[config.activation].gated,
              relative_position=config.positions == 'relative', relative_attention_bias=config.positions == 't5',
              rotary_dim=config.key_size if config.positions == 'rotary' else None,
              rotary_interleave=config.position_layout == 'interleaved')
  spec = specs.TransformerSpec(specs.TransformerEncoderSpec(config.num_layers, **both),
                               specs.TransformerDecoderSpec(config.decoder_layers, **both))
  sides = {'source': made.source, 'target': made.target}
  # Where PAD is only what the decoder starts from, it is no output: its logit is as low as any.
  names = {side: pieces(vocabulary) for side, vocabulary in sides.items()}
  spec.register_source_vocabulary(names['source'])
  spec.register_target_vocabulary(names['target'])
  spec.config.layer_norm_epsilon = config.layer_norm_epsilon
  spec.config.decoder_start_token = spec.config.bos_token = names['target'][made.target.bos_id]
  spec.config.eos_token, spec.config.unk_token = names['target'][made.target.eos_id], names['target'][made.target.unk_id]
  spec.config.add_source_eos = True
  shared = arrays.get(('embedding',))
  for side, stack in (('source', spec.encoder), ('target', spec.decoder)):
    embeddings = stack.embeddings[0] if side == 'source' else stack.embeddings
    embeddings.weight = shared if shared is not None else arrays[f'{side}_embedding',]
    kind = 'encoder' if side == 'source' else 'decoder'
    if config.norm == 'pre':
      _set_norm(stack.layer_norm, arrays, (f'{kind}_norm',))
    for number, layer in enumerate(stack.layer):
      _set_layer(layer, arrays, f'{kind}_layers_{number}')
    _set_positions(stack, config, arrays, f'{kind}_positions')
  spec.decoder.projection.weight = arrays['output_projection',] if not config.tie_output else spec.decoder.embeddings.weight
  if config.output_bias:
    spec.decoder.projection.bias = arrays['output_bias',]
  return spec


def _set_positions(stack: Any, config: ModelConfig, arrays: Leaves, name: str) -> None:
  """Set the table that is added to the embeddings, or each layer's terms of self-attention; rotations have no parameters."""
  tables = {'sinusoidal': lambda: positions.sinusoids(_LONGEST, config.d_model, 'halves', config.position_frequencies),
            'learned': lambda: arrays[name, 'table'], 'none': lambda: np.zeros((_LONGEST, config.d_model), np.float32)}
  if config.positions in tables:
    stack.position_encodings.encodings = tables[config.positions]()
  for number, layer in enumerate(stack.layer):
    attention = layer.self_attention
    if config.positions == 'relative':
      attention.relative_position_keys = arrays[name, 'key_table'][number]
      attention.relative_position_values = arrays[name, 'value_table'][number]
    if config.positions == 't5':
      attention.relative_attention_bias = arrays[name, 'bias_table']
      attention.relative_attention_max_distance = np.int32(config.max_distance)


def _set_layer(layer: Any, arrays: Leaves, name: str) -> None:
  _set_attention(layer.self_attention, arrays, name, 'self', (('query', 'key', 'value'), ('out',)))
  if hasattr(layer, 'attention'):
    _set_attention(layer.attention, arrays, name, 'cross', (('query',), ('key', 'value'), ('out',)))
  _set_norm(layer.ffn.layer_norm, arrays, (name, 'around_feed_forward', 'norm'))
  for linear, number in ((layer.ffn.linear_0, 1), (layer.ffn.linear_1, 2)):
    linear.weight = np.ascontiguousarray(arrays[name, 'feed_forward', f'w{number}'].T)
    linear.bias = arrays[name, 'feed_forward', f'b{number}']
  if (gate := arrays.get((name, 'feed_forward', 'w_gate'))) is not None:
    layer.ffn.linear_0_noact.weight = np.ascontiguousarray(gate.T)


def _set_attention(attention: Any, arrays: Leaves, name: str, kind: str, products: tuple[tuple[str, ...], ...]) -> None:
  """Set an attention's weights; each product is one or more projections, one above the other."""
  _set_norm(attention.layer_norm, arrays, (name, f'around_{kind}', 'norm'))
  own = lambda part, letter: arrays[name, f'{kind}_attention', f'{letter}_{part}']
  for linear, parts in zip(attention.linear, products):
    width = own('out', 'b').size
    # [outputs, inputs]: d_model is the first axis of query, key and value, and the last of out.
    linear.weight = np.concatenate([own(part, 'w').reshape(*((-1, width) if part == 'out' else (width, -1))).T
                                    for part in parts])
    linear.bias = np.concatenate([own(part, 'b').reshape(-1) for part in parts])


def _set_norm(norm: Any, arrays: Leaves, path: tuple[str, ...]) -> None:
  norm.gamma = arrays[*path, 'scale']
  if (*path, 'bias') in arrays:  # RMSNorm has none
    norm.beta = arrays[*path, 'bias']
