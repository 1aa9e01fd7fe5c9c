"""The rows of a run's batches: multiples of a number that its first start decides and its folder keeps."""

import json
import os

import pytest
from jax.sharding import AbstractMesh

from batching.shapes import row_multiple
from checks.errors import ConfigError
from options import configurations
from options.configurations import CONFIGS, with_options
from tasks import rows, setup
from training.json_files import as_written
from training.run_folder import RunFolder

CONFIG = configurations.load_config(os.path.join(CONFIGS, 'multi30k.py:adam'))
FIXED = {'data.batching': 'fixed', 'data.fixed_rows': 64, 'data.fixed_source_length': 7, 'data.fixed_target_length': 5}


def start(workdir, data, fsdp=1, tensor=1, anew=False, **options):
  """Start a run, or go on with it, on a mesh as far as reading its text; return what settles its rows."""
  config = with_options(CONFIG, {name.replace('__', '.'): value for name, value in options.items()})
  with RunFolder(str(workdir)).create_or_resume(config, anew=anew) as folder:
    mesh = AbstractMesh((data, fsdp, tensor), ('data', 'fsdp', 'tensor'))
    found = rows.settle(setup.records(config), folder, mesh)
    assert folder.read_config()['data']['row_multiple'] == found.batches.row_multiple
  return found.batches


@pytest.mark.parametrize('parts, expected', [(1, 8), (2, 8), (4, 8), (8, 8), (3, 24), (12, 24), (16, 16), (32, 32)])
def test_rows_divide_over_the_parts_and_over_up_to_eight_devices(parts, expected):
  assert row_multiple(parts) == expected


def test_Z1_what_the_first_start_decides_holds_on_every_mesh(tmp_path):
  assert start(tmp_path / 'a', data=32).row_multiple == 32
  for mesh in ((16,), (2, 8, 2), (8,), (1,), (32,)):
    batches = start(tmp_path / 'a', *mesh)
    assert batches.row_multiple == batches.for_evaluation().row_multiple == 32
  assert start(tmp_path / 'b', data=4, fsdp=3).row_multiple == 24


def test_Z1_a_mesh_that_does_not_divide_the_rows_is_refused(tmp_path):
  start(tmp_path / 'a', data=8)
  before = (tmp_path / 'a' / 'config.json').read_text()
  with pytest.raises(ConfigError, match=r'rows are multiples of 8 .*mesh\.data 4 × mesh\.fsdp 4 .* 16 parts.* 2 or 4 '
                     r'or 8, such as --config\.mesh\.data=8 .*data\.row_multiple=16\.'):
    start(tmp_path / 'a', data=4, fsdp=4)
  assert (tmp_path / 'a' / 'config.json').read_text() == before
  assert start(tmp_path / 'a', data=16, anew=True).row_multiple == 16  # as the message says


def test_more_rows_than_the_devices_need_may_be_asked_for(tmp_path):
  assert start(tmp_path / 'a', data=8, data__row_multiple=32).row_multiple == 32
  assert start(tmp_path / 'a', data=32).row_multiple == 32
  with pytest.raises(ConfigError, match='data.row_multiple is 16, the run has 32'):
    start(tmp_path / 'a', data=8, data__row_multiple=16)
  with pytest.raises(ConfigError, match='row_multiple is 12; expected a positive multiple of 8'):
    start(tmp_path / 'b', data=4, data__row_multiple=12)


def test_batches_of_one_shape_go_on_wherever_their_own_rows_divide(tmp_path):
  fixed = {name.replace('.', '__'): value for name, value in FIXED.items()}
  start(tmp_path / 'a', data=8, train__accumulation_steps=2, **fixed)
  assert start(tmp_path / 'a', data=32, train__accumulation_steps=2, **fixed).divisible_rows == 32
  with pytest.raises(ConfigError, match='multiples of 32 .* into 64 parts'):
    start(tmp_path / 'a', data=64, train__accumulation_steps=2, **fixed)
  with pytest.raises(ConfigError, match=r'fixed_rows is 64; expected a multiple of 128 \(data.row_multiple = 32 for '
                     'each of train.accumulation_steps = 4 micro-batches'):
    start(tmp_path / 'b', data=32, train__accumulation_steps=4, **fixed)


def test_a_run_made_before_the_option_keeps_its_multiples_of_eight(tmp_path):
  start(tmp_path / 'a', data=2)
  folder, older = RunFolder(str(tmp_path / 'a')), as_written(CONFIG)
  del older['data']['row_multiple']
  folder.write_json(folder.config, older)
  assert start(tmp_path / 'a', data=4).row_multiple == 8
  assert json.loads((tmp_path / 'a' / 'config.json').read_text())['data']['row_multiple'] == 8
