"""Child processes: what they write is logged and shown, and their last error is told."""

import os
import re
import sys

import pytest

from checks import children


def child(code):
  return [sys.executable, '-u', '-c', code]


def run(tmp_path, code, view):
  with children.stop_signals() as stops:
    return children.run(child(code), 'python x.py', str(tmp_path / 'logs' / 'x.log'), view, stops)


def test_all_that_a_child_writes_is_logged_and_shown(tmp_path, capsys, monkeypatch):
  monkeypatch.setattr(children, 'POLL_SECONDS', 0.05)
  code = ("import sys, time; print('one ü'); time.sleep(0.4); sys.stdout.write('half'); time.sleep(0.4); "
          "print(' and half', end='')")
  assert run(tmp_path, code, children.Echo()) == (0, 'half and half')
  assert capsys.readouterr().out == 'one ü\nhalf and half\n'
  code = "import sys; print('begins'); print('error: no\\n  such file', file=sys.stderr); sys.exit(3)"
  assert run(tmp_path, code, children.Echo()) == (3, 'error: no\n    such file')  # of this child alone
  assert (tmp_path / 'logs' / 'x.log').read_text() == (
      '$ python x.py\none ü\nhalf and half$ python x.py\nbegins\nerror: no\n  such file\n')


def test_K4_a_parent_that_can_write_no_more_stops_its_child(tmp_path, monkeypatch):
  """As in `recipe.py … | head`: the child would go on, and nobody would see it."""
  monkeypatch.setattr(children, 'POLL_SECONDS', 0.05)

  class Closed(children.Echo):
    def update(self):
      if os.path.getsize(tmp_path / 'logs' / 'x.log') > 20:
        raise BrokenPipeError

  code = ("import pathlib, signal, sys, time\n"
          f"def save(*_): pathlib.Path({str(tmp_path / 'saved')!r}).touch(); sys.exit(143)\n"
          "signal.signal(signal.SIGTERM, save)\nprint('ready', 'to be stopped')\ntime.sleep(60)")
  with pytest.raises(BrokenPipeError):
    run(tmp_path, code, Closed())
  assert (tmp_path / 'saved').exists()


def test_progress_is_told_when_it_changes(tmp_path, capsys, monkeypatch):
  monkeypatch.setattr(children, 'POLL_SECONDS', 0.05)
  done = tmp_path / 'done'
  code = f"import pathlib, time; time.sleep(0.3); pathlib.Path({str(done)!r}).touch(); time.sleep(0.5); print('ends')"
  assert run(tmp_path, code, children.Echo(lambda: f'{50 * os.path.exists(done)} %'))[0] == 0
  assert capsys.readouterr().out == '0 %\n50 %\nends\n'
  os.remove(done)
  monkeypatch.setattr(children, 'POLL_SECONDS', 60)  # the child ends before it is looked at
  assert run(tmp_path, code.replace('time.sleep(0.5)', 'time.sleep(0)'), children.Echo(lambda: f'{50 * os.path.exists(done)} %'))[0] == 0
  assert capsys.readouterr().out == 'ends\n50 %\n'


def test_a_terminal_shows_progress_below_what_the_child_writes(tmp_path):
  """In a terminal of its own: the line of progress is written over, and gone at the end."""
  pty = pytest.importorskip('pty')
  log, seen = tmp_path / 'x.log', tmp_path / 'seen'
  child = f'import os, time\nprint("one")\nwhile not os.path.exists({str(seen)!r}): time.sleep(0.01)\nprint("two")'
  script = f'''
import pathlib, sys
sys.path.insert(0, {children.__file__.rpartition('/checks/')[0]!r})
from checks import children
children.POLL_SECONDS, shown = 0.05, []

def progress():
  shown.append('one' in pathlib.Path({str(log)!r}).read_text())
  if shown[-2:] == [True, True]:  # so that an update has printed it, and the line below
    pathlib.Path({str(seen)!r}).touch()
  return 'half done'

with children.stop_signals() as stops:
  children.run([sys.executable, '-u', '-c', {child!r}], 'x', {str(log)!r}, children.Echo(progress), stops)
'''
  written = []

  def read(descriptor):
    data = os.read(descriptor, 1024)
    written.append(data)
    return data

  assert os.waitstatus_to_exitcode(pty.spawn([sys.executable, '-c', script], read)) == 0
  out = b''.join(written).decode().replace('\r\n', '\n')
  line = re.escape('\r\x1b[Khalf done')
  assert re.search(rf'\r\x1b\[Kone\n({line})+\r\x1b\[Ktwo\n({line})*\r\x1b\[K$', out), out
