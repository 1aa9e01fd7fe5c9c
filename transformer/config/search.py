"""What a search takes."""

import dataclasses
from collections.abc import Iterator

from checks.refusals import positive, refuse

LENGTH_PENALTIES = ('gnmt', 'length', 'none')
STRATEGIES = ('beam', 'sample')


@dataclasses.dataclass(frozen=True)
class SearchConfig:
  """How translations and continuations are looked for (§6.1). See search.search."""

  beam_size: int = 4  # beam: hypotheses kept; 1 is greedy search
  length_penalty: str = 'gnmt'  # gnmt: ((5 + |y|) / 6)^alpha (Wu et al., 2016); length: |y|^alpha; none
  alpha: float = 0.6
  extra_length: int = 50  # longest output: source length + this many tokens, §6.1
  min_length: int = 0  # fewest tokens before EOS
  groups: int = 1  # beam: parts of it that look for different translations (Vijayakumar et al., 2018); 1: off
  diversity: float = 0.5  # groups: taken off a log-probability for each earlier group that took the same token now
  strategy: str = 'beam'  # beam: the likeliest found; sample: drawn at random, see search.sample
  temperature: float = 1.0  # sample: logits are divided by it
  top_k: int = 0  # sample: draw from the k likeliest tokens alone (Fan et al., 2018); 0: from all
  top_p: float = 1.0  # sample: draw from the nucleus of this probability alone (Holtzman et al., 2020)
  seed: int = 0  # sample: what is drawn
  halvings: int = 0  # beam: times that a batch goes on with the unfinished half of its rows, once half are done
  n_best: int = 1  # beam: translations of a sentence that are wanted; it is done once they are certain
  coverage_penalty: float = 0.0  # beam: β of Wu et al., 2016, §7, see coverage; 0: off

  def __post_init__(self):
    refuse(self._mistakes())

  def _mistakes(self) -> Iterator[str]:
    yield from positive(beam_size=self.beam_size, extra_length=self.extra_length, temperature=self.temperature)
    if self.strategy not in STRATEGIES:
      yield f'strategy is {self.strategy!r}; expected one of {", ".join(STRATEGIES)}'
    if self.length_penalty not in LENGTH_PENALTIES:
      yield f'length_penalty is {self.length_penalty!r}; expected one of {", ".join(LENGTH_PENALTIES)}'
    if not 0 <= self.min_length <= self.extra_length:
      yield (f'min_length is {self.min_length}; expected 0 (off) to extra_length, {self.extra_length}: every '
             'sentence, the shortest too, may be so long')
    if self.groups < 1 or self.beam_size % self.groups:
      yield f'groups is {self.groups}; expected a positive number that divides beam_size, {self.beam_size}'
    if self.diversity < 0:
      yield f'diversity is {self.diversity}; expected 0 (groups alike) or more'
    if self.top_k < 0:
      yield f'top_k is {self.top_k}; expected 0 (all tokens) or a positive number'
    if not 0.0 < self.top_p <= 1.0:
      yield f'top_p is {self.top_p}; expected a probability above 0, and 1 for all tokens'
    if self.alpha < 0:
      yield f'alpha is {self.alpha}; expected 0 or more (the early stop holds for those only)'
    if self.width > 0 and not 1 <= self.n_best <= self.width:
      yield (f'n_best is {self.n_best}; expected 1 to {self.width}, as many as ' + (
          'beam_size keeps' if self.strategy == 'beam' else 'one draw gives'))
    if self.halvings < 0 or self.halvings and self.width == 1:
      yield (f'halvings is {self.halvings}; expected 0 (off), or with strategy beam and beam_size 2 or more a positive '
             'number')
    if self.coverage_penalty < 0:
      yield f'coverage_penalty is {self.coverage_penalty}; expected 0 (off) or more'
    if self.coverage_penalty and self.width == 1:
      yield (f'coverage_penalty is {self.coverage_penalty}, which decides between the hypotheses of a beam; expected 0 '
             'for greedy search and sampling, or strategy beam and beam_size 2 or more')

  @property
  def width(self) -> int:
    """W: beams that the cache needs."""
    return self.beam_size if self.strategy == 'beam' else 1
