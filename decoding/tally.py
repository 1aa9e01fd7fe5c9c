"""What searches computed: rows, steps, tokens and seconds, counted over a job."""

import dataclasses

import numpy as np

from transformer.search import Outcome


@dataclasses.dataclass
class Tally:
  """Counts over all searches so far."""

  lines: int = 0
  again: int = 0  # searches of lines that outgrew the short cache, and began anew with a long one
  computed: int = 0  # rows: of every step, all that its batch has
  needed: int = 0  # rows whose line was not done yet
  steps: int = 0
  tokens: int = 0  # of the best translations, EOS included
  seconds: float = 0.0  # of wall-clock time
  compiling: float = 0.0  # of these, before programs were ready

  def count(self, outcome: Outcome, rows: np.ndarray, at_once: int, seconds: float, compiling: float) -> None:
    """Add a search.

    Args:
      outcome: of the search.
      rows: those of `outcome` that hold lines.
      at_once: rows that a step computes.
      seconds, compiling: see the fields.
    """
    given_up = outcome.given_up[rows]
    self.lines += int((~given_up).sum())
    self.again += int(given_up.sum())
    self.computed += int(outcome.computed.sum())
    self.needed += int(outcome.steps[rows].sum())
    self.steps += int(outcome.computed.sum()) // at_once
    self.tokens += int(outcome.hypotheses.lengths[rows, 0][~given_up].sum())
    self.seconds += seconds
    self.compiling += compiling

  def describe(self) -> str:
    """Return a sentence for the user."""
    searching = self.seconds - self.compiling
    return (f'searched {self.lines:,} lines ({self.again:,} of them twice, as their translations are much longer than '
            f'they are) in {self.steps:,} steps: {self.computed:,} rows computed, {self.needed:,} needed '
            f'({self.needed / max(1, self.computed):.0%}); {self.tokens:,} tokens, '
            f'{self.tokens / max(searching, 1e-9):,.0f} tokens/s in {searching:.1f} s, after {self.compiling:.1f} s until '
            'programs were ready')
