"""The phrasebook's building blocks: somebody, something, a deed, a state, a time, drawn at random.

Here it is decided what can be said at all: every draw has one right translation, so whatever the German needs and the
English leaves open (the sex behind "her teacher", whose "his" it is) is not drawn. The sentences made of these blocks
are in kinds and pronouns, the words in lexicon.
"""

import functools
from collections.abc import Callable

from corpora.phrasebook import lexicon, names
from corpora.phrasebook.grammar import (
  BARE,
  BE,
  HAVE,
  HE,
  HER,
  HIS,
  MY,
  NOT_A,
  OUR,
  PRONOUNS,
  SHE,
  THE,
  THEIR,
  THEY,
  THIS,
  WE,
  A,
  Clause,
  Complement,
  Determiner,
  Draft,
  Example,
  I,
  Nominal,
  Object,
  Unfit,
  Word,
  both,
  contracted,
  counted,
  english,
  example,
  german,
  name,
  note_name,
  noun_phrase,
  pronoun,
  relate_verb,
  time_unit,
  words,
)
from corpora.phrasebook.lexicon import ADJECTIVES, NOUNS, VERBS, Adjective, Noun, Time, Verb, fits, nouns
from corpora.phrasebook.sense import (
  OWN,
  YOUNG,
  belongs,
  check_described,
  check_doer,
  fair_trade,
  grown_up,
  happens_then,
  none_lifted,
)

Kinds = dict[Callable[[Draft], list[Example]], float]  # kinds of sentences, each with its weight

PERSON = frozenset({'person'})


@functools.cache
def adjectives_of(noun: Noun) -> tuple[Adjective, ...]:
  """What can be said of a noun."""
  return tuple(adjective for adjective in ADJECTIVES.values() if fits(adjective.tags, noun))


@functools.cache
def fitting(tags: frozenset[str]) -> tuple[Noun, ...]:
  """Nouns that have one of the tags."""
  return tuple(nouns(tags))


CALLED_IT = frozenset({'pet', 'thing', 'food'})  # tags
UNGRADED = frozenset('red blue green black white brown empty broken'.split())  # never "very", "too" or "so"
_NEVER_TOO = frozenset('happy friendly famous clever rich poor beautiful good new fresh sad sick hungry angry'.split())
# Verbs whose object can be a pronoun behind no preposition.
TAKES_IT = [verb for verb in VERBS if verb.government in ('accusative', 'dative') and not verb.german_preposition]


# ------------------------------------------------------------------------------------------------ who and what


def _possessive(draft: Draft, owner: Nominal | None) -> Determiner:
  """A possessive that cannot be misread: of the owner if its sex is known, otherwise of the speaker."""
  if owner is None:
    return draft.choose((MY, MY, MY, OUR, OUR, HIS, HER, THEIR))
  if owner.lemma in NOUNS and 'animal' in NOUNS[owner.lemma].tags:
    return draft.choose((MY, OUR))
  if owner.agreement == 'plural':
    return OUR if owner.lemma == 'we' else THEIR
  if owner.sex:
    return HIS if owner.sex == 'm' else HER
  return draft.choose((MY, OUR))


def genitive(draft: Draft) -> Determiner:
  """ "Anna's", "Annas": a first name that takes a plain -s."""
  first = names.some_of(draft, 'first name')
  if first[-1] in 'sxzßh' or first.endswith('ce'):
    raise Unfit
  note_name(draft, first, 'first name')
  return counted(f"{first}'s", f'{first}s')


def _determiner(draft: Draft, noun: Noun, owner: Nominal | None, indefinite: float = 0.25) -> Determiner:
  """A determiner that suits the noun; `owner` is the clause's subject when this is not it."""
  if 'kin' in noun.tags:
    return genitive(draft) if draft.chance(0.3) else _possessive(draft, owner)
  if draft.chance(indefinite):
    return A
  if belongs(noun) and draft.chance(0.3):
    return genitive(draft) if draft.chance(0.3) else _possessive(draft, owner)
  return THIS if draft.chance(0.15) else THE


def some_noun(draft: Draft, noun: Noun, owner: Nominal | None = None, indefinite: float = 0.25,
               described: float = 0.3, plural: float = 0.12) -> Nominal:
  """A noun with what may stand before it."""
  determiner = _determiner(draft, noun, owner, indefinite)
  many = draft.chance(plural) and 'one' not in noun.tags
  if owner and owner.lemma in YOUNG and noun.english in ('son', 'daughter'):
    raise Unfit
  if determiner in (OUR, THEIR) and 'clothing' in noun.tags and not many:
    raise Unfit  # nobody shares a hat
  adjective = draft.choose(adjectives_of(noun)) if draft.chance(described) and adjectives_of(noun) else None
  if many and determiner is A:
    if adjective is None:
      raise Unfit
    determiner = BARE
  return noun_phrase(draft, noun, determiner, adjective, many)


def some_name(draft: Draft, familiar: bool = False) -> Nominal:
  """A name; `familiar`: one whose sex training shows."""
  if familiar or draft.chance(0.3):
    women = draft.chance(0.5)
    first, sex = draft.choose(lexicon.FAMILIAR_WOMEN if women else lexicon.FAMILIAR_MEN), 'f' if women else 'm'
  else:
    first, sex = names.some_of(draft, 'first name'), ''
  if draft.chance(0.5):
    return name(draft, first, names.some_of(draft, 'surname'), sex=sex)
  return name(draft, first, sex=sex)


def some_person(draft: Draft, owner: Nominal | None = None, pronouns: bool = True, described: float = 0.15) -> Nominal:
  """Anybody: a name, a pronoun or a noun; `owner` is the subject when this is an object."""
  sort = draft.weigh({'noun': 0.36, 'name': 0.41, 'pronoun': 0.24 if pronouns else 0})
  if sort == 'noun':
    return some_noun(draft, draft.choose(fitting(PERSON)), owner, indefinite=0.12 if owner else 0.04,
                     described=described)
  if sort == 'name':
    first = some_name(draft)
    return both(draft, first, some_name(draft)) if draft.chance(0.08) else first
  form = draft.choose((I, *PRONOUNS))  # "I" oftener: its verb forms are its own
  if owner is not None and form in (I, WE) and owner.lemma in ('I', 'we'):
    raise Unfit  # "I saw me"
  return pronoun(draft, form)


def some_subject(draft: Draft, verb: Verb) -> Nominal:
  """Someone who may do what the verb says."""
  if 'person' in verb.subjects and (verb.subjects == PERSON or draft.chance(0.6)):
    return some_person(draft)
  return some_noun(draft, draft.choose(fitting(verb.subjects)), indefinite=0.04)


def verb_object(draft: Draft, unit: str, verb: Verb, nominal: Nominal, case: str) -> Object:
  """An object with the verb's prepositions; notes verb and noun."""
  none_lifted(verb, nominal)
  if nominal.sort == 'noun':
    draft.note('object', verb.name, nominal.lemma)
  german_units = (f'{unit}.preposition',) if verb.german_preposition else (f'{unit}.main',)
  return Object(nominal, case, words(verb.preposition, *german_units), words(verb.german_preposition, *german_units))


def some_objects(draft: Draft, unit: str, verb: Verb, subject: Nominal) -> tuple[Object, ...]:
  """Objects as the verb governs them."""
  if not verb.government:
    return ()
  if verb.government == 'both':
    receiver = some_person(draft, subject)
    thing = some_noun(draft, draft.choose(fitting(verb.objects)), subject, indefinite=0.4, plural=0)
    whose = thing.english[0].text
    if whose.endswith("'s") or whose in OWN and 'clothing' in NOUNS[thing.lemma].tags:
      raise Unfit  # "sent Anna Paul's book"; and what is Paul's, Paul lends
    check_described(verb, receiver)
    check_described(verb, thing)
    return (Object(receiver, 'dative', [], []), verb_object(draft, unit, verb, thing, 'accusative'))
  if 'person' in verb.objects and (verb.objects == PERSON or draft.chance(0.6)):
    nominal = some_person(draft, subject, described=0 if verb.name == 'hear' else 0.15)
  else:
    nominal = some_noun(draft, draft.choose(fitting(verb.objects)), subject,
                        indefinite=0 if verb.name in ('tidy up', 'open', 'close', 'turn on', 'turn off') else 0.25,
                        described=0 if verb.name in ('hear', 'need') else 0.3)
    fair_trade(verb, subject, nominal)
    if verb.name == 'try on' and subject.agreement == 'plural':
      raise Unfit  # both in one coat
    if verb.name == 'write' and (nominal.english[0].text not in ('a', 'an', 'the', 'this') or len(nominal.english) > 2):
      raise Unfit  # what is being written is nobody's yet, and neither old nor good
  check_described(verb, nominal)
  return (verb_object(draft, unit, verb, nominal, verb.government),)


# ------------------------------------------------------------------------------------------------------ clauses


def _negatable(clause_objects: tuple[Object, ...]) -> bool:
  """Whether "nicht" or "kein" is all that changes: definite objects, or one indefinite singular."""
  return all(item.nominal.definite for item in clause_objects)


# Verbs that say how things are: they take no time, and their present needs none. They are neither wished nor ordered.
STATES = frozenset('love admire trust need'.split())
# What one may do again and again: only such verbs have a present, with "often" or the like.
HABITS = frozenset("""wash clean visit hug help thank call invite sing dance sleep laugh cry
    work swim travel fly""".split() + ['listen to', 'look at', 'pick up', 'turn on', 'turn off', 'tidy up', 'wait for',
                            'dream of'])
ABILITIES = frozenset('sing dance sleep work swim'.split())  # "The bird sings", "Anna doesn't work"
# What may be said of a whole week or year.
_LONG = frozenset("""buy sell find lose visit work repair write invite draw help see travel fly
    live""".split() + ['come back', 'arrive'])


BY_CHANCE = frozenset('find lose break cry laugh kick disappear hear'.split()) | {'wake up', 'dream of'}  # not foretold


def some_tense(draft: Draft, verb: Verb) -> str:
  """A tense that suits the verb in a sentence of its own: what happens but once has no simple present."""
  if verb.name in STATES:
    return draft.weigh({'past': 0.45, 'present': 0.55})
  return draft.weigh({'past': 0.55, 'future': 0.18, 'present': 0.27 if verb.name in HABITS else 0.0,
                      'progressive': 0.08 if verb.progressive else 0.0})


def habitual(draft: Draft, clause: Clause) -> Clause:
  """Gives a clause in the present its "often"; raises Unfit where it says what happens but once."""
  verb = clause.verb.name
  if clause.tense != 'present' or clause.modal or verb in STATES or (
      verb in ABILITIES and not clause.complement and (clause.negated or draft.chance(0.3))):
    return clause
  if verb not in HABITS or clause.negated or any(
      not item.nominal.definite or item.nominal.sort == 'noun' and len(item.nominal.english) > 2
      for item in clause.objects):
    raise Unfit
  clause.time = some_time(draft, clause)
  return clause


def action(draft: Draft, tense: str | None = None, subject: Nominal | None = None,
            verb: Verb | None = None, negated: float = 0.15, once: bool = False) -> Clause:
  """Somebody does something; `once`: in the present, too, as behind "if" or "can"."""
  verb = verb or draft.choose(VERBS)
  if subject is not None and not verb.subjects & PERSON:
    raise Unfit
  subject = subject or some_subject(draft, verb)
  grown_up(verb, subject)
  if subject.sort == 'name' and subject.lemma:
    draft.note('deed', subject.lemma, verb.name)
  tense = tense or some_tense(draft, verb)
  check_doer(verb, subject)
  if tense == 'progressive' and not verb.progressive or tense == 'future' and (
      verb.name in BY_CHANCE or lexicon.is_animal(subject.lemma)):
    raise Unfit
  unit = draft.unit('v')
  objects = some_objects(draft, unit, verb, subject)
  deny = subject.definite and _negatable(objects) and draft.chance(negated)
  clause = relate_verb(draft, Clause(unit, subject, verb, tense, objects, deny))
  return clause if once else habitual(draft, clause)


# What one does to any thing of a kind, and so not to "a" thing: buys, but not closes.
_NONE = frozenset('buy need write eat repair'.split())


def no_such_thing(draft: Draft, tense: str | None = None, modal=None) -> Clause:
  """ "The man didn't buy a car": German puts the negation into the article."""
  verb = draft.choose([verb for verb in VERBS if verb.government == 'accusative' and not verb.german_preposition
                       and not verb.subjects.isdisjoint(PERSON) and verb.objects != PERSON
                       and verb.name in _NONE and not (modal and verb.name in UNWISHED)])
  subject = some_person(draft) if modal else some_subject(draft, verb)
  grown_up(verb, subject)
  check_doer(verb, subject)
  if not subject.definite:
    raise Unfit
  noun = draft.choose(fitting(verb.objects - PERSON))
  described = verb.name in ('buy', 'need') and not modal and draft.chance(0.25)
  adjective = draft.choose(adjectives_of(noun)) if described else None
  unit = draft.unit('v')
  item = verb_object(draft, unit, verb, noun_phrase(draft, noun, NOT_A, adjective), 'accusative')
  tense = tense or draft.weigh({'past': 0.4, 'present': 0.6} if verb.name == 'need' else
                               {'past': 0.7, 'future': 0.0 if verb.name in BY_CHANCE else 0.3})
  return relate_verb(draft, Clause(unit, subject, verb, tense, (item,), True, modal))


_DEGREES = {'': '', 'very': 'sehr', 'too': 'zu', 'so': 'so'}


def predicate(draft: Draft, unit: str, adjective: Adjective, degree: str = '') -> Complement:
  """ "very tired"."""
  of_degree, of_adjective = f'{unit}.degree', f'{unit}.adjective'
  return Complement(words(degree, of_degree) + [Word(adjective.english, (of_adjective,))],
                    words(_DEGREES[degree], of_degree) + [Word(adjective.german, (of_adjective,))])


# What nobody wants to do, can, or should ("should not listen to her" is "nicht auf sie hören").
UNWISHED = STATES | frozenset('lose break disappear hear see kick cry arrive'.split()) | {
    'dream of', 'wake up', 'listen to'}


def state(draft: Draft, tense: str | None = None) -> Clause:
  """Somebody or something is so."""
  if draft.chance(0.5):
    adjective = draft.choose([adjective for adjective in ADJECTIVES.values() if 'person' in adjective.tags])
    subject = some_person(draft, described=0)
    if not subject.definite or subject.sort == 'noun' and not fits(adjective.tags, NOUNS[subject.lemma]):
      raise Unfit
  else:
    noun = draft.choose(tuple(NOUNS.values()))
    adjective = draft.choose(adjectives_of(noun))
    subject = some_noun(draft, noun, indefinite=0, described=0)
  if subject.sort == 'noun':
    draft.note('adjective', subject.lemma, adjective.english)
  unit = draft.unit('v')
  draft.relate('adjective', subject.head, f'{unit}.adjective')
  tense = tense or draft.weigh({'past': 0.45, 'present': 0.55})
  negated = draft.chance(0.2) and subject.definite
  # "isn't too clever" is "nicht zu klug" or "nicht besonders klug".
  too = adjective.english not in _NEVER_TOO and 'person' not in adjective.tags
  degree = '' if negated or adjective.english in UNGRADED else draft.weigh({'': 0.6, 'very': 0.25, 'too': 0.15 * too})
  complement = predicate(draft, unit, adjective, degree)
  return relate_verb(draft, Clause(unit, subject, BE, tense, negated=negated, complement=complement))


@functools.cache
def _times(tense: str, long: bool) -> tuple[Time, ...]:
  return tuple(time for time in lexicon.TIMES if tense in time.tenses and (long or not time.long))


def some_time(draft: Draft, clause: Clause) -> Time:
  """A time that suits the clause's verb and tense."""
  return draft.choose([time for time in _times(clause.tense, clause.verb.name in _LONG) if happens_then(clause.verb, time)])


def statement(draft: Draft, kind: str, clause: Clause, timed: float = 0.3) -> list[Example]:
  """The clause as a sentence, with a time perhaps, in front (German: the verb still second) or behind."""
  if clause.time is None and clause.tense != 'present' and clause.verb.name not in STATES and clause.verb not in (
      BE, HAVE) and draft.chance(timed):
    clause.time = some_time(draft, clause)
  time, unit = clause.time, time_unit(clause.time) if clause.time else ''
  if time is None or time.middle or not clause.negated and draft.chance(0.5):
    return [example(draft, kind, english(clause), german(clause))]
  clause.time = None
  return [example(draft, kind, english(clause, words(time.english, unit)),
                  german(clause, fronted=words(time.german, unit)))]


def echo(draft: Draft, subject: Nominal) -> Nominal:
  """The pronoun for a subject that has been named: I, we, they, he, she; Unfit where the sex is in doubt."""
  if subject.sort == 'pronoun':
    return pronoun(draft, next(form for form in PRONOUNS if form.english == subject.lemma))
  if subject.agreement == 'plural':
    return pronoun(draft, THEY)
  if not subject.sex:
    raise Unfit
  echo = pronoun(draft, HE if subject.sex == 'm' else SHE)
  draft.relate('antecedent', echo.head, subject.head)
  return echo


def coordinated(draft: Draft, kind: str, one: Clause, conjunction: tuple[str, str], two: Clause) -> Example:
  """Two main clauses; a comma before "but" and "aber"."""
  link = draft.unit('c')
  comma = [Word(',', (f'{link}.comma',))] if conjunction[0] == 'but' else []
  return example(draft, kind, english(one) + comma + words(conjunction[0], link) + english(two),
                 german(one) + comma + words(conjunction[1], link) + german(two))


def placed(draft: Draft, preposition: tuple[str, str], nominal: Nominal, case: str, unit: str = '') -> Complement:
  """A place, or an agent; "in dem" becomes "im"."""
  unit = unit or draft.unit('at')
  return Complement(words(preposition[0], unit) + nominal.english,
                    contracted(words(preposition[1], unit), nominal.german(case)))
