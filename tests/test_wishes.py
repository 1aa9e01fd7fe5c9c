"""Wishes of requests: which contradict each other, what notes say of them, and that every search meets the others."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from decoding import wishes
from decoding.batches import lay_automata, lay_prefixes, length_class, wish_class
from decoding.continuer import Continuer
from decoding.requests import Request
from decoding.translator import Translator
from tests.conftest import BOS, EOS, FILLER
from tests.explorer_stand_ins import shaken, small_translator, small_vocabulary
from tests.test_constraints import ALL, LONGEST, V, draw_wishes, feasible_wishes, outputs, repeats, rules_of
from tests.test_search import Cache, chain_step, log_probability
from transformer import architectures, search, tokens
from transformer.config import LanguageModelConfig, ModelConfig
from transformer.search import SearchConfig, SearchProblem, Sentences, automaton, beginning, constraints


class Letters:
  """A vocabulary of one token a letter; its other methods are not read."""

  unk_id = -1  # of no letter

  def encode(self, text):
    return [ord(letter) - ord('a') for letter in text if letter != ' ']


def settle(limit=LONGEST, line=3, **asked):
  return wishes.settle(Request('', **asked), Letters(), limit, line)


def spelt(phrase):
  return ''.join(chr(ord('a') + token) for token in phrase)


@pytest.mark.parametrize('count', [2, 3, 4, 6])
@pytest.mark.parametrize('width', [2, 4])
def test_phrases_longer_than_the_beam_are_written_when_they_are_likely(count, width):
  """By hand: any of five tokens is likelier than the phrase's first, and the phrase is likely once it is begun."""
  entries, limit = 20, 20
  phrase = tuple(range(12, 12 + count))
  chance = np.full((entries, entries), 1e-3)
  chance[:, 5:10], chance[:, phrase[0]], chance[:, EOS] = 0.15, 0.01, 0.2
  for before, after in zip(phrase, phrase[1:]):
    chance[before] = 1e-3
    chance[before, after] = 0.9
  chance[phrase[-1]] = 1e-3
  chance[phrase[-1], EOS] = 0.9
  table = np.broadcast_to(np.log(chance / chance.sum(-1, keepdims=True)), (1, entries, entries, entries)).astype(np.float32)
  rules = constraints.phrases(EOS, are_required=True),
  known = automaton.stack([automaton.build((phrase,), ())]),
  problem = SearchProblem(chain_step, limit, BOS, EOS, FILLER, rules=rules)
  config = SearchConfig(beam_size=width, length_penalty='none')
  found = jax.jit(lambda cache: search.search(problem, Sentences(cache, np.array([limit]), rules=known), config))(
      Cache(np.full((1, width), BOS, np.int32), table))
  assert found.tokens[0, 0, :found.lengths[0, 0]].tolist() == [*phrase, EOS]


@pytest.mark.parametrize('asked, limit, note', [
    (dict(required=('ab',), forbidden=('ab',)), 6,
     'line 3: required "ab" and forbidden "ab" contradict each other; the line is translated without them'),
    (dict(prefix='ab', forbidden=('b', 'c')), 6,
     'line 3: prefix "ab" and forbidden "b" contradict each other; the line is translated without them'),
    (dict(required=('abc', 'e'), forbidden=('bc', 'ee')), 9,
     'line 3: required "abc" and forbidden "bc" contradict each other; the line is translated without them'),
    (dict(required=('abc', 'cde', 'b'), forbidden=('cd',)), 9,
     'line 3: required "cde" and forbidden "cd" contradict each other; the line is translated without them'),
    (dict(prefix='abcdef'), 6, 'line 3: prefix "abcdef" needs 6 tokens, but the translation may have 5 '
     '(search.extra_length); the line is translated without it'),
    (dict(required=('abc', 'b', 'cba')), 5, 'line 3: required "abc" and required "cba" need 5 tokens, but the '
     'translation may have 4 (search.extra_length); the line is translated without them')])
def test_wishes_that_cannot_be_met_together_are_named_and_left_out(asked, limit, note):
  found = settle(limit, **asked)
  assert found.notes == (note,)
  named = lambda kind, phrase: f'{kind} "{phrase}"' in note
  kept = {kind: tuple(phrase for phrase in asked.get(kind, ()) if not named(kind, phrase))
          for kind in ('required', 'forbidden')}
  again = settle(limit, prefix='' if 'prefix' in note else asked.get('prefix', ''), **kept)
  assert not again.notes and again.prefix == found.prefix
  for one, other in zip(again.phrases or (), found.phrases or ()):
    np.testing.assert_array_equal(one, other)


def test_empty_and_repeated_phrases_are_no_wishes():
  assert settle(required=('', ' '), forbidden=('',)) == wishes.Wishes()
  assert not settle(5, required=('abcd', 'abcd', 'a bcd')).notes  # once is enough


def test_each_contradiction_has_a_note():
  found = settle(required=('a', 'b', 'c'), forbidden=('a', 'b', 'd'))
  assert len(found.notes) == 2 and '"a"' in found.notes[0] and '"b"' in found.notes[1]
  assert found.phrases.goal == 1  # c is kept
  assert automaton.shortest(found.phrases, [3]) > automaton.IMPOSSIBLE  # and no d


def test_phrases_beyond_what_tables_hold_are_left_out_from_the_end():
  phrases = tuple(''.join(chr(ord('a') + 3 * n + place) for place in range(3)) for n in range(10))
  found = settle(99, required=phrases, forbidden=('zz',))
  assert found.notes == (f'line 3: required "{phrases[8]}" and required "{phrases[9]}" are too many beside the other 8 '
                         'phrases; the line is translated without them',)
  assert found.phrases.goal == 24
  many = tuple(chr(1000 + 2 * n) + chr(1001 + 2 * n) for n in range(400))
  note, = settle(99, required=('ab',), forbidden=many).notes
  assert 'forbidden' in note and 'more are too many beside the other' in note and len(note) < 300


def test_a_conflict_among_many_is_found_soon(monkeypatch):
  asked = [wishes._Wish('required', str(n), (n,)) for n in range(300)]
  tried = []
  is_met = lambda some: tried.append(some) or not {17, 202, 203} <= {wish.ids[0] for wish in some}
  assert [wish.ids[0] for wish in wishes._conflict(asked, is_met)] == [17, 202, 203]
  assert len(tried) < 100


def test_phrases_that_the_vocabulary_cannot_spell_are_left_out():
  class Words(Letters):
    unk_id = 25

    def encode(self, text):
      return [min(token, 25) if 0 <= token else 25 for token in super().encode(text)]

  found = wishes.settle(Request('', prefix='?', required=('ab', 'a?'), forbidden=('c', '!')), Words(), 9, 3)
  assert found.notes == ('line 3: the vocabulary has no entry for a part of prefix "?", required "a?" and forbidden "!"; '
                         'the line is translated without them',)
  assert found.prefix == () and found.phrases.goal == 2
  assert automaton.shortest(found.phrases, [2]) > automaton.IMPOSSIBLE > automaton.shortest(found.phrases, [25])


def test_a_prefix_nearly_as_long_as_its_translation_may_be_is_written():
  one, vocabulary = small_translator(), small_vocabulary()
  line, prefix = 'the tired dog sleeps ' * 3 + 'the dog sees', 'the dog sees it ' * 4 + 'cats'
  limit = len(vocabulary.encode(line)) + 1 + one.search_config.extra_length
  padded = length_class(len(vocabulary.encode(line)) + 1) + one.search_config.extra_length
  assert len(vocabulary.encode(prefix)) < limit and lay_prefixes([settle_in(vocabulary, prefix)], 8, 0).ids.shape[1] > padded
  assert one.translate([Request(line, prefix=prefix)])[0].text.startswith(prefix)


def test_a_prefix_is_padded_to_no_more_than_learned_positions():
  vocabulary = small_vocabulary()
  model = architectures.build(ModelConfig(vocabulary.size, vocabulary.size, d_model=14, num_heads=2, num_layers=1, d_ff=11,
                                          dropout=0.0, positions='learned', max_positions=60))
  params = model.init(jax.random.key(0))
  one = Translator([model], [params], vocabulary, vocabulary, SearchConfig(beam_size=2, extra_length=30))
  line, prefix = 'the dog sees it ' * 7, 'the dog sees it ' * 14
  count = len(vocabulary.encode(prefix))
  assert 56 < count < len(vocabulary.encode(line)) + 1 + 30 <= 60
  assert one.translate([Request(line, prefix=prefix)])[0].text.startswith(prefix.strip())


def settle_in(vocabulary, prefix):
  return wishes.settle(Request('', prefix=prefix), vocabulary, 99, 1)


@pytest.mark.parametrize('count', [60, pytest.param(1000, marks=pytest.mark.drill)])
def test_what_is_left_can_be_met_and_what_is_left_out_cannot(count):
  draw, contradictions = np.random.default_rng(count), 0
  for _ in range(count):
    limit, prefix, required, forbidden = draw_wishes(draw)
    found = settle(limit, prefix=spelt(prefix), required=tuple(map(spelt, required)),
                   forbidden=tuple(map(spelt, forbidden)))
    assert bool(found.notes) == (not outputs(limit, prefix, required, forbidden))
    contradictions += bool(found.notes)
    left = lambda kind, phrases: tuple(phrase for phrase in phrases
                                       if not any(f'{kind} "{spelt(phrase)}"' in note for note in found.notes))
    rest = (left('prefix', [prefix]) or ((),))[0], left('required', required), left('forbidden', forbidden)
    assert found.prefix == rest[0] and outputs(limit, *rest)
    for note in found.notes:
      blamed = [[phrase for phrase in phrases if f'{kind} "{spelt(phrase)}"' in note]
                for kind, phrases in (('prefix', [prefix]), ('required', required), ('forbidden', forbidden))]
      prefixes, needed, banned = blamed
      assert not outputs(limit, (prefixes or [()])[0], needed, banned)
      for part in range(3):
        for gone in blamed[part]:
          fewer = [[phrase for phrase in phrases if (number, phrase) != (part, gone)]
                   for number, phrases in enumerate(blamed)]
          assert outputs(limit, (fewer[0] or [()])[0], *fewer[1:])
  assert count / 5 < contradictions < count * 4 / 5


def test_automata_of_a_batch_are_laid_in_few_shapes():
  rows = [settle(required=('ab', 'c')), settle(), settle(forbidden=('abcde',))]
  assert lay_automata([settle()], 8) is None
  laid = lay_automata(rows, 8)
  assert all(part.shape[0] == 8 for part in laid) and laid.tokens.shape == (8, 8) and laid.next.shape[1:] == (32, 9)
  for row, one in enumerate(rows):
    alone = one.phrases or automaton.build((), ())
    in_batch = automaton.Automaton(*(part[row] for part in laid))
    assert wish_class(one) == {0: (0, 8, 32, 4), 1: (0,), 2: (0, 8, 32, 0)}[row]
    for text in ALL[4]:
      assert automaton.shortest(in_batch, text) == automaton.shortest(alone, text)


WIDE = dict(beam_size=256, length_penalty='none')  # holds all that four tokens can be written in four places


def search_for(cases, config, seed):
  """Search in random chains; return the chains and (output, log-probability) of all that is found for each case."""
  rules, known = rules_of(cases, config.no_repeat_ngram, config.min_length)
  table = np.random.default_rng(seed).normal(size=(len(cases), V, V, V)).astype(np.float32) * 2.0
  rows = np.arange(len(cases), dtype=np.int32)
  prefixes = tokens.pad([case[1] for case in cases], len(cases), 3, FILLER)
  cache = beginning.read(chain_step, Cache(jnp.full((len(cases), config.width), BOS), jnp.asarray(table)),
                         tokens.shift_right(prefixes, BOS), config.width)
  sentences = Sentences(cache, np.array([case[0] for case in cases], np.int32), search.row_keys(config.seed, rows),
                        known, prefixes)
  problem = SearchProblem(chain_step, LONGEST, BOS, EOS, FILLER, rules)
  found = jax.tree.map(np.asarray, jax.jit(lambda some: search.search(problem, some, config))(sentences))
  return table, [[(tuple(tokens[:length].tolist()), log_prob) for tokens, length, log_prob, score in zip(*row)
                  if score > search.NEVER]
                 for row in zip(found.tokens, found.lengths, found.log_probs, found.scores)]


@pytest.mark.parametrize('rounds', [1, pytest.param(17, marks=pytest.mark.drill)])
@pytest.mark.parametrize('options', [
    dict(beam_size=1), dict(beam_size=3, n_best=3), dict(beam_size=4, groups=2, n_best=4), dict(strategy='sample'),
    WIDE, dict(beam_size=1, min_length=2), dict(beam_size=3, min_length=3), dict(strategy='sample', min_length=2),
    dict(beam_size=1, no_repeat_ngram=2), dict(beam_size=3, no_repeat_ngram=1),
    pytest.param(WIDE | dict(no_repeat_ngram=2), marks=pytest.mark.long),
    pytest.param(WIDE | dict(min_length=2), marks=pytest.mark.long)], ids=lambda options: '-'.join(map(str, options.values())))
def test_every_search_meets_the_wishes(options, rounds):
  """Against lists of all outputs: something is always found, all of it is possible, and a wide beam finds the best."""
  config, is_wide, best = SearchConfig(**options), options.items() >= WIDE.items(), set()
  size, count = config.no_repeat_ngram, 12 if is_wide else 60
  for seed in range(rounds):
    cases = [(min(limit, 5), *rest) if is_wide else (limit, *rest)
             for limit, *rest in feasible_wishes(count, seed) if not is_wide or outputs(min(limit, 5), *rest)]
    cases[:1] = [(5, (), ((0, 1, 2),), ((2, 0),))]  # which greedy search once could not write
    table, found = search_for(cases, config, seed)
    for row, ((limit, prefix, *phrases), listed) in enumerate(zip(cases, found)):
      possible = [text for text in outputs(limit, prefix, *phrases) if len(text) > min(config.min_length, limit - 1)]
      if size and not phrases[0]:
        possible = [text for text in possible
                    if not any(repeats(text[:end], size) for end in range(len(prefix) + 1, len(text) + 1))]
      assert listed and len({text for text, _ in listed}) == len(listed)
      cost = lambda text, row=row, prefix=prefix: (log_probability(table[row], text)
                                                   - (log_probability(table[row], prefix) if prefix else 0.0))
      for text, log_prob in listed:
        assert text in possible and abs(log_prob - cost(text)) < 1e-3
      if is_wide and not (size and phrases[0]):
        assert max(map(cost, possible)) - listed[0][1] < 1e-3
        best.add(listed[0][0])
  assert not is_wide or len(best) > 1


def test_a_continuation_repeats_no_ngram_of_its_prompt():
  vocabulary = small_vocabulary()
  model = architectures.build(LanguageModelConfig(vocabulary.size, vocabulary.size, d_model=14, num_heads=2,
                                                  num_layers=2, d_ff=11, dropout=0.0))
  params, prompt = shaken(jax.jit(model.init)(jax.random.key(0))), 'the dog the dog'
  repeated = []
  for size in (0, 2):
    writer = Continuer(model, params, vocabulary, SearchConfig(beam_size=1, extra_length=9, no_repeat_ngram=size), 32,
                       batch_tokens=8)
    ids, begun = writer.continue_lines([prompt])[0].ids, len(vocabulary.encode(prompt))
    repeated.append([end for end in range(begun + 1, len(ids) + 1) if repeats(ids[:end], 2)])
  assert repeated[0] and not repeated[1]


def test_a_size_of_ngrams_below_zero_is_refused():
  with pytest.raises(ValueError, match='no_repeat_ngram is -1; expected 0 .off. or a positive number'):
    SearchConfig(no_repeat_ngram=-1)
