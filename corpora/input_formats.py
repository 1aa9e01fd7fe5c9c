"""Labelled texts as a language model's sequences (Radford et al., 2018, Figure 1).

    classification    start text extract
    entailment        start premise delimiter hypothesis extract
    similarity        start text 1 delimiter text 2 extract, and the same with text 2 first
    multiple_choice   start context delimiter answer extract, for each answer

The start token is BOS; delimiter and extract are control symbols of the vocabulary, which no text is ever encoded to.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from corpora.labelled import TASKS, LabelledSplit
from corpora.vocabulary import Vocabulary

DELIMITER, EXTRACT = '<delimiter>', '<extract>'  # config.vocabulary.control_symbols
Ids = Sequence[int]
_ANY_LENGTH = 1 << 31


class Symbols(NamedTuple):
  """The ids of the symbols around texts."""

  start: int
  delimiter: int
  extract: int


class Encoded(NamedTuple):
  """A split's examples as token ids."""

  sequences: list[list[list[int]]]  # of each example, its sequences
  labels: list[int]
  cut: int  # examples of which a text was cut


def symbols_of(vocabulary: Vocabulary) -> Symbols:
  """Return the ids of the symbols. Raises DataError when the vocabulary has no delimiter or extract symbol."""
  return Symbols(vocabulary.bos_id, vocabulary.control_id(DELIMITER), vocabulary.control_id(EXTRACT))


def joined(texts: Sequence[Ids], symbols: Symbols) -> list[int]:
  """Return the sequence: start, text, delimiter, text, …, extract."""
  first, *others = texts
  return [symbols.start, *first, *(i for text in others for i in (symbols.delimiter, *text)), symbols.extract]


def least_length(task: str) -> int:
  """Return the tokens of the shortest sequence of a task: one of each text that is read together, and the symbols."""
  texts = min(len(TASKS[task].columns), 2)  # of answers, one is read at a time
  return 2 * texts + 1


def fitted(texts: Sequence[Ids], length: int) -> list[Ids]:
  """Cut the texts at their ends, the longest first, no more than needed for joined() to have at most `length` ids."""
  room = length - len(texts) - 1
  if room < len(texts):
    raise ValueError(f'{length} tokens are too few for {len(texts)} texts and the symbols around them; raise '
                     'data.max_length')
  if sum(map(len, texts)) <= room:
    return list(texts)
  most = next(most for most in range(room, 0, -1) if sum(min(len(text), most) for text in texts) <= room)
  return [text[:most] for text in texts]


def _together(texts: Sequence[Ids], symbols: Symbols, length: int) -> list[list[int]]:
  return [joined(fitted(texts, length), symbols)]


def _both_orders(texts: Sequence[Ids], symbols: Symbols, length: int) -> list[list[int]]:
  kept = fitted(texts, length)
  return [joined(kept, symbols), joined(kept[::-1], symbols)]


def _each_answer(texts: Sequence[Ids], symbols: Symbols, length: int) -> list[list[int]]:
  context, *answers = texts
  return [joined(fitted((context, answer), length), symbols) for answer in answers]


# Task -> its sequences: (ids of each text, symbols, longest sequence) -> sequences.
FORMATS: dict[str, Callable[[Sequence[Ids], Symbols, int], list[list[int]]]] = {
    'classification': _together, 'entailment': _together, 'similarity': _both_orders, 'multiple_choice': _each_answer}


def encode(split: LabelledSplit, task: str, vocabulary: Vocabulary, length: int) -> Encoded:
  """Encode a split as sequences of at most `length` tokens."""
  symbols, form = symbols_of(vocabulary), FORMATS[task]
  ids = iter(vocabulary.encode_batch([text for example in split for text in example.texts]))
  sequences, cut = [], 0
  for example in split:
    texts = [next(ids) for _ in example.texts]
    sequences.append(form(texts, symbols, length))
    cut += sequences[-1] != form(texts, symbols, _ANY_LENGTH)
  return Encoded(sequences, [example.label for example in split], cut)
