"""Another system on the work that decode_text.py wrote: one round for each line of standard input.

    PEER/bin/python -m benchmarks.peers_on_text ctranslate2 FOLDER     # decode_text.py starts this

Translates all lines once, writes a JSON line with the system's name and the texts, and from then on, for each line that
it reads, translates all lines again and writes the seconds. Every system gets the arrays and the vocabulary of
this project's model. CTranslate2 batches the lines itself; Hugging Face gets them sorted by length, in batches of as
many source tokens, as a MarianMT (post-norm) or a Pegasus (pre-norm) with this project's table of positions.
This file imports nothing of the project: the two environments need not share a package.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

import numpy as np
import sentencepiece

Arrays = dict[str, np.ndarray]
Run = Callable[[], list[str]]  # translates all lines


def main() -> None:
  name, folder = sys.argv[1:]
  answers = os.fdopen(os.dup(1), 'w', encoding='utf-8')
  os.dup2(2, 1)  # what libraries print must not stand between the answers
  with open(os.path.join(folder, 'work.json'), encoding='utf-8') as file:
    work = json.load(file)
  arrays = dict(np.load(os.path.join(folder, 'model.npz')))
  vocabulary = sentencepiece.SentencePieceProcessor(model_file=os.path.join(folder, 'vocabulary.model'))
  system, run = SYSTEMS[name](work, arrays, vocabulary)

  def answer(value: dict) -> None:
    print(json.dumps(value), file=answers, flush=True)

  answer({'system': system, 'texts': run()})
  for _ in sys.stdin:
    wall, processor = time.perf_counter(), time.process_time()
    run()
    answer({'wall': time.perf_counter() - wall, 'processor': time.process_time() - processor})


def matrices(arrays: Arrays, layer: str, kind: str) -> dict[str, np.ndarray]:
  """Return the four projections of an attention as [outputs, inputs], heads side by side."""
  part = lambda name: arrays[f'{layer}/{kind}_attention/w_{name}']
  flat = {name: part(name).reshape(part(name).shape[0], -1).T for name in ('query', 'key', 'value')}
  return flat | {'out': part('out').reshape(-1, part('out').shape[-1]).T}


def output_projection(work: dict, arrays: Arrays) -> np.ndarray:
  """Return the output projection [V, D]."""
  return arrays['embedding' if work['model']['tie_output'] else 'output_projection']


# ------------------------------------------------------------------------------------------------------ CTranslate2


def ctranslate2_system(work: dict, arrays: Arrays, vocabulary: sentencepiece.SentencePieceProcessor,
                       compute_type: str = 'float32') -> tuple[str, Run]:
  import ctranslate2
  with tempfile.TemporaryDirectory() as folder:
    spec = specification(work, arrays, vocabulary)
    spec.validate()
    spec.optimize()
    spec.save(folder)
    system = ctranslate2.Translator(folder, compute_type=compute_type, intra_threads=work['threads'])
  end = vocabulary.id_to_piece(work['eos_id'])

  def run() -> list[str]:
    sources = [[*pieces, end] for pieces in vocabulary.encode(work['lines'], out_type=str)]
    longest = max(map(len, sources)) + work['extra_length']
    found = system.translate_batch(sources, beam_size=work['beam'], length_penalty=work['alpha'],
                                   max_decoding_length=longest, max_batch_size=work['batch_tokens'], batch_type='tokens')
    return [vocabulary.decode_pieces(one.hypotheses[0]) for one in found]

  return f'CTranslate2 {ctranslate2.__version__} {compute_type}', run


def specification(work: dict, arrays: Arrays, vocabulary: sentencepiece.SentencePieceProcessor):
  """Return the model as a specification for CTranslate2."""
  from ctranslate2.specs import common_spec, transformer_spec
  model = work['model']
  pre_norm = model['norm'] == 'pre'
  spec = transformer_spec.TransformerSpec.from_config(
      (model['num_layers'], model['num_decoder_layers']), model['num_heads'], pre_norm=pre_norm,
      activation=common_spec.Activation.RELU)
  pieces = [vocabulary.id_to_piece(i) for i in range(vocabulary.vocab_size())]
  spec.config.layer_norm_epsilon = model['layer_norm_epsilon']
  spec.config.decoder_start_token = spec.config.bos_token = pieces[work['bos_id']]
  spec.config.eos_token, spec.config.unk_token = pieces[work['eos_id']], pieces[vocabulary.unk_id()]
  spec.register_source_vocabulary(pieces)
  spec.register_target_vocabulary(pieces)
  for side, stack in (('encoder', spec.encoder), ('decoder', spec.decoder)):
    embeddings = stack.embeddings[0] if side == 'encoder' else stack.embeddings
    embeddings.weight = arrays['embedding']
    stack.position_encodings.encodings = arrays['positions']
    if pre_norm:
      set_norm(stack.layer_norm, arrays, f'{side}_norm')
    for number, layer in enumerate(stack.layer):
      set_layer(layer, arrays, f'{side}_layers_{number}')
  spec.decoder.projection.weight = output_projection(work, arrays)
  return spec


def set_layer(layer, arrays: Arrays, name: str) -> None:
  set_attention(layer.self_attention, arrays, name, 'self', [['query', 'key', 'value'], ['out']])
  if hasattr(layer, 'attention'):
    set_attention(layer.attention, arrays, name, 'cross', [['query'], ['key', 'value'], ['out']])
  set_norm(layer.ffn.layer_norm, arrays, f'{name}/around_feed_forward/norm')
  for linear, number in ((layer.ffn.linear_0, 1), (layer.ffn.linear_1, 2)):
    linear.weight = np.ascontiguousarray(arrays[f'{name}/feed_forward/w{number}'].T)
    linear.bias = arrays[f'{name}/feed_forward/b{number}']


def set_attention(attention, arrays: Arrays, layer: str, kind: str, products: list[list[str]]) -> None:
  """Set an attention's weights; each product is one or more projections, stacked."""
  set_norm(attention.layer_norm, arrays, f'{layer}/around_{kind}/norm')
  own = matrices(arrays, layer, kind)
  for linear, parts in zip(attention.linear, products):
    linear.weight = np.ascontiguousarray(np.concatenate([own[part] for part in parts]))


def set_norm(norm, arrays: Arrays, name: str) -> None:
  norm.gamma, norm.beta = arrays[f'{name}/scale'], arrays[f'{name}/bias']


# ----------------------------------------------------------------------------------------------------- Hugging Face


def hugging_face_system(work: dict, arrays: Arrays, vocabulary: sentencepiece.SentencePieceProcessor) -> tuple[str, Run]:
  import torch
  import transformers
  torch.set_num_threads(work['threads'])
  device = 'cuda' if torch.cuda.is_available() else 'cpu'
  model = hugging_face_model(work, arrays).to(device)
  end, pad = work['eos_id'], work['pad_id']

  @torch.inference_mode()
  def run() -> list[str]:
    sources = [[*ids, end] for ids in vocabulary.encode(work['lines'])]
    texts = [''] * len(sources)
    for members in batches(sources, work['batch_tokens']):
      longest = max(len(sources[i]) for i in members)
      ids = torch.tensor([sources[i] + [pad] * (longest - len(sources[i])) for i in members], device=device)
      real = torch.tensor([[1] * len(sources[i]) + [0] * (longest - len(sources[i])) for i in members],
                          device=device)
      found = model.generate(ids, attention_mask=real, num_beams=work['beam'], length_penalty=work['alpha'],
                             max_new_tokens=longest + work['extra_length'], use_cache=True)
      for i, row in zip(members, found[:, 1:].tolist()):
        texts[i] = vocabulary.decode(row[:row.index(end)] if end in row else row)
    return texts

  return f'Hugging Face {transformers.__version__}, PyTorch {torch.__version__}' + ', GPU' * (device == 'cuda'), run


def hugging_face_model(work: dict, arrays: Arrays):
  """Return the model as a MarianMT or, when normalisation stands before the sub-layers, as a Pegasus."""
  import torch
  import transformers
  sizes = work['model']
  pre_norm = sizes['norm'] == 'pre'
  config, kind = ((transformers.PegasusConfig, transformers.PegasusForConditionalGeneration) if pre_norm else
                  (transformers.MarianConfig, transformers.MarianMTModel))
  model = kind(config(
      vocab_size=len(arrays['embedding']), d_model=sizes['d_model'], encoder_layers=sizes['num_layers'],
      decoder_layers=sizes['num_decoder_layers'], encoder_attention_heads=sizes['num_heads'],
      decoder_attention_heads=sizes['num_heads'], encoder_ffn_dim=sizes['d_ff'], decoder_ffn_dim=sizes['d_ff'],
      max_position_embeddings=len(arrays['positions']), activation_function='relu', pad_token_id=work['pad_id'],
      eos_token_id=work['eos_id'], forced_eos_token_id=work['eos_id'], decoder_start_token_id=work['bos_id'],
      scale_embedding=True)).eval()
  values = {'model.shared.weight': arrays['embedding']}
  for side in ('encoder', 'decoder'):
    values[f'model.{side}.embed_positions.weight'] = arrays['positions']
    if pre_norm:
      values |= norm_of(arrays, f'model.{side}.layer_norm', f'{side}_norm')
    for number in range(sizes['num_layers' if side == 'encoder' else 'num_decoder_layers']):
      values |= layer_of(arrays, f'model.{side}.layers.{number}', f'{side}_layers_{number}', side)
  if not sizes['tie_output']:
    model.lm_head.weight = torch.nn.Parameter(torch.empty_like(model.lm_head.weight))
    values['lm_head.weight'] = arrays['output_projection']
  parameters = dict(model.named_parameters())
  with torch.no_grad():
    for parameter in parameters.values():
      parameter.zero_()  # the biases of attention, which this project's model has not
    for name, value in values.items():
      parameters[name].copy_(torch.from_numpy(np.array(value)))
    for module in model.modules():
      if isinstance(module, torch.nn.LayerNorm):
        module.eps = sizes['layer_norm_epsilon']
  return model


def layer_of(arrays: Arrays, name: str, ours: str, side: str) -> Arrays:
  """Return the parameters of a layer by Hugging Face's names; `ours` is the layer's name in this project."""
  found = norm_of(arrays, f'{name}.final_layer_norm', f'{ours}/around_feed_forward/norm')
  for kind, theirs in (('self', 'self_attn'), ('cross', 'encoder_attn'))[:1 if side == 'encoder' else 2]:
    found |= norm_of(arrays, f'{name}.{theirs}_layer_norm', f'{ours}/around_{kind}/norm')
    for part, matrix in matrices(arrays, ours, kind).items():
      found[f'{name}.{theirs}.{dict(query="q", key="k", value="v", out="out")[part]}_proj.weight'] = matrix
  for number in (1, 2):
    found[f'{name}.fc{number}.weight'] = arrays[f'{ours}/feed_forward/w{number}'].T
    found[f'{name}.fc{number}.bias'] = arrays[f'{ours}/feed_forward/b{number}']
  return found


def norm_of(arrays: Arrays, name: str, ours: str) -> Arrays:
  return {f'{name}.weight': arrays[f'{ours}/scale'], f'{name}.bias': arrays[f'{ours}/bias']}


def batches(sources: Sequence[Sequence[int]], batch_tokens: int) -> list[list[int]]:
  """Return the numbers of the sources in each batch, sorted by length: multiples of 8 rows."""
  order, found = sorted(range(len(sources)), key=lambda i: len(sources[i])), []
  while order:
    rows = max(8, batch_tokens // max(8, len(sources[order[0]])) // 8 * 8)
    found.append(order[:rows])
    order = order[rows:]
  return found


SYSTEMS = {'ctranslate2': ctranslate2_system, 'hugging_face': hugging_face_system,
           'ctranslate2_int8': lambda *work: ctranslate2_system(*work, compute_type='int8')}


if __name__ == '__main__':
  main()
