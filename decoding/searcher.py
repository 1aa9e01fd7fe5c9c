"""Computation on a device: the search for a queue of sources, and the log-probabilities of given translations."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int, PyTree

from corpora.vocabulary import Vocabulary
from decoding.batches import SearchBatch
from transformer import search, tokens
from transformer.model import Model, Params
from transformer.search import SearchConfig, SearchProblem, Sentences, beginning, constraints, coverage, ensemble
from transformer.search.problem import SearchCache, Step
from transformer.tokens import Array

_MARGIN = 16  # tokens by which a translation may be longer than its source before it is searched with a longer cache
_AT_ONCE = 8  # a row of every so many is free before waiting lines are given a row


class Searcher:
  """One model, or several as an ensemble, as pure functions of (params of each model, rows)."""

  def __init__(self, models: Sequence[Model], target: Vocabulary, config: SearchConfig):
    """Make the functions of some models, with their target vocabulary and a way to search."""
    self._models, self._target, self._config = list(models), target, config

  def search(self, params: Sequence[Params], batch: SearchBatch, count: Int[Array, ' 1'], rows: int, to_the_limit: bool
             ) -> search.Outcome:
    """Find the hypotheses of each line of a queue.

    Args:
      params: of each model.
      batch: the lines.
      count: how many there are; behind them there is filler.
      rows: lines searched at once.
      to_the_limit: whether the cache has room for the longest translation allowed. If not, lines whose translation is
        much longer than its source are given up; few are, and every step of all lines reads a shorter cache.
    """
    whole = self._longest(batch)
    places = whole if to_the_limit else self._first_places(batch.source)
    steps = [self._step(model, own) for model, own in zip(self._models, params)]
    problem = SearchProblem(
        ensemble.combine(steps) if len(steps) > 1 else steps[0], whole, self._target.bos_id, self._target.eos_id,
        self._target.pad_id, [rule for rule, _ in self._rules(batch)], self._coverage(), places)

    def begin(some: SearchBatch) -> Sentences:
      cache = self._cache(params, some.source, places)
      if some.prefix is not None:
        cache = self._read(params, cache, some.prefix, problem.step)
      return Sentences(cache, self._limits(some), search.row_keys(some.seeds, some.lines, some.draws),
                       [known for _, known in self._rules(some)], some.prefix)

    waiting = search.Queue(batch, count[0], begin, rows, max(1, rows // _AT_ONCE))
    return search.search_queue(problem, waiting, self._config)

  def cache(self, params: Sequence[Params], source: tokens.Tokens) -> SearchCache:
    """Make the cache that a search begins with, as long as most translations are."""
    return self._cache(params, source, self._first_places(source))

  def _first_places(self, source: tokens.Tokens) -> int:
    """Return the places of the short cache, which suffice for most translations."""
    return source.ids.shape[1] + min(_MARGIN, self._config.extra_length)

  def _cache(self, params: Sequence[Params], source: tokens.Tokens, places: int) -> SearchCache:
    """Make the cache for translations of `places` tokens."""
    width, caches = self._config.width, []
    for model, own in zip(self._models, params):
      cache = model.init_cache(own, model.encode(own, source), places, width)
      caches.append(coverage.begin(cache, width, coverage.ordinary(source.segments))
                    if self._config.coverage_penalty else cache)
    return ensemble.join(caches) if len(caches) > 1 else caches[0]

  def _read(self, params: Sequence[Params], cache: SearchCache, prefix: tokens.Tokens, step: Step) -> SearchCache:
    """Return the cache after it has read the prefixes: in one pass where every model can and nothing else is summed up."""
    opening = tokens.shift_right(prefix, self._target.bos_id)
    passes = [model.prefill for model in self._models if model.prefill]
    if len(passes) < len(self._models) or self._config.coverage_penalty:
      return beginning.read(step, cache, opening, self._config.width)
    if len(passes) == 1:
      return passes[0](params[0], cache, opening)
    return ensemble.join([prefill(own, part, opening) for prefill, own, part in zip(passes, params, ensemble.parts(cache))])

  def _step(self, model: Model, params: Params) -> Step:
    """Return a model's step function."""
    if self._config.coverage_penalty:
      return coverage.cover(lambda cache, token: model.attend_step(params, cache, token))
    return lambda cache, token: model.decode_step(params, cache, token)

  def _longest(self, batch: SearchBatch) -> int:
    """Return the tokens of the longest translation, EOS included, that any line of this padded length may have."""
    return batch.source.ids.shape[1] + self._config.extra_length

  def _limits(self, batch: SearchBatch) -> Int[Array, ' B']:
    """Return the tokens that the translation of each line may have, EOS included."""
    real = (batch.source.segments > 0).sum(axis=1)
    return jnp.where(real > 0, real + self._config.extra_length, 1)  # an empty row ends at once

  def _rules(self, batch: SearchBatch) -> list[tuple[constraints.Rule, PyTree]]:
    """Return the rules that lines of a batch need, each with what it knows of them."""
    rules = []
    if batch.phrases is not None:
      rules.append((constraints.phrases(self._target.eos_id, batch.phrases.proposed.shape[-1] > 0), batch.phrases))
    if self._config.no_repeat_ngram:
      rules.append((constraints.no_repeat_ngram(self._config.no_repeat_ngram, self._longest(batch), self._target.eos_id,
                                                self._config.min_length),
                    constraints.Repeatable(self._limits(batch), batch.phrases)))  # the last: wishes go first
    return rules

  def _coverage(self) -> Callable[[SearchCache], Float[Array, 'B W']] | None:
    """Return SearchProblem.coverage; the attention of an ensemble is the mean of its members'."""
    if not self._config.coverage_penalty:
      return None

    def penalty(cache: SearchCache) -> Float[Array, 'B W']:
      members, known = (cache.beams, cache.rest[0]) if len(self._models) > 1 else ([cache.beams], cache)
      attended = sum(weights for _, weights in members) / len(self._models)
      return coverage.penalty(attended, known.counted, self._config.coverage_penalty)

    return penalty

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
