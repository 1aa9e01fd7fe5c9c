"""Snapshots of attention: what a run records at its evaluations, how many are kept, and which after a stop."""

import os
import types

import jax
import numpy as np
import pytest

import train
from checks.errors import ConfigError, DataError
from explorer import capture, snapshots, training_page
from options import configurations, train_options
from tests.explorer_stand_ins import LINES, shaken, small_translator, small_vocabulary
from tests.tiny_runs import options, saved
from transformer import architectures
from transformer.config import LanguageModelConfig, RecurrentConfig


def readings(*pairs):
  vocabulary = small_vocabulary()
  return snapshots.token_pairs(pairs or [(LINES[0], LINES[1]), (LINES[2], LINES[3])], vocabulary, vocabulary)


def watch(folder, every=10, sentences=None, model=None):
  translator = small_translator()
  return snapshots.Recorder(str(folder), model or translator.parts[0], sentences or readings(), *translator.parts[1:],
                            every)


# ----------------------------------------------------------------------------------------------------- what is kept


def test_a_snapshot_read_again_is_the_capture(tmp_path):
  params = small_translator().params[0]
  watch(tmp_path / 'attention')(params, 30)
  one, = snapshots.read(str(tmp_path / 'attention'))
  expected = capture.record(small_translator().parts[0], params, readings(), *small_translator().parts[1:])
  assert one.step == 30 and len(one.sentences) == 2
  for seen, reading, found in zip(one.sentences, readings(), expected):
    assert (list(seen.source), list(seen.target)) == reading[:2]
    np.testing.assert_array_equal(seen.log_probs, found.log_probs)
    assert list(seen.weights) == ['encoder', 'decoder', 'cross']
    for kind, weights in found.weights.items():
      assert seen.weights[kind].dtype == np.uint16
      np.testing.assert_allclose(seen.weights[kind] / 65535, weights, atol=2**-17 + 1e-7)
      whole = capture.from_uint16(seen.weights[kind])
      np.testing.assert_allclose(whole.sum(-1), 1.0, atol=capture.ROWS_SUM_TO)
      np.testing.assert_allclose(whole, weights, atol=1e-3)


def test_a_language_model_is_watched_on_texts_without_a_source(tmp_path):
  vocabulary = small_vocabulary()
  model = architectures.build(LanguageModelConfig(vocabulary.size, vocabulary.size, d_model=14, num_heads=2,
                                                  num_layers=3, d_ff=11, dropout=0.0))
  params = shaken(jax.jit(model.init)(jax.random.key(0)))
  sentences = snapshots.token_pairs([('', LINES[0]), ('', LINES[1])], vocabulary, vocabulary)
  snapshots.Recorder(str(tmp_path), model, sentences, vocabulary, vocabulary, 10)(params, 7)
  one, = snapshots.read(str(tmp_path))
  assert [(seen.source, list(seen.weights)) for seen in one.sentences] == [((), ['decoder'])] * 2
  assert one.sentences[1].weights['decoder'].shape == (3, 2, *(len(sentences[1].target),) * 2)
  report = training_page.explain([one], (vocabulary, vocabulary), {})
  assert [(one.source, one.target) for one in report.sentences] == [('', LINES[0]), ('', LINES[1])]
  assert report.first_view.kind == 'decoder'


def test_snapshots_are_bounded_and_evenly_spread():
  found = []
  for number in range(400):
    found = sorted(snapshots.steps_to_keep([*found, 3 if not number else 10 * number], every=10))
    assert len(found) <= snapshots.MOST_SNAPSHOTS + 3
    assert 3 in found and found[-1] == max(3, 10 * number)
  assert found[:5] == [3, 10, 80, 160, 240] and found[-2:] == [3920, 3990]


@pytest.mark.parametrize('back', [5, 640, 650, 1290, 1300])
def test_a_run_that_was_stopped_keeps_what_an_uninterrupted_one_keeps(back):
  keep = lambda found: sorted(snapshots.steps_to_keep(found, every=10))
  go_on = lambda found, steps: [found := keep([*found, step]) for step in steps][-1]
  whole = go_on([], range(10, 1400, 10))
  stopped = [step for step in go_on([], range(10, 1310, 10)) if step <= back]
  first = back // 10 * 10 + 10
  assert go_on(stopped, range(first, 1400, 10)) == whole


def test_resuming_from_an_earlier_step_removes_later_snapshots(tmp_path):
  seen = watch(tmp_path)
  for step in (10, 20, 30):
    seen(small_translator().params[0], step)
  (tmp_path / 'step_00000020.npz.unfinished').write_bytes(b'half')
  snapshots.remove_after(str(tmp_path), 20)
  assert snapshots.steps(str(tmp_path)) == [10, 20]
  snapshots.remove_after(str(tmp_path / 'nowhere'), 0)


def test_snapshots_of_other_sentences_are_left_out(tmp_path):
  params = small_translator().params[0]
  watch(tmp_path)(params, 10)
  watch(tmp_path, sentences=readings((LINES[3], LINES[0])))(params, 20)
  watch(tmp_path, sentences=readings((LINES[3], LINES[0])))(params, 30)
  assert [one.step for one in snapshots.read(str(tmp_path))] == [20, 30]
  assert snapshots.read(str(tmp_path / 'nowhere')) == []


# -------------------------------------------------------------------------------------------------------- mistakes


def test_texts_of_a_file(tmp_path):
  (tmp_path / 'pairs').write_text('a dog\tein Hund\n\na cat\teine Katze\n')
  assert snapshots.read_texts(f'{tmp_path}/pairs', paired=True) == [('a dog', 'ein Hund'), ('a cat', 'eine Katze')]
  assert snapshots.read_texts(f'{tmp_path}/pairs', paired=False)[0] == ('', 'a dog\tein Hund')
  with pytest.raises(DataError, match='no file'):
    snapshots.read_texts(f'{tmp_path}/none', paired=True)


@pytest.mark.parametrize('text, message', [
    ('', '0 sentences'), ('a\tb\n' * 5, 'expected 1 to 4'), ('a\tb\na dog\n', 'sentence 2.* 1 columns'),
    ('a\tb\tc\n', '3 columns'), ('a\t\n', 'a source, a tab')])
def test_other_columns_are_refused(tmp_path, text, message):
  (tmp_path / 'pairs').write_text(text)
  with pytest.raises(ValueError, match=message):
    snapshots.read_texts(f'{tmp_path}/pairs', paired=True)


def test_long_sentences_are_refused_or_passed_over():
  vocabulary = small_vocabulary()
  texts = [('dog ' * 50, 'a'), ('a', 'b'), ('a', 'cat ' * 50), *[('c', 'd')] * 5]
  with pytest.raises(ValueError, match='at most 40'):
    snapshots.token_pairs(texts, vocabulary, vocabulary)
  found = snapshots.short_token_pairs(texts, vocabulary, vocabulary)
  assert len(found) == snapshots.MOST_SENTENCES and found[0] == readings(('a', 'b'))[0] and found[1] == found[3]


@pytest.mark.parametrize('paired', [True, False])
def test_samples_without_text_are_passed_over(tmp_path, paired):
  model, source, target = small_translator().parts
  samples = [('', LINES[0]), (LINES[1], ' '), (' ', LINES[1]), (LINES[2], LINES[3])] if paired else [
      ('', ' '), ('', LINES[2])]
  if not paired:
    model = architectures.build(LanguageModelConfig(source.size, source.size, d_model=14, num_heads=2, num_layers=1, d_ff=11))
  asked = types.SimpleNamespace(evaluation=types.SimpleNamespace(watch_attention='samples'),
                                loop=types.SimpleNamespace(eval_every=10))
  task = types.SimpleNamespace(setup=asked, watchable=lambda: samples, references=paired, model=model, source=source,
                               target=target)
  watched = snapshots.of_task(task, f'{tmp_path}/attention')
  watched._recorder(jax.jit(model.init)(jax.random.key(0)), 10)
  seen, = snapshots.read(f'{tmp_path}/attention')[0].sentences
  spelt = source.decode(list(seen.source[:-1])), target.decode(list(seen.target[:-1]))
  assert spelt == samples[-1]
  with pytest.raises(ValueError, match='no sentence'):
    task.watchable = lambda: samples[:-1]
    snapshots.of_task(task, f'{tmp_path}/attention')


def test_nothing_to_watch_is_an_error_before_training(tmp_path):
  size = small_vocabulary().size
  with pytest.raises(ValueError, match='has none'):
    watch(tmp_path, model=architectures.build(RecurrentConfig(size, size, 7, score='none')))
  with pytest.raises(ValueError, match='no sentence'):
    snapshots.Recorder('', *small_translator().parts[:1], [], *small_translator().parts[1:], 10)
  watch(tmp_path, model=architectures.build(RecurrentConfig(size, size, 7)))
  assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------------------------------------------- in a run


def test_a_run_records_heads_at_every_evaluation(corpus, tmp_path):
  """A run stopped after a snapshot later than its checkpoint, and resumed, has an uninterrupted one's snapshots."""
  (tmp_path / 'pairs').write_text('one dog\teins Hund\ntwo cat\tzwei Katze\n')
  asked = lambda workdir, steps, *more: options(
      corpus, tmp_path / workdir, '--config.train.eval_every=2', '--config.train.checkpoint_every=4',
      f'--config.train.num_steps={steps}', *more)
  file = f'--config.train.watch_attention={tmp_path}/pairs'
  assert train.main(asked('whole', 6, file)) == 0
  whole = snapshots.read(f'{tmp_path}/whole/attention')
  assert [one.step for one in whole] == [0, 2, 4, 6]
  assert (whole[0].sentences[0].weights['cross'] != whole[-1].sentences[0].weights['cross']).any()
  assert train.main(asked('parts', 3, file)) == 0
  # As a kill would leave it: a snapshot later than the last checkpoint.
  late = tmp_path / 'parts/attention/step_00000008.npz'
  late.write_bytes((tmp_path / 'parts/attention/step_00000002.npz').read_bytes())
  assert train.main(asked('parts', 6, file)) == 0
  for one, other in zip(whole, snapshots.read(f'{tmp_path}/parts/attention'), strict=True):
    assert one.step == other.step
    for seen, same in zip(one.sentences, other.sentences, strict=True):
      np.testing.assert_array_equal(seen.log_probs, same.log_probs)
      for kind in seen.weights:
        np.testing.assert_array_equal(seen.weights[kind], same.weights[kind])


@pytest.mark.long
def test_watching_may_begin_later_and_changes_nothing(corpus, run, tmp_path):
  assert train.main(options(corpus, tmp_path / 'run', '--config.train.num_steps=4')) == 0
  assert not (tmp_path / 'run/attention').exists()
  assert train.main(options(corpus, tmp_path / 'run', '--config.train.num_steps=8',
                            '--config.train.watch_attention=samples')) == 0
  assert snapshots.steps(f'{tmp_path}/run/attention') == [8]
  whole, watched = saved(run), saved(tmp_path / 'run')
  assert whole.keys() == watched.keys()
  for name in whole:
    np.testing.assert_array_equal(whole[name], watched[name], err_msg=name)


def test_what_cannot_be_watched_is_refused_before_anything_is_made(corpus, tmp_path):
  with pytest.raises(DataError, match='no file'):
    train.main(options(corpus, tmp_path / 'run', '--config.train.watch_attention=nowhere'))
  assert not (tmp_path / 'run').exists()


def test_labelled_text_is_not_watched(tmp_path):
  with pytest.raises(ConfigError, match='for translators and language models'):
    train.main(train_options.parse(
        ['train.py', f'--config={os.path.join(configurations.CONFIGS, "fine_tune.py")}', f'--workdir={tmp_path}/run',
         '--config.train.watch_attention=samples'], ''))
  assert not (tmp_path / 'run').exists()
