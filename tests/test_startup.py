"""Scripts begin with the standard library alone, and say what to do where that is all there is."""

import pathlib
import subprocess
import sys

import pytest

from checks import exit_codes
from options.configurations import ROOT

SCRIPTS = sorted(path.name for path in pathlib.Path(ROOT).glob('*.py') if "__name__ == '__main__'" in path.read_text())
IN_ADVANCE = 'from checks import startup; startup.begin(); import {}'


def bare(*arguments):
  """Run Python without the packages that are installed."""
  return subprocess.run([sys.executable, '-S', *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize('script', SCRIPTS)
def test_K2_a_missing_package_is_a_sentence_on_how_to_make_an_environment(script):
  done = bare(script, '--help')
  assert done.returncode == exit_codes.CONFIG and done.stdout == ''
  assert done.stderr.startswith(f'error: {sys.executable} has no package ') and done.stderr.count('\n') == 1
  assert '`make train`' in done.stderr or '-m pip install -r requirements.txt' in done.stderr


@pytest.mark.parametrize('module', ['checks.nowhere', 'json.nowhere'])
def test_a_missing_module_of_a_package_that_is_there_keeps_its_traceback(module):
  done = bare('-c', IN_ADVANCE.format(module))
  assert done.returncode == exit_codes.UNEXPECTED and 'Traceback' in done.stderr and module in done.stderr


CLOSED = """
from checks import startup; startup.begin()
import os, sys
from options import programs
written = open(sys.argv[1], 'w')
print('progress', file=sys.stderr)
os.write(2, b'of a library')
sys.stdout.buffer.write(b'result'); programs._flush()
"""


@pytest.mark.parametrize('closed, expected', [('2>&-', b'result'), ('>&-', b'progressof a library'), ('>&- 2>&-', b''),
                                              ('<&- >&- 2>&-', b'')])
def test_what_is_written_to_a_closed_output_goes_nowhere(closed, expected, tmp_path):
  script = f'{sys.executable} -c "$1" {tmp_path}/file {closed}'
  done = subprocess.run(['sh', '-c', script, 'sh', CLOSED], cwd=ROOT, capture_output=True, timeout=60)
  assert done.returncode == 0, done.stderr
  assert done.stdout.replace(b'progress\n', b'progress') + done.stderr.replace(b'\n', b'') == expected
  assert (tmp_path / 'file').read_bytes() == b''


def test_little_is_imported_before_signals_are_handled():
  before = "import sys; before = {*sys.modules}; from checks import startup; print(*{*sys.modules} - before)"
  loaded = set(bare('-c', before).stdout.split())
  assert 'checks.startup' in loaded and loaded.isdisjoint({'re', 'shlex', 'importlib.metadata', 'typing'})


def test_garbage_is_looked_for_once_imports_are_done():
  done = bare('-c', 'import gc; from checks import startup; startup.begin(); print(gc.isenabled()); '
                    'startup.imported(); print(gc.isenabled(), gc.get_freeze_count() > 0)')
  assert done.stdout.split() == ['False', 'True', 'True'], done.stderr
  for path in (*pathlib.Path(ROOT).glob('*.py'), *pathlib.Path(ROOT, 'training').glob('*.py')):
    text = path.read_text()
    assert ('  startup.begin(' in text) == ('  programs.run(' in text or '  startup.imported()' in text), path
