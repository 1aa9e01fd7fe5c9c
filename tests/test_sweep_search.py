"""A search for values: which are tried, which trials are stopped, what is found, and that being killed changes nothing."""

import dataclasses
import importlib
import json
import math
import os
import re
import shlex
import signal
import statistics
import subprocess
import sys
import time

import pytest

import sweep
from checks import exit_codes
from checks.errors import ConfigError, DamagedError
from corpora import vocabulary
from corpora.splits import Pair
from options import configurations, sweep_options, train_options
from sweeps import queue, search, search_table
from tests.tiny_runs import PROGRAMS, write_corpus
from training.json_files import as_written, read_json

ROOT = configurations.ROOT
CONFIG = '''
from configs import multi30k

SEARCH = {{'optimizer.learning_rate_scale': ('choice', 2.0, 1e-5)}}


def get_config(arg=''):
  config = multi30k.get_config('adam')
  config.update_from_flattened_dict({{
      'data.directory': '{corpus}', 'data.test_splits': (), 'data.max_shapes': 1, 'data.max_length': 16,
      'compile_cache': '{programs}', 'model.d_model': 16, 'model.num_heads': 2, 'model.num_layers': 1, 'model.d_ff': 24,
      'vocabulary.size': 300, 'optimizer.learning_rate_scale': 2.0, 'optimizer.warmup_steps': 10,
      'train.batch_tokens': 256, 'train.num_steps': 30, 'train.num_minutes': None, 'train.checkpoint_every': 10,
      'train.eval_every': 10, 'train.eval_sentences': 2, 'train.average_last': 1, 'search.beam_size': 1,
      'search.extra_length': 6}})
  return config
'''
RANGES = '--ranges=optimizer.learning_rate_scale=log:0.01:100,model.d_ff=linear:8:64,model.norm=choice:post:pre'


@pytest.fixture(scope='module')
def config(tmp_path_factory):
  """A configuration file with SEARCH, on a small corpus."""
  folder = write_corpus(tmp_path_factory.mktemp('corpus'))
  (folder / 'rows.py').write_text(CONFIG.format(corpus=folder, programs=PROGRAMS))
  return folder / 'rows.py'


@pytest.fixture(autouse=True)
def here(monkeypatch):
  monkeypatch.chdir(ROOT)


def words(config, workdir, *more):
  return ['sweep.py', f'--config={config}', f'--workdir={workdir}', '--search', *map(str, more)]


def options(config, workdir, *more):
  return sweep_options.parse(words(config, workdir, *more), 'Sweeps.')


class StandIn:
  """What takes the place of training: measures a loss that the values give, and may be killed or fail on the way."""

  def __init__(self, killed_at=None, outcomes=()):
    self.killed_at, self.outcomes, self.started = killed_at, dict(outcomes), []

  @staticmethod
  def losses(run):
    """The loss at steps 10, 20 and 30: best for a scale of 3 and a d_ff of 40, and falling."""
    values = configurations.leaves(run.config)
    excess = math.log(values['optimizer.learning_rate_scale'] / 3) ** 2 + abs(values['model.d_ff'] - 40) / 100
    return [(step, 1 + excess + 10 / step + 0.1 * (values['model.norm'] == 'post')) for step in (10, 20, 30)]

  def __call__(self, run, head, stops, tell, is_enough):
    number = int(run.row.removeprefix('trial_'))
    self.started.append(number)
    code = self.outcomes.get(number, exit_codes.DONE)
    if code != exit_codes.DONE:
      return code, 'error: what went wrong'
    os.makedirs(run.folder.path, exist_ok=True)
    lines = []
    for step, loss in self.losses(run):
      lines.append(json.dumps({'step': step, 'validation/perplexity': math.exp(loss) if math.isfinite(loss) else None}) + '\n')
      with open(run.folder.metrics, 'w') as file:  # as a run that goes on from its checkpoint
        file.writelines(lines)
      if self.killed_at == (number, step):
        raise KeyboardInterrupt
      if is_enough():
        return exit_codes.PREEMPTED, 'stopped'
    with open(run.folder.results, 'w') as file:
      json.dump({'validation_perplexity': math.exp(loss), 'step': 30, 'seconds': 60.0}, file)
    return exit_codes.DONE, ''


def found(config, workdir, monkeypatch, *more, stand_in=None):
  """The journal of a search with the stand-in."""
  monkeypatch.setattr(queue, 'finish', stand_in or StandIn())
  return search.search(options(config, workdir, RANGES, *more), lambda text: None)


def record(journal):
  return as_written([dataclasses.asdict(trial) for trial in journal.trials])


@pytest.fixture
def whole(config, tmp_path, monkeypatch):
  """An uninterrupted search of 16 trials."""
  return found(config, tmp_path / 'whole', monkeypatch, '--trials=16', '--whole_trials=3')


def test_the_best_is_found_and_the_first_trial_is_the_configuration_itself(whole):
  first, best = whole.trials[0], whole.finished[0]
  assert first.values == {'optimizer.learning_rate_scale': 2.0, 'model.d_ff': 24, 'model.norm': 'pre'}
  assert first.loss == pytest.approx(1 + math.log(2 / 3) ** 2 + 0.16 + 1 / 3)
  assert len(whole.trials) == 16 and best.loss < first.loss and best.values['model.norm'] == 'pre'
  assert 1.5 < best.values['optimizer.learning_rate_scale'] < 6
  assert [trial.number for trial in whole.trials] == [*range(16)]
  for trial in whole.trials[1:]:
    scale, d_ff, norm = trial.values.values()
    assert 0.01 <= scale <= 100 and float(f'{scale:.3g}') == scale and norm in ('pre', 'post')
    assert isinstance(d_ff, int) and 8 <= d_ff <= 64
  assert len({trial.values['optimizer.learning_rate_scale'] for trial in whole.trials}) > 12


def test_a_trial_is_stopped_where_it_is_above_the_median_of_those_that_finished_before(whole):
  states = [trial.state for trial in whole.trials]
  assert states[:3] == [search.FINISHED] * 3 and {search.FINISHED, search.STOPPED} == set(states)
  for trial in whole.trials[3:]:
    before = [dict(other.evaluations) for other in whole.trials[:trial.number] if other.state == search.FINISHED]
    worse = [step for step, _ in trial.evaluations if step < 30  # there is nothing to stop at the end
             and min(loss for at, loss in trial.evaluations if at <= step) > statistics.median(e[step] for e in before)]
    assert worse == ([trial.evaluations[-1][0]] if trial.state == search.STOPPED else [])
    assert (trial.loss is None) == (trial.state == search.STOPPED)


def test_no_trial_is_stopped_before_the_longest_warmup_that_is_searched(config, tmp_path, monkeypatch):
  def last_steps(name, *more):
    trials = found(config, tmp_path / name, monkeypatch, '--trials=12', '--whole_trials=2', *more).trials
    return {trial.evaluations[-1][0] for trial in trials if trial.state == search.STOPPED}
  warmup = f'{RANGES},optimizer.warmup_steps=linear:5:20'
  assert 10 in last_steps('anywhere') and min(last_steps('later', warmup)) == 20
  assert 10 in last_steps('early', warmup, '--min_steps=0')


@pytest.mark.parametrize('killed_at', [(0, 10), (2, 30), (4, 10), (9, 10)])
def test_killed_and_continued_makes_the_same_trials(whole, config, tmp_path, monkeypatch, killed_at):
  arguments = '--trials=16', '--whole_trials=3'
  number, _ = killed_at
  first, second = StandIn(killed_at), StandIn()
  with pytest.raises(KeyboardInterrupt):
    found(config, tmp_path / 'killed', monkeypatch, *arguments, stand_in=first)
  assert [trial['state'] == search.RUNNING for trial in read_json(f'{tmp_path}/killed/search.json')['trials']] == [
      *[False] * number, True]
  again = found(config, tmp_path / 'killed', monkeypatch, *arguments, stand_in=second)
  assert record(again) == record(whole)
  assert first.started == [*range(number + 1)] and second.started == [*range(number, 16)]
  assert record(search.read(options(config, tmp_path / 'killed', RANGES, *arguments))) == record(whole)


def test_more_trials_go_on_and_another_seed_tries_others(whole, config, tmp_path, monkeypatch):
  found(config, tmp_path / 'more', monkeypatch, '--trials=5', '--whole_trials=3')
  assert record(found(config, tmp_path / 'more', monkeypatch, '--trials=16', '--whole_trials=3')) == record(whole)
  other = found(config, tmp_path / 'other', monkeypatch, '--trials=2', '--sampler_seed=1')
  assert other.trials[0].values == whole.trials[0].values and other.trials[1].values != whole.trials[1].values
  outside = found(config, tmp_path / 'outside', monkeypatch, '--trials=1', '--config.optimizer.warmup_steps=9',
                  '--ranges=optimizer.learning_rate_scale=log:3:100,model.d_ff=linear:8:64')
  assert outside.trials[0].values['optimizer.learning_rate_scale'] >= 3  # the configuration's own, 2, is outside


def test_a_trial_that_cannot_be_trained_is_told_apart(config, tmp_path, monkeypatch):
  def stopped(number, code):
    """The journal of a search in which a trial ends with a code."""
    return found(config, tmp_path / f'{number}_{code}', monkeypatch, '--trials=4', stand_in=StandIn(outcomes={number: code}))
  diverged, memory = (stopped(2, code).trials for code in (exit_codes.NON_FINITE, exit_codes.OUT_OF_MEMORY))
  assert [trial.state for trial in diverged] == [search.FINISHED] * 2 + [search.DIVERGED, search.FINISHED]
  assert (memory[2].state, memory[2].reason) == (search.REFUSED, 'error: what went wrong')
  with pytest.raises(search.TrialFailedError, match='STOPPED by a signal that it alone got') as caught:
    stopped(1, exit_codes.PREEMPTED)
  assert caught.value.exit_code == exit_codes.PREEMPTED
  for number, code in ((2, exit_codes.DATA), (0, exit_codes.CONFIG)):  # with nothing trained, it is not for the values
    with pytest.raises(search.TrialFailedError, match='FAILED with exit code .: error: what went wrong') as caught:
      stopped(number, code)
    assert caught.value.exit_code == code
    trials = read_json(f'{tmp_path}/{number}_{code}/search.json')['trials']
    assert [trial['state'] for trial in trials] == [search.FINISHED] * number + [search.RUNNING]
  heads = '--ranges=model.num_heads=linear:1:8'  # d_model 16 is not divisible by each of them
  monkeypatch.setattr(queue, 'finish', StandIn())
  trials = search.search(options(config, tmp_path / 'heads', heads, '--trials=9'), lambda text: None).trials
  refused = [trial for trial in trials if trial.state == search.REFUSED]
  assert refused and all(16 % trial.values['model.num_heads'] and 'not divisible' in trial.reason for trial in refused)
  assert all(16 % trial.values['model.num_heads'] == 0 for trial in trials if trial.state != search.REFUSED)


class ToItsEnd(StandIn):
  """A run that comes to its end before it can be stopped."""

  def __call__(self, run, head, stops, tell, is_enough):
    found = super().__call__(run, head, stops, tell, lambda: False)
    is_enough()
    return found


def test_a_trial_that_came_to_its_end_has_its_loss_however_it_compares(config, tmp_path, monkeypatch):
  """Its evaluations are those of the whole run, by which later trials are compared."""
  journal = found(config, tmp_path / 'x', monkeypatch, '--trials=8', '--whole_trials=1', stand_in=ToItsEnd())
  assert {trial.state for trial in journal.trials} == {search.FINISHED}
  assert {tuple(step for step, _ in trial.evaluations) for trial in journal.trials} == {(10, 20, 30)}
  stopped = found(config, tmp_path / 'y', monkeypatch, '--trials=8', '--whole_trials=1')
  assert search.STOPPED in {trial.state for trial in stopped.trials}


@pytest.mark.parametrize('length, end', [('num_epochs=3', 30), ('num_epochs=2.9', 29), ('num_steps=30', 30)])
def test_there_is_nothing_to_stop_at_the_end_of_a_trial(length, end, config, tmp_path):
  class Worse:
    report, should_prune = (lambda self, *_: None), (lambda self: True)

  run, = queue.queue(options(config, tmp_path, RANGES, f'--config.train.{length}'))
  os.makedirs(run.folder.path)
  lines = [{'step': 8, 'epoch': 0.8}, {'step': end, 'validation/perplexity': 2.0}]
  (tmp_path / run.folder.path / 'metrics.jsonl').write_text(''.join(json.dumps(line) + '\n' for line in lines))
  assert not search._Watch(Worse(), run)()
  lines[1]['step'] = end - 1
  (tmp_path / run.folder.path / 'metrics.jsonl').write_text(''.join(json.dumps(line) + '\n' for line in lines))
  assert search._Watch(Worse(), run)()


def test_a_loss_that_is_not_finite_is_worse_than_any_other(config, tmp_path, monkeypatch):
  class NotFinite(StandIn):
    def losses(self, run):
      is_lost = run.row in ('trial_1', 'trial_4')
      return [(step, math.nan if is_lost and step == 10 else loss) for step, loss in StandIn.losses(run)]

  journal = found(config, tmp_path / 'x', monkeypatch, '--trials=5', '--whole_trials=2', stand_in=NotFinite())
  assert [trial.state for trial in journal.trials][:2] == [search.FINISHED] * 2
  assert journal.trials[4].state == search.STOPPED and len(journal.trials[4].evaluations) == 1
  assert search_table.tabulate(search.read(journal.options), ['x']).cells[-1][0] == '4'


def test_the_table_lists_every_trial_and_its_commands_are_taken(whole, config, tmp_path):
  table = search_table.tabulate(whole, ['python', 'sweep.py'])
  best, numbers = whole.finished[0], [int(cells[0]) for cells in table.cells]
  assert numbers[0] == best.number and sorted(numbers) == [*range(16)]
  finished = [trial.number for trial in whole.finished]
  assert numbers[:len(finished)] == finished and table.cells[0][4] == f'{best.loss:.4f}' and table.cells[0][6] == '1.0'
  assert all(cells[4].startswith('(') for cells in table.cells[len(finished):])
  told = '\n'.join(table.notes)
  assert f'own values (trial 0): {whole.trials[0].loss:.4f}; the best (trial {best.number}): {best.loss:.4f}' in told
  train, compare = (re.search(rf' ({script}\.py .*)', told)[1] for script in ('train', 'sweep'))
  asked = configurations.leaves(train_options.parse(shlex.split(train), '').config)
  assert {name: asked[name] for name in best.values} == best.values
  before, after = sweep_options.parse(shlex.split(compare), '').rows
  changed = {name: value for name, value in configurations.leaves(after.config).items()
             if value != configurations.leaves(before.config)[name]}
  assert changed == {name: value for name, value in best.values.items() if value != whole.trials[0].values[name]}
  assert (tmp_path / 'whole' / 'search.md').name == os.path.basename(search_table.write(whole, table))


@pytest.mark.parametrize('kind', sweep_options.HELD_OUT_BY_SEED)
def test_a_search_on_lines_held_out_by_the_seed_names_no_command_that_is_refused(kind, whole):
  row = whole.options.rows[0]
  other = row.config | {'data': row.config['data'] | {'kind': kind}}
  options = dataclasses.replace(whole.options, rows=(dataclasses.replace(row, config=other),))
  told = '\n'.join(search_table.tabulate(dataclasses.replace(whole, options=options), ['x']).notes)
  assert 'sweep.py' not in told and f'of data.kind={kind} each seed holds out other lines' in told


def test_ranges_of_training_text_need_one_vocabulary_for_all(config, tmp_path):
  asked = options(config, tmp_path / 'x', '--ranges=data.max_ratio=linear:2.0:9.0', '--config.vocabulary.source_model=x.model')
  assert [one.option for one in asked.search.ranges] == ['data.max_ratio']


@pytest.mark.parametrize('changed, expected', [
    ([RANGES.replace('0.01', '0.02')], 'ranges was .*0.01:100.*, now it is .*0.02:100'),
    ([RANGES, '--sampler_seed=3'], 'sampler_seed was 0, now it is 3'),
    ([RANGES, '--config.model.dropout=0.25'], 'config.model.dropout was 0.3, now it is 0.25')])
def test_another_search_in_the_folder_is_refused(config, tmp_path, monkeypatch, changed, expected):
  found(config, tmp_path / 'x', monkeypatch, '--trials=1')
  before = (tmp_path / 'x' / 'search.json').read_bytes()
  with pytest.raises(ConfigError, match=expected):
    search.search(options(config, tmp_path / 'x', *changed), lambda text: None)
  assert (tmp_path / 'x' / 'search.json').read_bytes() == before
  (tmp_path / 'x' / 'search.json').write_text('{"trials": []}')
  with pytest.raises(DamagedError, match='search.json is not what a search wrote'):
    search.read(options(config, tmp_path / 'x', RANGES))


def test_options_that_decide_nothing_may_change_in_a_search(config, tmp_path, monkeypatch):
  found(config, tmp_path / 'x', monkeypatch, '--trials=1')
  journal = found(config, tmp_path / 'x', monkeypatch, '--trials=2', '--config.train.log_every=7', '--config.mesh.data=1',
                  '--config.data.num_threads=1', '--config.train.stall_seconds=100')
  assert [trial.state for trial in journal.trials] == [search.FINISHED] * 2


class OfText(StandIn):
  """A stand-in that tells the text it has read, as a run does, and has a vocabulary of what follows three letters."""

  def __init__(self, text):
    super().__init__()
    self.text = text

  def __call__(self, run, head, stops, tell, is_enough):
    os.makedirs(run.folder.path, exist_ok=True)
    with open(run.folder.environment, 'w') as file:
      json.dump({'data': dict(zip(('train', 'val', 'test'), self.text))}, file)
    if letters := self.text[3:]:
      made, _ = vocabulary.make(vocabulary.VocabularyConfig(kind='char', size=400), [Pair(letters, letters)])
      run.folder.save_vocabularies(made, None)
    return super().__call__(run, head, stops, tell, is_enough)


@pytest.mark.parametrize('text, ranges, told', [
    ('abzmn', '', None), ('aycmn', '', r'\(val\)'), ('xycmn', '', r'\(train, val\)'), ('abcmo', '', r'\(vocabulary\)'),
    ('abc', '', None),  # it has no vocabulary yet
    ('xbcmn', ',data.max_ratio=linear:2.0:9.0', None),  # which pairs are left for training is what is searched
    ('xbcmo', ',data.max_ratio=linear:2.0:9.0', r'\(vocabulary\)')])
def test_trials_on_other_text_than_the_first_are_refused(config, tmp_path, monkeypatch, text, ranges, told):
  more = ['--config.vocabulary.source_model=x.model'] if ranges else []
  ranges, folder = RANGES + ranges, tmp_path / 'x'
  monkeypatch.setattr(queue, 'check', lambda options: None)  # there is no x.model

  def search_on(trials, text):
    monkeypatch.setattr(queue, 'finish', OfText(text))
    return search.search(options(config, folder, ranges, f'--trials={trials}', *more), lambda text: None)

  before = search_on(1, 'abcmn')
  if told is None:
    assert [trial.state for trial in search_on(2, text).trials] == [search.FINISHED] * 2
    return
  with pytest.raises(search.TrialFailedError, match=f'trial 1 reads other text or vocabularies than the trials before it {told}') as refused:
    search_on(2, text)
  assert refused.value.exit_code == exit_codes.CONFIG
  left = search.read(before.options)
  assert record(left)[0] == record(before)[0] and left.trials[1].state == search.RUNNING
  assert [trial.state for trial in search_on(2, 'abcmn').trials] == [search.FINISHED] * 2  # put back


@pytest.mark.parametrize('arguments, expected', [
    (['--ranges=model.dff=linear:8:64'], 'did you mean --config.model.d_ff?'),
    (['--ranges=model.d_ff=linear:8:6.5'], "expected a whole number, found '6.5'"),
    (['--ranges=model.norm=linear:pre:post'], 'its values are no numbers; expected choice:A:B:…'),
    (['--ranges=model.norm=choice:pre'], 'two or more different values'),
    (['--ranges=model.d_ff=linear:8'], 'expected the lowest and the highest value, linear:LOW:HIGH'),
    (['--ranges=model.d_ff=linear:64:8'], 'the lowest value before the highest'),
    (['--ranges=model.dropout=log:0:0.5'], 'a logarithmic range has positive values'),
    (['--ranges=model.dropout=even:0:0.5'], "'even' is no scale; expected log:LOW:HIGH, linear:LOW:HIGH, choice:A:B:…"),
    (['--ranges=vocabulary.size=linear:300:400'], 'the tokens of two vocabularies do not compare'),
    (['--ranges=seed=linear:0:9'], 'others of the same seed'),
    (['--ranges=data.max_length=linear:8:64'], 'decides which validation text the loss is measured on'),
    (['--ranges=data.batching=choice:buckets:fixed'], 'batching fixed leaves out sentences that others keep'),
    (['--ranges=data.max_ratio=linear:2.0:9.0'], 'each trial would make a vocabulary of its own training text'),
    (['--ranges=init_from=choice:runs/a:runs/b'], 'a run that training starts from brings its vocabulary'),
    (['--ranges=model.dropout=linear:0.0:inf'], "expected a number, found 'inf'"),
    (['--ranges=model.dropout=log:nan:0.5'], "expected a number, found 'nan'"),
    (['--ranges=model.dropout=choice:nan:0.5'], "expected a number, found 'nan'"),
    (['--ranges=model.d_ff=linear:8:64,model.d_ff=linear:8:9'], 'two ranges'),
    (['--config.optimizer.learning_rate_scale=3'], '--config.optimizer.learning_rate_scale is given, too'),
    (['--rows=a=,b='], '--rows names 2 rows; a search is of one'), (['--seeds=3'], 'a trial is one run'),
    (['--ranges=search.alpha=linear:0.0:1.0'], 'the validation loss, by which trials are compared, does not depend on it'),
    (['--ranges=train.log_every=linear:1:9'], 'does not depend on it'),
    (['--by_length'], '--by_length and --search do different things'), (['--print'], '--print and --search'),
    (['--trials=0'], '--trials=0: expected a positive whole number')])
def test_mistakes_are_told_before_anything_runs(config, tmp_path, capsys, arguments, expected):
  with pytest.raises(SystemExit) as ended:
    options(config, tmp_path / 'x', *arguments)
  assert ended.value.code == 2 and expected in capsys.readouterr().err
  assert not (tmp_path / 'x').exists()


def test_commands_are_printed_or_a_table_is_made(config, tmp_path, capsys):
  with pytest.raises(SystemExit):
    sweep_options.parse(['sweep.py', f'--config={config}', f'--workdir={tmp_path}/x', '--print', '--table'], '')
  assert '--print and --table do different things' in capsys.readouterr().err


def test_what_has_no_effect_or_no_ranges_is_told(config, tmp_path, capsys, monkeypatch):
  with pytest.raises(SystemExit):
    sweep_options.parse(['sweep.py', f'--config={config}', f'--workdir={tmp_path}/x', '--trials=3', RANGES], '')
  told = capsys.readouterr().err
  assert '--trials has no effect without --search' in told and '--ranges has no effect without --search' in told
  with pytest.raises(SystemExit):
    options(f'{ROOT}/configs/phrasebook.py', tmp_path / 'x')
  assert 'phrasebook.py has no SEARCH that says where to search; give --ranges=' in capsys.readouterr().err
  with pytest.raises(ConfigError, match='(?s)row with the first values: .*row with the last values: config.optimizer: peak is 0.01, but'):
    sweep.main(options(config, tmp_path / 'x', '--ranges=optimizer.peak=log:1e-4:1e-2'))
  with pytest.raises(ConfigError, match='config.seed is given'):
    sweep.main(options(config, tmp_path / 'x', '--config.seed=3'))
  assert not (tmp_path / 'x').exists()
  assert sweep.main(options(config, tmp_path / 'x', '--table')) == 1
  assert 'No trial in' in capsys.readouterr().err
  monkeypatch.setitem(sys.modules, 'optuna', None)
  monkeypatch.delitem(sys.modules, 'sweeps.search')
  with pytest.raises(ConfigError, match='--search needs the package optuna, which is not installed: pip install "optuna'):
    importlib.import_module('sweeps.search')


@pytest.mark.parametrize('path', [path for path in configurations.shipped_configs()
                                  if hasattr(configurations.load_module(path), 'SEARCH')])
def test_the_ranges_of_a_shipped_configuration_hold_its_own_values(path, tmp_path):
  asked = options(path, tmp_path / 'x')
  search.check(asked)
  assert search.own_values(asked) is not None and len(asked.search.ranges) >= 2


@pytest.mark.long
def test_real_runs_are_trained_stopped_killed_and_continued(config, tmp_path):
  """The second trial's learning rate is far too low. It is killed with the search, tried again and stopped early."""
  command = [sys.executable, *words(config, tmp_path, '--trials=2', '--whole_trials=1', '--sampler_seed=3')]
  start = lambda: subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
  first, lock = start(), tmp_path / 'trial_1' / 'seed_0' / 'lock'
  while not (lock.is_file() and lock.read_text().startswith('process ')):
    assert first.poll() is None, first.communicate()
    time.sleep(0.02)
  first.kill()
  os.kill(int(lock.read_text().split()[1]), signal.SIGKILL)
  first.communicate()
  good, bad = read_json(f'{tmp_path}/search.json')['trials']
  assert (good['state'], bad['state'], bad['values']) == (
      search.FINISHED, search.RUNNING, {'optimizer.learning_rate_scale': 1e-5})
  out, errors = (second := start()).communicate(timeout=600)
  assert second.returncode == 0 and not errors, errors
  assert re.search(r'\[2/2\] trial 1: stopped after step 10, validation loss .*: above the median of earlier trials there', out)
  after = read_json(f'{tmp_path}/search.json')['trials']
  assert after[0] == good and after[1]['values'] == bad['values'] and after[1]['state'] == search.STOPPED
  assert good['loss'] == math.log(read_json(f'{tmp_path}/trial_0/seed_0/results.json')['validation_perplexity'])
  assert (tmp_path / 'trial_0' / 'seed_0.log').read_text().count('$ ') == 1
  assert (tmp_path / 'trial_1' / 'seed_0.log').read_text().count('$ ') == 2
  assert not (tmp_path / 'trial_1' / 'seed_0' / 'results.json').exists()
  assert "No trial was better than trial 0, which has the configuration's own values" in out
  assert (tmp_path / 'search.md').read_text().startswith('| trial | optimizer.learning_rate_scale | validation loss |')
