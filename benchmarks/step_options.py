"""The options that benchmarks of a training step share: train_step.py's and its counterpart's in another environment.

This file imports nothing of the project, since that environment has none of its packages.
"""

import argparse


def parser(doc: str | None) -> argparse.ArgumentParser:
  """Return a parser of the sizes of the model and of the work; `doc` heads its help."""
  made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
  for name, default, text in (
      ('d-model', 256, 'width'), ('layers', 3, 'of the encoder and of the decoder'), ('heads', 4, 'of attention'),
      ('d-ff', 1024, 'inner width'), ('vocab', 8000, 'entries of the joint vocabulary'), ('batch', 64, 'sentences'),
      ('length', 32, 'tokens of a sentence on each side'), ('steps', 10, 'times taken'), ('warmup', 3, 'untimed'),
      ('together', 1, 'steps to a time: an accelerator is handed the next ones while it computes, as in training')):
    made.add_argument(f'--{name}', type=int, default=default, help=text)
  return made
