"""A task of one's own in one file: it trains through train.py, is scored, goes on after a kill, and answers lines."""

import dataclasses
import itertools
import json
import os
import subprocess
import sys

import decode
import input_pipeline
import train
from corpora.config import KINDS, Kind
from corpora.splits import Corpus, Pair, in_memory
from decoding.answers import PlainAnswers
from decoding.translator import Translator
from options import decode_options, train_options
from tasks import trained
from tasks.task import Task, only_run, task
from training.checkpoint import Measure
from training.evaluation import Evaluation, Score, per_token

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LINES = [' '.join(words) for words in itertools.permutations('one two three four'.split())]
KINDS.add('lines', Kind(load=None, holds='lines'))


@dataclasses.dataclass(frozen=True)
class LinesConfig:
  kind: str
  seed: int
  idle = dict


@task
class Reversal(Task):
  """Write a line's words in reverse."""

  name, texts, rows, outputs, invitation, own_text = 'reversal', 'lines', 'lines', 'reversed.txt', 'Reverse a line', ''
  architectures, measure, corpus_record = ('transformer',), Measure('accuracy'), LinesConfig

  def read_corpus(self):
    split = lambda name, lines: in_memory(name, [Pair(line, ' '.join(line.split()[::-1])) for line in lines])
    return Corpus('lines', '', '', split('train', LINES[8:]), split('val', LINES[:4]), (split('test', LINES[4:8]),))

  def vocabulary_text(self):
    return self.corpus.train

  def known_words(self):
    return (word for pair in self.corpus.train for word in pair.source.split())

  def plan(self, split, batches, shuffle):
    return input_pipeline.plan_pairs(split, self.source, self.target, batches, self.setup.seed, self.text_folder, shuffle)

  def evaluate(self, params, sums, step):
    return Evaluation({'accuracy': per_token(sums)['accuracy']}, [], 'evaluated')

  def score(self, params, split, sums_of):
    results = {'accuracy': per_token(sums_of(params, split))['accuracy']}
    return Score(results, self.describe(results), [pair.target for pair in split], LINES[0])

  @classmethod
  def describe(cls, results):
    return f'accuracy {results["accuracy"]:.3f}'

  @classmethod
  def load(cls, workdirs, wanted=('final',), search=None, n_best=1):
    run = trained.read_run(*only_run(workdirs, wanted), search)
    return Translator([run.model], [run.params], run.source, run.target, run.setup.search)

  @classmethod
  def answering(cls, options, setup, say):
    translator = cls.load(options.workdirs, options.checkpoints, options.search)
    return PlainAnswers('reversing', translator.translate, translator.notes, lambda line: line)


def options(workdir, steps):
  tiny = {'model.d_model': 16, 'model.num_heads': 2, 'model.num_layers': 1, 'model.d_ff': 24, 'vocabulary.size': 290,
          'train.batch_tokens': 256, 'train.eval_every': 4, 'train.checkpoint_every': 1, 'train.average_last': 1,
          'train.log_every': 1, 'mesh.data': 1, 'data.kind': 'lines', 'train.num_steps': steps, 'search.extra_length': 4,
          'optimizer.warmup_steps': 4}
  return train_options.read(['train.py', f'--config={ROOT}/configs/default.py', f'--workdir={workdir}',
                             *(f'--config.{name}={value}' for name, value in tiny.items())])


def losses(workdir):
  return [json.loads(line).get('train/loss') for line in (workdir / 'metrics.jsonl').read_text().splitlines()]


def test_a_task_of_ones_own_needs_no_change_elsewhere(tmp_path, capsys):
  assert train.main(options(tmp_path / 'whole', 8)) == 0
  script = ('import os, train; from tests import conftest, test_fourth_task as own; from training.checkpoint import Checkpoints; '
            'save = Checkpoints.save\n'
            'def dying(self, step, *more):\n  save(self, step, *more)\n  step == 5 and os.kill(os.getpid(), 9)\n'
            f'Checkpoints.save = dying\ntrain.main(own.options({str(tmp_path / "killed")!r}, 8))')
  assert subprocess.run([sys.executable, '-c', script], cwd=ROOT, capture_output=True).returncode == -9
  assert train.main(options(tmp_path / 'killed', 8)) == 0 and losses(tmp_path / 'killed') == losses(tmp_path / 'whole')
  results = json.loads((tmp_path / 'whole' / 'results.json').read_text())
  assert results['scores']['test']['accuracy'] == results['accuracy'] > 0
  (tmp_path / 'in').write_text('four one two three\n')
  argv = ['decode.py', f'--workdir={tmp_path}/whole', f'--input={tmp_path}/in', f'--output={tmp_path}/out']
  assert decode.main(decode_options.parse(argv, '')) == 0 and len((tmp_path / 'out').read_text().splitlines()) == 1
