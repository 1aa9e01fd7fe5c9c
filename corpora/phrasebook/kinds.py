"""The phrasebook's kinds of sentences.

To add a kind, write a function `_name(draft) -> list[Example]` that draws one sentence and give it a weight in KINDS.
Every German sentence must be the one right translation: leave out what depends on something the English does not say.
"""

from collections.abc import Callable

from corpora.phrasebook import lexicon
from corpora.phrasebook.draws import (
  CALLED_IT,
  PERSON,
  TAKES_IT,
  UNGRADED,
  action,
  adjectives_of,
  coordinated,
  echo,
  fitting,
  no_such_thing,
  placed,
  predicate,
  some_name,
  some_noun,
  some_person,
  some_subject,
  some_time,
  state,
  statement,
  verb_object,
)
from corpora.phrasebook.grammar import (
  BARE,
  BE,
  HAVE,
  MODALS,
  NOT_A,
  PRONOUNS,
  THE,
  THIS,
  A,
  Clause,
  Complement,
  Draft,
  Example,
  Nominal,
  Phrase,
  Unfit,
  Word,
  counted,
  english,
  example,
  german,
  noun_phrase,
  pronoun,
  relate_verb,
  relative_pronoun,
  words,
)
from corpora.phrasebook.lexicon import ADJECTIVES, VERBS, Adjective, Verb, fits
from corpora.phrasebook.pronouns import because_of_it, bought_and_lost, draw_pronoun_pair, its

# ------------------------------------------------------------------------------------- kinds: what somebody does


def _deed(draft: Draft) -> list[Example]:
  return statement(draft, 'action', action(draft))


def _right_now(draft: Draft) -> list[Example]:
  """ "Now the man is reading": English changes its tense, German does not."""
  clause = action(draft, 'progressive', verb=draft.choose([verb for verb in VERBS if verb.progressive]))
  return statement(draft, 'action', clause, timed=1)


def _none(draft: Draft) -> list[Example]:
  return statement(draft, 'negation', no_such_thing(draft), timed=0.2)


def _giving(draft: Draft) -> list[Example]:
  verb = draft.choose([verb for verb in VERBS if verb.government == 'both'])
  return statement(draft, 'giving', action(draft, verb=verb))


def _having(draft: Draft) -> list[Example]:
  """ "The man has a new car.", "She doesn't have a dog."."""
  subject = some_person(draft)
  noun = draft.choose(fitting(frozenset('pet own small device furniture clothing container'.split())))
  negated = subject.definite and draft.chance(0.3)
  adjective = draft.choose(adjectives_of(noun)) if draft.chance(0.5) else None
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
    clause = action(draft, tense, negated=0.25 if modal.negatable else 0)
    clause.modal = modal
  if draft.chance(0.15) and not clause.negated:
    return [example(draft, 'modal', english(clause, inverted=True), german(clause, 'first'), '?')]
  return [example(draft, 'modal', english(clause), german(clause))]


# -------------------------------------------------------------------------------------- kinds: what somebody is


def _being(draft: Draft) -> list[Example]:
  clause = state(draft)
  if not clause.negated and draft.chance(0.15):
    return [example(draft, 'being', english(clause, inverted=True), german(clause, 'first'), '?')]
  return [example(draft, 'being', english(clause), german(clause))]


def _comparison(draft: Draft) -> list[Example]:
  """ "The dog is bigger than the cat."."""
  adjective = draft.choose([adjective for adjective in ADJECTIVES.values() if adjective.english_comparative])
  if 'person' in adjective.tags and draft.chance(0.5):
    one, other = some_person(draft), some_person(draft, pronouns=False)
  else:
    options = fitting(adjective.tags - {'role', 'person'})
    kind = frozenset({'animal'}) if draft.chance(0.4) else frozenset({'thing', 'food'})
    options = [noun for noun in options if fits(kind, noun)]
    first, second = draft.choose(options), draft.choose(options)
    if first is second:
      raise Unfit
    one = some_noun(draft, first, indefinite=0, described=0)
    other = some_noun(draft, second, indefinite=0, described=0)
  for nominal in (one, other):
    if nominal.sort == 'noun':
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
  if not clause.negated and draft.chance(0.15):
    return [example(draft, 'comparison', english(clause, inverted=True), german(clause, 'first'), '?')]
  return [example(draft, 'comparison', english(clause), german(clause))]


def _role_holder(draft: Draft) -> Nominal:
  """Somebody whose role has one right German word: the sex is known, or the masculine is usual (I, we, they)."""
  sort = draft.weigh({'pronoun': 0.4, 'name': 0.35, 'noun': 0.25})
  if sort == 'pronoun':
    return pronoun(draft, draft.choose(PRONOUNS))
  if sort == 'name':
    return some_name(draft, familiar=True)
  return some_noun(draft, draft.choose(fitting(frozenset({'gendered'}))), indefinite=0, described=0.15)


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


def _esteem(draft: Draft) -> list[Example]:
  """ "Anthony Hopkins admired Michael Bay as a great director."."""
  admire = next(verb for verb in VERBS if verb.name == 'admire')
  verb = draft.choose([admire, lexicon.FRAME_VERBS['respect'], lexicon.FRAME_VERBS['praise']])
  subject, esteemed = some_person(draft), _role_holder(draft)
  if esteemed.lemma in ('I', 'we', 'they') or esteemed.agreement == 'plural' or not esteemed.sex:
    raise Unfit
  adjective = ADJECTIVES[draft.choose(('good', 'great', 'famous', 'clever'))]
  tense = draft.weigh({'past': 0.7, 'present': 0.3})
  return [esteem_sentence(draft, subject, verb, esteemed, adjective, draft.choose(lexicon.ROLES), tense,
                          subject.definite and draft.chance(0.12))]


def esteem_sentence(draft: Draft, subject: Nominal, verb: Verb, esteemed: Nominal, adjective: Adjective,
                    role: lexicon.Role, tense: str, negated: bool = False) -> Example:
  """Somebody admires somebody as something: the role stands in the accusative, too."""
  unit = draft.unit('v')
  item = verb_object(draft, unit, verb, esteemed, 'accusative')
  noun = role.feminine if esteemed.sex == 'f' else role.masculine
  nominal = noun_phrase(draft, noun, A, adjective)
  of_as = f'{unit}.as'
  complement = Complement(words('as', of_as) + nominal.english, words('als', of_as) + nominal.german('accusative'))
  clause = relate_verb(draft, Clause(unit, subject, verb, tense, (item,), negated, complement=complement))
  return example(draft, 'esteem', english(clause), german(clause))


# ------------------------------------------------------------------------------------------- kinds: where, whither

# English, German: with the dative they say where, with the accusative whither.
_IN, _ON, _UNDER, _BEHIND, _NEXT_TO, _BEFORE = (
    ('in', 'in'), ('on', 'auf'), ('under', 'unter'), ('behind', 'hinter'), ('next to', 'neben'), ('in front of', 'vor'))
_INTO, _ONTO = ('into', 'in'), ('onto', 'auf')

_SURFACES = frozenset({'surface'})
_COVERS = frozenset('table bed bench sofa bridge'.split())
_LANDMARKS = frozenset('house church school hotel museum door hedge wall'.split())
_WHERE = ((_IN, frozenset({'inside'})), (_ON, frozenset('bed sofa bench table chair'.split())), (_UNDER, _COVERS),
          (_BEHIND, _LANDMARKS), (_NEXT_TO, _LANDMARKS), (_BEFORE, _LANDMARKS))
_WHERE_THINGS = ((_ON, _SURFACES), (_UNDER, _SURFACES), (_NEXT_TO, frozenset({'furniture', 'door'})),
                 (_BEHIND, frozenset('door cupboard sofa shelf curtain'.split())),
                 (_BEFORE, frozenset('door cupboard sofa shelf window'.split())))


def _place(draft: Draft, choices, case: str, verb: str, other_than: str = '') -> Complement:
  preposition, tags = draft.choose(choices)
  noun = draft.choose(fitting(tags))
  if noun.english == other_than:
    raise Unfit
  draft.note('place', verb, noun.english)
  return placed(draft, preposition, some_noun(draft, noun, indefinite=0.1, described=0.2, plural=0), case)


def _frame_named(label: str) -> Verb:
  return lexicon.FRAME_VERBS.get(label) or next(verb for verb in VERBS if verb.name == label)


def _where(draft: Draft) -> list[Example]:
  """ "The dog slept under the table.": unter dem Tisch."""
  verb = _frame_named(draft.choose(('sleep', 'work', 'wait', 'sing', 'dance', 'sit', 'cry')))
  subject = (some_noun(draft, draft.choose(fitting(frozenset({'animal'}))), indefinite=0.1)
             if verb.name in ('sleep', 'sit') and draft.chance(0.5) else some_person(draft))
  tense = draft.weigh({'past': 0.6, 'present': 0.25, 'future': 0.15})
  clause = Clause(draft.unit('v'), subject, verb, tense, complement=_place(draft, _WHERE, 'dative', verb.name),
                  negated=subject.definite and draft.chance(0.12))
  return statement(draft, 'place', relate_verb(draft, clause), timed=0.2)


def _whither(draft: Draft) -> list[Example]:
  """ "The cat ran into the garden.": in den Garten; the perfect with sein."""
  verb = _frame_named(draft.choose(('run', 'jump', 'go')))
  onto = verb.name == 'jump'
  subject = (some_noun(draft, draft.choose(fitting(frozenset({'jumper'}))), indefinite=0.1)
             if verb.name != 'go' and draft.chance(0.6) else some_person(draft))
  tense = draft.weigh({'past': 0.65, 'present': 0.2, 'future': 0.15})
  choices = ((_ONTO, _SURFACES),) if onto else ((_INTO, frozenset({'inside'})),)
  clause = Clause(draft.unit('v'), subject, verb, tense, complement=_place(draft, choices, 'accusative', verb.name),
                  negated=subject.definite and draft.chance(0.12))
  return statement(draft, 'place', relate_verb(draft, clause), timed=0.2)


def _put(draft: Draft) -> list[Example]:
  """ "She laid the book on the table.": auf den Tisch."""
  verb = lexicon.FRAME_VERBS[draft.choose(('lay', 'place'))]
  subject = some_person(draft)
  noun = draft.choose(fitting(frozenset({'lying' if verb.name == 'lay' else 'standing'})))
  thing, unit = some_noun(draft, noun, subject, indefinite=0.3, plural=0), draft.unit('v')
  tense = draft.weigh({'past': 0.7, 'future': 0.3})
  clause = Clause(unit, subject, verb, tense, (verb_object(draft, unit, verb, thing, 'accusative'),),
                  complement=_place(draft, _WHERE_THINGS, 'accusative', verb.name, noun.english))
  return statement(draft, 'place', relate_verb(draft, clause), timed=0.1)


def _lies(draft: Draft) -> list[Example]:
  """ "The book is lying on the table.": liegt auf dem Tisch."""
  verb = lexicon.FRAME_VERBS[draft.choose(('lie', 'stand'))]
  noun = draft.choose(fitting(frozenset({'lying' if verb.name == 'lie' else 'standing'})))
  subject = some_noun(draft, noun, indefinite=0.15)
  clause = Clause(draft.unit('v'), subject, verb, 'progressive',
                  complement=_place(draft, _WHERE_THINGS, 'dative', verb.name, noun.english))
  clause = relate_verb(draft, clause)
  if draft.chance(0.15):
    return [example(draft, 'place', english(clause, inverted=True), german(clause, 'first'), '?')]
  return [example(draft, 'place', english(clause), german(clause))]


def _travel(draft: Draft) -> list[Example]:
  """Cities, the same in both languages: "They traveled to Oslo."."""
  verb, english_preposition, german_preposition = draft.choose(
      (('live', 'in', 'in'), ('work', 'in', 'in'), ('travel', 'to', 'nach'), ('fly', 'to', 'nach')))
  city, unit = draft.choose(lexicon.CITIES), draft.unit('v')
  draft.note('name', city)
  draft.names.append(city)
  subject = some_person(draft)
  tense = draft.weigh({'past': 0.5, 'present': 0.25, 'future': 0.25})
  complement = Complement(words(english_preposition, f'{unit}.at') + words(city, f'{unit}.city'),
                          words(german_preposition, f'{unit}.at') + words(city, f'{unit}.city'))
  clause = Clause(unit, subject, _frame_named(verb), tense, complement=complement,
                  negated=subject.definite and draft.chance(0.12))
  return statement(draft, 'travel', relate_verb(draft, clause), timed=0.4)


# ----------------------------------------------------------------------------------------------- kinds: numbers

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


# --------------------------------------------------------------------------------------------- kinds: questions


def _question(draft: Draft) -> list[Example]:
  """ "Did the man read the book?", with or without a question word."""
  clause = action(draft, negated=0)
  if not clause.subject.definite:
    raise Unfit
  word, ask = draft.weigh({('', ''): 0.5, ('why', 'warum'): 0.25, ('when', 'wann'): 0.25}), draft.unit('w')
  if word[0] == 'when' and clause.tense == 'present':
    raise Unfit
  if not word[0]:
    if draft.chance(0.25) and clause.tense != 'present':
      clause.time = some_time(draft, clause)
    return [example(draft, 'question', english(clause, inverted=True), german(clause, 'first'), '?')]
  return [example(draft, 'question', english(clause, words(word[0], ask), inverted=True),
                  german(clause, fronted=words(word[1], ask)), '?')]


def _asker(draft: Draft, text: str, forms: str) -> Nominal:
  """who, whom or what."""
  head = draft.unit('p')
  phrase = [Word(text, (head,))]
  cases = dict(zip(('nominative', 'accusative', 'dative'), forms.split()))
  return Nominal(phrase, phrase, lambda case: [Word(cases[case], (head,))], 'third', 'm', head, text, 'pronoun')


def _who(draft: Draft) -> list[Example]:
  """ "Who called the man?", "Whom did the man help?", "What did the man buy?"."""
  verb = draft.choose([verb for verb in TAKES_IT if verb.subjects == PERSON])
  tense = draft.weigh({'past': 0.65, 'present': 0.2, 'future': 0.15})
  if draft.chance(0.5):
    clause = action(draft, tense, _asker(draft, 'who', 'wer wen wem'), verb, negated=0)
    return [example(draft, 'question', english(clause), german(clause), '?')]
  subject, unit = some_subject(draft, verb), draft.unit('v')
  if not subject.definite:
    raise Unfit
  asked = _asker(draft, 'whom', 'wer wen wem') if 'person' in verb.objects else _asker(draft, 'what', 'was was was')
  clause = Clause(unit, subject, verb, tense)
  draft.relate('subject', f'{unit}.main', subject.head)
  draft.relate('object', f'{unit}.main', asked.head)
  if verb.preposition:
    raise Unfit
  return [example(draft, 'question', english(clause, asked.english, inverted=True),
                  german(clause, fronted=asked.german(verb.government)), '?')]


# --------------------------------------------------------------------------------------- kinds: several clauses


def _either(draft: Draft, tense: str, subject: Nominal | None = None, states: float = 0.35) -> Clause:
  """A deed or a state."""
  return state(draft, tense, subject) if draft.chance(states) else action(draft, tense, subject)


def _joined(draft: Draft, main: Clause, conjunction: tuple[str, str], reason: Clause, fronted: bool) -> list[Example]:
  """A main and a subordinate clause, either first."""
  link = draft.unit('c')
  begin, beginnt = words(conjunction[0], link), words(conjunction[1], link)
  comma = [Word(',', (f'{link}.comma',))]
  if fronted:
    return [example(draft, 'subordinate', begin + english(reason) + comma + english(main),
                    german(main, fronted=beginnt + german(reason, 'last') + comma))]
  return [example(draft, 'subordinate', english(main) + begin + english(reason),
                  german(main) + [Word(',')] + beginnt + german(reason, 'last'))]


def _because(draft: Draft) -> list[Example]:
  """Reasons and concessions: verb-final in German, and the main verb first behind them."""
  tense = draft.weigh({'past': 0.7, 'present': 0.3})
  conjunction = draft.choose((('because', 'weil'), ('although', 'obwohl')))
  fronted = draft.chance(0.35)
  if draft.chance(0.3):
    first, second = _either(draft, tense), _either(draft, tense)
  else:
    named = some_person(draft)
    first, second = action(draft, tense, named), _either(draft, tense, echo(draft, named), states=0.7)
  main, reason = (second, first) if fronted else (first, second)
  return _joined(draft, main, conjunction, reason, fronted)


def _if(draft: Draft) -> list[Example]:
  """ "If the man calls, we will help him.": wenn."""
  return _joined(draft, action(draft, 'future'), ('if', 'wenn'), _either(draft, 'present'), draft.chance(0.5))


def _that(draft: Draft) -> list[Example]:
  """ "I know that …", "She doesn't know whether …"."""
  verb = draft.choose(lexicon.SAYING_VERBS)
  subject = some_person(draft)
  whether = verb.english == 'know' and draft.chance(0.5)
  main = relate_verb(draft, Clause(draft.unit('v'), subject, verb, 'present', negated=whether))
  if not subject.definite:
    raise Unfit
  tense = 'future' if verb.english == 'hope' else draft.weigh({'past': 0.5, 'present': 0.3, 'future': 0.2})
  said = action(draft, tense) if tense == 'future' else _either(draft, tense)
  return _joined(draft, main, ('whether', 'ob') if whether else ('that', 'dass'), said, False)


def _with_relative(nominal: Nominal, english_clause: Phrase, german_clause: Phrase) -> Nominal:
  """A noun with a relative clause behind it, between commas in German."""
  spelt = nominal.english + english_clause
  return Nominal(spelt, spelt, lambda case: nominal.german(case) + [Word(',')] + german_clause + [Word(',')],
                 nominal.agreement, nominal.gender, nominal.head, nominal.lemma, nominal.sort, nominal.sex)


def _relative(draft: Draft) -> list[Example]:
  """ "The man who bought the house is rich.", "I know the woman whom the boy helped."."""
  tense = draft.weigh({'past': 0.75, 'present': 0.25})
  person = draft.chance(0.6)
  noun = draft.choose(fitting(PERSON if person else CALLED_IT | {'animal'}))
  if 'kin' in noun.tags:
    raise Unfit
  nominal = noun_phrase(draft, noun, draft.choose((THE, THE, THIS)), plural=draft.chance(0.12))
  if person and draft.chance(0.55):
    who = relative_pronoun(draft, nominal, 'who')
    clause = action(draft, tense, who, draft.choose([verb for verb in VERBS if verb.subjects & PERSON]))
    described = _with_relative(nominal, english(clause), german(clause, 'last'))
  else:
    verb = draft.choose([verb for verb in TAKES_IT if 'person' in verb.subjects and fits(verb.objects, noun)])
    that = relative_pronoun(draft, nominal, 'whom' if person else 'that')
    subject, unit = some_person(draft), draft.unit('v')
    draft.note('object', verb.name, noun.english)
    if verb.preposition:
      raise Unfit
    clause = Clause(unit, subject, verb, tense)
    draft.relate('subject', f'{unit}.main', subject.head)
    draft.relate('object', f'{unit}.main', that.head)
    described = _with_relative(nominal, english(clause, that.english),
                               german(clause, 'last', that.german(verb.government)))
  if person and draft.chance(0.4):
    knower, unit = pronoun(draft, draft.choose(PRONOUNS)), draft.unit('v')
    know = lexicon.FRAME_VERBS['know']
    main = Clause(unit, knower, know, 'present', (verb_object(draft, unit, know, described, 'accusative'),))
    return [example(draft, 'relative', english(relate_verb(draft, main)), german(main))]
  unit, adjective = draft.unit('v'), draft.choose(adjectives_of(noun))
  draft.note('adjective', noun.english, adjective.english)
  draft.relate('adjective', nominal.head, f'{unit}.adjective')
  degree = '' if adjective.english in UNGRADED else draft.choose(('', 'very'))
  main = Clause(unit, described, BE, draft.choose(('present', 'past')),
                complement=predicate(draft, unit, adjective, degree))
  return [example(draft, 'relative', english(relate_verb(draft, main)), german(main))]


def _and(draft: Draft) -> list[Example]:
  """ "The man sings and the woman dances."."""
  tense = draft.weigh({'past': 0.6, 'present': 0.4})
  first, second = action(draft, tense), action(draft, tense)
  return [coordinated(draft, 'and', first, draft.choose((('and', 'und'), ('but', 'aber'))), second)]


# ------------------------------------------------------------------------------------------------- the splits

# Kind -> weight: its share of the sentences (a pronoun pair makes two).
KINDS: dict[Callable[[Draft], list[Example]], float] = {
    draw_pronoun_pair: 28,
    bought_and_lost: 5, because_of_it: 5, its: 3,
    _deed: 12, _right_now: 2, _none: 3, _giving: 5, _having: 2, _wish: 5,
    _being: 5, _comparison: 3, _role: 4, _esteem: 4,
    _where: 3, _whither: 2.5, _put: 2.5, _lies: 2, _travel: 2,
    _counting: 3, _measure: 2,
    _question: 4, _who: 2,
    _because: 5, _if: 2, _that: 4, _relative: 5, _and: 2,
}
