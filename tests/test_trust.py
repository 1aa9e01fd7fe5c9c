"""C5: whatever file of a finished run is spoiled, the result stays the same or a sentence names the file."""

import collections
import contextlib
import json
import os
import re
import shutil
import signal
import threading

import numpy as np
import pytest

import decode
import train
import visualize
from batching import store as stores
from checks import exit_codes
from checks.disk import Disk
from checks.errors import DamagedError
from options import decode_options, visualize_options
from tests.tiny_runs import options, saved
from training.manifest import Manifest
from training.run_folder import RunFolder

LINES = 'one dog\ntwo cat house\n'


def flip(path, other):
  data = bytearray(path.read_bytes())
  data[len(data) // 2] ^= 4
  path.write_bytes(bytes(data))


SPOILS = {
    'flipped': flip,
    'cut': lambda path, other: path.write_bytes(path.read_bytes()[:-3]),
    'emptied': lambda path, other: path.write_bytes(b''),
    'deleted': lambda path, other: path.unlink(),
    'exchanged': lambda path, other: shutil.copyfile(other, path),
}


def resumed(corpus, run, place):
  assert train.main(options(corpus, run, '--config.train.num_steps=10')) == 0
  results = json.loads((run / 'results.json').read_text())
  return {**saved(run, 10), **{name: value for name, value in results.items() if name != 'seconds'}}


def decoded(corpus, run, place):
  argv = ['decode.py', f'--workdir={run}', f'--input={place}/in', f'--output={place}/out', '--format=jsonl']
  assert decode.main(decode_options.parse(argv, '')) == 0
  return {'text': (place / 'out').read_text()}


def shown(corpus, run, place):
  argv = ['visualize.py', f'--workdir={run}', f'--input={place}/in', f'--output={place}/page.html', '--effects=false']
  assert visualize.main(visualize_options.parse(argv, '')) == 0
  return {'page': (place / 'page.html').read_text().replace(str(run), 'RUN')}


USES = {'train': resumed, 'decode': decoded, 'visualize': shown}


@pytest.fixture(scope='module')
def stranger(corpus, tmp_path_factory):
  """The folder of another run, from which files are taken."""
  workdir = tmp_path_factory.mktemp('trust') / 'stranger'
  assert train.main(options(corpus, workdir, '--config.train.num_steps=8', '--config.seed=1',
                            '--config.vocabulary.size=290')) == 0
  return workdir


@pytest.fixture(scope='module')
def expected(corpus, run, tmp_path_factory):
  """What each use gives with the run as it is."""
  found = {}
  for name, use in USES.items():
    place = tmp_path_factory.mktemp('trust') / name
    shutil.copytree(run, place / 'run')
    (place / 'in').write_text(LINES)
    found[name] = use(corpus, place / 'run', place)
  return found


def outcome(use, corpus, place):
  """Return what a use gives, or the error that it ends with; the file's name has to be in its message."""
  try:
    return USES[use](corpus, place / 'run', place), None
  except Exception as error:
    if not hasattr(error, 'exit_code'):
      raise
    return None, error


def check(use, spoils, corpus, run, stranger, expected, place):
  """Spoil a copy of the run, {file: how}, and use it. Return 'same' or 'named'; anything else fails."""
  shutil.copytree(run, place / 'run')
  (place / 'in').write_text(LINES)
  for name, kind in spoils.items():
    path = place / 'run' / name
    other = stranger / name
    if not other.is_file():  # named by a hash, say: another one of its kind
      kin = sorted(one for one in stranger.rglob('*') if one.is_file() and one.name.split('.')[-1] == path.name.split('.')[-1])
      other = kin[0] if kin else stranger / 'results.json'
    SPOILS[kind](path, other)
  result, error = outcome(use, corpus, place)
  if error is not None:
    assert error.exit_code == exit_codes.CHECKPOINT, (spoils, error)
    assert any(os.path.basename(name) in str(error) for name in spoils), (spoils, error)
    return 'named'
  assert result.keys() == expected[use].keys(), spoils
  for key, value in expected[use].items():
    np.testing.assert_array_equal(result[key], value, err_msg=f'{spoils}: {key}')
  return 'same'


SHORT = [('decode', 'flipped', 'vocabulary.model', 'named'), ('train', 'exchanged', 'vocabulary.model', 'named'),
         ('decode', 'cut', 'config.json', 'named'), ('train', 'deleted', 'config.json', 'named'),
         ('visualize', 'emptied', 'manifest.json', 'named'), ('train', 'exchanged', 'manifest.json', 'named'),
         ('decode', 'deleted', 'manifest.json', 'same'), ('decode', 'deleted', 'results.json', 'named'),
         ('visualize', 'cut', 'words.txt.gz', 'named'), ('train', 'flipped', 'data/*/target.offsets.npy', 'named'),
         ('train', 'exchanged', 'data/*/source.ids.npy', 'named'), ('train', 'emptied', 'data/*/sums.json', 'named'),
         ('train', 'flipped', 'data/*/sums.json', 'named'),
         ('train', 'emptied', 'checkpoints/8/state/_METADATA', 'same'),
         pytest.param('train', 'cut', 'checkpoints/8/metrics/metrics', 'same', marks=pytest.mark.long),
         ('decode', 'cut', 'checkpoints/8/metrics/metrics', 'named'),
         ('visualize', 'emptied', 'checkpoints/8/metrics/metrics', 'named'),
         ('decode', 'exchanged', 'checkpoints/6/metrics/../progress/metadata', 'named'),
         ('train', 'cut', 'metrics.jsonl', 'named')]
# What training makes anew, or never reads.
MADE_ANEW = {'results.json': 'emptied', 'environment.json': 'deleted', 'words.txt.gz': 'flipped',
             'suggestions.json': 'deleted', 'metrics.jsonl': 'deleted', 'samples/test_translations.txt': 'flipped'}


@pytest.mark.parametrize('use, kind, name, what', SHORT, ids=lambda value: value.replace('/', '.'))
def test_C5_a_spoiled_file_is_named_or_changes_nothing(use, kind, name, what, corpus, run, stranger, expected, tmp_path):
  name = str(next(run.glob(os.path.normpath(name))).relative_to(run))
  assert check(use, {name: kind}, corpus, run, stranger, expected, tmp_path) == what


def test_C5_what_training_makes_anew_changes_nothing(corpus, run, stranger, expected, tmp_path):
  assert check('train', MADE_ANEW, corpus, run, stranger, expected, tmp_path) == 'same'  # one by one: the drill


@pytest.mark.drill
@pytest.mark.parametrize('use', USES)
def test_C5_drill(use, corpus, run, stranger, expected, tmp_path):
  counts, wrong = collections.Counter(), []
  names = sorted(str(path.relative_to(run)) for path in run.rglob('*') if path.is_file())
  # Of the checkpoints before the newest one file each: all are alike.
  names = [name for name in names if not name.startswith('checkpoints') or name.startswith('checkpoints/8')
           or name.endswith('progress/metadata')]
  for number, name in enumerate(names):
    for kind in SPOILS:
      if kind == 'flipped' and not (run / name).stat().st_size:
        continue
      place = tmp_path / f'{number}_{kind}'
      place.mkdir()
      try:
        counts[check(use, {name: kind}, corpus, run, stranger, expected, place)] += 1
      except Exception as error:
        wrong.append((name, kind, error))
      shutil.rmtree(place)
  print(f'{use}: {len(names)} files, {dict(counts)}')
  assert not wrong and counts['named'] > 10 and counts['same'] > 10


def test_C5_history_is_not_begun_anew_unasked(corpus, run, tmp_path, capsys):
  workdir = tmp_path / 'run'
  shutil.copytree(run, workdir)
  shutil.rmtree(workdir / 'checkpoints')  # a disk that is not mounted
  measured = (workdir / 'metrics.jsonl').read_bytes()
  asked = lambda *more: options(corpus, workdir, '--config.train.num_steps=10', *more)
  for listed in (True, False):
    if not listed:
      (workdir / 'manifest.json').unlink()
      shutil.rmtree(workdir / 'checkpoints')
    for _ in range(2):
      with pytest.raises(Exception, match='(?s)checkpoint.*--begin_anew') as error:
        train.main(asked())
      assert error.value.exit_code == exit_codes.CHECKPOINT and (workdir / 'metrics.jsonl').read_bytes() == measured
  assert train.main(asked('--begin_anew')) == 0
  assert (workdir / 'earlier' / '1' / 'metrics.jsonl').read_bytes() == measured
  assert json.loads((workdir / 'metrics.jsonl').read_text().split('\n')[0])['step'] == 2
  whole, again = saved(run), saved(workdir)
  for name in whole:
    np.testing.assert_array_equal(whole[name], again[name], err_msg=name)


def test_C5_a_large_store_is_compared_meanwhile_and_nothing_is_saved_of_a_damaged_one(corpus, run, tmp_path, monkeypatch):
  monkeypatch.setattr(stores, '_VERIFIED_AT_ONCE', 0)
  workdir = tmp_path / 'run'
  shutil.copytree(run, workdir)
  assert train.main(options(corpus, workdir, '--config.train.num_steps=9')) == 0  # a sound one
  place = max((workdir / 'data').glob('*/'), key=lambda store: (store / 'target.ids.npy').stat().st_size)  # of training
  flip(place / 'target.ids.npy', None)
  store = stores.open_folder(place.name, str(workdir / 'data'), lambda place: None)  # at once, as plans need its lengths
  with pytest.raises(DamagedError, match='target.ids.npy'):
    store.verify()
  before = sorted(os.listdir(workdir / 'checkpoints'))
  with pytest.raises(DamagedError, match='target.ids.npy'):
    train.main(options(corpus, workdir, '--config.train.num_steps=12'))
  assert sorted(os.listdir(workdir / 'checkpoints')) == before


def test_C5_a_stop_while_a_large_store_is_compared_ends_without_saving(corpus, run, expected, tmp_path, monkeypatch, capsys):
  workdir, compared, sum_of, verify = tmp_path / 'run', threading.Event(), stores.sum_of, stores.Store.verify
  shutil.copytree(run, workdir)
  place = max((workdir / 'data').glob('*/'), key=lambda store: (store / 'target.ids.npy').stat().st_size)  # of training

  def asked(store, seconds=None):  # before step 10 is saved, and once more when it is given up
    os.kill(os.getpid(), signal.SIGTERM)
    return verify(store, seconds)

  with monkeypatch.context() as patch:
    patch.setattr(stores, '_VERIFIED_AT_ONCE', 0)
    patch.setattr(stores, 'sum_of', lambda path: path == f'{place}/target.ids.npy' and compared.wait() or sum_of(path))
    patch.setattr(stores.Store, 'verify', lambda store, seconds=None: (
        asked if store.fingerprint == place.name else verify)(store, seconds))
    patch.setattr(train, 'PATIENCE', 0.1)
    try:
      assert train.main(options(corpus, workdir, '--config.train.num_steps=12')) == exit_codes.PREEMPTED
    finally:
      compared.set()
  assert re.search('Note: step 10 is not saved.*\n.*Stopped at step 8, saved', capsys.readouterr().out)
  assert sorted(os.listdir(workdir / 'checkpoints')) == sorted(os.listdir(run / 'checkpoints'))
  found = resumed(corpus, workdir, tmp_path)
  for name, value in expected['train'].items():
    np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_C5_a_run_of_an_earlier_version_resumes_and_is_listed_from_then_on(corpus, run, expected, tmp_path, capsys):
  """Its sums of checkpoints lie in checkpoints/checksums, its stores have none."""
  workdir = tmp_path / 'run'
  shutil.copytree(run, workdir)
  (workdir / 'checkpoints' / 'checksums').mkdir()
  for step, entry in Manifest(str(workdir)).checkpoints().items():
    (workdir / 'checkpoints' / 'checksums' / f'{step}.json').write_text(json.dumps(entry['files']))
  (workdir / 'manifest.json').unlink()
  for path in workdir.glob('data/*/sums.json'):
    path.unlink()
  (tmp_path / 'in').write_text(LINES)
  assert decoded(corpus, workdir, tmp_path) == expected['decode']
  assert 'has no manifest.json' in capsys.readouterr().err
  flip(workdir / 'checkpoints' / '6' / 'state' / '_METADATA', None)
  with pytest.raises(DamagedError, match='_METADATA'):  # by the earlier version's sums
    decoded(corpus, workdir, tmp_path)
  flip(workdir / 'checkpoints' / '6' / 'state' / '_METADATA', None)
  found = resumed(corpus, workdir, tmp_path)
  for name, value in expected['train'].items():
    np.testing.assert_array_equal(found[name], value, err_msg=name)
  assert set(Manifest(str(workdir)).read()['files']) >= {'config.json', 'vocabulary.model', 'results.json'}
  assert 10 in Manifest(str(workdir)).checkpoints() and not (workdir / 'checkpoints' / 'checksums').exists()


@contextlib.contextmanager
def ending(monkeypatch, call, error):
  """Let `error` end the write of that number, counted from 0, instead of writing: a kill, or a full disk."""
  calls, write = iter(range(9)), Disk.write

  def dying(disk, path, data):
    if next(calls) == call:
      raise error
    write(disk, path, data)

  with monkeypatch.context() as patch, pytest.raises(type(error)):
    patch.setattr(Disk, 'write', dying)
    yield


def test_a_file_that_changes_lawfully_may_be_killed_at_any_moment(tmp_path, monkeypatch):
  folder = RunFolder(str(tmp_path))
  folder.write(folder.results, b'old')
  for call in range(3):  # the manifest, the file, the manifest
    with ending(monkeypatch, call, KeyboardInterrupt()):
      folder.write(folder.results, b'new')
    assert not folder.manifest.problems()
    folder.write(folder.results, b'old')
  (tmp_path / 'results.json').write_bytes(b'oldest')
  assert list(folder.manifest.problems()) == ['results.json']


def test_a_first_write_may_be_killed_at_any_moment(tmp_path, monkeypatch):
  for call in range(3):
    folder = RunFolder(str(tmp_path / str(call)))
    os.makedirs(folder.path)
    with ending(monkeypatch, call, OSError(28, 'No space left on device')):
      folder.write(folder.results, b'new')
    assert not folder.manifest.problems()
    folder.write(folder.results, b'new')
    os.remove(folder.results)
    assert list(folder.manifest.problems()) == ['results.json']


@pytest.mark.parametrize('content', [
    {'files': {'/etc/passwd': ['x']}}, {'files': {'../x': ['x']}}, {'files': {'a': 5}}, {'checkpoints': {'abc': {}}},
    {'checkpoints': {'1': {'files': {'../../x': 'y'}}}}, {'checkpoints': []}])
def test_S2_a_manifest_that_somebody_made_up_is_refused(content, tmp_path):
  with Manifest(str(tmp_path)).changing() as written:
    written.update(content)
  with pytest.raises(DamagedError, match='manifest.json'):
    Manifest(str(tmp_path)).read()


def test_a_copied_and_a_moved_folder_stay_valid(run, tmp_path):
  shutil.copytree(run, tmp_path / 'copy')
  os.rename(tmp_path / 'copy', tmp_path / 'moved')
  assert RunFolder.open(str(tmp_path / 'moved')).read_config()['model']['d_model'] == 16
