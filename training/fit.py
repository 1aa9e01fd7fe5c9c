"""Whether a saved state fits the wanted model: names, shapes and dtypes are compared before any array is read."""

import re
from typing import Any

import jax

# The options that decide the shape of a leaf of a train state, each with a pattern of the leaf's dotted name. Messages
# name those of the first pattern that matches.
_SOURCES = (
    (r'^average', 'train.ema_decay'),
    (r'^opt_state', 'optimizer.kind, momentum or clip_norm'),
    (r'positions', 'model.positions, max_positions, clip_distance or num_buckets'),
    (r'output_bias', 'model.output_bias or vocabulary.size'),
    (r'embedding|output_projection',
     'vocabulary.size, vocabulary.joint, model.d_model, share_embeddings or tie_output'),
    (r'attention\.\w+$', 'model.num_layers, num_heads, d_k, d_v, num_kv_heads, attention_score or attention_bias'),
    (r'feed_forward\.\w+$', 'model.num_layers, d_ff, activation or feed_forward_bias'),
    (r'norm', 'model.norm, normalization, norm_bias or num_layers'),
    (r'', 'model.architecture or its sizes'),
)


def difference(saved: Any, wanted: Any, prefix: str = '') -> str | None:
  """Return in words the leaf in which a saved state differs from the wanted one most tellingly; None when they fit.

  Args:
    saved, wanted: trees whose leaves have a shape and a dtype.
    prefix: where in a train state both stand, for the leaf's name.

  Returns:
    The leaf's name, what it is in both, and the options that decide its shape.
  """
  have, want = _describe(saved, prefix), _describe(wanted, prefix)
  wrong = [name for name in [*want, *(have.keys() - want.keys())] if have.get(name) != want.get(name)]
  if not wrong:
    return None
  # A wrong width changes many leaves; the message names the one that points best to the option.
  source_of = lambda name: next(place for place, (pattern, _) in enumerate(_SOURCES) if re.search(pattern, name))
  name = min(wrong, key=lambda name: (re.match('average|opt_state', name) is not None, source_of(name)))
  return (f'{name} is {have.get(name, "absent")} there and {want.get(name, "absent")} in this one, depending on '
          f'{_SOURCES[source_of(name)][1]}')


def _describe(tree: Any, prefix: str) -> dict[str, str]:
  """Return 'float32 (512, 8, 64)' for each leaf, by its dotted name. Random keys appear as their raw bits."""
  described = {}
  for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
    if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
      leaf = jax.eval_shape(jax.random.key_data, leaf)
    described[prefix + jax.tree_util.keystr(path, simple=True, separator='.')] = f'{leaf.dtype} {tuple(leaf.shape)}'
  return described
