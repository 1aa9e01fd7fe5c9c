"""When a sentence of beam search is done: what has to be known of the hypotheses that ended and of those that live.

A live hypothesis can still become better than it is now: further tokens may cost next to nothing, while what its
log-probability is divided by grows. A new way is a function of a Standing, registered below.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Bool, Float

from checks.choices import Registry
from transformer.search.hypotheses import NEVER, NOISE
from transformer.tokens import Array


class Standing(NamedTuple):
  """How the search for some sentences stands, by group G of the beam; a plain beam is one group."""

  scores: Float[Array, 'B G K']  # of the hypotheses that ended, best first; NEVER: fewer ended
  live: Float[Array, 'B G']  # log-probability of the best live one; NEVER: there is none
  now: Float[Array, 'B 1']  # the length penalty of what ends now
  at_limit: Float[Array, 'B 1']  # that of the longest output
  wanted: int  # outputs of each group that are asked for
  beams: int  # hypotheses of each group


EARLY_STOPPING: Registry[Callable[[Standing], Bool[Array, 'B G']]] = Registry('search.early_stopping')


def _is_ahead(standing: Standing, rank: int, penalty: Float[Array, 'B 1']) -> Bool[Array, 'B G']:
  """Return whether the one of this rank that ended is ahead of all live ones at a penalty, by NOISE at least."""
  bound = jnp.where(standing.live > NEVER, standing.live / penalty, NEVER)
  return standing.scores[..., rank - 1] - NOISE >= bound


@EARLY_STOPPING.register('exact', 'when no other output can become better')
def exact(standing: Standing) -> Bool[Array, 'B G']:
  """At the limit the penalty is largest, and a log-probability can only fall: what is found is what no limit would change."""
  return _is_ahead(standing, standing.wanted, standing.at_limit)


@EARLY_STOPPING.register('full', 'when beam_size outputs have ended')
def full(standing: Standing) -> Bool[Array, 'B G']:
  """As in CTranslate2 and fairseq: fewer steps; a better output is missed in rare cases."""
  return standing.scores[..., standing.beams - 1] > NEVER


@EARLY_STOPPING.register('heuristic', 'when beam_size outputs have ended and no other hypothesis is better at its present length')
def heuristic(standing: Standing) -> Bool[Array, 'B G']:
  """As in Hugging Face's generate: longer outputs that would have become better are missed, in rare cases."""
  return full(standing) & _is_ahead(standing, standing.beams, standing.now)


@EARLY_STOPPING.register('top', 'when n_best outputs have ended and no other hypothesis is better at its present length')
def top(standing: Standing) -> Bool[Array, 'B G']:
  """The fewest steps; longer outputs that would have become better are missed."""
  return _is_ahead(standing, standing.wanted, standing.now)
