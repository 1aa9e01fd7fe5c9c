"""Comparison of several systems' translations of one text, with paired bootstrap resampling (Koehn, 2004)."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sacrebleu.metrics import CHRF
from sacrebleu.significance import PairedTest

from decoding import scores
from decoding.length_groups import group_by_length


class Figure(NamedTuple):
  """A system's score by one metric."""

  score: float
  mean: float  # over the resampled sets
  interval: float  # half the width of their middle 95 %
  # sacreBLEU's, of one side: the share of resampled differences from the first that exceed their mean by more than the one
  # found; some .4 for systems that hardly differ, and 1 for equal scores. None: the system is the first.
  p_value: float | None


def compare(systems: Mapping[str, Sequence[str]], references: Sequence[Sequence[str]], samples: int, language: str = ''
            ) -> tuple[dict[str, dict[str, Figure]], list[str]]:
  """Score each system by each metric, and test its difference from the first system, the baseline.

  Args:
    systems: translations by name, two at least.
    references: one list of lines or several.
    samples: number of resampled sets.
    language: of the texts, see scores.bleu_of.

  Returns:
    The figures by metric and system, and sacreBLEU's signatures.
  """
  known = [list(lines) for lines in references]
  metrics = {'BLEU': scores.bleu_of(language, references=known), 'chrF': CHRF(references=known)}
  signatures, columns = PairedTest([(name, list(lines)) for name, lines in systems.items()], metrics, references=None,
                                   test_type='bs', n_samples=samples)()
  names = columns.pop('System')
  # For two systems of the same score sacreBLEU would say that p is next to 0: no resampled difference, once centred, is
  # larger than theirs, 0.
  chance = lambda result, first: 1.0 if result.p_value is not None and result.score == first.score else result.p_value
  figures = {metric: {name: Figure(result.score, float(result.mean), float(result.ci), chance(result, results[0]))
                      for name, result in zip(names, results)} for metric, results in columns.items()}
  return figures, [signature.format() for signature in signatures.values()]


def by_length(systems: Mapping[str, Sequence[str]], references: Sequence[Sequence[str]], language: str = ''
              ) -> list[tuple[str, int, dict[str, float]]]:
  """Score each system, against all references, on groups of sentences of like length.

  Args:
    systems: translations by name.
    references: one list of lines or several; the first one's words say how long a sentence is, or its characters where
      the language has no spaces between words.
    language: see compare().

  Returns:
    (range of lengths of the first reference, number of sentences, BLEU by system) for each group.
  """
  parts = str.split if scores.writes_spaces(language) else lambda line: ''.join(line.split())
  groups = group_by_length([max(len(parts(line)), 1) for line in references[0]])
  of = lambda group, lines: [lines[i] for i in group.places]
  return [(group.name, len(group.places),
           {name: scores.corpus_scores(of(group, lines), *(of(group, known) for known in references), language=language)['bleu']
            for name, lines in systems.items()}) for group in groups]


def most_different(first: Sequence[str], second: Sequence[str], references: Sequence[Sequence[str]], count: int
                   ) -> list[tuple[float, int]]:
  """Find the sentences where two systems differ most: (chrF of the second minus that of the first, place) of each.

  Args:
    first, second: translations.
    references: one list of lines or several, all of which count.
    count: how many sentences, the largest difference first.
  """
  chrf = CHRF()
  score = lambda text, known: chrf.sentence_score(text, list(known)).score
  gains = [(score(b, known) - score(a, known), place)
           for place, (a, b, *known) in enumerate(zip(first, second, *references)) if a != b]
  return sorted(gains, key=lambda gain: -abs(gain[0]))[:count]
