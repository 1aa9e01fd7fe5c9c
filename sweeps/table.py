"""A table like the paper's Table 3, from finished runs: a line for each row of the sweep, mean ± deviation over seeds.

Everything is read from the runs' own folders: config.json, environment.json and results.json. The task of the runs
decides which figures there are and how they are described: see tasks/.
"""

import os
import shlex
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from checks.errors import ConfigError
from checks.whole_files import write_whole
from configs import default
from options.configurations import LENGTHS, leaves, load_config
from options.sweep_options import SweepOptions
from sweeps.finished_rows import FinishedRun, Row
from training.json_files import as_written, write_json
from training.run_folder import MAY_CHANGE

# Options that may differ between two runs of one row, and that are not listed among a row's changes.
NOT_COMPARED = ('seed', 'compile_cache', 'data.cache_dir')
# Prefixes of the options that decide a model's size, and of those that decide what training makes of it.
OF_SIZE = ('model.', 'recurrent.', 'vocabulary.')
OF_TRAINING = (*OF_SIZE, 'optimizer.', 'train.', 'init_from')
# Of these, the options that change how something is computed, but not what.
COMPUTED_ALIKE = ('model.attention_kernel', 'model.scan_layers', 'model.remat', 'train.accumulation_steps',
                  'train.loss_chunks')


class Figure(NamedTuple):
  """How a figure of results.json is shown."""

  head: str
  digits: int = 3
  by: str = ''  # the program that computes it, where it is not this one


_FIGURES = {'bleu': Figure('BLEU', 1, 'sacreBLEU'), 'chrf': Figure('chrF', 1, 'sacreBLEU'),
            'bits_per_byte': Figure('bits per byte', 4)}


def figure(name: str) -> Figure:
  """Return how a figure is shown; unless _FIGURES has it, by its name in results.json."""
  return _FIGURES.get(name) or Figure(name.replace('_', ' '))


class Column(NamedTuple):
  """A column of the table."""

  head: str
  cell: Callable[[Row], str]


class Table(NamedTuple):
  """Cells, and the lines that say how to read them."""

  heads: list[str]
  cells: list[list[str]]
  notes: list[str]


# -------------------------------------------------------------------------------------------------------- the table


def tabulate(rows: Sequence[Row], options: SweepOptions, command: Sequence[str], left_out: Sequence[str] = ()) -> Table:
  """Return the table of finished rows.

  Args:
    rows: see finished_rows(); at least one.
    options: the sweep's; they name the figures of the literature, and the rows and seeds that were asked for.
    command: the command line that made the table.
    left_out: notes on runs that are not among the rows.
  """
  base = rows[0]
  columns = [
      Column('row', lambda row: row.name),
      Column(f'differs from {base.name} in', lambda row: changes(row, base)),
      Column('parameters', lambda row: ' / '.join(
          f'{count:,}' for count in sorted({run.results['parameters'] for run in row.runs}))),
      *_perplexities(rows),
      *(Column(figure(name).head, lambda row, name=name: spread(row.values(name), figure(name).digits))
        for name in dict.fromkeys(name for row in rows for run in row.runs for name in run.figures)),
      Column('seeds', lambda row: str(len(row.runs)))]
  notes = [*_missing(rows, options), *left_out, *_method(rows), *_mixtures(rows)]
  if options.published:
    notes += _beside_the_paper(columns, rows, options)
  notes.append(f'Command: {shlex.join(command)}')
  return Table([column.head for column in columns], [[column.cell(row) for column in columns] for row in rows], notes)


def spread(values: Sequence[float], digits: int) -> str:
  """Return '25.1 ± 0.3': mean and sample deviation (n - 1); for a single value, only the mean."""
  if not values:
    return ''
  mean = f'{statistics.fmean(values):.{digits}f}'
  return f'{mean} ± {statistics.stdev(values):.{digits}f}' if len(values) > 1 else mean


def per_what(results: Mapping[str, Any]) -> str:
  """Return the unit of a run's validation perplexity, 'token' or 'example', see evaluation.per_token."""
  return 'example' if 'examples' in results else 'token'


def _perplexities(rows: Sequence[Row]) -> list[Column]:
  values = lambda row, unit: [run.results['validation_perplexity'] for run in row.runs if per_what(run.results) == unit]
  units = dict.fromkeys(per_what(run.results) for row in rows for run in row.runs)
  return [Column(f'validation perplexity per {unit}', lambda row, unit=unit: spread(values(row, unit), 2))
          for unit in units]


def changes(row: Row, base: Row) -> str:
  """Return the options in which a row differs from the first: 'num_heads=1'. Those of the model lack their section."""
  ours, theirs = row.runs[0].config, base.runs[0].config
  return ', '.join(f'{name.removeprefix("model.")}={ours.get(name)}' for name in sorted(ours.keys() | theirs.keys())
                   if ours.get(name) != theirs.get(name) and name not in NOT_COMPARED)


def _missing(rows: Sequence[Row], options: SweepOptions) -> list[str]:
  done = {row.name: len(row.runs) for row in rows}
  lacking = [f'{row.name} ({done.get(row.name, 0)} of {options.seeds})' for row in options.rows
             if done.get(row.name, 0) < options.seeds]
  return [f'Not finished: {", ".join(lacking)}.'] if lacking else []


def _method(rows: Sequence[Row]) -> list[str]:
  """Return notes on the text, the method and the hardware of the figures; a line for each, if there are several."""
  runs = [run for row in rows for run in row.runs]
  machines = {f'{run.environment["cores"]} cores, {", ".join(sorted(set(run.environment["devices"])))}, '
              f'Python {run.environment["python"]}, jax {run.environment["packages"]["jax"]}, '
              f'commit {str(run.environment["commit"])[:8]}'
              f'{" with uncommitted changes" if run.environment["uncommitted_changes"] else ""}.' for run in runs}
  return ['± is the sample deviation over seeds. Perplexity counts word pieces of the run\'s own vocabulary, on its '
          'validation split.', *sorted(set(map(_scored, runs))), *sorted(machines)]


def _scored(run: FinishedRun) -> str:
  """Return a sentence on how a run was scored; it is the same for runs that were scored in the same way."""
  shown, results = figure(run.task.measure.name), run.results
  # The lines after the first of a task's description say how its figures were measured; chrF has no column.
  _, *how = run.task.describe({name: results[name] for name in results if name != 'chrf_signature'}).split('\n')
  how = [line.strip().removeprefix(f'on {results["test_set"]}: ') for line in how]
  of = [_search(results['search'])] if run.task.references else []  # only translations are searched for
  of.append(f'mean of {len(results["averaged_steps"])} checkpoint(s)'
            f'{" of the moving average" if _is_moving_average(run) else ""}')
  return (f'{shown.head} on {results["test_set"]}: {", ".join(filter(None, [shown.by, *how]))}; {", ".join(of)}, '
          f'{results["step"]:,} updates.')


def _search(search: Mapping[str, Any]) -> str:
  if search['strategy'] != 'beam':
    return f'by strategy {search["strategy"]}'
  return f'beam {search["beam_size"]}' if search['beam_size'] > 1 else 'greedy search'


def _is_moving_average(run: FinishedRun) -> bool:
  return bool(run.config.get('train.ema_decay'))  # runs older than the option lack it


def _mixtures(rows: Sequence[Row]) -> list[str]:
  """Return warnings where the table shows figures that do not compare."""
  warnings = []
  for row in rows:
    unlike = {name for run in row.runs for name in run.config if name not in NOT_COMPARED
              and run.config[name] != row.runs[0].config.get(name)}
    if unlike:
      warnings.append(f'Warning: the runs of {row.name} differ in {", ".join(sorted(unlike))}, not only in their seed.')
    if len({tuple(run.learnt_text) for run in row.runs}) > 1:
      warnings.append(f'Warning: the runs of {row.name} were trained or validated on different text, not only with another seed.')
    elif len({run.vocabularies for run in row.runs if run.vocabularies}) > 1:
      warnings.append(f'Warning: the runs of {row.name} have different vocabularies, though their options and text are the same.')
  if len({run.scored_text for row in rows for run in row.runs}) > 1:
    warnings.append('Warning: not all runs were scored on the same sentences; their scores do not compare.')
  elif len({tuple(run.learnt_text[1:]) for row in rows for run in row.runs}) > 1:
    warnings.append('Warning: not all runs were validated on the same text; their perplexities do not compare.')
  return warnings


# ------------------------------------------------------------------------------------------ beside the literature


def _beside_the_paper(columns: list[Column], rows: Sequence[Row], options: SweepOptions) -> list[str]:
  """Add the columns of the literature that compare; return notes on why others are left out."""
  unlike = {row.name: found for row in rows if row.name in options.published
            and (found := departures(row, options)) is not None}
  resized = {name: [option for option in found if option.startswith(OF_SIZE)] for name, found in unlike.items()}
  theirs = lambda figure, told: {name: told(options.published[name][figure]) for name in unlike
                                 if figure in options.published[name]}
  notes = _add_theirs(columns, 'parameters', 'the paper\'s', theirs('parameters', lambda count: f'{count / 1e6:.0f} M'),
                      resized)
  if reasons := sorted({reason for row in rows for run in row.runs for reason in incomparable(run)}):
    return [*notes, f'The paper\'s BLEU is left out, because it is not comparable: {"; ".join(reasons)}.']
  notes += _add_theirs(columns, 'BLEU', 'the paper\'s BLEU', theirs('bleu', lambda bleu: f'{bleu:.1f}'), unlike)
  if any(column.head == 'the paper\'s BLEU' for column in columns):
    notes.append('The paper\'s BLEU is of tokenised text; sacreBLEU on raw text is lower for the same translations.')
  return notes


def _add_theirs(columns: list[Column], ours: str, head: str, theirs: Mapping[str, str],
                unlike: Mapping[str, Sequence[str]]) -> list[str]:
  """Put a column of the literature after ours, filled where a row is the paper's own; return notes on the others.

  Args:
    columns: of the table; changed.
    ours: head of our column.
    head: of theirs.
    theirs: its cells, by row.
    unlike: for each row, the options in which it differs from the paper's.
  """
  cells = {name: cell for name, cell in theirs.items() if not unlike[name]}
  heads = [column.head for column in columns]
  if cells and ours in heads:
    columns.insert(heads.index(ours) + 1, Column(head, lambda row: cells.get(row.name, '')))
  names_by_options: dict[str, list[str]] = {}
  for name in theirs.keys() - cells.keys():
    names_by_options.setdefault(', '.join(unlike[name]), []).append(name)
  told = [f'{options} ({", ".join(sorted(names))})' for options, names in sorted(names_by_options.items())]
  return [f'The paper\'s {ours}: left out where our row differs from theirs, in {"; ".join(told)}.'] if told else []


def departures(row: Row, options: SweepOptions) -> list[str] | None:
  """Return the training options in which a row differs from the row of the same name in the configuration file.

  Returns None when the file has no row of that name.
  """
  try:
    variant = as_written(leaves(load_config(f'{options.path}:{row.name}')))
  except ConfigError:
    return None
  decides = lambda name: name.startswith(OF_TRAINING) and name not in COMPUTED_ALIKE and (
      name in (*LENGTHS, 'init_from') or name not in MAY_CHANGE)
  return sorted({name for run in row.runs for name in run.config.keys() & variant.keys()
                 if decides(name) and run.config[name] != variant[name]
                 and not (name in default.DECIDED and variant[name] is None)})


def incomparable(run: FinishedRun) -> list[str]:
  """Return why a run's BLEU does not compare with the paper's Table 3; empty when it does, or when it has no BLEU."""
  config, results = run.config, run.results
  wmt = (config['data.kind'] == 'tfds' and str(config['data.tfds_name']).startswith('wmt14_translate/de-en')
         and (config['data.source_language'], config['data.target_language']) == ('en', 'de'))
  search = results['search']
  found = [
      (wmt, 'theirs was trained on WMT14 English to German'),
      (results['test_set'].startswith('newstest2013'), f'theirs is of newstest2013, ours of {results["test_set"]}'),
      (search['strategy'] == 'beam' and search['beam_size'] > 1, 'theirs is of beam search'),
      (len(results['averaged_steps']) == 1, 'theirs is of one checkpoint, not of an average'),
      (not _is_moving_average(run), 'theirs is of the parameters as they were, not of their moving average')]
  return [reason for holds, reason in found if not holds] if 'bleu' in run.figures else []


# ----------------------------------------------------------------------------------------------------------- output


def as_text(table: Table) -> str:
  """Return the table as text for a terminal."""
  lines = [table.heads, *table.cells]
  widths = [max(len(line[i]) for line in lines) for i in range(len(table.heads))]
  aligned = ['  '.join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines]
  return '\n'.join([*aligned, '', *table.notes])


def as_markdown(table: Table) -> str:
  """Return the table as Markdown."""
  line = lambda cells: f'| {" | ".join(cell.replace("|", chr(92) + "|") for cell in cells)} |'
  return '\n'.join([line(table.heads), line(['---'] * len(table.heads)), *map(line, table.cells), '',
                    *(f'* {note}' for note in table.notes), ''])


def as_record(rows: Sequence[Row], table: Table) -> dict[str, Any]:
  """Return the table and each run's own results as JSON, for programs."""
  return {'table': [dict(zip(table.heads, cells)) for cells in table.cells], 'notes': table.notes,
          'runs': {row.name: {run.seed: run.results for run in row.runs} for row in rows}}


def write(workdir: str, rows: Sequence[Row], table: Table) -> None:
  """Write table.md and table.json into the sweep's folder."""
  write_whole(os.path.join(workdir, 'table.md'), as_markdown(table))
  write_json(os.path.join(workdir, 'table.json'), as_record(rows, table))
