"""The phrasebook's sentences whose verb takes another shape: the passive, reflexive verbs, and purposes ("um … zu").

A kind is a function `_name(draft) -> list[Example]` with a weight in KINDS.
"""

from corpora.phrasebook import lexicon, names
from corpora.phrasebook.draws import (
  CALLED_IT,
  PERSON,
  STATES,
  TAKES_IT,
  Kinds,
  echo,
  fitting,
  placed,
  some_name,
  some_noun,
  some_person,
  some_subject,
  statement,
  verb_object,
)
from corpora.phrasebook.grammar import (
  CAN,
  MODALS,
  PASSIVE,
  THE,
  THIS,
  Clause,
  Complement,
  Draft,
  Example,
  Nominal,
  Object,
  Unfit,
  Word,
  english,
  example,
  german,
  infinitive,
  it_for,
  note_name,
  noun_phrase,
  reflexive,
  relate_verb,
  words,
)
from corpora.phrasebook.lexicon import VERBS, Verb, fits
from corpora.phrasebook.sense import check_described, check_doer, none_lifted

# ------------------------------------------------------------------------------------------------ the passive

# What is done to somebody or something at one time; English participle where it is not the past tense.
_DONE = {'find': '', 'buy': '', 'sell': '', 'read': '', 'write': 'written', 'draw': 'drawn', 'eat': 'eaten', 'wash': '',
         'clean': '', 'repair': '', 'carry': '', 'break': 'broken', 'invite': '', 'open': '', 'close': '',
         'pick up': '', 'turn on': '', 'turn off': '', 'tidy up': '', 'admire': ''}
# Not without an agent: "was opened" may be a state.
_BY_SOMEBODY = frozenset('eat admire read open close break carry draw find'.split())


def _passive(draft: Draft) -> list[Example]:
  """ "The letter was written by the teacher.": wurde vom Lehrer geschrieben."""
  verb = draft.choose([verb for verb in VERBS if verb.name in _DONE])
  unit = draft.unit('v')
  if verb.objects == PERSON or 'person' in verb.objects and draft.chance(0.6):
    subject = some_person(draft)
  else:
    subject = some_noun(draft, draft.choose(fitting(verb.objects - {'person'})), indefinite=0)
  none_lifted(verb, subject)
  if subject.sort == 'noun':
    draft.note('object', verb.name, subject.lemma)
    check_described(verb, subject)
  by_whom = verb.name in _BY_SOMEBODY or draft.chance(0.7)
  main = f'{unit}.main'
  spelt = words(_DONE[verb.name] or verb.past, main) + words(verb.particle, main)
  complement = Complement(spelt, words(verb.participle, main))
  if by_whom:
    agent = some_subject(draft, verb) if verb.subjects != PERSON else some_person(draft, subject, pronouns=False)
    if agent.sort == 'pronoun' or {subject.english[0].text, agent.english[0].text} & {'his', 'her', 'their'}:
      raise Unfit  # "he was seen by me" is said in the active; "her cow was washed by Eva": whose?
    check_doer(verb, agent)
    if agent.sort == 'name' and agent.lemma:
      draft.note('deed', agent.lemma, verb.name)
    by = placed(draft, ('by', 'von'), agent, 'dative', f'{unit}.by')
    complement = Complement(spelt + by.english, by.german + complement.german)
  clause = relate_verb(draft, Clause(unit, subject, PASSIVE, 'past', complement=complement,
                                     negated=not by_whom and subject.definite and draft.chance(0.15)))
  if by_whom and subject.definite and draft.chance(0.1):
    return [example(draft, 'passive', english(clause, inverted=True), german(clause, 'first'), '?')]
  return statement(draft, 'passive', clause, timed=0 if verb.name in STATES else 0.15 if by_whom else 1)


# ------------------------------------------------------------------------------------------------- reflexive verbs

_LASTING = frozenset(['remember'])  # its present says how things are
_UNFORESEEN = frozenset(['remember', 'fall in love with', 'look forward to', 'get dressed'])
_WISHED = frozenset(['hurry', 'apologize', 'rest', 'lie down', 'introduce', 'wash'])


def _reflexive(draft: Draft) -> list[Example]:
  """ "The man is hurrying.": Der Mann beeilt sich."""
  verb = draft.choose(lexicon.REFLEXIVE_VERBS)
  subject, unit = some_subject(draft, verb), draft.unit('v')
  check_doer(verb, subject)
  if subject.sort == 'name' and subject.lemma:
    draft.note('deed', subject.lemma, verb.name)
  modal = None
  if verb.name in _WISHED and draft.chance(0.2):
    modal = draft.choose([modal for modal in MODALS if modal is not CAN])
  tense = draft.choose(tuple(modal.german)) if modal else draft.weigh({
      'past': 0.55, 'future': 0.0 if verb.name in _UNFORESEEN else 0.2,
      'progressive': 0.25 if verb.progressive else 0.0, 'present': 0.45 if verb.name in _LASTING else 0.0})
  itself = Object(reflexive(draft, subject, 'self' in verb.objects), 'accusative', [], [])
  items = (itself,)
  if verb.german_preposition:
    nominal = _about(draft, verb, subject)
    items = (itself, verb_object(draft, unit, verb, nominal, verb.government))
  can_deny = (modal is None or modal.negatable) and subject.definite and all(item.nominal.definite for item in items)
  clause = relate_verb(draft, Clause(unit, subject, verb, tense, items, can_deny and draft.chance(0.15), modal))
  if not clause.negated and subject.lemma not in ('I', 'we') and draft.chance(0.12):
    return [example(draft, 'reflexive', english(clause, inverted=True), german(clause, 'first'), '?')]
  if modal or verb.name in _UNFORESEEN | {'wash'}:  # not on Tuesday alone
    return [example(draft, 'reflexive', english(clause), german(clause))]
  return statement(draft, 'reflexive', clause, timed=0.25)


def _about(draft: Draft, verb: Verb, subject: Nominal) -> Nominal:
  """Whom or what one remembers, complains about, looks forward to; whom one falls in love with."""
  if 'person' in verb.objects and (draft.chance(0.6) or verb.objects == PERSON):
    nominal = some_person(draft, subject)
    kin = nominal.sort == 'noun' and 'kin' in lexicon.NOUNS[nominal.lemma].tags
    if verb.name == 'fall in love with' and (
        kin or nominal.agreement == 'plural' or nominal.lemma in ('boy', 'girl', 'child')):
      raise Unfit
    if verb.name == 'fall in love with' and subject.agreement == 'plural' and subject.lemma != 'we':
      raise Unfit  # all with the same one
    return nominal
  noun = draft.choose(fitting(verb.objects - PERSON))
  return some_noun(draft, noun, subject, described=0 if verb.name == 'look forward to' else 0.2)


# ------------------------------------------------------------------------------------------------------- purposes

# Where one goes | what to do there: a verb, and for some the things that it is done to.
_THERE = {place: tuple(deed.strip() for deed in deeds.split(',')) for place, deeds in {
    'garden': 'work, sleep, draw tree bird, read book letter newspaper',
    'park': 'sing, dance, sleep, read book newspaper',
    'forest': 'sing, sleep, draw animal', 'kitchen': 'eat food, clean cupboard table, work',
    'school': 'sing', 'church': 'sing, draw picture', 'museum': 'look-at picture, draw picture, work',
    'room': 'sleep, read letter book, clean mirror window', 'office': 'work, write letter, read newspaper letter',
    'house': 'sleep, eat food, turn-on television radio'}.items()}
# What one does with a thing | in order to do what with it.
_WITH_IT = {'buy': 'read eat repair sell', 'open': 'read'}
_BY_LIGHT = {'turn on': ('lamp', 'work read'), 'turn off': ('television radio computer lamp', 'sleep')}
_CALLED_TO = ('invite', 'thank')
_VISITED = ('visit', 'hug', 'see', 'help', 'pick up')


def _named(name: str) -> Verb:
  return next(verb for verb in VERBS if verb.name == name)


def _in_order(draft: Draft, one: Clause, verb: Verb, nominal: Nominal | None = None) -> list[Example]:
  """A clause and what it is done for; in German the purpose is set off by a comma."""
  unit = draft.unit('v')
  items = (verb_object(draft, unit, verb, nominal, verb.government),) if nominal else ()
  if nominal:
    draft.relate('object', f'{unit}.main', nominal.head)
  there, other = infinitive(Clause(unit, one.subject, verb, one.tense, items))
  one = relate_verb(draft, one)
  return [example(draft, 'purpose', english(one) + there, german(one) + [Word(','), *other])]


def _tense(draft: Draft) -> str:
  return draft.weigh({'past': 0.75, 'future': 0.25})


def _went(draft: Draft) -> list[Example]:
  """ "Anna went into the kitchen to eat an apple.": um einen Apfel zu essen."""
  place = draft.choose(tuple(_THERE))
  deed, *things = draft.choose(_THERE[place]).split()
  verb, noun = _named(deed.replace('-', ' ')), lexicon.NOUNS[place]
  subject = some_person(draft)
  draft.note('place', 'go', place)
  where = placed(draft, ('into', 'in'), noun_phrase(draft, noun, THE), 'accusative')
  clause = Clause(draft.unit('v'), subject, lexicon.FRAME_VERBS['go'], _tense(draft), complement=where)
  if not things:
    return _in_order(draft, clause, verb)
  thing = draft.choose([noun for noun in fitting(frozenset(things)) if fits(verb.objects, noun)])
  return _in_order(draft, clause, verb, some_noun(draft, thing, subject, indefinite=0.5, plural=0.1,
                                               described=0 if 'food' in thing.tags else 0.3))


def _traveled(draft: Draft) -> list[Example]:
  """ "He flew to Oslo to visit Anna.": um Anna zu besuchen."""
  city, unit, subject = names.some_of(draft, 'city'), draft.unit('v'), some_person(draft)
  note_name(draft, city, 'city')
  complement = Complement(words('to', f'{unit}.at') + words(city, f'{unit}.city'),
                          words('nach', f'{unit}.at') + words(city, f'{unit}.city'))
  clause = Clause(unit, subject, lexicon.FRAME_VERBS[draft.choose(('travel', 'fly'))], _tense(draft),
                  complement=complement)
  if draft.chance(0.2):
    return _in_order(draft, clause, _named('work'))
  return _in_order(draft, clause, _named(draft.choose(_VISITED)), some_person(draft, subject, pronouns=False))


def _called(draft: Draft) -> list[Example]:
  """ "The man called Anna to thank her.": um ihr zu danken."""
  subject, unit, call = some_person(draft), draft.unit('v'), _named('call')
  called = some_name(draft, familiar=True) if draft.chance(0.5) else some_person(draft, subject, pronouns=False)
  clause = Clause(unit, subject, call, _tense(draft), (verb_object(draft, unit, call, called, 'accusative'),))
  if subject.sex == called.sex or subject.lemma == 'they' or subject.agreement == called.agreement == 'plural':
    raise Unfit  # "he called Paul to thank him": to thank whom?
  return _in_order(draft, clause, _named(draft.choose(_CALLED_TO)), echo(draft, called))


def _used(draft: Draft) -> list[Example]:
  """ "She bought the book to read it.": um es zu lesen."""
  verb = _named(draft.choose(tuple(_WITH_IT)))
  other = draft.choose([other for other in TAKES_IT if other.name in _WITH_IT[verb.name].split()
                        and 'person' in other.subjects])
  noun = draft.choose([noun for noun in fitting(CALLED_IT) if fits(verb.objects, noun) and fits(other.objects, noun)])
  if (verb.name, other.name) == ('open', 'read') and noun.english != 'letter' or (
      other.name == 'sell' and noun.tags.isdisjoint(('own', 'furniture', 'device'))):
    raise Unfit
  subject, unit = some_person(draft), draft.unit('v')
  thing = noun_phrase(draft, noun, draft.weigh({THE: 0.8, THIS: 0.2}))
  clause = Clause(unit, subject, verb, _tense(draft), (verb_object(draft, unit, verb, thing, 'accusative'),))
  draft.note('object', other.name, noun.english)
  return _in_order(draft, clause, other, it_for(draft, thing))


def _switched(draft: Draft) -> list[Example]:
  """ "I turned off the radio to sleep.": um zu schlafen."""
  verb = _named(draft.choose(tuple(_BY_LIGHT)))
  things, deeds = (cell.split() for cell in _BY_LIGHT[verb.name])
  subject, unit = some_person(draft), draft.unit('v')
  thing = some_noun(draft, lexicon.NOUNS[draft.choose(things)], subject, indefinite=0, plural=0)
  clause = Clause(unit, subject, verb, _tense(draft), (verb_object(draft, unit, verb, thing, 'accusative'),))
  other = _named(draft.choose(deeds))
  if other.name == 'read':
    text = draft.choose(fitting(frozenset({'readable'})))
    return _in_order(draft, clause, other, some_noun(draft, text, subject, plural=0))
  return _in_order(draft, clause, other)


KINDS: Kinds = {_passive: 4, _reflexive: 3.5, _went: 1, _traveled: 0.7, _called: 0.6, _used: 0.8, _switched: 0.4}
