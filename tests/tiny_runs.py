"""Whole runs of a tiny model on three small splits of text: what several test files train, stop and compare."""

import json
import os
import subprocess
import sys

import jax
import numpy as np

from options import train_options
from options.configurations import ROOT

PROGRAMS = os.environ['JAX_COMPILATION_CACHE_DIR']  # set in conftest.py
WORDS = {'one': 'eins', 'two': 'zwei', 'three': 'drei', 'dog': 'Hund', 'cat': 'Katze', 'house': 'Haus', 'tree': 'Baum'}
TINY = ['--config.model.d_model=16', '--config.model.num_heads=2', '--config.model.num_layers=1',
        '--config.model.d_ff=24', '--config.vocabulary.size=300', '--config.train.batch_tokens=256',
        '--config.data.max_shapes=1', '--config.data.max_length=16', '--config.data.test_splits=("test",)',
        '--config.train.log_every=2', '--config.train.eval_every=4', '--config.train.checkpoint_every=2',
        '--config.train.eval_sentences=5', '--config.train.average_last=2', '--config.search.extra_length=6']


# train.py with a function, one of PHASES, that announces its beginning, and begins a little later.
ANNOUNCED = '''
import importlib, sys, time
import decode
import train
from options import programs, train_options
from training import stopping

module, *names = sys.argv.pop(1).split('.')
place = importlib.import_module(module.replace('/', '.'))
for name in names[:-1]:
  place = getattr(place, name)
phase = getattr(place, names[-1])

def announced(*inputs, **named):
  print('PHASE', file=sys.stderr, flush=True)
  time.sleep(1)
  return phase(*inputs, **named)

setattr(place, names[-1], announced)
programs.run(lambda: stopping.end(train.main(train_options.parse(sys.argv, ''))))
'''
PHASES = ['train.prepare', 'transformer/partitioning.CompiledStep.program', 'transformer/partitioning.CompiledStep.__call__',
          'training/evaluation.totals', 'decoding/translator.Translator.translate', 'training/checkpoint.Checkpoints.save',
          'train.conclude']


def write_corpus(folder):
  """Write three small splits, a file for each language, and return the folder."""
  draw = np.random.default_rng(0)
  for split, size in (('train', 150), ('val', 11), ('test', 7)):
    sentences = [[str(word) for word in draw.choice(list(WORDS), draw.integers(2, 5))] for _ in range(size)]
    (folder / f'{split}.en').write_text(''.join(' '.join(s) + '\n' for s in sentences))
    (folder / f'{split}.de').write_text(''.join(' '.join(WORDS[w] for w in s) + '\n' for s in sentences))
  return folder


def arguments(corpus, workdir, *more):
  """What train.py is given for a tiny run on the corpus. What a run compiles, all tests find."""
  return ['train.py', f'--config={ROOT}/configs/multi30k.py:adam', f'--config.data.directory={corpus}',
          f'--config.compile_cache={PROGRAMS}', f'--workdir={workdir}', *TINY, *more]


def options(corpus, workdir, *more):
  return train_options.parse(arguments(corpus, workdir, *more), '')


def start(corpus, workdir, *more):
  """The run as a process of its own."""
  return subprocess.Popen([sys.executable, *arguments(corpus, workdir, *more)], cwd=ROOT, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)


def saved(workdir, step=8):
  """Every array of a checkpoint, by name."""
  import orbax.checkpoint as ocp
  place = os.path.join(workdir, 'checkpoints', str(step), 'state')
  with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as reader:  # as NumPy's: whatever devices it was saved from
    wanted = jax.tree.map(lambda leaf: ocp.RestoreArgs(restore_type=np.ndarray), reader.metadata(place).item_metadata.tree)
    tree = reader.restore(place, args=ocp.args.PyTreeRestore(restore_args=wanted))
  return {jax.tree_util.keystr(path): in_numbers(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def in_numbers(leaf):
  """An array as NumPy's; of random keys, their bits."""
  is_key = jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
  return np.asarray(jax.random.key_data(leaf) if is_key else leaf)


CLOCKS = ('seconds', 'train/tokens_per_second', 'train/tflops', 'train/input_wait', 'train/compile_seconds')


def metrics(workdir):
  """What was measured, without what depends on the clock."""
  with open(os.path.join(workdir, 'metrics.jsonl')) as file:
    lines = [json.loads(line) for line in file]
  return [{k: v for k, v in line.items() if k not in CLOCKS} for line in lines]
