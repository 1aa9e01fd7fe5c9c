"""Position encodings, §3.5: a fixed pattern of sines and cosines added to the embeddings."""

import numpy as np


def wavenumbers(d_model: int, frequencies: str) -> np.ndarray:
  """Radians per position of each sine-cosine pair i = 0 … d_model/2 - 1.

    paper          1 / 10000^(2i / d_model)          §3.5
    tensor2tensor  1 / 10000^(i / (d_model/2 - 1))   reaches 1/10000 exactly; what the authors' code did

  MarianMT has the paper's frequencies laid in halves.

  Returns:
    [d_model / 2] float64.
  """
  pair = np.arange(d_model // 2, dtype=np.float64)
  if frequencies == 'tensor2tensor':
    return 10000.0 ** -(pair / max(d_model // 2 - 1, 1))
  return 10000.0 ** -(2 * pair / d_model)


def sinusoids(length: int, d_model: int, layout: str = 'interleaved', frequencies: str = 'paper') -> np.ndarray:
  """PE(pos, 2i) = sin(pos · w_i), PE(pos, 2i+1) = cos(pos · w_i).

  Args:
    length: positions 0 … length - 1.
    d_model: width, even.
    layout: 'interleaved' as in the formula, or 'halves': all sines, then all cosines.
    frequencies: see wavenumbers.

  Returns:
    [length, d_model] float32. Computed on the host in float64, so that far positions keep their phase.
  """
  angles = np.arange(length, dtype=np.float64)[:, None] * wavenumbers(d_model, frequencies)
  pairs = np.stack([np.sin(angles), np.cos(angles)], axis=-1)  # [length, d_model / 2, 2]
  if layout == 'halves':
    pairs = pairs.swapaxes(1, 2)
  return pairs.reshape(length, d_model).astype(np.float32)
