"""visualize.py from its command line to its page, on a translator that never was trained."""

import json
import types
import urllib.parse
import urllib.request

import jax
import numpy as np
import pytest

import visualize
from checks.errors import ConfigError
from decoding.translator import Translator
from explorer import capture, figures, head_ablation, live, page, reports, snapshots, texts, training_page
from explorer.capture import TokenPair
from explorer.gates import Head
from options import configurations, visualize_options
from tasks.language_model import Continuer
from tasks.translation import Translation
from tests.explorer_stand_ins import LINES, shaken, small_translator, small_vocabulary
from training.run_folder import RunFolder
from transformer import architectures
from transformer.config import LanguageModelConfig, RecurrentConfig
from transformer.search import SearchConfig


def options(*arguments):
  return visualize_options.parse(['visualize.py', *arguments], 'Looks.')


@pytest.fixture
def run(tmp_path, monkeypatch):
  """The folder of a run, and what is loaded from it."""
  config = configurations.load_config('configs/phrasebook.py')
  (tmp_path / 'config.json').write_text(json.dumps(config))
  monkeypatch.setattr(Translation, 'load', lambda *_, **__: small_translator())
  return tmp_path


def held(page):
  return json.loads(page.read_text().split('id="report">')[1].split('</script>')[0])


def test_switches_are_true_or_false():
  assert options('--workdir=a').effects and not options('--workdir=a').open
  chosen = options('--workdir=a', '--effects=false', '--open', '--search.beam_size=1')
  assert not chosen.effects and chosen.open and chosen.search == {'beam_size': 1}


def test_lines_become_a_page(run):
  (run / 'in.txt').write_text(f'{LINES[0]}\n\n{LINES[1]}\n')
  assert visualize.main(options(f'--workdir={run}', f'--input={run}/in.txt', f'--output={run}/page.html')) == 0
  report = held(run / 'page.html')
  assert [sentence['source'] for sentence in report['sentences']] == LINES[:2]
  assert report['first_view']['beside'] == 1 - report['first_view']['sentence']
  assert len(report['sentences'][0]['effects']['heads']['cross'][1]) == 2 and 'vectors' in report['sentences'][0]
  assert ['run', str(run)] in report['card']
  first = report['first_view']
  assert report['sentences'][first['sentence']]['shapes'][first['kind']][:2] == [2, 2]


def test_references_stand_beside_what_the_search_found(run):
  (run / 'in.txt').write_text(f'{LINES[0]}\n')
  (run / 'ref.txt').write_text(f'{LINES[3]}\n')
  visualize.main(options(f'--workdir={run}', f'--input={run}/in.txt', f'--reference={run}/ref.txt',
                         f'--output={run}/page.html', '--effects=false'))
  found, reference = held(run / 'page.html')['sentences']
  assert found['source'] == reference['source'] == LINES[0] and reference['target'] == LINES[3]
  assert 'reference' in reference['origin'] and 'effects' not in found


def test_a_reference_belongs_to_its_own_line_where_others_are_blank(run):
  (run / 'in.txt').write_text(f'{LINES[0]}\n\n{LINES[1]}\n{LINES[2]}\n')
  (run / 'ref.txt').write_text(f'\n{LINES[0]}\n\n{LINES[3]}\n')
  given = [f'--workdir={run}', f'--input={run}/in.txt', f'--reference={run}/ref.txt']
  visualize.main(options(*given, f'--output={run}/page.html'))
  found, reference = held(run / 'page.html')['sentences']
  assert found['source'] == reference['source'] == LINES[2] and reference['target'] == LINES[3]
  assert reference['effects']['written'] == found['target'] and 'written' not in found['effects']
  (run / 'ref.txt').write_text(f'\n{LINES[0]}\n\n\n')
  for more in ([], ['--format=svg', '--figure=cross']):
    with pytest.raises(ConfigError, match='at least one sentence with its translation'):
      visualize.main(options(*given, f'--output={run}/page.html', *more))


def test_notes_number_the_lines_that_were_given_and_leave_out_what_closed_heads_do(monkeypatch):
  translator, told = small_translator(), []
  translate = translator.translate
  monkeypatch.setattr(translator, 'notes', lambda: [f'{len(told)} searches, of lines {told[-1]}'])
  monkeypatch.setattr(translator, 'translate',
                      lambda lines: told.append([each.line + 1 for each in lines]) or translate(lines))
  report = reports.explain(translator, ['', LINES[0], ' ', LINES[1]])
  assert report.notes == ('1 searches, of lines [2, 4]',) and len(told) > 1


def test_an_ensemble_is_refused_and_keeps_its_models():
  one = small_translator()
  two = Translator([one.parts[0]] * 2, one.params * 2, *one.parts[1:], one.search_config, 8)
  for explained in (reports.explain, live.prepare):
    with pytest.raises(ValueError, match='an ensemble of 2 models; the explorer shows what one model does'):
      explained(two, LINES[:1])
  assert len(two.params) == 2


def test_as_many_references_as_lines_are_expected_blank_ones_included():
  with pytest.raises(ValueError, match='2 sentences and 1 references'):
    reports.explain(small_translator(), [LINES[0], ''], [LINES[1]])


def test_a_living_page_opens_with_what_the_run_suggests(run):
  asked = options(f'--workdir={run}', '--live', f'--output={run}/page.html', '--effects=false')
  with pytest.raises(ConfigError, match='--input=FILE'):
    visualize.main(asked)
  assert not (run / 'page.html').exists()
  (run / 'suggestions.json').write_text(json.dumps(LINES))
  assert visualize.main(asked) == 0
  report = held(run / 'page.html')
  assert [sentence['source'] for sentence in report['sentences']] == sorted(LINES, key=len)[1:]
  assert report['live']['suggestions'] == LINES[:3] and report['live']['weights']['format'] == 'float16'
  assert ['weights', 'rounded to float16 for this page'] in report['card']


def test_a_figure_holds_no_model(capsys):
  with pytest.raises(SystemExit):
    options('--workdir=a', '--live', '--format=png')
  assert '--live with --format=png' in capsys.readouterr().err


@pytest.mark.parametrize('lines, message', [('\n\n', 'at least one sentence')])
def test_no_sentence_is_an_error(run, lines, message):
  (run / 'in.txt').write_text(lines)
  with pytest.raises(ConfigError, match=message):
    visualize.main(options(f'--workdir={run}', f'--input={run}/in.txt', f'--output={run}/page.html'))
  assert not (run / 'page.html').exists()


class Browser:
  """In place of a browser: records what it is asked to open."""

  def __init__(self, name, opens=True):
    self.name, self.opens, self.asked = name, opens, []

  def open(self, address):
    self.asked.append(address)
    return self.opens


@pytest.mark.parametrize('browser, asked, shown', [
    (Browser('/usr/bin/firefox'), 1, True), (Browser('firefox', opens=False), 1, False),
    (Browser('/usr/bin/lynx'), 0, False), (None, 0, False)])
def test_open_shows_the_page_or_says_that_nothing_can(run, browser, asked, shown, monkeypatch, capsys):
  def get():
    if browser is None:
      raise visualize.webbrowser.Error('could not locate runnable browser')
    return browser
  monkeypatch.setattr(visualize.webbrowser, 'get', get)
  (run / 'in.txt').write_text(f'{LINES[0]}\n')
  written = run / 'a page #1.html'
  assert visualize.main(options(f'--workdir={run}', f'--input={run}/in.txt', f'--output={written}', '--effects=false',
                                '--open')) == 0
  assert written.stat().st_size > 20_000
  assert ('no browser' in capsys.readouterr().err) == (not shown)
  assert [urllib.request.url2pathname(urllib.parse.urlsplit(address).path) for address in (
      browser.asked if browser else [])] == [str(written)] * asked


# ------------------------------------------------------------------------------------------------ while it trained


def test_snapshots_of_training_become_a_page(run, capsys):
  vocabulary, translator = small_vocabulary(), small_translator()
  folder = RunFolder.open(str(run))
  folder.save_vocabularies(vocabulary.model, None)
  asked = lambda *more: options(f'--workdir={run}', '--training', f'--output={run}/page.html', *more)
  with pytest.raises(ConfigError, match='train.watch_attention=samples'):
    visualize.main(asked())
  sentences = snapshots.token_pairs([(LINES[0], LINES[1]), (LINES[2], LINES[3])], vocabulary, vocabulary)
  watch = snapshots.Recorder(folder.attention, *translator.parts[:1], sentences, vocabulary, vocabulary, every=20)
  for step in (0, 20, 40):
    watch(shaken(translator.params[0], seed=step), step)
  (run / 'metrics.jsonl').write_text('{"step": 20, "train/loss": 3.0}\n{"step": 20, "validation/bleu": 12.345}\n')
  assert visualize.main(asked()) == 0
  report = held(run / 'page.html')
  assert report['training'] == [{'step': 0, 'summary': ''}, {'step': 20, 'summary': 'validation BLEU 12.35'},
                                {'step': 40, 'summary': ''}]
  assert [sentence['source'] for sentence in report['sentences']] == [LINES[0], LINES[2]]
  assert [sentence['target'] for sentence in report['sentences']] == [LINES[1], LINES[3]]
  assert all(len(sentence['weights']) == len(sentence['log_probs']) == 3 for sentence in report['sentences'])
  assert '3 snapshots of training, up to step 40' in capsys.readouterr().err


def test_a_page_on_training_has_room_for_some_snapshots():
  weights = np.random.default_rng(0).integers(0, 65536, (2, 3, 2, 2)).astype(np.uint16)
  seen = snapshots.SentenceSnapshot((), (1, 2), {'decoder': weights}, np.zeros(2, np.float32))
  recorded = [snapshots.Snapshot(step, (seen,)) for step in range(0, 110, 10)]
  size = len(page.packed(seen.weights['decoder'].ravel()))
  assert training_page.fitting(recorded, 20 * size) == recorded
  assert [one.step for one in training_page.fitting(recorded, 6 * size)] == [0, 20, 40, 60, 80, 100]
  assert [one.step for one in training_page.fitting(recorded, 1)] == [0, 100]


@pytest.mark.parametrize('more', [['--input=a'], ['--format=png'], ['--checkpoint=best'], ['--effects=false']])
def test_what_means_nothing_beside_training_is_refused(more, capsys):
  with pytest.raises(SystemExit):
    options('--workdir=a', '--training', *more)
  assert '--training with --' in capsys.readouterr().err


def test_a_report_says_what_queries_and_keys_are_made_from():
  shown = reports.explain(small_translator(), LINES[:1], with_effects=False)
  assert '"projected":{"d_model":14,"rotary":false,"biased":false,"sharing":1,"matrices":{' in shown.html
  without = reports.explain(small_translator(), LINES[:1], with_effects=False, with_vectors=False)
  assert '"matrices":null' in without.html


def test_a_long_line_does_not_pad_the_others(monkeypatch):
  lines, laid, pad = [LINES[0], LINES[3], LINES[1]], [], capture.padded_batch
  together = reports.explain(small_translator(), lines)
  assert len({sentence.capture.padded for sentence in together.sentences}) == 1

  def recorded(*given):
    batch = pad(*given)
    laid.append(max(side.ids.shape[1] for side in batch))
    return batch

  monkeypatch.setattr(capture, '_COARSE', 8)
  monkeypatch.setattr(capture, 'padded_batch', recorded)
  monkeypatch.setattr(head_ablation, 'padded_batch', recorded)
  apart = reports.explain(small_translator(), lines)
  alike = capture.alike([TokenPair((1,) * size, (2,)) for size in (9, 3, 8, 30, 10)])
  assert alike == [[3], [0, 4], [1, 2]]
  sizes = {length: laid.count(length) for length in laid}
  assert len(sizes) > 1 and set(sizes.values()) == {1 + 1 + 13}  # captures, layers, each head closed or none
  for one, other in zip(together.sentences, apart.sentences, strict=True):
    assert (one.source, one.target) == (other.source, other.target)
    predicted = [[[piece for piece, _ in layer[:len(one.capture.written)]] for layer in each.lens] for each in (one, other)]
    assert predicted[0] == predicted[1]
    assert one.log_prob == pytest.approx(other.log_prob, abs=1e-4)
    np.testing.assert_allclose(one.capture.weights['cross'], other.capture.weights['cross'], atol=1e-5)


def test_a_report_shows_itself_in_a_notebook():
  shown = reports.explain(small_translator(), LINES[:1], with_effects=False)._repr_html_()
  assert shown.startswith('<iframe srcdoc="&lt;!doctype html&gt;') and 'allow-scripts' in shown
  assert shown.count('"') == 2 * shown.count('="')  # the page's own quotes are escaped


def test_a_language_models_target_is_prompt_and_continuation():
  vocabulary = small_vocabulary()
  model = architectures.build(LanguageModelConfig(vocabulary.size, vocabulary.size, d_model=14, num_heads=2,
                                                  num_layers=2, d_ff=11, dropout=0.0))
  params = shaken(jax.jit(model.init)(jax.random.key(0)))
  writer = Continuer(model, params, vocabulary, SearchConfig(beam_size=1, extra_length=3), 16, batch_tokens=8)
  report = reports.explain(reports.Continuing(writer), ['the dog', 'a cat'])
  for prompt, sentence in zip(['the dog', 'a cat'], report.sentences):
    assert list(sentence.capture.weights) == ['decoder'] and sentence.capture.source is None
    begun = vocabulary.encode(prompt)
    assert sentence.capture.written[:len(begun)] == tuple(texts.labels(begun, vocabulary))
    assert set(sentence.effects) == {Head('decoder', layer, head) for layer in range(2) for head in range(2)}
  assert report.first_view.kind == 'decoder' and 'continued' in report.sentences[0].capture.origin
  assert writer.params is params


def test_a_model_whose_training_diverged_has_no_continuation():
  vocabulary = small_vocabulary()
  model = architectures.build(LanguageModelConfig(vocabulary.size, vocabulary.size, d_model=14, num_heads=2, num_layers=1,
                                                  d_ff=11))
  broken = jax.tree.map(lambda leaf: np.full_like(leaf, np.nan), model.init(jax.random.key(0)))
  for config in (SearchConfig(beam_size=1, extra_length=3), SearchConfig(strategy='sample', extra_length=3)):
    writer = Continuer(model, broken, vocabulary, config, 16)
    found, = writer.continue_lines(['ab'])
    assert found.text == 'ab' and list(found.ids) == vocabulary.encode('ab')
    assert 'no token a probability that is a number' in writer.notes()[0]


@pytest.mark.parametrize('over, label', [('vocabulary', 0.91), ('others', 0.9)])
def test_the_smoothed_target_is_the_runs_own(over, label, monkeypatch):
  vocabulary, drawn = types.SimpleNamespace(size=10, bos_id=1), []
  writer = types.SimpleNamespace(parts=(None, vocabulary, vocabulary), params=[None])
  monkeypatch.setattr(visualize, 'captured', lambda options, folder: (writer, TokenPair([4], [5]), None))
  monkeypatch.setattr(figures, 'next_token_shares', lambda *inputs: np.full((1, 10), 0.1))
  monkeypatch.setattr(figures, 'distributions', lambda target, *others: drawn.append(target))
  monkeypatch.setattr(texts, 'labels', lambda ids, vocabulary: ids)
  train = {'label_smoothing': 0.1, 'smoothing_over': over}
  visualize.draw_distributions(None, types.SimpleNamespace(read_config=lambda: {'train': train}))
  np.testing.assert_allclose(drawn[0][0], [label] + 4 * [0.01 if over == 'vocabulary' else 0.1 / 9])


@pytest.mark.long
def test_a_recurrent_models_attention_is_one_head():
  vocabulary = small_vocabulary()
  model = architectures.build(RecurrentConfig(vocabulary.size, vocabulary.size, 7))
  params = jax.jit(model.init)(jax.random.key(0))
  greedy = SearchConfig(beam_size=1, extra_length=3)
  report = reports.explain(Translator([model], [params], vocabulary, vocabulary, greedy, 8), LINES[:1])
  seen = report.sentences[0]
  assert {kind: weights.shape[:2] for kind, weights in seen.capture.weights.items()} == {'cross': (1, 1)}
  assert not seen.effects and report.first_view.kind == 'cross'
  blind = architectures.build(RecurrentConfig(vocabulary.size, vocabulary.size, 7, score='none'))
  params = jax.jit(blind.init)(jax.random.key(0))
  with pytest.raises(ValueError, match='no attention'):
    reports.explain(Translator([blind], [params], vocabulary, vocabulary, greedy, 8), LINES[:1])
