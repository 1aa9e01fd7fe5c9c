"""The options of train.py: its flags, and the record that they become."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from checks.errors import ConfigError
from options import parsing
from options.configurations import choose_length
from options.flags import Flag
from options.programs import answering

FLAGS = (
    Flag('config', 'the configuration to start from: PATH.py or PATH.py:VARIANT', required=True),
    Flag('workdir', "the run's folder, made if it does not exist; a run that it holds is resumed", required=True),
    Flag('init_from', stands_for='config.init_from'),
    Flag('replay', 'number of a step whose update was not finite: computes it again from its dump, and trains nothing',
         int, least=0, expected='the number of a step, as in the name of a folder in nonfinite/'),
    Flag('inspect', 'shows what training would read (what was left out and why, lengths, batches as text), and trains '
         'nothing', bool, False),
    Flag('begin_anew', 'begins at step 0 in the folder of a run, with its text and vocabulary; what the run has learnt and '
         'measured is moved to earlier/', bool, False),
)


@dataclasses.dataclass(frozen=True)
class TrainOptions:
  """The checked options of train.py."""

  config: Mapping[str, Any]  # nested dictionaries; exactly one of train.num_steps, num_epochs, num_minutes is set
  workdir: str
  given: tuple[str, ...]  # the options of config that the command line set, by dotted name
  arguments: tuple[str, ...]  # the command line, each option with its value in one word
  replay: int | None  # a step to compute again from its dump, without training
  inspect: bool  # show what training would read, without training
  begin_anew: bool  # begin at step 0 in a run's folder; what it has learnt and measured is set aside

  def arguments_without(self, names: Collection[str]) -> list[str]:
    """Return the command line that resumes the run, without the options of these names, such as 'config.train.num_steps'."""
    return [word for word in self.arguments if word.lstrip('-').partition('=')[0] not in {*names, 'begin_anew'}]


def parse(argv: Sequence[str], doc: str) -> TrainOptions:
  """Return the options of train.py. On --help or a mistake, print a text and end the program."""
  with answering(argv, doc, FLAGS, 'config'):
    return read(argv)


def read(argv: Sequence[str]) -> TrainOptions:
  """Return the options of train.py. Raises ConfigError naming every mistake."""
  values, tree, given, arguments = parsing.parse(argv, FLAGS, 'config')
  choose_length(tree, given)
  if values['begin_anew'] and (values['inspect'] or values['replay'] is not None):
    raise ConfigError('--begin_anew trains; --inspect and --replay do not: give one of them')
  del values['config']
  return TrainOptions(tree.to_dict(), given=tuple(given), arguments=arguments, **values)
