"""Where dropout acts: on the embeddings and on every sub-layer's output (§5.4), one place after the other."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests.conftest import BOS, FILLER, SIZES, rows
from transformer import architectures, tokens, training
from transformer.config import LanguageModelConfig, ModelConfig
from transformer.dropout import dropout
from transformer.registries import DROPOUT_BITS

OPTIONS = {**SIZES, 'num_layers': 1, 'dropout': 0.5, 'positions': 'none', 'attention_bias': True, 'tie_output': False}
CONFIGS = {'transformer': ModelConfig(**OPTIONS, share_embeddings=False),
           'language model': LanguageModelConfig(**OPTIONS)}
# The parameter that alone sends something through a place.
PLACES = [('transformer', *place) for place in (
    ('source_embedding',), ('encoder_layers_0', 'self_attention', 'b_out'), ('encoder_layers_0', 'feed_forward', 'b2'),
    ('target_embedding',), ('decoder_layers_0', 'self_attention', 'b_out'),
    ('decoder_layers_0', 'cross_attention', 'b_out'), ('decoder_layers_0', 'feed_forward', 'b2'))] + [
        ('language model', 'embedding'), ('language model', 'layers_0', 'self_attention', 'b_out'),
        ('language model', 'layers_0', 'feed_forward', 'b2')]


@pytest.fixture(scope='module', params=CONFIGS)
def compiled(request):
  """A model's name, the shapes of its parameters, and (params, encoder's key, decoder's key) -> memory and logits."""
  model = architectures.build(CONFIGS[request.param])
  source = rows([5, 7], 7) if request.param == 'transformer' else tokens.pad([], 2, 0, FILLER)
  target = tokens.shift_right(rows([6, 4], 6, seed=1), BOS)

  @jax.jit
  def both(params, encoder_key, decoder_key):
    memory = model.encode(params, source, encoder_key)
    return memory.values if request.param == 'transformer' else (), model.decode(params, memory, target, decoder_key)

  return request.param, jax.eval_shape(model.init, jax.random.key(0)), both


def test_dropout_acts_at_every_place_with_a_key_alone(compiled):
  name, shapes, both = compiled
  draw = np.random.default_rng(0)
  keys = [jax.random.key(seed) for seed in range(3)]
  for place in [path for which, *path in PLACES if which == name]:
    def fill(path, leaf, place=tuple(place)):
      names = tuple(part.key for part in path)
      if names == place or names == ('output_projection',):
        return jnp.asarray(draw.normal(1.0, 0.5, leaf.shape), jnp.float32)
      return jnp.full(leaf.shape, float(names[-1] == 'scale'))

    params = jax.tree_util.tree_map_with_path(fill, shapes)
    plain, again = both(params, None, None), both(params, None, None)
    jax.tree.map(np.testing.assert_array_equal, plain, again)
    in_encoder = place[0].startswith(('source', 'encoder'))
    found = [both(params, *((key, None) if in_encoder else (None, key)))[0 if in_encoder else 1] for key in keys]
    without = plain[0 if in_encoder else 1]
    assert np.abs(without).max() > 0.1, place
    for one, other in ((found[0], without), (found[0], found[1]), (found[1], found[2])):
      assert np.abs(one - other).max() > 0.1, place


def test_generators_drop_at_the_rate_and_each_in_its_own_way():
  key, x = jax.random.key(3), jnp.ones((97, 1009))
  found = [np.asarray(dropout(x, 0.3, bits(key))) for bits in DROPOUT_BITS.values()]
  for one in found:
    np.testing.assert_allclose(np.unique(one), [0.0, 1 / 0.7], rtol=1e-6)
    assert abs((one == 0).mean() - 0.3) < 4 * np.sqrt(0.3 * 0.7 / x.size)
  assert all((one != other).mean() > 0.3 for n, one in enumerate(found) for other in found[:n])


def test_a_generator_of_dropout_changes_no_first_parameter():
  model = architectures.build(CONFIGS['language model'])
  start = lambda bits: training.init_state(model, optax.sgd(0.1), jax.random.key(0), dropout_bits=bits)
  states = [start(bits) for bits in DROPOUT_BITS]
  jax.tree.map(np.testing.assert_array_equal, states[0].params, states[1].params)
  assert states[0].key.dtype != states[1].key.dtype
