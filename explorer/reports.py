"""From lines to a report: translated, taken down, each head closed in turn, and put on a page.

    translator = from_folder.load('runs/phrasebook')
    reports.explain(translator, ['The dog sleeps.'])                    # shows itself in a notebook
    reports.explain(translator, ['The dog sleeps.']).save('report.html')
"""

import dataclasses
import html
from collections.abc import Callable, Sequence
from typing import Any

from checks.whole_files import write_whole
from explorer import beam, capture, effects, gates, lens, opening, page, texts
from explorer.capture import Reading
from transformer import architectures
from transformer.config import ModelConfig
from transformer.model import count_parameters

_PRODUCTS = ('scaled_dot', 'dot')  # scores that the page can compute again from queries and keys
_IN_SCORES = ('relative', 't5')  # positions that add to scores what is in neither


@dataclasses.dataclass(frozen=True)
class Report:
  """A page, ready to be shown or saved."""

  html: str
  opening: opening.Opening
  sentences: tuple[page.Sentence, ...]

  def save(self, path: str) -> None:
    """Writes the page, whole or not at all."""
    write_whole(path, self.html)

  def _repr_html_(self) -> str:
    """The report in a notebook, in a frame of its own."""
    return (f'<iframe srcdoc="{html.escape(self.html)}" width="100%" height="900" style="border:0" '
            'sandbox="allow-scripts allow-downloads"></iframe>')


class Continuing:
  """A language model's writer (decoding.continuer.Continuer) as explain() takes translators.

  There is no source: a prompt and what was written after it are read out as one text.
  """

  def __init__(self, writer: Any):
    self._writer = writer
    model, vocabulary = writer.parts
    self.parts = model, vocabulary, vocabulary

  @property
  def params(self) -> Any:
    return [self._writer.params]

  @params.setter
  def params(self, params: Any) -> None:
    self._writer.params, = params

  def encode(self, lines: Sequence[str]) -> list[list[int]]:
    """Sources of no tokens."""
    return [[] for _ in lines]

  def translate(self, lines: Sequence[str]) -> list[Any]:
    """Continuations."""
    return self._writer.continue_lines(lines)

  def notes(self) -> list[str]:
    """What a user should know of the lines so far."""
    return self._writer.notes()


def explain(translator: Any, lines: Sequence[str], references: Sequence[str] | None = None,
            card: Sequence[tuple[str, str]] = (), with_effects: bool = True, with_vectors: bool | None = None,
            progress: Callable[[int], Callable[[], Any]] = lambda heads: lambda: None) -> Report:
  """A report on sentences.

  Args:
    translator: a trained run, tasks.from_folder.load(workdir), or Continuing around a language model's.
    lines: sentences, or prompts; blank ones are left out.
    references: other translations of the same lines, shown beside those that the search finds.
    card: further (name, value) of what the model is.
    with_effects: whether each head is closed in turn.
    with_vectors: whether queries, keys and values are in the page; None: where they are few.
    progress: given the number of heads to be closed, returns what is called after each.

  Raises:
    ValueError: when there is no line, or not one reference for each, or the model has no attention.
  """
  lines = [line for line in lines if line.strip()]
  references = [line for line in references if line.strip()] if references is not None else []
  if not lines or references and len(references) != len(lines):
    raise ValueError(f'{len(lines)} sentences and {len(references)} references; expected at least one sentence, and '
                     'one reference for each or none')
  model, source, target = translator.parts
  found = translator.translate(lines)
  sources = translator.encode(lines)
  has_source = any(sources)
  origin = f'as the search {"translated" if has_source else "continued"} it'
  readings = [Reading(ids, [*written.ids, target.eos_id], origin) for ids, written in zip(sources, found)]
  readings += [Reading(reading.source, [*target.encode(text), target.eos_id], 'the reference, read out to the decoder')
               for reading, text in zip(readings, references)]
  spelt = [*lines, *lines[:len(references)]]
  written = [*(each.text for each in found), *references]
  computable = _computable(model)
  captures = capture.read(model, translator.params[0], readings, source, target, with_operands=computable)
  if not captures[0].weights:
    raise ValueError('the model has no attention, so that there is nothing to see; expected a model with heads')
  open_gates = gates.open_gates(translator.params[0])
  log_probs, changes = [None] * len(spelt), [{}] * len(spelt)
  if with_effects and open_gates:
    told = progress(len(gates.heads(open_gates)))
    log_probs, changes = effects.measure(translator, spelt, readings, told)
  trees = _trees(translator, readings, captures, len(lines)) if has_source else []
  trees += [None] * (len(readings) - len(trees))
  sentences = tuple(
      page.Sentence(text if has_source else '', translation, one, said, None if log_prob is None else float(log_prob),
                    change, tree)
      for text, translation, one, said, log_prob, change, tree in zip(
          spelt, written, captures, _said(translator, readings), log_probs, changes, trees))
  first = opening.choose(captures[:len(lines)])
  beside = 1 - first.sentence if len(lines) == 2 else None
  with_vectors = page.vectors_fit(captures) if with_vectors is None else with_vectors
  content = page.report(sentences, first, [*_card(model), *card], beside, with_vectors and computable,
                        scaled=getattr(model.config, 'attention_score', '') == 'scaled_dot')
  return Report(page.page(content), first, sentences)


def shortest_names(paths: Sequence[str]) -> list[str]:
  """What folders are called beside each other: their last parts, as many as tell them apart."""
  parts = [path.rstrip('/').split('/') for path in paths]
  for count in range(1, max(map(len, parts)) + 1):
    names = ['/'.join(of[-count:]) for of in parts]
    if len(set(names)) == len(names):
      break
  return names


def _computable(model: Any) -> bool:
  """Whether a head's weights follow from its queries and keys alone."""
  config = model.config
  return (isinstance(config, ModelConfig) and config.attention_score in _PRODUCTS
          and config.positions not in _IN_SCORES)


def _said(translator: Any, readings: Sequence[Reading]) -> list[list[list[tuple[str, float]]]]:
  """Of each sentence and decoder layer, the likeliest next piece at each step."""
  model, source, target = translator.parts
  if not lens.layers_of(model):
    return [[] for _ in readings]
  batch = capture.laid_out(readings, source.pad_id, target.pad_id)
  ids, probabilities = lens.say(model, translator.params[0], *batch, target.bos_id)
  return [[list(zip(texts.labels(of_layer.tolist(), target), map(float, shares)))
           for of_layer, shares in zip(ids[row], probabilities[row])] for row in range(len(readings))]


def _trees(translator: Any, readings: Sequence[Reading], captures: Sequence[capture.Capture], count: int
           ) -> list[dict[str, Any] | None]:
  """The beam of each of the first `count` readings, held against its reference where there is one."""
  model, _, target = translator.parts
  config = translator.search_config
  if config.strategy != 'beam' or config.beam_size < 2 or config.coverage_penalty:  # the tree's scores know of none
    return [None] * count
  found = []
  for number in range(count):
    tree = beam.search(model, translator.params[0], readings[number].source, target.bos_id, target.eos_id, config)
    reference = number + count  # references follow what the search found
    compared = reference < len(readings)
    gone = beam.departure(tree, readings[reference].target, captures[reference].log_probs) if compared else None
    found.append(page.beam_record(tree, lambda ids: texts.labels(ids, target), gone, compared))
  return found


def _card(model: Any) -> list[tuple[str, str]]:
  return [('model', architectures.describe(model.config)), ('parameters', f'{count_parameters(model):,}')]
