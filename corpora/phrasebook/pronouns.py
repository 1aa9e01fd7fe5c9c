"""The phrasebook's sentences with "it" and "its", whose German depends on what they stand for.

"The animal didn't cross the street because it was too tired / too wide": in a pronoun pair one adjective decides which
of two nouns "it" is, and the German pronoun takes that noun's gender. To add a pair's frame, add a line to the table of
frames in lexicon.
"""

from corpora.phrasebook import lexicon
from corpora.phrasebook.draws import (
  CALLED_IT,
  TAKES_IT,
  UNGRADED,
  adjectives_of,
  coordinated,
  echo,
  fitting,
  placed,
  predicate,
  some_noun,
  some_person,
  statement,
  verb_object,
)
from corpora.phrasebook.grammar import (
  BE,
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
  words,
)
from corpora.phrasebook.lexicon import ADJECTIVES, NOUNS, VERBS, Frame, Noun, Verb, fits

# ---------------------------------------------------------------------------------- kinds: "it" with two nouns


def _frame_verb(frame: Frame) -> Verb:
  """The verb of a frame; of two with one name, the one that animals do."""
  if frame.verb in lexicon.FRAME_VERBS:
    return lexicon.FRAME_VERBS[frame.verb]
  return [verb for verb in VERBS if verb.name == frame.verb][-1]


_DECISIVE = frozenset(adjective for frame in lexicon.FRAMES for adjective in frame.of_subject + frame.of_object)


def _candidate(draft: Draft, noun: Noun) -> Nominal:
  """One of the two nouns that "it" may be, described by nothing that could decide."""
  options = [adjective for adjective in adjectives_of(noun) if adjective.english not in _DECISIVE]
  adjective = draft.choose(options) if options and draft.chance(0.2) else None
  determiner = draft.weigh({THE: 0.75, THIS: 0.1, MY: 0.08, OUR: 0.07})
  if determiner in (MY, OUR) and noun.tags.isdisjoint(('pet', 'small', 'container', 'device', 'furniture', 'own')):
    determiner = THE
  return noun_phrase(draft, noun, determiner, adjective)


def draw_pronoun_pair(draft: Draft) -> list[Example]:
  """ "The animal didn't cross the street because it was too tired / too wide": two sentences but for the adjective."""
  frame = draft.choose(lexicon.FRAMES)
  first, second = draft.choose(fitting(frame.subjects)), draft.choose(fitting(frame.objects))
  if first.gender == second.gender:
    raise Unfit  # the German pronoun would be the same
  return pronoun_pair(draft, frame, _candidate(draft, first), _candidate(draft, second),
                      draft.choose([word for word in frame.of_subject if fits(ADJECTIVES[word].tags, first)]),
                      draft.choose([word for word in frame.of_object if fits(ADJECTIVES[word].tags, second)]))


def pronoun_pair(draft: Draft, frame: Frame, first: Nominal, second: Nominal, of_first: str, of_second: str,
                 tense: str | None = None, degree: str | None = None) -> list[Example]:
  """Both readings of a frame."""
  draft.note('nouns', *sorted((first.lemma, second.lemma)))
  draft.note_readings(('adjective', first.lemma, of_first), ('adjective', second.lemma, of_second))
  verb, unit = _frame_verb(frame), draft.unit('v')
  units = (f'{unit}.preposition',) if verb.german_preposition else (f'{unit}.main',)
  item = Object(second, verb.government, words(verb.preposition, *units), words(verb.german_preposition, *units))
  tense = tense or draft.weigh({'past': 0.7, 'present': 0.3})
  degree = degree or ('too' if frame.negated else draft.choose(('', 'very', 'so')))
  main = relate_verb(draft, Clause(unit, first, verb, tense, (item,), frame.negated))
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
        antecedent.lemma, word, tuple(ending('pronoun', noun.gender, 'nominative') for noun in (first, second)))))
  return readings


# ----------------------------------------------------------------------------- kinds: "it" and "its", one noun

_OWNED = frozenset('ball blanket basket bed pillow'.split())
# What one may do with a thing, and then with "it".
_AND_THEN = {first: frozenset(seconds.split(', ')) for first, seconds in {
    'buy': 'lose, sell, repair, wash, clean, break, read, eat, draw, carry, need', 'carry': 'lose, need',
    'clean': 'sell, need, close', 'draw': 'sell, admire, visit', 'find': 'lose, sell, repair, wash, clean, break, eat',
    'lose': 'find, need', 'need': 'buy, find, lose', 'open': 'close, read', 'pick up': 'lose, open, wash',
    'read': 'lose, need, sell', 'repair': 'sell, need, lose, clean', 'see': 'buy, draw, find, follow, visit, admire',
    'try on': 'buy, need', 'turn on': 'turn off', 'visit': 'admire, draw', 'wash': 'sell, lose, need, eat',
    'write': 'lose, read'}.items()}
_AGAINST = frozenset('lose sell break'.split())  # joined by "but"
# Why one does something with a thing | why one does not.
_REASONS = {verb: tuple(frozenset(words.split()) for words in reasons.split('|')) for verb, reasons in {
    'buy': 'cheap beautiful good new fresh sweet small light fast big | expensive old heavy dirty bad sour hard slow',
    'sell': 'old heavy big dirty slow expensive hard small | beautiful new good fast cheap',
    'need': 'light big strong fast good stable | heavy old broken slow small bad',
    'repair': 'broken old expensive | cheap old',
    'wash': 'dirty old | clean new small',
    'clean': 'dirty old | clean new',
    'carry': 'light small empty | heavy big wide high long',
    'love': 'beautiful small friendly clever young | dangerous big angry',
    'admire': 'beautiful big new old high long | small dirty low',
    'draw': 'beautiful big small friendly | dirty fast dangerous',
    'follow': 'slow small friendly clever | fast dangerous angry',
    'eat': 'sweet fresh hot | sour hard cold hot',
    'visit': 'beautiful old big | small expensive',
}.items()}


def bought_and_lost(draft: Draft) -> list[Example]:
  """ "The man bought a lamp, but he lost it": aber er hat sie verloren."""
  noun = draft.choose(fitting(CALLED_IT))
  verbs = [verb for verb in TAKES_IT if fits(verb.objects, noun) and 'person' in verb.subjects]
  first = draft.choose([verb for verb in verbs if verb.name in _AND_THEN])
  second = draft.choose([verb for verb in verbs if verb.name in _AND_THEN[first.name]])
  subject, tense = some_person(draft), draft.weigh({'past': 0.8, 'future': 0.2})
  unit, of_second = draft.unit('v'), draft.unit('v')
  thing = some_noun(draft, noun, subject, indefinite=0.5, plural=0)
  one = relate_verb(draft, Clause(unit, subject, first, tense,
                                  (verb_object(draft, unit, first, thing, first.government),)))
  it = verb_object(draft, of_second, second, it_for(draft, thing), second.government)
  draft.note('object', second.name, noun.english)
  negated = draft.chance(0.3)
  two = relate_verb(draft, Clause(of_second, echo(draft, subject), second, tense, (it,), negated))
  conjunction = ('but', 'aber') if negated or second.name in _AGAINST else ('and', 'und')
  return [coordinated(draft, 'it', one, conjunction, two)]


def because_of_it(draft: Draft) -> list[Example]:
  """ "She sold the car because it was old": weil es alt war."""
  noun = draft.choose(fitting(CALLED_IT))
  verb = draft.choose([verb for verb in TAKES_IT if fits(verb.objects, noun) and 'person' in verb.subjects
                       and verb.name in _REASONS])
  subject, tense = some_person(draft), draft.weigh({'past': 0.75, 'present': 0.25})
  unit, because = draft.unit('v'), draft.unit('c')
  thing = some_noun(draft, noun, subject, indefinite=0.2, described=0, plural=0)
  item = verb_object(draft, unit, verb, thing, verb.government)
  negated, of_be = thing.definite and draft.chance(0.4), draft.unit('v')
  clause = relate_verb(draft, Clause(unit, subject, verb, tense, (item,), negated))
  adjective = draft.choose([option for option in adjectives_of(noun) if option.english in _REASONS[verb.name][negated]])
  draft.note('adjective', noun.english, adjective.english)
  it = it_for(draft, thing)
  draft.relate('adjective', it.head, f'{of_be}.adjective')
  degree = draft.choose(('', 'too') if negated else ('', 'very', 'so'))
  degree = '' if adjective.english in UNGRADED else degree
  reason = relate_verb(draft, Clause(of_be, it, BE, tense, complement=predicate(draft, of_be, adjective, degree)))
  return [example(draft, 'it', english(clause) + words('because', because) + english(reason),
                  german(clause) + [Word(',')] + words('weil', because) + german(reason, 'last'))]


def its(draft: Draft) -> list[Example]:
  """ "The cat lost its ball": die Katze … ihren Ball."""
  owner, noun = draft.choose(fitting(frozenset({'animal'}))), NOUNS[draft.choose(sorted(_OWNED))]
  draft.note('nouns', owner.english, noun.english)
  subject = some_noun(draft, owner, indefinite=0, plural=0)
  adjective = draft.choose(adjectives_of(noun)) if draft.chance(0.25) else None
  thing = noun_phrase(draft, noun, ITS[owner.gender], adjective)
  draft.relate('antecedent', thing.head.replace('.noun', '.determiner'), subject.head)
  tense, unit = draft.weigh({'past': 0.6, 'present': 0.4}), draft.unit('v')
  if noun.english in ('bed', 'blanket', 'pillow', 'basket') and draft.chance(0.6):
    verb = next(verb for verb in VERBS if verb.name == 'sleep')
    place = ('in', 'in') if noun.english in ('bed', 'basket') else ('on', 'auf')
    clause = Clause(unit, subject, verb, tense, complement=placed(draft, place, thing, 'dative'))
  else:
    verb = draft.choose([verb for verb in VERBS if verb.name in ('find', 'lose', 'see', 'need')])
    clause = Clause(unit, subject, verb, tense, (verb_object(draft, unit, verb, thing, 'accusative'),))
  clause.negated = draft.chance(0.15)
  return statement(draft, 'its', relate_verb(draft, clause), timed=0.15)
