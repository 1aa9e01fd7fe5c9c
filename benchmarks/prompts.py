"""Continuing prompts with a language model: prompts read in one pass, and token by token, in turn.

    python -m benchmarks.prompts
    python -m benchmarks.prompts --prompt 500 --written 100

Random weights; every continuation has the same length. Prints one JSON line: wall-clock seconds of whole searches after
one that compiles (the fastest of each way), processor seconds of the same, and whether both wrote the same.
"""

import argparse
import json
import time

from checks import memory

if __name__ == '__main__':
  memory.keep()  # as decode.py does, before the imports below start a thread

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

from transformer import architectures, search, tokens  # noqa: E402
from transformer.config import LanguageModelConfig  # noqa: E402
from transformer.search import SearchConfig, beginning  # noqa: E402

BOS, EOS, FILLER = 2, 3, 0


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  for name, default, help_ in (
      ('d-model', 256, 'width'), ('layers', 4, 'of the model'), ('vocab', 8000, 'entries of the vocabulary'),
      ('batch', 32, 'prompts'), ('prompt', 200, 'tokens of a prompt'), ('written', 20, 'tokens of a continuation'),
      ('rounds', 3, 'searches of each way')):
    parser.add_argument(f'--{name}', type=int, default=default, help=help_)
  options = parser.parse_args()
  model = architectures.build(LanguageModelConfig(
      options.vocab, options.vocab, options.d_model, num_heads=4, num_layers=options.layers, d_ff=4 * options.d_model,
      norm='pre'))
  params, length = jax.jit(model.init)(jax.random.key(0)), options.prompt + options.written
  config = SearchConfig(beam_size=1, min_length=length - 1, extra_length=length)
  ids = np.random.default_rng(1).integers(4, options.vocab, (options.batch, options.prompt), np.int32)
  prompts = tokens.pad(ids.tolist(), options.batch, options.prompt, FILLER)

  def continued(params, prompts, is_one_pass):
    nothing = tokens.pad([], options.batch, 0, FILLER)
    cache = model.init_cache(params, model.encode(params, nothing), length, 1)
    step, opening = lambda cache, last: model.decode_step(params, cache, last), tokens.shift_right(prompts, BOS)
    cache = model.prefill(params, cache, opening) if is_one_pass else beginning.read(step, cache, opening, 1)
    problem = search.SearchProblem(step, length, BOS, EOS, FILLER)
    limits = jnp.full(options.batch, length, jnp.int32)
    return search.search(problem, search.Sentences(cache, limits, written=prompts), config).tokens

  ways = {name: jax.jit(lambda params, prompts, way=way: continued(params, prompts, way))
          for name, way in (('one pass', True), ('token by token', False))}
  written = {name: np.asarray(run(params, prompts)) for name, run in ways.items()}
  seconds, processor = {name: [] for name in ways}, {name: [] for name in ways}
  for _ in range(options.rounds):
    for name, run in ways.items():
      began, began_processor = time.perf_counter(), time.process_time()
      jax.block_until_ready(run(params, prompts))
      seconds[name].append(round(time.perf_counter() - began, 3))
      processor[name].append(round(time.process_time() - began_processor, 3))
  print(json.dumps({
      'jax': jax.__version__, 'device': jax.devices()[0].device_kind, 'seconds': {k: min(v) for k, v in seconds.items()},
      'processor_seconds': {k: min(v) for k, v in processor.items()},
      'same': bool((written['one pass'] == written['token by token']).all()), **vars(options)}))


if __name__ == '__main__':
  main()
