"""The table of a search: every trial, the best first, with the commands that go on from it."""

import math
import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from checks.whole_files import write_whole
from corpora.config import HELD_OUT_BY_SEED
from options.configurations import as_overrides
from options.programs import python
from sweeps.search import DIVERGED, FINISHED, RUNNING, STOPPED, Journal, Trial, own_values
from sweeps.table import Table, as_markdown
from tasks.task import task_of

_ORDER = (FINISHED, STOPPED, RUNNING, DIVERGED)


def tabulate(journal: Journal, command: Sequence[str]) -> Table:
  """Return the table of the trials so far, of which at least one has finished.

  Args:
    journal: the search's.
    command: the command line that made the table.
  """
  assert journal.options.search is not None
  names = [one.option for one in journal.options.search.ranges]
  heads = ['trial', *names, 'validation loss', 'steps', 'minutes', 'outcome']
  place = lambda trial: (_ORDER.index(trial.state) if trial.state in _ORDER else len(_ORDER), _last_loss(trial), trial.number)
  cells = [[str(trial.number), *(str(trial.values[name]) for name in names), _loss(trial),
            '' if trial.step is None else f'{trial.step:,}', '' if trial.seconds is None else f'{trial.seconds / 60:.1f}',
            trial.state] for trial in sorted(journal.trials, key=place)]
  return Table(heads, cells, [*_notes(journal), f'Command: {shlex.join(command)}'])


def write(journal: Journal, table: Table) -> str:
  """Write search.md into the search's folder and return its path."""
  path = os.path.join(journal.options.workdir, 'search.md')
  write_whole(path, as_markdown(table))
  return path


def _last_loss(trial: Trial) -> float:
  """Return the loss by which trials of one outcome are sorted."""
  last = trial.loss if trial.loss is not None else trial.evaluations[-1][1] if trial.evaluations else math.inf
  return math.inf if math.isnan(last) else last


def _loss(trial: Trial) -> str:
  if trial.loss is not None:
    return f'{trial.loss:.4f}'
  return f'({trial.evaluations[-1][1]:.4f})' if trial.evaluations else ''


def _notes(journal: Journal) -> list[str]:
  best, options = journal.finished[0], journal.options
  row = options.rows[0]
  of_labels = task_of(row.config).texts == 'examples'
  notes = [f'Validation loss is -log p per {"example, of its label alone" if of_labels else "token"}, of the parameters that a '
           'finished run ends with. In brackets: at the last evaluation of a trial that was not finished.']
  before = next((trial for trial in journal.finished if trial.values == own_values(options)), None)
  assert best.loss is not None  # it has finished
  if before is best:
    notes.append(f'No trial was better than trial {best.number}, which has the configuration\'s own values: {best.loss:.4f}.')
  elif before is not None and before.loss is not None:
    notes.append(f'The configuration\'s own values (trial {before.number}): {before.loss:.4f}; the best (trial {best.number}): '
                 f'{best.loss:.4f}, a difference of {best.loss - before.loss:+.4f} between two runs of one seed.')
  train = [*row.overrides, *as_overrides(best.values)]
  notes.append('The best trial\'s run, trained anew: '
               + shlex.join([python(), 'train.py', f'--config={row.spec}', *train, '--workdir=runs/best']))
  kind = row.config['data']['kind']
  if best is not before and kind in HELD_OUT_BY_SEED:
    notes.append(f'Whether it is more than chance, several seeds of both would show; but of data.kind={kind} each seed holds out '
                 f'other lines: make a file for each split once, and take data.kind={HELD_OUT_BY_SEED[kind]}.')
  elif best is not before and (compared := _as_row(row.spec, best.values)):
    path = row.spec.partition(':')[0]
    notes.append('To see whether it is more than chance, several seeds of both: '
                 + shlex.join([python(), 'sweep.py', f'--config={path}', f'--rows={compared}', '--seeds=3', *row.overrides,
                               '--workdir=runs/compared']))
  return notes


def _as_row(spec: str, values: Mapping[str, Any]) -> str | None:
  """Return --rows for the configuration before and after; None where a value cannot stand there."""
  changes = [override.removeprefix('--config.') for override in as_overrides(values)]
  variant = spec.partition(':')[2]
  if any(sign in text for text in changes for sign in ',+'):
    return None
  return f'before={variant},after={variant}+{"+".join(changes)}'
