"""What compare.py may be asked: its flags, and the record that they become."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from options import parsing
from options.flags import Flag, Value
from options.programs import answering

FLAGS = (
    Flag('reference', 'translations by people, one a line; several files separated by commas', tuple, required=True,
         positional='one'),
    Flag('systems', 'files of translations to compare, one a line; the first is the baseline', tuple, required=True,
         positional='rest'),
    Flag('samples', 'how many sets are drawn for the bootstrap', int, 1000),
    Flag('sentences', 'how many of the sentences that differ most are shown', int, 5, least=0),
)


@dataclasses.dataclass(frozen=True)
class CompareOptions:
  """What compare.py is asked to do."""

  references: tuple[str, ...]  # paths
  systems: tuple[str, ...]  # paths; the first is the baseline
  samples: int  # sets that the bootstrap draws
  sentences: int  # of those that differ most, how many are shown


def parse(argv: Sequence[str], doc: str) -> CompareOptions:
  """Return the options of compare.py; answer --help and mistakes by ending the program."""
  with answering(argv, doc, FLAGS):
    values = parsing.parse(argv, FLAGS, check=_mistakes).values
    return CompareOptions(references=values.pop('reference'), **values)


def _mistakes(values: Mapping[str, Value]) -> Iterator[str]:
  systems = values['systems'] or ()
  if systems and len(set(systems)) < 2:
    yield f'expected two different systems or more, found {" ".join(systems)}'
