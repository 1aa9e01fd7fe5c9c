"""Facts for the phrasebook's labelled sets: drawn as meaning, and spelt in one of several forms.

A fact is that somebody did, or didn't do, something to somebody or something. Its forms (active or passive, the time in
front or at the end, a cleft sentence) mean the same, so that words and their order tell little and the roles tell all.
Which split a sentence belongs to is decided as in grammar, by the combinations that it contains.
"""

import dataclasses
import functools
import random
from collections.abc import Callable, Sequence

from corpora.phrasebook import lexicon
from corpora.phrasebook.draws import adjectives_of, fitting
from corpora.phrasebook.grammar import (
  THE,
  A,
  Clause,
  Draft,
  Nominal,
  Object,
  english,
  name,
  noun_phrase,
  relate_verb,
)
from corpora.phrasebook.lexicon import ADJECTIVES, NOUNS, VERBS, Verb, fits

# ------------------------------------------------------------------------------------------------- what is drawn

# Nouns that may mean the same individual or a kind of each other ("the man", "the king") would make labels doubtful.
_VAGUE = frozenset('man woman child animal bag package box house room'.split())
_PEOPLE = [noun.english for noun in fitting(frozenset({'person'})) if 'kin' not in noun.tags and
           noun.english not in _VAGUE]
_NAMES = lexicon.FAMILIAR_MEN + lexicon.FAMILIAR_WOMEN
TIMES = [time.english for time in lexicon.TIMES if 'past' in time.tenses and time.english != 'today']  # holds mornings
PLACES = [f'in the {noun.english}' for noun in fitting(frozenset({'inside'})) if noun.english not in _VAGUE]
_PARTICIPLES = {'see': 'seen', 'draw': 'drawn', 'eat': 'eaten', 'write': 'written', 'break': 'broken'}  # past otherwise
# Who hugs is hugged as well; needing and loving are no events; a particle or a preposition would betray a form.
EVENTS = [verb for verb in VERBS if verb.government in ('accusative', 'dative') and not verb.preposition
           and verb.english not in ('hug', 'need', 'love', 'admire', 'trust')]


@functools.cache
def _actors(verb: Verb) -> tuple[str, ...]:
  """Return those who may do it as well as have it done to them."""
  beasts = tuple(noun.english for noun in NOUNS.values() if 'animal' in noun.tags and noun.english not in _VAGUE
                 and fits(verb.subjects, noun) and fits(verb.objects, noun))
  return (tuple(_PEOPLE) if 'person' in verb.subjects & verb.objects else ()) + beasts


def draw_cast(rng: random.Random, verb: Verb, size: int) -> list[str]:
  """Draw so many different individuals; names, which are many, are drawn as often as anybody else."""
  names = rng.sample(_NAMES, 8) if 'person' in verb.subjects & verb.objects else []
  return rng.sample([*_actors(verb), *names], size)


@functools.cache
def things(verb: Verb) -> tuple[str, ...]:
  """Return what people may do it to, people left out."""
  return tuple(noun.english for noun in fitting(verb.objects) if 'person' not in noun.tags
               and noun.english not in _VAGUE) if 'person' in verb.subjects else ()


BETWEEN_ACTORS = [verb for verb in EVENTS if len(_actors(verb)) > 3]
TO_THINGS = [verb for verb in EVENTS if len(things(verb)) > 1]


@dataclasses.dataclass(frozen=True)
class Party:
  """A noun phrase: a name, or a noun with its article and perhaps an adjective."""

  word: str
  adjective: str = ''
  indefinite: bool = False

  def spell(self, draft: Draft) -> Nominal:
    """Return the phrase in the grammar's terms, noting its combinations in the draft."""
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
    """Return the fact with other modifiers."""
    patient = dataclasses.replace(self.patient, adjective=values.pop('adjective', self.patient.adjective))
    return dataclasses.replace(self, patient=patient, **values)


# ------------------------------------------------------------------------------------------------ how it is spelt


def _active(clause: Clause) -> list[str]:
  return _texts(english(clause))


def _passive(clause: Clause) -> list[str]:
  """ "The cat was followed by the dog": passives are English alone, so the grammar has none."""
  (item,), verb = clause.objects, clause.verb
  return [*_texts(item.nominal.english), "wasn't" if clause.negated else 'was', participle(verb),
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


def participle(verb: Verb) -> str:
  return _PARTICIPLES.get(verb.english, verb.past)


@dataclasses.dataclass(frozen=True)
class Form:
  """A way to say a fact."""

  spell: Callable[[Clause], list[str]]
  fronted: bool = False  # the time stands in front
  cleft: bool = False


FORMS = (Form(_active), Form(_active, fronted=True), Form(_passive), Form(_passive, fronted=True),
         Form(_cleft_agent, cleft=True), Form(_cleft_patient, cleft=True))


def forms_of(fact: Fact, cleft: bool) -> list[Form]:
  """Return the forms in which a fact means the same: none in which "a car wasn't bought" may be one certain car."""
  return [form for form in FORMS if (fact.time or not form.fronted) and (cleft or not form.cleft)
          and not (fact.negated and form.cleft)
          and not (fact.patient.indefinite and (fact.negated and form.spell is _passive or form.cleft))]


def sentence(parts: Sequence[str], mark: str = '.') -> str:
  """Join words to a sentence."""
  text = ' '.join(part for part in parts if part) + mark
  return text[0].upper() + text[1:]


def spell(fact: Fact, form: Form) -> tuple[str, str]:
  """Return the fact's sentence and the split of its combinations. Raises Unfit when they are of two splits."""
  draft = Draft(random.Random(0))  # it chooses nothing: only the combinations are of use here
  agent, patient = fact.agent.spell(draft), fact.patient.spell(draft)
  for party in (fact.agent, fact.patient):
    draft.note('object', fact.verb.name, party.word)  # of both, so that exchanging their roles changes no split
  unit = draft.unit('v')
  clause = relate_verb(draft, Clause(unit, agent, fact.verb, 'past', (Object(patient, 'accusative', [], []),),
                                     fact.negated))
  body = form.spell(clause)
  return sentence([fact.time, *body, fact.place] if form.fronted else [*body, fact.place, fact.time]), draft.split


def draw_party(rng: random.Random, word: str, described: float = 0.4) -> Party:
  """Draw a definite noun phrase, described or not."""
  options = adjectives_of(NOUNS[word]) if word in NOUNS else ()
  adjective = rng.choice(options).english if options and rng.random() < described else ''
  return Party(word, adjective)


def draw_between_actors(rng: random.Random, described: float = 0.4) -> Fact:
  """ "The big dog followed the cat"."""
  verb = rng.choice(BETWEEN_ACTORS)
  agent, patient = draw_cast(rng, verb, 2)
  return Fact(draw_party(rng, agent, described=described), verb, draw_party(rng, patient, described=described))


def draw_to_thing(rng: random.Random) -> Fact:
  """ "The king bought a car"."""
  verb = rng.choice(TO_THINGS)
  agent = rng.choice([*_PEOPLE, *rng.sample(_NAMES, 8)])
  return Fact(draw_party(rng, agent), verb, Party(rng.choice(things(verb)), indefinite=True))


def modifiers_of(rng: random.Random, fact: Fact) -> dict[str, list[str]]:
  """Return what each modifier of a fact may be, shuffled."""
  options = {'time': TIMES, 'place': PLACES}
  if fact.patient.indefinite:
    options['adjective'] = [adjective.english for adjective in adjectives_of(NOUNS[fact.patient.word])]
  return {slot: rng.sample(values, len(values)) for slot, values in options.items() if len(values) > 1}
