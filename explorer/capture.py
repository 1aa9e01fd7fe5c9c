"""What a model does with a sentence, taken down: every head's weights, its operands, and the words it might have said.

    model + sentence + its translation  ->  Capture  ->  page, figures, roles

Rows of attention are queries, columns keys. The decoder's query t has read the target up to token t - 1 (BOS first) and
predicts token t; its columns are the tokens read.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from explorer import texts
from explorer.gates import KINDS
from explorer.texts import Text
from transformer import tokens
from transformer.attention import Operands
from transformer.model import Model

TOP = 10  # next tokens kept at each step
_MULTIPLE = 8  # padded lengths, so that sentences share compiled programs
ROWS_SUM_TO = 1e-5  # how far a row's sum may be from 1


class Reading(NamedTuple):
  """A sentence and the translation that is read out to the decoder, as ids; both end in EOS."""

  source: Sequence[int]  # empty for a language model
  target: Sequence[int]
  origin: str = 'as the search translated it'  # where the target comes from, for people


@dataclasses.dataclass(frozen=True)
class Capture:
  """One reading. Sizes: N layers, H heads, S source and T target tokens without padding, K d_k, U d_v."""

  source: Text | None  # None for a language model
  reads: Text  # what the decoder's rows have read last, and its columns
  predicts: Text  # what its rows predict
  weights: Mapping[str, np.ndarray]  # by kind, [N, H, Q, M] float32; kinds that the model lacks are absent
  operands: Mapping[str, Operands]  # by kind, numpy: [N, H, Q, K], [N, H, M, K], [N, H, M, U]; {} where not kept
  log_probs: np.ndarray  # [T] natural logarithm of each predicted token's probability
  top: tuple[tuple[tuple[str, float], ...], ...]  # of each step, the likeliest next pieces and their probabilities
  padded: tuple[int, int]  # source and target length as computed
  written: tuple[str, ...]  # of each step, the piece that was written, called as in `top`
  origin: str

  def __post_init__(self):
    sizes = self.sizes
    for kind, weights in self.weights.items():
      if kind not in KINDS or weights.ndim != 4 or weights.shape[2:] != sizes[kind]:
        raise ValueError(f'weights of {kind} have shape {weights.shape}; expected [layers, heads, *{sizes[kind]}]')
      off = float(np.abs(weights.sum(-1) - 1).max())
      if not off <= ROWS_SUM_TO:
        raise ValueError(f'a row of {kind} sums to 1 ± {off:.1e}; expected at most {ROWS_SUM_TO:.0e}: weights are '
                         'taken before dropout and in float32')
    if 'decoder' in self.weights and np.triu(self.weights['decoder'], 1).any():
      raise ValueError('the decoder looks at tokens that it has not read; expected 0 above the diagonal')

  @property
  def sizes(self) -> dict[str, tuple[int, int]]:
    """Queries and keys of each kind."""
    source, target = len(self.source.pieces) if self.source else 0, len(self.predicts.pieces)
    return {'encoder': (source, source), 'decoder': (target, target), 'cross': (target, source)}

  def axes(self, kind: str) -> tuple[Text, Text]:
    """What rows and columns of a kind are called; the decoder's rows are words that it predicts."""
    return {'encoder': (self.source, self.source), 'decoder': (self.predicts, self.reads),
            'cross': (self.predicts, self.source)}[kind]

  def by_word(self, kind: str) -> np.ndarray:
    """[N, H, words, words]: the sum over a word's keys, the mean over its queries."""
    rows, columns = self.axes(kind)
    return texts.pool(self.weights[kind], rows.word_of_piece, columns.word_of_piece)


def padded_length(longest: int) -> int:
  """To which length sentences of at most `longest` tokens are padded."""
  return -(-longest // _MULTIPLE) * _MULTIPLE


def read(model: Model, params: Any, readings: Sequence[Reading], source_vocabulary, target_vocabulary,
         with_operands: bool = False) -> list[Capture]:
  """Captures of sentences, computed together, padded to one length.

  Args:
    with_operands: whether queries, keys and values are kept, see Capture.
  """
  if not readings:
    return []
  batch = laid_out(readings, source_vocabulary.pad_id, target_vocabulary.pad_id)
  seen = jax.device_get(_looker(model, target_vocabulary.bos_id, with_operands)(params, *batch))
  return [_captured(reading, jax.tree.map(lambda leaf, row=row: leaf[row], seen), source_vocabulary, target_vocabulary)
          for row, reading in enumerate(readings)]


def kinds_of(model: Model, readings: Sequence[Reading], source_vocabulary, target_vocabulary) -> tuple[str, ...]:
  """The kinds of attention that a capture of these readings would hold, found without computing."""
  params = jax.eval_shape(model.init, jax.random.key(0))
  batch = laid_out(readings, source_vocabulary.pad_id, target_vocabulary.pad_id)
  return tuple(jax.eval_shape(_looker(model, target_vocabulary.bos_id, False), params, *batch)[0])


def as_shares(weights: np.ndarray) -> np.ndarray:
  """Weights from 0 to 1 as 16-bit integers: at most 2^-17 off."""
  return np.round(np.clip(weights, 0.0, 1.0) * 65535).astype(np.uint16)


def from_shares(shares: np.ndarray) -> np.ndarray:
  """What as_shares() wrote, as float32; rows, which rounding has moved, sum to 1 again."""
  return shares / shares.sum(-1, keepdims=True, dtype=np.float32)


def laid_out(readings: Sequence[Reading], source_filler: int, target_filler: int
              ) -> tuple[tokens.Tokens, tokens.Tokens]:
  """Readings as one padded batch; sources of no tokens have no columns."""
  sides = zip(*((reading.source, reading.target) for reading in readings))
  return tuple(tokens.pad(side, len(readings), padded_length(max(map(len, side))), filler)
               for side, filler in zip(sides, (source_filler, target_filler)))


@functools.lru_cache(maxsize=8)
def _looker(model: Model, bos_id: int, with_operands: bool):
  """A compiled function (params, source, target) -> what is taken down of each row."""

  def look(params, source: tokens.Tokens, target: tokens.Tokens):
    logits, record = model.inspect(params, source, tokens.shift_right(target, bos_id))
    log_probs = jax.nn.log_softmax(logits)
    stack = lambda layers: jax.tree.map(lambda *of_layer: jnp.stack(of_layer, axis=1), *layers)  # [B, N, ...]
    kept = {kind: stack(record[kind]) for kind in KINDS if record[kind]}
    operands = {kind: stack(record['operands'][kind]) for kind in kept if kind in record.get('operands', {})}
    best, place = jax.lax.top_k(log_probs, min(TOP, log_probs.shape[-1]))
    taken = jnp.take_along_axis(log_probs, target.ids[..., None], axis=-1)[..., 0]
    return kept, operands if with_operands else {}, taken, jnp.exp(best), place

  return jax.jit(look)


def _captured(reading: Reading, seen: Any, source_vocabulary, target_vocabulary) -> Capture:
  """One row of what _looker gave, without its padding."""
  weights, operands, log_probs, probabilities, top = seen
  source, target = len(reading.source), len(reading.target)
  extent = {'encoder': (source, source), 'decoder': (target, target), 'cross': (target, source)}

  def cut(kind: str, found: Operands) -> Operands:
    rows, columns = extent[kind]
    repeats = found.query.shape[2] // found.key.shape[2]  # heads that share keys and values
    return Operands(found.query[:, :rows].transpose(0, 2, 1, 3),
                    *(np.repeat(x[:, :columns], repeats, axis=2).transpose(0, 2, 1, 3) for x in found[1:]))

  spelt = [texts.labels(step.tolist(), target_vocabulary) for step in top[:target]]
  return Capture(
      source=texts.describe(reading.source, source_vocabulary) if source else None,
      reads=texts.describe([target_vocabulary.bos_id, *reading.target[:-1]], target_vocabulary),
      predicts=texts.describe(reading.target, target_vocabulary),
      weights={kind: found[:, :, :extent[kind][0], :extent[kind][1]] for kind, found in weights.items()},
      operands={kind: cut(kind, found) for kind, found in operands.items()},
      log_probs=log_probs[:target],
      top=tuple(tuple(zip(pieces, step.tolist())) for pieces, step in zip(spelt, probabilities)),
      written=tuple(texts.labels(reading.target, target_vocabulary)),
      padded=(weights['cross'].shape[-1] if 'cross' in weights else 0, len(log_probs)),
      origin=reading.origin)
