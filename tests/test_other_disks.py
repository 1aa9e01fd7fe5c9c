"""Runs that lie on another disk in part, through a link: what is moved stays there, and its room is what counts."""

import contextlib
import math
import os
import shutil
from typing import NamedTuple

import jax
import jax.numpy as jnp
import pytest

import tasks
import train
from checks.disk import Disk
from checks.errors import FileError
from configs import default
from tests.test_integrity import linked_checkpoints
from tests.tiny_runs import options
from training import failures
from training.checkpoint import CheckpointError, Checkpoints, DamagedError
from training.run_folder import FolderFullError, RunFolder

CONFIG = default.get_config().to_dict()


class State(NamedTuple):
  step: int
  params: dict[str, jax.Array]


def test_C3_an_update_that_is_not_finite_is_told_where_there_is_no_room_for_its_state(small_disk):
  folder, measures = RunFolder(str(small_disk / 'run')), {'loss': math.nan.hex(), 'gradient_norm': (2.0).hex()}
  small, large = ({'a': jax.random.normal(jax.random.key(0), (1 << bits,))} for bits in (10, 20))  # 4 kB, 4 MB
  with pytest.raises(failures.NonFiniteError, match='10 updates .* first after step 7 .*with --replay=7 computes it again. A lower'):
    failures.dump(folder, State(7, small), measures, small, 10)
  with pytest.raises(failures.NonFiniteError, match='10 updates .* first after step 8 .loss nan, .*no room for it in .*A lower'):
    failures.dump(folder, State(8, large), measures, small, 10)


def test_C2_the_room_that_counts_is_that_of_the_disk_on_which_files_lie(tmp_path, small_disk):
  state = {'a': jax.random.normal(jax.random.key(0), (1 << 18,))}  # 1 MB that does not compress
  folder = linked_checkpoints(tmp_path, small_disk)
  with pytest.raises(FolderFullError, match=r'run/checkpoints, which lies on a disk of its own, has 2,\d{3},\d{3} '
                                            'bytes free, and a checkpoint takes about 50,000,000'):
    RunFolder(str(folder.parent)).probe(50_000_000)
  (small_disk / 'run').mkdir()
  (small_disk / 'run' / 'checkpoints').symlink_to(tmp_path / 'large')
  (tmp_path / 'large').mkdir()
  RunFolder(str(small_disk / 'run')).probe(50_000_000)
  writer = Checkpoints(str(small_disk / 'run' / 'checkpoints'), 5)
  for _ in range(2):
    writer.save(1, state, {})
    writer.wait()
  with open(small_disk / 'fill', 'wb', buffering=0) as file, contextlib.suppress(OSError):
    while file.write(bytes(4096)):
      pass
  writer._put_by(1)  # takes no room there
  with pytest.raises(CheckpointError, match=r'no room to save step 2 in \S+disk/run \(\d{1,4} bytes are free\)'):
    writer.save(2, state, {})
    writer.wait()


def test_a_disk_s_root_is_elsewhere_as_a_link_to_it_is(tmp_path, small_disk):
  (tmp_path / 'link').symlink_to(small_disk)
  (tmp_path / 'plain').mkdir()
  (tmp_path / 'file').symlink_to(__file__)
  found = {path.name: Disk().is_elsewhere(str(path)) for path in tmp_path.iterdir()}
  assert found == {'disk': True, 'link': True, 'plain': False, 'file': False}


def test_a_checkpoint_that_was_put_by_is_history_too(tmp_path):
  with RunFolder(str(tmp_path / 'run')).create_or_resume(CONFIG) as folder:
    writer = Checkpoints(folder.checkpoints, 5)
    writer.save(1, {'a': jnp.ones(3)}, {})
    writer.wait()
    writer._put_by(1)  # and then the run is killed
  with RunFolder(folder.path).create_or_resume(CONFIG, anew=True):
    assert Checkpoints(folder.checkpoints, 5).newest_whole() == (None, [])


def test_a_refused_start_in_a_linked_folder_binds_nothing(tmp_path):
  (tmp_path / 'elsewhere').mkdir()
  (tmp_path / 'run').symlink_to('elsewhere')
  with RunFolder(str(tmp_path / 'run')).create_or_resume(CONFIG) as folder:
    folder.give_up()
  assert (tmp_path / 'run').is_symlink() and not os.listdir(tmp_path / 'elsewhere')
  with RunFolder(str(tmp_path / 'run')).create_or_resume(CONFIG | {'seed': 3}) as folder:
    assert folder.read_config()['seed'] == 3


def test_C1_begin_anew_leaves_a_link_to_another_disk_where_it_is(tmp_path, small_disk):
  checkpoints = linked_checkpoints(tmp_path, small_disk)
  checkpoints.unlink()
  with RunFolder(str(tmp_path / 'run')).create_or_resume(CONFIG) as folder:
    checkpoints.symlink_to(os.path.relpath(small_disk / 'elsewhere', checkpoints.parent))
    folder.files.write(folder.metrics, '{"step": 2}\n')
    writer = Checkpoints(folder.checkpoints, 5)
    for step in (1, 2):
      writer.save(step, {'a': jnp.ones(3)}, {})
    writer.wait()
  before, listed = folder.files.sums_of(str(small_disk)), folder.manifest.read()
  for _ in range(2):
    with RunFolder(str(tmp_path / 'run')).create_or_resume(CONFIG, anew=True) as folder:
      writer = Checkpoints(folder.checkpoints, 5)  # as train.py opens them before it is refused
      assert writer.newest_whole() == (None, []) and not folder.has(folder.metrics)
      folder.give_up()
    assert checkpoints.is_symlink() and (tmp_path / 'run' / 'metrics.jsonl').read_text() == '{"step": 2}\n'
    assert folder.files.sums_of(str(small_disk)) == before and folder.manifest.read() == listed
    assert Checkpoints(folder.checkpoints, 5).newest_whole() == (2, [])
  for number in (1, 2):
    with RunFolder(str(tmp_path / 'run')).create_or_resume(CONFIG, anew=True) as folder:
      writer = Checkpoints(folder.checkpoints, 5)
      writer.save(7, {'a': jnp.ones(3)}, {})
      writer.wait()
      assert writer.newest_whole() == (7, []) and checkpoints.is_symlink()
    assert sorted(os.listdir(small_disk / 'elsewhere')) == ['7', 'earlier']
    assert sorted(os.listdir(small_disk / 'elsewhere' / 'earlier' / str(number))) == (['1', '2'] if number == 1 else ['7'])
  assert (tmp_path / 'run' / 'earlier' / '1' / 'metrics.jsonl').exists()


@pytest.mark.parametrize('anew', [[], ['--begin_anew']])
def test_a_link_to_a_disk_that_is_not_mounted_is_told_before_the_text_is_read(corpus, run, tmp_path, monkeypatch, anew):
  workdir = shutil.copytree(run, tmp_path / 'run')
  shutil.move(workdir / 'checkpoints', tmp_path / 'disk')
  (workdir / 'checkpoints').symlink_to(tmp_path / 'mount' / 'disk')
  monkeypatch.setattr(train, 'prepare', lambda *_: pytest.fail('the text is read'))
  before = {path: path.read_bytes() for path in workdir.rglob('*.json')}
  with pytest.raises(FileError, match='run/checkpoints is a link to .*/mount/disk, .*Is the disk that holds them mounted'):
    train.main(options(corpus, workdir, '--config.train.num_steps=9', *anew))
  with pytest.raises(DamagedError, match='checkpoint 8 in .* is missing; .*No checkpoint is there: is the disk'):
    tasks.load(str(workdir))
  assert {path: path.read_bytes() for path in workdir.rglob('*.json')} == before and not (workdir / 'earlier').exists()
  (tmp_path / 'disk').rename(workdir / 'there')
  (workdir / 'checkpoints').unlink()
  (workdir / 'checkpoints').symlink_to('there')
  with pytest.raises(pytest.fail.Exception):
    train.main(options(corpus, workdir, '--config.train.num_steps=9', *anew))
