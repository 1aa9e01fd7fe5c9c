"""How long a line that is typed at decode.py's prompt waits for its answer, in a terminal of its own.

    python -m benchmarks.typed_lines --workdir=runs/phrasebook
    python -m benchmarks.typed_lines --workdir=runs/phrasebook --rows 8 32

Two sentences of 12 words in turn. Prints one JSON line: for each number of rows the median, least and most milliseconds
from Enter to the answer, after those lines that compile.
"""

import argparse
import json
import os
import pty
import statistics
import subprocess
import sys
import termios
import time

from options.configurations import ROOT

LINES = ('The tired cat slept under the table and the dog slept too.',
         'My brother gave her an old book and the dog sleeps here.')


def waits(workdir: str, rows: int, count: int) -> list[float]:
  """Return the milliseconds that each of `count` lines waits, after four that do not count."""
  keyboard, terminal = pty.openpty()
  quiet = termios.tcgetattr(terminal)
  quiet[3] &= ~termios.ECHO
  termios.tcsetattr(terminal, termios.TCSANOW, quiet)
  # 16 tokens are what the sentences are padded to, and 4 the beams of a run's own search.
  asked = [] if rows == 8 else [f'--search.batch_tokens={rows * 16 * 4}']
  child = subprocess.Popen([sys.executable, 'decode.py', f'--workdir={os.path.abspath(workdir)}', *asked], cwd=ROOT,
                           stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
  found = []
  for number in range(count + 4):
    began = time.perf_counter()
    os.write(keyboard, f'{LINES[number % 2]}\n'.encode())
    if not child.stdout.readline():
      raise SystemExit(f'decode.py ended with exit code {child.wait()}; see what it says of --workdir={workdir}')
    found.append((time.perf_counter() - began) * 1000)
  os.write(keyboard, b'\4')  # Ctrl-D
  child.wait()
  return found[4:]


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument('--workdir', required=True, help='a trained run of a translator')
  parser.add_argument('--rows', type=int, nargs='+', default=[8, 32], help='of a search; 8 is what a prompt takes by itself')
  parser.add_argument('--lines', type=int, default=20, help='that count, of each round')
  parser.add_argument('--rounds', type=int, default=3, help='in which each number of rows has its turn')
  options = parser.parse_args()
  found = {rows: [] for rows in options.rows}
  for _ in range(options.rounds):
    for rows, so_far in found.items():
      so_far += waits(options.workdir, rows, options.lines)
  print(json.dumps({rows: {'median': round(statistics.median(each)), 'least': round(min(each)), 'most': round(max(each))}
                    for rows, each in found.items()}))


if __name__ == '__main__':
  main()
