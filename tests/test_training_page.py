"""The page on training, in a real browser: a slider over snapshots, and a chart of one weight."""

import numpy as np
import pytest

from explorer import snapshots, texts, training_page
from tests.explorer_stand_ins import LINES, shaken, small_translator, small_vocabulary
from tests.page_in_browser import HOSTILE, Tab, launched_browser  # noqa: F401


@pytest.fixture(scope='module')
def recorded(tmp_path_factory):
  """Four snapshots, as a training run would have written them."""
  translator, folder = small_translator(), str(tmp_path_factory.mktemp('watched'))
  vocabulary = translator.parts[1]
  sentences = snapshots.token_pairs([(LINES[0], LINES[1]), (LINES[2], LINES[0])], vocabulary, vocabulary)
  watch = snapshots.Recorder(folder, translator.parts[0], sentences, vocabulary, vocabulary, every=100)
  for step in (0, 100, 200, 400):
    watch(shaken(translator.params[0], seed=step), step)
  return snapshots.read(folder)


@pytest.fixture
def trained(browser, recorded, tmp_path):
  report = training_page.explain(recorded, (small_vocabulary(),) * 2, {200: 'validation bleu 12.30', 400: HOSTILE[0]})
  report.save(f'{tmp_path}/training.html')
  opened = Tab(browser, tmp_path / 'training.html', viewport={'width': 1280, 'height': 900})
  yield opened
  opened.close()


def test_a_slider_goes_through_training(trained, recorded):
  trained.page.select_option('#compare', '-1')  # one sentence, whose weight the first line tells
  trained.ready()
  state = trained.state()
  kind, layer, number, q, m = state['k'], *(int(state[name]) for name in ('l', 'h', 'q', 'm'))
  place = int(state['s'])

  def weight(e):
    seen = recorded[e].sentences[place]
    ids, vocabulary = {'encoder': (seen.source, seen.source)}[kind], small_vocabulary()
    rows, columns = (texts.describe(one, vocabulary) for one in ids)
    return texts.pool(seen.weights[kind] / 65535, rows.word_of_piece, columns.word_of_piece)[layer, number, q, m]

  in_words = lambda e: '<.01' if weight(e) < 0.005 else f'{weight(e):.2f}'
  assert state['e'] == '3' and trained.text('#headline').startswith('After 400 updates: encoder self-attention, layer')
  assert trained.text('#headline').endswith(f', {in_words(3)}.') and HOSTILE[0] in trained.text('#snapshot-text')
  trained.page.locator('#snapshot').fill('2')
  trained.ready()
  assert trained.state()['e'] == '2' and trained.text('#headline').endswith(f', {in_words(2)}.')
  total = recorded[2].sentences[place].log_probs.sum()
  assert trained.text('#snapshot-text') == (
      f'After 200 updates · validation bleu 12.30 · log-probability of the text {total:.2f}')
  trained.page.locator('#headline').click()
  for key, expected in (('<', 1), ('<', 0), ('<', 0), ('>', 1)):
    trained.page.keyboard.press(key)
    trained.ready()
    assert trained.state()['e'] == str(expected) and trained.state()['q'] == str(q)
  assert trained.text('.value').endswith(in_words(1))
  trained.page.reload()
  trained.ready()
  assert trained.text('#headline').startswith('After 100 updates') and trained.page.input_value('#snapshot') == '1'
  found = trained.page.evaluate(
      f"() => range(4).map(e => attentionMap(sentence(), '{kind}', {layer}, {number}, true, e).at({q}, {m}))")
  np.testing.assert_allclose(found, [weight(e) for e in range(4)], atol=1e-4)
  for panel in ('steps-panel', 'effects-panel', 'beam-panel', 'calculation-panel', 'padded'):
    assert not trained.page.locator(f'#{panel}').is_visible(), panel


def test_a_chart_follows_a_weight_through_training(trained):
  trained.page.click('#all-heads')
  trained.ready()
  with trained.page.expect_download() as kept:
    trained.page.locator('#chart-caption').get_by_text('SVG').click()
  with open(kept.value.path(), encoding='utf-8') as file:
    paths = [part.split('"')[0] for part in file.read().split(' d="')[1:]]
  assert sorted(path.count('L') for path in paths) == [1, 1, 1, 1, 3, 3]  # three lines, the slider's place, two heads
  box = trained.page.locator('#chart').bounding_box()
  trained.page.mouse.click(box['x'] + 40, box['y'] + 40)
  trained.ready()
  assert trained.state()['e'] == '0' and trained.text('#headline').startswith('Before training')
  trained.page.click('#play-training')
  trained.page.wait_for_function('() => state.e === 3 && !trainingTimer', timeout=8000)
  assert trained.text('#play-training') == 'play'
  trained.page.keyboard.press('Escape')
  trained.ready()
  assert trained.text('#chart-caption') == 'Choose a query to follow its weight.'
  trained.page.set_viewport_size({'width': 390, 'height': 800})
  assert trained.page.evaluate('() => document.documentElement.scrollWidth') <= 390


def test_keys_of_steps_leave_the_choice_alone_where_there_are_no_steps(trained):
  trained.page.click('#kind-cross')
  trained.page.locator('.queries button').nth(2).click()
  for key in ',.':
    trained.page.keyboard.press(key)
    trained.ready()
    assert (trained.state()['q'], trained.state()['t']) == ('2', '0')
