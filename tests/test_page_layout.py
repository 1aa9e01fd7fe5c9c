"""The page's design in a real browser: a telephone, the keyboard, the picture of the model, colours and strips."""

import dataclasses
import re

import numpy as np
import pytest

from checks.whole_files import write_whole
from explorer import first_view, live, page
from explorer.gates import KINDS
from explorer.head_ablation import Effect
from tests.explorer_stand_ins import LINES, drawn, small_translator, text_of
from tests.page_in_browser import Tab, launched_browser  # noqa: F401
from tests.small_page import drawn_captures, opened_tab, sentence, written_page  # noqa: F401


@pytest.fixture
def telephone(browser, written):
  opened = Tab(browser, written, viewport={'width': 390, 'height': 844})
  yield opened
  opened.close()


def test_a_telephone_shows_tokens_without_scrolling(telephone):
  for selector in ('#headline', '#architecture', '#heads', '.queries button', '.keys button.chosen'):
    box = telephone.page.locator(selector).first.bounding_box()
    assert 0 <= box['y'] and box['y'] + box['height'] <= 844, selector
  assert not telephone.page.locator('#sentence').is_visible()
  telephone.page.click('#more summary')
  telephone.page.select_option('#sentence', '1')
  telephone.ready()
  assert telephone.state()['s'] == '1' and telephone.page.locator('#sentence').is_visible()
  telephone.page.click('#headline')
  assert not telephone.page.locator('#sentence').is_visible()


def test_a_telephone_shows_what_is_typed_and_its_tokens_at_once(browser, captures, tmp_path):
  ready = live.prepare(small_translator(), LINES[:3])
  first = first_view.FirstView(0, 'encoder', 1, 2, 1, 3, 0.5)
  write_whole(path := str(tmp_path / 'live.html'), page.page(page.report(
      [sentence(one) for one in captures[:2]], first, [], live=ready.record)))
  tab = Tab(browser, path, viewport={'width': 390, 'height': 844})
  for selector in ('#typed', '#translation', '#headline', '#architecture', '.queries button'):
    box = tab.page.locator(selector).first.bounding_box()
    assert 0 <= box['y'] and box['y'] + box['height'] <= 844, selector
  assert not tab.page.locator('#heat').is_visible()
  tab.page.click('#live-controls summary')
  assert tab.page.locator('#heat').is_visible()
  height = lambda: tab.page.locator('#typed').bounding_box()['height']
  before = height()
  tab.page.fill('#typed', 'the dog ' * 20)
  tab.page.wait_for_function('() => sentence().source.length > 100')
  tab.ready()
  assert height() >= 2 * before and tab.page.evaluate('() => document.documentElement.scrollWidth') <= 390
  chips = tab.page.locator('#suggestions button')
  chips.nth(0).focus()
  tab.page.keyboard.press('ArrowRight')
  assert chips.nth(1).evaluate('chip => chip === document.activeElement && chip.tabIndex === 0')
  tab.close()


def test_the_bar_stays_in_sight_and_covers_no_token_that_the_keyboard_chooses(telephone):
  for to in ('0', 'document.body.scrollHeight'):  # from above and from below
    telephone.page.evaluate(f'() => window.scrollTo(0, {to})')
    for _ in range(6):
      telephone.page.keyboard.press('ArrowDown')
      telephone.ready()
      telephone.page.wait_for_function('''() => { const chosen = document.querySelector('.queries .chosen');
        const box = chosen.getBoundingClientRect();
        return chosen.contains(document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2)) &&
          chosen.contains(document.elementFromPoint(box.x + box.width / 2, box.y + 2)); }''', timeout=2000)
  telephone.page.evaluate('() => window.scrollTo(0, document.body.scrollHeight)')
  bar = telephone.page.locator('#bar').bounding_box()
  assert bar['y'] == 0 and bar['height'] <= 844 / 5


def test_the_picture_of_the_model_is_the_way_through_it(tab):
  for kind, layer in (('decoder', 0), ('cross', 1), ('encoder', 0)):
    tab.page.click(f'[data-kind={kind}] [data-layer="{layer}"]')
    assert (tab.state()['k'], tab.state()['l']) == (kind, str(layer))
    pressed = tab.page.locator('#architecture [aria-pressed=true]').evaluate_all(
        'buttons => buttons.map(b => b.ariaLabel ?? b.textContent)')
    assert pressed == [f'{KINDS[kind]}, layer {layer + 1}', KINDS[kind]]
  tab.page.keyboard.press('ArrowUp')  # within the stack, whose button has the focus
  tab.ready()
  assert tab.state()['l'] == '1' and tab.page.evaluate('() => document.activeElement.ariaLabel') == (
      'encoder self-attention, layer 2')
  tab.page.focus('#kind-decoder')
  tab.page.keyboard.press('Enter')
  assert tab.state()['k'] == 'decoder'
  assert tab.page.locator('#architecture .place > button').all_inner_texts() == [
      KINDS[kind] for kind in ('encoder', 'cross', 'decoder')]


@pytest.mark.parametrize('layers, width', [(8, 1280), (12, 1280), (24, 1280), (24, 390), (48, 1280)])
def test_every_layer_of_a_deep_model_can_be_read_and_hit(browser, tmp_path, layers, width):
  text = text_of(['a', 'b', 'c'])
  first = first_view.FirstView(0, 'encoder', 0, 0, 1, 0, 0.5)
  write_whole(path := str(tmp_path / 'deep.html'), page.page(page.report(
      [page.Sentence('s', 't', drawn(text, text, layers=layers, heads=1, width=2, with_operands=False))], first, [])))
  tab = Tab(browser, path, viewport={'width': width, 'height': 844})
  boxes = tab.page.locator('.stack button').evaluate_all('''buttons => buttons.map(button => {
    const {x, y, width, height} = button.getBoundingClientRect(), {lineHeight} = getComputedStyle(button);
    const under = document.elementFromPoint(x + width / 2, y + height / 2);
    return {width, height, line: parseFloat(lineHeight), isHit: under === button, isWide: button.scrollWidth <= width + 1}; })''')
  assert len(boxes) == 3 * layers and not [place for place, box in enumerate(boxes) if not box['isHit']]
  assert min(box['height'] for box in boxes) >= 12 and min(box['width'] for box in boxes) >= 12
  assert all(box['isWide'] for box in boxes)
  places = tab.page.locator('[data-kind=encoder] .stack button').evaluate_all(
      'buttons => buttons.map(button => { const {x, y} = button.getBoundingClientRect(); return [Math.round(x), -Math.round(y)]; })')
  assert places == sorted(places)  # from the bottom up, then from left to right
  assert tab.page.locator('.stack').first.bounding_box()['height'] <= 72
  tab.page.locator('[data-kind=decoder] [data-layer="7"]').click()
  assert (tab.state()['k'], tab.state()['l']) == ('decoder', '7')
  tab.close()


@pytest.mark.parametrize('kinds', [('decoder',), ('cross',)])
def test_the_picture_has_only_what_the_model_has(browser, captures, tmp_path, kinds):
  seen = dataclasses.replace(captures[0], weights={kind: captures[0].weights[kind] for kind in kinds}, operands={})
  first = first_view.FirstView(0, kinds[0], 0, 0, 1, 0, 0.5)
  write_whole(path := str(tmp_path / 'one.html'), page.page(page.report([page.Sentence('s', 't', seen)], first, [])))
  tab = Tab(browser, path)
  assert tab.page.locator('#architecture .place > button').all_inner_texts() == [KINDS[kind] for kind in kinds]
  assert tab.page.locator('#architecture svg').count() == 0
  tab.close()


def test_every_panel_is_a_dozen_tab_stops_away_and_a_group_is_one(tab):
  inside = lambda selector: tab.page.evaluate(
      'selector => document.querySelector(selector).contains(document.activeElement)', selector)

  def presses_to(selector, most):
    for count in range(most):
      if inside(selector):
        return count
      tab.page.keyboard.press('Tab')
    raise AssertionError(f'{selector} is not reached by {most} presses of Tab')

  presses_to('#skips a:last-child', 3)
  tab.page.keyboard.press('Enter')
  shown = tab.state()
  assert inside('#grid-panel') and shown['q'] == '1'  # the choice stays
  presses_to('#effects-panel', 12)
  tab.page.reload()
  tab.ready()
  presses_to('#skips a:first-child', 3)
  tab.page.keyboard.press('Enter')
  presses_to('.queries', 5)
  tab.page.keyboard.press('ArrowDown')
  tab.ready()
  assert tab.state()['q'] == '2' and inside('.queries')
  presses_to('.keys', 2)
  tab.page.keyboard.press('ArrowUp')
  tab.ready()
  assert tab.state()['q'] == '2' and tab.state()['m'] == '5' and inside('.keys')


def test_long_words_wrap_and_arcs_end_at_their_tokens(browser, tmp_path):
  words = text_of(['Donaudampfschifffahrtsgesellschaft' * 3, 'שלום', 'a', 'unausgesprochenermaßen'])
  path, first = str(tmp_path / 'words.html'), first_view.FirstView(0, 'encoder', 1, 2, 0, 2, 0.5)
  write_whole(path, page.page(page.report([sentence(drawn(words, words, seed=5))], first, [])))
  tab = Tab(browser, path, viewport={'width': 390, 'height': 844})
  boxes = {side: [tab.page.locator(f'.{side} button').nth(n).bounding_box() for n in range(4)]
           for side in ('queries', 'keys')}
  canvas = tab.page.locator('.classic canvas').bounding_box()
  heights = [box['height'] for box in boxes['keys']]
  assert heights[0] > 2 * heights[2] and heights[1] == heights[2]
  for side, name in (('queries', 'query'), ('keys', 'key')):
    places = tab.page.evaluate(f'() => panes[0].arcs.sizes.places.{name}')
    centres = [box['y'] + box['height'] / 2 - canvas['y'] for box in boxes[side]]
    np.testing.assert_allclose(places, centres, atol=2)
  text_box = '''token => { const range = document.createRange(); range.selectNodeContents(token);
    const text = range.getBoundingClientRect(), box = token.getBoundingClientRect();
    const glyphs = [...range.getClientRects()].filter(r => r.width < box.width / 1.5);
    return [Math.min(...glyphs.map(r => r.left)) - box.left, box.right - Math.max(...glyphs.map(r => r.right))]; }'''
  assert tab.page.locator('.keys button').nth(1).evaluate(text_box)[0] < 10  # right-to-left, beside its arcs
  assert tab.page.locator('.queries button').nth(1).evaluate(text_box)[1] < 10
  tab.close()


@pytest.mark.parametrize('kind', ['decoder', 'cross'])
def test_what_is_read_stands_left_of_what_is_predicted_in_every_script(browser, tmp_path, kind):
  words = text_of(['שלום', 'עולם', 'طابق' * 7, 'Tier'])
  path, first = str(tmp_path / 'hebrew.html'), first_view.FirstView(0, kind, 1, 2, 1, 0, 0.5)
  write_whole(path, page.page(page.report([sentence(drawn(words, words, seed=5))], first, [])))
  tab = Tab(browser, path, viewport={'width': 1280, 'height': 900})
  read, predicted = tab.page.locator('.queries button').nth(1).locator('bdi').all()
  assert read.bounding_box()['x'] + read.bounding_box()['width'] < predicted.bounding_box()['x']
  drawings = [tab.page.evaluate(f'() => {make}.text()') for make in (
      'panes[0].arcs.picture((w, h) => new SvgPen(w, h))',
      'panes[0].heatMap.draw(panes[0].focus(), (w, h) => new SvgPen(w, h))')]
  for drawing in drawings:
    assert '>\u2068שלום\u2069 → \u2068עולם\u2069<' in drawing
    assert drawing.count('\u2068') == drawing.count('\u2069') == 8  # also where a name is cut
  assert f">\u2068{('طابق' * 7)[:21]}…\u2069\u2068\u2069<" in drawings[1]
  tab.close()


def test_the_list_of_heads_is_one_tab_stop_and_keeps_the_focus(tab):
  button = tab.page.locator('#strongest button').nth(2)
  focused = lambda: tab.page.evaluate('() => document.activeElement.textContent')
  name = button.inner_text()
  button.focus()
  tab.page.keyboard.press('Enter')
  tab.ready()
  assert focused() == name and tab.page.locator('#strongest tr.chosen button').inner_text() == name
  tab.page.keyboard.press('ArrowDown')
  tab.ready()
  assert focused() == tab.page.locator('#strongest button').nth(3).inner_text() != name
  assert tab.page.locator('#strongest button[tabindex="0"]').count() == 1


def numbers_of(strip):
  """The numbers that the cells of a strip tell."""
  titles = strip.locator('span').evaluate_all('cells => cells.map(c => c.title)')
  return np.array([float(re.split('[:=] ', title)[-1]) for title in titles])


@pytest.mark.parametrize('kind', ['encoder', 'decoder', 'cross'])
def test_the_products_of_the_strips_add_up_to_the_score_that_is_shown(tab, captures, kind):
  tab.page.click(f'#kind-{kind}')
  tab.page.locator('.queries button').nth(3).click()
  tab.page.locator('.keys button').nth(2).click()
  tab.ready()
  strips = tab.page.locator('#strips .strip')
  numbers = np.array([numbers_of(strips.nth(n)) for n in range(3)])
  assert numbers.shape == (3, captures[0].operands[kind].query.shape[-1]) and np.abs(numbers).max() > 0.1
  np.testing.assert_allclose(numbers[0] * numbers[1], numbers[2], atol=6e-3)
  row = dict(cells.split('\t')[:2] for cells in tab.page.locator('#calculation tr').all_inner_texts())
  name = strips.nth(1).get_attribute('aria-label').split('“')[1].rstrip('”')
  assert numbers[2].sum() == pytest.approx(float(row[name]), abs=0.02)
  assert f'the products add up to q·k = {row[name]}' in tab.text('#products')
  unit = tab.page.evaluate('chosenPieces(sentence()).queryUnit')  # a query is made from what is read, not from what follows
  assert (unit['reads'] is None) == (kind == 'encoder') and unit['reads'] != unit['label']
  assert strips.nth(0).get_attribute('aria-label') == f'q “{unit["reads"] or unit["label"]}”'
  colour = lambda number: tab.page.evaluate('number => signed(theme(), number).background', number)
  cells = strips.nth(2).locator('span').evaluate_all('cells => cells.map(c => c.style.background)')
  most = int(np.abs(numbers[2]).argmax())
  assert cells[most].replace(' ', '') == colour(float(np.sign(numbers[2, most]))).replace(' ', '')


@pytest.mark.parametrize('kind', ['encoder', 'decoder', 'cross'])
def test_the_projection_makes_the_query_and_the_key_that_the_calculation_shows(tab, captures, kind):
  tab.page.click(f'#kind-{kind}')
  tab.page.locator('.queries button').nth(3).click()
  tab.page.locator('.keys button').nth(2).click()
  tab.ready()
  tab.page.locator('#dimension').fill('4')
  assert tab.text('#dimension-count') == '4 of 5' and '&d=3' in tab.page.url
  shown = tab.page.locator('#strips .strip')
  own = captures[0].projections[kind]
  for side, letter in enumerate('qk'):
    picture = tab.page.locator('.projection').nth(side)
    x, products = (numbers_of(picture.locator('.strip').nth(n)) for n in range(2))
    made = numbers_of(shown.nth(side))
    matrix = own[2 + side][1, :, 2]  # [D, K] of the head that the page opens with
    assert np.abs(own[side][1] - x).max(axis=1).min() < 1e-3  # the vector of one of the tokens
    np.testing.assert_allclose(products, x * matrix[:, 3], atol=2e-3)
    np.testing.assert_allclose(x @ matrix, made, atol=5e-3)
    told = re.search(rf'add up to number 4 of {letter} = (-?[\d.]+)\.$', picture.locator('.legend').inner_text())
    assert float(told[1]) == pytest.approx(made[3], abs=0.01)
  tab.page.locator('.matrix canvas').first.click(position={'x': 20, 'y': 10})  # the first of five rows
  assert tab.text('#dimension-count') == '1 of 5'
  assert tab.page.locator('.matrix .marker').first.evaluate('m => m.style.top') == '0%'


def test_a_projection_is_not_shown_where_the_report_has_no_matrices(browser, captures, tmp_path):
  first = first_view.FirstView(0, 'encoder', 1, 2, 1, 3, 0.5)
  write_whole(path := str(tmp_path / 'without.html'), page.page(page.report([sentence(captures[0])], first, [], projected={
      'd_model': 7, 'rotary': False, 'biased': False, 'matrices': None})))
  tab = Tab(browser, path)
  assert tab.page.locator('#projection-panel').is_hidden() and tab.page.locator('#calculation tr').count() > 2
  tab.close()


@pytest.mark.parametrize('made, said', [
    ({}, 'the head’s matrices (7 × 5): q = x W^Q, and k = x W^K. '),
    ({'biased': True, 'sharing': 3}, 'q = x W^Q + b^Q, and k = x W^K + b^K; W^K is the same in 3 heads. ')])
def test_the_calculation_says_what_queries_and_keys_are_made_of(browser, captures, tmp_path, made, said):
  first = first_view.FirstView(0, 'encoder', 1, 2, 1, 3, 0.5)
  projected = {'d_model': 7, 'rotary': False, 'biased': False, 'sharing': 1, 'matrices': None, **made}
  write_whole(path := str(tmp_path / 'made.html'), page.page(page.report([sentence(captures[0])], first, [],
                                                                         projected=projected)))
  tab = Tab(browser, path)
  assert said in tab.text('#calculation-text')
  tab.close()


@pytest.mark.parametrize('scheme', ['light', 'dark'])
def test_help_and_harm_have_colours_of_their_own_on_which_text_is_legible(browser, captures, tmp_path, scheme):
  changed = dataclasses.replace(sentence(captures[0]), effects={
      head: Effect(change, 'x') for head, change in zip(sentence(captures[0]).effects, np.linspace(-2, 2, 18))})
  first = first_view.FirstView(0, 'encoder', 1, 2, 1, 3, 0.5)
  write_whole(path := str(tmp_path / 'signed.html'), page.page(page.report([changed], first, [])))
  tab = Tab(browser, path, color_scheme=scheme)
  found = {}
  for kind in captures[0].weights:
    tab.page.click(f'#kind-{kind}')
    for change, back, ink in tab.page.locator('#effects button').evaluate_all(
        'cells => cells.map(c => [c.textContent, c.style.background, c.style.color])'):
      found[float(change)] = [tuple(int(x) for x in re.findall(r'\d+', style)) for style in (back, ink)]
  for change, (back, ink) in found.items():
    assert (back[2] > back[0]) == (change < 0) or abs(change) < 0.3, change  # blue helps, orange harms
    light, dark = sorted((sum(share * (part / 255)**2.2 for share, part in zip((0.2126, 0.7152, 0.0722), rgb))
                          for rgb in (back, ink)), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 4.5, change
  assert 'the head helps' in tab.text('#effects-legend') and tab.page.locator('#effects-legend .swatch').count() == 2
  tab.close()
