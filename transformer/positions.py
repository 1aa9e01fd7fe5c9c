"""Positions of tokens: §3.5's sines and cosines, and later alternatives.

A new kind is a class here, registered under its name with the options that it reads.

A kind is a module, one for the encoder and one for the decoder, with two methods:

    embed(places, length)      what is added to the embeddings at places below `length`: an array, or 0
    relate(queries, entries)   the positional terms of self-attention for the places of one row: a Relation whose
                               leaves have a first axis of layers

and two functions of the configuration: `mistakes`, what does not fit the kind, and `longest`, the longest text.

Within a row two tokens of one sentence are as far apart as their places, packed or not, so relate() takes one row's
places for all rows; a cached step, where each row is at a place of its own, turns them into terms of rows (of_beams). Cross-attention has no such terms: source and target have no common places.
"""

from collections.abc import Iterator
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, Float64, Int, Shaped

from transformer import initializers
from transformer.config import ModelConfig
from transformer.registries import ATTENTION_SCORES, POSITION_FREQUENCIES, POSITION_LAYOUTS, POSITIONS
from transformer.tokens import AnyArray


class Relation(NamedTuple):
  """The positional terms of self-attention, None where a kind has no such term. at() removes the first axis, layers."""

  angles: Float[Array, '*N Q K/2'] | None = None  # radians by which pairs of columns are rotated in queries and keys
  bias: Float[Array, '*N H Q M'] | None = None  # added to the scores
  distance: Int[Array, '*N Q M'] | None = None  # rows of the two tables
  key_table: Float[Array, '*N C K'] | None = None  # added to the keys
  value_table: Float[Array, '*N C U'] | None = None  # added to the values

  def at(self, layer: int) -> 'Relation':
    """Return the terms of one layer."""
    return jax.tree.map(lambda leaf: leaf[layer], self)

  def of_beams(self, beams: int) -> 'Relation':
    """Turn the terms of B query places and T entries into those of B rows with one place each: W queries, T·W entries.

    So a cached step takes them, each sentence at its own place (search.cache): angles [N, B, 1, K/2], bias
    [N, B, H, W, T*W] and distance [N, B, W, T*W].
    """
    spread = lambda leaf: jnp.repeat(jnp.repeat(leaf[..., None, :], beams, axis=-1), beams, axis=-2)
    return self._replace(angles=None if self.angles is None else self.angles[:, :, None],
                         bias=None if self.bias is None else spread(self.bias.swapaxes(1, 2)),
                         distance=None if self.distance is None else spread(self.distance))

  def edges(self, table: Float[Array, 'C K'] | None, dtype: jnp.dtype) -> Float[Array, '*rows Q M K'] | None:
    """Return the vectors of one of the two tables, one for each query and entry; with beams, those of each row."""
    return None if table is None else table[self.distance].astype(dtype)


NOTHING = Relation()


# Which columns form pair i, as the axis of its two columns in a width that is laid out as pairs.
POSITION_LAYOUTS.add('interleaved', -1, 'columns 2i and 2i + 1, the paper')
POSITION_LAYOUTS.add('halves', -2, 'columns i and i + d/2: sines first')  # MarianMT's, with the paper's frequencies


@POSITION_FREQUENCIES.register('paper', '10000^(-2i/d)')
def paper_wavenumbers(d_model: int) -> Float64[np.ndarray, ' pairs']:
  """1 / 10000^(2i / d_model), §3.5."""
  return 10000.0 ** -(2 * np.arange(d_model // 2, dtype=np.float64) / d_model)


@POSITION_FREQUENCIES.register('tensor2tensor', '10000^(-i/(d/2-1))')
def tensor2tensor_wavenumbers(d_model: int) -> Float64[np.ndarray, ' pairs']:
  """1 / 10000^(i / (d_model/2 - 1)), which reaches 1/10000 exactly; what the authors' code did."""
  return 10000.0 ** -(np.arange(d_model // 2, dtype=np.float64) / max(d_model // 2 - 1, 1))


def wavenumbers(d_model: int, frequencies: str) -> Float64[np.ndarray, ' {d_model//2}']:
  """Return the radians per position of each sine-cosine pair i = 0 … d_model/2 - 1."""
  return POSITION_FREQUENCIES[frequencies](d_model)


def sinusoids(length: int, d_model: int, layout: str = 'interleaved', frequencies: str = 'paper'
              ) -> Float32[np.ndarray, '{length} {d_model}']:
  """PE(pos, 2i) = sin(pos · w_i), PE(pos, 2i+1) = cos(pos · w_i).

  Computed on the host in float64, so that far positions keep their phase.

  Args:
    length: positions 0 … length - 1.
    d_model: width, even.
    layout: an entry of POSITION_LAYOUTS: 'interleaved' as in the formula, or 'halves'.
    frequencies: an entry of POSITION_FREQUENCIES.
  """
  angles = np.arange(length, dtype=np.float64)[:, None] * wavenumbers(d_model, frequencies)
  pairs = np.stack([np.sin(angles), np.cos(angles)], axis=POSITION_LAYOUTS[layout])
  return pairs.reshape(length, d_model).astype(np.float32)


def turn(x: Float[AnyArray, 'B T H K'], angles: Float[AnyArray, '*#rows #T K/2'], layout: str) -> Float[Array, 'B T H K']:
  """Rotate pairs of columns by angles: (a, b) -> (a cos - b sin, a sin + b cos) (Su et al., 2021, Eq. 34).

  Computed in float32 whatever the dtype of x, and rounded to it once.

  Args:
    x: queries or keys.
    angles: radians, the same for all rows or of each.
    layout: which columns form a pair, an entry of POSITION_LAYOUTS.
  """
  axis = POSITION_LAYOUTS[layout]
  pairs = x.reshape(*x.shape[:-1], *((-1, 2) if axis == -1 else (2, -1))).astype(jnp.float32)
  a, b = jnp.moveaxis(pairs, axis, 0)
  angles = angles.reshape(-1, *angles.shape[-2:])[:, :, None]
  cos, sin = jnp.cos(angles), jnp.sin(angles)
  return jnp.stack([a * cos - b * sin, a * sin + b * cos], axis=axis).reshape(x.shape).astype(x.dtype)


def buckets(distances: Int[np.ndarray, '*n'], num_buckets: int, max_distance: int, causal: bool
            ) -> Int[np.ndarray, '*n']:
  """Return the bucket of each distance, entry's place minus query's (Raffel et al., 2020, §2.1 and its code).

  Without `causal`, entries before the query take the first half of the buckets and those after it the second; with
  it, all buckets are for entries before. On each side the first half of the buckets hold one distance each, the rest
  grow logarithmically up to `max_distance`; longer distances share the last.
  """
  side = num_buckets if causal else num_buckets // 2
  ahead = np.zeros_like(distances) if causal else side * (distances > 0)
  far = np.maximum(-distances, 0) if causal else np.abs(distances)
  exact = side // 2
  growth = np.log(np.maximum(far, exact) / exact) / np.log(max_distance / exact)
  spread = exact + (growth * (side - exact) + 1e-9).astype(np.int64)  # 1e-9: exact powers keep their bucket
  return (ahead + np.where(far < exact, far, np.minimum(spread, side - 1))).astype(np.int32)


Places = Int[AnyArray, '#B T']  # with one row where all rows are the same
Embedded = Float32[Array, '#B T D']  # likewise


class Absent(nn.Module):
  """No positions: without a mask, the model sees a set of tokens. Base class of the other kinds."""

  config: ModelConfig
  layers: int  # N of the stack
  causal: bool  # whether queries never see later entries
  adds_bias = False  # whether Relation.bias is set
  adds_vectors = False  # whether the tables of Relation are set

  @staticmethod
  def mistakes(config: ModelConfig) -> Iterator[str]:
    """Yield a message for each option of a configuration that does not fit this kind."""
    yield from ()

  @staticmethod
  def longest(config: ModelConfig) -> int | None:
    """Return the longest text, in tokens, that a model can read or write; None: any."""
    return None

  def embed(self, places: Places, length: int) -> Embedded | float:
    return 0.0

  def relate(self, queries: Int[Array, ' Q'], entries: Int[Array, ' M']) -> Relation:
    return NOTHING

  def _same(self, leaf: Shaped[Array, '*leaf']) -> Shaped[Array, ' N *leaf']:
    """Repeat a leaf for every layer."""
    return jnp.broadcast_to(leaf[None], (self.layers, *leaf.shape))


LONGEST_OPEN = 1024  # tokens of the longest text of a program that is exported with its lengths left open


@POSITIONS.register('sinusoidal', '§3.5', uses=['position_layout', 'position_frequencies'])
class Sinusoidal(Absent):
  """Sines and cosines added to the embeddings (§3.5)."""

  @staticmethod
  def mistakes(config: ModelConfig) -> Iterator[str]:
    if config.d_model % 2:
      yield f'd_model is {config.d_model}; sinusoidal positions pair sines with cosines and need an even one'

  def embed(self, places: Places, length: int) -> Embedded:
    cfg = self.config
    rows = length if isinstance(length, int) else LONGEST_OPEN  # jax.export's symbol
    return jnp.asarray(sinusoids(rows, cfg.d_model, cfg.position_layout, cfg.position_frequencies))[places]


@POSITIONS.register('learned', uses=['max_positions'])
class Learned(Absent):
  """A learned vector for each place, added to the embeddings (Gehring et al., 2017; Table 3, row E)."""

  @staticmethod
  def longest(config: ModelConfig) -> int:
    return config.max_positions

  def setup(self):
    cfg = self.config
    init = initializers.with_axes(nn.initializers.normal(stddev=cfg.d_model**-0.5), (None, 'embed_table'))
    self.table = self.param('table', init, (cfg.max_positions, cfg.d_model), jnp.float32)

  def embed(self, places: Places, length: int) -> Embedded:
    if length > self.config.max_positions:
      raise ValueError(f'the text has {length} tokens, but learned positions end at max_positions '
                       f'{self.config.max_positions}; raise max_positions or shorten the text')
    return self.table[places]


@POSITIONS.register('relative', 'Shaw et al.', uses=['clip_distance'])
class ClippedRelative(Absent):
  """Learned vectors for clipped distances, added to keys and values (Shaw et al., 2018, Eqs. 3 and 4).

  Each layer has its own, which its heads share (§3.3).
  """

  adds_vectors = True

  def setup(self):
    cfg = self.config
    rows = 2 * cfg.clip_distance + 1
    param = lambda name, width: self.param(name, initializers.with_axes(
        nn.initializers.normal(stddev=width**-0.5), (None, None, 'kv')), (self.layers, rows, width), jnp.float32)
    self.key_table, self.value_table = param('key_table', cfg.key_size), param('value_table', cfg.value_size)

  def relate(self, queries: Int[Array, ' Q'], entries: Int[Array, ' M']) -> Relation:
    clip = self.config.clip_distance
    distance = jnp.clip(entries[None, :] - queries[:, None], -clip, clip) + clip
    return Relation(distance=self._same(distance), key_table=self.key_table, value_table=self.value_table)


@POSITIONS.register('t5', 'bias', uses=['num_buckets', 'max_distance'])
class T5Bias(Absent):
  """A learned number for each head and group of distances, added to the scores (Raffel et al., 2020, §2.1).

  All layers share it. T5 itself uses attention_score dot.
  """

  adds_bias = True

  @staticmethod
  def mistakes(config: ModelConfig) -> Iterator[str]:
    if config.num_buckets % 4 or config.max_distance <= config.num_buckets // 2:
      yield (f'num_buckets is {config.num_buckets} and max_distance {config.max_distance}; expected a multiple '
             'of 4, and a distance of more than half of it (Raffel et al., 2020, have 32 and 128)')

  def setup(self):
    cfg = self.config
    init = initializers.with_axes(nn.initializers.normal(stddev=0.02), (None, 'heads'))
    self.bias_table = self.param('bias_table', init, (cfg.num_buckets, cfg.num_heads), jnp.float32)

  def relate(self, queries: Int[Array, ' Q'], entries: Int[Array, ' M']) -> Relation:
    reach = entries.shape[0]  # a query stands among its entries: no distance is longer
    known = buckets(np.arange(-reach, reach + 1), self.config.num_buckets, self.config.max_distance, self.causal)
    bucket = jnp.asarray(known)[entries[None, :] - queries[:, None] + reach]
    return Relation(bias=self._same(self.bias_table[bucket].transpose(2, 0, 1)))


@POSITIONS.register('rotary', uses=['position_layout', 'position_frequencies'])
class Rotary(Absent):
  """Queries and keys rotated by angles that grow with their place, so products see distances (Su et al., 2021)."""

  @staticmethod
  def mistakes(config: ModelConfig) -> Iterator[str]:
    if config.key_size % 2:
      yield f'd_k is {config.key_size}; rotary positions turn pairs of columns and need an even one'
    score = ATTENTION_SCORES.get(config.attention_score)
    if score and not score.of_products:
      yield (f'positions rotary with attention_score {config.attention_score}: a rotation leaves distances in products '
             'of query and key only, not in their sum; choose another of the two')

  def relate(self, queries: Int[Array, ' Q'], entries: Int[Array, ' M']) -> Relation:
    waves = jnp.asarray(wavenumbers(self.config.key_size, self.config.position_frequencies), jnp.float32)
    return Relation(angles=self._same(queries[:, None].astype(jnp.float32) * waves[None]))


POSITIONS.add('none', Absent)


def make(config: ModelConfig, layers: int, causal: bool) -> Absent:
  """Make the kind that `config.positions` names, for a stack of `layers` layers."""
  return POSITIONS[config.positions](config, layers, causal)
