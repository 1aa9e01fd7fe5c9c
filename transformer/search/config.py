"""How to search: the record of the options, and the registry of the strategies that one of them names."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Float, Num

from checks.choices import Registry
from checks.refusals import positive, refuse
from transformer.search.early_stopping import EARLY_STOPPING
from transformer.search.length_penalty import LENGTH_PENALTIES
from transformer.search.problem import Algorithm, SearchProblem
from transformer.tokens import AnyArray, Array


class Strategy(NamedTuple):
  """A way to search."""

  algorithm: Callable[[SearchProblem, 'SearchConfig'], Algorithm]
  width: Callable[['SearchConfig'], int]  # W: beams of the cache; a coverage penalty needs several
  options: frozenset[str]  # the fields of SearchConfig that no other strategy reads
  outputs: str  # how many outputs it gives, for the message about n_best: 'one draw gives'


STRATEGIES: Registry[Strategy] = Registry('search.strategy')  # registered in beam and sampling
# What makes a greedy search of any other one.
GREEDY = {'strategy': 'beam', 'beam_size': 1, 'groups': 1, 'coverage_penalty': 0.0}


@dataclasses.dataclass(frozen=True)
class SearchConfig:
  """How to search for translations and continuations (§6.1).

  Raises ValueError on creation when options do not fit each other.
  """

  beam_size: int = 4  # beam: hypotheses kept; 1 is greedy search
  length_penalty: str = 'gnmt'  # see length_penalty
  alpha: float = 0.6  # strength of the length penalty
  extra_length: int = 50  # longest output: source length + this many tokens, §6.1
  min_length: int = 0  # fewest tokens before EOS, those that an output begins with (see beginning) included
  no_repeat_ngram: int = 0  # no output has the same n tokens in a row twice, see constraints.no_repeat_ngram; 0: off
  early_stopping: str = 'exact'  # beam: when a sentence is done, see early_stopping
  groups: int = 1  # beam: parts of it that are to find different outputs (Vijayakumar et al., 2018); 1: off
  diversity: float = 0.5  # groups: subtracted from a log-probability for each hypothesis of earlier groups that took the same token
  strategy: str = 'beam'  # beam: the likeliest outputs found; sample: drawn at random, see sampling
  temperature: float = 1.0  # sample: logits are divided by it
  top_k: int = 0  # sample: draw from the k likeliest tokens alone (Fan et al., 2018); 0: from all
  top_p: float = 1.0  # sample: draw from the nucleus of this probability alone (Holtzman et al., 2020)
  seed: int = 0  # sample: another seed draws other outputs; 32 bits with their sign
  n_best: int = 1  # beam: outputs wanted for a sentence, which is done once they are certain
  coverage_penalty: float = 0.0  # beam: β of Wu et al., 2016, §7, see coverage; 0: off

  def __post_init__(self):
    refuse(self._mistakes())

  def _mistakes(self) -> Iterator[str]:
    yield from positive(beam_size=self.beam_size, extra_length=self.extra_length, temperature=self.temperature)
    if 0 < self.temperature < 1e-6:  # logits divided by less may be too large for a number
      yield f'temperature is {self.temperature:g}; expected at least 1e-06; beam_size=1 takes the likeliest token'
    yield from STRATEGIES.mistakes(self.strategy)
    yield from LENGTH_PENALTIES.mistakes(self.length_penalty)
    yield from EARLY_STOPPING.mistakes(self.early_stopping)
    if not 0 <= self.min_length <= self.extra_length:
      yield (f'min_length is {self.min_length}; expected 0 (off) to extra_length, {self.extra_length}: even the '
             'shortest source must allow so many tokens')
    if self.no_repeat_ngram < 0:
      yield f'no_repeat_ngram is {self.no_repeat_ngram}; expected 0 (off) or a positive number'
    if self.groups < 1 or self.beam_size % self.groups:
      yield f'groups is {self.groups}; expected a positive number that divides beam_size, {self.beam_size}'
    if self.diversity < 0:
      yield f'diversity is {self.diversity}; expected 0 (groups may choose the same tokens) or more'
    if self.top_k < 0:
      yield f'top_k is {self.top_k}; expected 0 (all tokens) or a positive number'
    if not 0.0 < self.top_p <= 1.0:
      yield f'top_p is {self.top_p}; expected a probability above 0, and 1 for all tokens'
    if not -2**31 <= self.seed < 2**31:
      yield f'seed is {self.seed}; expected a number from {-2**31} to {2**31 - 1}'
    if self.alpha < 0:
      yield f'alpha is {self.alpha}; expected 0 or more (else the search may stop too early)'
    if self.coverage_penalty < 0:
      yield f'coverage_penalty is {self.coverage_penalty}; expected 0 (off) or more'
    if self.strategy in STRATEGIES:
      yield from self._mistakes_of_width()

  def _mistakes_of_width(self) -> Iterator[str]:
    if self.width > 0 and not 1 <= self.n_best <= self.width:
      yield (f'n_best is {self.n_best}, but {STRATEGIES[self.strategy].outputs} {self.width}; expected 1'
             + (f' to {self.width}, or a larger beam_size' if self.width > 1 else ''))
    if self.coverage_penalty and self.width == 1:
      yield (f'coverage_penalty is {self.coverage_penalty}, which decides between the hypotheses of a beam; expected 0 '
             'for greedy search and sampling, or strategy beam and beam_size 2 or more')

  @property
  def width(self) -> int:
    """W: beams that the cache needs."""
    return STRATEGIES[self.strategy].width(self)

  @property
  def shares_beam(self) -> bool:
    """Whether required phrases are looked for at every place, see allocation; else only where the limit leaves no other."""
    return self.width > 1 and self.groups == 1

  def penalty(self, length: Num[AnyArray, '*any'] | int) -> Float[Array, '*any']:
    """Return what the log-probability of outputs of `length` tokens, EOS included, is divided by."""
    return LENGTH_PENALTIES[self.length_penalty](jnp.asarray(length, jnp.float32), self.alpha)

  def idle(self) -> dict[str, str]:
    """Return the fields that others make ineffective, each with the reason, which begins with the deciding field."""
    others = frozenset().union(*(strategy.options for strategy in STRATEGIES.values()))
    reasons = dict.fromkeys(sorted(others - STRATEGIES[self.strategy].options), f'strategy is {self.strategy!r}')
    if self.length_penalty == 'none':
      reasons['alpha'] = "length_penalty is 'none'"
    if self.width == 1:
      reasons.setdefault('early_stopping', 'beam_size is 1')
    if self.groups == 1:
      reasons['diversity'] = 'groups is 1'
    return reasons
