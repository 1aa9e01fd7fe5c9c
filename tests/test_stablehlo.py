"""A run's programs for jax.export compute, without this project, what the run computes."""

import json
import pathlib
import subprocess
import sys
import textwrap

import jax
import jaxtyping
import numpy as np
import pytest

import convert
import tasks
from checks.errors import ConfigError
from exchange import exporting, importing
from options import convert_options
from options.configurations import ROOT
from tests.test_exchange import own_run, pieces  # noqa: F401  (a fixture)
from transformer import tokens

FIXTURE = pathlib.Path(__file__).parent / 'marian_fixture'
EXPECTED = json.loads((FIXTURE / 'expected.json').read_text(encoding='utf-8'))
pytest.importorskip('flatbuffers')


@pytest.fixture(scope='module', autouse=True)
def open_sizes():
  """Let sizes be symbols, as they are while a program is exported; shapes in signatures say int."""
  jaxtyping.config.update('jaxtyping_disable', True)
  yield
  jaxtyping.config.update('jaxtyping_disable', False)


@pytest.fixture(scope='module')
def exported(tmp_path_factory):
  """The fixture's run, and the folder of its programs."""
  place = tmp_path_factory.mktemp('programs')
  importing.to_run(str(FIXTURE), str(place / 'run'))
  argv = ['convert.py', 'export', f'--workdir={place}/run', '--to=stablehlo', f'--output={place}/wmt-stablehlo']
  assert convert.main(convert_options.parse(argv, '')) == 0
  return place


def load(place, name):
  return jax.export.deserialize(bytearray((place / 'wmt-stablehlo' / f'{name}.stablehlo').read_bytes()))


@pytest.mark.long
def test_the_documented_script_translates_as_the_run_does(exported):
  text = pathlib.Path(ROOT, 'docs/exchange.md').read_text(encoding='utf-8')
  block = text[text.index('    import json, jax'):]
  code = textwrap.dedent(block[:block.index('\n\n')])
  chosen = next(line for line, ended, ids in zip(EXPECTED['lines'], EXPECTED['greedy_ended'], EXPECTED['greedy'])
                if ended and len(ids) > 5 and '<' not in line)
  code = code.replace('The dog sleeps.', chosen)
  done = subprocess.run([sys.executable, '-c', code], cwd=exported, capture_output=True, text=True, check=True)
  assert done.stdout.rstrip('\n') == tasks.load(str(exported / 'run'), beam_size=1).translate([chosen])[0].text


@pytest.mark.long
def test_rows_and_lengths_are_open_and_logits_those_of_the_model(exported):
  encode, decode_step = load(exported, 'encode'), load(exported, 'decode_step')
  assert set(encode.platforms) == set(decode_step.platforms) == {'cpu', 'cuda', 'tpu'}
  agrees_with_the_model(exported, EXPECTED['ids'][:3])


def agrees_with_the_model(exported, texts):
  """Compare the programs' logits with those of the run, for other numbers of rows and other lengths."""
  encode, decode_step = load(exported, 'encode'), load(exported, 'decode_step')
  model, _, target = (translator := tasks.load(str(exported / 'run'))).parts
  params, parameters = translator.params[0], dict(np.load(exported / 'wmt-stablehlo' / 'parameters.npz'))
  for rows in (1, 3):
    sources, outputs = texts[:rows], [ids[:5] for ids in EXPECTED['reference_ids'][:rows]]
    longest = max(map(len, sources)) + rows
    source, output = tokens.pad(sources, rows, longest, 0), tokens.pad(outputs, rows, 5, 0)
    shifted = tokens.shift_right(output, target.bos_id)
    wanted = np.asarray(model.decode(params, model.encode(params, source), shifted))
    state = encode.call(parameters, source.ids, np.array([*map(len, sources)], np.int32))
    assert all(leaf.shape[0] == rows for leaf in state)
    for step in range(5):
      logits, state = decode_step.call(parameters, state, np.asarray(shifted.ids)[:, step])
      real = [len(ids) > step for ids in outputs]
      np.testing.assert_allclose(np.asarray(logits)[real], wanted[real, step], atol=1e-4)


@pytest.mark.long
def test_texts_beyond_the_limit_are_refused(exported):
  parameters = dict(np.load(exported / 'wmt-stablehlo' / 'parameters.npz'))
  call = load(exported, 'encode').call
  assert call(parameters, np.zeros((1, 974), np.int32), np.ones(1, np.int32))
  with pytest.raises(Exception, match='shapes'):  # which one is jaxlib's affair
    call(parameters, np.zeros((1, 975), np.int32), np.ones(1, np.int32))


@pytest.mark.long
@pytest.mark.parametrize('positions', ['learned', 'relative', 'rotary'])
def test_other_kinds_of_positions_give_the_logits_of_the_model_too(positions, pieces, tmp_path):  # noqa: F811
  workdir = own_run(tmp_path / 'run', pieces, positions=positions, norm='pre')
  exporting.write(workdir, 'final', 'stablehlo', str(tmp_path / 'wmt-stablehlo'))
  _, source, _ = tasks.load(workdir).parts
  agrees_with_the_model(tmp_path, [[*source.encode(line), source.eos_id] for line in EXPECTED['references'][:3]])


@pytest.mark.long
def test_a_run_of_another_attention_kernel_is_written_with_einsum(pieces, tmp_path):  # noqa: F811
  """cuDNN's takes texts by their lengths, which an exported program does not know."""
  workdir = own_run(tmp_path / 'run', pieces, attention_kernel='cudnn', dtype='bfloat16', d_model=16, num_layers=1)
  exporting.write(workdir, 'final', 'stablehlo', str(tmp_path / 'wmt-stablehlo'))
  assert set(load(tmp_path, 'encode').platforms) == {'cpu', 'cuda', 'tpu'}


def test_positions_that_need_their_lengths_are_refused_by_name(pieces, tmp_path):  # noqa: F811
  workdir = own_run(tmp_path / 'run', pieces, positions='t5')
  with pytest.raises(ConfigError, match="model.positions is 't5'"):
    exporting.write(workdir, 'final', 'stablehlo', str(tmp_path / 'out'))
  assert not list(tmp_path.glob('out*'))
