"""BLEU by sentence length, as in Figure 2 of Bahdanau et al. (2015), which shows that attention helps long sentences.

Each run's translations of its test split (samples/test_translations.txt) are scored in groups of sentences of similar
length, counted in words of the source.
"""

import functools
import os
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

from checks.errors import DataError
from checks.whole_files import whole, write_whole
from corpora import loading
from corpora.splits import Pair
from decoding import scores
from decoding.length_groups import Group, group_by_length
from sweeps.finished_rows import FinishedRun, Row
from sweeps.table import Table, as_markdown, spread
from sweeps.table import as_text as table_as_text
from tasks import setup
from training.json_files import write_json


class Curves(NamedTuple):
  """BLEU of each row's runs on each group."""

  groups: list[Group]
  bleu: dict[str, list[list[float]]]  # row -> group -> run
  test_set: str
  signature: str


def measure(rows: Sequence[Row]) -> Curves:
  """Return the BLEU of every finished run by length.

  Raises:
    DataError: when runs were scored on different sentences, or the corpus has changed since.
  """
  if not rows:
    raise DataError('none of the rows asked for has a finished run')
  first = rows[0].runs[0]
  for run in (run for row in rows for run in row.runs):
    if run.scored_text != first.scored_text:
      raise DataError(f'{run.folder.path} was scored on other sentences than {first.folder.path}; give --rows of one text '
                      'and direction')
  groups = group_by_length([len(pair.source.split()) for pair in _examined_by(first)])
  bleu = {row.name: [list(values) for values in zip(*(_by_group(run, groups) for run in row.runs))] for row in rows}
  return Curves(groups, bleu, first.results['test_set'], first.results['signature'])


def _by_group(run: FinishedRun, groups: Sequence[Group]) -> list[float]:
  """Return a run's BLEU on each group."""
  pairs = _examined_by(run)
  path = os.path.join(run.folder.samples, 'test_translations.txt')
  with open(path, encoding='utf-8', newline='\n') as file:
    translations = file.read().split('\n')[:-1]
  scores.check_counts(translations, pairs, path, run.results['test_set'])
  language = scores.language_of((pair.source for pair in pairs), run.config['data.target_language'])
  return [scores.corpus_scores([translations[i] for i in group.places],
                               [pairs[i].target for i in group.places], language=language)['bleu'] for group in groups]


def _examined_by(run: FinishedRun) -> list[Pair]:
  """Return the pairs that a run was scored on, read again as its configuration says."""
  pairs, fingerprint = _examined(setup.of_folder(run.folder).corpus)
  if fingerprint != run.scored_text:
    raise DataError(f'{run.folder.path} was scored on {run.results["test_set"]}, whose text has changed since; '
                    'BLEU by length needs the same text')
  return pairs


@functools.lru_cache(maxsize=4)
def _examined(config: loading.CorpusConfig) -> tuple[list[Pair], str]:
  corpus = loading.load(config)
  split = corpus.tests[0] if corpus.tests else corpus.validation
  return list(split), split.fingerprint


# ----------------------------------------------------------------------------------------------------------- output


def as_table(curves: Curves) -> Table:
  """Return a table with a line for each group."""
  heads = ['words of the source', 'sentences', *curves.bleu]
  cells = [[group.name, f'{len(group.places):,}', *(spread(values[i], 1) for values in curves.bleu.values())]
           for i, group in enumerate(curves.groups)]
  return Table(heads, cells, [f'BLEU on {curves.test_set} by source length, mean ± sample deviation over seeds: '
                              f'sacreBLEU, {curves.signature}.'])


def as_text(curves: Curves) -> str:
  """Return the table as text for a terminal."""
  return table_as_text(as_table(curves))


def as_record(curves: Curves) -> dict[str, Any]:
  """Return the BLEU of every run as JSON, for programs."""
  groups = [{'shortest': group.shortest, 'longest': group.longest, 'sentences': len(group.places)}
            for group in curves.groups]
  return {'test_set': curves.test_set, 'signature': curves.signature, 'groups': groups, 'bleu': curves.bleu}


def write(workdir: str, curves: Curves) -> None:
  """Write by_length.md, by_length.json and by_length.png into the sweep's folder."""
  write_whole(os.path.join(workdir, 'by_length.md'), as_markdown(as_table(curves)))
  write_json(os.path.join(workdir, 'by_length.json'), as_record(curves))
  draw(curves, os.path.join(workdir, 'by_length.png'))


def draw(curves: Curves, path: str) -> None:
  """Draw the figure: a line for each row, with the deviation over its seeds as bars."""
  from matplotlib.figure import Figure  # slow to import; unlike pyplot, it keeps no global state
  figure = Figure(figsize=(7, 4.5), dpi=150, layout='constrained')
  axes = figure.add_subplot()
  places = [(group.shortest + group.longest) / 2 for group in curves.groups]
  for name, groups in curves.bleu.items():
    deviations = [statistics.stdev(values) if len(values) > 1 else 0.0 for values in groups]
    axes.errorbar(places, [statistics.fmean(values) for values in groups], deviations, label=name, marker='o',
                  markersize=4, capsize=3)
  axes.set_xticks(places, [f'{group.name}\n({len(group.places):,})' for group in curves.groups])
  axes.set_xlabel('words of the source (sentences)')
  axes.set_ylabel(f'BLEU on {curves.test_set}')
  axes.grid(alpha=0.3)
  figure.legend(loc='outside right upper')  # beside the lines, however many there are
  with whole(path) as file:
    figure.savefig(file, format='png')
