"""The card of a finished recipe, WORKDIR/card.json: all that its result depends on, and what it has cost."""

import os
from collections.abc import Mapping
from typing import Any

from corpora import text_files
from decoding import scores
from options.recipe_options import RecipeOptions
from recipes import own_text, pairs, work
from recipes.plan import Plan
from training.json_files import read_json, write_json
from training.run_folder import RunFolder


def path_of(options: RecipeOptions) -> str:
  """Return the path of the card."""
  return os.path.join(options.workdir, 'card.json')


def write(options: RecipeOptions, plan: Plan) -> dict[str, Any]:
  """Write the card of a recipe whose stages are done, and return it.

  Args:
    options: the recipe's.
    plan: its stages.

  Raises:
    DamagedError: when a file of a run is missing or damaged.
  """
  records = {stage.name: work.record_of(stage, options.workdir) for stage in plan.stages}
  runs = {stage.name: _trained(stage.folder) for stage in plan.trainings}
  last = runs[plan.trainings[-1].name]
  # A training's own clock counts whoever has started it; of another script that was run by hand there is none.
  seconds = {name: record['seconds'] for name, record in records.items()} | {
      name: found['results']['seconds'] for name, found in runs.items()}
  hours = {name: None if found is None else found / 3600 for name, found in seconds.items()}
  measured = [found for found in hours.values() if found is not None]
  stages = [{'name': stage.name, 'title': stage.title, 'hours': hours[stage.name]}
            | ({'steps': runs[stage.name]['results']['step']} if stage.name in runs else {})
            | {part: records[stage.name][part] for part in ('figures', 'inputs', 'outputs')} for stage in plan.stages]
  card = {'recipe': options.recipe, 'command': work.command(options), 'scores': last['results'].get('scores', {}),
          'commit': last['environment']['commit'], 'uncommitted_changes': last['environment']['uncommitted_changes'],
          'hours': sum(measured) if len(measured) == len(hours) else None, 'settings': work.settings(options, plan.files, plan.runs),
          'stages': stages, 'runs': runs}
  if plan.taught:
    card['teachers'] = {'together': taught(options, plan, records['text']['figures']),
                        'apart': {run: run_of(RunFolder.open(run)) for run in plan.runs}}
  write_json(path_of(options), card)
  return card


def _trained(folder: RunFolder) -> dict[str, Any]:
  """Return run_of() a run of the recipe's own. Raises DamagedError when one of the two files is missing."""
  return {'results': read_json(folder.results), 'environment': read_json(folder.environment)}


def run_of(folder: RunFolder) -> dict[str, Any]:
  """Return what a run's results.json and environment.json hold: scores with signatures, steps, data, versions, …

  None stands for a file that is not there, as an earlier version or another program may have left a run of the user's.
  """
  files = {'results': folder.results, 'environment': folder.environment}
  return {name: read_json(path) if os.path.isfile(path) else None for name, path in files.items()}


def taught(options: RecipeOptions, plan: Plan, figures: Mapping[str, Any]) -> dict[str, Any]:
  """Return the scores of the teachers' translations of each test set, or of the validation set where there is none."""
  text, lines, found = own_text.Folder(options), pairs.lines_of(plan.taught), {}
  for stem, size in (figures['tests'] or {own_text.VALIDATION: figures[own_text.VALIDATION]}).items():
    sources, references = (list(pairs.lines_of(path)) for path in text.files(stem))
    found[text_files.shown_name(stem, size)] = scores.corpus_scores(
        [next(lines) for _ in range(size)], references, language=scores.language_of(sources, text.codes[1]))
  return found


def described(card: Mapping[str, Any]) -> str:
  """Return the scores of a card and the hours of its stages as text."""
  lines = [scores.describe(found, name) for name, found in card['scores'].items()]
  for name, found in card.get('teachers', {}).get('together', {}).items():
    lines.append(f'The teachers: {scores.describe(found, name)}')
  hours = lambda stage: '(not measured)' if stage['hours'] is None else f'{stage["hours"]:6.2f} h'
  return '\n'.join([*lines, *(f'{hours(stage)}  {stage["title"]}' for stage in card['stages'])])
