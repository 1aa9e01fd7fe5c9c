"""A translator's model and lines as files that other systems can read without a package of this project."""

import dataclasses
import json
import os
from typing import Any

import jax
import numpy as np

from checks.errors import ConfigError
from checks.whole_files import write_whole
from decoding.translator import Translator
from transformer import positions
from transformer.config import ModelConfig

LONGEST = 1200  # rows of the table of positions
# The options that peers_on_text.py can express; other values are refused.
EXPRESSED = {'positions': 'sinusoidal', 'attention_score': 'scaled_dot', 'activation': 'relu',
             'normalization': 'layer_norm', 'norm_bias': True, 'feed_forward_bias': True, 'attention_bias': False,
             'share_embeddings': True, 'output_bias': False, 'scan_layers': False, 'dtype': 'float32'}


def write_work(folder: str, translator: Translator, lines: list[str], **options: Any) -> None:
  """Write model.npz, vocabulary.model and work.json into a folder.

  Args:
    folder: one that exists.
    translator: of one model with one vocabulary.
    lines: what is to be translated.
    **options: for peers_on_text.py: beam, alpha, threads, batch_tokens.

  Raises:
    ConfigError: when the model has parts that peers_on_text.py cannot express.
  """
  model, vocabulary, _ = translator.parts
  config = model.config
  check_expressible(config)
  leaves = jax.tree_util.tree_leaves_with_path(jax.device_get(translator.params[0]))
  arrays = {'/'.join(key.key for key in path): np.asarray(leaf) for path, leaf in leaves}
  arrays['positions'] = np.asarray(positions.sinusoids(LONGEST, config.d_model, config.position_layout,
                                                       config.position_frequencies))
  np.savez(os.path.join(folder, 'model.npz'), **arrays)
  with open(os.path.join(folder, 'vocabulary.model'), 'wb') as file:
    file.write(vocabulary.model)
  work = {'model': dataclasses.asdict(config) | {'num_decoder_layers': config.decoder_layers}, 'lines': lines,
          'bos_id': vocabulary.bos_id, 'eos_id': vocabulary.eos_id, 'pad_id': vocabulary.pad_id,
          'extra_length': translator.search_config.extra_length, **options}
  write_whole(os.path.join(folder, 'work.json'), json.dumps(work, ensure_ascii=False))


def check_expressible(config: Any) -> None:
  """Raise ConfigError when the model has parts that peers_on_text.py cannot express."""
  if not isinstance(config, ModelConfig):
    raise ConfigError('--systems: the run is not an encoder-decoder Transformer; other systems cannot have its arrays')
  wrong = [f'model.{name} is {getattr(config, name)!r}; expected {value!r}' for name, value in EXPRESSED.items()
           if getattr(config, name) != value]
  if {config.key_size, config.value_size} != {config.d_model // config.num_heads} or config.kv_heads != config.num_heads:
    wrong.append('model.d_k, model.d_v or model.num_kv_heads is not what num_heads gives')
  if wrong:
    raise ConfigError('--systems: other systems cannot have the arrays of this model; leave them out:\n  '
                      + '\n  '.join(wrong))
