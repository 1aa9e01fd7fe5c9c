"""The phrasebook's splits: how many sentences of each kind are drawn for training, validation and test; the showcase.

SIZES may be changed freely. Which combinations are held out is decided in grammar.
"""

import functools
import random
from collections.abc import Callable, Iterator

from corpora.phrasebook import lexicon
from corpora.phrasebook.deeds import esteem_sentence, role_sentence
from corpora.phrasebook.draws import adjectives_of, fitting, verb_object
from corpora.phrasebook.grammar import (
  HE,
  SHE,
  THE,
  Clause,
  Draft,
  Example,
  I,
  Unfit,
  english,
  example,
  german,
  name,
  noun_phrase,
  pronoun,
  relate_verb,
)
from corpora.phrasebook.kinds import KINDS, MORE
from corpora.phrasebook.lexicon import ADJECTIVES, NOUNS, VERBS
from corpora.phrasebook.pronouns import pronoun_pair

SIZES = {'train': 60_000, 'validation': 600, 'test': 1_200}  # sentence pairs in each split
_SEED = 1706


def _draw(kind: Callable[[Draft], list[Example]], rng: random.Random, split: str | None) -> list[Example]:
  """One draw of a kind; empty when it did not fit, or belongs to another split."""
  draft = Draft(rng, split)
  try:
    drawn = kind(draft)
  except Unfit:
    return []
  if split is not None and draft.split != split:
    return []
  return drawn if all(3 <= len(item.english.split()) <= 25 for item in drawn) else []


def generate(split: str, size: int | None = None, seed: int = _SEED) -> Iterator[Example]:
  """The examples of a split, shuffled; none twice. The same for the same arguments, everywhere."""
  size = SIZES[split] if size is None else size
  shown = {item.english for item in showcase()}
  found = []
  kinds = KINDS | MORE.get(split, {})
  for kind, weight in kinds.items():
    rng = random.Random(f'{seed} {split} {kind.__name__}')
    quota = round(size * weight / sum(kinds.values()))
    of_kind = 0
    for _ in range(1000 * quota):
      if of_kind >= quota:
        break
      drawn = _draw(kind, rng, split)
      if drawn and not any(item.english in shown for item in drawn):
        shown.update(item.english for item in drawn)
        found.extend(drawn)
        of_kind += len(drawn)
  random.Random(f'{seed} {split}').shuffle(found)
  yield from found


@functools.cache
def showcase() -> tuple[Example, ...]:
  """The texts' own sentences and a few others. All belong to the test split: training never sees them."""

  def draft() -> Draft:
    return Draft(random.Random(0))

  def one(build) -> Example:
    return build(draft())

  admire = next(verb for verb in VERBS if verb.name == 'admire')
  kick = next(verb for verb in VERBS if verb.name == 'kick')
  director = next(role for role in lexicon.ROLES if role.english == 'director')
  student = next(role for role in lexicon.ROLES if role.english == 'student')
  great = ADJECTIVES['great']

  def kicked(d: Draft) -> Example:
    unit, bob = d.unit('v'), name(d, 'Bob', sex='m')
    d.note('deed', 'Bob', 'kick')
    ball = verb_object(d, unit, kick, noun_phrase(d, NOUNS['ball'], THE), 'accusative')
    clause = relate_verb(d, Clause(unit, bob, kick, 'past', (ball,)))
    return example(d, 'action', english(clause), german(clause))

  def pair(verb: str, negated: bool, first: str, second: str, of_first: str, of_second: str) -> list[Example]:
    d = draft()
    frame = next(frame for frame in lexicon.FRAMES if (frame.verb, frame.negated) == (verb, negated))
    return pronoun_pair(d, frame, noun_phrase(d, NOUNS[first], THE), noun_phrase(d, NOUNS[second], THE), of_first,
                        of_second, 'past', 'too' if negated else 'very')

  return (
      one(lambda d: esteem_sentence(d, name(d, 'Anthony', 'Hopkins', sex='m'), admire,
                                    name(d, 'Michael', 'Bay', sex='m'), great, director, 'past')),
      one(lambda d: esteem_sentence(d, pronoun(d, HE), admire, pronoun(d, SHE), great, director, 'past')),
      one(kicked),
      one(lambda d: role_sentence(d, pronoun(d, I), student, None, 'present')),
      *pair('cross', True, 'animal', 'street', 'tired', 'wide'),
      *pair('fit into', True, 'ball', 'box', 'big', 'small'),
      *pair('catch', True, 'dog', 'cat', 'slow', 'fast'),
  )


def count_at_least() -> int:
  """A lower bound on the number of sentences: those like "This rich king sold the red car."."""
  people = [noun for noun in fitting(frozenset({'person'})) if 'kin' not in noun.tags]
  phrases = lambda options: sum(2 * (1 + len(adjectives_of(noun))) for noun in options)  # the and this, any adjective
  verbs = {verb.name: verb for verb in VERBS if verb.government == 'accusative' and 'person' in verb.subjects}
  tenses = 3  # sells, sold, will sell
  return tenses * phrases(people) * sum(phrases(fitting(verb.objects - {'person'})) for verb in verbs.values())
