"""Trains every row of a table with several seeds, one run after the other, and makes the table.

    python sweep.py --config=configs/table3.py --rows=base,A1,A4,E --seeds=3 --workdir=runs/table3
    python sweep.py --config=configs/multi30k.py --rows=quick --search --trials=20 --workdir=runs/search

Options of a run (--config.…) hold for all rows. The sweep can be stopped and killed: the same command skips finished
runs and resumes the others. With --print it prints the command of each run instead, one a line, to be run anywhere, in
any order, at the same time (a SLURM array, TPU pods); --table then makes the table. With --search it looks for the
values of options that give the lowest validation loss, in the ranges of --ranges or of SEARCH in the configuration file.
"""

import os
import sys

from checks import children, startup

if __name__ == '__main__':
  startup.begin()  # before the seconds that the imports below take

from options import programs, sweep_options

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')  # hides XLA's notes to its developers; its errors still show
# --help and mistaken flags are answered here, before the seconds that the imports below take.
OPTIONS = sweep_options.parse(sys.argv, __doc__) if __name__ == '__main__' else None

from sweeps import finished_rows, queue  # noqa: E402
from sweeps import table as ablation_table  # noqa: E402


def main(options: sweep_options.SweepOptions) -> int:
  """Train the runs and make the table; return 1 when a run failed or none is finished, else 0."""
  if options.search:
    return search_values(options)
  if not options.table_only:
    queue.check(options)
  runs = queue.queue(options)
  if options.print_commands:
    print('\n'.join(run.typed for run in runs))
    return 0
  try:
    failed = [] if options.table_only else queue.work_off(runs, say)
  except children.Stopped as stop:
    print(stop, file=sys.stderr)
    return stop.exit_code
  rows, left_out = finished_rows.finished_rows(options.workdir, {row.name: row.config for row in options.rows}, options.order)
  if not rows:
    print('\n'.join([*left_out, f'No run in {options.workdir} that was asked for is finished yet: there is nothing to make '
                     'a table of.']), file=sys.stderr)
    return 1
  table = ablation_table.tabulate(rows, options, [programs.python(), *sys.argv], left_out)
  ablation_table.write(options.workdir, rows, table)
  print(f'\n{ablation_table.as_text(table)}\n\nWritten: {os.path.join(options.workdir, "table.md")}, table.json')
  if options.by_length:
    asked = {row.name for row in options.rows}
    tabulate_lengths(options, [row for row in rows if row.name in asked and row.runs[0].task.references])
  return 1 if failed else 0


def search_values(options: sweep_options.SweepOptions) -> int:
  """Train the trials of a search and make the table of all; return 1 when none is finished, else 0."""
  from sweeps import search, search_table
  try:
    if options.table_only:
      journal = search.read(options)
    else:
      search.check(options)
      journal = search.search(options, say)
  except children.Stopped as stop:
    print(stop, file=sys.stderr)
    return stop.exit_code
  if not journal.finished:
    print(f'No trial in {options.workdir} is finished: there is nothing to make a table of.', file=sys.stderr)
    return 1
  table = search_table.tabulate(journal, [programs.python(), *sys.argv])
  print(f'\n{ablation_table.as_text(table)}\n\nWritten: {search_table.write(journal, table)}, {journal.path}')
  return 0


def tabulate_lengths(options: sweep_options.SweepOptions, rows: list[finished_rows.Row]) -> None:
  """Write and print BLEU by sentence length, as in Figure 2 of Bahdanau et al. (2015)."""
  from sweeps import length_curve
  curves = length_curve.measure(rows)
  length_curve.write(options.workdir, curves)
  print(f'\n{length_curve.as_text(curves)}\n\nWritten: {os.path.join(options.workdir, "by_length.png")}, by_length.md, '
        'by_length.json')


def say(text: str) -> None:
  """Print a line about a run, and flush it."""
  print(text, flush=True)


if __name__ == '__main__':
  programs.run(lambda: main(OPTIONS))
