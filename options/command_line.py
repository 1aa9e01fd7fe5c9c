"""From the command line to a checked configuration, and from errors to exit codes.

Options of a script are plain flags (--workdir=runs/a). Options of a run are overrides of a tree
(--config.model.d_model=256, --search.beam_size=1), written as ml_collections has them. All mistakes are reported
together, each with what was expected, before anything heavy is imported: this module knows neither jax nor data.
"""

import ast
import contextlib
import copy
import dataclasses
import difflib
import importlib.util
import io
import os
import re
import shutil
import sys
import textwrap
import tokenize
import traceback
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from absl import flags
from ml_collections import config_dict, config_flags

from checks import exit_codes
from checks.errors import ConfigError

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CONFIGS = os.path.join(ROOT, 'configs')
LENGTHS = ('train.num_steps', 'train.num_epochs', 'train.num_minutes')
# What --help shows; --helpfull shows every option.
MOST_USED = ('seed', 'init_from', 'model.architecture', 'model.d_model', 'model.num_heads', 'model.num_layers',
             'model.d_ff', 'model.norm', 'model.dropout', 'data.directory', 'data.tsv', 'data.text',
             'data.source_language', 'data.target_language', 'vocabulary.size', 'optimizer.learning_rate_scale',
             'optimizer.warmup_steps', *LENGTHS, 'train.batch_tokens', 'train.checkpoint_every', 'train.eval_every',
             'train.log_every', 'search.beam_size', 'search.length_penalty', 'search.alpha', 'search.strategy')


class Flag(NamedTuple):
  """A script's own option."""

  name: str
  help: str
  default: str | None = None
  required: bool = False
  stands_for: str | None = None  # the override that this is another name of, such as 'config.init_from'
  switch: bool = False  # stands without a value


@dataclasses.dataclass(frozen=True)
class TrainOptions:
  """What train.py is asked to do."""

  config: config_dict.ConfigDict  # resolved, locked; exactly one of train.num_steps, num_epochs, num_minutes is set
  workdir: str
  given: tuple[str, ...] = ()  # the options of config that the command line set, by dotted name
  replay: int | None = None  # a step whose dump is computed again, and nothing else
  inspect: bool = False  # tell what training would read, and nothing else


@dataclasses.dataclass(frozen=True)
class DecodeOptions:
  """What decode.py is asked to do."""

  workdir: str
  input: str  # path, or - for standard input
  output: str  # path, or - for standard output
  reference: str | None
  checkpoint: str  # final, best, latest, average:N or a step; several separated by commas
  search: Mapping[str, Any]  # the given --search.* options alone, to be laid over the run's own
  columns: str = 'source'  # of the input, separated by commas
  format: str = 'text'
  n_best: str = '1'
  alignment: str = 'shift'
  attention: str | None = None  # 'true' when asked for
  target: str | None = None  # translations to score
  mbr: str | None = None  # samples for minimum Bayes risk
  utility: str = 'chrf'
  paper_bleu: str | None = None
  part_lines: str = '20000'
  long_lines: str = 'cut'

  def for_translations(self) -> list[str]:
    """The given flags that only translations have."""
    pairs = [f'--input={self.input}'] if self.input.startswith('tfds:') else []
    return pairs + [f'--{name}={getattr(self, name)}' for name, default in _OF_TRANSLATIONS.items()
                    if getattr(self, name) != default]


@dataclasses.dataclass(frozen=True)
class VisualizeOptions:
  """What visualize.py is asked to do."""

  workdir: str
  input: str  # path, or - for standard input
  output: str  # path of the page or figure
  format: str  # one of FORMATS
  figure: str  # one of FIGURES
  beside: tuple[str, ...]  # further runs, or what analyze.py wrote, to be drawn with this one
  reference: str | None
  checkpoint: str  # best, latest, average:N or a step
  effects: bool  # whether to close each head in turn
  vectors: bool  # whether the page holds queries, keys and values however many there are
  training: bool  # whether the page is on what training took down
  open: bool  # whether to show the page in the browser
  search: Mapping[str, Any]  # the given --search.* options alone, to be laid over the run's own


@dataclasses.dataclass(frozen=True)
class AnalyzeOptions:
  """What analyze.py is asked to do."""

  workdir: str
  input: str | None  # None: the phrasebook's test split
  reference: str | None
  output: str
  checkpoint: str  # best, latest, average:N or a step
  sentences: int  # at most so many are looked at
  pruning: bool  # whether to close heads one after the other, with BLEU
  prune: int | None  # how many heads the new run has closed
  pruned_workdir: str | None  # folder of the new run


@dataclasses.dataclass(frozen=True)
class SweepRow:
  """One row of a sweep's table."""

  name: str  # and folder
  spec: str  # what --config is given: PATH.py:VARIANT
  overrides: tuple[str, ...]  # the row's own, then those for all rows, as train.py takes them
  config: config_dict.ConfigDict  # resolved with them


@dataclasses.dataclass(frozen=True)
class SweepOptions:
  """What sweep.py is asked to do."""

  path: str  # the configuration file
  rows: tuple[SweepRow, ...]
  seeds: int  # runs of each row, seeded 0, 1, …
  workdir: str
  print_commands: bool  # and do nothing else
  table_only: bool  # run nothing
  by_length: bool  # also BLEU by sentence length
  order: tuple[str, ...]  # the rows of the configuration file, which say how a table is sorted
  published: Mapping[str, Mapping[str, float]]  # the configuration file's figures from the literature, by row
  shared: Mapping[str, Any]  # overrides for all rows


class Parsed(NamedTuple):
  """A command line, checked."""

  flags: dict[str, str | None]
  trees: dict[str, config_dict.ConfigDict]  # with the overrides
  given: dict[str, dict[str, Any]]  # of each tree, the overrides alone: {'train.num_steps': 100}


TRAIN_FLAGS = (
    Flag('config', 'the configuration to start from: PATH.py or PATH.py:VARIANT', required=True),
    Flag('workdir', "the run's folder; if it holds a run, that run goes on", required=True),
    Flag('init_from', "another run's folder: start from its vocabulary and parameters", stands_for='config.init_from'),
    Flag('replay', 'the number of a step that was not finite: computes it again from its dump, and nothing else'),
    Flag('inspect', 'tells what training would read: what was dropped and why, lengths, batches as text', switch=True),
)
DECODE_FLAGS = (
    Flag('workdir', "the run's folder, made by train.py; several, separated by commas, translate as an ensemble",
         required=True),
    Flag('input', 'text to translate, one sentence a line, or prompts to continue: a file, a pattern of files in the '
         "order of their names, - for standard input, split:validation or split:test of the run's own corpus, or "
         'tfds:SET:SPLIT, such as tfds:wmt14_translate/de-en:test',
         default='-'),
    Flag('output', 'where the result goes, a line for each line, in order; - is standard output', default='-'),
    Flag('reference', 'translations to score against, one a line; several files separated by commas'),
    Flag('checkpoint', "final (the mean of those that the run's results were scored with; best where there are none), "
         'best (on validation text), latest, average:N (of the last N) or the number of a step; several, separated by '
         'commas, are an ensemble', default='final'),
    Flag('columns', "what the tab-separated columns of the input are, in order, separated by commas: source, prefix, "
         'required, forbidden; phrases are separated by |', default='source'),
    Flag('format', 'of the output: text, jsonl (with scores, tokens, alignments) or pharaoh (alignments: 0-0 1-2)',
         default='text'),
    Flag('n_best', 'translations of each line, with jsonl', default='1'),
    Flag('alignment', 'read from cross-attention one step late (shift) or at once (plain)', default='shift'),
    Flag('attention', 'jsonl: also the attention that alignments are read from', switch=True),
    Flag('target', 'translations of the input, one a line: writes their log-probability and perplexity, no others'),
    Flag('mbr', 'draws so many samples of each line and takes the one most like the others (minimum Bayes risk)'),
    Flag('utility', 'how alike two samples are: chrf or bleu', default='chrf'),
    Flag('paper_bleu', 'also BLEU as papers print it: wmt14, multi30k or iwslt14'),
    Flag('long_lines', 'what becomes of lines that the model has no positions for: cut, and named; or split, at ends of '
         'sentences or clauses or at spaces, also where they are longer than what training read', default='cut'),
    Flag('part_lines', 'a longer job is written in parts of so many lines, and goes on where it was stopped',
         default='20000'),
)
# Flags of decode.py that only translations have: their defaults, and what they may be.
_OF_TRANSLATIONS = {'columns': 'source', 'format': 'text', 'n_best': '1', 'alignment': 'shift', 'attention': None,
                    'target': None, 'mbr': None, 'utility': 'chrf', 'paper_bleu': None, 'long_lines': 'cut'}
_POSITIVE = ('[1-9][0-9]*', 'a positive whole number')
_CHOICES = lambda *names: ('|'.join(names), ' or '.join(names))
_DECODE_VALUES = {
    'columns': ('source(,(prefix|required|forbidden)){0,3}', 'source, then any of prefix, required, forbidden'),
    'format': _CHOICES('text', 'jsonl', 'pharaoh'), 'n_best': _POSITIVE, 'alignment': _CHOICES('shift', 'plain'),
    'mbr': _POSITIVE, 'utility': _CHOICES('chrf', 'bleu'), 'paper_bleu': _CHOICES('wmt14', 'multi30k', 'iwslt14'),
    'part_lines': _POSITIVE, 'long_lines': _CHOICES('cut', 'split')}
FORMATS = ('html', 'png', 'svg')
FIGURES = ('encoder', 'decoder', 'cross', 'positions', 'curves', 'pruning', 'distributions')
VISUALIZE_FLAGS = (
    Flag('workdir', "the run's folder, made by train.py", required=True),
    Flag('input', 'sentences to look into, one a line; - is standard input', default='-'),
    Flag('output', 'the page, one file that needs no network, or the figure; by default report.html or FIGURE.FORMAT'),
    Flag('format', 'html for the page, png or svg for a figure', default='html'),
    Flag('figure', f'what a figure shows, of the first line where it shows a sentence: {", ".join(FIGURES)}. The first '
         'three are encoder self-attention, decoder self-attention and cross-attention', default='encoder'),
    Flag('beside', "further runs' folders for curves, or for pruning the files that analyze.py wrote; with commas"),
    Flag('reference', 'translations to show beside those that the search finds, one a line'),
    Flag('checkpoint', "final (the mean of those that the run's results were scored with; best where there are none), "
         'best (on validation text), latest, average:N (of the last N) or the number of a step', default='final'),
    Flag('effects', 'close each head in turn and show what changes; --effects=false saves the time',
         default='true', switch=True),
    Flag('vectors', 'keep queries, keys and values, and with them the calculation behind each weight, even where they '
         'make the page large', switch=True),
    Flag('training', 'a page on the snapshots of attention that training wrote at its evaluations, with a slider over them (a '
         'run trained with --config.train.watch_attention); it takes no --input', switch=True),
    Flag('open', 'show the page in the browser', switch=True),
)
ANALYZE_FLAGS = (
    Flag('workdir', "the run's folder, made by train.py", required=True),
    Flag('input', "sentences to look into, one a line, or a file in CoNLL-U (NAME.conllu), whose subjects, objects, "
         "adjectives and adverbs heads are compared with; by default the phrasebook's test split, where the run is one on "
         'the phrasebook'),
    Flag('reference', 'their translations, one a line, which the decoder is given (teacher forcing)'),
    Flag('output', 'the figures as JSON', default='analysis.json'),
    Flag('checkpoint', "final (the mean of those that the run's results were scored with; best where there are none), "
         'best (on validation text), latest, average:N (of the last N) or the number of a step', default='final'),
    Flag('sentences', 'how many sentences are analysed at most', default='200'),
    Flag('pruning', 'close the heads from the least important on, with BLEU at a dozen steps', switch=True),
    Flag('prune', 'writes a run with so many of the least important heads closed, into --pruned_workdir'),
    Flag('pruned_workdir', 'the new folder of that run'),
)
SWEEP_FLAGS = (
    Flag('config', 'the configuration file whose variants are the rows: PATH.py', required=True),
    Flag('workdir', "the sweep's folder: a run in ROW/seed_N for each row and seed, and the table", required=True),
    Flag('rows', 'which rows, separated by commas; by default all that the file lists. Each is VARIANT, or with '
         'changes of your own NAME=VARIANT+option=value+…, or NAME=OTHER.py:VARIANT'),
    Flag('seeds', 'how many runs of each row, with the seeds 0, 1, …', default='1'),
    Flag('print', 'prints the command of each run, one a line, and runs nothing', switch=True),
    Flag('table', 'makes the table of what is finished, and runs nothing', switch=True),
    Flag('by_length', 'makes a table and a picture of BLEU by sentence length, too', switch=True),
)


# ------------------------------------------------------------------------------------------------- for the scripts


def parse_train(argv: Sequence[str], doc: str) -> TrainOptions:
  """The options of train.py; answers --help and mistakes itself, by ending the program."""
  with _answers(argv, doc, TRAIN_FLAGS, 'config'):
    parsed = parse(argv, TRAIN_FLAGS, 'config')
    config = choose_length(parsed.trees['config'], parsed.given['config'])
    replay = parsed.flags['replay']
    if replay is not None and not replay.isdigit():
      raise ConfigError(f'--replay={replay}: expected the number of a step, as a folder in nonfinite/ is called')
    return TrainOptions(config, parsed.flags['workdir'], given=tuple(parsed.given['config']),
                        replay=None if replay is None else int(replay), inspect=parsed.flags['inspect'] == 'true')


def parse_decode(argv: Sequence[str], doc: str) -> DecodeOptions:
  """The options of decode.py; answers --help and mistakes itself, by ending the program."""
  with _answers(argv, doc, DECODE_FLAGS, 'search'):
    parsed = parse(argv, DECODE_FLAGS, 'search', {'search': default_config().search}, _decode_mistakes)
    return DecodeOptions(**parsed.flags, search=parsed.given['search'])


def parse_visualize(argv: Sequence[str], doc: str) -> VisualizeOptions:
  """The options of visualize.py; answers --help and mistakes itself, by ending the program."""
  with _answers(argv, doc, VISUALIZE_FLAGS, 'search'):
    parsed = parse(argv, VISUALIZE_FLAGS, 'search', {'search': default_config().search}, check=_visualize_mistakes)
    values = parsed.flags
    switches = {flag.name: values[flag.name] == 'true' for flag in VISUALIZE_FLAGS if flag.switch}
    page = 'training' if switches['training'] else 'report'
    output = values['output'] or f'{page if values["format"] == "html" else values["figure"]}.{values["format"]}'
    beside = tuple(values['beside'].split(',')) if values['beside'] else ()
    return VisualizeOptions(**{**values, **switches, 'output': output, 'beside': beside}, search=parsed.given['search'])


def parse_analyze(argv: Sequence[str], doc: str) -> AnalyzeOptions:
  """The options of analyze.py; answers --help and mistakes itself, by ending the program."""
  with _answers(argv, doc, ANALYZE_FLAGS, 'search'):
    values = parse(argv, ANALYZE_FLAGS, 'search', {'search': default_config().search}, check=_analyze_mistakes).flags
    return AnalyzeOptions(**values | {'sentences': int(values['sentences']), 'pruning': values['pruning'] == 'true',
                                      'prune': int(values['prune']) if values['prune'] else None})


def parse_sweep(argv: Sequence[str], doc: str) -> SweepOptions:
  """The options of sweep.py; answers --help and mistakes itself, by ending the program."""
  with _answers(argv, doc, SWEEP_FLAGS, 'config'):
    parsed = parse(argv, SWEEP_FLAGS, 'config', check=_sweep_mistakes)
    values, shared = parsed.flags, parsed.given['config']
    module = _load_module(values['config'])
    order = tuple(getattr(module, 'VARIANTS', ()))
    rows, seeds = _resolve_rows(_row_texts(values['rows'], order), values['config'], shared), int(values['seeds'])
    for kind, files in (('tsv', 'text'), ('labelled_tsv', 'labelled_text')):
      if seeds > 1 and any(row.config.data.kind == kind for row in rows):
        raise ConfigError(f'--seeds={seeds} with config.data.kind={kind}: which lines of the file are held out depends '
                          'on the seed, so that the scores of two seeds would not compare; make a file for each split '
                          f'of it once, and take config.data.kind={files}')
    return SweepOptions(
        path=values['config'], rows=rows, seeds=seeds, workdir=values['workdir'],
        print_commands=values['print'] == 'true', table_only=values['table'] == 'true',
        by_length=values['by_length'] == 'true', order=order, published=getattr(module, 'PUBLISHED', {}), shared=shared)


def python() -> str:
  """This interpreter as one types it here: `python` where that is the same, else its path."""
  here, found = os.path.abspath(sys.executable), shutil.which('python')
  # Not by what links lead to: the interpreters of two environments are one file with other packages.
  if found and os.path.dirname(os.path.abspath(found)) == os.path.dirname(here) and os.path.samefile(found, here):
    return 'python'
  relative = os.path.relpath(here)
  return here if relative.startswith(os.pardir) else relative


def run(main: Callable[..., int | None], *options: Any) -> None:
  """Calls main(*options) and ends the program with its exit code.

  An exception that carries an `exit_code` is told in one message, without a traceback. Ctrl-C ends with 130.
  """
  try:
    sys.exit(main(*options) or 0)
  except KeyboardInterrupt:
    print('Interrupted.', file=sys.stderr)
    sys.exit(exit_codes.INTERRUPTED)
  except Exception as error:
    if not isinstance(getattr(error, 'exit_code', None), int):
      raise
    _fail(error)


def build(cls: type, section: Mapping[str, Any], *, name: str = '', **extra: Any) -> Any:
  """A record (frozen dataclass) from a section of the configuration; nothing is defaulted.

  Args:
    cls: the dataclass. A section may serve several records, so options that are no field of `cls` are left alone.
    section: gives each field the option of its name.
    name: what the section is called in messages; by default after `cls`.
    **extra: further fields; they go before the section's.

  Raises:
    ConfigError: when a field has no option, or the record refuses its values (ValueError, TypeError).
  """
  name = name or re.sub('Config$', '', cls.__name__).lower()
  fields = [field.name for field in dataclasses.fields(cls) if field.init]
  if unknown := sorted(extra.keys() - set(fields)):
    raise TypeError(f'{cls.__name__} has no field {", ".join(unknown)}')
  if missing := [field for field in fields if field not in extra and field not in section]:
    raise ConfigError(f'{name}: the configuration lacks {", ".join(missing)}; '
                      'it was made for another version of this program, or not from configs/default.py')
  try:
    return cls(**{field: extra[field] if field in extra else section[field] for field in fields})
  except (ValueError, TypeError) as error:
    raise ConfigError('\n'.join(f'{name}: {mistake}' for mistake in str(error).split('\n'))) from error


class Gathering:
  """What gather_errors() gives: makes records, and keeps what is wrong with them."""

  def __init__(self, config: Mapping[str, Any]):
    self._config, self.mistakes = config, []

  def __call__(self, cls: type, section: Mapping[str, Any], **extra: Any) -> Any:
    """See build(); None in place of a record that was refused."""
    names = [f'config.{key}' for key in self._config if self._config[key] is section]
    return self.attempt(build, cls, section, name=names[0] if names else '', **extra)

  def attempt(self, function: Callable, *inputs: Any, **named: Any) -> Any:
    """What function(*inputs, **named) returns; None when it raises a ConfigError or, of options, a ValueError."""
    try:
      return function(*inputs, **named)
    except (ConfigError, ValueError) as error:
      self.mistakes += [line.strip() for line in str(error).split('\n')]
      return None


@contextlib.contextmanager
def gather_errors(config: Mapping[str, Any] | None = None) -> Iterator[Gathering]:
  """Gives a build() whose errors are raised together at the end of the block; it returns None in their place.

  A ConfigError that the block itself ends with is told among them.

  With `config`, sections are called by their names in it ('config.data').
  """
  gathering = Gathering(config or {})
  try:
    yield gathering
  except ConfigError as error:
    gathering.mistakes.append(str(error))
  except Exception:
    if not gathering.mistakes:
      raise  # else it came of a record that is None
  if gathering.mistakes:
    raise ConfigError(_listed(gathering.mistakes))


@contextlib.contextmanager
def as_config_error() -> Iterator[None]:
  """Turns the library's ValueError, which speaks of options, into a ConfigError."""
  try:
    yield
  except ValueError as error:
    raise ConfigError(str(error)) from error


# ------------------------------------------------------------------------------------------------- configurations


def load_config(spec: str) -> config_dict.ConfigDict:
  """The configuration that a file's get_config() returns.

  Args:
    spec: path of a Python file, and after a colon the variant that get_config() is called with.

  Raises:
    ConfigError: when there is no such file, it fails, or its options are not those of configs/default.py.
  """
  config = _call_get_config(spec)
  known, found = leaves(default_config()), leaves(config)
  errors = [f'{spec}: config.{name} {_unknown(name, known)}' for name in found if name not in known]
  errors += [f'{spec}: config.{name} is missing; start from configs/default.py' for name in known if name not in found]
  if errors:
    raise ConfigError(_listed(errors))
  return config


def default_config() -> config_dict.ConfigDict:
  """configs/default.py: which options there are."""
  return _call_get_config(os.path.join(CONFIGS, 'default.py'))


def shipped_configs() -> list[str]:
  """Paths of the configurations that come with this program, as one types them."""
  names = sorted(name for name in os.listdir(CONFIGS) if name.endswith('.py') and not name.startswith('_'))
  return [os.path.relpath(os.path.join(CONFIGS, name)) for name in names]


def _call_get_config(spec: str) -> config_dict.ConfigDict:
  module, variant = _load_module(spec), spec.partition(':')[2]
  with _config_errors(spec, module.__file__):
    config = module.get_config(variant) if variant else module.get_config()
  if not isinstance(config, config_dict.ConfigDict):
    raise ConfigError(f'--config={spec}: get_config() returned a {type(config).__name__}; expected a ConfigDict')
  return config


def _load_module(spec: str) -> types.ModuleType:
  """The configuration file of PATH.py:VARIANT, executed."""
  path = spec.partition(':')[0]
  if not os.path.isfile(path):
    raise ConfigError(f'--config={spec}: there is no file {path}; {_choose_shipped()}')
  module_spec = importlib.util.spec_from_file_location('_configuration', path)
  if module_spec is None:
    raise ConfigError(f'--config={spec}: {path} is no Python file; {_choose_shipped()}')
  module = importlib.util.module_from_spec(module_spec)
  with _config_errors(spec, module_spec.origin):
    module_spec.loader.exec_module(module)
  return module


@contextlib.contextmanager
def _config_errors(spec: str, path: str) -> Iterator[None]:
  """Whatever a configuration file raises becomes a ConfigError that names its line."""
  try:
    yield
  except Exception as error:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    raise ConfigError(f'--config={spec} fails' + (f' in line {lines[-1]}' if lines else '')
                      + f': {type(error).__name__}: {error}') from error


def _choose_shipped() -> str:
  return 'the shipped ones are ' + ', '.join(shipped_configs())


def leaves(tree: Mapping[str, Any], prefix: str = '') -> dict[str, Any]:
  """Options by dotted name, of a configuration or of what a run's config.json holds."""
  flat: dict[str, Any] = {}
  for name, value in tree.items():
    inner = isinstance(value, (config_dict.ConfigDict, dict))
    flat |= leaves(value, f'{prefix}{name}.') if inner else {prefix + name: value}
  return flat


def choose_length(config: config_dict.ConfigDict, given: Mapping[str, Any]) -> config_dict.ConfigDict:
  """Leaves exactly one of num_steps, num_epochs and num_minutes set; what `given` sets goes before the file's choice.

  Raises:
    ConfigError: when `given`, or without it the file, sets several, or nobody sets any.
  """
  asked = [name for name in LENGTHS if given.get(name) is not None]
  if len(asked) == 1:
    config.update_from_flattened_dict({name: None for name in LENGTHS if name not in asked})
  values = leaves(config)
  chosen = asked or [name for name in LENGTHS if values[name] is not None]
  if len(chosen) != 1:
    raise ConfigError(f'exactly one of {", ".join(LENGTHS)} says how long to train; '
                      f'{"the command line" if asked else "the configuration"} sets '
                      + (' and '.join(f'{name}={values[name]}' for name in chosen) or 'none'))
  if values[chosen[0]] <= 0:
    raise ConfigError(f'config.{chosen[0]} is {values[chosen[0]]}; expected a positive number')
  return config


# ------------------------------------------------------------------------------------------------ the command line


def parse(argv: Sequence[str], script_flags: Sequence[Flag], tree_name: str,
          trees: Mapping[str, config_dict.ConfigDict] | None = None,
          check: Callable[[Mapping[str, str | None]], list[str]] | None = None) -> Parsed:
  """A command line checked against a script's flags and the trees of options that it may override.

  Args:
    argv: the program's name and its arguments.
    script_flags: the script's own options.
    tree_name: name of the tree that unknown options are looked for in first, to suggest one.
    trees: options that may be overridden as --NAME.option=value. A tree 'config' is read from the file that
      --config names, in whatever place of the line that stands.
    check: further mistakes in the values of the script's own flags, by their names.

  Raises:
    ConfigError: naming every mistake.
  """
  trees = {name: copy.deepcopy(tree) for name, tree in (trees or {}).items()}
  known = {flag.name: flag for flag in script_flags}
  # Until the file is read, and if it cannot be, the default configuration says which options there are.
  shapes = trees | ({'config': default_config()} if 'config' in known else {})
  tokens, errors = _split(argv[1:], known, shapes)
  values = {flag.name: flag.default for flag in script_flags if flag.stands_for is None}
  values |= {token.name: token.value for token in tokens if token.tree is None and token.name in values}
  if values.get('config'):
    try:
      trees['config'] = load_config(values['config'])
    except ConfigError as error:
      errors.append(str(error))
  for flag in script_flags:
    if flag.required and values[flag.name] is None:
      errors.append(f'--{flag.name} is missing: {flag.help}'
                    + (f'; {_choose_shipped()}' if flag.name == 'config' else ''))
  errors += check(values) if check else []
  given: dict[str, dict[str, Any]] = {name: {} for name in shapes}
  for token in tokens:
    if token.tree is not None:
      try:
        given[token.tree][token.name] = _override((trees if token.tree in trees else shapes)[token.tree], token)
      except ConfigError as error:
        errors.append(str(error))
    elif token.name not in known:
      errors.append(_unknown_flag(token, known, tree_name, shapes[tree_name]))
  if errors:
    raise ConfigError(_listed(errors))
  for name, tree in trees.items():
    tree.update_from_flattened_dict(given[name])
    tree.lock()
  return Parsed(values, trees, given)


class _Token(NamedTuple):
  """One option as it stands on the command line."""

  text: str  # as typed, for messages
  tree: str | None  # 'config' of --config.model.d_model; None for a plain flag
  name: str  # 'model.d_model'
  value: str | None  # None: an option without a value (a boolean)
  negated: bool = False  # --noconfig.…


def _split(arguments: Sequence[str], known: Mapping[str, Flag], trees: Mapping[str, config_dict.ConfigDict]
           ) -> tuple[list[_Token], list[str]]:
  """Options in order, and the mistakes that show already here: stray arguments and flags without a value."""
  switches = {f'{tree}.{name}' for tree in trees for name, value in leaves(trees[tree]).items()
              if isinstance(value, bool)} | {flag.name for flag in known.values() if flag.switch}
  tokens, errors, rest = [], [], list(arguments)
  while rest:
    text = rest.pop(0)
    match = re.fullmatch(r'--?([A-Za-z_][\w.\-]*)(?:=(.*))?', text, re.DOTALL)
    if not match:
      errors.append(f'{text!r} stands alone; expected --option=value')
      continue
    name, value = match.groups()
    if name in known and known[name].stands_for:
      name = known[name].stands_for
    tree, dot, leaf = name.partition('.')
    negated = bool(dot) and tree not in trees and tree.startswith('no') and tree[2:] in trees
    tree = tree[2:] if negated else tree
    overrides = bool(dot) and tree in trees
    if value is None and not negated and (overrides or name in known) and _is_value(rest, name in switches):
      value = rest.pop(0)  # --option value
      text = f'{text}={value}'
    if value is None and not overrides and name in known and known[name].switch:
      value = 'true'
    if not overrides and name in known and known[name].switch and value not in ('true', 'false'):
      errors.append(f'{text}: expected true or false, found {value!r}')
    elif not value and not overrides and name in known:
      errors.append(f'{text} has no value; expected --{name}=…')
      value = ''
    tokens.append(_Token(text, tree if overrides else None, leaf if overrides else name, value, negated))
  return tokens, errors


def _is_value(rest: Sequence[str], switch: bool) -> bool:
  """Whether the next argument belongs to the option before it. A switch needs none, so it takes true or false only."""
  if not rest or re.match(r'--?[A-Za-z_]', rest[0]):
    return False
  return not switch or rest[0].lower() in ('true', 'false')


def _override(tree: config_dict.ConfigDict, token: _Token) -> Any:
  """The value that a token gives its option. Raises ConfigError when there is no such option or it is ill-typed."""
  known = leaves(tree)
  if token.name not in known:
    raise ConfigError(f'{token.text} {_unknown(token.name, known, f"--{token.tree}.")}')
  if token.value == 'None' and _may_be_none(tree, token.name):
    return None  # ml_collections would make a string of it
  expected = tree_type(tree, token.name)
  if token.value is None and expected is not bool:
    raise ConfigError(f'{token.text}: expected {_article(expected)}, '
                      + (f'not a switch; write --{token.tree}.{token.name}=…' if token.negated else
                         f'found no value; write {token.text}=…'))
  # ml_collections reads the value, so that its syntax is ours. Each option is tried alone: it stops at the first error.
  argument = f'--{"no" if token.negated else ""}{token.tree}.{token.name}'
  argument += '' if token.value is None else f'={token.value}'
  values = flags.FlagValues()
  try:
    if token.negated and token.value is not None:
      raise ValueError
    holder = config_flags.DEFINE_config_dict(
        token.tree, copy.deepcopy(tree), flag_values=values, sys_argv=['', argument])
    values(['', argument])
    return leaves(holder.value)[token.name]
  except (flags.Error, ValueError, TypeError):
    value = 'a value' if token.negated else repr(token.value)
    raise ConfigError(f'{token.text}: expected {_article(expected)}, found {value}') from None


def tree_type(tree: config_dict.ConfigDict, name: str) -> type:
  """The type of an option, placeholders' included."""
  *sections, leaf = name.split('.')
  for section in sections:
    tree = tree[section]
  return tree.get_type(leaf)


def _may_be_none(tree: config_dict.ConfigDict, name: str) -> bool:
  *sections, leaf = name.split('.')
  for section in sections:
    tree = tree[section]
  fields = dict(tree.items(preserve_field_references=True))
  return isinstance(fields[leaf], config_dict.FieldReference)


def _article(kind: type) -> str:
  names = {int: 'a whole number', float: 'a number', bool: 'true or false', str: 'a text'}
  return names.get(kind, f'a {kind.__name__}')


def _unknown(name: str, known: Mapping[str, Any], prefix: str = 'config.') -> str:
  """Says that an option does not exist, and which one may have been meant."""
  inside = [option for option in known if option.startswith(f'{name}.')]
  if inside:
    return f'is a section; its options are {", ".join(inside)}'
  return f'is no option; {_did_you_mean(prefix + option for option in _nearest(name, known))}'


def _nearest(name: str, known: Mapping[str, Any]) -> list[str]:
  """Options of a like name: the same last part in other sections, else the most similar."""
  last = lambda option: option.rpartition('.')[2]
  if same := [option for option in known if last(option) == last(name)]:
    return same
  if whole := difflib.get_close_matches(name, known, 1, 0.7):
    return whole
  close = difflib.get_close_matches(last(name), [last(option) for option in known], 1, 0.6)
  return [option for option in known if last(option) in close]


def _unknown_flag(token: _Token, known: Mapping[str, Flag], tree_name: str, tree: config_dict.ConfigDict) -> str:
  close = [f'--{name}' for name in difflib.get_close_matches(token.name, known, 1, 0.7)]
  return f'{token.text} is no option; ' + _did_you_mean(
      close or [f'--{tree_name}.{name}' for name in _nearest(token.name, leaves(tree))])


def _did_you_mean(options: Iterable[str]) -> str:
  found = ' or '.join(options)
  return f'did you mean {found}?' if found else '--helpfull lists all'


def _listed(errors: Sequence[str]) -> str:
  errors = list(dict.fromkeys(errors))
  return errors[0] if len(errors) == 1 else f'{len(errors)} mistakes\n  ' + '\n  '.join(errors)


def _fail(error: Exception) -> None:
  print(f'error: {error}', file=sys.stderr)
  sys.exit(error.exit_code)


def _decode_mistakes(values: Mapping[str, str | None]) -> list[str]:
  """What is wrong with the flags of decode.py, each alone and together."""
  errors = [f'--{name}={values[name]}: expected {expected}' for name, (pattern, expected) in _DECODE_VALUES.items()
            if values[name] is not None and not re.fullmatch(pattern, values[name])]
  needs = [('n_best', '1', 'jsonl'), ('attention', None, 'jsonl')]
  errors += [f'--{name} needs --format={form}: the others have one text a line' for name, default, form in needs
             if values[name] != default and values['format'] != form]
  if values['format'] != 'text' and (values['reference'] or values['paper_bleu']):
    errors.append(f'--format={values["format"]} with --reference or --paper_bleu: scores are of text; expected '
                  '--format=text')
  if values['paper_bleu'] and not values['reference'] and not (values['input'] or '').startswith(('split:', 'tfds:')):
    errors.append('--paper_bleu needs --reference')
  if values['long_lines'] == 'split' and (values['format'] != 'text' or values['target']):
    errors.append('--long_lines=split with --target or another --format than text: tokens, alignments and scores are of '
                  'one translation, and a line in parts has several; expected --long_lines=cut')
  if values['target'] and (values['mbr'] or values['reference'] or values['format'] == 'pharaoh'):
    errors.append('--target scores given translations; it does not go with --mbr, --reference or --format=pharaoh')
  return errors


# ------------------------------------------------------------------------------------------------ rows of a sweep


class _RowText(NamedTuple):
  """A row as --rows has it: [NAME=][FILE.py:]VARIANT[+option=value…]."""

  text: str
  name: str
  variant: str  # of the configuration file, or FILE.py:VARIANT; '' is the file's default
  changes: tuple[str, ...]  # option=value


def _row_texts(rows: str | None, order: Sequence[str]) -> list[_RowText]:
  texts = []
  for text in rows.split(',') if rows else order or ['default=']:
    body, *changes = text.strip().split('+')
    name, _, variant = body.rpartition('=')
    texts.append(_RowText(text, name or variant, variant, tuple(changes)))
  return texts


def _visualize_mistakes(values: Mapping[str, str | None]) -> list[str]:
  """Choices that are none, and options that do nothing beside --training."""
  errors = [f'--{name}={values[name]}: expected one of {", ".join(choices)}'
            for name, choices in (('format', FORMATS), ('figure', FIGURES)) if values[name] not in choices]
  if values['training'] == 'true':
    flags = [flag for flag in VISUALIZE_FLAGS if flag.name not in ('workdir', 'output', 'training', 'open')]
    errors += [f'--training with --{flag.name}: the page on training shows the sentences and the steps that were watched'
               for flag in flags if values[flag.name] != flag.default]
  return errors


def _analyze_mistakes(values: Mapping[str, str | None]) -> list[str]:
  """Numbers that are none, and options that need each other."""
  errors = [f'--{name}={values[name]}: expected a positive whole number' for name in ('sentences', 'prune')
            if values[name] is not None and not re.fullmatch('[1-9][0-9]*', values[name])]
  for one, other in (('prune', 'pruned_workdir'), ('input', 'reference')):
    if (values[one] is None) != (values[other] is None):
      errors.append(f'--{one} and --{other} go together; give both or neither')
  return errors


def _sweep_mistakes(values: Mapping[str, str | None]) -> list[str]:
  """What is wrong with the rows and the seeds of a sweep, as far as their names tell."""
  errors = []
  if not re.fullmatch('[1-9][0-9]*', values['seeds'] or ''):
    errors.append(f'--seeds={values["seeds"]}: expected a positive whole number')
  if not values['config'] or not os.path.isfile(values['config'].partition(':')[0]):
    return errors  # told already
  path, _, variant = values['config'].partition(':')
  if variant:
    return [*errors, f'--config={values["config"]}: the rows of a sweep are variants; give the file alone: '
            f'--config={path} --rows={variant}']
  order = tuple(getattr(_load_module(path), 'VARIANTS', ()))
  seen = set()
  for row in _row_texts(values['rows'], order):
    if not re.fullmatch(r'[A-Za-z0-9][\w\-]*', row.name) or row.changes and '=' not in row.text.partition('+')[0]:
      errors.append(f'--rows: {row.text!r} needs a name of its own (letters, digits, _ and -), which becomes its '
                    f'folder: NAME={row.text}')
    if row.name in seen:
      errors.append(f'--rows: two rows are called {row.name!r}; give one another name: NAME={row.variant}')
    seen.add(row.name)
    if order and row.variant and '.py' not in row.variant and row.variant not in order:
      spelt = {name.lower(): name for name in order}
      close = difflib.get_close_matches(row.variant.lower(), spelt, 1, 0.5)
      errors.append(f'--rows: {path} has no row {row.variant!r}; '
                    + (f'did you mean {spelt[close[0]]}? ' if close else '') + f'It has {", ".join(order)}')
  return errors


def _resolve_rows(texts: Sequence[_RowText], path: str, shared: Mapping[str, Any]) -> tuple[SweepRow, ...]:
  """Each row with its whole configuration. Raises ConfigError naming every mistake of every row."""
  rows, errors = [], []
  for row in texts:
    spec = row.variant if '.py' in row.variant else f'{path}:{row.variant}'.rstrip(':')
    overrides = (*(f'--config.{change}' for change in row.changes), *as_overrides(shared))
    try:
      parsed = parse(['train.py', f'--config={spec}', '--workdir=.', *overrides], TRAIN_FLAGS, 'config')
      rows.append(SweepRow(row.name, spec, overrides, choose_length(parsed.trees['config'], parsed.given['config'])))
    except ConfigError as error:
      errors.append(f'row {row.name}: {error}')
  if errors:
    raise ConfigError(_listed(errors))
  return tuple(rows)


def as_overrides(given: Mapping[str, Any]) -> list[str]:
  """Options by dotted name, as they are written on a command line."""
  written = lambda value: str(value).lower() if isinstance(value, bool) else str(value)
  return [f'--config.{name}={written(value)}' for name, value in given.items()]


# -------------------------------------------------------------------------------------------------------- --help


@contextlib.contextmanager
def _answers(argv: Sequence[str], doc: str, script_flags: Sequence[Flag], tree_name: str) -> Iterator[None]:
  """Answers --help, and tells mistakes, by ending the program."""
  asked = {argument.lstrip('-') for argument in argv[1:] if argument in ('--help', '-help', '-h', '--helpfull')}
  try:
    if asked:
      print(help_text(doc, script_flags, tree_name, everything='helpfull' in asked))
      sys.exit(0)
    yield
  except ConfigError as error:
    _fail(error)


def help_text(doc: str, script_flags: Sequence[Flag], tree_name: str, everything: bool = False) -> str:
  """What a script does, its flags, and the options that may be overridden, as configs/default.py describes them."""
  lines = [doc.strip(), '', 'Flags:']
  for flag in script_flags:
    default = f' (default {flag.default})' if flag.default else ' (required)' if flag.required else ''
    lines += _entry(f'--{flag.name}' if flag.switch else f'--{flag.name}=…', flag.help + default)
  options, comments = leaves(default_config()), option_comments()
  inside = '' if tree_name == 'config' else f'{tree_name}.'
  shown = [name for name in comments if name.startswith(inside) and (everything or inside or name in MOST_USED)]
  lines += ['', ('Every option' if everything or inside else 'The options most often changed')
            + ', with the default of configs/default.py:']
  for before, name in zip([None, *shown], shown):
    section = name.rpartition('.')[0]
    if before is not None and section != before.rpartition('.')[0]:
      lines.append('')
    value = options[name]
    lines += _entry(f'--{tree_name}.{name.removeprefix(inside)}={"…" if value is None else value}', comments[name])
  if tree_name == 'config':
    lines += ['', 'Shipped configurations: ' + ', '.join(shipped_configs())]
    if not everything:
      lines += ['--helpfull lists every option.']
  return '\n'.join(lines)


def _entry(name: str, text: str) -> list[str]:
  left = f'  {name}'
  wrapped = textwrap.wrap(text, 76, break_long_words=False) or ['']
  first = [f'{left:<42}  {wrapped[0]}'] if len(left) <= 42 else [left, f'{"":<44}{wrapped[0]}']
  return first + [f'{"":<44}{line}' for line in wrapped[1:]]


def option_comments(path: str = os.path.join(CONFIGS, 'default.py')) -> dict[str, str]:
  """The comment behind each option in configs/default.py: its one description.

  It reads assignments to attributes of `config`, and of short names such as `model` in `config.model = model = …`.
  """
  with open(path, encoding='utf-8') as file:
    source = file.read()
  tokens = tokenize.generate_tokens(io.StringIO(source).readline)
  behind = {token.start[0]: token.string.lstrip('# ') for token in tokens if token.type == tokenize.COMMENT}
  prefixes, comments = {'config': ''}, {}
  for node in ast.walk(ast.parse(source)):
    if not isinstance(node, ast.Assign):
      continue
    names = [_dotted(target, prefixes) for target in node.targets]
    for target, name in zip(node.targets, names[:1] * len(names)):
      if isinstance(target, ast.Name) and name:
        prefixes[target.id] = f'{name}.'
    if names[0] and node.end_lineno in behind:
      comments[names[0]] = behind[node.end_lineno]
  return comments


def _dotted(node: ast.expr, prefixes: Mapping[str, str]) -> str:
  """'model.d_model' of the expression model.d_model; '' when it starts from no known name."""
  if isinstance(node, ast.Attribute):
    if isinstance(node.value, ast.Name):
      return prefixes[node.value.id] + node.attr if node.value.id in prefixes else ''
    outer = _dotted(node.value, prefixes)
    return f'{outer}.{node.attr}' if outer else ''
  return ''
