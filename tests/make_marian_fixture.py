"""Makes tests/marian_fixture: a random MarianMT, every tensor perturbed, with what transformers computes with it.

    python tests/make_marian_fixture.py        # in an environment with torch, transformers and sentencepiece

Made with transformers 5.23.0, torch 2.13 on a CPU and sentencepiece 0.2.1, whose figures the tests compare with ours.
"""

import io
import json
import pathlib
import random

import sentencepiece
import torch
import transformers

FOLDER = pathlib.Path(__file__).parent / 'marian_fixture'
WORDS = {'en': 'the a dog cat king house street animal tired wide old small sees crosses opens because was not it too'.split(),
         'de': 'der die das ein Hund Katze König Haus Straße Tier müde breit alt klein sieht überquert öffnet weil war nicht'.split()}
LINES, FEW = 200, 4  # lines translated, and those whose logits are kept


def text(language: str, count: int, seed: int) -> list[str]:
  draw = random.Random(seed)
  return [' '.join(draw.choices(WORDS[language], k=draw.randint(1, 9))) + '.' for _ in range(count)]


def pieces_of(language: str, size: int) -> tuple[bytes, list[str]]:
  model = io.BytesIO()
  sentencepiece.SentencePieceTrainer.train(
      sentence_iterator=iter(text(language, 500, 1)), model_writer=model, vocab_size=size, minloglevel=2,
      normalization_rule_name='identity', hard_vocab_limit=False)
  found = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
  return model.getvalue(), [found.id_to_piece(i) for i in range(3, found.vocab_size())]


def main() -> None:
  torch.manual_seed(0)
  torch.set_num_threads(1)
  FOLDER.mkdir(exist_ok=True)
  (source, source_pieces), (target, target_pieces) = pieces_of('en', 60), pieces_of('de', 70)
  (FOLDER / 'source.spm').write_bytes(source)
  (FOLDER / 'target.spm').write_bytes(target)
  listed = list(dict.fromkeys([*source_pieces, *target_pieces, '>>de<<']))
  listed.remove(source_pieces[5])  # a piece that the list lacks is unknown
  random.Random(2).shuffle(listed)
  listed = ['</s>', '<unk>', *listed, '<pad>']
  pad = len(listed) - 1
  (FOLDER / 'vocab.json').write_text(json.dumps({piece: i for i, piece in enumerate(listed)}, ensure_ascii=False))
  (FOLDER / 'tokenizer_config.json').write_text(json.dumps({
      'tokenizer_class': 'MarianTokenizer', 'source_lang': 'en', 'target_lang': 'de', 'model_max_length': 128}))
  model = transformers.MarianMTModel(transformers.MarianConfig(
      vocab_size=len(listed), d_model=12, encoder_layers=2, decoder_layers=1, encoder_attention_heads=2,
      decoder_attention_heads=2, encoder_ffn_dim=11, decoder_ffn_dim=11, max_position_embeddings=128,
      activation_function='swish', scale_embedding=True, pad_token_id=pad, eos_token_id=0, forced_eos_token_id=0,
      decoder_start_token_id=pad)).eval()
  noise = torch.Generator().manual_seed(3)
  with torch.no_grad():
    for name, parameter in model.named_parameters():
      if 'embed_positions' not in name:
        parameter.add_(torch.randn(parameter.shape, generator=noise) * 0.4)
    for name, parameter in model.named_parameters():
      parameter.mul_(4.0 if 'encoder_attn.' in name else 1.0)  # so that outputs differ with the source
    model.model.shared.weight[0] *= END_WEIGHT
    model.final_logits_bias.add_(torch.randn(model.final_logits_bias.shape, generator=noise) * 0.3)
    model.final_logits_bias[0, 0] += END_BONUS
    model.final_logits_bias[0, pad] = 0.0  # as in every converted model
  model.generation_config = transformers.GenerationConfig(
      bad_words_ids=[[pad]], renormalize_logits=True, num_beams=4, length_penalty=1.0, early_stopping='never',
      max_length=60, pad_token_id=pad, eos_token_id=0, forced_eos_token_id=0, decoder_start_token_id=pad)
  model.save_pretrained(FOLDER)
  (FOLDER / 'expected.json').write_text(json.dumps(expected(model), ensure_ascii=False))


def expected(model: transformers.MarianMTModel) -> dict:
  tokenizer = transformers.AutoTokenizer.from_pretrained(FOLDER)
  lines, references = text('en', LINES, 7), text('de', LINES, 8)
  lines[1], lines[2], lines[3] = '>>de<< ' + lines[1], '>>fr<< ' + lines[2], 'the   ☃ dog'
  ids = [tokenizer(line)['input_ids'] for line in lines]
  read = [tokenizer(text_target=line)['input_ids'] for line in references]
  found = {'lines': lines, 'references': references, 'ids': ids, 'reference_ids': read, 'logits': []}
  start = model.config.decoder_start_token_id
  with torch.no_grad():
    for source, target in zip(ids[:FEW], read):
      logits = model(input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([[start, *target[:-1]]])).logits[0]
      found['logits'].append([[round(value, 6) for value in row] for row in logits.tolist()])
    for name, beams, most in (('greedy', 1, 30), ('beam', 4, 40)):
      rows = [model.generate(torch.tensor([source]), num_beams=beams, max_new_tokens=most,
                             **({} if beams > 1 else {'early_stopping': False}))[0].tolist()[1:] for source in ids]
      found[name] = [row[:row.index(0)] if 0 in row[:most - 1] else row[:most - 1] for row in rows]
      found[f'{name}_ended'] = [0 in row[:most - 1] for row in rows]
  return found


END_BONUS, END_WEIGHT = 4.4, 0.3  # so that outputs of many lengths end by themselves

if __name__ == '__main__':
  main()
