"""Marian's own model.npz becomes a run: the same parameters as the MarianMT that it would be converted to."""

import json
import pathlib
import re
import shutil

import ctranslate2
import jax
import numpy as np
import pytest

import convert
import tasks
from checks.errors import ConfigError, DataError
from exchange import importing, marian_files, safetensors
from options import convert_options
from training.run_folder import RunFolder
from transformer import positions

FIXTURE = pathlib.Path(__file__).parent / 'marian_fixture'
THEIRS = json.loads((FIXTURE / 'config.json').read_text())
LINES = json.loads((FIXTURE / 'expected.json').read_text())['lines'][:20]
OPTIONS = {
    'type': 'transformer', 'dim-emb': THEIRS['d_model'], 'enc-depth': THEIRS['encoder_layers'],
    'dec-depth': THEIRS['decoder_layers'], 'transformer-heads': THEIRS['encoder_attention_heads'],
    'transformer-dim-ffn': THEIRS['encoder_ffn_dim'], 'transformer-ffn-activation': 'swish',
    'transformer-preprocess': '""', 'transformer-postprocess': 'dan', 'transformer-postprocess-emb': 'd',
    'transformer-decoder-autoreg': 'self-attention', 'transformer-no-projection': 'false', 'tied-embeddings-all': 'true',
    'transformer-guided-alignment-layer': 'last'}
PARTS = {'self_attn.': 'self_', 'encoder_attn.': 'context_', 'fc1.weight': 'ffn_W1', 'fc1.bias': 'ffn_b1',
         'fc2.weight': 'ffn_W2', 'fc2.bias': 'ffn_b2', 'final_layer_norm.weight': 'ffn_ffn_ln_scale',
         'final_layer_norm.bias': 'ffn_ffn_ln_bias', 'self_attn_layer_norm.weight': 'self_Wo_ln_scale',
         'self_attn_layer_norm.bias': 'self_Wo_ln_bias', 'encoder_attn_layer_norm.weight': 'context_Wo_ln_scale',
         'encoder_attn_layer_norm.bias': 'context_Wo_ln_bias'}


def marians_name(name):
  """Marian's name of a MarianMT's tensor, after the list in transformers' converter."""
  _, side, _, number, rest = name.split('.', 4)
  if projection := re.fullmatch(r'(self_attn|encoder_attn)\.(q|k|v|out)_proj\.(weight|bias)', rest):
    rest = PARTS[f'{projection[1]}.'] + ('W' if projection[3] == 'weight' else 'b') + projection[2][0]
  return f'{side}_l{int(number) + 1}_{PARTS.get(rest, rest)}'


def write_marian(place, without=(), further=None, **options):
  """Write the fixture's model as Marian would, without the row of <pad>, and its vocabulary; return both paths."""
  arrays = {}
  for name, tensor in safetensors.read(str(FIXTURE / 'model.safetensors')).items():
    if name == 'model.shared.weight':
      arrays['Wemb'] = tensor[:-1]
    elif name == 'final_logits_bias':
      arrays['decoder_ff_logit_out_b'] = tensor[:, :-1]
    else:
      arrays[marians_name(name)] = tensor.T if tensor.ndim == 2 else tensor[None]
  text = ''.join(f'{name}: {value}\n' for name, value in (OPTIONS | options).items())
  arrays |= {'special:model.yml': np.frombuffer(text.encode() + b'\0', np.int8), **(further or {})}
  np.savez(place / 'model.npz', **{name: array for name, array in arrays.items() if name not in without})
  pieces = json.loads((FIXTURE / 'vocab.json').read_text(encoding='utf-8'))
  lines = (f'{json.dumps(piece, ensure_ascii=False)}: {number}\n' for piece, number in pieces.items() if piece != '<pad>')
  (place / 'vocab.yml').write_text(''.join(lines), encoding='utf-8')
  for side in ('source', 'target'):
    shutil.copyfile(FIXTURE / f'{side}.spm', place / f'{side}.spm')
  return str(place / 'model.npz'), str(place / 'vocab.yml')


def flags(model, vocabulary, workdir):
  return convert_options.parse(['convert.py', 'import', f'--from={model}', f'--vocabulary={vocabulary}', '--source_language=en',
                                '--target_language=de', f'--workdir={workdir}'], '')


def test_every_tensor_arrives_as_from_the_converted_model(tmp_path):
  model, vocabulary = write_marian(tmp_path)
  found, wanted = importing.read(model, ('en', 'de'), [vocabulary]), importing.read(str(FIXTURE))
  pad = wanted.params['embedding'].shape[0] - 1
  assert not found.params['embedding'][pad].any()  # Marian's decoder starts from zeros
  wanted.params['embedding'][pad] = 0.0
  wanted.params['output_bias'][pad] = found.params['output_bias'][pad]
  jax.tree.map(np.testing.assert_array_equal, found.params, wanted.params)
  assert found.vocabularies == wanted.vocabularies
  assert found.params['output_bias'][pad] == importing.PAD_LOGIT


@pytest.mark.parametrize('name, is_transposed', [('decoder_ff_logit_out_Wt', False), ('decoder_ff_logit_out_W', True)])
def test_an_output_matrix_of_its_own_is_read_as_marian_and_as_its_earlier_versions_wrote_it(name, is_transposed, tmp_path):
  table = safetensors.read(str(FIXTURE / 'model.safetensors'))['model.shared.weight'][:-1]
  own = np.random.default_rng(0).normal(size=table.shape).astype(np.float32)
  model, vocabulary = write_marian(tmp_path, further={name: own.T if is_transposed else own})
  found = importing.read(model, ('en', 'de'), [vocabulary])
  assert not found.options['model']['tie_output']
  for made, theirs in ((found.params['output_projection'], own), (found.params['embedding'], table)):
    np.testing.assert_array_equal(made, np.concatenate([theirs, np.zeros_like(theirs[:1])]))  # the last row is <pad>'s


def test_ctranslate2s_converter_makes_a_model_with_the_same_probabilities(tmp_path):
  from ctranslate2.converters import MarianConverter
  model, vocabulary = write_marian(tmp_path)
  MarianConverter(model, [vocabulary, vocabulary]).convert(str(tmp_path / 'theirs'))
  theirs = ctranslate2.Translator(str(tmp_path / 'theirs'), intra_threads=1)
  assert convert.main(flags(model, vocabulary, tmp_path / 'run')) == 0
  folder = RunFolder(str(tmp_path / 'run'))
  config = folder.read_config()
  assert (config['model']['position_frequencies'], config['model']['layer_norm_epsilon']) == ('tensor2tensor', 1e-6)
  # CTranslate2, as transformers' converter, computes with the paper's frequencies and an epsilon of 1e-5.
  folder.write_json(folder.config, {**config, 'model': config['model'] | {
      'position_frequencies': 'paper', 'layer_norm_epsilon': 1e-5}})
  translator = tasks.load(str(tmp_path / 'run'), beam_size=1)
  _, source, target = translator.parts
  wanted = LINES[::-1]
  scored = theirs.score_batch([source.pieces(source.encode(line)) for line in LINES],
                              [target.pieces(target.encode(line)) for line in wanted])
  for ours, result in zip(translator.score(LINES, wanted), scored):
    np.testing.assert_allclose(result.log_probs, ours.token_log_probs, atol=1e-4)


def test_frequencies_are_those_of_marians_source():
  """src/models/transformer.h: i < d/2 timescales, exp(-i log(10000) / (d/2 - 1)); sines, then cosines."""
  width, place = 14, 5
  scales = np.exp(np.arange(7) * -(np.log(10000.0) / 6))
  np.testing.assert_allclose(positions.sinusoids(9, width, 'halves', 'tensor2tensor')[place],
                             np.concatenate([np.sin(place * scales), np.cos(place * scales)]), rtol=1e-6)


def test_the_entries_of_a_vocabulary_are_texts_whatever_yaml_reads_in_them(tmp_path):
  (tmp_path / 'v.yml').write_text('</s>: 0\n<unk>: 1\nyes: 2\n1: 3\n"\\x85": 4\n? "a: b"\n: 5\n~: 6\n\'\'\'\': 7\n')
  assert list(marian_files.entries(str(tmp_path / 'v.yml'))) == ['</s>', '<unk>', 'yes', '1', '\x85', 'a: b', '~', "'", '<pad>']
  (tmp_path / 'v.yml').write_text('</s>: 0\n<pad>: 1\n')
  with pytest.raises(DataError, match='v.yml has an entry <pad>'):
    marian_files.entries(str(tmp_path / 'v.yml'))


WRONG = {
    'options': ({'transformer-preprocess': 'n', 'transformer-ffn-activation': 'gelu'}, (), ConfigError,
                r"2 mistakes(.|\n)*transformer-preprocess is 'n'(.|\n)*transformer-ffn-activation is 'gelu'"),
    'a kind': ({'type': 's2s'}, (), ConfigError, "model.npz does not fit: type is 's2s'; expected 'transformer'"),
    'a tensor': ({}, ('encoder_l2_ffn_W1',), DataError, r'model.npz lacks the tensor model\.encoder\.layers\.1\.fc1\.weight'),
    'no table': ({}, ('Wemb',), DataError, r'model.npz lacks the tensor encoder_Wemb'),
    'no options': ({}, ('special:model.yml',), DataError, r'model.npz lacks special:model\.yml'),
    'too deep': ({'enc-depth': 1}, (), DataError, r'holds model\.encoder\.layers\.1\.\S*, which a model of these options')}


@pytest.mark.parametrize('name', WRONG)
def test_what_does_not_fit_is_named_and_nothing_is_written(name, tmp_path):
  options, without, error, message = WRONG[name]
  with pytest.raises(error, match=message):
    importing.to_run(*[write_marian(tmp_path, without, **options)[0], str(tmp_path / 'run')], ('en', 'de'),
                     [str(tmp_path / 'vocab.yml')])
  assert not list(tmp_path.glob('run*'))


def test_a_table_that_is_none_is_named(tmp_path):
  model, vocabulary = write_marian(tmp_path, further={'Wemb': np.float32(1)})
  with pytest.raises(DataError, match='Wemb has 0 dimensions; expected a table'):
    importing.read(model, ('en', 'de'), [vocabulary])


def test_a_damaged_file_is_named(tmp_path):
  model, vocabulary = write_marian(tmp_path)
  data = pathlib.Path(model).read_bytes()
  pathlib.Path(model).write_bytes(data[:len(data) // 2])
  with pytest.raises(DataError, match='model.npz is no whole archive of arrays'):
    importing.read(model, ('en', 'de'), [vocabulary])
  pathlib.Path(vocabulary).write_text('a: [b\n')
  pathlib.Path(model).write_bytes(data)
  with pytest.raises(DataError, match='vocab.yml is no YAML'):
    importing.read(model, ('en', 'de'), [vocabulary])
