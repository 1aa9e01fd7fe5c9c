"""Beam search on real text, where lengths differ: a trained run, or a model with random arrays, beside other systems.

    python -m benchmarks.decode_text --workdir=runs/m30k --input=test.en --reference=test.de
    python -m benchmarks.decode_text --workdir=runs/m30k --input=test.en --reference=test.de --peer_python=PEER/bin/python \\
        --systems=ours,ctranslate2,ctranslate2_int8,hugging_face
    python -m benchmarks.decode_text --workdir=runs/phrasebook --input=split:test …     # short lines
    python -m benchmarks.decode_text --input=newstest2014.en --lines=300 …             # long lines, random arrays

Each system gets the same arrays, vocabulary and lines. A round of a system is the whole file, text to ids, all searches
and ids to text; after one round of each that compiles and is not counted, the systems take turns, round by round, and
one that waits is stopped (SIGSTOP), since threads may spin for a while after their work. Prints one table. CPU-seconds
are those of all threads of the system's process, which other work on the machine disturbs less than the clock. But the
others' threads spin while they wait for one that other work keeps from its core: measure on quiet cores or, for
CPU-seconds alone, with OMP_WAIT_POLICY=PASSIVE KMP_BLOCKTIME=0 in the environment.

The model goes out as `convert.py export` writes it, to CTranslate2 with the package ctranslate2 of this environment.
PEER is an environment of the other systems alone: python -m venv PEER && PEER/bin/pip install torch transformers
ctranslate2 sentencepiece. benchmarks/peers_on_text.py says how each is called, benchmarks/random_model.py what the model
without --workdir is. The length penalty is n^alpha, which all systems have. They end a search in different ways: this
project when no other hypothesis can overtake the best any more, CTranslate2 when as many have ended as the beam has.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from checks import memory

if __name__ == '__main__':
  memory.keep()  # as decode.py does, before the imports below start a thread

import jax  # noqa: E402

import tasks  # noqa: E402
from benchmarks import random_model  # noqa: E402
from benchmarks.decode import timed  # noqa: E402
from benchmarks.packed_work import write_work  # noqa: E402
from checks.errors import ConfigError  # noqa: E402
from corpora import loading  # noqa: E402
from corpora.text_files import read_lines  # noqa: E402
from decoding import inputs, scores  # noqa: E402
from decoding.translator import Translator  # noqa: E402
from options import programs  # noqa: E402
from tasks import setup  # noqa: E402
from training import environment, hardware  # noqa: E402
from training.run_folder import RunFolder  # noqa: E402

# The names of this project, and search.early_stopping.
OURS = {'ours': 'exact', 'ours_full': 'full', 'ours_heuristic': 'heuristic', 'ours_top': 'top'}
# The names of the others, and the format of the model that they open.
PEERS = {'ctranslate2': 'ctranslate2', 'ctranslate2_int8': 'ctranslate2', 'hugging_face': 'huggingface'}


class Round(NamedTuple):
  """What one round took, in seconds."""

  wall: float
  processor: float  # of all threads


class System(Protocol):
  """A system that has translated the lines once."""

  name: str
  texts: list[str]

  def run(self) -> Round:
    """Translate all lines again."""
    ...


def main() -> None:
  options = parse()
  hardware.split_processor()
  hardware.keep_programs()
  lines, references = read(options)
  translators = {name: load(options, lines, how) for name, how in OURS.items() if name in options.systems}
  translator = next(iter(translators.values())) if translators else load(options, lines, 'exact')
  made, load_before = environment.environment(jax.devices(), {}), os.getloadavg()[0]
  with contextlib.ExitStack() as ends, tempfile.TemporaryDirectory() as folder:
    if formats := {PEERS[name] for name in options.systems if name in PEERS}:
      write_work(folder, translator, lines, sorted(formats), beam=options.beam, alpha=options.alpha, threads=options.threads,
                 batch_tokens=options.peer_batch_tokens)
    systems = [Ours(translators[name], lines) if name in OURS else ends.enter_context(started(name, folder, options))
               for name in options.systems]
    rounds = [[system.run() for system in systems] for _ in range(options.rounds)]
  print(header(options, lines, made, load_before))
  print(table(systems, list(zip(*rounds)), references))


def parse() -> argparse.Namespace:
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument('--input', required=True, help='sentences, one a line, none of them blank; or split:test, as in decode.py')
  parser.add_argument('--reference', help='their translations, for BLEU')
  parser.add_argument('--workdir', help='folder of a translation run; without it, a model of the size of the paper\'s '
                      'base with random arrays')
  parser.add_argument('--systems', default=['ours'], type=lambda text: text.split(','),
                      help=f'which, separated by commas: {", ".join((*OURS, *PEERS))} (default ours); the others of '
                      'ours end a search with that early_stopping')
  parser.add_argument('--peer_python', help='the Python of an environment with the other systems')
  for name, default, kind, text in (
      ('lines', None, int, 'translate the first so many lines (default: all)'),
      ('rounds', 5, int, 'counted rounds of each system (default 5)'),
      ('beam', 4, int, 'hypotheses; 1 is greedy search (default 4)'),
      ('alpha', 0.6, float, 'exponent of the length penalty (default 0.6)'),
      ('batch_tokens', None, int, 'ours: rows × beams × source length of a device\'s batch (default: as decode.py)'),
      ('peer_batch_tokens', 2048, int, 'the others: rows × source length of a batch (default 2048)'),
      ('threads', os.cpu_count(), int, 'the others: threads (default: one for each core)')):
    parser.add_argument(f'--{name}', type=kind, default=default, help=text)
  options = parser.parse_args()
  unknown = [name for name in options.systems if name not in (*OURS, *PEERS)]
  if unknown or len(set(options.systems)) < len(options.systems):
    parser.error(f'--systems is {",".join(options.systems)}; expected some of {", ".join((*OURS, *PEERS))}, each once')
  if options.input.startswith(inputs.SPLIT) and not options.workdir:
    parser.error(f'--input is {options.input}, a split of a run; --workdir is missing')
  if not set(options.systems) <= set(OURS) and not options.peer_python:
    parser.error('--peer_python is missing: the Python of an environment with the systems that --systems names')
  return options


def read(options: argparse.Namespace) -> tuple[list[str], list[str] | None]:
  """Return the lines to translate and their references."""
  if options.input.startswith(inputs.SPLIT):
    pairs = inputs.split_of(options.input, loading.load(setup.of_folder(RunFolder.open(options.workdir)).corpus))
    return [pair.source for pair in pairs][:options.lines], [pair.target for pair in pairs][:options.lines]
  lines = read_lines(options.input)
  references = read_lines(options.reference) if options.reference else None
  if references is not None:
    scores.check_counts(lines, references, options.input, options.reference)
    references = references[:options.lines]
  lines = lines[:options.lines]
  blank = [number for number, line in enumerate(lines, 1) if not line.strip()]
  if blank:
    raise ConfigError(f'{options.input}, line {blank[0]}: blank; the systems treat blank lines differently, leave them out')
  return lines, references


def load(options: argparse.Namespace, lines: list[str], early_stopping: str) -> Translator:
  """Return the run's translator, or that of the random model."""
  if options.workdir is None:
    return random_model.translator(read_lines(options.input), lines, options.beam, options.alpha, options.batch_tokens,
                                   early_stopping)
  search = dict(beam_size=options.beam, length_penalty='length', alpha=options.alpha, batch_tokens=options.batch_tokens,
                early_stopping=early_stopping)
  found = tasks.load(options.workdir, **search)
  if not isinstance(found, Translator):
    raise ConfigError(f'--workdir: {options.workdir} is no translation run')
  return found


# -------------------------------------------------------------------------------------------------------- systems


class Ours:
  """This project, in this process."""

  def __init__(self, translator: Translator, lines: list[str]):
    """Translate the lines once, which compiles."""
    how = translator.search_config.early_stopping
    self.name = f'this project, jax {jax.__version__}, {how}'
    self._translate = lambda: translator.translate(lines)
    self.texts = [one.text for one in self._translate()]

  def run(self) -> Round:
    """Translate all lines again."""
    (wall,), (processor,) = timed(self._translate, 1)
    return Round(wall, processor)


class Peer:
  """Another system in a process of its own, which is stopped but for its own rounds."""

  def __init__(self, process: subprocess.Popen[str]):
    """Wait until the system has translated the lines once."""
    self._process = process
    told = self._answer()
    self.name, self.texts = told['system'], told['texts']
    process.send_signal(signal.SIGSTOP)

  def run(self) -> Round:
    """Translate all lines again."""
    assert self._process.stdin
    self._process.send_signal(signal.SIGCONT)
    self._process.stdin.write('\n')
    self._process.stdin.flush()
    took = Round(**self._answer())
    self._process.send_signal(signal.SIGSTOP)
    return took

  def _answer(self) -> Any:
    assert self._process.stdout
    answer = self._process.stdout.readline()
    if not answer:
      raise ConfigError(f'--peer_python: the process of another system ended with code {self._process.wait()}; its own '
                        'message stands above')
    return json.loads(answer)


@contextlib.contextmanager
def started(name: str, folder: str, options: argparse.Namespace) -> Iterator[Peer]:
  """Start a system of PEERS on the work in a folder; its process is ended with the block."""
  root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
  python = shutil.which(options.peer_python)
  if python is None:
    raise ConfigError(f'--peer_python: {options.peer_python} is no program')
  process = subprocess.Popen([os.path.abspath(python), '-m', 'benchmarks.peers_on_text', name, folder], cwd=root, text=True,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
  try:
    yield Peer(process)
  finally:
    process.kill()
    process.communicate()


# --------------------------------------------------------------------------------------------------------- table


def header(options: argparse.Namespace, lines: list[str], made: dict[str, Any], load_before: float) -> str:
  """Return what the table was measured with; `made` is the environment at the start."""
  device = jax.devices()[0].device_kind
  commit = 'unknown' if made['commit'] is None else made['commit'][:7] + ', changed' * made['uncommitted_changes']
  return (f'{time.strftime("%d %B %Y")}, commit {commit}, Python {made["python"]}, {made["cores"]} cores, '
          f'{jax.device_count()} devices ({device}), load average {load_before:.1f} before and {os.getloadavg()[0]:.1f} '
          f'after\n{len(lines):,} lines of {os.path.basename(options.input)}, '
          f'{options.workdir or "random arrays"}, beam {options.beam}, n^{options.alpha:g}, {options.rounds} rounds in turn: '
          f'python -m benchmarks.decode_text {" ".join(sys.argv[1:])}\n')


def table(systems: list[System], rounds: list[tuple[Round, ...]], references: list[str] | None) -> str:
  """Return the rows of all systems in Markdown; `rounds` are those of each. The first system is the ratio's 1."""
  first, rows = statistics.median(one.wall for one in rounds[0]), []
  for system, took in zip(systems, rounds):
    walls = [one.wall for one in took]
    median = statistics.median(walls)
    same = sum(one == other for one, other in zip(system.texts, systems[0].texts)) / len(system.texts)
    words = statistics.mean(len(text.split()) for text in system.texts)
    bleu = f'{scores.corpus_scores(system.texts, references)["bleu"]:.2f}' if references else ''
    rows.append(f'| {system.name} | {median:.2f} | {min(walls):.2f} | {median / first:.2f} '
                f'| {statistics.median(one.processor for one in took):.2f} | {len(system.texts) / median:.0f} | {bleu} '
                f'| {same:.1%} | {words:.1f} |')
  return '\n'.join(['| system | seconds, median | min | ratio | CPU-seconds | sentences/s | BLEU | same texts | words |',
                    '|---|---:|---:|---:|---:|---:|---:|---:|---:|', *rows])


if __name__ == '__main__':
  programs.run(main)
