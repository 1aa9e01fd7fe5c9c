"""Labelled text (Radford et al., 2018, §3.2): tab-separated lines of a label and one text or several.

    classification     label, text
    entailment         label, premise, hypothesis
    similarity         label, text, text
    multiple_choice    number of the right answer (from 1), context, answer 1, answer 2, …

A file per split, or one file that is split here so that no held-out text is trained on; plain or gzip, read by
text_files' rules. Labels have a fixed order: that of the alphabet, or that of the answers.
"""

import collections
import dataclasses
import difflib
import hashlib
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from checks.errors import DataError
from checks.refusals import refuse
from corpora import text_files

KINDS = ('labelled_phrasebook', 'labelled_text', 'labelled_tsv')


class Example(NamedTuple):
  """A labelled example."""

  label: int  # index into the corpus's labels; of multiple choice: index of the right answer
  texts: tuple[str, ...]  # as the task's columns; of multiple choice: context, then the answers


@dataclasses.dataclass(frozen=True)
class Task:
  """What a line's columns are."""

  name: str
  columns: tuple[str, ...]  # behind the label
  answers: bool = False  # the last column's like may follow any number of times, and the label is one's number
  identifying: int = 1  # so many of the first texts, each alone, must not stand in two splits

  def describe(self) -> str:
    """The columns as a user types them."""
    columns = ('number of the right answer' if self.answers else 'label', *self.columns)
    return ', '.join(columns) + (', …' if self.answers else '')


TASKS = {task.name: task for task in (
    Task('classification', ('text',)),
    Task('entailment', ('premise', 'hypothesis'), identifying=2),
    Task('similarity', ('text', 'text'), identifying=2),
    Task('multiple_choice', ('context', 'answer 1', 'answer 2'), answers=True),
)}


def has_answers(task: str) -> bool:
  """Return whether the examples of a task have answers to choose from; False for a task that there is not."""
  return task in TASKS and TASKS[task].answers


@dataclasses.dataclass(frozen=True)
class LabelledSplit:
  """Examples of one split."""

  name: str  # stands beside every score
  examples: tuple[Example, ...]

  def __iter__(self) -> Iterator[Example]:
    return iter(self.examples)

  def __len__(self) -> int:
    return len(self.examples)

  @property
  def extent(self) -> str:
    """How much text it is, for people."""
    return f'{len(self):,} examples'

  @property
  def fingerprint(self) -> str:
    """SHA-256 of labels and texts."""
    digest = hashlib.sha256()
    for example in self.examples:
      digest.update('\t'.join([str(example.label), *example.texts]).encode() + b'\n')
    return digest.hexdigest()


@dataclasses.dataclass(frozen=True)
class LabelledCorpus:
  """Examples to train on, to validate with and to test on."""

  name: str
  task: str
  labels: tuple[str, ...]  # their order is that of the classifier's outputs
  train: LabelledSplit
  validation: LabelledSplit
  test: LabelledSplit | None
  notes: tuple[str, ...] = ()  # told at the start of a run
  suggestions: tuple[str, ...] = ()  # lines that a user may try: texts, separated by tabs

  def majority(self, split: LabelledSplit) -> float:
    """Accuracy on a split of always naming training's most frequent label (the first of several)."""
    counts = collections.Counter(example.label for example in self.train)
    favourite = max(range(len(self.labels)), key=lambda label: counts[label])
    return sum(example.label == favourite for example in split) / len(split)


@dataclasses.dataclass(frozen=True)
class LabelledConfig:
  """Which labelled corpus, and which of its splits."""

  task: str
  kind: str = 'labelled_phrasebook'  # generated; labelled_text: a file per split; labelled_tsv: one file, split here
  train_split: str = 'train'  # stem of the file, <directory>/<split>.tsv
  validation_split: str = 'validation'
  test_split: str | None = 'test'
  directory: str | None = None  # kind labelled_text
  tsv: str | None = None  # kind labelled_tsv
  heldout: int = 1000  # kind labelled_tsv: examples held out for validation, and as many for the test
  seed: int = 0  # decides which examples of an unsplit file are held out

  def __post_init__(self):
    refuse(self._mistakes())

  def _mistakes(self) -> Iterator[str]:
    for name, value, choices in (('task', self.task, TASKS), ('kind', self.kind, KINDS)):
      if value not in choices:
        yield f'{name} is {value!r}; expected one of {", ".join(choices)}'
    needs = {'labelled_text': 'directory', 'labelled_tsv': 'tsv'}.get(self.kind)
    if needs and not getattr(self, needs):
      yield f'{needs} is not set: kind {self.kind!r} reads it; add --config.data.{needs}=…'
    if self.heldout < 1:
      yield f'heldout is {self.heldout}; expected a positive number of examples'


def load(config: LabelledConfig) -> LabelledCorpus:
  """The labelled corpus of a configuration. Raises DataError when its text is missing or damaged."""
  if config.kind == 'labelled_phrasebook':
    from corpora.phrasebook import labelled_tasks
    return labelled_tasks.corpus(config.task)
  return directory_corpus(config) if config.kind == 'labelled_text' else tsv_corpus(config)


# ----------------------------------------------------------------------------------------------- lines of a file


class Row(NamedTuple):
  """A line of a labelled file."""

  place: str  # file and line, for messages
  label: str
  texts: tuple[str, ...]


def read_rows(path: str, task: Task, notes: list[str]) -> list[Row]:
  """The rows of a file; blank lines are skipped and counted. Raises DataError naming file and line."""
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
  """One line, checked; `answers` is their number in the file's first line."""
  label, *texts = (cell.strip() for cell in line.split('\t'))
  least = len(task.columns)
  if len(texts) < least or not task.answers and len(texts) > least:
    raise DataError(f'{place}: {len(texts) + 1} tab-separated columns; expected {least + 1}'
                    f'{" or more" if task.answers else ""}: {task.describe()}')
  if answers is not None and len(texts) - 1 != answers:
    raise DataError(f'{place}: {len(texts) - 1} answers, but the first line has {answers}; all must have as many')
  for name, cell in zip(('label', *task.columns), (label, *texts)):
    if not cell:
      raise DataError(f'{place}: the {name} is empty; expected {task.describe()}')
  return Row(place, label, tuple(texts))


def label_names(rows: Sequence[Row], task: Task, name: str) -> tuple[str, ...]:
  """The labels of training in their order. Raises DataError when there is but one."""
  if task.answers:
    return tuple(str(number) for number in range(1, len(rows[0].texts)))
  labels = tuple(sorted({row.label for row in rows}))
  if len(labels) == 1:
    raise DataError(f'{name}: all {len(rows):,} lines have the label {labels[0]!r}; expected two labels at least. The '
                    f'columns are {task.describe()}')
  return labels


def _examples(rows: Sequence[Row], labels: tuple[str, ...], task: Task) -> tuple[Example, ...]:
  """Rows with their labels as indices."""
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
  """`<directory>/<split>.tsv`, plain or `.gz`."""
  task, notes = TASKS[config.task], []
  path_of = lambda stem: text_files.find(config.directory, f'{stem}.tsv', 'Splits are named by '
                                         '--config.data.train_split, validation_split and test_split')
  stems = [stem for stem in (config.train_split, config.validation_split, config.test_split) if stem]
  rows = [read_rows(path_of(stem), task, notes) for stem in stems]
  labels = label_names(rows[0], task, path_of(stems[0]))
  splits = [LabelledSplit(stem, _examples(part, labels, task)) for stem, part in zip(stems, rows)]
  trained = {text for row in rows[0] for text in row.texts[:task.identifying]}
  for stem, part in zip(stems[1:], rows[1:]):
    common = sum(not trained.isdisjoint(row.texts[:task.identifying]) for row in part)
    if common:
      notes.append(f'{stem}: {common:,} of {len(part):,} examples share a text with training')
  return LabelledCorpus(config.directory, task.name, labels, splits[0], splits[1],
                        splits[2] if len(splits) > 2 else None, tuple(notes))


def tsv_corpus(config: LabelledConfig) -> LabelledCorpus:
  """One file, split here: examples that share a text go to one split, drawn by the seed; see text_files."""
  task, notes = TASKS[config.task], []
  rows = read_rows(config.tsv, task, notes)
  distinct = list({row[1:]: row for row in reversed(rows)}.values())[::-1]
  if len(distinct) < len(rows):
    notes.append(f'{len(rows) - len(distinct):,} repeated lines dropped')
  labels = label_names(distinct, task, config.tsv)
  keys = [row.texts[:task.identifying] for row in distinct]
  *parts, dropped = text_files.split_by_key(keys, config.heldout, config.seed, config.tsv, 'examples')
  if dropped:
    notes.append(f'{dropped:,} examples dropped because a text of theirs is held out')
  name = os.path.basename(config.tsv)
  splits = [LabelledSplit(f'{name} {split}', _examples([distinct[i] for i in part], labels, task))
            for split, part in zip(('train', 'validation', 'test'), parts)]
  return LabelledCorpus(config.tsv, task.name, labels, *splits, notes=tuple(notes))
