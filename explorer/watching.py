"""Heads as they form: what they do with a few fixed sentences, taken down at every evaluation of a run.

    RUN/attention/step_00000300.npz    one file a moment, there whole or not at all

The target is read out to the decoder and the same at every moment, so that moments differ in the parameters alone. What
lies there is bounded: MOST_SENTENCES of MOST_TOKENS on a side, at about MOST_MOMENTS steps, of which every second goes
whenever there would be more.
"""

import io
import itertools
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from checks.whole_files import write_whole
from corpora import text_files
from explorer import capture
from explorer.capture import Capture, Reading
from explorer.gates import KINDS
from transformer.model import Model, Params, check_length

MOST_SENTENCES = 4
MOST_TOKENS = 40  # of a side, EOS included
MOST_MOMENTS = 64
_NAME = re.compile(r'step_(\d{8,})\.npz')


class Seen(NamedTuple):
  """One sentence at one moment. Sizes as in Capture."""

  source: tuple[int, ...]  # ids; empty for a language model
  target: tuple[int, ...]
  weights: Mapping[str, np.ndarray]  # by kind, [N, H, Q, M] uint16, 65,535 for 1
  log_probs: np.ndarray  # [T] of the target's tokens, natural logarithms


class Moment(NamedTuple):
  """What was seen after a number of updates."""

  step: int
  sentences: tuple[Seen, ...]


# ------------------------------------------------------------------------------------------------------ sentences


def read_texts(path: str, paired: bool) -> list[tuple[str, str]]:
  """Sources with their targets, a tab between them, or texts without a source, a line each.

  Raises:
    DataError: when there is no such file.
    ValueError: when it has other columns, or other than 1 to MOST_SENTENCES lines.
  """
  lines = [line for line in text_files.read_lines(path) if line.strip()]
  if not 1 <= len(lines) <= MOST_SENTENCES:
    raise ValueError(f'{path} has {len(lines)} sentences; expected 1 to {MOST_SENTENCES}: the attention of each is '
                     'written at every evaluation')
  rows = [line.split('\t') if paired else ['', line] for line in lines]
  for number, row in enumerate(rows):
    if len(row) != 2 or paired and not all(text.strip() for text in row):
      raise ValueError(f'{path}, sentence {number + 1}: found {len(row)} columns; expected a source, a tab and its '
                       'translation')
  return [tuple(row) for row in rows]


def readings(texts: Sequence[tuple[str, str]], source: Any, target: Any) -> list[Reading]:
  """Texts as ids, both sides ended by EOS; an empty source has no tokens.

  Raises:
    ValueError: when one is too long.
  """
  found = [_reading(*text, source, target) for text in texts]
  for (_, text), reading in zip(texts, found):
    if not _fits(reading):
      raise ValueError(f'{text!r} or its source has {max(map(len, reading[:2]))} tokens; attention is watched on '
                       f'sentences of at most {MOST_TOKENS}')
  return found


def short_readings(texts: Iterable[tuple[str, str]], source: Any, target: Any) -> list[Reading]:
  """The first of the texts that are short enough, as many as may be watched."""
  found = (_reading(*text, source, target) for text in texts)
  return list(itertools.islice(filter(_fits, found), MOST_SENTENCES))


def _reading(source_text: str, target_text: str, source: Any, target: Any) -> Reading:
  return Reading([*source.encode(source_text), source.eos_id] if source_text else [],
                 [*target.encode(target_text), target.eos_id])


def _fits(reading: Reading) -> bool:
  return max(len(reading.source), len(reading.target)) <= MOST_TOKENS


class Watch:
  """Takes down what every head does with fixed sentences, whenever it is given parameters."""

  def __init__(self, folder: str, model: Model, sentences: Sequence[Reading], source: Any, target: Any, every: int):
    """Checks that there is something to see, without computing.

    Args:
      folder: where moments are written; made with the first.
      sentences: see readings().
      source, target: vocabularies.
      every: steps between evaluations; multiples of it, of twice it, and so on are what is kept.
    """
    if not sentences:
      raise ValueError(f'no sentence to watch has at most {MOST_TOKENS} tokens; give a file of shorter ones')
    check_length(model, capture.padded_length(max(len(side) for reading in sentences for side in reading[:2])))
    if not capture.kinds_of(model, sentences, source, target):
      raise ValueError('attention cannot be watched: the model has none')
    self._folder, self._model, self._sentences, self._every = folder, model, sentences, every
    self._vocabularies = source, target

  def __call__(self, params: Params, step: int) -> None:
    """Writes the moment after `step` updates."""
    seen = capture.read(self._model, params, self._sentences, *self._vocabularies)
    os.makedirs(self._folder, exist_ok=True)
    write_whole(_path(self._folder, step), _packed([_seen(*both) for both in zip(self._sentences, seen)]))
    _thin(self._folder, step, self._every)


def _seen(reading: Reading, found: Capture) -> Seen:
  return Seen(tuple(reading.source), tuple(reading.target),
              {kind: capture.as_shares(weights) for kind, weights in found.weights.items()}, found.log_probs)


# ---------------------------------------------------------------------------------------------------- on the disk


def _path(folder: str, step: int) -> str:
  return os.path.join(folder, f'step_{step:08d}.npz')


def steps(folder: str) -> list[int]:
  """Steps after which something was taken down, in order."""
  names = os.listdir(folder) if os.path.isdir(folder) else []
  return sorted(int(match[1]) for match in map(_NAME.fullmatch, names) if match)


def forget_after(folder: str, step: int) -> None:
  """Removes what a run that goes on from `step` has yet to see."""
  for later in steps(folder):
    if later > step:
      os.remove(_path(folder, later))


def kept(found: Sequence[int], every: int) -> set[int]:
  """Of these steps the newest, the early ones up to `every`, and the multiples of every · 2^n, the least n that leaves
  few enough.

  Later grids lie in earlier ones: a run that was stopped and went on ends with the same moments as one that was not.
  """
  stride = every
  while max(found) // stride > MOST_MOMENTS:
    stride *= 2
  return {step for step in found if step <= every or step % stride == 0} | {min(found), max(found)}


def _thin(folder: str, newest: int, every: int) -> None:
  found = [step for step in steps(folder) if step <= newest]
  for step in set(found) - kept(found, every):
    os.remove(_path(folder, step))


def _packed(sentences: Sequence[Seen]) -> bytes:
  arrays = {}
  for number, seen in enumerate(sentences):
    arrays |= {f'{number}/source': np.array(seen.source, np.int32), f'{number}/target': np.array(seen.target, np.int32),
               f'{number}/log_probs': np.asarray(seen.log_probs, np.float32),
               **{f'{number}/{kind}': weights for kind, weights in seen.weights.items()}}
  file = io.BytesIO()
  np.savez_compressed(file, **arrays)
  return file.getvalue()


def read(folder: str) -> list[Moment]:
  """All moments, in order, whose sentences are the newest one's: what is watched may have been changed meanwhile."""
  found = [Moment(step, _unpacked(_path(folder, step))) for step in steps(folder)]
  words = lambda moment: [seen[:2] for seen in moment.sentences]
  return [moment for moment in found if words(moment) == words(found[-1])]


def _unpacked(path: str) -> tuple[Seen, ...]:
  with np.load(path, allow_pickle=False) as file:
    arrays = dict(file)
  count = len({name.split('/')[0] for name in arrays})
  ids = lambda name: tuple(arrays[name].tolist())
  return tuple(Seen(ids(f'{n}/source'), ids(f'{n}/target'),
                    {kind: arrays[f'{n}/{kind}'] for kind in KINDS if f'{n}/{kind}' in arrays},
                    arrays[f'{n}/log_probs']) for n in range(count))
