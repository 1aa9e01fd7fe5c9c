"""Runs on 16 and 32 devices, simulated in a process of their own: they train, evaluate, translate, stop and go on."""

import json
import subprocess
import sys

import numpy as np
import pytest

import decode
from options import decode_options
from options.configurations import ROOT
from tests.tiny_runs import metrics

pytestmark = pytest.mark.long


@pytest.fixture(scope='module')
def pods(corpus, tmp_path_factory):
  """The folder of the runs of on_32_devices.py."""
  folder = tmp_path_factory.mktemp('pods')
  done = subprocess.run([sys.executable, '-m', 'tests.on_32_devices', str(corpus), str(folder)], cwd=ROOT, text=True,
                        capture_output=True, timeout=600)
  assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
  return folder


def assert_same_measurements(one, other):
  first, second = metrics(one), metrics(other)
  assert [line['step'] for line in first] == [line['step'] for line in second]
  for a, b in zip(first, second):
    assert all(a[name] == b[name] for name in ('epoch', 'train/padding') if name in a)  # the same batches
    loss = next(name for name in a if name.endswith('/loss'))
    np.testing.assert_allclose(a[loss], b[loss], atol=1e-4)


def test_Z1_a_run_begun_on_32_devices_goes_on_on_other_meshes(pods):
  """32, then data 2 × fsdp 8 × tensor 2, then 16; beside it the same batches on eight, without a stop."""
  config = json.loads((pods / 'run' / 'config.json').read_text())
  assert config['data']['row_multiple'] == 32 and config['mesh']['data'] == 16
  assert_same_measurements(pods / 'whole', pods / 'run')
  assert len(metrics(pods / 'run')) == 4  # three of training, one of validation


def test_micro_batches_of_packed_rows_on_16_devices_under_pmap(pods):
  assert_same_measurements(pods / 'jit', pods / 'pmap')
  assert 'validation/loss' in metrics(pods / 'pmap')[-1]


def test_32_devices_translate_as_eight_do(pods):
  assert decode.main(decode_options.parse(
      ['decode.py', f'--workdir={pods}/run', f'--input={pods}/lines', f'--output={pods}/eight', '--checkpoint=latest',
       '--search.min_length=5'], '')) == 0
  answers = (pods / 'answers').read_text()
  assert answers == (pods / 'eight').read_text() and len(answers.split()) >= 5
