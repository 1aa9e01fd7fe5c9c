"""The words of a text, and the combining marks in them: accents and vowel signs, which belong to the letter before them."""

import functools
import re
import unicodedata

_FAR = (*range(0x10000, 0x20000), *range(0xE0100, 0xE01F0))  # code points beyond 16 bits among which are all marks there


def is_mark(character: str) -> bool:
  """Return whether a character is part of the one before it, as accents and the vowel signs of Hindi and Thai are."""
  return unicodedata.category(character).startswith('M')


@functools.cache
def _word(with_marks: bool) -> re.Pattern:
  """Compile what a word is, in which marks continue letters or end the word."""
  letter, run = r'[^\W\d_]', r'[^\W\d_]+'
  if with_marks:
    near, far = (''.join(filter(is_mark, map(chr, codes))) for codes in (range(0x300, 0x10000), _FAR))
    # Two sets: one that holds code points beyond 16 bits is searched from end to end at each character.
    run += rf'(?:(?:[{near}]|(?=[\U00010000-\U0010ffff])[{far}])+{letter}*)*'
  return re.compile(rf"{run}(?:['’\-]{run})*")


def words(text: str, with_marks: bool = True) -> list[str]:
  """Return the words of a text: runs of letters, with apostrophes and hyphens inside.

  Args:
    text: any text.
    with_marks: whether combining marks belong to the letters before them; in earlier versions they ended a word.
  """
  return _word(with_marks).findall(text)


class KnownWords(set[str]):
  """The words of a training text."""

  with_marks = True  # see words()


class WordCounts(dict[str, int]):
  """The words of a training text with their counts."""

  with_marks = True


def unseen_words(text: str, known: set[str]) -> list[str]:
  """Return the words of a text that training never saw. The case of a first letter makes no new word."""
  forms = lambda word: (word, word.lower(), word[:1].upper() + word[1:], word[:1].lower() + word[1:])
  found = dict.fromkeys(words(text, getattr(known, 'with_marks', True)))
  return [word for word in found if not any(form in known for form in forms(word))]
