"""What docs/reliability.md promises of files, memory and mistakes: checkpoints are broken, disks filled, traps laid."""

import ast
import contextlib
import itertools
import os
import pickle
import re
import shutil
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tasks
import train
from checks import exit_codes
from checks.disk import Disk
from checks.errors import DamagedError, DataError
from checks.whole_files import sealed, sum_of, unsealed
from corpora.vocabulary import Vocabulary
from options.configurations import ROOT
from tests.tiny_runs import options
from training import checkpoint, failures, run_folder
from training.checkpoint import CheckpointError, Checkpoints
from training.manifest import Manifest
from transformer.config import ModelConfig


def flip(path, place):
  data = bytearray(path.read_bytes())
  data[place % len(data)] ^= 4
  path.write_bytes(bytes(data))


BREAKS = {
    'flip': lambda path, place: flip(path, place),
    'truncate': lambda path, place: path.write_bytes(path.read_bytes()[:-1]),
    'empty': lambda path, place: path.write_bytes(b''),
    'delete': lambda path, place: path.unlink(),
}


@pytest.mark.parametrize('count', [8, pytest.param(80, marks=pytest.mark.drill)])
def test_C1_a_damaged_checkpoint_is_found_and_named_and_the_one_before_it_is_used(tmp_path, count):
  state = {'params': {'a': jnp.arange(5000.0), 'b': jnp.ones((7, 11))}}
  wanted = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), state)
  writer = Checkpoints(str(tmp_path / 'good' / 'checkpoints'), 5)
  for step in (3, 6):
    writer.save(step, jax.tree.map(lambda x: x * step, state), {'seconds': step})
  writer.wait()
  draw = np.random.default_rng(0)
  for number in range(count):
    copy = tmp_path / str(number)
    shutil.copytree(tmp_path / 'good', copy)
    files = sorted(path for path in (copy / 'checkpoints' / '6').rglob('*') if path.is_file() and path.stat().st_size)
    path, kind = files[draw.integers(len(files))], list(BREAKS)[number % 4]
    BREAKS[kind](path, int(draw.integers(1 << 40)))
    broken = str(path.relative_to(copy / 'checkpoints' / '6'))
    with pytest.raises(checkpoint.DamagedError, match=re.escape(broken)):
      Checkpoints(str(copy / 'checkpoints')).restore(6, wanted)
    found = Checkpoints(str(copy / 'checkpoints'), 5)
    step, notes = found.newest_whole()
    assert step == 3 and broken in notes[0] and (copy / 'damaged' / '6').is_dir()
    np.testing.assert_array_equal(found.restore(3, wanted)[0]['params']['a'], 3 * np.arange(5000.0))
    found.save(6, state, {})  # its place is free again
    found.wait()
    assert found.newest_whole() == (6, [])


def test_C1_a_checkpoint_that_was_cut_short_or_is_the_last_one(tmp_path):
  folder = tmp_path / 'checkpoints'
  writer = Checkpoints(str(folder), 5)
  for step in (1, 2):
    writer.save(step, {'a': jnp.ones(3)}, {})
  writer.wait()
  with Manifest(str(tmp_path)).changing() as content:
    listed = content['checkpoints'].pop('2')
  step, notes = Checkpoints(str(folder), 5).newest_whole()
  assert step == 1 and 'killed while it was saved' in notes[0]
  with Manifest(str(tmp_path)).changing() as content:
    content['checkpoints']['3'] = listed
  step, notes = Checkpoints(str(folder), 5).newest_whole()
  assert step == 1 and notes == ['checkpoint 3, which the manifest lists, is missing']
  shutil.rmtree(folder / '1')
  for _ in range(2):  # the second start knows what the first has found
    with pytest.raises(CheckpointError, match='(?s)no checkpoint in .* is whole.*checkpoint 1,.*--begin_anew'):
      Checkpoints(str(folder), 5).newest_whole()


def test_C1_a_kill_between_a_checkpoint_and_its_listing_loses_nothing(tmp_path):
  writer = Checkpoints(str(tmp_path / 'checkpoints'), 5)
  writer.save(1, {'a': jnp.ones(3)}, {})
  writer.wait()
  with Manifest(str(tmp_path)).changing() as content:
    content['checkpoints'] = {}
  for _ in range(2):  # it is listed from then on
    step, notes = Checkpoints(str(tmp_path / 'checkpoints'), 5).newest_whole()
    assert step == 1
  assert not notes


def test_C1_a_checkpoint_that_is_replaced_stays_until_the_other_is_whole(tmp_path, monkeypatch):
  writer = Checkpoints(str(tmp_path / 'checkpoints'), 5)
  writer.save(1, {'a': jnp.ones(3)}, {'first': True})
  writer.wait()
  with monkeypatch.context() as patch:
    patch.setattr(writer._manager, 'save', lambda *_, **__: 1 / 0)  # a kill, or a full disk
    with pytest.raises(ZeroDivisionError):
      writer.save(1, {'a': jnp.ones(3)}, {'first': False}, {'bleu': 1.0})
  assert Checkpoints(str(tmp_path / 'checkpoints'), 5).newest_whole() == (1, [])
  writer = Checkpoints(str(tmp_path / 'checkpoints'), 5)
  writer.save(1, {'a': jnp.ones(3)}, {'first': False}, {'bleu': 1.0})
  writer.wait()
  assert Checkpoints(str(tmp_path / 'checkpoints'), 5).newest_whole() == (1, []) and writer.best() == 1
  assert not (tmp_path / 'replaced').exists()


def linked_checkpoints(tmp_path, small_disk):
  """A folder of checkpoints that is a link to another disk."""
  (small_disk / 'elsewhere').mkdir()
  (tmp_path / 'run').mkdir()
  (tmp_path / 'run' / 'checkpoints').symlink_to(small_disk / 'elsewhere')
  return tmp_path / 'run' / 'checkpoints'


def test_C1_checkpoints_on_another_disk_are_put_by_and_set_aside_as_on_the_same(tmp_path, small_disk, monkeypatch):
  folder = linked_checkpoints(tmp_path, small_disk)
  writer = Checkpoints(str(folder), 5)
  for step in (1, 2):
    writer.save(step, {'a': jnp.ones(3)}, {})
    writer.wait()
  with monkeypatch.context() as patch:
    patch.setattr(writer._manager, 'save', lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
      writer.save(2, {'a': jnp.ones(3)}, {})
  assert os.listdir(folder / 'replaced') == ['2'] and sorted(os.listdir(folder)) == ['1', 'replaced']
  assert Checkpoints(str(folder), 5).newest_whole() == (2, []) and sorted(os.listdir(folder)) == ['1', '2']
  shutil.copytree(folder / '2', folder.parent / 'replaced' / '2')  # where earlier versions put it by
  shutil.rmtree(folder / '2')
  (folder.parent / 'replaced' / '2.unfinished').mkdir()  # as a kill left it while a checkpoint was copied
  assert Checkpoints(str(folder), 5).newest_whole() == (2, []) and not (folder.parent / 'replaced').exists()
  flip(next(path for path in (folder / '2').rglob('*') if path.is_file() and path.stat().st_size), 0)
  step, notes = Checkpoints(str(folder), 5).newest_whole()
  assert step == 1 and 'was moved to damaged/2' in notes[0]
  assert os.listdir(folder) == ['1'] and os.listdir(folder.parent / 'damaged') == ['2']


def test_K3_a_kill_while_files_move_to_another_disk_leaves_one_of_the_two_whole(tmp_path, small_disk, monkeypatch):
  files = {'a': bytes(range(99)), 'b/c': b'1' * 999, 'b/d': b''}
  real = {name: getattr(os, name) for name in ('mkdir', 'fsync', 'replace', 'unlink', 'rmdir')}

  class Killed(BaseException):
    pass

  def killed_after(count, call):
    def counted(*inputs, **options):
      calls.append(call)
      if len(calls) > count:
        raise Killed  # also from what is done about it: nothing happens any more
      return real[call](*inputs, **options)
    return counted

  def contents(place):
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob('*') if path.is_file()}

  for count in range(100):
    source, target, calls = tmp_path / str(count), small_disk / str(count), []
    for name, content in files.items():
      (source / name).parent.mkdir(parents=True, exist_ok=True)
      (source / name).write_bytes(content)
    with monkeypatch.context() as patch, contextlib.suppress(Killed):
      for call in real:
        patch.setattr(os, call, killed_after(count, call))
      Disk().move(str(source), str(target))
    assert contents(target if target.exists() else source) == files
    if len(calls) <= count:
      break
    if not target.exists():
      Disk().move(str(source), str(target))  # over what was left unfinished
    assert contents(target) == files and not list(small_disk.glob('*.unfinished'))
  assert 10 < count < 99 and not source.exists()


def test_C2_a_full_disk_keeps_the_checkpoint_before(small_disk):
  state = lambda step: {'a': jax.random.normal(jax.random.key(step), (1 << 18,))}  # 1 MB that does not compress
  writer = Checkpoints(str(small_disk / 'run' / 'checkpoints'), 5)
  for step in (1, 2):
    writer.save(step, state(step), {})
    writer.wait()
  with pytest.raises(CheckpointError, match='no room to save step 3 .*; step 2 is whole'):
    writer.save(3, state(3), {})
    writer.wait()
  found = Checkpoints(str(small_disk / 'run' / 'checkpoints'), 5)
  assert found.newest_whole() == (2, [])
  here = jax.sharding.SingleDeviceSharding(jax.devices()[0])
  wanted = {'a': jax.ShapeDtypeStruct((1 << 18,), jnp.float32, sharding=here)}
  np.testing.assert_array_equal(found.restore(2, wanted)[0]['a'], state(2)['a'])
  folder = run_folder.RunFolder(str(small_disk / 'run'))
  with pytest.raises(run_folder.FolderFullError, match='bytes free, and a checkpoint takes about 50,000,000'):
    folder.probe(50_000_000)
  assert sorted(os.listdir(folder.path)) == ['checkpoints', 'manifest.json']


@pytest.mark.parametrize('changes, leaf, option', [
    (dict(d_model=24), 'embedding', 'model.d_model'), (dict(num_heads=4), 'attention', 'num_heads'),
    (dict(d_ff=32), 'feed_forward', 'd_ff'), (dict(num_layers=2), 'layers_1', 'num_layers'),
    (dict(vocab_size=301, target_vocab_size=301), 'embedding', 'vocabulary.size'),
    (dict(attention_bias=True), 'b_', 'attention_bias'), (dict(positions='learned'), 'positions', 'model.positions'),
    (dict(norm_bias=False), 'bias', 'norm_bias')])
def test_C4_a_checkpoint_of_another_model_names_leaf_and_option(run, changes, leaf, option):
  from transformer import model as models
  sizes = dict(vocab_size=300, target_vocab_size=300, d_model=16, num_heads=2, num_layers=1, d_ff=24, norm='pre')
  wanted = jax.eval_shape(models.build(ModelConfig(**sizes | changes)).init, jax.random.key(0))
  began = time.process_time()  # other work on the machine does not count
  with pytest.raises(CheckpointError) as caught:
    Checkpoints(str(run / 'checkpoints')).restore_params(8, wanted)
  assert leaf in str(caught.value) and option in str(caught.value) and time.process_time() - began < 5


def test_C4_a_vocabulary_that_was_exchanged_is_noticed(corpus, run, tmp_path):
  workdir = tmp_path / 'run'
  shutil.copytree(run, workdir)
  model = bytearray((workdir / 'vocabulary.model').read_bytes())
  at = model.index(b'Baum') if b'Baum' in model else model.index(b'Haus')
  model[at:at + 1] = b'P'  # the same size, another entry
  (workdir / 'vocabulary.model').write_bytes(bytes(model))
  with pytest.raises(DamagedError, match='vocabulary.model'):
    train.main(options(corpus, workdir, '--config.train.num_steps=9'))
  (workdir / 'manifest.json').unlink()  # as in a run from before there were manifests
  for use in (lambda: train.main(options(corpus, workdir, '--config.train.num_steps=9')), lambda: tasks.load(str(workdir))):
    with pytest.raises(CheckpointError, match='another vocabulary'):
      use()


# ------------------------------------------------------------------------------------------- mistakes and malice


SHORT_OF_MEMORY = '''
import re, resource, types
import jax, jax.numpy as jnp, numpy as np
from training import failures
from batching.shapes import Shape
from transformer import partitioning
from transformer.config import MeshConfig

options = failures.MemoryOptions(1, 512, 1, 25_000, 8, None, {'max_length': 32})
mesh = partitioning.make_mesh(MeshConfig(1))
state = types.SimpleNamespace(params={'w': jax.device_put(jnp.ones(8192), partitioning.replicated(mesh))})
hungry = lambda w, x, axis=None: jnp.sort(jnp.sin(x[:, :, None] * w[None, None]), axis=1).sum()  # 1 MB a row, twice
step = partitioning.compile_step(hungry, mesh, 'jit', False)
rows = lambda count: np.ones((count, 32), np.float32)
step(state.params['w'], rows(8))
programs = {count: step.program(state.params['w'], rows(count)) for count in (512, 256, 128, 64, 32)}
with open('/proc/self/statm') as file:
  used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 300_000_000,) * 2)
try:
  failures.check_memory(programs[512], options, Shape(512, 32, 32), state, 512)
except failures.OutOfMemoryError as error:
  print(error)
  parts = int(re.search('accumulation_steps=([0-9]+)', str(error)).group(1))
  assert f'batch_tokens={options.batch_tokens // parts} ' in str(error)
try:
  with failures.lack_of_memory_named(options):
    print(float(step(state.params['w'], rows(512))))
except failures.OutOfMemoryError as error:
  print('really', error.exit_code, 'accumulation_steps=2' in str(error))
failures.check_memory(programs[512 // parts], options, Shape(512 // parts, 32, 32), state, 512 // parts)
print('fits', float(step(state.params['w'], rows(512 // parts))) > 0, parts)
'''


@pytest.mark.long
def test_G2_a_lack_of_memory_names_two_overrides_that_fit():
  done = subprocess.run([sys.executable, '-c', SHORT_OF_MEMORY], cwd=ROOT, capture_output=True, text=True, timeout=120)
  assert done.returncode == 0, done.stderr[-3000:]
  forecast, really, fits = done.stdout.splitlines()
  assert 'a step over 512 × (32, 32) needs' in forecast and 'on a device that has' in forecast
  assert really == 'really 8 True' and fits.startswith('fits True') and int(fits.split()[-1]) >= 2


MEMORY = dict(fsdp=1, d_model=512, accumulation_steps=2, batch_tokens=6400, row_multiple=8, fixed_rows=None,
              lengths={'max_length': 100})


@pytest.mark.parametrize('changes, rows, expected', [
    ({}, 64, ['1/4', 'train.accumulation_steps=8', 'train.batch_tokens=1600']),
    ({}, 32, ['shorten', 'data.max_length=50', 'mesh.fsdp=2', 'model.d_model=256']),  # a quarter of 32 rows is not 16 rows
    ({}, 16, ['shorten', 'data.max_length=50']),
    ({'fixed_rows': 64}, 64, ['either', 'train.accumulation_steps=8', 'data.fixed_rows=16']),
    ({'fixed_rows': 80}, 80, ['this would need', 'data.fixed_rows=16']),  # 80 rows are no multiple of 4 × 16
    ({'fixed_rows': 16, 'lengths': {'fixed_source_length': 0, 'fixed_target_length': 90}}, 16,
     ['with --config.data.fixed_target_length=45, split'])])
def test_remedies_for_lack_of_memory_are_overrides_that_are_accepted(changes, rows, expected):
  """A quarter of the rows would fit."""
  given = failures.MemoryOptions(**MEMORY | changes)
  found = failures.remedies(need=1000, fixed=200, room=500, rows=rows, options=given)
  assert all(part in found for part in expected), found
  assert given.fixed_rows is None or 'batch_tokens' not in found
  assert 'accumulation_steps' in found or rows % (4 * given.fewest)


@pytest.mark.parametrize('batch_tokens, expected', [(3200, 'accumulation_steps=4'), (3199, 'data.max_length=50')])
def test_a_backends_lack_of_memory_names_fewer_rows_where_there_are_fewer(batch_tokens, expected):
  with pytest.raises(failures.OutOfMemoryError, match=expected):
    with failures.lack_of_memory_named(failures.MemoryOptions(**MEMORY | {'batch_tokens': batch_tokens})):
      raise jax.errors.JaxRuntimeError('RESOURCE_EXHAUSTED: out of memory')


WRONG = [  # option, value, what the message says is expected
    ('model.num_heads', 7, 'divisible'), ('model.norm', 'mid', 'post, pre'), ('model.dropout', 1.5, 'probability'),
    ('data.batching', 'loose', 'buckets, fixed, packed'), ('data.max_length', 0, 'positive'),
    ('optimizer.kind', 'adams', 'adamw'), ('optimizer.clip_norm', -1.0, 'positive'), ('mesh.fsdp', 0, 'positive'),
    ('train.max_skipped', 0, 'positive'), ('search.beam_size', 0, 'positive'), ('search.extra_length', 0, 'positive'),
    ('vocabulary.kind', 'bpes', 'unigram'), ('train.log_every', 0, '1 or more'), ('train.ema_decay', 1.0, 'below 1')]


def test_G1_mistakes_are_told_together_before_anything_is_made(tmp_path):
  def told(*flags):
    began = time.monotonic()
    done = subprocess.run([sys.executable, 'train.py', '--config=configs/phrasebook.py', f'--workdir={tmp_path}/run',
                           *flags], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == exit_codes.CONFIG and not os.listdir(tmp_path), done.stderr
    assert 'Traceback' not in done.stderr
    return done.stderr, time.monotonic() - began

  text, _ = told('--config.model.d_modle=3', '--config.model.d_ff=wide', '--config.seed=1.5', '--confg=3',
                 'configs/toy.py', '--config.train.num_steps=5', '--config.train.num_minutes=3')
  for words in ('config.model.d_modle', 'config.model.d_ff=wide', 'config.seed=1.5', '--confg=3', "'configs/toy.py'"):
    assert words in text
  text, seconds = told(*(f'--config.{name}={value}' for name, value, _ in WRONG))
  for name, _, remedy in WRONG:  # several of one section are told, too
    section, _, option = name.rpartition('.')
    assert any(f'config.{section}: ' in line and option in line and remedy in line for line in text.split('\n')), name
  assert f'{len(WRONG)} mistakes' in text and seconds < 20  # the 5 s of a machine that has nothing else to do


def test_G1_what_cannot_be_divided_does_not_hide_other_mistakes():
  with pytest.raises(ValueError) as caught:
    ModelConfig(vocab_size=11, target_vocab_size=11, num_heads=0, d_k=-1, norm='mid', dropout=1.5)
  assert [line.split()[0] for line in str(caught.value).split('\n')] == ['num_heads', 'd_k', 'norm', 'dropout']


def sources():
  for place, folders, names in os.walk(ROOT):
    folders[:] = [name for name in folders if not name.startswith('.') and name not in ('runs', 'data', 'tests')]
    yield from (os.path.join(place, name) for name in names if name.endswith('.py'))


PROGRAMS = 'training/hardware.py'  # the one module that says where compiled programs lie, which are code
FORBIDDEN = {'eval', 'exec', 'compile', 'system', 'popen', 'exec_module', 'allow_pickle', '__import__'}
ALLOWED = {('options/configurations.py', 'exec_module')}  # the Python file that the user names with --config


def test_S1_nothing_that_is_loaded_is_executed():
  for path in sources():
    name = os.path.relpath(path, ROOT)
    with open(path, encoding='utf-8') as file:
      tree = ast.parse(file.read())
    for node in ast.walk(tree):
      if isinstance(node, ast.Constant) and isinstance(node.value, str):
        assert 'compilation_cache' not in node.value or name == PROGRAMS, name
      if isinstance(node, ast.Attribute):
        assert 'compilation_cache' not in node.attr, name
      if isinstance(node, (ast.Import, ast.ImportFrom)):
        names = [alias.name for alias in node.names] + [getattr(node, 'module', None) or '']
        modules = {name.split('.')[0] for name in names}
        assert not modules & {'pickle', 'cloudpickle', 'dill', 'joblib', 'shelve', 'marshal'}, name
      if isinstance(node, ast.Call):
        called = getattr(node.func, 'id', None) or (node.func.attr if isinstance(node.func, ast.Attribute) else None)
        plain = isinstance(node.func, ast.Name) or getattr(getattr(node.func, 'value', None), 'id', '') in (
            'os', 'builtins', 'module_spec') or called == 'exec_module' or isinstance(
            getattr(node.func, 'value', None), ast.Attribute) and called == 'exec_module'
        if called in FORBIDDEN and plain:
          assert (name, called) in ALLOWED, f'{name}, line {node.lineno}: {called}'
        for keyword in node.keywords:
          assert not (keyword.arg in ('shell', 'allow_pickle') and getattr(keyword.value, 'value', True)), name


class Trap:
  """What a pickle may carry."""

  def __reduce__(self):
    return os.mkdir, ('trapped',)


def test_S2_malicious_files_are_refused_without_a_side_effect(run, tmp_path, monkeypatch):
  from batching import store as stores
  monkeypatch.chdir(tmp_path)
  workdir = tmp_path / 'run'
  shutil.copytree(run, workdir)
  trap = pickle.dumps(Trap())
  store = next(path for path in (workdir / 'data').iterdir() if path.is_dir())
  huge = b"\x93NUMPY\x01\x00v\x00{'descr': '<i8', 'shape': (9000000000000,), 'fortran_order': False}".ljust(128) + b'1234'
  np.save(tmp_path / 'trap.npy', np.array([Trap()], dtype=object), allow_pickle=True)
  kept = {name: (store / name).read_bytes() for name in ('source.ids.npy', 'source.offsets.npy')}
  for name, content in itertools.product(kept, ((tmp_path / 'trap.npy').read_bytes(), huge)):
    (store / name).write_bytes(content)  # a pickle; a header that claims 72 terabytes
    for fits in (False, True):  # from somebody who makes the sums fit
      if fits:
        listed = unsealed((store / 'sums.json').read_text())
        listed['files'][name] = sum_of(str(store / name))
        (store / 'sums.json').write_text(sealed(listed))
      with pytest.raises(DamagedError, match=name):
        stores.open_folder(store.name, str(workdir / 'data'), lambda place: None)
    (store / name).write_bytes(kept[name])
    listed['files'][name] = sum_of(str(store / name))
    (store / 'sums.json').write_text(sealed(listed))
  (workdir / 'vocabulary.model').write_bytes(trap)
  with pytest.raises(DataError):
    Vocabulary.load(str(workdir / 'vocabulary.model'))
  with Manifest(str(workdir)).changing() as content:
    content['checkpoints']['8']['files']['../../../../etc/passwd'] = 'x'
  with pytest.raises(DamagedError, match='manifest.json'):
    Checkpoints(str(workdir / 'checkpoints')).check(8)
  shutil.copy(run / 'manifest.json', workdir)
  (workdir / 'config.json').write_bytes(trap)
  with pytest.raises(DamagedError, match='config.json'):
    run_folder.RunFolder.open(str(workdir))
  (workdir / 'manifest.json').unlink()
  with pytest.raises(DamagedError, match='config.json'):
    run_folder.RunFolder.open(str(workdir)).read_config()
  assert not os.path.exists('trapped')
