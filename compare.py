"""Compares translations of the same text: which is better, where, and whether that may be chance.

    python compare.py ref.de a.de b.de
    python compare.py ref1.de,ref2.de a.de b.de c.de --samples 2000

The first system is the baseline. Scores are sacreBLEU's, on raw text; p is the probability of so large a difference if
both were equally good, by paired bootstrap resampling (Koehn, 2004), and ± half of the middle 95 % of the resampled
scores. Then BLEU by length, and the sentences on which the last system differs most from the first.
"""

import argparse
import sys

from corpora import text_files
from decoding import comparison, scores
from options import command_line


def main(options: argparse.Namespace) -> int:
  """Reads, compares, prints; returns the exit code."""
  references = [text_files.read_lines(path) for path in options.reference.split(',')]
  systems = {path: text_files.read_lines(path) for path in options.systems}
  for path, lines in [*systems.items(), *zip(options.reference.split(',')[1:], references[1:])]:
    scores.check_counts(lines, references[0], path, options.reference.split(',')[0])
  print('\n'.join(report(systems, references, options.samples, options.sentences)))
  return 0


def report(systems: dict[str, list[str]], references: list[list[str]], samples: int, sentences: int) -> list[str]:
  """What there is to tell, line by line."""
  figures, signatures = comparison.compare(systems, references, samples)
  width = max(map(len, systems))
  lines = []
  for metric, found in figures.items():
    lines.append(metric)
    for name, figure in found.items():
      chance = '' if figure.p_value is None else f'  p = {figure.p_value:.4f}'
      lines.append(f'  {name:<{width}}  {figure.score:6.2f}  ({figure.mean:.2f} ± {figure.interval:.2f}){chance}')
  lines += [*signatures, '', f'BLEU by words of the reference ({" / ".join(systems)})']
  for name, count, found in comparison.by_length(systems, references[0]):
    lines.append(f'  {name:>7} words  {count:6,} sentences  ' + ' / '.join(f'{bleu:5.1f}' for bleu in found.values()))
  first, *_, last = systems
  lines += ['', f'Where {last} differs most from {first} (chrF)']
  for gain, place in comparison.most_different(systems[first], systems[last], references[0], sentences):
    lines += [f'  line {place + 1:,}: {gain:+.1f}', f'    reference  {references[0][place]}',
              f'    {first}  {systems[first][place]}', f'    {last}  {systems[last][place]}']
  return lines


def parse(arguments: list[str]) -> argparse.Namespace:
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument('reference', help='translations by people, one a line; several files separated by commas')
  parser.add_argument('systems', nargs='+', help='translations to compare, one a line; the first is the baseline')
  parser.add_argument('--samples', type=int, default=1000, help='resampled sets')
  parser.add_argument('--sentences', type=int, default=5, help='differing sentences that are shown')
  options = parser.parse_args(arguments)
  if len(set(options.systems)) < 2:
    parser.error(f'expected two different systems or more, found {" ".join(options.systems)}')
  if options.samples < 1 or options.sentences < 0:
    parser.error(f'--samples={options.samples} --sentences={options.sentences}: expected a positive number and 0 or more')
  return options


if __name__ == '__main__':
  command_line.run(main, parse(sys.argv[1:]))
