"""Write a report as one self-contained page: page/page.html with its style, its scripts and the report's numbers.

Weights are 16-bit integers (65,535 for 1), deflated and written in base64; the page's script inflates them. Texts are
JSON, escaped so that nothing can end the script element that holds it.
"""

import base64
import dataclasses
import json
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from explorer.beam import Departure, Tree
from explorer.capture import Capture, to_uint16
from explorer.first_view import FirstView
from explorer.gates import KINDS, Head
from explorer.head_ablation import Effect

_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'page')
# The parts of the page's script, one subject a file, in the order in which they are joined. They share one scope:
# functions may use whatever any part defines; statements that run at once, only what an earlier part defines.
# A panel is one file and one line here, and panels are on the page in this order.
SCRIPTS = (
    'elements.js', 'data.js', 'state.js', 'colours.js', 'pens.js', 'pictures.js', 'matching.js', 'focus.js',
    'arcs.js', 'heat_map.js', 'pane.js', 'headline.js', 'architecture.js', 'controls.js', 'panels.js',
    'panels/training.js',
    'panes.js',
    'panels/grid.js',
    'panels/ranking.js',
    'panels/projection.js',
    'panels/calculation.js',
    'panels/steps.js',
    'panels/beam.js',
    'panels/effects.js',
    'panels/model.js',
    'live/weights.js', 'live/products.js', 'live/subwords.js', 'live/naming.js', 'live/attention.js',
    'live/transformer.js', 'live/search.js', 'live/record.js', 'live/session.js',
    'live/save.js', 'live/box.js', 'live/effects.js',
    'start.js',
)
_LIVE = 'live/'  # parts that only a page with a model in it has, see explorer/live.py
_MOST_NUMBERS = 200_000  # of vectors in a sentence that a page has by default: 400 kB before packing
_MOST_MATRICES = 400_000  # numbers of projections that a page has: 800 kB before packing


@dataclasses.dataclass(frozen=True)
class Sentence:
  """All that a report shows of one sentence and its translation."""

  source: str
  target: str
  capture: Capture
  lens: Sequence[Sequence[tuple[str, float]]] = ()  # for each decoder layer, the piece it would predict at each step
  log_prob: float | None = None  # of the target, under teacher forcing
  effects: Mapping[Head, Effect] = dataclasses.field(default_factory=dict)  # of closing each head
  beam: Mapping[str, Any] | None = None  # the search tree, see beam_record; {'refused': why there is none}
  written: str | None = None  # what the search writes, where the target is another text, such as a reference


def packed(numbers: np.ndarray) -> str:
  """Encode an array of 16-bit integers as text: little endian, deflated, in base64."""
  if numbers.dtype not in (np.uint16, np.int16):
    raise TypeError(f'numbers are {numbers.dtype}; expected 16-bit integers')
  return in_base64(numbers.astype(numbers.dtype.newbyteorder('<')).tobytes())


def in_base64(data: bytes) -> str:
  """Encode bytes as text: deflated, in base64."""
  return base64.b64encode(zlib.compress(data, 9)).decode()


def _shares(arrays: Mapping[tuple[str, str], np.ndarray]) -> dict[str, Any]:
  """Encode arrays [layers, heads, rows, columns], by kind and role, as 16-bit shares of their layer's largest number."""
  parts, numbers, start = [], [], 0
  for (kind, role), values in arrays.items():
    scales = np.maximum(np.abs(values).max(axis=(1, 2, 3)), 1e-30)
    parts.append({'kind': kind, 'role': role, 'shape': values.shape, 'start': start, 'size': values.size,
                  'scales': scales.tolist()})
    numbers.append(np.round(values / scales[:, None, None, None] * 32767).astype(np.int16).ravel())
    start += values.size
  return {'parts': parts, 'data': packed(np.concatenate(numbers))}


def vectors(capture: Capture) -> dict[tuple[str, str], np.ndarray]:
  """Return queries, keys and values, and what is projected to queries and keys, by kind and role: [N, heads, tokens, width].

  In self-attention keys are made of what queries are made of.
  """
  found = {(kind, role): values for kind, operands in capture.operands.items()
           for role, values in operands._asdict().items()}
  for kind, (query_input, key_input, *_) in capture.projections.items():
    found[kind, 'query_input'] = query_input[:, None]
    if kind == 'cross':
      found[kind, 'key_input'] = key_input[:1, None]  # the encoder's output, to every layer
  return found


def matrices(capture: Capture) -> dict[str, Any] | None:
  """Return the matrices of queries and keys as JSON for page/data.js; None where they are too many or not recorded."""
  found = {(kind, side): matrix.transpose(0, 2, 3, 1) for kind, (_, _, *both) in capture.projections.items()
           for side, matrix in zip(('query', 'key'), both)}  # [N, heads, K, D]
  return _shares(found) if 0 < sum(matrix.size for matrix in found.values()) <= _MOST_MATRICES else None


def vectors_fit(captures: Sequence[Capture]) -> bool:
  """Return whether queries, keys, values and their inputs are few enough to be in a report by default."""
  return all(sum(values.size for values in vectors(capture).values()) <= _MOST_NUMBERS for capture in captures)


def beam_record(tree: Tree, name: Callable[[Sequence[int]], list[str]], penalty: str, departure: Departure | None,
                compared: bool) -> dict[str, Any]:
  """Return a search tree as JSON for page/panels/beam.js.

  Args:
    name: spells token ids.
    penalty: the length penalty in words, see beam.penalty_name.
    departure: where the reference leaves the beam, or the search ends before it, if either happens.
    compared: whether there is a reference.
  """
  labels = name([node.token for node in tree.nodes])
  record = {'nodes': [[node.parent, node.step, label, round(node.log_prob, 4), node.fate,
                       None if node.score is None else round(node.score, 4)]
                      for node, label in zip(tree.nodes, labels)], 'best': tree.best, 'penalty': penalty,
            'compared': compared}
  if departure:
    record['left'] = {**departure._asdict(), 'token': name([departure.token])[0]}
  return record


def sentence_record(sentence: Sentence, with_vectors: bool, scaled: bool) -> dict[str, Any]:
  """Return a sentence as JSON for page/data.js."""
  capture = sentence.capture
  kinds = [kind for kind in KINDS if kind in capture.weights]
  sides = {'source': capture.source, 'reads': capture.reads, 'predicts': capture.predicts}
  steps = [{'top': [[text, round(share, 5)] for text, share in top], 'written': written}
           for top, written in zip(capture.top, capture.written)]
  for t, step in enumerate(steps if sentence.lens else []):
    step['lens'] = [[layer[t][0], round(layer[t][1], 5)] for layer in sentence.lens]
  record = {
      'source': sentence.source, 'target': sentence.target, 'origin': capture.origin, 'padded': capture.padded,
      'texts': {name: {'pieces': text.pieces, 'words': text.words, 'word_of_piece': text.word_of_piece,
                       'special': text.special} for name, text in sides.items() if text},
      'shapes': {kind: capture.weights[kind].shape for kind in kinds},
      'weights': packed(np.concatenate([to_uint16(capture.weights[kind]).ravel() for kind in kinds])),
      'log_probs': [round(float(value), 5) for value in capture.log_probs], 'steps': steps}
  if with_vectors and capture.operands:
    record['vectors'] = {'scaled': scaled} | _shares(vectors(capture))
  if sentence.beam:
    record['beam'] = sentence.beam
  if sentence.effects:
    as_json = lambda effect: {'change': round(effect.change, 5), 'text': effect.text}
    written = {} if sentence.written is None else {'written': sentence.written}
    record['effects'] = {'log_prob': sentence.log_prob, **written, 'heads': {
        kind: [[as_json(sentence.effects[Head(kind, layer, head)]) for head in range(capture.weights[kind].shape[1])]
               for layer in range(capture.weights[kind].shape[0])] for kind in kinds}}
  return record


def report(sentences: Sequence[Sentence], first_view: FirstView, card: Sequence[tuple[str, str]],
           with_vectors: bool = True, scaled: bool = True, projected: Mapping[str, Any] | None = None,
           live: Mapping[str, Any] | None = None) -> dict[str, Any]:
  """Return all that the page shows, as JSON.

  Args:
    first_view: what the page shows first.
    card: rows (name, value) that describe the model.
    with_vectors: whether to include queries, keys and values, and with them the calculation behind a weight.
    scaled: whether scores are divided by √d_k.
    projected: what queries and keys are made from: {'d_model': width of the tokens' vectors, 'rotary': whether their
      positions turn them, 'biased': whether a bias is added, 'sharing': how many heads share a matrix of keys,
      'matrices': see matrices()}; None: the page does not say.
    live: the model that translates in the page, see explorer/live.py; None: the page does not translate.
  """
  return {'sentences': [sentence_record(sentence, with_vectors, scaled) for sentence in sentences],
          'first_view': first_view._asdict(), 'card': [list(row) for row in card],
          **({'projected': dict(projected)} if projected else {}),
          **({'live': dict(live)} if live else {})}


def as_script_text(content: Any) -> str:
  """Write JSON for a script element, without characters that could end the element or count as the end of a line."""
  text = json.dumps(content, ensure_ascii=False, separators=(',', ':'), allow_nan=False)
  return text.translate({ord(character): f'\\u{ord(character):04x}' for character in '<>&\u2028\u2029'})


def script(with_live: bool = True) -> str:
  """Return the page's own script: its parts, joined; `with_live`: those that translate, too."""
  return '\n'.join(_read(name) for name in SCRIPTS if with_live or not name.startswith(_LIVE))


def page(content: dict[str, Any]) -> str:
  """Return the page as HTML: one file that loads nothing else."""
  text = _read('page.html')
  parts = {'STYLE': _read('page.css'), 'SCRIPT': script('live' in content), 'REPORT': as_script_text(content)}
  for mark, part in parts.items():  # the report last: its texts may hold the other marks
    before, after = text.split(f'/*{mark}*/')
    text = before + part + after
  return text


def _read(name: str) -> str:
  with open(os.path.join(_FOLDER, name), encoding='utf-8') as file:
    return file.read()
