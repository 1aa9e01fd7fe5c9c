"""Ctrl-C, SIGTERM and a closed terminal at any moment of a script's life: an exit code and a sentence, never a traceback, nothing lost."""

import contextlib
import fcntl
import gc
import itertools
import os
import select
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import train
from checks import children, exit_codes, signals
from options.configurations import ROOT
from tests.test_reliability import assert_same_run
from tests.tiny_runs import arguments, options, start
from training import peers, stopping
from training.manifest import Manifest

RESUMES = 'Stopped. The same command resumes from here.\n'
SCRIPTS = {'train': RESUMES, 'recipe': RESUMES, 'sweep': 'Interrupted.\n',
           **dict.fromkeys(('decode', 'visualize', 'analyze', 'compare'), 'Interrupted.\n')}
CODES = signals.stop_codes()


def until_handled(process):
  """Wait until a process handles SIGTERM: then the first line of its script has run."""
  with contextlib.suppress(OSError):  # it may have ended
    while process.poll() is None:
      with open(f'/proc/{process.pid}/status') as file:
        caught = next(int(line.split()[1], 16) for line in file if line.startswith('SigCgt'))
      if caught >> (signal.SIGTERM - 1) & 1:
        return
      time.sleep(0.001)


# Valid flags, so that each script goes on to its imports; none of them gets any further before the signal.
GIVEN = {'train': ['--config=configs/phrasebook.py', '--workdir={}/new'],
         'sweep': ['--config=configs/phrasebook.py', '--workdir={}/new', '--print'],
         'recipe': ['multilingual', '--config=configs/phrasebook.py', '--workdir={}/new', '--languages=de,fr', '--print'],
         'compare': ['{}/a', '{}/b', '{}/c']}

# Python imports a module of this name first of all; with it no script gets beyond its first import of NumPy.
HELD = '''
import sys, time

class Held:
  def find_spec(self, name, *_):
    if name == 'numpy':
      time.sleep(60)

sys.meta_path.insert(0, Held())
'''


@pytest.mark.parametrize('number', CODES)
@pytest.mark.parametrize('script', SCRIPTS)
def test_K1_every_script_ends_at_once_while_it_imports(script, number, tmp_path, tmp_path_factory):
  holding = tmp_path_factory.mktemp('holding')
  (holding / 'sitecustomize.py').write_text(HELD)
  arguments = [word.format(tmp_path) for word in GIVEN.get(script, ['--workdir={}/none'])]
  process = subprocess.Popen([sys.executable, f'{script}.py', *arguments], cwd=ROOT, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             env=os.environ | {'PYTHONPATH': str(holding)})
  until_handled(process)
  time.sleep(0.3 if number == signal.SIGINT else 0)
  process.send_signal(number)
  out, errors = process.communicate(timeout=60)
  assert (process.returncode, out, errors) == (CODES[number], '', SCRIPTS[script])
  assert not list(tmp_path.iterdir())


IN_NATIVE_CODE = '''
from checks import signals
signals.end_at_once('ended')
import ctypes
mutex = ctypes.create_string_buffer(64)
lock = ctypes.CDLL(None).pthread_mutex_lock
lock(mutex)
print('locked', flush=True)
lock(mutex)  # never returns, and no handler in Python runs
'''

TWICE = '''
import os, signal
from training.stopping import StopRequest
with StopRequest():
  os.kill(os.getpid(), signal.SIGINT)
  print('asked', flush=True)
  os.kill(os.getpid(), signal.SIGINT)
  print('went on', flush=True)
'''

AT_THE_END = '''
from checks import signals
signals.end_at_once('ended')
import os, signal

class Last:
  def __del__(self, kill=os.kill, process=os.getpid(), number=signal.SIGTERM):
    kill(process, number)
    print('closed', flush=True)

last = Last()  # deleted when the interpreter no longer runs handlers
'''


def test_a_signal_while_the_interpreter_closes_changes_nothing():
  done = subprocess.run([sys.executable, '-c', AT_THE_END], cwd=ROOT, capture_output=True, text=True, timeout=60)
  assert (done.returncode, done.stdout, done.stderr) == (0, 'closed\n', '')


def test_K1_an_end_at_once_waits_for_no_native_code():
  process = subprocess.Popen([sys.executable, '-c', IN_NATIVE_CODE], cwd=ROOT, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
  try:
    assert process.stdout.readline() == 'locked\n'
    time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=10)[1] == 'ended\n' and process.returncode == exit_codes.PREEMPTED
  finally:
    process.kill()


def test_K1_a_second_ctrl_c_ends_at_once():
  done = subprocess.run([sys.executable, '-c', TWICE], cwd=ROOT, capture_output=True, text=True, timeout=60)
  assert (done.returncode, done.stdout) == (exit_codes.INTERRUPTED, 'asked\n')
  assert done.stderr == 'Ended at once. The same command resumes from the last checkpoint.\n'


def begin_in_a_terminal(*command):
  """Start a command in a terminal of its own; return its process id, and the terminal's other end."""
  pty = pytest.importorskip('pty')
  process, terminal = pty.fork()
  if not process:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.chdir(ROOT)
    os.execv(sys.executable, [sys.executable, *command])
  return process, terminal


def close_when(is_ready, process, terminal):
  """Close a terminal once is_ready(what it shows); return the exit code of the process in it."""
  shown, late = b'', threading.Timer(100, os.kill, (process, signal.SIGKILL))
  late.start()
  while not is_ready(shown):
    if select.select([terminal], [], [], 0.05)[0]:
      shown += os.read(terminal, 1024)
  os.close(terminal)
  code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
  late.cancel()
  return code


def test_K1_a_run_whose_terminal_closes_is_saved(corpus, tmp_path):
  words = arguments(corpus, tmp_path / 'run', *FLAGS, '--config.train.num_steps=100000',
                    '--config.train.eval_every=100000', '--config.train.checkpoint_every=100000')
  has_measured = lambda _: os.path.exists(tmp_path / 'run' / 'metrics.jsonl')
  assert close_when(has_measured, *begin_in_a_terminal(*words)) == exit_codes.PREEMPTED
  assert Manifest(str(tmp_path / 'run')).checkpoints()


IN_A_TERMINAL = """
import sys
from checks import children
children.POLL_SECONDS, number = 0.05, iter(range(10**9))
child = '''
import pathlib, signal, sys, time
def save(*_): pathlib.Path(sys.argv[1]).touch(); sys.exit(143)
signal.signal(signal.SIGTERM, save)
print("ready to be stopped")
time.sleep(60)
'''
with children.stop_signals() as stops:
  try:
    children.run([sys.executable, '-c', child, sys.argv[1]], 'x', sys.argv[1] + '.log', children.Echo(lambda: str(next(number))), stops)
  except children.StopAsked:
    sys.exit(stops.exit_code)
"""


def test_K4_a_sweep_or_recipe_whose_terminal_closes_lets_its_child_save(tmp_path):
  process = begin_in_a_terminal('-c', IN_A_TERMINAL, str(tmp_path / 'saved'))
  assert close_when(lambda shown: b'to be stopped' in shown, *process) == exit_codes.PREEMPTED and (tmp_path / 'saved').exists()


HUNG_UP = '''
import os, signal
from training.stopping import StopRequest
with StopRequest() as stop:
  os.kill(os.getpid(), signal.SIGHUP)
raise SystemExit(stop.exit_code)
'''


@pytest.mark.parametrize('ignored', [True, False])
def test_under_nohup_a_closed_terminal_changes_nothing(ignored):
  before = signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
  try:
    done = subprocess.run([sys.executable, '-c', HUNG_UP], cwd=ROOT, timeout=60)
    assert done.returncode == (exit_codes.DONE if ignored else exit_codes.PREEMPTED)
  finally:
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize('wait', [lambda stop, block: stop.run(block), lambda stop, block: next(stop.each(iter(block, 0)))])
def test_K1_a_signal_within_a_callback_of_the_garbage_collector_is_not_lost(wait):
  """Python swallows what a handler raises there. The collection runs in the main thread, while that waits."""
  sent, raised = [], []

  def block():
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGALRM)
    time.sleep(10)

  def collected(phase, info):
    if not sent:
      sent.append(phase)
      try:
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(100):  # the handler runs between two of these
          pass
      except BaseException as error:
        raised.append(error)

  gc.freeze()  # what other tests left behind, millions of objects, would take seconds to look through
  before, began = signal.signal(signal.SIGALRM, lambda *_: gc.collect()), time.monotonic()
  try:
    with stopping.StopRequest() as stop, pytest.raises(stopping.Stopped):
      gc.collect()
      gc.callbacks.append(collected)
      wait(stop, block)
  finally:
    gc.callbacks.remove(collected)
    signal.signal(signal.SIGALRM, before)
    gc.unfreeze()
  assert sent and not raised and stop.exit_code == exit_codes.INTERRUPTED and time.monotonic() - began < 10


def test_items_come_in_order_up_to_an_error_or_the_end():
  with stopping.StopRequest() as stop:
    assert list(stop.each(iter(range(1000)))) == list(range(1000))
    items = stop.each(1 / number for number in (1, 2, 0))
    assert list(itertools.islice(items, 2)) == [1.0, 0.5]
    with pytest.raises(ZeroDivisionError):
      next(items)


def test_no_thread_is_left_when_items_are_no_longer_wanted():
  before = set(threading.enumerate())
  with stopping.StopRequest() as stop:
    items = stop.each(itertools.count())
    assert [next(items), next(items)] == [0, 1]
    items.close()
  for thread in set(threading.enumerate()) - before:
    thread.join(10)
    assert not thread.is_alive()


def test_a_sweep_or_recipe_that_waits_for_another_process_stops(tmp_path):
  told = []
  with open(tmp_path / 'lock', 'w') as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM)).start()
    with pytest.raises(children.StopAsked, match='The process that it waited for goes on'), children.stop_signals() as stops:
      children.wait_until_free(str(tmp_path / 'lock'), stops, lambda: told.append('waiting'))
  assert told == ['waiting'] and stops.exit_code == exit_codes.PREEMPTED


SAVING = '''
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print('error: no room for it', flush=True), sys.exit(int(sys.argv[2]))))
pathlib.Path(sys.argv[1]).touch()
time.sleep(60)
'''


@pytest.mark.parametrize('code, told', [(exit_codes.PREEMPTED, ''), (exit_codes.DONE, ''), (
    exit_codes.CHECKPOINT, '\nIts process FAILED with exit code 5: error: no room for it\n    its output is in {log}')])
def test_a_sweep_or_recipe_tells_what_could_not_be_saved(tmp_path, code, told):
  log, begun = str(tmp_path / 'log'), tmp_path / 'begun'

  class Stopping(children.NewestLine):

    def update(self):
      if begun.exists() and not stops.are_asked:
        os.kill(os.getpid(), signal.SIGTERM)

  with pytest.raises(children.StopAsked) as raised, children.stop_signals() as stops:
    children.run([sys.executable, '-c', SAVING, str(begun), str(code)], 'it', log, Stopping('it'), stops)
  assert str(raised.value) == told.format(log=log) and stops.exit_code == exit_codes.PREEMPTED


@pytest.mark.parametrize('code, told', [
    (exit_codes.PREEMPTED, 'STOPPED'), (-signal.SIGTERM, 'STOPPED'), (exit_codes.CHECKPOINT, 'FAILED'), (-signal.SIGKILL, 'FAILED')])
def test_a_sweep_or_recipe_tells_a_stop_of_its_child_alone_from_a_failure(code, told):
  assert children.unfinished(code, 'error: no room').startswith(told)


COUNTING = '''
import pathlib, signal, sys, time
seen = []
signal.signal(signal.SIGINT, lambda *_: seen.append(time.monotonic()))
pathlib.Path(sys.argv[1], str(time.time_ns())).touch()
while not seen or time.monotonic() < seen[-1] + 2:
  time.sleep(0.01)
sys.exit(10 + len(seen))
'''


@pytest.mark.parametrize('codes, expected', [
    ((0, 0), 0), ((-6, -9), 134), ((-9, -6), 134), ((-6, 5), 5), ((0, -9), 137), ((143, 143), 143), ((9, -6, 7), 9)])
def test_the_launcher_ends_as_its_processes_do(codes, expected):
  assert peers.code_of(codes) == expected


ENDING = f'''
import os, time
if os.environ["{peers.NUMBER}"] == "1":
  raise SystemExit({exit_codes.CHECKPOINT})
time.sleep(0.5)
os.abort()
'''


@pytest.mark.parametrize('words', [['--count=2'], ['--count=0', 'train.py']])
def test_the_launcher_wants_a_script_and_processes(words):
  done = subprocess.run([sys.executable, '-m', 'training.peers', *words], cwd=ROOT, capture_output=True, text=True, timeout=60)
  assert done.returncode == 2 and done.stderr.endswith('as in: --count=2 train.py --config=…\n')


def test_the_launcher_names_the_process_that_ended_first(tmp_path):
  (tmp_path / 'ending.py').write_text(ENDING)
  launcher = subprocess.run([sys.executable, '-m', 'training.peers', '--count=2', f'{tmp_path}/ending.py'], cwd=ROOT,
                            timeout=60, text=True, stderr=subprocess.PIPE)
  assert launcher.returncode == exit_codes.CHECKPOINT
  assert 'process 1 of 2 ended first, with exit code 5: a checkpoint that is missing' in launcher.stderr


def test_a_process_that_nobody_joins_says_that_it_waits():
  script = 'from training import peers; peers._PATIENCE = 0.2; peers.join(10)'
  command = peers.commands(2, ['-c', script])[0]
  child = subprocess.Popen(command.arguments, env=command.environment, cwd=ROOT, text=True, stderr=subprocess.PIPE)
  try:
    assert child.stderr.readline().startswith('Waiting for the other processes of the run. One that has ended')
    assert child.poll() is None
  finally:
    child.kill()
    child.wait()


def test_a_ctrl_c_on_the_launcher_s_terminal_reaches_each_process_once(tmp_path):
  (tmp_path / 'counting.py').write_text(COUNTING)
  launcher = subprocess.Popen([sys.executable, '-m', 'training.peers', '--count=2', f'{tmp_path}/counting.py',
                               str(tmp_path)], cwd=ROOT, start_new_session=True)
  try:
    while len(list(tmp_path.iterdir())) < 3:
      assert launcher.poll() is None
      time.sleep(0.02)
    for _ in range(4):
      os.killpg(launcher.pid, signal.SIGINT)  # as a terminal does
      time.sleep(0.3)
    assert launcher.wait(timeout=30) == 10 + 4
  finally:
    launcher.kill()


FLAGS = ['--config.train.average_last=1', '--config.train.batch_tokens=1024', '--config.mesh.data=1',
         '--config.train.num_steps=10']


@pytest.mark.drill
def test_K1_drill_of_signals_from_the_first_line_to_the_end(corpus, tmp_path):
  """A hundred signals, or as many as the environment's SIGNALS says, at random times; runs are made until all are sent."""
  draw, count, codes, finished = np.random.default_rng(15), int(os.environ.get('SIGNALS', '100')), [], 0
  assert train.main(options(corpus, tmp_path / 'whole', *FLAGS)) == 0
  began = time.monotonic()
  assert start(corpus, tmp_path / 'timed', *FLAGS).wait(timeout=300) == 0
  lasts = time.monotonic() - began
  while len(codes) < count:
    sent, workdir = list(CODES)[len(codes) % len(CODES)], tmp_path / str(finished)
    process = start(corpus, workdir, *FLAGS)
    until_handled(process)
    with contextlib.suppress(subprocess.TimeoutExpired):
      process.wait(draw.uniform(0, lasts))
    in_time = process.poll() is None
    process.send_signal(sent)
    out, errors = process.communicate(timeout=60)
    if in_time:
      codes.append(process.returncode)
      print(f'{len(codes)}: {sent.name} {codes[-1]} {(out + errors).strip().splitlines()[-1:]}', flush=True)
    assert process.returncode in (0, CODES[sent] if in_time else 0), errors
    assert 'Traceback' not in errors and 'xception' not in errors, errors
    if process.returncode == 0:
      assert_same_run(tmp_path / 'whole', workdir)
      finished += 1
  print({code: codes.count(code) for code in set(codes)}, f'{finished} runs finished meanwhile')
  assert set(CODES.values()) <= set(codes)
  assert train.main(options(corpus, tmp_path / str(finished), *FLAGS)) == 0
  assert_same_run(tmp_path / 'whole', tmp_path / str(finished))
