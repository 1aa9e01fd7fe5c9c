"""What training will read, as text for people: train.py --inspect."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from corpora.splits import Corpus
from corpora.vocabulary import Vocabulary

_BLOCK = 1 << 20  # tokens compared at a time
_BARS = 40  # columns of the longest bar of a histogram
_BATCHES, _SHOWN = 10, 2  # batches written out, and pairs of each


def report(corpus: Corpus, plan: Any, source: Vocabulary, target: Vocabulary, bounds: str) -> Iterator[str]:
  """Yield, line by line, what was read, kept and dropped, lengths, padding, unknown pieces, and ten batches as text.

  Args:
    corpus: whose notes say what was dropped, and why.
    plan: an input_pipeline.Plan of pairs.
    source, target: the vocabularies.
    bounds: the options by which long pairs are left out.
  """
  yield f'{corpus.name}: {len(corpus.train):,} training pairs'
  yield from (f'  {note}' for note in corpus.notes)
  yield (f'  {plan.dropped:,} of them have an empty side, or more tokens than {bounds} allow, and are left '
         f'out; {plan.batches_per_epoch:,} batches hold the other {len(corpus.train) - plan.dropped:,}')
  store = plan.store
  for name, side, vocabulary in (('source', store.source, source), ('target', store.target, target)):
    tokens = len(side.ids)
    unknown = sum(int((side.ids[start:start + _BLOCK] == vocabulary.unk_id).sum()) for start in range(0, tokens, _BLOCK))
    yield f'\n{name}: {tokens:,} tokens, {unknown:,} of them unknown ({unknown / max(tokens, 1):.3%})'
    yield from histogram(side.lengths)
  yield (f'\nbatches: {plan.padding():.1%} padding, {plan.sentences_per_batch():.1f} pairs and '
         f'{plan.tokens_per_batch():,.0f} target tokens each')
  yield from (f'  {shape.rows} × ({shape.source}, {shape.target})' for shape in plan.shapes)
  for step in range(min(_BATCHES, plan.batches_per_epoch)):
    batch = plan.batch_at(step)
    yield f'\nbatch {step}: {batch.source.ids.shape[0]} rows, {len(pairs_of(batch))} pairs'
    for ids in pairs_of(batch)[:_SHOWN]:
      yield from (f'  {vocabulary.decode([int(i) for i in side if i != vocabulary.eos_id])}'
                  for side, vocabulary in zip(ids, (source, target)))


def histogram(lengths: np.ndarray) -> Iterator[str]:
  """Yield the lines of a histogram of sentence lengths in tokens, in up to sixteen classes of equal width."""
  width = max(1, -(-int(lengths.max()) // 16))
  counts = np.bincount((lengths - 1).clip(0) // width)
  for place, count in enumerate(counts):
    bar = '#' * round(_BARS * count / counts.max())
    yield f'  {place * width + 1:>5}-{(place + 1) * width:<5} {count:>10,} {bar}'.rstrip()


def pairs_of(batch: Any) -> list[tuple[np.ndarray, np.ndarray]]:
  """Return the token ids of each pair of a batch, also where rows are packed."""
  return [tuple(side.ids[row][side.segments[row] == segment] for side in batch)
          for row in range(len(batch.source.ids)) for segment in range(1, batch.target.segments[row].max() + 1)]
