"""Training and decoding steps are lowered for accelerators that this machine does not have."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests.conftest import BOS, SIZES, rows
from training import hardware
from transformer import architectures, training
from transformer.config import LanguageModelConfig, LossConfig, ModelConfig, RecurrentConfig
from transformer.tokens import Batch, Tokens

BATCH = Batch(rows([5, 3, 7, 2], 7), rows([4, 6, 2, 5], 6, seed=1))
NO_SOURCE = Batch(Tokens(*(np.zeros((4, 0), np.int32),) * 3), BATCH.target)
SMALL = {**SIZES, 'num_layers': 1, 'dropout': 0.1}


def traced_step(config):
  """The state of a model's training, and the training step, traced."""
  model, optimizer = architectures.build(config), optax.adam(1e-3)
  state = jax.eval_shape(lambda key: training.init_state(model, optimizer, key), jax.random.key(0))
  step = training.make_train_step(training.cross_entropy(model, LossConfig(0.1), BOS), optimizer)
  batch = NO_SOURCE if isinstance(config, LanguageModelConfig) else BATCH
  return state, jax.jit(step, donate_argnums=0).trace(state, batch)


def lowered_step(config, platform):
  """The state, and the training step lowered for a platform, as text."""
  state, traced = traced_step(config)
  return state, traced.lower(lowering_platforms=(platform,)).as_text()


def products(text):
  """The types of the two operands of each product."""
  return re.findall(r'stablehlo\.dot_general.*: \(tensor<(?:\d+x)*(\w+)>, tensor<(?:\d+x)*(\w+)>\)', text)


@pytest.mark.parametrize('platform', ['tpu', 'cuda'])
@pytest.mark.parametrize('dtype', ['float32', 'bfloat16'])
def test_steps_are_lowered_for_other_platforms(platform, dtype):
  config = ModelConfig(**SMALL, dtype=dtype)
  model, (state, text) = architectures.build(config), lowered_step(config, platform)
  assert len(products(text)) > 60 and set(products(text)) == {('bf16',) * 2 if dtype == 'bfloat16' else ('f32',) * 2}

  def decode(params, source, tokens):
    cache = model.init_cache(params, model.encode(params, source), 9, beams=3)
    return model.decode_step(params, cache, tokens)

  tokens = jnp.full((4, 3), BOS)
  lowered = jax.jit(decode).trace(state.params, BATCH.source, tokens).lower(lowering_platforms=(platform,))
  assert 'stablehlo.dot_general' in lowered.as_text()


@pytest.mark.parametrize('config', [
    ModelConfig(**SMALL, dtype='bfloat16', positions='relative', attention_score='multiplicative'),
    ModelConfig(**SMALL, dtype='bfloat16', positions='t5', attention_score='additive', num_kv_heads=1),
    ModelConfig(**SMALL, dtype='bfloat16', positions='rotary', d_k=6, activation='swiglu', norm='pre'),
    LanguageModelConfig(**SMALL, dtype='bfloat16', scan_layers=True, remat=True),
    RecurrentConfig(29, 29, 14, num_layers=1, dtype='bfloat16'),
    RecurrentConfig(29, 29, 14, num_layers=1, dtype='bfloat16', cell='lstm', score='general')],
    ids=['relative', 'additive', 'rotary', 'language model', 'gru', 'lstm'])
def test_a_bfloat16_step_has_no_float32_product(config):
  """Neither forward nor backward: one with a float32 operand costs several times as much on these platforms."""
  found = products(lowered_step(config, 'cuda')[1])
  assert len(found) > 20 and set(found) == {('bf16', 'bf16')}


def test_a_bfloat16_step_multiplies_no_more_than_one_in_float32():
  flops = {hardware.product_flops(traced_step(ModelConfig(**SMALL, dtype=dtype))[1].jaxpr.jaxpr)
           for dtype in ('float32', 'bfloat16')}
  assert len(flops) == 1
