"""What a start leaves that ends before it trains: an existing run as it was; of a new one at most what it made of the text."""

import os
import shutil

import pytest

import train
from checks.errors import ConfigError, FileError
from configs import default
from corpora import vocabulary
from tests.tiny_runs import options
from training import json_files
from training.run_folder import FolderFullError, RunFolder

LENGTH = '--config.train.num_steps=2'


def contents(place):
  """What the files of a run are, but for its lock."""
  return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob('*') if path.is_file() and path.name != 'lock'}


def without_room(monkeypatch, error):
  """Let the disk have no room for a checkpoint."""
  def probe(folder, num_bytes):
    raise error
  monkeypatch.setattr(RunFolder, 'probe', probe)


def counted(monkeypatch, module, name):
  """Count the calls of a function."""
  calls, function = [], getattr(module, name)
  monkeypatch.setattr(module, name, lambda *given, **more: calls.append(name) or function(*given, **more))
  return calls


def test_a_new_run_without_room_leaves_what_it_made_of_the_text_and_binds_nothing(corpus, tmp_path, monkeypatch, capsys):
  place, workdir = shutil.copytree(corpus, tmp_path / 'corpus'), tmp_path / 'run'
  trained = counted(monkeypatch, vocabulary, 'train')
  for error in (FolderFullError('no room'), FileError('no network'), OSError(28, 'No space left on device'),
                MemoryError('no error of ours')):
    with monkeypatch.context() as patch, pytest.raises(type(error)):
      without_room(patch, error)
      train.main(options(place, workdir, LENGTH))
    assert f'stays in {workdir}/data; a start with the same text and vocabulary goes on from it' in capsys.readouterr().out
    assert sorted(os.listdir(workdir)) == ['data', 'lock', 'manifest.json'] and len(trained) == 1
  before = contents(workdir / 'data')
  with pytest.raises(ConfigError):  # nor does a mistake remove it
    train.main(options(place, workdir, LENGTH, '--config.mesh.data=99'))
  assert contents(workdir / 'data') == before
  assert train.main(options(place, workdir, LENGTH, '--config.model.d_ff=32', '--config.seed=3')) == 0
  assert len(trained) == 1 and before.items() <= contents(workdir / 'data').items()
  assert json_files.read_json(workdir / 'config.json')['model']['d_ff'] == 32


def test_other_text_and_another_vocabulary_follow_a_start_without_room(corpus, tmp_path, monkeypatch):
  place, workdir = shutil.copytree(corpus, tmp_path / 'corpus'), tmp_path / 'run'
  with monkeypatch.context() as patch, pytest.raises(FolderFullError):
    without_room(patch, FolderFullError('no room'))
    train.main(options(place, workdir, LENGTH))
  for side in ('en', 'de'):
    lines = (place / f'train.{side}').read_text().splitlines(True)
    (place / f'train.{side}').write_text(''.join(lines[:140]))
  more = '--config.vocabulary.size=290'
  assert train.main(options(place, workdir, LENGTH, more)) == 0
  assert train.main(options(place, tmp_path / 'plain', LENGTH, more)) == 0
  for name in ('vocabulary.model', 'words.txt.gz'):
    assert (workdir / name).read_bytes() == (tmp_path / 'plain' / name).read_bytes()


def test_data_without_a_manifest_is_no_run_of_ours(tmp_path):
  (tmp_path / 'data').mkdir()
  (tmp_path / 'data' / 'train.en').write_text('text')
  with pytest.raises(ConfigError, match='not empty; it holds data'):
    RunFolder(str(tmp_path)).create_or_resume(default.get_config().to_dict())


@pytest.mark.parametrize('anew', [[], ['--begin_anew']])
def test_a_start_that_is_refused_leaves_no_trace_in_an_existing_run(corpus, run, tmp_path, monkeypatch, anew):
  place, workdir = shutil.copytree(corpus, tmp_path / 'corpus'), shutil.copytree(run, tmp_path / 'run')
  for side in ('en', 'de'):
    shutil.copy(place / f'val.{side}', place / f'further.{side}')
  os.remove(workdir / 'labels.json')
  folder = RunFolder(str(workdir))
  folder.manifest.forget(['labels.json'])
  before = contents(workdir)
  without_room(monkeypatch, FolderFullError('no room'))  # which is looked for once the text is read
  with pytest.raises(FolderFullError):
    train.main(options(place, workdir, '--config.train.num_steps=9', '--config.data.test_splits=("test","further")', *anew))
  assert contents(workdir) == before
