"""The ledger says what the cards say, the cards what runs' folders say, and each shipped configuration has a row."""

import dataclasses
import json
import re
import shutil
import statistics

import pytest

from benchmarks import documents, ledger, run_cards
from checks.errors import ConfigError, DamagedError
from options.configurations import shipped_variants
from tests import tiny_runs
from training.run_folder import RunFolder


@pytest.fixture(scope='module')
def finished(run, corpus, tmp_path_factory):
  """A finished run whose environment.json has the command of a user."""
  folder = RunFolder(str(shutil.copytree(run, tmp_path_factory.mktemp('home') / 'tiny')))
  environment = json.loads((run / 'environment.json').read_text())
  folder.write_json(folder.environment, environment | {
      'command': tiny_runs.arguments(corpus, folder.path, '--config.seed=0')})
  return folder


@pytest.fixture
def card(finished):
  return run_cards.card_of(finished.path)


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
  """Cards and documents in a folder of the test."""
  for place, name, file in ((run_cards, 'FOLDER', 'cards'), (ledger, 'LEDGER', 'ledger.md'), (ledger, 'README', 'README.md')):
    monkeypatch.setattr(place, name, tmp_path / file)
  (tmp_path / 'README.md').write_text('Runs:\n<!--ledger:results-->\n| old |\n<!---->\nThe end.\n')
  return tmp_path


def lines_of(text):
  """The cells of each line of a table."""
  return [[cell.strip() for cell in re.split(r'(?<!\\)\|', line)[1:-1]] for line in text.splitlines()
          if line.startswith('| ')]


def call(monkeypatch, *arguments):
  monkeypatch.setattr('sys.argv', ['ledger', *map(str, arguments)])
  ledger.main()


def test_readme_and_ledger_say_what_the_cards_say():
  cards = run_cards.read_cards()
  for path, text in ledger.documents_of(cards).items():
    assert path.read_text(encoding='utf-8') == text, '`python -m benchmarks.ledger` writes them'
  (name, block), = documents.figures_in(ledger.README.read_text(encoding='utf-8'), 'ledger')
  assert name == 'results'
  written = {cells[0]: cells for cells in lines_of(ledger.LEDGER.read_text(encoding='utf-8'))}
  for configuration, score, steps, hours, *_ in lines_of(block)[1:]:
    _, all_scores, *rest = written[configuration]
    assert re.sub(r' `[^`]*`', '', all_scores) == score and rest[:2] == [steps, hours]


def test_each_shipped_configuration_has_a_row_and_each_card_is_in_one():
  cards = run_cards.read_cards()
  written = lines_of(ledger.LEDGER.read_text(encoding='utf-8'))[1:]
  shipped = [f'`configs/{config}.py{":" * bool(variant)}{variant}`' for config, variant in shipped_variants()]
  assert len(shipped) > 60
  assert [cells[0] for cells in written if ' with ' not in cells[0]] == shipped
  links = [link for cells in written for link in re.findall(r'\(\.\./benchmarks/cards/([^)]+)\)', cells[-1])]
  assert sorted(links) == sorted(cards)
  assert all((cells[1] == ledger.NOT_RUN) != bool(cells[-1]) for cells in written)


@pytest.mark.parametrize('name', sorted(run_cards.read_cards()))
def test_a_card_is_found_by_its_name_and_names_no_place(name):
  card = run_cards.read_cards()[name]
  told = run_cards.as_file(card)
  assert not re.search(r'[="\s](/|~|\.\./)\w', told)
  assert all(start['commit'] for start in card.starts) and all(card.data['texts'].values())
  assert (run_cards.FOLDER / name).read_text(encoding='utf-8') == told
  head = f'{card.config}-{card.variant or "default"}-'
  assert name.startswith(head) and name.endswith(f'-{card.seed}.json') or name == f'{head}{card.seed}.json'


def test_a_card_is_what_the_folder_says(card, run, corpus):
  results, environment = (json.loads((run / f'{name}.json').read_text()) for name in ('results', 'environment'))
  assert (card.spec, card.seed, card.step, card.task, card.measure) == ('configs/multi30k.py:adam', 0, 8, 'translation', 'bleu')
  assert card.scores['test']['bleu'] == results['bleu'] and card.scores['test']['signature'] == results['signature']
  start, = card.starts
  assert start['commit'] == environment['commit'] and start['packages'] == environment['packages']
  assert start['devices'] == {'cpu cpu': 8} and start['processor'] == environment['processor'] != ''
  assert card.data == {'name': f'text {corpus.name}', 'texts': environment['data']} and len(environment['data']) == 3
  texts = {'data': {'train + /home/x/back/synthetic': 'a', 'val': 'b'}}
  assert run_cards._texts(texts, ['val']) == {'train + …/synthetic': 'a', 'val': 'b'}
  assert card.overrides['model.d_model'] == 16 and card.overrides['train.num_steps'] == 8
  assert 'model.norm' not in card.overrides and card.options['model.norm'] == 'pre'
  assert 'data.directory' not in card.overrides and 'train.log_every' not in card.overrides
  assert card.command.startswith('python train.py --config=configs/multi30k.py:adam --config.data.directory=…/')
  assert str(corpus) not in run_cards.as_file(card)
  assert re.fullmatch(r'multi30k-adam-[0-9a-f]{8}-0\.json', card.name)


def test_a_card_has_the_hash_of_each_scored_set_whichever_start_brought_it(finished, tmp_path):
  folder = RunFolder(str(shutil.copytree(finished.path, tmp_path / 'run')))
  environment, results = (json.loads((tmp_path / 'run' / f'{name}.json').read_text()) for name in ('environment', 'results'))
  train, val, test = environment['data'].values()
  heldout = {'train': train, 'val': val}
  folder.write_json(folder.environment, environment | {'data': heldout | {'given up': 'x'}, 'later_starts': [
      environment | {'data': heldout | {'late': 'y', 'test': test}}]})
  scores = {'test': results['scores']['test'], 'late': results['scores']['test']}
  folder.write_json(folder.results, results | {'scores': scores})
  assert list(run_cards.card_of(folder.path).data['texts'].items()) == [
      ('train', train), ('val', val), ('test', test), ('late', 'y')]
  twice = {'data': heldout | {'news (test 1)': 'a', 'news (test 2)': 'b'}}
  assert run_cards._texts(twice, ['news']) == twice['data']


def test_a_configuration_is_found_by_its_options_where_the_command_does_not_name_it(card, monkeypatch):
  options = run_cards.of_shipped('ablation', 'heads_1') | {'model.d_ff': 96}
  assert run_cards._spec_of((), options) == ('ablation', 'heads_1')
  assert run_cards._spec_of(('train.py', '--config=mine/rows.py:heads_1'), options) == ('ablation', 'heads_1')
  assert run_cards._spec_of(('train.py', '--config', '/x/configs/table3.py:A1'), options) == ('table3', 'A1')
  assert run_cards._spec_of(('train.py', '--config=configs/domain.py:runs/opus'), options) == ('domain', '')
  # Started with overrides that are a variant's by now.
  quick = ('train.py', '--config=configs/multi30k.py:quick')
  assert run_cards._spec_of(quick, run_cards.of_shipped('multi30k', 'adam')) == ('multi30k', 'adam')
  assert run_cards._spec_of(quick, run_cards.of_shipped('multi30k', '') | {'model.d_ff': 96}) == ('multi30k', 'quick')
  other = dataclasses.replace(card, config='ablation', variant='heads_1', options=options)
  assert other.overrides == {'model.d_ff': 96} and other.name == 'ablation-heads_1-d_ff_96-0.json'
  exact = dataclasses.replace(other, options=run_cards.of_shipped('ablation', 'heads_1'))
  assert exact.overrides == {} and exact.name == 'ablation-heads_1-0.json'
  # What a run has decided is no departure; what a later version of the configuration says otherwise is one.
  decided = dataclasses.replace(card, options=run_cards.of_shipped('multi30k', 'adam') | {
      'data.max_shapes': 5, 'train.label_smoothing': 0.2})
  assert decided.overrides == {'train.label_smoothing': 0.2}


@pytest.mark.parametrize('word, kept', [
    ('--workdir=/home/x/runs/a', '--workdir=…/a'), ('--workdir=~/runs/a', '--workdir=…/a'), ('--workdir=runs/a', '--workdir=runs/a'),
    ('--config.data.directory=../data/m30k', '--config.data.directory=…/m30k'), ('gs://bucket/a', 'gs://bucket/a'),
    ('--workdir=/home/al ice/my runs/a', '--workdir=…/a'), ('train + /home/al ice/b + /c/d', 'train + …/b + …/d'),
    ("--config.data.mix=('/a/b/general*0.5','news')", "--config.data.mix=('…/general*0.5','news')")])
def test_no_folder_outside_of_the_repository_is_told(word, kept):
  assert run_cards._shortened(word) == kept


def test_seeds_share_a_row_with_mean_and_range_and_other_text_does_not(card):
  shipped = dataclasses.replace(card, config='phrasebook', variant='', options=run_cards.of_shipped('phrasebook', ''))
  def seeded(seed, bleu, **changes):
    scores = {'test': card.scores['test'] | {'bleu': bleu}, 'other': {'bleu': bleu + 1, 'signature': 'v:2|x'}}
    return dataclasses.replace(shipped, seed=seed, scores=scores, seconds=3600.0 * (seed + 1), **changes)
  cards = {card.name: card for card in (seeded(2, 27.0), seeded(0, 25.0), seeded(1, 25.5))}
  moved = seeded(3, 99.0, data=card.data | {'texts': {'train': 'f' * 64}})
  first, second = [row for row in ledger.rows(cards | {moved.name: moved}) if row.cards]
  assert [card.seed for card in first.cards] == [0, 1, 2] and [card.seed for card in second.cards] == [3]
  written = ledger._cells(first)
  assert f'BLEU {statistics.fmean([25.0, 25.5, 27.0]):.1f} (25.0–27.0)' in written[1]
  assert '<br>other: BLEU 26.8 (26.0–28.0) `v:2\\|x`' in written[1] and written[3] == '2.00 (1.00–3.00)'
  assert written[-1].count('](../benchmarks/cards/phrasebook-default-') == 3
  there, = card.starts
  elsewhere = there | {'devices': {'gpu H200': 1}}
  both = [seeded(0, 25.0, starts=[there, elsewhere]), seeded(1, 25.5), seeded(2, 27.0)]
  row, = [row for row in ledger.rows({one.name: one for one in both}) if row.cards]
  machine = ledger._machine(there, versions=False)
  assert ledger._hardware(row, versions=False) == f'{machine} → 1 × gpu H200, {machine.partition(", ")[2] or machine}; {machine}'
  assert ledger._hours(row) == '1.00; 2.50 (2.00–3.00)'
  row, = lines_of(ledger.short_table([first]))[1:]
  assert row[0] == '`configs/phrasebook.py`' and row[1].startswith('test: BLEU 25.8 (25.0–27.0), chrF ') and row[-1] == '3'
  paper = dataclasses.replace(cards['phrasebook-default-0.json'], scores={'test': {
      'bleu': 25.0, 'paper_bleu': {'paper_bleu': 27.34, 'parts': 'wmt14'}}})
  assert ledger._cells(ledger.Row(paper.spec, {}, [paper]))[1] == 'test: BLEU 25.0, BLEU as papers print it 27.3 `wmt14`'


def test_adding_a_run_writes_its_card_and_both_documents(finished, card, elsewhere, monkeypatch):
  call(monkeypatch)
  assert 'No run but those of sweeps has a card yet.\n' in (elsewhere / 'README.md').read_text()
  call(monkeypatch, 'add', finished.path)
  assert run_cards.read_cards() == {card.name: card}
  rows = [cells for cells in lines_of((elsewhere / 'ledger.md').read_text()) if cells[-1]][1:]
  assert len(rows) == 1 and rows[0][0].startswith('`configs/multi30k.py:adam` with `data.max_length=16`, ')
  assert rows[0][1].startswith(f'test: BLEU {card.scores["test"]["bleu"]:.1f}, chrF ')
  # It is the configuration's own run only without departures.
  own = dataclasses.replace(card, options=run_cards.of_shipped('multi30k', 'adam'))
  (elsewhere / 'cards' / own.name).write_text(run_cards.as_file(own))
  call(monkeypatch)
  assert '| `configs/multi30k.py:adam` | test: BLEU ' in (elsewhere / 'README.md').read_text()
  assert (elsewhere / 'README.md').read_text().endswith('<!---->\nThe end.\n')


def test_a_run_on_other_text_has_a_card_and_a_row_of_its_own(finished, card, elsewhere, monkeypatch):
  (elsewhere / 'cards').mkdir()
  other = dataclasses.replace(card, data=card.data | {'texts': card.data['texts'] | {'train': 'f' * 64}})
  (elsewhere / 'cards' / card.name).write_text(run_cards.as_file(other))
  for _ in range(2):  # the second time, it is replaced
    call(monkeypatch, 'add', finished.path)
    own, = run_cards.read_cards().keys() - {card.name}
    assert run_cards.read_cards() == {card.name: other, own: card.named_by_text()}
  assert re.fullmatch(r'multi30k-adam-[0-9a-f]{8}-[0-9a-f]{8}-0\.json', own)
  rows = [cells[5] for cells in lines_of((elsewhere / 'ledger.md').read_text()) if cells[-1]][1:]
  assert len(rows) == 2 and sum('train `ffffffffffff`' in row for row in rows) == 1


def test_a_run_with_another_option_of_the_same_last_name_does_not_take_a_cards_place(finished, card, elsewhere, monkeypatch):
  (elsewhere / 'cards').mkdir()
  other = dataclasses.replace(card, options=run_cards.of_shipped('multi30k', 'adam') | {'search.batch_tokens': 7})
  own = dataclasses.replace(card, options=run_cards.of_shipped('multi30k', 'adam') | {'train.batch_tokens': 7})
  assert own.name == other.name
  (elsewhere / 'cards' / own.name).write_text(run_cards.as_file(other))
  monkeypatch.setattr(run_cards, 'card_of', lambda run: own)
  with pytest.raises(ConfigError, match=r'differ in other options than their names tell .*train.batch_tokens.*search.batch_tokens'):
    call(monkeypatch, 'add', finished.path)
  assert (elsewhere / 'cards' / own.name).read_text() == run_cards.as_file(other)


def test_unfinished_and_damaged_runs_are_refused_together_and_nothing_is_written(finished, elsewhere, monkeypatch):
  def changed(name):
    return RunFolder(str(shutil.copytree(finished.path, elsewhere / name)))
  longer, without, damaged = map(changed, ('longer', 'without', 'damaged'))
  config = longer.read_config()
  config['train']['num_steps'] = 12
  longer.write_json(longer.config, config)
  without.manifest.forget(['results.json'])
  (elsewhere / 'without' / 'results.json').unlink()
  with open(damaged.results, 'a') as file:
    file.write(' ')
  with pytest.raises(ConfigError) as caught:
    call(monkeypatch, 'add', finished.path, longer.path, without.path, damaged.path, elsewhere / 'nothing', finished.path)
  told = str(caught.value)
  assert '5 mistakes' in told and 'run of num_steps=8, and config.json asks for num_steps=12' in told
  assert 'without is not finished: it holds no results.json' in told and 'results.json is damaged' in told
  assert 'nothing is not a run' in told and 'would both have the card' in told
  assert not (elsewhere / 'cards').exists() and not (elsewhere / 'ledger.md').exists()


def test_what_is_no_card_or_of_no_shipped_configuration_is_named(card, elsewhere):
  run_cards.FOLDER.mkdir()
  (run_cards.FOLDER / 'a.json').write_text('{"config": "phrasebook"}')
  with pytest.raises(DamagedError, match=r'a\.json is no card of a run'):
    run_cards.read_cards()
  (run_cards.FOLDER / 'a.json').write_text(run_cards.as_file(dataclasses.replace(card, config='gone', variant='')))
  with pytest.raises(ConfigError, match=r'a\.json is of configs/gone\.py, which is not among'):
    run_cards.read_cards()
