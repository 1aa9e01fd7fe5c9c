"""All measurements that need an accelerator, one after the other, into one table.

    benchmarks/accelerator.sh --data=data/multi30k               # the folder of Multi30k's text, see configs/multi30k.py
    benchmarks/accelerator.sh --data=data/multi30k --minutes=8   # ends after 8 minutes; call it again
    benchmarks/accelerator.sh --data=data/multi30k --parts=base_128_cudnn,multi30k
    benchmarks/accelerator.sh --rehearsal                        # tiny sizes, on a CPU, too: does every part run?

Each part is a program of its own, the most important ones first, and takes 8 minutes at most. When one has ended, its
figures go to OUTPUT/parts/ and the table OUTPUT/results.md is written anew. The same command after a kill, Ctrl-C or
--minutes goes on with the first part that has not ended; the training run goes on at its last checkpoint. A part that
fails is listed with its last line of text, and OUTPUT/parts/NAME.log has the rest; --again measures such parts again.
Most of the time goes into compiling: a part of base needed about a minute on one H200, all parts an estimated half hour.
--compile_together=4 first runs the programs of four parts at a time for a step, and what they compile is found again
when each is measured alone; the device's memory has to hold them together.

Training is measured in full rows of one length, without attention dropout, as in the paper; Hugging Face's counterpart
where --peer_python has torch and transformers. Parts whose needs are missing are listed as left out.
"""

import argparse
import contextlib
import ctypes
import glob
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from checks import exit_codes
from checks.errors import ConfigError
from checks.whole_files import write_whole
from options import programs

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SECONDS, LEAST = 480, 60  # that a part takes at most, and that have to be left for one to begin
TRAINING, SEARCH, TEXT, QUALITY = 'A training step', 'Beam search, fixed work', 'Beam search, real text', 'Multi30k'
COLUMNS = {
    TRAINING: ('model, tokens a side', 'ms a step', 'target tokens/s', 'MFU', 'system'),
    SEARCH: ('model', 'seconds', 'sentences/s', 'target tokens/s', 'system'),
    QUALITY: ('test set', 'BLEU', 'chrF', 'steps', 'minutes'),
}
NOTES = {
    TRAINING: 'Forward, smoothed loss, backward and update on random rows without padding; medians.',
    SEARCH: 'Random arrays, every output as long as its source; medians.',
    TEXT: 'The run of the next section, text to text, systems in turn.',
    QUALITY: 'configs/multi30k.py with model.positions=sinusoidal, as the peers have; sacreBLEU on cased raw text, beam 4.',
}
DEVICE = """
import jax
from training.environment import environment
made = environment(jax.devices(), {})
changed = ', changed' if made['uncommitted_changes'] else ''
print(made['devices'][0], f'jax {jax.__version__}', f'Python {made["python"]}', f'commit {str(made["commit"])[:7]}{changed}',
      sep=', ')
"""
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
# Else XLA tries variants of each product on a GPU: minutes for a model whose training takes as many.
_NO_TUNING = '--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false'


class Part(NamedTuple):
  """One measurement."""

  name: str
  section: str
  command: list[str]  # of the program that prints or writes the figures
  rows: Callable[[str], str]  # what it printed -> lines of the section's table, or a whole table
  peer: bool = False  # whether the other systems' Python runs it
  resumes: bool = False  # whether it goes on where it was ended
  briefly: tuple[str, ...] = ()  # options with which it compiles everything and measures nothing
  xla_flags: str = ''  # besides the user's own
  needs: str = ''  # the part that has to come first
  lacks: str = ''  # why it is left out, if it is


def main() -> int:
  options = parse()
  os.makedirs(os.path.join(options.output, 'parts'), exist_ok=True)
  signal.signal(signal.SIGTERM, lambda *_: sys.exit(exit_codes.PREEMPTED))  # so that a part is ended, too
  deadline = time.monotonic() + 60 * options.minutes
  parts, place = list(planned(options)), os.path.join(options.output, 'results.md')
  names = [part.name for part in parts]
  wanted = options.parts.split(',') if options.parts else names
  if unknown := sorted(set(wanted) - set(names)):
    raise ConfigError(f'--parts names {", ".join(unknown)}; expected some of {", ".join(names)}')
  due = lambda part: part.name in wanted and is_due(options, part)
  compile_together(options, [part for part in parts if due(part) and part.briefly])
  for part in parts:
    if not due(part):
      continue
    left = deadline - time.monotonic()
    if left < LEAST:
      print(f'{options.minutes:g} minutes are over; the same command goes on with {part.name}.')
      break
    print(f'{part.name} …', flush=True)
    measure(options, part, min(SECONDS, left))
    write_whole(place, report(options, parts))
  text = report(options, parts)
  write_whole(place, text)
  print(text)
  return exit_codes.DONE


def parse() -> argparse.Namespace:
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument('--output', help='folder of the table (default runs/accelerator, or runs/rehearsal)')
  parser.add_argument('--data', help="folder of Multi30k's text; without it, its part is left out")
  parser.add_argument('--minutes', type=float, default=1e9, help='end after so many minutes')
  parser.add_argument('--parts', help='measure these alone, by their names, as in base_128,multi30k; the rest later')
  parser.add_argument('--compile_together', type=int, default=0, help='compile so many parts at the same time, first')
  parser.add_argument('--again', action='store_true', help='measure again what failed')
  parser.add_argument('--rehearsal', action='store_true', help='tiny sizes, to see whether every part runs')
  parser.add_argument('--peer_python', default=sys.executable, help='Python with torch and transformers (default: this)')
  options = parser.parse_args()
  options.output = options.output or ('runs/rehearsal' if options.rehearsal else 'runs/accelerator')
  if options.rehearsal and not options.data:
    options.data = made_up_text(os.path.join(options.output, 'text'))
  if options.data and not glob.glob(os.path.join(options.data, 'train.en*')):
    parser.error(f'--data={options.data} holds no train.en; expected the files that configs/multi30k.py names')
  return options


def made_up_text(folder: str) -> str:
  """Write a corpus of Multi30k's files with a few words, for the rehearsal, and return its folder."""
  words = {'one': 'eins', 'two': 'zwei', 'dog': 'Hund', 'cat': 'Katze', 'house': 'Haus', 'tree': 'Baum'}
  draw = random.Random(0)
  os.makedirs(folder, exist_ok=True)
  for split, size in (('train', 150), ('val', 11), ('test_2016_flickr', 9)):
    lines = [draw.choices(list(words), k=draw.randint(2, 5)) for _ in range(size)]
    for language, read in (('en', str), ('de', words.get)):
      write_whole(os.path.join(folder, f'{split}.{language}'), ''.join(' '.join(map(read, line)) + '\n' for line in lines))
  return folder


# ---------------------------------------------------------------------------------------------------- what is measured


def planned(options: argparse.Namespace) -> Iterator[Part]:
  """Yield all parts, in the order of their importance."""
  tiny = ['--d-model=32', '--layers=1', '--heads=2', '--d-ff=64', '--vocab=300']
  base = tiny if options.rehearsal else ['--d-model=512', '--layers=6', '--heads=8', '--d-ff=2048', '--vocab=37000']
  big = tiny if options.rehearsal else ['--d-model=1024', '--layers=6', '--heads=16', '--d-ff=4096', '--vocab=37000']
  on_gpu = device(options).startswith('gpu')
  tokens, long = (256, 16) if options.rehearsal else (24576, 128)
  no_peer = '' if has_peer(options) else f'{options.peer_python} has no torch and transformers'
  no_data = '' if options.data else '--data is not given'

  def training(name: str, sizes: list[str], length: int, *more: str, peer: bool = False, lacks: str = '') -> Part:
    module = 'benchmarks.hugging_face_step' if peer else 'benchmarks.train_step'
    steps = ['--steps=2', '--warmup=1'] if options.rehearsal else ['--steps=8', '--warmup=2', '--together=5']
    command = ['-m', module, *sizes, f'--batch={tokens // length}', f'--length={length}', '--attention-dropout=0', *steps,
               *more]
    how = ' '.join(option.removeprefix('--') for option in more)
    title = f'{name.split("_")[0]}, {tokens // length} × {length}' + (f', {how}' if how else '')
    return Part(name, TRAINING, command, lambda text: training_row(title, figures(text)), peer, lacks=lacks,
                briefly=() if peer else ('--steps=1', '--warmup=0', '--together=1'))

  half = '--dtype=bfloat16'
  kernel = lambda name: f'--attention-kernel={name}'
  no_gpu = '' if on_gpu else 'cuDNN needs an NVIDIA GPU'
  yield training('base_128', base, long, half)
  yield training('big_128', big, long, half)
  yield training('base_128_cudnn', base, long, half, kernel('cudnn'), lacks=no_gpu)
  yield training('base_128_xla', base, long, half, kernel('xla'))
  yield training('big_128_cudnn', big, long, half, kernel('cudnn'), lacks=no_gpu)
  yield from translation(options, on_gpu, no_data)
  for name, sizes in (('base', base), ('big', big)):
    work = ['--batch=2', '--length=4', '--runs=1'] if options.rehearsal else ['--batch=256', '--length=32', '--runs=5']
    command = ['-m', 'benchmarks.decode', *sizes, half, *work]
    yield Part(f'search_{name}', SEARCH, command, lambda text, name=name: search_row(name, figures(text)),
               briefly=('--runs=1',))
  yield training('base_hugging_face', base, long, peer=True, lacks=no_peer)
  yield training('big_hugging_face', big, long, peer=True, lacks=no_peer)
  systems = 'ours' if no_peer else 'ours,hugging_face'
  command = ['-m', 'benchmarks.decode_text', f'--workdir={options.output}/multi30k', '--input=split:test_2016_flickr',
             f'--systems={systems}', f'--peer_python={options.peer_python}', '--rounds=3']
  yield Part('text', TEXT, command, table_of, needs='multi30k', lacks=no_data)
  yield training('base_64', base, long // 2, half)
  yield training('base_64_xla', base, long // 2, half, kernel('xla'))
  yield training('base_128_rbg', base, long, half, '--dropout-bits=rbg')
  yield training('base_128_float32', base, long, '--dtype=float32')


def translation(options: argparse.Namespace, on_gpu: bool, lacks: str) -> Iterator[Part]:
  """Yield the training of Multi30k's run, to its end and its scores."""
  workdir = os.path.join(options.output, 'multi30k')
  sizes = [
      '--config.model.d_model=16', '--config.model.num_heads=2', '--config.model.num_layers=1', '--config.model.d_ff=24',
      '--config.vocabulary.size=300', '--config.train.batch_tokens=256', '--config.data.packed_length=32',
      '--config.train.num_steps=8', '--config.train.eval_every=4', '--config.train.checkpoint_every=2',
      '--config.train.average_last=2', '--config.train.eval_sentences=5'] if options.rehearsal else []
  command = ['train.py', '--config=configs/multi30k.py', f'--config.data.directory={options.data}',
             f'--workdir={workdir}', '--config.model.positions=sinusoidal',
             '--config.data.test_splits=("test_2016_flickr",)', *sizes]

  def rows(_: str) -> str:
    with open(os.path.join(workdir, 'results.json'), encoding='utf-8') as file:
      found = json.load(file)
    return '\n'.join(line(test, f'{score["bleu"]:.1f}', f'{score["chrf"]:.1f}', f'{found["step"]:,}',
                          f'{found["seconds"] / 60:.1f}') for test, score in found['scores'].items())

  yield Part('multi30k', QUALITY, command, rows, resumes=True, xla_flags=_NO_TUNING if on_gpu else '', lacks=lacks)


def figures(text: str) -> Mapping[str, Any]:
  """Return the figures of a program that prints one line of JSON, after whatever else is printed."""
  return json.loads(text.strip().splitlines()[-1])


def training_row(title: str, found: Mapping[str, Any]) -> str:
  """Return the row of a training step."""
  mfu = found.get('mfu')
  return line(title, f'{1e3 * found["step_seconds_median"]:.1f}', f'{found["target_tokens_per_second"]:,.0f}',
              f'{mfu:.1%}' if mfu else '', found['system'])


def search_row(name: str, found: Mapping[str, Any]) -> str:
  """Return the row of a search."""
  return line(f'{name}, {found["batch"]} × {found["length"]}, beam {found["beam"]}', f'{found["seconds_median"]:.3f}',
              f'{found["sentences_per_second"]:,.0f}', f'{found["target_tokens_per_second"]:,.0f}', found['system'])


def table_of(text: str) -> str:
  """Return the table in a program's output."""
  return '\n'.join(row for row in text.splitlines() if row.startswith('|'))


def line(*cells: str) -> str:
  """Return a row of a table in Markdown."""
  return f'| {" | ".join(cells)} |'


# ------------------------------------------------------------------------------------------------------- running them


def is_due(options: argparse.Namespace, part: Part) -> bool:
  """Return whether a part can be measured and has not been."""
  before, needed = recorded(options, part.name), recorded(options, part.needs) if part.needs else {'rows': ''}
  return not part.lacks and 'rows' in (needed or {}) and (not before or options.again and 'failed' in before)


def compile_together(options: argparse.Namespace, parts: list[Part]) -> None:
  """Have several programs at a time compile what they will need, into OUTPUT/programs; none if it is not asked for."""
  waiting, running = list(parts) if options.compile_together else [], []
  try:
    while waiting or running:
      running = [process for process in running if process.poll() is None]
      while waiting and len(running) < options.compile_together:
        part = waiting.pop(0)
        print(f'compiling {part.name} …', flush=True)
        running.append(subprocess.Popen(
            [sys.executable, *part.command, *part.briefly], cwd=ROOT, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, preexec_fn=end_with_parent,
            env=environment(options, part.xla_flags) | {'XLA_PYTHON_CLIENT_PREALLOCATE': 'false'}))
      time.sleep(0.1)
  finally:
    for process in running:
      end(process)


def environment(options: argparse.Namespace, xla_flags: str = '') -> dict[str, str]:
  """Return the environment of the programs, in which they keep what they compile for each other."""
  kept = os.path.join(os.path.abspath(options.output), 'programs')
  flags = f'{os.environ.get("XLA_FLAGS", "")} {xla_flags}'.strip()
  return {'JAX_COMPILATION_CACHE_DIR': kept, **os.environ, 'XLA_FLAGS': flags, 'PYTHONUNBUFFERED': '1'}


def measure(options: argparse.Namespace, part: Part, seconds: float) -> None:
  """Run a part for so many seconds at most, and record its rows, or why there are none."""
  log, started = os.path.join(options.output, 'parts', f'{part.name}.log'), time.monotonic()
  python = options.peer_python if part.peer else sys.executable
  code, text = run([python, *part.command], log, seconds, environment(options, part.xla_flags))
  record = {'command': ['python', *part.command], 'seconds': round(time.monotonic() - started, 1)}
  if code is None and (part.resumes or seconds < SECONDS):
    print(f'{part.name} is not done after {seconds:.0f} seconds; the same command goes on with it.', flush=True)
    return
  if code is None:
    record['failed'] = f'not done after {seconds:.0f} seconds'
  elif code:
    with open(log, encoding='utf-8', errors='replace') as file:
      said = file.read().strip().splitlines() or ['nothing printed']
    record['failed'] = f'exit code {code}: {said[-1][:300]}'
  else:
    record['rows'] = part.rows(text)
  write_whole(path_of(options, part.name), json.dumps(record, indent=1))


def run(command: list[str], log: str, seconds: float, variables: Mapping[str, str]) -> tuple[int | None, str]:
  """Run a program that ends with this one. Returns its exit code, None where time was up, and what it printed.

  The log has what it wrote to both streams, also where time was up.
  """
  code = None
  with open(log, 'w', encoding='utf-8') as errors, tempfile.TemporaryFile('w+', encoding='utf-8') as output:
    process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=errors, text=True, preexec_fn=end_with_parent,
                               env=variables)
    try:
      code = process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
      pass
    finally:
      end(process)
      output.seek(0)
      text = output.read()
      errors.write(text)
  return code, text


def end(process: subprocess.Popen[str]) -> None:
  """End a program: training saves what it has when it is asked to."""
  with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
    process.terminate()
    process.wait(timeout=30)
  process.kill()
  process.wait()


def end_with_parent() -> None:
  """Have Linux kill this process with the one that started it, even after kill -9: else two would share the device."""
  if sys.platform == 'linux':
    ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)


def path_of(options: argparse.Namespace, name: str) -> str:
  """Return the file of a part's figures."""
  return os.path.join(options.output, 'parts', f'{name}.json')


def recorded(options: argparse.Namespace, name: str) -> dict[str, Any] | None:
  """Return what a part has recorded; None where it has not ended."""
  try:
    with open(path_of(options, name), encoding='utf-8') as file:
      return json.load(file)
  except FileNotFoundError:
    return None


def device(options: argparse.Namespace) -> str:
  """Return the device, as 'gpu NVIDIA H200, jax 0.10.2, …', found in a program of its own so that this one holds none.

  Raises:
    ConfigError: when jax finds none.
  """
  found = recorded(options, 'device')
  if found is None:
    log = os.path.join(options.output, 'parts', 'device.log')
    code, text = run([sys.executable, '-c', DEVICE], log, SECONDS, environment(options))
    if code != 0:
      raise ConfigError(f'{sys.executable} finds no device for jax; {log} says why')
    found = {'device': text.strip().splitlines()[-1]}
    write_whole(path_of(options, 'device'), json.dumps(found))
  return found['device']


def has_peer(options: argparse.Namespace) -> bool:
  """Return whether the other systems' Python has them."""
  try:
    return not subprocess.run([options.peer_python, '-c', 'import torch, transformers'], capture_output=True).returncode
  except OSError:
    raise ConfigError(f'--peer_python={options.peer_python} is no program') from None


# ---------------------------------------------------------------------------------------------------------- the table


def report(options: argparse.Namespace, parts: list[Part]) -> str:
  """Return the table of all parts, in Markdown."""
  found = {part.name: recorded(options, part.name) for part in parts}
  title = 'Rehearsal: tiny sizes, whose figures mean nothing' if options.rehearsal else 'Measured on an accelerator'
  text = [f'# {title}', '', f'{device(options)}; {time.strftime("%d %B %Y")}.']
  for section in NOTES:
    done = [found[part.name] for part in parts if part.section == section and 'rows' in (found[part.name] or {})]
    if done:
      head = [line(*COLUMNS[section]), '|' + '---|' * len(COLUMNS[section])] if section in COLUMNS else []
      commands = [f'    {" ".join(record["command"])}' for record in done]
      text += ['', f'## {section}', '', NOTES[section], '', *head, *(record['rows'] for record in done), '', *commands]
  missing = {part.name: part.lacks or (found[part.name] or {}).get('failed', 'not yet') for part in parts
             if 'rows' not in (found[part.name] or {})}
  if missing:
    text += ['', '## Not measured', '', *(f'* {name}: {why}' for name, why in missing.items())]
  total = sum(record['seconds'] for record in found.values() if record)
  return '\n'.join([*text, '', f'{total / 60:.1f} minutes of programs in all.', ''])


if __name__ == '__main__':
  programs.run(main)
