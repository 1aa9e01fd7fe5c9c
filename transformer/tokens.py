"""What a model reads: rows of token ids with their positions and segments. Plain records; nothing here computes scores.

    ids        [B, S] int32   the tokens; ids at segment 0 are never read
    positions  [B, S] int32   0, 1, 2 ... counted from 0 in each segment
    segments   [B, S] int32   0 is padding; 1, 2 ... number the sentences that share a row

Padding is known from its segment alone, never from an id: a vocabulary may use any id, or none, as filler.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Key

AnyArray = Array | np.ndarray  # on a device, or still on the host
CUT = np.iinfo(np.int32).max  # an id that no vocabulary has: its embedding is zero, see embeddings.look_up


class Tokens(NamedTuple):
  """Rows of sentences; see the module's docstring for the three fields."""

  ids: Int[AnyArray, '*B S']
  positions: Int[AnyArray, '*B S']
  segments: Int[AnyArray, '*B S']


class Batch(NamedTuple):
  """Sentence pairs: row b of the target translates row b of the source, segment by segment. Sentences end in EOS."""

  source: Tokens
  target: Tokens


Sentence = Sequence[int] | Int[np.ndarray, ' _']  # token ids


def pad(sentences: Sequence[Sentence], rows: int, length: int, filler: int) -> Tokens:
  """Lay one sentence in each row, on the host.

  Args:
    sentences: at most `rows` lists of ids, none longer than `length`. An empty list leaves its row empty.
    rows: B; rows without a sentence are padding throughout.
    length: S.
    filler: id written under padding.

  Raises:
    ValueError: when a sentence or the number of them exceeds its bound.
  """
  if len(sentences) > rows:
    raise ValueError(f'{len(sentences)} sentences do not fit into {rows} rows')
  ids = np.full((rows, length), filler, np.int32)
  segments = np.zeros((rows, length), np.int32)
  for row, sentence in enumerate(sentences):
    if len(sentence) > length:
      raise ValueError(f'a sentence of {len(sentence)} tokens does not fit into {length}')
    ids[row, :len(sentence)] = sentence
    segments[row, :len(sentence)] = 1
  positions = np.broadcast_to(np.arange(length, dtype=np.int32), (rows, length))
  return Tokens(ids, positions, segments)


def pack(rows: Sequence[Sequence[Sentence]], count: int, length: int, filler: int) -> Tokens:
  """Lay several sentences in each row, one behind the other, as segments 1, 2 …; on the host.

  Args:
    rows: at most `count` lists of sentences, each together no longer than `length`.
    count: B; rows without a sentence are padding throughout.
    length: S.
    filler: id written under padding.

  Raises:
    ValueError: when the sentences of a row, or the number of rows, exceed their bound.
  """
  if len(rows) > count:
    raise ValueError(f'{len(rows)} rows do not fit into {count}')
  ids, positions, segments = (np.full((count, length), value, np.int32) for value in (filler, 0, 0))
  for row, sentences in enumerate(rows):
    place = 0
    for number, sentence in enumerate(sentences, 1):
      end = place + len(sentence)
      if end > length:
        raise ValueError(f'sentences of {sum(map(len, sentences))} tokens do not fit into a row of {length}')
      ids[row, place:end], segments[row, place:end] = sentence, number
      positions[row, place:end] = np.arange(len(sentence))
      place = end
  return Tokens(ids, positions, segments)


def shift_right(target: Tokens, bos_id: int) -> Tokens:
  """The decoder's input (§3.1, "offset by one position"): BOS in front of every segment, its last token (EOS) dropped.

      segments  1 1 1 2 2 0        ids  a b . c . _   ->   ^ a b ^ c _        (^ BOS, . EOS, _ padding)

  Each segment starts from BOS, not from its neighbour's last token, so that a packed row trains what its
  sentences would train alone.
  """
  previous = jnp.roll(target.ids, 1, axis=1)
  return target._replace(ids=jnp.where(target.positions == 0, bos_id, previous))


def real_ids(sentences: Tokens) -> Int[AnyArray, '*B S']:
  """Return the ids with CUT under padding, so that no row of an embedding is read, or given a gradient, for it."""
  return jnp.where(sentences.segments > 0, sentences.ids, CUT)


def cut(sentences: Tokens, rate: float, spared: Bool[AnyArray, 'B S'], key: Key[Array, '']) -> Tokens:
  """Token cutoff (Shen et al., 2020): each token's embedding is zeroed with probability `rate`, its position stays.

  Args:
    sentences: rows of tokens.
    rate: between 0 and 1.
    spared: True where a token is kept in any case.
    key: decides which tokens are cut.
  """
  drawn = jax.random.uniform(key, sentences.ids.shape) < rate
  return sentences._replace(ids=jnp.where(drawn & ~spared, CUT, sentences.ids))


def ends(sentences: Tokens) -> Bool[AnyArray, 'B S']:
  """Mark the last token of each segment: its EOS, since sentences end in it."""
  return sentences.segments != jnp.pad(sentences.segments[:, 1:], ((0, 0), (0, 1)))
