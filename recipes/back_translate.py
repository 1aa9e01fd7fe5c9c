"""Back-translation (Sennrich, Haddow & Birch, 2016): more training pairs from text of the target language alone.

A model of the reverse direction translates that text, by beam search or by sampling (Edunov et al., 2018); its
translations are the sources of synthetic pairs, which may be tagged (Caswell, Chelba & Grangier, 2019) and are mixed
with the real ones.

    reverse/     the run from the target to the source language
    translated   what it makes of the text: .txt, or .jsonl with probabilities
    synthetic/   the pairs that are kept
    forward/     the run on real and synthetic pairs
"""

import functools
import os
from collections.abc import Iterator

from checks.errors import ConfigError, DataError
from checks.progress import shown
from corpora import cleaning, split_files
from corpora.config import KINDS, LANGUAGES
from options.configurations import leaves
from options.recipe_options import RecipeOptions
from recipes import pairs
from recipes.plan import Plan
from recipes.stages import Making, Stage, check_direction, check_search, check_translates, training, translating
from tasks import setup
from training.run_folder import RunFolder

# Options that exchange their values when the direction is turned.
_SIDES = (('data.source_language', 'data.target_language'), ('data.tsv_source_column', 'data.tsv_target_column'),
          ('data.jsonl_source_field', 'data.jsonl_target_field'),
          ('vocabulary.source_model', 'vocabulary.target_model'),
          ('data.fixed_source_length', 'data.fixed_target_length'))


def plan(options: RecipeOptions) -> Plan:
  """Return the stages. Raises ConfigError naming what cannot work."""
  check_translates(options)
  values, place = leaves(options.config), functools.partial(os.path.join, options.workdir)
  if mistakes := list(_mistakes(options)):
    raise ConfigError('\n'.join(mistakes))
  codes = values['data.source_language'], values['data.target_language']
  source, target = (LANGUAGES.get(code, code) for code in codes)
  stages: list[Stage] = []
  if options.reverse is None:
    check_search(options, options.config)
    stages.append(training('reverse', f'training {target} to {source}', options, _turned(options), ()))
    reverse, made_from = place('reverse'), stages[0].outputs
  else:
    check_direction('reverse', options.reverse, codes[::-1])
    setup.check_held_out('reverse', options.reverse, options.config)
    check_search(options, RunFolder.open(options.reverse).read_config())
    reverse, made_from = options.reverse, (os.path.join(options.reverse, 'config.json'),)
  scored = options.keep is not None or options.min_score is not None
  translated = place('translated.jsonl' if scored else 'translated.txt')
  source_file, target_file = (place('synthetic', f'{values["data.train_split"]}.{code}') for code in codes)
  mixed = f'{place("synthetic")}*{str(options.weight).removesuffix(".0")}' + (f'#{options.tag}' if options.tag else '')
  forward: dict[str, object] = {'data.mix': (*values['data.mix'], mixed)}
  if options.tag and not values['vocabulary.source_model'] and not values['init_from']:
    forward['vocabulary.tags'] = tuple(dict.fromkeys((*values['vocabulary.tags'], options.tag)))
  monolingual = str(options.monolingual)
  if not os.path.isfile(place('recipe.json')):
    _check_text(monolingual)
  make = functools.partial(pairs.synthetic, translated, monolingual, (source_file, target_file), is_back=True,
                           keep=options.keep, min_score=options.min_score)
  stages += [
      translating('translate', f'translating {monolingual} into {source}', [reverse], monolingual, translated,
                  made_from, options.search, ['--format=jsonl'] * scored),
      Making('pairs', 'choosing the synthetic pairs', (translated, monolingual), (source_file, target_file), make),
      training('forward', f'training {source} to {target} on real and synthetic pairs', options, forward,
               (source_file, target_file))]
  if options.reverse:
    return Plan(stages, (monolingual,), [options.reverse])
  return Plan(stages, (monolingual, *_read_twice(options)))


def _check_text(path: str) -> None:
  """Raise DataError when the text to translate cannot be read to its end or has no words: before hours of training."""
  if not sum(bool(line.strip()) for line in shown(pairs.lines_of(path), f'reading {path}', ' lines')):
    raise DataError(f'--monolingual={path}: no line of it has text; expected a sentence a line')


def _read_twice(options: RecipeOptions) -> list[str]:
  """Return the files that decide what both trainings learn, of which one may read them days after the other."""
  values = leaves(options.config)
  codes = values['data.source_language'], values['data.target_language']
  there = lambda directory, split: split_files.files_there(directory, values[f'data.{split}'], codes)
  named = [values[f'vocabulary.{side}_model'] for side in ('source', 'target')]
  if values['data.kind'] != 'text':
    named.append(values.get(f'data.{KINDS[values["data.kind"]].needs}'))
  else:
    named += [path for split in ('train_split', 'validation_split') for path in there(values['data.directory'], split)]
  named += [path for mixed in values['data.mix'] for path in there(cleaning.source_of(mixed).directory, 'train_split')]
  return [path for path in dict.fromkeys(named) if path and os.path.isfile(path)]


def _turned(options: RecipeOptions) -> dict[str, object]:
  """Return the options of the reverse direction, where they differ."""
  values = leaves(options.config)
  idle = {f'data.{name}' for name in KINDS.idle(values['data.kind'])}
  if values['data.batching'] != 'fixed':
    idle |= set(_SIDES[-1])
  return {name: values[other] for both in _SIDES for name, other in (both, both[::-1])
          if not idle & set(both) and None not in (values[name], values[other]) and values[name] != values[other]}


def _mistakes(options: RecipeOptions) -> Iterator[str]:
  values = leaves(options.config)
  if set(options.workdir) & {'*', '#', '"', "'"}:
    yield (f'--workdir={options.workdir}: * and # have a meaning in data.mix, and quotes end its texts; give a path '
           'without them')
  if values['init_from'] and options.reverse is None:
    yield (f'config.init_from is {values["init_from"]!r}, which would be the start of both directions; train the '
           'reverse model apart and name it with --reverse=RUN')
