"""An imported model is fine-tuned on text of a domain: configs/domain.py, as docs/domain.md has it."""

import json
import pathlib

import numpy as np
import pytest

import tasks
import train
from exchange import importing
from options import configurations, train_options
from options.configurations import ROOT
from tests import tiny_runs
from training.run_folder import RunFolder

pytestmark = pytest.mark.long
FIXTURE = pathlib.Path(__file__).parent / 'marian_fixture'
SMALL = ['--config.data.heldout=6', '--config.data.max_shapes=1', '--config.train.batch_tokens=256',
         '--config.train.num_steps=3', '--config.train.eval_every=2', '--config.train.checkpoint_every=3',
         '--config.train.eval_sentences=2', '--config.optimizer.kind=adamw']  # whose weight decay moves unused rows, too


@pytest.fixture(scope='module')
def tuned(tmp_path_factory):
  """The fixture's run, and the run that is trained from it, with general text added."""
  place = tmp_path_factory.mktemp('domain')
  importing.to_run(str(FIXTURE), str(place / 'general'))
  tiny_runs.write_corpus(place)
  pairs = zip(*((place / f'train.{language}').read_text().splitlines() for language in ('en', 'de')))
  (place / 'domain.tsv').write_text(''.join(f'{source} {number}\t{target} {number}\n'
                                            for number, (source, target) in enumerate(pairs)))
  argv = ['train.py', f'--config={ROOT}/configs/domain.py:{place}/general', f'--config.data.tsv={place}/domain.tsv',
          f"--config.data.mix=('{place}*0.5',)", f'--config.compile_cache={place}/programs', f'--workdir={place}/domain', *SMALL]
  assert train.main(train_options.parse(argv, '')) == 0
  return str(place / 'general'), str(place / 'domain')


def test_fine_tuning_leaves_pad_as_it_was_and_moves_every_other_entry(tuned):
  before, after = (tasks.load(workdir, checkpoint='latest') for workdir in tuned)
  pad = before.parts[2].pad_id
  for name in ('embedding', 'output_bias'):
    old, new = (np.asarray(run.params[0][name]) for run in (before, after))
    changed = np.any((old != new).reshape(len(old), -1), axis=1)
    assert not changed[pad] and changed[np.arange(len(old)) != pad].all(), name


def test_a_fine_tuned_run_has_the_imported_runs_model_search_and_vocabularies(tuned):
  before, after = (json.loads(pathlib.Path(workdir, 'config.json').read_text()) for workdir in tuned)
  assert all(before[section] == after[section] for section in ('model', 'search'))
  first, second = (RunFolder.open(workdir).load_vocabularies() for workdir in tuned)
  assert [vocabulary.fingerprint for vocabulary in first] == [vocabulary.fingerprint for vocabulary in second]


def test_the_sections_of_a_recurrent_run_are_taken_over(tmp_path):
  config = configurations.load_tree(f'{ROOT}/configs/recurrent.py').to_dict()
  config['recurrent']['input_feeding'] = not config['recurrent']['input_feeding']
  (tmp_path / 'config.json').write_text(json.dumps(config))
  taken = configurations.load_config(f'{ROOT}/configs/domain.py:{tmp_path}')
  assert all(taken[section] == config[section] for section in ('model', 'recurrent', 'search'))
