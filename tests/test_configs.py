"""Every shipped configuration, with every variant: its sections build, and its model takes a step, traced unrun."""

import dataclasses
import glob
import importlib
import os
import pathlib
import re

import jax
import numpy as np
import pytest

import configs
from batching.labelled import LabelledPlan
from checks.errors import DataError
from configs import ablation, fine_tune, language_model, multi30k, recurrent, table3
from corpora import loading
from corpora.config import KINDS
from options import configurations
from options.configurations import ROOT
from tasks import setup
from transformer import architectures, classification, training
from transformer import optimizer as optimizers
from transformer.tokens import Batch, Tokens

# The first of each is the one that needs no name; what a file has a table of is read there.
VARIANTS = {'ablation': [*ablation.VARIANTS], 'default': [''], 'domain': [''], 'fine_tune': [*fine_tune.VARIANTS],
            'language_model': ['', *language_model.VARIANTS], 'multi30k': ['', *multi30k.VARIANTS],
            'phrasebook': [''], 'recurrent': [*recurrent.VARIANTS], 'table3': [*table3.VARIANTS], 'toy': [''],
            'wmt_de_en': ['base', 'big'], 'wmt_en_fr': ['base', 'big']}
EACH = [(name, variant) for name, variants in VARIANTS.items() for variant in variants]
BASE, BIG = (512, 8, 6, 2048), (1024, 16, 6, 4096)


def load(name, *variant):
  return importlib.import_module(f'configs.{name}').get_config(*variant)


def test_every_file_is_looked_at():
  files = {name.removesuffix('.py') for name in os.listdir(os.path.dirname(configs.__file__)) if name.endswith('.py')}
  assert files - {'__init__'} == set(VARIANTS)


def test_every_option_stands_on_a_page():
  pages = [os.path.join(ROOT, 'README.md'), *glob.glob(os.path.join(ROOT, 'docs', '*.md'))]
  text = ''.join(pathlib.Path(page).read_text(encoding='utf-8') for page in pages if not page.endswith('ledger.md'))
  for option in configurations.leaves(configurations.default_tree().to_dict()):
    name = option.rpartition('.')[2]
    assert re.search(fr'(?<![\w.])(config\.)?{option}\b|`{name}\b|(?<![-\w.]){name}=', text), option


def test_shipped_variants_are_all_of_these_with_the_default_first():
  assert configurations.shipped_variants() == EACH


@pytest.mark.parametrize('name', ['multi30k', 'toy', 'domain', 'language_model'])
def test_a_shipped_configuration_without_its_data_names_the_option_and_a_public_text(name, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  records = setup.records(load(name).to_dict())
  with pytest.raises(DataError) as caught:
    loading.load(records.corpus)
  option = KINDS[records.corpus.kind].needs
  assert re.search(rf'--config\.data\.{option}=….* or fetch .*(github\.com|manythings\.org).*docs/data\.md', str(caught.value))


@pytest.mark.parametrize('name, variant', EACH)
def test_sections_build_and_one_step_traces(name, variant):
  config = load(name, variant)
  records = setup.records(config.to_dict())
  lengths = [config.train.num_steps, config.train.num_epochs, config.train.num_minutes]
  assert sum(length is not None for length in lengths) == 1  # one of them alone decides
  # Layers are alike: one is traced.
  shallow = dataclasses.replace(records.model, num_layers=1, num_decoder_layers=None)
  model, holds = architectures.build(shallow), records.task
  if holds == 'examples':
    model = classification.build(model, dataclasses.replace(records.classification, outputs=4))
  each = {'similarity': 2, 'multiple_choice': 4}.get(config.data.task, 1)
  optimizer = optimizers.build(records.optimizer, config.train.num_steps or 10_000)
  fresh = lambda key: training.init_state(model, optimizer, key, config.train.ema_decay)
  state = jax.eval_shape(fresh, jax.random.key(0))

  batches = records.batches
  if batches.batching == 'fixed':
    rows, source, target = batches.fixed_rows, batches.fixed_source_length, batches.fixed_target_length
  else:
    source = target = batches.max_length
    rows = batches.batch_tokens // batches.max_length // 8 * 8
  if holds == 'documents':
    source = 0
  assert rows >= 8  # else a corpus with sentences of max_length would be refused
  side = lambda width: Tokens(*(jax.ShapeDtypeStruct((rows, width), np.int32) for _ in Tokens._fields))
  step = training.make_train_step(training.build_objective(model, records.loss, 2, records.consistency), optimizer,
                                  config.train.ema_decay, config.train.accumulation_steps)
  batch = Batch(side(source), side(target))
  if holds == 'examples':
    plan = LabelledPlan([[[2] * target] * each] * 8, [0] * 8, batches, 0)
    batch = plan.batch_at(0)
  after, measures = jax.eval_shape(step, state, batch)
  kinds = lambda tree: jax.tree.map(lambda leaf: (leaf.shape, str(leaf.dtype)), tree)
  assert kinds(after) == kinds(state)
  assert set(measures) >= {'loss', 'nll', 'tokens', 'correct', 'gradient_norm'}


@pytest.mark.parametrize('name, variant, sizes, dropout, vocabulary, steps', [
    ('default', '', BASE, 0.1, 37000, 100_000), ('wmt_de_en', 'base', BASE, 0.1, 37000, 100_000),
    ('wmt_de_en', 'big', BIG, 0.3, 37000, 300_000), ('wmt_en_fr', 'base', BASE, 0.1, 32000, 100_000),
    ('wmt_en_fr', 'big', BIG, 0.1, 32000, 300_000)])
def test_the_papers_configurations_are_the_papers(name, variant, sizes, dropout, vocabulary, steps):
  config = load(name, variant)
  model = config.model
  assert (model.d_model, model.num_heads, model.num_layers, model.d_ff) == sizes
  assert (model.norm, model.dropout, model.tie_output, model.share_embeddings) == ('post', dropout, True, True)
  assert (config.vocabulary.size, config.train.num_steps, config.train.label_smoothing) == (vocabulary, steps, 0.1)
  assert config.train.average_last == (20 if variant == 'big' else 5) <= config.train.keep_last
  assert (config.search.beam_size, config.search.length_penalty, config.search.alpha) == (4, 'gnmt', 0.6)


def test_the_toy_is_the_one_of_the_texts():
  config = load('toy')
  assert (config.model.num_layers, config.model.num_heads, config.vocabulary.size) == (4, 8, 10_002)
  assert (config.data.fixed_rows, config.data.fixed_source_length, config.data.fixed_target_length) == (64, 41, 42)
  assert config.train.num_epochs == 30 and not config.vocabulary.joint


@pytest.mark.parametrize('name', sorted(VARIANTS))
def test_the_default_variant_needs_no_name_and_unknown_ones_are_refused(name):
  assert load(name).to_json() == load(name, VARIANTS[name][0]).to_json()
  with pytest.raises(ValueError, match=f'configs/{name}.py has no variant .huge.'):
    load(name, 'huge')
