"""A table like the paper's Table 3 out of finished runs: a row of the sweep a line, mean ± deviation over its seeds.

Everything is read from the runs' own folders: config.json, environment.json and results.json.
"""

import os
import re
import shlex
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from experiment.command_line import SweepOptions
from experiment.run_folder import RunFolder, read_json, write_json

# What may differ between two runs of one row, and is no part of what a row changes.
NOT_COMPARED = ('seed', 'compile_cache', 'data.cache_dir')


class FinishedRun(NamedTuple):
  """What a run's folder says."""

  folder: RunFolder
  seed: int
  config: dict[str, Any]  # options by dotted name
  results: dict[str, Any]
  environment: dict[str, Any]


class Row(NamedTuple):
  """The finished runs of one row."""

  name: str
  runs: list[FinishedRun]

  def figures(self, name: str) -> list[float]:
    """A figure of each run that has it."""
    return [run.results[name] for run in self.runs if run.results.get(name) is not None]


class Column(NamedTuple):
  """A column of the table."""

  head: str
  cell: Callable[[Row], str]


class Table(NamedTuple):
  """Cells, and the lines that say how to read them."""

  heads: list[str]
  cells: list[list[str]]
  notes: list[str]


# ------------------------------------------------------------------------------------------------ from the folders


def finished_rows(workdir: str, wanted: Sequence[str], order: Sequence[str] = ()) -> list[Row]:
  """The rows of a sweep's folder that have finished runs: those asked for first, then what else lies there.

  Args:
    workdir: the sweep's folder.
    wanted: names of rows.
    order: how the rest is sorted; names outside of it come last.
  """
  names = [entry.name for entry in os.scandir(workdir) if entry.is_dir()] if os.path.isdir(workdir) else []
  place = {name: number for number, name in enumerate(dict.fromkeys([*wanted, *order]))}
  rows = [Row(name, _finished_runs(os.path.join(workdir, name)))
          for name in sorted(names, key=lambda name: (place.get(name, len(place)), name))]
  return [row for row in rows if row.runs]


def _finished_runs(folder: str) -> list[FinishedRun]:
  seeds = sorted(int(match[1]) for entry in os.scandir(folder) if (match := re.fullmatch(r'seed_(\d+)', entry.name)))
  runs = [(seed, RunFolder(os.path.join(folder, f'seed_{seed}'))) for seed in seeds]
  return [FinishedRun(run, seed, _flat(run.read_config()), read_json(run.results), read_json(run.environment))
          for seed, run in runs if os.path.isfile(run.results)]


def _flat(tree: Mapping[str, Any], prefix: str = '') -> dict[str, Any]:
  flat = {}
  for name, value in tree.items():
    flat |= _flat(value, f'{prefix}{name}.') if isinstance(value, dict) else {f'{prefix}{name}': value}
  return flat


# -------------------------------------------------------------------------------------------------------- the table


def tabulate(rows: Sequence[Row], options: SweepOptions, command: Sequence[str]) -> Table:
  """The table of finished rows. There must be one.

  Args:
    rows: see finished_rows().
    options: the sweep's; for what the literature reports, and what is asked for and missing.
    command: the command line that asks for it.
  """
  base = rows[0]
  columns = [
      Column('row', lambda row: row.name),
      Column(f'differs from {base.name} in', lambda row: changes(row, base)),
      Column('parameters', lambda row: ' / '.join(f'{count:,}' for count in sorted(set(row.figures('parameters'))))),
      Column('validation perplexity per token', lambda row: spread(row.figures('validation_perplexity'), 2)),
      Column('BLEU', lambda row: spread(row.figures('bleu'), 1)),
      *(Column(name.replace('_', ' '), lambda row, name=name: spread(row.figures(name), 3)) for name in accuracies(rows)),
      Column('seeds', lambda row: str(len(row.runs)))]
  notes = [*_missing(rows, options), *_method(rows), *_mixtures(rows)]
  if options.published:
    notes += _beside_the_paper(columns, rows, options)
  notes.append(f'Command: {shlex.join(command)}')
  return Table([column.head for column in columns], [[column.cell(row) for column in columns] for row in rows], notes)


def spread(values: Sequence[float], digits: int) -> str:
  """'25.1 ± 0.3': mean and sample deviation (n - 1); the mean alone of a single value."""
  if not values:
    return ''
  mean = f'{statistics.fmean(values):.{digits}f}'
  return f'{mean} ± {statistics.stdev(values):.{digits}f}' if len(values) > 1 else mean


def accuracies(rows: Sequence[Row]) -> list[str]:
  """Further figures of the corpus, such as pronoun_accuracy."""
  return sorted({name for row in rows for run in row.runs for name in run.results if name.endswith('_accuracy')})


def changes(row: Row, base: Row) -> str:
  """Options in which a row differs from the first one: 'num_heads=1'. Those of the model go without their section."""
  ours, theirs = row.runs[0].config, base.runs[0].config
  return ', '.join(f'{name.removeprefix("model.")}={ours.get(name)}' for name in sorted(ours.keys() | theirs.keys())
                   if ours.get(name) != theirs.get(name) and name not in NOT_COMPARED)


def _missing(rows: Sequence[Row], options: SweepOptions) -> list[str]:
  done = {row.name: len(row.runs) for row in rows}
  lacking = [f'{row.name} ({done.get(row.name, 0)} of {options.seeds})' for row in options.rows
             if done.get(row.name, 0) < options.seeds]
  return [f'Not finished: {", ".join(lacking)}.'] if lacking else []


def _method(rows: Sequence[Row]) -> list[str]:
  """On what, how and with what the figures were measured; a line for each way if there are several."""
  runs = [run for row in rows for run in row.runs]
  search = lambda run: (f'beam {run.results["search"]["beam_size"]}' if run.results['search']['beam_size'] > 1
                        else 'greedy search')
  scored = {f'BLEU on {run.results["test_set"]}: sacreBLEU, {run.results["signature"]}; {search(run)}, '
            f'mean of {len(run.results["averaged_steps"])} checkpoint(s), {run.results["step"]:,} updates.'
            for run in runs}
  machines = {f'{run.environment["cores"]} cores, {", ".join(sorted(set(run.environment["devices"])))}, '
              f'Python {run.environment["python"]}, jax {run.environment["packages"]["jax"]}, '
              f'commit {str(run.environment["commit"])[:8]}'
              f'{" with uncommitted changes" if run.environment["uncommitted_changes"] else ""}.' for run in runs}
  return ['± is the sample deviation over seeds. Perplexity counts word pieces of the run\'s own vocabulary, on its '
          'validation split.', *sorted(scored), *sorted(machines)]


def _mixtures(rows: Sequence[Row]) -> list[str]:
  """Warnings where figures stand together that do not compare."""
  warnings = []
  for row in rows:
    unlike = {name for run in row.runs for name in run.config if name not in NOT_COMPARED
              and run.config[name] != row.runs[0].config.get(name)}
    if unlike:
      warnings.append(f'Warning: the runs of {row.name} differ in {", ".join(sorted(unlike))}, not only in their seed.')
  texts = {tuple(run.environment['data'].values())[-1] for row in rows for run in row.runs}
  if len(texts) > 1:
    warnings.append('Warning: not all runs were scored on the same sentences; their BLEU does not compare.')
  return warnings


# ------------------------------------------------------------------------------------------ beside the literature


def _beside_the_paper(columns: list[Column], rows: Sequence[Row], options: SweepOptions) -> list[str]:
  """Adds the columns of the literature that compare; the notes say of those left out why."""
  published = lambda row, name: options.published.get(row.name, {}).get(name)
  notes = []
  if resized := [name for name in options.shared if name.startswith('model.')]:
    notes.append(f'The paper\'s parameters are left out: all rows were given another {", ".join(resized)}.')
  else:
    columns.insert(3, Column('the paper\'s', lambda row: f'{published(row, "parameters") / 1e6:.0f} M'
                             if published(row, 'parameters') else ''))
  if reasons := sorted({reason for row in rows for run in row.runs for reason in incomparable(run)}):
    notes.append(f'The paper\'s BLEU is left out, for it is another measure: {"; ".join(reasons)}.')
  else:
    place = next(place for place, column in enumerate(columns) if column.head == 'BLEU')
    columns.insert(place + 1, Column('the paper\'s BLEU', lambda row: f'{published(row, "bleu"):.1f}'
                                     if published(row, 'bleu') else ''))
    notes.append('The paper\'s BLEU is of tokenised text; sacreBLEU on raw text is lower for the same translations.')
  return notes


def incomparable(run: FinishedRun) -> list[str]:
  """Why a run's BLEU cannot stand beside that of the paper's Table 3; empty when it can."""
  config, results = run.config, run.results
  wmt = (config['data.kind'] == 'tfds' and str(config['data.tfds_name']).startswith('wmt14_translate/de-en')
         and (config['data.source_language'], config['data.target_language']) == ('en', 'de'))
  found = [
      (wmt, 'theirs was trained on WMT14 English to German'),
      (results['test_set'].startswith('newstest2013'), f'theirs is of newstest2013, ours of {results["test_set"]}'),
      (results['search']['beam_size'] > 1, 'theirs is of beam search'),
      (len(results['averaged_steps']) == 1, 'theirs is of one checkpoint, not of an average')]
  return [reason for holds, reason in found if not holds]


# ------------------------------------------------------------------------------------------------- to be looked at


def as_text(table: Table) -> str:
  """For a terminal."""
  lines = [table.heads, *table.cells]
  widths = [max(len(line[i]) for line in lines) for i in range(len(table.heads))]
  aligned = ['  '.join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines]
  return '\n'.join([*aligned, '', *table.notes])


def as_markdown(table: Table) -> str:
  """For a document."""
  line = lambda cells: f'| {" | ".join(cell.replace("|", chr(92) + "|") for cell in cells)} |'
  return '\n'.join([line(table.heads), line(['---'] * len(table.heads)), *map(line, table.cells), '',
                    *(f'* {note}' for note in table.notes), ''])


def as_record(rows: Sequence[Row], table: Table) -> dict[str, Any]:
  """For a program: the table, and beside it each run's own results."""
  return {'table': [dict(zip(table.heads, cells)) for cells in table.cells], 'notes': table.notes,
          'runs': {row.name: {run.seed: run.results for run in row.runs} for row in rows}}


def write(workdir: str, rows: Sequence[Row], table: Table) -> None:
  """table.md and table.json in the sweep's folder."""
  with open(os.path.join(workdir, 'table.md'), 'w', encoding='utf-8') as file:
    file.write(as_markdown(table))
  write_json(os.path.join(workdir, 'table.json'), as_record(rows, table))
