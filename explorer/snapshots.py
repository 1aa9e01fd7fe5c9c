"""Snapshots of attention during training: the weights of every head on a few fixed sentences, at each evaluation.

    RUN/attention/step_00000300.npz    one file a snapshot, there whole or not at all

The decoder is given the same targets in every snapshot (teacher forcing), so that snapshots differ in the parameters
alone. Their size is bounded: MOST_SENTENCES of MOST_TOKENS on a side, at about MOST_SNAPSHOTS steps; whenever there
would be more, every second is removed.
"""

import io
import itertools
import os
import re
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from checks import files
from checks.errors import DamagedError
from corpora import text_files
from explorer import capture
from explorer.capture import Capture, TokenPair
from explorer.gates import KINDS
from tasks.task import Task
from training import peers
from training.evaluation import Evaluator
from transformer import partitioning
from transformer.model import Model, Params, check_length
from transformer.training import TrainState

MOST_SENTENCES = 4
MOST_TOKENS = 40  # of a side, EOS included
MOST_SNAPSHOTS = 64
_NAME = re.compile(r'step_(\d{8,})\.npz')


class SentenceSnapshot(NamedTuple):
  """One sentence in one snapshot. Sizes as in Capture."""

  source: tuple[int, ...]  # ids; empty for a language model
  target: tuple[int, ...]
  weights: Mapping[str, np.ndarray]  # by kind, [N, H, Q, M] uint16, 65,535 for 1
  log_probs: np.ndarray  # [T] of the target's tokens, natural logarithms


class Snapshot(NamedTuple):
  """The watched sentences after `step` updates."""

  step: int
  sentences: tuple[SentenceSnapshot, ...]


# ------------------------------------------------------------------------------------------------------ sentences


def read_texts(path: str, paired: bool) -> list[tuple[str, str]]:
  """Read the sentences to watch: on each line a source, a tab and its target; or, if not `paired`, a text.

  Raises:
    DataError: when there is no such file.
    ValueError: when a line has other columns, or the file other than 1 to MOST_SENTENCES lines.
  """
  lines = [line for line in text_files.read_lines(path) if line.strip()]
  if not 1 <= len(lines) <= MOST_SENTENCES:
    raise ValueError(f'{path} has {len(lines)} sentences; expected 1 to {MOST_SENTENCES}, since the attention of each '
                     'is written at every evaluation')
  rows = [line.split('\t') if paired else ['', line] for line in lines]
  for number, row in enumerate(rows):
    if len(row) != 2 or paired and not all(text.strip() for text in row):
      raise ValueError(f'{path}, sentence {number + 1}: found {len(row)} columns; expected a source, a tab and its '
                       'translation')
  return [tuple(row) for row in rows]


def token_pairs(texts: Sequence[tuple[str, str]], source: Any, target: Any) -> list[TokenPair]:
  """Encode the texts as token ids, both sides ended by EOS; an empty source has no tokens.

  Raises:
    ValueError: when a text is longer than MOST_TOKENS.
  """
  found = [_token_pair(*text, source, target) for text in texts]
  for (_, text), pair in zip(texts, found):
    if not _fits(pair):
      raise ValueError(f'{text!r} or its source has {max(map(len, pair[:2]))} tokens; attention is watched on '
                       f'sentences of at most {MOST_TOKENS}')
  return found


def short_token_pairs(texts: Iterable[tuple[str, str]], source: Any, target: Any) -> list[TokenPair]:
  """Return the first MOST_SENTENCES of the texts that have at most MOST_TOKENS on either side."""
  found = (_token_pair(*text, source, target) for text in texts)
  return list(itertools.islice(filter(_fits, found), MOST_SENTENCES))


def _token_pair(source_text: str, target_text: str, source: Any, target: Any) -> TokenPair:
  return TokenPair([*source.encode(source_text), source.eos_id] if source_text else [],
                 [*target.encode(target_text), target.eos_id])


def _fits(pair: TokenPair) -> bool:
  return max(len(pair.source), len(pair.target)) <= MOST_TOKENS


class Recorder:
  """The writer of snapshots: each call with parameters writes every head's attention on fixed sentences."""

  def __init__(self, folder: str, model: Model, sentences: Sequence[TokenPair], source: Any, target: Any, every: int):
    """Check from shapes alone that the model has attention and takes sentences of this length.

    Args:
      folder: where snapshots are written; it is made with the first.
      sentences: see token_pairs().
      source, target: vocabularies.
      every: steps between evaluations; snapshots at its multiples, or of its double and so on, are kept.
    """
    if not sentences:
      raise ValueError(f'no sentence to watch has text of at most {MOST_TOKENS} tokens; give a file of such ones')
    check_length(model, max(len(side) for pair in sentences for side in pair[:2]))
    if not capture.kinds_of(model, sentences, source, target):
      raise ValueError('attention cannot be watched: the model has none')
    self._folder, self._model, self._sentences, self._every = folder, model, sentences, every
    self._vocabularies = source, target

  def __call__(self, params: Params, step: int) -> None:
    """Write the snapshot after `step` updates, and remove older ones where there are too many."""
    captures = capture.record(self._model, params, self._sentences, *self._vocabularies)
    storage = files.of(self._folder)
    storage.make_folder(self._folder)
    storage.write(_path(self._folder, step), _packed([_sentence(*both) for both in zip(self._sentences, captures)]))
    _thin(self._folder, step, self._every)


class Watch:
  """The snapshots of a training run, written at its start and at its evaluations; without a recorder there are none."""

  def __init__(self, folder: str, recorder: Recorder | None):
    self._folder, self._recorder = folder, recorder

  def begin(self, evaluator: Evaluator, state: TrainState, step: int) -> None:
    """Remove snapshots later than `step`, from which the run goes on; for a new run, write its first snapshot."""
    if peers.is_main():
      remove_after(self._folder, step)
    if not step:
      self.record(evaluator, state, step)

  def record(self, evaluator: Evaluator, state: TrainState, step: int) -> None:
    """Write the snapshot after `step` updates; all processes have to take part."""
    if self._recorder:
      whole = evaluator.whole(state)
      if peers.is_main():
        self._recorder(partitioning.own_copy(whole), step)


def of_task(task: Task, folder: str) -> Watch:
  """Return the watch that train.watch_attention asks for: the first short samples that have text, or a file's sentences.

  Raises:
    DataError, ValueError: see read_texts, token_pairs and Recorder.
  """
  asked = task.setup.evaluation.watch_attention
  if asked is None:
    return Watch(folder, None)
  if asked == 'samples':
    with_text = (pair for pair in task.watchable() if pair[1].strip() and (pair[0].strip() or not task.references))
    found = short_token_pairs(with_text, task.source, task.target)
  else:
    found = token_pairs(read_texts(asked, paired=task.references), task.source, task.target)
  return Watch(folder, Recorder(folder, task.model, found, task.source, task.target, task.setup.loop.eval_every))


def _sentence(pair: TokenPair, found: Capture) -> SentenceSnapshot:
  weights = {kind: capture.to_uint16(weights) for kind, weights in found.weights.items()}
  return SentenceSnapshot(tuple(pair.source), tuple(pair.target), weights, found.log_probs)


# ---------------------------------------------------------------------------------------------- in the run's folder


def _path(folder: str, step: int) -> str:
  return os.path.join(folder, f'step_{step:08d}.npz')


def steps(folder: str) -> list[int]:
  """Return the steps of the snapshots in a folder, in order."""
  return sorted(int(match[1]) for match in map(_NAME.fullmatch, files.of(folder).names(folder)) if match)


def remove_after(folder: str, step: int) -> None:
  """Remove snapshots later than `step`, from which a run resumes."""
  for later in steps(folder):
    if later > step:
      files.of(folder).remove(_path(folder, later))


def steps_to_keep(found: Sequence[int], every: int) -> set[int]:
  """Choose the steps to keep: the first, the newest, those up to `every`, and the multiples of every · 2^n, with the
  least n that leaves few enough.

  Multiples of a larger n are among those of a smaller one, so that a run that was stopped and resumed ends with the
  same snapshots as one that was not.
  """
  stride = every
  while max(found) // stride > MOST_SNAPSHOTS:
    stride *= 2
  return {step for step in found if step <= every or step % stride == 0} | {min(found), max(found)}


def _thin(folder: str, newest: int, every: int) -> None:
  found = [step for step in steps(folder) if step <= newest]
  for step in set(found) - steps_to_keep(found, every):
    files.of(folder).remove(_path(folder, step))


def _packed(sentences: Sequence[SentenceSnapshot]) -> bytes:
  arrays = {}
  for number, seen in enumerate(sentences):
    arrays |= {f'{number}/source': np.array(seen.source, np.int32), f'{number}/target': np.array(seen.target, np.int32),
               f'{number}/log_probs': np.asarray(seen.log_probs, np.float32),
               **{f'{number}/{kind}': weights for kind, weights in seen.weights.items()}}
  file = io.BytesIO()
  np.savez_compressed(file, **arrays)
  return file.getvalue()


def read(folder: str) -> list[Snapshot]:
  """Read all snapshots, in order, of the sentences in the newest one: the watched file may have changed in between."""
  found = [Snapshot(step, _unpacked(_path(folder, step))) for step in steps(folder)]
  ids = lambda snapshot: [sentence[:2] for sentence in snapshot.sentences]
  return [snapshot for snapshot in found if ids(snapshot) == ids(found[-1])]


def _unpacked(path: str) -> tuple[SentenceSnapshot, ...]:
  try:
    with np.load(io.BytesIO(files.of(path).read(path)), allow_pickle=False) as file:
      arrays = dict(file)
    count = len({name.split('/')[0] for name in arrays})
    ids = lambda name: tuple(arrays[name].tolist())
    weights = lambda n: {kind: arrays[f'{n}/{kind}'] for kind in KINDS if f'{n}/{kind}' in arrays}
    return tuple(SentenceSnapshot(ids(f'{n}/source'), ids(f'{n}/target'), weights(n), arrays[f'{n}/log_probs'])
                 for n in range(count))
  except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
    raise DamagedError(f'{path} is damaged ({error}); put it back from a copy, or delete it: the page shows the others'
                       ) from None
