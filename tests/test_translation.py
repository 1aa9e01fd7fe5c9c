"""Translators: the same answer whatever stands beside a line, on a model of phrasebook text that was never trained."""

import dataclasses
import functools
import json
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from checks.errors import ConfigError
from corpora import vocabulary as vocabularies
from corpora.splits import Pair
from decoding import alignments, batches, minimum_bayes_risk, output_formats, searcher
from decoding.batches import search_rows
from decoding.translator import Request, Translation, Translator
from decoding.wishes import Wishes
from tasks import trained
from tasks.translation import Translation as Translating
from tests.conftest import SIZES
from transformer import architectures, search
from transformer.config import ModelConfig
from transformer.search import SearchConfig

LINES = ['The dog sleeps.', 'Maria reads the book.', '', 'A cat', 'The dog sleeps.', 'He calls.', 'It was too wide.']
# As many tokens more than the source as the cache has from the start: each search is compiled once, without growth.
BEAM = SearchConfig(beam_size=3, extra_length=8, n_best=3)


@pytest.fixture(scope='module')
def parts():
  """Vocabulary, model and parameters that write many different words."""
  pairs = [Pair(line, line.replace('the', 'die').replace('The', 'Das')) for line in LINES if line] * 5
  model, _ = vocabularies.make(vocabularies.VocabularyConfig(size=310), pairs)
  vocabulary = vocabularies.Vocabulary(model, 'test')
  network = architectures.build(ModelConfig(**SIZES | dict(
      vocab_size=vocabulary.size, target_vocab_size=vocabulary.size, num_layers=1), norm='pre'))
  params = jax.tree.map(lambda leaf: 2.0 * leaf, jax.jit(network.init)(jax.random.key(3)))
  return vocabulary, network, params


@pytest.fixture(scope='module')
def translator(parts):
  """Of a configuration, on so many devices; each is made once."""
  vocabulary, network, params = parts

  @functools.cache
  def made(config=BEAM, devices=1, batch_tokens=256, models=1):
    return Translator([network] * models, [params] * models, vocabulary, vocabulary, config, batch_tokens,
                      devices=jax.devices()[:devices])
  return made


def assert_same(found, expected):
  assert [one.text for one in found] == [one.text for one in expected]
  for one, other in zip(found, expected):
    np.testing.assert_allclose(one.token_log_probs, other.token_log_probs, atol=1e-5)
    assert [o.text for o in one.others] == [o.text for o in other.others]


@pytest.mark.parametrize('config', [
    BEAM, SearchConfig(beam_size=1, extra_length=8), SearchConfig(strategy='sample', seed=7, extra_length=8),
    SearchConfig(beam_size=4, groups=2, extra_length=8, n_best=4)], ids=['beam', 'greedy', 'sample', 'diverse'])
def test_a_translation_depends_on_nothing_beside_it(translator, config):
  together = translator(config).translate(LINES)
  assert len({one.text for one in together}) > 4 and together[2].text == ''
  for number in (0, 3):
    alone = translator(config).translate(LINES[number:number + 1], first=number)
    assert_same(alone, together[number:number + 1])
  if config.strategy == 'sample':
    assert_same(translator(config, 8).translate(LINES), together)
  if config is BEAM:
    for devices in (2, 8):
      assert_same(translator(config, devices).translate(LINES), together)
    assert_same(translator(config, 1, 64).translate(LINES), together)  # fewer rows
    assert_same(translator(config).translate(LINES[::-1])[::-1], together)


def test_a_cache_that_grows_is_as_good_as_a_long_one(parts, translator, monkeypatch):
  vocabulary, network, params = parts
  monkeypatch.setattr(searcher, '_MARGIN', -4)  # so short that every translation outgrows it
  growing = Translator([network], [params], vocabulary, vocabulary, BEAM, 256, devices=jax.devices()[:1])
  assert_same(growing.translate(LINES[:1]), translator(BEAM).translate(LINES[:1]))


def test_devices_search_without_a_word_to_each_other(translator):
  eight = translator(BEAM, 8)
  batch = eight._batch([0], [[5, 6, 7]], [Wishes()], 8 * batches.QUEUE * 8, 8, [0], 0)
  text = eight._searching(8, False).lower(eight.params, batch, np.ones(8, np.int32)).compile().as_text()
  assert 'while' in text
  for collective in ('all-gather', 'all-reduce', 'all-to-all', 'collective-permute', 'reduce-scatter'):
    assert collective not in text


def test_scores_are_those_of_the_forced_output(translator):
  one = translator(BEAM)
  vocabulary = one.parts[1]
  found = one.translate(LINES)
  for rank in range(2):
    listed = [[line, *line.others][rank] if line.text else line for line in found]
    forced = one._score_ids(one._encode(LINES, range(len(LINES))), [[*line.ids, vocabulary.eos_id] for line in listed],
                            [line.text for line in listed], None)
    for line, scored in zip(listed, forced):
      assert line.log_prob == pytest.approx(scored.log_prob, abs=1e-4)
      assert line.score == pytest.approx(scored.score, abs=1e-4)
      np.testing.assert_allclose(line.token_log_probs, scored.token_log_probs, atol=2e-5)
  for line in found:
    assert line.score >= max((other.score for other in line.others), default=line.score)
    assert len({line.ids, *(other.ids for other in line.others)}) == len(line.others) + 1


def test_as_many_translations_are_listed_as_are_wanted(translator):
  everything, one = translator(BEAM).translate(LINES), translator(dataclasses.replace(BEAM, n_best=1)).translate(LINES)
  assert [len(line.others) for line in one] == [0] * len(LINES) and any(len(line.others) == 2 for line in everything)
  for line, other in zip(one, everything):
    assert line.text == other.text and line.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-5)


def test_a_batch_holds_so_many_tokens_of_all_beams(parts):
  vocabulary, network, params = parts
  for config, rows in ((BEAM, 8), (SearchConfig(beam_size=1, extra_length=8), 16)):
    told = []
    one = Translator([network], [params], vocabulary, vocabulary, config, 256, told.append, jax.devices()[:1])
    one._searching = lambda rows, to_the_limit: pytest.fail(f'{rows} rows')  # nothing needs to be searched
    with pytest.raises(pytest.fail.Exception, match=f'^{rows} rows'):
      one.translate(['A cat'])
    assert told[0].startswith(f'search batches of up to {rows} rows × 16 source tokens')
  assert search_rows(8, 2048, 4) == 64 and search_rows(1024, 2048, 4) == 8


def test_shapes_that_were_searched_before_are_not_traced_again(translator, monkeypatch):
  one = translator(BEAM)
  expected, traced = one.translate(LINES), []
  for name in ('search', '_cache', '_rules'):
    monkeypatch.setattr(one._searcher, name, lambda *inputs: traced.append(inputs))
  assert_same(one.translate(LINES[::-1])[::-1], expected)
  assert not traced


def test_an_ensemble_of_a_model_with_itself_is_the_model(translator):
  assert_same(translator(BEAM, models=2).translate(LINES[:2]), translator(BEAM).translate(LINES[:2]))


@pytest.mark.parametrize('config', [BEAM, SearchConfig(strategy='sample', extra_length=8)], ids=['beam', 'sample'])
def test_wishes_come_true(translator, config):
  one = translator(config)
  vocabulary = one.parts[1]
  free = one.translate(LINES[:2])
  first = vocabulary.decode(free[0].ids[:1]).strip() or 'xy'
  wanted = [Request(LINES[0], prefix='It'), Request(LINES[0], required=('A', 'He')),
            Request(LINES[0], forbidden=(first,)), Request(LINES[1])]
  found = one.translate(wanted)
  holds = lambda line, phrase: any(list(line.ids[n:n + len(ids)]) == ids for ids in [vocabulary.encode(phrase)]
                                   for n in range(len(line.ids)))
  assert list(found[0].ids[:len(ids := vocabulary.encode('It'))]) == ids
  for line in (found[1], *found[1].others):
    assert holds(line, 'A') and holds(line, 'He')
  for line in (found[2], *found[2].others):
    assert not holds(line, first)
  late = [note for note in one.notes() if note.startswith('a required phrase') and note.endswith('in line 2')]
  assert len(late) == (config.strategy != 'beam')  # where no beam looks for a place for it
  if config is BEAM:
    assert found[3].text == free[1].text


@pytest.mark.parametrize('config, models', [
    (BEAM, 2), pytest.param(SearchConfig(beam_size=4, groups=2, extra_length=40, n_best=4), 1, marks=pytest.mark.long),
    pytest.param(SearchConfig(strategy='sample', extra_length=40, no_repeat_ngram=2), 1, marks=pytest.mark.long)], ids=['ensemble', 'diverse', 'sample'])
def test_prefixes_read_in_one_pass_are_as_if_read_token_by_token(parts, translator, config, models):
  vocabulary, network, params = parts
  at_once = translator(config, models=models)
  steps = Translator([dataclasses.replace(network, prefill=None)] * models, [params] * models, vocabulary, vocabulary, config,
                     256, devices=jax.devices()[:1])
  long = 'It was the dog' if config is BEAM else LINES[1] * 2  # longer than the cache that a search begins with
  # The first two are read side by side, by one program.
  wanted = [Request(LINES[0], prefix='It'), Request(LINES[0], prefix='A dog'), Request(LINES[3], prefix=long)]
  before = at_once.tally.needed  # other tests use it, too
  found = at_once.translate(wanted)
  assert_same(found, steps.translate(wanted))
  for line, request in zip(found, wanted):
    ids = vocabulary.encode(request.prefix)
    assert list(line.ids[:len(ids)]) == ids and not any(line.token_log_probs[:len(ids)]) and any(line.token_log_probs)
  assert at_once.tally.needed - before == steps.tally.needed


@pytest.mark.parametrize('config', [BEAM, SearchConfig(strategy='sample', extra_length=8)], ids=['beam', 'sample'])
def test_wishes_that_contradict_each_other_are_named_and_left_out(translator, config, monkeypatch):
  one, told = translator(config), []
  monkeypatch.setattr(one, 'say', lambda text: told.append(text) if text.startswith('line') else None)
  wanted = [Request(LINES[1], required=('dog',), forbidden=('dog',)),
            Request(LINES[3], prefix='the', forbidden=('the',)),
            Request(LINES[0], prefix=LINES[1] * 3, required=('He',)), Request('', required=('dog',))]
  found = one.translate(wanted, first=6)
  plain = one.translate([LINES[1], LINES[3], Request(LINES[0], required=('He',))], first=6)
  assert_same(found[:3], plain)
  assert found[3].text == '' and len(told) == 3
  assert told[0] == ('line 7: required "dog" and forbidden "dog" contradict each other; the line is translated without '
                     'them')
  assert told[1].startswith('line 8: prefix "the" and forbidden "the" contradict each other')
  assert 'line 9: prefix "Maria' in told[2] and '(search.extra_length); the line is translated without it' in told[2]
  one.translate(wanted[:1], first=6)
  assert len(told) == 3 and 'wishes that cannot be met were left out in 3 lines (7, 8, 9)' in one.notes()


@pytest.mark.parametrize('options', [dict(beam_size=1), dict(beam_size=3)], ids=['greedy', 'beam'])
def test_no_ngram_is_written_twice(translator, options):
  repeated = lambda ids: len({ids[n:n + 2] for n in range(len(ids) - 1)}) < len(ids) - 1
  free, kept = (translator(SearchConfig(extra_length=8, **more)).translate(LINES)
                for more in (options, options | dict(no_repeat_ngram=2)))
  assert any(repeated(line.ids) for line in free) and not any(repeated(line.ids) for line in kept)


def test_a_line_whose_numbers_overflow_does_not_harm_those_that_get_its_row(parts, translator):
  """A weight of 0 does not hide NaN: nothing of a line may be left in a row when the next one gets it."""
  vocabulary, network, params = parts
  broken = vocabulary.encode('cat')[0]

  def encode(own, source):
    memory = network.encode(own, source)
    poisoned = (source.ids == broken).any(axis=1)[:, None, None]
    return memory._replace(values=jnp.where(poisoned, jnp.nan, memory.values))

  def decode_step(own, cache, last):
    """As in a deeper model, whose later layers write keys and values that are no numbers either."""
    logits, cache = network.decode_step(own, cache, last)
    poisoned = jnp.isnan(cache.source[0][0].value).any(axis=(1, 2, 3))[:, None, None, None]
    return logits, cache._replace(past=jax.tree.map(lambda leaf: jnp.where(poisoned, jnp.nan, leaf), cache.past))

  one = Translator([dataclasses.replace(network, encode=encode, decode_step=decode_step)], [params], vocabulary, vocabulary, BEAM, 256,
                   devices=jax.devices()[:1])
  healthy, ill = ['the dog sees it'] * 12, ['a cat sees the dog it'] * 12  # longer, so that they come first
  found = one.translate([*ill, *healthy])
  assert [line.text for line in found[12:]] == [one.translate(healthy[:1])[0].text] * 12
  assert found[12].text and not any(line.text for line in found[:12])
  assert 'a probability that is a number' in one.notes()[0]


def test_a_lack_of_memory_halves_the_rows_and_loses_no_line(parts, translator):
  vocabulary, network, params = parts
  told = []
  small = Translator([network], [params], vocabulary, vocabulary, BEAM, 256, told.append, jax.devices()[:1])
  searching, tried = small._searching, []

  def short_of_memory(rows, to_the_limit):
    tried.append(rows)
    if rows > 4:
      raise jax.errors.JaxRuntimeError('RESOURCE_EXHAUSTED: Out of memory allocating 1 bytes.')
    return searching(rows, to_the_limit)

  small._searching = short_of_memory
  assert_same(small.translate(LINES), translator(BEAM).translate(LINES))
  assert min(tried) == 4 and max(tried) >= 8
  # Searches have 8 rows at least, so that smaller batches would not help.
  assert any('out of memory with 8 rows' in text and text.endswith('half as many; a smaller --search.beam_size needs less') for text in told)
  assert sum('MiB of cache' in text for text in told) == len({t for t in told if 'MiB of cache' in t}) > 0

  def broken(rows, to_the_limit):
    raise jax.errors.JaxRuntimeError('INTERNAL: something else')

  small._searching = broken
  with pytest.raises(jax.errors.JaxRuntimeError, match='something else'):
    small.translate(LINES[:1])


def test_long_lines_are_cut_and_named(parts):
  vocabulary, network, params = parts
  told = []
  short = Translator([network], [params], vocabulary, vocabulary, BEAM, 64, told.append, jax.devices()[:1])
  short.longest_source = 7
  found = short.translate(['A cat', ' '.join(['house'] * 9)], first=40)
  assert len(found) == 2
  assert any(text.startswith('line 42 has') and text.endswith('cut to 7') for text in told)
  assert '42' in short.notes()[0]


def test_ties_are_counted(translator, monkeypatch):
  one = translator(BEAM)
  monkeypatch.setattr(search, 'NOISE', 1e9)
  one._close.clear()
  one.translate(LINES[:2])
  assert one.notes()[-1].startswith('two best translations are within') and one.notes()[-1].endswith('of 2 lines (1, 2)')
  one._close.clear()


@pytest.mark.parametrize('count', [40, pytest.param(2000, marks=pytest.mark.drill)])
def test_any_line_gives_a_line(parts, count):
  vocabulary, network, params = parts
  one = Translator([network], [params], vocabulary, vocabulary, SearchConfig(beam_size=1, extra_length=2), 512,
                   devices=jax.devices()[:1])
  draw = np.random.default_rng(1)
  odd = '\t\r\x00\x0b\x85\u2028\ufeff\u202e👩‍👩‍👧 ▁<s></s>'
  letter = lambda: odd[draw.integers(len(odd))] if draw.random() < 0.3 else chr(draw.integers(1, 0xD800))
  lines = [''.join(letter() for _ in range(draw.integers(0, 4))) for _ in range(count)]
  found = one.translate(lines)
  assert len(found) == count
  assert all('\n' not in line.text for line in found)


def test_json_lines_tell_everything(translator):
  one = translator(BEAM)
  found = one.translate(LINES[:3])
  form = output_formats.Format('jsonl', n_best=2, attention=True)
  records = [json.loads(line) for line in output_formats.write(one, LINES[:3], found, form, first=10)]
  assert [record['line'] for record in records] == [11, 12, 13]
  for line, record in zip(found[:2], records):
    assert record['text'] == line.text and record['log_prob'] == line.log_prob
    assert len(record['tokens']) == len(line.ids) == len(record['token_log_probs']) - 1
    assert np.array(record['attention']).shape == (len(line.ids), len(one.parts[1].encode(record['source'])))
    assert [other['text'] for other in record['n_best']] == [line.text, line.others[0].text]
    assert abs(sum(record['token_log_probs']) - record['log_prob']) < 1e-4
  assert records[2]['text'] == records[2]['alignment'] == ''


def test_alignments_are_read_at_once_or_one_step_late(monkeypatch, translator):
  one = translator(BEAM)
  found = one.translate(LINES[:1])
  weights = {method: alignments.of_translations(one, LINES[:1], found, method)[0][1] for method in alignments.METHODS}
  assert weights['plain'].shape == weights['shift'].shape
  np.testing.assert_array_equal(weights['plain'][1:], weights['shift'][:-1])
  assert np.abs(weights['plain'] - weights['shift']).max() > 1e-4
  assert output_formats.pharaoh({(2, 0), (0, 1)}) == '0-1 2-0'


def test_what_is_said_of_unknown_words_is_said_of_the_sentence_alone():
  assert output_formats.source_of('ein Hund\tprefix\tcat', ('prefix', 'source')) == 'prefix'
  assert output_formats.source_of('ein Hund', ('prefix', 'source')) == ''
  assert output_formats.source_of('ein\tHund', ('source',)) == 'ein\tHund'


def test_columns_become_requests():
  lines = ['a b\tx\tone | two\tthree', 'only a source', 'c\t\t|\t']
  assert output_formats.requests(lines, ['source', 'prefix', 'required', 'forbidden']) == [
      Request('a b', 'x', ('one', 'two'), ('three',)), Request('only a source'), Request('c')]
  assert output_formats.requests(['a\tb'], ['source']) == [Request('a\tb')]
  with pytest.raises(ConfigError, match='line 8 has 2 tab-separated columns; expected at most 1'):
    output_formats.requests(['a\tb'], ['prefix'], first=7)


def test_minimum_bayes_risk_takes_the_sample_most_like_the_others():
  drawn = [Translation(text) for text in ('ab', 'abc', 'abd', 'abc', 'xyz')]
  alike = lambda text, other: len(set(text) & set(other))
  best = minimum_bayes_risk.choose(drawn, alike)
  assert best.text == 'abc' and best.score == (2 + 3 + 2 + 3 + 0) / 5
  assert [other.text for other in best.others] == ['abd', 'ab', 'xyz']


def test_samples_are_compared_as_the_language_of_their_line_is_written():
  """By words, each of the first line's samples is as unlike the others as can be, and the first would be taken."""
  drawn = [[Translation('今天狗睡在街上'), Translation('a b')], [Translation('我今天'), Translation('a b')],
           [Translation('今天狗睡在路上'), Translation('a b')]]
  one = types.SimpleNamespace(translate=lambda lines, progress, first, draw: drawn[(draw + 1) % 3])
  best = lambda languages: minimum_bayes_risk.translate(one, ['x', 'y'], 3, 'bleu', languages=languages)[0].text
  assert best(['zh', 'de']) == '今天狗睡在路上' and best(['de', 'zh']) == '我今天'


def test_samples_are_drawn_anew_and_the_best_is_one_of_them(translator):
  one = translator(SearchConfig(strategy='sample', seed=7, extra_length=8))
  draws = [one.translate(LINES[:1], draw=number)[0].text for number in range(4)]
  assert len(set(draws)) > 1
  other = translator(SearchConfig(strategy='sample', seed=8, extra_length=8))  # another seed shares no sample
  assert not {*draws} & {other.translate(LINES[:1], draw=number)[0].text for number in range(4)}
  counted = []
  best = minimum_bayes_risk.translate(one, LINES[:1], 4, 'chrf', counted.append)[0]
  assert sum(counted) == 1  # a line is done when all of its samples are
  assert {best.text, *(other.text for other in best.others)} == set(draws)
  assert draws[0] == one.translate(LINES[:1])[0].text


def test_text_beside_a_blank_source_is_no_certainty(translator):
  one = translator(BEAM)
  blank, both, *_ = one.score([' ', '', LINES[0]], ['It is here', '', 'It is here'])
  assert blank.log_prob < -1 and len(blank.token_log_probs) > 1
  assert both.log_prob == 0.0 and not both.token_log_probs


def test_the_searches_of_an_ensemble_are_those_of_its_first_run(monkeypatch):
  asked = []
  entries = lambda: types.SimpleNamespace(fingerprint=len(asked))
  read = lambda folder, step, search=None, n_best=1: asked.append((search, n_best)) or types.SimpleNamespace(
      source=entries(), target=entries())
  monkeypatch.setattr(trained, 'read_run', read)
  with pytest.raises(ConfigError, match='another vocabulary'):
    Translating.load([types.SimpleNamespace(path=path) for path in 'ab'], search={'groups': 2}, n_best=3)
  assert asked == [({'groups': 2}, 3), (None, 1)]


def test_ensembles_need_one_vocabulary(monkeypatch):
  run = lambda folder, *_: types.SimpleNamespace(source=types.SimpleNamespace(fingerprint=folder.path),
                                                 target=types.SimpleNamespace(fingerprint='t'))
  monkeypatch.setattr(trained, 'read_run', run)
  folders = [types.SimpleNamespace(path=path) for path in ('a', 'b')]
  with pytest.raises(ConfigError, match='b has another vocabulary than a'):
    Translating.load(folders)
  with pytest.raises(ConfigError, match='names 2 runs and --checkpoint 3'):
    Translating.load(folders, ['best', '1', '2'])


def test_ensembles_translate_one_way(monkeypatch):
  languages = {'a': ('en', 'de'), 'b': ('de', 'en')}
  entries = types.SimpleNamespace(fingerprint='joint')
  monkeypatch.setattr(trained, 'read_run', lambda folder, *_: types.SimpleNamespace(
      source=entries, target=entries, setup=types.SimpleNamespace(corpus=types.SimpleNamespace(
          **dict(zip(('source_language', 'target_language'), languages[folder.path]))))))
  with pytest.raises(ConfigError, match='b translates de to en, and a en to de; the models of an ensemble'):
    Translating.load([types.SimpleNamespace(path=path) for path in languages])
