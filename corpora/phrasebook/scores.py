"""The scores that the phrasebook alone allows, of pronouns and names; and rules that do not understand, to compare with.

Pronouns are scored in pairs, (frame, adjective) being the key of a reading: "cross", negated, "tired". With keys that
training has, a table of them is enough; what a model has learnt of meaning shows in the pairs with unseen keys.
Annotations are those that builder.examples returns.
"""

import functools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

from corpora.phrasebook import lexicon
from corpora.phrasebook.grammar import tokens


def _matched(annotations: Sequence[dict], hypotheses: Sequence[str]) -> Iterator[tuple[dict, str]]:
  """Pair annotations with translations. Raises ValueError when their numbers differ."""
  if len(annotations) != len(hypotheses):
    raise ValueError(f'{len(annotations)} annotated sentences, but {len(hypotheses)} translations: expected one each')
  return zip(annotations, hypotheses)


def _pronoun_in(german: str) -> str:
  """Return the word after "weil", where every pronoun of a pair stands; '' when there is none."""
  spelt = [token.lower() for token in tokens(german)]
  return spelt[spelt.index('weil') + 1] if 'weil' in spelt[:-1] else ''


def pronoun_accuracy(annotations: Sequence[dict], hypotheses: Sequence[str], unseen_keys: bool = False) -> float:
  """Return the share of pronoun pairs in which both German translations have the right pronoun for "it".

  Always naming the first noun, or always the second, has one of each pair wrong and so scores 0.

  Args:
    annotations: as builder.examples gives them; sentences outside of pairs do not count.
    hypotheses: German translations in the same order.
    unseen_keys: evaluates the pairs of which training lacks a key, instead of those whose keys it has.
  """
  right = defaultdict(list)
  for annotation, german in _matched(annotations, hypotheses):
    if annotation['pair'] and bool(annotation['unseen_key']) == unseen_keys:
      right[annotation['pair']].append(_pronoun_in(german) == annotation['pronoun'])
  complete = [readings for readings in right.values() if len(readings) == 2]
  return _share([all(readings) for readings in complete])


def _share(outcomes: Sequence[bool]) -> float:
  return sum(outcomes) / len(outcomes) if outcomes else math.nan


def names_copied(annotations: Sequence[dict], hypotheses: Sequence[str], language: str = 'de'
                 ) -> Iterator[tuple[str, str, bool]]:
  """Yield each occurrence of a name that training never shows: the name, its class, and whether it was copied.

  It is copied when the translation has it, alone or with a genitive's ending, as the reference has it.

  Args:
    annotations: as builder.examples gives them.
    hypotheses: translations in the same order.
    language: 'de' or 'en', the language of the translations.
  """
  for annotation, hypothesis in _matched(annotations, hypotheses):
    found = set(tokens(hypothesis))
    for name, kind in zip(annotation['unseen_names'].split(), annotation['name_classes'].split(',')):
      form = next(token for token in tokens(annotation[language]) if token in (name, f'{name}s', f"{name}'s"))
      yield name, kind, form in found


def _by(group: Callable[[str, str], str], copied: Sequence[tuple[str, str, bool]]) -> dict[str, dict[str, float]]:
  """Return accuracy and number of occurrences for each group of names, in the order of the groups' labels."""
  outcomes = defaultdict(list)
  for name, kind, right in copied:
    outcomes[group(name, kind)].append(right)
  return {label: {'accuracy': _share(found), 'names': len(found)} for label, found in sorted(outcomes.items())}


def measure(annotations: Sequence[dict], hypotheses: Sequence[str], language: str, pieces: Callable[[str], int]
            ) -> dict[str, Any]:
  """Return the figures of a split's translations; pronouns count in German, since English has one "it".

  Args:
    annotations, hypotheses, language: see names_copied.
    pieces: the number of entries of the source vocabulary that spell a name.

  Returns:
    `name_accuracy`, its parts `name_accuracy_by_class` and `name_accuracy_by_pieces` (each with the number of
    occurrences), and of German `pronoun_accuracy` (keys seen in training) and `pronoun_accuracy_unseen_keys`.
  """
  copied = list(names_copied(annotations, hypotheses, language))
  figures: dict[str, Any] = {
      'name_accuracy': _share([right for *_, right in copied]),
      'name_accuracy_by_class': _by(lambda name, kind: kind, copied),
      'name_accuracy_by_pieces': _by(lambda name, kind: f'{min(pieces(name), _MANY)}', copied)}
  if language == 'de':
    figures['pronoun_accuracy'] = pronoun_accuracy(annotations, hypotheses)
    figures['pronoun_accuracy_unseen_keys'] = pronoun_accuracy(annotations, hypotheses, unseen_keys=True)
  return figures


_MANY = 6  # names of more pieces count as having so many


# ------------------------------------------------------------- rules that do not understand, to be compared with

# Each takes annotations of training and test and returns test translations that are right except for the pronoun.
Rule = Callable[[Sequence[dict], Sequence[dict]], list[str]]


def _with_pronouns(annotations: Sequence[dict], choose: Callable[[dict], str]) -> list[str]:
  """Return the references with other pronouns after "weil"."""
  return [annotation['de'].replace(f'weil {annotation["pronoun"]} ', f'weil {choose(annotation)} ')
          if annotation['pair'] else annotation['de'] for annotation in annotations]


def _candidate(annotation: dict, second: bool) -> str:
  return annotation['candidates'].split()[second]


def first_noun(train: Sequence[dict], test: Sequence[dict]) -> list[str]:
  """Translate "it" as always the first noun."""
  del train
  return _with_pronouns(test, lambda annotation: _candidate(annotation, False))


def animate_noun(train: Sequence[dict], test: Sequence[dict]) -> list[str]:
  """Translate "it" as the animal; as the first noun where there are two animals, or none."""
  del train
  animals = {noun.english for noun in lexicon.NOUNS.values() if 'animal' in noun.tags}

  def choose(annotation: dict) -> str:
    alive = [token in animals for token in tokens(annotation['en']) if token in lexicon.NOUNS]
    return _candidate(annotation, alive[:2] == [False, True])

  return _with_pronouns(test, choose)


def adjective_pronoun(train: Sequence[dict], test: Sequence[dict]) -> list[str]:
  """Translate "it" by the pronoun that went with the adjective most often in training."""
  seen = defaultdict(Counter)
  for annotation in train:
    seen[annotation['adjective']][annotation['pronoun']] += bool(annotation['pair'])
  return _with_pronouns(test, lambda annotation: seen[annotation['adjective']].most_common(1)[0][0])


def _adjective(annotation: dict) -> Hashable:
  return annotation['adjective']


def _with_negation(annotation: dict) -> Hashable:
  return annotation['adjective'], annotation['frame'].startswith('not ')


def _key(annotation: dict) -> Hashable:
  return annotation['adjective'], annotation['frame']


def usual_noun(train: Sequence[dict], test: Sequence[dict], features: Sequence[Callable[[dict], Hashable]],
               opposite: bool = False) -> list[str]:
  """Translate "it" as the noun, first or second, that went with a feature most often; its gender is given.

  Args:
    train: annotations to count in.
    test: annotations to translate.
    features: the first of them that training has decides.
    opposite: whether for a key that training lacks the one with the other polarity decides, against itself.
  """
  seen = defaultdict(Counter)
  for annotation in train:
    if annotation['pair']:
      for feature in features:
        seen[feature, feature(annotation)][annotation['reading']] += 1

  def second(annotation: dict) -> bool:
    adjective, frame = annotation['adjective'], annotation['frame']
    other = (adjective, frame.removeprefix('not ') if frame.startswith('not ') else f'not {frame}')
    if opposite and (_key, _key(annotation)) not in seen and (_key, other) in seen:
      return seen[_key, other].most_common(1)[0][0] == 'a'
    known = (seen[feature, feature(annotation)] for feature in features if (feature, feature(annotation)) in seen)
    return next(known, Counter('a')).most_common(1)[0][0] == 'b'

  return _with_pronouns(test, lambda annotation: _candidate(annotation, second(annotation)))


def bag_of_words(train: Sequence[dict], test: Sequence[dict], label: str = 'pronoun') -> list[str]:
  """Translate "it" by naive Bayes on the English words without order: the pronoun, or (label 'reading') the noun."""
  counts, labels = defaultdict(Counter), Counter()
  for annotation in train:
    if annotation['pair']:
      labels[annotation[label]] += 1
      for word in set(tokens(annotation['en'])):
        counts[word][annotation[label]] += 1

  def likelihood(annotation: dict, value: str) -> float:
    evidence = ((counts[word][value] + 0.5) / (labels[value] + 1) for word in set(tokens(annotation['en'])))
    return math.log(labels[value]) + sum(map(math.log, evidence))

  def choose(annotation: dict) -> str:
    best = max(sorted(labels), key=lambda value: likelihood(annotation, value))
    return best if label == 'pronoun' else _candidate(annotation, best == 'b')

  return _with_pronouns(test, choose)


RULES: dict[str, Rule] = {
    'always the first noun': first_noun,
    'always the animal': animate_noun,
    "the adjective's usual pronoun": adjective_pronoun,
    "the adjective's usual noun": functools.partial(usual_noun, features=[_adjective]),
    'adjective and negation': functools.partial(usual_noun, features=[_with_negation, _adjective]),
    'adjective, verb and negation': functools.partial(usual_noun, features=[_key, _with_negation, _adjective]),
    'the same, or the opposite of the other polarity': functools.partial(
        usual_noun, features=[_key, _with_negation, _adjective], opposite=True),
    'bag of words, pronoun': bag_of_words,
    'bag of words, noun': functools.partial(bag_of_words, label='reading'),
}
