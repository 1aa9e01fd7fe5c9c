"""Pairs of text in files: written side by side, and chosen among translations by score."""

import contextlib
import functools
import itertools
import json
import math
import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from checks.errors import DataError
from checks.progress import shown
from checks.whole_files import whole
from corpora import text_files
from corpora.splits import Pair
from decoding.scores import bleu_of, language_of


def write(paths: tuple[str, str], pairs: Iterable[Pair]) -> int:
  """Write a file of sources and one of targets, a line for each pair, and return the number of pairs."""
  count = 0
  with contextlib.ExitStack() as opened:
    for path in paths:
      os.makedirs(os.path.dirname(path), exist_ok=True)
    files = [opened.enter_context(whole(path)) for path in paths]
    for count, pair in enumerate(pairs, 1):
      for file, text in zip(files, pair):
        file.write(f'{text}\n'.encode())
  return count


def lines_of(path: str) -> Iterator[str]:
  """Yield the lines of a text file, plain or gzip, without holding them all."""
  for block in text_files.line_blocks(path):
    yield from block


class Answer(NamedTuple):
  """A translation of a line."""

  text: str
  log_prob: float  # natural logarithm of its probability, EOS included; 0 where it was not written
  size: int  # number of its tokens, EOS included

  @property
  def score(self) -> float:
    """The log-probability per token."""
    return self.log_prob / max(self.size, 1)


def answers(path: str, references: str | None = None, language: str = '', sources: str | None = None) -> Iterator[Answer]:
  """Yield the translation of each line in what decode.py wrote: text, or jsonl where the path ends so.

  Args:
    path: of the translations.
    references: path of the lines that translations are to be like: of each n-best list the one with the highest
      sentence BLEU is taken (sequence-level interpolation, Kim & Rush, 2016, §3.3); of equal ones the likeliest.
      None: the first.
    language: of both; MULTILINGUAL: what the tags of the sources say, line by line.
    sources: path of the lines that were translated; with references alone.
  """
  if not path.endswith('.jsonl'):
    yield from (Answer(line, 0.0, 1) for line in lines_of(path))
    return
  bleu = functools.cache(lambda code: bleu_of(code, effective_order=True))
  wanted = zip(lines_of(references), lines_of(sources or references)) if references else None
  for number, line in enumerate(lines_of(path), 1):
    try:
      record = json.loads(line)
      listed = [Answer(one['text'], one['log_prob'], len(one['token_log_probs']))
                for one in record.get('n_best', [record])]
    except (ValueError, TypeError, KeyError, AttributeError):
      raise DataError(f'{path}: line {number:,} is not what decode.py --format=jsonl writes; delete the file to have the '
                      'text translated again') from None
    if wanted is not None:
      reference, source = next(wanted)
      score = bleu(language_of([source], language)).sentence_score
      listed.sort(key=lambda one: -score(one.text, [reference]).score)  # stable
    yield listed[0]


def has_text(pair: Pair) -> bool:
  """Return whether both sides of a pair hold more than spaces."""
  return bool(pair.source.strip() and pair.target.strip())


def synthetic(translations: str, given: str, paths: tuple[str, str], is_back: bool, keep: float | None = None,
              min_score: float | None = None, references: str | None = None, language: str = '') -> dict[str, Any]:
  """Write the pairs of a text and its translations, all or the best of them, in the order of the text.

  Pairs with an empty side are left out. Of the others, `keep` keeps the share with the highest log-probability per
  token, rounded up, of equal ones the first; `min_score` those with that score or a higher one.

  Args:
    translations: path of what decode.py wrote.
    given: path of the text that it translated.
    paths: of the files to write, sources and targets.
    is_back: whether the translations are the sources.
    keep, min_score: see above; one of them or none.
    references, language: see answers().

  Returns:
    The figures of the stage: how many lines were read, left out for an empty side, and kept, and the scores.

  Raises:
    DataError: when no pair is left, and when the translations are not those of the text, a line for each.
  """
  pair_of = lambda text, answer: Pair(answer.text, text) if is_back else Pair(text, answer.text)
  read = lambda: itertools.zip_longest(lines_of(given), answers(translations, references, language, given))
  scores, full = [], []
  for text, answer in shown(read(), 'scoring', ' pairs'):
    if text is None or answer is None:
      raise DataError(f'{translations} and {given} are not equally long, and each line of the one is to be the '
                      'translation of a line of the other; delete the first to have the text translated again')
    full.append(has_text(pair_of(text, answer)))
    scores.append(answer.score)
  kept = chosen(np.array(scores), np.array(full, bool), keep, min_score)
  if not kept.any():
    raise DataError(f'{translations}: of {len(full):,} lines, {sum(full):,} with text on both sides, none is kept'
                    + (f'; their highest log-probability per token is {np.array(scores)[full].max():.3f}, and --min_score '
                       f'is {min_score:g}' if any(full) else ''))
  pairs = (pair_of(text, answer) for keeps, (text, answer) in zip(kept, read()) if keeps)
  write(paths, shown(pairs, 'writing', ' pairs', int(kept.sum())))
  figures = {'lines': len(full), 'empty': len(full) - sum(full), 'kept': int(kept.sum())}
  if translations.endswith('.jsonl'):
    of = np.array(scores)
    figures |= {'mean_score': float(of[np.array(full)].mean()), 'mean_score_kept': float(of[kept].mean()),
                'least_score_kept': float(of[kept].min())}
  print(described(figures), flush=True)
  return figures


def described(figures: dict[str, Any]) -> str:
  """Return the figures of synthetic() in a sentence."""
  scores = ('; log-probability per token: {mean_score:.3f} in the mean, {mean_score_kept:.3f} in the mean of those kept, '
            'of which the least has {least_score_kept:.3f}') if 'mean_score' in figures else ''
  return ('{kept:,} of {lines:,} pairs kept, {empty:,} have an empty side' + scores).format(**figures)


def chosen(scores: np.ndarray, full: np.ndarray, keep: float | None, min_score: float | None) -> np.ndarray:
  """Return which pairs are kept: of those that are `full`, the best share, or those from a score on; see synthetic()."""
  if min_score is not None:
    return full & (scores >= min_score)
  if keep is None:
    return full
  places = np.flatnonzero(full)
  count = math.ceil(keep * len(places) - 1e-9)  # 0.1 * 30 is a little more than 3
  best = places[np.argsort(-scores[places], kind='stable')[:count]]
  kept = np.zeros(len(full), bool)
  kept[best] = True
  return kept
