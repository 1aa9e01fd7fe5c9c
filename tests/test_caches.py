"""Where programs and prepared corpora are kept: the user's cache, and never a run's folder, which may be a stranger's."""

import ast
import json
import os
import shutil
import stat
import sys
import unicodedata

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache

import decode
import train
from checks import cache_root
from checks.errors import ConfigError, DataError
from corpora import cleaning, loading, tfds_sets
from corpora.phrasebook import builder, splits
from corpora.vocabulary import load_words
from options import decode_options
from options.configurations import ROOT
from sweeps import queue
from tasks import TASKS, setup
from tests.test_integrity import sources
from tests.tiny_runs import options, write_corpus
from training import hardware
from training.run_folder import RunFolder

OPENED = None  # while a test listens: the paths that Python opens or lists


def listen(event, inputs):
  if OPENED is not None and event in ('open', 'os.listdir', 'os.scandir') and isinstance(inputs[0], (str, bytes)):
    OPENED.append(os.path.realpath(os.fsdecode(inputs[0])))


sys.addaudithook(listen)


@pytest.fixture
def home(tmp_path, monkeypatch):
  """A user's home with an empty cache, and jax without programs of earlier tests."""
  before = jax.config.jax_compilation_cache_dir
  monkeypatch.delenv('JAX_COMPILATION_CACHE_DIR', raising=False)
  monkeypatch.delenv('XDG_CACHE_HOME', raising=False)
  monkeypatch.setenv('HOME', str(tmp_path / 'home'))
  compilation_cache.reset_cache()
  yield tmp_path / 'home'
  compilation_cache.reset_cache()
  jax.config.update('jax_compilation_cache_dir', before)


def mode(path):
  return stat.S_IMODE(os.stat(path).st_mode)


@pytest.mark.long
def test_S1_programs_that_a_run_brings_are_not_opened(corpus, run, home, tmp_path, monkeypatch):
  workdir = tmp_path / 'run'
  shutil.copytree(run, workdir)
  brought = [workdir / 'compile_cache', workdir / 'prepared']
  flags = [f'--config.compile_cache={brought[0]}', f'--config.data.cache_dir={brought[1]}', '--config.train.num_steps=8']
  assert train.main(options(corpus, workdir, *flags)) == 0
  assert jax.config.jax_compilation_cache_dir == str(brought[0]), "the user's own command names it"
  brought[0].mkdir(exist_ok=True)
  assert json.loads((workdir / 'config.json').read_text())['compile_cache'] == str(brought[0])
  compilation_cache.reset_cache()
  jax.clear_caches()
  monkeypatch.setenv('XDG_CACHE_HOME', os.path.join(ROOT, '.pytest_cache', 'user'))  # warm, from the second time on
  argv = ['decode.py', f'--workdir={workdir}', f'--input={tmp_path}/in', f'--output={tmp_path}/out']
  (tmp_path / 'in').write_text('one dog\n')
  monkeypatch.setattr(sys.modules[__name__], 'OPENED', [])
  assert decode.main(decode_options.parse(argv, '')) == 0
  opened = set(OPENED)
  assert str(workdir / 'config.json') in opened
  assert not [path for path in opened for place in brought if path.startswith(str(place))]
  assert jax.config.jax_compilation_cache_dir == cache_root.programs() and cache_root.root() in cache_root.programs()
  records = setup.of_folder(RunFolder.open(str(workdir)))
  assert records.places.compile_cache is records.places.cache_dir is records.corpus.cache_dir is None


def test_S1_only_the_users_command_names_a_folder_of_programs():
  naming = set()
  for path in sources():
    with open(path, encoding='utf-8') as file:
      calls = [node for node in ast.walk(ast.parse(file.read())) if isinstance(node, ast.Call)
               and getattr(node.func, 'attr', '') == 'keep_programs']
    naming |= {(os.path.relpath(path, ROOT), bool(call.args or call.keywords)) for call in calls}
  assert naming == {('train.py', True), *((f'{name}.py', False) for name in (
      'decode', 'visualize', 'analyze', 'benchmarks/decode_text'))}


def test_the_cache_is_the_users_alone(home, tmp_path, monkeypatch):
  folder = cache_root.programs()
  assert folder == str(home / '.cache' / 'attention-is-all-you-need-jax' / 'programs')
  assert mode(folder) == mode(os.path.dirname(folder)) == 0o700
  monkeypatch.setenv('XDG_CACHE_HOME', 'runs/stranger')  # relative, so that it would depend on the working directory
  assert cache_root.programs() == folder
  monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'elsewhere'))
  assert cache_root.prepared() == f'{tmp_path}/elsewhere/{cache_root.NAME}/prepared'
  monkeypatch.setenv('JAX_COMPILATION_CACHE_DIR', 'named')
  assert cache_root.programs() == 'named'


@pytest.mark.parametrize('spoil, words', [
    (lambda place: place.write_text('a file'), 'cannot be made'),
    (lambda place: (place.mkdir(), place.chmod(0o777)), 'written to by other users')])
def test_where_there_can_be_no_cache_programs_are_not_kept_and_a_note_says_so(home, spoil, words, capsys):
  (home / '.cache').mkdir(parents=True)
  spoil(home / '.cache' / cache_root.NAME)
  hardware.keep_programs()
  assert jax.config.jax_compilation_cache_dir is None
  said = capsys.readouterr().err
  assert said.startswith('Note: ') and words in said and cache_root.NAME in said
  (home / 'file').write_text('')
  hardware.keep_programs(str(home / 'file'))
  assert jax.config.jax_compilation_cache_dir is None and str(home / 'file') in capsys.readouterr().err
  with pytest.raises(DataError, match=f'{cache_root.NAME}.*--config.data.cache_dir'):
    builder.prepared()


def test_programs_that_compile_fast_are_kept_where_the_user_says_so(home, monkeypatch):
  name = 'jax_persistent_cache_min_compile_time_secs'
  before = getattr(jax.config, name)
  try:
    jax.config.update(name, 0.25)  # as jax reads it from the environment
    monkeypatch.setenv(name.upper(), '0.25')
    hardware.keep_programs()
    assert getattr(jax.config, name) == 0.25
    monkeypatch.delenv(name.upper())
    hardware.keep_programs()
    assert getattr(jax.config, name) == 0.5
  finally:
    jax.config.update(name, before)


def test_the_phrasebook_is_prepared_in_the_users_cache_or_a_given_one(home, tmp_path, monkeypatch):
  for split in splits.SIZES:
    monkeypatch.setitem(splits.SIZES, split, 31)
  assert str(builder.prepared().data_dir).startswith(f'{home}/.cache/{cache_root.NAME}/prepared/phrasebook/')
  assert os.listdir(home) == ['.cache']
  chosen = lambda **places: loading.load(loading.CorpusConfig('phrasebook', 'en', 'de', **places)).notes[-1]
  assert f'{tmp_path}/cache/prepared/phrasebook' in chosen(cache_dir=str(tmp_path / 'cache'))
  assert f'{tmp_path}/sets/phrasebook' in chosen(cache_dir=str(tmp_path / 'cache'), tfds_dir=str(tmp_path / 'sets'))


@pytest.mark.parametrize('place', ['file', 'file/below/it', 'loop/below'])
def test_a_cache_that_can_be_no_folder_is_refused_before_anything_is_read(corpus, tmp_path, place, monkeypatch):
  (tmp_path / 'file').write_text('')
  (tmp_path / 'loop').symlink_to('loop')
  monkeypatch.setattr(train, 'prepare', lambda *_: pytest.fail('the text is read'))
  found = f'{tmp_path}/{place.partition("/")[0]}'
  with pytest.raises(ConfigError, match=f'--config.data.cache_dir={tmp_path}/{place}: {found} is not a folder; give another'):
    train.main(options(corpus, tmp_path / 'run', f'--config.data.cache_dir={tmp_path}/{place}'))
  with pytest.raises(ConfigError, match=f'--config.compile_cache={tmp_path}/{place}: {found} is not a folder'):
    train.main(options(corpus, tmp_path / 'run', f'--config.compile_cache={tmp_path}/{place}'))
  with pytest.raises(ConfigError, match='data.cache_dir=gs://bucket/text: expected a folder on a disk'):
    train.main(options(corpus, tmp_path / 'run', '--config.data.cache_dir=gs://bucket/text'))
  assert not (tmp_path / 'run').exists()


def test_a_cache_that_is_there_may_be_one_that_is_only_read(corpus, tmp_path, monkeypatch):
  monkeypatch.setattr(os, 'access', lambda path, mode: False)
  asked = lambda place: setup.read(options(corpus, tmp_path / 'run', f'--config.data.cache_dir={tmp_path}{place}'))
  assert asked('').places.cache_dir == str(tmp_path)
  with pytest.raises(ConfigError, match=f'the folder {tmp_path} cannot be written to'):
    asked('/new')


def test_S1_a_prepared_set_cannot_name_code(tmp_path, monkeypatch):
  monkeypatch.syspath_prepend(str(tmp_path))
  (tmp_path / 'brought.py').write_text('raise SystemExit("executed")')
  place = tmp_path / 'sets' / 'mine' / '1.0.0'
  place.mkdir(parents=True)
  (place / 'features.json').write_text(json.dumps({'type': 'brought.Feature', 'content': {}}))
  (place / 'dataset_info.json').write_text(json.dumps({'name': 'mine', 'version': '1.0.0', 'fileFormat': 'array_record'}))
  config = lambda name: loading.CorpusConfig('tfds', 'en', 'de', tfds_name=name, tfds_dir=str(tmp_path / 'sets'))
  with pytest.raises(DataError, match=r'brought\.Feature, which is not of TFDS'):
    tfds_sets.corpus(config('mine'))
  with pytest.raises(DataError, match='download and run'):
    tfds_sets.corpus(config('somebody:mine/de-en'))


def test_a_finished_run_of_a_sweep_stays_finished_wherever_its_programs_lay(corpus, run):
  folder = RunFolder.open(str(run))
  config = folder.read_config()
  asked = lambda **changes: queue.QueuedRun('base', 0, folder, [], config | changes)
  assert config['compile_cache'] and queue.is_finished(asked(compile_cache=None))
  assert not queue.is_finished(asked(seed=5))


def test_pythons_that_keep_other_text_share_neither_stores_nor_words(tmp_path, monkeypatch):
  corpus = write_corpus(tmp_path)
  lines = (corpus / 'train.en').read_text().splitlines()
  (corpus / 'train.en').write_text(''.join(f'{line} ẞig\n' if n % 3 else f'{line}\n' for n, line in enumerate(lines)))

  def made(name, *more):
    records = setup.read(options(corpus, tmp_path / name, *more))
    with RunFolder(str(tmp_path / name)).create_or_resume(records.saved) as folder:
      task = TASKS[records.task](records, folder)
    return len(task.batches.store), load_words(folder.words), task.source.model

  shared = f'--config.data.cache_dir={tmp_path}/shared'
  plain = made('plain', shared)
  assert plain[0] == 150 and not any('kept' in name for name in os.listdir(tmp_path / 'shared'))
  now = made('now', shared, '--config.data.drop_control=True')
  assert now == made('again', shared, '--config.data.drop_control=True') == plain
  own = made('own', '--config.data.drop_control=True')
  assert own == now and all(len(name.partition('.')[0]) == 20 for name in os.listdir(tmp_path / 'own/data'))  # where runs go on from
  monkeypatch.setattr(cleaning, 'unicodedata', unicodedata.ucd_3_2_0)  # which does not have that letter
  then = made('then', shared, '--config.data.drop_control=True')
  assert then[0] == 50 and 'ẞig' in now[1] and 'ẞig' not in then[1] and then[2] != now[2]
