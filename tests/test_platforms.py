"""Training and decoding steps are lowered for accelerators that this machine does not have."""

import jax
import jax.numpy as jnp
import optax
import pytest

from tests.conftest import BOS, SIZES, rows
from transformer import architectures, training
from transformer.config import LossConfig, ModelConfig
from transformer.tokens import Batch

BATCH = Batch(rows([5, 3, 7, 2], 7), rows([4, 6, 2, 5], 6, seed=1))


@pytest.mark.parametrize('platform', ['tpu', 'cuda'])
@pytest.mark.parametrize('dtype', ['float32', 'bfloat16'])
def test_steps_are_lowered_for_other_platforms(platform, dtype):
  model = architectures.build(ModelConfig(**{**SIZES, 'num_layers': 1}, dropout=0.1, dtype=dtype))
  optimizer = optax.adam(1e-3)
  state = jax.eval_shape(lambda key: training.init_state(model, optimizer, key), jax.random.key(0))
  step = training.make_train_step(training.cross_entropy(model, LossConfig(0.1), BOS), optimizer)
  lowered = jax.jit(step, donate_argnums=0).trace(state, BATCH).lower(lowering_platforms=(platform,))
  assert 'stablehlo.dot_general' in lowered.as_text() and ('bf16' in lowered.as_text()) == (dtype == 'bfloat16')

  def decode(params, source, tokens):
    cache = model.init_cache(params, model.encode(params, source), 9, beams=3)
    return model.decode_step(params, cache, tokens)

  tokens = jnp.full((4, 3), BOS)
  lowered = jax.jit(decode).trace(state.params, BATCH.source, tokens).lower(lowering_platforms=(platform,))
  assert 'stablehlo.dot_general' in lowered.as_text()
