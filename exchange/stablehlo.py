"""Write a run's Transformer as programs of StableHLO, which jax.export loads and runs without this project.

    encode(parameters, ids [B, S] int32, lengths [B] int32) -> state, a list of arrays whose first axis is B
    decode_step(parameters, state, tokens [B] int32) -> (logits [B, V] float32, state)

B and S are open, up to a limit; ids are sources that end in EOS, padded with anything. The state has room for
S + search.extra_length tokens. The first token is BOS. A search reorders or copies rows of the state as it likes.

Source: https://docs.jax.dev/en/latest/export/export.html.
"""

import dataclasses
import importlib
import io
import os
from collections.abc import Iterator, Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

from checks.whole_files import write_whole
from exchange import marian
from exchange.translator_arrays import pieces, sentencepiece_model
from tasks.trained import Trained
from training.json_files import write_json
from transformer import architectures
from transformer.config import ModelConfig
from transformer.positions import LONGEST_OPEN
from transformer.tokens import Tokens

_PLATFORMS = ('cpu', 'cuda', 'tpu')


def mistakes(config: Any) -> Iterator[str]:
  """Yield a sentence for what the programs cannot be made of, and when flatbuffers is not installed."""
  if not isinstance(config, ModelConfig):
    yield f'config.model.architecture makes a {type(config).__name__.removesuffix("Config")}; expected transformer'
  elif config.positions == 't5':
    yield "config.model.positions is 't5', whose groups of distances need lengths that are known; other kinds do not"
  try:
    importlib.import_module('flatbuffers')
  except ImportError:
    yield '--to=stablehlo needs the package flatbuffers, in which jax.export writes; install it: pip install flatbuffers'


def write(folder: str, run: Trained) -> None:
  """Write the two programs, the parameters, the vocabularies and the two SentencePiece models into an empty folder."""
  place = lambda name: os.path.join(folder, name)
  flat = {'/'.join(path): np.asarray(leaf) for path, leaf in marian.leaves(jax.device_get(run.params)).items()}
  for name, program in zip(('encode', 'decode_step'), _programs(run, flat)):
    write_whole(place(f'{name}.stablehlo'), bytes(program.serialize()))
  file, save = io.BytesIO(), cast(Any, np.savez)  # whose type takes every name for one of its options
  save(file, **flat)
  write_whole(place('parameters.npz'), file.getvalue())
  for side, vocabulary in (('source', run.source), ('target', run.target)):
    write_whole(place(f'{side}.spm'), sentencepiece_model(vocabulary))
  write_json(place('vocabulary.json'), {
      'source': pieces(run.source), 'target': pieces(run.target), 'source_eos': run.source.eos_id,
      'source_unk': run.source.unk_id, 'bos': run.target.bos_id, 'eos': run.target.eos_id, 'pad': run.target.pad_id})


def _programs(run: Trained, flat: dict[str, np.ndarray]) -> tuple[export.Exported, export.Exported]:
  """Return encode and decode_step for every platform."""
  # With sizes that are symbols no kernel can tell whether it takes them; einsum computes the same up to rounding.
  config = dataclasses.replace(run.setup.sized(run.source.size, run.target.size), attention_kernel='einsum')
  model, extra = architectures.build(config), run.setup.search.extra_length
  longest = min(model.longest or LONGEST_OPEN, LONGEST_OPEN)
  nested = lambda parameters: marian.nested({tuple(name.split('/')): leaf for name, leaf in parameters.items()})

  def cache(parameters: dict[str, Any], ids: Any, lengths: Any) -> Any:
    positions = jnp.broadcast_to(jnp.arange(ids.shape[1], dtype=jnp.int32)[None], ids.shape)
    source = Tokens(ids, positions, (positions < lengths[:, None]).astype(jnp.int32))
    whole = nested(parameters)
    return model.init_cache(whole, model.encode(whole, source), ids.shape[1] + extra)

  def encode(parameters: dict[str, Any], ids: Any, lengths: Any) -> list[Any]:
    return jax.tree.leaves(cache(parameters, ids, lengths))

  def decode_step(parameters: dict[str, Any], state: Sequence[Any], tokens: Any) -> tuple[Any, list[Any]]:
    logits, after = model.decode_step(nested(parameters), structure.unflatten(state), tokens[:, None])
    return logits[:, 0], jax.tree.leaves(after)

  integers = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.int32)
  shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), flat)
  structure = jax.tree.structure(jax.eval_shape(cache, shapes, integers(1, 2), integers(1)))
  # Each program has its own names of sizes: that the caller's agree is checked where it is called.
  rows, length = export.symbolic_shape('B, S', constraints=[f'S <= {longest - extra}'])
  first = export.export(jax.jit(encode), platforms=_PLATFORMS)(shapes, integers(rows, length), integers(rows))
  second = export.export(jax.jit(decode_step), platforms=_PLATFORMS)(shapes, list(first.out_avals), integers(rows))
  return first, second
