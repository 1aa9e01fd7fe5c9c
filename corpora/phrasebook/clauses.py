"""The phrasebook's questions, and its sentences of several clauses.

A kind is a function `_name(draft) -> list[Example]` with a weight in KINDS.
"""

from corpora.phrasebook import lexicon
from corpora.phrasebook.draws import (
  ABILITIES,
  BY_CHANCE,
  CALLED_IT,
  HABITS,
  PERSON,
  STATES,
  TAKES_IT,
  UNGRADED,
  UNWISHED,
  Kinds,
  action,
  adjectives_of,
  coordinated,
  echo,
  fitting,
  habitual,
  predicate,
  some_noun,
  some_person,
  some_subject,
  some_tense,
  some_time,
  state,
  verb_object,
)
from corpora.phrasebook.grammar import (
  BE,
  PRONOUNS,
  THE,
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
from corpora.phrasebook.lexicon import ADJECTIVES, NOUNS, VERBS, Adjective, fits
from corpora.phrasebook.sense import fair_trade, grown_up

_PACE = ('fast', 'slow')  # nobody is told apart by it
_WITHOUT_REASON = frozenset(['see', 'hear', 'find', 'lose', 'break', 'wake up', 'dream of', 'arrive'])


def _question(draft: Draft) -> list[Example]:
  """ "Did the man read the book?", with or without a question word."""
  # Oftener than statements in the present, where German verbs of all kinds stand in front: "Braucht er ein Auto?".
  verb = draft.choose([verb for verb in VERBS if verb.name in HABITS | STATES]) if draft.chance(0.3) else None
  clause = action(draft, 'present' if verb else None, verb=verb, negated=0)
  if not clause.subject.definite or clause.subject.lemma in ('I', 'we'):
    raise Unfit  # what one does oneself, one knows
  word, ask = draft.weigh({('', ''): 0.5, ('why', 'warum'): 0.25, ('when', 'wann'): 0.25}), draft.unit('w')
  if word[0] == 'when' and (clause.tense in ('present', 'progressive') or clause.verb.name in UNWISHED):
    raise Unfit
  if word[0] == 'why' and clause.verb.name in _WITHOUT_REASON | (ABILITIES if clause.tense == 'future' else set()):
    raise Unfit
  if not word[0]:
    if draft.chance(0.25) and clause.time is None and clause.verb.name not in STATES:
      clause.time = some_time(draft, clause)
    if clause.time and clause.time.english == 'rarely':
      raise Unfit  # one asks whether it is often
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
  tense = draft.weigh({'past': 0.5, 'present': 0.5} if verb.name in STATES else {'past': 0.8, 'future': 0.2})
  if draft.chance(0.5):
    clause = action(draft, tense, _asker(draft, 'who', 'wer wen wem'), verb, negated=0)
    return [example(draft, 'question', english(clause), german(clause), '?')]
  subject, unit = some_subject(draft, verb), draft.unit('v')
  if verb.name in BY_CHANCE:
    tense = 'past'
  if not subject.definite or subject.lemma == 'I':
    raise Unfit
  asked = _asker(draft, 'whom', 'wer wen wem') if 'person' in verb.objects else _asker(draft, 'what', 'was was was')
  clause = Clause(unit, subject, verb, tense)
  draft.relate('subject', f'{unit}.main', subject.head)
  draft.relate('object', f'{unit}.main', asked.head)
  if verb.preposition:
    raise Unfit
  return [example(draft, 'question', english(clause, asked.english, inverted=True),
                  german(clause, fronted=asked.german(verb.government)), '?')]



# What somebody who is so does, or does not do; for each verb whom or what it is done to: a noun's tags, or '' where the
# verb has no object.
_SO = {adjective: tuple(dict(deed.split(': ') if ': ' in deed else (deed, '') for deed in part.split('; '))
                        for part in row.split(' | ')) for adjective, row in {
    'tired': 'sleep | work; dance; swim; sing; tidy up: room; clean: window car; wait for: person bus train',
    'sick': 'sleep; cry; call: mother father brother sister | work; dance; swim; sing; come back; visit: person museum',
    'hungry': 'eat: food; buy: food | sleep; sell: food',
    'sad': 'cry; call: person | laugh; sing; dance; invite: person',
    'happy': 'laugh; sing; dance; thank: person; invite: person | ',
    'angry': 'kick: ball; cry | laugh; thank: person; listen to: person; help: person; invite: person',
    'lazy': ' | work; get up; tidy up: room; clean: car kitchen; wash: car shirt; help: person; read: book',
    'rich': 'buy: house boat car ring; help: person | work; sell: car house boat; need: car bicycle',
    'poor': 'sell: car house boat ring guitar; work | buy: car house boat ring; invite: person',
    'strong': 'carry: table cupboard barrel suitcase; help: person | cry; need: bicycle car',
    'weak': 'need: bed chair | carry: table barrel suitcase; swim; get up; dance',
    'clever': 'read: book newspaper; find: key ring | ',
    'friendly': 'help: person; thank: person | ',
}.items()}
_PASSING = 'tired sick hungry sad happy angry'.split()  # what may be so tomorrow
# Why somebody does something to somebody: what the other one is, or has done. They are "it" and "him" to each other.
_TOWARDS = {deed: tuple(part.split(', ') for part in row.split(' | ')) for deed, row in {
    'help': 'tired, sick, weak, poor, sad, friendly | thank, help, call, trust, love',
    'thank': 'friendly | help, invite, visit, pick up, follow, wait for',
    'trust': 'friendly, clever | help, love',
    'admire': 'clever, strong, famous, rich | help, invite',
    'love': 'friendly, clever, happy | help, love, trust, listen to',
    'visit': 'sick, sad, friendly | invite, call, love, help',
    'invite': 'friendly, famous, sad | help, visit, love, call',
    'call': 'sick, sad, friendly | help, invite, love',
    'wait for': 'slow, tired | call, help',
    'listen to': 'clever, sad, famous | trust',
}.items()}


def _moved(draft: Draft, tense: str, concession: bool, fronted: bool) -> tuple[Clause, Clause]:
  """Somebody does something, and how they are, which is why; or, as a concession, why one would not think so.

  The clause that stands first names them: with `fronted` the second, how they are.
  """
  adjective = ADJECTIVES[draft.choose(_PASSING if tense == 'future' else tuple(_SO))]
  done, left = _SO[adjective.english]
  negated = draft.chance(0.5)
  deeds = left if negated != concession else done
  verb = draft.choose([verb for verb in VERBS if verb.name in deeds and 'person' in verb.subjects])
  if verb.name in STATES and (negated or concession):
    raise Unfit
  somebody, unit = some_person(draft, described=0), draft.unit('v')
  if not somebody.definite or somebody.sort == 'noun' and not fits(adjective.tags, NOUNS[somebody.lemma]):
    raise Unfit
  tags = frozenset(deeds[verb.name].split())
  objects = ()
  if tags:
    other = some_person(draft, somebody, described=0) if 'person' in tags and draft.chance(0.8) else some_noun(
        draft, draft.choose(fitting(tags)), somebody, indefinite=0 if negated else 0.2, described=0,
        plural=0)
    if other.sort == 'pronoun' or negated and not other.definite:
      raise Unfit  # who "he" is, is for the other clause to say
    fair_trade(verb, somebody, other)
    objects = (verb_object(draft, unit, verb, other, verb.government),)
  doer, state_of = (echo(draft, somebody), somebody) if fronted else (somebody, echo(draft, somebody))
  deed = relate_verb(draft, Clause(unit, doer, verb, tense, objects, negated))
  return deed, _so(draft, adjective, state_of, 'present' if tense == 'future' else tense)


def _so(draft: Draft, adjective: Adjective, subject: Nominal, tense: str) -> Clause:
  """Somebody is so."""
  unit = draft.unit('v')
  if subject.sort == 'noun':
    draft.note('adjective', subject.lemma, adjective.english)
  draft.relate('adjective', subject.head, f'{unit}.adjective')
  degree = draft.choose(('', '', 'very', 'so') if tense == 'past' else ('', 'very'))
  return relate_verb(draft, Clause(unit, subject, BE, tense, complement=predicate(draft, unit, adjective, degree)))


def _towards(draft: Draft, tense: str = '') -> tuple[Clause, Clause]:
  """Somebody does something to somebody, and why: how the other one is, or what they have done to the first."""
  deed = draft.choose(tuple(_TOWARDS))
  adjectives, deeds = _TOWARDS[deed]
  verb, unit = next(verb for verb in VERBS if verb.name == deed), draft.unit('v')
  tense = tense or ('present' if deed in STATES and draft.chance(0.5) else 'past')
  one = some_person(draft, described=0)
  other = some_person(draft, one, pronouns=False, described=0)
  if not (one.definite and other.definite):
    raise Unfit
  clause = relate_verb(draft, Clause(unit, one, verb, tense, (verb_object(draft, unit, verb, other, verb.government),)))
  earlier = 'present' if tense == 'future' else tense
  if draft.chance(0.5):
    adjective = ADJECTIVES[draft.choose(adjectives)]
    if tense == 'future' and adjective.english not in _PASSING:
      raise Unfit  # who is clever is so already
    if not fits(adjective.tags, NOUNS['man']) or other.sort == 'noun' and not fits(adjective.tags, NOUNS[other.lemma]):
      raise Unfit
    return clause, _so(draft, adjective, echo(draft, other), earlier)
  if earlier == 'present' and tense == 'present':
    raise Unfit  # "I love her because she helps me" happens but once
  back, of_back = draft.choose([verb for verb in VERBS if verb.name in deeds and verb.name != deed]), draft.unit('v')
  if tense == 'future' and back.name in STATES:
    raise Unfit  # "I will call her if she loves me": one knows, or never will
  if one.sort == 'pronoun' and one.lemma == 'they' or {one.sex, other.sex} == {one.sex} and one.sex:
    raise Unfit  # two that could be "he"
  item = verb_object(draft, of_back, back, echo(draft, one), back.government)
  return clause, relate_verb(draft, Clause(of_back, echo(draft, other), back, earlier, (item,)))


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
  concession, fronted = draft.chance(0.4), draft.chance(0.35)
  if concession or fronted or draft.chance(0.5):
    deed, reason = _moved(draft, 'past', concession, fronted)
  else:
    deed, reason = _towards(draft)
  return _joined(draft, deed, ('although', 'obwohl') if concession else ('because', 'weil'), reason, fronted)


def _if(draft: Draft) -> list[Example]:
  """ "If the man is tired, he will sleep.": wenn."""
  fronted = draft.chance(0.5)
  deed, reason = _moved(draft, 'future', False, fronted) if fronted or draft.chance(0.3) else _towards(draft, 'future')
  if deed.verb.name in STATES:
    raise Unfit
  return _joined(draft, deed, ('if', 'wenn'), reason, fronted)


def _that(draft: Draft) -> list[Example]:
  """ "I know that …", "She doesn't know whether …"."""
  verb = draft.choose(lexicon.SAYING_VERBS)
  subject = some_person(draft)
  whether = verb.english == 'know' and draft.chance(0.5)
  main = relate_verb(draft, Clause(draft.unit('v'), subject, verb, 'present', negated=whether))
  own = subject.lemma in ('I', 'we')
  if not subject.definite or own and verb.english == 'say':
    raise Unfit
  if verb.english == 'hope':
    said = action(draft, 'future', negated=0)
    if said.verb.name in UNWISHED or said.subject.lemma == subject.lemma:
      raise Unfit  # of oneself one hopes nothing that is easily done
  else:
    said = state(draft, 'present') if draft.chance(0.3) else action(draft)
  if whether and said.negated or (whether or own) and said.subject.lemma in ('I', 'we'):
    raise Unfit  # of oneself one knows
  return _joined(draft, main, ('whether', 'ob') if whether else ('that', 'dass'), said, False)


def _with_relative(nominal: Nominal, english_clause: Phrase, german_clause: Phrase) -> Nominal:
  """A noun with a relative clause behind it, between commas in German."""
  spelt = nominal.english + english_clause
  return Nominal(spelt, spelt, lambda case: nominal.german(case) + [Word(',')] + german_clause + [Word(',')],
                 nominal.agreement, nominal.gender, nominal.head, nominal.lemma, nominal.sort, nominal.sex)


def _relative(draft: Draft) -> list[Example]:
  """ "The man who bought the house is rich.", "I know the woman whom the boy helped."."""
  person = draft.chance(0.6)
  noun = draft.choose(fitting(PERSON if person else CALLED_IT | {'animal'}))
  if 'kin' in noun.tags:
    raise Unfit
  nominal = noun_phrase(draft, noun, THE, plural=draft.chance(0.12))
  if person and draft.chance(0.55):
    who = relative_pronoun(draft, nominal, 'who')
    clause = action(draft, None, who, draft.choose([verb for verb in VERBS if verb.subjects & PERSON]))
    if clause.verb.name in ('sleep', 'get up', 'wake up'):
      raise Unfit  # whom does one know for that?
    if clause.verb.name == 'hear' or clause.tense == 'future' or any(
        item.nominal.sort == 'pronoun' for item in clause.objects):
      raise Unfit  # "der Anna gehört hat": belongs to her? "die sie umarmt haben": who whom?
    grown_up(clause.verb, nominal)
    described = _with_relative(nominal, english(clause), german(clause, 'last'))
    known_for = [ADJECTIVES[adjective] for adjective, deeds in _SO.items() if clause.verb.name in deeds[clause.negated]]
    if clause.negated and not known_for:
      raise Unfit  # nobody is known for what he did not do
  else:
    verb = draft.choose([verb for verb in TAKES_IT if 'person' in verb.subjects and fits(verb.objects, noun)])
    that = relative_pronoun(draft, nominal, 'whom' if person else 'that')
    subject, unit = some_person(draft), draft.unit('v')
    draft.note('object', verb.name, noun.english)
    if verb.name == 'hear' or verb.preposition or not subject.definite:
      raise Unfit
    clause = habitual(draft, Clause(unit, subject, verb, some_tense(draft, verb)))
    if clause.tense not in ('past', 'present') or clause.time and not clause.time.middle:
      raise Unfit
    if verb.prefix and clause.tense == 'present' and subject.lemma == 'I':
      raise Unfit  # "das ich oft aufräume": so rare a form is not learnt
    draft.relate('subject', f'{unit}.main', subject.head)
    draft.relate('object', f'{unit}.main', that.head)
    described = _with_relative(nominal, english(clause, that.english),
                               german(clause, 'last', that.german(verb.government)))
    known_for = [ADJECTIVES[adjective] for adjective in _TOWARDS.get(verb.name, ([], []))[0] if not clause.negated]
  # A person is so that the deed comes of it: "the man who slept was tired"; otherwise we know him.
  described_as = [adjective for adjective in adjectives_of(noun) if adjective in known_for or not person and (
      'person' not in adjective.tags and adjective.english not in _PACE or adjective.english in ('old', 'young'))]
  if not described_as or person and draft.chance(0.4):
    knower, unit = pronoun(draft, draft.choose(PRONOUNS)), draft.unit('v')
    know = lexicon.FRAME_VERBS['know']
    main = Clause(unit, knower, know, 'present', (verb_object(draft, unit, know, described, 'accusative'),))
    return [example(draft, 'relative', english(relate_verb(draft, main)), german(main))]
  unit, adjective = draft.unit('v'), draft.choose(described_as)
  draft.note('adjective', noun.english, adjective.english)
  draft.relate('adjective', nominal.head, f'{unit}.adjective')
  degree = '' if adjective.english in UNGRADED else draft.choose(('', 'very'))
  main = Clause(unit, described, BE, 'past' if clause.tense == 'past' and (not person or draft.chance(0.5)) else 'present',
                complement=predicate(draft, unit, adjective, degree))
  return [example(draft, 'relative', english(relate_verb(draft, main)), german(main))]


def _and(draft: Draft) -> list[Example]:
  """ "The man sings and the woman dances."."""
  tense = draft.weigh({'past': 0.75, 'future': 0.25})
  group = draft.choose(_TOGETHER)
  one, other = some_person(draft), some_person(draft)
  first, second = (draft.choose([verb for verb in VERBS if verb.name in group and 'person' in verb.subjects])
                   for _ in range(2))
  contrast = {first.name, second.name} in _CONTRASTS
  if first is second or one.sort == other.sort == 'pronoun' and (one.lemma == other.lemma or
                                                                 {one.lemma, other.lemma} == {'I', 'we'}):
    raise Unfit
  if other.lemma in ('he', 'she', 'they') and one.sort != 'pronoun':
    raise Unfit  # "this waitress will work, but she will sleep": another one?
  clauses = [action(draft, tense, subject, verb, negated=0) for subject, verb in ((one, first), (other, second))]
  if any(item.nominal.lemma in ('he', 'she', 'they') for clause in clauses for item in clause.objects):
    raise Unfit  # who is that?
  return [coordinated(draft, 'and', clauses[0], ('but', 'aber') if contrast else ('and', 'und'), clauses[1])]


# What two people do side by side, and what makes a contrast.
_TOGETHER = [frozenset(group.split(', ')) for group in (
    'sing, dance, laugh', 'work, sleep', 'laugh, cry', 'clean, tidy up')]
_CONTRASTS = [frozenset({'work', 'sleep'}), frozenset({'laugh', 'cry'})]


KINDS: Kinds = {_question: 4, _who: 2, _because: 5.5, _if: 2, _that: 4, _relative: 5, _and: 2}
