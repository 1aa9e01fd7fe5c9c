"""Translates, or continues, text with a trained run: raw lines in, raw lines out, one for one.

    python decode.py --workdir=runs/m30k --input=test.en --output=test.de --reference=ref.de
    echo "The dog sleeps." | python decode.py --workdir=runs/phrasebook
    python decode.py --workdir=runs/a,runs/b --input=test.en --format=jsonl --n_best=4 --output=test.jsonl
    echo "Once upon a time" | python decode.py --workdir=runs/lm --search.temperature=0.8

Translations of standard input come line by line. A language model continues each line; \\n in a prompt, and in
what is written, stands for a line end. Search options take the place of the run's own, for instance
--search.beam_size=8 --search.alpha=1.0. docs/decoding.md describes every option.
"""

import glob
import os
import re
import sys
from collections.abc import Sequence
from typing import BinaryIO

from options import command_line

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')  # hides XLA's notes to its developers; its errors still show
# --help and mistaken flags are answered here, before the seconds that the imports below take.
OPTIONS = command_line.parse_decode(sys.argv, __doc__) if __name__ == '__main__' else None

import jax  # noqa: E402
import tqdm  # noqa: E402

from checks.errors import ConfigError, DataError  # noqa: E402
from corpora import loading, text_files, tfds_sets, vocabulary  # noqa: E402
from corpora.splits import Pair  # noqa: E402
from decoding import jobs, long_lines, minimum_bayes_risk, output_formats, scores, text_lines  # noqa: E402
from tasks import registry  # noqa: E402
from training import (
  hardware,  # noqa: E402
  peers,  # noqa: E402
)
from training.run_folder import RunFolder, read_json  # noqa: E402

SPLIT = 'split:'  # before the name of one of the run's own splits, in place of a file
TFDS = re.compile(r'tfds:([^:]+(?::\d+\.\d+\.\d+)?):(.+)')  # a set, mostly with a variant, and a split of it


def main(options: command_line.DecodeOptions) -> int:
  """From lines to lines; returns the exit code."""
  folder = RunFolder.open(options.workdir.split(',')[0])
  config = folder.read_config()
  task = registry.of(config)
  check(options, task)
  lines, references = read(options, config, task)
  if peers.found() is None:  # several share out their jobs by devices, of which each has to have as many
    hardware.split_processor()
  peers.join(config['train']['heartbeat_seconds'])
  with peers.errors_end_all():
    return write(options, task, lines, references, folder, config)


def write(options: command_line.DecodeOptions, task: registry.Task, lines: list[str] | None, references: list[list[str]],
          folder: RunFolder, config: dict) -> int:
  """The answers, to where they belong, and what is to be said of them; returns the exit code."""
  check_sharing(options, task)
  jax.config.update('jax_compilation_cache_dir', folder.compile_cache)
  writer = task.load(options.workdir, options.checkpoint, **search_options(options))
  if task is registry.TRANSLATION:
    writer.say = say
    if options.long_lines == 'split':
      writer = long_lines.Splitter(writer, writer.longest_trained, config['data']['target_language'])
  if options.target:
    return score(options, writer, lines)
  if lines is None:
    converse(options, task, writer, folder)
    texts = []
  else:
    if peers.is_main():
      warn_of_unseen([task.plain(line) for line in lines], folder)
    texts = translate_all(options, task, writer, lines)
  for note in writer.notes():
    say(note)
  if references and peers.is_main():
    tell_scores(options, texts, references, config['data']['target_language'])
  peers.leave()
  return 0


def check(options: command_line.DecodeOptions, task: registry.Task) -> None:
  """Raises ConfigError when the run is of another kind than the options are for."""
  if options.reference and not task.scores_references:
    raise ConfigError(f'--reference is for translations; {options.workdir} is a run of another kind '
                                   f'({task.name.replace("_", " ")})')
  if task is not registry.TRANSLATION and (given := options.for_translations()):
    raise ConfigError(f'{", ".join(given)}: for translations; {options.workdir} is a run of another kind '
                                   f'({task.name.replace("_", " ")})')


def check_sharing(options: command_line.DecodeOptions, task: registry.Task) -> None:
  """Raises ConfigError when several processes cannot share what is asked for."""
  if jax.process_count() > 1 and (options.output == '-' or options.target or task is not registry.TRANSLATION):
    peers.leave()  # each finds the same mistake: nobody's end shall look like a death to another
    raise ConfigError(
        f'{jax.process_count()} processes share the translation of files alone, into --output=FILE that all of them see: '
        'standard output is nobody\'s; start one process for anything else')


def search_options(options: command_line.DecodeOptions) -> dict:
  """The given ones, with as many certain translations as are wanted; samples for minimum Bayes risk have to be drawn."""
  if options.mbr:
    return {**options.search, 'strategy': 'sample'}
  return {**options.search, 'n_best': int(options.n_best)} if options.n_best != '1' else dict(options.search)


def say(text: str) -> None:
  """Everything but the result goes to stderr."""
  print(text, file=sys.stderr, flush=True)


def read(options: command_line.DecodeOptions, config: dict, task: registry.Task
         ) -> tuple[list[str] | None, list[list[str]]]:
  """(lines, references): of files, or of one of the run's own splits; None for lines that are yet to come."""
  references = [text_files.read_lines(path) for path in options.reference.split(',')] if options.reference else []
  if options.input.startswith('tfds:'):
    pairs = tfds_pairs(options.input, config['data'])
    return [pair.source for pair in pairs], references or [[pair.target for pair in pairs]]
  if options.input.startswith(SPLIT):
    name = options.input.removeprefix(SPLIT)
    corpus = loading.load(command_line.build(loading.CorpusConfig, config['data'], name='config.data', seed=config['seed']))
    pairs = corpus.by_name.get(name)
    if pairs is None:
      raise ConfigError(f'--input={options.input}: expected {SPLIT}NAME of one of the run\'s splits: '
                        f'{", ".join(corpus.by_name)}')
    return [pair.source for pair in pairs], references or [[pair.target for pair in pairs]]
  if options.input == options.output == '-' and task is registry.TRANSLATION and not (references or options.target):
    text_lines.invite()
    return None, []
  paths = sorted(glob.glob(options.input)) or [options.input]
  lines = [line for path in paths for line in text_lines.read(path)]
  for path, known in zip((options.reference or '').split(','), references):
    scores.check_counts(lines, known, options.input, path)
  return lines, references


def tfds_pairs(text: str, data: dict) -> list[Pair]:
  """Pairs of a TFDS set in the run's languages; it lies, or is prepared, where the run's options say.

  Raises:
    ConfigError, DataError: when the set or split is written wrongly, or not to be had.
  """
  found = TFDS.fullmatch(text)
  if not found:
    raise ConfigError(f'--input={text}: expected tfds:SET:SPLIT, such as tfds:wmt14_translate/de-en:test or '
                                   'tfds:wmt14_translate/de-en:test[:100]')
  wanted = loading.CorpusConfig(kind='tfds', tfds_name=found[1], tfds_dir=data['tfds_dir'],
                                source_language=data['source_language'], target_language=data['target_language'])
  try:
    return list(tfds_sets.split(wanted, found[2]))
  except DataError as error:
    raise DataError(f'--input={text}: {error}') from None


def answer(options: command_line.DecodeOptions, task: registry.Task, writer, lines: Sequence[str], first: int, progress=None
           ) -> list[str]:
  """A line of output for each of the lines, of which the first has number `first`."""
  if task is not registry.TRANSLATION:
    return [found.text for found in task.write(writer, lines, progress)]
  asked = output_formats.requests(lines, options.columns.split(','), first)
  if options.mbr:
    found = minimum_bayes_risk.translate(writer, asked, int(options.mbr), options.utility, progress, first)
  else:
    found = writer.translate(asked, progress, first)
  return output_formats.write(writer, [request.source for request in asked], found, form_of(options), first)


def form_of(options: command_line.DecodeOptions) -> output_formats.Format:
  return output_formats.Format(options.format, int(options.n_best), options.alignment, options.attention == 'true')


def converse(options: command_line.DecodeOptions, task: registry.Task, writer, folder: RunFolder) -> None:
  """Answers lines as they come."""
  first, out = 0, sys.stdout.buffer
  for lines in jobs.arriving(sys.stdin.fileno(), 'standard input'):
    warn_of_unseen([task.plain(line) for line in lines], folder)
    put(out, answer(options, task, writer, lines, first))
    first += len(lines)


def put(out: BinaryIO, lines: Sequence[str]) -> None:
  """One line each, at once."""
  out.write(''.join(f'{line}\n' for line in lines).encode())
  out.flush()


def translate_all(options: command_line.DecodeOptions, task: registry.Task, writer, lines: list[str]) -> list[str]:
  """All answers, written to where they belong; a large job into a file is kept in parts, and goes on where it ended."""
  with tqdm.tqdm(total=len(lines), desc=task.verb, unit=' lines', leave=False, disable=None) as bar:
    to_lines = lambda some, first: answer(options, task, writer, some, first, bar.update)
    if options.output != '-':
      asked = {name: str(value) for name, value in vars(options).items() if name not in ('output', 'reference')}
      part = int(options.part_lines) if task is registry.TRANSLATION else len(lines)
      return jobs.in_parts(lines, options.output, part, asked, to_lines, say)
    found = to_lines(lines, 0)
  put(sys.stdout.buffer, found)
  return found


def score(options: command_line.DecodeOptions, writer, sources: list[str]) -> int:
  """Log-probability and perplexity of given translations."""
  targets = text_files.read_lines(options.target)
  scores.check_counts(sources, targets, options.input, options.target)
  with tqdm.tqdm(total=len(sources), desc='scoring', unit=' lines', leave=False, disable=None) as bar:
    found = writer.score(sources, targets, bar.update)
  written = output_formats.scored(found, form_of(options), writer.parts[2])
  if options.output != '-':
    jobs.write_whole(options.output, written)
  else:
    put(sys.stdout.buffer, written)
  for note in [output_formats.describe_scored(found), *writer.notes()]:
    say(note)
  return 0


def tell_scores(options: command_line.DecodeOptions, texts: list[str], references: list[list[str]], language: str) -> None:
  """BLEU, chrF and TER, and on request BLEU as a paper prints it."""
  name = options.reference or options.input
  name = name if name.startswith('tfds:') else os.path.basename(name)
  say(scores.describe(scores.corpus_scores(texts, *references) | scores.error_rate(texts, *references), name))
  if options.paper_bleu:
    say(scores.describe_paper(scores.paper_bleu(texts, references[0], options.paper_bleu, language)))


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
