"""Outputs: what stands in their way is found first, one job writes one, parts are of one model, errors are sentences."""

import contextlib
import errno
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

import decode
import tasks
import train
from batching import pieces, store
from checks import children, exit_codes, files, whole_files
from checks.errors import ConfigError, FileError, file_error
from decoding import jobs, outputs
from options import (
  analyze_options,
  configurations,
  convert_options,
  decode_options,
  option_types,
  programs,
  visualize_options,
)
from options.configurations import ROOT
from options.flags import split_paths
from tests.tiny_runs import options
from training import peers
from training.run_folder import FolderBusyError, RunFolder


def decoding(run, *more):
  return decode_options.parse(['decode.py', f'--workdir={run}', '--search.beam_size=2', *more], '')


@pytest.fixture
def copy(run, tmp_path):
  """A run that may be changed."""
  return shutil.copytree(run, tmp_path / 'runs' / 'copy')


# ----------------------------------------------------------------------------------------------- where outputs go


@pytest.mark.parametrize('script', [decode_options, visualize_options, analyze_options])
def test_an_output_that_cannot_be_written_is_found_among_the_flags(script, tmp_path, capsys):
  for output, words in ((f'{tmp_path}/none/out', f'there is no folder {tmp_path}/none; make it'),
                        (tmp_path, 'is a folder; give the path of a file in it'),
                        ('/dev/null', 'is not a regular file')):
    with pytest.raises(SystemExit) as ended:
      script.parse(['x.py', '--workdir=runs/x', f'--output={output}'], '')
    assert ended.value.code == exit_codes.CONFIG and words in capsys.readouterr().err
  script.parse(['x.py', '--workdir=runs/x', f'--output={tmp_path}/out'], '')


@pytest.mark.parametrize('script, flags', [(decode_options, ('input', 'reference', 'target')),
                                           (visualize_options, ('input', 'reference', 'beside')),
                                           (analyze_options, ('input', 'reference'))])
def test_what_is_read_is_no_output(script, flags, tmp_path, monkeypatch, capsys):
  monkeypatch.chdir(tmp_path)
  (tmp_path / 'text').write_text('one dog\n')
  (tmp_path / 'other').write_text('one dog\n')
  os.symlink('text', tmp_path / 'link')
  names = [('text', f'{tmp_path}/text'), ('link', './text'), ('text', 'link')]
  for flag in flags:
    for read, output in names + [('te*', 'text')] * (flag == 'input'):
      with pytest.raises(SystemExit) as ended:
        script.parse(['x.py', '--workdir=runs/x', '--input=other', f'--{flag}={read}', f'--output={output}'], '')
      assert ended.value.code == exit_codes.CONFIG
      assert f'--output={output} is a file that --{flag} reads, and would replace it' in capsys.readouterr().err
  for read, output in [('o*', 'out'), (f'{tmp_path}/out*', 'out'), ('*.lock', './out'), ('*.parts', f'{tmp_path}/out')] * (
      'input' in flags and script is decode_options):
    with pytest.raises(SystemExit):
      script.parse(['x.py', '--workdir=runs/x', f'--input={read}', f'--output={output}'], '')
    assert f'--output={output}: --input={read} would read it' in capsys.readouterr().err
  beside = [] if script is decode_options else ['--reference=text']
  script.parse(['x.py', '--workdir=runs/x', '--input=other', *beside, f'--output={tmp_path}/new'], '')
  assert (tmp_path / 'text').read_text() == 'one dog\n'


@pytest.mark.parametrize('script', [decode_options, visualize_options, analyze_options])
def test_an_output_that_is_a_link_is_written_where_it_points(script, tmp_path, capsys):
  (tmp_path / 'far').mkdir()
  parse = lambda: script.parse(['x.py', '--workdir=runs/x', f'--output={tmp_path}/link'], '')
  for target, place in (('far/old', 'far/old'), ('far/new', 'far/new')):  # a file that is there, and one that is not yet
    (tmp_path / 'far' / 'old').touch()
    os.symlink(target, tmp_path / 'link')
    assert parse().output == f'{tmp_path}/{place}'
    (tmp_path / 'link').unlink()
  for target, words in (('none/x', f'there is no folder {tmp_path}/none'), ('far', 'is a folder'),
                        ('/dev/null', 'not a regular file')):
    os.symlink(target, tmp_path / 'link')
    with pytest.raises(SystemExit):
      parse()
    assert words in capsys.readouterr().err
    (tmp_path / 'link').unlink()


def test_a_link_stays_when_its_file_is_written(run, tmp_path):
  (tmp_path / 'far').mkdir()
  (tmp_path / 'in').write_text('one dog\n')
  os.symlink('far/out', tmp_path / 'link')
  with outputs.claimed(f'{tmp_path}/far/out'), pytest.raises(FolderBusyError):  # by whichever name
    decode.main(decoding(run, f'--input={tmp_path}/in', f'--output={tmp_path}/link'))
  assert decode.main(decoding(run, f'--input={tmp_path}/in', f'--output={tmp_path}/link')) == 0
  assert os.readlink(tmp_path / 'link') == 'far/out' and (tmp_path / 'far' / 'out').read_text().count('\n') == 1
  assert sorted(os.listdir(tmp_path)) == ['far', 'in', 'link'] and os.listdir(tmp_path / 'far') == ['out']


def test_a_link_in_a_run_is_replaced_and_what_it_points_to_stays(tmp_path):
  (tmp_path / 'original').write_text('of another run')
  os.symlink('original', tmp_path / 'manifest.json')
  files.DISK.write(f'{tmp_path}/manifest.json', 'of this run')
  assert (tmp_path / 'original').read_text() == 'of another run' and not (tmp_path / 'manifest.json').is_symlink()


@pytest.mark.parametrize('script, option, arguments', [
    (analyze_options, 'pruned_workdir', ['--workdir=runs/x', '--prune=3']),
    (convert_options, 'output', ['export', '--workdir=runs/x', '--to=stablehlo']),
    (convert_options, 'workdir', ['import', '--from=opus'])])
def test_a_folder_that_cannot_be_made_is_found_among_the_flags(script, option, arguments, tmp_path, monkeypatch, capsys):
  (tmp_path / 'file').write_text('kept')
  (tmp_path / 'closed').mkdir()
  access = os.access
  monkeypatch.setattr(os, 'access', lambda path, mode: path != str(tmp_path / 'closed') and access(path, mode))
  for path, words in (('file/new', 'file is not a folder'), ('', 'exists and is not empty'), ('file', 'exists and is not empty'),
                      ('closed/new', 'closed cannot be written to')):
    with pytest.raises(SystemExit) as ended:
      script.parse(['x.py', *arguments, f'--{option}={tmp_path}/{path}'], '')
    assert ended.value.code == exit_codes.CONFIG and words in capsys.readouterr().err
  script.parse(['x.py', *arguments, f'--{option}={tmp_path}/new/deep'], '')
  assert not (tmp_path / 'new').exists()


def test_the_name_that_visualize_chooses_is_checked_too(tmp_path, monkeypatch, capsys):
  monkeypatch.chdir(tmp_path)
  (tmp_path / 'curves.svg').mkdir()
  with pytest.raises(SystemExit):
    visualize_options.parse(['visualize.py', '--workdir=runs/x', '--format=svg', '--figure=curves'], '')
  assert '--output=curves.svg is a folder' in capsys.readouterr().err


def test_a_folder_without_permission_is_refused(tmp_path, monkeypatch, capsys):
  monkeypatch.setattr(os, 'access', lambda path, mode: path != str(tmp_path))  # the user of tests may be root
  with pytest.raises(SystemExit):
    decoding('runs/x', f'--output={tmp_path}/out')
  assert f'the folder {tmp_path} cannot be written to' in capsys.readouterr().err


def test_standard_output_is_refused_by_scripts_that_write_files(run, capsys):
  for parse, words in ((visualize_options.parse, ['visualize.py', '--input=README.md']), (analyze_options.parse, ['analyze.py'])):
    with pytest.raises(SystemExit):
      parse([*words, f'--workdir={run}', '--output=-'], '')
    assert '--output=-: what is written is a file; give its path' in capsys.readouterr().err


def test_a_second_job_of_an_output_is_refused_and_nothing_is_left(run, tmp_path, monkeypatch):
  output = str(tmp_path / 'out')
  (tmp_path / 'in').write_text('one dog\n')
  with outputs.claimed(output):
    with pytest.raises(FolderBusyError, match=f'out is being written by process {os.getpid()} on ') as refused:
      decode.main(decoding(run, f'--input={tmp_path}/in', f'--output={output}'))
    assert refused.value.exit_code == exit_codes.FOLDER_BUSY and not os.path.exists(output)
    with outputs.claimed(str(tmp_path / 'other')), outputs.claimed('-'):
      pass
    monkeypatch.setattr(peers, 'is_main', lambda: False)
    with outputs.claimed(output):  # another process of the same job
      pass
  assert os.listdir(tmp_path) == ['in']


HOLD = 'import sys, time\nfrom decoding import outputs\nwith outputs.claimed(sys.argv[1]):\n  print(flush=True)\n  time.sleep(60)'


def test_a_killed_job_leaves_no_lock_and_files_of_others_stay(tmp_path):
  output = str(tmp_path / 'out')
  holder = subprocess.Popen([sys.executable, '-c', HOLD, output], cwd=ROOT, stdout=subprocess.PIPE)
  holder.stdout.readline()
  with pytest.raises(FolderBusyError, match=f'process {holder.pid} '), outputs.claimed(output):
    pass
  holder.send_signal(signal.SIGKILL)
  holder.wait()
  with outputs.claimed(output):
    pass
  assert not os.listdir(tmp_path)
  (tmp_path / 'out.lock').write_text('the lock of another program')
  with pytest.raises(ConfigError, match='out.lock is where .* but it is another file'), outputs.claimed(output):
    pass
  assert (tmp_path / 'out.lock').read_text() == 'the lock of another program'


def test_C6_parts_of_two_models_do_not_meet(corpus, copy, tmp_path, monkeypatch):
  lines = [f'{word} dog\n' for word in ('one', 'two', 'three', 'cat', 'house')]
  (tmp_path / 'in').write_text(''.join(lines))
  asked = [f'--input={tmp_path}/in', f'--output={tmp_path}/out', '--part_lines=2']
  with monkeypatch.context() as patch:
    write = jobs.write_whole
    patch.setattr(jobs, 'write_whole', lambda path, found: 1 / 0 if path.endswith('2') else write(path, found))
    with pytest.raises(ZeroDivisionError):
      decode.main(decoding(copy, *asked, '--checkpoint=latest'))
  assert os.path.exists(tmp_path / 'out.parts' / f'{0:012d}')
  assert train.main(options(corpus, copy, '--config.train.num_steps=10')) == 0
  with pytest.raises(ConfigError, match='out.parts holds parts by another model: .* was trained further'):
    decode.main(decoding(copy, *asked, '--checkpoint=latest'))
  moved = shutil.move(copy, tmp_path / 'moved')  # the model counts, not where it lies
  assert decode.main(decoding(moved, *asked, '--checkpoint=8')) == 0
  assert decode.main(decoding(moved, asked[0], f'--output={tmp_path}/whole', '--checkpoint=8')) == 0
  assert (tmp_path / 'out').read_text() == (tmp_path / 'whole').read_text()
  assert sorted(os.listdir(tmp_path)) == ['in', 'moved', 'out', 'runs', 'whole']


def test_the_fingerprint_of_a_model_is_of_all_that_decides_a_translation(copy):
  load = lambda *wanted, **search: tasks.load(str(copy), *wanted, **search).fingerprint()
  assert load('8') == load('latest')
  config = json.loads((copy / 'config.json').read_text())
  seen = {load('8'), load('6'), load('8', beam_size=3), load('8,6')}
  (copy / 'manifest.json').unlink()
  config['model']['position_layout'] = 'halves'  # which no parameter shows
  (copy / 'config.json').write_text(json.dumps(config))
  assert len(seen | {load('8')}) == 5


# --------------------------------------------------------------------------------------------- errors in writing


@pytest.mark.parametrize('number', [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EFBIG,
                                    errno.EIO, errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP])
def test_K2_errors_of_disks_and_permissions_are_sentences(number, capsys):
  def main():
    raise OSError(number, os.strerror(number), '/data/run/file')

  with pytest.raises(SystemExit) as ended:
    programs.run(main)
  text = capsys.readouterr().err
  assert ended.value.code == exit_codes.CHECKPOINT and '/data/run/file' in text and os.strerror(number) in text
  for other in (PermissionError(errno.EPERM, 'of a signal'), ConnectionResetError(errno.ECONNRESET, 'x'), ValueError(),
                FileExistsError(errno.EEXIST, 'of a name in memory')):
    assert file_error(other) is other


def test_C2_a_full_disk_is_named_with_the_file_that_found_no_room(small_disk):
  with pytest.raises(OSError) as full:
    whole_files.write_whole(f'{small_disk}/out', bytes(3_000_000))
  assert str(file_error(full.value)).startswith(f'{small_disk}/out cannot be read or written: No space left on device')
  assert not os.listdir(small_disk)  # what was written takes no room any more
  with pytest.raises(OSError) as full:
    store.open_folder('tokens', str(small_disk), lambda writer: writer.add(0, source=(np.zeros(0, np.int32), [1] * 500_000)))
  assert re.search(rf'{small_disk}/tokens.*/source.offsets.npy .*No space', str(file_error(full.value)))


@pytest.mark.parametrize('name, write', [
    ('lock', lambda folder: files.DISK.claim(str(folder))),
    ('out.lock', lambda folder: outputs.claimed(f'{folder}/out').__enter__()),
    ('x.log', lambda folder: children.run(['true'], 'true', f'{folder}/x.log', children.Echo(), children.Stops()))])
def test_C2_locks_and_logs_without_room_are_named(name, write, small_disk):
  with contextlib.suppress(OSError):
    (small_disk / 'filler').write_bytes(bytes(4_000_000))
  with pytest.raises(OSError) as full:
    write(small_disk)
  assert str(file_error(full.value)).startswith(f'{small_disk}/{name} cannot be read or written: No space left on device')


@pytest.mark.parametrize('name, lock', [
    ('lock', lambda folder: files.DISK.claim(folder)),
    ('store.unfinished/lock', lambda folder: pieces.write_store(f'{folder}/store', 'text', lambda writer: None)),
    ('out.lock', lambda folder: outputs.claimed(f'{folder}/out').__enter__()),
    ('lock', lambda folder: children.wait_until_free(f'{folder}/lock', children.Stops(), lambda: pytest.fail('not held')))])
def test_a_disk_without_locks_is_told_from_a_lock_that_is_held(name, lock, tmp_path, monkeypatch):
  def flock(file, operation):
    raise OSError(errno.ENOLCK, 'No locks available')

  monkeypatch.setattr(fcntl, 'flock', flock)
  (tmp_path / 'lock').touch()
  with pytest.raises(FileError, match=f'{tmp_path}/{name} cannot be locked: No locks available; choose a folder'):
    lock(str(tmp_path))


def test_a_folder_that_is_only_read_is_decoded_and_not_trained(corpus, run, small_disk):
  workdir = shutil.copytree(run, small_disk / 'run', ignore=shutil.ignore_patterns('2', '4', 'tensorboard'))
  (small_disk.parent / 'in').write_text('one dog\n')
  subprocess.run(['mount', '-o', 'remount,ro', str(small_disk)], check=True)
  assert decode.main(decoding(workdir, f'--input={small_disk.parent}/in', f'--output={small_disk.parent}/out')) == 0
  assert (small_disk.parent / 'out').read_text().count('\n') == 1
  with pytest.raises(OSError) as refused:
    train.main(options(corpus, workdir, '--config.train.num_steps=9'))
  told = file_error(refused.value)
  assert isinstance(told, FileError) and str(workdir) in str(told) and 'Read-only' in str(told)


FULL = '''
import sys
import jax
from training.checkpoint import Checkpoints
arrays = lambda step: {str(i): jax.random.normal(jax.random.key(i + step), (1 << 9,)) for i in range(300)}
writer = Checkpoints(sys.argv[1], 5)
for step in range(9):
  try:
    writer.save(step, {'many': arrays(step), 'large': jax.random.normal(jax.random.key(step), (1 << 17,))}, {})
    writer.wait()
  except Exception as error:
    print(f'error: {error}', file=sys.stderr)
    break
'''


def test_C2_a_full_disk_is_one_sentence(small_disk):
  done = subprocess.run([sys.executable, '-c', FULL, f'{small_disk}/checkpoints'], cwd=ROOT, capture_output=True,
                        text=True, timeout=120)
  assert done.stderr.startswith('error: no room to save step ') and done.stderr.count('\n') == 1, done.stderr


@pytest.mark.parametrize('script, arguments', [('train.py', '--help'), ('decode.py', '--helpfull'),
                                               ('decode.py', '--workdir={run} --input={corpus}/test.en')])
def test_a_reader_that_ends_first_ends_the_program_without_a_word(script, arguments, run, corpus):
  command = f'{sys.executable} {script} {arguments.format(run=run, corpus=corpus)} | true; exit ${{PIPESTATUS[0]}}'
  done = subprocess.run(['bash', '-c', command], cwd=ROOT, capture_output=True, text=True, timeout=120)
  assert done.returncode == exit_codes.PIPE_CLOSED
  assert 'Traceback' not in done.stderr and 'BrokenPipe' not in done.stderr and 'error' not in done.stderr


def test_a_full_disk_behind_standard_output_is_a_sentence():
  done = subprocess.run(f'{sys.executable} train.py --help > /dev/full', shell=True, cwd=ROOT, capture_output=True,
                        text=True, timeout=60)
  assert done.returncode == exit_codes.CHECKPOINT and done.stderr.startswith('error: standard output cannot')
  assert done.stderr.count('\n') == 1


# ------------------------------------------------------------------------------------------- types, files, paths


LOOSE = '''
from ml_collections import config_dict
from configs import default
def get_config():
  config = config_dict.ConfigDict(default.get_config().to_dict(), type_safe=False)
  config.unlock()
  {changes}
  return config
'''


def test_G1_all_values_of_wrong_types_are_named_together(tmp_path):
  path = tmp_path / 'mine.py'
  path.write_text(LOOSE.format(changes='config.model.d_model, config.data.test_splits, config.seed, config.mesh = '
                                       '"wide", "test", True, 3'))
  with pytest.raises(ConfigError) as refused:
    configurations.load_tree(str(path))
  for sentence in ("config.model.d_model is 'wide' (text); expected a whole number",
                   "config.data.test_splits is 'test' (text); expected a tuple",
                   'config.seed is True (true or false); expected a whole number',
                   'config.mesh is 3 (a whole number); expected a section of options'):
    assert f'{path}: {sentence}' in str(refused.value)
  path.write_text(LOOSE.format(changes='config.model.dropout, config.model.d_k, config.optimizer.peak = 0, None, 1'))
  assert configurations.load_tree(str(path)).model.dropout == 0


def test_G1_a_saved_configuration_is_checked_too(copy):
  config = json.loads((copy / 'config.json').read_text())
  assert not list(option_types.type_mistakes(config))
  (copy / 'manifest.json').unlink()
  config['model']['dropout'], config['model']['norm'], config['data']['tsv'] = None, 4, 2.5
  (copy / 'config.json').write_text(json.dumps(config))
  with pytest.raises(ConfigError) as refused:
    decode.main(decoding(copy))
  told = str(refused.value)
  assert told.startswith(f'{copy}/config.json is not what train.py wrote: 3 mistakes')
  for sentence in ('config.model.dropout is nothing; expected a number', 'config.model.norm is 4 (a whole number); '
                   'expected a text', 'config.data.tsv is 2.5 (a number); expected a text'):
    assert sentence in told


def test_a_missing_vocabulary_is_named_as_the_run_has_it(copy):
  (copy / 'vocabulary.model').rename(copy / 'aside')
  with pytest.raises(FileError, match=r'lost its vocabulary: vocabulary.model is missing \(vocabulary.model, or') as lost:
    RunFolder(str(copy)).load_vocabularies()
  assert lost.value.exit_code == exit_codes.CHECKPOINT
  (copy / 'aside').rename(copy / 'source.model')
  with pytest.raises(FileError, match='lost its vocabulary: target.model is missing;'):
    RunFolder(str(copy)).load_vocabularies()


def test_a_path_with_a_comma_is_one_path_where_it_exists(run, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  assert split_paths('a,b,c') == ('a', 'b', 'c')
  shutil.copytree(run, tmp_path / 'b,c')
  assert split_paths('a,b,c') == ('a', 'b,c') and split_paths('b,c,b,c,d') == ('b,c', 'b,c', 'd')
  (tmp_path / 'r,1').write_text('x\n')
  asked = decode_options.parse(['decode.py', '--workdir=b,c', '--reference=r,1,r2', '--checkpoint=6,8'], '')
  assert (asked.workdirs, asked.references, asked.checkpoints) == (('b,c',), ('r,1', 'r2'), ('6', '8'))
  assert tasks.load('b,c').translate([''])[0].text == ''
