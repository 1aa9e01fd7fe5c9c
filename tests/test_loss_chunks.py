"""The loss computed in parts of the target's places (train.loss_chunks) equals the loss in one piece."""

import dataclasses

import jax
import numpy as np
import pytest

import train
from checks.errors import ConfigError
from tests import tiny_runs
from tests.conftest import BOS, FILLER, SIZES, rows
from tests.test_platforms import products
from transformer import architectures, tokens, training
from transformer.config import LanguageModelConfig, LossConfig, ModelConfig
from transformer.tokens import Batch

BATCH = Batch(rows([7, 5, 2], 7), rows([6, 4, 3], 6, seed=1))
SMALL = {**SIZES, 'num_layers': 1, 'dropout': 0.3, 'output_bias': True}


def scored(model, batch, config):
  """Sums and gradient of a batch, with dropout."""
  params = jax.tree.map(lambda leaf: np.random.default_rng(leaf.shape).normal(0.1, 0.4, leaf.shape).astype(np.float32),
                        jax.eval_shape(model.init, jax.random.key(0)))
  objective = training.cross_entropy(model, config, BOS)
  measure = lambda params: (lambda totals: (totals.loss, totals))(objective(params, batch, jax.random.key(1)))
  return jax.jit(jax.grad(measure, has_aux=True))(params)


@pytest.mark.parametrize('record, options', [
    (ModelConfig, dict(norm='pre')), (ModelConfig, dict(share_embeddings=False, tie_output=False, dtype='bfloat16')),
    (LanguageModelConfig, {})], ids=['pre', 'untied, bfloat16', 'language model'])
@pytest.mark.parametrize('chunks', [2, 4])  # the second does not divide 6 places
def test_sums_and_gradients_are_the_same(record, options, chunks):
  batch = BATCH if record is ModelConfig else Batch(tokens.pad([], 3, 0, FILLER), BATCH.target)
  model, whole = architectures.build(record(**SMALL, **options)), LossConfig(0.2, 'others')
  slope, expected = scored(model, batch, whole)
  ours, totals = scored(model, batch, dataclasses.replace(whole, loss_chunks=chunks))
  half = 'dtype' in options
  np.testing.assert_allclose(totals, expected, rtol=1e-5)
  assert float(totals.tokens) == 13 and abs(float(totals.loss - totals.nll)) > 0.1
  scale = max(np.abs(leaf).max() for leaf in jax.tree.leaves(slope))
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a / scale, b / scale, atol=2e-3 if half else 2e-6), ours, slope)


def test_no_array_of_all_logits_is_made():
  model = architectures.build(ModelConfig(**SMALL))
  params = jax.eval_shape(model.init, jax.random.key(0))

  def text(chunks):
    objective = training.cross_entropy(model, LossConfig(loss_chunks=chunks), BOS)
    return jax.jit(jax.value_and_grad(lambda params: objective(params, BATCH).loss)).lower(params).as_text()

  assert 'tensor<3x6x29xf32>' in text(1)
  assert 'tensor<3x6x29xf32>' not in text(3) and 'tensor<3x2x29xf32>' in text(3)
  assert len(products(text(3))) == len(products(text(1))) + 1  # the logits of a part, once more for the gradient


@pytest.mark.parametrize('options, named', [
    (['--config.train.loss_chunks=2', '--config.train.consistency=simcut'], 'compares all logits of two passes'),
    (['--config.train.loss_chunks=2', '--config.model.architecture=recurrent'], 'recurrent models compute their logits'),
    (['--config.train.loss_chunks=0'], 'loss_chunks')])
def test_what_cannot_be_computed_in_parts_is_refused(corpus, tmp_path, options, named):
  with pytest.raises(ConfigError, match=named):
    train.main(tiny_runs.options(corpus, tmp_path / 'run', *options))
