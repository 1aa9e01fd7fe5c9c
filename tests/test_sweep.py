"""Sweeps of a tiny model: commands, runs that are stopped, killed and continued, and the table of what they leave."""

import json
import os
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import time
import types

import numpy as np
import pytest
import sacrebleu

import sweep
import tasks
import train
from checks import exit_codes
from checks.errors import DamagedError
from options import configurations, programs, sweep_options, train_options
from sweeps import finished_rows, queue
from sweeps import table as ablation_table
from tasks import announcement, setup
from training.json_files import as_written, read_json
from training.loop import Progress
from training.run_folder import RunFolder
from transformer import model as models
from transformer import tokens

ROOT = configurations.ROOT
WORDS = {'one': 'eins', 'two': 'zwei', 'three': 'drei', 'dog': 'Hund', 'cat': 'Katze', 'house': 'Haus', 'tree': 'Baum'}
CONFIG = '''
from configs import multi30k

VARIANTS = {{'base': {{}}, 'narrow': {{'model.d_ff': 8}}, 'odd': {{'data.train_split': 'lost'}}}}
PUBLISHED = {{'base': {{'bleu': 25.8, 'parameters': 65e6}}, 'narrow': {{'bleu': 24.9, 'parameters': 50e6}}}}


def get_config(arg='base'):
  if arg not in VARIANTS:
    raise ValueError(f'no variant {{arg}}')
  config = multi30k.get_config('adam')
  config.update_from_flattened_dict({{
      'data.directory': '{corpus}', 'data.test_splits': ('test',), 'data.max_shapes': 1, 'data.max_length': 16,
      'model.d_model': 16, 'model.num_heads': 2, 'model.num_layers': 1, 'model.d_ff': 24, 'vocabulary.size': 300,
      'train.batch_tokens': 256, 'train.num_steps': 3, 'train.num_minutes': None, 'train.checkpoint_every': 2,
      'train.eval_every': 100_000, 'train.average_last': 1, 'search.beam_size': 2, 'search.extra_length': 6,
      **VARIANTS[arg]}})
  return config
'''


@pytest.fixture(scope='module')
def config(tmp_path_factory):
  """A configuration file with rows, on a small corpus."""
  folder, draw = tmp_path_factory.mktemp('corpus'), np.random.default_rng(0)
  for split, size in (('train', 150), ('val', 11), ('test', 97)):
    sentences = [[str(word) for word in draw.choice(list(WORDS), draw.integers(1, 8))] for _ in range(size)]
    (folder / f'{split}.en').write_text(''.join(' '.join(s) + '\n' for s in sentences))
    (folder / f'{split}.de').write_text(''.join(' '.join(WORDS[w] for w in s) + '\n' for s in sentences))
  path = folder / 'rows.py'
  path.write_text(CONFIG.format(corpus=folder))
  return path


def options(config, workdir, *more):
  return sweep_options.parse(['sweep.py', f'--config={config}', f'--workdir={workdir}', *more], 'Sweeps.')


def start(config, workdir, *more):
  """sweep.py as a user starts it."""
  return subprocess.Popen([sys.executable, 'sweep.py', f'--config={config}', f'--workdir={workdir}', *more], cwd=ROOT,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope='module')
def swept(config, tmp_path_factory):
  """A sweep of a row with two seeds and of one without text: (folder, exit code, what it said)."""
  workdir = tmp_path_factory.mktemp('sweep')
  process = start(config, workdir, '--rows=odd,base', '--seeds=2', '--by_length')
  out, errors = process.communicate(timeout=900)
  assert not errors, errors
  return workdir, process.returncode, out


@pytest.mark.long
def test_a_failing_run_is_told_and_the_others_go_on(swept):
  workdir, code, out = swept
  assert code == 1
  assert out.count('FAILED with exit code 3: error: ') == 2 and out.count('lost') >= 2
  assert '[3/4] base seed 0: BLEU ' in out and '[4/4] base seed 1: BLEU ' in out
  assert not (workdir / 'odd' / 'seed_0').exists() and (workdir / 'odd' / 'seed_0.log').stat().st_size
  assert 'Not finished: odd (0 of 2).' in out


@pytest.mark.long
def test_the_table_holds_what_the_runs_left(swept):
  workdir, _, out = swept
  results = [read_json(f'{workdir}/base/seed_{seed}/results.json') for seed in (0, 1)]
  bleu = [r['bleu'] for r in results]
  mean = sum(bleu) / 2
  deviation = (sum((b - mean) ** 2 for b in bleu) / 1) ** 0.5  # over n - 1
  table = json.loads((workdir / 'table.json').read_text())
  row, = table['table']
  assert row['BLEU'] == f'{mean:.1f} ± {deviation:.1f}'
  perplexities = [r['validation_perplexity'] for r in results]
  assert row['validation perplexity per token'] == f'{sum(perplexities) / 2:.2f} ± {statistics.stdev(perplexities):.2f}'
  assert perplexities[0] != perplexities[1] and 1 < min(perplexities) < 10_000  # two seeds, two models
  assert (row['row'], row['seeds'], row['parameters']) == ('base', '2', f'{results[0]["parameters"]:,}')
  assert table['runs']['base']['1'] == results[1]
  markdown = (workdir / 'table.md').read_text()
  for part in (row['BLEU'], 'BLEU on test: sacreBLEU, nrefs:1|case:mixed', 'beam 2, mean of 1 checkpoint(s), 3 updates',
               ' sweep.py --config=', 'jax '):
    assert part in out and part in markdown
  assert 'The paper\'s BLEU is left out' in out and 'theirs was trained on WMT14' in out
  assert 'the paper\'s BLEU' not in row and row['the paper\'s'] == '65 M'


@pytest.mark.long
def test_runs_of_before_results_named_the_strategy_are_tabled_alike(swept, tmp_path):
  paper = options(f'{ROOT}/configs/table3.py', 'x', '--rows=base,A1')
  tabled = lambda workdir: ablation_table.tabulate(finished_rows.finished_rows(workdir, {})[0], paper, ['sweep.py'])
  shutil.copytree(swept[0] / 'base', tmp_path / 'base', ignore=shutil.ignore_patterns('checkpoints'))
  for path in (tmp_path / 'base').glob('seed_*/results.json'):
    results = json.loads(path.read_text())
    assert results['search'].pop('strategy') == 'beam'
    path.write_text(json.dumps(results))
    (path.parent / 'manifest.json').unlink()  # as those runs had none
  assert tabled(str(tmp_path)) == tabled(str(swept[0]))


@pytest.mark.long
def test_a_run_that_is_asked_for_more_steps_is_tabled_again_once_it_has_made_them(swept, tmp_path):
  shutil.copytree(swept[0] / 'base', tmp_path / 'base', ignore=shutil.ignore_patterns('checkpoints'))
  folder = RunFolder(str(tmp_path / 'base' / 'seed_1'))
  asked = read_json(folder.config)
  asked['train']['num_steps'] = 5
  folder.write_json(folder.config, asked)  # as train.py does, which was killed then
  (row,), notes = finished_rows.finished_rows(str(tmp_path), {})
  assert [run.seed for run in row.runs] == [0] and not notes


def test_a_damaged_row_that_was_not_asked_for_is_left_out_and_told(swept, tmp_path):
  for name in ('base', 'old'):
    shutil.copytree(swept[0] / 'base', tmp_path / name, ignore=shutil.ignore_patterns('checkpoints'))
  os.remove(tmp_path / 'old' / 'seed_0' / 'environment.json')
  wanted = read_json(RunFolder(str(tmp_path / 'base' / 'seed_0')).config)
  rows, notes = finished_rows.finished_rows(str(tmp_path), {'base': wanted})
  assert [row.name for row in rows] == ['base'] and [note.partition(' (')[0] for note in notes] == [
      'Left out: row old, which was not asked for and cannot be read']
  with pytest.raises(DamagedError, match='environment.json'):
    finished_rows.finished_rows(str(tmp_path), {'old': wanted})


@pytest.mark.long
def test_runs_of_another_configuration_than_was_asked_for_are_no_row_of_the_table(swept, config, capsys, monkeypatch):
  monkeypatch.chdir(ROOT)  # paths in a run's configuration are as they were typed
  for change, left_out in (('--config.train.log_every=7', ''), ('--config.data.directory=/elsewhere', ''),
                           ('--config.model.dropout=0.25', 'model.dropout'), ('--config.search.beam_size=3', 'search.beam_size'),
                           ('--config.train.num_steps=5', 'train.num_steps')):
    asked = options(config, swept[0], '--rows=base', '--seeds=2', '--table', change)
    rows, notes = finished_rows.finished_rows(str(swept[0]), {row.name: row.config for row in asked.rows})
    assert [len(row.runs) for row in rows if row.name == 'base'] == ([] if left_out else [2])
    assert len(notes) == (2 if left_out else 0) and all(f'seed_{seed}, which differs in {left_out} from what was asked' in note
                                                        for seed, note in enumerate(notes))
  assert sweep.main(options(config, swept[0], '--rows=base', '--seeds=2', '--table', '--config.model.dropout=0.25')) == 1
  assert 'Left out: ' in capsys.readouterr().err


def test_a_home_stands_for_itself_in_the_folders_path(config, tmp_path, monkeypatch, capsys):
  """As in --workdir=~/x: shells replace ~ at the start of a word alone."""
  monkeypatch.setenv('HOME', str(tmp_path))
  assert options(config, '~/x').workdir == f'{tmp_path}/x'
  (tmp_path / 'file').touch()
  with pytest.raises(SystemExit):
    options(config, '~/file/x')
  assert f'--workdir={tmp_path}/file/x: {tmp_path}/file is not a folder; give another path' in capsys.readouterr().err


@pytest.mark.long
def test_validation_perplexity_is_that_of_the_parameters_that_translate(swept):
  """Counted again from the logits, by NumPy, over the pairs that are not too long for a batch."""
  folder = f'{swept[0]}/base/seed_0'
  run, (source, target) = tasks.load(folder, 'latest'), RunFolder.open(folder).load_vocabularies()
  directory = read_json(f'{folder}/config.json')['data']['directory']
  with open(f'{directory}/val.en') as english, open(f'{directory}/val.de') as german:
    pairs = [([*source.encode(e.rstrip('\n')), source.eos_id], [*target.encode(g.rstrip('\n')), target.eos_id])
             for e, g in zip(english, german)]
  pairs = [(ids, wanted) for ids, wanted in pairs if max(len(ids), len(wanted)) <= 16]
  assert 5 < len(pairs)
  model = models.build(setup.of_folder(RunFolder.open(folder)).sized(source.size, target.size))
  memory = model.encode(run.params[0], tokens.pad([ids for ids, _ in pairs], len(pairs), 16, 0))
  shifted = [[target.bos_id, *wanted[:-1]] for _, wanted in pairs]
  logits = np.asarray(model.decode(run.params[0], memory, tokens.pad(shifted, len(pairs), 16, 0)), np.float64)
  nll = [np.log(np.exp(logits[row, place]).sum()) - logits[row, place, token]
         for row, (_, wanted) in enumerate(pairs) for place, token in enumerate(wanted)]
  assert read_json(f'{folder}/results.json')['validation_perplexity'] == pytest.approx(np.exp(np.mean(nll)), 1e-4)


@pytest.mark.long
def test_bleu_by_length_is_sacrebleu_of_each_group(swept, config):
  workdir, _, out = swept
  curves = json.loads((workdir / 'by_length.json').read_text())
  english = (config.parent / 'test.en').read_text().split('\n')[:-1]
  german = (config.parent / 'test.de').read_text().split('\n')[:-1]
  assert sum(group['sentences'] for group in curves['groups']) == 97 and len(curves['groups']) == 3
  for seed in (0, 1):
    translated = (workdir / 'base' / f'seed_{seed}' / 'samples' / 'test_translations.txt').read_text().split('\n')[:-1]
    for number, group in enumerate(curves['groups']):
      inside = [i for i in range(97) if group['shortest'] <= len(english[i].split()) <= group['longest']]
      expected = sacrebleu.corpus_bleu([translated[i] for i in inside], [[german[i] for i in inside]]).score
      assert curves['bleu']['base'][number][seed] == pytest.approx(expected)
      assert group['sentences'] == len(inside) >= 20
  assert (workdir / 'by_length.png').read_bytes()[:4] == b'\x89PNG' and 'words of the source' in out


@pytest.mark.long
def test_finished_runs_are_passed_over_and_asked_for_more_they_go_on(swept, config, monkeypatch):
  workdir = swept[0]
  monkeypatch.chdir(ROOT)  # paths in a run's configuration are as they were typed
  again = queue.queue(options(config, workdir, '--rows=base,odd', '--seeds=3'))
  assert [queue.is_finished(run) for run in again] == [True, True, False, False, False, False]
  longer = queue.queue(options(config, workdir, '--rows=base', '--config.train.num_steps=5'))
  assert not queue.is_finished(longer[0])
  other = queue.queue(options(config, workdir, '--rows=base', '--config.model.dropout=0.25'))
  assert not queue.is_finished(other[0])
  said = []
  assert queue.work_off(again[:2], said.append) == []  # starts nothing
  assert [line.split(':')[0] for line in said] == ['[1/2] base seed 0', '[2/2] base seed 1']


def wait_for(log, words, process, seconds=300, behind=''):
  """The log, once the words stand in it, and somewhere behind them `behind`."""
  for _ in range(seconds * 20):
    text = log.read_text() if log.exists() else ''
    if words in text and behind in text.partition(words)[2]:
      return text
    assert process.poll() is None, process.communicate()
    time.sleep(0.05)
  raise AssertionError(f'{words!r} never came:\n{text}')


@pytest.mark.long
def test_killed_and_interrupted_and_continued(config, tmp_path):
  log, run = tmp_path / 'narrow' / 'seed_0.log', tmp_path / 'narrow' / 'seed_0'
  endless = ('--rows=narrow', '--config.train.num_steps=1000000')
  first = start(config, tmp_path, *endless)
  wait_for(log, 'step ', first)
  saved = lambda: (run / 'checkpoints').is_dir() and any(name.isdigit() for name in os.listdir(run / 'checkpoints'))
  for _ in range(6000):
    if saved():
      break
    time.sleep(0.05)
  assert saved()
  owner = int((run / 'lock').read_text().split()[1])
  os.kill(owner, signal.SIGKILL)
  out, _ = first.communicate(timeout=300)
  assert first.returncode == 1 and 'narrow seed 0: FAILED with exit code -9' in out

  second = start(config, tmp_path, *endless)
  told = wait_for(log, ', resuming from step ', second, behind='\nstep ')
  assert int(told.rpartition('resuming from step ')[2].split()[0].replace(',', '')) >= 2
  second.send_signal(signal.SIGINT)
  out, errors = second.communicate(timeout=300)
  assert second.returncode == 130 and out.count('\n') == 1 and 'started, see ' in out
  assert errors == 'Stopped at narrow seed 0, after 0 of 1 runs. The same command resumes from here.\n'
  assert 'saved. The same command resumes from here' in log.read_text()
  with RunFolder(str(run)).create_or_resume(read_json(f'{run}/config.json')):
    pass  # its lock is free: the child has ended


TOLD = 'BLEU 12.0, chrF 34.0 on test, validation perplexity 5.00 per token, 3 steps in 1.0 min'


def scored(run):
  """The results.json of a run that TOLD tells of."""
  options = configurations.leaves(run.config)
  return {'bleu': 12.0, 'chrf': 34.0, 'test_set': 'test', 'validation_perplexity': 5.0, 'step': 3, 'seconds': 60.0,
          'length': {name.partition('.')[2]: options[name] for name in configurations.LENGTHS}}


def test_a_killed_sweep_leaves_a_child_that_goes_on(config, tmp_path, monkeypatch):
  """The child is a stand-in with a run's lock; the next sweep waits for it and finds what it has made."""
  monkeypatch.chdir(ROOT)
  run, = queue.queue(options(config, tmp_path, '--rows=base'))
  os.makedirs(run.folder.path)
  go = tmp_path / 'go'
  child = f'''
import fcntl, os, time
lock = open({run.folder.path + '/lock'!r}, 'w')
fcntl.flock(lock, fcntl.LOCK_EX)
print('started')
while not os.path.exists({str(go)!r}):
  time.sleep(0.01)
print('goes on')
open({run.folder.config!r}, 'w').write({json.dumps(run.config)!r})
open({run.folder.results!r}, 'w').write({json.dumps(scored(run))!r})
'''
  run = run._replace(command=[sys.executable, '-c', child])
  killed = f'''
from sweeps import queue
from training import run_folder
queue.work_off([queue.QueuedRun('base', 0, run_folder.RunFolder({run.folder.path!r}), {run.command!r}, {{}})])
'''
  first = subprocess.Popen([sys.executable, '-c', killed], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
  log = tmp_path / 'base' / 'seed_0.log'
  wait_for(log, '\nstarted\n', first)
  first.kill()
  first.wait()
  said = []

  def hear(line):
    said.append(line)
    go.touch()  # only once the second sweep waits

  assert queue.work_off([run], hear) == []
  head = '[1/1] base seed 0'
  assert said == [f'{head}: another process trains it; waiting for that', f'{head}: {TOLD}']
  assert log.read_text().endswith('\nstarted\ngoes on\n') and log.read_text().count('\nstarted\n') == 1  # not anew


def test_a_child_that_finds_the_folder_busy_is_tried_again(config, tmp_path, monkeypatch):
  """A killed sweep's child that took its lock only after ours was started."""
  monkeypatch.chdir(ROOT)
  run, = queue.queue(options(config, tmp_path, '--rows=base'))
  os.makedirs(run.folder.path)
  child = f'''
import os, sys
print('started')
if not os.path.isfile({run.folder.config!r}):
  open({run.folder.config!r}, 'w').write({json.dumps(run.config)!r})
  sys.exit({exit_codes.FOLDER_BUSY})
open({run.folder.results!r}, 'w').write({json.dumps(scored(run))!r})
'''
  said = []
  assert queue.work_off([run._replace(command=[sys.executable, '-c', child])], said.append) == []
  assert said == [f'[1/1] base seed 0: {TOLD}']
  assert (tmp_path / 'base' / 'seed_0.log').read_text().count('\nstarted\n') == 2


@pytest.mark.long
def test_language_models_are_swept_and_tabled(config, tmp_path, monkeypatch, capsys):
  monkeypatch.chdir(ROOT)
  tiny = {'data.text': config.parent / 'train.en', 'data.max_length': 16, 'vocabulary.size': 300, 'model.d_model': 16,
          'model.num_heads': 2, 'model.num_layers': 1, 'model.d_ff': 24, 'model.max_positions': 16,
          'search.extra_length': 6, 'train.batch_tokens': 256, 'train.num_steps': 2, 'train.first_eval': 0}
  arguments = ['--rows=tiny=configs/language_model.py', *configurations.as_overrides(tiny)]
  asked = options('configs/language_model.py', tmp_path, *arguments)
  run, = queue.queue(asked)
  assert train.main(train_options.parse(run.command[1:], '')) == 0
  results, _ = read_json(run.folder.results), capsys.readouterr()
  assert sweep.main(asked) == 0  # which finds that run finished
  out = capsys.readouterr().out
  assert f'[1/1] tiny seed 0: finished before, perplexity {results["perplexity"]:.2f} per token, ' in out
  row, = read_json(f'{tmp_path}/table.json')['table']
  assert row['bits per byte'] == f'{results["bits_per_byte"]:.4f}'
  assert row['perplexity per byte'] == f'{2 ** results["bits_per_byte"]:.3f}'
  assert row['validation perplexity per token'] == f'{results["validation_perplexity"]:.2f}' and 'BLEU' not in row
  assert f'bits per byte on {results["test_set"]}: {results["tokens"]} tokens, {results["bytes"]} bytes; mean' in out


# ------------------------------------------------------------------------------------------------- commands


def test_each_command_is_one_line_that_train_takes(config, tmp_path):
  asked = options(config, tmp_path, '--rows=narrow,mine=base+model.dropout=0.5+model.norm=post', '--seeds=2',
                  '--config.model.tie_output=false', '--config.data.test_splits=()')
  runs = queue.queue(asked)
  assert [(run.row, run.seed) for run in runs] == [('narrow', 0), ('narrow', 1), ('mine', 0), ('mine', 1)]
  for run in runs:
    words = shlex.split(shlex.join(run.command))
    train = train_options.parse(words[1:], '')
    assert as_written(train.config) == run.config
    assert os.path.abspath(train.workdir) == run.folder.path == f'{tmp_path}/{run.row}/seed_{run.seed}'
    values = configurations.leaves(train.config)
    assert values['seed'] == run.seed and values['data.test_splits'] == () and not values['model.tie_output']
    assert values['data.cache_dir'] == f'{tmp_path}/.cache/text'
  assert (runs[0].config['model']['d_ff'], runs[2].config['model']['dropout']) == (8, 0.5)
  assert runs[2].config['model']['norm'] == 'post' != runs[0].config['model']['norm']


def test_print_runs_nothing(config, tmp_path, capsys):
  assert sweep.main(options(config, tmp_path / 'x', '--print', '--seeds=3', '--config.data.cache_dir=elsewhere')) == 0
  lines = capsys.readouterr().out.rstrip('\n').split('\n')
  assert len(lines) == 9 and not (tmp_path / 'x').exists()
  assert all('train.py --config=' in line and line.count('--config.data.cache_dir=elsewhere') == 1 for line in lines)


def test_a_table_of_nothing_is_an_error(config, tmp_path, capsys):
  assert sweep.main(options(config, tmp_path / 'x', '--table')) == 1
  assert 'nothing to make a table of' in capsys.readouterr().err and not (tmp_path / 'x').exists()


@pytest.mark.parametrize('change, value', [
    ("data.test_splits=('x','y')", ('x', 'y')), ("data.train_split=it's", "it's"), ('optimizer.peak=1e+3', 1000.0), ('init_from=runs/a+b', 'runs/a+b')])
def test_a_rows_value_may_hold_a_comma_or_a_plus(change, value, config, tmp_path):
  rows = options(config, tmp_path, f'--rows=base,mine=base+{change}+model.dropout=0.5,narrow').rows
  assert [row.name for row in rows] == ['base', 'mine', 'narrow']
  mine = configurations.leaves(rows[1].config)
  assert (mine[change.partition('=')[0]], mine['model.dropout']) == (value, 0.5)


def test_a_rows_own_places_stay(config, tmp_path):
  rows = '--rows=base,mine=base+data.cache_dir=elsewhere,none=base+compile_cache=None'
  base, mine, none = queue.queue(options(config, tmp_path, rows))
  assert mine.config['data']['cache_dir'] == 'elsewhere'
  assert [word for word in mine.command if 'cache_dir' in word] == ['--config.data.cache_dir=elsewhere']
  assert none.config['compile_cache'] is None and none.command.count('--config.compile_cache=None') == 1
  assert none.config['data']['cache_dir'] == base.config['data']['cache_dir'] == f'{tmp_path}/.cache/text'  # shared
  assert base.config['compile_cache'] is None  # a sweep's folder may come from elsewhere: it brings no programs


@pytest.mark.parametrize('file, arguments, expected, right', [
    ('table3', ['--rows=base,A1', '--config.model.num_heads=3', '--config.train.batch_tokens=0'],
     ['rows base, A1: 2 mistakes', 'd_model 512 is not divisible by num_heads 3', 'batch_tokens is 0'], []),
    ('ablation', ['--rows=base,sutskever,heads_1', '--config.model.num_heads=2'],
     ['error: row sutskever: config.model.num_heads has no effect'], ['base', 'heads_1']),
    ('ablation', ['--rows=base,x=heads_1+seed=1+model.norm=odd'], ['2 mistakes', 'row x: config.seed', "'odd'"],
     ['base']),
    ('ablation', ['--rows=base,cho', '--config.seed=7'], ['rows base, cho: config.seed is given', '--seeds'], []),
    ('language_model', ['--rows=phrasebook', '--by_length'], ['row phrasebook: --by_length is of BLEU'], [])])
def test_what_train_would_refuse_is_neither_run_nor_printed(file, arguments, expected, right, tmp_path, capsys):
  asked = options(f'{ROOT}/configs/{file}.py', tmp_path / 'x', '--print', *arguments)
  with pytest.raises(SystemExit) as ended:
    programs.run(sweep.main, asked)
  told = capsys.readouterr()
  assert ended.value.code == 2 and not told.out and all(part in told.err for part in expected)
  assert not any(name in told.err for name in right)


def test_children_run_under_this_interpreter_and_commands_name_it(config, tmp_path, monkeypatch):
  for environment in ('one', 'other'):
    folder = tmp_path / environment
    folder.mkdir()
    for name in ('python', 'python3'):  # as in virtual environments: links to one file
      (folder / name).symlink_to(sys.executable)
  monkeypatch.chdir(tmp_path)
  typed = []
  for executable, path in (('python3', 'one'), ('python3', 'other'), ('python3', 'none'), ('python', 'one')):
    monkeypatch.setattr(sys, 'executable', str(tmp_path / 'one' / executable))
    monkeypatch.setenv('PATH', str(tmp_path / path))
    run = queue.queue(options(config, tmp_path, '--rows=base'))[0]
    assert run.command[0] == sys.executable
    assert run.typed.split()[1:] == shlex.join(run.command).split()[1:]
    typed.append(run.typed.split()[0])
  assert typed == ['python', 'one/python3', 'one/python3', 'python']
  monkeypatch.setattr(sys, 'executable', '/usr/somewhere/python3')
  monkeypatch.setenv('PATH', str(tmp_path / 'one'))
  assert programs.python() == '/usr/somewhere/python3'
  task = types.SimpleNamespace(
      folder=RunFolder('x'), invitation='Translate', own_text='', batches=types.SimpleNamespace(batches_per_epoch=1),
      setup=types.SimpleNamespace(optimizer=types.SimpleNamespace(ends_with_run=True)))
  asked = train_options.read(['train.py', f'--config={config}', '--workdir=x'])
  assert announcement.next_commands(task, 'A text.', asked, Progress()).count(' /usr/somewhere/python3 ') == 2
  task.folder = RunFolder('x (1)')
  first = announcement.next_commands(task, 'A text.', asked, Progress()).split('\n')[1]
  assert shlex.split(first.partition('|')[2])[1:] == ['decode.py', '--workdir=x (1)']


@pytest.mark.parametrize('arguments, expected', [
    (['--rows=base,narow'], "has no row 'narow'; did you mean narrow? It has base, narrow, odd"),
    (['--rows=BASE'], 'did you mean base?'),
    (['--rows=base,base'], "two rows are called 'base'"),
    (['--rows=a=base,a=narrow'], "two rows are called 'a'; give one another name: NAME=narrow"),
    (['--rows=base+model.d_ff=9'], 'NAME=base+model.d_ff=9'),
    (['--rows=x=base+Model.d_ff=9'], 'row x: --config.Model.d_ff=9 is no option; did you mean --config.model.d_ff?'),
    (['--rows=x=base+model.d_ff,narrow'], "has no row 'base+model.d_ff'; It has base, narrow, odd; options follow as +OPTION=VALUE"),
    (["--rows=x=base+data.test_splits=('a',narow"], "has no row 'narow'; did you mean narrow"),
    (['--rows=x=base+model.dff=9'], 'row x: --config.model.dff=9 is no option; did you mean --config.model.d_ff?'),
    (['--rows=x=base+model.d_ff=wide', '--rows=x=base+model.d_ff=wide'], "expected a whole number, found 'wide'"),
    (['--rows=../x=base'], 'needs a name of its own'),
    (['--seeds=0'], '--seeds=0: expected a positive whole number'),
    (['--seeds=many'], '--seeds=many: expected a positive whole number'),
    (['--print=perhaps'], "--print=perhaps: expected true or false, found 'perhaps'"),
    (['--sed=3'], 'did you mean --seeds?'),
    (['--seeds=2', '--config.data.kind=tsv', '--config.data.tsv=x'], 'which lines of the file are held out depends on'),
    (['--seeds=2', '--config.data.kind=labelled_tsv', '--config.data.tsv=x'], 'take config.data.kind=labelled_text'),
])
def test_mistakes_are_told_before_anything_runs(config, tmp_path, capsys, arguments, expected):
  with pytest.raises(SystemExit) as ended:
    options(config, tmp_path / 'x', *arguments)
  assert ended.value.code == 2 and expected in capsys.readouterr().err
  assert not (tmp_path / 'x').exists()


def test_mistakes_are_told_together_and_a_variant_is_no_sweep(config, tmp_path, capsys):
  with pytest.raises(SystemExit):
    options(config, tmp_path, '--rows=base,base,bsae', '--seeds=-1', '--config.modl.x=1')
  told = capsys.readouterr().err
  assert '4 mistakes' in told and all(part in told for part in ('called', 'bsae', '--seeds=-1', 'config.modl.x'))
  with pytest.raises(SystemExit):
    options(f'{config}:base', tmp_path)
  assert f'--config={config} --rows=base' in capsys.readouterr().err
