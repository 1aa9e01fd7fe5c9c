"""Lines longer than a model: taken apart at seams, nothing of them lost, one line out for each line in."""

import json
import pathlib
import re

import jax
import numpy as np
import pytest

from checks.errors import ConfigError
from corpora.marian_vocabulary import MarianVocabulary, PieceList, packed
from corpora.vocabulary import Vocabulary, VocabularyConfig, train
from decoding import long_lines
from decoding.requests import Request, Translation
from decoding.translator import Translator
from tests.explorer_stand_ins import small_translator, small_vocabulary
from transformer.search import SearchConfig

MARIAN = pathlib.Path(__file__).parent / 'marian_fixture'
fits = lambda text: len(text) <= 20


@pytest.mark.parametrize('text, parts', [
    ('It fits. As it is.', ['It fits. As it is.']),
    ('One sentence here. “Another?” And a third!', ['One sentence here.', '“Another?”', 'And a third!']),
    ('When it rains, stay, or go: now, or never.', ['When it rains, stay,', 'or go: now,', 'or never.']),
    ('a b c d e f g h i j k l m n', ['a b c d e f g h i j', 'k l m n']),
    ('x' * 45, ['x' * 20, 'x' * 20, 'x' * 5]),
    ('第一个词，第二个词，第三个词，第四个词，第五个词，', ['第一个词，第二个词，第三个词，第四个词，', '第五个词，']),
    ('one  two, three  four five', ['one  two,', 'three  four five']), ('a  b  c  d  e  f  g  h', ['a  b  c  d  e  f  g', 'h']),
    ('他说：“这是第一句话。”然后他走了，走得很快。', ['他说：“这是第一句话。”', '然后他走了，走得很快。']),
    ('这是第一句话。这是第二句话。这是第三句话。这是第四句话。', ['这是第一句话。', '这是第二句话。', '这是第三句话。', '这是第四句话。'])])
def test_texts_come_apart_at_the_coarsest_seams(text, parts):
  assert list(long_lines.split(text, fits)) == parts


def test_nothing_is_lost_and_every_part_fits():
  draw = np.random.default_rng(4)
  for _ in range(200):
    text = ''.join(draw.choice(list('abcdé  .,!?;—\u3000。"'), size=draw.integers(1, 120)))
    parts = list(long_lines.split(text, fits))
    assert re.sub(r'\s', '', ''.join(parts)) == re.sub(r'\s', '', text)
    assert all(map(fits, parts))


LONG = 'the dog sees it. a cat sees the wide street. cats sleep because it was tired, and the dog sleeps.'
LINES = ['the dog sees it', LONG, '', 'cats sleep']


def splitter(config=None, said=None, longest=9, cuts=None):
  base = small_translator()
  one = Translator([base.parts[0]], base.params, small_vocabulary(), small_vocabulary(),
                   config or base.search_config, 8, said.append if said is not None else None, jax.devices()[:1])
  one.longest_source = cuts or one.longest_source
  return long_lines.Splitter(one, longest, 'de')


def test_a_line_in_parts_is_one_line_and_is_named():
  said = []
  one = splitter(said=said)
  found = one.translate(LINES, first=40)
  assert len(found) == 4 and found[2].text == ''
  parts = list(long_lines.split(LONG, lambda text: len(small_vocabulary().encode(text)) < 9))
  assert len(parts) > 3
  assert found[1].text == ' '.join(part.text for part in one.translate(parts) if part.text.strip())
  assert found[0].text == one.translate(LINES[:1])[0].text
  size = len(small_vocabulary().encode(LONG)) + 1
  assert f'line 42 has {size} tokens and is translated in parts of up to 9' in said
  assert one.notes()[0] == f'lines longer than 9 tokens were translated in parts: 1 in {len(parts)} parts'
  assert not any('cut' in text for text in [*said, *one.notes()])


def test_parts_change_no_draw_of_another_line():
  one = splitter(SearchConfig(strategy='sample', extra_length=3))
  with_long, without = one.translate(LINES), one.translate([LINES[0], '', '', LINES[3]])
  assert [with_long[i].text for i in (0, 3)] == [without[i].text for i in (0, 3)]
  again = one.translate(['the dog sees it. ' * 4])[0]
  assert len(set(again.text.split(' '))) > 1


def test_a_very_long_line_is_translated_in_portions_with_progress(monkeypatch):
  one, done, portions = splitter(), [], []
  whole, translate = one.translate([*LINES, LONG]), one._translator.translate
  monkeypatch.setattr(long_lines, '_AT_ONCE', 3)
  monkeypatch.setattr(one._translator, 'translate', lambda parts, *more: (portions.append(len(parts)),
                                                                          translate(parts, *more))[1])
  assert [found.text for found in one.translate([*LINES, LONG], done.append)] == [found.text for found in whole]
  assert set(portions[:-1]) == {3} and len(done) >= len(portions) > 2
  assert 3.9 < sum(done) <= 5.0  # lines; spaces between parts, and blank lines, do not count


def test_splitting_takes_few_measurements():
  asked = []
  parts = list(long_lines.split('x' * 100_000, lambda text: asked.append(text) or len(text) <= 1000))
  assert parts == ['x' * 1000] * 100 and len(asked) < 40 * len(parts)


def test_required_phrases_of_a_split_line_are_refused():
  wanted = Request(LONG, required=('dog',))
  with pytest.raises(ConfigError, match='line 8 has .* would be split into .* its required phrases'):
    splitter().translate([wanted], first=7)
  one = splitter()
  found = one.translate([Request(LONG, prefix='c', forbidden=('e',)), Request('cats sleep', required=('a',))])
  assert found[0].text.startswith('c') and 'a' in found[1].text


class Listening:
  """A translator that gives its sources back."""

  longest_source, say = 99, staticmethod(lambda text: None)

  def __init__(self, vocabulary):
    self.parts = None, vocabulary, vocabulary

  def translate(self, requests, progress, first, draw):
    self.asked = [request.source for request in requests]
    return [Translation(source) for source in self.asked]


def vocabulary_with_tags():
  options = VocabularyConfig(size=330, tags=('<2de>', '<2zh>', '<bt>'))
  return Vocabulary(train(options, [LONG, '<2de> <bt> the dog sees it'] * 5), 'tagged')


def vocabulary_of_marian():
  ids = json.loads((MARIAN / 'vocab.json').read_text(encoding='utf-8'))
  listed = PieceList(tuple(sorted(ids, key=ids.get)), ids['<pad>'], ids['</s>'], ids['<unk>'], ids['<pad>'])
  return MarianVocabulary(packed((MARIAN / 'source.spm').read_bytes(), listed), 'marian')


@pytest.mark.parametrize('make, tags', [
    (vocabulary_with_tags, ['<2de> ', '<bt> <2de> ', '']), (vocabulary_of_marian, ['>>de<< ', '>>de<<', ''])])
def test_every_part_has_the_tags_of_its_line(make, tags):
  vocabulary = make()
  fits = lambda text: len(vocabulary.encode(text)) < 12
  for tag in tags:
    one = Listening(vocabulary)
    long_lines.Splitter(one, 12, 'de').translate([tag + LONG, tag + 'the dog'])
    *parts, whole = one.asked
    assert len(parts) > 3 and whole == tag + 'the dog' and all(map(fits, parts))
    assert all(part.startswith(tag) and not {*'<>'} & {*part[len(tag):]} for part in parts)
    assert [part[len(tag):] for part in parts] == list(long_lines.split(LONG, lambda text, tag=tag: fits(tag + text)))
  with_text = 'dog <2de> ' + LONG  # a tag elsewhere is text
  one = Listening(vocabulary)
  long_lines.Splitter(one, 12, 'de').translate([with_text])
  assert sum('<2de>' in part for part in one.asked) == 1


def test_parts_into_a_language_without_spaces_are_joined_without_any():
  one = Listening(vocabulary_with_tags())
  chinese, german = long_lines.Splitter(one, 12, 'mul').translate([f'<2zh> {LONG}', f'<2de> {LONG}'])
  half = len(one.asked) // 2
  assert half > 3 and chinese.text == ''.join(one.asked[:half]) and german.text == ' '.join(one.asked[half:])
  thai, = long_lines.Splitter(one, 12, 'th').translate([f'<2de> {LONG}'])  # it writes spaces between sentences alone
  assert thai.text == german.text


def test_lines_longer_than_training_read_are_counted():
  one = splitter()._translator
  one.longest_trained = 9
  one.translate(LINES, first=10)
  assert one.notes() == ['training read at most 9 tokens of a line, and longer ones are often translated badly: line 12']
