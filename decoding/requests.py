"""Records of a translator's input and output, one for each line."""

from typing import NamedTuple

from checks.errors import ConfigError
from corpora.vocabulary import Vocabulary
from transformer.search import SearchConfig


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


class Wishes(NamedTuple):
  """A request's prefix and phrases, as ids."""

  prefix: list[int]
  required: list[list[int]]
  forbidden: list[list[int]]


def spell_wishes(request: Request, vocabulary: Vocabulary, config: SearchConfig, line: int) -> Wishes:
  """Spell what a translation has to contain in the pieces of the target's vocabulary.

  Args:
    request: with the phrases as text.
    vocabulary: of the target.
    config: says how many tokens longer than its source a translation may be.
    line: the number, from 1, that a message names.

  Raises:
    ConfigError: when prefix and required phrases leave no room for a translation.
  """
  spell = lambda phrases: [vocabulary.encode(phrase) for phrase in phrases]
  wishes = Wishes(vocabulary.encode(request.prefix) if request.prefix else [], spell(request.required),
                  spell(request.forbidden))
  needed = len(wishes.prefix) + sum(map(len, wishes.required))
  if needed >= config.extra_length:
    raise ConfigError(f'line {line}: its prefix and required phrases have {needed} tokens; expected fewer than '
                      f'search.extra_length, {config.extra_length}: raise it or shorten them')
  return wishes
