"""Recurrent cells, and one layer of them in one direction.

A state is a tuple of arrays whose first is the cell's output. States and gates are float32; products follow the
configured dtype. The recurrent matrices start orthogonal (Saxe et al., 2014), gate by gate.
"""

from collections.abc import Callable
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Float32, Int

from transformer import dtypes, initializers, products
from transformer.config import RecurrentConfig
from transformer.registries import CELLS
from transformer.tokens import AnyArray

State = tuple[Float32[Array, '*B D'], ...]
Entered = Float32[Array, '*B gates D']  # each gate's input from the layer below


Product = Callable[[Float32[Array, '*B D'], int, int], Entered]  # (state, first gate, end) -> products


class Cell(NamedTuple):
  """A kind of cell: its gates, the parts of its state, and its time step."""

  gates: int
  parts: int
  step: Callable[[Entered, State, Product], State]
  first_bias: tuple[float, ...]  # of each gate


def gru_step(entered: Entered, state: State, product: Product) -> State:
  """The gated recurrent unit (Cho et al., 2014, §2.3).

      r = σ(W_r x + U_r h)   z = σ(W_z x + U_z h)   n = tanh(W x + U (r ⊙ h))   h' = z ⊙ h + (1 - z) ⊙ n
  """
  h, = state
  reset, update = jnp.moveaxis(jax.nn.sigmoid(entered[..., :2, :] + product(h, 0, 2)), -2, 0)
  new = jnp.tanh(entered[..., 2, :] + product(reset * h, 2, 3)[..., 0, :])
  return (update * h + (1.0 - update) * new,)


def lstm_step(entered: Entered, state: State, product: Product) -> State:
  """Long short-term memory (Hochreiter & Schmidhuber, 1997) with the forget gate of Gers et al., 2000.

      i, f, o = σ(W x + U h + b)   g = tanh(W x + U h + b)   c' = f ⊙ c + i ⊙ g   h' = o ⊙ tanh(c')
  """
  h, c = state
  gates = entered + product(h, 0, 4)
  enter, forget, leave = jnp.moveaxis(jax.nn.sigmoid(gates[..., :3, :]), -2, 0)
  c = forget * c + enter * jnp.tanh(gates[..., 3, :])
  return leave * jnp.tanh(c), c


CELLS.add('gru', Cell(gates=3, parts=1, step=gru_step, first_bias=(0.0, 0.0, 0.0)), 'Cho et al., 2014')
# The forget gate starts open.
CELLS.add('lstm', Cell(gates=4, parts=2, step=lstm_step, first_bias=(0.0, 1.0, 0.0, 0.0)),
          'Hochreiter & Schmidhuber, 1997')


def segment_starts(segments: Int[AnyArray, 'B S'], backward: bool) -> Bool[Array, 'B S']:
  """Mark where reading enters a new sentence: at its first token, or at its last when reading backward.

      segments   1 1 2 2 0
      forward    1 0 1 0 1
      backward   0 1 0 1 1
  """
  places = jnp.arange(segments.shape[1])[None, :]
  neighbour, edge = (jnp.roll(segments, -1, 1), segments.shape[1] - 1) if backward else (jnp.roll(segments, 1, 1), 0)
  return (segments != neighbour) | (places == edge)


class Recurrence(nn.Module):
  """One layer of cells, read in one direction."""

  config: RecurrentConfig
  width: int  # of the input from the layer below
  fed_width: int = 0  # of a second input, known only at its step; 0: there is none

  def setup(self):
    cfg, self.cell = self.config, CELLS[self.config.cell]
    gates = self.cell.gates
    # Gate by gate, not under vmap: on a CPU jaxlib factors a batch of matrices in a pool of threads, and two such
    # batches wait for each other for ever where the pool has only two.
    stacked = lambda init: lambda key, shape, dtype: jnp.stack(
        [init(k, (shape[0], shape[2]), dtype) for k in jax.random.split(key, gates)], axis=1)
    inward = stacked(initializers.matrix(cfg.initializer))
    matrix = lambda name, init, rows: self.param(name, initializers.with_axes(
        init, ('embed', None, 'cell')), (rows, gates, cfg.d_model), jnp.float32)
    self.w_input = matrix('w_input', inward, self.width)
    self.w_state = matrix('w_state', stacked(nn.initializers.orthogonal()), cfg.d_model)
    if self.fed_width:
      self.w_fed = matrix('w_fed', inward, self.fed_width)
    first = lambda key, shape, dtype: jnp.broadcast_to(jnp.asarray(self.cell.first_bias, dtype)[:, None], shape)
    self.bias = self.param('bias', initializers.with_axes(first, (None, 'cell')), (gates, cfg.d_model),
                           jnp.float32)

  def _product(self, x: Float[Array, '*B I'], matrix: Float[Array, 'I gates D']) -> Entered:
    dtype = dtypes.of(self.config)
    return products.einsum('...i,igd->...gd', x.astype(dtype), matrix.astype(dtype))

  def enter(self, x: Float[Array, 'B S I']) -> Float32[Array, 'B S gates D']:
    """W x + b, for any number of steps at once."""
    return self._product(x, self.w_input) + self.bias[None, None]

  def enter_fed(self, x: Float[Array, 'B W I']) -> Float32[Array, 'B W gates D']:
    """Project the second input, which is known only at its step."""
    return self._product(x, self.w_fed)

  def step(self, entered: Entered, state: State) -> State:
    """Advance the state by one time step."""
    return self.cell.step(entered, state, lambda h, first, last: self._product(h, self.w_state[:, first:last]))

  def nothing(self, *shape: int) -> State:
    """Return the state before anything is read, each part [*shape, D]."""
    return (jnp.zeros((*shape, self.config.d_model), jnp.float32),) * self.cell.parts

  def read(self, x: Float[Array, 'B S I'], segments: Int[AnyArray, 'B S'], backward: bool) -> State:
    """Return the states at every place of x. Every segment starts from a blank state.

    So neither padding nor a neighbour in a packed row reaches a sentence, in either direction.
    """
    def advance(layer, state, at):
      entered, start = at
      state = layer.step(entered, tuple(jnp.where(start[:, None], 0.0, part) for part in state))
      return state, state

    scan = nn.scan(advance, variable_broadcast='params', split_rngs={'params': False, 'dropout': False},
                   in_axes=1, out_axes=1, reverse=backward)
    return scan(self, self.nothing(x.shape[0]), (self.enter(x), segment_starts(segments, backward)))[1]
