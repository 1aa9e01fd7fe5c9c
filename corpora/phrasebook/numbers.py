"""The phrasebook's sentences with numbers.

A kind is a function `_name(draft) -> list[Example]` with a weight in KINDS.
"""

from corpora.phrasebook import lexicon
from corpora.phrasebook.draws import (
  PERSON,
  Kinds,
  adjectives_of,
  fitting,
  some_noun,
  some_person,
  some_subject,
  statement,
  verb_object,
)
from corpora.phrasebook.grammar import (
  BE,
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
from corpora.phrasebook.lexicon import VERBS

_ONES = dict(zip('two three four five six seven eight nine ten eleven twelve'.split(),
                 'zwei drei vier fünf sechs sieben acht neun zehn elf zwölf'.split()))
_TEENS = dict(zip('thirteen fourteen fifteen sixteen seventeen eighteen nineteen'.split(),
                  'dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn'.split()))
_TENS = dict(zip('twenty thirty forty fifty sixty seventy eighty ninety'.split(),
                 'zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig'.split()))


def _number_words() -> dict[str, str]:
  """Two to ninety-nine; German says the ones first."""
  units = {'one': 'ein', **{word: _ONES[word] for word in list(_ONES)[:8]}}
  composed = {f'{ten}-{one}': f'{units[one]}und{_TENS[ten]}' for ten in _TENS for one in units}
  return {**_ONES, **_TEENS, **_TENS, **composed}


NUMBERS = _number_words()
_FEW = frozenset(_ONES) | frozenset(list(_TEENS)[:4])


def _counting(draft: Draft) -> list[Example]:
  """ "The woman bought seventeen red apples."."""
  verb = draft.choose([verb for verb in VERBS if verb.government == 'accusative' and not verb.german_preposition
                       and 'person' in verb.subjects and verb.objects != PERSON])
  subject, unit = some_subject(draft, verb), draft.unit('v')
  noun = draft.choose(fitting(verb.objects - PERSON))
  number = 'many' if draft.chance(0.15) else draft.choose(tuple(NUMBERS))
  draft.note('number', number, noun.english)
  determiner = counted(number, NUMBERS.get(number, 'viele'))
  adjective = draft.choose(adjectives_of(noun)) if draft.chance(0.3) else None
  thing = noun_phrase(draft, noun, determiner, adjective, plural=True)
  tense = draft.weigh({'past': 0.65, 'present': 0.2, 'future': 0.15})
  clause = Clause(unit, subject, verb, tense, (verb_object(draft, unit, verb, thing, 'accusative'),))
  return statement(draft, 'number', relate_verb(draft, clause), timed=0.15)


def _measure(draft: Draft) -> list[Example]:
  """ "The lamp costs forty-two euros.", "My brother is thirty years old."."""
  number, unit = draft.choose(tuple(NUMBERS)), draft.unit('v')
  count = f'{unit}.number'
  if draft.chance(0.5):
    noun = draft.choose(fitting(frozenset('small device clothing container furniture food'.split())))
    subject, verb, tense = some_noun(draft, noun, indefinite=0.05, plural=0), lexicon.FRAME_VERBS['cost'], 'present'
    said, says = words('euros', f'{unit}.unit'), words('Euro', f'{unit}.unit')
  else:
    subject, verb = some_person(draft), BE
    tense = draft.weigh({'present': 0.75, 'past': 0.25})
    if not subject.definite or (subject.lemma in ('boy', 'girl', 'child')) > (number in _FEW) or (
        subject.lemma in ('grandfather', 'grandmother')) > number.startswith(('sixty', 'seventy', 'eighty', 'ninety')):
      raise Unfit  # the age does not suit
    said = words('years', f'{unit}.unit') + words('old', f'{unit}.old')
    says = words('Jahre', f'{unit}.unit') + words('alt', f'{unit}.old')
  if subject.sort == 'noun':
    draft.note('number', number, subject.lemma)
  complement = Complement(words(number, count) + said, words(NUMBERS[number], count) + says)
  clause = relate_verb(draft, Clause(unit, subject, verb, tense, complement=complement))
  return [example(draft, 'number', english(clause), german(clause))]


KINDS: Kinds = {_counting: 3, _measure: 2}
