"""Analyses every attention head of a trained run: what it does, how much it matters, and the effect of closing heads.

    python analyze.py --workdir=runs/phrasebook --pruning
    python analyze.py --workdir=runs/m30k --input=dev.en --reference=dev.de --output=heads.json
    python analyze.py --workdir=runs/m30k --input=dev.en.conllu --reference=dev.de
    python analyze.py --workdir=runs/phrasebook --prune=12 --pruned_workdir=runs/phrasebook-24-heads

Definitions are Voita et al.'s (2019) and Michel et al.'s (2019), see docs/explorer.md. A run on the phrasebook has gold
relations, alignments and pronoun pairs, a file in CoNLL-U has relations; for other text, the parts of the analysis that
need these are left out.
"""

import os
import re
import sys

from checks import startup

if __name__ == '__main__':
  startup.begin()  # before the seconds that the imports below take

from options import analyze_options

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')  # hides XLA's notes to its developers; its errors still show
# --help and mistaken flags are answered here, before the seconds that the imports below take.
OPTIONS = analyze_options.parse(sys.argv, __doc__) if __name__ == '__main__' else None

import jax  # noqa: E402
import tqdm  # noqa: E402

from checks.errors import ConfigError  # noqa: E402
from corpora import conllu, text_files, vocabulary  # noqa: E402
from corpora.loading import CorpusConfig  # noqa: E402
from decoding import scores  # noqa: E402
from decoding.translator import Translator  # noqa: E402
from explorer import analysis, gates, head_report, importance, pruned_run  # noqa: E402
from explorer.capture import TokenPair  # noqa: E402
from options import programs  # noqa: E402
from options.analyze_options import AnalyzeOptions  # noqa: E402
from tasks import TASKS, setup  # noqa: E402
from training import hardware, json_files  # noqa: E402
from training.run_folder import RunFolder  # noqa: E402
from transformer.search import GREEDY  # noqa: E402


def main(options: AnalyzeOptions) -> int:
  """Analyse a run, write and print the table of its heads; return the exit code."""
  folder = RunFolder.open(options.workdir)
  records = setup.of_folder(folder)
  task = TASKS[records.task]
  if not task.references:
    raise ConfigError(f'{options.workdir} is not a run of a translator; analyze.py analyses translators only')
  pairs = read_pairs(options, records.corpus)
  hardware.keep_programs()
  translator = task.load([folder], [options.checkpoint], GREEDY)
  model, *vocabularies = translator.parts
  opened = gates.open_gates(translator.params[0])
  if not opened:
    raise ConfigError(f'{options.workdir} is a run of a model without attention heads to close; expected a Transformer')
  total = len(gates.heads(opened))
  if options.prune and options.prune >= total:
    raise ConfigError(f'--prune={options.prune}: the model has {total} heads, and one has to stay open; expected at most '
                      f'{total - 1}')
  pairs = within_reach(pairs, analysis.token_pairs(pairs, vocabularies), model.longest)
  random = jax.jit(model.init)(jax.random.key(0))
  say(f'Analysing {len(pairs)} sentences …')
  counts = training_counts(folder)
  table = analysis.head_table(model, translator.params[0], pairs, vocabularies, counts)
  readings = analysis.token_pairs(pairs, vocabularies)
  with tqdm.tqdm(total=total, desc='leaving out', unit=' heads', leave=False, disable=None) as bar:
    loss, rises = importance.left_out(model, translator.params[0], readings, vocabularies, bar.update)
  matter = importance.importance(model, translator.params[0], readings, vocabularies)
  order = importance.ranked(matter)
  head_report.add_importance(table, matter, rises)
  record = {'workdir': options.workdir, 'checkpoint': options.checkpoint, 'sentences': len(pairs),
            'text': options.input or 'phrasebook test',
            'rare_words_counted_in': 'the training text' if counts else 'the analysed text',
            'loss': round(loss, 5), 'heads': table, 'layers': analysis.by_layer(table),
            'layers_of_random_weights': analysis.by_layer(
                analysis.head_table(model, random, pairs, vocabularies, counts)),
            'least_important_first': [head.name for head in order]}
  if options.pruning:
    say('Measuring BLEU while heads are closed, the least important first …')
    record['pruning'] = prune_curve(
        translator, pairs, order, scores.language_of((pair.source for pair in pairs), records.corpus.target_language))
  if options.input is None:
    say('Testing which heads resolve the pronoun "it" …')
    record['it'] = analysis.about_it(model, translator.params[0], random, vocabularies, records.corpus.tfds_dir)
  if options.prune:
    params = importance.pruned(translator.params[0], order, options.prune)
    pruned_run.write(folder, options.pruned_workdir, params, [head.name for head in order[:options.prune]])
    say(f'{options.pruned_workdir}: the run with {options.prune} heads closed, for decode.py')
  json_files.write_json(options.output, record)
  print(head_report.as_text(record))
  say(f'{options.output}: the same tables as JSON')
  return 0


def say(text: str) -> None:
  """Print a message on stderr; only the result goes to stdout."""
  print(text, file=sys.stderr, flush=True)


def read_pairs(options: AnalyzeOptions, corpus: CorpusConfig) -> list[analysis.Pair]:
  """Return the sentence pairs to analyse, with their gold annotations where they have any."""
  if options.input is not None and re.search(r'\.conllu(\.gz)?$', options.input):
    sentences, targets = conllu.read(options.input), text_files.read_lines(options.reference)
    scores.check_counts(sentences, targets, options.input, options.reference)
    pairs = [pair for pair in analysis.conllu_pairs(sentences, targets) if pair.target.strip()]
  elif options.input is not None:
    sources, targets = text_files.read_lines(options.input), text_files.read_lines(options.reference)
    scores.check_counts(sources, targets, options.input, options.reference)
    pairs = [analysis.Pair(*both) for both in zip(sources, targets) if all(text.strip() for text in both)]
  elif (corpus.kind, corpus.source_language, corpus.target_language) == ('phrasebook', 'en', 'de'):
    pairs = analysis.phrasebook_pairs('test', corpus.tfds_dir)
  else:
    raise ConfigError(f'{options.workdir} was not trained on the phrasebook, English to German, the only corpus with '
                      'gold annotations of its own; give --input and --reference')
  if not pairs:
    raise ConfigError(f'--input={options.input} and --reference={options.reference} have no line that is blank in neither; '
                      'expected at least one sentence with its translation')
  return pairs[:options.sentences]


def within_reach(pairs: list[analysis.Pair], readings: list[TokenPair], longest: int | None) -> list[analysis.Pair]:
  """Return the pairs that the model has positions for, and report how many are left out.

  They are not cut, as decode.py cuts lines: gold annotations are of whole sentences.

  Args:
    pairs: at least one.
    readings: the same as token ids.
    longest: tokens that the model has positions for, EOS included; None: any number.
  """
  sizes = [max(len(reading.source), len(reading.target)) for reading in readings]
  kept = [pair for pair, size in zip(pairs, sizes) if longest is None or size <= longest]
  if not kept:
    raise ConfigError(f'all of the {len(pairs)} sentences or their translations are longer than the {longest} tokens that '
                      f'the model has positions for; the shortest has {min(sizes)}: give shorter ones')
  if len(kept) < len(pairs):
    say(f'{len(pairs) - len(kept)} of {len(pairs)} sentences are left out: they or their translations are longer than the '
        f'{longest} tokens that the model has positions for')
  return kept


def training_counts(folder: RunFolder) -> analysis.TrainingCounts | None:
  """Return how often the run's training text has each source word; None, with a message, if the run has no counts."""
  counts = vocabulary.load_word_counts(folder.words) if folder.has(folder.words) else None
  if counts is None:
    say(f'{folder.words} holds no counts of training words, which earlier versions did not record; rare words are '
        'counted in the analysed text')
    return None
  return analysis.TrainingCounts(counts)


def prune_curve(translator: Translator, pairs: list[analysis.Pair], order: list[gates.Head], language: str) -> list[dict]:
  """Measure the BLEU of greedy translations with more and more heads closed, in the given order."""
  whole, curve = translator.params[0], []
  try:
    for count in range(0, len(order), max(1, len(order) // 12)):
      translator.params = [importance.pruned(whole, order, count)]
      texts = [found.text for found in translator.translate([pair.source for pair in pairs])]
      scored = scores.corpus_scores(texts, [pair.target for pair in pairs], language=language)
      curve.append({'closed': count, 'bleu': round(scored['bleu'], 2), 'signature': scored['signature']})
  finally:
    translator.params = [whole]
  return curve


if __name__ == '__main__':
  programs.run(lambda: main(OPTIONS))
