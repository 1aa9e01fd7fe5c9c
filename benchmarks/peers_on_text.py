"""Other systems on the work that decode_text.py packed: CTranslate2 with the same weights, Hugging Face with others.

    python -m venv PEER && PEER/bin/pip install torch transformers ctranslate2 sacrebleu
    PEER/bin/python -m benchmarks.peers_on_text --pack=work

Prints one JSON line for each. CTranslate2 gets the run's weights and has to find the same translations, except that it
ends a search in another way (benchmarks/RESULTS.md, "Beam search"). Hugging Face gets random weights of the same sizes
in a MarianMT, and each batch is decoded to the length of its longest translation.
This file imports nothing of the project: the two environments need not share a package.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable

import numpy as np


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument('--pack', required=True, help='the folder that decode_text.py wrote')
  parser.add_argument('--systems', default='ctranslate2,hugging_face', help='which, separated by commas')
  parser.add_argument('--batch-tokens', type=int, default=2048, help='rows × source length of a batch')
  parser.add_argument('--threads', type=int, default=os.cpu_count(), help='of each system')
  options = parser.parse_args()
  with open(os.path.join(options.pack, 'work.json'), encoding='utf-8') as file:
    work = json.load(file)
  work['batch_tokens'] = options.batch_tokens
  arrays = dict(np.load(os.path.join(options.pack, 'model.npz')))
  for name in options.systems.split(','):
    SYSTEMS[name](work, arrays, options.threads)


# ------------------------------------------------------------------------------------------------------ CTranslate2


def ctranslate2_system(work: dict, arrays: dict[str, np.ndarray], threads: int) -> None:
  import ctranslate2
  with tempfile.TemporaryDirectory() as folder:
    spec = specification(work, arrays)
    spec.validate()
    spec.optimize()
    spec.save(folder)
    system = ctranslate2.Translator(folder, compute_type='float32', intra_threads=threads)
  pieces = work['pieces']
  sources = [[pieces[i] for i in ids] for ids in work['sources']]

  def run() -> list[str]:
    found = system.translate_batch(sources, beam_size=work['beam'], length_penalty=work['alpha'],
                                   max_batch_size=work['batch_tokens'], batch_type='tokens')
    return [text_of(one.hypotheses[0]) for one in found]

  report(f'CTranslate2 {ctranslate2.__version__} float32, the same weights', work, run)


def specification(work: dict, arrays: dict[str, np.ndarray]):
  """Return the run's model as a specification for CTranslate2."""
  from ctranslate2.specs import common_spec, transformer_spec
  spec = transformer_spec.TransformerSpec.from_config(
      (work['num_layers'], work['num_decoder_layers']), work['num_heads'], pre_norm=work['norm'] == 'pre',
      activation=common_spec.Activation.RELU)
  spec.config.layer_norm_epsilon = work['layer_norm_epsilon']
  spec.config.decoder_start_token, spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = (
      work['pieces'][work[name]] for name in ('bos_id', 'bos_id', 'eos_id', 'unk_id'))
  spec.register_source_vocabulary(work['pieces'])
  spec.register_target_vocabulary(work['pieces'])
  for side, stack in (('encoder', spec.encoder), ('decoder', spec.decoder)):
    embeddings = stack.embeddings[0] if side == 'encoder' else stack.embeddings
    embeddings.weight = arrays['embedding']
    stack.position_encodings.encodings = arrays['positions']
    if work['norm'] == 'pre':
      set_norm(stack.layer_norm, arrays, f'{side}_norm')
    for number, layer in enumerate(stack.layer):
      set_layer(layer, arrays, f'{side}_layers_{number}')
  spec.decoder.projection.weight = arrays['embedding']
  return spec


def set_layer(layer, arrays: dict[str, np.ndarray], name: str) -> None:
  set_attention(layer.self_attention, arrays, name, 'self', [['query', 'key', 'value']])
  if hasattr(layer, 'attention'):
    set_attention(layer.attention, arrays, name, 'cross', [['query'], ['key', 'value']])
  set_norm(layer.ffn.layer_norm, arrays, f'{name}/around_feed_forward/norm')
  for linear, number in ((layer.ffn.linear_0, 1), (layer.ffn.linear_1, 2)):
    linear.weight = np.ascontiguousarray(arrays[f'{name}/feed_forward/w{number}'].T)
    linear.bias = arrays[f'{name}/feed_forward/b{number}']


def set_attention(attention, arrays: dict[str, np.ndarray], layer: str, kind: str, products: list[list[str]]) -> None:
  """Set an attention's weights; each product takes one or more projections [D, H, K], stacked as [H·K, D]."""
  set_norm(attention.layer_norm, arrays, f'{layer}/around_{kind}/norm')
  flat = lambda part: arrays[f'{layer}/{kind}_attention/w_{part}']
  for linear, parts in zip(attention.linear, products):
    linear.weight = np.concatenate([flat(part).reshape(flat(part).shape[0], -1).T for part in parts])
  out = flat('out')
  attention.linear[len(products)].weight = np.ascontiguousarray(out.reshape(-1, out.shape[-1]).T)


def set_norm(norm, arrays: dict[str, np.ndarray], name: str) -> None:
  norm.gamma, norm.beta = arrays[f'{name}/scale'], arrays[f'{name}/bias']


# ----------------------------------------------------------------------------------------------------- Hugging Face


def hugging_face_system(work: dict, arrays: dict[str, np.ndarray], threads: int) -> None:
  del arrays
  import torch
  import transformers
  torch.set_num_threads(threads)
  torch.manual_seed(0)
  pad = len(work['pieces'])
  model = transformers.MarianMTModel(transformers.MarianConfig(
      vocab_size=pad + 1, d_model=work['d_model'], encoder_layers=work['num_layers'],
      decoder_layers=work['num_decoder_layers'], encoder_attention_heads=work['num_heads'],
      decoder_attention_heads=work['num_heads'], encoder_ffn_dim=work['d_ff'], decoder_ffn_dim=work['d_ff'],
      max_position_embeddings=1200, activation_function='relu', pad_token_id=pad, eos_token_id=work['eos_id'],
      forced_eos_token_id=work['eos_id'], decoder_start_token_id=pad, scale_embedding=True)).eval()
  order = sorted(range(len(work['sources'])), key=lambda i: len(work['sources'][i]))
  batches, place = [], 0
  while place < len(order):
    rows = max(8, work['batch_tokens'] // max(8, len(work['sources'][order[place]])) // 8 * 8)
    chosen = order[place:place + rows]
    longest = max(len(work['sources'][i]) for i in chosen)
    ids = torch.tensor([work['sources'][i] + [pad] * (longest - len(work['sources'][i])) for i in chosen])
    batches.append((ids, (ids != pad).long(), max(work['lengths'][i] for i in chosen)))
    place += rows

  @torch.inference_mode()
  def run() -> None:
    for ids, mask, length in batches:
      model.generate(ids, attention_mask=mask, num_beams=work['beam'], min_new_tokens=length, max_new_tokens=length,
                     length_penalty=work['alpha'], early_stopping=False, use_cache=True)

  report(f'Hugging Face {transformers.__version__}, PyTorch {torch.__version__}, random weights', work, run)


# ----------------------------------------------------------------------------------------------------------- both


def text_of(pieces: list[str]) -> str:
  """Return SentencePiece's pieces as text; pieces of bytes are joined to characters first."""
  out = b''.join(bytes([int(piece[3:-1], 16)]) if piece.startswith('<0x') and len(piece) == 6 else piece.encode()
                 for piece in pieces)
  return out.decode(errors='replace').replace('▁', ' ').removeprefix(' ')


def report(name: str, work: dict, run: Callable[[], list[str] | None]) -> None:
  """Time work['runs'] rounds after a first one, compare the texts if there are any, and print the JSON line."""
  texts, walls, processors = run(), [], []
  for _ in range(work['runs']):
    wall, processor = time.perf_counter(), time.process_time()
    run()
    walls.append(time.perf_counter() - wall)
    processors.append(time.process_time() - processor)
  median, found = statistics.median(walls), {}
  if texts:
    found['the_same_texts'] = sum(one == other for one, other in zip(texts, work['texts'])) / len(texts)
    if work['references']:
      import sacrebleu
      found['bleu'] = sacrebleu.corpus_bleu(texts, [work['references']]).score
  print(json.dumps({'system': name, 'seconds_median': median, 'seconds_min': min(walls),
                    'cpu_seconds_median': statistics.median(processors),
                    'sentences_per_second': len(work['sources']) / median, **found}), flush=True)


SYSTEMS = {'ctranslate2': ctranslate2_system, 'hugging_face': hugging_face_system}


if __name__ == '__main__':
  main()
