"""The phrasebook's questions, and its sentences of several clauses.

A kind is a function `_name(draft) -> list[Example]` with a weight in KINDS.
"""

from corpora.phrasebook import lexicon
from corpora.phrasebook.draws import (
  CALLED_IT,
  PERSON,
  TAKES_IT,
  UNGRADED,
  Kinds,
  action,
  adjectives_of,
  coordinated,
  echo,
  fitting,
  predicate,
  some_person,
  some_subject,
  some_time,
  state,
  verb_object,
)
from corpora.phrasebook.grammar import (
  BE,
  PRONOUNS,
  THE,
  THIS,
  Clause,
  Draft,
  Example,
  Nominal,
  Phrase,
  Unfit,
  Word,
  english,
  example,
  german,
  noun_phrase,
  pronoun,
  relate_verb,
  relative_pronoun,
  words,
)
from corpora.phrasebook.lexicon import VERBS, fits


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


KINDS: Kinds = {_question: 4, _who: 2, _because: 5, _if: 2, _that: 4, _relative: 5, _and: 2}
