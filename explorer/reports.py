"""Make a report on lines: translate them, record every head, close each head in turn, and write it all on a page.

    translator = tasks.load('runs/phrasebook')
    reports.explain(translator, ['The dog sleeps.'])                    # shows itself in a notebook
    reports.explain(translator, ['The dog sleeps.']).save('report.html')
"""

import dataclasses
import html
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from checks.whole_files import write_whole
from decoding.continuer import LINE_END, Continuer
from decoding.requests import Request
from decoding.translator import Translator
from explorer import beam, capture, first_view, gates, head_ablation, logit_lens, page, texts
from explorer.capture import TokenPair
from transformer import architectures
from transformer.config import ModelConfig
from transformer.model import count_parameters

_PRODUCTS = ('scaled_dot', 'dot')  # scores that the page can recompute from queries and keys
_IN_SCORES = ('relative', 't5')  # positions whose part in the scores is in neither queries nor keys


@dataclasses.dataclass(frozen=True)
class Report:
  """A page, ready to be shown or saved."""

  html: str = dataclasses.field(repr=False)
  first_view: first_view.FirstView
  sentences: tuple[page.Sentence, ...] = dataclasses.field(repr=False)
  notes: tuple[str, ...] = ()  # on the lines, such as lines that were cut; counted from 1, blank ones included

  def save(self, path: str) -> None:
    """Write the page, whole or not at all."""
    write_whole(path, self.html)

  def _repr_html_(self) -> str:
    """Return the report for a notebook, in a frame of its own."""
    return (f'<iframe srcdoc="{html.escape(self.html)}" width="100%" height="900" style="border:0" '
            'sandbox="allow-scripts allow-downloads"></iframe>')


class Continuing:
  """A language model's Continuer (tasks.language_model) with the interface of a translator, for explain().

  There is no source: the prompt and its continuation are the target, under teacher forcing.
  """

  def __init__(self, continuer: Continuer):
    self._continuer = continuer
    model, vocabulary = continuer.parts
    self.parts = model, vocabulary, vocabulary

  @property
  def params(self) -> Any:
    return [self._continuer.params]

  @params.setter
  def params(self, params: Any) -> None:
    self._continuer.params, = params

  def encode(self, lines: Sequence[str]) -> list[list[int]]:
    """Return an empty source for each line."""
    return [[] for _ in lines]

  def translate(self, requests: Sequence[Request]) -> list[Any]:
    """Return the continuation of each request's line; its text is that of its tokens, those of the prompt included."""
    _, _, vocabulary = self.parts
    spelt = lambda ids: vocabulary.decode(list(ids)).replace('\n', LINE_END)
    found = self._continuer.continue_lines([request.source for request in requests])
    return [each._replace(text=spelt(each.ids)) for each in found]

  def notes(self) -> list[str]:
    """Return notes for the user on the lines so far, such as lines that were cut."""
    return self._continuer.notes()


Writer = Translator | Continuing


def alone(run: Writer) -> Writer:
  """Return a trained run that is one model. Raises ValueError of an ensemble."""
  if len(run.params) > 1:
    raise ValueError(f'an ensemble of {len(run.params)} models; the explorer shows what one model does: give one run, and one '
                     'checkpoint or an average')
  return run


def readable(run: Translator | Continuer | Continuing) -> Writer:
  """Return a trained run in the form that explain() reads: a language model as a translator without sources."""
  return Continuing(run) if isinstance(run, Continuer) else run


def explain(translator: Translator | Continuer | Continuing, lines: Sequence[str], references: Sequence[str] | None = None,
            card: Sequence[tuple[str, str]] = (), with_effects: bool = True, with_vectors: bool | None = None,
            progress: Callable[[int], Callable[[], Any]] = lambda heads: lambda: None,
            live: Mapping[str, Any] | None = None) -> Report:
  """Make the report on sentences, or on prompts of a language model.

  Args:
    translator: a trained run, tasks.load(workdir).
    lines: sentences, or prompts; blank ones are left out.
    references: other translations of the same lines, shown beside those that the search finds; a line whose reference
      is blank is left out.
    card: further rows (name, value) that describe the model.
    with_effects: whether each head is closed in turn.
    with_vectors: whether the page has queries, keys and values; None: if they are few.
    progress: given the number of heads to be closed, returns what is called after each.
    live: the translator as explorer/live.py writes it down, for a page that translates by itself.

  Raises:
    ValueError: when there is no line, or not one reference for each, or the model has no attention; of an ensemble.
  """
  translator = alone(readable(translator))
  if references is not None and len(references) != len(lines):
    raise ValueError(f'{len(lines)} sentences and {len(references)} references; expected one reference for each '
                     'sentence, or none')
  requests, references = without_blanks(lines, references)
  if not requests:
    raise ValueError('all sentences, or the references of all, are blank; expected at least one sentence, with its '
                     'reference where references are given')
  model, source, target = translator.parts
  lines = [request.source for request in requests]
  found = translator.translate(requests)
  notes = tuple(translator.notes())  # before heads are closed
  sources = translator.encode(lines)
  has_source = any(sources)
  origin = f'{"translated" if has_source else "continued"} by the search'
  pairs = [TokenPair(ids, [*written.ids, target.eos_id], origin) for ids, written in zip(sources, found)]
  pairs += [TokenPair(pair.source, [*target.encode(text), target.eos_id], 'reference translation (teacher forcing)')
            for pair, text in zip(pairs, references)]
  spelt = [*lines, *lines[:len(references)]]
  written = [*(each.text for each in found), *references]
  with_products = computable(model)
  captures = capture.by_group(pairs, lambda some: capture.record(
      model, translator.params[0], some, source, target, with_operands=with_products))
  if not captures[0].weights:
    raise ValueError('the model has no attention, so there is nothing to show; expected a model with attention heads')
  open_gates = gates.open_gates(translator.params[0])
  log_probs, changes = [None] * len(spelt), [{}] * len(spelt)
  if with_effects and open_gates:
    head_closed = progress(len(gates.heads(open_gates)))
    log_probs, changes = head_ablation.measure(translator, requests, pairs, head_closed)
  trees = _trees(translator, pairs, captures, len(lines)) if has_source else []
  trees += [None] * (len(pairs) - len(trees))
  sentences = tuple(
      page.Sentence(text if has_source else '', translation, one, by_layer,
                    None if log_prob is None else float(log_prob), change, tree, usual)
      for text, translation, one, by_layer, log_prob, change, tree, usual in zip(
          spelt, written, captures, _layer_predictions(translator, pairs), log_probs, changes, trees,
          [*[None] * len(found), *(each.text for each in found)]))
  first = first_view.choose(captures[:len(lines)])
  with_vectors = page.vectors_fit(captures) if with_vectors is None else with_vectors
  content = page.report(sentences, first, [*_card(model), *card], with_vectors and with_products,
                        scaled=getattr(model.config, 'attention_score', '') == 'scaled_dot', live=live,
                        projected=_projected(model.config, captures[0], with_vectors) if with_products else None)
  return Report(page.page(content), first, sentences, notes)


def without_blanks(lines: Sequence[str], references: Sequence[str] | None) -> tuple[list[Request], list[str]]:
  """Return the lines that are not blank, nor are their references, and these references; [] where none are given."""
  kept = [number for number, line in enumerate(lines)
          if line.strip() and (references is None or references[number].strip())]
  return ([Request(lines[number], line=number) for number in kept],
          [references[number] for number in kept] if references is not None else [])


def shortest_names(paths: Sequence[str]) -> list[str]:
  """Choose names for folders or files: their last parts, as few as make all names different."""
  parts = [path.rstrip('/').split('/') for path in paths]
  for count in range(1, max(map(len, parts)) + 1):
    names = ['/'.join(of[-count:]) for of in parts]
    if len(set(names)) == len(names):
      break
  return names


def computable(model: Any) -> bool:
  """Return whether a head's weights follow from its queries and keys alone."""
  config = model.config
  return (isinstance(config, ModelConfig) and config.attention_score in _PRODUCTS
          and config.positions not in _IN_SCORES)


def _projected(config: ModelConfig, seen: capture.Capture, with_vectors: bool) -> dict[str, Any]:
  """Return what the page says of the step from tokens' vectors to queries and keys."""
  return {'d_model': config.d_model, 'rotary': config.positions == 'rotary', 'biased': config.attention_bias,
          'sharing': config.num_heads // config.kv_heads, 'matrices': page.matrices(seen) if with_vectors else None}


def _layer_predictions(translator: Any, pairs: Sequence[TokenPair]) -> list[list[list[tuple[str, float]]]]:
  """Return, for each sentence and decoder layer, the likeliest next piece at each step and its probability."""
  model, source, target = translator.parts
  if not logit_lens.layers_of(model):
    return [[] for _ in pairs]

  def predict(some: Sequence[TokenPair]) -> list[list[list[tuple[str, float]]]]:
    batch = capture.padded_batch(model, some, source.pad_id, target.pad_id)
    ids, probabilities = logit_lens.predictions(model, translator.params[0], *batch, target.bos_id)
    return [[list(zip(texts.labels(of_layer.tolist(), target), map(float, shares)))
             for of_layer, shares in zip(ids[row], probabilities[row])] for row in range(len(some))]

  return capture.by_group(pairs, predict)


def _trees(translator: Any, pairs: Sequence[TokenPair], captures: Sequence[capture.Capture], count: int
           ) -> list[dict[str, Any] | None]:
  """Return the search tree of each of the first `count` pairs, compared with the pair's reference if there is one.

  None stands for a search that has no beam, {'refused': why} for one whose tree cannot be shown.
  """
  model, _, target = translator.parts
  config = translator.search_config
  if config.strategy != 'beam' or config.beam_size < 2:
    return [None] * count
  if reason := beam.refusal(config):
    return [{'refused': reason}] * count
  found = []
  for number in range(count):
    tree = beam.search(model, translator.params[0], pairs[number].source, target.bos_id, target.eos_id, config)
    reference = number + count  # references follow what the search found
    compared = reference < len(pairs)
    left = beam.departure(tree, pairs[reference].target, captures[reference].log_probs) if compared else None
    found.append(page.beam_record(tree, lambda ids: texts.labels(ids, target), beam.penalty_name(config), left, compared))
  return found


def _card(model: Any) -> list[tuple[str, str]]:
  return [('model', architectures.describe(model.config)), ('parameters', f'{count_parameters(model):,}')]
