"""The phrasebook's sentences about what somebody does and what somebody is.

A kind is a function `_name(draft) -> list[Example]` with a weight in KINDS.
"""

from corpora.phrasebook import lexicon
from corpora.phrasebook.draws import (
  UNWISHED,
  Kinds,
  action,
  adjectives_of,
  fitting,
  genitive,
  no_such_thing,
  placed,
  some_name,
  some_noun,
  some_person,
  state,
  statement,
  verb_object,
)
from corpora.phrasebook.grammar import (
  BARE,
  BE,
  HAVE,
  HE,
  MODALS,
  NOT_A,
  PRONOUNS,
  SHE,
  THE,
  THIS,
  A,
  Clause,
  Complement,
  Draft,
  Example,
  I,
  Nominal,
  Unfit,
  english,
  example,
  german,
  noun_phrase,
  pronoun,
  relate_verb,
  words,
)
from corpora.phrasebook.lexicon import ADJECTIVES, NOUNS, VERBS, Adjective, Verb, fits
from corpora.phrasebook.sense import belongs

_DREAMED = frozenset('person kin animal own place clothing building bridge'.split())  # what one dreams of
_TRIED = frozenset('hard sour sweet fresh hot cold good bad'.split())  # what one finds out by eating or reading
_PASSING = frozenset('tired hungry sick'.split())  # nobody dreams of somebody's hunger


def _deed(draft: Draft) -> list[Example]:
  clause = action(draft)
  if clause.verb.name == 'carry':
    raise Unfit  # where to?
  return statement(draft, 'action', clause)


def _right_now(draft: Draft) -> list[Example]:
  """ "Now the man is reading": English changes its tense, German does not."""
  clause = action(draft, 'progressive', verb=draft.choose([verb for verb in VERBS if verb.progressive]))
  return statement(draft, 'action', clause, timed=1)


def _none(draft: Draft) -> list[Example]:
  clause = no_such_thing(draft)
  return statement(draft, 'negation', clause, timed=0.2 if clause.tense == 'past' else 0)


def described(draft: Draft) -> list[Example]:
  """ "I dreamed of Anna's white sofa.": every adjective with each of its endings, rare ones ("weißem") among them."""
  adjective = draft.choose([option for option in ADJECTIVES.values() if fitting(option.tags)])
  gender = draft.choose('mfn')
  nouns = [noun for noun in fitting(adjective.tags) if noun.gender == gender]
  owned = [noun for noun in nouns if 'kin' in noun.tags or belongs(noun)]
  noun = draft.choose(owned if owned and draft.chance(0.7) else nouns)
  plural = 'one' not in noun.tags and draft.chance(0.2)
  determiner = draft.weigh({None: 1} if 'kin' in noun.tags else
                           {None: 0.5 if belongs(noun) else 0, A: 0.3, THE: 0.1, THIS: 0.1}) or genitive(draft)
  if adjective.english == 'light':
    raise Unfit  # "leicht" or "hell"
  tried = adjective.english in _TRIED
  # Nobody dreams of a sour apple.
  dreamed = not tried and adjective.english not in _PASSING and not noun.tags.isdisjoint(_DREAMED)
  known = 'eat' if 'food' in noun.tags else 'read' if tried and 'readable' in noun.tags else 'see'
  unit, deed = draft.unit('v'), draft.weigh({'dream of' if dreamed else 'lie': 0.5, known: 0.3, 'disappear': 0.2})
  if deed == 'disappear' and (tried or noun.tags.isdisjoint(('person', 'kin', 'animal', 'pet', 'small'))):
    raise Unfit
  if plural and determiner is A:
    if deed == 'disappear':
      determiner = THE
    elif deed in ('dream of', 'eat'):
      determiner = BARE
    else:
      raise Unfit  # nobody says to have seen "clean offices"
  phrase = noun_phrase(draft, noun, determiner, adjective, plural)
  if deed == 'lie':
    lying = draft.choose(fitting(frozenset({'lying', '-guitar', '-blanket'})))
    thing = some_noun(draft, lying, described=0, indefinite=0.2, plural=0)
    if noun.english in (thing.lemma, 'guitar', 'drawer') or not noun.tags.isdisjoint(
        ('opening', 'crossed', 'hanging', 'lake', 'barrier', 'food')):
      raise Unfit
    if tried or adjective.english in ('fast', 'slow', 'heavy', 'light') or plural or 'vehicle' in noun.tags:
      raise Unfit  # something lies beside what stands still, and what it weighs is all the same
    beside = placed(draft, ('next to', 'neben'), phrase, 'dative')
    tense = draft.weigh({'past': 0.6, 'progressive': 0.4})
    clause = Clause(unit, thing, lexicon.FRAME_VERBS['lie'], tense, complement=beside)
    return statement(draft, 'place', relate_verb(draft, clause))
  verb = next(verb for verb in VERBS if verb.name == deed)
  if deed == 'disappear':
    return statement(draft, 'action', relate_verb(draft, Clause(unit, phrase, verb, 'past')), timed=0.2)
  item = verb_object(draft, unit, verb, phrase, verb.government)
  clause = relate_verb(draft, Clause(unit, some_person(draft), verb, 'past', (item,)))
  return statement(draft, 'action', clause, timed=0.2)


def _giving(draft: Draft) -> list[Example]:
  verb = draft.choose([verb for verb in VERBS if verb.government == 'both'])
  return statement(draft, 'giving', action(draft, verb=verb, subject=some_person(draft)))


_NOT_HAD = frozenset('slow good bad dirty empty'.split())  # nothing that one tells of what somebody has


def _having(draft: Draft) -> list[Example]:
  """ "The man has a new car.", "She doesn't have a dog."."""
  subject = some_person(draft, described=0)
  noun = draft.choose([noun for noun in fitting(frozenset('pet own small device furniture clothing container'.split()))
                       if belongs(noun) and noun.english not in ('package', 'letter')])
  if subject.agreement == 'plural' and not {'small', 'clothing'}.isdisjoint(noun.tags):
    raise Unfit  # several with one hat
  negated = subject.definite and draft.chance(0.3)
  adjective = None
  if draft.chance(0.5):
    adjective = draft.choose([option for option in adjectives_of(noun)
                              if 'person' not in option.tags and option.english not in _NOT_HAD
                              or option.english in ('old', 'young', 'strong')])
  unit, thing = draft.unit('v'), noun_phrase(draft, noun, NOT_A if negated else A, adjective)
  tense = draft.weigh({'present': 0.6, 'past': 0.4})
  clause = Clause(unit, subject, HAVE, tense, (verb_object(draft, unit, HAVE, thing, 'accusative'),), negated)
  return statement(draft, 'having', relate_verb(draft, clause))


def _wish(draft: Draft) -> list[Example]:
  """Modal verbs: "The man wants to sell his house."."""
  modal = draft.choose(MODALS)
  tense = draft.choose(tuple(modal.german))
  if modal.negatable and draft.chance(0.12):
    clause = no_such_thing(draft, tense, modal)
  else:
    verb = draft.choose([verb for verb in VERBS if 'person' in verb.subjects and verb.name not in UNWISHED])
    clause = action(draft, tense, some_person(draft), verb, negated=0.25 if modal.negatable else 0, once=True)
    clause.modal = modal
  may_be_asked = not clause.negated and modal.english != 'should' and (  # "soll" or "sollte"
      tense != 'past' or clause.subject.lemma not in ('I', 'we'))
  if may_be_asked and draft.chance(0.15):
    return [example(draft, 'modal', english(clause, inverted=True), german(clause, 'first'), '?')]
  return [example(draft, 'modal', english(clause), german(clause))]


def _one_knows(subject: Nominal) -> bool:
  """Whether nobody has to ask about them: "Are my cupboards tall?"."""
  return subject.lemma in ('I', 'we') or subject.english[0].text in ('my', 'our')


def being(draft: Draft) -> list[Example]:
  clause = state(draft)
  if not clause.negated and not _one_knows(clause.subject) and draft.chance(0.15):
    return [example(draft, 'being', english(clause, inverted=True), german(clause, 'first'), '?')]
  return [example(draft, 'being', english(clause), german(clause))]


# Two nouns are compared that have one of these tags in common.
_COMPARABLE = frozenset("""animal furniture luggage device clothing vehicle building crossed food barrier room hanging
    readable opening""".split())


def _comparison(draft: Draft) -> list[Example]:
  """ "The dog is bigger than the cat."."""
  adjective = draft.choose([adjective for adjective in ADJECTIVES.values() if adjective.english_comparative])
  if 'person' in adjective.tags and draft.chance(0.5):
    one = some_person(draft)
    other = some_person(draft, one, pronouns=False)
  else:
    options = [noun for noun in fitting(adjective.tags - {'role', 'person'}) if noun.english != 'animal']
    first = draft.choose(options)
    second = draft.choose([noun for noun in options if noun is not first and noun.tags & first.tags & _COMPARABLE])
    one = some_noun(draft, first, indefinite=0, described=0, plural=0)
    other = some_noun(draft, second, indefinite=0, described=0, plural=0)
  for nominal in (one, other):
    if nominal.sort == 'noun':
      if not fits(adjective.tags, NOUNS[nominal.lemma]):
        raise Unfit
      draft.note('adjective', nominal.lemma, adjective.english)
  if not (one.definite and other.definite):
    raise Unfit
  unit = draft.unit('v')
  than = f'{unit}.than'
  draft.relate('adjective', one.head, f'{unit}.adjective')
  complement = Complement(
      words(adjective.english_comparative, f'{unit}.adjective') + words('than', than) + other.english,
      words(adjective.german_comparative, f'{unit}.adjective') + words('als', than) + other.german('nominative'))
  tense = draft.weigh({'present': 0.7, 'past': 0.3})
  clause = relate_verb(draft, Clause(unit, one, BE, tense, negated=draft.chance(0.15), complement=complement))
  if not clause.negated and not _one_knows(one) and draft.chance(0.15):
    return [example(draft, 'comparison', english(clause, inverted=True), german(clause, 'first'), '?')]
  return [example(draft, 'comparison', english(clause), german(clause))]


def _role_holder(draft: Draft, owner: Nominal | None = None) -> Nominal:
  """Somebody whose role has one right German word, as the sex is known; `owner`: as in some_noun.

  In training also I, we and they, with the masculine form, so that "I am a student" is learnt; none is tested.
  """
  sort = draft.weigh({'pronoun': 0.4, 'name': 0.35, 'noun': 0.25})
  if sort == 'pronoun':
    return pronoun(draft, draft.choose((I, *PRONOUNS) if draft.wanted == 'train' else (HE, SHE)))
  if sort == 'name':
    return some_name(draft, familiar=True)
  return some_noun(draft, draft.choose(_WITHOUT_TRADE), owner, indefinite=0, described=0)


_WITHOUT_TRADE = fitting(frozenset(
    'gendered -boy -king -queen -prince -princess -waiter -waitress -actor -actress'.split()))


def _role(draft: Draft) -> list[Example]:
  """ "I am a student.": no article in German, unless there is an adjective."""
  return [role_sentence(draft, _role_holder(draft), draft.choose(lexicon.ROLES),
                        ADJECTIVES[draft.choose(_ROLE_ADJECTIVES)] if draft.chance(0.4) else None,
                        draft.weigh({'present': 0.65, 'past': 0.35}), draft.chance(0.15), draft.chance(0.15))]


_ROLE_ADJECTIVES = [adjective.english for adjective in ADJECTIVES.values() if 'role' in adjective.tags]


def role_sentence(draft: Draft, subject: Nominal, role: lexicon.Role, adjective: Adjective | None, tense: str,
                  negated: bool = False, asked: bool = False) -> Example:
  """Somebody is something by trade."""
  if subject.lemma:
    draft.note('role', subject.lemma, role.english)
  plural = subject.agreement == 'plural'
  if asked and _one_knows(subject):
    raise Unfit
  noun = role.feminine if subject.sex == 'f' else role.masculine
  determiner = BARE if plural else A
  if negated and not asked:
    if plural:
      raise Unfit
    determiner = NOT_A
  unit, nominal = draft.unit('v'), noun_phrase(draft, noun, determiner, adjective, plural)
  spelt = nominal.german('nominative')
  complement = Complement(nominal.english, spelt[1:] if determiner is A and not adjective else spelt)
  clause = relate_verb(draft, Clause(unit, subject, BE, tense, negated=determiner is NOT_A, complement=complement))
  if asked:
    return example(draft, 'role', english(clause, inverted=True), german(clause, 'first'), '?')
  return example(draft, 'role', english(clause), german(clause))


def _introduction(draft: Draft) -> list[Example]:
  """ "My name is Anna and I am a doctor.": Ärztin."""
  person, role = some_name(draft, familiar=True), draft.choose(lexicon.ROLES)
  unit, of_name, link = draft.unit('v'), draft.unit('n'), draft.unit('c')
  draft.note('role', 'name', role.english)
  noun = role.feminine if person.sex == 'f' else role.masculine
  trade = noun_phrase(draft, noun, A)
  i = pronoun(draft, I)
  my_name = Nominal(words('my name', of_name), [], lambda case: words('mein Name', of_name), 'third', 'm', of_name, '',
                    'noun')
  one = Clause(unit, my_name, BE, 'present', complement=Complement(person.english, person.german('nominative')))
  two = relate_verb(draft, Clause(draft.unit('v'), i, BE, 'present',
                                  complement=Complement(trade.english, trade.german('nominative')[1:])))
  return [example(draft, 'role', english(one) + words('and', link) + english(two),
                  german(one) + words('und', link) + german(two))]


_CLEVER_ROLES = frozenset('teacher doctor director writer judge journalist lawyer architect'.split())


def _esteem(draft: Draft) -> list[Example]:
  """ "Anthony Hopkins admired Michael Bay as a great director."."""
  admire = next(verb for verb in VERBS if verb.name == 'admire')
  verb = draft.choose([admire, admire, lexicon.FRAME_VERBS['respect'], lexicon.FRAME_VERBS['praise']])
  subject = some_person(draft, described=0)
  esteemed = _role_holder(draft, subject)
  if esteemed.lemma in ('I', 'we', 'they') or esteemed.agreement == 'plural' or not esteemed.sex:
    raise Unfit
  adjective = ADJECTIVES[draft.choose(('great', 'great', 'famous', 'clever') if verb is admire else
                                      ('good', 'good', 'clever'))]
  tense = 'past' if verb.name == 'praise' else draft.weigh({'past': 0.7, 'present': 0.3})
  role = draft.choose([role for role in lexicon.ROLES if role.english != 'student' and (
      adjective.english != 'clever' or role.english in _CLEVER_ROLES)])
  return [esteem_sentence(draft, subject, verb, esteemed, adjective, role, tense)]


def esteem_sentence(draft: Draft, subject: Nominal, verb: Verb, esteemed: Nominal, adjective: Adjective,
                    role: lexicon.Role, tense: str) -> Example:
  """Somebody admires somebody as something: the role stands in the accusative, too.

  German has no article there ("als guten Lehrer"), but for emphasis with "great": "als einen großartigen Regisseur".
  """
  unit = draft.unit('v')
  item = verb_object(draft, unit, verb, esteemed, 'accusative')
  noun = role.feminine if esteemed.sex == 'f' else role.masculine
  emphatic = adjective.english == 'great'
  nominal = noun_phrase(draft, noun, A if emphatic else BARE, adjective)
  of_as = f'{unit}.as'
  complement = Complement(words('as' if emphatic else 'as a', of_as) + nominal.english,
                          words('als', of_as) + nominal.german('accusative'))
  clause = relate_verb(draft, Clause(unit, subject, verb, tense, (item,), complement=complement))
  return example(draft, 'esteem', english(clause), german(clause))


KINDS: Kinds = {_deed: 12, _right_now: 2, _none: 2, _giving: 5, _having: 2, _wish: 5,
                being: 5, _comparison: 3, _role: 4, _introduction: 1.5, _esteem: 5}
