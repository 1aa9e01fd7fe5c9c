"""Make cards of finished runs, and write the ledger of all shipped configurations from the cards.

    python -m benchmarks.ledger add runs/phrasebook …     # a card of each run, benchmarks/cards/<config>-<variant>-<seed>.json
    python -m benchmarks.ledger                           # docs/ledger.md, and the README's table of results

A run's folder says which configuration it is of; options that were set otherwise are listed with it. A run that is not
finished, or of which a file is damaged, is refused, and then nothing is written. tests/test_ledger.py holds that the
documents say what the cards have, and that each shipped configuration has a row.
"""

import argparse
import os
import pathlib
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks import documents, run_cards
from benchmarks.documents import ROOT, markdown_table
from benchmarks.run_cards import Card
from checks.errors import ConfigError, DamagedError
from checks.whole_files import write_whole
from options import programs
from options.configurations import shipped_variants
from options.mistakes import listed
from sweeps.finished_rows import figures_of
from sweeps.table import figure

LEDGER, README = ROOT / 'docs' / 'ledger.md', ROOT / 'README.md'
NOT_RUN = 'not run'
# Sweeps, whose rows have tables of their own; the README leaves them out.
_SWEEPS = ('ablation', 'table3')
_HEADS = ('configuration', 'score', 'steps', 'hours', 'hardware and versions', 'data', 'commit', 'command', 'seeds')
_INTRODUCTION = """# The ledger: every shipped configuration, and what it reached

Each configuration and variant in `configs/` has a row: what a run of it reached, or "not run" where no run has a card.
The rows are written by `python -m benchmarks.ledger` from one card for each run, which the last column links: a small
file in `benchmarks/cards/` with what `config.json`, `environment.json` and `results.json` of the run's folder say. To add
runs of yours:

    python -m benchmarks.ledger add runs/phrasebook runs/seed1 runs/seed2

How to read a row:

* Runs that differ in nothing but their seed share a row, with mean (lowest–highest); one number where these are the same.
* Scores are of whole test sets, in the order of the run; behind them stand sacreBLEU's signatures.
* Hours are by the run's own clock, for each hardware apart: compiling and evaluating count, the final scores do not. On
  processors, other work may have shared the cores. Cores are those that the run might use; of runs up to 26 November
  2026, those of its machine.
* A hash is the first twelve digits of the SHA-256 that the run found for a split of its text.
* A commit is that of the code at the run's start; "changed" where the code had changes that were not committed.
* Options with which a run departs from its configuration stand behind "with". Paths outside of the repository are
  shortened to their last part, as in `…/multi30k`.
* An arrow stands between the machines, versions or commits of one run that was stopped and went on elsewhere; a semicolon
  between the machines of different runs, in the same order in "hours" and "hardware".

"Not run" means that no run has a card. Figures of runs without one stand in [benchmarks/RESULTS.md](../benchmarks/RESULTS.md),
on the page of their subject ([fine-tuning](fine_tuning.md), [domain](domain.md), [ablations](ablations.md)) or in the
docstring of the configuration.
"""


class Row(NamedTuple):
  """The cards of one configuration that differ in their seed alone; without cards, it has not been run."""

  spec: str  # as --config takes it
  overrides: Mapping[str, Any]
  cards: Sequence[Card]

  @property
  def is_as_shipped(self) -> bool:
    """Whether the runs depart from the configuration in nothing, but for the run that they started from."""
    return not self.overrides.keys() - {'init_from'}


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  commands = parser.add_subparsers(dest='command', metavar='add')
  adding = commands.add_parser('add', help='make cards of finished runs, then write the documents')
  adding.add_argument('runs', nargs='+', metavar='RUN', help='folder of a finished run')
  options = parser.parse_args()
  if options.command == 'add':
    add(options.runs)
  for path, text in documents_of(run_cards.read_cards()).items():
    write_whole(str(path), text)
    print(f'Written: {os.path.relpath(path)}')


def add(runs: Sequence[str]) -> None:
  """Write the card of each run; of none, when one of them is refused.

  Raises:
    ConfigError: naming every run that is not finished, damaged, or has the card of another.
  """
  known, made, mistakes = run_cards.read_cards(), {}, []
  for run in runs:
    try:
      card = run_cards.card_of(run)
    except (ConfigError, DamagedError) as error:
      mistakes.append(str(error))
      continue
    if (there := known.get(card.name) or made.get(card.name)) and there.data['texts'] != card.data['texts']:
      card = card.named_by_text()
    if card.name in made:
      mistakes.append(f'{run} and another of the runs would both have the card {card.name}: same configuration and seed')
    there = known.get(card.name, card)
    if there.overrides != card.overrides:
      mistakes.append(f'{run} and the run whose card is {card.name} differ in other options than their names tell '
                      f'({card.overrides} and {there.overrides}); take that card out first if it is to be replaced')
    made[card.name] = card
  if mistakes:
    raise ConfigError(listed(mistakes))
  run_cards.FOLDER.mkdir(exist_ok=True)
  for name, card in made.items():
    path = run_cards.FOLDER / name
    print(f'{"Replaced" if path.exists() else "Written"}: {os.path.relpath(path)}')
    write_whole(str(path), run_cards.as_file(card))


def documents_of(cards: Mapping[str, Card]) -> dict[pathlib.Path, str]:
  """Return the text of each document that tells of cards, by its path."""
  found = rows(cards)
  readme = documents.filled(README.read_text(encoding='utf-8'), {'results': short_table(found)}, README, 'ledger')
  return {LEDGER: f'{_INTRODUCTION}{markdown_table(_HEADS, map(_cells, found))}', README: readme}


def rows(cards: Mapping[str, Card]) -> list[Row]:
  """Return the rows of the ledger: for each shipped configuration its runs, or one without cards; then others of it."""
  groups: dict[str, list[Card]] = {}
  for card in cards.values():
    groups.setdefault(repr((card.spec, card.overrides, card.data['texts'])), []).append(card)
  found = [Row(group[0].spec, group[0].overrides, sorted(group, key=lambda card: card.seed)) for group in groups.values()]
  ordered = []
  for config, variant in shipped_variants():
    spec = f'configs/{config}.py' + (f':{variant}' if variant else '')
    own = sorted((row for row in found if row.spec == spec), key=lambda row: (not row.is_as_shipped, repr(row.overrides)))
    ordered += own if own and own[0].is_as_shipped else [Row(spec, {}, ()), *own]
  return ordered


def short_table(found: Sequence[Row]) -> str:
  """Return the README's table: the shipped configurations that were run, without the rows of sweeps."""
  wanted = [row for row in found if row.cards and row.is_as_shipped and row.cards[0].config not in _SWEEPS]
  if not wanted:
    return 'No run but those of sweeps has a card yet.\n'
  cells = [[_name(row), _scores(row, signatures=False), _steps(row),
            _hours(row), _hardware(row, versions=False), str(len(row.cards))] for row in wanted]
  return markdown_table(('configuration', 'score', 'steps', 'hours', 'hardware', 'seeds'), cells)


# --------------------------------------------------------------------------------------------------------- cells


def _cells(row: Row) -> list[str]:
  if not row.cards:
    return [_name(row), NOT_RUN, *[''] * (len(_HEADS) - 2)]
  links = [f'[{card.seed}](../benchmarks/cards/{card.name})' for card in row.cards]
  return [_name(row), _scores(row), _steps(row), _hours(row), _hardware(row), _data(row),
          _each(_commits(card) for card in row.cards), f'`{_escaped(row.cards[0].command)}`', ', '.join(links)]


def _name(row: Row) -> str:
  changes = ', '.join(f'`{_escaped(f"{name}={value}")}`' for name, value in row.overrides.items())
  return f'`{row.spec}`' + (f' with {changes}' if changes else '')


def _scores(row: Row, signatures: bool = True) -> str:
  sets = dict.fromkeys(name for card in row.cards for name in card.scores)
  return '<br>'.join(f'{name}: {_scores_of_set(row.cards, name, signatures)}' for name in sets)


def _scores_of_set(cards: Sequence[Card], name: str, signatures: bool) -> str:
  """Return the figures on a test set, such as 'BLEU 76.3 (75.0–77.1)', and how they were measured."""
  found = [card.scores[name] for card in cards if name in card.scores]
  wanted = figures_of(found[0], cards[0].measure)
  wanted[1:1] = ['chrf'] if 'chrf' in found[0] else []
  told = [f'{figure(each).head} {spread([scores[each] for scores in found], figure(each).digits)}' for each in wanted
          if all(each in scores for scores in found)]
  if papers := [scores['paper_bleu'] for scores in found if 'paper_bleu' in scores]:
    told.append(f'BLEU as papers print it {spread([_number(paper) for paper in papers], 1)}')
  how = [scores[key] for key in ('signature', 'chrf_signature', 'parts') for scores in found if scores.get(key)]
  how += [paper['parts'] for scores in found if isinstance(paper := scores.get('paper_bleu'), dict) and 'parts' in paper]
  return ', '.join(told) + ''.join(f' `{_escaped(each)}`' for each in dict.fromkeys(how) if signatures)


def _number(paper: Any) -> float:
  return paper['paper_bleu'] if isinstance(paper, dict) else paper


def spread(values: Sequence[float], digits: int) -> str:
  """Return '25.1 (24.9–25.3)': mean, lowest and highest; where these look the same, only one number."""
  mean, lowest, highest = (f'{of(values):.{digits}f}' for of in (statistics.fmean, min, max))
  return f'{mean} ({lowest}–{highest})' if lowest != highest else mean


def _hours(row: Row) -> str:
  """Return the hours for each hardware apart, in the order of _hardware()."""
  hours: dict[str, list[float]] = {}
  for card in row.cards:
    hours.setdefault(_hardware(row._replace(cards=[card]), versions=False), []).append(card.seconds / 3600)
  return '; '.join(spread(found, 2) for found in hours.values())


def _steps(row: Row) -> str:
  return _each(f'{card.step:,}' for card in row.cards)


def _hardware(row: Row, versions: bool = True) -> str:
  """Return processors, devices and versions of each start of the runs."""
  return _each(_in_turn(_machine(start, versions) for start in card.starts) for card in row.cards)


def _machine(start: Mapping[str, Any], versions: bool) -> str:
  devices = ', '.join(f'{count} × {device}' for device, count in start['devices'].items() if device != 'cpu cpu')
  processor = f' of {start["processor"]}' if start.get('processor') else ''
  cores = f'{start["cores"]} core{"s" if start["cores"] > 1 else ""}'
  return ', '.join(filter(None, [devices, f'{cores}{processor}'])) + (
      f'; Python {start["python"]}, jax {start["packages"]["jax"]}' if versions else '')


def _data(row: Row) -> str:
  data = row.cards[0].data
  return f'{data["name"]}: {_hashes(data["texts"])}'


def _hashes(texts: Mapping[str, str]) -> str:
  return ', '.join(f'{name} `{text[:12]}`' for name, text in texts.items())


def _commits(card: Card) -> str:
  """Return the commits of a run's starts, in order."""
  return _in_turn(
      (f'`{start["commit"][:7]}`' if start['commit'] else 'unknown') + (', changed' if start['uncommitted_changes'] else '')
      for start in card.starts)


def _in_turn(values: Iterable[str]) -> str:
  """Return what held for the starts of a run, in their order."""
  return ' → '.join(dict.fromkeys(values))


def _each(values: Iterable[str]) -> str:
  return '; '.join(dict.fromkeys(values))


def _escaped(text: str) -> str:
  """Return a text as it may stand in a cell of a table."""
  return text.replace('|', '\\|')


if __name__ == '__main__':
  programs.run(main)
