"""The logit lens (nostalgebraist, 2020): what each decoder layer would predict, had the decoder ended there.

A decoder cut after layer n is a decoder of n layers: its residual stream goes through the same last normalisation and
the same output matrix. The model's code is used as it is.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from transformer import architectures, tokens
from transformer.config import LanguageModelConfig, ModelConfig
from transformer.model import Model, Params


def layers_of(model: Model) -> int:
  """Return the number of decoder layers to cut after; 0 where the decoder has no separate Transformer layers."""
  return model.config.decoder_layers if isinstance(model.config, ModelConfig) and not model.config.scan_layers else 0


def predictions(model: Model, params: Params, source: tokens.Tokens, target: tokens.Tokens, bos_id: int
                ) -> tuple[np.ndarray, np.ndarray]:
  """Predict the likeliest next token at every step after each layer.

  Args:
    source, target: rows; the target ends in EOS and is shifted here.

  Returns:
    ids [B, layers, T] and their probabilities. The last layer's are the model's own.
  """
  found = [_cut(model, layers, bos_id)(params, source, target) for layers in range(1, layers_of(model) + 1)]
  ids, probabilities = zip(*jax.device_get(found))
  return np.stack(ids, axis=1), np.stack(probabilities, axis=1)


@functools.lru_cache(maxsize=32)
def _cut(model: Model, layers: int, bos_id: int):
  """Compile (params, source, target) -> ids, probabilities for the model whose decoder ends after `layers` layers."""
  depth, positions = (('num_layers', 'positions') if isinstance(model.config, LanguageModelConfig) else
                      ('num_decoder_layers', 'decoder_positions'))
  cut = architectures.build(dataclasses.replace(model.config, **{depth: layers}))

  def predict(params: Params, source: tokens.Tokens, target: tokens.Tokens):
    if positions in params and model.config.positions == 'relative':  # tables with a first axis of layers
      params = dict(params, **{positions: jax.tree.map(lambda leaf: leaf[:layers], params[positions])})
    logits = cut.decode(params, cut.encode(params, source), tokens.shift_right(target, bos_id))
    return logits.argmax(-1), jnp.exp(jax.nn.log_softmax(logits).max(-1))

  return jax.jit(predict)
