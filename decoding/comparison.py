"""Two or more translations of the same text beside each other: scores with paired bootstrap resampling (Koehn, 2004)."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest

from decoding import scores
from sweeps.length_curve import group_by_length


class Figure(NamedTuple):
  """A system's score by one metric."""

  score: float
  mean: float  # over the resampled sets
  interval: float  # half the width of the middle 95 % of them
  p_value: float | None  # that the first system is as good; None: it is the first


def compare(systems: Mapping[str, Sequence[str]], references: Sequence[Sequence[str]], samples: int
            ) -> tuple[dict[str, dict[str, Figure]], list[str]]:
  """Of each metric and system its figure, and sacreBLEU's signatures. The first system is the baseline.

  Args:
    systems: translations by name, two at least.
    references: one list or several.
    samples: resampled sets.
  """
  known = [list(lines) for lines in references]
  metrics = {'BLEU': BLEU(references=known), 'chrF': CHRF(references=known)}
  signatures, columns = PairedTest([(name, list(lines)) for name, lines in systems.items()], metrics, references=None,
                                   test_type='bs', n_samples=samples)()
  names = columns.pop('System')
  baseline = list(next(iter(systems.values())))
  # Of two equal systems sacreBLEU counts no resampled difference larger than theirs, none, and would say p = 0.
  chance = lambda name, result: 1.0 if result.p_value is not None and list(systems[name]) == baseline else result.p_value
  figures = {metric: {name: Figure(result.score, float(result.mean), float(result.ci), chance(name, result))
                      for name, result in zip(names, results)} for metric, results in columns.items()}
  return figures, [signature.format() for signature in signatures.values()]


def by_length(systems: Mapping[str, Sequence[str]], reference: Sequence[str]) -> list[tuple[str, int, dict[str, float]]]:
  """(words of the reference, sentences, BLEU of each system) of groups of sentences of like length."""
  groups = group_by_length([max(len(line.split()), 1) for line in reference])
  return [(group.name, len(group.places),
           {name: scores.corpus_scores([lines[i] for i in group.places], [reference[i] for i in group.places])['bleu']
            for name, lines in systems.items()}) for group in groups]


def most_different(first: Sequence[str], second: Sequence[str], reference: Sequence[str], count: int
                   ) -> list[tuple[float, int]]:
  """(chrF of the second less that of the first, place) of the sentences where the two differ most."""
  chrf = CHRF()
  score = lambda text, known: chrf.sentence_score(text, [known]).score
  gains = [(score(b, known) - score(a, known), place)
           for place, (a, b, known) in enumerate(zip(first, second, reference)) if a != b]
  return sorted(gains, key=lambda gain: -abs(gain[0]))[:count]
