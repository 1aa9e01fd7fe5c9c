"""The strategies of a search: what SearchConfig.strategy names, found by its name."""

import transformer.search.beam  # noqa: F401  registers itself in STRATEGIES
import transformer.search.sampling  # noqa: F401
from transformer.search import queue
from transformer.search.config import STRATEGIES, SearchConfig
from transformer.search.hypotheses import Hypotheses
from transformer.search.problem import SearchProblem, Sentences


def search(problem: SearchProblem, sentences: Sentences, config: SearchConfig) -> Hypotheses:
  """Return the outputs that the configured strategy finds, over caches of config.width beams."""
  return queue.run(STRATEGIES[config.strategy].algorithm(problem, config), sentences)


def search_queue(problem: SearchProblem, waiting: queue.Queue, config: SearchConfig) -> queue.Outcome:
  """Return the outputs for all sentences of a queue; those that outgrow the cache are given up."""
  return queue.run_queue(STRATEGIES[config.strategy].algorithm(problem, config), waiting)
