"""Labelled sets made by the phrasebook's grammar: English, the same everywhere; labels follow from the meaning.

SIZES may be changed freely; anything else changes the examples.

    entailment       a fact and another statement: entailment, neutral, contradiction
    similarity       two statements: do they tell the same fact?
    classification   "The dog didn't catch the cat because it was too slow.": is "it" the first noun or the second?
    multiple_choice  two facts and a question; which of the four that are named is the answer?

Facts are drawn and spelt as facts.py says. The wrong answers differ in roles, adjectives, modifiers and negation; they
have the words of the right ones wherever that is possible. Every text of an example belongs to the example's own split,
so the splits have no text in common.

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
from corpora.phrasebook.facts import (
  BETWEEN_ACTORS,
  TIMES,
  Fact,
  Party,
  draw_between_actors,
  draw_cast,
  draw_party,
  draw_to_thing,
  forms_of,
  modifiers_of,
  participle,
  sentence,
  spell,
  things,
)
from corpora.phrasebook.grammar import (
  THE,
  THIS,
  Draft,
  Nominal,
  Unfit,
  noun_phrase,
)
from corpora.phrasebook.lexicon import ADJECTIVES, NOUNS, fits
from corpora.phrasebook.pronouns import pronoun_pair

SIZES = {'train': 20_000, 'validation': 1_000, 'test': 1_000}  # examples in each split
_SEED = 1706
_TRIES = 2_000  # draws for each example wanted, before one gives up


class Drawn(NamedTuple):
  """One draw: the number of its label, and its texts."""

  label: int
  texts: tuple[str, ...]


# -------------------------------------------------------------------------------------------------- entailment

ENTAILMENT = ('entailment', 'neutral', 'contradiction')


def entails(premise: Fact, hypothesis: Fact) -> str:
  """Return the label of two facts: what is certain when the first is true. Adjectives of definites do not count."""
  if _roles(premise) != _roles(hypothesis):
    return 'neutral'
  narrow, wide = (hypothesis, premise) if premise.negated else (premise, hypothesis)
  if any(value and value != narrow.modifiers[slot] for slot, value in wide.modifiers.items()):
    return 'neutral'
  return 'entailment' if premise.negated == hypothesis.negated else 'contradiction'


def _roles(fact: Fact) -> tuple:
  return fact.agent.word, fact.verb.name, fact.patient.word


def _draw_entailment(rng: random.Random, label: str) -> tuple[list[str], str]:
  """Draw a pair with a label: the hypothesis has one modifier, the premise none, the same, another, or two."""
  base = draw_to_thing(rng) if rng.random() < 0.5 else draw_between_actors(rng)
  negated = rng.random() < 0.5
  same_polarity = {'entailment': True, 'contradiction': False}.get(label, rng.random() < 0.5)
  hypothesis = dataclasses.replace(base, negated=negated == same_polarity)
  premise = dataclasses.replace(base, negated=negated)
  (slot, values), (other, more) = rng.sample(sorted(modifiers_of(rng, base).items()), 2)
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
  return _spell_pair(rng, premise, hypothesis)


def _with_other_roles(rng: random.Random, fact: Fact) -> Fact:
  """Return the fact with agent and patient exchanged, or with another thing."""
  if not fact.patient.indefinite:
    return dataclasses.replace(fact, agent=fact.patient, patient=fact.agent)
  word = rng.choice(things(fact.verb))
  if word == fact.patient.word or fact.patient.adjective and not fits(ADJECTIVES[fact.patient.adjective].tags,
                                                                     NOUNS[word]):
    raise Unfit
  return dataclasses.replace(fact, patient=dataclasses.replace(fact.patient, word=word))


def _less_described(rng: random.Random, fact: Fact) -> Fact:
  """Return the fact with adjectives of definite noun phrases dropped, or not."""
  thinner = lambda party: (party if party.indefinite or rng.random() < 0.5 else
                           dataclasses.replace(party, adjective=''))
  return dataclasses.replace(fact, agent=thinner(fact.agent), patient=thinner(fact.patient))


def _spell_pair(rng: random.Random, premise: Fact, hypothesis: Fact) -> tuple[list[str], str]:
  """Spell both facts. A cleft sentence says more than the plain one, so only a premise may be one."""
  return _one_split([spell(premise, rng.choice(forms_of(premise, cleft=True))),
                     spell(hypothesis, rng.choice(forms_of(hypothesis, cleft=False)))])


def _one_split(spelt: list[tuple[str, str]]) -> tuple[list[str], str]:
  """Return the texts, and the split that all of them belong to. Raises Unfit when they belong to different ones."""
  texts, splits = zip(*spelt)
  if len(set(splits)) > 1:
    raise Unfit
  return list(texts), splits[0]


def _owner(splits: Sequence[str]) -> str:
  """Return the split of a text whose sentences are of these splits; every split may use sentences of training's."""
  owners = set(splits) - {'train'}
  if len(owners) > 1:
    raise Unfit
  return owners.pop() if owners else 'train'


# -------------------------------------------------------------------------------------------------- similarity

SIMILARITY = ('different', 'same')


def _draw_similarity(rng: random.Random, label: str) -> tuple[list[str], str]:
  """Draw one fact in two forms, or two facts that exchange roles or adjectives: both labels have the same words."""
  fact = dataclasses.replace(draw_between_actors(rng, described=0.7), negated=rng.random() < 0.3,
                             time=rng.choice(TIMES) if rng.random() < 0.6 else '')
  told, retold = rng.sample(forms_of(fact, cleft=True), 2)
  adjectives = fact.agent.adjective, fact.patient.adjective
  if all(adjectives) and adjectives[0] != adjectives[1] and rng.random() < 0.5:
    other = dataclasses.replace(fact, agent=_described(fact.agent, adjectives[1]),
                                patient=_described(fact.patient, adjectives[0]))
  else:
    other = dataclasses.replace(fact, agent=fact.patient, patient=fact.agent)
  return _one_split([spell(fact, told), spell(fact if label == 'same' else other, retold)])


def _described(party: Party, adjective: str) -> Party:
  """Return the same noun with another adjective. Raises Unfit when that does not go with it."""
  if party.word not in NOUNS or not fits(ADJECTIVES[adjective].tags, NOUNS[party.word]):
    raise Unfit
  return dataclasses.replace(party, adjective=adjective)


# ---------------------------------------------------------------------------------------------- classification

CLASSIFICATION = ('first', 'second')
_DECISIVE = frozenset(word for frame in lexicon.FRAMES for word in frame.of_subject + frame.of_object)


@functools.cache
def _balanced_readings() -> tuple[list[tuple[lexicon.Frame, str, str]], list[float]]:
  """Return (frame, adjective of the first noun, adjective of the second), and how often each is drawn.

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
  """Draw a noun of which the adjective can be said, described by nothing that could decide."""
  noun = draft.choose([noun for noun in fitting(tags) if fits(ADJECTIVES[word].framed, noun)])
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
    ('agent', lambda verb, known: ['by', 'whom', 'was', *known, participle(verb), *verb.particle.split()]),
    ('patient', lambda verb, known: ['whom', 'did', *known, verb.english, *verb.particle.split()]),
    ('patient', lambda verb, known: ['who', 'was', participle(verb), *verb.particle.split(), 'by', *known]),
)


def _draw_multiple_choice(rng: random.Random, label: int) -> tuple[list[str], str]:
  """Draw two facts with one verb and four individuals; the question names the right one's partner."""
  verb = rng.choice(BETWEEN_ACTORS)
  actors = draw_cast(rng, verb, 4)
  facts = [Fact(draw_party(rng, agent), verb, draw_party(rng, patient),
                time=rng.choice(TIMES) if rng.random() < 0.4 else '')
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
  """Return what a draw returns; None when it did not fit."""
  try:
    return draw()
  except Unfit:
    return None


def _stream(draw: Callable, labels: Sequence, rng: random.Random, split: str) -> Iterator[Drawn | None]:
  """Draw examples of each label in turn; None for a draw that did not fit or belongs to another split."""
  while True:
    for place, label in enumerate(labels):
      drawn = _attempt(functools.partial(draw, rng, label))
      yield Drawn(place, tuple(drawn[0])) if drawn and drawn[1] == split else None


class Set(NamedTuple):
  """A labelled set: its labels, and an endless stream of draws, (rng, split) -> Drawn, or None for a failed one."""

  labels: tuple[str, ...]
  stream: Callable[[random.Random, str], Iterator[Drawn | None]]


SETS = {
    'classification': Set(CLASSIFICATION, _stream_classification),
    'entailment': Set(ENTAILMENT, functools.partial(_stream, _draw_entailment, ENTAILMENT)),
    'similarity': Set(SIMILARITY, functools.partial(_stream, _draw_similarity, SIMILARITY)),
    'multiple_choice': Set(ANSWERS, functools.partial(_stream, _draw_multiple_choice, range(len(ANSWERS)))),
}


def generate(task: str, split: str, size: int | None = None, seed: int = _SEED) -> list[Example]:
  """Generate the examples of a split, shuffled; none twice, labels equally frequent; always the same."""
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
  """Generate the phrasebook's set of a task."""
  splits = {split: LabelledSplit(f'phrasebook {task} {split}', tuple(generate(task, split))) for split in SIZES}
  return LabelledCorpus(f'phrasebook {task}', task, SETS[task].labels, splits['train'], splits['validation'],
                        (splits['test'],),
                        notes=('English, generated; labels are balanced and the splits share no text',),
                        suggestions=tuple('\t'.join(example.texts) for example in splits['test'].examples[:3]))
