"""Record what a model computes for a sentence and its translation, under teacher forcing: every head's
attention weights, queries, keys and values, and the likeliest next tokens.

    model + sentence + its translation  ->  Capture  ->  page, figures, roles

Rows of attention are queries, columns keys. The decoder's query t has read the target up to token t - 1 (BOS first) and
predicts token t; its keys are the tokens read so far.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from decoding.batches import length_classes
from explorer import texts
from explorer.gates import KINDS
from explorer.texts import Text
from transformer import tokens
from transformer.attention import Operands, Projections
from transformer.model import Model

TOP = 10  # next tokens kept at each step
_MULTIPLE = 8  # padded lengths, so that sentences share compiled programs
_COARSE = 64  # the smallest step between the lengths of groups, see alike
ROWS_SUM_TO = 1e-5  # most that a row's sum may differ from 1

Result = TypeVar('Result')


class TokenPair(NamedTuple):
  """A sentence and the translation that the decoder is given (teacher forcing), as token ids; both end in EOS."""

  source: Sequence[int]  # empty for a language model
  target: Sequence[int]
  origin: str = 'translated by the search'  # where the target comes from, as the page shows it


@dataclasses.dataclass(frozen=True)
class Capture:
  """What a model computed for one TokenPair.

  Sizes: N layers, H heads, G heads of keys, S source and T target tokens without padding, D d_model, K d_k, U d_v; Q
  queries and M keys.
  """

  source: Text | None  # None for a language model
  reads: Text  # the target shifted right: the columns of the decoder, and the token that each row has read last
  predicts: Text  # the target: what each row of the decoder predicts
  weights: Mapping[str, np.ndarray]  # by kind (gates.KINDS), [N, H, Q, M] float32; only kinds that the model has
  operands: Mapping[str, Operands]  # by kind, numpy: [N, H, Q, K], [N, H, M, K], [N, H, M, U]; {} where not recorded
  log_probs: np.ndarray  # [T] natural logarithm of each predicted token's probability
  top: tuple[tuple[tuple[str, float], ...], ...]  # of each step, the likeliest next pieces and their probabilities
  padded: tuple[int, int]  # source and target length as computed
  written: tuple[str, ...]  # of each step, the target's piece, spelt as in `top`
  origin: str
  # By kind, numpy: [N, Q, D], [N, M, D], and for all sentences the same [N, D, H, K], [N, D, G, K]; {} where not recorded
  projections: Mapping[str, Projections] = dataclasses.field(default_factory=dict)

  def __post_init__(self):
    sizes = self.sizes
    for kind, weights in self.weights.items():
      if kind not in KINDS or weights.ndim != 4 or weights.shape[2:] != sizes[kind]:
        raise ValueError(f'weights of {kind!r} have shape {weights.shape}; expected [layers, heads, *{sizes[kind]}]')
      if not np.isfinite(weights).all():
        raise ValueError(f'weights of {KINDS[kind]} are no numbers, as those of a model whose training diverged; choose an earlier '
                         'checkpoint with --checkpoint')
      off = float(np.abs(weights.sum(-1) - 1).max())
      if not off <= ROWS_SUM_TO:
        raise ValueError(f'a row of {KINDS[kind]} sums to 1 ± {off:.1e}; expected at most {ROWS_SUM_TO:.0e}: record '
                         'weights before dropout and in float32')
    if 'decoder' in self.weights and np.triu(self.weights['decoder'], 1).any():
      raise ValueError('decoder self-attention has weight on tokens that are not read yet; expected 0 above the '
                       'diagonal')

  @property
  def sizes(self) -> dict[str, tuple[int, int]]:
    """The numbers of queries and keys of each kind."""
    source, target = len(self.source.pieces) if self.source else 0, len(self.predicts.pieces)
    return {'encoder': (source, source), 'decoder': (target, target), 'cross': (target, source)}

  def axes(self, kind: str) -> tuple[Text, Text]:
    """Return the names of a kind's rows and columns; rows of the decoder are named by what they predict."""
    return {'encoder': (self.source, self.source), 'decoder': (self.predicts, self.reads),
            'cross': (self.predicts, self.source)}[kind]

  def by_word(self, kind: str) -> np.ndarray:
    """Return the weights between words [N, H, words, words]: summed over a word's keys, averaged over its queries."""
    return self._pooled(self.weights[kind], kind)

  def even(self, kind: str) -> np.ndarray:
    """Return by_word of a head that attends to all tokens it may see alike [words, words]: words of many pieces get more."""
    seen = np.ones(self.sizes[kind])
    seen = np.tril(seen) if kind == 'decoder' else seen
    return self._pooled(seen / seen.sum(-1, keepdims=True), kind)

  def _pooled(self, weights: np.ndarray, kind: str) -> np.ndarray:
    rows, columns = self.axes(kind)
    return texts.pool(weights, rows.word_of_piece, columns.word_of_piece)


def padded_length(longest: int, limit: int | None = None) -> int:
  """Return the length to which sentences of at most `longest` tokens are padded.

  Args:
    longest: tokens of the longest sentence.
    limit: what padding may not go beyond, such as Model.longest; None: nothing.
  """
  rounded = -(-longest // _MULTIPLE) * _MULTIPLE
  return rounded if limit is None else max(longest, min(rounded, limit))


def alike(pairs: Sequence[TokenPair]) -> list[list[int]]:
  """Divide pairs into groups of similar length, as their places, so that one long sentence does not pad all others.

  Sentences of up to _COARSE tokens, so nearly all, are one group and share a compiled program.
  """
  longer = {place: max(len(pair.source), len(pair.target)) for place, pair in enumerate(pairs)}
  return [sorted(places) for places in length_classes(longer, least=_COARSE).values()]


def by_group(pairs: Sequence[TokenPair], compute: Callable[[list[TokenPair]], Sequence[Result]]) -> list[Result]:
  """Compute a result for each pair, group by group of those that are alike; return them in the order of the pairs."""
  found = {}
  for places in alike(pairs):
    found |= zip(places, compute([pairs[place] for place in places]), strict=True)
  return [found[place] for place in range(len(pairs))]


def record(model: Model, params: Any, pairs: Sequence[TokenPair], source_vocabulary, target_vocabulary,
           with_operands: bool = False) -> list[Capture]:
  """Run the model once on a batch of sentences, padded to one length, and return a Capture of each.

  Args:
    with_operands: whether queries, keys and values are recorded too, and what they are projected from, see Capture.
  """
  if not pairs:
    return []
  batch = padded_batch(model, pairs, source_vocabulary.pad_id, target_vocabulary.pad_id)
  seen, matrices = jax.device_get(_recorder(model, target_vocabulary.bos_id, with_operands)(params, *batch))
  return [_unpadded(pair, jax.tree.map(lambda leaf, row=row: leaf[row], seen), matrices, source_vocabulary,
                    target_vocabulary) for row, pair in enumerate(pairs)]


def kinds_of(model: Model, pairs: Sequence[TokenPair], source_vocabulary, target_vocabulary) -> tuple[str, ...]:
  """Return the kinds of attention that a Capture of these pairs would have, without computing it."""
  params = jax.eval_shape(model.init, jax.random.key(0))
  batch = padded_batch(model, pairs, source_vocabulary.pad_id, target_vocabulary.pad_id)
  return tuple(jax.eval_shape(_recorder(model, target_vocabulary.bos_id, False), params, *batch)[0][0])


def to_uint16(weights: np.ndarray) -> np.ndarray:
  """Round weights from 0 to 1 to 16-bit integers, with an error of at most 2^-17."""
  return np.round(np.clip(weights, 0.0, 1.0) * 65535).astype(np.uint16)


def from_uint16(integers: np.ndarray) -> np.ndarray:
  """Invert to_uint16(): return float32 weights, with rows scaled to sum to 1 again after the rounding."""
  return integers / integers.sum(-1, keepdims=True, dtype=np.float32)


def padded_batch(model: Model, pairs: Sequence[TokenPair], source_filler: int, target_filler: int
                 ) -> tuple[tokens.Tokens, tokens.Tokens]:
  """Lay out token pairs as one batch for a model (sources, targets); sources without tokens have no columns."""
  sides = zip(*((pair.source, pair.target) for pair in pairs))
  return tuple(tokens.pad(side, len(pairs), padded_length(max(map(len, side)), model.longest), filler)
               for side, filler in zip(sides, (source_filler, target_filler)))


@functools.lru_cache(maxsize=8)
def _recorder(model: Model, bos_id: int, with_operands: bool):
  """Compile (params, source, target) -> what _unpadded takes: `seen`, whose arrays begin with sentences, and `matrices`."""

  def record_batch(params, source: tokens.Tokens, target: tokens.Tokens):
    logits, found = model.inspect(params, source, tokens.shift_right(target, bos_id))
    log_probs = jax.nn.log_softmax(logits)
    stack = lambda layers, axis=1: jax.tree.map(lambda *of_layer: jnp.stack(of_layer, axis), *layers)  # [B, N, ...]
    weights = {kind: stack(found[kind]) for kind in KINDS if found[kind]}
    recorded = [kind for kind in weights if with_operands and kind in found.get('operands', {})]
    operands = {kind: stack(found['operands'][kind]) for kind in recorded}
    sides = {kind: [(layer[:2], layer[2:]) for layer in found['projections'][kind]] for kind in recorded}
    inputs = {kind: stack([vectors for vectors, _ in layers]) for kind, layers in sides.items()}
    matrices = {kind: stack([own for _, own in layers], axis=0) for kind, layers in sides.items()}
    best, place = jax.lax.top_k(log_probs, min(TOP, log_probs.shape[-1]))
    taken = jnp.take_along_axis(log_probs, target.ids[..., None], axis=-1)[..., 0]
    return (weights, operands, inputs, taken, jnp.exp(best), place), matrices

  return jax.jit(record_batch)


def _unpadded(pair: TokenPair, seen: Any, matrices: Mapping[str, Any], source_vocabulary, target_vocabulary) -> Capture:
  """Return one row of _recorder's results as a Capture, without its padding.

  Args:
    seen: weights, operands, inputs of projections, log-probabilities, top probabilities and their ids.
    matrices: of projections, by kind.
  """
  weights, operands, inputs, log_probs, probabilities, top = seen
  source, target = len(pair.source), len(pair.target)
  extent = {'encoder': (source, source), 'decoder': (target, target), 'cross': (target, source)}

  def cut(kind: str, found: Operands) -> Operands:
    rows, columns = extent[kind]
    repeats = found.query.shape[2] // found.key.shape[2]  # heads that share keys and values
    return Operands(found.query[:, :rows].transpose(0, 2, 1, 3),
                    *(np.repeat(x[:, :columns], repeats, axis=2).transpose(0, 2, 1, 3) for x in found[1:]))

  spelt = [texts.labels(step.tolist(), target_vocabulary) for step in top[:target]]
  return Capture(
      source=texts.describe(pair.source, source_vocabulary) if source else None,
      reads=texts.describe([target_vocabulary.bos_id, *pair.target[:-1]], target_vocabulary),
      predicts=texts.describe(pair.target, target_vocabulary),
      weights={kind: found[:, :, :extent[kind][0], :extent[kind][1]] for kind, found in weights.items()},
      operands={kind: cut(kind, found) for kind, found in operands.items()},
      log_probs=log_probs[:target],
      top=tuple(tuple(zip(pieces, step.tolist())) for pieces, step in zip(spelt, probabilities)),
      written=tuple(texts.labels(pair.target, target_vocabulary)),
      padded=(weights['cross'].shape[-1] if 'cross' in weights else 0, len(log_probs)),
      origin=pair.origin,
      projections={kind: Projections(x[:, :extent[kind][0]], y[:, :extent[kind][1]], *matrices[kind])
                   for kind, (x, y) in inputs.items()})
