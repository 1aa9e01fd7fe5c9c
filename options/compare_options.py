"""The options of compare.py: its flags, and the record that they become."""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence

from options import parsing
from options.flags import Flag, Value
from options.programs import answering

FLAGS = (
    Flag('reference', 'reference translations, one a line; several files separated by commas', tuple, required=True,
         positional='one', paths=True),
    Flag('systems', 'files of translations to compare, one a line; the first is the baseline', tuple, required=True,
         positional='rest'),
    Flag('samples', 'how many samples the bootstrap draws', int, 1000),
    Flag('language', "code of the texts' language, such as zh: of Chinese, Japanese and Thai BLEU counts characters; by default "
         'words between spaces', default=''),
    Flag('sentences', 'how many of the sentences that differ most to show', int, 5, least=0),
)


@dataclasses.dataclass(frozen=True)
class CompareOptions:
  """The checked options of compare.py."""

  references: tuple[str, ...]  # paths
  systems: tuple[str, ...]  # paths; the first is the baseline
  samples: int  # how many the bootstrap draws
  sentences: int  # of those that differ most, how many are shown
  language: str = ''  # of the texts; '' is one with spaces between words


def parse(argv: Sequence[str], doc: str) -> CompareOptions:
  """Return the options of compare.py. On --help or a mistake, print a text and end the program."""
  with answering(argv, doc, FLAGS):
    values = parsing.parse(argv, FLAGS, check=_mistakes).values
    return CompareOptions(references=values.pop('reference'), **values)


def _mistakes(values: Mapping[str, Value]) -> Iterator[str]:
  systems = values['systems'] or ()
  if systems and len(set(systems)) < 2:
    yield f'expected two different systems or more, found {" ".join(systems)}'
  if (language := str(values['language'])) and not re.fullmatch(r'[A-Za-z]{2,3}([-_]\w+)*', language):
    yield f'--language={language}: expected a code of two or three letters, such as zh or zh-TW'
