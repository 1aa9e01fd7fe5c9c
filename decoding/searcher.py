"""Computation on a device: the search for a batch of sources, and the log-probabilities of given translations."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Float

from corpora.vocabulary import Vocabulary
from decoding.batches import SearchBatch
from transformer import search, tokens
from transformer.model import Model, Params
from transformer.search import SearchConfig, SearchProblem, constraints, coverage, ensemble
from transformer.search.ensemble import Grow
from transformer.search.problem import SearchCache, Step
from transformer.tokens import Array

_MARGIN = 8  # places of a cache beyond the source's length, until a translation needs more


class Searcher:
  """One model, or several as an ensemble, as pure functions of (params of each model, rows)."""

  def __init__(self, models: Sequence[Model], target: Vocabulary, config: SearchConfig):
    """Make the functions of some models, with their target vocabulary and a way to search."""
    self._models, self._target, self._config = list(models), target, config

  def search(self, params: Sequence[Params], batch: SearchBatch) -> search.Hypotheses:
    """Find the hypotheses of each row."""
    source, width = batch.source, self._config.width
    real = (source.segments > 0).sum(axis=1)
    limits = jnp.where(real > 0, real + self._config.extra_length, 1)  # an empty row ends at once
    steps, caches, grows = zip(*self._members(params, source))
    step, cache, grow = ensemble.combine(steps, caches, grows) if len(steps) > 1 else (steps[0], caches[0], grows[0])
    rules = []
    if batch.prefix is not None:
      rules.append(constraints.prefix(batch.prefix.ids, (batch.prefix.segments > 0).sum(axis=1)))
    if batch.forbidden is not None:
      rules.append(constraints.forbidden(batch.forbidden, width))
    if batch.required is not None:
      rules.append(constraints.required(batch.required, width, self._target.eos_id))
    return search.search(SearchProblem(
        step, cache, limits, source.ids.shape[1] + self._config.extra_length, self._target.bos_id, self._target.eos_id,
        self._target.pad_id, keys=search.row_keys(batch.seeds, batch.lines), rules=rules,
        growth=search.Growth(self._first_places(source), grow), coverage=self._coverage(source)), self._config)

  def init_caches(self, params: Sequence[Params], source: tokens.Tokens) -> list[SearchCache]:
    """Make the caches that a search begins with, as long as most translations are."""
    return [cache for _, cache, _ in self._members(params, source)]

  def _members(self, params: Sequence[Params], source: tokens.Tokens) -> list[tuple[Step, SearchCache, Grow]]:
    """Return each model's step function, its cache, and how that grows."""
    (rows, length), width, found = source.ids.shape, self._config.width, []
    for model, own in zip(self._models, params):
      bound = lambda step, own=own: lambda cache, token: step(own, cache, token)
      cache = model.init_cache(own, model.encode(own, source), self._first_places(source), width)
      found.append(coverage.cover(bound(model.attend_step), cache, (rows, width, length), model.grow_cache)
                   if self._config.coverage_penalty else (bound(model.decode_step), cache, model.grow_cache))
    return found

  def _first_places(self, source: tokens.Tokens) -> int:
    """Return the places of a cache that a search begins with."""
    return source.ids.shape[1] + min(_MARGIN, self._config.extra_length)

  def _coverage(self, source: tokens.Tokens) -> Callable[[SearchCache], Float[Array, 'B W']] | None:
    """Return SearchProblem.coverage; the attention of an ensemble is the mean of its members'."""
    if not self._config.coverage_penalty:
      return None
    beams = lambda cache: cache.beams if len(self._models) > 1 else [cache.beams]
    return lambda cache: coverage.penalty(sum(attended for _, attended in beams(cache)) / len(self._models),
                                          coverage.ordinary(source.segments), self._config.coverage_penalty)

  def score(self, params: Sequence[Params], batch: tokens.Batch
            ) -> tuple[Float[Array, 'B T'], Float[Array, ' B'] | None]:
    """Return the log-probability of each given target token, 0 under padding, and the targets' coverage penalties.

    Without a coverage penalty these are None.
    """
    read, real = tokens.shift_right(batch.target, self._target.bos_id), batch.target.segments > 0
    log_probs = [jax.nn.log_softmax(model.decode(own, model.encode(own, batch.source), read), axis=-1)
                 for model, own in zip(self._models, params)]
    mean = jax.nn.logsumexp(jnp.stack(log_probs), axis=0) - jnp.log(len(log_probs))
    gained = jnp.take_along_axis(mean, batch.target.ids[..., None], axis=-1)[..., 0]
    covered = self._forced_coverage(params, batch, read) if self._config.coverage_penalty else None
    return jnp.where(real, gained, 0.0), covered

  def _forced_coverage(self, params: Sequence[Params], batch: tokens.Batch, read: tokens.Tokens) -> Float[Array, ' B']:
    """Return the coverage penalties of given targets; `read` is what the decoder reads of them."""
    seen = [model.inspect(own, batch.source, read)[1]['cross'] for model, own in zip(self._models, params)]
    weights = sum(layers[coverage.middle(len(layers))].mean(axis=1) for layers in seen) / len(seen)  # [B, T, S]
    attended = jnp.where(batch.target.segments[..., None] > 0, weights, 0.0).sum(axis=1, keepdims=True)
    return coverage.penalty(attended, coverage.ordinary(batch.source.segments), self._config.coverage_penalty)[:, 0]
