"""Shows what a trained run does: one page with every attention head of every layer, for sentences that you choose.

    echo "The animal didn't cross the street because it was too tired." | python visualize.py --workdir=runs/phrasebook
    python visualize.py --workdir=runs/m30k --input=some.en --reference=some.de --output=report.html --open
    python visualize.py --workdir=runs/m30k --format=svg --figure=cross --input=some.en --output=cross.svg
    python visualize.py --workdir=runs/a --format=png --figure=curves --beside=runs/b,runs/c
    python visualize.py --workdir=runs/watched --training --output=training.html
    python visualize.py --workdir=runs/phrasebook --live --output=live.html --open

The page needs no network and no server. It can show two sentences side by side. With --live it holds the model, too,
and translates what is typed into it.
Search options replace the run's own, as in decode.py.
"""

import os
import pathlib
import sys
import webbrowser

from checks import startup

if __name__ == '__main__':
  startup.begin()  # before the seconds that the imports below take

from options import visualize_options

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')  # hides XLA's notes to its developers; its errors still show
# --help and mistaken flags are answered here, before the seconds that the imports below take.
OPTIONS = visualize_options.parse(sys.argv, __doc__) if __name__ == '__main__' else None

import tqdm  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

from checks.errors import ConfigError, config_errors  # noqa: E402
from checks.whole_files import whole  # noqa: E402
from corpora import text_files  # noqa: E402
from decoding import scores, text_lines  # noqa: E402
from explorer import capture, figures, live, reports, snapshots, texts, training_page  # noqa: E402
from options import programs  # noqa: E402
from options.visualize_options import VisualizeOptions  # noqa: E402
from tasks import TASKS, setup, task_of  # noqa: E402
from tasks.task import Task  # noqa: E402
from training import hardware  # noqa: E402
from training.json_files import read_json, read_lines  # noqa: E402
from training.run_folder import RunFolder  # noqa: E402
from transformer import architectures  # noqa: E402
from transformer.loss import SMOOTHINGS  # noqa: E402

OFFERED = 3  # sentences that a living page offers to try
WITHOUT_SCRIPTS = ('www-browser', 'links', 'elinks', 'lynx', 'w3m')  # Python's choice without a display


def main(options: VisualizeOptions) -> int:
  """Write the page or the figure of a run; return the exit code."""
  folder = RunFolder.open(options.workdir)
  if options.format != 'html':
    draw = FIGURES[options.figure]
    with config_errors():
      figure = draw(options, folder)
    if missing := figures.choose_fonts(figure):
      print(f'No installed font has {missing}: a box stands for each. The page, --format=html, shows what the browser has '
            'fonts for.', file=sys.stderr)
    with whole(options.output) as file, figures.unwarned():
      figure.savefig(file, format=options.format)
    if options.format == 'png' and figure.dpi < figures.DPI:
      print(f'The figure is large: drawn with {figure.dpi:.0f} dots per inch. --format=svg keeps its letters sharp.',
            file=sys.stderr)
    print(options.output, file=sys.stderr)
    return 0
  report = training_report(options, folder) if options.training else full_report(options, folder)
  report.save(options.output)
  for note in report.notes:
    print(note, file=sys.stderr)
  print(f'{options.output}: {os.path.getsize(options.output) / 1000:,.0f} kB, {len(report.sentences)} sentences',
        file=sys.stderr)
  if options.open and not shown_in_browser(options.output):
    print(f'There is no browser here to open the page with. Open {options.output} in one on any machine: it needs no '
          'other file.', file=sys.stderr)
  return 0


def shown_in_browser(path: str) -> bool:
  """Open a page; return False where there is no browser, no display, or a browser that runs no scripts."""
  try:
    browser = webbrowser.get()
    name = os.path.basename(getattr(browser, 'name', ''))
    return name not in WITHOUT_SCRIPTS and browser.open(pathlib.Path(path).absolute().as_uri())
  except (webbrowser.Error, OSError):
    return False


def full_report(options: VisualizeOptions, folder: RunFolder) -> reports.Report:
  """Return the page on the given sentences."""
  translator, lines, references = read(options, folder)
  prepared, rows = None, card(folder, options)
  if options.live:
    with config_errors():
      prepared = live.prepare(translator, suggestions(folder))
    translator = prepared.translator  # so that all of the page is computed with the weights that it holds
    rows.append(('weights', f'rounded to {prepared.record["weights"]["format"]} for this page'))
  with tqdm.tqdm(desc='closing heads', unit=' heads', leave=False, disable=None) as bar, config_errors():
    return reports.explain(translator, lines, references, rows, options.effects, options.vectors or None,
                           lambda heads: bar.reset(heads) or bar.update, prepared and prepared.record)


def training_report(options: VisualizeOptions, folder: RunFolder) -> reports.Report:
  """Return the page on the snapshots of attention that training wrote."""
  records = setup.of_folder(folder)
  seen, (measure, name) = snapshots.read(folder.attention), measure_of(TASKS[records.task])
  measured = read_lines(folder.metrics) if folder.has(folder.metrics) else []
  summaries = {line['step']: f'validation {name} {line[f"validation/{measure}"]:.2f}'
               for line in measured if line.get(f'validation/{measure}') is not None}
  with config_errors():
    rows = [('model', architectures.describe(records.model)), *of_run(folder, options)]
    return training_page.explain(seen, folder.load_vocabularies(), summaries, rows)


def measure_of(task: type[Task]) -> tuple[str, str]:
  """Return the name of a task's validation measure in metrics.jsonl, and its name for people."""
  name = task.measure.name
  return name, {'bleu': 'BLEU'}.get(name, name.replace('_', ' '))


def read(options: VisualizeOptions, folder: RunFolder) -> tuple[reports.Writer, list[str], list[str] | None]:
  """Return the translator or language model, the lines and their references."""
  task = task_of(folder.read_config())
  kind = f'{options.workdir} is a run of another kind ({task.name.replace("_", " ")})'
  if not task.has_attention:
    raise ConfigError(f'{kind}; visualize.py shows translators and language models only')
  if options.reference and not task.references:
    raise ConfigError(f'--reference is for translations; {kind}')
  lines = text_lines.read(options.input) if options.input else opening(options, folder)
  if not any(line.strip() for line in lines):
    raise ConfigError(f'--input={options.input} has blank lines alone; expected at least one sentence')
  references = text_files.read_lines(options.reference) if options.reference else None
  if references is not None:
    scores.check_counts(lines, references, options.input, options.reference)
    if not reports.without_blanks(lines, references)[0]:
      raise ConfigError(f'every line of --input={options.input} or its line in --reference={options.reference} is blank; '
                        'expected at least one sentence with its translation')
  hardware.keep_programs()
  # Few rows in a search batch: a handful of lines is translated again for each head that is closed.
  search = {'batch_tokens': 64, **options.search}
  return reports.readable(task.load([folder], [options.checkpoint], search)), lines, references


def suggestions(folder: RunFolder) -> list[str]:
  """Return sentences that the run suggests to try; none where it has no such file."""
  return read_json(folder.suggestions)[:OFFERED] if folder.has(folder.suggestions) else []


def opening(options: VisualizeOptions, folder: RunFolder) -> list[str]:
  """Return the sentences with which a living page opens where none are given: the longest that the run suggests."""
  offered = read_json(folder.suggestions) if folder.has(folder.suggestions) else []
  if not offered:
    raise ConfigError(f'--live without --input, and {options.workdir} suggests no sentences with which the page could '
                      'open; give --input=FILE, or --input=- for standard input')
  return sorted(offered, key=len)[-OFFERED:]


def card(folder: RunFolder, options: VisualizeOptions) -> list[tuple[str, str]]:
  """Return the page's rows (name, value) on the run: where it is, its checkpoint, search and scores."""
  config = folder.read_config()
  rows = [*of_run(folder, options), ('checkpoint', options.checkpoint),
          ('search', ', '.join(f'{name} {value}' for name, value in (config['search'] | dict(options.search)).items()
                               if name != 'batch_tokens'))]
  if config['train']['label_smoothing']:
    rows.append(('label smoothing', str(config['train']['label_smoothing'])))  # the steps say what it does
  if folder.has(folder.results):
    results, is_search_scored = read_json(folder.results), task_of(config).references  # a language model's scores need none
    is_scored = (options.checkpoint == 'final' and not (options.search and is_search_scored)
                 and results['step'] >= max(folder.manifest.checkpoints(), default=0))
    rows.append(('scores' if is_scored else f'scores of the run at step {results["step"]:,}, with its own search',
                 task_of(config).describe(results)))
  return rows


def of_run(folder: RunFolder, options: VisualizeOptions) -> list[tuple[str, str]]:
  """Return the rows that name the run and its training text."""
  config = folder.read_config()
  languages = ('source_language', 'target_language') if task_of(config).references else ()
  return [('run', options.workdir), ('text', ', '.join(config['data'][name] for name in ('kind', *languages)))]


# ------------------------------------------------------------------------------------------------------- figures


def captured(options: VisualizeOptions, folder: RunFolder
             ) -> tuple[reports.Writer, capture.TokenPair, capture.Capture]:
  """Record the model on the first line and its reference, or else the translation that the search finds."""
  translator, lines, references = read(options, folder)
  model, source, target = translator.parts
  requests, references = reports.without_blanks(lines, references)
  written = target.encode(references[0]) if references else translator.translate(requests[:1])[0].ids
  reading = capture.TokenPair(translator.encode([requests[0].source])[0], [*written, target.eos_id])
  return translator, reading, capture.record(model, translator.params[0], [reading], source, target)[0]


def draw_attention(options: VisualizeOptions, folder: RunFolder) -> Figure:
  """Draw every head of the kind of attention that --figure names."""
  seen = captured(options, folder)[2]
  if options.figure not in seen.weights:
    raise ConfigError(f'--figure={options.figure}: the model has no such heads; it has '
                      f'{", ".join(seen.weights) or "none"}')
  return figures.attention(seen, options.figure)


def draw_distributions(options: VisualizeOptions, folder: RunFolder) -> Figure:
  """Draw the smoothed target beside the model's distribution, on the pieces of the sentence and other likely ones."""
  translator, reading, _ = captured(options, folder)
  model, source, target = translator.parts
  shares = figures.next_token_shares(model, translator.params[0], reading, target.bos_id)
  shown = figures.entries_to_show(reading.target, shares)
  train = folder.read_config()['train']
  smoothing = SMOOTHINGS[train['smoothing_over']](train['label_smoothing'], target.size)
  return figures.distributions(figures.smoothed_target(reading.target, shown, target.size, smoothing), shares[:, shown],
                               texts.labels(shown, target), texts.labels(reading.target, target))


def draw_curves(options: VisualizeOptions, folder: RunFolder) -> Figure:
  """Draw the learning curves of this run and of the runs in --beside."""
  folders = [folder, *map(RunFolder.open, options.beside)]
  names = reports.shortest_names([each.path for each in folders])
  return figures.learning_curves({name: read_lines(each.metrics) for name, each in zip(names, folders)},
                                 *measure_of(task_of(folder.read_config())))


def draw_pruning(options: VisualizeOptions, folder: RunFolder) -> Figure:
  """Draw the pruning curves in the files of --beside, which analyze.py --pruning wrote."""
  if not options.beside:
    raise ConfigError('--figure=pruning needs a file that analyze.py --pruning wrote; give --beside=analysis.json')
  names = reports.shortest_names(options.beside)
  return figures.pruning_curves({name: read_json(path) for name, path in zip(names, options.beside)})


FIGURES = {
    'encoder': draw_attention, 'decoder': draw_attention, 'cross': draw_attention,
    'positions': lambda options, folder: figures.position_encodings(), 'curves': draw_curves, 'pruning': draw_pruning,
    'distributions': draw_distributions,
}


if __name__ == '__main__':
  programs.run(lambda: main(OPTIONS))
