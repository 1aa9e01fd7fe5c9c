"""Seconds and peak memory of preparing a corpus: made-up pairs, from text files to the plan of batches.

    python -m benchmarks.preparing --pairs 20000000 --folder made_up

Writes pairs of 3 to 9 words, drawn by Zipf's law from 200,000 a language, to files in the folder, unless they are there;
then runs `train.py --inspect` on them, which checks and hashes the text, drops duplicates, counts words, makes the
vocabulary, tokenises and plans. Killed, the same command goes on. Prints one JSON line: `own_peak_MiB` is the memory
that the process held itself, looked up ten times a second (Linux alone); `peak_MiB` counts the pages of mapped token
stores as well, which the system takes back when memory is short.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time

import numpy as np

_PARTS, _LINES = 4, 100_000  # files of a language; lines written at a time
_LETTERS = np.array(list('abcdefghijklmnoprstuvwz'))


def parse() -> argparse.Namespace:
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument('--pairs', type=int, default=2_000_000)
  parser.add_argument('--folder', default='made_up', help='of the text, and of the run')
  parser.add_argument('--vocabulary', default='bpe', help='vocabulary.kind')
  parser.add_argument('--batching', choices=('buckets', 'packed'), default='buckets')
  return parser.parse_args()


def write_text(folder: str, pairs: int) -> None:
  """Write the files; the folder appears when they are whole."""
  draw, unfinished = np.random.default_rng(0), f'{folder}.unfinished'
  shutil.rmtree(unfinished, ignore_errors=True)  # what a kill has left
  os.makedirs(unfinished)
  chances = np.cumsum(1 / np.arange(10, 200_010))
  for code in ('en', 'de'):
    words = [''.join(draw.choice(_LETTERS, size)) for size in draw.integers(2, 10, len(chances))]
    for part in ('val', *(f'train-{number}' for number in range(_PARTS))):
      count = 500 if part == 'val' else pairs // _PARTS
      with open(os.path.join(unfinished, f'{part}.{code}'), 'w', encoding='utf-8') as file:
        for start in range(0, count, _LINES):
          ends = np.cumsum(draw.integers(3, 10, min(_LINES, count - start)))
          text = [words[i] for i in np.searchsorted(chances, draw.random(ends[-1]) * chances[-1]).tolist()]
          file.writelines(' '.join(text[first:last]) + '\n' for first, last in zip([0, *ends], ends))
  os.rename(unfinished, folder)


def main() -> None:
  options = parse()
  text = os.path.join(options.folder, 'text')
  if not os.path.isdir(text):
    write_text(text, options.pairs)
  start, own = time.monotonic(), 0.0
  preparing = subprocess.Popen([
      sys.executable, 'train.py', '--config=configs/multi30k.py:adam', f'--config.data.directory={text}',
      '--config.data.train_split=train-*', '--config.data.validation_split=val', '--config.data.test_splits=()',
      '--config.data.drop_duplicates=true', f'--config.vocabulary.kind={options.vocabulary}',
      f'--config.data.batching={options.batching}', f'--workdir={os.path.join(options.folder, "run")}', '--inspect'],
      stdout=sys.stderr)
  while preparing.poll() is None:
    own = max(own, own_memory(preparing.pid))
    time.sleep(0.1)
  if preparing.returncode:
    raise SystemExit(preparing.returncode)
  used = resource.getrusage(resource.RUSAGE_CHILDREN)
  print(json.dumps({'seconds': time.monotonic() - start, 'processor_seconds': used.ru_utime + used.ru_stime,
                    'own_peak_MiB': own, 'peak_MiB': used.ru_maxrss / 1024, **vars(options)}))


def own_memory(process: int) -> float:
  """Return the MiB that a process holds itself, without pages of files; 0 where the system does not say."""
  try:
    with open(f'/proc/{process}/status', encoding='ascii') as file:
      return next((int(line.split()[1]) / 1024 for line in file if line.startswith('RssAnon:')), 0.0)
  except OSError:  # it has just ended, or this is no Linux
    return 0.0


if __name__ == '__main__':
  main()
