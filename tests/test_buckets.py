"""Promise Z3: a run in a bucket keeps what a run on a disk keeps. Its bucket is a server on this machine."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import decode
import tasks
import train
import visualize
from benchmarks import run_cards
from checks import bucket, cache_root, exit_codes, files, lease
from checks.errors import ConfigError, DamagedError, DataError, FileError
from checks.storage import Busy
from configs import default
from options import decode_options, visualize_options
from options.configurations import ROOT
from tests.test_reliability import noted_batches
from tests.tiny_runs import ANNOUNCED, CLOCKS, PHASES, arguments, metrics, options, saved
from training import failures, peers
from training.checkpoint import Checkpoints
from training.metrics import Metrics
from training.run_folder import FolderBusyError, RunFolder

pytestmark = pytest.mark.skipif(any(importlib.util.find_spec(name) is None for name in ('gcsfs', 'gcp_storage_emulator')),
                                reason='gcsfs or gcp-storage-emulator is not installed')
BUCKET, STEPS = 'bucket', 8
FLAGS = ['--config.train.average_last=1', '--config.train.batch_tokens=1024', '--config.mesh.data=1']
LENGTH = f'--config.train.num_steps={STEPS}'


@pytest.fixture(scope='module')
def server():
  from tests.bucket_server import BucketServer  # which needs them
  with pytest.MonkeyPatch.context() as patch, BucketServer() as found:
    for name, value in found.environment.items():
      patch.setenv(name, value)
    yield found


@pytest.fixture(autouse=True)
def undisturbed(server):
  yield
  server.cut_uploads(None)
  server.refusal = None


@pytest.fixture(scope='module')
def whole(corpus, tmp_path_factory):
  """The folder of a run on a disk that nothing disturbed."""
  workdir = tmp_path_factory.mktemp('buckets') / 'whole'
  assert train.main(options(corpus, workdir, *FLAGS, LENGTH)) == 0
  return workdir


@pytest.fixture(scope='module')
def again(server, corpus):
  """The number of uploads of the run `again` that were cut off and had to be made again. Tests copy it to change it."""
  before = server.num_cut
  server.cut_uploads(r'again/(checkpoints/4/state/|metrics)', times=1)
  assert train.main(options(corpus, address('again'), *FLAGS, LENGTH)) == 0
  server.cut_uploads(None)
  return server.num_cut - before


def address(name):
  return f'gs://{BUCKET}/{name}'


def start(corpus, workdir, *more, script=('train.py',)):
  """The run as a process of its own, which says what it prints in one stream."""
  command = [sys.executable, *script, *arguments(corpus, workdir, *FLAGS, *more)[1:]]
  return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={**os.environ, 'PYTHONUNBUFFERED': '1'})


def wait_for(there, process, seconds=90):
  until = time.monotonic() + seconds
  while not there():
    assert process.poll() is None, process.stdout.read()
    assert time.monotonic() < until
    time.sleep(0.02)


def assert_same_run(server, whole, name):
  """The run in the bucket has the arrays and the metrics of the one on the disk."""
  first, second = saved(whole, STEPS), saved(address(name), STEPS)
  assert first.keys() == second.keys() and len(first) > 50
  for leaf in first:
    np.testing.assert_array_equal(first[leaf], second[leaf], err_msg=leaf)
  lines = [json.loads(line) for line in server.read(f'{name}/metrics.jsonl').splitlines()]
  assert metrics(whole) == [{k: v for k, v in line.items() if k not in CLOCKS} for line in lines]


@pytest.mark.long
def test_R1_K3_a_run_killed_in_the_middle_of_an_upload_goes_on_as_if_nothing_had_happened(server, corpus, whole, capsys):
  workdir, cut = address('killed'), server.num_cut
  server.cut_uploads(r'killed/checkpoints/6/state/')
  process = start(corpus, workdir, '--config.train.num_steps=100000')
  wait_for(lambda: server.num_cut > cut, process)
  process.kill()
  process.communicate()
  server.cut_uploads(None)
  assert server.objects('killed/checkpoints/6/')  # a part of it is there …
  checkpoints = Checkpoints(RunFolder(workdir).checkpoints)
  assert checkpoints.steps() == [2, 4] and checkpoints.damage(4) is None  # … and counts for nothing
  assert 'killed/lock' in server.objects()
  assert train.main(options(corpus, workdir, *FLAGS, LENGTH)) == 0
  said = capsys.readouterr()
  assert 'resuming from step 4' in said.out and 'waiting up to' not in said.err
  assert_same_run(server, whole, 'killed')
  assert 'killed/lock' not in server.objects() and not RunFolder.open(workdir).manifest.problems()
  assert not os.path.exists('gs:') and os.listdir(os.path.join(cache_root.root(), 'data'))


@pytest.mark.drill
@pytest.mark.parametrize('seed', range(3))
def test_R1_K3_drill(server, corpus, whole, seed):
  """Each run is killed four times at random."""
  draw, workdir = np.random.default_rng(seed), address(f'random{seed}')
  for _ in range(4):
    process = start(corpus, workdir, LENGTH)
    time.sleep(draw.uniform(4, 16))
    process.kill()
    process.communicate()
  assert train.main(options(corpus, workdir, *FLAGS, LENGTH)) == 0
  assert_same_run(server, whole, f'random{seed}')


@pytest.mark.long
def test_R2_no_batch_is_repeated_or_lost_and_scripts_read_the_run(server, corpus, whole, tmp_path, monkeypatch):
  ledger = noted_batches(monkeypatch)
  prepared, prepare = [], train.prepare
  monkeypatch.setattr(train, 'prepare', lambda *inputs: prepared.append(prepare(*inputs)) or prepared[-1])
  workdir = address('parts')
  for steps in (3, STEPS):
    train.main(options(corpus, workdir, *FLAGS, f'--config.train.num_steps={steps}',
                       '--config.train.watch_attention=samples'))
  plan = prepared[0][1].batches
  assert 2 * plan.batches_per_epoch < STEPS
  assert ledger == [(step, failures.fingerprint(plan.batch_at(step))) for step in range(STEPS)]
  assert_same_run(server, whole, 'parts')

  (tmp_path / 'in').write_text('the dog\ntwo cat tree\n')
  for place, name in ((workdir, 'bucket'), (whole, 'disk')):
    decode.main(decode_options.parse(['decode.py', f'--workdir={place}', f'--input={tmp_path}/in',
                                      f'--output={tmp_path}/{name}'], ''))
  assert (tmp_path / 'bucket').read_text() == (tmp_path / 'disk').read_text()
  card, other = map(run_cards.card_of, (workdir, str(whole)))
  assert (card.scores, card.step) == (other.scores, STEPS) and len(card.sums) == 3
  visualize.main(visualize_options.parse(['visualize.py', f'--workdir={workdir}', '--training',
                                          f'--output={tmp_path}/page.html'], ''))
  assert (tmp_path / 'page.html').stat().st_size > 10_000
  assert {'parts/samples/step_00000004.txt', 'parts/attention/step_00000008.npz',
          'parts/results.json'} <= {*server.objects('parts/')}
  assert not server.objects('parts/tensorboard') and os.listdir(RunFolder(workdir).tensorboard)


@pytest.mark.long
def test_C1_a_changed_byte_is_found_and_named(server, corpus, whole, again, capsys):
  workdir = address('spoilt')
  server.copy('again', 'spoilt')
  name = max(server.objects(f'spoilt/checkpoints/{STEPS}/state/'), key=lambda name: len(server.read(name)))
  content = bytearray(server.read(name))
  content[len(content) // 2] ^= 1
  server.overwrite(name, bytes(content))
  short = name.removeprefix(f'spoilt/checkpoints/{STEPS}/')
  with pytest.raises(DamagedError, match=f'checkpoint {STEPS} in {workdir}/checkpoints is damaged: {short} has changed'):
    tasks.load(workdir, checkpoint=str(STEPS))
  server.remove('spoilt/results.json')  # or there would be nothing left to do
  assert train.main(options(corpus, workdir, *FLAGS, LENGTH)) == 0
  out = capsys.readouterr().out
  assert f'checkpoint {STEPS} is damaged ({short} has changed since it was saved)' in out
  assert f'resuming from step {STEPS - 2}' in out and server.read(f'spoilt/damaged/{STEPS}/{short}') == content
  assert_same_run(server, whole, 'spoilt')


@pytest.mark.drill
def test_C1_drill(server, again):
  """Each object of a checkpoint is flipped, cut short, emptied and deleted."""
  workdir = address('spoiling')
  server.copy('again', 'spoiling')
  checkpoints, names = Checkpoints(RunFolder(workdir).checkpoints), server.objects(f'spoiling/checkpoints/{STEPS}/')
  assert checkpoints.damage(STEPS) is None and len(names) > 10
  for name in names:
    content, short = server.read(name), name.removeprefix(f'spoiling/checkpoints/{STEPS}/')
    for spoilt in (bytes([content[0] ^ 1]) + content[1:], content[:-1], b''):
      server.overwrite(name, spoilt)
      assert checkpoints.damage(STEPS) == f'{short} has changed since it was saved'
    server.remove(name)
    assert checkpoints.damage(STEPS) == f'{short} is missing'
    files.of(workdir).write(f'gs://{BUCKET}/{name}', content)
  assert checkpoints.damage(STEPS) is None


@pytest.mark.long
def test_K1_sigterm_saves_and_says_so(server, corpus, whole):
  workdir = address('stopped')
  process = start(corpus, workdir, '--config.train.num_steps=100000', '--config.train.checkpoint_every=100000',
                  '--config.train.eval_every=100000')
  wait_for(lambda: server.objects('stopped/metrics.jsonl') or 'step' in process.stdout.readline(), process)
  began = time.monotonic()
  process.send_signal(signal.SIGTERM)
  out, _ = process.communicate(timeout=60)
  assert process.returncode == exit_codes.PREEMPTED and 'The same command resumes from here' in out
  assert time.monotonic() - began < 10
  assert server.objects('stopped/checkpoints/') and 'stopped/lock' not in server.objects()


@pytest.mark.drill
@pytest.mark.parametrize('sent, code', [(signal.SIGTERM, exit_codes.PREEMPTED), (signal.SIGINT, exit_codes.INTERRUPTED)])
@pytest.mark.parametrize('number', range(len(PHASES)))
def test_K1_drill(server, corpus, whole, number, sent, code):
  """A signal in every phase; what it stopped goes on to the same arrays."""
  name = f'phase{number}-{code}'
  process = start(corpus, address(name), LENGTH, script=('-c', ANNOUNCED, PHASES[number]))
  while 'PHASE' not in process.stdout.readline():
    assert process.poll() is None
  began = time.monotonic()
  process.send_signal(sent)
  out, _ = process.communicate(timeout=60)
  assert process.returncode == code and 'The same command resumes' in out and 'Traceback' not in out, out
  assert time.monotonic() - began < 10 and f'{name}/lock' not in server.objects()
  assert train.main(options(corpus, address(name), *FLAGS, LENGTH)) == 0
  assert_same_run(server, whole, name)


@pytest.mark.long
def test_uploads_that_are_cut_off_are_made_again(server, whole, again):
  assert again > 3
  assert_same_run(server, whole, 'again')


def test_an_upload_that_never_arrives_leaves_what_was_there(server, monkeypatch):
  monkeypatch.setattr('gcsfs.retry.min', lambda *_: 0.01, raising=False)  # seconds between its attempts
  storage, path = files.of(address('never')), f'{address("never")}/file'
  storage.write(path, 'first')
  lines = storage.lines(f'{address("never")}/lines')
  server.cut_uploads('never/')
  with pytest.raises(FileError, match=f'{path} cannot be read or written: .*; look at the network, and give the same'):
    storage.write(path, 'second')
  monkeypatch.setattr(bucket, '_UPLOAD_SECONDS', 0.0)
  lines.write('one\n')  # training does not end for that …
  with pytest.raises(FileError, match='never/lines cannot be read or written'):
    lines.settle()  # … unless a checkpoint relies on it
  server.cut_uploads(None)
  assert storage.read(path) == b'first' and storage.names(address('never')) == ['file']
  lines.close()
  assert storage.read(f'{address("never")}/lines') == b'one\n'


# ------------------------------------------------------------------------------------------------------ the lease

HOLD = '''
import sys, time
from checks import files, lease
lease.RENEWAL = float(sys.argv[2])
claim = files.of(sys.argv[1]).claim(sys.argv[1])
print('held', flush=True)
time.sleep(60)
'''


def hold(workdir, renewal=5.0):
  """A process that holds the lease on a folder."""
  process = subprocess.Popen([sys.executable, '-c', HOLD, workdir, str(renewal)], cwd=ROOT, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
  assert process.stdout.readline() == 'held\n'
  return process


def test_H3_a_second_run_is_refused_and_a_dead_one_on_this_host_does_not_hold_it(server, corpus, capsys):
  workdir = address('held')
  process = hold(workdir)
  try:
    with pytest.raises(FolderBusyError, match=f'held is in use by process {process.pid} on '):
      train.main(options(corpus, workdir, *FLAGS, LENGTH))
    assert server.objects('held/') == ['held/lock']
  finally:
    process.kill()
    process.wait()
  with RunFolder(workdir).locked():
    assert 'waiting up to' not in capsys.readouterr().err and json.loads(server.read('held/lock'))['pid'] == os.getpid()
    with pytest.raises(FolderBusyError, match=f'process {os.getpid()} on'):
      RunFolder(workdir).locked()
  assert not server.objects('held/')


def elsewhere(server, name, **other):
  """Let the lease of a folder be that of a process on another host."""
  holder = {'host': 'elsewhere', 'boot': 'another', 'pid_namespace': '', 'pid': 7, 'started': '1', 'token': 'its own'}
  files.of(address(name)).write(f'{address(name)}/lock', json.dumps(holder | other))


def test_a_lease_of_another_host_is_waited_for(server, monkeypatch, capsys):
  monkeypatch.setattr(lease, 'EXPIRY', 2.0)
  monkeypatch.setattr(lease, '_POLL', 0.1)
  elsewhere(server, 'far')
  began = time.monotonic()
  with RunFolder(address('far')).locked():  # never renewed: the process is dead
    waited = time.monotonic() - began
    assert 0.5 < waited < 15 and json.loads(server.read('far/lock'))['pid'] == os.getpid()
  said = capsys.readouterr().err
  assert said.count('\n') == 1 and f'{address("far")} is in use by process 7 on elsewhere, or was until that died' in said
  elsewhere(server, 'far')
  time.sleep(3.2)
  with RunFolder(address('far')).locked():  # nobody has renewed it for longer than that: no need to wait
    assert not capsys.readouterr().err

  ended = threading.Event()
  renewing = threading.Thread(target=lambda: [elsewhere(server, 'far') for _ in iter(lambda: ended.wait(0.5), True)])
  elsewhere(server, 'far')
  renewing.start()
  try:
    with pytest.raises(FolderBusyError, match='far is in use by process 7 on elsewhere'):
      RunFolder(address('far')).locked()
  finally:
    ended.set()
    renewing.join()
  # The same host after it was started anew, and the same number in another container, are other processes.
  elsewhere(server, 'far', host=lease.socket.gethostname(), pid=os.getpid())
  with RunFolder(address('far')).locked():
    assert 'waiting up to' in capsys.readouterr().err


def test_of_several_processes_one_gets_the_lease(server):
  storage, got = files.of(address('raced')), []

  def race(number):
    try:
      got.append(storage.claim(f'{address("raced")}/{number // 8}'))
    except Busy:
      pass

  for first in range(0, 80, 8):  # ten races of eight
    racers = [threading.Thread(target=race, args=(number,)) for number in range(first, first + 8)]
    [racer.start() for racer in racers]
    [racer.join() for racer in racers]
  assert len(got) == 10
  for claim in got:
    claim.release()


def test_a_process_that_has_lost_its_lease_ends(server):
  process = hold(address('lost'), renewal=0.2)
  before = server.generation('lost/lock')
  wait_for(lambda: server.generation('lost/lock') != before, process)  # it renews it
  elsewhere(server, 'lost')
  assert process.wait(timeout=20) == exit_codes.FOLDER_BUSY
  assert f'{address("lost")} was taken over by process 7 on elsewhere' in process.stdout.read()


# ------------------------------------------------------------------------------------------------- several processes


@pytest.mark.long
def test_two_processes_that_share_no_disk_train_into_one_bucket(server, corpus, whole, tmp_path):
  steps = 4
  command = arguments(corpus, address('two'), *FLAGS[:2], f'--config.train.num_steps={steps}')
  children = []
  for number, child in enumerate(peers.commands(2, command, {**os.environ, 'JAX_NUM_CPU_DEVICES': '1'})):
    environment = child.environment | {'XDG_CACHE_HOME': str(tmp_path / f'host{number}')}
    children.append(subprocess.Popen(child.arguments, env=environment, cwd=ROOT, stdout=subprocess.PIPE,
                                     stderr=subprocess.STDOUT, text=True))
  told = [child.communicate(timeout=200)[0] for child in children]
  assert [child.returncode for child in children] == [0, 0], told
  lines = [json.loads(line) for line in server.read('two/metrics.jsonl').splitlines()]
  losses = lambda found: {line['step']: line['train/loss'] for line in found
                          if 'train/loss' in line and line['step'] <= steps}
  first, second = losses(metrics(whole)), losses(lines)
  assert first.keys() == second.keys() and steps in first
  np.testing.assert_allclose([*first.values()], [*second.values()], atol=1e-4)
  for number in range(2):
    assert os.listdir(tmp_path / f'host{number}' / cache_root.NAME / 'data')  # each has tokenised the text
  checkpoints = Checkpoints(RunFolder(address('two')).checkpoints)
  assert checkpoints.steps()[-1] == steps and checkpoints.damage(steps) is None


# -------------------------------------------------------------------------------------------------- what may be wrong


def test_mistakes_are_told_in_a_sentence(server, corpus, monkeypatch):
  with pytest.raises(ConfigError, match='gs://nowhere/run: there is no bucket nowhere; make it'):
    train.main(options(corpus, 'gs://nowhere/run', *FLAGS, LENGTH))
  with pytest.raises(ConfigError, match=f'gs://{BUCKET}/none is not a run: it holds no config.json'):
    RunFolder.open(address('none'))
  with pytest.raises(DataError):  # found while the run is prepared: nothing of it is left
    train.main(options(corpus, address('gone'), *FLAGS, LENGTH, '--config.data.directory=/nowhere'))
  assert not server.objects('gone')
  server.refusal = 403
  with pytest.raises(ConfigError, match='may not be read with the credentials that were found .*log in'):
    RunFolder.open(address('none'))
  with pytest.raises(FileError, match='none/x cannot be read or written: .*roles Storage Object User'):
    files.of(address('none')).read(f'{address("none")}/x')
  for path in ('s3://bucket/run', 'gs://', 'https://bucket/run'):
    with pytest.raises(ConfigError, match='expected a folder on a disk, or in a bucket'):
      RunFolder(path)


@pytest.mark.parametrize('script, words', [
    (['sweep.py', '--config=configs/ablation.py'], '--workdir=gs://bucket/run: expected a folder on a disk; a sweep'),
    (['recipe.py', 'multilingual', '--config=configs/toy.py', '--languages=de,fr'],
     "--workdir=gs://bucket/run: expected a folder on a disk, where the stages find each other's files"),
    (['recipe.py', 'distil', '--config=configs/toy.py', '--teachers=gs://bucket/x'],
     '--teachers=gs://bucket/x: expected a run on a disk; copy it there first'),
    (['convert.py', 'import', '--from=x'], '--workdir=gs://bucket/run: expected a folder on a disk; only train.py')])
def test_scripts_that_need_a_disk_say_so(script, words):
  found = subprocess.run([sys.executable, *script, '--workdir=gs://bucket/run'], cwd=ROOT, capture_output=True, text=True)
  assert found.returncode == exit_codes.CONFIG and words in found.stderr


def test_a_package_that_is_not_installed_is_named(monkeypatch):
  monkeypatch.setitem(sys.modules, 'gcsfs', None)
  files._bucket.cache_clear()
  with pytest.raises(ConfigError, match=r'needs the package gcsfs, which is not installed .*: pip install gcsfs'):
    RunFolder(address('run'))


@pytest.fixture(params=['disk', 'bucket'])
def place(request, server, tmp_path):
  return str(tmp_path) if request.param == 'disk' else address('place')


def test_what_an_attempt_has_removed_whose_answer_was_lost_is_removed(server, monkeypatch):
  """gcsfs repeats a request after an error of the service; of an object that is gone the second answer is "not found"."""
  storage, path = files.of(address('gone')), address('gone')
  once = storage._files.rm_file

  def twice(name):
    once(name)
    once(name)

  monkeypatch.setattr(storage._files, 'rm_file', twice)
  for name in ('a', 'b/c', 'b/d'):
    storage.write(f'{path}/{name}', b'x')
  storage.remove(f'{path}/a')
  storage.move(f'{path}/b', f'{path}/e')
  assert [*storage.sums_of(path)] == ['e/c', 'e/d']
  storage.remove_folder(path)
  assert storage.sums_of(path) == {} and storage.probe(path) is None


def test_an_empty_object_is_a_folder_for_people_alone(server):
  storage, path = files.of(address('made')), address('made')
  storage.write(f'{path}/', b'')  # as Google's pages make a folder
  assert storage.names(path) == [] and not storage.is_folder(path) and storage.sums_of(path) == {}
  storage.write(f'{path}/x', b'')
  assert storage.names(path) == ['x'] and [*storage.sums_of(path)] == ['x']


def test_begin_anew_sets_the_history_aside(place):
  with RunFolder(place).create_or_resume(default.get_config().to_dict()) as folder:
    for path in (os.path.join(folder.checkpoints, '2', 'state'), folder.metrics):
      folder.files.make_folder(os.path.dirname(path))
      folder.files.write(path, b'{"step": 2}\n')
    folder.manifest.record_checkpoint(2, {'files': folder.files.sums_of(f'{folder.checkpoints}/2'), 'metrics': None}, [2])
  for number in (1, 2):
    with RunFolder(place).create_or_resume(default.get_config().to_dict(), anew=True) as folder:
      assert not folder.manifest.checkpoints() and not folder.has(folder.metrics)
      assert not folder.files.names(folder.checkpoints)
  earlier = os.path.join(place, 'earlier')
  assert folder.files.read(f'{earlier}/1/checkpoints/2/state') == folder.files.read(f'{earlier}/1/metrics.jsonl')
  folder.files.remove_folder(place)


def test_a_mistake_beside_begin_anew_brings_the_history_back(place):
  with RunFolder(place).create_or_resume(default.get_config().to_dict()) as folder:
    folder.files.make_folder(f'{folder.checkpoints}/2')
    folder.files.write(f'{folder.checkpoints}/2/state', b'learnt')
    folder.manifest.record_checkpoint(2, {'files': folder.files.sums_of(f'{folder.checkpoints}/2'), 'metrics': None}, [2])
    folder.write_json(folder.results, {'bleu': 40.0})
  before, listed = folder.files.sums_of(place), folder.manifest.read()
  with RunFolder(place).create_or_resume(default.get_config().to_dict(), anew=True) as folder:
    assert not folder.has(folder.results)
    folder.give_up()
  after = folder.files.sums_of(place)
  changing = {'lock', 'manifest.json'}
  assert {k: v for k, v in after.items() if k not in changing} == {k: v for k, v in before.items() if k not in changing}
  assert folder.manifest.read() == listed and not folder.manifest.check()
  folder.files.remove_folder(place)


def test_events_on_the_hosts_disk_stay_until_training_begins_anew(server):
  anew = lambda: RunFolder(address('events')).create_or_resume(default.get_config().to_dict(), anew=True)
  with RunFolder(address('events')).create_or_resume(default.get_config().to_dict()) as folder:
    for path in (folder.tensorboard, folder.profile):
      os.makedirs(path, exist_ok=True)
      files.of(path).write(os.path.join(path, 'before'), b'')
  there = lambda: [os.path.exists(os.path.join(path, 'before')) for path in (folder.tensorboard, folder.profile)]
  with anew() as again:
    again.give_up()
  assert there() == [True, True]
  with anew() as again:
    Metrics(again, 5).close()  # as where a run goes on
    assert there() == [True, True]
    Metrics(again, 0).close()
  assert there() == [False, False] and os.listdir(folder.tensorboard)


def test_a_disk_and_a_bucket_do_the_same(place):
  storage, at = files.of(place), lambda *names: os.path.join(place, *names)
  storage.make_folder(at('a'))
  for name, content in (('x', b'one'), ('y/z', b''), ('y/ü', b'two' * 1000)):
    storage.make_folder(os.path.dirname(at('a', name)))
    storage.write(at('a', name), content)
    assert storage.read(at('a', name)) == content
  assert storage.names(at('a')) == ['x', 'y'] and storage.names(at('none')) == []
  assert storage.is_file(at('a', 'x')) and not storage.is_file(at('a')) and not storage.is_file(at('none'))
  assert storage.is_folder(at('a', 'y')) and not storage.is_folder(at('none')) and not storage.is_folder(at('a', 'none'))
  sums = storage.sums_of(at('a'))
  assert sums.keys() == {'x', 'y/z', 'y/ü'} and sums['x'] == storage.sum_of(at('a', 'x'))
  storage.move(at('a'), at('b', 'c'))
  assert not storage.is_folder(at('a')) and storage.sums_of(at('b', 'c')) == sums and storage.sums_of(at('a')) == {}
  storage.move(at('b', 'c', 'x'), at('x'))
  storage.remove_folder(at('b'))
  storage.remove_folder(at('b'))
  assert storage.names(place) == ['x']
  with pytest.raises(FileNotFoundError):
    storage.read(at('b', 'c', 'x'))
  lines = storage.lines(at('x'))
  lines.write('\ntwo\n')
  lines.settle()
  assert storage.read(at('x')) == b'one\ntwo\n'
  lines.write('three\n')
  lines.close()
  assert storage.read(at('x')) == b'one\ntwo\nthree\n'
  storage.remove(at('x'))
  assert not storage.is_file(at('x'))
  claim = storage.claim(place)
  with pytest.raises(Busy, match=f'process {os.getpid()} on '):
    storage.claim(place)
  storage.write(at('x'), 'text')
  claim.discard(place)
  claim.release()
  assert storage.names(place) == []
