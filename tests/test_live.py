"""The living page: what its scripts compute in a browser is what Python computes with the same rounded weights."""

import dataclasses
import json
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from checks.whole_files import write_whole
from corpora import vocabulary
from decoding.translator import Translator
from explorer import capture, gates, head_ablation, live, live_weights, page, reports, texts
from explorer.capture import TokenPair
from tests.conftest import but_long
from tests.explorer_stand_ins import LINES, Chains, small_translator, small_vocabulary, step_of_chains
from tests.page_in_browser import HOSTILE, Tab, launched_browser  # noqa: F401
from transformer import architectures, search, tokens
from transformer.config import LanguageModelConfig, RecurrentConfig
from transformer.search import SearchProblem, Sentences

TEXTS = [*LINES, *HOSTILE, 'the  street ', ' it', 'Gr\u00fc\u00dfe \U0001f600', '\u2581a\x00b', 'tiredtired\tdogs',
         '\u3042\u30fc\u6f22\u5b57', 'e\u0301 it\u2019s d\u2019', 'हिन्दी दो', 'กินข้าว', '']
# Every choice of the model's options that the page computes, several at once.
MODELS = {
    'the_paper': {},
    'modern': dict(norm='pre', normalization='rms_norm', positions='rotary', activation='swiglu', num_kv_heads=1, d_k=6,
                   attention_bias=True, output_bias=True, tie_output=False, feed_forward_bias=False),
    'learned': dict(norm='pre', positions='learned', max_positions=41, activation='gelu', norm_bias=False),
    'relative': dict(positions='relative', clip_distance=2, attention_score='additive', d_v=5, num_decoder_layers=1),
    't5': dict(positions='t5', num_buckets=8, max_distance=6, attention_score='dot', share_embeddings=False),
    'turned': dict(positions='rotary', position_layout='halves', position_frequencies='tensor2tensor', d_k=6,
                   attention_score='multiplicative'),
    'halves': dict(position_layout='halves', activation='swish', scan_layers=True, dtype='bfloat16'),
    'unordered': dict(positions='none', normalization='rms_norm'),
}


@pytest.fixture(scope='module')
def prepared():
  return live.prepare(small_translator(), LINES[:3])


@pytest.fixture(scope='module')
def written(prepared, tmp_path_factory):
  """A living page that opens with two sentences."""
  path = tmp_path_factory.mktemp('live') / 'live.html'
  write_whole(str(path), reports.explain(prepared.translator, LINES[:2], live=prepared.record).html)
  return path


@pytest.fixture(scope='module')
def engine(browser, written):
  """The page, for tests that only call its functions."""
  tab = Tab(browser, written)
  yield tab
  tab.close()


@pytest.fixture
def tab(browser, written):
  opened = Tab(browser, written, viewport={'width': 1280, 'height': 900})
  yield opened
  opened.close()


# ------------------------------------------------------------------------------------------------- weights and refusals


@pytest.mark.parametrize('format, most', [('float16', 2**-11), ('int8', 1 / 254 + 1e-6)])
def test_rounded_weights_are_near_the_models_own(format, most):
  params = small_translator(d_k=6, d_v=5).params[0]
  packed = live_weights.pack(params, format)
  assert jax.tree.map(np.shape, packed.params) == jax.tree.map(np.shape, params)
  for (name, kept), leaf in zip(jax.tree_util.tree_leaves_with_path(packed.params), jax.tree.leaves(params)):
    assert np.abs(kept - leaf).max() <= most * np.abs(leaf).max(), name
  sizes = [len(live_weights.pack(params, each).record['data']) for each in ('int8', 'float16')]
  assert sizes[0] < 0.8 * sizes[1]


def test_weights_that_are_too_many_for_16_bits_take_8(monkeypatch):
  monkeypatch.setattr(live, 'LARGEST', 1000)
  assert live.prepare(small_translator()).record['weights']['format'] == 'int8'


@pytest.mark.parametrize('changes, option', [
    (dict(strategy='sample'), 'search.strategy'), (dict(groups=2), 'search.groups'),
    (dict(coverage_penalty=0.2), 'search.coverage_penalty'), (dict(no_repeat_ngram=3), 'search.no_repeat_ngram')])
def test_a_search_that_the_page_does_not_know_is_refused_by_name(changes, option):
  translator = small_translator()
  config = dataclasses.replace(translator.search_config, **changes)
  other = Translator([translator.parts[0]], translator.params, *translator.parts[1:], config)
  with pytest.raises(ValueError, match=f'^{option} is .*--search'):
    live.prepare(other)


def test_models_and_vocabularies_that_the_page_does_not_know_are_refused_by_name():
  for config in (LanguageModelConfig(20, 20), RecurrentConfig(20, 20)):
    with pytest.raises(ValueError, match='^model.architecture.*leave out --live'):
      live.prepare(types.SimpleNamespace(params=[None], parts=(architectures.build(config), *[small_vocabulary()] * 2)))
  words = vocabulary.Vocabulary(vocabulary.train(vocabulary.VocabularyConfig(kind='word', size=30), LINES), 'words')
  assert next(live._refused_vocabularies(words)).startswith("vocabulary.kind is 'word'")


# --------------------------------------------------------------------------------------------------------------- text


def vocabularies():
  yield 'bpe', small_vocabulary()
  for kind, options in (('unigram', dict(size=310)), ('char', dict(size=300)),
                        ('unigram', dict(size=50, byte_fallback=False)),
                        ('bpe', dict(size=40, byte_fallback=False, dummy_prefix=False))):
    config = vocabulary.VocabularyConfig(kind=kind, **options)
    yield f'{kind} {options}', vocabulary.Vocabulary(vocabulary.train(config, LINES * 5), kind)


@pytest.mark.parametrize('vocabulary', [pytest.param(found, id=name) for name, found in vocabularies()])
def test_texts_become_the_same_tokens_names_and_texts(engine, vocabulary):
  draw = np.random.default_rng(0)
  random = [''.join(draw.choice(list('aeistdog  \u2581\u00e9\u00df\U0001f600\u6f22'), 12)) for _ in range(60)]
  texts_given = [*TEXTS, *random]
  ids = [vocabulary.encode(text) for text in texts_given]
  drawn = [draw.integers(0, vocabulary.size, 9).tolist() for _ in range(60)]  # half characters, too
  found = engine.page.evaluate('''([record, texts, drawn]) => { const v = new Subwords(record);
    const ids = texts.map(text => v.encode(text));
    return [ids, [...ids, ...drawn].map(one => v.decode(one)), [...ids, ...drawn].map(one => namedText(one, v)),
            drawn.map(one => one.map(id => tokenName(id, v)))]; }''',
                               [live._vocabulary_record(vocabulary), texts_given, drawn])
  assert found[0] == ids
  assert found[1] == [vocabulary.decode(one) for one in [*ids, *drawn]]
  described = [texts.describe(one, vocabulary) for one in [*ids, *drawn]]
  assert found[2] == [json.loads(json.dumps(dataclasses.asdict(text))) for text in described]
  assert found[3] == [texts.labels(one, vocabulary) for one in drawn]


def test_the_last_symbol_of_a_text_joins_nothing(engine):
  """Not even where the name of nothing, put behind it, spells a piece."""
  config = vocabulary.VocabularyConfig(kind='bpe', size=300)
  learnt = vocabulary.Vocabulary(vocabulary.train(config, ['it is undefined', 'a cat'] * 20), 'undefined')
  assert '\u2581undefined' in [piece.piece for piece in learnt.proto.pieces]
  found = engine.page.evaluate('([record, text]) => new Subwords(record).encode(text)',
                               [live._vocabulary_record(learnt), 'a cat '])
  assert found == learnt.encode('a cat ')


# ------------------------------------------------------------------------------------------------- logits and searches


def hypotheses(translator, ids, **options):
  """What the library's search finds for one source: tokens and scores, best first."""
  model, source, target = translator.parts
  config, params = dataclasses.replace(translator.search_config, **options), translator.params[0]
  limit = len(ids) + config.extra_length
  row = tokens.pad([ids], 1, len(ids), source.pad_id)
  problem = SearchProblem(lambda cache, last: model.decode_step(params, cache, last), limit, target.bos_id,
                          target.eos_id, target.pad_id)
  beginning = lambda: model.init_cache(params, model.encode(params, row), limit, config.width)
  found = jax.device_get(jax.jit(lambda: search.search(problem, Sentences(beginning(), jnp.array([limit])), config))())
  return [(found.tokens[0, rank, :found.lengths[0, rank]].tolist(), float(found.scores[0, rank]))
          for rank in np.flatnonzero(found.found[0])]


@pytest.mark.parametrize('options', [
    dict(beam_size=1), dict(beam_size=1, min_length=2), dict(beam_size=4), dict(beam_size=4, alpha=2.0),
    dict(beam_size=3, early_stopping='full'), dict(beam_size=5, length_penalty='none', min_length=2),
    dict(beam_size=4, early_stopping='heuristic', length_penalty='length', alpha=1.0, min_length=3),
    dict(beam_size=4, early_stopping='top', length_penalty='length', alpha=1.0)])
def test_searches_over_markov_chains_find_the_same_in_the_same_order(engine, options):
  """Chains that end soon or late: what ends, what is kept and when to stop all matter, for limits down to one token."""
  draw, count, size, bos, eos = np.random.default_rng(1), 150, 7, 1, 4
  logits = draw.normal(0, 2, (count, 12, size, size)).astype(np.float32)
  logits[..., eos] += draw.uniform(-3, 3, (count, 1, 1)).astype(np.float32)
  limits = np.maximum(draw.integers(1, 12, count).astype(np.int32), options.get('min_length', 0) + 1)
  config = search.SearchConfig(**options)
  problem = SearchProblem(step_of_chains, 12, bos, eos, 0)
  chains = Chains(jnp.zeros((count, config.width)), jnp.asarray(logits), jnp.zeros(count, jnp.int32))
  found = jax.device_get(jax.jit(lambda: search.search(problem, Sentences(chains, jnp.asarray(limits)), config))())
  record = live._search_record(config, 20, types.SimpleNamespace(bos_id=bos, eos_id=eos))
  theirs = engine.page.evaluate('''([chains, limits, search]) => chains.map((steps, i) => {
    const from = (rows, tokens) => Float32Array.from(tokens.flatMap(token => rows[token]));
    const step = tokens => from(steps.shift(), tokens);
    return (search.beam_size === 1 ? greedySearch : beamSearch)(step, limits[i], search).found.map(
      ({tokens, score}) => [tokens, score]); })''', [logits.tolist(), limits.tolist(), record])
  assert len({len(written) for one in theirs for written, _ in one}) > 5  # outputs of all lengths
  for row, one in enumerate(theirs):
    ranks = np.flatnonzero(found.found[row])
    expected = [found.tokens[row, rank, :found.lengths[row, rank]].tolist() for rank in ranks]
    assert [written for written, _ in one] == expected
    np.testing.assert_allclose([score for _, score in one], found.scores[row][ranks], atol=1e-4)


@pytest.mark.parametrize('name', but_long(MODELS, ['halves', 'learned', 't5', 'turned', 'unordered']))
def test_logits_and_hypotheses_are_pythons_with_the_same_weights(engine, name):
  ready = live.prepare(small_translator(**MODELS[name]))
  translator = ready.translator
  model, _, target = translator.parts
  ids = translator.encode([LINES[0]])[0]
  written = [*target.encode('the wide dog sees it'), target.eos_id]
  engine.page.evaluate('record => unpackLive(record).then(found => { window.other = found; })', ready.record)
  read = tokens.shift_right(tokens.pad([written], 1, len(written), 0), target.bos_id)
  params = translator.params[0]
  logits = jax.jit(lambda source: model.decode(params, model.encode(params, source), read))(
      tokens.pad([ids], 1, len(ids), 0))
  found = engine.page.evaluate('''([ids, written]) => { const witness = new Witness(other.model.options);
    witness.sized('encoder', ids.length, ids.length);
    return [...forced(other.model.encode(ids, witness), written, other, witness).logits]; }''', [ids, written])
  np.testing.assert_allclose(np.reshape(found, logits.shape[1:]), logits[0], atol=1e-4)
  for options in (dict(beam_size=1), dict(beam_size=4)):
    config = dataclasses.replace(translator.search_config, **options)
    record = live._search_record(config, 40, target)
    found = engine.page.evaluate('''([ids, search]) => searchFor(other.model.encode(ids), other, search).found.map(
      ({tokens, score}) => [tokens, score])''', [ids, record])
    expected = hypotheses(translator, ids, **options)
    assert [written for written, _ in found] == [written for written, _ in expected], options
    np.testing.assert_allclose([score for _, score in found], [score for _, score in expected], atol=1e-4)


def test_the_tree_of_the_beam_holds_what_was_found(engine, prepared):
  tree = engine.page.evaluate('text => sentenceRecord(text, live, live.search).beam', LINES[2])
  best, nodes = tree['best'], tree['nodes']
  assert tree['penalty'] == 'gnmt, alpha 0.6'
  assert [nodes[node][0] for node in best] == [-1, *best[:-1]] and nodes[best[-1]][4] == 'finished'
  assert max(node[5] for node in nodes if node[4] == 'finished') == nodes[best[-1]][5]
  ids = prepared.translator.translate([LINES[2]])[0].ids
  labels = texts.labels([*ids, prepared.translator.parts[2].eos_id], prepared.translator.parts[2])
  assert [nodes[node][2] for node in best] == labels


def test_the_record_of_a_typed_sentence_is_that_of_a_report(engine, prepared):
  translator = prepared.translator
  model, source, target = translator.parts
  written = translator.translate([LINES[0]])[0]
  pair = TokenPair(translator.encode([LINES[0]])[0], [*written.ids, target.eos_id])
  seen = capture.record(model, translator.params[0], [pair], source, target, with_operands=True)[0]
  expected = page.sentence_record(page.Sentence(LINES[0], written.text, seen), True, True)
  found = engine.page.evaluate('''text => { const {snapshots, vectors, ...record} = sentenceRecord(
    text, live, live.search); return {...record, maps: Object.fromEntries(Object.entries(snapshots[0].maps).map(
      ([kind, weights]) => [kind, [...weights]])),
    parts: vectors.parts.map(part => ({...part, numbers: [...part.numbers]}))}; }''', LINES[0])
  for name in ('source', 'target', 'texts', 'shapes'):
    assert found[name] == json.loads(json.dumps(expected[name])), name
  np.testing.assert_allclose(found['log_probs'], expected['log_probs'], atol=1e-4)
  for kind, weights in seen.weights.items():
    assert np.abs(np.reshape(found['maps'][kind], weights.shape) / 65535 - weights).max() < 1e-4, kind
  for part in found['parts']:
    recorded = page.vectors(seen)[part['kind'], part['role']]
    np.testing.assert_allclose(np.reshape(part['numbers'], part['shape']), recorded, atol=1e-4, err_msg=part['role'])
  assert {(part['kind'], part['role']) for part in found['parts']} == set(page.vectors(seen))
  for found_step, expected_step in zip(found['steps'], expected['steps'], strict=True):
    assert [label for label, _ in found_step['top']] == [label for label, _ in expected_step['top']]
    assert found_step['written'] == expected_step['written']


# --------------------------------------------------------------------------------------------------------------- page


def test_what_is_typed_is_translated_and_shown(tab, prepared):
  expected = prepared.translator.translate([LINES[2]])[0].text
  tab.page.fill('#typed', LINES[2])
  tab.page.wait_for_function('text => document.getElementById("translation").textContent === text', arg=expected)
  tab.ready()
  assert tab.page.locator('.pane .texts span').all_inner_texts()[:2] == [LINES[2], expected]
  for kind in ('encoder', 'cross', 'decoder'):
    tab.page.click(f'#kind-{kind}')
    assert tab.arcs() > 100
  tab.page.fill('#typed', ' ')
  tab.page.wait_for_function('() => state.s === report.first_view.sentence && report.sentences.length === 2')


@pytest.mark.parametrize('text', HOSTILE)
def test_hostile_texts_are_translated_and_stay_texts(tab, text):
  typed(tab, text)
  assert tab.page.locator('img').count() == 0 and tab.page.locator('script').count() == 2
  assert tab.page.evaluate('() => window.hurt') is None


def typed(tab, text):
  tab.page.fill('#typed', text)
  tab.page.wait_for_function('text => sentence().source === text', arg=text)
  tab.ready()


def test_of_a_text_that_is_too_long_the_page_says_how_much_it_reads(tab):
  tab.page.evaluate('() => { live.longest = 7; }')
  noted = lambda: 'only the first 7 tokens are read' in tab.page.locator('.pane .texts').first.inner_text()
  for text, is_cut in (('the dog', False), (LINES[0], True), (LINES[1] + ' ' + LINES[0], True), ('it', False)):
    typed(tab, text)
    count = tab.page.evaluate('text => live.source.encode(text).length + 1', text)
    assert noted() == is_cut == (count > 7)
    assert tab.page.evaluate('() => sentence().texts.source.pieces.length') == min(count, 7)
  # A head that is closed while the report shows a long sentence of its own: the sentence is then read by the page.
  tab.page.evaluate('() => setSession({text: ""})')
  tab.page.wait_for_function('() => state.s === report.first_view.sentence')
  tab.ready()
  assert not noted()
  tab.page.evaluate('() => set({s: 0, c: -1}).then(() => toggleHead("cross", 0, 0))')
  tab.page.wait_for_function('() => state.closed === "cross.0.0"')
  tab.ready()
  assert tab.page.evaluate('() => sentence().source') == LINES[0] and noted()


def test_a_step_behind_the_end_of_what_is_typed_becomes_its_last(tab):
  typed(tab, LINES[0])
  tab.page.click('#kind-encoder')
  count = int(tab.page.get_attribute('#step', 'max'))
  tab.page.locator('#step').fill(str(count))
  typed(tab, 'a')
  last = int(tab.page.get_attribute('#step', 'max'))
  assert last < count and tab.page.evaluate('state.t') == last


def test_a_suggestion_is_typed_by_a_click(tab):
  tab.page.locator('#suggestions button').nth(2).click()
  assert tab.page.input_value('#typed') == LINES[2]
  tab.page.wait_for_function('text => sentence().source === text', arg=LINES[2])


def test_a_kept_sentence_stands_beside_what_is_typed_and_differences_are_marked(tab):
  typed(tab, 'the dog sees it')
  tab.page.click('#keep')
  typed(tab, 'the cat sees it')
  sources = [tab.page.locator('.pane').nth(n).locator('.texts span').nth(0) for n in (0, 1)]
  assert [source.inner_text() for source in sources] == ['the cat sees it', 'the dog sees it']
  assert [source.locator('mark').all_inner_texts() for source in sources] == [['cat'], ['dog']]
  far = tab.page.evaluate('''() => { const {map, differs} = panes[0].arcs.maps[0], other = panes[1].arcs.maps[0].map;
    return range(map.rows.length).flatMap(i => range(map.columns.length).map(j =>
      differs(i, j) === Math.abs(map.at(i, j) - other.at(i, j)) >= APART)); }''')
  assert all(far)
  tab.page.click('#keep')
  tab.page.wait_for_function('() => panes.length === 1')


def test_a_kept_sentence_goes_and_stays_while_a_head_is_closed(tab):
  typed(tab, 'the dog sees it')
  tab.page.click('#keep')
  typed(tab, 'the cat sees it')
  tab.page.evaluate('() => set({s: keptPlace, c: typedPlace}).then(() => toggleHead("cross", 0, 0))')  # A is looked at
  tab.page.wait_for_function('() => state.closed === "cross.0.0"')
  tab.ready()
  assert tab.page.evaluate('() => [state.text, state.kept]') == ['the cat sees it', 'the dog sees it']
  tab.page.click('#keep')
  tab.page.wait_for_function('() => panes.length === 1')
  assert tab.page.evaluate('() => [state.text, state.kept, state.closed]') == ['the cat sees it', '', 'cross.0.0']
  tab.page.evaluate('() => toggleHead("cross", 0, 0)')
  tab.page.wait_for_function('() => state.closed === ""')


def test_a_closed_head_changes_what_is_computed_until_it_is_opened(tab, prepared):
  typed(tab, LINES[2])
  log_probs = lambda: np.array(tab.page.evaluate('() => sentence().log_probs'))
  before, target = log_probs(), tab.page.evaluate('() => sentence().ids')
  tab.page.click('#kind-cross')
  tab.page.click('#close-head')
  tab.page.wait_for_function('() => /closed=[a-z]/.test(location.hash)')
  head = gates.Head('cross', int(tab.state()['l']), int(tab.state()['h']))
  assert tab.state()['closed'] == f'cross.{head.layer}.{head.head}'
  translator = prepared.translator
  params = gates.apply(translator.params[0], gates.closing(gates.open_gates(translator.params[0]), head))
  model, *vocabularies = translator.parts
  closed = Translator([model], [params], *vocabularies, translator.search_config, batch_tokens=8)
  expected = closed.translate([LINES[2]])[0]
  assert tab.page.evaluate('() => sentence().ids') == [*expected.ids, vocabularies[1].eos_id]
  np.testing.assert_allclose(log_probs(), expected.token_log_probs, atol=1e-4)
  tab.page.click('#closed button')
  tab.page.wait_for_function('() => !state.closed')
  assert tab.page.evaluate('() => sentence().ids') == target
  np.testing.assert_allclose(log_probs(), before)


def test_closing_each_head_in_turn_is_measured_on_demand(tab, prepared):
  typed(tab, LINES[2])
  tab.page.click('#measure')
  tab.page.wait_for_selector('#effects button', timeout=60_000)
  translator = prepared.translator
  written = translator.translate([LINES[2]])[0]
  pair = TokenPair(translator.encode([LINES[2]])[0], [*written.ids, translator.parts[2].eos_id])
  log_prob, effects = head_ablation.measure(translator, [LINES[2]], [pair])
  found = tab.page.evaluate('() => sentence().effects')
  assert found['log_prob'] == pytest.approx(float(log_prob[0]), abs=1e-3)
  for head, effect in effects[0].items():
    one = found['heads'][head.kind][head.layer][head.head]
    assert one['text'] == effect.text and one['change'] == pytest.approx(effect.change, abs=1e-3), head


def test_temperature_and_beam_size_change_the_search(tab):
  typed(tab, LINES[2])
  count = lambda: tab.page.evaluate('() => sentence().hypotheses.length')
  top = lambda: tab.page.evaluate('() => sentence().steps[0].top[0][1]')
  before = top()
  tab.page.fill('#beams', '5')
  tab.page.keyboard.press('Enter')
  tab.page.wait_for_function('() => state.beams === 5')
  assert count() > 2
  tab.page.fill('#heat', '2')
  tab.page.wait_for_function('() => state.heat === 2')
  assert top() < before and tab.state()['heat'] == '2'


def test_the_address_restores_what_was_typed_kept_and_closed(browser, written, tab):
  typed(tab, 'the dog sees it')
  tab.page.click('#keep')
  typed(tab, 'the cat sees it')
  tab.page.click('#close-head')
  tab.page.wait_for_function('() => /closed=[a-z]/.test(location.hash)')
  fragment = tab.page.evaluate('() => location.hash')
  other = Tab(browser, written, fragment)
  assert other.page.evaluate('() => location.hash') == fragment
  assert other.page.evaluate('() => panes.map(pane => pane.sentence.source)') == ['the cat sees it', 'the dog sees it']
  assert other.text('#translation') == tab.text('#translation')
  assert other.page.input_value('#typed') == 'the cat sees it'
  other.close()
  broken = Tab(browser, written, '#text=a&closed=cross.9.9_x_constructor.0.0&beams=1e9&heat=-1&s=77&c=9')
  assert broken.state()['closed'] == '' and broken.state()['beams'] == '2' and broken.state()['heat'] == '1'
  broken.close()


def test_what_is_saved_is_a_report_without_the_model(browser, tab, tmp_path):
  typed(tab, HOSTILE[0])
  tab.page.click('#kind-cross')
  with tab.page.expect_download() as kept:
    tab.page.click('#save')
  kept.value.save_as(tmp_path / 'report.html')
  text = (tmp_path / 'report.html').read_text(encoding='utf-8')
  assert text.count('</script>') == 2 and 'live' not in json.loads(text.split('id="report">')[1].split('</script>')[0])
  saved = Tab(browser, tmp_path / 'report.html')
  assert saved.page.locator('#typed').count() == 0
  assert saved.page.evaluate('() => sentence().source') == HOSTILE[0]
  for shown in ('[...panes[0].heatMap.map.values]', 'vectors(sentence(), state.k, "query", state.l, state.h).flat()'):
    np.testing.assert_allclose(saved.page.evaluate(shown), tab.page.evaluate(shown), atol=1e-3)
  assert saved.state()['k'] == 'cross'
  saved.close()


def test_what_is_saved_opens_on_the_piece_that_was_chosen(browser, tab, tmp_path):
  typed(tab, 'wide cats see the tired dogs')
  tab.page.click('#kind-encoder')
  tab.page.click('#pieces')
  tab.page.evaluate('() => set({q: null, m: null})')
  pane = tab.page.locator('.pane').nth(0)
  last = pane.locator('.queries button').count() - 1
  assert last >= tab.page.evaluate('() => sentence().texts.source.words.length')  # words have no such place
  pane.locator('.queries button').nth(last).click()
  pane.locator('.keys button').nth(last - 1).click()
  tab.page.wait_for_function('place => state.m === place', arg=last - 1)
  tab.ready()
  with tab.page.expect_download() as kept:
    tab.page.click('#save')
  kept.value.save_as(tmp_path / 'report.html')
  saved = Tab(browser, tmp_path / 'report.html')
  assert 'attends' in tab.text('#headline') == saved.text('#headline') and saved.state()['words'] == '0'
  saved.close()
  text = (tmp_path / 'report.html').read_text(encoding='utf-8')  # as earlier versions saved it, without the unit
  assert text.count(unit := '"words":false') == 1
  (tmp_path / 'earlier.html').write_text(text.replace(unit, '"words":true'), encoding='utf-8')
  earlier = Tab(browser, tmp_path / 'earlier.html')
  assert earlier.printed == [] and earlier.state()['words'] == '1'
  assert int(earlier.state()['q']) == earlier.page.evaluate('() => sentence().texts.source.words.length') - 1
  assert earlier.arcs() > 0
  earlier.close()


def test_a_sentence_that_was_not_shown_is_saved_where_the_page_has_no_vectors(browser, written, tmp_path):
  before, held = written.read_text(encoding='utf-8').split('id="report">')
  held, after = held.split('</script>', 1)
  content = json.loads(held)
  for each in content['sentences']:
    del each['vectors']
  write_whole(path := str(tmp_path / 'plain.html'), f'{before}id="report">{page.as_script_text(content)}</script>{after}')
  tab = Tab(browser, path, '#s=0&c=-1')
  assert tab.page.evaluate('() => report.sentences.map(each => Boolean(each.snapshots))') == [True, False]
  with tab.page.expect_download(timeout=5000) as kept:
    tab.page.click('#save')
  kept.value.save_as(tmp_path / 'report.html')
  saved = Tab(browser, tmp_path / 'report.html', '#s=1')
  assert saved.page.evaluate('() => sentence().source') == LINES[1] and saved.arcs() > 100
  saved.close()
  tab.close()


@pytest.mark.parametrize('width', [1280, 390])
def test_it_fits_a_telephone(browser, written, width):
  tab = Tab(browser, written, viewport={'width': width, 'height': 800})
  typed(tab, 'https://' + 'x' * 100)
  tab.page.click('#keep')
  tab.page.wait_for_function('() => panes.length === 2')
  assert tab.page.evaluate('() => document.documentElement.scrollWidth') <= width
  tab.close()
