"""Whole runs of a tiny model on real files: trained, stopped, continued, decoded, as a user would."""

import dataclasses
import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

import decode
import input_pipeline
import tasks
import train
import visualize
from checks.errors import ConfigError, DataError
from decoding import inputs, jobs
from options import configurations, decode_options, train_options, visualize_options
from options.configurations import ROOT
from tasks import setup, trained
from tests.tiny_runs import metrics, options, saved, start
from training import checkpoint, finished, json_files, run_folder
from training.json_files import read_json


def test_a_run_leaves_everything_in_its_folder(run):
  for name in ('config.json', 'environment.json', 'results.json', 'metrics.jsonl', 'vocabulary.model', 'words.txt.gz'):
    assert (run / name).stat().st_size > 0, name
  results = json.loads((run / 'results.json').read_text())
  assert results['step'] == 8 and results['test_set'] == 'test' and 'tok:13a' in results['signature']
  assert {'bleu', 'chrf', 'seconds'} <= results.keys()
  assert [line['step'] for line in metrics(run)] == [2, 4, 4, 6, 8, 8]
  assert sorted(p.name for p in (run / 'samples').iterdir()) == [
      'step_00000004.txt', 'step_00000008.txt', 'test_translations.txt']
  assert list((run / 'tensorboard').iterdir())
  assert json.loads((run / 'config.json').read_text())['model']['d_model'] == 16


def test_the_translations_of_each_test_set_have_a_file_of_their_own(corpus, tmp_path):
  names = ('talks', 'test', 'news-16', 'news_16', 'test_2', 'news_16_2')
  for path in corpus.iterdir():
    shutil.copy(path, tmp_path)
    if path.stem == 'test':
      for name in names:
        shutil.copy(path, tmp_path / f'{name}{path.suffix}')
  records = setup.read(options(tmp_path, tmp_path / 'run', f'--config.data.test_splits={names!r}'))
  with run_folder.RunFolder(str(tmp_path / 'run')).create_or_resume(records.saved) as folder:
    task = tasks.TASKS[records.task](records, folder)
  written = [task.outputs_of(split).removesuffix('_translations.txt') for split in task.examined]
  assert written == ['test', 'test_2', 'news_16', 'news_16_2', 'test_2_2', 'news_16_2_2']


def test_stopped_and_continued_equals_uninterrupted_bit_for_bit(corpus, run, tmp_path):
  workdir = tmp_path / 'stopped'
  for steps in (3, 6, 8):  # 3 lies between two checkpoints
    assert train.main(options(corpus, workdir, f'--config.train.num_steps={steps}')) == 0
  whole, parts = saved(run), saved(workdir)
  assert whole.keys() == parts.keys() and len(whole) > 50
  for name in whole:
    np.testing.assert_array_equal(whole[name], parts[name], err_msg=name)
  assert metrics(run) == metrics(workdir) and len(metrics(run)) == 6


@pytest.mark.long
def test_a_profile_can_be_read_and_ends_with_the_run(corpus, tmp_path):
  flags = ['--config.train.profile_steps=9', '--config.train.num_steps=5', '--config.train.eval_every=100',
           '--config.train.checkpoint_every=100', '--config.mesh.data=1', '--config.train.average_last=1']
  assert train.main(options(corpus, tmp_path / 'run', *flags)) == 0
  traces = {path.name: path for path in (tmp_path / 'run' / 'profile').rglob('*.gz')}
  assert any((tmp_path / 'run' / 'profile').rglob('*.xplane.pb'))  # which TensorBoard reads
  with gzip.open(traces['perfetto_trace.json.gz'], 'rt') as file:
    events = json.load(file)['traceEvents']
  steps = [event['args']['step_num'] for event in events if event.get('name') == 'train']
  assert sorted(map(int, steps)) == [3, 4]  # the first three are compiled and warmed up


def test_a_finished_run_says_so_and_ends_without_room_for_another_checkpoint(corpus, run, capsys, monkeypatch):
  before = (run / 'results.json').stat().st_mtime_ns
  monkeypatch.setattr(run_folder.RunFolder, 'probe', lambda folder, size: pytest.fail('nothing will be saved'))
  assert train.main(options(corpus, run, '--config.train.num_steps=8')) == 0
  assert 'finished' in capsys.readouterr().out
  assert (run / 'results.json').stat().st_mtime_ns == before


@pytest.mark.long
def test_a_finished_run_is_scored_again_with_other_options_of_its_scores(corpus, run, tmp_path, capsys):
  workdir = tmp_path / 'run'
  shutil.copytree(run, workdir)
  shutil.copytree(corpus, tmp_path / 'corpus')
  for side in ('en', 'de'):
    shutil.copy(corpus / f'val.{side}', tmp_path / 'corpus' / f'further.{side}')
  length = '--config.train.num_steps=8'
  plain = read_json(workdir / 'results.json')
  assert finished.is_finished(run_folder.RunFolder(str(workdir)), read_json(workdir / 'config.json'))
  for change, words in (('--config.data.test_splits=("test","further")', "data.test_splits was ['test'] and is ['test', 'further']"),
                        ('--config.search.beam_size=1', 'search.beam_size was 4 and is 1')):
    assert train.main(options(tmp_path / 'corpus', workdir, length, change)) == 0
    told = capsys.readouterr().out
    assert words in told and 'is finished' not in told
    assert train.main(options(tmp_path / 'corpus', workdir, length, change)) == 0
    assert 'is finished' in capsys.readouterr().out
    results = read_json(workdir / 'results.json')
    assert set(results['scores']) == ({'test', 'further'} if 'further' in change else {'test'})
    assert results['averaged_steps'] == plain['averaged_steps'] and results['step'] == 8
    # Killed while it is scored: what stands in config.json is not what results.json is of.
    json_files.write_json(workdir / 'results.json', results | {'options': plain['options']})
    assert not finished.is_finished(run_folder.RunFolder(str(workdir)), read_json(workdir / 'config.json'))
    json_files.write_json(workdir / 'results.json', results)


def test_text_that_goes_while_a_run_trains_does_not_take_the_run_with_it(corpus, tmp_path, monkeypatch):
  batches = input_pipeline.batches

  def interrupted(*given):
    for number, batch in enumerate(batches(*given)):
      if number == 3:
        raise DataError('the text has gone')
      yield batch

  monkeypatch.setattr(input_pipeline, 'batches', interrupted)
  with pytest.raises(DataError, match='the text has gone'):
    train.main(options(corpus, tmp_path / 'run', '--config.train.num_steps=8'))
  assert (tmp_path / 'run' / 'checkpoints' / '2').is_dir()


@pytest.mark.parametrize('architecture, option', [
    ('recurrent', 'model.positions=rotary'), ('recurrent', 'model.num_heads=2'), ('transformer', 'recurrent.cell=lstm'),
    ('language_model', 'recurrent.score=dot')])
def test_an_option_that_the_architecture_has_not_is_refused(architecture, option, tmp_path):
  config = {'recurrent': 'recurrent.py', 'transformer': 'phrasebook.py', 'language_model': 'language_model.py'}
  name = option.partition('=')[0]
  with pytest.raises(ConfigError, match=f"config.{name} has no effect.*'{architecture}'"):
    train.main(train_options.parse(
        ['train.py', f'--config={os.path.join(configurations.CONFIGS, config[architecture])}',
         f'--workdir={tmp_path}/run', f'--config.{option}'], ''))
  assert not (tmp_path / 'run').exists()


@pytest.mark.parametrize('option, words', [
    ('data.bpe_dropout=0.2', "data.subword_sampling is 'none'; only bpe_dropout uses it"),
    ('data.tsv=x.tsv', "data.kind is 'phrasebook'; only tsv and labelled_tsv use it"),
    ('data.validation_split=val', "data.kind is 'phrasebook'; only .*text .* use it"),
    ('vocabulary.size=500 vocabulary.source_model=x', "vocabulary.source_model is 'x'; a supplied model"),
    ('optimizer.momentum=0.8', "optimizer.kind is 'adam'"), ('search.top_k=5', "search.strategy is 'beam'"),
    ('model.max_positions=9', "model.positions is 'sinusoidal'; .*learned"),
    ('search.include_prompt=False', "data.kind is 'phrasebook'"),
    ('search.diversity=0.2', 'search.groups is 1; leave it out')])
def test_an_option_that_another_leaves_without_a_meaning_is_refused(option, words, tmp_path):
  with pytest.raises(ConfigError, match=f'config.{option.partition("=")[0]} has no effect: .*{words}'):
    train.main(train_options.parse(
        ['train.py', f'--config={os.path.join(configurations.CONFIGS, "ablation.py")}', f'--workdir={tmp_path}/run',
         *(f'--config.{word}' for word in option.split())], ''))
  assert not (tmp_path / 'run').exists()


@pytest.mark.parametrize('name, option, words', [
    ('phrasebook', 'vocabulary.joint=False', 'share_embeddings is True, but vocabulary.joint is False'),  # equal sizes
    ('recurrent:cho', 'search.coverage_penalty=0.1', 'no attention over a source'),
    ('table3:E', 'search.extra_length=600', 'learned positions for 512')])
def test_what_the_parts_cannot_do_together_is_refused_before_any_text_is_read(name, option, words, tmp_path):
  name, _, variant = name.partition(':')
  with pytest.raises(ConfigError, match=words):
    train.main(train_options.parse(
        ['train.py', f'--config={os.path.join(configurations.CONFIGS, name)}.py{":" * bool(variant)}{variant}',
         f'--workdir={tmp_path}/run', f'--config.{option}'], ''))
  assert not (tmp_path / 'run').exists()


def test_a_run_with_two_vocabularies_cannot_lend_them_to_shared_embeddings(corpus, run, tmp_path):
  other = tmp_path / 'other'
  shutil.copytree(run, other)
  shutil.copy(other / 'vocabulary.model', other / 'source.model')
  (other / 'vocabulary.model').rename(other / 'target.model')
  (other / 'manifest.json').unlink()  # which lists one vocabulary
  with pytest.raises(ConfigError, match='a vocabulary for each language'):
    train.main(options(corpus, tmp_path / 'new', f'--config.init_from={other}', '--config.train.num_steps=1'))
  assert not (tmp_path / 'new').exists()


def test_a_run_that_starts_from_another_takes_no_options_of_a_vocabulary(corpus, run, tmp_path):
  start = [f'--config.init_from={run}', '--config.train.num_steps=1']
  with pytest.raises(ConfigError, match=r'config\.vocabulary\.size is 299, and has no effect: the vocabulary is that of'):
    train.main(options(corpus, tmp_path / 'new', *start, '--config.vocabulary.size=299'))
  with pytest.raises(ConfigError, match=r'config\.vocabulary\.tags has <bt>, and the vocabulary of .* has no such entry'):
    train.main(options(corpus, tmp_path / 'new', *start, "--config.vocabulary.tags=('<bt>',)"))


@pytest.mark.parametrize('option, error, words', [
    ('vocabulary.source_model=x.model', DataError, 'no vocabulary x.model'),
    (f'vocabulary.source_model={__file__}', DataError, r'test_runs\.py is not a SentencePiece model'),
    ('train.watch_attention=pairs', DataError, 'no file pairs'),
    ("data.mix=('back*2',)", ConfigError, 'data.mix names back, which is no folder')])
def test_what_options_name_is_looked_for_before_text_is_read(option, error, words, tmp_path):
  asked = options(tmp_path / 'nowhere', tmp_path / 'run', f'--config.{option}', '--config.train.num_steps=1')
  with pytest.raises(error, match=words):
    train.main(dataclasses.replace(asked, given=()))
  assert not (tmp_path / 'run').exists()


def test_text_is_inspected_before_the_run_to_start_from_has_a_checkpoint(corpus, run, tmp_path, capsys):
  shutil.copytree(run, tmp_path / 'begun', ignore=lambda place, names: ['checkpoints', 'manifest.json'] if place == str(run) else [])
  start = [f'--config.init_from={tmp_path}/begun', '--config.train.num_steps=1']
  assert train.main(options(corpus, tmp_path / 'new', *start, '--config.train.watch_attention=nowhere', '--inspect')) == 0
  assert 'batch 0:' in capsys.readouterr().out
  with pytest.raises(checkpoint.CheckpointError, match='holds no checkpoint yet; train first'):
    train.main(options(corpus, tmp_path / 'new', *start))


def test_another_configuration_is_refused_by_name(corpus, run):
  with pytest.raises(ConfigError, match=r'(?s)model\.d_ff.*32.*24'):
    train.main(options(corpus, run, '--config.model.d_ff=32', '--config.train.num_steps=8'))


def test_an_option_without_effect_may_be_left_out_when_a_run_goes_on(corpus, run, tmp_path, capsys):
  workdir = tmp_path / 'run'
  shutil.copytree(run, workdir)
  asked = options(corpus, workdir, '--config.train.num_steps=8', '--config.optimizer.momentum=0.5')  # which Adam does not read
  assert train.main(dataclasses.replace(asked, given=())) == 0
  assert train.main(options(corpus, workdir, '--config.train.num_steps=8')) == 0
  assert capsys.readouterr().out.count('is finished') == 2


def test_starting_from_another_run_takes_its_parameters_and_vocabulary(corpus, run, tmp_path):
  workdir = tmp_path / 'next'
  more = [f'--config.init_from={run}', '--config.train.num_steps=1', '--config.optimizer.learning_rate_scale=1e-9']
  assert train.main(options(corpus, workdir, *more)) == 0
  assert (workdir / 'vocabulary.model').read_bytes() == (run / 'vocabulary.model').read_bytes()
  best = checkpoint.Checkpoints(str(run / 'checkpoints')).best()
  before, after = saved(run, best), saved(workdir, 1)
  name = "['params']['embedding']"
  np.testing.assert_allclose(before[name], after[name], atol=1e-6)


def test_the_moving_average_is_told_and_kept_and_is_what_translates(corpus, tmp_path, capsys):
  workdir = tmp_path / 'ema'
  more = ['--config.train.ema_decay=0.75', '--config.train.checkpoint_every=1', '--config.train.num_steps=2',
          '--config.train.average_last=1', '--config.train.keep_last=2']
  assert train.main(options(corpus, workdir, *more)) == 0
  assert 'clipping at 1, moving average 0.75' in capsys.readouterr().out
  first, second = saved(workdir, 1), saved(workdir, 2)
  average, params = "['average']['embedding']", "['params']['embedding']"
  np.testing.assert_allclose(second[average], 0.75 * first[average] + 0.25 * second[params], atol=1e-7)
  assert np.abs(second[average] - second[params]).max() > 1e-5
  np.testing.assert_array_equal(tasks.load(str(workdir), 'latest').params[0]['embedding'], second[average])


def assert_goes_on_bit_for_bit(corpus, tmp_path, more, stop, end):
  """Train in tmp_path/whole without a stop, in tmp_path/parts with one at step `stop`; the states at `end` are equal."""
  for workdir, lengths in (('whole', [end]), ('parts', [stop, end])):
    for steps in lengths:
      assert train.main(options(corpus, tmp_path / workdir, *more, f'--config.train.num_steps={steps}')) == 0
  whole, parts = saved(tmp_path / 'whole', end), saved(tmp_path / 'parts', end)
  assert whole.keys() == parts.keys()
  for name in whole:
    np.testing.assert_array_equal(whole[name], parts[name], err_msg=name)


@pytest.mark.drill
def test_training_options_compose_and_go_on_bit_for_bit(corpus, tmp_path):
  """All at once: other pieces each epoch, two passes, micro-batches, AdamW, a cosine, a moving average."""
  more = ['--config.data.subword_sampling=bpe_dropout', '--config.train.consistency=r_drop',
          '--config.train.accumulation_steps=2', '--config.optimizer.kind=adamw', '--config.optimizer.schedule=cosine',
          '--config.optimizer.learning_rate_scale=1.0', '--config.optimizer.peak=1e-3',
          '--config.optimizer.warmup_steps=3', '--config.optimizer.decay_steps=14',
          '--config.train.ema_decay=0.9', '--config.train.eval_every=100', '--config.train.checkpoint_every=100']
  assert_goes_on_bit_for_bit(corpus, tmp_path, more, 6, 13)
  assert metrics(tmp_path / 'whole')[-1]['epoch'] > 1  # the second epoch has begun


@pytest.mark.long
def test_dropout_by_rbg_goes_on_bit_for_bit_and_stays_the_runs_own(corpus, tmp_path):
  more = ['--config.train.dropout_bits=rbg', '--config.train.checkpoint_every=100', '--config.train.eval_every=100',
          '--config.data.test_splits=()', '--config.train.average_last=1']
  assert_goes_on_bit_for_bit(corpus, tmp_path, more, 2, 4)
  with pytest.raises(ConfigError, match='train.dropout_bits'):
    train.main(options(corpus, tmp_path / 'whole', *more[1:], '--config.train.num_steps=6'))


def test_decode_keeps_lines_and_order(corpus, run, tmp_path, capsys):
  lines = ['dog cat', '', 'one two three', '   ', 'zeppelin tree', 'dog cat']
  source, output = tmp_path / 'in.en', tmp_path / 'out.de'
  source.write_text('\n'.join(lines))
  argv = ['decode.py', f'--workdir={run}', f'--input={source}', f'--output={output}', '--search.beam_size=2']
  assert decode.main(decode_options.parse(argv, '')) == 0
  translated = output.read_text().split('\n')
  assert len(translated) == 7 and translated[6] == ''
  assert translated[1] == translated[3] == ''
  assert translated[0] == translated[5] != ''
  assert 'never seen in training: zeppelin' in capsys.readouterr().err


def test_decode_scores_like_the_run_itself(corpus, run, tmp_path, capsys):
  argv = ['decode.py', f'--workdir={run}', f'--input={corpus}/test.en', f'--output={tmp_path}/out',
          f'--reference={corpus}/test.de']
  assert decode.main(decode_options.parse(argv, '')) == 0
  results = json.loads((run / 'results.json').read_text())
  told = capsys.readouterr().err
  assert f'BLEU {results["bleu"]:.1f}, chrF {results["chrf"]:.1f}, TER' in told and 'on test.de' in told
  assert results['signature'] in told
  assert (tmp_path / 'out').read_text() == (run / 'samples' / 'test_translations.txt').read_text()


def test_a_pipe_and_the_runs_own_split_are_answered_like_a_file(corpus, run, tmp_path, capfd, monkeypatch):
  def decoded(*arguments):
    argv = ['decode.py', f'--workdir={run}', '--search.beam_size=1', *arguments]
    assert decode.main(decode_options.parse(argv, '')) == 0
    return capfd.readouterr()

  out, into = os.pipe()
  os.write(into, (corpus / 'test.en').read_bytes())
  os.close(into)
  decoded(f'--input={corpus}/test.en', f'--output={tmp_path}/out')
  expected = (tmp_path / 'out').read_text()
  with os.fdopen(out) as pipe:
    monkeypatch.setattr(sys, 'stdin', pipe)
    assert decoded().out == expected
  own = decoded('--input=split:test', '--paper_bleu=multi30k')
  assert own.out == expected and 'on split:test' in own.err and 'multi30k (de)' in own.err
  for form in ('jsonl', 'pharaoh'):  # which are no translations to score
    assert 'BLEU' not in decoded('--input=split:test', f'--format={form}').err
  decoded(f'--input={corpus}/test.en', f'--output={tmp_path}/parts', '--part_lines=3')
  assert (tmp_path / 'parts').read_text() == expected
  scored = decoded(f'--input={corpus}/test.en', f'--target={corpus}/test.de').out.split('\n')
  assert len(scored) == 8 and all(float(line.split('\t')[0]) < 0 < float(line.split('\t')[1]) for line in scored[:7])
  with pytest.raises(ConfigError, match='expected split:NAME .*train, validation, test, val'):
    decoded('--input=split:dev')


def test_scores_beside_another_checkpoint_or_search_are_said_to_be_the_runs(run):
  def names(*more):
    options = visualize_options.parse(['visualize.py', f'--workdir={run}', '--input=x', *more], '')
    return [name for name, _ in visualize.card(run_folder.RunFolder.open(str(run)), options)]

  assert names()[-1] == 'scores'
  for other in ('--checkpoint=6', '--search.beam_size=2'):
    assert names(other)[-1] == 'scores of the run at step 8, with its own search'


def test_a_split_that_is_no_longer_the_runs_own_is_refused(corpus, run, tmp_path):
  """Of one file other lines are held out when it grows: what the run was trained on would be its test set."""
  place = shutil.copytree(corpus, tmp_path / 'text')
  (place / 'test.en').write_text((corpus / 'train.en').read_text())
  (place / 'test.de').write_text((corpus / 'train.de').read_text())
  of, environment = setup.of_folder(run_folder.RunFolder.open(str(run))), str(run / 'environment.json')
  read = lambda split, directory, path=environment: inputs.read(
      decode_options.parse(['decode.py', f'--workdir={run}', f'--input=split:{split}'], ''),
      dataclasses.replace(of.corpus, directory=str(directory)), True, path)
  assert len(read('test', corpus)[0]) == 7 and len(read('train', corpus)[0]) == 150 and len(read('val', place)[0]) == 11
  with pytest.raises(DataError, match='--input=split:test: test is no longer the text that this run has read'):
    read('test', place)
  assert len(read('test', place, str(tmp_path / 'none'))[0]) == 150  # a run that has no record of its text
  # Of training text a run records what filters, tags and data.mix have made of it, and nothing is tested with it.
  mixed = read_json(environment)
  mixed['data']['train'] = 64 * 'f'
  (tmp_path / 'mixed.json').write_text(json.dumps(mixed))
  assert len(read('train', corpus, str(tmp_path / 'mixed.json'))[0]) == 150


def test_papers_bleu_is_of_one_language(run, tmp_path):
  asked = decode_options.parse(['decode.py', f'--workdir={run}', f'--input={__file__}', f'--reference={__file__}',
                                '--paper_bleu=multi30k'], '')
  corpus = setup.of_folder(run_folder.RunFolder.open(str(run))).corpus
  with pytest.raises(ConfigError, match='--paper_bleu=multi30k finds words by the rules of one language'):
    inputs.read(asked, dataclasses.replace(corpus, target_language='mul'), True)
  tagged = tmp_path / 'test.en'
  tagged.write_text('<2fr> a dog\n\n<2fr> a cat\n')
  asked = dataclasses.replace(asked, input=str(tagged), references=(str(tagged),))
  assert len(inputs.read(asked, dataclasses.replace(corpus, target_language='mul'), True)[0]) == 3


def test_typed_lines_are_answered_like_a_file_and_searched_in_the_fewest_rows(corpus, run, tmp_path, capfd, monkeypatch):
  pty = pytest.importorskip('pty')

  def decoded(*arguments):
    assert decode.main(decode_options.parse(['decode.py', f'--workdir={run}', '--search.beam_size=1', *arguments], '')) == 0
    return capfd.readouterr()

  def typed(*arguments):
    keyboard, terminal = pty.openpty()
    os.write(keyboard, (corpus / 'test.en').read_bytes() + b'\4')  # Ctrl-D
    with os.fdopen(terminal) as stdin, monkeypatch.context() as patch:
      patch.setattr(sys, 'stdin', stdin)
      found = decoded(*arguments)
    os.close(keyboard)
    return found

  rows = lambda told: re.search(r'search batches of up to (\d+) rows', told.err)[1]
  whole, lines = decoded(f'--input={corpus}/test.en'), typed()
  assert (lines.out, rows(lines)) == (whole.out, '8') and int(rows(whole)) > 8
  assert rows(typed('--search.batch_tokens=384')) == '24'


def test_the_final_checkpoints_are_those_of_the_results(run, tmp_path):
  there = checkpoint.Checkpoints(str(run / 'checkpoints'))
  folder = run_folder.RunFolder.open(str(run))
  results = json_files.read_json(folder.results)
  loop = setup.of_folder(folder).loop
  assert trained.chosen_steps(folder, there, 'final', loop) == results['averaged_steps'] == there.resolve('average:2')
  assert trained.chosen_steps(folder, there, 'average:2', loop) == results['averaged_steps']
  unlike = dataclasses.replace(loop, eval_every=results['averaged_steps'][-1], checkpoint_every=1000)
  assert trained.chosen_steps(folder, there, 'average:1', unlike) == results['averaged_steps'][-1:]
  with pytest.raises(checkpoint.CheckpointError, match='close to them'):  # a stop has saved it
    trained.chosen_steps(folder, there, 'average:2', unlike)
  folder.results = str(tmp_path / 'results.json')
  assert trained.chosen_steps(folder, there, 'final', loop) == [there.best()]  # no results yet
  json_files.write_json(folder.results, results | {'averaged_steps': [4, 6]})
  assert trained.chosen_steps(folder, there, 'final', loop) == [there.best()]  # the run went on after them


def test_a_line_does_not_depend_on_its_neighbours(run):
  translator = tasks.load(str(run))
  lines = ['dog cat house', 'one', 'tree tree tree two', 'dog', 'three cat']
  together = translator.translate(lines)
  for line, found in zip(lines, together):
    alone, = translator.translate([line])
    assert alone.text == found.text
    assert alone.score == pytest.approx(found.score, abs=1e-5)


def test_translations_can_be_sampled(run):
  lines = ['dog cat house', 'one', 'dog cat house', 'three cat']
  sampled = lambda seed, lines: tasks.load(str(run), strategy='sample', seed=seed).translate(lines)
  together, other = sampled(1, lines), sampled(2, lines)
  assert [found.text for found in together] != [found.text for found in other]
  assert together[0].text != together[2].text  # what is drawn depends on the line's number ...
  alone = sampled(1, ['', '', 'dog cat house'])[2]  # ... and on nothing else
  assert alone.text == together[2].text and alone.score == pytest.approx(together[2].score, abs=1e-5)


def test_minimum_bayes_risk_samples_whatever_the_strategy_of_the_run_is(run, tmp_path, capsys):
  (tmp_path / 'in').write_text('dog cat house\n')
  asked = ['decode.py', f'--workdir={run}', f'--input={tmp_path}/in', '--mbr=3']
  sampled = lambda *more: decode.main(decode_options.parse([*asked, f'--output={tmp_path}/out', *more], ''))
  assert json.loads((run / 'config.json').read_text())['search']['strategy'] == 'beam'
  assert sampled('--search.temperature=0.8', '--search.seed=3', '--search.top_k=9') == 0
  one = tasks.load(str(run), strategy='sample', temperature=0.8, seed=3, top_k=9)
  draws = [one.translate(['dog cat house'], draw=number)[0].text for number in range(3)]
  assert (tmp_path / 'out').read_text()[:-1] in draws
  with pytest.raises(ConfigError, match="search.beam_size has no effect: search.strategy is 'sample'"):
    sampled('--search.beam_size=2')
  with pytest.raises(SystemExit):
    sampled('--search.strategy=beam')
  assert '--mbr=3 draws samples, and --search.strategy=beam draws none' in capsys.readouterr().err


def test_wrong_input_is_an_error_that_leaves_nothing(run, tmp_path, monkeypatch):
  monkeypatch.setattr(jobs, 'in_parts', lambda *job: pytest.fail('lines are translated'))
  for flags, words in (
      ([f'--input={tmp_path}/none.en'], 'no file'),
      ([f'--input={__file__}', f'--reference={run}/config.json'], 'lines'),
      (['--input=split:test', f'--reference={__file__}'], 'split:test has 7 lines and .*test_runs.py has'),
      ([f'--workdir={tmp_path}'], 'is not a run'),
      ([f'--input={__file__}', '--checkpoint=77'], 'there are steps'),
  ):
    argv = ['decode.py', f'--workdir={run}', f'--output={tmp_path}/out', *flags]
    with pytest.raises(Exception, match=words) as error:
      decode.main(decode_options.parse(argv, ''))
    assert error.value.exit_code in (2, 3, 5)
    assert not list(tmp_path.iterdir())


def test_a_mistake_while_preparing_leaves_no_run_behind(corpus, tmp_path):
  for mistake in ('--config.data.train_split=nowhere', '--config.mesh.data=99', '--config.train.batch_tokens=16'):
    with pytest.raises(Exception) as error:
      train.main(options(corpus, tmp_path / 'new', mistake, '--config.train.num_steps=8'))
    assert error.value.exit_code in (2, 3)
    assert not (tmp_path / 'new').exists()


def test_a_mistake_while_preparing_leaves_an_existing_run_as_it_was(corpus, run, tmp_path):
  copy = shutil.copytree(run, tmp_path / 'run')
  with pytest.raises(ConfigError):
    train.main(options(corpus, copy, '--config.mesh.data=99', '--config.train.num_steps=9'))
  assert (copy / 'config.json').read_bytes() == (run / 'config.json').read_bytes()
  assert (copy / 'checkpoints' / '8').exists() and run_folder.RunFolder.open(str(copy)).read_config()['mesh']['data'] != 99


def test_ctrl_c_saves_and_the_same_command_goes_on(corpus, tmp_path):
  process = start(corpus, tmp_path / 'run', '--config.train.num_steps=100000', '--config.train.eval_every=100000')
  for line in process.stdout:
    if line.startswith('step '):
      break
  process.send_signal(signal.SIGINT)
  out, errors = process.communicate(timeout=60)
  assert process.returncode == 130, errors
  assert 'saved. The same command resumes' in out and 'Traceback' not in errors
  step = checkpoint.Checkpoints(f'{tmp_path}/run/checkpoints').steps()[-1]
  assert f'Stopped at step {step:,}' in out
  assert train.main(options(corpus, tmp_path / 'run', f'--config.train.num_steps={step + 2}')) == 0
  assert json_files.read_json(f'{tmp_path}/run/results.json')['step'] == step + 2


def test_nothing_imports_tensorflow_or_torch():
  check = ('import sys, train, decode, corpora.phrasebook.builder, input_pipeline\n'
           'assert not {"tensorflow", "torch"} & set(sys.modules), "imported"')
  subprocess.run([sys.executable, '-c', check], cwd=ROOT, check=True, timeout=120)
