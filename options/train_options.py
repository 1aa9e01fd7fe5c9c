"""The options of train.py: its flags, and the record that they become."""

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from options import parsing
from options.configurations import choose_length
from options.flags import Flag, Value, names_in
from options.programs import answering

TOPOLOGY = 'a TPU slice such as v5e:4x4, h100:N or cpu:N'
_SHAPE = '[1-9][0-9]{0,8}(x[0-9]{1,9}){2}'
FLAGS = (
    Flag('config', 'the configuration to start from: PATH.py or PATH.py:VARIANT', required=True),
    Flag('workdir', "the run's folder, on a disk or in a bucket (gs://bucket/run), made if it does not exist; a run that it "
         'holds is resumed (required, unless --shapes is given)'),
    Flag('init_from', stands_for='config.init_from'),
    Flag('replay', 'number of a step whose update was not finite: computes it again from its dump, and trains nothing',
         int, least=0, expected='the number of a step, as in the name of a folder in nonfinite/'),
    Flag('inspect', 'shows what training on pairs would read (what was left out and why, lengths, batches as text); trains '
         'nothing, and binds the folder to no options', bool, False),
    Flag('begin_anew', 'begins at step 0 in the folder of a run, with its text and vocabulary; what the run has learnt and '
         'measured is moved to earlier/', bool, False),
    Flag('compile_for', 'compiles the training step for devices that need not be here, says what it needs of them, and '
         'trains nothing: v5e:4x4 and other TPU slices, h100:4, cpu:8', expected=TOPOLOGY,
         pattern='(v[0-9]+[a-z]?|tpu[0-9]+x):[1-9][0-9]*(x[1-9][0-9]*){1,2}|(h100|cpu):[1-9][0-9]{0,4}'),
    Flag('shapes', 'with --compile_for: the shapes of batches, rows x source tokens x target tokens, such as 384x64x64; '
         'without it those of the corpus, which is then read', tuple,
         expected='shapes separated by commas, each rows x source tokens x target tokens: 384x64x64',
         pattern=f'{_SHAPE}(,{_SHAPE})*'),
    Flag('compile_for_cycles', 'with --compile_for a TPU slice: also makes machine code, which takes minutes for each '
         'shape, and shows its estimated cycles', bool, False),
)


@dataclasses.dataclass(frozen=True)
class TrainOptions:
  """The checked options of train.py."""

  config: Mapping[str, Any]  # nested dictionaries; exactly one of train.num_steps, num_epochs, num_minutes is set
  workdir: str | None  # None with `shapes` alone
  given: tuple[str, ...]  # the options of config that the command line set, by dotted name
  arguments: tuple[str, ...]  # the command line, each option with its value in one word
  replay: int | None  # a step to compute again from its dump, without training
  inspect: bool  # show what training would read, without training
  begin_anew: bool  # begin at step 0 in a run's folder; what it has learnt and measured is set aside
  compile_for: str | None  # devices to compile the step for, without training
  shapes: tuple[str, ...] | None  # of the batches to compile it for; None: those of the corpus
  compile_for_cycles: bool  # compile to machine code, for the estimated cycles

  @property
  def only_looks(self) -> bool:
    """Whether nothing is trained or scored, so that a run that is there stays as it is."""
    return self.inspect or self.replay is not None or self.compile_for is not None

  def arguments_without(self, names: Collection[str]) -> list[str]:
    """Return the command line that resumes the run, without the options of these names, such as 'config.train.num_steps'."""
    return [word for word in self.arguments if word.lstrip('-').partition('=')[0] not in {*names, 'begin_anew'}]


def parse(argv: Sequence[str], doc: str) -> TrainOptions:
  """Return the options of train.py. On --help or a mistake, print a text and end the program."""
  with answering(argv, doc, FLAGS, 'config'):
    return read(argv)


def read(argv: Sequence[str]) -> TrainOptions:
  """Return the options of train.py. Raises ConfigError naming every mistake."""
  values, tree, given, arguments = parsing.parse(argv, FLAGS, 'config', lambda values: _mistakes(values, argv))
  choose_length(tree, given)
  del values['config']
  return TrainOptions(tree.to_dict(), given=tuple(given), arguments=arguments, **values)


def _mistakes(values: Mapping[str, Value], argv: Sequence[str]) -> Iterator[str]:
  """Yield a sentence for each flag that is missing, or has no effect beside the others."""
  named = names_in(argv)
  if values['workdir'] is None and not named & {'workdir', 'shapes'}:
    yield f"--workdir is missing: {FLAGS[1].help}"
  apart = [f'--{name}' for name in ('inspect', 'replay', 'begin_anew', 'compile_for') if values[name] not in (None, False)]
  if len(apart) > 1:
    yield f'{" and ".join(apart)} do different things; give one of them'
  if 'compile_for' not in named:
    yield from (f'--{name} has no effect without --compile_for; leave it out, or name the devices'
                for name in ('shapes', 'compile_for_cycles') if values[name])
