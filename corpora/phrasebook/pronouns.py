"""The phrasebook's sentences with "it" and "its", whose German depends on what they stand for.

"The animal didn't cross the street because it was too tired / too wide": in a pronoun pair one adjective decides which
of two nouns "it" is, and the German pronoun takes that noun's gender. To add a pair's frame, add a line to the table of
frames in lexicon.
"""

import contextlib
import functools

from corpora.phrasebook import lexicon
from corpora.phrasebook.draws import (
  BY_CHANCE,
  CALLED_IT,
  STATES,
  TAKES_IT,
  UNGRADED,
  adjectives_of,
  coordinated,
  echo,
  fitting,
  genitive,
  placed,
  predicate,
  some_noun,
  some_person,
  some_time,
  statement,
  verb_object,
)
from corpora.phrasebook.grammar import (
  BE,
  CAN,
  ITS,
  MY,
  OUR,
  THE,
  THIS,
  Clause,
  Draft,
  Example,
  Nominal,
  Object,
  Reading,
  Unfit,
  Word,
  ending,
  english,
  example,
  german,
  it_for,
  noun_phrase,
  relate_verb,
  split_of,
  words,
)
from corpora.phrasebook.lexicon import ADJECTIVES, NOUNS, VERBS, Frame, Noun, Verb, fits
from corpora.phrasebook.sense import belongs, check_described, check_doer, fair_trade

# ---------------------------------------------------------------------------------- kinds: "it" with two nouns


def _frame_verb(frame: Frame) -> Verb:
  """The verb of a frame; of two with one name, the one that animals do."""
  if frame.verb in lexicon.FRAME_VERBS:
    return lexicon.FRAME_VERBS[frame.verb]
  return [verb for verb in VERBS if verb.name == frame.verb][-1]


_UNDECIDED = frozenset(['broken', 'quiet', 'hot', 'dirty', 'friendly'])  # beside most reasons they are odd
_DENIED = {'old': frozenset(['new', 'young']), 'lazy': frozenset(['friendly']), 'heavy': frozenset(['empty'])}
_DECISIVE = frozenset(adjective for frame in lexicon.FRAMES for adjective in frame.of_subject + frame.of_object)


def _candidate(draft: Draft, noun: Noun, said: str) -> Nominal:
  """One of the two nouns that "it" may be, described by nothing that could decide, nor denies what is `said` of it."""
  unsaid = _DECISIVE | _UNDECIDED | _DENIED.get(said, frozenset())
  options = [adjective for adjective in adjectives_of(noun) if adjective.english not in unsaid]
  adjective = draft.choose(options) if options and draft.chance(0.2) else None
  whose = draft.weigh({MY: 0.3, OUR: 0.3, None: 0.4} if belongs(noun) and draft.chance(0.35) else {THE: 0.9, THIS: 0.1})
  determiner = whose or genitive(draft)
  return noun_phrase(draft, noun, determiner, adjective)


def draw_pronoun_pair(draft: Draft) -> list[Example]:
  """ "The animal didn't cross the street because it was too tired / too wide": two sentences but for the adjective."""
  frame = draft.weigh(_TRAINED if draft.wanted == 'train' else _FRAME_WEIGHTS)
  of_first, of_second = (draft.choose([word for word in words_of if word not in frame.held_out])
                         for words_of in (frame.of_subject, frame.of_object))
  for _ in range(_TRIES):
    trial = Draft(draft.rng, draft.wanted)
    with contextlib.suppress(Unfit):
      drawn = _pair_about(trial, frame, of_first, of_second)
      if draft.wanted in (None, trial.split):
        draft.split = trial.split
        return drawn
  raise Unfit


# How often nouns are drawn for a frame and its two adjectives: otherwise those that few nouns go with are hardly ever
# met, and not learnt.
_TRIES = 30
# Where adjective and polarity decide the other way with most verbs.
_HARDEST = (('not fit under', 'wide'), ('support', 'small'))


def draw_unseen_pair(draft: Draft) -> list[Example]:
  """Draw a pronoun pair with a key, (frame, adjective), that training never has."""
  keys = sorted({(frame.name, word) for frame in lexicon.FRAMES for word in frame.held_out})
  name, word = draft.weigh({key: 3 if key in _HARDEST else 1 for key in keys})
  frame = draft.choose([frame for frame in lexicon.FRAMES if frame.name == name])
  if word in frame.of_subject:
    return _pair_about(draft, frame, word, draft.choose(frame.of_object))
  return _pair_about(draft, frame, draft.choose(frame.of_subject), word)


def _pair_about(draft: Draft, frame: Frame, of_first: str, of_second: str) -> list[Example]:
  """Draw the nouns of a pair with these adjectives."""
  first = draft.choose(_described(frame.subjects, of_first))
  # Of one gender, the German pronouns would be the same.
  second = draft.choose([noun for noun in _described(frame.objects, of_second) if noun.gender != first.gender])
  candidates = _candidate(draft, first, of_first), _candidate(draft, second, of_second)
  return pronoun_pair(draft, frame, *candidates, of_first, of_second)


@functools.cache
def _described(tags: frozenset[str], adjective: str) -> tuple[Noun, ...]:
  """Return the nouns of which an adjective can be said in a frame."""
  return tuple(noun for noun in fitting(tags) if fits(ADJECTIVES[adjective].framed, noun))


# "cover" gives the adjectives of "fit into" and "fit under" to the other noun: it is to be learnt, not averaged away.
_VERB_WEIGHTS = {'jump over': 0.6, 'fit into': 0.52, 'fit under': 0.9, 'cover': 2.6, 'carry': 1.2, 'support': 0.8,
                 'overtake': 1.4}
_FRAME_WEIGHTS = {frame: _VERB_WEIGHTS.get(frame.verb, 1.0) for frame in lexicon.FRAMES}
# In training three pairs of five are negated. What decides is verb, negation and adjective together, of which no two tell
# anything where all are even: then nothing is learnt for long, and suddenly all or nothing.
_TRAINED = {frame: weight * (1.3 if frame.negated else 0.7) for frame, weight in _FRAME_WEIGHTS.items()}
# In the present, these say what can be done, or always is so; other deeds happen once, in the past.
_CAN = frozenset(['cross', 'jump over', 'pull', 'carry', 'overtake', 'catch', 'escape from'])
_LASTING = frozenset(['fit into', 'fit under', 'cover', 'support', 'fear'])


def pronoun_pair(draft: Draft, frame: Frame, first: Nominal, second: Nominal, of_first: str, of_second: str,
                 tense: str | None = None, degree: str | None = None) -> list[Example]:
  """Both readings of a frame."""
  draft.note('nouns', *sorted((first.lemma, second.lemma)))
  draft.note_readings((('adjective', first.lemma, of_first), ('key', frame.name, of_first)),
                      (('adjective', second.lemma, of_second), ('key', frame.name, of_second)))
  verb, unit = _frame_verb(frame), draft.unit('v')
  units = (f'{unit}.preposition',) if verb.german_preposition else (f'{unit}.main',)
  item = Object(second, verb.government, words(verb.preposition, *units), words(verb.german_preposition, *units))
  once = frame.verb not in _CAN | _LASTING or of_first == 'lazy'  # who is lazy does not, but can
  tense = tense or ('past' if once else draft.weigh({'past': 0.65, 'present': 0.35}))
  degree = degree or ('too' if frame.negated and frame.verb != 'fear' else draft.choose(('', 'very', 'so')))
  can = CAN if tense == 'present' and frame.verb in _CAN else None
  main = relate_verb(draft, Clause(unit, first, verb, tense, (item,), frame.negated, can))
  because, shared = draft.unit('c'), list(draft.relations)
  readings = []
  for letter, antecedent, word in (('a', first, of_first), ('b', second, of_second)):
    draft.relations = list(shared)
    it, of_be = it_for(draft, antecedent), draft.unit('v')
    draft.relate('adjective', it.head, f'{of_be}.adjective')
    reason = relate_verb(draft, Clause(of_be, it, BE, tense,
                                       complement=predicate(draft, of_be, ADJECTIVES[word], degree)))
    spelt_english = english(main) + words('because', because) + english(reason)
    spelt_german = german(main) + [Word(',')] + words('weil', because) + german(reason, 'last')
    pair = ' '.join(word.text for word in english(main))
    readings.append(example(draft, 'pronoun pair', spelt_english, spelt_german, reading=Reading(
        f'{pair} | {of_first} | {of_second} | {degree}', letter, ending('pronoun', antecedent.gender, 'nominative'),
        antecedent.lemma, word, tuple(ending('pronoun', noun.gender, 'nominative') for noun in (first, second)),
        frame.name,
        any(split_of(('key', frame.name, decisive)) != 'train' for decisive in (of_first, of_second)))))
  return readings


# ----------------------------------------------------------------------------- kinds: "it" and "its", one noun

# What an animal has | which ones have it; all but the ball is slept in, or on.
_OWNED = {thing: frozenset(owners.split()) for thing, owners in {
    'ball': 'dog cat', 'blanket': 'dog cat horse rabbit', 'basket': 'dog cat rabbit', 'bed': 'dog cat', 'pillow': 'dog cat',
    'cage': 'bird rabbit', 'stall': 'horse pig donkey cow goat duck'}.items()}
# What one may do with a thing, and then with "it".
_AND_THEN = {first: frozenset(seconds.split(', ')) for first, seconds in {
    'buy': 'lose, wash, clean, break, read, eat', 'clean': 'sell',
    'find': 'repair, read, open, eat', 'need': 'buy, find',
    'open': 'close, read', 'read': 'sell', 'repair': 'sell, lose, clean',
    'see': 'buy, draw, follow, visit, admire', 'try on': 'buy', 'turn on': 'turn off', 'visit': 'admire, draw',
    'wash': 'sell', 'write': 'lose, read'}.items()}
_AGAINST = frozenset('lose break'.split())  # joined by "but"
# What one may leave undone, joined by "but".
_LEFT_UNDONE = frozenset(['read', 'eat', 'wash', 'clean', 'find', 'buy', 'close', 'open', 'visit',
                          'turn off'])
# Why one does something with a thing | why one does not.
_REASONS = {verb: tuple(frozenset(words.split()) for words in reasons.split('|')) for verb, reasons in {
    'buy': 'cheap beautiful good fresh sweet light fast big | expensive old heavy dirty bad sour slow',
    'sell': 'old slow | beautiful new good',
    'need': 'strong fast | ',
    'repair': 'broken | cheap old',
    'wash': 'dirty | clean',
    'clean': 'dirty | clean',
    'carry': ' | heavy big',
    'love': 'beautiful friendly clever | ',
    'admire': 'beautiful big old high long | ',
    'eat': 'sweet fresh | sour hard cold hot',
    'visit': 'beautiful old big | small',
}.items()}


def bought_and_lost(draft: Draft) -> list[Example]:
  """ "The man bought a lamp, but he lost it": aber er hat sie verloren."""
  noun = draft.choose(fitting(CALLED_IT))
  verbs = [verb for verb in TAKES_IT if fits(verb.objects, noun) and 'person' in verb.subjects]
  first = draft.choose([verb for verb in verbs if verb.name in _AND_THEN])
  negated = draft.chance(0.3)
  second = draft.choose([verb for verb in verbs if verb.name in _AND_THEN[first.name]
                         and (not negated or verb.name in _LEFT_UNDONE)])
  if first.name == 'open' and second.name == 'close' and not negated:
    raise Unfit  # what for?
  subject = some_person(draft, described=0)
  unplanned = (BY_CHANCE | {'see'}) & {first.name, second.name}
  tense = 'past' if unplanned or first.name == 'need' else draft.weigh({'past': 0.75, 'future': 0.25})
  unit, of_second = draft.unit('v'), draft.unit('v')
  # Whoever needs "a" car buys one, not "it".
  thing = some_noun(draft, noun, subject, indefinite=0 if first.name == 'need' else 0.5, plural=0,
                    described=0 if 'animal' in noun.tags or first.name == 'need' else 0.3)
  one = relate_verb(draft, Clause(unit, subject, first, tense,
                                  (verb_object(draft, unit, first, thing, first.government),)))
  it = verb_object(draft, of_second, second, it_for(draft, thing), second.government)
  check_described(first, thing)
  for verb in (first, second):
    fair_trade(verb, subject, thing)
  if first.name == 'need' and not thing.english[0].text.islower() or first.name == 'wash' and 'animal' in noun.tags:
    raise Unfit  # one buys, but not Anna's bottle; nobody washes a rabbit to sell it
  draft.note('object', second.name, noun.english)
  two = relate_verb(draft, Clause(of_second, echo(draft, subject), second, tense, (it,), negated))
  against = negated or second.name in _AGAINST
  conjunction = ('but', 'aber') if against else ('and', 'und')
  return [coordinated(draft, 'it', one, conjunction, two)]


def because_of_it(draft: Draft) -> list[Example]:
  """ "She sold the car because it was old": weil es alt war."""
  noun = draft.choose(fitting(CALLED_IT))
  verb = draft.choose([verb for verb in TAKES_IT if fits(verb.objects, noun) and 'person' in verb.subjects
                       and verb.name in _REASONS])
  subject = some_person(draft, described=0)
  tense = 'present' if verb.name in STATES and draft.chance(0.5) else 'past'
  unit, because = draft.unit('v'), draft.unit('c')
  thing = some_noun(draft, noun, subject, indefinite=0 if verb.name in STATES else 0.2, described=0, plural=0)
  item = verb_object(draft, unit, verb, thing, verb.government)
  fair_trade(verb, subject, thing)
  negated, of_be = thing.definite and draft.chance(0.4), draft.unit('v')
  clause = relate_verb(draft, Clause(unit, subject, verb, tense, (item,), negated))
  adjective = draft.choose([option for option in adjectives_of(noun) if option.english in _REASONS[verb.name][negated]])
  if verb.name == 'sell' and 'animal' in noun.tags and adjective.english in ('old', 'slow'):
    raise Unfit
  draft.note('adjective', noun.english, adjective.english)
  it = it_for(draft, thing)
  draft.relate('adjective', it.head, f'{of_be}.adjective')
  degree = draft.choose(('', 'too') if negated else ('', 'very', 'so'))
  plain = UNGRADED | {'clean', 'cheap'} | ({'new', 'good', 'beautiful'} if negated else frozenset())
  degree = '' if adjective.english in plain else degree
  reason = relate_verb(draft, Clause(of_be, it, BE, tense, complement=predicate(draft, of_be, adjective, degree)))
  return [example(draft, 'it', english(clause) + words('because', because) + english(reason),
                  german(clause) + [Word(',')] + words('weil', because) + german(reason, 'last'))]


def its(draft: Draft) -> list[Example]:
  """ "The cat lost its ball": die Katze … ihren Ball."""
  owner = draft.choose(fitting(frozenset({'pet'})))
  noun = NOUNS[draft.choose([thing for thing, owners in _OWNED.items() if owner.english in owners])]
  draft.note('nouns', owner.english, noun.english)
  subject = some_noun(draft, owner, indefinite=0, plural=0)
  adjective = draft.choose(adjectives_of(noun)) if adjectives_of(noun) and draft.chance(0.25) else None
  thing = noun_phrase(draft, noun, ITS[owner.gender], adjective)
  draft.relate('antecedent', thing.head.replace('.noun', '.determiner'), subject.head)
  tense, unit = draft.weigh({'past': 0.6, 'present': 0.4}), draft.unit('v')
  if noun.english != 'ball' and (noun.english != 'blanket' or draft.chance(0.6)):
    verb = next(verb for verb in VERBS if verb.name == 'sleep')
    place = ('on', 'auf') if noun.english in ('blanket', 'pillow') else ('in', 'in')
    clause = Clause(unit, subject, verb, tense, complement=placed(draft, place, thing, 'dative'))
    if tense == 'present':
      clause.time = some_time(draft, clause)
  else:
    verb = draft.choose([verb for verb in VERBS if verb.name in (
        ('find', 'lose', 'need') if tense == 'past' and noun.english == 'ball' else ('need',))])
    clause = Clause(unit, subject, verb, tense, (verb_object(draft, unit, verb, thing, 'accusative'),))
  check_doer(clause.verb, subject)
  clause.negated = clause.time is None and draft.chance(0.15)
  return statement(draft, 'its', relate_verb(draft, clause), timed=0.15)
