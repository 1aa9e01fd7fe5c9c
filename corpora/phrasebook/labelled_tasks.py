"""Labelled sets out of the phrasebook's grammar: English, generated, the same everywhere; labels follow from meaning.

    entailment       a fact and another statement: entailment, neutral, contradiction
    similarity       two statements: do they tell the same fact?
    classification   "The dog didn't catch the cat because it was too slow.": is "it" the first noun or the second?
    multiple_choice  two facts and a question; which of the four that are named is the answer?

A fact is drawn as meaning and spelt in one of several forms (active or passive, the time in front or behind, a cleft
sentence), so that words and their order tell little and the roles tell all. Roles, adjectives, modifiers and negation
are what the wrong answers differ in; they have the right ones' words wherever that is possible. Which split a text
belongs to is decided as in grammar, by the combinations that it contains: every text of an example belongs
to the example's own split, so the splits have no text in common.

What entails what is logic, by three conventions. A negated past denies every such event: "The king didn't buy a car"
entails "The king didn't buy an old car on Monday". A definite noun phrase is one individual throughout an example: "the
big dog" is "the dog". Anything not certain is neutral.
"""

import collections
import dataclasses
import functools
import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from corpora.labelled import Example, LabelledCorpus, LabelledSplit
from corpora.phrasebook import grammar, lexicon
from corpora.phrasebook.draws import adjectives_of, fitting
from corpora.phrasebook.grammar import (
  THE,
  THIS,
  A,
  Clause,
  Draft,
  Nominal,
  Object,
  Unfit,
  english,
  name,
  noun_phrase,
  relate_verb,
)
from corpora.phrasebook.lexicon import ADJECTIVES, NOUNS, VERBS, Verb, fits
from corpora.phrasebook.pronouns import pronoun_pair

SIZES = {'train': 20_000, 'validation': 1_000, 'test': 1_000}  # examples in each split
_SEED = 1706
_TRIES = 2_000  # draws for each example wanted, before one gives up

# ------------------------------------------------------------------------------------------------- what is drawn

# Nouns that may mean the same individual or a kind of each other ("the man", "the king") would make labels doubtful.
_VAGUE = frozenset('man woman child animal bag package box house room'.split())
_PEOPLE = [noun.english for noun in fitting(frozenset({'person'})) if 'kin' not in noun.tags and
           noun.english not in _VAGUE]
_NAMES = lexicon.FAMILIAR_MEN + lexicon.FAMILIAR_WOMEN
_TIMES = [time.english for time in lexicon.TIMES if 'past' in time.tenses and time.english != 'today']  # holds mornings
_PLACES = [f'in the {noun.english}' for noun in fitting(frozenset({'inside'})) if noun.english not in _VAGUE]
_PARTICIPLES = {'see': 'seen', 'draw': 'drawn', 'eat': 'eaten', 'write': 'written', 'break': 'broken'}  # past otherwise
# Who "meets" is met as well; needing and loving are no events; a particle or a preposition would betray a form.
_EVENTS = [verb for verb in VERBS if verb.government in ('accusative', 'dative') and not verb.preposition
           and verb.english not in ('meet', 'need', 'love', 'admire', 'trust')]


@functools.cache
def _actors(verb: Verb) -> tuple[str, ...]:
  """Those who may do it as well as suffer it."""
  beasts = tuple(noun.english for noun in NOUNS.values() if 'animal' in noun.tags and noun.english not in _VAGUE
                 and fits(verb.subjects, noun) and fits(verb.objects, noun))
  return (tuple(_PEOPLE) if 'person' in verb.subjects & verb.objects else ()) + beasts


def _cast(rng: random.Random, verb: Verb, size: int) -> list[str]:
  """So many different ones; names, which are many, as often as anybody else."""
  names = rng.sample(_NAMES, 8) if 'person' in verb.subjects & verb.objects else []
  return rng.sample([*_actors(verb), *names], size)


@functools.cache
def _things(verb: Verb) -> tuple[str, ...]:
  """What people may do it to, people left out."""
  return tuple(noun.english for noun in fitting(verb.objects) if 'person' not in noun.tags
               and noun.english not in _VAGUE) if 'person' in verb.subjects else ()


_BETWEEN_ACTORS = [verb for verb in _EVENTS if len(_actors(verb)) > 3]
_TO_THINGS = [verb for verb in _EVENTS if len(_things(verb)) > 1]


class Drawn(NamedTuple):
  """One draw: the label's place and the texts."""

  label: int
  texts: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Party:
  """A noun phrase: a name, or a noun with its article and perhaps an adjective."""

  word: str
  adjective: str = ''
  indefinite: bool = False

  def spell(self, draft: Draft) -> Nominal:
    """The phrase; its combinations are noted."""
    if self.word in NOUNS:
      return noun_phrase(draft, NOUNS[self.word], A if self.indefinite else THE, ADJECTIVES.get(self.adjective))
    return name(draft, self.word)


@dataclasses.dataclass(frozen=True)
class Fact:
  """Somebody did, or didn't do, something to somebody or something."""

  agent: Party
  verb: Verb
  patient: Party
  time: str = ''
  place: str = ''
  negated: bool = False

  @property
  def modifiers(self) -> dict[str, str]:
    """What makes it a narrower claim: time, place, and an adjective of an indefinite object."""
    return {'time': self.time, 'place': self.place,
            'adjective': self.patient.adjective if self.patient.indefinite else ''}

  def modified(self, **values: str) -> 'Fact':
    """The fact with other modifiers."""
    patient = dataclasses.replace(self.patient, adjective=values.pop('adjective', self.patient.adjective))
    return dataclasses.replace(self, patient=patient, **values)


# ------------------------------------------------------------------------------------------------ how it is spelt


def _active(clause: Clause) -> list[str]:
  return _texts(english(clause))


def _passive(clause: Clause) -> list[str]:
  """ "The cat was followed by the dog": passives are English alone, so the grammar has none."""
  (item,), verb = clause.objects, clause.verb
  return [*_texts(item.nominal.english), "wasn't" if clause.negated else 'was', _participle(verb),
          *verb.particle.split(), 'by', *_texts(clause.subject.english)]


def _cleft_agent(clause: Clause) -> list[str]:
  """ "It was the dog that followed the cat"."""
  spelt, subject = _active(clause), len(clause.subject.english)
  return ['it', 'was', *spelt[:subject], 'that', *spelt[subject:]]


def _cleft_patient(clause: Clause) -> list[str]:
  """ "It was the cat that the dog followed"."""
  (item,) = clause.objects
  return ['it', 'was', *_texts(item.nominal.english), 'that', *_texts(clause.subject.english), clause.verb.past,
          *clause.verb.particle.split()]


def _texts(phrase) -> list[str]:
  return [word.text for word in phrase]


def _participle(verb: Verb) -> str:
  return _PARTICIPLES.get(verb.english, verb.past)


@dataclasses.dataclass(frozen=True)
class Form:
  """A way of telling a fact."""

  spell: Callable[[Clause], list[str]]
  fronted: bool = False  # the time stands in front
  cleft: bool = False


FORMS = (Form(_active), Form(_active, fronted=True), Form(_passive), Form(_passive, fronted=True),
         Form(_cleft_agent, cleft=True), Form(_cleft_patient, cleft=True))


def forms_of(fact: Fact, cleft: bool) -> list[Form]:
  """The forms in which a fact means the same: none in which "a car wasn't bought" might be about one certain car."""
  return [form for form in FORMS if (fact.time or not form.fronted) and (cleft or not form.cleft)
          and not (fact.negated and form.cleft)
          and not (fact.patient.indefinite and (fact.negated and form.spell is _passive or form.cleft))]


def sentence(parts: Sequence[str], mark: str = '.') -> str:
  """Words as a sentence."""
  text = ' '.join(part for part in parts if part) + mark
  return text[0].upper() + text[1:]


def spell(fact: Fact, form: Form) -> tuple[str, str]:
  """The fact's sentence and the split that owns its combinations. Raises Unfit when two splits do."""
  draft = Draft(random.Random(0))  # it chooses nothing: only the combinations are of use here
  agent, patient = fact.agent.spell(draft), fact.patient.spell(draft)
  for party in (fact.agent, fact.patient):
    draft.note('object', fact.verb.name, party.word)  # of both, so that exchanging their roles changes no split
  unit = draft.unit('v')
  clause = relate_verb(draft, Clause(unit, agent, fact.verb, 'past', (Object(patient, 'accusative', [], []),),
                                     fact.negated))
  body = form.spell(clause)
  return sentence([fact.time, *body, fact.place] if form.fronted else [*body, fact.place, fact.time]), draft.split


def _party(rng: random.Random, word: str, indefinite: bool = False, described: float = 0.4) -> Party:
  """A noun phrase, described or not."""
  options = adjectives_of(NOUNS[word]) if word in NOUNS else ()
  adjective = rng.choice(options).english if options and rng.random() < described else ''
  return Party(word, adjective, indefinite)


def _between_actors(rng: random.Random, described: float = 0.4) -> Fact:
  """ "The big dog followed the cat"."""
  verb = rng.choice(_BETWEEN_ACTORS)
  agent, patient = _cast(rng, verb, 2)
  return Fact(_party(rng, agent, described=described), verb, _party(rng, patient, described=described))


def _to_thing(rng: random.Random) -> Fact:
  """ "The king bought a car"."""
  verb = rng.choice(_TO_THINGS)
  agent = rng.choice([*_PEOPLE, *rng.sample(_NAMES, 8)])
  return Fact(_party(rng, agent), verb, Party(rng.choice(_things(verb)), indefinite=True))


def _values(rng: random.Random, fact: Fact) -> dict[str, list[str]]:
  """What each modifier of a fact may be, shuffled."""
  options = {'time': _TIMES, 'place': _PLACES}
  if fact.patient.indefinite:
    options['adjective'] = [adjective.english for adjective in adjectives_of(NOUNS[fact.patient.word])]
  return {slot: rng.sample(values, len(values)) for slot, values in options.items() if len(values) > 1}


# -------------------------------------------------------------------------------------------------- entailment

ENTAILMENT = ('entailment', 'neutral', 'contradiction')


def entails(premise: Fact, hypothesis: Fact) -> str:
  """The label of two facts: what is certain when the first is true. Adjectives of definites are left out of account."""
  if _roles(premise) != _roles(hypothesis):
    return 'neutral'
  narrow, wide = (hypothesis, premise) if premise.negated else (premise, hypothesis)
  if any(value and value != narrow.modifiers[slot] for slot, value in wide.modifiers.items()):
    return 'neutral'
  return 'entailment' if premise.negated == hypothesis.negated else 'contradiction'


def _roles(fact: Fact) -> tuple:
  return fact.agent.word, fact.verb.name, fact.patient.word


def _draw_entailment(rng: random.Random, label: str) -> tuple[list[str], str]:
  """The hypothesis has one modifier always, the premise none, the same, another, or two."""
  base = _to_thing(rng) if rng.random() < 0.5 else _between_actors(rng)
  negated = rng.random() < 0.5
  same_polarity = {'entailment': True, 'contradiction': False}.get(label, rng.random() < 0.5)
  hypothesis = dataclasses.replace(base, negated=negated == same_polarity)
  premise = dataclasses.replace(base, negated=negated)
  (slot, values), (other, more) = rng.sample(sorted(_values(rng, base).items()), 2)
  hypothesis = hypothesis.modified(**{slot: values[0]})
  narrow, wide, same = {slot: values[0], other: more[0]}, {}, {slot: values[0]}
  certain = (narrow if not negated else wide) if rng.random() < 0.7 else same
  uncertain = (wide if not negated else narrow) if rng.random() < 0.3 else {slot: values[1]}
  if label != 'neutral':
    premise = premise.modified(**certain)
  elif rng.random() < 0.4:
    premise = premise.modified(**uncertain)
  else:
    premise, hypothesis = premise.modified(**certain), _with_other_roles(rng, hypothesis)
  hypothesis = _less_described(rng, hypothesis)
  if entails(premise, hypothesis) != label:
    raise Unfit
  return _told(rng, premise, hypothesis)


def _with_other_roles(rng: random.Random, fact: Fact) -> Fact:
  """Agent and patient exchanged, or another thing."""
  if not fact.patient.indefinite:
    return dataclasses.replace(fact, agent=fact.patient, patient=fact.agent)
  word = rng.choice(_things(fact.verb))
  if word == fact.patient.word or fact.patient.adjective and not fits(ADJECTIVES[fact.patient.adjective].tags,
                                                                     NOUNS[word]):
    raise Unfit
  return dataclasses.replace(fact, patient=dataclasses.replace(fact.patient, word=word))


def _less_described(rng: random.Random, fact: Fact) -> Fact:
  """Adjectives of definite noun phrases dropped, or not."""
  thinner = lambda party: (party if party.indefinite or rng.random() < 0.5 else
                           dataclasses.replace(party, adjective=''))
  return dataclasses.replace(fact, agent=thinner(fact.agent), patient=thinner(fact.patient))


def _told(rng: random.Random, premise: Fact, hypothesis: Fact) -> tuple[list[str], str]:
  """Both as sentences. A cleft sentence says more than the plain one, so it is a premise alone."""
  return _one_split([spell(premise, rng.choice(forms_of(premise, cleft=True))),
                     spell(hypothesis, rng.choice(forms_of(hypothesis, cleft=False)))])


def _one_split(spelt: list[tuple[str, str]]) -> tuple[list[str], str]:
  """The texts, and the split that owns each of them; Unfit when they differ."""
  texts, splits = zip(*spelt)
  if len(set(splits)) > 1:
    raise Unfit
  return list(texts), splits[0]


def _owner(splits: Sequence[str]) -> str:
  """The split that owns a text made of sentences of these splits: what training owns, every split may use."""
  owners = set(splits) - {'train'}
  if len(owners) > 1:
    raise Unfit
  return owners.pop() if owners else 'train'


# -------------------------------------------------------------------------------------------------- similarity

SIMILARITY = ('different', 'same')


def _draw_similarity(rng: random.Random, label: str) -> tuple[list[str], str]:
  """The same fact in two forms, or one that exchanges roles or adjectives: the words are alike under both labels."""
  fact = dataclasses.replace(_between_actors(rng, described=0.7), negated=rng.random() < 0.3,
                             time=rng.choice(_TIMES) if rng.random() < 0.6 else '')
  told, retold = rng.sample(forms_of(fact, cleft=True), 2)
  adjectives = fact.agent.adjective, fact.patient.adjective
  if all(adjectives) and adjectives[0] != adjectives[1] and rng.random() < 0.5:
    other = dataclasses.replace(fact, agent=_described(fact.agent, adjectives[1]),
                                patient=_described(fact.patient, adjectives[0]))
  else:
    other = dataclasses.replace(fact, agent=fact.patient, patient=fact.agent)
  return _one_split([spell(fact, told), spell(fact if label == 'same' else other, retold)])


def _described(party: Party, adjective: str) -> Party:
  """The same noun with another adjective; Unfit when that does not go with it."""
  if party.word not in NOUNS or not fits(ADJECTIVES[adjective].tags, NOUNS[party.word]):
    raise Unfit
  return dataclasses.replace(party, adjective=adjective)


# ---------------------------------------------------------------------------------------------- classification

CLASSIFICATION = ('first', 'second')
_DECISIVE = frozenset(word for frame in lexicon.FRAMES for word in frame.of_subject + frame.of_object)


@functools.cache
def _balanced_readings() -> tuple[list[tuple[lexicon.Frame, str, str]], list[float]]:
  """(frame, adjective of the first noun, adjective of the second) and how often each is drawn.

  Both readings of each are drawn alike, so neither verb nor nouns tell which noun "it" is; and the weights are such
  that every adjective is said as often of first nouns as of second ones (found by Osborne's balancing, 1960), so that
  neither does the adjective. What is said of one side only gets the weight 0.
  """
  readings = [(frame, first, second) for frame in lexicon.FRAMES
              for first, second in itertools.product(frame.of_subject, frame.of_object)]
  weights = [1.0] * len(readings)
  for _ in range(300):
    of_first, of_second = collections.Counter(), collections.Counter()
    for (_, first, second), weight in zip(readings, weights):
      of_first[first] += weight
      of_second[second] += weight
    scale = {word: (of_second[word] / of_first[word]) ** 0.25 if of_first[word] and of_second[word] else 0.0
             for word in _DECISIVE}
    weights = [weight * scale[first] / scale[second] if scale[first] and scale[second] else 0.0
               for (_, first, second), weight in zip(readings, weights)]
  return readings, list(itertools.accumulate(weights))


def _candidate(rng: random.Random, draft: Draft, word: str, tags: frozenset[str]) -> Nominal:
  """A noun of which the adjective can be said, described by nothing that could decide."""
  noun = draft.choose([noun for noun in fitting(tags) if fits(ADJECTIVES[word].tags, noun)])
  options = [adjective for adjective in adjectives_of(noun) if adjective.english not in _DECISIVE]
  return noun_phrase(draft, noun, THIS if rng.random() < 0.2 else THE,
                     rng.choice(options) if options and rng.random() < 0.2 else None)


def _both_readings(rng: random.Random, draft: Draft, frame: lexicon.Frame, of_first: str, of_second: str
                   ) -> list[grammar.Example]:
  first = _candidate(rng, draft, of_first, frame.subjects)
  second = _candidate(rng, draft, of_second, frame.objects)
  if first.lemma == second.lemma:
    raise Unfit
  return pronoun_pair(draft, frame, first, second, of_first, of_second)


def _stream_classification(rng: random.Random, split: str) -> Iterator[Drawn | None]:
  """ "The animal didn't cross the street because it was too tired" (first), and "… too wide" (second)."""
  readings, cumulative = _balanced_readings()
  while True:
    frame, of_first, of_second = rng.choices(readings, cum_weights=cumulative)[0]
    draft = Draft(rng, split)
    drawn = _attempt(functools.partial(_both_readings, rng, draft, frame, of_first, of_second))
    if drawn and draft.split == split:
      yield from (Drawn(label, (item.english,)) for label, item in enumerate(drawn))
    yield None


# --------------------------------------------------------------------------------------------- multiple choice

ANSWERS = ('1', '2', '3', '4')
QUESTIONS = (  # about an agent and a patient: which of the two is asked for, and how
    ('agent', lambda verb, known: ['who', verb.past, *verb.particle.split(), *known]),
    ('agent', lambda verb, known: ['by', 'whom', 'was', *known, _participle(verb), *verb.particle.split()]),
    ('patient', lambda verb, known: ['whom', 'did', *known, verb.english, *verb.particle.split()]),
    ('patient', lambda verb, known: ['who', 'was', _participle(verb), *verb.particle.split(), 'by', *known]),
)


def _draw_multiple_choice(rng: random.Random, label: int) -> tuple[list[str], str]:
  """Two facts with one verb and four individuals; the question names the right one's partner."""
  verb = rng.choice(_BETWEEN_ACTORS)
  actors = _cast(rng, verb, 4)
  facts = [Fact(_party(rng, agent), verb, _party(rng, patient), time=rng.choice(_TIMES) if rng.random() < 0.4 else '')
           for agent, patient in (actors[:2], actors[2:])]
  asked, question = rng.choice(QUESTIONS)
  fact = rng.choice(facts)
  right, known = (fact.agent, fact.patient) if asked == 'agent' else (fact.patient, fact.agent)
  others = [party for item in facts for party in (item.agent, item.patient) if party is not right]
  rng.shuffle(others)
  answers = [_named(party) for party in (*others[:label], right, *others[label:])]
  told, splits = zip(*(spell(item, rng.choice(forms_of(item, cleft=True))) for item in facts))
  split = _owner(splits)
  return [' '.join([*told, sentence(question(verb, [_named(known, '').lower() if known.word in NOUNS else known.word]),
                                    '?')]), *answers], split


def _named(party: Party, mark: str = '.') -> str:
  """ "The dog.", "Anna."."""
  return sentence(['the', party.word] if party.word in NOUNS else [party.word], mark)


# ------------------------------------------------------------------------------------------------------ the sets


def _attempt(draw: Callable):
  """What a draw gives; None when it did not fit."""
  try:
    return draw()
  except Unfit:
    return None


def _stream(draw: Callable, labels: Sequence, rng: random.Random, split: str) -> Iterator[Drawn | None]:
  """Examples of each label in turn; None for a draw that did not fit or belongs to another split."""
  while True:
    for place, label in enumerate(labels):
      drawn = _attempt(functools.partial(draw, rng, label))
      yield Drawn(place, tuple(drawn[0])) if drawn and drawn[1] == split else None


class Set(NamedTuple):
  """A labelled set: its labels, and an endless stream of draws (rng, split) -> Drawn, or None for a failed one."""

  labels: tuple[str, ...]
  stream: Callable[[random.Random, str], Iterator[Drawn | None]]


SETS = {
    'classification': Set(CLASSIFICATION, _stream_classification),
    'entailment': Set(ENTAILMENT, functools.partial(_stream, _draw_entailment, ENTAILMENT)),
    'similarity': Set(SIMILARITY, functools.partial(_stream, _draw_similarity, SIMILARITY)),
    'multiple_choice': Set(ANSWERS, functools.partial(_stream, _draw_multiple_choice, range(len(ANSWERS)))),
}


def generate(task: str, split: str, size: int | None = None, seed: int = _SEED) -> list[Example]:
  """Examples of a split, shuffled; none twice, labels equally frequent. The same for the same arguments, everywhere."""
  size = SIZES[split] if size is None else size
  labels, stream = SETS[task]
  wanted = [size // len(labels) + (place < size % len(labels)) for place in range(len(labels))]
  rng, found = random.Random(f'{seed} {task} {split}'), {}
  for drawn in itertools.islice(stream(rng, split), _TRIES * size):
    if drawn and wanted[drawn.label] and drawn.texts not in found:
      found[drawn.texts] = drawn.label
      wanted[drawn.label] -= 1
    if len(found) == size:
      break
  examples = [Example(label, texts) for texts, label in found.items()]
  rng.shuffle(examples)
  return examples


def corpus(task: str) -> LabelledCorpus:
  """The phrasebook's set of a task."""
  splits = {split: LabelledSplit(f'phrasebook {task} {split}', tuple(generate(task, split))) for split in SIZES}
  return LabelledCorpus(f'phrasebook {task}', task, SETS[task].labels, splits['train'], splits['validation'],
                        (splits['test'],),
                        notes=('English, generated; labels are balanced and the splits share no text',),
                        suggestions=tuple('\t'.join(example.texts) for example in splits['test'].examples[:3]))
