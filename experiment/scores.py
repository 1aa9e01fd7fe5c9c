"""Scores of translations, by sacreBLEU, each with its signature."""

from collections.abc import Sequence
from typing import Any

from sacrebleu.metrics import BLEU, CHRF

from corpora.errors import DataError


def check_counts(translations: Sequence, references: Sequence, name: str, reference_name: str) -> None:
  """Raises DataError unless there is one reference for each translation (sacreBLEU would pair off what there is)."""
  if len(translations) != len(references):
    raise DataError(f'{name} has {len(translations):,} lines and {reference_name} has {len(references):,}; '
                    'line n of the reference must translate line n')


def corpus_scores(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
  """BLEU and chrF2 of detokenised, cased translations against raw references.

  Raises:
    DataError: when there are not as many references as hypotheses, or none.
  """
  check_counts(hypotheses, references, 'the translation', 'the reference')
  if not hypotheses:
    raise DataError('there are no translations to score')
  bleu, chrf = BLEU(), CHRF()
  return {
      'bleu': bleu.corpus_score(list(hypotheses), [list(references)]).score,
      'chrf': chrf.corpus_score(list(hypotheses), [list(references)]).score,
      'signature': bleu.get_signature().format(),
      'chrf_signature': chrf.get_signature().format(),
  }


def describe(scores: dict[str, Any], name: str) -> str:
  """One line: the figures, what they were measured on, and how."""
  return (f'BLEU {scores["bleu"]:.1f}, chrF {scores["chrf"]:.1f} on {name}\n'
          f'  {scores["signature"]}\n  {scores["chrf_signature"]}')
