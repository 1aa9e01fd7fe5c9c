"""Labelled text from files: tab-separated lines of a label and one text or several.

    classification     label, text
    entailment         label, premise, hypothesis
    similarity         label, text, text
    multiple_choice    number of the right answer (from 1), context, answer 1, answer 2, …

A file per split, or one file that is split here so that no held-out text is trained on; plain or gzip, read as
text_files does. Labels have a fixed order: that of the alphabet, or that of the answers.
"""

import difflib
import os
from collections.abc import Sequence
from typing import NamedTuple

from checks.errors import DataError
from corpora import split_files, text_files
from corpora.config import KINDS, SPLITS, Kind, LabelledConfig
from corpora.labelled import TASKS, Example, LabelledCorpus, LabelledSplit, Task


class Row(NamedTuple):
  """A line of a labelled file."""

  place: str  # file and line, for messages
  label: str
  texts: tuple[str, ...]


def read_rows(path: str, task: Task, notes: list[str]) -> list[Row]:
  """Return the rows of a file; blank lines are skipped and counted. Raises DataError naming file and line."""
  rows, blank, answers = [], 0, None
  for number, line in enumerate(text_files.read_lines(path, notes), 1):
    if not line.strip():
      blank += 1
      continue
    rows.append(_row(line, f'{path}, line {number}', task, answers))
    answers = len(rows[0].texts) - 1 if task.answers else None
  if not rows:
    raise DataError(f'{path} is empty; expected lines of tab-separated columns: {task.describe()}')
  if blank:
    notes.append(f'{path}: {blank:,} blank lines skipped')
  return rows


def _row(line: str, place: str, task: Task, answers: int | None) -> Row:
  """Check and return one line; `answers` is the number of answers in the file's first line."""
  label, *texts = (cell.strip() for cell in line.split('\t'))
  least = len(task.columns)
  if len(texts) < least or not task.answers and len(texts) > least:
    raise DataError(f'{place}: {len(texts) + 1} tab-separated columns; expected {least + 1}'
                    f'{" or more" if task.answers else ""}: {task.describe()}')
  if answers is not None and len(texts) - 1 != answers:
    raise DataError(f'{place}: {len(texts) - 1} answers, but the first line has {answers}; all must have as many')
  further = (f'answer {number}' for number in range(least, len(texts)))  # behind those that the task's columns name
  for name, cell in zip(('label', *task.columns, *further), (label, *texts), strict=True):
    if not cell:
      raise DataError(f'{place}: the {name} is empty; expected {task.describe()}')
  return Row(place, label, tuple(texts))


def label_names(rows: Sequence[Row], task: Task, name: str) -> tuple[str, ...]:
  """Return the labels of training in their order. Raises DataError when there is only one."""
  if task.answers:
    return tuple(str(number) for number in range(1, len(rows[0].texts)))
  labels = tuple(sorted({row.label for row in rows}))
  if len(labels) == 1:
    raise DataError(f'{name}: all {len(rows):,} lines have the label {labels[0]!r}; expected two labels at least. The '
                    f'columns are {task.describe()}')
  return labels


def _examples(rows: Sequence[Row], labels: tuple[str, ...], task: Task) -> tuple[Example, ...]:
  """Return rows as examples, with labels as indices."""
  known = {label: index for index, label in enumerate(labels)}
  for row in rows:
    if task.answers and len(row.texts) - 1 != len(labels):
      raise DataError(f'{row.place}: {len(row.texts) - 1} answers, but training has {len(labels)} in each line')
    if row.label not in known:
      raise DataError(f'{row.place}: ' + (
          f'the right answer is number {row.label!r}; expected 1 to {len(labels)}' if task.answers else
          f'label {row.label!r} is not among those of training: {_listed(row.label, labels)}'))
  return tuple(Example(known[row.label], row.texts) for row in rows)


def _listed(wanted: str, labels: tuple[str, ...], most: int = 20) -> str:
  near = difflib.get_close_matches(wanted, labels, n=3)
  ordered = list(dict.fromkeys([*near, *labels]))
  return ', '.join(ordered[:most]) + (f' and {len(ordered) - most} more' if len(ordered) > most else '')


# ------------------------------------------------------------------------------------------------------ corpora


def directory_corpus(config: LabelledConfig) -> LabelledCorpus:
  """Load `<directory>/<split>.tsv`, plain or `.gz`."""
  task, notes = TASKS[config.task], []
  path_of = lambda stem: split_files.find(config.directory, f'{stem}.tsv', 'Splits are named by '
                                         '--config.data.train_split, validation_split and test_splits')
  stems = [config.train_split, config.validation_split,
           *text_files.tests_there(config.directory, config.test_splits, ('tsv',), notes)]
  paths = [path_of(stem) for stem in stems]  # all are found before any is read
  rows = [read_rows(path, task, notes) for path in paths]
  labels = label_names(rows[0], task, paths[0])
  splits = [LabelledSplit(stem, _examples(part, labels, task)) for stem, part in zip(stems, rows)]
  trained = {text for row in rows[0] for text in row.texts[:task.identifying]}
  for stem, part in zip(stems[1:], rows[1:]):
    common = sum(not trained.isdisjoint(row.texts[:task.identifying]) for row in part)
    if common:
      notes.append(f'{stem}: {common:,} of {len(part):,} examples share a text with training')
  train, validation, *tests = splits
  return LabelledCorpus(config.directory, task.name, labels, train, validation, tuple(tests), tuple(notes))


def tsv_corpus(config: LabelledConfig) -> LabelledCorpus:
  """Load one file and split it: examples that share a text go to one split, drawn by the seed; see heldout."""
  from corpora import heldout  # with NumPy, which is slow to import
  task, notes = TASKS[config.task], []
  rows = read_rows(config.tsv, task, notes)
  distinct = list({row[1:]: row for row in reversed(rows)}.values())[::-1]
  if len(distinct) < len(rows):
    notes.append(f'{len(rows) - len(distinct):,} repeated lines dropped')
  labels = label_names(distinct, task, config.tsv)
  keys = [row.texts[:task.identifying] for row in distinct]
  *parts, dropped = heldout.split_by_key(keys, config.heldout, config.seed, config.tsv, 'examples')
  if dropped:
    notes.append(f'{dropped:,} examples dropped because a text of theirs is held out')
  name = os.path.basename(config.tsv)
  train, validation, test = (
      LabelledSplit(f'{name} {split}', _examples([distinct[i] for i in part], labels, task))
      for split, part in zip(('train', 'validation', 'test'), parts))
  return LabelledCorpus(config.tsv, task.name, labels, train, validation, (test,), tuple(notes))


KINDS.add('labelled_text', Kind(directory_corpus, 'examples', needs='directory'),
          'labelled examples: a file of tab-separated columns per split', uses=('directory', *SPLITS, 'task'))
KINDS.add('labelled_tsv', Kind(tsv_corpus, 'examples', needs='tsv'),
          'labelled examples: one file of tab-separated columns, split here', uses=('tsv', 'heldout', 'task'))
