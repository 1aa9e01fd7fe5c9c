"""The page on training: attention on a few sentences in each snapshot of training, with a slider over the snapshots."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from explorer import capture, first_view, page, texts
from explorer.capture import Capture
from explorer.reports import Report
from explorer.snapshots import SentenceSnapshot, Snapshot

MOST_CHARACTERS = 16_000_000  # of all weights in a page; where there are more, evenly spread snapshots are shown
ORIGIN = 'fixed target (teacher forcing), the same in every snapshot'


def explain(snapshots: Sequence[Snapshot], vocabularies: tuple[Any, Any], summaries: Mapping[int, str],
            card: Sequence[tuple[str, str]] = ()) -> Report:
  """Make the report on a run's snapshots, which shows the last of them first.

  Args:
    snapshots: as explorer.snapshots.read() returns them.
    vocabularies: source and target.
    summaries: for steps that have one, a line about the model at that step, such as its validation BLEU.
    card: rows (name, value) that describe the model.

  Raises:
    ValueError: when there is no snapshot.
  """
  if not snapshots:
    raise ValueError('the run has no snapshots of attention; train with --config.train.watch_attention=samples, or '
                     'with a file of sentences')
  note = f'{len(snapshots)} snapshots of training, up to step {snapshots[-1].step:,}'
  snapshots = fitting(snapshots, MOST_CHARACTERS)
  last = tuple(_sentence(seen, vocabularies) for seen in snapshots[-1].sentences)
  first = first_view.choose([sentence.capture for sentence in last])
  content = page.report(last, first, card, with_vectors=False)
  for number, record in enumerate(content['sentences']):
    seen = [snapshot.sentences[number] for snapshot in snapshots]
    record['weights'] = [_packed(each) for each in seen]
    record['log_probs'] = [round(float(each.log_probs.sum()), 4) for each in seen]
  content['training'] = [{'step': snapshot.step, 'summary': summaries.get(snapshot.step, '')} for snapshot in snapshots]
  return Report(page.page(content), first, last, (note,))


def fitting(snapshots: Sequence[Snapshot], most: int) -> list[Snapshot]:
  """Return all snapshots, or as many evenly spread ones, first and last included, as `most` characters can hold."""
  size = max(sum(len(_packed(seen)) for seen in snapshot.sentences) for snapshot in (snapshots[0], snapshots[-1]))
  count = min(len(snapshots), max(2, most // size))
  return [snapshots[place] for place in np.unique(np.linspace(0, len(snapshots) - 1, count).round().astype(int))]


def _packed(seen: SentenceSnapshot) -> str:
  return page.packed(np.concatenate([weights.ravel() for weights in seen.weights.values()]))


def _sentence(seen: SentenceSnapshot, vocabularies: tuple[Any, Any]) -> page.Sentence:
  source, target = vocabularies
  text = lambda ids, vocabulary: vocabulary.decode(list(ids[:-1]))
  return page.Sentence(text(seen.source, source), text(seen.target, target), Capture(
      source=texts.describe(seen.source, source) if seen.source else None,
      reads=texts.describe([target.bos_id, *seen.target[:-1]], target), predicts=texts.describe(seen.target, target),
      weights={kind: capture.from_uint16(weights) for kind, weights in seen.weights.items()}, operands={},
      log_probs=seen.log_probs, top=(), padded=(0, 0), written=(), origin=ORIGIN))
