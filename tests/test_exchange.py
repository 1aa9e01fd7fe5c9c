"""Models from elsewhere compute here what they computed there, and a run's model elsewhere what it computes here."""

import dataclasses
import json
import pathlib
import shutil

import ctranslate2
import jax
import numpy as np
import pytest

import convert
import decode
import tasks
from checks.errors import ConfigError, DataError
from corpora import marian_vocabulary, vocabulary
from decoding import translator as translators
from decoding.requests import Translation
from exchange import exporting, importing, safetensors
from options import convert_options, decode_options
from options.configurations import default_tree, with_options
from tasks import setup
from tests.conftest import but_long
from training import parameter_run
from training.run_folder import RunFolder
from transformer import architectures, tokens
from transformer.config import ModelConfig

FIXTURE = pathlib.Path(__file__).parent / 'marian_fixture'
EXPECTED = json.loads((FIXTURE / 'expected.json').read_text(encoding='utf-8'))


def folder_with(tmp_path, tensors=None, without=(), **config):
  """Copy the fixture, with other tensors and options."""
  place = tmp_path / 'model'
  shutil.copytree(FIXTURE, place, ignore=shutil.ignore_patterns(*without))
  if tensors is not None:
    (place / 'model.safetensors').write_bytes(safetensors.packed(tensors))
  known = json.loads((place / 'config.json').read_text(encoding='utf-8'))
  (place / 'config.json').write_text(json.dumps(known | config))
  return str(place)


@pytest.fixture(scope='module')
def imported(tmp_path_factory):
  """The fixture as a run."""
  workdir = str(tmp_path_factory.mktemp('imported') / 'run')
  assert convert.main(convert_options.parse(['convert.py', 'import', f'--from={FIXTURE}', f'--workdir={workdir}'], '')) == 0
  return workdir


def forced(model, source, target, bos):
  """Return a compiled function from parameters to the logits of a target, given as ids, like the source."""
  row = lambda ids: tokens.pad([ids], 1, len(ids), 0)
  return jax.jit(lambda params: model.decode(params, model.encode(params, row(source)), tokens.shift_right(row(target), bos)))


def expected_logits():
  return [np.array(rows)[:, :-1] for rows in EXPECTED['logits']]


def test_text_becomes_the_same_ids(imported):
  source, target = RunFolder.open(imported).load_vocabularies()
  assert [[*ids, source.eos_id] for ids in source.encode_batch(EXPECTED['lines'])] == EXPECTED['ids']
  assert [[*ids, target.eos_id] for ids in target.encode_batch(EXPECTED['references'])] == EXPECTED['reference_ids']
  assert target.decode(EXPECTED['reference_ids'][0]) == EXPECTED['references'][0]
  assert source.pieces(source.encode('>>de<< dog'))[0] == '>>de<<' and source.encode('>>fr<< dog')[0] == source.unk_id


def test_an_imported_model_has_the_same_logits_and_every_tensor_counts(imported):
  translator = tasks.load(imported)
  model, _, target = translator.parts
  params, theirs = translator.params[0], expected_logits()
  each = [forced(model, *pair, target.bos_id) for pair in zip(EXPECTED['ids'][:len(theirs)], EXPECTED['reference_ids'])]
  away = lambda params: max(np.abs(np.asarray(logits(params))[0, :, :-1] - expected).max()  # PAD's is never the same
                            for logits, expected in zip(each, theirs))
  assert away(params) < 1e-4
  leaves, tree = jax.tree_util.tree_flatten_with_path(params)
  for number, (path, _) in enumerate(leaves):
    without = tree.unflatten([leaf * (place != number) for place, (_, leaf) in enumerate(leaves)])
    # Softmax ignores what is added to all scores of a query.
    assert (away(without) > 1e-3) != (path[-1].key == 'b_key'), path
  weights = safetensors.read(str(FIXTURE / 'model.safetensors'))
  np.testing.assert_array_equal(
      np.ravel(params['decoder_layers_0']['cross_attention']['b_key']),
      weights['model.decoder.layers.0.encoder_attn.k_proj.bias'])


def test_an_imported_model_finds_the_same_outputs(imported):
  greedy = [list(found.ids) for found in tasks.load(imported, beam_size=1).translate(EXPECTED['lines'])]
  assert len({tuple(ids) for ids in greedy}) > 30
  assert [ids[:len(wanted)] if not ended else ids for ids, wanted, ended in zip(
      greedy, EXPECTED['greedy'], EXPECTED['greedy_ended'])] == EXPECTED['greedy']
  beam = [list(found.ids) for found in tasks.load(imported, beam_size=4).translate(EXPECTED['lines'])]
  ended = [place for place, whole in enumerate(EXPECTED['beam_ended']) if whole]  # others are cut at different lengths
  assert len(ended) > 50
  assert [beam[place] for place in ended] == [EXPECTED['beam'][place] for place in ended]


def test_decode_translates_with_an_imported_run(imported, tmp_path, capsys):
  (tmp_path / 'in').write_text('the dog\n')
  argv = ['decode.py', f'--workdir={imported}', f'--input={tmp_path}/in', f'--output={tmp_path}/out']
  assert decode.main(decode_options.parse(argv, '')) == 0
  assert len((tmp_path / 'out').read_text().split('\n')) == 2 and 'never seen' not in capsys.readouterr().err


def test_nobody_knows_how_long_the_lines_were_that_an_imported_model_was_trained_on(imported, tmp_path, monkeypatch):
  argv = ['decode.py', f'--workdir={imported}', '--input=in', f'--output={tmp_path}/out', '--long_lines=split']
  folder, translated = RunFolder.open(imported), []
  records = setup.of_folder(folder)
  monkeypatch.setattr(translators.Translator, 'translate', lambda self, requests, *more: translated.extend(requests) or [
      Translation(request.source) for request in requests])
  answers = tasks.TASKS[records.task].answering([folder], decode_options.parse(argv, ''), records, print)
  lines = ['the dog ' * 200, 'the dog ' * 700]  # longer than data.max_length is by default, and than any source may be
  answers.answer(lines)
  assert translated[0].source == lines[0] and len(translated) > 2
  assert tasks.load(imported).longest_trained is None


def test_a_model_goes_out_bit_for_bit_as_it_came_in(imported, tmp_path):
  exporting.write(imported, 'final', 'huggingface', str(tmp_path / 'out'))
  before, after = (safetensors.read(f'{place}/model.safetensors') for place in (FIXTURE, tmp_path / 'out'))
  assert before.keys() == after.keys()
  for name, tensor in before.items():
    np.testing.assert_array_equal(after[name], tensor, err_msg=name)
  for name in ('source.spm', 'target.spm'):
    assert (FIXTURE / name).read_bytes() == (tmp_path / 'out' / name).read_bytes()
  read = lambda place: json.loads((place / 'vocab.json').read_text(encoding='utf-8'))
  assert read(FIXTURE) == read(tmp_path / 'out')


def test_float16_and_separate_vocabularies_are_read(tmp_path):
  tensors = safetensors.read(str(FIXTURE / 'model.safetensors'))
  halves = {name: tensor.astype(np.float16).astype(np.float32) for name, tensor in tensors.items()}
  table = halves.pop('model.shared.weight')
  apart = halves | {'model.encoder.embed_tokens.weight': table, 'model.decoder.embed_tokens.weight': table[::-1]}
  place = folder_with(tmp_path, apart, share_encoder_decoder_embeddings=False)
  shutil.copyfile(f'{place}/vocab.json', f'{place}/target_vocab.json')
  found = importing.read(place).params
  np.testing.assert_array_equal(found['source_embedding'], table)
  np.testing.assert_array_equal(found['target_embedding'], table[::-1])


@pytest.mark.parametrize('exponent, expected', [
    (0.0, ('none', 0.6)), (None, ('length', 1.0)), (0.4, ('length', 0.4))])  # with none, alpha has no effect
def test_the_length_penalty_of_a_model_is_that_of_its_run(exponent, expected, tmp_path):
  place = folder_with(tmp_path)
  path = pathlib.Path(place) / 'generation_config.json'
  path.write_text(json.dumps(json.loads(path.read_text(encoding='utf-8')) | {'length_penalty': exponent}))
  search = importing.read(place).options['search']
  assert (search['length_penalty'], search['alpha']) == expected


def searched(pieces, place, **search):
  """Export a run of a search; return what the format's file has, what is said, and the search when it is imported again."""
  workdir = own_run(place / 'run', pieces, {f'search.{name}': value for name, value in search.items()})
  notes = exporting.write(workdir, 'final', 'huggingface', str(place / 'model'))
  again = importing.read(str(place / 'model')).options['search']
  return json.loads((place / 'model' / 'generation_config.json').read_text()), notes, again


@pytest.mark.parametrize('search, theirs', [
    (dict(early_stopping='heuristic', no_repeat_ngram=3, min_length=4, beam_size=7), (False, 3, 4, 7, 1.0)),
    (dict(early_stopping='full', alpha=0.5), (True, None, None, 4, 0.5)),
    (dict(early_stopping='exact', length_penalty='none', alpha=0.6), ('never', None, None, 4, 0.0))])
def test_the_search_of_a_run_goes_out_and_comes_back(search, theirs, pieces, tmp_path):
  written, notes, again = searched(pieces, tmp_path, **search)
  assert not notes and 'min_length' not in written
  assert tuple(map(written.get, ('early_stopping', 'no_repeat_ngram_size', 'min_new_tokens', 'num_beams', 'length_penalty'))) == theirs
  assert {name: again[name] for name in search} == search


def test_their_shortest_output_counts_what_the_decoder_starts_from(tmp_path):
  place = folder_with(tmp_path)
  path = pathlib.Path(place) / 'generation_config.json'
  path.write_text(json.dumps(json.loads(path.read_text(encoding='utf-8')) | {'min_length': 61}))
  search = importing.read(place).options['search']
  assert (search['min_length'], search['extra_length']) == (60, 60)


@pytest.mark.parametrize('search, words', [
    (dict(length_penalty='gnmt', alpha=0.6), ["search.length_penalty is 'gnmt'"]),
    (dict(length_penalty='gnmt', alpha=0.0), []),
    (dict(early_stopping='top', length_penalty='length'), ["search.early_stopping is 'top'"]),
    (dict(groups=2, diversity=0.3, coverage_penalty=0.2), ['search.groups is 2', 'search.coverage_penalty is 0.2'])])
def test_what_a_search_elsewhere_does_not_have_is_named(search, words, pieces, tmp_path):
  _, notes, _ = searched(pieces, tmp_path, **search)
  assert len(notes) == len(words) and all(note.startswith(word) for note, word in zip(notes, words))


def test_a_run_that_samples_samples_elsewhere_and_here_again(pieces, tmp_path):
  search = dict(strategy='sample', temperature=0.7, top_k=9, top_p=0.8)
  written, notes, again = searched(pieces, tmp_path, **search)
  wanted = {'do_sample': True, 'temperature': 0.7, 'top_k': 9, 'top_p': 0.8, 'num_beams': 1}
  assert not notes and {name: written[name] for name in wanted} == wanted
  assert {name: again[name] for name in search} == search


@pytest.mark.parametrize('search', [dict(beam_size=1, length_penalty='gnmt', alpha=0.6), dict(strategy='sample', length_penalty='gnmt')])
def test_a_search_of_one_hypothesis_has_no_options_of_beams(search, pieces, tmp_path):
  written, notes, again = searched(pieces, tmp_path, **search)
  assert not notes and written['num_beams'] == 1 and not {'length_penalty', 'early_stopping'} & written.keys()
  assert again['beam_size'] == 1 and again['strategy'] == search.get('strategy', 'beam')


def test_positions_reach_to_the_end_of_the_longest_output(pieces, tmp_path):
  searched(pieces, tmp_path, extra_length=70)
  read = lambda name: json.loads((tmp_path / 'model' / f'{name}.json').read_text())
  assert read('config')['max_position_embeddings'] == read('generation_config')['max_length'] == 1024 + 70 + 1
  assert read('tokenizer_config')['model_max_length'] == 1024


def generating(tmp_path, **options):
  """Copy the fixture with a generation_config.json of these options alone."""
  place = folder_with(tmp_path, num_beams=6, length_penalty=0.5, no_repeat_ngram_size=2)
  pathlib.Path(place, 'generation_config.json').write_text(json.dumps(options))
  return place


def test_generation_options_in_config_json_count_where_there_is_no_other_file_alone(tmp_path):
  search = importing.read(generating(tmp_path, max_length=9)).options['search']
  assert (search['beam_size'], search['alpha'], search['no_repeat_ngram']) == (1, 1.0, 0)
  pathlib.Path(tmp_path, 'model', 'generation_config.json').unlink()
  search = importing.read(str(tmp_path / 'model')).options['search']
  assert (search['beam_size'], search['alpha'], search['no_repeat_ngram']) == (6, 0.5, 2)


def test_what_the_search_here_does_not_have_is_told(tmp_path, capsys):
  place = generating(tmp_path, do_sample=True, num_beams=3, repetition_penalty=1.3, forced_bos_token_id=5, suppress_tokens=[],
                     encoder_repetition_penalty=1.0, bad_words_ids=[[7], [8]], eos_token_id=[0, 4], diversity_penalty=0.0)
  assert convert.main(convert_options.parse(['', 'import', f'--from={place}', f'--workdir={tmp_path}/run'], '')) == 0
  notes = [line.split(': ')[2].split(' is ')[0] for line in capsys.readouterr().err.splitlines()]
  assert notes == ['do_sample', 'repetition_penalty', 'forced_bos_token_id', 'bad_words_ids', 'eos_token_id']
  assert RunFolder.open(f'{tmp_path}/run').read_config()['search']['strategy'] == 'beam'


def test_sampling_without_numbers_is_with_theirs(tmp_path):
  search = importing.read(generating(tmp_path, do_sample=True)).options['search']
  assert (search['strategy'], search['temperature'], search['top_k'], search['top_p']) == ('sample', 1.0, 50, 1.0)


def test_bytes_of_half_and_brain_floats_are_read(tmp_path):
  numbers = np.array([1.5, -0.25, 3.0], np.float32)
  header = {'half': {'dtype': 'F16', 'shape': [3], 'data_offsets': [0, 6]},
            'brain': {'dtype': 'BF16', 'shape': [3, 1], 'data_offsets': [6, 12]}}
  text = json.dumps(header).encode()
  brain = (numbers.view('<u4') >> 16).astype('<u2')
  (tmp_path / 'x').write_bytes(len(text).to_bytes(8, 'little') + text + numbers.astype('<f2').tobytes() + brain.tobytes())
  found = safetensors.read(str(tmp_path / 'x'))
  np.testing.assert_array_equal(found['half'].astype(np.float32), numbers)
  np.testing.assert_array_equal(found['brain'], numbers[:, None])


BASE = dict(d_model=12, num_heads=2, num_layers=2, num_decoder_layers=1, d_ff=11, layer_norm_epsilon=1e-5)
MODELS = {
    'paper': {}, 'untied': dict(tie_output=False), 'separate': dict(share_embeddings=False),
    'halves': dict(position_layout='halves', attention_bias=True, activation='gelu'),
    'folded': dict(attention_score='dot', num_kv_heads=1, feed_forward_bias=False, norm_bias=False),
    'scanned': dict(scan_layers=True, output_bias=True), 'pre': dict(norm='pre'),
    'pre untied': dict(norm='pre', tie_output=False, share_embeddings=False)}


@pytest.fixture(scope='module')
def pieces():
  lines = [text for text in EXPECTED['lines'] + EXPECTED['references'] if '<' not in text]
  config = vocabulary.VocabularyConfig(size=330)
  return vocabulary.train(config, lines)


def own_run(place, pieces, search=None, **options):
  """Write a run of this project's own model, with random parameters, biases and scales included."""
  size = vocabulary.Vocabulary(pieces, 'test').size
  model = architectures.build(ModelConfig(vocab_size=size, target_vocab_size=size, **(BASE | options)))
  leaves, tree = jax.tree.flatten(model.init(jax.random.key(5)))
  keys = jax.random.split(jax.random.key(7), len(leaves))
  params = tree.unflatten([leaf + 0.3 * jax.random.normal(key, leaf.shape) for leaf, key in zip(leaves, keys)])
  shared = options.get('share_embeddings', True)
  config = with_options(default_tree().to_dict(), {f'model.{name}': value for name, value in (BASE | options).items()} | {
      'vocabulary.size': size, 'vocabulary.joint': shared, 'data.kind': 'text', 'data.directory': 'nowhere',
      'search.length_penalty': 'length', 'search.alpha': 1.0, 'search.extra_length': 20} | (search or {}))
  files = {'vocabulary.model': pieces} if shared else {'source.model': pieces, 'target.model': pieces}
  parameter_run.write(str(place), params, config, files | {'imported.json': b'{}'}, {})
  return str(place)


@pytest.mark.parametrize('name', but_long([name for name in MODELS if not name.startswith('pre')],
                                          ['halves', 'scanned', 'separate', 'untied']))
def test_an_exported_model_imported_again_computes_the_same(name, pieces, tmp_path):
  workdir = own_run(tmp_path / 'run', pieces, **MODELS[name])
  exporting.write(workdir, 'final', 'huggingface', str(tmp_path / 'model'))
  again = importing.read(str(tmp_path / 'model'))
  before = tasks.load(workdir)
  model, source, target = before.parts
  other = architectures.build(dataclasses.replace(
      setup.records(again.options).model, vocab_size=source.size, target_vocab_size=target.size))
  text = source.encode(EXPECTED['references'][0])
  ours = forced(model, text, text[::-1], target.bos_id)(before.params[0])
  theirs = forced(other, text, text[::-1], target.bos_id)(again.params)
  kept = np.arange(target.size) != target.pad_id
  np.testing.assert_allclose(np.asarray(theirs)[..., kept], np.asarray(ours)[..., kept], atol=1e-4)


FAMILY = {
    'learned': dict(positions='learned', max_positions=64), 'none': dict(positions='none'), 'rotary': dict(positions='rotary'),
    'rotary halves': dict(positions='rotary', position_layout='halves', norm='pre', num_kv_heads=1, attention_score='dot'),
    'relative': dict(positions='relative', clip_distance=3), 't5': dict(positions='t5', num_buckets=8, max_distance=16),
    't5 pre': dict(positions='t5', norm='pre', num_layers=1, num_decoder_layers=2, normalization='rms_norm'),
    'swiglu': dict(activation='swiglu', positions='rotary', normalization='rms_norm', feed_forward_bias=False, scan_layers=True)}


@pytest.mark.parametrize('name', but_long(MODELS, ['halves', 'scanned', 'separate', 'untied', 'pre']) + [*FAMILY])
def test_ctranslate2_gives_translations_the_same_probabilities(name, pieces, tmp_path):
  workdir = own_run(tmp_path / 'run', pieces, **(MODELS | FAMILY)[name])
  exporting.write(workdir, 'final', 'ctranslate2', str(tmp_path / 'model'))
  theirs = ctranslate2.Translator(str(tmp_path / 'model'), intra_threads=1)
  translator = tasks.load(workdir, beam_size=1)
  _, source, target = translator.parts
  lines = EXPECTED['references'][:20]
  sources = [source.pieces(source.encode(line)) for line in lines]  # EOS is added by the model's own config
  targets = [target.pieces(target.encode(line)) for line in EXPECTED['lines'][10:30]]
  scored = theirs.score_batch(sources, targets)
  for line, result, wanted in zip(lines, scored, EXPECTED['lines'][10:30]):
    ours = np.array(translator.score([line], [wanted])[0].token_log_probs)
    np.testing.assert_allclose(result.log_probs, ours, atol=1e-4)
  # Word by word, from its cache, it computes what it does with the whole text at once.
  found = theirs.translate_batch(sources[:6], beam_size=3, max_decoding_length=24, min_decoding_length=0,
                                 length_penalty=0, return_scores=True)
  for result, whole in zip(found, theirs.score_batch(sources[:6], [result.hypotheses[0] for result in found])):
    is_cut = len(result.hypotheses[0]) == 24
    assert sum(whole.log_probs[:24 if is_cut else None]) == pytest.approx(result.scores[0], abs=1e-3)


@pytest.mark.parametrize('options', [{}, FAMILY['rotary']])
def test_of_eight_bits_a_ctranslate2_model_is_smaller_and_gives_like_probabilities(options, pieces, tmp_path):
  workdir, known = own_run(tmp_path / 'run', pieces, **options), vocabulary.Vocabulary(pieces, 'pieces')
  sizes, scores = {}, {}
  for kind in ('float32', 'int8'):
    exporting.write(workdir, 'final', 'ctranslate2', str(tmp_path / kind), kind)
    sizes[kind] = (tmp_path / kind / 'model.bin').stat().st_size
    theirs = ctranslate2.Translator(str(tmp_path / kind), intra_threads=1, compute_type=kind)
    lines = [known.pieces(known.encode(line)) for line in EXPECTED['references'][:20]]
    scores[kind] = np.concatenate([result.log_probs for result in theirs.score_batch(lines[:10], lines[10:])])
  assert sizes['int8'] < sizes['float32'] and len(scores['int8']) > 100
  # Twelve dimensions, drawn at random, are coarse in eight bits; a wrong scale would leave no likeness.
  assert not np.array_equal(*scores.values()) and np.corrcoef(*scores.values())[0, 1] > 0.8


@pytest.mark.parametrize('name, found, words', [
    ('config', dict(vocab_size='x', d_model=12.0, encoder_layers=True, eos_token_id=[0], pad_token_id=-1), [
        'vocab_size is "x"; expected a positive whole number', 'd_model is 12.0', 'encoder_layers is true', 'eos_token_id is [0]',
        'pad_token_id is -1; expected a whole number, 0 or more']),
    ('config', dict(decoder_vocab_size=300.0, dropout='a', scale_embedding='yes', tie_word_embeddings=1), [
        'decoder_vocab_size is 300.0; expected a positive whole number', 'dropout is "a"; expected a number',
        'scale_embedding is "yes"; expected true or false', 'tie_word_embeddings is 1']),
    ('config', dict(activation_function=['relu'], num_beams='4'), ["activation_function is ['relu']", 'num_beams is "4"']),
    ('config', dict(model_type=['marian']), ["of model_type ['marian']; only marian and pegasus"]),
    ('config', dict(d_model=None), ['d_model is absent; expected a positive whole number']),
    ('generation_config', dict(early_stopping=[1], min_length='4', length_penalty='x', num_beams=4.5), [
        'generation_config.json does not fit', 'early_stopping is [1]; expected true, false or "never"', 'min_length is "4"',
        'length_penalty is "x"; expected a number', 'num_beams is 4.5']),
    ('tokenizer_config', dict(source_lang=5), ['source_lang is 5; expected a text'])])
def test_values_of_other_types_are_named_with_what_was_expected(name, found, words, tmp_path):
  path = pathlib.Path(folder_with(tmp_path), f'{name}.json')
  path.write_text(json.dumps(json.loads(path.read_text(encoding='utf-8')) | found))
  with pytest.raises(ConfigError) as refused:
    importing.read(str(path.parent))
  assert all(word in str(refused.value) for word in words), str(refused.value)


def test_null_is_as_good_as_absent(tmp_path):
  nothing = dict.fromkeys(('dropout', 'attention_dropout', 'decoder_vocab_size', 'tie_word_embeddings', 'num_beams', 'min_length',
                           'share_encoder_decoder_embeddings', 'normalize_before', 'early_stopping'))
  place = pathlib.Path(folder_with(tmp_path, **nothing))
  (place / 'generation_config.json').write_text(json.dumps(nothing))
  found = importing.read(str(place)).options
  assert (found['model']['dropout'], found['search']['beam_size'], found['search']['early_stopping']) == (0.1, 1, 'heuristic')


WRONG = {
    'no marian': (dict(model_type='bart'), (), ConfigError, "config.json is of model_type 'bart'"),
    'an option': (dict(scale_embedding=False, activation_function='gelu_new'), (), ConfigError,
                  r'2 mistakes(.|\n)*gelu_new(.|\n)*scale_embedding is false'),
    'a missing file': ({}, ('source.spm',), DataError, r'no file .*source\.spm'),
    'another shape': (dict(encoder_ffn_dim=13, decoder_ffn_dim=13), (), DataError,
                      r'model\.safetensors: model\.encoder\.layers\.0\.fc1\.weight has the shape \[11, 12\]'),
    'another depth': (dict(decoder_layers=2), (), DataError, r'lacks the tensor model\.decoder\.layers\.1'),
    'no language': ({}, ('tokenizer_config.json',), ConfigError, '--source_language and --target_language'),
    'one id for two': (dict(pad_token_id=0), (), DataError, 'pad_token_id and eos_token_id in .*config.json are both 0; expected two'),
    'heads': (dict(encoder_attention_heads=5, decoder_attention_heads=5), (), ConfigError,
              r'model/config\.json and its neighbours make options that are refused here: .*num_heads')}


@pytest.mark.parametrize('name', WRONG)
def test_what_cannot_be_imported_is_named_and_nothing_is_written(name, tmp_path):
  config, without, error, message = WRONG[name]
  with pytest.raises(error, match=message):
    importing.to_run(folder_with(tmp_path, without=without, **config), str(tmp_path / 'run'))
  assert not list(tmp_path.glob('run*'))


def test_one_language_on_both_sides_is_refused_with_the_flags_that_help(tmp_path):
  place = folder_with(tmp_path)
  pathlib.Path(place, 'tokenizer_config.json').write_text('{"source_lang": "gem", "target_lang": "gem"}')
  with pytest.raises(ConfigError, match="model: source and target are both 'gem'.*--target_language"):
    importing.read(place)
  assert importing.read(place, (None, 'gmw')).options['data']['target_language'] == 'gmw'


def test_json_of_many_levels_is_no_json(tmp_path):
  place = pathlib.Path(folder_with(tmp_path))
  (place / 'config.json').write_text('{"a":' * 100_000)
  with pytest.raises(DataError, match='config.json is no JSON'):
    importing.read(str(place))
  header = b'[' * 200_000
  (tmp_path / 'x').write_bytes(len(header).to_bytes(8, 'little') + header)
  with pytest.raises(DataError, match='x is no whole file of safetensors'):
    safetensors.read(str(tmp_path / 'x'))


def test_tables_that_differ_are_not_read_as_one(tmp_path):
  tensors = safetensors.read(str(FIXTURE / 'model.safetensors'))
  tensors['lm_head.weight'] = tensors['model.shared.weight'] + 1
  with pytest.raises(DataError, match=r'lm_head\.weight differs from model\.shared\.weight'):
    importing.read(folder_with(tmp_path, tensors))


def test_a_pickle_is_refused_unread_with_the_remedy(tmp_path):
  place = folder_with(tmp_path, without=['model.safetensors'])
  pathlib.Path(place, 'pytorch_model.bin').write_bytes(b'cos\nsystem\n(S"false"\ntR.')
  with pytest.raises(DataError, match=r'a pickle, and reading a pickle runs .*AutoModelForSeq2SeqLM.*save_pretrained'):
    importing.to_run(place, str(tmp_path / 'run'))


@pytest.mark.parametrize('cut', [0, 7, 40, -5])
def test_a_file_cut_short_is_named(cut, tmp_path):
  data = (FIXTURE / 'model.safetensors').read_bytes()
  (tmp_path / 'x').write_bytes(data[:cut])
  with pytest.raises(DataError, match='x is no whole file of safetensors'):
    assert safetensors.read(str(tmp_path / 'x'))


@pytest.mark.parametrize('options, to, message', [
    (MODELS['pre untied'], 'huggingface', 'model.tie_output is False, and norm is pre'),
    (dict(positions='rotary', normalization='rms_norm'), 'huggingface', r'mistakes(.|\n)*model.positions(.|\n)*rms_norm'),
    (dict(positions='rotary', position_frequencies='tensor2tensor'), 'ctranslate2', "frequencies is 'tensor2tensor'; expected paper$"),
    (dict(attention_score='additive', d_k=4), 'ctranslate2', r'mistakes(.|\n)*expected scaled_dot or dot(.|\n)*model.d_k is 4'),
    (dict(activation='swiglu'), 'huggingface', "model.activation is 'swiglu'; expected relu or gelu or swish$"),
    (dict(position_frequencies='tensor2tensor'), 'huggingface', 'model.position_frequencies')])
def test_what_a_format_cannot_hold_is_refused_by_name(options, to, message, pieces, tmp_path):
  workdir = own_run(tmp_path / 'run', pieces, **options)
  with pytest.raises(ConfigError, match=message):
    exporting.write(workdir, 'final', to, str(tmp_path / 'model'))
  assert not list(tmp_path.glob('model*'))


def test_a_spoiled_vocabulary_is_named(imported, tmp_path):
  data = pathlib.Path(imported, 'source.model').read_bytes()
  for spoiled in (data[:-30], data.replace(b'list.json', b'list.jsom')):
    (tmp_path / 'v').write_bytes(spoiled)
    with pytest.raises(DataError, match='v is no vocabulary'):
      marian_vocabulary.load(str(tmp_path / 'v'))
