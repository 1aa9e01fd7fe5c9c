"""Looks inside a trained run: one page with every head of every layer, for sentences of one's own.

    echo "The animal didn't cross the street because it was too tired." | python visualize.py --workdir=runs/phrasebook
    python visualize.py --workdir=runs/m30k --input=some.en --reference=some.de --output=report.html --open
    python visualize.py --workdir=runs/m30k --format=svg --figure=cross --input=some.en --output=cross.svg
    python visualize.py --workdir=runs/a --format=png --figure=curves --beside=runs/b,runs/c
    python visualize.py --workdir=runs/watched --training --output=training.html

The page needs no network and no server. Two sentences stand side by side.
Search options take the place of the run's own, as in decode.py.
"""

import os
import pathlib
import sys
import webbrowser
from typing import Any

from options import command_line

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')  # hides XLA's notes to its developers; its errors still show
# --help and mistaken flags are answered here, before the seconds that the imports below take.
OPTIONS = command_line.parse_visualize(sys.argv, __doc__) if __name__ == '__main__' else None

import jax  # noqa: E402
import tqdm  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402
from ml_collections import config_dict  # noqa: E402

from checks.errors import ConfigError  # noqa: E402
from corpora import text_files  # noqa: E402
from decoding import scores, text_lines  # noqa: E402
from explorer import capture, figures, forming, reports, texts, watching  # noqa: E402
from tasks import from_folder, language_model, registry  # noqa: E402
from training import run_folder  # noqa: E402
from training.run_folder import RunFolder, read_json  # noqa: E402
from transformer import architectures  # noqa: E402

WITHOUT_SCRIPTS = ('www-browser', 'links', 'elinks', 'lynx', 'w3m')  # what Python opens where there is no display


def main(options: command_line.VisualizeOptions) -> int:
  """From a run to a page or a figure; returns the exit code."""
  folder = RunFolder.open(options.workdir)
  if options.format != 'html':
    draw = FIGURES[options.figure]
    with command_line.as_config_error():
      figure = draw(options, folder)
    figure.savefig(options.output, format=options.format)
    print(options.output, file=sys.stderr)
    return 0
  report, notes = forming_report(options, folder) if options.training else full_report(options, folder)
  report.save(options.output)
  for note in notes:
    print(note, file=sys.stderr)
  print(f'{options.output}: {os.path.getsize(options.output) / 1000:,.0f} kB, {len(report.sentences)} sentences',
        file=sys.stderr)
  if options.open and not shown_in_browser(options.output):
    print(f'There is no browser to open it with here. Open {options.output} in any, on whatever machine: it needs '
          'nothing but itself.', file=sys.stderr)
  return 0


def shown_in_browser(path: str) -> bool:
  """Opens a page; False where there is no browser, no display, or a browser that runs no scripts."""
  try:
    browser = webbrowser.get()
    name = os.path.basename(getattr(browser, 'name', ''))
    return name not in WITHOUT_SCRIPTS and browser.open(pathlib.Path(path).absolute().as_uri())
  except (webbrowser.Error, OSError):
    return False


def full_report(options: command_line.VisualizeOptions, folder: RunFolder) -> tuple[reports.Report, list[str]]:
  """The page on sentences of one's own, and what is to be known of them."""
  translator, lines, references = read(options, folder)
  with tqdm.tqdm(desc='closing heads', unit=' heads', leave=False, disable=None) as bar, command_line.as_config_error():
    report = reports.explain(translator, lines, references, card(folder, options), options.effects,
                             options.vectors or None, lambda heads: bar.reset(heads) or bar.update)
  return report, translator.notes()


def forming_report(options: command_line.VisualizeOptions, folder: RunFolder) -> tuple[reports.Report, list[str]]:
  """The page on what training took down, and how many moments of it there are."""
  config = folder.read_config()
  seen, measure = watching.read(folder.attention), registry.measure_of(config).name
  name = {'bleu': 'BLEU'}.get(measure, measure.replace('_', ' '))
  measured = run_folder.read_lines(folder.metrics) if os.path.isfile(folder.metrics) else []
  told = {line['step']: f'validation {name} {line[f"validation/{measure}"]:.2f}'
          for line in measured if line.get(f'validation/{measure}') is not None}
  sides = folder.load_vocabularies()
  model = architectures.describe(from_folder.model_config(config_dict.ConfigDict(config), *sides))
  with command_line.as_config_error():
    report = forming.explain(seen, sides, told, [('model', model), *of_run(folder, options)])
  return report, [f'{len(seen)} moments of training, up to step {seen[-1].step:,}']


def read(options: command_line.VisualizeOptions, folder: RunFolder
         ) -> tuple[Any, list[str], list[str] | None]:
  """The translator or language model, the lines and their references."""
  task = registry.of(folder.read_config())
  if task.name not in LOADED:
    raise ConfigError(f'{options.workdir} is a run of another kind ({task.name.replace("_", " ")}); visualize.py looks '
                      'into translators and language models')
  if options.reference and not task.scores_references:
    raise ConfigError(f'--reference is for translations; {options.workdir} is a language model')
  lines = text_lines.read(options.input)
  references = text_files.read_lines(options.reference) if options.reference else None
  if references is not None:
    scores.check_counts(lines, references, options.input, options.reference)
  jax.config.update('jax_compilation_cache_dir', folder.compile_cache)
  # Few rows to a search batch: a handful of lines is translated again for each head that is closed.
  search = {'batch_tokens': 64, **options.search}
  return LOADED[task.name](options.workdir, options.checkpoint, **search), lines, references


LOADED = {
    registry.TRANSLATION.name: lambda *run, **search: from_folder.load(*run, **search),
    registry.LANGUAGE_MODELLING.name: lambda *run, **search: reports.Continuing(language_model.load(*run, **search)),
}


def card(folder: RunFolder, options: command_line.VisualizeOptions) -> list[tuple[str, str]]:
  """What the page says of the run."""
  config = folder.read_config()
  rows = [*of_run(folder, options), ('checkpoint', options.checkpoint),
          ('search', ', '.join(f'{name} {value}' for name, value in (config['search'] | dict(options.search)).items()
                               if name != 'batch_tokens'))]
  if os.path.isfile(folder.results):
    rows.append(('scores', registry.of(config).describe(read_json(folder.results))))
  return rows


def of_run(folder: RunFolder, options: command_line.VisualizeOptions) -> list[tuple[str, str]]:
  """Which run it is, and what it was trained on."""
  config = folder.read_config()
  languages = ('source_language', 'target_language') if registry.of(config).texts == 'pairs' else ()
  return [('run', options.workdir), ('text', ', '.join(config['data'][name] for name in ('kind', *languages)))]


# ------------------------------------------------------------------------------------------------------- figures


def captured(options: command_line.VisualizeOptions, folder: RunFolder
             ) -> tuple[Any, capture.Reading, capture.Capture]:
  """The first line, read out with its reference or else with what the search writes."""
  translator, lines, references = read(options, folder)
  model, source, target = translator.parts
  line = next((number for number, text in enumerate(lines) if text.strip()), None)
  if line is None:
    raise ConfigError(f'{options.input} holds no sentence; a figure of attention needs one')
  written = target.encode(references[line]) if references else translator.translate([lines[line]])[0].ids
  reading = capture.Reading(translator.encode([lines[line]])[0], [*written, target.eos_id])
  return translator, reading, capture.read(model, translator.params[0], [reading], source, target)[0]


def draw_attention(options: command_line.VisualizeOptions, folder: RunFolder) -> Figure:
  """Every head of the kind that the figure is called after."""
  seen = captured(options, folder)[2]
  if options.figure not in seen.weights:
    raise ConfigError(f'--figure={options.figure}: the model has none; it has {", ".join(seen.weights) or "no heads"}')
  return figures.attention(seen, options.figure)


def draw_distributions(options: command_line.VisualizeOptions, folder: RunFolder) -> Figure:
  """The smoothed target beside the model's own, on the words of the sentence and what the model likes besides."""
  translator, reading, _ = captured(options, folder)
  model, source, target = translator.parts
  shares = figures.next_token_shares(model, translator.params[0], reading, target.bos_id)
  shown = figures.entries_to_show(reading.target, shares)
  smoothing = folder.read_config()['train']['label_smoothing']
  return figures.distributions(figures.smoothed_target(reading.target, shown, target.size, smoothing), shares[:, shown],
                               texts.labels(shown, target), texts.labels(reading.target, target))


def draw_curves(options: command_line.VisualizeOptions, folder: RunFolder) -> Figure:
  """This run's metrics and those of the runs beside it."""
  folders = [folder, *map(RunFolder.open, options.beside)]
  names = reports.shortest_names([each.path for each in folders])
  return figures.learning_curves({name: run_folder.read_lines(each.metrics) for name, each in zip(names, folders)})


def draw_pruning(options: command_line.VisualizeOptions, folder: RunFolder) -> Figure:
  """What analyze.py wrote of this run, or of several."""
  if not options.beside:
    raise ConfigError('--figure=pruning needs what analyze.py --pruning wrote; give --beside=analysis.json')
  return figures.pruning_curves({os.path.basename(path): read_json(path) for path in options.beside})


FIGURES = {
    'encoder': draw_attention, 'decoder': draw_attention, 'cross': draw_attention,
    'positions': lambda options, folder: figures.position_encodings(), 'curves': draw_curves, 'pruning': draw_pruning,
    'distributions': draw_distributions,
}


if __name__ == '__main__':
  command_line.run(lambda: main(OPTIONS))
