"""Execute docs/explorer.ipynb on a trained run and keep what its cells show: `make docs`.

    python -m benchmarks.notebook --workdir=runs/phrasebook
    python -m benchmarks.notebook --workdir=runs/phrasebook --output=elsewhere.ipynb

The report's own page is left out of what is kept: a picture of it stands in the notebook's text.
"""

import argparse
import copy
import os
import pathlib

import nbclient
import nbformat

from checks.whole_files import write_whole
from options import programs

ROOT = pathlib.Path(__file__).resolve().parent.parent
NOTEBOOK = ROOT / 'docs' / 'explorer.ipynb'
_RUN = "RUN = 'runs/phrasebook'"  # as the notebook names its run
_MOST_SECONDS = 1800  # for a cell, which may install or train


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument('--workdir', default='runs/phrasebook', help='folder of the run (default runs/phrasebook)')
  parser.add_argument('--notebook', default=str(NOTEBOOK), help='the notebook to execute (default docs/explorer.ipynb)')
  parser.add_argument('--output', help='file to write (default: the notebook itself)')
  options = parser.parse_args()
  executed = execute(nbformat.read(options.notebook, as_version=4), options.workdir,
                     os.path.dirname(os.path.abspath(options.notebook)))
  write_whole(options.output or options.notebook, nbformat.writes(executed) + '\n')


def execute(notebook: nbformat.NotebookNode, workdir: str, folder: str) -> nbformat.NotebookNode:
  """Return the notebook with what its cells show for a run; raises nbclient's CellExecutionError where one fails.

  Args:
    folder: the one in which Jupyter would start.
  """
  cells = [cell for cell in notebook.cells if cell.cell_type == 'code']
  named = next(cell for cell in cells if _RUN in cell.source)
  named.source = named.source.replace(_RUN, f'RUN = {os.path.abspath(workdir)!r}')
  client = nbclient.NotebookClient(notebook, timeout=_MOST_SECONDS, kernel_name='python3', record_timing=False,
                                   coalesce_streams=True, resources={'metadata': {'path': folder}})
  metadata = copy.deepcopy(notebook.metadata)
  client.execute()
  notebook.metadata = metadata  # without this machine's versions
  named.source = named.source.replace(f'RUN = {os.path.abspath(workdir)!r}', _RUN)
  for cell in cells:
    for output in cell.outputs:
      if 'text/html' in output.get('data', {}):
        del output.data['text/html']
  return notebook


if __name__ == '__main__':
  programs.run(main)
