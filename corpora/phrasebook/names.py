"""The phrasebook's names: listed ones, and for training names that are made up.

Whoever sees each name many times remembers it; whoever must copy names needs many that come once. So most of training's
names are spelt letter by letter by a model of the listed ones, and none of them is a listed name or a word. Validation
and test have listed names, most of them their own.
"""

import functools
import re
from collections.abc import Sequence

from corpora.phrasebook import lexicon
from corpora.phrasebook.grammar import Draft, split_of

LISTS: dict[str, Sequence[str]] = {  # class -> listed names
    'first name': lexicon.FAMILIAR_MEN + lexicon.FAMILIAR_WOMEN + lexicon.OTHER_FIRST_NAMES,
    'surname': [*lexicon.SURNAMES, *['Hopkins', 'Bay'] * 10],  # oftener: the showcase has them
    'city': lexicon.CITIES,
}
_MADE_UP = 0.85  # share of training's names but for those whose sex matters: two thirds of all
_OWN = 0.28  # share of the names drawn for a held-out split that no other split has
_WORDS = frozenset(form.capitalize() for form in [
    *(form for noun in lexicon.NOUNS.values()
      for form in (noun.english, noun.english_plural, noun.german, noun.german_plural)),
    *(form for verb in [*lexicon.VERBS, *lexicon.FRAME_VERBS.values()]
      for form in (verb.english, verb.past, verb.third)),
    *(form for adjective in lexicon.ADJECTIVES.values() for form in (adjective.english, adjective.german)),
    *"""the this that these and but because although when why who whom what will can must should did does had has was
        were are her his him she they them their our not now often der die das den dem ein eine mein dein sein ihr uns
        wir sie mir mich was wer wen wem warum wann wenn weil dass mann man her hin han hat ist war aber auch oder noch
        nach nicht nichts auf aus bei beim vom zum zur mit von ihm ihn ihnen seit hatte hatten wird werde werden waren
        wurde wurden kann mehr als alle alles immer heute morgen gestern selten manchmal jeden sehr hier dort into from
        over under with then than here there every never always sometimes today tomorrow very too much more many would
        should could being which while where whose been about after before over only also vicar vice card hole heil none rape raped
        slut nazi hure arsch anal penis dick""".split()])
_SPEAKABLE = re.compile(r'(?!\w[^aeiouyäöülrh]{2})(?!\w[lr][^aeiouyäöü])[A-ZÄÖÜ](?=.*[aeiouyäöü])'
                        r'(?!.*[^aeiouyäöü]{4})(?!.*(.)\1\1)[a-zäöüß]{3,10}')


def some_of(draft: Draft, kind: str) -> str:
  """Return a name of a class ('first name', 'surname' or 'city') for the draft's split; the caller notes it."""
  split = draft.wanted or 'train'
  if split == 'train':
    return _spelt(draft, kind) if draft.chance(_MADE_UP) else draft.choose(_listed(kind, 'train'))
  return draft.choose(_listed(kind, split if draft.chance(_OWN) else 'train'))


@functools.cache
def _listed(kind: str, split: str) -> tuple[str, ...]:
  """Return the listed names that a split owns."""
  return tuple(text for text in LISTS[kind] if split_of(('name', text)) == split)


@functools.cache
def _letters(kind: str, context: int) -> dict[str, str]:
  """Return what follows each `context` letters in training's names, as often as it does; "$" is the end."""
  follow = {}
  for text in _listed(kind, 'train'):
    padded = '^' * context + text + '$'
    for place in range(context, len(padded)):
      before = padded[place - context:place]
      follow[before] = follow.get(before, '') + padded[place]
  return follow


def _spelt(draft: Draft, kind: str) -> str:
  """Return a made-up name: each letter follows the three before it, at times only the one."""
  while True:
    text = '^^^'
    while not text.endswith('$') and len(text) < 16:
      context = 3 if draft.chance(0.6) else 1
      text += draft.choose(_letters(kind, context).get(text[-context:]) or _letters(kind, 1)[text[-1]])
    text = text.strip('^$')
    if _SPEAKABLE.fullmatch(text) and text not in _WORDS and not {text, f'{text}s'} & lexicon.LISTED_NAMES:
      return text
