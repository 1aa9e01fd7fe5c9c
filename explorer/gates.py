"""A gate for each head, 1 open and 0 closed, that multiplies the head's output (Michel et al., 2019, Eq. 2).

MultiHead = Σ_h gate_h · head_h W_h^O: a head's gate scales its rows of the output projection. So a model with gates is
the same model with other parameters, and training, search and checkpoints need no code for gates.

    gates    {'encoder': [N, H], 'decoder': [N, H], 'cross': [N, H]} float32, for the kinds that the model has
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from transformer.model import Params

Gates = Mapping[str, Any]
# The kinds of attention: their keys in records, and their names for people, as in page/data.js.
KINDS = {'encoder': 'encoder self-attention', 'decoder': 'decoder self-attention', 'cross': 'cross-attention'}
# For each kind, the names of its parameters: of the stack of layers, and of the attention in a layer.
_PLACES = {'encoder': ('encoder_layers', 'self_attention'), 'decoder': ('decoder_layers', 'self_attention'),
           'cross': ('decoder_layers', 'cross_attention')}
_OF_LANGUAGE_MODEL = {'decoder': ('layers', 'self_attention')}


class Head(NamedTuple):
  """One head, counted from 0."""

  kind: str
  layer: int
  head: int

  @property
  def name(self) -> str:
    """The head's name for people, counted from 1: "cross-attention, layer 1, head 2"."""
    return f'{KINDS[self.kind]}, layer {self.layer + 1}, head {self.head + 1}'


def _stacks(params: Params) -> Iterator[tuple[str, str, int | None, str]]:
  """Yield (kind, name of a layer's parameters, its number or None for a scanned stack, name of the attention)."""
  places = _OF_LANGUAGE_MODEL if any(name.split('_')[0] == 'layers' for name in params) else _PLACES
  for kind, (stack, attention) in places.items():
    if stack in params:
      yield kind, stack, None, attention
    for number in range(len(params)):
      if f'{stack}_{number}' in params:
        yield kind, f'{stack}_{number}', number, attention


def open_gates(params: Params) -> Gates:
  """Make gates of 1 for every head of these parameters; {} for a model without heads, such as a recurrent one."""
  found: dict[str, dict[int, int]] = {}
  for kind, layer, number, attention in _stacks(params):
    if attention in params[layer]:
      shape = params[layer][attention]['w_out'].shape  # [H, U, D], of a scanned stack [N, H, U, D]
      layers = range(shape[0]) if number is None else [number]
      found.setdefault(kind, {}).update({n: shape[-3] for n in layers})
  return {kind: np.ones((len(layers), layers[0]), np.float32) for kind, layers in found.items()}


def heads(gates: Gates) -> list[Head]:
  """List every head, layer by layer."""
  return [Head(kind, *map(int, place)) for kind in KINDS if kind in gates for place in np.ndindex(gates[kind].shape)]


def closing(gates: Gates, *closed: Head) -> Gates:
  """Return the gates with these heads closed as well."""
  gates = {kind: np.array(gate) for kind, gate in gates.items()}
  for kind, layer, head in closed:
    gates[kind][layer, head] = 0.0
  return gates


def apply(params: Params, gates: Gates) -> Params:
  """Return parameters that multiply every head's output by its gate. Differentiable in the gates."""
  params = dict(params)
  for kind, layer, number, attention in _stacks(params):
    gate = gates[kind] if number is None else gates[kind][number]
    heads_of = params[layer][attention]
    params[layer] = params[layer] | {attention: heads_of | {'w_out': heads_of['w_out'] * gate[..., None, None]}}
  return params


def check(params: Params, gates: Gates) -> None:
  """Raise ValueError when the gates' kinds or shapes are not those of a model with these parameters."""
  expected = jax.tree.map(np.shape, open_gates(params))
  found = {kind: np.shape(gate) for kind, gate in gates.items()}
  if found != expected:
    raise ValueError(f'gates of shapes {found} do not fit a model of {expected}; start from open_gates(params)')
