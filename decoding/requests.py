"""Records of a translator's input and output, one for each line."""

from typing import NamedTuple


class Request(NamedTuple):
  """A line to translate, and what its translation has to contain."""

  source: str
  prefix: str = ''  # what the translation begins with
  required: tuple[str, ...] = ()  # phrases that it contains
  forbidden: tuple[str, ...] = ()  # phrases that it does not contain
  line: int | None = None  # number of its line, from 0; None: its place among the requests
  part: int = 0  # number of this part, where a line is translated in parts


class Translation(NamedTuple):
  """One line's best translation, with the next best ones."""

  text: str
  score: float = 0.0  # log-probability / length penalty (+ coverage penalty), by which hypotheses were ranked
  log_prob: float = 0.0  # natural logarithm, EOS included
  ids: tuple[int, ...] = ()  # EOS left out
  token_log_probs: tuple[float, ...] = ()  # of each id, and of EOS
  others: tuple['Translation', ...] = ()  # best first
