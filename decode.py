"""Translates, or continues, text with a trained run: raw lines in, raw lines out, one for one.

    python decode.py --workdir=runs/m30k --input=test.en --output=test.de --reference=ref.de
    echo "The dog sleeps." | python decode.py --workdir=runs/phrasebook
    python decode.py --workdir=runs/a,runs/b --input=test.en --format=jsonl --n_best=4 --output=test.jsonl
    echo "Once upon a time" | python decode.py --workdir=runs/lm --search.temperature=0.8

Translations of standard input come line by line. A language model continues each line; \\n in a prompt, and in
what is written, stands for a line end. Search options take the place of the run's own, for instance
--search.beam_size=8 --search.alpha=1.0. docs/decoding.md and, for language models, docs/language_model.md describe
every option.
"""

import functools
import os
import sys
from collections.abc import Sequence

from checks import signals, startup

if __name__ == '__main__':
  startup.begin()  # before the seconds that the imports below take

from options import decode_options

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')  # hides XLA's notes to its developers; its errors still show
# --help and mistaken flags are answered here, before the seconds that the imports below take.
OPTIONS = decode_options.parse(sys.argv, __doc__) if __name__ == '__main__' else None

import tqdm  # noqa: E402

from checks.errors import ConfigError  # noqa: E402
from corpora import text_files  # noqa: E402
from decoding import inputs, jobs, outputs, scores, unseen  # noqa: E402
from decoding.answers import Answers, scoring  # noqa: E402
from options import programs  # noqa: E402
from options.decode_options import DecodeOptions  # noqa: E402
from options.flags import NO_INPUT  # noqa: E402
from tasks import setup, task_of, trained  # noqa: E402
from tasks.task import Task  # noqa: E402
from training import hardware, peers  # noqa: E402
from training.run_folder import RunFolder  # noqa: E402

PARTS_BAR = '{l_bar}{bar}| {n:,.2f}/{total:,} lines [{elapsed}<{remaining}]'  # a part is a fraction of its line


def main(options: DecodeOptions) -> int:
  """Answer lines with a trained run: read, load, answer, score; return the exit code."""
  folders = [RunFolder.open(path) for path in options.workdirs]
  folder = folders[0]
  task = task_of(folder.read_config())
  check(options, task)
  records = setup.of_folder(folder, options.search)
  read = functools.partial(inputs.read, options, records.corpus, task.line_by_line, folder.environment)
  found = None if options.input == '-' else read()
  if peers.found() is None:  # of several processes, each has to have as many devices as the others
    hardware.split_processor()
  peers.join(records.guards.heartbeat_seconds)
  signals.restore()
  for note in filter(None, map(trained.immaturity, options.workdirs)):
    say(note)
  with peers.errors_end_all(), outputs.claimed(options.output):
    jobs.check_sharing('-' not in (options.input, options.output) and not options.target and task.references)
    lines, references = found or read()  # standard input only now: several processes would each read a part of it
    hardware.keep_programs()
    answers = task.answering(folders, inputs.typed(options, lines, records.decoding.batch_tokens), records, say)
    if options.target:
      score(options, answers, lines)
    elif lines is None:
      converse(answers, folder)
    else:
      texts = answer_all(options, answers, lines, folder)
      if references and options.format == 'text' and peers.is_main():
        report_scores(options, texts, references, scores.language_of(lines, records.corpus.target_language))
    for note in answers.notes():
      say(note)
    jobs.end()
  return 0


def check(options: DecodeOptions, task: type[Task]) -> None:
  """Raise ConfigError when an option is not for the task of the run."""
  kind = f'{",".join(options.workdirs)} is a run of another kind ({task.name.replace("_", " ")})'
  if options.references and not task.references:
    raise ConfigError(f'--reference is for translations; {kind}')
  if options.input.startswith(inputs.SPLIT) and not task.references:
    raise ConfigError(f'--input={options.input} is for translations; {kind}')
  if given := options.not_for(task.name):
    raise ConfigError(f'{", ".join(given)}: for translations; {kind}')


def say(text: str) -> None:
  """Print to stderr: everything but the result goes there."""
  print(text, file=sys.stderr, flush=True)


def converse(answers: Answers, folder: RunFolder) -> None:
  """Answer lines of standard input as they come. Raises ConfigError when there is none."""
  first, warn = 0, unseen.warner(folder, say)
  for lines in jobs.arriving(sys.stdin.fileno(), 'standard input'):
    warn([answers.plain(line) for line in lines])
    outputs.put(answers.answer(lines, first))
    first += len(lines)
  if not first:
    raise ConfigError(NO_INPUT)


def answer_all(options: DecodeOptions, answers: Answers, lines: Sequence[str], folder: RunFolder) -> list[str]:
  """Answer all lines, write the answers to the output, and return them.

  A large job into a file is written in parts, and resumes where it was stopped.
  """
  answers.check(lines)
  if peers.is_main():
    unseen.warner(folder, say)([answers.plain(line) for line in lines])
  shown = PARTS_BAR if options.long_lines == 'split' else None
  with tqdm.tqdm(total=len(lines), desc=answers.verb, unit=' lines', leave=False, disable=None, bar_format=shown) as bar:
    to_lines = lambda some, first: answers.answer(some, first, bar.update)
    if options.output != '-':
      asked = lambda: jobs.depends_on(options, answers.fingerprint())
      return jobs.in_parts(lines, options.output, answers.part_lines or len(lines), asked, to_lines, say, bar.update)
    found = to_lines(lines, 0)
  outputs.put(found)
  return found


def score(options: DecodeOptions, answers: Answers, sources: Sequence[str]) -> None:
  """Write the log-probability and perplexity of given translations."""
  targets = text_files.read_lines(options.target)
  scores.check_counts(sources, targets, options.input, options.target)
  with tqdm.tqdm(total=len(sources), desc='scoring', unit=' lines', leave=False, disable=None) as bar:
    written, summary = scoring(answers).score(sources, targets, bar.update)
  if options.output != '-':
    jobs.write_whole(options.output, written)
  else:
    outputs.put(written)
  say(summary)


def report_scores(options: DecodeOptions, texts: list[str], references: list[list[str]], language: str) -> None:
  """Print BLEU, chrF and TER and, on request, BLEU as papers on this test set compute it."""
  name = ','.join(map(os.path.basename, options.references)) or options.input
  say(scores.describe(scores.corpus_scores(texts, *references, language=language)
                      | scores.error_rate(texts, *references, language=language), name))
  if options.paper_bleu:
    say(scores.describe_paper(scores.paper_bleu(texts, references[0], options.paper_bleu, language)))


if __name__ == '__main__':
  programs.run(lambda: main(OPTIONS))
