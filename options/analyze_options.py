"""The options of analyze.py: its flags, and the record that they become."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from options import parsing
from options.flags import (
  CHECKPOINT,
  WORKDIR,
  Flag,
  Value,
  behind_link,
  file_mistakes,
  names_in,
  new_folder_mistakes,
)
from options.programs import answering

FLAGS = (
    WORKDIR,
    Flag('input', 'sentences to analyse, one a line, or a file in CoNLL-U (NAME.conllu), whose subjects, objects, '
         'adjectives and adverbs the heads are compared with; by default, for runs on the phrasebook, its test split'),
    Flag('reference', 'their translations, one a line, which the decoder reads'),
    Flag('output', 'the file to write the figures to, as JSON', default='analysis.json'),
    CHECKPOINT,
    Flag('sentences', 'how many sentences to analyse at most', int, 200),
    Flag('pruning', 'closes more and more heads, the least important first, and measures BLEU at a dozen steps', bool,
         False),
    Flag('prune', 'writes a new run with this many of the least important heads closed, into --pruned_workdir', int),
    Flag('pruned_workdir', 'the folder of the run that --prune writes'),
)


@dataclasses.dataclass(frozen=True)
class AnalyzeOptions:
  """The checked options of analyze.py."""

  workdir: str
  input: str | None  # None: the phrasebook's test split
  reference: str | None
  output: str
  checkpoint: str  # final, best, latest, average:N or a step
  sentences: int  # how many to analyse at most
  pruning: bool  # whether to close heads one after the other and measure BLEU
  prune: int | None  # how many heads the new run has closed
  pruned_workdir: str | None  # folder of the new run


def parse(argv: Sequence[str], doc: str) -> AnalyzeOptions:
  """Return the options of analyze.py. On --help or a mistake, print a text and end the program."""
  with answering(argv, doc, FLAGS):
    values = parsing.parse(argv, FLAGS, check=lambda values: _mistakes(values, argv)).values
    return AnalyzeOptions(**values | {'output': behind_link(values['output'])})


def _mistakes(values: Mapping[str, Value], words: Sequence[str]) -> Iterator[str]:
  """Yield a sentence when an output cannot be written, and for each flag that is given without the one it needs."""
  yield from file_mistakes(values['output'], input=values['input'], reference=values['reference'])
  if values['pruned_workdir']:
    yield from new_folder_mistakes('pruned_workdir', values['pruned_workdir'])
  named = names_in(words)
  for one, other in (('prune', 'pruned_workdir'), ('input', 'reference')):
    if (one in named) != (other in named):
      yield f'--{one} and --{other} go together; give both or neither'
