"""The choices of the library's options: one entry is enough, and records say which fields a choice leaves idle."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from checks.choices import REGISTRIES
from tests.conftest import SIZES, rows
from transformer import architectures, feed_forward, optimizer, positions
from transformer.attention_scores import Score
from transformer.config import ConsistencyConfig, LossConfig, ModelConfig, OptimizerConfig, RecurrentConfig
from transformer.optimizer import Schedule
from transformer.registries import ACTIVATIONS, ATTENTION_SCORES, POSITIONS, SCHEDULES


class Negative(Score):
  """- q · k."""

  def compare(self, query, key, edges):
    return -super().compare(query, key, edges)


class Ones(positions.Absent):
  """One everywhere, whatever the place."""

  def embed(self, places, length):
    return jnp.ones((1, 1, self.config.d_model))


NEW = [(ATTENTION_SCORES, 'negative', Negative), (POSITIONS, 'ones', Ones),
       (ACTIVATIONS, 'squared', feed_forward.Activation(jnp.square))]


@pytest.mark.parametrize('registry, name, entry', NEW, ids=[name for _, name, _ in NEW])
def test_a_choice_of_the_model_is_one_entry(registry, name, entry):
  options = {**SIZES, 'num_layers': 1, registry.name: name}
  with pytest.raises(ValueError, match=f"{registry.name} is '{name}'; expected one of {', '.join(registry)}$"):
    ModelConfig(**options)
  registry.add(name, entry)
  try:
    model, usual = (architectures.build(ModelConfig(**chosen)) for chosen in (options, {**SIZES, 'num_layers': 1}))
    params = usual.init(jax.random.key(0))
    found, other = (each.encode(params, rows([5], 5)).values for each in (model, usual))
    assert np.abs(found - other).max() > 1e-3
  finally:
    registry.remove(name)
  with pytest.raises(ValueError, match=name):
    ModelConfig(**options)


def test_a_schedule_is_one_entry_and_says_whether_it_ends():
  halving = Schedule(lambda config, step, last: config.peak * 0.5 ** (step - 1.0), ends=True)
  SCHEDULES.add('halving', halving, uses=['final_share'])
  try:
    config = OptimizerConfig(schedule='halving', peak=4.0, warmup_steps=0)
    assert config.ends_with_run and [float(optimizer.learning_rate(config, 9)(n)) for n in range(3)] == [4.0, 2.0, 1.0]
    assert set(config.idle()) == {'momentum', 'decay_steps'}
    with pytest.raises(ValueError, match='schedule halving ends with the run, whose length'):
      dataclasses.replace(config, length_known=False)
  finally:
    SCHEDULES.remove('halving')


def test_every_registry_is_filled_on_import():
  sections = ('model', 'recurrent', 'optimizer', 'compile')
  found = {option for option in REGISTRIES if option.partition('.')[0] in sections}
  assert len(found) >= 16 and all(REGISTRIES[option] for option in found)


@pytest.mark.parametrize('record, idle', [
    (ModelConfig(29, 29), {'max_positions', 'clip_distance', 'num_buckets', 'max_distance'}),
    (ModelConfig(29, 29, positions='learned', normalization='rms_norm'),
     {'position_layout', 'position_frequencies', 'clip_distance', 'num_buckets', 'max_distance', 'norm_bias'}),
    (ModelConfig(29, 29, positions='rotary'), {'max_positions', 'clip_distance', 'num_buckets', 'max_distance'}),
    (ModelConfig(29, 29, positions='none'),
     {'position_layout', 'position_frequencies', 'max_positions', 'clip_distance', 'num_buckets', 'max_distance'}),
    (ModelConfig(29, 29, positions='t5'),
     {'position_layout', 'position_frequencies', 'max_positions', 'clip_distance'}),
    (ModelConfig(29, 29, positions='relative'),
     {'position_layout', 'position_frequencies', 'max_positions', 'num_buckets', 'max_distance'}),
    (RecurrentConfig(29, 29), set()),
    (OptimizerConfig(), {'momentum', 'decay_steps', 'final_share'}),
    (OptimizerConfig(kind='sgd', schedule='cosine', peak=1.0), {'beta1', 'beta2', 'epsilon'}),
    (OptimizerConfig(kind='adafactor', schedule='linear', peak=1.0), {'beta1', 'beta2', 'epsilon', 'momentum'}),
    (LossConfig(), set()), (LossConfig(label_smoothing=0.0), {'smoothing_over'}),
    (ConsistencyConfig(), {'consistency_weight', 'cut_rate'}), (ConsistencyConfig(consistency='r_drop'), {'cut_rate'}),
    (ConsistencyConfig(consistency='simcut'), set())], ids=lambda value: type(value).__name__)
def test_records_say_what_has_no_effect_and_why(record, idle):
  found = record.idle()
  assert set(found) == idle <= {field.name for field in dataclasses.fields(record)}
  for reason in found.values():  # begins with the field that decides, and its value
    field, value = reason.partition(';')[0].split(' is ')
    assert value == repr(getattr(record, field))
