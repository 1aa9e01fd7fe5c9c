"""The phrasebook: right German, one translation each, nothing held out in training, annotations that point at words."""

import importlib
import inspect
import math
import os
import random
import re
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

from checks import errors
from corpora import loading
from corpora.config import LANGUAGES
from corpora.phrasebook import builder, grammar, lexicon, names, numbers, scores, splits
from options.configurations import ROOT


@pytest.fixture(scope='module')
def train() -> list[grammar.Example]:
  return list(splits.generate('train'))


@pytest.fixture(scope='module')
def held_out() -> dict[str, list[grammar.Example]]:
  return {split: list(splits.generate(split)) for split in ('validation', 'test')}


@pytest.fixture(scope='module')
def everything(train, held_out) -> list[grammar.Example]:
  return [*train, *held_out['validation'], *held_out['test'], *splits.showcase()]


@pytest.fixture(scope='module')
def data_dir(tmp_path_factory) -> str:
  """A prepared phrasebook with a small training split."""
  sizes = dict(splits.SIZES)
  splits.SIZES['train'] = 3_001
  folder = str(tmp_path_factory.mktemp('cache') / 'prepared')
  try:
    builder.prepared(folder)
  finally:
    splits.SIZES.update(sizes)
  return folder


# ---------------------------------------------------------------------------------------------------- the German

# Written out by hand, not taken from the grammar: declension -> gender -> nominative, accusative, dative.
ADJECTIVE_ENDINGS = {
    'weak': {'m': ('e', 'en', 'en'), 'f': ('e', 'e', 'en'), 'n': ('e', 'e', 'en'), 'p': ('en', 'en', 'en')},
    'mixed': {'m': ('er', 'en', 'en'), 'f': ('e', 'e', 'en'), 'n': ('es', 'es', 'en'), 'p': ('en', 'en', 'en')},
    'strong': {'m': ('er', 'en', 'em'), 'f': ('e', 'e', 'er'), 'n': ('es', 'es', 'em'), 'p': ('e', 'e', 'en')},
}
# What each article says about the noun behind it: {(gender, case)}, and which adjective ending follows.
ARTICLES = {
    'der': {('m', 0), ('f', 2)}, 'die': {('f', 0), ('f', 1), ('p', 0), ('p', 1)}, 'das': {('n', 0), ('n', 1)},
    'den': {('m', 1), ('p', 2)}, 'dem': {('m', 2), ('n', 2)}, 'im': {('m', 2), ('n', 2)}, 'ins': {('n', 1)},
    'dieser': {('m', 0), ('f', 2)}, 'diese': {('f', 0), ('f', 1), ('p', 0), ('p', 1)}, 'dieses': {('n', 0), ('n', 1)},
    'diesen': {('m', 1), ('p', 2)}, 'diesem': {('m', 2), ('n', 2)},
}
EIN_ENDINGS = {
    '': {('m', 0), ('n', 0), ('n', 1)}, 'e': {('f', 0), ('f', 1), ('p', 0), ('p', 1)}, 'en': {('m', 1), ('p', 2)},
    'em': {('m', 2), ('n', 2)}, 'er': {('f', 2)},
}
EIN_WORDS = ('ein', 'kein', 'mein', 'sein', 'ihr', 'unser')


def _noun_forms() -> dict[str, set[tuple[str, int]]]:
  """Every noun form -> what it can be; written from the lexicon, with the rules of the noun spelt out anew."""
  forms = {}
  roles = [noun for role in lexicon.ROLES for noun in (role.masculine, role.feminine)]
  for noun in [*lexicon.NOUNS.values(), *roles]:
    for case in range(3):
      singular = noun.german_plural if noun.weak and case > 0 else noun.german
      plural = noun.german_plural
      if case == 2 and not plural.endswith(('n', 's')):
        plural += 'n'
      forms.setdefault(singular, set()).add((noun.gender, case))
      forms.setdefault(plural, set()).add(('p', case))
  return forms


def _article(word: str) -> tuple[set[tuple[str, int]], str] | None:
  word = word.lower()
  if word in ARTICLES:
    return ARTICLES[word], 'weak'
  for stem in EIN_WORDS:
    if word.startswith(stem) and word[len(stem):] in EIN_ENDINGS:
      return EIN_ENDINGS[word[len(stem):]], 'mixed'
  return None


def test_articles_adjectives_and_nouns_agree(everything):
  """Some gender and case must fit article, adjective ending and noun form at once."""
  forms, stems = _noun_forms(), sorted({adjective.stem for adjective in lexicon.ADJECTIVES.values()}, key=len)
  checked = 0
  for item in everything:
    words = grammar.tokens(item.german)
    for place, word in enumerate(words[:-1]):
      article, following = _article(word), words[place + 1]
      behind = words[place + 2] if place + 2 < len(words) else ''
      if not article or (place and words[place - 1] == ','):  # behind a comma: a relative pronoun
        continue
      readings, declension = article
      if following in forms:
        assert readings & forms[following], f'{word} {following}: {item.german}'
      elif following.startswith(tuple(stems)) and not _article(following) and behind in forms:
        endings = {following.removeprefix(stem) for stem in stems if following.startswith(stem)}
        fitting = {reading for reading in readings & forms[behind]
                   if ADJECTIVE_ENDINGS[declension][reading[0]][reading[1]] in endings}
        assert fitting, f'{word} {following} {behind}: {item.german}'
        checked += 1
  assert checked > 3_000


@pytest.mark.parametrize('german', [
    'Der müder Hund schläft.', 'Ein müde Hund schläft.', 'Er sieht einen müder Hund.', 'Das Hund schläft.',
    'Er hilft dem alten Frau.', 'Er folgt den Hunde.', 'Er sieht den Bär.'])
def test_the_agreement_check_finds_mistakes(german):
  wrong = grammar.Example('', german, '', grammar.Reading(), (), (), ())
  with pytest.raises(AssertionError):
    test_articles_adjectives_and_nouns_agree([wrong])


def test_endings_are_those_of_the_grammar_books():
  for declension, genders in ADJECTIVE_ENDINGS.items():
    for gender, endings in genders.items():
      assert tuple(grammar.ending(declension, gender, case) for case in grammar.CASES) == endings


def test_subordinate_clauses_end_in_the_finite_verb(everything):
  """Behind weil, dass, ob, obwohl and wenn the clause's last word is a finite verb, never a participle."""
  participles = {verb.participle for verb in [*lexicon.VERBS, *lexicon.FRAME_VERBS.values()]}
  finite = {verb.prefix + verb.third for verb in lexicon.VERBS}
  participles -= finite | {verb.infinitive for verb in lexicon.VERBS}
  found = Counter()
  for item in everything:
    for conjunction, clause in re.findall(r'\b([Ww]eil|dass|ob|[Oo]bwohl|[Ww]enn) ([^,.]*)[,.]', item.german):
      last = clause.split()[-1]
      assert last not in participles and last != 'nicht', item.german
      found[conjunction.lower()] += 1
      if re.search(r'\b(haben|hat|habe|sind|ist|bin)$', clause):
        found['perfect'] += 1
  assert set(found) == {'weil', 'dass', 'ob', 'obwohl', 'wenn', 'perfect'} and min(found.values()) > 50


def test_the_verb_stands_second_behind_a_time(everything):
  times = sorted((time.german for time in lexicon.TIMES), key=len, reverse=True)
  finite = {'hat', 'haben', 'habe', 'ist', 'sind', 'bin', 'wird', 'werden', 'werde'}
  found = 0
  for item in everything:
    for time in times:
      if item.german.lower().startswith(time.lower() + ' ') and item.kind in ('action', 'travel', 'giving'):
        second = item.german[len(time) + 1:].split()[0]
        found += second in finite
        assert second[0].islower() and not _article(second), item.german
        break
  assert found > 200


def test_separable_verbs_come_apart_and_together(everything):
  german = [item.german for item in everything]
  assert any(re.search(r'^(Er|Sie) ruft .* an\.$', text) for text in german)
  assert any(re.search(r'\bhat .* angerufen\b', text) for text in german)
  assert any(re.search(r', (weil|dass|ob|obwohl|wenn) .* anruft\b', text) for text in german)
  assert any(re.search(r'\bwird .* anrufen\b', text) for text in german)


def test_every_source_has_one_translation(everything):
  translations = {}
  for item in everything:
    assert translations.setdefault(item.english, item.german) == item.german


def test_what_has_two_translations_is_not_said(everything):
  for item in everything:
    words = {word.lower() for word in grammar.tokens(item.english)}
    assert not (words & {'girl', 'child'} and words & {'he', 'she', 'him', 'her', 'his'}), item.english
    assert not ({"isn't", "wasn't", "aren't", "weren't", 'not'} & words and re.search(r"n't (too|very) ", item.english))


def test_what_happens_once_is_not_in_the_simple_present(everything):
  for item in everything:
    once = r' (buys|sells|finds|loses|breaks|catches|overtakes|crosses|gives) '
    assert not re.search(once, item.english), item.english


def _of_kind(items, kind):
  found = [item for item in items if item.kind == kind]
  assert len(found) > 100
  return found


def test_who_did_it_in_the_passive_stands_before_the_participle(everything):
  participles = {verb.participle for verb in lexicon.VERBS}
  animals = {form for noun in lexicon.NOUNS.values() if 'animal' in noun.tags
             for form in (noun.english, noun.english_plural)}
  for item in _of_kind(everything, 'passive'):
    assert re.search(r'\b([Ww]urden?)\b', item.german) and grammar.tokens(item.german)[-2] in participles, item.german
    assert (' by ' in item.english) == bool(re.search(r'\b(von|vom)\b', item.german)) and ' von dem ' not in item.german
    if 'eaten' in item.english:
      eater = re.search(r' by (.*?)( on \w+| yesterday| today| this morning)?[.?]', item.english)[1].split()[-1]
      eats = 'gefressen' if eater in animals else 'gegessen'
      assert eats in item.german, item.english


def test_reflexive_pronouns_agree_with_the_subject(everything):
  for item in _of_kind(everything, 'reflexive'):
    words = {word.lower() for word in grammar.tokens(item.english)}
    own = 'mich' if 'i' in words else 'uns' if 'we' in words else 'sich'
    assert own in grammar.tokens(item.german) and (own == 'sich' or 'sich' not in item.german), item.german


def test_purposes_end_with_zu_and_an_infinitive(everything):
  separable = [verb for verb in lexicon.VERBS if verb.prefix]
  parted = {f'{verb.prefix}zu{verb.infinitive.removeprefix(verb.prefix)}' for verb in separable}
  whole = {verb.infinitive for verb in lexicon.VERBS if not verb.prefix}
  ends = [grammar.tokens(item.german.split(', um ')[1])[-3:-1] for item in _of_kind(everything, 'purpose')]
  for before, last in ([''] * (2 - len(end)) + end for end in ends):
    assert last in parted or before == 'zu' and last in whole
  assert {last for *_, last in ends} & parted


def test_clear_object_pronouns_stand_before_a_noun(everything):
  object_pronoun, noun = r'(mich|mir|uns|ihn|ihm|ihnen)', r'(der|die|das|dieser|diese|dieses) \w+'
  found = [item for item in everything
           if re.search(rf'\b(hat|haben|ist|sind|wird|weil) {object_pronoun} {noun}', item.german)]
  assert len(found) > 20
  for item in everything:
    assert not re.search(rf'\b(Gestern|Heute|Morgen|Warum|Wann) (hat|ist|wird) {noun} {object_pronoun}\b', item.german)


def test_sentences_are_of_the_promised_length(everything):
  lengths = [len(item.english.split()) for item in everything]
  assert min(lengths) >= 3 and max(lengths) <= 25 and 5 < np.mean(lengths) < 12
  assert not any('you' in grammar.tokens(item.english.lower()) for item in everything)  # du, ihr or Sie?


def test_the_space_is_large(train):
  assert splits.count_at_least() >= 10**7
  assert len({item.english for item in train}) == len(train)


def test_numbers():
  assert len(numbers.NUMBERS) == 98
  assert [numbers.NUMBERS[number] for number in 'seven sixteen seventeen twenty-one thirty-six ninety-nine'.split()
         ] == ['sieben', 'sechzehn', 'siebzehn', 'einundzwanzig', 'sechsunddreißig', 'neunundneunzig']


# ----------------------------------------------------------------------------------------------------- the splits


def test_generation_is_deterministic(train):
  assert list(splits.generate('train', 1_009)) == list(splits.generate('train', 1_009))
  code = 'from corpora.phrasebook import splits as k; print([x.english for x in k.generate("test", 211)])'
  outputs = {subprocess.run([sys.executable, '-c', code], env={**os.environ, 'PYTHONHASHSEED': seed}, check=True,
                            capture_output=True).stdout for seed in ('1', '2')}
  assert len(outputs) == 1


def _combinations(item: grammar.Example) -> set[tuple[str, ...]]:
  """What a sentence combines, read off its annotations alone."""
  words = grammar.tokens(item.english)
  singular = {noun.english_plural: noun.english for noun in lexicon.NOUNS.values()}
  singular |= {role.english_plural: role.english for role in lexicon.ROLES}
  lemma = lambda place: singular.get(words[place].lower(), words[place].lower())
  comparatives = {adjective.english_comparative.split()[-1]: adjective.english
                  for adjective in lexicon.ADJECTIVES.values() if adjective.english_comparative}
  found = set()
  for name, head, dependent in item.relations:
    noun, adjective = lemma(head), words[dependent].lower()
    if name == 'adjective' and noun in lexicon.NOUNS and adjective in lexicon.ADJECTIVES:
      found.add((noun, adjective))
    if name == 'adjective' and noun in lexicon.NOUNS and adjective in comparatives and adjective not in ('more',):
      found.add((noun, comparatives[adjective]))
  return found


def test_splits_share_no_sentence(train, held_out):
  sources = [{item.english for item in split} for split in (train, held_out['validation'], held_out['test'])]
  targets = [{item.german for item in split} for split in (train, held_out['validation'], held_out['test'])]
  for sides in (sources, targets):
    assert not sides[0] & sides[1] and not sides[0] & sides[2] and not sides[1] & sides[2]


def test_held_out_combinations_are_never_trained(train, held_out):
  owned = lambda pair: grammar.split_of(('adjective', *pair))
  for item in train:
    assert all(owned(pair) == 'train' for pair in _combinations(item)), item.english
  seen = Counter(owned(pair) for item in held_out['test'] for pair in _combinations(item))
  assert seen['test'] > 150 and seen['validation'] == 0


def test_pronoun_pairs_hold_out_what_decides(train, held_out):
  """No (first noun, second noun, adjective) of the test was trained on, whichever the verb."""
  keys = lambda items: {(item.reading.adjective, *sorted(_nouns(item))) for item in items if item.reading.pair}
  assert not {key for key in keys(train) if grammar.split_of(('nouns', *key[1:])) != 'train'}
  tested = [item for item in held_out['test'] if item.reading.pair]
  new = [item for item in tested if grammar.split_of(('nouns', *sorted(_nouns(item)))) == 'test'
         or 'test' in {grammar.split_of(('adjective', noun, item.reading.adjective)) for noun in _nouns(item)}]
  assert len(new) > len(tested) / 2


def _nouns(item: grammar.Example) -> list[str]:
  return [word.lower() for word in grammar.tokens(item.english) if word.lower() in lexicon.NOUNS][:2]


def test_names_of_the_test_are_new(train, held_out):
  trained = {word for item in train for word in grammar.tokens(item.german)}
  unseen = [name for item in held_out['test'] for name, _ in item.unseen_names]
  assert len(unseen) > 500 and not set(unseen) & trained
  for item in [*held_out['test'], *held_out['validation']]:
    assert all(re.search(rf"\b{name}(s|'s)?\b", item.english) for name, _ in item.unseen_names)
  assert not any(item.unseen_names for item in train)


def test_most_names_of_training_are_made_up():
  for kind in names.LISTS:
    drafts = {split: grammar.Draft(random.Random(3), split) for split in ('train', 'test')}
    drawn = {split: [names.some_of(draft, kind) for _ in range(1_000)] for split, draft in drafts.items()}
    made_up = [text for text in drawn['train'] if text not in lexicon.LISTED_NAMES]
    assert 0.8 < len(made_up) / 1_000 < 0.9 and len(set(made_up)) > 0.85 * len(made_up)
    assert {grammar.split_of(('name', text)) for text in set(drawn['train']) - set(made_up)} == {'train'}
    assert {grammar.split_of(('name', text)) for text in drawn['test']} == {'train', 'test'}
    assert set(drawn['test']) <= lexicon.LISTED_NAMES


def test_keys_of_the_test_are_new(train, held_out):
  """A pair with an unseen key has a (verb, polarity, adjective) that training never shows; the others have none."""
  new = {(frame.name, adjective) for frame in lexicon.FRAMES for adjective in frame.held_out}
  key = lambda item: (item.reading.frame, item.reading.adjective)
  trained = {key(item) for item in train if item.reading.pair}
  tested = _pairs(held_out['test'])
  assert not trained & new and {key(item) for pair in tested.values() for item in pair} <= trained | new
  for pair in tested.values():
    assert {item.reading.held_out for item in pair} == {not new.isdisjoint(map(key, pair))}
  assert len(new & {key(item) for pair in tested.values() for item in pair}) > 0.7 * len(new)
  assert 80 <= sum(pair[0].reading.held_out for pair in tested.values()) <= len(tested) - 70


def test_cover_is_as_frequent_as_what_it_reverses(train):
  verbs = Counter(item.reading.frame.removeprefix('not ') for item in train)
  assert 0.75 < verbs['cover'] / verbs['fit into'] < 1.33 and 0.75 < verbs['cover'] / verbs['fit under'] < 1.33


def test_every_word_of_the_test_is_taught(train, held_out):
  """But names: what is new in the test are combinations."""
  trained = {word.lower() for item in train for word in grammar.tokens(item.english)}
  for item in held_out['test']:
    new = [word for word in grammar.tokens(item.english)
           if word.lower() not in trained and word.removesuffix("'s") not in lexicon.LISTED_NAMES]
    assert not new, item.english
  forms = {word.lower() for item in train for word in grammar.tokens(item.german)}
  for item in held_out['test']:
    new = [word for word in grammar.tokens(item.german)
           if word.lower() not in forms and not {word, word.removesuffix('s')} & lexicon.LISTED_NAMES]
    assert not new, item.german
  nouns = {noun.english for noun in lexicon.NOUNS.values()} | {role.english for role in lexicon.ROLES}
  assert nouns <= trained and set(lexicon.ADJECTIVES) <= trained and set(numbers.NUMBERS) <= trained


def test_showcase_is_right_and_held_out(train):
  assert builder.showcase()[:6] == [
      ('Anthony Hopkins admired Michael Bay as a great director.',
       'Anthony Hopkins hat Michael Bay als einen großartigen Regisseur bewundert.'),
      ('He admired her as a great director.', 'Er hat sie als eine großartige Regisseurin bewundert.'),
      ('Bob kicked the ball.', 'Bob hat den Ball getreten.'),
      ('I am a student.', 'Ich bin Student.'),
      ("The animal didn't cross the street because it was too tired.",
       'Das Tier hat die Straße nicht überquert, weil es zu müde war.'),
      ("The animal didn't cross the street because it was too wide.",
       'Das Tier hat die Straße nicht überquert, weil sie zu breit war.'),
  ]
  sources, words = {item.english for item in train}, {word for item in train for word in grammar.tokens(item.english)}
  for english, _ in builder.showcase():
    assert english not in sources and set(grammar.tokens(english)) - {'I'} <= words
  assert not any('great director' in source for source in sources)
  assert not any({'animal', 'street'} <= set(_nouns(item)) for item in train if item.reading.pair)


def test_suggestions_use_known_words(train):
  words = {word.lower() for item in train for word in grammar.tokens(item.english)}
  for sentence in builder.suggestions():
    assert {word.lower() for word in grammar.tokens(sentence)} <= words, sentence


# ------------------------------------------------------------------------------------------------ the annotations


def test_annotations_point_at_words(everything):
  for item in everything:
    source, target = grammar.tokens(item.english), grammar.tokens(item.german)
    for name, head, dependent in item.relations:
      assert name in builder.RELATIONS and 0 <= head < len(source) and 0 <= dependent < len(source)
    assert all(0 <= left < len(source) and 0 <= right < len(target) for left, right in item.alignment)
    assert (len(source) - 1, len(target) - 1) in item.alignment  # the marks at the end
    aligned = {left for left, _ in item.alignment}
    assert len(aligned) >= 0.6 * len(source), item.english


def _found(item: grammar.Example) -> set[tuple[str, str, str]]:
  words = grammar.tokens(item.english)
  return {(name, words[head], words[dependent]) for name, head, dependent in item.relations}


def _links(item: grammar.Example) -> set[tuple[str, str]]:
  source, target = grammar.tokens(item.english), grammar.tokens(item.german)
  return {(source[left], target[right]) for left, right in item.alignment}


def test_annotations_of_a_known_sentence():
  tired, wide = splits.showcase()[4:6]
  assert _found(tired) == {('subject', 'cross', 'animal'), ('object', 'cross', 'street'), ('subject', 'was', 'it'),
                           ('antecedent', 'it', 'animal'), ('adjective', 'it', 'tired')}
  assert ('antecedent', 'it', 'street') in _found(wide)
  assert _links(wide) == {
      ('The', 'Das'), ('animal', 'Tier'), ("didn't", 'hat'), ("didn't", 'nicht'), ('cross', 'überquert'),
      ('the', 'die'), ('street', 'Straße'), ('because', 'weil'), ('it', 'sie'), ('was', 'war'), ('too', 'zu'),
      ('wide', 'breit'), ('.', '.')}
  assert ('admired', 'hat') in _links(splits.showcase()[0]) and ('admired', 'bewundert') in _links(splits.showcase()[0])


def test_names_are_aligned_with_themselves(train):
  listed = {*lexicon.OTHER_FIRST_NAMES, *lexicon.SURNAMES} - {'Martin', 'Walter'}
  for item in train[:2_000]:
    for left, right in _links(item):
      if left in listed and left[0].isupper() and len(left) > 5:
        assert left == right, item.english


# ------------------------------------------------------------------------------------------------- pronoun pairs


def _pairs(items) -> dict[str, list[grammar.Example]]:
  pairs = {}
  for item in items:
    if item.reading.pair:
      pairs.setdefault(item.reading.pair, []).append(item)
  return pairs


def test_pairs_differ_in_the_adjective_and_the_pronoun_only(train, held_out):
  for items in (train, held_out['test']):
    for first, second in _pairs(items).values():
      assert {first.reading.letter, second.reading.letter} == {'a', 'b'}
      assert first.reading.pronoun != second.reading.pronoun
      assert first.reading.candidates == second.reading.candidates
      one, other = grammar.tokens(first.english), grammar.tokens(second.english)
      assert len(one) == len(other)
      assert [(a, b) for a, b in zip(one, other) if a != b] == [(first.reading.adjective, second.reading.adjective)]
      for item in (first, second):
        noun = lexicon.NOUNS[item.reading.antecedent]
        assert item.reading.pronoun == {'m': 'er', 'f': 'sie', 'n': 'es'}[noun.gender]
        assert f'weil {item.reading.pronoun} ' in item.german


def test_pairs_are_many_and_of_every_make(held_out):
  pairs = _pairs(held_out['test']).values()
  animal = lambda noun: 'animal' in lexicon.NOUNS[noun].tags
  alike = [pair for pair in pairs if animal(pair[0].reading.antecedent) == animal(pair[1].reading.antecedent)]
  assert len(pairs) >= 75 and len(alike) >= len(pairs) / 3  # two things or two animals
  assert Counter(item.reading.pronoun for pair in pairs for item in pair).keys() == {'er', 'sie', 'es'}


def test_a_frame_and_an_adjective_have_one_reading():
  decided = {}
  for frame in lexicon.FRAMES:
    assert not set(frame.of_subject) & set(frame.of_object)
    for side, adjectives in enumerate((frame.of_subject, frame.of_object)):
      for adjective in adjectives:
        assert decided.setdefault((frame.verb, frame.negated, adjective), side) == side


def test_rules_without_understanding_fail(train, held_out):
  train = [builder._annotation(item) for item in train]
  test = [builder._annotation(item) for item in held_out['test']]
  seen, unseen = ({name: scores.pronoun_accuracy(test, rule(train, test), unseen) for name, rule in
                   scores.RULES.items()} for unseen in (False, True))
  assert seen['always the first noun'] == seen['always the animal'] == unseen['always the animal'] == 0
  assert seen.pop('adjective, verb and negation') == seen.pop('the same, or the opposite of the other polarity') == 1
  assert max(seen.values()) < 0.8 and max(unseen.values()) < 0.75, (seen, unseen)
  for keys in (False, True):
    assert scores.pronoun_accuracy(test, [annotation['de'] for annotation in test], keys) == 1


@pytest.mark.drill
def test_the_documents_tell_what_rules_score(train):
  test = [builder._annotation(item) for item in splits.generate('test', 6000, seed=7)]
  train = [builder._annotation(item) for item in train]
  with open(os.path.join(ROOT, 'docs', 'data.md'), encoding='utf-8') as file:
    told = re.findall(r'^\| (.+) \| (\d\.\d\d) \| (\d\.\d\d) \|$', file.read(), re.MULTILINE)
  assert told == [(name, *(f'{scores.pronoun_accuracy(test, rule(train, test), keys):.2f}' for keys in (False, True)))
                  for name, rule in scores.RULES.items()]


# ------------------------------------------------------------------------------------------------- the scores


def test_pronouns_count_in_pairs():
  reading = lambda pair, pronoun: {'pair': pair, 'pronoun': pronoun, 'unseen_key': ''}
  annotations = [reading('x', 'es'), reading('', ''), reading('x', 'sie'), reading('y', 'er'), reading('y', 'sie')]
  assert scores.pronoun_accuracy(annotations, [
      'Das Tier ist müde, weil es alt war.', 'Nichts.', 'A, weil sie b.', 'A, weil er b.', 'A, weil er b.']) == 0.5
  assert scores.pronoun_accuracy(annotations[3:], ['Weil sie', 'weil']) == 0
  assert math.isnan(scores.pronoun_accuracy([reading('', '')], ['weil es']))
  other = [reading('z', 'er') | {'unseen_key': 'yes'}, reading('z', 'es') | {'unseen_key': 'yes'}]
  found = ['A, weil sie b.', 'A, weil sie b.', 'A, weil er b.', 'A, weil es b.']
  assert scores.pronoun_accuracy(annotations[3:] + other, found) == 0
  assert scores.pronoun_accuracy(annotations[3:] + other, found, unseen_keys=True) == 1
  with pytest.raises(ValueError, match='5 annotated sentences, but 1'):
    scores.pronoun_accuracy(annotations, ['A.'])


def test_names_count_as_whole_words():
  annotation = {'unseen_names': 'Orla Quill', 'name_classes': 'first name,surname', 'de': 'Orlas Hund kennt Quill.',
                'en': "Orla's dog knows Quill."}
  copied = lambda hypothesis: [right for *_, right in scores.names_copied([annotation], [hypothesis], 'de')]
  assert copied('Orlas Katze kennt Quill.') == [True, True] and copied('Orla kennt Quiller.') == [False, False]
  figures = scores.measure([annotation], ["Orla's dog"], 'en', len)
  assert figures == {
      'name_accuracy': 0.5,
      'name_accuracy_by_class': {'first name': {'accuracy': 1, 'names': 1}, 'surname': {'accuracy': 0, 'names': 1}},
      'name_accuracy_by_pieces': {'4': {'accuracy': 1, 'names': 1}, '5': {'accuracy': 0, 'names': 1}}}


# ------------------------------------------------------------------------------------------- the TFDS builder


def test_builder_prepares_offline_and_gives_back(data_dir):
  test = builder.examples('test', data_dir)
  made = list(splits.generate('test'))
  assert [record['en'] for record in test] == [item.english for item in made]
  for record, item in zip(test, made):
    expected = builder._annotation(item)
    assert record.keys() == expected.keys()
    assert all(np.array_equal(record[key], expected[key]) for key in expected)


def test_tfds_itself_reads_it(data_dir):
  import tensorflow_datasets as tfds
  source = tfds.builder('phrasebook', data_dir=data_dir).as_data_source('validation')
  first = source[0]
  assert first['en'].decode() and first['relations'].shape[1] == 3 and first['alignment'].shape[1] == 2


def test_the_fingerprint_covers_all_that_makes_sentences():
  """Whatever module of the package splits reaches through its imports: an edit to any gives another corpus."""
  reached, ahead = set(), [splits]
  while ahead:
    module = ahead.pop()
    reached.add(module.__name__)
    found = re.findall(r'^from corpora\.phrasebook(?:\.(\w+))? import \(?([^)]*?)\)?$', inspect.getsource(module), re.M)
    near = {name for inside, names in found for name in ([inside] if inside else re.split(r'[,\s]+', names)) if name}
    ahead += [other for other in (importlib.import_module(f'corpora.phrasebook.{name}') for name in near)
              if other.__name__ not in reached]
  assert reached == {module.__name__ for module in builder.SOURCES} and len(reached) > 8


def test_corpus_in_both_directions(data_dir):
  config = lambda source, target: loading.CorpusConfig(
      kind='phrasebook', source_language=source, target_language=target, cache_dir=os.path.dirname(data_dir))
  there, back = builder.corpus(config('en', 'de')), builder.corpus(config('de', 'en'))
  pairs = list(there.tests[0])
  assert len(pairs) == len(there.tests[0]) and [pair[::-1] for pair in pairs] == [tuple(pair) for pair in back.tests[0]]
  assert there.tests[0].fingerprint != back.tests[0].fingerprint != there.train.fingerprint
  assert (there.train.name, there.tests[0].name) == ('phrasebook train', 'phrasebook test')
  assert there.showcase[3] == ('I am a student.', 'Ich bin Student.') == back.showcase[3][::-1]
  found, other = there.measure([pair.target for pair in pairs], len), back.measure([pair.source for pair in pairs], len)
  right = {'name_accuracy': 1, 'pronoun_accuracy': 1, 'pronoun_accuracy_unseen_keys': 1}
  by_class = found['name_accuracy_by_class']
  assert {name: value for name, value in found.items() if not isinstance(value, dict)} == right
  assert by_class.keys() == {'first name', 'surname', 'city'} and sum(row['names'] for row in by_class.values()) >= 500
  assert other == {name: value for name, value in found.items() if not name.startswith('pronoun')}
  with pytest.raises(errors.DataError, match='English and German'):
    builder.corpus(config('en', 'fr'))


@pytest.mark.parametrize('source, target', [('en', 'de'), ('de', 'en')])
def test_its_sentences_are_a_language_models_documents(data_dir, source, target):
  config = lambda kind: loading.CorpusConfig(kind, source, target, tfds_dir=data_dir)
  pairs, texts = loading.load(config('phrasebook')), loading.load(config('phrasebook_text'))
  for split in ('train', 'validation', 'test'):
    sentences = [pair.source for pair in pairs.by_name[split]]
    assert list(texts.by_name[split]) == sentences
    assert texts.by_name[split].num_bytes == sum(len(sentence.encode()) + 1 for sentence in sentences)
  assert texts.target_language == '' and texts.tests[0].name == f'phrasebook {LANGUAGES[source]} test'


def test_two_runs_may_prepare_it_at_the_same_time(tmp_path, monkeypatch):
  folder, generate = str(tmp_path / 'prepared'), splits.generate

  def few(split):
    return generate(split, 20)

  def the_other_is_faster(split):
    monkeypatch.setattr(splits, 'generate', few)
    builder.prepared(folder)
    return few(split)

  monkeypatch.setattr(splits, 'generate', the_other_is_faster)
  assert builder.prepared(folder).info.splits['test'].num_examples == len(builder.examples('test', folder)) > 0
  assert len(os.listdir(tmp_path / 'prepared' / 'phrasebook')) == 1


def test_no_tensorflow_and_no_noise(data_dir):
  code = (f'import sys; from corpora.phrasebook import builder; builder.prepared({data_dir!r}); '
          'builder.examples("validation", sys.argv[1]); '
          'assert not {"tensorflow", "torch", "jax"} & set(sys.modules)')
  done = subprocess.run([sys.executable, '-c', code, data_dir], capture_output=True, text=True)
  assert (done.returncode, done.stdout, done.stderr) == (0, '', '')
