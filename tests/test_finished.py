"""When a finished run is that of a configuration, when it is scored again, and where it may say that it came from."""

import dataclasses
import json
import os
import shutil
import types

import pytest

import train
from checks.errors import ConfigError
from options import configurations, decode_options
from sweeps import finished_rows
from tasks.setup import check_held_out
from tasks.translation import Translation
from tests.tiny_runs import metrics, options
from training import finished, json_files
from training.finished import changed_since, differences
from training.loop import LoopConfig, Progress
from training.run_folder import RunFolder

CONFIG = json_files.as_written(configurations.load_config(f'{configurations.CONFIGS}/multi30k.py:adam'))
LENGTH = '--config.train.num_steps=8'


def changed(**options):
  """CONFIG with options set by dotted names, __ in place of the dot."""
  return configurations.with_options(CONFIG, {name.replace('__', '.'): value for name, value in options.items()})


@pytest.mark.parametrize('name, value', [
    ('init_from', 'runs/x'), ('vocabulary.source_model', 'x.model'), ('vocabulary.target_model', 'x.model'),
    ('train.patience', 3), ('train.num_minutes', 90), ('train.checkpoint_every', 77), ('train.eval_every', 77)])
def test_what_decides_what_a_new_run_learns_makes_it_another(name, value):
  assert differences(CONFIG, configurations.with_options(CONFIG, {name: value})) == [name]
  assert differences(configurations.with_options(CONFIG, {name: value}), CONFIG) == [name]


def test_evaluations_decide_where_patience_ends_a_run_or_checkpoints_are_averaged():
  for patience, average, expected in ((0, 1, []), (0, 2, ['train.checkpoint_every', 'train.eval_every', 'train.first_eval']),
                                      (4, 1, ['train.eval_every', 'train.eval_sentences', 'train.first_eval'])):
    plain = changed(train__patience=patience, train__average_last=average)
    other = configurations.with_options(plain, {'train.checkpoint_every': 77, 'train.eval_every': 77, 'train.first_eval': 5,
                                                'train.eval_sentences': 7, 'train.log_every': 7})
    assert differences(plain, other) == differences(other, plain) == expected


def test_a_finished_run_that_is_asked_for_another_length_which_is_over_as_well_counts_as_finished(corpus, run, tmp_path):
  """It has no more patience, or other epochs end with the same step."""
  workdir = str(tmp_path / 'run')
  shutil.copytree(run, workdir)
  epochs = max(line.get('epoch', 0) for line in metrics(run)) - 1e-3  # a little less, which ends with the same step
  before = json_files.read_json(f'{workdir}/results.json')
  assert train.main(options(corpus, workdir, '--config.train.num_steps=None', f'--config.train.num_epochs={epochs}')) == 0
  folder = RunFolder.open(workdir)
  now, config = json_files.read_json(folder.results), folder.read_config()
  assert finished.is_finished(folder, config) and not finished_rows.is_being_continued(finished_rows.finished_run(folder, 0))
  assert now == before | {'length': {'num_steps': None, 'num_epochs': epochs, 'num_minutes': None}}


def test_looking_at_the_text_of_a_run_leaves_the_run_as_it_is(corpus, run, tmp_path):
  workdir = tmp_path / 'run'
  shutil.copytree(run, workdir)
  content = lambda: {name: (workdir / name).read_bytes() for name in ('config.json', 'environment.json', 'results.json')}
  before = content()
  assert train.main(options(corpus, workdir, '--config.train.num_steps=4', '--config.search.beam_size=1', '--inspect')) == 0
  assert content() == before and not RunFolder.open(workdir).manifest.problems()


def test_what_decides_nothing_makes_no_other_run(tmp_path):
  before = changed(data__mix=['back/*0.5#<bt>'], init_from='runs/x')
  assert differences(before, changed(data__mix=['elsewhere/*0.5#<bt>'], init_from='runs/x/')) == []
  assert differences(before, changed(data__mix=['back/*0.7#<bt>'], init_from='runs/x')) == ['data.mix']
  supplied = lambda **more: changed(vocabulary__source_model='x.model', **more)
  with RunFolder(str(tmp_path / 'run')).create_or_resume(supplied(vocabulary__size=9)) as folder:
    run = finished_rows.FinishedRun(folder, 0, {}, None, {}, {})
    assert finished_rows._differences(run, supplied(vocabulary__size=10)) == []  # of which the supplied model has no use
    assert finished_rows._differences(run, changed(vocabulary__size=10)) == ['vocabulary.size', 'vocabulary.source_model']
    assert 'model.d_model' in finished_rows._differences(run, supplied(model__d_model=7))  # which cannot be trained


def test_a_run_of_before_results_named_their_options_is_scored_again_for_other_ones():
  search = CONFIG['search']
  results = {'step': 8, 'search': {**search, 'n_best': 1, 'gone': 5}}
  assert changed_since(results, CONFIG) == [] == changed_since({'step': 8}, CONFIG)
  later = changed(search__beam_size=9)
  assert changed_since(results, later) == [f'config.search.beam_size was {search["beam_size"]} and is 9']


@pytest.mark.long
def test_a_test_set_whose_files_come_later_is_scored_then(corpus, run, tmp_path, capsys):
  workdir, place = shutil.copytree(run, tmp_path / 'run'), shutil.copytree(corpus, tmp_path / 'corpus')
  asked = lambda: train.main(options(place, workdir, LENGTH, '--config.data.test_splits=("test","further")'))
  assert asked() == 0 and asked() == 0
  assert 'is finished' in capsys.readouterr().out
  for side in ('en', 'de'):
    shutil.copy(place / f'val.{side}', place / f'further.{side}')
  assert asked() == 0
  assert 'This run is scored again: further was not scored.' in capsys.readouterr().out
  assert set(json_files.read_json(workdir / 'results.json')['scores']) == {'test', 'further'}
  assert asked() == 0 and 'is finished' in capsys.readouterr().out
  folder = RunFolder(str(workdir))
  results = json_files.read_json(folder.results)
  folder.write_json(folder.results, {name: value for name, value in results.items() if name not in ('options', 'scores')})
  assert asked() == 0 and 'further was not scored' in capsys.readouterr().out  # of before there were several
  assert json_files.read_json(folder.results)['scores'] == results['scores']


@pytest.mark.long
def test_where_a_run_began_may_not_change_once_it_has_learnt_something(corpus, run, tmp_path):
  start = shutil.copytree(run, tmp_path / 'start')
  workdir = tmp_path / 'run'
  asked = lambda *more: train.main(options(corpus, workdir, '--config.train.num_steps=1', *more))
  assert asked(f'--init_from={start}') == 0
  written = (workdir / 'config.json').read_bytes()
  with pytest.raises(ConfigError, match=f'init_from is .{run}., the run has .{start}.'):
    asked(f'--init_from={run}')
  shutil.rmtree(start)  # it is not read again
  for more in ([], [f'--init_from={start}'], [f'--init_from={start}/']):
    assert asked(*more) == 0
    saved = json.loads((workdir / 'config.json').read_text())
    assert saved['init_from'].rstrip('/') == str(start)
  assert (workdir / 'config.json').read_bytes() != written  # as it was asked for, with the slash
  assert asked(f'--init_from={run}', '--begin_anew') == 0
  assert json.loads((workdir / 'config.json').read_text())['init_from'] == str(run)
  with pytest.raises(ConfigError, match=f'init_from is .{workdir}., the run has None'):
    train.main(options(corpus, shutil.copytree(run, tmp_path / 'plain'), LENGTH, f'--init_from={workdir}'))
  assert finished.is_finished(RunFolder(str(workdir)), json.loads((workdir / 'config.json').read_text()))


def test_no_run_is_told_to_be_shorter_than_it_was(corpus, run, tmp_path):
  workdir = shutil.copytree(run, tmp_path / 'run')
  before = {path: path.read_bytes() for path in workdir.rglob('*.json')}
  config = json.loads((workdir / 'config.json').read_text())
  for flag, ends in (('num_steps=7', 7), ('num_epochs=0.5', r'\d')):
    with pytest.raises(ConfigError, match=fr'train.{flag.replace("=", " is ")}, which ends at step {ends}, and the run has trained '
                                          'for 8 steps, .*expected --config.train.num_steps=8 or more'):
      train.main(options(corpus, workdir, f'--config.train.{flag}'))
  assert before == {path: path.read_bytes() for path in workdir.rglob('*.json')}
  shorter = configurations.with_options(config, {'train.num_steps': 7})  # as earlier versions wrote
  results = json.loads((workdir / 'results.json').read_text())
  assert finished.has_reached_its_end(results, config)
  assert not finished.has_reached_its_end(results | {'length': results['length'] | {'num_steps': 7}}, shorter)


def test_what_a_run_goes_on_with_has_to_compare_with_what_it_has_measured():
  class Found:
    option = staticmethod({'train.num_minutes': 30.0, 'search.extra_length': 6, 'search.min_length': 0}.get)

  loop = LoopConfig(**{field.name: CONFIG['train'][field.name] for field in dataclasses.fields(LoopConfig)}
                    | {'num_steps': None, 'num_epochs': None, 'num_minutes': 10.0})
  check = lambda minutes, seconds, step=7, found=Found, **search: finished.check_goes_on(
      found, configurations.with_options(CONFIG, {'train.num_minutes': minutes, 'train.num_steps': None, 'search.extra_length': 6}
                                         | {f'search.{name}': value for name, value in search.items()}),
      dataclasses.replace(loop, num_minutes=minutes).over(5), step, Progress(seconds=seconds))
  check(30.0, 1900.0)
  check(40.0, 1900.0)
  check(10.0, 599.0)  # shorter, and not over yet
  check(10.0, 700.0, found=None)
  with pytest.raises(ConfigError, match='num_minutes is 10, and the run has trained for 11.7 minutes, .*expected '
                                        '--config.train.num_minutes=30, as before'):
    check(10.0, 700.0)
  by_steps = types.SimpleNamespace(option={'train.num_steps': 8000}.get)
  check(10.0, 599.0, found=by_steps)
  with pytest.raises(ConfigError, match='num_minutes is 10, and .*expected --config.train.num_steps=8000, as before'):
    check(10.0, 700.0, found=by_steps)
  with pytest.raises(ConfigError, match='search.extra_length was 6 and is 9; config.search.min_length was 0 and is 2: .*would not compare'):
    check(30.0, 900.0, extra_length=9, min_length=2)
  check(30.0, 1900.0, extra_length=9)  # it is over, and scored anew
  check(30.0, 0.0, step=0, extra_length=9)
  check(30.0, 900.0, no_repeat_ngram=3)  # of a run that is older than the option


def test_no_other_run_on_one_file_has_trained_on_what_is_tested(tmp_path):
  of = lambda file, **more: configurations.with_options(CONFIG, {
      'data.kind': 'tsv', 'data.tsv': str(tmp_path / file)} | {f'{name}'.replace('_', '.'): value for name, value in more.items()})
  there = RunFolder(str(tmp_path / 'run'))
  (tmp_path / 'run').mkdir()
  json_files.write_json(there.config, of('pairs.tsv', seed=1))
  (tmp_path / 'link.tsv').symlink_to('pairs.tsv')
  for same in (of('pairs.tsv', seed=1), of('others.tsv'), of('pairs.tsv', data_kind='jsonl'), CONFIG):
    check_held_out('reverse', there.path, same)
  check_held_out('reverse', str(tmp_path), of('pairs.tsv'))  # which is no run
  for other in (of('pairs.tsv'), of('link.tsv', seed=2), of('pairs.tsv', seed=1, data_heldout=7)):
    with pytest.raises(ConfigError, match=r'--reverse=.*run has held out other lines of .*\.tsv: .* \(1, 1000\) there .*data.kind=text'):
      check_held_out('reverse', there.path, other)
  asked = decode_options.parse(['decode.py', f'--workdir={tmp_path}/a,{there.path}', '--input=split:test'], '')
  first = types.SimpleNamespace(saved=of('pairs.tsv'))
  with pytest.raises(ConfigError, match='--workdir=.*run has held out other lines'):
    Translation.answering([RunFolder(str(tmp_path / 'a')), there], asked, first, print)


def test_another_vocabulary_than_a_run_began_with_may_not_be_supplied(corpus, run, tmp_path):
  workdir, model = tmp_path / 'run', tmp_path / 'supplied.model'
  model.write_bytes((run / 'vocabulary.model').read_bytes())

  def asked(*more):
    flags = '--config.train.num_steps=1', f'--config.vocabulary.source_model={model}', *more
    return train.main(dataclasses.replace(options(corpus, workdir, *flags), given=()))  # a size has no effect

  assert asked() == 0
  written = (workdir / 'config.json').read_bytes()
  model = shutil.move(model, tmp_path / 'moved.model')
  assert asked() == 0 and (workdir / 'config.json').read_bytes() != written
  written = (workdir / 'config.json').read_bytes()
  model = tmp_path / 'another.model'
  model.write_bytes(b'another')
  with pytest.raises(ConfigError, match=r'source_model is .*another.model., which holds another vocabulary than .*run was begun'):
    asked()
  assert (workdir / 'config.json').read_bytes() == written
  os.remove(model)  # what is no longer there is not read
  assert asked() == 0
