"""The table of a sweep: which columns stand, what may be compared with the paper, and the groups of lengths."""

import contextlib

import numpy as np
import pytest

from checks.errors import DataError, file_error
from decoding import length_groups
from options import configurations, sweep_options
from sweeps import length_curve
from sweeps import table as ablation_table
from sweeps.finished_rows import FinishedRun, Row
from tasks.classification import Classification
from tasks.language_model import LanguageModelling
from tasks.translation import Translation
from training.json_files import as_written
from training.run_folder import RunFolder

ROOT = configurations.ROOT


BEAM, SAMPLED = {'strategy': 'beam', 'beam_size': 4}, {'strategy': 'sample', 'beam_size': 4}
TUNED = {'accuracy': 0.75, 'examples': 8, 'task': 'entailment', 'baselines': {'majority_label': 0.4}}
WRITTEN = {'perplexity': 9.0, 'bits_per_byte': 1.5, 'perplexity_per_byte': 2 ** 1.5, 'tokens': 11, 'bytes': 23,
           'accuracy': 0.5}


def finished(name, seeds, bleu=10.0, config=(), purpose=Translation, **results):
  """A row of finished runs with the fields that a run of the paper's would have."""
  variant = configurations.load_config(f'{ROOT}/configs/table3.py:{"A1" if name == "A1" else "base"}')
  options_ = as_written(configurations.leaves(variant)) | dict(config)
  scored = {'bleu': bleu, 'chrf': 40.0, 'signature': 'tok:13a', 'chrf_signature': 'nc:6'}
  common = {'validation_perplexity': 5.0, 'test_set': 'newstest2013 (3,000 lines)', 'search': BEAM,
            'averaged_steps': [100], 'step': 100, 'parameters': 63_045_632}
  runs = [FinishedRun(
      None, seed, options_ | {'seed': seed}, purpose,
      common | ({**scored, 'bleu': bleu + seed} if purpose is Translation else {}) | results,
      {'cores': 2, 'devices': ['cpu cpu'], 'python': '3', 'packages': {'jax': '0'}, 'commit': None,
       'uncommitted_changes': None, 'data': {'test': 'hash'}}) for seed in range(seeds)]
  return Row(name, runs)


@pytest.fixture
def paper():
  return sweep_options.parse(['sweep.py', f'--config={ROOT}/configs/table3.py', '--workdir=x', '--rows=base,A1'], '')


def test_the_papers_columns_stand_where_they_compare(paper):
  rows = [finished('base', 3), finished('A1', 1, 8.0, {'model.num_heads': 1}), finished('mine', 1)]
  table = ablation_table.tabulate(rows, paper, ['python', 'sweep.py'])
  assert table.heads == ['row', 'differs from base in', 'parameters', "the paper's", 'validation perplexity per token',
                         'BLEU', "the paper's BLEU", 'seeds']
  assert table.cells == [
      ['base', '', '63,045,632', '65 M', '5.00 ± 0.00', '11.0 ± 1.0', '25.8', '3'],
      ['A1', 'num_heads=1', '63,045,632', '65 M', '5.00', '8.0', '24.9', '1'],
      ['mine', '', '63,045,632', '', '5.00', '10.0', '', '1']]
  assert any('tokenised' in note for note in table.notes)
  assert '| base |  | 63,045,632 | 65 M |' in ablation_table.as_markdown(table)


@pytest.mark.parametrize('config, results, reason', [
    ({'data.kind': 'text'}, {}, 'WMT14'), ({'data.target_language': 'fr'}, {}, 'WMT14'),
    ({'data.tfds_name': 'wmt14_translate/fr-en'}, {}, 'WMT14'),
    ({}, {'test_set': 'wmt14/full (newstest2014, 3,003 lines)'}, 'newstest2014'),
    ({}, {'search': BEAM | {'beam_size': 1}}, 'beam search'), ({}, {'search': SAMPLED}, 'beam search'),
    ({'train.ema_decay': 0.999}, {}, 'moving average'), ({}, {'averaged_steps': [1, 2]}, 'average')])
def test_the_papers_bleu_is_left_out_with_the_reason(paper, config, results, reason):
  table = ablation_table.tabulate([finished('base', 1), finished('A1', 1, 8.0, config, **results)], paper, ['sweep.py'])
  assert "the paper's BLEU" not in table.heads
  assert [note for note in table.notes if note.startswith('The paper\'s BLEU is left out') and reason in note]


LAYERS, WARMUP = {'model.num_layers': 1}, {'optimizer.warmup_steps': 10}


@pytest.mark.parametrize('base, row, parameters, bleu, told', [
    ({}, LAYERS, ['65 M', ''], ['25.8', ''], 'in model.num_layers (A1)'),  # --rows=base,A1=A1+model.num_layers=1
    ({}, {'model.num_heads': 8}, ['65 M', ''], ['25.8', ''], 'in model.num_heads (A1)'),  # --rows=base,A1=base
    (LAYERS, LAYERS, None, None, 'in model.num_layers (A1, base)'),  # --config.model.num_layers=1
    (WARMUP, WARMUP, ['65 M', '65 M'], None, 'in optimizer.warmup_steps (A1, base)'),
    ({'train.num_steps': 9}, {}, ['65 M', '65 M'], ['', '24.9'], 'in train.num_steps (base)'),
    ({'init_from': 'x'}, {}, ['65 M', '65 M'], ['', '24.9'], 'in init_from (base)'),
    ({'train.eval_every': 7, 'model.remat': True, 'search.alpha': 1.0}, {}, ['65 M', '65 M'], ['25.8', '24.9'], None)])
def test_the_papers_figures_are_those_of_its_own_rows(paper, base, row, parameters, bleu, told):
  rows = [finished('base', 1, config=base), finished('A1', 2, 8.0, row)]
  table = ablation_table.tabulate(rows, paper, ['sweep.py'])
  for head, cells in (("the paper's", parameters), ("the paper's BLEU", bleu)):
    assert ([line[table.heads.index(head)] for line in table.cells] if head in table.heads else None) == cells
  for name, cells in (('parameters', parameters), ('BLEU', bleu)):
    said = [note for note in table.notes if note.startswith(f"The paper's {name}: left out")]
    assert len(said) == (cells is None or '' in cells) and all(told in note for note in said)


def test_a_note_says_how_each_figure_came_about(paper):
  rows = [finished('base', 1), finished('drawn', 1, search=SAMPLED),
          finished('ema', 1, config={'train.ema_decay': 0.9}),
          finished('tuned', 2, purpose=Classification, best_validation_accuracy=0.8, **TUNED),
          finished('written', 1, purpose=LanguageModelling, best_validation_bits_per_byte=1.4, **WRITTEN)]
  table = ablation_table.tabulate(rows, paper, ['sweep.py'])
  for note in ('BLEU on newstest2013 (3,000 lines): sacreBLEU, tok:13a; beam 4, mean of 1 checkpoint(s), 100 updates.',
               'sacreBLEU, tok:13a; by strategy sample, mean of 1 checkpoint(s), 100 updates.',
               'mean of 1 checkpoint(s) of the moving average, 100 updates.',
               'accuracy on newstest2013 (3,000 lines): without understanding: majority label 0.400; mean',
               'bits per byte on newstest2013 (3,000 lines): 11 tokens, 23 bytes; mean'):
    assert note in '\n'.join(table.notes)
  cells = {line[0]: dict(zip(table.heads, line)) for line in table.cells}
  assert cells['tuned']['accuracy'] == '0.750 ± 0.000'
  for name, per_token, per_example in (('tuned', '', '5.00 ± 0.00'), ('base', '5.00', ''), ('written', '5.00', '')):
    assert cells[name]['validation perplexity per token'] == per_token
    assert cells[name]['validation perplexity per example'] == per_example
  assert cells['written']['accuracy'] == '' == cells['written']['BLEU']  # of the next token: no column's figure
  assert (cells['written']['bits per byte'], cells['written']['perplexity per byte']) == ('1.5000', '2.828')


def test_cells_are_escaped_and_notes_are_not():
  markdown = ablation_table.as_markdown(ablation_table.Table(['row'], [['a|b']], ['nrefs:1|case:mixed']))
  assert '| a\\|b |' in markdown and '* nrefs:1|case:mixed\n' in markdown


def test_runs_that_do_not_compare_are_pointed_at(paper):
  row = finished('base', 2)
  row.runs[1].config['train.num_steps'] = 7
  row.runs[1].environment['data']['test'] = 'other'  # the only text that these records have
  notes = '\n'.join(ablation_table.tabulate([row], paper, ['sweep.py']).notes)
  assert 'the runs of base differ in train.num_steps' in notes and 'not all runs were scored on the same' in notes


def test_the_text_that_counts_is_that_of_the_set_that_was_scored(paper):
  first, late = finished('base', 1, test_set='2016'), finished('late', 1, test_set='2016')
  first.runs[0].environment['data'] = {'train': 'a', 'val': 'b', '2016': 'c'}
  late.runs[0].environment['data'] = {'train': 'a', 'val': 'b', '2017': 'd'}  # the other set came with a later start
  late.runs[0].environment['later_starts'] = [{'data': {'train': 'a', 'val': 'b', '2017': 'd', '2016': 'c'}}]
  told = lambda: '\n'.join(ablation_table.tabulate([first, late], paper, ['sweep.py']).notes)
  assert 'not all runs were scored on the same' not in told() and 'validated on the same' not in told()
  late.runs[0].environment['later_starts'][0]['data']['val'] = 'e'
  assert 'not all runs were validated on the same text' in told() and 'the runs of' not in told()
  late.runs[0].environment['later_starts'][0]['data']['2016'] = 'e'
  assert 'not all runs were scored on the same' in told()


def test_runs_of_a_row_that_learnt_from_different_text_are_pointed_at(paper):
  row = finished('base', 2)
  for run, text in zip(row.runs, 'ab'):
    run.environment['data'] = {'train': text, 'val': 'c', 'test': 'd'}
  notes = '\n'.join(ablation_table.tabulate([row], paper, ['sweep.py']).notes)
  assert 'the runs of base were trained or validated on different text' in notes and 'not all runs' not in notes


def test_runs_of_a_row_with_different_vocabularies_are_pointed_at(paper):
  row = finished('base', 3)
  told = lambda: any('the runs of base have different vocabularies' in note
                     for note in ablation_table.tabulate([row], paper, ['sweep.py']).notes)
  row.runs[:2] = [run._replace(vocabularies=('a', 'b')) for run in row.runs[:2]]  # those of the third are lost
  assert not told()
  row.runs[1] = row.runs[1]._replace(vocabularies=('a', 'c'))
  assert told()


def test_a_figure_by_length_is_of_one_text(tmp_path):
  rows = [finished('base', 1), finished('back', 1)]
  for row, text in zip(rows, ('x', 'y')):
    row.runs[0] = row.runs[0]._replace(folder=RunFolder(str(tmp_path / row.name)), environment={'data': {'test': text}})
  with pytest.raises(DataError, match='back was scored on other sentences than .*base'):
    length_curve.measure(rows)


@pytest.mark.parametrize('values, digits, told', [
    ([2.0, 4.0, 9.0], 2, '5.00 ± 3.61'), ([3.04], 1, '3.0'), ([], 1, ''), ([1, 1], 0, '1 ± 0')])
def test_mean_and_sample_deviation(values, digits, told):
  assert ablation_table.spread(values, digits) == told  # 3.61 = sqrt((9 + 1 + 16) / 2)


def test_a_table_that_finds_no_room_leaves_the_one_before(small_disk):
  (small_disk / 'table.md').write_text('before')
  with contextlib.suppress(OSError):
    (small_disk / 'filler').write_bytes(bytes(4_000_000))
  with pytest.raises(OSError) as full:
    ablation_table.write(str(small_disk), [], ablation_table.Table(['row'], [['base']], []))
  assert str(file_error(full.value)).startswith(f'{small_disk}/table.md')
  assert (small_disk / 'table.md').read_text() == 'before'


def test_a_figure_that_finds_no_room_leaves_the_one_before(tmp_path, monkeypatch):
  import matplotlib.figure
  monkeypatch.setattr(matplotlib.figure.Figure, 'savefig', lambda self, file, **_: (_ for _ in ()).throw(OSError(28, 'full')))
  (tmp_path / 'by_length.png').write_text('before')
  with pytest.raises(OSError, match='full'):
    length_curve.draw(length_curve.Curves([], {'base': []}, 'test', ''), str(tmp_path / 'by_length.png'))
  assert [path.read_text() for path in tmp_path.iterdir()] == ['before']


@pytest.mark.parametrize('seed', range(5))
def test_lengths_are_grouped_without_loss_or_overlap(seed):
  lengths = np.random.default_rng(seed).geometric(0.11, 701).tolist() + [0, 97]
  groups = length_groups.group_by_length(lengths)
  assert sorted(place for group in groups for place in group.places) == list(range(703))
  assert 2 < len(groups) <= length_groups.MOST_GROUPS
  for before, after in zip(groups, groups[1:]):
    assert after.shortest == before.longest + 1
  for group in groups:
    assert len(group.places) >= length_groups.FEWEST_SENTENCES
    assert all(max(group.shortest, 1) <= max(lengths[place], 1) <= group.longest for place in group.places)


def test_few_sentences_are_one_group_and_none_an_error():
  assert [group.places for group in length_groups.group_by_length([3, 4])] == [[0, 1]]
  with pytest.raises(DataError, match='none of the rows'):
    length_curve.measure([])
