"""A language model trained and fine-tuned as a user would: the classifier on the real model, runs, labels of lines."""

import json
import os
import shutil
import types

import jax
import numpy as np
import pytest

import decode
import tasks
import train
from checks.errors import ConfigError, DataError
from configs import fine_tune as fine_tune_config
from corpora.labelled import Example
from options import decode_options, train_options
from tasks import TASKS, setup
from tasks.classification import Classification
from tests import conftest, test_classification
from training import checkpoint, json_files, run_folder
from training.checkpoint import CheckpointError
from transformer import architectures, classification
from transformer.config import ClassificationConfig, LanguageModelConfig
from transformer.tokens import Tokens

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TINY = ['--config.model.d_model=16', '--config.model.num_heads=2', '--config.model.num_layers=1',
        '--config.model.d_ff=24', '--config.vocabulary.size=320', '--config.data.max_shapes=1',
        '--config.data.max_length=24', '--config.model.max_positions=30', '--config.train.log_every=5',
        '--config.model.dropout=0.0', '--config.train.checkpoint_every=20']


@pytest.fixture(scope='module', params=['entailment', 'multiple_choice'])
def classifier(request):
  """A real language model with a classifier on it, and its params."""
  sizes = conftest.SIZES | {'vocab_size': 23, 'target_vocab_size': 23}
  model = classification.build(architectures.build(LanguageModelConfig(**sizes)),
                               ClassificationConfig(3, answers=request.param == 'multiple_choice'))
  return request.param, model, jax.jit(model.init)(jax.random.key(3))


def test_the_language_models_neighbours_and_padding_change_nothing(classifier):
  task, model, params = classifier
  examples = test_classification.draw_examples(4, test_classification.EACH[task])
  scores = jax.jit(model.scores)
  together = scores(params, test_classification.batch_of(examples, [0] * 4, length=13, rows=5).sequences)
  for row, example in enumerate(examples):
    alone = scores(params, test_classification.batch_of([example], [0], length=11).sequences)
    np.testing.assert_allclose(together[row], alone[0], atol=1e-6)


def test_the_objectives_auxiliary_part_is_the_language_models_own_loss(classifier):
  task, model, params = classifier
  examples = test_classification.draw_examples(3, test_classification.EACH[task])
  batch = test_classification.batch_of(examples, [0, 1, 2])
  found = jax.jit(classification.build_objective(model))(params, batch)
  rows = Tokens(*(leaf.reshape(-1, leaf.shape[-1]) for leaf in batch.sequences))
  nothing = np.zeros((len(rows.ids), 0), np.int32)
  log_p = jax.nn.log_softmax(model.decode(params, model.encode(params, Tokens(nothing, nothing, nothing)), rows))
  losses = [-np.mean([log_p[row, place - 1, ids[place]] for place in range(1, len(ids))])
            for row, ids in enumerate(ids for example in examples for ids in example)]
  np.testing.assert_allclose(found.auxiliary / found.examples, np.mean(losses), rtol=1e-4)


@pytest.fixture(scope='module')
def text(tmp_path_factory):
  """Labelled lines whose label says when the second text is, and running text of the same words."""
  folder, draw = tmp_path_factory.mktemp('text'), np.random.default_rng(0)
  names, deeds = ['dog', 'cat', 'cow', 'pig'], ['sleeps', 'runs', 'eats']
  lines = set()
  while len(lines) < 96:
    now = len(lines) % 2
    lines.add(f'{"now" if now else "past"}\t{draw.choice(names)} {draw.choice(deeds)}\t{draw.choice(names)} '
              f'{draw.choice(deeds)} {"today" if now else "then"}')
  lines = sorted(lines)
  for split, part in (('train', lines), ('validation', lines[::3]), ('test', lines[1::3])):
    (folder / f'{split}.tsv').write_text('\n'.join(part))
  (folder / 'text.txt').write_text('\n'.join(f'{draw.choice(names)} {draw.choice(deeds)}' for _ in range(600)) + '\n')
  return folder


def language_model(text, workdir, *more):
  argv = ['train.py', f'--config={ROOT}/configs/language_model.py', f'--config.data.text={text}/text.txt',
          f'--workdir={workdir}', *TINY, '--config.train.num_steps=5', '--config.train.eval_every=5',
          '--config.train.batch_tokens=192', '--config.train.num_samples=1', '--config.search.extra_length=6', *more]
  return train.main(train_options.parse(argv, ''))


def fine_tune(text, workdir, *more):
  argv = ['train.py', f'--config={ROOT}/configs/fine_tune.py:entailment', '--config.data.kind=labelled_text',
          f'--config.data.directory={text}', f'--workdir={workdir}', *TINY, '--config.train.eval_every=20',
          '--config.train.classifier_dropout=0.0',
          '--config.train.batch_tokens=768', '--config.train.num_samples=3', *more]
  return train.main(train_options.parse(argv, ''))


@pytest.fixture(scope='module')
def runs(text, tmp_path_factory):
  """(folder of a language model, folder of its fine-tuned successor)."""
  folder = tmp_path_factory.mktemp('runs')
  assert language_model(text, folder / 'lm') == 0
  assert fine_tune(text, folder / 'tuned', f'--config.init_from={folder}/lm', '--config.train.num_steps=40',
                   '--config.optimizer.learning_rate_scale=1.0', '--config.optimizer.warmup_steps=30') == 0
  return folder / 'lm', folder / 'tuned'


def test_accuracy_stands_beside_the_baselines(runs):
  results = json.loads((runs[1] / 'results.json').read_text())
  assert results['labels'] == ['now', 'past'] and results['examples'] == 32
  assert set(results['baselines']) == {'majority', 'bag_of_words', 'last_text_only', 'word_overlap'}
  lines = map(json.loads, (runs[1] / 'metrics.jsonl').read_text().splitlines())
  measured = [line for line in lines if 'validation/accuracy' in line]
  assert [line['step'] for line in measured] == [20, 40]
  assert measured[-1]['validation/accuracy'] > 0.9
  assert 'label      now\nmodel      now (' in (runs[1] / 'samples/step_00000040.txt').read_text()


def test_a_run_starts_from_the_language_models_parameters(runs):
  trained = tasks.load(str(runs[1]), '40')
  wanted = jax.eval_shape(trained._model.init, jax.random.key(0))
  fresh = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), wanted)
  vocabularies = run_folder.RunFolder(str(runs[0])).load_vocabularies()
  started = types.SimpleNamespace(setup=types.SimpleNamespace(places=types.SimpleNamespace(init_from=str(runs[0]))),
                                  fingerprints=[vocabulary.fingerprint for vocabulary in vocabularies])
  adopted = Classification.adopt(started, wanted, fresh)
  saved = checkpoint.Checkpoints(str(runs[0] / 'checkpoints')).restore_params(5, wanted['model'])
  jax.tree.map(np.testing.assert_array_equal, adopted['model'], saved)
  assert adopted['head'] is fresh['head']
  started.fingerprints = ['another', 'one']
  with pytest.raises(checkpoint.CheckpointError, match='another vocabulary'):
    Classification.adopt(started, wanted, fresh)


def test_lines_get_the_labels_that_the_results_speak_of(runs, text, tmp_path, capsys):
  lines = [line.split('\t') for line in (text / 'test.tsv').read_text().split('\n')]
  (tmp_path / 'in').write_text('\n'.join(['\t'.join(texts) for _, *texts in lines[:9]] + ['', *['\t'.join(texts) for
                                         _, *texts in lines[9:]]]))
  argv = ['decode.py', f'--workdir={runs[1]}', f'--input={tmp_path}/in', f'--output={tmp_path}/out',
          '--checkpoint=latest']
  assert decode.main(decode_options.parse(argv, '')) == 0
  found = (tmp_path / 'out').read_text().split('\n')[:-1]
  assert found.pop(9) == '' and found == (runs[1] / 'samples/test_labels.txt').read_text().split()
  right = np.mean([label == line[0] for label, line in zip(found, lines)])
  assert right == pytest.approx(json.loads((runs[1] / 'results.json').read_text())['accuracy'])
  with pytest.raises(DataError, match='line 2: 1 texts in 1 tab-separated columns; expected 2: premise'):
    tasks.load(str(runs[1])).classify_lines(['a\tb', 'c'])


def test_nothing_is_searched_for(runs):
  with pytest.raises(ConfigError, match="--search.beam_size has no effect: data.kind is 'labelled_"):
    tasks.load(str(runs[1]), beam_size=2)


def test_a_label_does_not_depend_on_its_neighbours(runs):
  model = tasks.load(str(runs[1]))
  examples = [Example(0, ('dog runs', 'cat eats now')), Example(0, ('dog ' * 30, 'cow')), Example(0, ('pig', 'pig'))]
  together, alone = model.classify(examples), [model.classify([example])[0] for example in examples]
  assert [label.probability for label in together] == [label.probability for label in alone]
  assert model.cut == 2 and 'lines so cut: 2' in model.notes()[0]


def test_a_model_whose_training_diverged_gives_no_label(runs):
  model = tasks.load(str(runs[1]))
  model.params = jax.tree.map(lambda leaf: np.full_like(leaf, np.nan), model.params)
  assert [label.text for label in model.classify_lines(['a\tb', '', 'b\ta'])] == ['', '', '']
  assert model.notes()[-1].endswith('there is no label of 2 lines (1, 3)')


@pytest.mark.parametrize('mistake, words', [
    (['--config.vocabulary.control_symbols=()'], 'control_symbols lacks <delimiter> and <extract>'),
    (['--config.train.label_smoothing=0.1'], 'fine-tuning has none'),
    (['--config.train.classifier_dropout=2.0'], 'config.train: classifier_dropout is 2.0'),
    (['--config.train.auxiliary_weight=-2'], 'config.train: auxiliary_weight is -2'),
    (['--config.model.architecture=transformer'], 'expected language_model'),
    (['--config.data.task=sentiment'], "task is 'sentiment'"),
    (['--config.train.auxiliary_weight=-1.0'], 'auxiliary_weight is -1.0'),
    (['--config.model.positions=learned', '--config.model.max_positions=9'], r'max_positions is 9; expected data.max_length'),
])
def test_what_does_not_fit_is_refused_before_anything_is_made(text, tmp_path, mistake, words):
  with pytest.raises(ConfigError, match=words):
    fine_tune(text, tmp_path / 'run', '--config.train.num_steps=1', *mistake)
  assert not (tmp_path / 'run').exists()


def test_a_language_model_without_the_symbols_is_refused(text, tmp_path, monkeypatch):
  assert language_model(text, tmp_path / 'lm', '--config.vocabulary.control_symbols=()',
                        '--config.train.num_steps=1', '--config.train.eval_every=9') == 0
  with pytest.raises(DataError, match="no control symbol '<delimiter>'"):
    fine_tune(text, tmp_path / 'run', '--config.train.num_steps=1', f'--config.init_from={tmp_path}/lm')
  assert not (tmp_path / 'run').exists()


def test_a_model_of_other_sizes_is_refused_and_binds_no_folder(runs, text, tmp_path):
  with pytest.raises(CheckpointError, match=r'--init_from=.*lm: checkpoint 5 .*\(30, 16\) there and float32 \(30, 32\)'):
    fine_tune(text, tmp_path / 'run', '--config.train.num_steps=1', f'--config.init_from={runs[0]}',
              '--config.model.d_model=32')
  assert not (tmp_path / 'run').exists()


def test_what_a_run_begins_with_is_looked_at_before_its_text(runs, tmp_path):
  """The text, which may take minutes to read, is not even there."""
  for option, error, words in (
      (f'init_from={tmp_path}/lm', ConfigError, 'is not a run'),
      (f'init_from={runs[0]} --config.model.d_model=32', CheckpointError, '--init_from=.*lm: checkpoint 5')):
    with pytest.raises(error, match=words):
      fine_tune(tmp_path / 'nowhere', tmp_path / 'run', '--config.train.num_steps=1', *f'--config.{option}'.split())
    assert not (tmp_path / 'run').exists()


def test_a_test_set_that_no_batch_can_hold_is_refused_before_training(text, tmp_path):
  lines = (text / 'test.tsv').read_text()
  shutil.copytree(text, tmp_path / 'text')
  (tmp_path / 'text' / 'test.tsv').write_text(lines + '\nnow\tdog sleeps\tcat' + ' runs and sleeps' * 30)
  with pytest.raises(DataError, match='train.batch_tokens 768 holds fewer than'):
    fine_tune(tmp_path / 'text', tmp_path / 'run', '--config.train.num_steps=1', '--config.data.max_length=200',
              '--config.model.max_positions=200')
  assert not (tmp_path / 'run').exists()


@pytest.mark.parametrize('section, option, value', [
    (None, None, None), ('data', 'subword_sampling', 'bpe_dropout'), ('train', 'consistency', 'r_drop'),
    ('train', 'label_smoothing', 0.1), ('vocabulary', 'joint', False), ('vocabulary', 'control_symbols', ())])
def test_labelled_corpora_belong_to_fine_tuning(section, option, value):
  config = fine_tune_config.get_config('entailment')
  if option is None:
    assert TASKS[setup.records(config.to_dict()).task] is Classification
    return
  with config.unlocked():
    config[section][option] = value
  with pytest.raises(ConfigError, match=option):
    setup.records(config.to_dict())


def test_a_configuration_with_a_tuple_is_the_same_after_a_restart(tmp_path):
  config = fine_tune_config.get_config().to_dict()
  assert isinstance(config['vocabulary']['control_symbols'], tuple)
  for _ in range(2):
    with run_folder.RunFolder(str(tmp_path / 'run')).create_or_resume(config):
      assert json_files.read_json(tmp_path / 'run' / 'config.json')['vocabulary']['control_symbols'][0] == '<delimiter>'
