"""The choices of the library's options: one entry is enough, and records say which fields a choice leaves idle."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import train
from checks.choices import REGISTRIES
from checks.errors import ConfigError
from options import help as helps
from tests import tiny_runs
from tests.conftest import SIZES, rows
from transformer import architectures, feed_forward, optimizer, positions
from transformer.attention_scores import Score
from transformer.config import ConsistencyConfig, LossConfig, ModelConfig, OptimizerConfig, RecurrentConfig
from transformer.optimizer import Schedule
from transformer.registries import ACTIVATIONS, ATTENTION_SCORES, POSITIONS, SCHEDULES
from transformer.search.length_penalty import LENGTH_PENALTIES


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


def test_one_new_choice_of_each_option_trains_and_searches_through_overrides(corpus, tmp_path):
  penalised = []
  rising = Schedule(lambda config, step, last: config.peak * step, ends=False)
  penalty = lambda length, alpha: penalised.append(alpha) or jnp.sqrt(length) ** alpha
  new = [*NEW, (SCHEDULES, 'rising', rising), (LENGTH_PENALTIES, 'square_root', penalty)]
  asked = tiny_runs.options(
      corpus, tmp_path / 'run', *(f'--config.{registry.option}={name}' for registry, name, _ in new),
      '--config.optimizer.warmup_steps=0', '--config.optimizer.learning_rate_scale=1.0', '--config.optimizer.peak=1e-3',
      '--config.search.alpha=0.7', '--config.train.num_steps=2', '--config.train.log_every=1',
      '--config.train.average_last=1', '--config.mesh.data=1')
  with pytest.raises(ConfigError) as refused:
    train.main(asked)
  for registry, name, _ in new:
    assert f"{registry.name} is '{name}'; expected one of {', '.join(registry)}" in str(refused.value)
  for registry, name, entry in new:
    registry.add(name, entry, 'a choice of this test')
  try:
    offered = ' '.join(helps.help_text('', [], 'config', everything=True).split())
    assert all(f'{name} (a choice of this test)' in offered for _, name, _ in new)
    assert train.main(asked) == 0
  finally:
    for registry, name, _ in new:
      registry.remove(name)
  rates = [line['train/learning_rate'] for line in tiny_runs.metrics(tmp_path / 'run') if 'train/learning_rate' in line]
  np.testing.assert_allclose(rates, [1e-3, 2e-3])
  assert penalised and set(penalised) == {0.7}


def test_a_schedule_is_one_entry_and_says_whether_it_ends():
  halving = Schedule(lambda config, step, last: config.peak * 0.5 ** (step - 1.0), ends=True)
  SCHEDULES.add('halving', halving, uses=['final_share'])
  try:
    config = OptimizerConfig(schedule='halving', peak=4.0, warmup_steps=0)
    assert config.ends_with_run and [float(optimizer.learning_rate(config, 9)(n)) for n in range(3)] == [4.0, 2.0, 1.0]
    assert set(config.idle()) == {'momentum', 'muon_rms', 'decay_steps'}
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
    (OptimizerConfig(), {'momentum', 'muon_rms', 'decay_steps', 'final_share'}),
    (OptimizerConfig(kind='sgd', schedule='cosine', peak=1.0), {'beta1', 'beta2', 'epsilon', 'muon_rms'}),
    (OptimizerConfig(kind='adafactor', schedule='linear', peak=1.0),
     {'beta1', 'beta2', 'epsilon', 'momentum', 'muon_rms'}),
    (OptimizerConfig(kind='muon', schedule='linear', peak=1.0), set()),
    (LossConfig(), set()), (LossConfig(label_smoothing=0.0), {'smoothing_over'}),
    (ConsistencyConfig(), {'consistency_weight', 'cut_rate'}), (ConsistencyConfig(consistency='r_drop'), {'cut_rate'}),
    (ConsistencyConfig(consistency='simcut'), set())], ids=lambda value: type(value).__name__)
def test_records_say_what_has_no_effect_and_why(record, idle):
  found = record.idle()
  assert set(found) == idle <= {field.name for field in dataclasses.fields(record)}
  for reason in found.values():  # begins with the field that decides, and its value
    field, value = reason.partition(';')[0].split(' is ')
    assert value == repr(getattr(record, field))
