"""Trains in stages that build on each other, in one folder: back-translation, distillation, a multilingual model.

    python recipe.py back_translate --config=configs/multi30k.py --monolingual=news.de --workdir=runs/back
    python recipe.py distil --config=configs/multi30k.py --teachers=runs/a,runs/b --workdir=runs/student
    python recipe.py multilingual --config=configs/multi30k.py --languages=de,fr,cs --workdir=runs/multi

Options of a run (--config.…) hold for all trainings, --search.… for translating the text. A recipe can be stopped
and killed in every stage: the same command goes on. With --print it prints the command of each stage instead, to be
run one after the other anywhere. It ends with WORKDIR/card.json: settings, data, scores, hours and versions.
docs/recipes.md describes each recipe.
"""

import os
import sys

from checks import children, startup

if __name__ == '__main__':
  startup.begin('Stopped. The same command resumes from here.')  # before the seconds that the imports below take

from options import programs, recipe_options

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')  # hides XLA's notes to its developers; its errors still show
# --help and mistaken flags are answered here, before the seconds that the imports below take.
OPTIONS = recipe_options.parse(sys.argv, __doc__) if __name__ == '__main__' else None

from decoding import outputs  # noqa: E402
from options.recipe_options import RecipeOptions  # noqa: E402
from recipes import back_translate, card, distil, multilingual, work  # noqa: E402

RECIPES = {'back_translate': back_translate.plan, 'distil': distil.plan, 'multilingual': multilingual.plan}


def main(options: RecipeOptions) -> int:
  """Work off the stages and write the card; return the exit code, that of a stage that failed."""
  plan = RECIPES[options.recipe](options)
  work.check_stage(options, plan.stages)
  os.makedirs(options.workdir, exist_ok=True)
  with outputs.locked(os.path.join(options.workdir, 'recipe.json'), f'--workdir={options.workdir}'):
    work.begin(options, plan.files, plan.runs)
    if options.print_commands:
      print('\n'.join(work.commands(plan.stages, options)))
      return 0
    is_new = not os.path.isfile(card.path_of(options))
    try:
      if code := work.work_off(plan.stages, options, say):
        return code
    except children.Stopped as stop:
      print(stop, file=sys.stderr)
      return stop.exit_code
    if options.stage is None:
      found = card.write(options, plan)
      say(f'\n{"Finished" if is_new else "This recipe is finished"}:\n{card.described(found)}\n\nWritten: '
          f'{card.path_of(options)}')
  return 0


def say(text: str) -> None:
  """Print a line about a stage, and flush it."""
  print(text, flush=True)


if __name__ == '__main__':
  programs.run(lambda: main(OPTIONS))
