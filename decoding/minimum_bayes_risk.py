"""Minimum Bayes risk decoding (Kumar & Byrne, 2004; Eikema & Aziz, 2020): the sample most like all the others."""

import functools
from collections.abc import Callable, Sequence

from sacrebleu.metrics import CHRF

from decoding import scores
from decoding.requests import Request, Translation
from decoding.translator import Translator

# Of a language the metric that scores a sentence from 0 to 100.
UTILITIES = {'chrf': lambda language: CHRF(), 'bleu': lambda language: scores.bleu_of(language, effective_order=True)}


def translate(translator: Translator, lines: Sequence[str | Request], samples: int, utility: str,
              progress: Callable[[int], object] | None = None, first: int = 0, languages: Sequence[str] = ()) -> list[Translation]:
  """Translate each line, in order, by the sample with the largest mean utility against all samples.

  Args:
    translator: one that samples (search.strategy=sample).
    lines, progress, first: see Translator.translate.
    samples: drawn for each line.
    utility: one of UTILITIES.
    languages: of each line's translation.

  Returns:
    Translations whose score is their expected utility; the other samples follow as `others`, best first.
  """
  told = _one_of(samples, progress) if progress else None
  draws = [translator.translate(lines, told, first, number) for number in range(samples)]
  metric = functools.cache(UTILITIES[utility])
  return [choose(drawn, lambda text, reference, of=metric(language): of.sentence_score(text, [reference]).score)
          for drawn, language in zip(zip(*draws), languages or [''] * len(lines))]


def _one_of(samples: int, progress: Callable[[int], object]) -> Callable[[int], None]:
  """Return what counts the lines of each draw and reports a line for every `samples` of them."""
  drawn = 0

  def count(lines: int) -> None:
    nonlocal drawn
    drawn, before = drawn + lines, drawn // samples
    progress(drawn // samples - before)

  return count


def choose(drawn: Sequence[Translation], utility: Callable[[str, str], float]) -> Translation:
  """Rank the samples of a line by expected utility; a text drawn several times counts as often as it was drawn.

  Args:
    drawn: the samples.
    utility: (text, reference) -> how good the text is if the reference is right.

  Returns:
    The best sample, its expected utility as its score, the others behind it in `others`.
  """
  counts: dict[str, int] = {}
  for one in drawn:
    counts[one.text] = counts.get(one.text, 0) + 1
  expected = {text: sum(count * utility(text, other) for other, count in counts.items()) / len(drawn) for text in counts}
  different = {one.text: one for one in drawn}
  ranked = sorted(counts, key=lambda text: -expected[text])
  best, *others = (different[text]._replace(score=expected[text]) for text in ranked)
  return best._replace(others=tuple(others))
