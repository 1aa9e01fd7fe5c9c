"""The phrasebook's grammar: how English and German sentences are built side by side, and which split they belong to.

Every sentence is drawn once as meaning (a clause with a subject, a verb, objects, …) and spelt out in both languages.
Each word keeps the units of meaning that it stands for, so word alignments and grammatical relations fall out of the
construction and need no annotation. To add words, see lexicon; to add kinds of sentences, kinds.
German here follows one convention where two would do: the English past is the German perfect, except for "war",
"hatte", "wurde" and the modal verbs; object pronouns stand before a subject that is a noun and not in front, unless
they could be read as the subject or as its possessive ("sie", "es", "ihr"); a trade has its masculine form where
nothing tells the sex ("I am a student").

What may be held out is noted while a sentence is drawn (`Draft.note`): adjective with noun, verb with object, the two
nouns of a pronoun pair, what decides a pronoun pair, names. A stable hash sends each such combination to a split, and a
sentence goes to the one split that all its combinations allow; so the splits are disjoint by construction.
"""

import functools
import hashlib
import operator
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from corpora.phrasebook import lexicon
from corpora.phrasebook.lexicon import Adjective, Noun, Time, Verb

HELD_OUT = {'validation': 0.04, 'test': 0.10}  # share of all combinations that only this split may hold


class Word(NamedTuple):
  """A word or punctuation mark, and the units of meaning that it stands for."""

  text: str
  units: tuple[str, ...] = ()


Phrase = list[Word]


def words(text: str, *units: str) -> Phrase:
  """Several words that stand for the same units: "next to"."""
  return [Word(word, units) for word in text.split()]


TOKEN = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")


def tokens(text: str) -> list[str]:
  """The tokens that relations and alignments count: words (with inner ' and -) and single punctuation marks."""
  return TOKEN.findall(text)


# --------------------------------------------------------------------------------------------- what is held out

# Combinations that the texts' own sentences need: none of them is ever trained on …
RESERVED_FOR_TEST = frozenset({
    ('adjective', 'director', 'great'),
    ('nouns', 'animal', 'street'),
    ('role', 'I', 'student'),
    ('deed', 'Bob', 'kick'),
    *(('key', frame.name, adjective) for frame in lexicon.FRAMES for adjective in frame.held_out),
})
# … and combinations that these sentences must find in training.
RESERVED_FOR_TRAINING = frozenset({
    *(('name', name) for name in lexicon.FAMILIAR_MEN + lexicon.FAMILIAR_WOMEN + ['Hopkins', 'Bay']),
    ('adjective', 'animal', 'tired'),
    ('adjective', 'street', 'wide'),
    ('object', 'kick', 'ball'),
    # Else training would hardly have the form "freundliches".
    ('adjective', 'pig', 'friendly'),
    ('adjective', 'rabbit', 'friendly'),
})


@functools.cache
def split_of(combination: tuple[str, ...]) -> str:
  """The split that owns a combination: 'train' (which every split may use), 'validation' or 'test'."""
  if combination in RESERVED_FOR_TEST:
    return 'test'
  if combination in RESERVED_FOR_TRAINING or combination[0] == 'key':
    return 'train'
  digest = hashlib.blake2b('|'.join(combination).encode(), digest_size=8).digest()
  place = int.from_bytes(digest, 'big') / 2**64
  for split, share in HELD_OUT.items():
    if place < share:
      return split
    place -= share
  return 'train'


class Unfit(Exception):
  """A draw that makes no sentence (no noun fits, or another split owns it): draw again."""


class Draft:
  """What is collected while one sentence is drawn: chance, combinations, relations, names, fresh units."""

  def __init__(self, rng: random.Random, wanted: str | None = None):
    """`wanted`: raise Unfit as soon as neither training nor this split owns a combination; None: any split will do."""
    self.rng = rng
    self.wanted = wanted
    self.split = 'train'  # the split that owns what has been noted so far
    self.relations: list[tuple[str, str, str]] = []  # name, unit of the head, unit of the dependent
    self.names: list[tuple[str, str]] = []  # name, class
    self._units = 0

  def unit(self, kind: str) -> str:
    self._units += 1
    return f'{kind}{self._units}'

  def note(self, *combination: str) -> None:
    """Notes a combination that the sentence contains."""
    owner = split_of(combination)
    if owner == 'train':
      return
    if self.wanted not in (None, owner) or self.split not in ('train', owner):
      raise Unfit
    self.split = owner

  def note_readings(self, *readings: tuple[tuple[str, ...], ...]) -> None:
    """Notes what only one of several sentences drawn together contains: each alone must belong to the same split."""
    shared, splits = self.split, set()
    for combinations in readings:
      self.split = shared
      for combination in combinations:
        self.note(*combination)
      splits.add(self.split)
    if len(splits) > 1:
      raise Unfit

  def relate(self, name: str, head: str, dependent: str) -> None:
    self.relations.append((name, head, dependent))

  def choose(self, options):
    """One of the options, all alike; Unfit where there is none."""
    if not options:
      raise Unfit
    return options[int(self.rng.random() * len(options))]

  def weigh(self, options: dict):
    """One of the keys, by weight."""
    place = self.rng.random() * sum(options.values())
    for option, weight in options.items():
      place -= weight
      if place < 0:
        break
    return option

  def chance(self, probability: float) -> bool:
    return self.rng.random() < probability


# ------------------------------------------------------------------------------------------------ German endings

CASES = ('nominative', 'accusative', 'dative')  # the phrasebook has no genitive
# Tables: gender, or 'p' for the plural -> endings (or whole words) in the order of CASES; "-" is no ending.
_TABLES = {
    'definite': {'m': 'der den dem', 'f': 'die die der', 'n': 'das das dem', 'p': 'die die den'},
    'ein': {'m': '- en em', 'f': 'e e er', 'n': '- - em', 'p': 'e e en'},  # behind ein, kein, mein, …
    'strong': {'m': 'er en em', 'f': 'e e er', 'n': 'es es em', 'p': 'e e en'},  # behind dies; adjectives alone
    'mixed': {'m': 'er en en', 'f': 'e e en', 'n': 'es es en', 'p': 'en en en'},  # adjectives behind ein, mein, …
    'weak': {'m': 'e en en', 'f': 'e e en', 'n': 'e e en', 'p': 'en en en'},  # adjectives behind der, dieser, …
    'relative': {'m': 'der den dem', 'f': 'die die der', 'n': 'das das dem', 'p': 'die die denen'},
    'pronoun': {'m': 'er ihn ihm', 'f': 'sie sie ihr', 'n': 'es es ihm', 'p': 'sie sie ihnen'},
    'none': dict.fromkeys('mfnp', '- - -'),
}


@functools.cache
def ending(table: str, gender: str, case: str) -> str:
  """The ending (or word) in one of the tables."""
  cell = _TABLES[table][gender].split()[CASES.index(case)]
  return '' if cell == '-' else cell


@functools.cache
def noun_form(noun: Noun, plural: bool, case: str) -> str:
  """The noun in number and case."""
  if plural:
    return noun.german_plural + ('n' if case == 'dative' and noun.german_plural[-1] not in 'ns' else '')
  return noun.german_plural if noun.weak and case != 'nominative' else noun.german


class Determiner(NamedTuple):
  """What stands before a noun."""

  english: str
  german: str  # what the endings are put to
  endings: str  # table
  declension: str  # table for an adjective behind it


THE = Determiner('the', '', 'definite', 'weak')
THIS = Determiner('this', 'dies', 'strong', 'weak')
A = Determiner('a', 'ein', 'ein', 'mixed')
NOT_A = Determiner('a', 'kein', 'ein', 'mixed')  # "didn't … a": the negation moves into the article
BARE = Determiner('', '', 'none', 'strong')
MY, HIS, HER, OUR, THEIR = (Determiner(english, german, 'ein', 'mixed') for english, german in (
    ('my', 'mein'), ('his', 'sein'), ('her', 'ihr'), ('our', 'unser'), ('their', 'ihr')))
ITS = {gender: Determiner('its', german, 'ein', 'mixed') for gender, german in  # by the gender of the owner
       (('m', 'sein'), ('f', 'ihr'), ('n', 'sein'))}


def counted(english: str, german: str) -> Determiner:
  """A number, "many", or "Anna's": not inflected in German."""
  return Determiner(english, german, 'none', 'strong')


# ------------------------------------------------------------------------------------------------ noun phrases


@dataclass(frozen=True)
class Nominal:
  """A noun phrase, pronoun or name: everything that can be a subject or an object."""

  english: Phrase
  english_object: Phrase  # differs for pronouns only
  german: Callable[[str], Phrase]  # case -> words
  agreement: str  # the verb's form: 'first' (I), 'third' (he, she, it) or 'plural'
  gender: str  # German grammatical gender, 'p' for plurals
  head: str  # unit of the noun or name
  lemma: str  # the noun's or pronoun's English word; a first name on its own; '' for other names
  sort: str  # 'noun', 'pronoun' or 'name'
  sex: str = ''  # 'm' or 'f' where the English leaves no doubt
  definite: bool = True


def _article(word: str) -> str:
  return 'an' if word[0] in 'aeiou' else 'a'


def noun_phrase(draft: Draft, noun: Noun, determiner: Determiner, adjective: Adjective | None = None,
                plural: bool = False) -> Nominal:
  """Determiner, adjective and noun, in agreement; notes and relates the adjective."""
  unit = draft.unit('n')
  head, of_determiner, of_adjective = f'{unit}.noun', f'{unit}.determiner', f'{unit}.adjective'
  if determiner is NOT_A:
    of_determiner = (of_determiner, 'not')
  else:
    of_determiner = (of_determiner,)
  english = [Word(noun.english_plural if plural else noun.english, (head,))]
  if adjective:
    english.insert(0, Word(adjective.english, (of_adjective,)))
    draft.note('adjective', noun.english, adjective.english)
    draft.relate('adjective', head, of_adjective)
  article = {'a': _article(english[0].text), 'this': 'these' if plural else 'this'}.get(
      determiner.english, determiner.english)
  english[:0] = words(article, *of_determiner)
  gender = 'p' if plural else noun.gender

  def german(case: str) -> Phrase:
    phrase = words(determiner.german + ending(determiner.endings, gender, case), *of_determiner)
    if adjective:
      phrase.append(Word(adjective.stem + ending(determiner.declension, gender, case), (of_adjective,)))
    phrase.append(Word(noun_form(noun, plural, case), (head,)))
    return phrase

  sex = noun.gender if 'gendered' in noun.tags or 'role' in noun.tags else ''
  return Nominal(english, english, german, 'plural' if plural else 'third', gender, head, noun.english, 'noun', sex,
                 definite=determiner not in (A, NOT_A, BARE))


class Pronoun(NamedTuple):
  """A personal pronoun."""

  english: str
  english_object: str
  german: str  # in the order of CASES
  agreement: str
  sex: str = ''


PRONOUNS = [
    Pronoun('I', 'me', 'ich mich mir', 'first'),
    Pronoun('he', 'him', 'er ihn ihm', 'third', 'm'),
    Pronoun('she', 'her', 'sie sie ihr', 'third', 'f'),
    Pronoun('we', 'us', 'wir uns uns', 'plural'),
    Pronoun('they', 'them', 'sie sie ihnen', 'plural'),
]
I, HE, SHE, WE, THEY = PRONOUNS  # noqa: E741


def pronoun(draft: Draft, form: Pronoun) -> Nominal:
  """A personal pronoun."""
  head = draft.unit('p')
  return Nominal([Word(form.english, (head,))], [Word(form.english_object, (head,))],
                 lambda case: [Word(form.german.split()[CASES.index(case)], (head,))],
                 form.agreement, form.sex or 'p', head, form.english, 'pronoun', form.sex)


def it_for(draft: Draft, antecedent: Nominal) -> Nominal:
  """The pronoun "it" for a noun: German takes the noun's gender."""
  head = draft.unit('p')
  draft.relate('antecedent', head, antecedent.head)
  return Nominal([Word('it', (head,))], [Word('it', (head,))],
                 lambda case: [Word(ending('pronoun', antecedent.gender, case), (head,))],
                 'third', antecedent.gender, head, 'it', 'pronoun')


def reflexive(draft: Draft, subject: Nominal, english: bool = False) -> Nominal:
  """The subject once more, "sich"; `english`: "himself", too, and Unfit where the sex is in doubt."""
  head = draft.unit('p')
  spelt = []
  if english:
    form = {'I': 'myself', 'we': 'ourselves'}.get(subject.lemma) or (
        'themselves' if subject.agreement == 'plural' else {'m': 'himself', 'f': 'herself'}.get(subject.sex))
    if form is None:
      raise Unfit
    spelt = words(form, head)
    draft.relate('antecedent', head, subject.head)
  german = {'I': 'mich', 'we': 'uns'}.get(subject.lemma, 'sich')
  return Nominal(spelt, spelt, lambda case: words(german, head), subject.agreement, subject.gender, head, '', 'pronoun')


def relative_pronoun(draft: Draft, antecedent: Nominal, english: str) -> Nominal:
  """who, whom or that for a noun: German takes the noun's gender, and its case from the relative clause."""
  head = draft.unit('p')
  draft.relate('antecedent', head, antecedent.head)
  return Nominal([Word(english, (head,))], [Word(english, (head,))],
                 lambda case: [Word(ending('relative', antecedent.gender, case), (head,))],
                 antecedent.agreement, antecedent.gender, head, english, 'pronoun')


def note_name(draft: Draft, text: str, kind: str) -> None:
  """Notes a name of a class: 'first name', 'surname' or 'city'. What is in no list is made up, for training only."""
  draft.names.append((text, kind))
  if text in lexicon.LISTED_NAMES:
    draft.note('name', text)


def name(draft: Draft, *parts: str, sex: str = '') -> Nominal:
  """A first name, perhaps with a surname, the same in both languages; notes each part."""
  unit = draft.unit('n')
  for part, kind in zip(parts, ('first name', 'surname')):
    note_name(draft, part, kind)
  phrase = [Word(part, (f'{unit}.{place}',)) for place, part in enumerate(parts)]
  return Nominal(phrase, phrase, lambda case: phrase, 'third', '', f'{unit}.0', parts[0] if len(parts) == 1 else '',
                 'name', sex)


def both(draft: Draft, first: Nominal, second: Nominal) -> Nominal:
  """Two together: "Anna and Paul"."""
  link = draft.unit('and')
  english = first.english + words('and', link) + second.english
  return Nominal(english, english, lambda case: first.german(case) + words('und', link) + second.german(case),
                 'plural', 'p', first.head, '', first.sort)


# --------------------------------------------------------------------------------------------------- the clause


def _verb(english: str, past: str, infinitive: str, third: str) -> Verb:
  return Verb(english, past, '', '', '', infinitive, '', third, '', 'haben', frozenset(), '', '', frozenset())


BE = _verb('be', 'was', 'sein', 'ist')
HAVE = _verb('have', 'had', 'haben', 'hat')
PASSIVE = _verb('be', 'was', 'werden', 'wird')  # the auxiliary of what is done to somebody or something


class Modal(NamedTuple):
  """A modal verb; with `past` it is conjugated in English ("wanted to"), otherwise it is one form ("can")."""

  english: str
  past: str
  german: dict[str, str]  # tense -> singular and plural
  negatable: bool


CAN = Modal('can', '', {'present': 'kann können'}, True)
MODALS = [
    CAN,
    Modal('must', '', {'present': 'muss müssen'}, False),
    Modal('should', '', {'present': 'sollte sollten'}, True),
    Modal('want', 'wanted', {'present': 'will wollen', 'past': 'wollte wollten'}, True),
    Modal('have', 'had', {'past': 'musste mussten'}, False),
]


class Complement(NamedTuple):
  """The last thing in the middle of a German clause, behind "nicht": an adjective, a role, a place."""

  english: Phrase
  german: Phrase


class Object(NamedTuple):
  """An object, with its preposition where the verb wants one."""

  nominal: Nominal
  case: str
  english_preposition: Phrase
  german_preposition: Phrase


@dataclass
class Clause:
  """Who does what: spelt out by `english` and `german`."""

  unit: str  # of the verb: its parts are unit.finite and unit.main
  subject: Nominal
  verb: Verb
  tense: str  # 'present', 'past', 'future' or 'progressive'
  objects: tuple[Object, ...] = ()  # a reflexive pronoun first
  negated: bool = False
  modal: Modal | None = None
  complement: Complement | None = None
  time: Time | None = None  # not the fronted one

  @property
  def negated_by_article(self) -> bool:
    """Whether "kein" says it already."""
    phrases = [item.nominal.german('accusative') for item in self.objects]
    phrases += [self.complement.german] if self.complement else []
    return any('not' in word.units for phrase in phrases for word in phrase)


def relate_verb(draft: Draft, clause: Clause) -> Clause:
  """Notes the clause's relations; returns the clause."""
  draft.relate('subject', f'{clause.unit}.main', clause.subject.head)
  for item in clause.objects:
    draft.relate('object', f'{clause.unit}.main', item.nominal.head)
  return clause


def time_unit(time: Time) -> str:
  return f'time.{time.english}'


# English


def _english_third(base: str) -> str:
  """The form with he: "carries", "washes", "has"."""
  if base == 'have':
    return 'has'
  if base[-1] == 'y' and base[-2] not in 'aeiou':
    return base[:-1] + 'ies'
  return base + ('es' if base.endswith(('s', 'sh', 'ch', 'x', 'z', 'o')) else 's')


def _english_be(tense: str, agreement: str) -> str:
  if tense == 'past':
    return 'were' if agreement == 'plural' else 'was'
  return {'first': 'am', 'third': 'is', 'plural': 'are'}[agreement]


def _conjugated(base: str, past: str, tense: str, agreement: str) -> str:
  if tense == 'past':
    return past
  return _english_third(base) if agreement == 'third' else base


def _english_verb(clause: Clause, inverted: bool) -> tuple[Phrase, Phrase]:
  """The words that trade places with the subject in a question, and those that do not."""
  finite, main = f'{clause.unit}.finite', f'{clause.unit}.main'
  tense, agreement, verb = clause.tense, clause.subject.agreement, clause.verb
  do = _conjugated('do', 'did', tense, agreement)
  supported = inverted or clause.negated
  bare = [Word(verb.english, (main,))]
  if clause.modal and not clause.modal.past:
    auxiliary, rest = clause.modal.english, bare
  elif clause.modal:
    rest = words('to', finite) + bare
    auxiliary = do if supported else _conjugated(clause.modal.english, clause.modal.past, tense, agreement)
    rest = (words(clause.modal.english, finite) if supported else []) + rest
  elif tense == 'future':
    auxiliary, rest = 'will', bare
  elif tense == 'progressive':
    auxiliary, rest = _english_be('present', agreement), [Word(verb.progressive, (main,))]
  elif verb in (BE, PASSIVE):
    return _negated([Word(_english_be(tense, agreement), _of_be(clause))], clause.negated), []
  elif supported:
    auxiliary, rest = do, bare
  else:
    if verb.english == verb.past and agreement != 'third':
      raise Unfit  # "they read": now or then?
    return [], [Word(_conjugated(verb.english, verb.past, tense, agreement), (finite, main))]
  return _negated([Word(auxiliary, (finite,))], clause.negated), rest


def _of_be(clause: Clause) -> tuple[str, ...]:
  """Return what a form of "be" stands for: in the passive, the participle is the main verb."""
  return (f'{clause.unit}.finite',) if clause.verb is PASSIVE else (f'{clause.unit}.finite', f'{clause.unit}.main')


def _negated(auxiliary: Phrase, negated: bool) -> Phrase:
  if not negated:
    return auxiliary
  (text, units), = auxiliary
  if text == 'am':
    return [*auxiliary, Word('not', ('not',))]
  return [Word({'will': "won't", 'can': "can't"}.get(text, text + "n't"), (*units, 'not'))]


def _english_objects(clause: Clause) -> Phrase:
  particle = words(clause.verb.particle, f'{clause.unit}.main')
  phrases = [item.english_preposition + item.nominal.english_object for item in clause.objects]
  if clause.objects and clause.objects[-1].nominal.sort == 'pronoun' and not clause.verb.preposition:
    return sum(phrases, []) + particle
  return particle + sum(phrases, [])


def english(clause: Clause, fronted: Phrase = (), inverted: bool = False) -> Phrase:
  """The clause in English; `inverted` for questions."""
  auxiliary, rest = _english_verb(clause, inverted)
  subject = clause.subject.english
  time = words(clause.time.english, time_unit(clause.time)) if clause.time else []
  early, late = (time, []) if clause.time and clause.time.middle else ([], time)
  phrase = list(fronted) + (auxiliary + subject if inverted else subject + auxiliary) + early + rest
  phrase += _english_objects(clause)
  if clause.complement:
    phrase += clause.complement.english
  return phrase + late


# German

_FIRST = {'sein': 'bin', 'haben': 'habe', 'werden': 'werde', **lexicon.FIRST_PERSONS}
_THIRD = {'sein': 'ist', 'haben': 'hat', 'werden': 'wird'}
_PLURAL = {'sein': 'sind'}
_PRETERITE = {'sein': 'war waren', 'haben': 'hatte hatten', 'werden': 'wurde wurden'}  # others take the perfect


def _present(infinitive: str, third: str, agreement: str) -> str:
  """The present tense of a verb without its prefix: "ich rufe", "er ruft", "wir rufen"."""
  if agreement == 'first':
    return _FIRST.get(infinitive) or (infinitive[:-1] if infinitive.endswith('ern') else infinitive[:-2]) + 'e'
  return third if agreement == 'third' else _PLURAL.get(infinitive, infinitive)


def _auxiliary(infinitive: str, agreement: str) -> str:
  return _present(infinitive, _THIRD[infinitive], agreement)


def _german_verb(clause: Clause, last: bool) -> tuple[Word, Phrase]:
  """The finite verb, and what stands at the clause's end; `last`: verb-final, where a prefix stays on its verb."""
  finite, main = f'{clause.unit}.finite', f'{clause.unit}.main'
  verb, agreement = clause.verb, clause.subject.agreement
  number = agreement == 'plural'
  if clause.modal:
    return Word(clause.modal.german[clause.tense].split()[number], (finite,)), words(verb.infinitive, main)
  if clause.tense == 'future':
    return Word(_auxiliary('werden', agreement), (finite,)), words(verb.infinitive, main)
  if clause.tense == 'past' and verb.infinitive in _PRETERITE:
    return Word(_PRETERITE[verb.infinitive].split()[number], _of_be(clause)), []
  if clause.tense == 'past':
    return Word(_auxiliary(verb.auxiliary, agreement), (finite,)), words(verb.participle, main)
  form = _present(verb.infinitive.removeprefix(verb.prefix), verb.third, agreement)
  if last:
    return Word(verb.prefix + form, (finite, main)), []
  return Word(form, (finite, main)), words(verb.prefix, main)


_CONTRACTED = {('in', 'dem'): 'im', ('in', 'das'): 'ins', ('von', 'dem'): 'vom'}


def contracted(preposition: Phrase, phrase: Phrase) -> Phrase:
  """Put a preposition before a phrase; "in dem" becomes "im"."""
  short = _CONTRACTED.get((preposition[-1].text, phrase[0].text))
  if short is None:
    return preposition + phrase
  return [Word(short, (*preposition[-1].units, *phrase[0].units)), *phrase[1:]]


def _german_middle(clause: Clause) -> tuple[Phrase, Phrase]:
  """Between the finite verb and the end: pronouns; time, objects, nicht, what belongs to the verb most closely."""
  pronouns, plain, prepositional = [], [], []
  for item in clause.objects:
    phrase = item.nominal.german(item.case)
    if item.german_preposition:
      prepositional += (contracted if item.case == 'dative' else operator.add)(item.german_preposition, phrase)
    else:
      (pronouns if item.nominal.sort == 'pronoun' else plain).extend(phrase)
  time = words(clause.time.german, time_unit(clause.time)) if clause.time else []
  negation = words('nicht', 'not') if clause.negated and not clause.negated_by_article else []
  return pronouns, time + plain + negation + prepositional + (clause.complement.german if clause.complement else [])


def german(clause: Clause, order: str = 'second', fronted: Phrase = ()) -> Phrase:
  """The clause in German.

  Args:
    clause: what is said.
    order: where the finite verb stands: 'second' (statements), 'first' (questions), 'last' (subordinate clauses).
    fronted: what takes the first place instead of the subject, or the relative pronoun.
  """
  finite, end = _german_verb(clause, order == 'last')
  subject, (pronouns, middle) = clause.subject.german('nominative'), _german_middle(clause)
  if order == 'second' and not fronted:
    return [*subject, finite, *pronouns, *middle, *end]
  clear = not any(word.text in ('sie', 'es', 'ihr') for word in pronouns)
  first, then = (pronouns, subject) if clear and clause.subject.sort != 'pronoun' else (subject, pronouns)
  if order == 'last':
    return [*fronted, *first, *then, *middle, *end, finite]
  return [*fronted, finite, *first, *then, *middle, *end]


def infinitive(clause: Clause) -> tuple[Phrase, Phrase]:
  """The clause as a purpose, without its subject: "to open it", "um es zu öffnen", "um sie anzurufen"."""
  verb, to, main = clause.verb, f'{clause.unit}.to', f'{clause.unit}.main'
  pronouns, middle = _german_middle(clause)
  if verb.prefix:
    end = [Word(f'{verb.prefix}zu{verb.infinitive.removeprefix(verb.prefix)}', (to, main))]
  else:
    end = [Word('zu', (to,)), Word(verb.infinitive, (main,))]
  return ([Word('to', (to,)), Word(verb.english, (main,)), *_english_objects(clause)],
          [Word('um', (to,)), *pronouns, *middle, *end])


# ------------------------------------------------------------------------------------------------- the sentence


class Relation(NamedTuple):
  """A gold relation between two tokens of the English sentence."""

  name: str  # 'subject', 'object', 'adjective' or 'antecedent'
  head: int  # token of the verb, noun or pronoun
  dependent: int  # token of its subject or object, its adjective, its antecedent


class Reading(NamedTuple):
  """One of the two readings of a pronoun pair; empty outside of pairs."""

  pair: str = ''  # the same for both readings
  letter: str = ''  # 'a': "it" is the first noun; 'b': the second
  pronoun: str = ''  # the right German pronoun
  antecedent: str = ''  # the English noun
  adjective: str = ''  # the English adjective that decides
  candidates: tuple[str, ...] = ()  # the German pronouns of the first noun and of the second
  frame: str = ''  # the English verb, "not" before it where it is negated; with the adjective, the key
  held_out: bool = False  # whether training has no sentence with the key of this reading, or of the other


class Example(NamedTuple):
  """A sentence pair with everything that is known about it."""

  english: str
  german: str
  kind: str
  reading: Reading
  unseen_names: tuple[tuple[str, str], ...]  # names that training never shows, each with its class
  relations: tuple[Relation, ...]
  alignment: tuple[tuple[int, int], ...]  # (English token, German token)


def _tidy(phrase: Phrase, mark: str) -> Phrase:
  """Ends the sentence; no comma stands before another mark."""
  phrase = [*phrase, Word(mark, ('end',))]
  kept = [word for word, following in zip(phrase, phrase[1:])
          if not (word.text == ',' and following.text in (',', '.', '?'))]
  return [*kept, phrase[-1]]


def _spell(phrase: Phrase) -> str:
  text = ''.join(word.text if word.text in ',.?' else f' {word.text}' for word in phrase)[1:]
  return text[0].upper() + text[1:]


_NOUN_FORMS = frozenset(form for noun in lexicon.NOUNS.values() for form in (noun.english, noun.english_plural))
# "The girl admired her brother": das Mädchen, so either "ihren" (by sex) or "seinen" (by grammar).
_NEUTER_PEOPLE = frozenset({'girl', 'child'})
_OF_ONE_SEX = frozenset('he him his she her it its'.split())


def _of_name(word: Word) -> str:
  """Return the unit of the name, or noun phrase that begins with one ("Annas Ball"), of a word; '' for other words."""
  found = re.fullmatch(r'(n\d+)\.(\d+|determiner)', word.units[0]) if word.units and word.text[0].isupper() else None
  return found[1] if found else ''


def example(draft: Draft, kind: str, english: Phrase, german: Phrase, mark: str = '.',
            reading: Reading = Reading()) -> Example:
  """Spells a sentence out, with its relations and alignment. Raises Unfit for one with two translations."""
  english, german = _tidy(english, mark), _tidy(german, mark)
  if not _NEUTER_PEOPLE.isdisjoint(word.text for word in english) and not _OF_ONE_SEX.isdisjoint(
      word.text.lower() for word in english):
    raise Unfit
  if any(_of_name(word) and _of_name(other) not in ('', _of_name(word)) for word, other in zip(german, german[1:])):
    raise Unfit  # "gestern hat Anna Paul Huber gedankt", "wird Anna Pauls Ball finden": who thanked, whose ball?
  found = [word.text for word in english if word.text in _NOUN_FORMS or word.text in lexicon.LISTED_NAMES]
  if len(set(found)) < len(found):
    raise Unfit  # "the waitress will help the waitress": one or two?
  place = {}
  for index, word in enumerate(english):
    for unit in word.units:
      place.setdefault(unit, index)
  relations = tuple(Relation(label, place[head], place[dependent]) for label, head, dependent in draft.relations
                    if head in place and dependent in place)
  where = {}
  for index, word in enumerate(german):
    for unit in word.units:
      where.setdefault(unit, []).append(index)
  links = {(index, other) for index, word in enumerate(english) for unit in word.units for other in where.get(unit, ())}
  spelt = _spell(german)
  unseen = tuple((text, kind) for text, kind in draft.names
                 if text in lexicon.LISTED_NAMES and split_of(('name', text)) != 'train')
  return Example(_spell(english), spelt, kind, reading, unseen, relations, tuple(sorted(links)))
