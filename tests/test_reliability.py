"""What docs/reliability.md promises of runs, by the names of its rows: processes are killed, stopped, stalled and raced."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import train
from checks import exit_codes
from checks.errors import ConfigError, DataError
from decoding.translator import Translator
from options.configurations import ROOT
from tests.tiny_runs import metrics, options, saved, start
from training import checkpoint, evaluation, failures, run_folder, stopping
from training.checkpoint import CheckpointError, Checkpoints
from training.watchdog import Watchdog
from transformer import partitioning

STEPS = 10  # more than three epochs of three batches
FLAGS = ['--config.train.average_last=1', '--config.train.batch_tokens=1024', '--config.mesh.data=1']


@pytest.fixture(scope='module')
def whole(corpus, tmp_path_factory):
  """The folder of a run that nothing disturbed."""
  workdir = tmp_path_factory.mktemp('reliability') / 'whole'
  assert train.main(options(corpus, workdir, *FLAGS, f'--config.train.num_steps={STEPS}')) == 0
  return workdir


def until(process, text):
  """Reads what a process prints until a line that holds `text`."""
  for line in process.stdout:
    if text in line:
      return line
  raise AssertionError(f'never said {text!r}: {process.stderr.read()}')


def assert_same_run(one, other, step=STEPS):
  first, second = saved(one, step), saved(other, step)
  assert first.keys() == second.keys() and len(first) > 50
  for name in first:
    np.testing.assert_array_equal(first[name], second[name], err_msg=name)
  assert metrics(one) == metrics(other)


# ------------------------------------------------------------------------------------------------ resume and stop


def left_behind(workdir):
  """Processes that have a run's folder on their command line."""
  found = []
  for number in filter(str.isdigit, os.listdir('/proc')):
    with contextlib.suppress(OSError):
      with open(f'/proc/{number}/cmdline', 'rb') as file:
        found += [number] if str(workdir).encode() in file.read() else []
  return found


def test_R1_K3_K4_a_killed_run_goes_on_as_if_nothing_had_happened(corpus, whole, tmp_path):
  workdir = tmp_path / 'killed'
  shared = set(os.listdir('/dev/shm'))
  process = start(corpus, workdir, *FLAGS, '--config.train.num_steps=100000', '--config.train.log_every=2')
  while not (workdir / 'checkpoints' / '6').exists():
    assert process.poll() is None, process.stderr.read()
    time.sleep(0.01)
  process.kill()
  process.communicate()
  assert not left_behind(workdir) and not set(os.listdir('/dev/shm')) - shared
  assert train.main(options(corpus, workdir, *FLAGS, f'--config.train.num_steps={STEPS}')) == 0
  assert_same_run(whole, workdir)


@pytest.mark.drill
@pytest.mark.parametrize('seed', range(3))
@pytest.mark.parametrize('more', [[], ['--config.model.dtype=bfloat16'], ['--config.train.accumulation_steps=4'],
                                  ['--config.model.dtype=bfloat16', '--config.train.accumulation_steps=4']])
def test_R1_K3_drill(corpus, tmp_path, seed, more):
  """Each run is killed three times at random: 36 kills."""
  draw = np.random.default_rng([seed, len(more)])
  flags = [*FLAGS, *more, f'--config.seed={seed}']
  assert train.main(options(corpus, tmp_path / 'whole', *flags, f'--config.train.num_steps={STEPS}')) == 0
  for _ in range(3):
    if (tmp_path / 'parts' / 'results.json').exists():  # it was over before it was killed
      assert_same_run(tmp_path / 'whole', tmp_path / 'parts')
      shutil.rmtree(tmp_path / 'parts')
    process = start(corpus, tmp_path / 'parts', *flags, f'--config.train.num_steps={STEPS}')
    until(process, 'Training for')
    time.sleep(draw.uniform(0, 6))
    process.kill()
    process.communicate()
  assert train.main(options(corpus, tmp_path / 'parts', *flags, f'--config.train.num_steps={STEPS}')) == 0
  assert_same_run(tmp_path / 'whole', tmp_path / 'parts')


def noted_batches(monkeypatch):
  """A list that gets (step, fingerprint of the batch) of every update from now on."""
  ledger, call = [], partitioning.CompiledStep.__call__

  def noted(self, first, batch):
    if hasattr(first, 'opt_state'):
      ledger.append((int(first.step), failures.fingerprint(batch)))
    return call(self, first, batch)

  monkeypatch.setattr(partitioning.CompiledStep, '__call__', noted)
  return ledger


def test_R2_no_batch_is_repeated_or_lost(corpus, whole, tmp_path, monkeypatch):
  ledger = noted_batches(monkeypatch)
  prepare = train.prepare
  prepared = []
  monkeypatch.setattr(train, 'prepare', lambda *inputs: prepared.append(prepare(*inputs)) or prepared[-1])
  for steps in (2, 3, STEPS):  # in an epoch, at its end, twice in a row
    train.main(options(corpus, tmp_path / 'parts', *FLAGS, f'--config.train.num_steps={steps}'))
  plan = prepared[0][1].batches
  assert 3 * plan.batches_per_epoch < STEPS
  assert ledger == [(step, failures.fingerprint(plan.batch_at(step))) for step in range(STEPS)]
  assert_same_run(whole, tmp_path / 'parts')


def test_R3_what_decides_the_numbers_may_not_change(corpus, whole, tmp_path):
  other = tmp_path / 'other'
  shutil.copytree(corpus, other)
  (other / 'train.en').write_text((corpus / 'train.en').read_text().replace('dog', 'wolf'))
  flags = [*FLAGS, f'--config.train.num_steps={STEPS}']
  for change, words in (('--config.seed=1', 'seed is 1'),
                        ('--config.train.batch_tokens=512', 'train.batch_tokens is 512'),
                        (f'--config.data.directory={other}', 'other text than train'),
                        ('--config.vocabulary.size=310', 'vocabulary.size is 310'),
                        ('--config.data.max_length=15', 'data.max_length is 15'),
                        ('--config.data.batching=packed', "data.batching is 'packed'"),
                        ('--config.train.eval_sentences=6', 'train.eval_sentences is 6, the run has 5')):
    with pytest.raises(ConfigError, match=words):
      train.main(options(corpus, whole, *flags, change))
  assert train.main(options(corpus, whole, *flags, '--config.train.log_every=7', '--config.mesh.data=2',
                            '--config.train.eval_every=100')) == 0


@pytest.mark.parametrize('phase', ['compiling the step', pytest.param('Translating', marks=pytest.mark.drill),
                                   pytest.param('Corpus', marks=pytest.mark.drill)])
def test_K1_sigterm_saves_and_says_so(corpus, tmp_path, phase):
  """In the middle of compiling, which is native code: the handler must not have to wait for its end."""
  cold = [f'--config.compile_cache={tmp_path}/cold'] if phase.startswith('compiling') else []
  process = start(corpus, tmp_path / 'run', *FLAGS, *cold, '--config.train.num_steps=3')
  until(process, phase)
  began = time.monotonic()
  process.send_signal(signal.SIGTERM)
  out, errors = process.communicate(timeout=60)
  assert process.returncode == exit_codes.PREEMPTED, errors
  assert time.monotonic() - began < 10 and 'The same command resumes' in out and 'Traceback' not in errors
  if phase != 'Corpus':
    expected = 0 if phase.startswith('compiling') else 3
    assert Checkpoints(str(tmp_path / 'run' / 'checkpoints')).steps()[-1] == expected
  assert train.main(options(corpus, tmp_path / 'run', *FLAGS, '--config.train.num_steps=3')) == 0


FEW = ['--config.train.num_steps=3', '--config.train.eval_every=2', '--config.train.checkpoint_every=2']


@pytest.fixture(scope='module')
def short(corpus, tmp_path_factory):
  """The folder of a run of three steps, one evaluation and two saves."""
  workdir = tmp_path_factory.mktemp('reliability') / 'short'
  assert train.main(options(corpus, workdir, *FLAGS, *FEW)) == 0
  return workdir


@pytest.mark.parametrize('place, name', [
    (Checkpoints, 'save'), *(pytest.param(*phase, marks=pytest.mark.long) for phase in
                             [(train, 'prepare'), (evaluation, 'totals'), (Translator, 'translate'), (train, 'conclude')])])
def test_K1_a_stop_in_any_phase_changes_nothing(corpus, short, tmp_path, monkeypatch,
                                                place, name):
  phase, asked = getattr(place, name), []

  def interrupted(*inputs, **named):
    if not asked:
      asked.append(time.monotonic())
      os.kill(os.getpid(), signal.SIGTERM)
      time.sleep(0.2)  # the main thread takes the signal
    return phase(*inputs, **named)

  monkeypatch.setattr(place, name, interrupted)
  command = options(corpus, tmp_path / 'run', *FLAGS, *FEW)
  assert train.main(command) == exit_codes.PREEMPTED and time.monotonic() - asked[0] < 10
  assert train.main(command) == 0
  assert_same_run(short, tmp_path / 'run', 3)


def test_K1_a_stop_gives_up_what_may_be_given_up():
  with stopping.StopRequest() as stop:
    assert stop.run(lambda x: x + 1, 2) == 3
    with pytest.raises(ZeroDivisionError):
      stop.run(lambda: 1 / 0)
    began = time.monotonic()
    with pytest.raises(stopping.Stopped):
      stop.run(lambda: (os.kill(os.getpid(), signal.SIGTERM), time.sleep(5)))
    assert time.monotonic() - began < 2 and stop.exit_code == exit_codes.PREEMPTED and stop.is_asked()
    with pytest.raises(stopping.Stopped):  # and nothing is begun any more
      stop.run(lambda: 3)


def test_K2_exit_codes_are_the_documented_table():
  with open(os.path.join(ROOT, 'docs', 'reliability.md'), encoding='utf-8') as file:
    documented = {int(code): meaning for code, meaning in re.findall(r'^\| (\d+) \| (.*?) \|', file.read(), re.M)}
  assert documented == exit_codes.MEANINGS
  errors = {ConfigError: 2, DataError: 3, failures.NonFiniteError: 4, CheckpointError: 5,
            checkpoint.DamagedError: 5, run_folder.FolderFullError: 5, failures.OutOfMemoryError: 8,
            run_folder.FolderBusyError: 9}
  assert {error: error.exit_code for error in errors} == errors


STALL = '''
import time
from training.watchdog import Watchdog
with Watchdog(1.0) as watchdog:
  watchdog.beat()
  for _ in range(3):
    time.sleep(0.7)
    watchdog.beat()
  with watchdog.paused():
    time.sleep(1.6)
  print('awake', flush=True)
  time.sleep(60)
'''


def test_H2_a_stalled_process_ends_with_every_thread_s_stack():
  began = time.monotonic()
  done = subprocess.run([sys.executable, '-c', STALL], cwd=ROOT, capture_output=True, text=True, timeout=60)
  assert done.returncode == exit_codes.STALLED and done.stdout == 'awake\n' and time.monotonic() - began < 40
  assert 'nothing happened for' in done.stderr and done.stderr.count('most recent call first') >= 2
  assert 'line 12 in <module>' in done.stderr


STOPPED = '''
import os, signal, time
from training.watchdog import Watchdog
with Watchdog(2.0) as watchdog:
  watchdog.beat()
  time.sleep(0.2)
  print('stopping', flush=True)
  os.kill(os.getpid(), signal.SIGSTOP)
  time.sleep(0.3)
  watchdog.beat()
'''


def test_H2_a_process_that_was_stopped_by_its_terminal_has_not_stalled():
  process = subprocess.Popen([sys.executable, '-c', STOPPED], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
  assert process.stdout.readline() == b'stopping\n'
  time.sleep(3.5)
  process.send_signal(signal.SIGCONT)
  _, errors = process.communicate(timeout=60)
  assert process.returncode == 0 and not errors


@pytest.mark.long
def test_H2_each_batch_of_an_evaluation_and_of_the_scoring_is_progress(corpus, run, tmp_path, monkeypatch):
  shutil.copytree(run, tmp_path / 'run')
  happened = []

  def noted(place, name, word):
    function = getattr(place, name)

    def noting(*inputs, **named):
      happened.append(word)
      return function(*inputs, **named)

    monkeypatch.setattr(place, name, noting)

  noted(Watchdog, 'beat', 'beat')
  noted(partitioning.CompiledStep, '__call__', 'work')
  noted(Translator, '_search', 'work')
  noted(Checkpoints, 'average', 'work')
  given = '--config.train.eval_every=10', '--config.data.test_splits=("test","val")', '--config.train.num_steps=10'
  for least in (8, 4):  # two steps, an evaluation and the scoring; the scoring alone, as of a run that was stopped there
    (tmp_path / 'run' / 'results.json').unlink()
    happened.clear()
    assert train.main(options(corpus, tmp_path / 'run', *given)) == 0
    told = ' '.join(happened[happened.index('beat'):])
    assert 'work work' not in told and happened[-1] == 'beat', told
    assert happened.count('work') >= least, told


HOLD = '''
import json, sys, time
from training.run_folder import FolderBusyError, RunFolder
while time.time() < float(sys.argv[2]):
  pass
try:
  with RunFolder(sys.argv[1]).create_or_resume(json.loads(sys.argv[3])):
    time.sleep(0.5)
except FolderBusyError as error:
  print(error)
'''


def race(folder, config):
  at = time.time() + 4
  command = [sys.executable, '-c', HOLD, str(folder), str(at), json.dumps(config)]
  both = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)]
  return [process.pid for process in both], [process.communicate(timeout=60)[0] for process in both]


@pytest.mark.parametrize('count', [1, pytest.param(20, marks=pytest.mark.drill)])
def test_H3_of_two_runs_in_one_folder_one_is_refused(whole, tmp_path, count):
  config = run_folder.RunFolder.open(str(whole)).read_config()
  for number in range(count):
    pids, said = race(tmp_path / str(number), config)
    assert sorted(map(bool, said)) == [False, True]
    winner = pids[said.index('')]
    assert f'in use by process {winner} on ' in ''.join(said) or 'in use by another process' in ''.join(said)


# ------------------------------------------------------------------------------------------------------- numbers


def test_C3_what_is_not_finite_is_skipped_and_replays_bit_for_bit(corpus, tmp_path, capsys):
  flags = [*FLAGS, '--config.train.num_steps=100', '--config.optimizer.learning_rate_scale=1e22',
           '--config.train.max_skipped=3', '--config.train.eval_every=1000']
  workdir = tmp_path / 'run'
  with pytest.raises(failures.NonFiniteError, match=r'3 updates in a row|4 updates|5 updates') as caught:
    train.main(options(corpus, workdir, *flags))
  place, = (workdir / 'nonfinite').iterdir()
  step = int(place.name.removeprefix('step_'))
  assert f'--replay={step}' in str(caught.value)
  for number in Checkpoints(str(workdir / 'checkpoints')).steps():
    assert all(np.isfinite(leaf).all() for leaf in saved(workdir, number).values())
  assert train.main(options(corpus, workdir, *flags, f'--replay={step}')) == 0
  assert 'came out the same, bit for bit' in capsys.readouterr().out
  with pytest.raises(failures.NonFiniteError, match='no dump of step 77'):
    train.main(options(corpus, workdir, *flags, '--replay=77'))
