"""What makes sense in the phrasebook: whose a thing may be, and which deeds go with it. Checks raise Unfit.

Here stands what holds of several kinds of sentences; what holds of one stands beside it.
"""

from corpora.phrasebook.grammar import Nominal, Unfit
from corpora.phrasebook.lexicon import TIMES, Noun, Time, Verb

YOUNG = ('boy', 'girl', 'child')
OWN = frozenset('my our his her their'.split())
_WITH_BROKEN = frozenset('see find buy sell repair'.split())  # what is done with a broken thing
_STATES = frozenset('dirty clean empty'.split())
_MOODS = frozenset('tired hungry sick weak lazy angry sad happy'.split())  # what matters to few deeds
_OF_MOODS = frozenset('disappear sleep laugh cry call kick rest apologize complain'.split()) | {
    'come back', 'lie down', 'complain about'}  # what the moody do
_PACE = frozenset('fast slow heavy light'.split())
_WITH_STATES = frozenset('see find carry bring wash clean'.split()) | {'dream of', 'tidy up'}  # with what is dirty or empty
_WITH_MOODS = frozenset('see help find hug visit call hear'.split())
_WITH_LIGHT = frozenset('carry lend bring buy give'.split())  # elsewhere "leicht" or "hell"
_QUALITIES = frozenset(['good', 'bad'])  # of what is read
_WITH_QUALITIES = frozenset('read buy write'.split())

# What is said to happen always. Of other verbs, when they are not said to: nobody flies every day, and everybody gets up
# on Fridays.
_ALWAYS = frozenset(['help', 'work', 'laugh', 'wait for', 'listen to'])
_EACH = frozenset(['every day', 'every evening'])
_NOT_THEN = {**dict.fromkeys(('travel', 'fly', 'invite', 'thank', 'pick up'), _EACH), **dict.fromkeys(
    ('get up', 'wake up', 'sleep'), frozenset(time.english for time in TIMES if time.english.startswith('on ')) |
    {'tonight', 'today', 'every day'})}


def happens_then(verb: Verb, time: Time) -> bool:
  """Return whether it makes sense to say that something happens at a time, however often."""
  return time.english not in _NOT_THEN.get(verb.name, ()) and (time.english != 'always' or verb.name in _ALWAYS)


def none_lifted(verb: Verb, nominal: Nominal) -> None:
  """Raise Unfit where somebody who is picked up may be lifted: "abgeholt" or "hochgehoben"."""
  if verb.name == 'pick up' and nominal.lemma in (*YOUNG, 'they'):
    raise Unfit


def grown_up(verb: Verb, subject: Nominal) -> None:
  """Raise Unfit where a child does what grown people do."""
  if verb.name in ('work', 'repair', 'sell', 'lend') and subject.lemma in YOUNG:
    raise Unfit


def fair_trade(verb: Verb, subject: Nominal, thing: Nominal) -> None:
  """Raise Unfit where somebody buys what is his, or sells what is another's."""
  whose = thing.english[0].text
  others = whose.endswith("'s") or whose in ('my', 'our') and subject.lemma not in ('I', 'we')
  if verb.name == 'buy' and whose in OWN or verb.name == 'sell' and others:
    raise Unfit


def check_described(verb: Verb, nominal: Nominal) -> None:
  """Raise Unfit where an adjective has nothing to do with what is done: "drew the hungry horse"."""
  said = {word.text for word in nominal.english}
  if ('broken' in said and verb.name not in _WITH_BROKEN or said & _MOODS and verb.name not in _WITH_MOODS
      or said & _STATES and verb.name not in _WITH_STATES
      or said & _QUALITIES and verb.name not in _WITH_QUALITIES
      or 'light' in said and verb.name not in _WITH_LIGHT
      or 'dangerous' in said and verb.name == 'draw'
      or 'clean' in said and verb.name in ('clean', 'wash', 'tidy up')):
    raise Unfit


def check_doer(verb: Verb, subject: Nominal) -> None:
  """Raise Unfit where what somebody is like has nothing to do with a deed: "the hungry princess wrote a letter"."""
  said = {word.text for word in subject.english}
  if said & _PACE or said & _MOODS and verb.name not in _OF_MOODS:
    raise Unfit


def belongs(noun: Noun) -> bool:
  """Whether somebody may have it: "my", "Anna's"."""
  return noun.english not in ('barrel', 'drawer') and not noun.tags.isdisjoint(
      ('pet', 'small', 'container', 'device', 'clothing', 'furniture', 'own'))
