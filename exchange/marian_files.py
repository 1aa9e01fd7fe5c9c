"""Read a model of Marian's own: model.npz, and the vocabulary in YAML that was trained with it.

Both are read as Hugging Face's converter has it: Marian's names of tensors become MarianMT's, and the vocabulary gets
an entry <pad> at its end, with a row of zeros, from which the decoder starts, as it does in Marian.

Source: https://github.com/marian-nmt/marian-dev, src/models/transformer.h, and the names in transformers'
convert_marian_to_pytorch.py.
"""

import os
import re
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import yaml

from checks.errors import ConfigError, DataError
from corpora import text_files
from exchange import marian
from options.mistakes import listed

PAD = '<pad>'
_CONFIG = 'special:model.yml'  # the entry with the model's options
_BIAS = 'decoder_ff_logit_out_b'
# The output matrix where it is not tied: [entries, width], or as earlier versions of Marian wrote it, the transpose.
_UNTIED, _UNTIED_EARLIER = 'decoder_ff_logit_out_Wt', 'decoder_ff_logit_out_W'
_TABLES = {'Wemb': marian.SHARED, 'encoder_Wemb': 'model.encoder.embed_tokens.weight',
           'decoder_Wemb': 'model.decoder.embed_tokens.weight', _UNTIED: 'lm_head.weight', _UNTIED_EARLIER: 'lm_head.weight',
           _BIAS: 'final_logits_bias'}
_SUBLAYERS = {'self': 'self_attn', 'context': 'encoder_attn'}
_LAYER = re.compile(r'(encoder|decoder)_l(\d+)_(self|context|ffn)_(\w+)')
_PROJECTION = re.compile('([Wb])([qkvo])')
# What the options have to be: other values change what is computed. An option that is absent was added to Marian later.
_EXPECTED = {'type': 'transformer', 'transformer-preprocess': '', 'transformer-postprocess': 'dan',
             'transformer-postprocess-emb': 'd', 'transformer-postprocess-top': '', 'transformer-decoder-autoreg': 'self-attention',
             'transformer-no-projection': 'false', 'transformer-ffn-depth': '2', 'transformer-train-position-embeddings': 'false',
             'transformer-tied-layers': '[]', 'right-left': 'false', 'ulr': 'false'}
_ACTIVATIONS = ('relu', 'swish')  # Marian's gelu is an approximation of another kind


def read(path: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
  """Return a model's options, as MarianMT's config.json has them, and its tensors under MarianMT's names.

  Args:
    path: of model.npz.

  Raises:
    ConfigError: naming every option of Marian's that our model does not have.
    DataError: when the file is missing, damaged, or lacks a tensor.
  """
  theirs = _arrays(path)
  options = _options(path, theirs)
  if mistakes := list(_mistakes(options)):
    raise ConfigError(f'{path} does not fit: {listed(mistakes)}')
  is_shared = 'Wemb' in theirs
  first, second = (['Wemb'] * 2 if is_shared else ['encoder_Wemb', 'decoder_Wemb'])
  if lacking := [name for name in (first, second, _BIAS) if name not in theirs]:
    raise DataError(f'{path} lacks the tensor {lacking[0]}')
  if others := [name for name in _TABLES if name in theirs and theirs[name].ndim != 2]:
    raise DataError(f'{path}: {others[0]} has {theirs[others[0]].ndim} dimensions; expected a table, with 2')
  tensors = dict(_renamed(path, theirs))
  sizes = {side: len(theirs[name]) + 1 for side, name in (('source', first), ('target', second))}
  number = lambda name: _number(path, options, name)
  heads, inner = number('transformer-heads'), number('transformer-dim-ffn')
  return {
      'model_type': 'marian', 'd_model': number('dim-emb'), 'encoder_layers': number('enc-depth'),
      'decoder_layers': number('dec-depth'), 'encoder_attention_heads': heads, 'decoder_attention_heads': heads,
      'encoder_ffn_dim': inner, 'decoder_ffn_dim': inner, 'activation_function': options['transformer-ffn-activation'],
      'scale_embedding': True, 'share_encoder_decoder_embeddings': is_shared,
      'tie_word_embeddings': not {_UNTIED, _UNTIED_EARLIER} & theirs.keys(),
      'vocab_size': sizes['source'], 'decoder_vocab_size': sizes['target'], 'eos_token_id': 0,
      'pad_token_id': sizes['target'] - 1, 'decoder_start_token_id': sizes['target'] - 1, 'num_beams': 6}, tensors


def entries(path: str) -> dict[str, int]:
  """Return the ids of a vocabulary's entries, with <pad> at the end. Raises DataError when the file is none."""
  found = _yaml(path, text_files.read_bytes(path))
  try:
    ids = {piece: int(number) for piece, number in found.items()}
  except (AttributeError, TypeError, ValueError):
    raise DataError(f'{path} is no vocabulary of Marian: expected an entry and its number in each line, as </s>: 0') from None
  if PAD in ids:
    raise DataError(f'{path} has an entry {PAD}, a name that the row before an output\'s first token has here; expected none')
  return ids | {PAD: max(ids.values(), default=-1) + 1}


def _arrays(path: str) -> dict[str, np.ndarray]:
  if not os.path.isfile(path):
    raise DataError(f'no file {path}')
  try:
    with np.load(path, allow_pickle=False) as archive:
      return {name: archive[name] for name in archive.files}
  except (ValueError, OSError, EOFError, AttributeError, TypeError, zipfile.BadZipFile) as error:
    raise DataError(f'{path} is no whole archive of arrays ({error}); fetch it again') from None


def _yaml(path: str, text: bytes) -> Any:
  try:  # whose BaseLoader makes lists, mappings and texts alone: an entry `yes` or `1` stays the text that it is
    return yaml.load(text, Loader=yaml.BaseLoader)
  except (yaml.YAMLError, UnicodeDecodeError) as error:
    raise DataError(f'{path} is no YAML ({" ".join(str(error).split())})') from None


def _options(path: str, arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
  if _CONFIG not in arrays:
    raise DataError(f'{path} lacks {_CONFIG}, the options of the model; expected a file that Marian wrote')
  found = _yaml(f'{path}, {_CONFIG}', arrays[_CONFIG].tobytes().rstrip(b'\0'))
  if not isinstance(found, dict):
    raise DataError(f'{path}: {_CONFIG} holds no names and values')
  return found


def _mistakes(options: Mapping[str, Any]) -> Iterator[str]:
  for name, expected in _EXPECTED.items():
    found = options.get(name, expected)
    found = found if isinstance(found, str) else '[]' if not found else str(found)
    if found != expected:
      yield f'{name} is {found!r}; expected {expected!r}'
  if (found := options.get('transformer-ffn-activation')) not in _ACTIVATIONS:
    yield f'transformer-ffn-activation is {found!r}; expected {" or ".join(_ACTIVATIONS)}'


def _number(path: str, options: Mapping[str, Any], name: str) -> int:
  try:
    return int(options[name])
  except (KeyError, TypeError, ValueError):
    raise DataError(f'{path}: {_CONFIG} has {name} {options.get(name)!r}; expected a number') from None


def _renamed(path: str, arrays: Mapping[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
  """Yield the tensors as MarianMT has them; matrices there are the transposes of Marian's."""
  for name, array in arrays.items():
    if name == _BIAS:
      yield _TABLES[name], _with_pad(array.T).T
    elif name in _TABLES:
      yield _TABLES[name], _with_pad(array.T if name == _UNTIED_EARLIER else array)
    elif name != _CONFIG:
      yield _name(path, name), array.T if re.search(r'_W.$', name) else array.reshape(-1)


def _with_pad(table: np.ndarray) -> np.ndarray:
  return np.concatenate([table, np.zeros_like(table[:1])])


def _name(path: str, name: str) -> str:
  """Return MarianMT's name of a tensor of a layer. Raises DataError when its model has no such tensor."""
  if found := _LAYER.fullmatch(name):
    side, number, sublayer, part = found.groups()
    layer = f'model.{side}.layers.{int(number) - 1}'
    if sublayer == 'ffn':
      if part in ('ffn_ln_scale', 'ffn_ln_bias'):
        return f'{layer}.final_layer_norm.{_kind(part)}'
      if part in ('W1', 'b1', 'W2', 'b2'):
        return f'{layer}.fc{part[1]}.{_kind(part)}'
    elif projection := _PROJECTION.fullmatch(part):
      place = {'q': 'q_proj', 'k': 'k_proj', 'v': 'v_proj', 'o': 'out_proj'}[projection[2]]
      return f'{layer}.{_SUBLAYERS[sublayer]}.{place}.{_kind(part)}'
    elif part in ('Wo_ln_scale', 'Wo_ln_bias'):
      return f'{layer}.{_SUBLAYERS[sublayer]}_layer_norm.{_kind(part)}'
  raise DataError(f'{path} holds {name}, which a Transformer of these options has not')


def _kind(part: str) -> str:
  return 'bias' if part.startswith('b') or part.endswith('bias') else 'weight'
