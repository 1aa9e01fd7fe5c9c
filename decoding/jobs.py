"""Large jobs, divided into parts on disk; and lines that arrive through a pipe.

A job that was killed goes on from the parts that are done, where they come from the same lines, options and model.
Several processes can share a job.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax

from checks import whole_files
from checks.errors import ConfigError, DamagedError, DataError
from corpora import text_files
from options.decode_options import DecodeOptions
from options.flags import PARTS_END
from training import peers
from training.json_files import read_json, write_json

_JOB, _PART_LINES = 'job.json', 'part_lines'
Answer = Callable[[Sequence[str], int], Sequence[str]]  # (lines, number of the first) -> a line for each


def write_whole(path: str, lines: Sequence[str]) -> None:
  """Write one line each to a file, which is there whole or not at all."""
  whole_files.write_whole(path, ''.join(f'{line}\n' for line in lines))


def depends_on(options: DecodeOptions, model: str) -> dict[str, str]:
  """Return what the answers depend on besides the lines.

  Args:
    options: of decode.py.
    model: a fingerprint of what --workdir and --checkpoint name, and of the search, see Answers.fingerprint.
  """
  elsewhere = ('output', 'references', 'paper_bleu', 'workdirs', 'checkpoints', 'stats')
  # In the order of names, not of the command line; and names of files may be of bytes that are no text.
  as_text = lambda value: str(dict(sorted(value.items())) if isinstance(value, Mapping) else value)
  return {name: as_text(value).encode('utf-8', 'backslashreplace').decode()
          for name, value in vars(options).items() if name not in elsewhere} | {'model': model}


def check_sharing(can_be_shared: bool) -> None:
  """Raise ConfigError in each of several processes when they cannot share what is asked for."""
  if jax.process_count() > 1 and not can_be_shared:
    peers.leave()  # every process finds this mistake: the end of none should look like a crash to the others
    raise ConfigError(
        f'{jax.process_count()} processes can share only the translation of a file into --output=FILE, in a folder '
        'that all of them see; start one process for anything else')


def in_parts(lines: Sequence[str], output: str, part_lines: int, asked: Callable[[], Mapping[str, Any]], answer: Answer,
             say: Callable[[str], Any], progress: Callable[[int], Any] = lambda lines: None) -> list[str]:
  """Answer all lines and write the answers to `output`; finished parts lie in `<output>.parts` until all are there.

  Several processes take the parts in turn, at least one each, and process 0 joins them; the others return nothing.
  They all have to see the folder of `output`.

  Args:
    lines: the input.
    output: path of a file.
    part_lines: lines of a part; a job of no more lines has no parts. One that goes on keeps the parts that it has,
      however many processes it has now.
    asked: returns what the answers depend on besides the lines; a job goes on only if it is the same. It is called
      when there are parts.
    answer: returns as many lines as it gets.
    say: called with a message when a job is resumed.
    progress: called with the number of lines that were answered before then.

  Raises:
    ConfigError: when the parts that are there belong to another job.
  """
  count, folder = jax.process_count(), output + PARTS_END
  if count > 1:
    part_lines = max(1, min(part_lines, -(-len(lines) // count)))
  elif len(lines) <= part_lines and not os.path.isfile(os.path.join(folder, _JOB)):
    found = list(answer(lines, 0))
    write_whole(output, found)
    return found
  with peers.main_first('the job is claimed'):
    part_lines = _claim(folder, {**asked(), 'lines': len(lines), 'part_lines': part_lines,
                                 'text': hashlib.sha256('\n'.join(lines).encode()).hexdigest()})
  starts = list(range(0, len(lines), part_lines))
  place = lambda start: os.path.join(folder, f'{start:012d}')
  own = starts[jax.process_index()::count]  # done or not: processes see each other's parts at different times
  missing = [start for start in own if not os.path.isfile(place(start))]
  if len(missing) < len(own):
    size = lambda parts: sum(min(part_lines, len(lines) - start) for start in parts)
    progress(size(own) - size(missing))
    say(f'going on: {len(own) - len(missing):,} of {len(own):,} parts are done')
  for start in missing:
    write_whole(place(start), answer(lines[start:start + part_lines], start))
  peers.meet('all parts are done')
  if not peers.is_main():
    return []
  found = [line for start in starts for line in _read_part(place(start), min(part_lines, len(lines) - start))]
  write_whole(output, found)
  done = f'{folder}.done'  # a kill in between must not leave parts without what they belong to
  shutil.rmtree(done, ignore_errors=True)
  os.rename(folder, done)
  shutil.rmtree(done)
  return found


def _claim(folder: str, job: dict[str, Any]) -> int:
  """Make the folder for the parts of a job, or check that the one there belongs to the same job; return lines of a part."""
  manifest = os.path.join(folder, _JOB)
  job = json.loads(json.dumps(job))
  if os.path.isfile(manifest):
    try:
      before = dict(read_json(manifest))
      begun = int(before[_PART_LINES])
    except (DamagedError, ValueError, TypeError, KeyError):
      raise ConfigError(f'{manifest} is damaged; delete its folder to begin the job anew') from None
    wrong = {name for name in before.keys() | job.keys() if job.get(name) != before.get(name)} - {_PART_LINES, 'paper_bleu'}  # which earlier versions wrote
    if wrong == {'model'}:
      raise ConfigError(f'{folder} holds parts by another model: since then the run was trained further, or another '
                        '--workdir or --checkpoint was given. Delete that folder to translate every line with this '
                        'model; or give --checkpoint=STEP, the one of then, or another --output')
    if wrong - {'model'}:
      raise ConfigError(f'{folder} holds parts of another job: {", ".join(sorted(wrong - {"model"}))} differ; give the same input '
                        'and options to go on with it, another --output, or delete that folder')
    return begun
  if os.path.isdir(folder) and any(name.isdigit() for name in os.listdir(folder)):
    raise ConfigError(f'{folder} holds parts, but no job.json, which says what made them; delete that folder to begin the job '
                      'anew, or give another --output')
  os.makedirs(folder, exist_ok=True)
  write_json(manifest, job)
  return job[_PART_LINES]


def _read_part(path: str, count: int) -> list[str]:
  """Return the lines of a finished part. Raises DataError when they are not `count` lines of UTF-8."""
  try:
    with open(path, encoding='utf-8', newline='\n') as file:  # as it was written: a translation may end in CR
      found = file.read().split('\n')[:-1]
  except UnicodeDecodeError as error:
    raise DataError(f'{path} is damaged ({error}). Delete it and give the same command again') from None
  if len(found) != count:
    raise DataError(f'{path} has {len(found):,} lines; expected {count:,}. Delete it and give the same command again')
  return found


def end() -> None:
  """Leave the other processes once all are done: they wait for process 0, which scores, longer than jax would let them."""
  peers.meet('all is told')
  peers.leave()


def arriving(descriptor: int, name: str, at_once: int = 1 << 20) -> Iterator[list[str]]:
  """Read lines from a pipe or terminal as they arrive: one at a time at a prompt, thousands from a file.

  Args:
    descriptor: of the open file.
    name: what a message calls it.
    at_once: most bytes read at a time.

  Raises:
    DataError: naming the line, counted from the first that arrived, when the bytes are not UTF-8.
  """
  begun, before = [], 0  # bytes of a line whose end has not come yet, and lines yielded
  while data := os.read(descriptor, at_once):
    whole, end, rest = data.rpartition(b'\n')
    if end:
      lines = text_files.decode_lines(b''.join([*begun, whole, end]), name, before)
      before, begun = before + len(lines), []
      yield lines
    begun.append(rest)
  if rest := b''.join(begun):
    yield text_files.decode_lines(rest, name, before)
