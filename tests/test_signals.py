"""Ctrl-C and SIGTERM at any moment of a script's life: an exit code and a sentence, never a traceback, nothing lost."""

import contextlib
import gc
import itertools
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import train
from checks import exit_codes
from options.configurations import ROOT
from tests.test_reliability import assert_same_run
from tests.tiny_runs import options, start
from training import stopping

SCRIPTS = {'train': 'Stopped. The same command resumes from here.\n', 'sweep': 'Interrupted.\n',
           **dict.fromkeys(('decode', 'visualize', 'analyze', 'compare'), 'Interrupted.\n')}
CODES = {signal.SIGINT: exit_codes.INTERRUPTED, signal.SIGTERM: exit_codes.PREEMPTED}


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
         'compare': ['{}/a', '{}/b', '{}/c']}


@pytest.mark.parametrize('delay', [0.0, 0.3])
@pytest.mark.parametrize('script', SCRIPTS)
def test_K1_every_script_ends_at_once_while_it_imports(script, delay, tmp_path):
  number = signal.SIGINT if delay else signal.SIGTERM
  arguments = [word.format(tmp_path) for word in GIVEN.get(script, ['--workdir={}/none'])]
  process = subprocess.Popen([sys.executable, f'{script}.py', *arguments], cwd=ROOT, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
  until_handled(process)
  time.sleep(delay)
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


def endless():
  while True:
    yield threading.Event().wait(30)


@pytest.mark.parametrize('wait', [lambda stop: stop.run(threading.Event().wait, 30),
                                  lambda stop: next(stop.each(endless()))])
def test_K1_a_signal_within_a_callback_of_the_garbage_collector_is_not_lost(wait):
  sent = []

  def swallowing(phase, info):
    if threading.current_thread() is threading.main_thread() and not sent:
      sent.append(phase)
      with contextlib.suppress(BaseException):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(100):  # the handler runs between two of these
          pass

  began, often = time.monotonic(), gc.get_threshold()
  with stopping.StopRequest() as stop:
    gc.callbacks.append(swallowing)
    gc.set_threshold(1)
    try:
      with pytest.raises(stopping.Stopped):
        wait(stop)
    finally:
      gc.set_threshold(*often)
      gc.callbacks.remove(swallowing)
  assert sent and stop.exit_code == exit_codes.INTERRUPTED and time.monotonic() - began < 5


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


FLAGS = ['--config.train.average_last=1', '--config.train.batch_tokens=1024', '--config.mesh.data=1',
         '--config.train.num_steps=10']


@pytest.mark.drill
def test_K1_drill_of_signals_from_the_first_line_to_the_end(corpus, tmp_path):
  """A hundred signals, or as many as the environment's SIGNALS says, at random times; runs are made until all are sent."""
  draw, count, codes, finished = np.random.default_rng(15), int(os.environ.get('SIGNALS', '100')), [], 0
  assert train.main(options(corpus, tmp_path / 'whole', *FLAGS)) == 0
  began = time.monotonic()
  assert start(corpus, tmp_path / 'timed', *FLAGS).communicate(timeout=300)[1].count('Traceback') == 0
  lasts = time.monotonic() - began
  for number, sent in enumerate(itertools.islice(itertools.cycle(CODES), count)):
    workdir = tmp_path / str(finished)
    process = start(corpus, workdir, *FLAGS)
    until_handled(process)
    time.sleep(draw.uniform(0, lasts))
    process.send_signal(sent)
    out, errors = process.communicate(timeout=60)
    codes.append(process.returncode)
    print(f'{number}: {sent.name} {codes[-1]} {(out + errors).strip().splitlines()[-1:]}', flush=True)
    assert codes[-1] in (0, CODES[sent]) and 'Traceback' not in errors and 'xception' not in errors, errors
    if codes[-1] == 0:
      assert_same_run(tmp_path / 'whole', workdir)
      finished += 1
  print({code: codes.count(code) for code in set(codes)}, f'{finished} runs finished meanwhile')
  assert len(set(codes)) == 3
  assert train.main(options(corpus, tmp_path / str(finished), *FLAGS)) == 0
  assert_same_run(tmp_path / 'whole', tmp_path / str(finished))
