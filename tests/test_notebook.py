"""docs/explorer.ipynb runs, on a run that never was trained, and is shipped with what its cells show."""

import json
import os
import runpy
import shutil
import subprocess
import sys

import pytest

from explorer import pruned_run
from options import configurations
from tests.explorer_stand_ins import small_translator, small_vocabulary
from training.run_folder import RunFolder

NOTEBOOK = os.path.join(configurations.ROOT, 'docs', 'explorer.ipynb')


def untrained_run(folder):
  """Write the folder of a run that never was trained, small enough to be read by every cell of the notebook."""
  config = configurations.load_config('configs/phrasebook.py')
  config['model'].update(d_model=14, num_heads=2, num_layers=2, d_ff=11, norm='post', positions='sinusoidal')
  config['search'].update(beam_size=1, extra_length=3)
  donor = folder.parent / 'donor'
  donor.mkdir(parents=True)
  (donor / 'config.json').write_text(json.dumps(config))
  RunFolder(str(donor)).save_vocabularies(small_vocabulary().model, None)
  pruned_run.write(RunFolder.open(str(donor)), str(folder), small_translator().params[0], [])
  (folder / 'results.json').write_text('{"averaged_steps": []}')
  (folder / 'metrics.jsonl').write_text('{"step": 1, "train/loss": 2.0, "validation/bleu": 1.0}\n')


@pytest.mark.long
def test_the_notebook_runs(tmp_path, monkeypatch):
  """Every cell of docs/explorer.ipynb, in a folder that looks like a checkout."""
  with open(NOTEBOOK, encoding='utf-8') as file:
    cells = [cell for cell in json.load(file)['cells'] if cell['cell_type'] == 'code']
  untrained_run(tmp_path / 'runs' / 'phrasebook')
  (tmp_path / 'train.py').touch()
  lines = ''.join(''.join(cell['source']) + '\n' for cell in cells).splitlines(True)
  (tmp_path / 'cells.py').write_text(''.join(line for line in lines if not line.startswith('%')))
  monkeypatch.chdir(tmp_path)
  monkeypatch.setattr(sys, 'path', [*sys.path])
  names = runpy.run_path(str(tmp_path / 'cells.py'))
  assert names['report']._repr_html_().startswith('<iframe')
  assert os.path.getsize(tmp_path / 'runs' / 'phrasebook' / 'report.html') > 20_000


def test_the_notebook_is_shipped_with_what_its_cells_show():
  with open(NOTEBOOK, encoding='utf-8') as file:
    cells = [cell for cell in json.load(file)['cells'] if cell['cell_type'] == 'code']
  assert [cell['execution_count'] for cell in cells] == [*range(1, len(cells) + 1)]
  outputs = [output for cell in cells for output in cell['outputs']]
  assert not any(output['output_type'] == 'error' for output in outputs)
  assert sum('image/png' in output.get('data', {}) for output in outputs) >= 3
  assert os.path.getsize(NOTEBOOK) < 700_000


@pytest.mark.drill
def test_the_notebook_runs_in_an_environment_of_its_own(tmp_path):
  """With nothing installed but Jupyter's kernel: the notebook installs what it needs."""
  shutil.copytree(configurations.ROOT, tmp_path / 'copy', ignore=shutil.ignore_patterns('.*', 'runs', '__pycache__'))
  untrained_run(tmp_path / 'copy' / 'runs' / 'phrasebook')
  subprocess.run([sys.executable, '-m', 'venv', tmp_path / 'venv'], check=True)
  python = tmp_path / 'venv' / 'bin' / 'python'
  needed = [line for line in open(os.path.join(configurations.ROOT, 'requirements-test.txt'), encoding='utf-8')
            if line.startswith(('ipykernel', 'nbclient'))]
  (tmp_path / 'kernel.txt').write_text(''.join(needed))
  subprocess.run([python, '-m', 'pip', 'install', '-q', '-r', tmp_path / 'kernel.txt'], check=True)
  subprocess.run([python, '-c', EXECUTE, tmp_path / 'copy' / 'docs'], check=True)
  assert (tmp_path / 'copy' / 'runs' / 'phrasebook' / 'report.html').exists()


EXECUTE = """
import os, sys
import nbclient, nbformat
os.environ['PATH'] = os.path.dirname(sys.executable) + os.pathsep + os.environ['PATH']
notebook = nbformat.read(sys.argv[1] + '/explorer.ipynb', as_version=4)
nbclient.NotebookClient(notebook, timeout=1800, resources={'metadata': {'path': sys.argv[1]}}).execute()
"""
