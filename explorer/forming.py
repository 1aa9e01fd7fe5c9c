"""The page of heads as they form: a few sentences at every moment that training took down, with a slider over them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from explorer import capture, opening, page, texts
from explorer.capture import Capture
from explorer.reports import Report
from explorer.watching import Moment, Seen

MOST_CHARACTERS = 16_000_000  # of all moments' weights on a page; of more moments every second, third, … is shown
ORIGIN = 'the same at every step, read out to the decoder'


def explain(moments: Sequence[Moment], vocabularies: tuple[Any, Any], told: Mapping[int, str],
            card: Sequence[tuple[str, str]] = ()) -> Report:
  """A report on a run's moments; it opens on the last one.

  Args:
    moments: as watching.read() gives them.
    vocabularies: source and target.
    told: of steps, how good the model was there, for people.
    card: (name, value) of what the model is.

  Raises:
    ValueError: when there is no moment.
  """
  if not moments:
    raise ValueError('no attention was taken down while the run trained; train with '
                     '--config.train.watch_attention=samples, or a file of sentences')
  moments = fitting(moments, MOST_CHARACTERS)
  last = tuple(_sentence(seen, vocabularies) for seen in moments[-1].sentences)
  first = opening.choose([sentence.capture for sentence in last])
  content = page.report(last, first, card, 1 - first.sentence if len(last) == 2 else None, with_vectors=False)
  for number, record in enumerate(content['sentences']):
    seen = [moment.sentences[number] for moment in moments]
    record['weights'] = [_packed(each) for each in seen]
    record['log_probs'] = [round(float(each.log_probs.sum()), 4) for each in seen]
  content['training'] = [{'step': moment.step, 'summary': told.get(moment.step, '')} for moment in moments]
  return Report(page.page(content), first, last)


def fitting(moments: Sequence[Moment], most: int) -> list[Moment]:
  """The moments, or evenly spread ones of them with the first and the last, that a page has room for."""
  size = max(sum(len(_packed(seen)) for seen in moment.sentences) for moment in (moments[0], moments[-1]))
  count = min(len(moments), max(2, most // size))
  return [moments[place] for place in np.unique(np.linspace(0, len(moments) - 1, count).round().astype(int))]


def _packed(seen: Seen) -> str:
  return page.packed(np.concatenate([weights.ravel() for weights in seen.weights.values()]))


def _sentence(seen: Seen, vocabularies: tuple[Any, Any]) -> page.Sentence:
  source, target = vocabularies
  text = lambda ids, vocabulary: vocabulary.decode(list(ids[:-1]))
  return page.Sentence(text(seen.source, source), text(seen.target, target), Capture(
      source=texts.describe(seen.source, source) if seen.source else None,
      reads=texts.describe([target.bos_id, *seen.target[:-1]], target), predicts=texts.describe(seen.target, target),
      weights={kind: capture.from_shares(weights) for kind, weights in seen.weights.items()}, operands={},
      log_probs=seen.log_probs, top=(), padded=(0, 0), written=(), origin=ORIGIN))
