"""The options of visualize.py: its flags, and the record that they become."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from checks.errors import ConfigError
from options import parsing
from options.flags import CHECKPOINT, WORKDIR, Flag, Value, behind_link, file_mistakes, input_mistakes
from options.programs import answering

FLAGS = (
    WORKDIR,
    Flag('input', 'sentences to show, one a line: a file, or - for standard input, the default without --live'),
    Flag('output', 'the file to write; by default report.html, training.html, live.html or FIGURE.FORMAT'),
    Flag('format', 'what is written', default='html',
         choices={'html': 'the page, one file that needs no network', 'png': 'a figure', 'svg': 'a figure'}),
    Flag('figure', 'what a figure shows; a figure of one sentence takes the first', default='encoder',
         choices={'encoder': 'encoder self-attention', 'decoder': 'decoder self-attention', 'cross': 'cross-attention',
                  'positions': 'position encodings', 'curves': 'losses and scores while the run was trained',
                  'pruning': 'BLEU as heads are closed',
                  'distributions': "the smoothed target beside the model's own distribution"}),
    Flag('beside', "what is drawn beside this run: for curves the folders of further runs, for pruning the files that "
         'analyze.py wrote; separated by commas', tuple, (), paths=True),
    Flag('reference', "translations to show beside the model's own, one a line"),
    CHECKPOINT,
    Flag('effects', 'closes each head in turn and shows what that changes; --effects=false saves the time', bool, True),
    Flag('vectors', 'keeps queries, keys and values, and with them the calculation behind each weight, even where they '
         'make the page large', bool, False),
    Flag('training', 'a page about the attention that was recorded while the run was trained with '
         '--config.train.watch_attention, with a slider over its evaluations; it takes no --input', bool, False),
    Flag('live', 'a page that holds the model and translates what is typed, offline; it opens with --input, or with '
         "the run's suggestions", bool, False),
    Flag('open', 'shows the page in the browser', bool, False),
)
_OF_A_SENTENCE = ('encoder', 'decoder', 'cross', 'distributions')  # figures that read --input
_OF_SEVERAL = ('curves', 'pruning')  # figures that read --beside
_WITH_TRAINING = ('workdir', 'output', 'training', 'open')


@dataclasses.dataclass(frozen=True)
class VisualizeOptions:
  """The checked options of visualize.py."""

  workdir: str
  input: str | None  # path, or - for standard input; None: the run's suggestions, for --live alone
  output: str  # path of the page or figure
  format: str  # html, png or svg
  figure: str  # which figure, where format is not html
  beside: tuple[str, ...]  # further runs, or files that analyze.py wrote, to draw beside this one
  reference: str | None
  checkpoint: str  # final, best, latest, average:N or a step
  effects: bool  # whether to close each head in turn
  vectors: bool  # whether the page holds queries, keys and values even where they make it large
  training: bool  # whether the page shows the attention that training recorded
  live: bool  # whether the page holds the model
  open: bool  # whether to show the page in the browser
  search: Mapping[str, Any]  # the given --search.* options alone, which take the place of the run's own


def parse(argv: Sequence[str], doc: str) -> VisualizeOptions:
  """Return the options of visualize.py. On --help or a mistake, print a text and end the program."""
  with answering(argv, doc, FLAGS, 'search'):
    values, _, given, _ = parsing.parse(argv, FLAGS, 'search', _mistakes)
    if given and (reason := _not_searched(values)):
      raise ConfigError(f'{reason}, and nothing is searched; leave out '
                        f'{", ".join(f"--search.{name}" for name in given)}')
    return VisualizeOptions(**values | {'input': _input(values), 'output': behind_link(_output(values))}, search=given)


def _input(values: Mapping[str, Value]) -> str | None:
  """Return the path to read sentences from, by default standard input; None for the run's suggestions."""
  return None if values['live'] and not values['input'] else str(values['input'] or '-')


def _output(values: Mapping[str, Value]) -> str:
  """Return the path to write, by default a name for what is shown."""
  page = 'training' if values['training'] else 'live' if values['live'] else 'report'
  name = page if values['format'] == 'html' else values['figure']
  return str(values['output'] or f'{name}.{values["format"]}')


def _mistakes(values: Mapping[str, Value]) -> Iterator[str]:
  """Yield a sentence when there is no input or no way to write, and for flags that have no effect beside others."""
  if not values['training'] and _shows_sentences(values):
    if (path := _input(values)) is not None:
      yield from input_mistakes(path)
  if values['live'] and values['reference'] and not values['input']:
    yield ("--reference without --input: the page would open with the run's suggestions, which it does not translate; give "
           '--input=FILE, too, or leave --reference out')
  if values['live'] and values['format'] != 'html':
    yield f'--live with --format={values["format"]}: a figure holds no model; leave out one of the two'
  yield from file_mistakes(_output(values), **{name: values[name] for name in ('input', 'reference', 'beside')})
  for flag in FLAGS:
    if values['training'] and flag.name not in _WITH_TRAINING and values[flag.name] != flag.default:
      yield f'--training with --{flag.name}: the page on training shows the sentences and the steps that were watched'
  if not values['training']:
    yield from _idle(values)


def _shows_sentences(values: Mapping[str, Value]) -> bool:
  """Return whether what is written is about sentences: a page, or a figure of one."""
  return values['format'] == 'html' or values['figure'] in _OF_A_SENTENCE


def _not_searched(values: Mapping[str, Value]) -> str:
  """Return why nothing is translated, as half a sentence; '' where a search finds translations."""
  if values['training']:
    return '--training shows the targets that were watched'
  if not _shows_sentences(values):
    return f'--figure={values["figure"]} shows no sentence'
  is_given = values['format'] != 'html' and values['reference']
  return f'--reference gives what --figure={values["figure"]} shows' if is_given else ''


def _idle(values: Mapping[str, Value]) -> Iterator[str]:
  """Yield a sentence for flags that have no effect on the page or figure."""
  form, figure = values['format'], values['figure']
  given = lambda *names: ', '.join(flag.label for flag in FLAGS if flag.name in names and values[flag.name] != flag.default)
  if form == 'html':
    if idle := given('figure', 'beside'):
      yield f'{idle}: only a figure has these, and a page is written; give --format=png or svg, or leave out {idle}'
    return
  if idle := given('effects', 'vectors', 'open'):
    yield f'--format={form} with {idle}: only a page has these; leave out {idle}, or give --format=html'
  if figure not in _OF_A_SENTENCE and (idle := given('input', 'reference', 'checkpoint')):
    yield f'--figure={figure} with {idle}: the figure shows no sentence and reads no checkpoint; leave out {idle}'
  if figure not in _OF_SEVERAL and given('beside'):
    yield f'--figure={figure} with --beside: only {" and ".join(_OF_SEVERAL)} are drawn beside others; leave out --beside'
