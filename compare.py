"""Compares translations of the same text: which is better, where, and whether that may be chance.

    python compare.py ref.de a.de b.de
    python compare.py ref1.de,ref2.de a.de b.de c.de --samples 2000

The first system is the baseline. Scores are sacreBLEU's, on raw text, and so is p, by paired bootstrap resampling (Koehn,
2004): the share of resampled sets whose difference exceeds their mean by more than the one found. That is one side; a test of
both has about twice as much. ± is half the width of the middle 95 % of the resampled scores. BLEU by length follows, and
the sentences on which the last system differs most from the first.
Of several references, the first one's words say how long a sentence is; all of them are scored against.
"""

import sys

from checks import startup

if __name__ == '__main__':
  startup.begin()  # before the seconds that the imports below take

from options import compare_options, programs

# --help and mistaken flags are answered here, before the seconds that the imports below take.
OPTIONS = compare_options.parse(sys.argv, __doc__) if __name__ == '__main__' else None

from checks.errors import DataError  # noqa: E402
from corpora import text_files  # noqa: E402
from decoding import comparison, scores  # noqa: E402


def main(options: compare_options.CompareOptions) -> int:
  """Read the files, print the comparison, and return the exit code."""
  references = [text_files.read_lines(path) for path in options.references]
  if not references[0]:
    raise DataError(f'{options.references[0]} is empty; expected a line for each translation')
  systems = {path: text_files.read_lines(path) for path in options.systems}
  for path, lines in [*systems.items(), *zip(options.references[1:], references[1:])]:
    scores.check_counts(lines, references[0], path, options.references[0])
  text = '\n'.join(report(systems, references, options))
  print(text.encode('utf-8', 'backslashreplace').decode())  # names of files may be no UTF-8
  return 0


def report(systems: dict[str, list[str]], references: list[list[str]], options: compare_options.CompareOptions
           ) -> list[str]:
  """Return the lines of the comparison."""
  figures, signatures = comparison.compare(systems, references, options.samples, options.language)
  width = max(map(len, systems))
  lines = []
  for metric, found in figures.items():
    lines.append(metric)
    for name, figure in found.items():
      chance = '' if figure.p_value is None else f'  p = {figure.p_value:.4f}'
      lines.append(f'  {name:<{width}}  {figure.score:6.2f}  ({figure.mean:.2f} ± {figure.interval:.2f}){chance}')
  of = 'the reference' if len(references) == 1 else 'the first reference'
  unit = 'words' if scores.writes_spaces(options.language) else 'characters'
  lines += [*signatures, '', f'BLEU by {unit} of {of} ({" / ".join(systems)})']
  for name, count, found in comparison.by_length(systems, references, options.language):
    lines.append(f'  {name:>7} {unit}  {count:6,} sentences  ' + ' / '.join(f'{bleu:5.1f}' for bleu in found.values()))
  first, *_, last = systems
  lines += ['', f'Where {last} differs most from {first} (chrF)']
  for gain, place in comparison.most_different(systems[first], systems[last], references, options.sentences):
    lines += [f'  line {place + 1:,}: {gain:+.1f}', *(f'    reference  {known[place]}' for known in references),
              f'    {first}  {systems[first][place]}', f'    {last}  {systems[last][place]}']
  return lines


if __name__ == '__main__':
  programs.run(lambda: main(OPTIONS))
