"""Looks inside a trained run: one page with every head of every layer, for sentences of one's own.

    echo "The animal didn't cross the street because it was too tired." | python visualize.py --workdir=runs/phrasebook
    python visualize.py --workdir=runs/m30k --input=some.en --reference=some.de --output=report.html --open

The page needs no network and no server. Two sentences stand side by side.
Search options take the place of the run's own, as in decode.py.
"""

import os
import sys
import webbrowser

from experiment import command_line

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')  # hides XLA's notes to its developers; its errors still show
# --help and mistaken flags are answered here, before the seconds that the imports below take.
OPTIONS = command_line.parse_visualize(sys.argv, __doc__) if __name__ == '__main__' else None

import jax  # noqa: E402
import tqdm  # noqa: E402

from corpora import text_files  # noqa: E402
from experiment import scores, tasks, text_lines, translation  # noqa: E402
from experiment.command_line import ConfigError  # noqa: E402
from experiment.run_folder import RunFolder, read_json  # noqa: E402
from explorer import reports  # noqa: E402


def main(options: command_line.VisualizeOptions) -> int:
  """From lines to a page; returns the exit code."""
  folder = RunFolder.open(options.workdir)
  task = tasks.of(folder.read_config())
  if task is not tasks.TRANSLATION:
    raise ConfigError(f'{options.workdir} is a run of another kind ({task.name.replace("_", " ")}); visualize.py looks '
                      'into translators')
  lines = text_lines.read(options.input)
  references = text_files.read_lines(options.reference) if options.reference else None
  if references is not None:
    scores.check_counts(lines, references, options.input, options.reference)
  jax.config.update('jax_compilation_cache_dir', folder.compile_cache)
  # Few rows to a search batch: a handful of lines is translated again for each head that is closed.
  translator = translation.load(options.workdir, options.checkpoint, **{'batch_tokens': 64, **options.search})
  with tqdm.tqdm(desc='closing heads', unit=' heads', leave=False, disable=None) as bar, command_line.as_config_error():
    report = reports.explain(translator, lines, references, card(folder, options), options.effects,
                             options.vectors or None, lambda heads: bar.reset(heads) or bar.update)
  report.save(options.output)
  for note in translator.notes():
    print(note, file=sys.stderr)
  print(f'{options.output}: {os.path.getsize(options.output) / 1000:,.0f} kB, {len(report.sentences)} sentences',
        file=sys.stderr)
  if options.open:
    webbrowser.open(f'file://{os.path.abspath(options.output)}')
  return 0


def card(folder: RunFolder, options: command_line.VisualizeOptions) -> list[tuple[str, str]]:
  """What the page says of the run."""
  config = folder.read_config()
  rows = [('run', folder.path), ('checkpoint', options.checkpoint),
          ('text', ', '.join(str(config['data'][name]) for name in ('kind', 'source_language', 'target_language'))),
          ('search', ', '.join(f'{name} {value}' for name, value in (config['search'] | dict(options.search)).items()))]
  if os.path.isfile(folder.results):
    results = read_json(folder.results)
    rows.append(('scores', scores.describe(results, results['test_set'])))
  return rows


if __name__ == '__main__':
  command_line.run(lambda: main(OPTIONS))
