"""The strategies of a search: what SearchConfig.strategy names, found by its name."""

import transformer.search.beam  # noqa: F401  registers itself in STRATEGIES
import transformer.search.sampling  # noqa: F401
from transformer.search.config import STRATEGIES, SearchConfig
from transformer.search.hypotheses import Hypotheses
from transformer.search.problem import SearchProblem


def search(problem: SearchProblem, config: SearchConfig) -> Hypotheses:
  """Return the outputs that the configured strategy finds, over a cache of config.width beams."""
  return STRATEGIES[config.strategy].search(problem, config)
