"""The records of labelled text (Radford et al., 2018, §3.2), and its tasks: the registry of `data.task`.

input_formats.py turns a task's texts into the model's sequences, transformer/classification.py classifies them; both
use these names of tasks.
"""

import collections
import dataclasses
import hashlib
from collections.abc import Iterator
from typing import NamedTuple

from checks.choices import Registry


class Example(NamedTuple):
  """A labelled example."""

  label: int  # index into the corpus's labels; of multiple choice: index of the right answer
  texts: tuple[str, ...]  # as the task's columns; of multiple choice: context, then the answers


@dataclasses.dataclass(frozen=True)
class Task:
  """A task: the columns of its examples."""

  name: str
  columns: tuple[str, ...]  # those after the label
  answers: bool = False  # further columns like the last may follow, and the label is the number of the right one
  identifying: int = 1  # number of first texts of which none may occur in two splits

  def describe(self) -> str:
    """Return the columns as a user types them."""
    columns = ('number of the right answer' if self.answers else 'label', *self.columns)
    return ', '.join(columns) + (', …' if self.answers else '')


TASKS: Registry[Task] = Registry('data.task')
for task in (Task('classification', ('text',)),
             Task('entailment', ('premise', 'hypothesis'), identifying=2),
             Task('similarity', ('text', 'text'), identifying=2),
             Task('multiple_choice', ('context', 'answer 1', 'answer 2'), answers=True)):
  TASKS.add(task.name, task, task.describe())


def has_answers(task: str) -> bool:
  """Return whether the examples of a task have answers to choose from; False for an unknown task."""
  return task in TASKS and TASKS[task].answers


@dataclasses.dataclass(frozen=True)
class LabelledSplit:
  """Examples of one split."""

  name: str  # printed beside every score
  examples: tuple[Example, ...]

  def __iter__(self) -> Iterator[Example]:
    return iter(self.examples)

  def __len__(self) -> int:
    return len(self.examples)

  @property
  def extent(self) -> str:
    """The amount of text, for people."""
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
  tests: tuple[LabelledSplit, ...]  # in the order of data.test_splits; scored at the end of a run
  notes: tuple[str, ...] = ()  # printed when a run starts
  suggestions: tuple[str, ...] = ()  # lines that a user may try: texts, separated by tabs

  def majority(self, split: LabelledSplit) -> float:
    """Return the accuracy on a split of always predicting training's most frequent label (the first of several)."""
    counts = collections.Counter(example.label for example in self.train)
    favourite = max(range(len(self.labels)), key=lambda label: counts[label])
    return sum(example.label == favourite for example in split) / len(split)
