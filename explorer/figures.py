"""Figures for papers: attention grids, position encodings, learning and pruning curves, smoothed and learnt targets.

Each function returns a figure of its own; nothing is kept in matplotlib's global state. Texts that come from elsewhere,
such as tokens and the names of runs, are drawn as they are: a $ in them begins no formula.
"""

import contextlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from explorer.capture import Capture, TokenPair
from explorer.gates import KINDS
from transformer import positions, tokens
from transformer.model import Model

DPI = 150  # dots per inch, but see dots_per_inch
MOST_PIXELS = 60_000_000  # of a picture; each takes four bytes
MOST_BESIDE = 60_000  # pixels on a side; matplotlib draws less than 2^16
DEFAULT_FONT = 'DejaVu Sans'  # which matplotlib brings
LONGEST_NAME = 22  # characters of a row or column


def dots_per_inch(width: float, height: float) -> float:
  """Return DPI, or fewer for a figure of so many inches that its picture would have more pixels than fit."""
  return min(DPI, (MOST_PIXELS / (width * height)) ** 0.5, MOST_BESIDE / max(width, height))


def choose_fonts(figure: Figure) -> str:
  """Let installed fonts draw what matplotlib's own has no letters for, such as Chinese; return the letters that none has."""
  for axes in figure.axes:  # asking for them makes the texts of rows and columns, which else drawing does
    axes.get_xticklabels(), axes.get_yticklabels()
  texts = figure.findobj(Text)
  family, missing = [DEFAULT_FONT], {letter for text in texts for letter in text.get_text() if not letter.isspace()}
  default = font_manager.findfont(DEFAULT_FONT)
  for name, path in [(DEFAULT_FONT, default), *sorted({(font.name, font.fname) for font in font_manager.fontManager.ttflist})]:
    if missing and (found := {letter for letter in missing if ord(letter) in font_manager.get_font(path).get_charmap()}):
      family, missing = list(dict.fromkeys([*family, name])), missing - found
  for text in texts if len(family) > 1 else ():
    text.set_family(family)
  return ' '.join(sorted(missing))


@contextlib.contextmanager
def unwarned() -> Iterator[None]:
  """Silence matplotlib's warnings, one for each letter that it has no font for; choose_fonts() returns them all."""
  with warnings.catch_warnings():
    warnings.filterwarnings('ignore', message='Glyph .* missing from')
    yield


def attention(capture: Capture, kind: str) -> Figure:
  """Draw heat maps between words, a row of them for each layer, one for each head; rows attend to columns."""
  rows, columns = capture.axes(kind)
  maps = capture.by_word(kind)
  layers, heads, queries, keys = maps.shape
  mask = _later(rows.word_of_piece, columns.word_of_piece) if kind == 'decoder' else False
  cell, title = 0.155, f'{KINDS[kind]}, rows attend to columns'
  size = max(1.1 + heads * (keys * cell + 0.25), 0.075 * len(title)), 1.2 + layers * (queries * cell + 0.3)
  figure = Figure(figsize=size, dpi=dots_per_inch(*size), layout='constrained')
  grid = figure.subplots(layers, heads, squeeze=False)
  for layer, head in np.ndindex(layers, heads):
    axes = grid[layer, head]
    shown = np.ma.array(maps[layer, head], mask=mask)
    axes.set_facecolor('0.92')  # masked weights
    axes.imshow(shown, cmap='Blues', vmin=0, vmax=1, aspect='equal')
    axes.set_title(f'layer {layer + 1}, head {head + 1}', fontsize=7)
    named = lambda text, is_here: [_shortened(word) for word in text.words] if is_here else []
    axes.set_xticks(range(keys), named(columns, layer == layers - 1), rotation=90, fontsize=7, parse_math=False)
    axes.set_yticks(range(queries), named(rows, head == 0), fontsize=7, parse_math=False)
    axes.tick_params(length=0)
  figure.suptitle(title, fontsize=9)
  return figure


def _shortened(word: str) -> str:
  """Return what of a word names a row or a column: as on the page, its beginning where it is long."""
  return word if len(word) <= LONGEST_NAME else f'{word[:LONGEST_NAME - 1]}…'


def _later(rows: Sequence[int], columns: Sequence[int]) -> np.ndarray:
  """Return where no piece of a row's word may see a piece of a column's [words, words]: the word is read after it.

  Args:
    rows, columns: the word of each piece, see Text.word_of_piece; as many pieces of either.
  """
  last = [len(rows) - 1 - rows[::-1].index(word) for word in range(rows[-1] + 1)]
  first = [columns.index(word) for word in range(columns[-1] + 1)]
  return np.greater.outer(first, last).T


def position_encodings(length: int = 20, width: int = 512) -> Figure:
  """Draw §3.5's sines and cosines in both layouts, and their products, which depend on the positions' distance only."""
  figure = Figure(figsize=(11, 6.5), dpi=DPI, layout='constrained')
  top, bottom = figure.subplots(2, 2)
  for axes, layout in zip(top, ('interleaved', 'halves')):
    image = axes.imshow(positions.sinusoids(length, width, layout), cmap='RdBu', vmin=-1, vmax=1, aspect='auto')
    axes.set_title({'interleaved': 'interleaved: sine, cosine, sine, … (the formula)',
                    'halves': 'all sines, then all cosines (as it is often drawn)'}[layout], fontsize=9)
    axes.set_xlabel('dimension')
    axes.set_ylabel('position')
  figure.colorbar(image, ax=top)
  products = position_products(length, width)
  image = bottom[0].imshow(products, cmap='viridis')
  bottom[0].set_title('PE(p) · PE(q)', fontsize=9)
  bottom[0].set_xlabel('position q')
  bottom[0].set_ylabel('position p')
  figure.colorbar(image, ax=bottom[0])
  reach = position_products(200, width)
  for start in (0, 50, 100):
    bottom[1].plot(range(100), reach[start, start:start + 100], label=f'p = {start}', linewidth=4 - start / 30)
  bottom[1].set_title('PE(p) · PE(p + k): the same for every p', fontsize=9)
  bottom[1].set_xlabel('distance k')
  bottom[1].legend()
  return figure


def position_products(length: int, width: int) -> np.ndarray:
  """Compute the products of the encodings of every two positions, [length, length]."""
  encodings = positions.sinusoids(length, width).astype(np.float64)
  return encodings @ encodings.T


def learning_curves(runs: Mapping[str, Sequence[Mapping[str, Any]]], measure: str = 'bleu', label: str = 'BLEU') -> Figure:
  """Draw training loss and a measure of validation text against steps.

  Args:
    runs: by name, the lines of each run's metrics.jsonl.
    measure: its name there, behind validation/.
    label: its name for people.
  """
  figure = Figure(figsize=(10, 4), dpi=DPI, layout='constrained')
  for axes, name, title in zip(figure.subplots(1, 2), ('train/loss', f'validation/{measure}'),
                               ('training loss per token', f'validation {label}')):
    for run, lines in runs.items():
      steps, values = curve(lines, name)
      axes.plot(steps, values, label=run, marker='o' if len(steps) < 30 else None, markersize=3)
    axes.set_xlabel('step')
    axes.set_ylabel(title)
    axes.grid(alpha=0.3)
    _name_lines(axes)
  return figure


def _name_lines(axes: Axes) -> None:
  """Add a legend with the labels of the lines as they are."""
  lines = axes.get_lines()  # given by hand, since a legend leaves out labels that begin with _
  for text in axes.legend(lines, [line.get_label() for line in lines], fontsize=8).get_texts():
    text.set_parse_math(False)


def curve(lines: Sequence[Mapping[str, Any]], name: str) -> tuple[list[int], list[float]]:
  """Return the steps and values of a measure; lines without it, or without a number, are left out."""
  found = [(line['step'], line[name]) for line in lines if line.get(name) is not None]
  return [step for step, _ in found], [value for _, value in found]


def pruning_curves(analyses: Mapping[str, Mapping[str, Any]]) -> Figure:
  """Draw BLEU against the share of heads closed, the least important first (Michel et al., 2019, Figure 3).

  Args:
    analyses: by name, what analyze.py --pruning wrote.

  Raises:
    ValueError: when an analysis was written without --pruning.
  """
  figure = Figure(figsize=(6, 4), dpi=DPI, layout='constrained')
  axes = figure.subplots()
  for name, record in analyses.items():
    if 'pruning' not in record:
      raise ValueError(f'{name} has no pruning curve; write it with analyze.py --pruning')
    total = len(record['least_important_first'])
    axes.plot([step['closed'] for step in record['pruning']], [step['bleu'] for step in record['pruning']],
              marker='o', markersize=4, label=f'{name} ({total} heads, {record["sentences"]} sentences)')
  axes.set_xlabel('heads closed')
  axes.set_ylabel('BLEU (greedy search)')
  axes.grid(alpha=0.3)
  _name_lines(axes)
  return figure


def distributions(target: np.ndarray, learnt: np.ndarray, pieces: Sequence[str], steps: Sequence[str]) -> Figure:
  """Draw the smoothed target beside the model's distribution, step by step.

  Args:
    target, learnt: [T, shown entries] probabilities.
    pieces: the names of the entries.
    steps: the target's piece at each step.
  """
  figure = Figure(figsize=(2 + 0.75 * len(pieces), 1.2 + 0.42 * len(steps)), dpi=DPI, layout='constrained')
  for axes, shares, title in zip(figure.subplots(1, 2, sharey=True), (target, learnt), ('target', 'learnt')):
    axes.imshow(shares, cmap='Blues', vmin=0, vmax=1, aspect='auto')
    for (row, column), share in np.ndenumerate(shares):
      axes.text(column, row, f'{share:.2f}'.lstrip('0') if share < 0.995 else '1', ha='center', va='center', fontsize=7,
                color='white' if share > 0.5 else '0.25')
    axes.set_xticks(range(len(pieces)), pieces, rotation=60, fontsize=8, parse_math=False)
    axes.set_yticks(range(len(steps)), steps, fontsize=8, parse_math=False)
    axes.set_title(title, fontsize=9)
    axes.tick_params(length=0)
  return figure


def next_token_shares(model: Model, params: Any, pair: TokenPair, bos_id: int) -> np.ndarray:
  """Compute the model's probabilities at each step of the target, [T, V], under teacher forcing."""
  source, target = (tokens.pad([ids], 1, len(ids), 0) for ids in (pair.source, pair.target))
  decode = lambda params: model.decode(params, model.encode(params, source), tokens.shift_right(target, bos_id))
  return np.asarray(jax.nn.softmax(jax.jit(decode)(params)))[0]


def entries_to_show(ids: Sequence[int], shares: np.ndarray, more: int = 4) -> list[int]:
  """Choose the vocabulary's entries to draw: those of the target in order, then at most `more` likely others."""
  others = [int(entry) for entry in np.argsort(-shares.max(0)) if entry not in ids]
  return [*dict.fromkeys(ids), *others[:more]]


def smoothed_target(ids: Sequence[int], shown: Sequence[int], size: int, smoothing: float) -> np.ndarray:
  """Compute the smoothed target, [T, shown]: 1 - ε + ε/V on the right token, ε/V on every other (§5.4).

  Args:
    ids: the target.
    shown: the entries of the vocabulary wanted.
    size: V.
    smoothing: ε, the share that is spread over all V entries, see SMOOTHINGS.
  """
  return smoothing / size + (1 - smoothing) * (np.asarray(ids)[:, None] == np.asarray(shown)[None])
