"""What the translation of a line has to contain: phrases spelt as ids, without those that contradict each other.

settle() decides before a search, line by line, whether all wishes can be met within the translation's limit. Those that
cannot are named in a note and left out, so that a search always finds something.
"""

import bisect
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from corpora.vocabulary import Vocabulary
from decoding.requests import Request
from transformer.search import automaton
from transformer.search.automaton import Automaton, Phrase

_LONGEST_QUOTE, _MOST_NAMES = 60, 8  # characters of a phrase, and phrases, in a note


class Wishes(NamedTuple):
  """What a search is asked for beside the source; all of it can be met together."""

  prefix: tuple[int, ...] = ()
  phrases: Automaton | None = None  # of required and forbidden phrases; None: no phrase
  requires: bool = False  # whether any phrase is required
  notes: tuple[str, ...] = ()  # on wishes that were left out, a sentence each


class _Wish(NamedTuple):
  """One prefix or phrase."""

  kind: str  # prefix, required or forbidden
  text: str
  ids: tuple[int, ...]

  def __str__(self) -> str:
    short = self.text if len(self.text) <= _LONGEST_QUOTE else self.text[:_LONGEST_QUOTE - 1] + '…'
    return f'{self.kind} "{short}"'


def settle(request: Request, vocabulary: Vocabulary, limit: int, line: int) -> Wishes:
  """Return the wishes of a request that can be met together.

  Args:
    request: with the phrases as text. Empty phrases, and such as the vocabulary spells with no token, are no wishes.
    vocabulary: of the target.
    limit: tokens that the translation may have, EOS included.
    line: the number, from 1, that notes name.
  """
  wishes, notes = list(dict.fromkeys(_spelt(request, vocabulary))), []
  if unknown := [wish for wish in wishes if vocabulary.unk_id in wish.ids]:
    wishes = [wish for wish in wishes if wish not in unknown]
    notes.append(_note(line, unknown, f'the vocabulary has no entry for a part of {_listed(unknown)}'))
  while refused := _refused(wishes, limit):
    left_out, reason = refused
    notes.append(_note(line, left_out, reason))
    wishes = [wish for wish in wishes if wish not in left_out]
  prefix, required, forbidden = _parts(wishes)
  return Wishes(prefix, automaton.build(required, forbidden) if required or forbidden else None,
                bool(required), tuple(notes))


def _note(line: int, left_out: Sequence[_Wish], reason: str) -> str:
  """Return what a note says of the wishes of a line that are left out."""
  return f'line {line:,}: {reason}; the line is translated without {"it" if len(left_out) == 1 else "them"}'


def _spelt(request: Request, vocabulary: Vocabulary) -> Iterator[_Wish]:
  """Yield the wishes of a request, spelt in the pieces of a vocabulary."""
  for kind, texts in (('prefix', [request.prefix]), ('required', request.required), ('forbidden', request.forbidden)):
    for text in texts:
      if ids := tuple(vocabulary.encode(text)) if text.strip() else ():
        yield _Wish(kind, text, ids)


def _listed(wishes: Sequence[_Wish]) -> str:
  """Name some wishes; of many the first few."""
  names = list(map(str, wishes))
  if len(names) > _MOST_NAMES:
    names[_MOST_NAMES - 1:] = [f'{len(names) - _MOST_NAMES + 1:,} more']
  return ', '.join(names[:-1]) + (' and ' if len(names) > 1 else '') + names[-1]


def _parts(wishes: Sequence[_Wish]) -> tuple[tuple[int, ...], tuple[Phrase, ...], tuple[Phrase, ...]]:
  """Return the ids of the prefix, of the required phrases and of the forbidden ones."""
  of = lambda kind: tuple(dict.fromkeys(wish.ids for wish in wishes if wish.kind == kind))
  return (of('prefix') or ((),))[0], of('required'), of('forbidden')


def _needed(wishes: Sequence[_Wish]) -> int:
  """Return the tokens, EOS included, of the shortest output that meets some wishes; IMPOSSIBLE or more: none does."""
  prefix, required, forbidden = _parts(wishes)
  return automaton.shortest(automaton.build(required, forbidden), prefix)


def _refused(wishes: Sequence[_Wish], limit: int) -> tuple[list[_Wish], str] | None:
  """Return wishes that have to be left out, and why, as half a sentence; None when all can be met together."""
  try:
    if _needed(wishes) <= limit:
      return None
  except automaton.TooManyPhrases:
    return _too_many(wishes)
  against = _conflict(wishes, lambda some: _is_met(some, limit))
  names, needed = _listed(against), _needed(against)
  if needed >= automaton.IMPOSSIBLE:
    return against, f'{names} contradict each other'
  return against, (f'{names} need{"s" if len(against) == 1 else ""} {needed - 1:,} tokens, but the translation may '
                   f'have {limit - 1:,} (search.extra_length)')


def _conflict(wishes: Sequence[_Wish], is_met: Callable[[Sequence[_Wish]], bool]) -> list[_Wish]:
  """Return some of the wishes that cannot be met together, although they can without any one of them.

  Wishes are left out, the last first, as long as the others still cannot be met; many at once to begin with.
  """
  left, size = list(wishes)[::-1], len(wishes)
  while size > 1:
    size, place = (size + 1) // 2, 0
    while place < len(left):
      rest = left[:place] + left[place + size:]
      if is_met(rest):
        place += size
      else:
        left = rest
  return left[::-1]


def _is_met(wishes: Sequence[_Wish], limit: int) -> bool:
  """Return whether some output meets the wishes, or that cannot be known since there are too many."""
  try:
    return _needed(wishes) <= limit
  except automaton.TooManyPhrases:
    return True


def _too_many(wishes: Sequence[_Wish]) -> tuple[list[_Wish], str]:
  """Return the last of the required phrases, if these alone are too many, or else of the forbidden ones, and why."""
  required = [wish for wish in wishes if wish.kind == 'required']
  forbidden = [wish for wish in wishes if wish.kind == 'forbidden']
  beside, some = (required, forbidden) if _fits(required) else ([], required)
  count = bisect.bisect_left(range(1, len(some)), True, key=lambda size: not _fits([*beside, *some[:size]]))
  left_out = some[count:]
  return left_out, (f'{_listed(left_out)} {"is" if len(left_out) == 1 else "are"} too many beside the other '
                    f'{count + len(beside):,} phrases')


def _fits(wishes: Sequence[_Wish]) -> bool:
  """Return whether the automaton of the wishes is not too large."""
  try:
    automaton.build(*_parts(wishes)[1:])
  except automaton.TooManyPhrases:
    return False
  return True
