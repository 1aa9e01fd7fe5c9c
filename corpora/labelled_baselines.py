"""Baselines for labelled sets: the majority label, words without their order, one text without the other.

A model's accuracy means little without them. The classifier over words is multinomial logistic regression, fitted to
its optimum (L-BFGS, with half the sum of squared weights as a penalty).
"""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from corpora.labelled import TASKS, Example, LabelledCorpus, LabelledSplit

if TYPE_CHECKING:
  import scipy.sparse  # slow to import: the functions that need it import it

# The words of one sequence of texts -> the features that count.
Features = Callable[[Sequence[frozenset[str]]], list[str]]

_WORD = re.compile(r"\w+(?:['’-]\w+)*")


def _words(text: str) -> frozenset[str]:
  return frozenset(_WORD.findall(text.lower()))


def bag_of_words(texts: Sequence[frozenset[str]]) -> list[str]:
  """Return the words of each text, marked with the number of the text that they stand in."""
  return [f'{place} {word}' for place, words in enumerate(texts) for word in sorted(words)]


def last_text_only(texts: Sequence[frozenset[str]]) -> list[str]:
  """Return the words of the last text (the hypothesis, or an answer), to see what can be guessed without the first."""
  return sorted(texts[-1])


def word_overlap(texts: Sequence[frozenset[str]]) -> list[str]:
  """Return the bag of words, and with it which words stand in all texts and which in one alone."""
  common = frozenset.intersection(*texts)
  return [*bag_of_words(texts), *(f'all {word}' for word in sorted(common)),
          *(f'{place} alone {word}' for place, words in enumerate(texts) for word in sorted(words - common))]


def _sequences(example: Example, answers: bool) -> list[tuple[str, ...]]:
  """Return what is classified: all texts at once, or the context with each answer."""
  return [(example.texts[0], answer) for answer in example.texts[1:]] if answers else [example.texts]


def _matrix(split: LabelledSplit, answers: bool, features: Features, columns: dict[str, int], grow: bool
            ) -> 'scipy.sparse.csr_matrix':
  """Return the features of sequences, [sequences, columns] of 0 and 1.

  Args:
    columns: the column of each feature.
    grow: whether an unknown feature gets a column, or is left out.
    split, answers, features: as in accuracy().
  """
  import scipy.sparse
  indices, offsets = [], [0]
  for example in split:
    for texts in _sequences(example, answers):
      names = features([_words(text) for text in texts])
      if grow:
        for name in names:
          columns.setdefault(name, len(columns))
      indices += [columns[name] for name in names if name in columns]
      offsets.append(len(indices))
  shape = len(offsets) - 1, len(columns)
  return scipy.sparse.csr_matrix((np.ones(len(indices)), indices, offsets), shape)


def _fit(inputs: 'scipy.sparse.csr_matrix', labels: np.ndarray, outputs: int, answers: bool) -> np.ndarray:
  """Return the weights [columns, outputs] of greatest penalised likelihood; with `answers`, one output for all."""
  import scipy.optimize
  columns = inputs.shape[1]
  kinds = 1 if answers else outputs
  target = np.eye(outputs)[labels]
  transposed = inputs.T.tocsr()

  def objective(flat):
    weights = flat.reshape(columns, kinds)
    scores = (inputs @ weights).reshape(len(labels), outputs)
    scores -= scores.max(axis=1, keepdims=True)
    log_p = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    gradient = transposed @ (np.exp(log_p) - target).reshape(-1, kinds) + weights
    return -(log_p * target).sum() + 0.5 * (weights**2).sum(), gradient.ravel()

  return scipy.optimize.minimize(objective, np.zeros(columns * kinds), jac=True, method='L-BFGS-B',
                                 options={'maxiter': 200}).x.reshape(columns, kinds)


def accuracy(corpus: LabelledCorpus, split: LabelledSplit, features: Features) -> float:
  """Return the share of a split that a classifier over `features`, fitted to the training split, gets right."""
  answers, outputs, columns = TASKS[corpus.task].answers, len(corpus.labels), {}
  labels = lambda examples: np.array([example.label for example in examples])
  weights = _fit(_matrix(corpus.train, answers, features, columns, True), labels(corpus.train), outputs, answers)
  scores = (_matrix(split, answers, features, columns, False) @ weights).reshape(len(split), outputs)
  return float((scores.argmax(axis=1) == labels(split)).mean())


def baselines(corpus: LabelledCorpus, split: LabelledSplit) -> dict[str, float]:
  """Return the accuracy of every baseline on a split."""
  several = TASKS[corpus.task].answers or len(TASKS[corpus.task].columns) > 1
  rules = {'bag_of_words': bag_of_words}
  if several:
    rules |= {'last_text_only': last_text_only, 'word_overlap': word_overlap}
  return {'majority': corpus.majority(split),
          **{name: accuracy(corpus, split, features) for name, features in rules.items()}}
