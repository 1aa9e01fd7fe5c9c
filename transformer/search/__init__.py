"""Search for the best output (§6.1) over any step function: no file here knows a model.

    config          SearchConfig: how to search; the registry of strategies
    problem         SearchProblem and Sentences: what to search; step functions and caches
    strategies      search() and search_queue(): what SearchConfig.strategy names
    queue           the loop over steps; waiting sentences take the rows of those that are done
    beam            beam search
    continuations   the likeliest continuations of a beam's hypotheses: the choice at each step
    diverse         the choice of diverse beam search
    allocation      the choice of dynamic beam allocation, for required phrases
    largest         the largest of many entries, in two stages
    walk            one hypothesis for each sentence; greedy search
    sampling        outputs drawn at random
    constraints     required and forbidden phrases, n-grams that are not repeated
    automaton       what an output has of its phrases, and what it still needs
    coverage        the coverage penalty
    length_penalty  length penalties, and their registry
    early_stopping  when a sentence is done, and the registry of ways
    ensemble        several models as one step function
    hypotheses      Hypotheses: what a search returns
    cache           keys and values of a model's past tokens, which a search never reorders

Dimensions, beside those of transformer/__init__.py: C candidate continuations, P tokens of a prefix or proposed
ones, E tokens that occur in phrases, Z states of an automaton.
"""

from transformer.search.beam import beam_search
from transformer.search.config import GREEDY, LENGTH_PENALTIES, STRATEGIES, SearchConfig
from transformer.search.hypotheses import NEVER, NOISE, Hypotheses
from transformer.search.problem import SearchProblem, Sentences
from transformer.search.queue import Outcome, Queue
from transformer.search.sampling import row_keys, sample
from transformer.search.strategies import search, search_queue
from transformer.search.walk import greedy_search

__all__ = ['GREEDY', 'Hypotheses', 'LENGTH_PENALTIES', 'NEVER', 'NOISE', 'Outcome', 'Queue', 'STRATEGIES', 'SearchConfig',
           'SearchProblem', 'Sentences', 'beam_search', 'greedy_search', 'row_keys', 'sample', 'search', 'search_queue']
