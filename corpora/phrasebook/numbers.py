"""The phrasebook's sentences with numbers.

A kind is a function `_name(draft) -> list[Example]` with a weight in KINDS.
"""

from corpora.phrasebook import lexicon
from corpora.phrasebook.draws import (
  PERSON,
  Kinds,
  adjectives_of,
  fitting,
  some_person,
  statement,
  verb_object,
)
from corpora.phrasebook.grammar import (
  BE,
  THE,
  THIS,
  Clause,
  Complement,
  Draft,
  Example,
  Unfit,
  counted,
  english,
  example,
  german,
  noun_phrase,
  relate_verb,
  words,
)
from corpora.phrasebook.lexicon import VERBS, fits
from corpora.phrasebook.sense import check_described, check_doer, grown_up

_ONES = dict(zip('two three four five six seven eight nine ten eleven twelve'.split(),
                 'zwei drei vier fünf sechs sieben acht neun zehn elf zwölf'.split()))
_TEENS = dict(zip('thirteen fourteen fifteen sixteen seventeen eighteen nineteen'.split(),
                  'dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn'.split()))
_TENS = dict(zip('twenty thirty forty fifty sixty seventy eighty ninety'.split(),
                 'zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig'.split()))


def _number_words() -> dict[str, str]:
  """Two to ninety-nine, in order; German says the ones first."""
  units = {'one': 'ein', **{word: _ONES[word] for word in list(_ONES)[:8]}}
  found = {**_ONES, **_TEENS}
  for ten, zig in _TENS.items():
    found |= {ten: zig, **{f'{ten}-{one}': f'{units[one]}und{zig}' for one in units}}
  return found


NUMBERS = _number_words()
_AGES = {'boy': (2, 15), 'girl': (2, 15), 'child': (2, 12), 'son': (2, 60), 'daughter': (2, 60), 'prince': (2, 60),
         'princess': (2, 60), 'brother': (2, 90), 'sister': (2, 90), 'father': (25, 90), 'mother': (25, 90),
         'grandfather': (55, 99), 'grandmother': (55, 99)}


def _some_number(draft: Draft) -> str:
  """A number, oftener one whose word is not put together from others."""
  return draft.choose([*_ONES, *_TEENS, *_TENS] if draft.chance(0.4) else tuple(NUMBERS))


# What is bought and sold in large numbers; of anything else somebody has to do with a few.
_MANY = frozenset('small food clothing chair table bed lamp book'.split())
_COUNTED = frozenset('find buy sell need read write draw wash clean eat open close'.split())


def _counting(draft: Draft) -> list[Example]:
  """ "The woman bought seventeen red apples."."""
  verb = draft.choose([verb for verb in VERBS if verb.name in _COUNTED and 'person' in verb.subjects])
  subject, unit = some_person(draft), draft.unit('v')
  check_doer(verb, subject)
  grown_up(verb, subject)
  noun = draft.choose(fitting(verb.objects - PERSON))
  few = verb.name not in ('buy', 'sell', 'need') or not fits(_MANY, noun)
  number = 'many' if draft.chance(0.15) else draft.choose(tuple(NUMBERS)[:5]) if few else _some_number(draft)
  draft.note('number', number, noun.english)
  determiner = counted(number, NUMBERS.get(number, 'viele'))
  adjective = draft.choose(adjectives_of(noun)) if verb.name != 'write' and draft.chance(0.2) else None
  thing = noun_phrase(draft, noun, determiner, adjective, plural=True)
  check_described(verb, thing)
  tense = draft.weigh({'past': 0.6, 'present': 0.4} if verb.name == 'need' else
                      {'past': 0.8,
                       'future': 0.2 if verb.name in ('buy', 'sell', 'wash', 'clean', 'eat', 'open') else 0.0})
  clause = Clause(unit, subject, verb, tense, (verb_object(draft, unit, verb, thing, 'accusative'),))
  return statement(draft, 'number', relate_verb(draft, clause), timed=0.15)


_SOLD = frozenset('small device clothing container furniture food -letter -key -drawer -package -newspaper'.split())


def _measure(draft: Draft) -> list[Example]:
  """ "The lamp costs forty-two euros.", "My brother is thirty years old."."""
  number, unit = _some_number(draft), draft.unit('v')
  count = f'{unit}.number'
  if draft.chance(0.5):
    noun = draft.choose(fitting(_SOLD))
    least, most = ((2, 5) if 'food' in noun.tags else (30, 99) if {'device', 'furniture'} & noun.tags else
                   (7, 60) if 'priced' in noun.tags else (3, 15))
    if not least <= list(NUMBERS).index(number) + 2 <= most:
      raise Unfit  # the price does not suit
    subject = noun_phrase(draft, noun, draft.weigh({THE: 0.7, THIS: 0.3}))
    verb, tense = lexicon.FRAME_VERBS['cost'], 'present'
    said, says = words('euros', f'{unit}.unit'), words('Euro', f'{unit}.unit')
  else:
    subject, verb = some_person(draft), BE
    tense = draft.weigh({'present': 0.75, 'past': 0.25})
    least, most = _AGES.get(subject.lemma, (18, 99) if subject.sort == 'noun' else (3, 99))
    if subject.agreement == 'plural' and subject.lemma not in ('we', 'they'):
      raise Unfit  # all of one age
    if not subject.definite or 'adjective' in {name for name, *_ in draft.relations} or not (
        least <= list(NUMBERS).index(number) + 2 <= most):
      raise Unfit  # the age does not suit
    said = words('years', f'{unit}.unit') + words('old', f'{unit}.old')
    says = words('Jahre', f'{unit}.unit') + words('alt', f'{unit}.old')
  if subject.sort == 'noun':
    draft.note('number', number, subject.lemma)
  complement = Complement(words(number, count) + said, words(NUMBERS[number], count) + says)
  clause = relate_verb(draft, Clause(unit, subject, verb, tense, complement=complement))
  return [example(draft, 'number', english(clause), german(clause))]


KINDS: Kinds = {_counting: 3, _measure: 2}
