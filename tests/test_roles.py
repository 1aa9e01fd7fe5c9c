"""Roles on constructed attention, pronouns by hand, importance against finite differences, pruning as a run."""

import dataclasses
import json

import jax
import numpy as np
import pytest

import analyze
from checks.errors import ConfigError
from corpora import vocabulary
from corpora.phrasebook import builder
from explorer import analysis, gates, importance, pronouns, pruned_run, roles
from explorer.capture import TokenPair
from explorer.gates import Head
from options import analyze_options, configurations
from tasks import setup, trained
from tasks.translation import Translation
from tests.explorer_stand_ins import LINES, constructed, small_translator, small_vocabulary, text_of
from training import json_files
from training.run_folder import RunFolder


def looking(columns, *heads):
  """Maps [1, H, Q, M] of heads whose rows put .8 on a given column each, and the rest evenly on all."""
  maps = np.full((1, len(heads), len(heads[0]), columns), 0.2 / columns)
  for head, places in enumerate(heads):
    maps[0, head, np.arange(len(places)), places] += 0.8
  return maps


def sentence(maps, even=None, **more):
  """An Observed whose last row and column are EOS, of words of one piece each where `even` does not say otherwise."""
  even = np.full(maps.shape[2:], 1 / maps.shape[3]) if even is None else even
  return roles.Observed(maps, *((False,) * (size - 1) + (True,) for size in maps.shape[2:]), even, **more)


# Five words and EOS: head 0 looks one back, head 1 at word 3, head 2 at EOS, head 3 from 1 to 4 and else at itself.
HEADS = ([0, 0, 1, 2, 3, 4], [3] * 6, [5] * 6, [0, 4, 2, 3, 4, 5])


@pytest.fixture
def corpus():
  return [sentence(looking(6, *HEADS), rare=frozenset({2, 3}), relations=(('verb → object', 1, 4),)) for _ in range(3)]


def test_offsets_are_counted_without_the_sentences_end(corpus):
  offset, share = roles.positional(corpus)
  assert offset[0].tolist()[0] == -1 and share[0, 0] == pytest.approx(4 / 5)  # the first word has none before it
  assert offset[0, 3] == 0 and share[0, 3] == pytest.approx(4 / 5)


def test_relations_are_compared_with_the_best_fixed_offset(corpus):
  other = sentence(looking(6, *HEADS), relations=(('verb → object', 2, 3), ('verb → object', 3, 4)))
  (met, fixed, cases), = roles.syntactic([*corpus, other]).values()
  assert cases == 5 and fixed == pytest.approx(3 / 5)  # +3 three times, +1 twice
  np.testing.assert_allclose(met[0], [0, 1 / 5, 0, 3 / 5])


def test_rare_words_are_compared_with_a_head_that_attends_to_all_tokens_alike(corpus):
  on_rare, evenly = roles.rare(corpus)
  assert evenly == pytest.approx(2 / 5)
  np.testing.assert_allclose(on_rare[0, :2], [2 / 5, 1.0])
  assert on_rare[0, 2] == 0  # all else is even: the first word is as good as any


def test_rare_words_of_many_pieces_make_no_role():
  even = np.tile(np.array([1, 3, 1, 3, 1, 1]) / 10, (6, 1))  # words 1 and 3 are of three pieces each
  as_even = sentence(even[None, None], even, rare=frozenset({1, 4}))
  assert roles.rare([as_even])[1] == pytest.approx(1 / 2)  # of words 1 and 3
  of, = roles.describe([dataclasses.replace(as_even, rare=frozenset({1, 3}))])[0]
  assert of['rare'] == of['rare_evenly'] == 1 and 'rare words' not in of['roles']


def test_rarest_words():
  frequency = {'the': 9, 'dog': 4, 'sees': 4, 'it': 7}
  assert roles.rarest(['the', 'dog', 'sees', 'it', '⟨eos⟩'], [False] * 4 + [True], frequency | {'⟨eos⟩': 1}) == {1, 2}


def test_confidence_leaves_the_sentences_end_out(corpus):
  np.testing.assert_allclose(roles.confidence(corpus)[0], [0.8 + 0.2 / 6] * 2 + [0.2 / 6, 0.8 + 0.2 / 6])


def test_blur_and_place(corpus):
  found = roles.spread(corpus)
  high, low = 0.8 + 0.2 / 6, 0.2 / 6
  np.testing.assert_allclose(found['entropy'], -(high * np.log2(high) + 5 * low * np.log2(low)))
  assert found['last'][0, 2] == found['special'][0, 2] == pytest.approx(high)
  assert found['first'][0, 0] == pytest.approx((2 * high + 3 * low) / 5)
  near = [sum(looking(6, HEADS[1])[0, 0, q, max(0, q - 1):q + 2].sum() for q in range(5)) / 5]
  assert found['near'][0, 1] == pytest.approx(near[0])


def test_heads_are_named_by_their_roles(corpus):
  by_head = roles.describe(corpus)[0]
  assert [head['roles'] for head in by_head] == [[], ['rare words'], ['sentence end'], []]
  begin = sentence(looking(6, [0] * 6))
  decoder = [dataclasses.replace(begin, special_columns=begin.special_columns[::-1])]  # which reads BOS, and no EOS
  assert roles.describe(decoder)[0][0]['roles'] == ['sentence begin']
  always = [sentence(looking(6, [1, 2, 3, 4, 5, 5]), relations=(('a → b', 0, 1), ('a → b', 0, 4), ('a → b', 0, 3)))]
  assert roles.describe(always)[0][0]['roles'] == ['positional +1']
  knowing = [sentence(looking(6, places), relations=(('a → b', 0, places[0]),)) for places in (
      [1, 4, 0, 3, 1, 0], [4, 0, 2, 1, 1, 0], [3, 2, 4, 4, 0, 0])]
  assert roles.describe(knowing)[0][0]['roles'] == ['a → b']


def test_observations_that_do_not_fit_are_refused():
  with pytest.raises(ValueError, match='expected'):
    roles.Observed(looking(6, *HEADS), (False,) * 6, (False,) * 5, np.ones((6, 5)))
  with pytest.raises(ValueError, match='expected'):
    roles.Observed(looking(6, *HEADS), (False,) * 6, (False,) * 6, np.ones((6, 5)))
  with pytest.raises(ValueError, match='joins words'):
    sentence(looking(6, *HEADS), relations=(('a', 0, 6),))


# ------------------------------------------------------------------------------------------------------------ "it"


def about_it(pair, right, wrong, *heads):
  """A reading whose heads look at given words from word 9."""
  row = np.full((1, len(heads), 10), 0.01)
  for head, place in enumerate(heads):
    row[0, head, place] = 0.9
  return pronouns.Reading(pair, right, wrong, 8, 9, {'encoder': row, 'cross': row})


def test_a_pair_counts_when_both_readings_are_right():
  #         always the first noun, always the right one, always the second, the adjective
  readings = [about_it('p', 1, 4, 1, 1, 4, 8), about_it('p', 4, 1, 1, 4, 4, 8),
              about_it('q', 2, 5, 2, 2, 5, 8), about_it('q', 5, 2, 2, 2, 5, 8), about_it('alone', 1, 4, 1, 1, 1, 1)]
  np.testing.assert_array_equal(pronouns.antecedent_right(readings, 'encoder'), [[0, 0.5, 0, 0]])
  np.testing.assert_array_equal(pronouns.at_adjective(readings[:4], 'cross'), [[0, 0, 0, 1]])
  assert pronouns.best_head(readings[:2], readings[2:], 'encoder') == pronouns.Finding(
      Head('encoder', 0, 1), 1.0, 0.0, 0.0)
  assert pronouns.fixed_offset_pairs(readings, -5) == 0
  with pytest.raises(ValueError, match='two nouns'):
    about_it('p', 1, 1, 1)
  with pytest.raises(ValueError, match='no pronoun pair'):
    pronouns.antecedent_right(readings[-1:], 'encoder')


# ----------------------------------------------------------------------------------------------------- importance


@pytest.fixture(scope='module')
def readings():
  vocabulary = small_vocabulary()
  ids = [[*vocabulary.encode(line), vocabulary.eos_id] for line in LINES]
  return [TokenPair(ids[0], ids[1]), TokenPair(ids[2], ids[3]), TokenPair(ids[3], ids[2])]


def test_importance_is_the_mean_size_of_the_losss_slope(readings):
  model, *vocabularies = small_translator().parts
  params, opened = small_translator().params[0], gates.open_gates(small_translator().params[0])
  found = importance.importance(model, params, readings, vocabularies)
  for head in (Head('encoder', 0, 1), Head('decoder', 1, 0), Head('cross', 1, 1)):
    slopes = []
    for reading in readings:
      losses = []
      for step in (-0.02, 0.02):
        moved = gates.closing(opened)
        moved[head.kind][head.layer, head.head] += step
        losses.append(importance.loss(model, params, moved, [reading], vocabularies) * len(reading.target))
      slopes.append(abs(losses[1] - losses[0]) / 0.04)
    np.testing.assert_allclose(found[head.kind][head.layer, head.head], np.mean(slopes), rtol=0.02, atol=1e-3)


def test_leaving_a_head_out_is_the_loss_with_its_gate_closed(readings):
  model, *vocabularies = small_translator().parts
  params = small_translator().params[0]
  whole, rises = importance.left_out(model, params, readings, vocabularies)
  opened = gates.open_gates(params)
  assert whole == pytest.approx(importance.loss(model, params, opened, readings, vocabularies))
  closed = gates.apply(params, gates.closing(opened, Head('cross', 0, 1)))
  assert rises['cross'][0, 1] == pytest.approx(importance.loss(model, closed, opened, readings, vocabularies) - whole,
                                               abs=1e-5)


def test_importances_are_divided_by_their_layers_norm():
  order = importance.ranked({'encoder': np.array([[3.0, 4.0], [0.1, 0.0]])})  # .6, .8, 1 and 0 of their layers' norms
  assert order == [Head('encoder', 1, 1), Head('encoder', 0, 0), Head('encoder', 0, 1), Head('encoder', 1, 0)]
  params = small_translator().params[0]
  with pytest.raises(ValueError, match='fewer'):
    importance.pruned(params, order, 4)
  jax.tree.map(np.testing.assert_array_equal, importance.pruned(params, order, 0), params)


# ------------------------------------------------------------------------------------------------- words and scripts


def test_gold_words_take_the_place_of_ours():
  text = text_of(['did', '·n', '·o', 'dog.', '⟨eos⟩'], special=(4,))
  found, holder = analysis.regrouped(text, ['▁did', 'n', 'o', '▁dog.'], ['didno', 'dog', '.'])
  assert found.words == ('didno', 'dog .', '⟨eos⟩') and found.word_of_piece == (0, 0, 0, 1, 2)
  assert holder == [0, 1, 1]


def options(*arguments):
  return analyze_options.parse(['analyze.py', *arguments], 'Analyses.')


@pytest.mark.parametrize('arguments, message', [
    (['--prune=3'], 'go together'), (['--sentences=few'], 'positive whole number'), (['--input=a'], '--reference')])
def test_mistaken_options_are_named(arguments, message, capsys):
  with pytest.raises(SystemExit):
    options('--workdir=a', *arguments)
  assert message in capsys.readouterr().err


def test_a_refused_value_is_one_mistake(capsys):
  with pytest.raises(SystemExit):
    options('--workdir=a', '--prune=0', '--pruned_workdir=b')
  told = capsys.readouterr().err
  assert '--prune=0: expected a positive whole number' in told and 'go together' not in told


@pytest.fixture
def run(tmp_path, monkeypatch):
  workdir = tmp_path / 'run'
  workdir.mkdir()
  config = configurations.load_config('configs/phrasebook.py')
  for name, value in dict(d_model=14, num_heads=2, num_layers=2, d_ff=11, norm='post', positions='sinusoidal').items():
    config['model'][name] = value
  (workdir / 'config.json').write_text(json.dumps(config))
  RunFolder(str(workdir)).save_vocabularies(small_vocabulary().model, None)
  monkeypatch.setattr(Translation, 'load', lambda *_, **__: small_translator())
  return workdir


def test_lines_become_a_table_and_a_pruned_run(run, tmp_path, capsys):
  (tmp_path / 'in').write_text('\n'.join(LINES) + '\n')
  (tmp_path / 'ref').write_text('\n'.join(reversed(LINES)) + '\n')
  assert analyze.main(options(f'--workdir={run}', f'--input={tmp_path}/in', f'--reference={tmp_path}/ref',
                              '--sentences=3', f'--output={tmp_path}/heads.json', '--prune=5',
                              f'--pruned_workdir={tmp_path}/pruned', '--pruning')) == 0
  record = json.loads((tmp_path / 'heads.json').read_text())
  assert record['sentences'] == 3 and len(record['heads']['cross'][1]) == 2
  assert len(record['least_important_first']) == 12
  assert [step['closed'] for step in record['pruning']] == list(range(12))
  printed = capsys.readouterr()
  assert 'encoder self-attention 2.2' in printed.out and record['rare_words_counted_in'] == 'the analysed text'
  assert 'holds no counts' in printed.err
  # The new run is the old one with five heads closed, and loads like any other.
  closed = json_files.read_json(f'{tmp_path}/pruned/pruned.json')['closed']
  assert sorted(closed) == sorted(record['least_important_first'][:5])
  pruned = trained.read_run(RunFolder.open(f'{tmp_path}/pruned'), 'best').params
  shut = {head.name for head in gates.heads(gates.open_gates(pruned)) if not np.abs(_output(pruned, head)).any()}
  assert shut == set(closed)
  assert trained.immaturity(f'{tmp_path}/pruned') is None
  with pytest.raises(ConfigError, match='not empty'):
    pruned_run.write(RunFolder.open(str(run)), f'{tmp_path}/pruned', pruned, [])


def test_what_cannot_be_analysed_is_refused_before_anything_is_computed(run, tmp_path, monkeypatch):
  monkeypatch.setattr(analysis, 'head_table', lambda *_: pytest.fail('the analysis has begun'))
  files = [f'--workdir={run}', f'--input={tmp_path}/in', f'--reference={tmp_path}/ref', f'--output={tmp_path}/heads.json']
  (tmp_path / 'in').write_text(f'{LINES[0]}\n\n')
  (tmp_path / 'ref').write_text(f'\n{LINES[0]}\n')
  with pytest.raises(ConfigError, match='at least one sentence with its translation'):
    analyze.main(options(*files))
  (tmp_path / 'ref').write_text(f'{LINES[1]}\n{LINES[0]}\n')
  for count in (12, 99):
    with pytest.raises(ConfigError, match=f'--prune={count}: the model has 12 heads, .*expected at most 11'):
      analyze.main(options(*files, f'--prune={count}', f'--pruned_workdir={tmp_path}/pruned'))


@pytest.mark.parametrize('changes', [dict(beam_size=4, groups=2), dict(beam_size=4, coverage_penalty=0.2), dict(
    strategy='sample', temperature=0.7, top_k=5)])
def test_a_run_is_analysed_by_greedy_search_whatever_its_own_is(run, changes, tmp_path, monkeypatch):
  config = json_files.read_json(f'{run}/config.json')
  config['search'] |= changes
  (run / 'config.json').write_text(json.dumps(config))

  def load(folders, wanted, search):
    found = setup.of_folder(folders[0], search).search
    assert (found.strategy, found.width, found.groups, found.coverage_penalty) == ('beam', 1, 1, 0.0)
    pytest.fail('loaded')

  monkeypatch.setattr(Translation, 'load', load)
  (tmp_path / 'in').write_text(LINES[0])
  with pytest.raises(pytest.fail.Exception, match='^loaded'):
    analyze.main(options(f'--workdir={run}', f'--input={tmp_path}/in', f'--reference={tmp_path}/in',
                         f'--output={tmp_path}/heads.json'))


def test_pairs_that_the_model_has_no_positions_for_are_left_out_in_words(capsys):
  pairs = [analysis.Pair(one, other) for one, other in zip(LINES, reversed(LINES))]
  readings = analysis.token_pairs(pairs, (small_vocabulary(), small_vocabulary()))
  sizes = [max(map(len, reading[:2])) for reading in readings]
  assert analyze.within_reach(pairs, readings, None) == analyze.within_reach(pairs, readings, max(sizes)) == pairs
  assert capsys.readouterr().err == ''
  longest = max(sizes) - 1
  kept = analyze.within_reach(pairs, readings, longest)
  assert kept == [pair for pair, size in zip(pairs, sizes) if size <= longest] and 0 < len(kept) < 4
  assert f'{4 - len(kept)} of 4 sentences are left out' in capsys.readouterr().err
  with pytest.raises(ConfigError, match=f'the shortest has {min(sizes)}: give shorter ones'):
    analyze.within_reach(pairs, readings, 2)


def test_a_long_line_does_not_end_the_analysis_of_a_model_with_learned_positions(run, tmp_path, monkeypatch):
  monkeypatch.setattr(Translation, 'load', lambda *_, **__: small_translator(positions='learned', max_positions=41))
  monkeypatch.setattr(analysis, 'head_table', lambda model, params, pairs, *_: pytest.fail(f'{len(pairs)} sentences'))
  (tmp_path / 'in').write_text('\n'.join([LINES[0], 'the dog ' * 40]) + '\n')
  (tmp_path / 'ref').write_text('\n'.join(LINES[:2]) + '\n')
  with pytest.raises(pytest.fail.Exception, match='^1 sentences'):
    analyze.main(options(f'--workdir={run}', f'--input={tmp_path}/in', f'--reference={tmp_path}/ref',
                         f'--output={tmp_path}/heads.json'))


def test_a_treebank_and_a_runs_own_counts(run, tmp_path, capsys):
  words, heads = LINES[0].split(), [3, 3, 4, 0, 8, 8, 8, 4]  # the tired dog sleeps because it was tired
  names = ['det', 'amod', 'nsubj', 'root', 'mark', 'nsubj', 'cop', 'advcl']
  rows = (f'{n + 1}\t{word}\t_\t_\t_\t_\t{head}\t{name}\t_\t_' for n, (word, head, name) in enumerate(
      zip(words, heads, names)))
  (tmp_path / 'in.conllu').write_text('\n'.join(rows) + '\n\n')
  (tmp_path / 'ref').write_text(LINES[1] + '\n')
  (run / 'words.txt.gz').write_bytes(vocabulary.word_counts(['the', 'dog', 'because', 'was', 'tired', 'it'] * 3 + ['sleeps']))
  assert analyze.main(options(f'--workdir={run}', f'--input={tmp_path}/in.conllu', f'--reference={tmp_path}/ref',
                              f'--output={tmp_path}/heads.json')) == 0
  record, printed = json.loads((tmp_path / 'heads.json').read_text()), capsys.readouterr()
  relations = record['heads']['encoder'][0][0]['relations']
  assert {name: found['cases'] for name, found in relations.items()} == {
      'amod → its head': 1, 'head → amod': 1, 'head → nsubj': 2, 'nsubj → its head': 2}
  assert relations['head → nsubj']['best_fixed_offset'] == 0.5  # -1 and -2
  assert record['rare_words_counted_in'] == 'the training text' and 'no counts' not in printed.err
  assert 'best fixed offset' in printed.out and 'alignment_error' not in record['heads']['cross'][0][0]


def test_rare_words_are_those_of_the_training_text_on_the_sources_side():
  text = text_of(['a', 'b', 'c', 'd', '⟨eos⟩'], special=(4,))
  seen = dataclasses.replace(constructed(['a', 'b', 'c', 'd', '⟨eos⟩'], encoder=[], decoder=[], cross=[]),
                             source=text, predicts=text, reads=text)
  frequency = {'a': 1, 'b': 1, 'c': 2, 'd': 2}
  rare = lambda counts: {kind: found.rare for kind, found in analysis.observed(
      seen, [], analysis.Pair('', ''), frequency, counts).items()}
  assert rare(None) == dict.fromkeys(('encoder', 'decoder', 'cross'), frozenset({0, 1}))
  counts = analysis.TrainingCounts({'a': 9, 'b': 1, 'c': 1, 'd': 9})
  assert rare(counts) == {'encoder': {1, 2}, 'decoder': {0, 1}, 'cross': {1, 2}}


def _output(params, head):
  layer = params[f'{"encoder" if head.kind == "encoder" else "decoder"}_layers_{head.layer}']
  return layer['cross_attention' if head.kind == 'cross' else 'self_attention']['w_out'][head.head]


def test_the_phrasebooks_pairs_are_found(monkeypatch):
  """Two readings of one pair, with the vocabulary's pieces: the right words are looked from and at."""
  relations = lambda noun: np.array([[builder.RELATIONS.index('antecedent'), 6, noun]], np.int32)
  example = lambda letter, noun, adjective, german: {
      'en': f'the dog sees the cat because it was {adjective}', 'de': f'der Hund , weil {german} war', 'pair': 'p',
      'reading': letter, 'adjective': adjective, 'relations': relations(noun), 'alignment': np.zeros((0, 2), int)}
  pair = [example('a', 1, 'tired', 'er'), example('b', 4, 'wide', 'sie')]
  monkeypatch.setattr(builder, 'examples', lambda *_: pair)
  model, *vocabularies = small_translator().parts
  first, second = analysis.pronoun_readings(model, small_translator().params[0], vocabularies, 'test', None)
  assert (first.right, first.wrong, first.pronoun, first.adjective) == (1, 4, 6, 8)
  assert (second.right, second.wrong, second.pronoun, second.adjective) == (4, 1, 6, 8)
  assert first.rows['encoder'].shape == first.rows['cross'].shape == (2, 2, 10)
  np.testing.assert_allclose(first.rows['encoder'].sum(-1), 1.0, atol=1e-5)
  shuffled = analysis.pronoun_readings(model, small_translator().params[0], vocabularies, 'test', None,
                                       np.random.default_rng(1))
  assert len({r.pronoun for r in shuffled}) == 1 and (shuffled[0].right, shuffled[0].wrong) == (
      shuffled[1].wrong, shuffled[1].right) and shuffled[0].pronoun != 6
