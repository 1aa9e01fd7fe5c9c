"""The options of decode.py: its flags, and the record that they become."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from checks.errors import ConfigError
from options import parsing
from options.flags import CHECKPOINT, WORKDIR, Flag, Value, behind_link, input_mistakes, output_mistakes
from options.programs import answering

_PART_LINES = 20_000  # enough that starting a search for each part costs next to nothing
FLAGS = (
    dataclasses.replace(WORKDIR, kind=tuple, paths=True, help=f'{WORKDIR.help}; several, separated by commas, translate as an '
                        'ensemble'),
    Flag('input', 'text to translate, one sentence a line, or prompts to continue: a file, a pattern of files in the '
         "order of their names, - for standard input, split:validation or split:test of the run's own corpus, or "
         'tfds:SET:SPLIT, such as tfds:wmt14_translate/de-en:test', default='-'),
    Flag('output', 'where to write the result, a line for each input line, in order: a file, or - for standard output',
         default='-'),
    Flag('reference', 'translations to score against, one a line; several files separated by commas', tuple, (),
         paths=True),
    dataclasses.replace(CHECKPOINT, kind=tuple, default=(CHECKPOINT.default,),
                        help=f'{CHECKPOINT.help}; several, separated by commas, are an ensemble'),
    Flag('columns', 'what the tab-separated columns of the input are, in order, separated by commas; phrases in a '
         'column are separated by |', tuple, ('source',), only_for='translation', pattern=r'source(,\w+){0,3}',
         expected='source, then any of prefix, required, forbidden',
         choices={'source': 'the text', 'prefix': 'what its translation begins with',
                  'required': 'phrases that the translation contains',
                  'forbidden': 'phrases that it does not'}),
    Flag('format', 'what is written for each line', default='text', only_for='translation',
         choices={'text': 'the translation alone', 'jsonl': 'with scores, tokens, alignments',
                  'pharaoh': 'alignments: 0-0 1-2'}),
    Flag('n_best', 'translations of each line, with --format=jsonl; at most --search.beam_size', int, 1,
         only_for='translation', also='search.top_beams'),
    Flag('alignment', 'the cross-attention that alignments are read from', default='shift',
         only_for='translation',
         choices={'shift': 'of the step after the one that predicts a token', 'plain': 'of the step that predicts it'}),
    Flag('attention', 'with --format=jsonl: also writes the attention that alignments are read from', bool, False,
         only_for='translation'),
    Flag('target', 'translations of the input, one a line: writes their log-probability and perplexity, and translates '
         'nothing', only_for='translation'),
    Flag('mbr', 'draws this many samples of each line and takes the one most like the others (minimum Bayes risk)', int,
         only_for='translation'),
    Flag('utility', 'with --mbr: the score that compares samples', default='chrf', choices={'chrf': '', 'bleu': ''},
         only_for='translation'),
    Flag('paper_bleu', 'also prints BLEU as the papers on this test set do', only_for='translation',
         choices={'wmt14': '', 'multi30k': '', 'iwslt14': ''}),
    Flag('long_lines', 'what happens to lines of more than 1,024 tokens, or than the model has positions for', default='cut',
         only_for='translation',
         choices={'cut': 'at the longest length, and reported',
                  'split': 'at ends of sentences or clauses or at spaces, also lines longer than any in training'}),
    Flag('stats', 'prints at the end how many rows and steps the search computed, and tokens per second', bool, False,
         only_for='translation'),
    Flag('part_lines', 'a longer job is written in parts of this many lines, and resumes where it was stopped', int,
         _PART_LINES, only_for='translation'),
)
_SAMPLING = 'sample'  # the strategy of --mbr
# What has no effect where given translations are scored.
_OF_TRANSLATING = ('reference', 'columns', 'n_best', 'alignment', 'attention', 'mbr', 'utility', 'paper_bleu',
                   'stats', 'part_lines')


@dataclasses.dataclass(frozen=True)
class DecodeOptions:
  """The checked options of decode.py."""

  workdirs: tuple[str, ...]  # of one run, or of an ensemble
  input: str  # path, pattern of paths, - for standard input, split:NAME or tfds:SET:SPLIT
  output: str  # path, or - for standard output
  references: tuple[str, ...]  # paths
  checkpoints: tuple[str, ...]  # final, best, latest, average:N or a step: one for all runs, or as many as there are
  columns: tuple[str, ...]  # of the input
  format: str  # text, jsonl or pharaoh
  n_best: int
  alignment: str  # shift or plain
  attention: bool  # whether jsonl holds it
  target: str | None  # path of translations to score
  mbr: int | None  # samples for minimum Bayes risk
  utility: str  # chrf or bleu
  paper_bleu: str | None  # wmt14, multi30k or iwslt14
  long_lines: str  # cut or split
  stats: bool  # whether what the search computed is printed
  part_lines: int
  # The given --search.* options alone, which take the place of the run's own; with mbr also the strategy, which samples.
  search: Mapping[str, Any]

  def not_for(self, task: str) -> list[str]:
    """Return the given flags, as they are typed, that have no effect for a run of this task."""
    own = {flag.name: flag for flag in FLAGS if flag.only_for not in ('', task)}
    found = [flag.written(getattr(self, name)) for name, flag in own.items() if getattr(self, name) != flag.default]
    return [f'--input={self.input}'] * (bool(own) and self.input.startswith('tfds:')) + found


def parse(argv: Sequence[str], doc: str) -> DecodeOptions:
  """Return the options of decode.py. On --help or a mistake, print a text and end the program."""
  with answering(argv, doc, FLAGS, 'search'):
    values, _, given, _ = parsing.parse(argv, FLAGS, 'search', _mistakes)
    several = {f'{name}s': values.pop(name) for name in ('workdir', 'reference', 'checkpoint')}
    if values['mbr']:
      if (strategy := given.setdefault('strategy', _SAMPLING)) != _SAMPLING:
        raise ConfigError(f'--mbr={values["mbr"]} draws samples, and --search.strategy={strategy} draws none; leave out one '
                          'of the two')
      given.setdefault('coverage_penalty', 0.0)  # which a run's own beams may have
    return DecodeOptions(**values | {'output': behind_link(values['output'])}, **several, search=given)


def _mistakes(values: Mapping[str, Value]) -> Iterator[str]:
  """Yield a sentence when there is no input, when the output cannot be written, and for each conflict between flags."""
  yield from input_mistakes(values['input'])
  yield from output_mistakes(values['output'], **{name: values[name] for name in ('input', 'reference', 'target')})
  form, scored = values['format'], values['reference'] or values['paper_bleu']
  for name, plain in (('n_best', 1), ('attention', False)):
    if values[name] != plain and form != 'jsonl':
      yield f'--{name} needs --format=jsonl: the other formats have one text a line'
  if form == 'text' and values['alignment'] != 'shift':
    yield f'--alignment={values["alignment"]} has no effect with --format=text, which holds none; expected jsonl or pharaoh'
  if values['utility'] != 'chrf' and not values['mbr']:
    yield f'--utility={values["utility"]} has no effect without --mbr; leave it out, or give --mbr=SAMPLES'
  if form != 'text' and scored:
    yield f'--format={form} with --reference or --paper_bleu: only text can be scored; expected --format=text'
  if values['paper_bleu'] and not values['reference'] and not values['input'].startswith(('split:', 'tfds:')):
    yield '--paper_bleu needs --reference'
  if len(values['reference']) > 1 and values['paper_bleu']:
    yield (f'--paper_bleu={values["paper_bleu"]} with {len(values["reference"])} references: papers on this test set have one; '
           'expected --reference=FILE')
  if twice := sorted({name for name in values['columns'] if values['columns'].count(name) > 1}):
    yield f'--columns={",".join(values["columns"])} names {", ".join(twice)} twice; give it one column, with | between phrases'
  if values['part_lines'] != _PART_LINES and values['output'] == '-' and not values['target']:
    yield f'--part_lines={values["part_lines"]} has no effect with --output=-, which has no parts; give --output=FILE'
  if values['long_lines'] == 'split' and (form != 'text' or values['target']):
    yield ('--long_lines=split with --target or another --format than text: tokens, alignments and scores are of one '
           'translation, and a line in parts has several; expected --long_lines=cut')
  if values['target']:
    idle = [flag.label for flag in FLAGS if flag.name in _OF_TRANSLATING and values[flag.name] != flag.default]
    if idle := idle + ['--format=pharaoh'] * (form == 'pharaoh'):
      yield f'--target scores given translations and translates nothing; leave out {", ".join(idle)}'
