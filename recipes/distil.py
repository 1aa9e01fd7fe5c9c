"""Sequence-level knowledge distillation (Kim & Rush, 2016): a student is trained on what teachers translate.

The training sources are translated by one teacher or by several as an ensemble, by default with their own beam search;
the student learns from these pairs, or also from the real ones. With --n_best it learns from the translation of each
list that is most like the reference (their sequence-level interpolation).

    text/           the corpus in two files a split: real, distilled, validation and the test sets
    translated      the translations of the training sources: .txt, or .jsonl with probabilities
    teachers.txt    the teachers' translations of all test sets
    student/        the run
"""

import functools
import os
from typing import Any

from corpora.config import LANGUAGES
from options.recipe_options import RecipeOptions
from recipes import own_text, pairs
from recipes.plan import Plan
from recipes.stages import Making, check_direction, check_search, check_translates, training, translating
from tasks import setup
from training.run_folder import RunFolder

_REAL, _DISTILLED = 'real', 'distilled'
_TAKEN = _REAL, _DISTILLED, own_text.VALIDATION  # names in text/ that no test set gets


def plan(options: RecipeOptions) -> Plan:
  """Return the stages. Raises ConfigError naming what cannot work."""
  check_translates(options)
  text, place = own_text.Folder(options), functools.partial(os.path.join, options.workdir)
  check_search(options, RunFolder.open(options.teachers[0]).read_config(), options.n_best)  # the first one's counts
  for teacher in options.teachers:
    check_direction('teachers', teacher, text.codes)
    setup.check_held_out('teachers', teacher, options.config)
  setup.check_one_vocabulary({teacher: RunFolder.open(teacher).load_vocabularies() for teacher in options.teachers})
  source, target = (LANGUAGES.get(code, code) for code in text.codes)
  teachers = 'the teacher' if len(options.teachers) == 1 else f'{len(options.teachers)} teachers'
  scored = options.n_best > 1 or options.keep is not None or options.min_score is not None
  translated, tests, taught = map(place, (f'translated.{"jsonl" if scored else "txt"}', 'tests.txt', 'teachers.txt'))
  real, distilled = text.files(_REAL), text.files(_DISTILLED)
  made_from = tuple(os.path.join(teacher, 'config.json') for teacher in options.teachers)
  form = ['--format=jsonl'] * scored + [f'--n_best={options.n_best}'] * (options.n_best > 1)
  choose = functools.partial(pairs.synthetic, translated, real[0], distilled, is_back=False, keep=options.keep,
                             min_score=options.min_score, references=real[1] if options.n_best > 1 else None,
                             language=text.codes[1])
  stems = own_text.test_stems(options, _TAKEN)
  changes = text.changes(f'{_DISTILLED},{_REAL}' if options.real else _DISTILLED, stems)
  stages = [
      Making('text', 'writing the text', (), (*real, *text.files(own_text.VALIDATION), tests),
             functools.partial(_write, options, text, tests), text.files_of(stems)),
      translating('translate', f'translating the training text into {target} by {teachers}', options.teachers, real[0],
                  translated, made_from, options.search, form),
      Making('pairs', 'choosing the pairs', (translated, *real), distilled, choose),
      translating('teachers', f'translating the test sets by {teachers}', options.teachers, tests, taught, made_from,
                  options.search),
      training('student', f'training a student, {source} to {target}', options, changes,
               (*distilled, *text.files(own_text.VALIDATION)), text.idle)]
  return Plan(stages, (), options.teachers, taught)


def _write(options: RecipeOptions, text: own_text.Folder, tests: str) -> dict[str, Any]:
  """Write the corpus into text/, and the sources of all test sets, one set behind the other, into a file."""
  corpus = own_text.read(options)
  examined = own_text.tests_of(corpus, options, _TAKEN)
  figures: dict[str, Any] = {'training': text.write(_REAL, corpus.train),
             own_text.VALIDATION: text.write(own_text.VALIDATION, corpus.validation)}
  figures['tests'] = {stem: text.write(stem, split) for stem, split in examined.items()}
  splits = list(examined.values()) or [corpus.validation]
  with pairs.whole(tests) as file:
    file.writelines(f'{pair.source}\n'.encode() for split in splits for pair in split)
  return figures
