"""Write the weights of a model into a page: rounded to 16 or 8 bits, as page/live/weights.js reads them.

    float16   every number
    int8      of matrices whole numbers from -127 to 127, and for each row a float32 that they are multiplied by; of the
              rest float16

Matrices are written as rows of outputs by columns of inputs, whatever their axes in the model: so the page's products
read them from left to right.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from explorer.page import in_base64

FORMATS = ('float16', 'int8')
# Of weights that are products' matrices, the number of leading axes that the product sums over.
_INPUT_AXES = {'w_query': 1, 'w_key': 1, 'w_value': 1, 'w_out': 2, 'w1': 1, 'w2': 1, 'w_gate': 1}


class Packed(NamedTuple):
  """Weights as a page has them."""

  record: dict[str, Any]  # JSON: the format, the tensors' names and shapes in their order, and their numbers in base64
  params: Any  # the same numbers as the model's parameters: what a computation with the page's weights uses


def pack(params: Mapping[str, Any], format: str) -> Packed:
  """Round a model's parameters and write them down.

  Args:
    params: nested dict of arrays, with separate layers.
    format: one of FORMATS.
  """
  tensors, parts, rounded = [], [], {}
  for name, leaf in _leaves(params):
    rows = _as_rows(name, np.asarray(leaf, np.float32))
    data, kept = _ROUNDERS[format if rows.ndim == 2 else 'float16'](rows)
    tensors.append([name, list(rows.shape)])
    parts.append(data)
    rounded[name] = _from_rows(name, kept, np.shape(leaf))
  tree = jax.tree_util.tree_map_with_path(lambda path, _: rounded[_name(path)], params)
  return Packed({'format': format, 'tensors': tensors, 'data': in_base64(b''.join(parts))}, tree)


def _leaves(params: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
  """Yield each parameter with its name, such as encoder_layers_0.self_attention.w_query."""
  for path, leaf in jax.tree_util.tree_leaves_with_path(params):
    yield _name(path), leaf


def _name(path: tuple[Any, ...]) -> str:
  return '.'.join(part.key for part in path)


def _inputs(name: str, shape: tuple[int, ...]) -> int | None:
  """Return the number of inputs of a product's matrix; None for other weights."""
  axes = _INPUT_AXES.get(name.rpartition('.')[2])
  return None if axes is None else math.prod(shape[:axes])


def _as_rows(name: str, leaf: np.ndarray) -> np.ndarray:
  inputs = _inputs(name, leaf.shape)
  return leaf if inputs is None else np.ascontiguousarray(leaf.reshape(inputs, -1).T)


def _from_rows(name: str, rows: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
  return rows if _inputs(name, shape) is None else np.ascontiguousarray(rows.T).reshape(shape)


def _to_float16(rows: np.ndarray) -> tuple[bytes, np.ndarray]:
  halves = rows.astype('<f2')
  return halves.tobytes(), halves.astype(np.float32)


def _to_int8(rows: np.ndarray) -> tuple[bytes, np.ndarray]:
  scales = np.maximum(np.abs(rows).max(axis=1, keepdims=True) / 127, 1e-30).astype('<f4')
  integers = np.round(rows / scales).astype(np.int8)
  return scales.tobytes() + integers.tobytes(), integers.astype(np.float32) * scales.astype(np.float32)


_ROUNDERS = {'float16': _to_float16, 'int8': _to_int8}
