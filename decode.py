"""Translates, or continues, text with a trained run: raw lines in, raw lines out, one for one.

    python decode.py --workdir=runs/m30k --input=test.en --output=test.de --reference=ref.de
    echo "The dog sleeps." | python decode.py --workdir=runs/phrasebook
    echo "Once upon a time" | python decode.py --workdir=runs/lm --search.temperature=0.8

A language model continues each line; \\n in a prompt, and in what is written, stands for a line end.
Search options take the place of the run's own, for instance --search.beam_size=8 --search.alpha=1.0.
"""

import os
import sys

from experiment import command_line

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')  # hides XLA's notes to its developers; its errors still show
# --help and mistaken flags are answered here, before the seconds that the imports below take.
OPTIONS = command_line.parse_decode(sys.argv, __doc__) if __name__ == '__main__' else None

import jax  # noqa: E402
import tqdm  # noqa: E402

from corpora import text_files, vocabulary  # noqa: E402
from experiment import scores, tasks, text_lines  # noqa: E402
from experiment.run_folder import RunFolder, read_json  # noqa: E402


def main(options: command_line.DecodeOptions) -> int:
  """From lines to lines; returns the exit code."""
  folder = RunFolder.open(options.workdir)
  task = tasks.of(folder.read_config())
  if options.reference and not task.scores_references:
    raise command_line.ConfigError(f'--reference is for translations; {options.workdir} is a run of another kind '
                                   f'({task.name.replace("_", " ")})')
  lines = text_lines.read(options.input)
  references = text_files.read_lines(options.reference) if options.reference else None
  if references is not None:
    scores.check_counts(lines, references, options.input, options.reference)
  jax.config.update('jax_compilation_cache_dir', folder.compile_cache)
  writer = task.load(options.workdir, options.checkpoint, **options.search)
  warn_of_unseen([task.plain(line) for line in lines], folder)
  with tqdm.tqdm(total=len(lines), desc=task.verb, unit=' lines', leave=False, disable=None) as bar:
    texts = [found.text for found in task.write(writer, lines, bar.update)]
  write(texts, options.output)
  for note in writer.notes():
    say(note)
  if references is not None:
    say(scores.describe(scores.corpus_scores(texts, references), os.path.basename(options.reference)))
  return 0


def say(text: str) -> None:
  """Everything but the result goes to stderr."""
  print(text, file=sys.stderr, flush=True)


def write(lines: list[str], destination: str) -> None:
  """One line each; a file is written whole or not at all."""
  data = ''.join(f'{line}\n' for line in lines).encode()
  if destination == '-':
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
    return
  with open(f'{destination}.unfinished', 'wb') as file:
    file.write(data)
  os.replace(f'{destination}.unfinished', destination)


def warn_of_unseen(lines: list[str], folder: RunFolder) -> None:
  """Names words that training never saw: what comes out for them is guessed from their spelling."""
  known = vocabulary.load_words(folder.words)
  unseen = list(dict.fromkeys(word for line in lines for word in vocabulary.unseen_words(line, known)))
  if unseen:
    more = f' and {len(unseen) - 12:,} more' if len(unseen) > 12 else ''
    say(f'never seen in training: {", ".join(unseen[:12])}{more}')
    suggestions = read_json(folder.suggestions)
    if suggestions:
      say('sentences to try instead:\n  ' + '\n  '.join(suggestions[:3]))


if __name__ == '__main__':
  command_line.run(lambda: main(OPTIONS))
