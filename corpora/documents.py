"""What counts as one document of a running text, read on its own from BOS to EOS: the registry of `data.document`.

A document's EOS stands for its separator (a line end, or a blank line), so that every byte of a split is predicted.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from checks.choices import Registry


class Division(NamedTuple):
  """How the lines of a text become documents."""

  separator: str  # what follows each unit in the file
  # (lines, file, notes) -> units, one after the other as lines come; notes, where given, get what is skipped.
  units: Callable[[Iterable[str], str, list[str] | None], Iterator[str]]
  noun: str  # of units, in messages
  whole: bool = False  # all units of a split together are one document


DOCUMENTS: Registry[Division] = Registry('data.document')


def _all_lines(lines: Iterable[str], path: str, notes: list[str] | None) -> Iterator[str]:
  del path, notes  # nothing is skipped
  return iter(lines)


def _paragraphs(lines: Iterable[str], path: str, notes: list[str] | None) -> Iterator[str]:
  del path, notes
  paragraph: list[str] = []
  for line in lines:
    if line.strip():
      paragraph.append(line)
    elif paragraph:
      yield '\n'.join(paragraph)
      paragraph = []
  if paragraph:
    yield '\n'.join(paragraph)


def _lines_with_text(lines: Iterable[str], path: str, notes: list[str] | None) -> Iterator[str]:
  blank = 0
  for line in lines:
    if line.strip():
      yield line
    else:
      blank += 1
  if blank and notes is not None:
    notes.append(f'{path}: {blank:,} blank lines skipped')


DOCUMENTS.add('file', Division('\n', _all_lines, 'lines', whole=True),
              'the whole text, line ends included: the model reads on over all of it')
DOCUMENTS.add('paragraph', Division('\n\n', _paragraphs, 'paragraphs'), 'the lines between blank lines')
DOCUMENTS.add('line', Division('\n', _lines_with_text, 'lines'), 'each line')
