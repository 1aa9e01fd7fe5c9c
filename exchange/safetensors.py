"""Files of tensors in Hugging Face's format safetensors, with numpy alone.

Such a file is the length of its header (8 bytes, little-endian), the header, JSON that gives each tensor's type, shape
and place, and the tensors' bytes: https://huggingface.co/docs/safetensors. Nothing in it can be run.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from checks.errors import DataError, naming

_TYPES = {'F64': '<f8', 'F32': '<f4', 'F16': '<f2', 'I64': '<i8', 'I32': '<i4', 'I16': '<i2', 'I8': '|i1', 'U8': '|u1'}
_LONGEST_HEADER = 100_000_000  # bytes; what the format allows


def read(path: str) -> dict[str, np.ndarray]:
  """Return the tensors of a file by name; those of type bfloat16 as float32.

  Raises:
    DataError: when the file is missing, cut short, or holds something else.
  """
  try:
    with naming(path), open(path, 'rb') as file:
      length = int.from_bytes(file.read(8), 'little')
      if length > _LONGEST_HEADER:
        raise ValueError('its header is too long')
      header, data = json.loads(file.read(length)), file.read()
    return {name: _tensor(name, entry, data) for name, entry in header.items() if name != '__metadata__'}
  except FileNotFoundError:
    raise DataError(f'no file {path}') from None
  except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
    raise DataError(f'{path} is no whole file of safetensors ({error}); fetch it again') from None


def _tensor(name: str, entry: Mapping[str, Any], data: bytes) -> np.ndarray:
  shape, (start, end) = tuple(entry['shape']), entry['data_offsets']
  is_brain = entry['dtype'] == 'BF16'
  dtype = np.dtype('<u2' if is_brain else _TYPES[entry['dtype']])
  if not all(isinstance(size, int) and size >= 0 for size in shape):
    raise ValueError(f'{name} has the shape {shape}')
  if not 0 <= start <= end <= len(data) or end - start != math.prod(shape) * dtype.itemsize:
    raise ValueError(f'the bytes of {name} are not all there')
  found = np.frombuffer(data, dtype, math.prod(shape), start).reshape(shape)
  return (found.astype('<u4') << 16).view('<f4') if is_brain else found


def packed(tensors: Mapping[str, np.ndarray]) -> bytes:
  """Return the file of tensors of float32."""
  # As PyTorch's own files have it; transformers asks for it.
  header: dict[str, Any] = {'__metadata__': {'format': 'pt'}}
  place = 0
  for name, tensor in tensors.items():
    header[name] = {'dtype': 'F32', 'shape': list(tensor.shape), 'data_offsets': [place, place + 4 * tensor.size]}
    place += 4 * tensor.size
  text = json.dumps(header, separators=(',', ':')).encode()
  text += b' ' * (-len(text) % 8)  # the format aligns tensors to 8 bytes
  return b''.join([len(text).to_bytes(8, 'little'), text,
                   *(np.ascontiguousarray(tensor, '<f4').tobytes() for tensor in tensors.values())])
