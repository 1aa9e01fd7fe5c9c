"""The options that benchmarks of a training step share: train_step.py's and its counterpart's in another environment.

This file imports nothing of the project, since that environment has none of its packages.
"""

import argparse


def parser(doc: str | None) -> argparse.ArgumentParser:
  """Return a parser of the sizes of the model and of the work, and of its dropout; `doc` heads its help."""
  made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
  for name, default, text in (
      ('d-model', 256, 'width'), ('layers', 3, 'of the encoder and of the decoder'), ('heads', 4, 'of attention'),
      ('d-ff', 1024, 'inner width'), ('vocab', 8000, 'entries of the joint vocabulary'), ('batch', 64, 'sentences'),
      ('length', 32, 'tokens of a sentence on each side'), ('steps', 10, 'times taken'), ('warmup', 3, 'untimed'),
      ('together', 1, 'steps to a time: an accelerator is handed the next ones while it computes, as in training')):
    made.add_argument(f'--{name}', type=int, default=default, help=text)
  made.add_argument('--dropout', type=float, default=0.1, help='on sub-layers, embeddings and attention weights')
  made.add_argument('--attention-dropout', type=float, default=None, help='on attention weights; unset: as --dropout')
  return made


def parsed(made: argparse.ArgumentParser) -> argparse.Namespace:
  """Return the command's options, with the dropout of attention weights that holds."""
  options = made.parse_args()
  if options.attention_dropout is None:
    options.attention_dropout = options.dropout
  return options
