"""Figures show the numbers that they say they show."""

import dataclasses
import io
import json

import matplotlib
import numpy as np
import pytest
from matplotlib import font_manager
from matplotlib.figure import Figure

import visualize
from checks.errors import ConfigError
from explorer import figures, reports
from explorer.texts import Text
from options import configurations, visualize_options
from tasks.translation import Translation
from tests.explorer_stand_ins import LINES, constructed, drawn, small_translator
from training.run_folder import RunFolder
from transformer import positions

WORDS = ['the', 'animal', 'sees', 'it']


def images(figure):
  return [axes.images[0].get_array() for axes in figure.axes if axes.images]


@pytest.mark.parametrize('format', ['png', 'svg'])
def test_attention_is_a_grid_of_every_head(format):
  seen = constructed(WORDS, encoder=[(2, 1, 3, 1, 0.75)])
  figure = figures.attention(seen, 'encoder')
  assert len(figure.axes) == 3 * 2
  np.testing.assert_array_equal(images(figure)[5], seen.weights['encoder'][2, 1])
  assert [label.get_text() for label in figure.axes[4].get_yticklabels()] == WORDS
  file = io.BytesIO()
  figure.savefig(file, format=format)
  assert file.getvalue().startswith({'png': b'\x89PNG', 'svg': b'<?xml'}[format])


@pytest.mark.parametrize('width, height', [(250.0, 190.0), (3000.0, 2.0)])
def test_a_large_figure_has_fewer_dots_and_its_picture_no_more_pixels_than_fit(width, height):
  dots = figures.dots_per_inch(width, height)
  assert dots < figures.DPI and max(width, height) * dots < 2 ** 16
  assert np.isclose(width * height * dots ** 2, figures.MOST_PIXELS) or np.isclose(width * dots, figures.MOST_BESIDE)
  assert figures.dots_per_inch(20.0, 12.0) == figures.DPI


def test_letters_are_drawn_by_a_font_that_has_them_and_named_once_where_none_has(monkeypatch, recwarn):
  charmap = lambda name: font_manager.get_font(font_manager.findfont(name)).get_charmap().keys()
  rare = chr(min(charmap('STIXGeneral') - charmap(figures.DEFAULT_FONT)))  # both come with matplotlib
  known = font_manager.fontManager.ttflist
  for names, missing, families in (({figures.DEFAULT_FONT, 'STIXGeneral'}, '狗ไทย', [figures.DEFAULT_FONT, 'STIXGeneral']),
                                   ({figures.DEFAULT_FONT}, f'狗ไทย{rare}', ['sans-serif'])):
    monkeypatch.setattr(font_manager.fontManager, 'ttflist', [font for font in known if font.name in names])
    figure = figures.attention(constructed(['Hund', '狗', 'ไทย', rare], encoder=[]), 'encoder')
    assert figures.choose_fonts(figure).split() == sorted(missing)
    assert {*map(tuple, (label.get_family() for label in figure.axes[0].get_yticklabels()))} == {tuple(families)}
  with figures.unwarned():
    figure.savefig(io.BytesIO(), format='png')
  assert not recwarn.list


def test_long_words_and_titles_fit_their_figure():
  """One layer and head, as recurrent models have them, and an address among the words."""
  seen = constructed(['a', 'b', 'https://example.org/' + 99 * 'x'], encoder=[])
  figure = figures.attention(dataclasses.replace(seen, weights={'encoder': seen.weights['encoder'][:1, :1]}), 'encoder')
  figure.draw_without_rendering()
  box, width = figure._suptitle.get_window_extent(), figure.bbox.width
  assert 0 <= box.x0 < box.x1 <= width
  *_, name = [label.get_text() for label in figure.axes[0].get_yticklabels()]
  assert name == 'https://example.org/x…' and len(name) == figures.LONGEST_NAME


def test_the_future_of_a_decoder_is_masked():
  shown = images(figures.attention(constructed(WORDS, decoder=[]), 'decoder'))[0]
  np.testing.assert_array_equal(shown.mask, np.triu(np.ones((4, 4)), 1) > 0)


def test_a_word_sees_its_own_earlier_pieces():
  """What is masked is what no piece of the word may see; all else is shown as it is."""
  target = Text(('Ti', '·er', 'schläft', '·e', '·nd', '⟨eos⟩'), ('Tier', 'schläfend', '⟨eos⟩'), (0, 0, 1, 1, 1, 2),
                (False,) * 5 + (True,))
  seen = drawn(target, target)
  shown = images(figures.attention(seen, 'decoder'))[0]
  # Read are BOS, Tier and schläfend: "·er" sees "Ti", and "·e" sees "schläft".
  np.testing.assert_array_equal(shown.mask, [[False, False, True], [False, False, False], [False, False, False]])
  np.testing.assert_array_equal(shown.data[~shown.mask], seen.by_word('decoder')[0, 0][~shown.mask])
  np.testing.assert_allclose(shown.sum(axis=1), 1.0, rtol=1e-5)


def test_positions_are_the_models_own_in_both_layouts():
  shown = images(figures.position_encodings())
  for image, layout in zip(shown, ('interleaved', 'halves')):
    np.testing.assert_array_equal(image, positions.sinusoids(20, 512, layout))
  products = figures.position_products(150, 512)
  for distance in (1, 7, 30):  # a function of the distance alone
    np.testing.assert_allclose(np.diag(products, distance), products[0, distance], rtol=1e-5)
  np.testing.assert_allclose(products[3, 5], sum(
      positions.sinusoids(6, 512)[3, i] * positions.sinusoids(6, 512)[5, i] for i in range(512)), rtol=1e-6)


def test_curves_leave_out_what_was_not_measured():
  lines = [{'step': 1, 'train/loss': 3.0}, {'step': 2, 'train/loss': None}, {'step': 3, 'validation/bleu': 7.0},
           {'step': 4, 'train/loss': 2.0}]
  assert figures.curve(lines, 'train/loss') == ([1, 4], [3.0, 2.0])
  drawn = figures.learning_curves({'a': lines, 'b': lines[:1]}).axes
  assert [line.get_label() for line in drawn[0].lines] == ['a', 'b'] and list(drawn[1].lines[0].get_ydata()) == [7.0]


@pytest.mark.parametrize('name, measure, label', [
    ('language_model', 'bits_per_byte', 'validation bits per byte'), ('fine_tune', 'accuracy', 'validation accuracy'),
    ('phrasebook', 'bleu', 'validation BLEU')])
def test_curves_are_of_the_tasks_own_measure(name, measure, label, tmp_path, monkeypatch):
  (tmp_path / 'config.json').write_text(json.dumps(configurations.load_config(f'configs/{name}.py')))
  (tmp_path / 'metrics.jsonl').write_text(json.dumps({'step': 3, 'train/loss': 1.0, f'validation/{measure}': 0.5}) + '\n')
  options = visualize_options.parse(['visualize.py', f'--workdir={tmp_path}', '--format=png', '--figure=curves'], '')
  right = visualize.draw_curves(options, RunFolder.open(str(tmp_path))).axes[1]
  assert right.get_ylabel() == label and list(right.lines[0].get_ydata()) == [0.5]


def test_pruning_curves_of_files_of_one_name_stand_beside_each_other(tmp_path):
  for name, bleu in (('a', 9.0), ('b', 5.0)):
    (tmp_path / name).mkdir()
    (tmp_path / name / 'heads.json').write_text(json.dumps(
        {'pruning': [{'closed': 0, 'bleu': bleu}], 'least_important_first': ['x'], 'sentences': 3}))
  options = visualize_options.parse(['visualize.py', f'--workdir={tmp_path}', '--format=png', '--figure=pruning',
                                     f'--beside={tmp_path}/a/heads.json,{tmp_path}/b/heads.json'], '')
  lines = visualize.draw_pruning(options, None).axes[0].lines
  assert [(line.get_label()[:12], *line.get_ydata()) for line in lines] == [('a/heads.json', 9.0), ('b/heads.json', 5.0)]


def test_pruning_needs_its_curve():
  record = {'pruning': [{'closed': 0, 'bleu': 9.0}, {'closed': 2, 'bleu': 5.0}], 'least_important_first': ['a'] * 4,
            'sentences': 3}
  line, = figures.pruning_curves({'a': record}).axes[0].lines
  assert list(line.get_xdata()) == [0, 2] and list(line.get_ydata()) == [9.0, 5.0]
  with pytest.raises(ValueError, match='--pruning'):
    figures.pruning_curves({'a': {}})


def test_a_dollar_begins_no_formula():
  """Not in words, pieces, or the names of runs; a formula without an end would be an error."""
  words = ['$', '$5$', '$x_$', '_a']
  lines = [{'step': 1, 'train/loss': 3.0, 'validation/bleu': 2.0}]
  record = {'pruning': [{'closed': 0, 'bleu': 9.0}], 'least_important_first': ['a'], 'sentences': 3}
  for figure, expected in (
      (figures.attention(constructed(words, encoder=[]), 'encoder'), words),
      (figures.distributions(np.eye(4), np.eye(4), words, words), words),
      (figures.learning_curves(dict.fromkeys(words, lines)), words),
      (figures.pruning_curves(dict.fromkeys(words, record)), [f'{word} (1 heads, 3 sentences)' for word in words])):
    file = io.StringIO()
    with matplotlib.rc_context({'svg.fonttype': 'none'}):  # text stays text
      figure.savefig(file, format='svg')
    assert all(f'>{word}</text>' in file.getvalue() for word in expected)


def test_the_smoothed_target_by_hand():
  found = figures.smoothed_target([4, 2], [2, 4, 5], size=10, smoothing=0.1)
  np.testing.assert_allclose(found, [[0.01, 0.91, 0.01], [0.91, 0.01, 0.01]])
  shares = np.array([[0.0, 0.1, 0.2, 0.3, 0.4], [0.5, 0.1, 0.2, 0.2, 0.0]])
  assert figures.entries_to_show([3, 1, 3], shares, more=2) == [3, 1, 0, 4]


def test_runs_are_called_by_what_tells_them_apart():
  assert reports.shortest_names(['/runs/a', '/runs/b/']) == ['a', 'b']
  assert reports.shortest_names(['/a/seed_0', '/b/seed_0']) == ['a/seed_0', 'b/seed_0']


@pytest.mark.parametrize('figure', ['cross', 'distributions', 'positions'])
def test_visualize_draws(figure, tmp_path, monkeypatch):
  config = configurations.load_config('configs/phrasebook.py')
  (tmp_path / 'config.json').write_text(json.dumps(config))
  (tmp_path / 'in').write_text(f'\n{LINES[0]}\n')
  (tmp_path / 'ref').write_text(f'\n{LINES[1]}\n')
  monkeypatch.setattr(Translation, 'load', lambda *_, **__: small_translator())
  given = [] if figure == 'positions' else [f'--input={tmp_path}/in', f'--reference={tmp_path}/ref']
  options = visualize_options.parse(['visualize.py', f'--workdir={tmp_path}', '--format=svg', f'--figure={figure}', *given,
                                     f'--output={tmp_path}/out.svg'], '')
  assert visualize.main(options) == 0 and '<svg' in (before := (tmp_path / 'out.svg').read_text())
  # What ends while it is written leaves the one before.
  monkeypatch.setattr(Figure, 'savefig', lambda figure, file, **_: file.write(b'half') and 1 / 0)
  with pytest.raises(ZeroDivisionError):
    visualize.main(options)
  assert (tmp_path / 'out.svg').read_text() == before and not [*tmp_path.glob('out*unfinished')]


def test_pruning_without_an_analysis_is_refused(tmp_path):
  (tmp_path / 'config.json').write_text(json.dumps(configurations.load_config('configs/phrasebook.py')))
  argv = ['visualize.py', f'--workdir={tmp_path}', '--format=png', '--figure=pruning']
  options = visualize_options.parse(argv, '')
  assert options.output == 'pruning.png'
  with pytest.raises(ConfigError, match='analyze.py'):
    visualize.main(options)
