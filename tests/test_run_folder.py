"""A run's folder: one writer, one configuration, one corpus, one history."""

import errno
import fcntl
import hashlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from tensorboardX.proto import event_pb2

from checks.errors import ConfigError
from options import configurations
from training import environment, json_files, run_folder
from training.metrics import Metrics
from training.run_folder import FolderBusyError, RunFolder

CONFIG = json_files.as_written(
    configurations.load_config(os.path.join(configurations.CONFIGS, 'multi30k.py:adam')))


def changed(**options):
  """CONFIG with options set by dotted names, __ in place of the dot."""
  config = json.loads(json.dumps(CONFIG))
  for name, value in options.items():
    *sections, leaf = name.split('__')
    part = config
    for section in sections:
      part = part[section]
    assert leaf in part and part[leaf] != value
    part[leaf] = value
  return config


@pytest.fixture
def workdir(tmp_path):
  return str(tmp_path / 'runs' / 'a')


def test_new_run_holds_its_config(workdir):
  with RunFolder(workdir).create_or_resume(CONFIG) as folder:
    assert json_files.read_json(folder.config) == CONFIG
  assert RunFolder.open(workdir).config == folder.config


def test_a_run_made_before_an_option_goes_on_with_its_default(workdir):
  older = changed()
  del older['train']['ema_decay'], older['recurrent'], older['model']['positions']
  with RunFolder(workdir).create_or_resume(CONFIG) as folder:
    folder.write_json(folder.config, older)
    assert folder.read_config() == CONFIG
  with RunFolder(workdir).create_or_resume(CONFIG):
    pass
  folder.write_json(folder.config, older)
  with pytest.raises(ConfigError, match="model.positions is 'rotary', the run has 'sinusoidal'"):
    RunFolder(workdir).create_or_resume(changed(model__positions='rotary'))


def test_same_config_goes_on(workdir):
  for _ in range(2):
    with RunFolder(workdir).create_or_resume(CONFIG):
      pass


def test_what_may_change_is_taken_over(workdir):
  RunFolder(workdir).create_or_resume(CONFIG).__exit__()
  later = changed(train__num_minutes=90, train__log_every=7, mesh__data=2, search__alpha=1.0, compile='pmap')
  with RunFolder(workdir).create_or_resume(later) as folder:
    assert json_files.read_json(folder.config) == later


def test_the_folders_of_further_text_may_change_and_its_weights_and_tags_may_not(workdir):
  RunFolder(workdir).create_or_resume(changed(data__mix=['back/*0.5#<bt>', 'more'])).__exit__()
  with RunFolder(workdir).create_or_resume(changed(data__mix=['elsewhere/back*0.5#<bt>', 'other'])):
    pass
  for mix in (['back/*0.5', 'more'], ['back/*1#<bt>', 'more'], ['more', 'back/*0.5#<bt>'], []):
    with pytest.raises(ConfigError, match='data.mix is '):
      RunFolder(workdir).create_or_resume(changed(data__mix=mix) if mix else CONFIG)


def test_a_length_that_the_learning_rate_depends_on_may_not_change(workdir):
  RunFolder(workdir).create_or_resume(CONFIG).__exit__()
  longer = changed(train__num_minutes=90)
  with pytest.raises(ConfigError, match='train.num_minutes is 90, the run has 60'):
    RunFolder(workdir).create_or_resume(longer, bound=configurations.LENGTHS)
  RunFolder(workdir).create_or_resume(CONFIG, bound=configurations.LENGTHS).__exit__()
  RunFolder(workdir).create_or_resume(longer).__exit__()


@pytest.mark.parametrize('name, value', [
    ('seed', 1), ('train__batch_tokens', 8192), ('vocabulary__size', 9000), ('data__max_length', 50),
    ('data__source_language', 'fr'), ('model__d_model', 256), ('optimizer__beta2', 0.99), ('train__ema_decay', 0.999),
    ('optimizer__decay_steps', 7000), ('train__accumulation_steps', 2), ('train__consistency', 'simcut'),
    ('data__subword_sampling', 'bpe_dropout')])
def test_what_may_not_change_is_an_error_that_names_the_field(workdir, name, value):
  RunFolder(workdir).create_or_resume(CONFIG).__exit__()
  with pytest.raises(ConfigError) as caught:
    RunFolder(workdir).create_or_resume(changed(**{name: value}, train__log_every=7))
  before = changed().get(name) if '__' not in name else CONFIG[name.split('__')[0]][name.split('__')[1]]
  assert f'{name.replace("__", ".")} is {value!r}, the run has {before!r}' in str(caught.value)
  assert 'log_every' not in str(caught.value)
  with RunFolder(workdir).create_or_resume(CONFIG) as folder:  # the refusal changed nothing and holds no lock
    assert json_files.read_json(folder.config) == CONFIG


def test_a_run_to_start_from_may_be_named_by_another_path_and_may_not_be_another(workdir, monkeypatch):
  other = os.path.join(os.path.dirname(workdir), 'other')
  os.makedirs(other)
  monkeypatch.chdir(os.path.dirname(workdir))
  with RunFolder(workdir).create_or_resume(changed(init_from='other')) as folder:
    folder.manifest.record_checkpoint(2, {'files': {}, 'metrics': None}, kept=[])
  for path in (other, './other/', None):
    with RunFolder(workdir).create_or_resume(changed(init_from=path) if path else CONFIG):
      pass
  with pytest.raises(ConfigError, match='init_from is .*another.*, the run has '):
    RunFolder(workdir).create_or_resume(changed(init_from='another'))
  found = [run_folder.decisive('init_from', value) for value in ('gs://bucket/run/', 'gs://bucket/run', None)]
  assert found == ['gs://bucket/run', 'gs://bucket/run', None]


def test_an_option_without_effect_may_change(workdir):
  RunFolder(workdir).create_or_resume(CONFIG).__exit__()
  later = changed(vocabulary__size=9000)
  with pytest.raises(ConfigError, match='vocabulary.size'):
    RunFolder(workdir).create_or_resume(later, idle={'vocabulary.byte_fallback'})
  with RunFolder(workdir).create_or_resume(later, idle={'vocabulary.size'}) as folder:
    assert json_files.read_json(folder.config) == later


def test_table_of_what_may_change_names_options_that_exist():
  options = configurations.leaves(configurations.default_tree())
  for name in run_folder.MAY_CHANGE:
    assert any(option == name or option.startswith(f'{name}.') for option in options), name


def test_second_writer_is_refused_and_told_the_first(workdir):
  with RunFolder(workdir).create_or_resume(CONFIG):
    for _ in range(2):
      with pytest.raises(FolderBusyError, match=f'in use by process {os.getpid()} on '):
        RunFolder(workdir).create_or_resume(CONFIG)
    RunFolder.open(workdir)  # reading needs no lock
  with RunFolder(workdir).create_or_resume(CONFIG):
    pass


def test_lock_ends_with_a_killed_process(workdir):
  hold = ('import json, sys; from training.run_folder import RunFolder; '
          'folder = RunFolder(sys.argv[1]).create_or_resume(json.load(sys.stdin)); print("held", flush=True); '
          'import time; time.sleep(60)')
  holder = subprocess.Popen([sys.executable, '-c', hold, workdir], cwd=configurations.ROOT, text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
  try:
    holder.stdin.write(json.dumps(CONFIG))
    holder.stdin.close()
    assert holder.stdout.readline() == 'held\n'
    with pytest.raises(FolderBusyError, match=f'process {holder.pid} on '):
      RunFolder(workdir).create_or_resume(CONFIG)
  finally:
    holder.kill()
    holder.wait()
    holder.stdout.close()
  with RunFolder(workdir).create_or_resume(CONFIG):
    pass


def test_a_folder_that_is_discarded_while_another_start_locks_it_has_one_owner(workdir, monkeypatch):
  first, flock = RunFolder(workdir).create_or_resume(CONFIG), fcntl.flock

  def late(*given):  # the lock was opened, and its folder is discarded before it is locked
    monkeypatch.setattr(fcntl, 'flock', flock)
    first.give_up()
    return flock(*given)

  monkeypatch.setattr(fcntl, 'flock', late)
  with RunFolder(workdir).create_or_resume(CONFIG):
    with pytest.raises(FolderBusyError):
      RunFolder(workdir).create_or_resume(CONFIG)


def test_what_cannot_be_removed_does_not_hide_a_mistake(workdir, monkeypatch):
  """On NFS a file that is open, as the lock is, stays in its folder under another name until it is closed."""
  with RunFolder(workdir).create_or_resume(CONFIG) as folder:
    remove = os.rmdir

    def refused(path, **options):
      if path == workdir:
        monkeypatch.setattr(os, 'rmdir', remove)
        raise OSError(errno.ENOTEMPTY, 'Directory not empty', path)
      remove(path, **options)

    monkeypatch.setattr(os, 'rmdir', refused)
    folder.give_up()
  with RunFolder(workdir).create_or_resume(changed(seed=3)):
    pass


def test_folder_that_is_no_run_is_left_alone(tmp_path):
  (tmp_path / 'thesis.tex').write_text('text')
  with pytest.raises(ConfigError, match='not empty; it holds thesis.tex'):
    RunFolder(str(tmp_path)).create_or_resume(CONFIG)
  assert os.listdir(tmp_path) == ['thesis.tex']
  with pytest.raises(ConfigError, match='no config.json.*found: thesis.tex'):
    RunFolder.open(str(tmp_path))
  with pytest.raises(ConfigError, match='does not exist'):
    RunFolder.open(str(tmp_path / 'nowhere'))
  with pytest.raises(ConfigError, match='cannot be a folder'):
    RunFolder(str(tmp_path / 'thesis.tex')).create_or_resume(CONFIG)
  with pytest.raises(ConfigError, match='s3://bucket/run: expected a folder on a disk, or in a bucket of Google Cloud'):
    RunFolder('s3://bucket/run')


def test_other_text_is_refused_but_files_may_move(workdir):
  with RunFolder(workdir).create_or_resume(CONFIG) as folder:
    folder.check_data({'train': 'a', 'val': 'b'})  # nothing to compare with yet
    folder.record_environment({'data': {'train': 'a', 'val': 'b'}})
    folder.check_data({'moved train': 'a', 'moved val': 'b'})
    with pytest.raises(ConfigError, match='other text than val now holds'):
      folder.check_data({'train': 'a', 'val': 'c'})
    with pytest.raises(ConfigError, match='other text'):
      folder.check_data({'train': 'a'})


def test_text_of_which_the_filters_keep_other_pairs_is_refused(workdir):
  text, kept, others = ('a' * 64, 'b' * 64, 'c' * 64)
  with RunFolder(workdir).create_or_resume(CONFIG) as folder:
    folder.record_environment({'data': {'train': text, 'val': 'd'}})  # as earlier versions listed it
    folder.check_data({'train': text + kept, 'val': 'd', 'test': 'e'})
    folder.record_environment({'data': {'train': text + kept, 'val': 'd', 'test': 'e'}})
    folder.check_data({'train': text + kept, 'val': 'd'})
    with pytest.raises(ConfigError, match='train now holds; give the same text with the Python of environment.json'):
      folder.check_data({'train': text + others, 'val': 'd'})
    with pytest.raises(ConfigError, match='train now holds; give the same text, or another'):
      folder.check_data({'train': others + kept, 'val': 'd'})


def test_test_sets_may_be_added_and_taken_away(workdir):
  with RunFolder(workdir).create_or_resume(CONFIG) as folder:
    folder.record_environment({'data': {'train': 'a', 'val': 'b', 'one': 'c'}})
    folder.check_data({'train': 'a', 'val': 'b'})
    folder.check_data({'train': 'a', 'val': 'b', 'one': 'c', 'two': 'd'})
    folder.check_data({'train': 'a', 'val': 'b', 'another': 'd', 'one': 'c'})
    folder.check_data({'train': 'a', 'val': 'b', 'moved': 'c'})
    for name in ('one', 'another'):
      with pytest.raises(ConfigError, match=f'other text than {name} now holds'):
        folder.check_data({'train': 'a', 'val': 'b', name: 'd'})
    folder.record_environment({'data': {'train': 'a', 'val': 'b', 'one': 'c', 'two': 'd'}})
    folder.record_environment({'data': {'train': 'a', 'val': 'b'}})
    with pytest.raises(ConfigError, match='other text than two now holds'):
      folder.check_data({'train': 'a', 'val': 'b', 'one': 'c', 'two': 'e'})
  with RunFolder(workdir).create_or_resume(changed(data__test_splits=[])):
    pass


@pytest.mark.parametrize('name, splits', [('test_2016_flickr', ['test_2016_flickr']), (None, [])])
def test_a_run_made_with_options_of_other_names_goes_on(workdir, name, splits):
  now = changed(data__test_splits=splits)
  older = json.loads(json.dumps(now))
  del older['data']['test_splits']
  older['data']['test_split'] = name
  with RunFolder(workdir).create_or_resume(now) as folder:
    folder.write_json(folder.config, older)
    assert folder.read_config() == now
  with RunFolder(workdir).create_or_resume(now):
    assert json_files.read_json(folder.config) == now  # under the new name from here on


def test_environment_keeps_the_first_start(workdir):
  with RunFolder(workdir).create_or_resume(CONFIG) as folder:
    for commit in 'aabb':
      folder.record_environment({'commit': commit, 'data': {}})
    assert json_files.read_json(folder.environment) == {
        'commit': 'a', 'data': {}, 'later_starts': [{'commit': 'b', 'data': {}}]}


def test_environment_says_what_numbers_depend_on():
  class Device:
    platform, device_kind = 'cpu', 'abacus'

  found = environment.environment([Device()], {'train': 'a'})
  assert json.loads(json.dumps(found)) == found
  assert found['devices'] == ['cpu abacus'] and found['data'] == {'train': 'a'}
  assert found['packages']['numpy'] == np.__version__
  assert found['commit'] is None or len(found['commit']) == 40


def test_a_commit_of_another_repository_is_not_told_as_that_of_the_code(tmp_path, monkeypatch):
  """An installed copy may lie within a user's project, which does not hold it."""
  git = lambda *words: subprocess.run(['git', '-C', tmp_path, '-c', 'user.name=a', '-c', 'user.email=a@b', *words], check=True,
                                      capture_output=True)
  code = tmp_path / 'installed' / 'training' / 'environment.py'
  code.parent.mkdir(parents=True)
  for path in (tmp_path / 'project.txt', code):
    path.write_text('')
  git('init')
  git('add', 'project.txt')
  git('commit', '-m', 'project')
  monkeypatch.setattr(environment, '__file__', str(code))
  of = lambda: environment.environment([], {})['commit']
  assert of() is None
  git('add', '.')
  git('commit', '-m', 'copy')  # the project holds it
  assert len(of()) == 40


def events(folder):
  """(step, name, value) of all TensorBoard scalars."""
  found = []
  for name in sorted(os.listdir(folder.tensorboard)):
    with open(os.path.join(folder.tensorboard, name), 'rb') as file:
      data = file.read()
    while data:  # length [8], checksum [4], event, checksum [4]
      size = int.from_bytes(data[:8], 'little')
      event = event_pb2.Event.FromString(data[12:12 + size])
      found += [(event.step, value.tag, value.simple_value) for value in event.summary.value]
      data = data[16 + size:]
  return found


def test_metrics_are_lines_and_events(workdir):
  with RunFolder(workdir).create_or_resume(CONFIG) as folder:
    metrics = Metrics(folder, 0)
    metrics.write(5, {'loss': np.float32(2.5), 'norm': float('nan')})
    with open(folder.metrics, encoding='utf-8') as file:  # there before anybody closes
      assert [json.loads(line) for line in file] == [{'step': 5, 'loss': 2.5, 'norm': None}]
    metrics.close()
    assert (5, 'loss', 2.5) in events(folder)


def test_resumed_history_has_no_duplicates(workdir):
  with RunFolder(workdir).create_or_resume(CONFIG) as folder:
    metrics = Metrics(folder, 0)
    for step in (10, 20, 30):
      metrics.write(step, {'loss': float(step)})
    metrics.close()
    with open(folder.metrics, 'a', encoding='utf-8') as file:
      file.write('{"step": 40, "lo')  # killed while writing
    metrics = Metrics(folder, 20)
    metrics.write(30, {'loss': 0.5})
    metrics.close()
    with open(folder.metrics, encoding='utf-8') as file:
      assert [json.loads(line) for line in file] == [
          {'step': 10, 'loss': 10.0}, {'step': 20, 'loss': 20.0}, {'step': 30, 'loss': 0.5}]


def test_a_line_of_the_saved_step_that_came_later_is_discarded(workdir):
  """As that of an evaluation which a stop had put off: the next start makes it again."""
  with RunFolder(workdir).create_or_resume(CONFIG) as folder:
    metrics = Metrics(folder, 0)
    metrics.write(20, {'loss': 2.0})
    content = folder.files.read(folder.metrics)
    folder.manifest.record_checkpoint(20, {'history': [len(content), hashlib.sha256(content).hexdigest()], 'files': {}}, [20])
    metrics.write(20, {'bleu': 1.0})
    metrics.close()
    Metrics(folder, 20).close()
    assert folder.files.read(folder.metrics) == content


def test_a_run_that_begins_again_has_no_events_of_a_start_that_saved_nothing(workdir):
  with RunFolder(workdir).create_or_resume(CONFIG) as folder:
    for value in (1.0, 2.0):
      metrics = Metrics(folder, 0)
      metrics.write(2, {'loss': value})
      metrics.close()
    assert [event for event in events(folder) if event[1] == 'loss'] == [(2, 'loss', 2.0)]


def test_json_is_written_whole_or_not_at_all(tmp_path):
  path = str(tmp_path / 'x.json')
  json_files.write_json(path, {'größe': 1})
  with pytest.raises(TypeError):
    json_files.write_json(path, {'a': object()})
  assert json_files.read_json(path) == {'größe': 1}
