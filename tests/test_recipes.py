"""Recipes of tiny models: back-translation, distillation and a multilingual model, stopped, killed and gone on with."""

import argparse
import contextlib
import dataclasses
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import types

import numpy as np
import pytest
import sacrebleu
from sacrebleu.metrics import BLEU

import recipe
import tasks
from checks import exit_codes, whole_files
from checks.errors import ConfigError, DamagedError, DataError, FileError
from decoding import outputs
from options import decode_options, recipe_options, train_options
from options.configurations import ROOT, leaves
from recipes import card, distil, pairs, stages, work
from tests import tiny_runs
from training.json_files import read_json
from training.run_folder import FolderBusyError, RunFolder

TO_FRENCH = {'one': 'un', 'two': 'deux', 'three': 'trois', 'dog': 'chien', 'cat': 'chat', 'house': 'maison',
             'tree': 'arbre'}
SEARCH = '--config.search.beam_size=2'


@pytest.fixture(scope='module')
def text(tmp_path_factory):
  """The small corpus with a third language, and monolingual text of the second with a blank line."""
  folder = tiny_runs.write_corpus(tmp_path_factory.mktemp('text'))
  for split in ('train', 'val', 'test'):
    english = (folder / f'{split}.en').read_text().splitlines()
    (folder / f'{split}.fr').write_text(''.join(f'{" ".join(TO_FRENCH[w] for w in line.split())}\n' for line in english))
  lines = (folder / 'train.de').read_text().splitlines()[:40]
  (folder / 'mono.de').write_text('\n'.join([*lines[:20], '', *lines[20:]]) + '\n')
  return folder


def words(name, text, workdir, *more):
  """The command line of a recipe with a tiny model of four steps."""
  return ['recipe.py', name, *tiny_runs.arguments(text, workdir)[1:], '--config.train.num_steps=4',
          '--config.vocabulary.size=420', SEARCH, *more]


def options(*given):
  return recipe_options.read(words(*given))


def start(*given):
  """recipe.py as a user starts it."""
  return subprocess.Popen([sys.executable, *words(*given)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True)


def back(text, workdir, *more):
  return 'back_translate', text, workdir, f'--monolingual={text}/mono.de', '--keep=0.5', '--tag=<bt>', *more


@pytest.fixture(scope='module')
def back_translated(text, tmp_path_factory):
  workdir = tmp_path_factory.mktemp('recipes') / 'back'
  assert recipe.main(options(*back(text, workdir, '--search=sampling', '--search.seed=3'))) == exit_codes.DONE
  return workdir


@pytest.fixture(scope='module')
def multilingual(text, tmp_path_factory):
  workdir = tmp_path_factory.mktemp('recipes') / 'several'
  assert recipe.main(options('multilingual', text, workdir, '--languages=de,fr*0.5')) == exit_codes.DONE
  return workdir


@pytest.fixture(scope='module')
def distilled(text, run, tmp_path_factory):
  workdir = tmp_path_factory.mktemp('recipes') / 'student'
  assert recipe.main(options('distil', text, workdir, f'--teachers={run},{run}', '--n_best=2', '--real',
                             '--search.alpha=1.0')) == exit_codes.DONE
  return workdir


def lines(path):
  with open(path, encoding='utf-8') as file:
    return file.read().split('\n')[:-1]


def contents(workdir):
  """The bytes of what a recipe has made, and what its trainings have learnt and measured; nothing of clocks."""
  found = {}
  for place, _, names in os.walk(workdir):
    inside = os.path.relpath(place, workdir)
    if inside.split('/')[0] in ('stages', 'logs') or any(part in ('checkpoints', 'tensorboard', 'data')
                                                         for part in inside.split('/')):
      continue
    for name in names:
      if name.endswith(('.txt', '.jsonl', '.en', '.de', '.mul', '.model')) and name != 'metrics.jsonl':
        with open(os.path.join(place, name), 'rb') as file:
          found[os.path.join(inside, name)] = file.read()
    if 'metrics.jsonl' in names:
      found[f'{inside} metrics'] = tiny_runs.metrics(place)
  return found


def assert_same(workdir, other, *runs):
  first, second = contents(workdir), contents(other)
  assert first.keys() == second.keys() and len(first) > 5
  assert not [name for name in first if first[name] != second[name]]
  for name in runs:
    one, two = (tiny_runs.saved(folder / name, 4) for folder in (workdir, other))
    assert one.keys() == two.keys() and all(np.array_equal(one[key], two[key]) for key in one)


# ----------------------------------------------------------------------------------------------- what is made


@pytest.mark.long
def test_back_translation_trains_both_directions_and_mixes_tagged_pairs(back_translated, text):
  reverse, forward = (leaves(read_json(back_translated / name / 'config.json')) for name in ('reverse', 'forward'))
  assert [(run['data.source_language'], run['data.target_language']) for run in (reverse, forward)] == [
      ('de', 'en'), ('en', 'de')]
  assert reverse['data.mix'] == [] and forward['data.mix'] == [f'{back_translated}/synthetic*1#<bt>']
  assert forward['vocabulary.tags'] == ['<bt>'] and reverse['vocabulary.tags'] == []
  source, _ = RunFolder.open(str(back_translated / 'forward')).load_vocabularies()
  assert '<bt>' in source.pieces(source.encode('<bt> one dog'))
  notes = (back_translated / 'logs' / 'forward.log').read_text()
  kept = len(lines(back_translated / 'synthetic' / 'train.en'))
  assert f'train + {back_translated}/synthetic {150 + kept} pairs' in notes
  assert 'weight 1, ' in notes and 'tag <bt>' in notes


@pytest.mark.long
def test_the_likeliest_half_of_the_back_translations_is_kept_in_order(back_translated, text):
  mono = lines(text / 'mono.de')
  records = [json.loads(line) for line in lines(back_translated / 'translated.jsonl')]
  assert len(records) == len(mono) == 41 and [one['source'] for one in records] == mono
  full = [i for i, one in enumerate(records) if one['text'].strip() and mono[i].strip()]
  assert 20 not in full  # the blank line
  score = lambda i: records[i]['log_prob'] / len(records[i]['token_log_probs'])
  best = sorted(sorted(full, key=lambda i: -score(i))[:-(-len(full) // 2)])
  assert lines(back_translated / 'synthetic' / 'train.en') == [records[i]['text'] for i in best]
  assert lines(back_translated / 'synthetic' / 'train.de') == [mono[i] for i in best]
  figures = read_json(back_translated / 'stages' / 'pairs.json')['figures']
  assert (figures['lines'], figures['empty'], figures['kept']) == (41, 41 - len(full), len(best))
  assert figures['least_score_kept'] == pytest.approx(min(map(score, best)))


@pytest.mark.long
def test_sampling_draws_what_decode_draws(back_translated, text):
  """The translations are those of the reverse run's own sampler with the same seed, and not those of beam search."""
  found = [json.loads(line)['text'] for line in lines(back_translated / 'translated.jsonl')]
  load = lambda **search: tasks.load(str(back_translated / 'reverse'), **search)
  drawn = [one.text for one in load(strategy='sample', seed=3).translate(lines(text / 'mono.de'))]
  assert found == drawn != [one.text for one in load().translate(lines(text / 'mono.de'))]


@pytest.mark.long
def test_a_card_holds_all_that_a_result_depends_on(back_translated, text):
  card = read_json(back_translated / 'card.json')
  results = read_json(back_translated / 'forward' / 'results.json')
  assert card['scores'] == results['scores'] and card['scores']['test']['signature'].startswith('nrefs:1|case:mixed')
  assert [stage['name'] for stage in card['stages']] == ['reverse', 'translate', 'pairs', 'forward']
  assert [stage.get('steps') for stage in card['stages']] == [4, None, None, 4]
  assert all(stage['hours'] > 0 for stage in card['stages'])
  assert card['hours'] == pytest.approx(sum(stage['hours'] for stage in card['stages']))
  assert card['runs']['reverse']['results'] == read_json(back_translated / 'reverse' / 'results.json')
  environment = card['runs']['forward']['environment']
  assert environment == read_json(back_translated / 'forward' / 'environment.json')
  assert environment['packages']['jax'] and environment['devices'] and environment['data']['val']
  assert (card['settings']['--keep'], card['settings']['--search.strategy'], card['commit']) == (
      0.5, 'sample', environment['commit'])
  sums = {path: value for stage in card['stages'] for path, value in (stage['inputs'] | stage['outputs']).items()}
  assert sums[f'{text}/mono.de'] == card['settings'][f'content of {text}/mono.de']
  assert sums['synthetic/train.en'] and sums['reverse/results.json']
  assert card['command'].split()[1:3] == [os.path.relpath(f'{ROOT}/recipe.py'), 'back_translate']


@pytest.mark.long
def test_a_multilingual_model_reads_tagged_text_and_is_scored_by_language(multilingual, text):
  english, train = lines(text / 'train.en'), lines(multilingual / 'text' / 'train.en')
  german = [line for line in train if line.startswith('<2de> ')]
  french = [line for line in train if line.startswith('<2fr> ')]
  assert german == [f'<2de> {line}' for line in english if line] and len(german) + len(french) == len(train)
  assert 40 < len(french) < 110  # half of 150, drawn
  targets = lines(multilingual / 'text' / 'train.mul')
  words = {'<2de>': tiny_runs.WORDS, '<2fr>': TO_FRENCH}
  for source, target in zip(train, targets, strict=True):
    tag, *rest = source.split()
    assert target == ' '.join(words[tag][word] for word in rest)
  assert [line[:5] for line in lines(multilingual / 'text' / 'validation.en')[:4]] == ['<2de>', '<2fr>'] * 2
  assert lines(multilingual / 'text' / 'test-fr.mul') == lines(text / 'test.fr')
  config = leaves(read_json(multilingual / 'model' / 'config.json'))
  assert config['vocabulary.tags'] == ['<2de>', '<2fr>'] and config['data.test_splits'] == ['test-de', 'test-fr']
  assert list(read_json(multilingual / 'card.json')['scores']) == ['test-de', 'test-fr']


def test_test_sets_that_a_further_language_lacks_are_left_out(text, tmp_path, capsys):
  folder = tmp_path / 'text'
  shutil.copytree(text, folder)
  os.remove(folder / 'test.fr')
  assert recipe.main(options('multilingual', folder, tmp_path / 'x', '--languages=de,fr', '--stage=mixture')) == 0
  assert f'test set test left out: {folder} has no test.fr' in capsys.readouterr().out
  figures = read_json(tmp_path / 'x' / 'stages' / 'mixture.json')['figures']
  assert (figures['de']['tests'], figures['fr']['tests']) == ({'test': 7}, {})
  with pytest.raises(DataError, match=r'neither test\.fr nor test\.fr\.gz is there'):  # it would give the run's score
    recipe.main(options('multilingual', folder, tmp_path / 'y', '--languages=fr,de', '--stage=mixture'))


def test_a_corpus_that_makes_its_own_test_set_may_be_taken_without(text, run, tmp_path):
  (tmp_path / 'all.tsv').write_text(''.join(f'a dog {i}\tein Hund {i}\n' for i in range(30)))
  made = {}
  for number, splits in enumerate(('()', '("test",)')):
    given = words('distil', text, tmp_path / str(number), f'--teachers={run}', '--stage=text',
                  '--config.data.kind=tsv', f'--config.data.tsv={tmp_path}/all.tsv', '--config.data.heldout=5',
                  f'--config.data.test_splits={splits}')
    given = [word for word in given if not word.startswith('--config.data.directory=')]
    assert recipe.main(recipe_options.read(given)) == exit_codes.DONE
    made[splits] = read_json(tmp_path / str(number) / 'stages' / 'text.json')['figures']['tests']
  assert made == {'()': {}, '("test",)': {'test': 5}}


@pytest.mark.long
def test_a_student_learns_the_teachers_translation_most_like_the_reference(distilled, text):
  bleu = BLEU(effective_order=True)
  source, target = (lines(text / f'train.{code}') for code in ('en', 'de'))
  records = [json.loads(line) for line in lines(distilled / 'translated.jsonl')]
  assert [one['source'] for one in records] == source and {len(one['n_best']) for one in records} == {2}
  wanted = []
  for record, reference in zip(records, target, strict=True):
    first, second = (bleu.sentence_score(one['text'], [reference]).score for one in record['n_best'])
    wanted.append(record['n_best'][second > first]['text'])
  pairs = [(one, two) for one, two in zip(source, wanted) if two.strip()]
  assert list(zip(*(lines(distilled / 'text' / f'distilled.{code}') for code in ('en', 'de')))) == pairs
  config = leaves(read_json(distilled / 'student' / 'config.json'))
  assert config['data.train_split'] == 'distilled,real' and lines(distilled / 'text' / 'real.de') == target


@pytest.mark.long
def test_the_card_of_a_student_has_its_teachers_scores_on_the_same_sets(distilled, text, run):
  card = read_json(distilled / 'card.json')
  translator = tasks.load(f'{run},{run}', alpha=1.0)
  translated = [one.text for one in translator.translate(lines(text / 'test.en'))]
  assert lines(distilled / 'teachers.txt') == translated
  expected = sacrebleu.corpus_chrf(translated, [lines(text / 'test.de')]).score
  assert card['teachers']['together']['test']['chrf'] == pytest.approx(expected)
  assert card['teachers']['apart'][str(run)]['results'] == read_json(run / 'results.json')
  assert list(card['scores']) == ['test'] and card['settings']['--teachers'] == [str(run)] * 2


@pytest.mark.parametrize('splits, stems', [
    (('test',), ('test',)), (('real', 'distilled', 'validation'), ('real_2', 'distilled_2', 'validation_2')),
    (('a set', 'a_set', 'a.set'), ('a_set', 'a_set_2', 'a_set_3'))])
def test_test_sets_of_any_names_stand_beside_the_text_of_a_student(splits, stems, text, run, tmp_path, capsys):
  for number, split in enumerate(splits):
    for code in ('en', 'de'):
      content = ''.join(f'dog {number} {place}\n' for place in range(3))
      (tmp_path / f'{split}.{code}').write_text(content)
  for name in ('train.en', 'train.de', 'val.en', 'val.de'):
    shutil.copy(text / name, tmp_path)
  given = 'distil', tmp_path, tmp_path / 'x', f'--teachers={run}', f'--config.data.test_splits={splits!r}'
  assert recipe.main(options(*given, '--stage=text')) == exit_codes.DONE
  made = tmp_path / 'x' / 'text'
  for name, copied in (('real', 'train'), ('validation', 'val'), *zip(stems, splits)):
    assert [lines(made / f'{name}.{code}') for code in ('en', 'de')] == [
        lines(tmp_path / f'{copied}.{code}') for code in ('en', 'de')]
  assert len(list(made.iterdir())) == 4 + 2 * len(splits)
  student = distil.plan(options(*given)).stages[-1]
  asked = leaves(train_options.parse(student.command[1:], '').config)
  assert asked['data.test_splits'] == stems and asked['data.validation_split'] == 'validation'


# --------------------------------------------------------------------------------------------- how it goes on


@pytest.mark.long
def test_a_finished_recipe_says_so_and_starts_nothing(back_translated, text, capsys, monkeypatch):
  monkeypatch.setattr(subprocess, 'Popen', None)
  before = contents(back_translated)
  assert recipe.main(options(*back(text, back_translated, '--search=sampling', '--search.seed=3'))) == exit_codes.DONE
  out = capsys.readouterr().out
  assert out.count(': done before') == 4 and 'This recipe is finished:' in out and 'on test' in out
  assert contents(back_translated) == before


@pytest.mark.long
@pytest.mark.parametrize('more, expected', [
    (['--keep=0.6'], "--keep: expected 0.5, as the folder was begun; found 0.6"),
    (['--config.model.d_ff=20'], 'config.model.d_ff: expected 24, as the folder was begun; found 20'),
    (['--search.seed=4'], '--search.seed: expected 3, as the folder was begun; found 4'),
    (['--tag=none'], "--tag: expected '<bt>', as the folder was begun; found None")])
def test_a_folder_of_other_settings_is_refused(back_translated, text, more, expected):
  before = contents(back_translated)
  given = words(*back(text, back_translated, '--search=sampling', '--search.seed=3'))
  given = [word for word in given if word.partition('=')[0] != more[0].partition('=')[0]] + more
  with pytest.raises(ConfigError, match='Give the same settings to go on with it, or another --workdir') as refused:
    recipe.main(recipe_options.read(given))
  assert expected in str(refused.value) and 'content' not in str(refused.value)
  assert f'another --workdir; with --reverse={back_translated}/reverse that needs no' in str(refused.value)
  assert contents(back_translated) == before


def test_other_text_and_further_trained_teachers_are_refused(text, run, tmp_path):
  shutil.copytree(run, tmp_path / 'teacher')
  shutil.copy(text / 'mono.de', tmp_path / 'mono.de')
  asked = lambda: options('back_translate', text, tmp_path / 'x', f'--monolingual={tmp_path}/mono.de')
  (tmp_path / 'x').mkdir()
  work.begin(asked(), [f'{tmp_path}/mono.de'], [f'{tmp_path}/teacher'])
  (tmp_path / 'x' / 'reverse').mkdir()
  work.begin(asked(), [f'{tmp_path}/mono.de'], [f'{tmp_path}/teacher'])
  with open(tmp_path / 'mono.de', 'a') as file:
    file.write('ein Hund\n')
  with RunFolder(str(tmp_path / 'teacher')).manifest.changing() as content:
    content['checkpoints'].popitem()
  with pytest.raises(ConfigError) as refused:
    work.begin(asked(), [f'{tmp_path}/mono.de'], [f'{tmp_path}/teacher'])
  assert f'content of {tmp_path}/mono.de: expected' in str(refused.value)
  assert f'content of {tmp_path}/teacher: expected' in str(refused.value)


def test_a_teacher_without_a_manifest_is_known_by_the_files_of_its_checkpoints(run, text, tmp_path):
  listed = RunFolder(str(run)).manifest.read()['checkpoints']
  assert work._sum_of_run(str(run)) == whole_files.digest_of(listed)  # as in folders that were begun before
  shutil.copytree(run, tmp_path / 'teacher')
  os.remove(tmp_path / 'teacher' / 'manifest.json')
  before = work._sum_of_run(f'{tmp_path}/teacher')
  shutil.rmtree(tmp_path / 'teacher' / 'checkpoints' / min(listed))
  after = work._sum_of_run(f'{tmp_path}/teacher')
  assert len({before, after, work._NOT_SUMMED}) == 3
  asked, name = options(*back(text, tmp_path / 'x')), f'content of {tmp_path}/teacher'
  (tmp_path / 'x' / 'reverse').mkdir(parents=True)
  settings = work.settings(asked, [], [f'{tmp_path}/teacher'])
  (tmp_path / 'x' / 'recipe.json').write_text(json.dumps(settings | {name: work._NOT_SUMMED}))
  work.begin(asked, [], [f'{tmp_path}/teacher'])  # an earlier version could not tell
  (tmp_path / 'x' / 'recipe.json').write_text(json.dumps(settings | {name: before}))
  with pytest.raises(ConfigError, match=f'{name}: expected'):
    work.begin(asked, [], [f'{tmp_path}/teacher'])


@pytest.mark.parametrize('place', ['.', 'more'])
def test_R5_real_text_that_changes_between_the_two_trainings_is_refused(text, tmp_path, place):
  folder = tmp_path / 'text'
  shutil.copytree(text, folder)
  shutil.copytree(text, folder / 'more')

  def begin():
    asked = options(*back(folder, tmp_path / 'x', f"--config.data.mix=('{folder}/more*2',)"))
    plan = recipe.RECIPES['back_translate'](asked)
    work.begin(asked, plan.files, plan.runs)

  (tmp_path / 'x').mkdir()
  begin()
  (tmp_path / 'x' / 'reverse').mkdir()
  begin()
  changed = os.path.normpath(folder / place / 'train.en')
  with open(changed, 'a') as file:
    file.write('one dog\n')
  with pytest.raises(ConfigError, match=f'content of {changed}: expected .*; found'):
    begin()


def test_what_decides_nothing_may_differ_and_a_strangers_folder_is_refused(text, tmp_path):
  asked = lambda *more: options('multilingual', text, tmp_path / 'x', '--languages=de,fr', *more)
  (tmp_path / 'x').mkdir()
  work.begin(asked(), [])
  work.begin(asked('--config.train.num_steps=5'), [])  # nothing has run yet
  (tmp_path / 'x' / 'text').mkdir()
  work.begin(asked('--config.train.num_steps=5', '--config.train.log_every=7', '--config.data.num_threads=1'), [])
  with pytest.raises(ConfigError, match='num_steps: expected 5'):
    work.begin(asked(), [])
  os.remove(tmp_path / 'x' / 'recipe.json')
  with pytest.raises(ConfigError, match='is no folder of a recipe and not empty; it holds text'):
    work.begin(asked(), [])


def test_a_folder_from_before_there_was_an_option_goes_on(text, tmp_path):
  asked = lambda *more: options('multilingual', text, tmp_path / 'x', '--languages=de,fr', *more)
  (tmp_path / 'x' / 'text').mkdir(parents=True)
  os.rename(tmp_path / 'x' / 'text', tmp_path / 'text')
  work.begin(asked(), [])
  os.rename(tmp_path / 'text', tmp_path / 'x' / 'text')
  path = tmp_path / 'x' / 'recipe.json'
  path.write_text(json.dumps({name: value for name, value in read_json(path).items() if name != 'config.train.patience'}))
  work.begin(asked(), [])
  with pytest.raises(ConfigError, match='config.train.patience: expected 0, as the folder was begun; found 7'):
    work.begin(asked('--config.train.patience=7'), [])


def test_a_home_stands_for_itself_in_every_path(run, text, tmp_path, monkeypatch):
  """As in --reverse=~/runs/x: shells replace ~ at the start of a word alone."""
  monkeypatch.setenv('HOME', str(tmp_path))
  shutil.copy(text / 'mono.de', tmp_path)
  os.symlink(run, tmp_path / 'teacher')
  asked = options('back_translate', text, '~/x', '--monolingual=~/mono.de', '--reverse=~/teacher')
  assert (asked.workdir, asked.monolingual, asked.reverse) == tuple(f'{tmp_path}/{name}' for name in (
      'x', 'mono.de', 'teacher'))
  first, *_ = recipe.RECIPES['distil'](options('distil', text, '~/x', '--teachers=~/teacher,~/teacher')).stages[1:]
  assert first.inputs[1:] == (f'{tmp_path}/teacher/config.json',) * 2
  assert recipe_options.language('de=~/de*2') == ('de', f'{tmp_path}/de', 2.0)


def test_a_second_recipe_in_a_folder_is_refused_by_the_folders_name(text, tmp_path):
  asked = options('multilingual', text, tmp_path / 'x', '--languages=de,fr', '--print')
  (tmp_path / 'x').mkdir()
  with outputs.locked(f'{tmp_path}/x/recipe.json', 'x'), pytest.raises(FolderBusyError, match=f'^--workdir={tmp_path}/x is '):
    recipe.main(asked)


@pytest.mark.parametrize('name', ['multilingual', 'distilled'])
def test_a_recipe_leaves_the_devices_to_its_trainings(name, run, text, tmp_path, request):
  """A program that has asked jax for its devices keeps a TPU from its children; here there are none to be found."""
  workdir = tmp_path / 'copy'
  shutil.copytree(request.getfixturevalue(name), workdir)
  os.remove(workdir / 'card.json')
  given = ('multilingual', text, workdir, '--languages=de,fr*0.5') if name == 'multilingual' else (
      'distil', text, workdir, f'--teachers={run},{run}', '--n_best=2', '--real', '--search.alpha=1.0')
  if name == 'multilingual':
    os.remove(workdir / 'text' / 'train.mul')
  done = subprocess.run([sys.executable, *words(*given)], cwd=ROOT, capture_output=True, text=True,
                        env=os.environ | {'JAX_PLATFORMS': 'none_such'})
  assert done.returncode == 0 and (workdir / 'card.json').exists(), done.stderr


def test_a_changed_file_is_named_and_a_deleted_one_is_made_again(multilingual, text, tmp_path, capsys):
  workdir = tmp_path / 'copy'
  shutil.copytree(multilingual, workdir)
  asked = lambda stage: options('multilingual', text, workdir, '--languages=de,fr*0.5', f'--stage={stage}')
  os.remove(workdir / 'text' / 'train.mul')
  assert recipe.main(asked('mixture')) == exit_codes.DONE
  assert (workdir / 'text' / 'train.mul').read_bytes() == (multilingual / 'text' / 'train.mul').read_bytes()
  assert 'done before' not in capsys.readouterr().out
  for name in ('test-fr.mul', 'test-fr.en'):  # test sets are no less the stage's than what is trained on
    os.remove(workdir / 'text' / name)
  assert recipe.main(asked('mixture')) == exit_codes.DONE and 'done before' not in capsys.readouterr().out
  test = (multilingual / 'text' / 'test-fr.mul').read_bytes()
  assert (workdir / 'text' / 'test-fr.mul').read_bytes() == test
  (workdir / 'text' / 'test-fr.mul').write_bytes(test[:-5])
  with pytest.raises(DamagedError, match=r'stage mixture has written another text/test-fr.mul than is there now'):
    recipe.main(asked('mixture'))
  (workdir / 'text' / 'test-fr.mul').write_bytes(test)
  with open(workdir / 'text' / 'train.en', 'a') as file:
    file.write('one\n')
  with pytest.raises(DamagedError, match=r'stage mixture has written another text/train.en than is there now'):
    recipe.main(asked('mixture'))
  with pytest.raises(DamagedError, match=r'stage model was made from another text/train.en than is there now'):
    recipe.main(asked('model'))
  with pytest.raises(ConfigError, match='--stage=train: expected one of mixture, model'):
    recipe.main(asked('train'))


def test_a_stage_alone_needs_those_before_it(text, tmp_path):
  with pytest.raises(FileError, match=r'stage model reads .*train.en, which is not there; stage mixture makes it'):
    recipe.main(options('multilingual', text, tmp_path / 'x', '--languages=de,fr', '--stage=model'))


def test_a_failing_stage_ends_the_recipe_with_its_exit_code(text, tmp_path, capfd):
  given = back(text, tmp_path / 'x', '--config.data.train_split=lost')
  assert recipe.main(options(*given)) == exit_codes.DATA
  out = capfd.readouterr().out
  assert 'Stage 1 of 4: training German to English' in out and 'neither lost.de' in out.partition('FAILED')[0]
  assert 'Stage 1 of 4: FAILED with exit code 3: error: neither lost.de' in out and 'Stage 2' not in out
  assert not read_json(tmp_path / 'x' / 'stages' / 'reverse.json')['done']


def wait_for(process, log, pattern, seconds=300):
  for _ in range(20 * seconds):
    if os.path.exists(log) and re.search(pattern, log.read_text()):
      return
    assert process.poll() is None, process.communicate()
    time.sleep(0.05)
  raise AssertionError(f'{pattern} never came')


def owner_of(workdir):
  return int((workdir / 'lock').read_text().split()[1])


@pytest.mark.long
def test_R5_stopped_then_killed_then_finished_by_the_printed_commands(multilingual, text, tmp_path, capsys):
  """Ctrl-C while the child starts, kill -9 once it has saved; then what --print prints, in a shell: the same bytes."""
  workdir, given = tmp_path / 'again', ['--languages=de,fr*0.5']
  log = workdir / 'logs' / 'model.log'
  first = start('multilingual', text, workdir, *given)
  wait_for(first, log, 'Corpus ')
  first.send_signal(signal.SIGINT)
  out, errors = first.communicate(timeout=300)
  assert first.returncode == exit_codes.INTERRUPTED
  assert errors == 'Stopped in stage 2 of 2, training English to German, French. The same command resumes from here.\n'
  assert out.startswith('Stage 1 of 2: writing the mixture of languages\n')
  assert 'Corpus ' in out.partition('Stage 2 of 2')[2]
  record = read_json(workdir / 'stages' / 'model.json')
  assert not record['done'] and record['seconds'] > 0 and not (workdir / 'card.json').exists()

  second = start('multilingual', text, workdir, *given)
  wait_for(second, log, r'\nstep 1 ')
  os.kill(owner_of(workdir / 'model'), signal.SIGKILL)
  second.kill()
  second.communicate()

  assert recipe.main(options('multilingual', text, workdir, *given, '--print')) == exit_codes.DONE
  printed = capsys.readouterr().out
  script = '\n'.join(re.sub(r'^\S+', sys.executable, line) for line in printed.splitlines() if not line.startswith('#'))
  assert [line for line in printed.splitlines() if line.startswith('#')] == [
      '# Stage 1 of 2: writing the mixture of languages', '# Stage 2 of 2: training English to German, French',
      '# The card']
  finished = subprocess.run(['sh', '-ec', script], cwd=ROOT, capture_output=True, text=True)
  assert finished.returncode == 0, finished.stderr
  assert 'Stage 1 of 2: writing the mixture of languages: done before' in finished.stdout
  assert '\nFinished:\n' in finished.stdout
  card = read_json(workdir / 'card.json')
  assert [stage['hours'] > 0 for stage in card['stages']] == [True, True]
  assert card['stages'][1]['hours'] == read_json(workdir / 'model' / 'results.json')['seconds'] / 3600
  assert_same(multilingual, workdir, 'model')


def test_printed_commands_are_those_of_the_stages(text, tmp_path, capsys):
  asked = options(*back(text, tmp_path / 'x', '--search.beam_size=3', '--print'))
  assert recipe.main(asked) == exit_codes.DONE and os.listdir(tmp_path / 'x') == ['recipe.json']
  printed = [shlex.split(line)[1:] for line in capsys.readouterr().out.splitlines() if not line.startswith('#')]
  plan = recipe.RECIPES['back_translate'](asked)
  assert [os.path.basename(line[0]) for line in printed] == [
      'train.py', 'decode.py', 'recipe.py', 'train.py', 'recipe.py']
  assert [tuple(line[1:]) for line in (printed[0], printed[1], printed[3])] == [
      plan.stages[place].command[2:] for place in (0, 1, 3)]
  assert leaves(train_options.read(printed[3]).config)['data.mix'] == (f'{tmp_path}/x/synthetic*1#<bt>',)
  untagged = recipe_options.read([word for word in words(*back(text, tmp_path / 'y')) if not word.startswith('--tag')])
  *_, last = recipe.RECIPES['back_translate'](untagged).stages
  assert last.config['data']['mix'] == [f'{tmp_path}/y/synthetic*1'] and last.config['vocabulary']['tags'] == []
  decoded = decode_options.parse(printed[1], '')
  assert (decoded.search, decoded.format, decoded.input) == ({'beam_size': 3}, 'jsonl', f'{text}/mono.de')
  last, again = recipe_options.read(printed[2]), recipe_options.read(printed[4])
  assert (last.stage, again.stage) == ('pairs', None)
  assert work.settings(last, [], []) == work.settings(again, [], []) == work.settings(asked, [], [])


def test_a_translation_that_was_made_by_hand_is_taken_when_it_is_whole_and_newer(tmp_path):
  (tmp_path / 'in.de').write_text('a\nb\n')
  stage = stages.translating('translate', 'translating', ['run'], f'{tmp_path}/in.de', f'{tmp_path}/out', (), {})
  assert not stage.was_run()
  (tmp_path / 'out').write_text('x\ny\n')
  assert stage.was_run()
  (tmp_path / 'out').write_text('x\n')
  assert not stage.was_run()
  (tmp_path / 'out').write_text('x\ny\n')
  os.utime(tmp_path / 'in.de', (time.time() + 9, time.time() + 9))
  assert not stage.was_run()


def test_nobody_has_measured_a_translation_that_was_made_by_hand(tmp_path):
  (tmp_path / 'in.de').write_text('a\n')
  (tmp_path / 'out').write_text('x\n')
  stage = stages.translating('translate', 'translating', ['run'], f'{tmp_path}/in.de', f'{tmp_path}/out', (), {})
  asked = argparse.Namespace(stage=None, workdir=str(tmp_path))
  assert work.work_off([stage], asked, print) == exit_codes.DONE
  assert work.record_of(stage, str(tmp_path))['seconds'] is None and work.is_done(stage, str(tmp_path))
  told = card.described({'scores': {}, 'stages': [{'title': 'one', 'hours': None}, {'title': 'two', 'hours': 1.5}]})
  assert told == '(not measured)  one\n  1.50 h  two'


def test_progress_of_a_translation_never_falls_and_ends_at_all_of_it(tmp_path, monkeypatch):
  (tmp_path / 'in.de').write_text('a\n' * 4)
  (tmp_path / 'out').write_text('of before\n')
  (tmp_path / 'out.parts').mkdir()
  monkeypatch.setattr(stages, 'PART_LINES', 1)
  stage = stages.translating('translate', 'translating', ['run'], f'{tmp_path}/in.de', f'{tmp_path}/out', (), {})
  progress, shown = stage.following(), []
  for name in ('job.json', '0', '1', '2'):
    (tmp_path / 'out.parts' / name).touch()
    shown.append(progress().partition(' %')[0])
  os.rename(tmp_path / 'out.parts', tmp_path / 'out.parts.done')  # the job is about to end
  shown.append(progress().partition(' %')[0])
  whole_files.write_whole(f'{tmp_path}/out', 'x\n' * 4)
  assert shown == ['0', '25', '50', '75', '75'] and progress() == '100 % of 4 lines translated'


def test_a_job_that_ends_while_it_is_looked_at_is_no_error(tmp_path, monkeypatch):
  (tmp_path / 'in.de').write_text('a\n')
  (tmp_path / 'out.parts').mkdir()
  stage = stages.translating('translate', 'translating', ['run'], f'{tmp_path}/in.de', f'{tmp_path}/out', (), {})
  progress, look = stage.following(), os.listdir

  def gone(path):
    shutil.rmtree(path)
    return look(path)

  monkeypatch.setattr(os, 'listdir', gone)
  assert progress() == '0 % of 1 lines translated'


KILLED_AT_A_FILE = '''
import os, signal, sys
import recipe
from options import recipe_options
rename, left = os.replace, int(sys.argv[1])

def replace(before, after):
  global left
  left -= 1
  if not left:
    os.kill(os.getpid(), signal.SIGKILL)
  rename(before, after)

os.replace = replace
recipe.main(recipe_options.read(sys.argv[2:]))
'''


@pytest.mark.parametrize('number', [7, *(pytest.param(n, marks=pytest.mark.drill) for n in (1, 2, 3, 4, 5, 6, 8, 9, 10))])
def test_R5_killed_before_any_file_is_whole_a_stage_of_this_program_makes_the_same(number, multilingual, text, tmp_path):
  """The mixture writes recipe.json, eight files and its record; kill -9 strikes before the n-th of them has its name."""
  given = 'multilingual', text, tmp_path / 'x', '--languages=de,fr*0.5', '--stage=mixture'
  killed = subprocess.run([sys.executable, '-c', KILLED_AT_A_FILE, str(number), *words(*given)], cwd=ROOT,
                          capture_output=True, text=True)
  assert killed.returncode == -signal.SIGKILL, killed.stderr
  whole = [path for path in (tmp_path / 'x').rglob('*.*') if path.is_file() and path.suffix not in ('.lock', '.unfinished')]
  assert len(whole) == number - 1
  assert recipe.main(options(*given)) == exit_codes.DONE
  made = {path.name: path.read_bytes() for path in (tmp_path / 'x' / 'text').iterdir()}
  assert made == {path.name: path.read_bytes() for path in (multilingual / 'text').iterdir()} and len(made) == 8


def begun(text):
  """The numbers of the stages that a recipe says it begins."""
  return [int(found[1]) for line in text.splitlines() if (found := re.match(r'Stage (\d+) of', line)) and 'done' not in line]


@pytest.mark.drill
@pytest.mark.parametrize('name', ['back_translate', 'distil', 'multilingual'])
def test_R5_killed_in_every_stage_a_recipe_is_the_same(name, text, run, tmp_path, request):
  """Kill -9 of the recipe and its child, twice in each stage at random; then the same command to the end."""
  given = {'back_translate': back(text, tmp_path / 'x', '--search=sampling', '--search.seed=3'),
           'distil': ('distil', text, tmp_path / 'x', f'--teachers={run},{run}', '--n_best=2', '--real',
                      '--search.alpha=1.0'),
           'multilingual': ('multilingual', text, tmp_path / 'x', '--languages=de,fr*0.5')}[name]
  whole = request.getfixturevalue({'back_translate': 'back_translated', 'distil': 'distilled'}.get(name, name))
  draw, killed = random.Random(name), []
  planned = recipe.RECIPES[name](options(*given)).stages
  for number in sorted([*range(1, len(planned) + 1)] * 2):
    process, heads = start(*given), []
    for line in process.stdout:
      heads += begun(line)
      if heads and heads[-1] >= number:
        break
    else:
      break  # it has finished
    time.sleep(draw.uniform(0.0, 0.2 if isinstance(planned[heads[-1] - 1], stages.Making) else 12.0))
    children = subprocess.run(['ps', '-o', 'pid=', '--ppid', str(process.pid)], capture_output=True, text=True).stdout
    for pid in [process.pid, *map(int, children.split())]:
      with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    killed.append([*heads, *begun(process.communicate()[0])][-1])
  process = start(*given)
  out, errors = process.communicate()
  assert process.returncode == 0, errors
  trained = {'back_translate': ('reverse', 'forward'), 'distil': ('student',), 'multilingual': ('model',)}[name]
  assert_same(whole, tmp_path / 'x', *trained)
  assert killed
  print(f'{name}: killed in stages {killed}')


# ------------------------------------------------------------------------------------------ choosing and flags


def test_pairs_are_chosen_exactly():
  scores, full = np.array([-1.0, -0.5, -2.0, -0.5, -3.0]), np.array([True, True, True, True, False])
  kept = lambda *given: np.flatnonzero(pairs.chosen(scores, full, *given)).tolist()
  assert kept(None, None) == [0, 1, 2, 3]
  assert kept(0.5, None) == [1, 3] and kept(0.25, None) == [1]  # of equal ones the first
  assert kept(0.51, None) == [0, 1, 3] and kept(1.0, None) == [0, 1, 2, 3] and kept(0.01, None) == [1]
  assert kept(None, -1.0) == [0, 1, 3] and kept(None, -0.4) == []
  assert pairs.chosen(np.arange(30.0), np.ones(30, bool), 0.1, None).sum() == 3


def test_of_an_n_best_list_the_translation_most_like_the_reference_is_taken(tmp_path):
  one = lambda text, log_prob: {'text': text, 'log_prob': log_prob, 'token_log_probs': [log_prob / 2] * 2}
  listed = [[one('ein Hund', -1.0), one('eine Katze schläft', -2.0), one('eine Katze', -3.0)],  # the second is nearest
            [one('kein Wort davon', -1.0), one('auch keins', -2.0)]]  # all alike: the likeliest
  (tmp_path / 'x.jsonl').write_text(''.join(json.dumps(each[0] | {'n_best': each}) + '\n' for each in listed))
  (tmp_path / 'ref').write_text('eine Katze schläft hier\nzwei Bäume\n')
  found = list(pairs.answers(f'{tmp_path}/x.jsonl', f'{tmp_path}/ref'))
  assert [answer.text for answer in found] == ['eine Katze schläft', 'kein Wort davon']
  assert [answer.score for answer in found] == [-1.0, -0.5]
  assert [answer.text for answer in pairs.answers(f'{tmp_path}/x.jsonl')] == ['ein Hund', 'kein Wort davon']


def test_likeness_of_translations_into_several_languages_is_by_the_language_of_each(tmp_path):
  one = lambda text: {'text': text, 'log_prob': -1.0, 'token_log_probs': [-1.0]}
  listed = [one('他走了'), one('我喜欢吃香蕉')]  # words between spaces would make both as unlike
  (tmp_path / 'x.jsonl').write_text(json.dumps(listed[0] | {'n_best': listed}) + '\n')
  (tmp_path / 'ref').write_text('我喜欢吃香蕉。\n')
  (tmp_path / 'in').write_text('<2zh> I like bananas.\n')
  taken, = pairs.answers(f'{tmp_path}/x.jsonl', f'{tmp_path}/ref', 'mul', f'{tmp_path}/in')
  assert taken.text == '我喜欢吃香蕉'


def test_no_pair_left_is_an_error_that_names_the_best_score(tmp_path):
  record = {'text': 'a dog', 'log_prob': -6.0, 'token_log_probs': [-2.0, -3.0, -1.0]}
  (tmp_path / 'made.jsonl').write_text(json.dumps(record) + '\n')
  (tmp_path / 'in.de').write_text('ein Hund\n')
  asked = lambda least: pairs.synthetic(
      f'{tmp_path}/made.jsonl', f'{tmp_path}/in.de', (f'{tmp_path}/x.en', f'{tmp_path}/x.de'), True, None, least)
  with pytest.raises(DataError, match=r'highest log-probability per token is -2.000, and --min_score is -1.5'):
    asked(-1.5)
  assert not (tmp_path / 'x.en').exists()
  assert asked(-2.0)['kept'] == 1 and lines(tmp_path / 'x.en') == ['a dog']
  (tmp_path / 'in.de').write_text('ein Hund\nzwei\n')
  with pytest.raises(DataError, match='made.jsonl and .*in.de are not equally long'):
    asked(-2.0)
  (tmp_path / 'made.jsonl').write_text(json.dumps(record) + '\nzwei Katzen\n')
  with pytest.raises(DataError, match='made.jsonl: line 2 is not what decode.py --format=jsonl writes'):
    asked(-2.0)


def test_the_corpus_itself_is_never_written_where_its_split_leads_out_of_its_folder(text, tmp_path):
  shutil.copytree(text, tmp_path / 'mine')
  before = {path.name: path.read_bytes() for path in (tmp_path / 'mine').iterdir() if path.is_file()}
  for split in (f'{tmp_path}/mine/train', '../mine/train', f'train,{tmp_path}/mine/val'):
    asked = options(*back(tmp_path / 'mine', tmp_path / 'x', f'--config.data.train_split={split}'))
    with pytest.raises(ConfigError, match='config.data.train_split is .* expected a name within data.directory'):
      recipe.main(asked)
  assert not (tmp_path / 'x').exists()
  assert before == {path.name: path.read_bytes() for path in (tmp_path / 'mine').iterdir() if path.is_file()}


def test_the_seconds_of_a_stage_that_was_killed_are_unknown_and_stay_so(tmp_path):
  class Killed(BaseException):
    pass

  def make():
    raise Killed

  stage = stages.Making('pairs', 'making pairs', (), (f'{tmp_path}/made',), make)
  asked = types.SimpleNamespace(workdir=str(tmp_path), stage=None)
  with pytest.raises(Killed):
    work.work_off([stage], asked, print)
  assert work.record_of(stage, str(tmp_path)) == {'done': False, 'seconds': None}
  again = dataclasses.replace(stage, make=lambda: (tmp_path / 'made').write_text('x') and {})
  assert work.work_off([again], asked, print) == exit_codes.DONE
  record = work.record_of(stage, str(tmp_path))
  assert record['done'] and record['seconds'] is None
  (tmp_path / 'made').unlink()
  (tmp_path / 'stages' / 'pairs.json').unlink()
  assert work.work_off([again], asked, print) == exit_codes.DONE and work.record_of(stage, str(tmp_path))['seconds'] >= 0


def test_a_card_is_not_written_of_a_run_whose_files_are_lost(back_translated, text, tmp_path):
  shutil.copytree(back_translated, tmp_path / 'x')
  environment = tmp_path / 'x' / 'forward' / 'environment.json'
  environment.unlink()
  asked = options(*back(text, tmp_path / 'x', '--search=sampling', '--search.seed=3'))
  with pytest.raises(DamagedError, match='forward/environment.json is missing'):
    card.write(asked, recipe.RECIPES['back_translate'](asked))


@pytest.mark.parametrize('name, more, expected', [
    ('back_translate', [], ['--monolingual is missing; back_translate needs it']),
    ('back_translate', ['--monolingual=x.de', '--min_score=0.5'], ['--min_score=0.5: expected 0 or less']),
    ('back_translate', ['--monolingual=lost.de', '--keep=1.5', '--weight=0', '--tag=a b'],
     ['--monolingual=lost.de: there is no such file', '--keep=1.5: expected a share', '--weight=0: expected a number above 0 and below 1000',
      '--tag=a b']),
    ('back_translate', ['--monolingual=README.md', '--keep=0.5', '--min_score=-1', '--teachers=x', '--languages=de,fr'],
     ['--keep and --min_score both', '--teachers has no effect with back_translate', '--languages has no effect']),
    ('back_translate', ['--monolingual=README.md', '--search=beam', '--search.strategy=sample', '--search.beam=3'],
     ['--search.beam=3 is no option; did you mean --search.beam_size?']),
    ('back_translate', ['--monolingual=README.md', '--search=beam', '--search.strategy=sample'],
     ['say the same; give one']),
    ('distil', ['--teachers=nowhere'], ['--teachers=nowhere is not a run']),
    ('multilingual', ['--languages=de,fr*,de', '--search.beam_size=2'],
     ["--languages has 'fr*'", 'a language stands there twice', 'its training takes --config.search.…']),
    ('multilingual', ['--languages=de'], ['expected two languages or more']),
    ('multilingual', ['--languages=de,fr', '--config.model.d_fff=3', '--print=perhaps'], ['d_fff', '--print=perhaps']),
    ('translate', [], ['RECIPE: expected back_translate or distil or multilingual, found'])])
def test_mistakes_are_told_together_before_anything_runs(name, more, expected, text, tmp_path, monkeypatch):
  monkeypatch.chdir(ROOT)
  with pytest.raises(ConfigError) as refused:
    options(name, text, tmp_path / 'x', *more)
  assert all(part in str(refused.value) for part in expected), str(refused.value)
  assert not (tmp_path / 'x').exists()


@pytest.mark.parametrize('name, more, expected', [
    ('back_translate', ['--search=sampling', '--search.beam_size=3'], '--search.beam_size has no effect'),
    ('back_translate', ['--config.model.num_heads=3'], 'd_model 16 is not divisible by num_heads 3'),
    ('back_translate', ['--config.init_from={run}'], 'would be the start of both directions'),
    ('back_translate', ['--reverse={run}'], '--reverse={run}: expected a run that translates de to en; found en to de'),
    ('distil', ['--n_best=3'], '--n_best'),
    ('distil', ['--config.data.source_language=fr'], 'expected a run that translates fr to de; found en to de'),
    ('multilingual', ['--languages=de,en'], '--languages has en, the language translated from'),
    ('multilingual', ['--languages=de,fr', '--config.data.kind=tsv', '--config.data.tsv=x.tsv'],
     "config.data.kind is 'tsv', whose text is the same for every target language"),
    ('multilingual', ['--languages=de,fr', '--config.data.kind=phrasebook'], 'expected data.kind=text, with the files'),
    ('multilingual', ['--languages=de,fr', '--config.data.tag=<x>'], "config.data.tag is '<x>' and has no effect"),
    ('multilingual', ['--languages=de,fr', '--config.data.target_language=fr'],
     '--config.data.target_language=fr has no effect with multilingual')])
def test_what_could_only_fail_is_refused_before_anything_runs(name, more, expected, text, run, tmp_path):
  given = {'back_translate': [f'--monolingual={text}/mono.de'], 'distil': [f'--teachers={run}', '--search.beam_size=2']}
  given = [*given.get(name, []), *(word.format(run=run) for word in more)]
  with pytest.raises(ConfigError) as refused:
    recipe.main(options(name, text, tmp_path / 'x', *given))
  assert expected.format(run=run) in str(refused.value) and not (tmp_path / 'x').exists()


def test_teachers_of_different_vocabularies_are_refused_before_anything_runs(text, run, multilingual, tmp_path):
  other = tmp_path / 'other'
  shutil.copytree(run, other)
  os.remove(other / 'manifest.json')  # which would tell that the vocabulary is not this run's
  shutil.copy(multilingual / 'model' / 'vocabulary.model', other)
  with pytest.raises(ConfigError, match=f'{other} has another vocabulary than {run}'):
    recipe.main(options('distil', text, tmp_path / 'x', f'--teachers={run},{other}'))
  assert not (tmp_path / 'x').exists()


def test_a_language_whose_weight_leaves_none_of_its_pairs_is_named(text, tmp_path):
  with pytest.raises(DataError, match=r'--languages=fr\*0.0001: a weight of 0.0001 leaves none of 1\d\d training pairs'):
    recipe.main(options('multilingual', text, tmp_path / 'x', '--languages=de,fr*0.0001', '--stage=mixture'))
  for wrong in ('de*0', 'de*1000'):
    with pytest.raises(ValueError, match='a weight above 0 and below 1000'):
      recipe_options.language(wrong)


def test_a_place_that_can_be_no_folder_and_an_unknown_stage_are_refused_first(text, tmp_path):
  (tmp_path / 'file').touch()
  for place in ('file', 'file/x'):
    with pytest.raises(ConfigError, match=f'--workdir={tmp_path}/{place}: {tmp_path}/file is not a folder'):
      options('multilingual', text, tmp_path / place, '--languages=de,fr')
  with pytest.raises(ConfigError, match='--stage=mix: expected one of mixture, model'):
    recipe.main(options('multilingual', text, tmp_path / 'x', '--languages=de,fr', '--stage=mix'))
  assert not (tmp_path / 'x').exists()


@pytest.mark.parametrize('content, expected', [
    (b'', 'no line of it has text'), (b' \n\n', 'no line of it has text'),
    (b'ein Hund\n' * 9 + b'eine K\xfc\n', 'line 10: not valid UTF-8'), (b'\x1f\x8b\x08\x00', 'is a damaged gzip file')])
def test_text_that_cannot_be_translated_is_found_before_anything_is_trained(content, expected, text, tmp_path):
  (tmp_path / 'mono.de').write_bytes(content)
  with pytest.raises(DataError, match=expected):
    recipe.main(options('back_translate', text, tmp_path / 'x', f'--monolingual={tmp_path}/mono.de'))
  assert not (tmp_path / 'x').exists()


def test_recipes_are_for_translation(tmp_path):
  with pytest.raises(ConfigError, match='recipes are for translation'):
    recipe.main(recipe_options.read([
        'recipe.py', 'multilingual', f'--config={ROOT}/configs/language_model.py:phrasebook', '--languages=de,fr',
        f'--workdir={tmp_path}/x']))


def test_directions_turn_with_columns_fields_and_lengths(text, tmp_path):
  def reverse(config, *more):
    asked = recipe_options.read(['recipe.py', 'back_translate', f'--config={ROOT}/configs/{config}.py',
                                 f'--monolingual={text}/mono.de', f'--workdir={tmp_path}/x', *more])
    first, *_ = recipe.RECIPES['back_translate'](asked).stages
    return leaves(first.config)

  toy = reverse('toy', '--config.data.tsv=x.tsv')
  assert (toy['data.tsv_source_column'], toy['data.tsv_target_column']) == (2, 1)
  assert (toy['data.fixed_source_length'], toy['data.fixed_target_length']) == (42, 41)
  assert (toy['data.source_language'], toy['data.jsonl_source_field']) == ('de', 'source')
  fields = reverse('toy', '--config.data.kind=jsonl', '--config.data.jsonl=x')
  assert (fields['data.jsonl_source_field'], fields['data.tsv_source_column']) == ('target', 1)
  wmt = reverse('wmt_de_en')
  assert (wmt['data.source_language'], wmt['data.target_language'], wmt['data.kind']) == ('de', 'en', 'tfds')


def test_help_names_every_flag_and_recipe(capsys):
  with pytest.raises(SystemExit) as ended:
    recipe_options.parse(['recipe.py', '--help'], recipe.__doc__)
  told = capsys.readouterr().out
  assert ended.value.code == 0 and all(flag.label in told for flag in recipe_options.FLAGS)
  assert all(name in told for name in recipe.RECIPES) and 'Flags for distil alone:' in told
  flags = {flag.name: flag for flag in recipe_options.FLAGS}
  assert set(flags['recipe'].choices) == set(recipe.RECIPES)
