"""The phrasebook's sentences about where something is, and where somebody goes or puts something.

A kind is a function `_name(draft) -> list[Example]` with a weight in KINDS.
"""

from corpora.phrasebook import lexicon, names
from corpora.phrasebook.draws import (
  BY_CHANCE,
  Kinds,
  fitting,
  placed,
  some_noun,
  some_person,
  some_time,
  statement,
  verb_object,
)
from corpora.phrasebook.grammar import (
  Clause,
  Complement,
  Draft,
  Example,
  Nominal,
  Unfit,
  english,
  example,
  german,
  note_name,
  relate_verb,
  words,
)
from corpora.phrasebook.lexicon import NOUNS, VERBS, Verb, fits
from corpora.phrasebook.sense import check_described, check_doer, grown_up

# English, German: with the dative they say where, with the accusative whither.
_IN, _ON, _UNDER, _BEHIND, _NEXT_TO, _BEFORE = (
    ('in', 'in'), ('on', 'auf'), ('under', 'unter'), ('behind', 'hinter'), ('next to', 'neben'), ('in front of', 'vor'))
_INTO, _ONTO = ('into', 'in'), ('onto', 'auf')

_SURFACES = frozenset({'surface'})
_LANDMARKS = frozenset('house church school hotel museum door hedge wall'.split())
_LYING = frozenset('sofa bench'.split())
_BY = ((_BEHIND, _LANDMARKS), (_NEXT_TO, _LANDMARKS), (_BEFORE, _LANDMARKS))
# Where people do what, and where animals do.
_WHERE = {
    'sleep': ((_IN, frozenset('garden park forest house hotel room bed'.split())), (_ON, _LYING),
              (_UNDER, frozenset({'bridge'}))),
    'work': ((_IN, frozenset('garden park kitchen school church hotel museum house office room'.split())),),
    'wait': ((_IN, frozenset({'inside'})), *_BY, (_ON, frozenset({'bench'})), (_UNDER, frozenset({'bridge'}))),
    'sing': ((_IN, frozenset('garden park forest kitchen school church house'.split())),
             (_UNDER, frozenset({'bridge'}))),
    'dance': ((_IN, frozenset('garden park kitchen school hotel house'.split())), (_BEFORE, _LANDMARKS)),
    'sit': ((_ON, frozenset('bed sofa bench chair'.split())), (_IN, frozenset({'inside'})), *_BY),
    'cry': ((_IN, frozenset('kitchen room office garden church school'.split())), (_ON, _LYING)),
}
_INDOORS = frozenset('cat dog monkey goat rabbit'.split())
_PETS_WHERE = ((_IN, frozenset('garden park forest house kitchen'.split())), (_UNDER, _SURFACES | {'bridge'}), *_BY)
_BEASTS_WHERE = ((_IN, frozenset('garden park forest'.split())), (_UNDER, frozenset({'bridge'})),
                 *((where, frozenset({'hedge', 'wall'})) for where in (_BEHIND, _NEXT_TO, _BEFORE)))
_RUNNERS = frozenset('dog cat horse goat pig rabbit donkey'.split())
_OUTDOORS = frozenset('garden park forest'.split())
_LYING_WHERE = ((_ON, _SURFACES | {'-chair'}), (_UNDER, _SURFACES), (_NEXT_TO, frozenset({'furniture', 'door'})),
                (_BEHIND, frozenset('cupboard sofa shelf curtain'.split())),
                (_BEFORE, frozenset('door cupboard sofa shelf window'.split())))
_STANDING_WHERE = ((_ON, frozenset('table bench'.split())),
                   *(choice for choice in _LYING_WHERE if choice[0] not in (_UNDER, _ON)))
_WHERE_THINGS = {'lie': _LYING_WHERE, 'lay': tuple(choice for choice in _LYING_WHERE if choice[0] is not _BEHIND),
                 'stand': _STANDING_WHERE, 'place': _STANDING_WHERE}
_HIDDEN = frozenset({'luggage', 'barrel'})  # what one stands behind something


def _place(draft: Draft, choices, case: str, verb: str, owner: Nominal, other_than: str = '') -> Complement:
  preposition, tags = draft.choose(choices)
  noun = draft.choose(fitting(tags))
  if noun.english == other_than or verb in ('stand', 'place') and (
      preposition is _ON and other_than == 'chair' or preposition is _BEHIND and not fits(
          _HIDDEN, NOUNS[other_than])):
    raise Unfit
  draft.note('place', verb, noun.english)
  return placed(draft, preposition, some_noun(draft, noun, owner, indefinite=0.1, described=0.2, plural=0), case)


def _frame_named(label: str) -> Verb:
  return lexicon.FRAME_VERBS.get(label) or next(verb for verb in VERBS if verb.name == label)


def _where(draft: Draft) -> list[Example]:
  """ "The dog slept under the table.": unter dem Tisch."""
  verb = _frame_named(draft.choose(tuple(_WHERE)))
  beast = verb.name in ('sleep', 'sit') and draft.chance(0.5)
  beasts = frozenset({'animal'} if verb.name == 'sleep' else 'dog cat bird monkey duck rabbit mouse bear wolf'.split())
  subject = (some_noun(draft, draft.choose(fitting(beasts)), indefinite=0.04) if beast else some_person(draft))
  check_doer(verb, subject)
  tense = draft.weigh({'past': 0.5, 'progressive': 0.2, 'present': 0.15, 'future': 0.15})
  if tense == 'future' and (beast or verb.name in BY_CHANCE):
    raise Unfit
  places = _WHERE[verb.name] if not beast else _PETS_WHERE if subject.lemma in _INDOORS else _BEASTS_WHERE
  where = _place(draft, places, 'dative', verb.name, subject)
  clause = Clause(draft.unit('v'), subject, verb, tense, complement=where,
                  negated=subject.definite and tense != 'present' and draft.chance(0.12))
  if tense == 'present':
    clause.time = some_time(draft, clause)
  return statement(draft, 'place', relate_verb(draft, clause), timed=0.2)


def _whither(draft: Draft) -> list[Example]:
  """ "The cat ran into the garden.": in den Garten; the perfect with sein."""
  verb = _frame_named(draft.choose(('run', 'jump', 'go')))
  onto = verb.name == 'jump'
  beast = verb.name != 'go' and draft.chance(0.6)
  subject = (some_noun(draft, draft.choose(fitting(_INDOORS if onto else _RUNNERS)), indefinite=0.04)
             if beast else some_person(draft))
  check_doer(verb, subject)
  tense = draft.weigh({'past': 0.65, 'progressive': 0.15, 'future': 0.0 if beast else 0.2})
  choices = ((_ONTO, _SURFACES),) if onto else ((_INTO, _OUTDOORS if beast else frozenset({'inside'})),)
  clause = Clause(draft.unit('v'), subject, verb, tense,
                  complement=_place(draft, choices, 'accusative', verb.name, subject),
                  negated=subject.definite and draft.chance(0.12))
  return statement(draft, 'place', relate_verb(draft, clause), timed=0.2)


def _put(draft: Draft) -> list[Example]:
  """ "She laid the book on the table.": auf den Tisch."""
  verb = lexicon.FRAME_VERBS[draft.choose(('lay', 'place'))]
  subject = some_person(draft)
  noun = draft.choose(fitting(frozenset({'lying' if verb.name == 'lay' else 'standing'})))
  thing, unit = some_noun(draft, noun, subject, indefinite=0.3, plural=0), draft.unit('v')
  check_described(verb, thing)
  tense = draft.weigh({'past': 0.7, 'future': 0.3})
  clause = Clause(unit, subject, verb, tense, (verb_object(draft, unit, verb, thing, 'accusative'),),
                  complement=_place(draft, _WHERE_THINGS[verb.name], 'accusative', verb.name, subject, noun.english))
  return statement(draft, 'place', relate_verb(draft, clause), timed=0.1)


def _lies(draft: Draft) -> list[Example]:
  """ "The book is lying on the table.": liegt auf dem Tisch."""
  verb = lexicon.FRAME_VERBS[draft.choose(('lie', 'stand'))]
  noun = draft.choose(fitting(frozenset({'lying' if verb.name == 'lie' else 'standing'})))
  subject = some_noun(draft, noun, indefinite=0.15)
  check_described(verb, subject)
  clause = Clause(draft.unit('v'), subject, verb, 'progressive',
                  complement=_place(draft, _WHERE_THINGS[verb.name], 'dative', verb.name, subject, noun.english))
  clause = relate_verb(draft, clause)
  if draft.chance(0.15):
    return [example(draft, 'place', english(clause, inverted=True), german(clause, 'first'), '?')]
  return [example(draft, 'place', english(clause), german(clause))]


def travel(draft: Draft) -> list[Example]:
  """Cities, the same in both languages: "They traveled to Oslo.", "Anna lives in Paris."."""
  verb, english_preposition, german_preposition = draft.choose(
      (('live', 'in', 'in'), ('work', 'in', 'in'), ('travel', 'to', 'nach'), ('fly', 'to', 'nach')))
  city, unit = names.some_of(draft, 'city'), draft.unit('v')
  note_name(draft, city, 'city')
  subject = some_person(draft, described=0)
  abides = verb in ('live', 'work')
  grown_up(_frame_named(verb), subject)
  tense = draft.weigh({'past': 0.45, 'future': 0.2, 'present': 0.35} if abides else
                      {'past': 0.5, 'future': 0.25, 'progressive': 0.1, 'present': 0.15})
  complement = Complement(words(english_preposition, f'{unit}.at') + words(city, f'{unit}.city'),
                          words(german_preposition, f'{unit}.at') + words(city, f'{unit}.city'))
  clause = Clause(unit, subject, _frame_named(verb), tense, complement=complement,
                  negated=subject.definite and (abides or tense != 'present') and draft.chance(0.12))
  if tense == 'present' and not abides:
    clause.time = some_time(draft, clause)
  return statement(draft, 'travel', relate_verb(draft, clause), timed=0 if verb == 'live' else 0.4)


KINDS: Kinds = {_where: 3, _whither: 2, _put: 2, _lies: 2, travel: 5}
