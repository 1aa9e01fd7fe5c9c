"""Format what analysis and importance measured of each head as tables for a terminal."""

from typing import Any

from explorer.gates import KINDS, Gates


def add_importance(table: dict[str, Any], importance: Gates, rises: Gates) -> None:
  """Add to each head's record its importance, E |∂L/∂gate|, and by how much the loss rises without it."""
  for kind, layers in table.items():
    for layer, heads in enumerate(layers):
      for head, record in enumerate(heads):
        record['importance'] = round(float(importance[kind][layer, head]), 5)
        record['loss_without'] = round(float(rises[kind][layer, head]), 5)


def _rows(record: dict[str, Any]) -> list[list[str]]:
  rows = []
  for kind in [kind for kind in KINDS if kind in record['heads']]:
    for layer, heads in enumerate(record['heads'][kind]):
      for head, of in enumerate(heads):
        rows.append([f'{KINDS[kind]} {layer + 1}.{head + 1}', ', '.join(of['roles']) or '–',
                     f'{of["offset"]:+d} {of["offset_share"]:.2f}', f'{of["rare"]:.2f}', f'{of["confidence"]:.2f}',
                     f'{of["special"]:.2f}', f'{of["entropy"]:.2f}',
                     f'{of["alignment_error"]:.2f}' if 'alignment_error' in of else '', f'{of["importance"]:.3f}',
                     f'{of["loss_without"]:+.4f}'])
  return rows


def as_text(record: dict[str, Any]) -> str:
  """Format all tables of a record that analyze.py writes."""
  heads = ['head', 'role', 'offset', 'rare', 'confidence', 'ends', 'entropy', 'AER', '|∂L/∂gate|', 'loss without']
  parts = [_aligned([heads, *_rows(record)]),
           f'loss {record["loss"]:.4f} a token on {record["sentences"]} sentences ({record["text"]}); maxima on rare '
           f'words where a head attends to all tokens alike: {_evenly(record)} (rare in {record["rare_words_counted_in"]})',
           *_relations(record), _layers(record)]
  if 'pruning' in record:
    parts.append(_aligned([['closed heads', 'BLEU'], *([str(step['closed']), f'{step["bleu"]:.1f}']
                                                       for step in record['pruning'])])
                 + f'\nsacreBLEU of greedy translations, {record["pruning"][0]["signature"]}')
  if 'it' in record:
    parts.append(_about_it(record['it']))
  return '\n\n'.join(parts)


def _evenly(record: dict[str, Any]) -> str:
  return ', '.join(f'{KINDS[kind]} {layers[0][0]["rare_evenly"]:.2f}' for kind, layers in record['heads'].items())


def _relations(record: dict[str, Any]) -> list[str]:
  """Format a table: for each gold relation the head that meets it most often, beside the best fixed offset."""
  layers = record['heads'].get('encoder', ())
  heads = {f'{KINDS["encoder"]} {layer + 1}.{head + 1}': of['relations'] for layer, row in enumerate(layers)
           for head, of in enumerate(row)}
  rows = [['relation', 'best head', 'met', 'best fixed offset', 'cases']]
  for name, found in next(iter(heads.values()), {}).items():
    best = max(heads, key=lambda head, name=name: heads[head][name]['met'])
    rows.append([name, best, f'{heads[best][name]["met"]:.2f}', f'{found["best_fixed_offset"]:.2f}',
                 str(found['cases'])])
  return [_aligned(rows)] if len(rows) > 1 else []


def _layers(record: dict[str, Any]) -> str:
  rows = [['layer', 'entropy', 'random', 'within ±1', 'random', 'first', 'random', 'last', 'random']]
  for kind, layers in record['layers'].items():
    for number, (layer, random) in enumerate(zip(layers, record['layers_of_random_weights'][kind])):
      rows.append([f'{KINDS[kind]} {number + 1}', *(f'{of[name]:.2f}' for name in ('entropy', 'near', 'first', 'last')
                                             for of in (layer, random))])
  return _aligned(rows)


def _about_it(it: dict[str, Any]) -> str:
  rows = [['"it": best single head', 'chosen on validation', 'pairs right on test']]
  for kind in ('encoder', 'cross'):
    for name in ('trained', 'random weights', 'shuffled sentences'):
      found = it[kind][name]
      rows.append([f'{name}: {found["head"]}', f'{found["pairs_right_validation"]:.3f}',
                   f'{found["pairs_right_test"]:.3f}'])
  fixed = it['best_fixed_offset']
  rows.append([f'the best fixed offset, {fixed["offset"]:+d}', '', f'{fixed["pairs_right_test"]:.3f}'])
  adjective = [['"it": largest weight on the deciding adjective', 'validation', 'test']]
  for kind in ('encoder', 'cross'):
    for name, found in it[kind]['deciding adjective'].items():
      adjective.append([f'{name}: {found["head"]}', f'{found["validation"]:.3f}', f'{found["test"]:.3f}'])
  pairs = f'{it["pairs"]["test"]} pairs of test, {it["pairs"]["validation"]} of validation'
  return f'{_aligned(rows)}\n\n{_aligned(adjective)}\n{pairs}'


def _aligned(rows: list[list[str]]) -> str:
  widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
  return '\n'.join('  '.join(cell.ljust(width) if column < 2 else cell.rjust(width)
                             for column, (cell, width) in enumerate(zip(row, widths))).rstrip() for row in rows)
