"""What counts as one document of a running text, read on its own from BOS to EOS: the registry of `data.document`.

A document's EOS stands for its separator (a line end, or a blank line), so that every byte of a split is predicted.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from checks.choices import Registry


class Division(NamedTuple):
  """How the lines of a text become documents."""

  separator: str  # what follows each unit in the file
  units: Callable[[Sequence[str], str, list[str]], list[str]]  # (lines, file, notes) -> units; notes what is skipped
  noun: str  # of units, in messages
  whole: bool = False  # all units of a split together are one document


DOCUMENTS: Registry[Division] = Registry('data.document')


def _all_lines(lines: Sequence[str], path: str, notes: list[str]) -> list[str]:
  del path, notes  # nothing is skipped
  return list(lines)


def _paragraphs(lines: Sequence[str], path: str, notes: list[str]) -> list[str]:
  del path, notes
  found: list[list[str]] = [[]]
  for line in lines:
    if line.strip():
      found[-1].append(line)
    elif found[-1]:
      found.append([])
  return ['\n'.join(paragraph) for paragraph in found if paragraph]


def _lines_with_text(lines: Sequence[str], path: str, notes: list[str]) -> list[str]:
  kept = [line for line in lines if line.strip()]
  if len(kept) < len(lines):
    notes.append(f'{path}: {len(lines) - len(kept):,} blank lines skipped')
  return kept


DOCUMENTS.add('file', Division('\n', _all_lines, 'lines', whole=True),
              'the whole text, line ends included: the model reads on over all of it')
DOCUMENTS.add('paragraph', Division('\n\n', _paragraphs, 'paragraphs'), 'the lines between blank lines')
DOCUMENTS.add('line', Division('\n', _lines_with_text, 'lines'), 'each line')
