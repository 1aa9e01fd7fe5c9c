"""A folder that a conversion makes is there whole or not at all, whatever lies at its path and whoever else makes it."""

import os

import pytest

from checks import files
from checks.errors import ConfigError
from exchange import new_folder

CONTENT = {'config.json': '{}', 'a/b': 'x', 'z': 'y'}


def fill(folder):
  for name, text in CONTENT.items():
    os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
    with open(os.path.join(folder, name), 'w') as file:
      file.write(text)


def content(folder):
  return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob('*') if path.is_file()}


@pytest.mark.parametrize('place', ['new', 'deep/er/new', 'empty', 'link'])
def test_a_new_or_empty_folder_is_filled_and_a_link_stays(place, tmp_path):
  (tmp_path / 'empty').mkdir()
  (tmp_path / 'there').mkdir()
  (tmp_path / 'link').symlink_to('there')
  with new_folder.filling(str(tmp_path / place), 'output') as unfinished:
    assert not content(tmp_path / place)
    fill(unfinished)
  assert content(tmp_path / place) == CONTENT and (tmp_path / 'link').is_symlink()
  assert not list(tmp_path.rglob('*.unfinished*'))
  assert (tmp_path / place).stat().st_mode == tmp_path.joinpath('there').stat().st_mode  # as the umask has it


def test_a_failure_leaves_nothing_and_what_others_have_called_unfinished_stays(tmp_path):
  (tmp_path / 'x.unfinished').mkdir()
  (tmp_path / 'x.unfinished' / 'mine').touch()
  with pytest.raises(KeyError), new_folder.filling(str(tmp_path / 'x'), 'output') as unfinished:
    fill(unfinished)
    raise KeyError
  assert content(tmp_path) == {'x.unfinished/mine': ''}


@pytest.mark.parametrize('is_there', [False, True])
def test_of_two_at_once_the_first_is_whole_and_the_second_is_refused(is_there, tmp_path, monkeypatch):
  if is_there:
    (tmp_path / 'x').mkdir()
    monkeypatch.setattr(new_folder, 'check', lambda path, option: None)  # as if both had begun before either wrote
  with pytest.raises(ConfigError, match=r'--output=\S*/x is no longer empty: another process has written there meanwhile'):
    with new_folder.filling(str(tmp_path / 'x'), 'output') as second:
      with new_folder.filling(str(tmp_path / 'x'), 'output') as first:
        fill(first)
      fill(second)
      os.remove(os.path.join(second, 'z'))
  assert content(tmp_path / 'x') == CONTENT and os.listdir(tmp_path) == ['x']


def test_an_empty_folder_that_is_being_filled_is_refused_before_anything_is_computed(tmp_path):
  (tmp_path / 'x').mkdir()
  with new_folder.filling(str(tmp_path / 'x'), 'output') as first:
    with pytest.raises(ConfigError, match='exists and is not empty'), new_folder.filling(str(tmp_path / 'x'), 'output'):
      raise AssertionError
    fill(first)
  assert content(tmp_path / 'x') == CONTENT


def test_the_root_of_a_disk_is_filled_within(small_disk):
  with new_folder.filling(str(small_disk), 'output') as unfinished:
    assert os.path.dirname(unfinished) == str(small_disk)  # the disk that has to have the room
    fill(unfinished)
  assert content(small_disk) == CONTENT and os.listdir(small_disk.parent) == [small_disk.name]


def test_an_empty_folder_stays_what_it_is_and_gets_the_files_with_config_json_last(tmp_path, monkeypatch):
  (tmp_path / 'x').mkdir()
  os.chmod(tmp_path / 'x', 0o2750)
  before, moved, move = os.stat(tmp_path / 'x'), [], files.DISK.move
  monkeypatch.setattr(type(files.DISK), 'move', lambda self, path, target: (moved.append(os.path.basename(target)), move(path, target)))
  with new_folder.filling(str(tmp_path / 'x'), 'output') as unfinished:
    fill(unfinished)
  assert content(tmp_path / 'x') == CONTENT and moved == ['a', 'z', 'config.json'] and os.listdir(tmp_path) == ['x']
  after = os.stat(tmp_path / 'x')
  assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)  # a shell may be in it


def test_a_folder_above_that_may_not_be_written_to_is_left_alone(tmp_path, monkeypatch):
  (tmp_path / 'x').mkdir()
  allowed = os.access
  monkeypatch.setattr(os, 'access', lambda path, mode: os.path.realpath(path) != str(tmp_path) and allowed(path, mode))
  with new_folder.filling(str(tmp_path / 'x'), 'output') as unfinished:
    fill(unfinished)
    assert os.listdir(tmp_path) == ['x']
  assert content(tmp_path / 'x') == CONTENT
  with pytest.raises(ConfigError, match='cannot be written to'):  # before anything is computed
    new_folder.check(str(tmp_path / 'new'), 'output')
