"""Alignment error rate of a trained run's attention against the phrasebook's own alignments (Och & Ney, 2003).

    python -m benchmarks.alignment_error --workdir=runs/bahdanau

The test split's targets are given to the decoder (teacher forcing), and each word is linked to the source word that has
most of its attention, averaged over a layer's heads. `diagonal` is a baseline that reads only lengths. 0 is best.
"""

import argparse
import json

import numpy as np

import tasks
from checks.errors import ConfigError
from corpora.phrasebook import builder, grammar
from decoding import alignments
from options import programs
from training.run_folder import RunFolder


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument('--workdir', required=True, help='folder of a run on the phrasebook')
  parser.add_argument('--checkpoint', default='final', help='final, best, latest, average:N or the number of a step')
  options = parser.parse_args()
  data = RunFolder.open(options.workdir).read_config()['data']
  if data['kind'] != 'phrasebook':
    raise ConfigError(f'{options.workdir} was trained on data.kind={data["kind"]}, which has no known '
                                   'alignments; expected phrasebook')
  print(json.dumps(measure(options.workdir, options.checkpoint, data)))


def measure(workdir: str, checkpoint: str, data: dict) -> dict[str, float]:
  """Measure the error rates of each layer and of the diagonal."""
  translator = tasks.load(workdir, checkpoint)
  languages = data['source_language'], data['target_language']
  examples = builder.examples('test')
  turn = slice(None) if languages == builder.LANGUAGES else slice(None, None, -1)  # links are English, German
  gold = [{tuple(map(int, link[turn])) for link in example['alignment']} for example in examples]
  pairs = [tuple(example[language] for language in languages) for example in examples]
  words = [[grammar.tokens(text) for text in pair] for pair in pairs]
  _, *vocabularies = translator.parts
  places = [[alignments.words_of_pieces(alignments.surfaces_of_text(vocabulary, text), spelt)
             for vocabulary, text, spelt in zip(vocabularies, pair, both)] for pair, both in zip(pairs, words)]
  seen = list(alignments.attention(translator, pairs))
  if not seen[0]:
    raise ConfigError(f'{workdir} is a run of a model without attention, which aligns nothing')
  rates = {f'layer_{n + 1}': alignments.error_rate(
      [alignments.word_links(layers[n].mean(0), *place) for layers, place in zip(seen, places)], gold)
           for n in range(len(seen[0]))}
  diagonal = [alignments.diagonal_links(*map(len, both)) for both in words]
  return {'sentences': len(pairs), **{name: round(float(rate), 4) for name, rate in rates.items()},
          'diagonal': round(alignments.error_rate(diagonal, gold), 4), 'mean_links': round(
              float(np.mean([len(links) for links in gold])), 2)}


if __name__ == '__main__':
  programs.run(main)
