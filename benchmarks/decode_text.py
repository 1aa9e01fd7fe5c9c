"""Beam search of a trained run on real text, where lengths differ; and the same work packed for other systems.

    python -m benchmarks.decode_text --workdir=runs/m30k --input=test.en --reference=test.de --pack=work
    PEER/bin/python -m benchmarks.peers_on_text --pack=work          # in an environment of the peers' own

Prints one JSON line. Times are of whole files: text to ids, all searches and ids to text, after one round that
compiles. The length penalty is n^alpha, which the peers have too. --pack writes what peers_on_text.py reads: weights,
vocabulary, the sources as ids, references, and the translations of this project.
"""

import argparse
import json
import os
import statistics
from typing import Any

import jax
import numpy as np

import tasks
from benchmarks.decode import timed
from checks.errors import ConfigError
from checks.whole_files import write_whole
from corpora.text_files import read_lines
from decoding import scores
from decoding.requests import Translation
from decoding.translator import Translator
from options import programs
from training import hardware
from transformer import positions
from transformer.config import ModelConfig

LONGEST = 1200  # length of the packed table of positions
# The options that peers_on_text.py can express; other values are refused.
EXPRESSED = {'positions': 'sinusoidal', 'attention_score': 'scaled_dot', 'activation': 'relu',
             'normalization': 'layer_norm', 'norm_bias': True, 'feed_forward_bias': True, 'attention_bias': False,
             'share_embeddings': True, 'tie_output': True, 'scan_layers': False}


def main() -> None:
  options = parse()
  hardware.split_processor()
  lines, references = read_lines(options.input), options.reference and read_lines(options.reference)
  translator = tasks.load(options.workdir, beam_size=options.beam, length_penalty='length', alpha=options.alpha,
                                batch_tokens=options.batch_tokens)
  found = translator.translate(lines)
  walls, processors = timed(lambda: translator.translate(lines), options.runs)
  median, texts = statistics.median(walls), [one.text for one in found]
  device = jax.devices()[0]
  print(json.dumps({
      'system': f'this project, jax {jax.__version__}', 'device': device.platform, 'device_kind': device.device_kind,
      'devices': jax.device_count(),
      'seconds_median': median, 'seconds_min': min(walls), 'cpu_seconds_median': statistics.median(processors),
      'sentences_per_second': len(lines) / median,
      'bleu': scores.corpus_scores(texts, references)['bleu'] if references else None, **vars(options)}))
  if options.pack:
    pack(options, translator, lines, found, references)


def parse() -> argparse.Namespace:
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument('--workdir', required=True, help='folder of a run of train.py')
  parser.add_argument('--input', required=True, help='sentences, one a line')
  parser.add_argument('--reference', help='their translations, for BLEU')
  parser.add_argument('--pack', help='folder for what the peers need; made when it is not there')
  for name, default, kind, text in (
      ('beam', 4, int, 'hypotheses'), ('alpha', 0.6, float, 'exponent of the length penalty'),
      ('batch-tokens', None, int, 'rows × beams × source length of a search batch'), ('runs', 5, int, 'timed rounds')):
    parser.add_argument(f'--{name}', type=kind, default=default, help=text)
  return parser.parse_args()


def pack(options: argparse.Namespace, translator: Translator, lines: list[str], found: list[Translation],
         references: list[str] | None) -> None:
  """Write model.npz and work.json into the folder options.pack."""
  model, source, target = translator.parts
  config = model.config
  check_expressible(config)
  leaves = jax.tree_util.tree_leaves_with_path(jax.device_get(translator.params[0]))
  arrays = {'/'.join(key.key for key in path): np.asarray(leaf) for path, leaf in leaves}
  arrays['positions'] = positions.sinusoids(LONGEST, config.d_model, config.position_layout,
                                            config.position_frequencies)
  os.makedirs(options.pack, exist_ok=True)
  np.savez(os.path.join(options.pack, 'model.npz'), **arrays)
  work: dict[str, Any] = {
      'd_model': config.d_model, 'num_heads': config.num_heads, 'num_layers': config.num_layers,
      'num_decoder_layers': config.decoder_layers, 'd_ff': config.d_ff, 'norm': config.norm,
      'layer_norm_epsilon': config.layer_norm_epsilon, 'pieces': target.pieces(range(target.size)),
      'bos_id': target.bos_id, 'eos_id': target.eos_id, 'unk_id': target.unk_id, 'beam': options.beam,
      'alpha': options.alpha, 'runs': options.runs,
      'sources': translator.encode(lines), 'texts': [one.text for one in found],
      'lengths': [len(one.ids) + 1 for one in found], 'references': references}
  write_whole(os.path.join(options.pack, 'work.json'), json.dumps(work, ensure_ascii=False))


def check_expressible(config: Any) -> None:
  """Raise ConfigError when the model has parts that peers_on_text.py cannot express."""
  if not isinstance(config, ModelConfig):
    raise ConfigError('--pack: the run is not an encoder-decoder Transformer; leave --pack out')
  wrong = [f'model.{name} is {getattr(config, name)!r}; expected {value!r}' for name, value in EXPRESSED.items()
           if getattr(config, name) != value]
  if config.num_heads * config.key_size != config.d_model or config.kv_heads != config.num_heads:
    wrong.append('model.d_k or model.num_kv_heads is not what num_heads gives')
  if wrong:
    raise ConfigError('--pack: peers_on_text.py cannot express this model; leave --pack out:\n  '
                                   + '\n  '.join(wrong))


if __name__ == '__main__':
  programs.run(main)
