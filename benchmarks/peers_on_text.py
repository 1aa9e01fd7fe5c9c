"""Another system on the work that decode_text.py wrote: one round for each line of standard input.

    PEER/bin/python -m benchmarks.peers_on_text ctranslate2 FOLDER     # decode_text.py starts this

Translates all lines once, writes a JSON line with the system's name and the texts, and from then on, for each line that
it reads, translates all lines again and writes the seconds. Every system opens the model as `convert.py export` writes
it, and cuts text with its SentencePiece models. CTranslate2 batches the lines itself; Hugging Face gets them sorted by
length, in batches of as many source tokens, and computes LayerNorm with this model's ε, which a MarianMT cannot save.
This file imports nothing of the project: the two environments need not share a package.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import sentencepiece

Run = Callable[[], list[str]]  # translates all lines


class Cut(NamedTuple):
  """The SentencePiece models."""

  source: sentencepiece.SentencePieceProcessor
  target: sentencepiece.SentencePieceProcessor


def main() -> None:
  name, folder = sys.argv[1:]
  answers = os.fdopen(os.dup(1), 'w', encoding='utf-8')
  os.dup2(2, 1)  # what libraries print must not stand between the answers
  with open(os.path.join(folder, 'work.json'), encoding='utf-8') as file:
    work = json.load(file)
  system, run = SYSTEMS[name](work, folder)

  def answer(value: dict) -> None:
    print(json.dumps(value), file=answers, flush=True)

  answer({'system': system, 'texts': run()})
  for _ in sys.stdin:
    wall, processor = time.perf_counter(), time.process_time()
    run()
    answer({'wall': time.perf_counter() - wall, 'processor': time.process_time() - processor})


def read_cut(model: str) -> Cut:
  return Cut(*(sentencepiece.SentencePieceProcessor(model_file=os.path.join(model, f'{side}.spm')) for side in Cut._fields))


def ctranslate2_system(work: dict, folder: str, compute_type: str = 'float32') -> tuple[str, Run]:
  import ctranslate2
  place = os.path.join(folder, 'ctranslate2')
  system, cut = ctranslate2.Translator(place, compute_type=compute_type, intra_threads=work['threads']), read_cut(place)

  def run() -> list[str]:
    sources = cut.source.encode(work['lines'], out_type=str)  # EOS is added there
    longest = max(map(len, sources)) + 1 + work['extra_length']
    found = system.translate_batch(sources, beam_size=work['beam'], length_penalty=work['alpha'],
                                   max_decoding_length=longest, max_batch_size=work['batch_tokens'], batch_type='tokens')
    return [cut.target.decode_pieces(one.hypotheses[0]) for one in found]

  return f'CTranslate2 {ctranslate2.__version__} {compute_type}', run


def hugging_face_system(work: dict, folder: str) -> tuple[str, Run]:
  import torch
  import transformers
  torch.set_num_threads(work['threads'])
  device = 'cuda' if torch.cuda.is_available() else 'cpu'
  place, end, pad = os.path.join(folder, 'huggingface'), work['eos_id'], work['pad_id']
  model, cut = transformers.AutoModelForSeq2SeqLM.from_pretrained(place).to(device).eval(), read_cut(place)
  for module in model.modules():
    if isinstance(module, torch.nn.LayerNorm):
      module.eps = work['layer_norm_epsilon']
  # Not the search of the folder: its own stopping rule, and nothing more than beam and length penalty.
  model.generation_config = transformers.GenerationConfig(
      num_beams=work['beam'], length_penalty=work['alpha'], decoder_start_token_id=work['bos_id'], eos_token_id=end,
      forced_eos_token_id=end, pad_token_id=pad)

  @torch.inference_mode()
  def run() -> list[str]:
    sources = [[*ids, end] for ids in cut.source.encode(work['lines'])]
    texts = [''] * len(sources)
    for members in batches(sources, work['batch_tokens']):
      longest = max(len(sources[i]) for i in members)
      ids = torch.tensor([sources[i] + [pad] * (longest - len(sources[i])) for i in members], device=device)
      real = torch.tensor([[1] * len(sources[i]) + [0] * (longest - len(sources[i])) for i in members],
                          device=device)
      found = model.generate(ids, attention_mask=real, max_new_tokens=longest + work['extra_length'], use_cache=True)
      for i, row in zip(members, found[:, 1:].tolist()):
        texts[i] = cut.target.decode(row[:row.index(end)] if end in row else row)
    return texts

  return f'Hugging Face {transformers.__version__}, PyTorch {torch.__version__}' + ', GPU' * (device == 'cuda'), run


def batches(sources: Sequence[Sequence[int]], batch_tokens: int) -> list[list[int]]:
  """Return the numbers of the sources in each batch, sorted by length: multiples of 8 rows."""
  order, found = sorted(range(len(sources)), key=lambda i: len(sources[i])), []
  while order:
    rows = max(8, batch_tokens // max(8, len(sources[order[0]])) // 8 * 8)
    found.append(order[:rows])
    order = order[rows:]
  return found


SYSTEMS = {'ctranslate2': ctranslate2_system, 'hugging_face': hugging_face_system,
           'ctranslate2_int8': lambda work, folder: ctranslate2_system(work, folder, 'int8')}


if __name__ == '__main__':
  main()
