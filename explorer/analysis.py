"""Run a model over a corpus under teacher forcing and describe its heads: roles, alignment error, how local they are.

Sentences may have gold annotations, whose division into words may differ (Gold), as in the phrasebook and CoNLL-U.
"""

import collections
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from corpora import conllu, vocabulary
from corpora.phrasebook import builder, grammar
from decoding import alignments
from explorer import capture, pronouns, roles
from explorer.capture import Capture, TokenPair
from explorer.gates import KINDS
from explorer.texts import Text

_ROWS = 32
# The first word of each of the phrasebook's relations; the second word has the relation's name.
_HEAD_OF = {'subject': 'verb', 'object': 'verb', 'adjective': 'noun', 'antecedent': 'pronoun'}

DEPENDENCIES = ('nsubj', 'obj', 'amod', 'advmod')  # the Universal Dependencies of Voita et al., §5.2


@dataclasses.dataclass(frozen=True)
class Gold:
  """Gold annotations of a sentence pair. Words are numbered as in `source_words` and `target_words`."""

  source_words: tuple[str, ...]
  target_words: tuple[str, ...]
  relations: tuple[tuple[str, int, int], ...]  # (name, source word of the query, source word of the key)
  links: frozenset[tuple[int, int]]  # word alignments (source word, target word); empty where not known


@dataclasses.dataclass(frozen=True)
class Pair:
  """A sentence and its translation as text."""

  source: str
  target: str
  gold: Gold | None = None


def phrasebook_pairs(split: str, data_dir: str | None) -> list[Pair]:
  """Return the pairs of a split of the phrasebook, English to German, with gold relations and alignments."""
  return [_phrasebook_pair(example) for example in builder.examples(split, data_dir)]


def _phrasebook_pair(example: dict[str, Any]) -> Pair:
  relations = []
  for number, first, second in example['relations'].tolist():
    name = builder.RELATIONS[number]
    relations += [(f'{_HEAD_OF[name]} → {name}', first, second), (f'{name} → {_HEAD_OF[name]}', second, first)]
  return Pair(example['en'], example['de'], Gold(
      tuple(grammar.tokens(example['en'])), tuple(grammar.tokens(example['de'])),
      tuple(relations), frozenset(map(tuple, example['alignment'].tolist()))))


def conllu_pairs(sentences: Sequence[conllu.Sentence], targets: Sequence[str]) -> list[Pair]:
  """Return the pairs of sentences from CoNLL-U and their translations, with the dependencies."""
  return [Pair(sentence.text, target, Gold(sentence.words, (), tuple(_both_ways(sentence)), frozenset()))
          for sentence, target in zip(sentences, targets)]


def _both_ways(sentence: conllu.Sentence) -> Iterator[tuple[str, int, int]]:
  for name, word, head in sentence.dependencies:
    if name in DEPENDENCIES:
      yield f'{name} → its head', word, head
      yield f'head → {name}', head, word


class TrainingCounts:
  """How often words occur in the training text, whatever the case of their first letter.

  A text of several words counts as its rarest one; one without letters, such as punctuation, is never rare.
  """

  def __init__(self, counts: Mapping[str, int]):
    self._counts, self._with_marks = counts, getattr(counts, 'with_marks', True)

  def __getitem__(self, text: str) -> float:
    forms = lambda word: {word, word[:1].lower() + word[1:], word[:1].upper() + word[1:]}
    return min((sum(self._counts.get(form, 0) for form in forms(word)) for word in vocabulary.words(text, self._with_marks)),
               default=float('inf'))


def token_pairs(pairs: Sequence[Pair], vocabularies: tuple[Any, Any]) -> list[TokenPair]:
  """Return the pairs as token ids, both sides ended by EOS."""
  sides = [vocabulary.encode_batch([getattr(pair, side) for pair in pairs])
           for side, vocabulary in zip(('source', 'target'), vocabularies)]
  ended = lambda ids, vocabulary: [*ids, vocabulary.eos_id]
  return [TokenPair(*map(ended, both, vocabularies)) for both in zip(*sides)]


def captures(model: Any, params: Any, sentences: Sequence[TokenPair], vocabularies: tuple[Any, Any]
             ) -> Iterator[tuple[int, Capture]]:
  """Yield (place, capture) of every token pair; those of similar length are computed together."""
  order = sorted(range(len(sentences)), key=lambda i: (len(sentences[i].source), len(sentences[i].target)))
  for start in range(0, len(order), _ROWS):
    places = order[start:start + _ROWS]
    # The last batch is filled up, so that as few programs as possible are compiled.
    rows = [sentences[i] for i in [*places, *places[:1] * (_ROWS - len(places))]]
    yield from zip(places, capture.record(model, params, rows, *vocabularies))


def regrouped(text: Text, pieces: Sequence[str], words: Sequence[str]) -> tuple[Text, list[int]]:
  """Divide a text that ends in EOS into other words; return it, and for each given word the one that contains it.

  Args:
    pieces: the part of the text that each stands for, see alignments.surfaces_of_text; EOS left out.
    words: the text without its spaces, divided as wanted. Words that share a piece become one.
  """
  begun = alignments.words_of_pieces(pieces, words)
  places = np.unique(begun)
  holder = (np.searchsorted(places, np.arange(len(words)), side='right') - 1).tolist()
  ends = [*places[1:], len(words)]
  spelt = tuple(' '.join(words[start:end]) for start, end in zip(places, ends))
  of_piece = (*np.searchsorted(places, begun).tolist(), len(places))
  return dataclasses.replace(text, words=(*spelt, text.words[-1]), word_of_piece=of_piece), holder


def _surfaces(pair: Pair, reading: TokenPair, vocabularies: tuple[Any, Any]) -> list[list[str]]:
  """Return the part of source and target, as they are typed, that each token of a pair stands for, EOS left out."""
  return [alignments.surfaces_of_text(vocabulary, text)[:len(ids) - 1] for vocabulary, text, ids in zip(
      vocabularies, (pair.source, pair.target), (reading.source, reading.target))]


def in_gold_words(seen: Capture, reading: TokenPair, pair: Pair, vocabularies: tuple[Any, Any]
                  ) -> tuple[Capture, list[int]]:
  """Divide the capture's source into gold words; return it, and for each of these the word that contains it."""
  if not pair.gold:
    return seen, []
  source, holder = regrouped(seen.source, _surfaces(pair, reading, vocabularies)[0], pair.gold.source_words)
  return dataclasses.replace(seen, source=source), holder


def observed(seen: Capture, holder: Sequence[int], pair: Pair, frequency: Mapping[str, int],
             counts: TrainingCounts | None = None) -> dict[str, roles.Observed]:
  """Return the attention of each kind between words, with what is known of the words, for roles.describe.

  Args:
    seen, holder: as in_gold_words returns them.
    frequency: how often words occur in the analysed text.
    counts: of source words in the training text, where the run has them.
  """
  found = {}
  for kind in seen.weights:
    rows, columns = seen.axes(kind)
    relations = tuple((name, holder[row], holder[column]) for name, row, column in pair.gold.relations
                      if holder[row] != holder[column]) if pair.gold and kind == 'encoder' else ()
    found[kind] = roles.Observed(seen.by_word(kind), rows.special_words, columns.special_words, seen.even(kind),
                                 roles.rarest(columns.words, columns.special_words,
                                              frequency if counts is None or kind == 'decoder' else counts), relations)
  return found


def word_frequencies(sentences: Sequence[tuple[int, Capture]]) -> collections.Counter:
  """Count how often each word occurs in these texts, on either side."""
  return collections.Counter(word for _, seen in sentences for text in (seen.source, seen.predicts)
                             for word in (text.words if text else ()))


def align_error(model_captures: Sequence[tuple[int, Capture]], sentences: Sequence[TokenPair], pairs: Sequence[Pair],
                vocabularies: tuple[Any, Any]) -> np.ndarray | None:
  """Compute the alignment error rate of every cross-attention head [N, H] against gold links; None without these."""
  known = [(place, seen) for place, seen in model_captures if 'cross' in seen.weights
           and pairs[place].gold and pairs[place].gold.links]
  if not known:
    return None
  layers, heads = known[0][1].weights['cross'].shape[:2]
  rates = np.zeros((layers, heads))
  words = {place: list(map(alignments.words_of_pieces, _surfaces(pairs[place], sentences[place], vocabularies),
                           (pairs[place].gold.source_words, pairs[place].gold.target_words))) for place, _ in known}
  gold = [set(pairs[place].gold.links) for place, _ in known]
  for layer, head in np.ndindex(layers, heads):
    found = [alignments.word_links(seen.weights['cross'][layer, head, :-1, :-1], *words[place])
             for place, seen in known]
    rates[layer, head] = alignments.error_rate(found, gold)
  return rates


def head_table(model: Any, params: Any, pairs: Sequence[Pair], vocabularies: tuple[Any, Any],
               counts: TrainingCounts | None = None) -> dict[str, Any]:
  """Describe every head over the pairs: by kind, a row of records for each layer, see roles.describe.

  Args:
    counts: see observed().
  """
  sentences = token_pairs(pairs, vocabularies)
  seen = list(captures(model, params, sentences, vocabularies))
  worded = [(place, *in_gold_words(each, sentences[place], pairs[place], vocabularies)) for place, each in seen]
  frequency = word_frequencies([(place, each) for place, each, _ in worded])
  corpora = collections.defaultdict(list)
  for place, each, holder in worded:
    for kind, found in observed(each, holder, pairs[place], frequency, counts).items():
      corpora[kind].append(found)
  table = {kind: roles.describe(corpus) for kind, corpus in corpora.items()}
  errors = align_error(seen, sentences, pairs, vocabularies)
  if errors is not None:
    for layer, head in np.ndindex(errors.shape):
      table['cross'][layer][head]['alignment_error'] = round(float(errors[layer, head]), 4)
  return table


def by_layer(table: dict[str, Any], names: Sequence[str] = ('entropy', 'near', 'first', 'last', 'special')
             ) -> dict[str, list[dict[str, float]]]:
  """Return the mean of each figure over each layer's heads."""
  return {kind: [{name: round(float(np.mean([head[name] for head in layer])), 4) for name in names} for layer in layers]
          for kind, layers in sorted(table.items(), key=lambda item: list(KINDS).index(item[0]))}


# ------------------------------------------------------------------------------------------------------ "it"


def pronoun_readings(model: Any, params: Any, vocabularies: tuple[Any, Any], split: str, data_dir: str | None,
                     shuffle: np.random.Generator | None = None) -> list[pronouns.Reading]:
  """Return the attention of every head from "it" in the phrasebook's pronoun pairs.

  Args:
    shuffle: puts the words of each source in a random order, the same in both readings of a pair.
  """
  examples = [example for example in builder.examples(split, data_dir) if example['pair']]
  orders: dict[str, np.ndarray] = {}
  pairs, places = [], []
  for example in examples:
    words = grammar.tokens(example['en'])
    if shuffle is not None and example['pair'] not in orders:
      orders[example['pair']] = shuffle.permutation(len(words))
    order = orders.get(example['pair'], np.arange(len(words)))
    spelt = [words[i] for i in order] if shuffle is not None else words
    source = ' '.join(spelt) if shuffle is not None else example['en']
    pairs.append(Pair(source, example['de'], Gold(tuple(spelt), tuple(grammar.tokens(example['de'])), (),
                                                  frozenset())))
    places.append(np.argsort(order))  # the new place of each word of the sentence
  nouns = _antecedents(examples)
  sentences, found = token_pairs(pairs, vocabularies), [None] * len(examples)
  for number, seen in captures(model, params, sentences, vocabularies):
    pair, reading, example = pairs[number], sentences[number], examples[number]
    (source, in_source), (target, in_target) = map(
        regrouped, (seen.source, seen.predicts), _surfaces(pair, reading, vocabularies),
        (pair.gold.source_words, pair.gold.target_words))
    seen = dataclasses.replace(seen, source=source, predicts=target)
    at = lambda word: in_source[int(places[number][word])]
    german = [word.lower() for word in pair.gold.target_words]
    written = in_target[german.index('weil') + 1]
    right, wrong, pronoun, adjective = _words_of(example, nouns)
    if pronoun is None or at(right) == at(wrong):
      continue
    found[number] = pronouns.Reading(
        example['pair'], at(right), at(wrong), at(adjective), at(pronoun),
        {'encoder': seen.by_word('encoder')[:, :, at(pronoun)], 'cross': seen.by_word('cross')[:, :, written]})
  return [reading for reading in found if reading is not None]


def _antecedents(examples: Sequence[dict]) -> dict[tuple[str, str], int]:
  """Return the number of the English word that "it" stands for, by pair and reading."""
  number = builder.RELATIONS.index('antecedent')
  return {(example['pair'], example['reading']): int(row[2]) for example in examples for row in example['relations']
          if row[0] == number}


def _words_of(example: dict, nouns: dict[tuple[str, str], int]) -> tuple[int, int, int | None, int]:
  """Return the word numbers of the right noun, other noun, "it" (None without the other reading) and adjective."""
  relation = {builder.RELATIONS[row[0]]: row for row in example['relations'].tolist()}
  other = nouns.get((example['pair'], 'b' if example['reading'] == 'a' else 'a'))
  pronoun = relation['antecedent'][1] if other is not None else None
  words = grammar.tokens(example['en'])
  adjective = len(words) - 1 - words[::-1].index(example['adjective'])
  return relation['antecedent'][2], -1 if other is None else other, pronoun, adjective


def about_it(model: Any, params: Any, random: Any, vocabularies: tuple[Any, Any], data_dir: str | None
             ) -> dict[str, Any]:
  """Find the heads that resolve "it", see pronouns: with trained weights, random weights, and shuffled sentences."""
  splits = ('validation', 'test')
  in_splits = lambda weights, *shuffle: [pronoun_readings(model, weights, vocabularies, split, data_dir, *shuffle)
                                         for split in splits]
  trained, fresh, shuffled = in_splits(params), in_splits(random), in_splits(params, np.random.default_rng(0))
  offset, sentences = pronouns.best_offset(*trained)
  record: dict[str, Any] = {
      'pairs': {split: len({reading.pair for reading in found}) for split, found in zip(splits, trained)},
      'best_fixed_offset': {'offset': offset, 'sentences_right_test': round(sentences, 4),
                            'pairs_right_test': round(pronouns.fixed_offset_pairs(trained[1], offset), 4)}}
  for kind in ('encoder', 'cross'):
    record[kind] = {
        'trained': pronouns.as_record(pronouns.best_head(*trained, kind)),
        'random weights': pronouns.as_record(pronouns.best_head(*fresh, kind)),
        'shuffled sentences': pronouns.as_record(pronouns.best_head(*shuffled, kind)),
        'deciding adjective': {name: pronouns.adjective_head(*found, kind) for name, found in (
            ('trained', trained), ('random weights', fresh))}}
  return record
