"""Time of a training step of Hugging Face's MarianMT: the counterpart of train_step.py, with the same work.

    PEER/bin/python -m benchmarks.hugging_face_step
    PEER/bin/python -m benchmarks.hugging_face_step --d-model 512 --layers 6 --heads 8 --d-ff 2048 --vocab 37000

Forward, smoothed loss, backward and AdamW on random rows without padding: float32 on a CPU; on a GPU bfloat16 by
autocast, and TF32 where that leaves float32. Prints one JSON line. PEER is an environment with torch and transformers;
this file imports nothing of the project but step_options.py.
"""

import argparse
import json
import statistics
import time

import torch
import transformers

from benchmarks import step_options


def parse() -> argparse.Namespace:
  parser = step_options.parser(__doc__)
  parser.add_argument('--compile', action='store_true', help='with torch.compile')
  return step_options.parsed(parser)


def main() -> None:
  options = parse()
  device = 'cuda' if torch.cuda.is_available() else 'cpu'
  torch.set_float32_matmul_precision('high')
  torch.manual_seed(0)
  model = transformers.MarianMTModel(transformers.MarianConfig(
      vocab_size=options.vocab, d_model=options.d_model, encoder_layers=options.layers, decoder_layers=options.layers,
      encoder_attention_heads=options.heads, decoder_attention_heads=options.heads, encoder_ffn_dim=options.d_ff,
      decoder_ffn_dim=options.d_ff, max_position_embeddings=max(512, options.length), dropout=options.dropout,
      attention_dropout=options.attention_dropout, activation_function='relu', pad_token_id=0, eos_token_id=1,
      decoder_start_token_id=0, share_encoder_decoder_embeddings=True, scale_embedding=True, use_cache=False))
  model = model.to(device).train()
  forward = torch.compile(model) if options.compile else model
  criterion = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
  optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=device == 'cuda')
  draw = lambda: torch.randint(3, options.vocab, (options.batch, options.length), device=device)
  batches = [(draw(), draw(), draw()) for _ in range(4)]
  times = []
  for number in range(options.warmup + options.steps):
    start = time.perf_counter()
    for turn in range(options.together):
      source, shifted, target = batches[(number + turn) % len(batches)]
      with torch.autocast(device, dtype=torch.bfloat16, enabled=device == 'cuda'):
        logits = forward(input_ids=source, decoder_input_ids=shifted).logits
      loss = criterion(logits.float().reshape(-1, options.vocab), target.reshape(-1))
      loss.backward()
      optimizer.step()
      optimizer.zero_grad(set_to_none=True)
    loss = loss.item()  # waits for the device
    times.append((time.perf_counter() - start) / options.together)
  times = times[options.warmup:]
  median, tokens = statistics.median(times), options.batch * options.length
  print(json.dumps({
      'system': f'Hugging Face {transformers.__version__}, PyTorch {torch.__version__}' + ', compiled' * options.compile,
      'device': torch.cuda.get_device_name() if device == 'cuda' else device,
      'parameters': sum(parameter.numel() for parameter in model.parameters()), 'final_loss': loss,
      'step_seconds_median': median, 'step_seconds_min': min(times), 'source_tokens_per_second': tokens / median,
      'target_tokens_per_second': tokens / median, **vars(options)}))


if __name__ == '__main__':
  main()
