"""The living page beside Python: the same translations? how near are the logits? how long from a key to the answer?

    python -m benchmarks.live_page --workdir=runs/phrasebook
    python -m benchmarks.live_page --workdir=runs/m30k --input=test.en --lines=200

Writes the page that visualize.py --live writes, opens it in Chromium (requirements-test.txt), and has it translate
lines greedily and with a beam of 4. Python translates the same lines with the same rounded weights. Logits are compared
under teacher forcing, on Python's translations. Then a sentence of twelve words is typed key by key: from the event of
the key to the translation and all panels drawn. Prints one line of JSON.
"""

import argparse
import dataclasses
import json
import os
import shutil
import statistics
import tempfile

import jax
import numpy as np

import tasks
from checks.errors import ConfigError
from checks.whole_files import write_whole
from corpora import loading
from corpora.text_files import read_lines
from decoding import inputs
from decoding.translator import Translator
from explorer import live, reports
from options import programs
from tasks import setup
from training.run_folder import RunFolder
from transformer import tokens

TYPED = "The animal didn't cross the street because it was much too tired."  # twelve words
_FOUND = '''([text, size]) => { const ids = sourceIds(text, live);
  return searchFor(live.model.encode(ids), live, {...live.search, beam_size: size}).found.map(
    ({tokens, score}) => [live.target.decode(tokens.slice(0, -1)), score])[0]; }'''
_LOGITS = '''([text, written]) => { const ids = sourceIds(text, live), witness = new Witness(live.model.options);
  witness.sized('encoder', ids.length, ids.length);
  return [...forced(live.model.encode(ids, witness), written, live, witness).logits]; }'''


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument('--workdir', required=True, help='folder of a translation run')
  parser.add_argument('--input', default='split:test', help='sentences, one a line (default split:test)')
  parser.add_argument('--lines', type=int, default=200, help='the first so many (default 200)')
  options = parser.parse_args()
  print(json.dumps(measure(options.workdir, read(options)[:options.lines])))


def read(options: argparse.Namespace) -> list[str]:
  """Return the lines to translate."""
  if options.input.startswith(inputs.SPLIT):
    corpus = loading.load(setup.of_folder(RunFolder.open(options.workdir)).corpus)
    return [pair.source for pair in inputs.split_of(options.input, corpus)]
  return [line for line in read_lines(options.input) if line.strip()]


def measure(workdir: str, lines: list[str]) -> dict[str, float]:
  """Compare the page with Python on these lines."""
  from playwright import sync_api
  translator = tasks.load(workdir)
  if not isinstance(translator, Translator):
    raise ConfigError(f'--workdir: {workdir} is no translation run')
  prepared = live.prepare(translator)
  found = {'lines': len(lines)}
  with tempfile.TemporaryDirectory() as folder, sync_api.sync_playwright() as driver:
    path = os.path.join(folder, 'live.html')
    write_whole(path, reports.explain(prepared.translator, lines[:1], with_effects=False, live=prepared.record).html)
    found |= {'weights': prepared.record['weights']['format'], 'megabytes': round(os.path.getsize(path) / 1e6, 2)}
    browser = driver.chromium.launch(executable_path=shutil.which('chromium'), args=['--no-sandbox'])
    tab = browser.new_page(viewport={'width': 1280, 'height': 900})
    tab.goto(f'file://{path}')
    tab.wait_for_selector('html[data-ready]', state='attached')
    for name, size in (('greedy', 1), ('beam_4', 4)):
      translations = with_beam(prepared.translator, size).translate(lines)
      pairs = [(tab.evaluate(_FOUND, [line, size]), expected) for line, expected in zip(lines, translations)]
      found[f'other_{name}'] = sum(text != expected.text for (text, _), expected in pairs)
      found[f'furthest_score_{name}'] = max(abs(score - expected.score) for (_, score), expected in pairs)
    found['furthest_logit'] = max(distance(tab, prepared.translator, line, expected.ids)
                                  for line, expected in zip(lines, translations))
    found |= answer_times(tab)
    browser.close()
  return found


def with_beam(translator: Translator, size: int) -> Translator:
  """Return the translator with another beam."""
  model, source, target = translator.parts
  return Translator([model], translator.params, source, target,
                    dataclasses.replace(translator.search_config, beam_size=size))


def distance(tab, translator: Translator, line: str, ids: tuple[int, ...]) -> float:
  """Return the largest difference between the page's and Python's logits for a translation."""
  model, source, target = translator.parts
  read, written = translator.encode([line])[0], [*ids, target.eos_id]
  batch = [tokens.pad([row], 1, -(-len(row) // 8) * 8, filler) for row, filler in (
      (read, source.pad_id), (written, target.pad_id))]
  expected = np.asarray(_logits(model)(translator.params[0], batch[0], tokens.shift_right(batch[1], target.bos_id)))
  found = np.reshape(tab.evaluate(_LOGITS, [line, written]), (len(written), -1))
  return float(np.abs(found - expected[0, :len(written)]).max())


_COMPILED = {}


def _logits(model):
  if model not in _COMPILED:
    _COMPILED[model] = jax.jit(lambda params, source, read: model.decode(params, model.encode(params, source), read))
  return _COMPILED[model]


def answer_times(tab) -> dict[str, float]:
  """Type a sentence's last words again and again; return milliseconds from a key to the answer, drawn."""
  tab.fill('#typed', TYPED)
  tab.wait_for_function('text => sentence().source === text && document.documentElement.dataset.ready', arg=TYPED)
  tab.evaluate('''() => { window.times = []; new MutationObserver(() => times.push(parseInt(
    $('live-note').textContent.match(/\\d+/)))).observe($('live-note'), {childList: true}); $('typed').focus(); }''')
  for key in ['End', *['Backspace'] * 6, *'tired.'] * 2:
    before = tab.evaluate('() => times.length')
    tab.keyboard.press(key)
    if key != 'End':
      tab.wait_for_function('before => times.length > before', arg=before)
  times = tab.evaluate('() => times')
  return {'answer_ms_median': statistics.median(times), 'answer_ms_most': max(times)}


if __name__ == '__main__':
  programs.run(main)
