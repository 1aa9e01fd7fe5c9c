"""Classification of lines by a fine-tuned language model, one label for each."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import numpy as np

from checks.errors import DataError
from corpora import input_formats, labelled
from corpora.labelled import Example, LabelledSplit
from corpora.vocabulary import Vocabulary
from decoding import text_lines
from decoding.batches import length_classes
from transformer import tokens
from transformer.model import Model, Params

_ROWS = 8  # examples of a batch


class Label(NamedTuple):
  """The label that a model finds likeliest for an example."""

  text: str  # the label's name; '' where there is none, see NO_LABEL
  index: int
  probability: float


NO_LABEL = Label('', -1, 0.0)  # of a blank line, and where the model gives no label a probability that is a number


class Classifier:
  """A classifier of texts by a fine-tuned model."""

  def __init__(self, model: Model, params: Params, vocabulary: Vocabulary, labels: Sequence[str], task: str,
               length: int):
    """Make a classifier; nothing is computed yet.

    Args:
      model, params: with a classifier on top (transformer.classification).
      vocabulary: of the texts.
      labels: names of the labels, in their order.
      task: one of labelled.TASKS.
      length: most tokens of a sequence; longer texts are cut, and counted in `cut`.
    """
    self._model, self.params, self._vocabulary, self._labels = model, params, vocabulary, labels
    self._task, self._length = labelled.TASKS[task], length
    self._compiled = jax.jit(lambda params, sequences: jax.nn.softmax(model.scores(params, sequences), axis=-1))
    self.cut = 0
    self._nothing: list[int] = []  # lines, counted from 1, for which there was no label

  def classify(self, examples: Sequence[Example], progress: Callable[[int], object] | None = None) -> list[Label]:
    """Find the likeliest label of each example; their own labels are not read."""
    split = LabelledSplit('', tuple(examples))
    encoded = input_formats.encode(split, self._task.name, self._vocabulary, self._length)
    self.cut += encoded.cut
    out: list[Label] = [NO_LABEL] * len(examples)
    lengths = {index: max(map(len, sequences)) for index, sequences in enumerate(encoded.sequences)}
    for length, members in length_classes(lengths, self._model.longest).items():
      for start in range(0, len(members), _ROWS):
        chosen = members[start:start + _ROWS]
        batch = _rows([encoded.sequences[index] for index in chosen], length)
        for index, row in zip(chosen, np.asarray(self._compiled(self.params, batch))):
          if np.isfinite(row).all():
            out[index] = Label(self._labels[int(row.argmax())], int(row.argmax()), float(row.max()))
        if progress:
          progress(len(chosen))
    return out

  def classify_lines(self, lines: Sequence[str], progress: Callable[[int], object] | None = None) -> list[Label]:
    """Find the label of each line, in order; a blank line stays blank.

    Args:
      lines: texts separated by tabs, as in training, but without a label.
      progress: called with the number of lines just finished.

    Raises:
      DataError: naming the line, when it does not have as many texts as the task.
    """
    expected = 1 + len(self._labels) if self._task.answers else len(self._task.columns)
    examples = {}
    for number, line in enumerate(lines):
      texts = tuple(cell.strip() for cell in line.split('\t'))
      if not line.strip():
        continue
      if len(texts) != expected or not all(texts):
        raise DataError(f'line {number + 1}: {sum(map(bool, texts))} texts in {len(texts)} tab-separated columns; '
                        f'expected {expected}: {", ".join(self._task.columns)}{", …" if self._task.answers else ""}')
      examples[number] = Example(0, texts)
    found = dict(zip(examples, self.classify(list(examples.values()), progress)))
    self._nothing += [number + 1 for number, label in found.items() if label == NO_LABEL]
    return [found.get(number, NO_LABEL) for number in range(len(lines))]

  def notes(self) -> list[str]:
    """Return notes for the user on the lines labelled so far, a sentence each."""
    told = (
        (self.cut, f'texts were cut, since sequences have {self._length} tokens; lines so cut: {self.cut:,}'),
        (self._nothing, 'the model gives no label a probability that is a number, as one does whose training diverged; there '
         f'is no label of {text_lines.numbered(self._nothing)}'))
    return [note for found, note in told if found]


def _rows(sequences: list[list[list[int]]], length: int) -> tokens.Tokens:
  """Lay out the sequences of some examples as rows, padded: leaves [_ROWS, sequences of an example, T]."""
  each = len(sequences[0])
  flat = tokens.pad([ids for example in sequences for ids in example], _ROWS * each, length, filler=0)
  return tokens.Tokens(*(leaf.reshape(_ROWS, each, length) for leaf in flat))
