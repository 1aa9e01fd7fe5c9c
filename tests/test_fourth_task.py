"""A task of one's own in one file: it trains through train.py, is scored, resumes after a kill, and answers lines."""

import dataclasses
import itertools
import json
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
from options.configurations import ROOT
from tasks import trained
from tasks.task import Task, only_run, task
from tests.tiny_runs import TINY, metrics
from training.evaluation import Evaluation, Score, per_token
from training.preservation import Measure

LINES = [' '.join(words) for words in itertools.permutations('one two three four'.split())]
LinesConfig = dataclasses.make_dataclass('LinesConfig', ['kind', 'seed'], namespace={'idle': dict})
KINDS.add('lines', Kind(load=None, holds='lines'))


@task
class Reversal(Task):
  """Write a line's words in reverse."""

  name, texts, rows, outputs, invitation, own_text = 'reversal', 'lines', 'lines', 'reversed.txt', 'Reverse a line', ''
  architectures, measure, corpus_record = ('transformer',), Measure('accuracy'), LinesConfig

  def read_corpus(self):
    split = lambda name, lines: in_memory(name, [Pair(line, ' '.join(line.split()[::-1])) for line in lines])
    return Corpus('lines', '', '', split('train', LINES[8:]), split('val', LINES[:4]), (split('test', LINES[4:8]),))

  def plan(self, split, batches, shuffle):
    return input_pipeline.plan_pairs(split, self.source, self.target, batches, self.setup.seed, self.text_folder, shuffle)

  def evaluate(self, params, sums, step):
    return Evaluation({'accuracy': per_token(sums)['accuracy']}, [], 'evaluated')

  def score(self, params, split, sums_of):
    return Score(found := per_token(sums_of(params, split)), self.describe(found), ['?' for _ in split], LINES[0])

  describe = classmethod(lambda cls, results: f'accuracy {results["accuracy"]:.3f}')

  @classmethod
  def load(cls, folders, wanted=('final',), search=None, n_best=1):
    run = trained.read_run(*only_run(folders, wanted), search)
    return Translator([run.model], [run.params], run.source, run.target, run.setup.search)

  @classmethod
  def answering(cls, folders, options, setup, say):
    translator = cls.load(folders, options.checkpoints, options.search)
    return PlainAnswers('reversing', translator.translate, translator.notes, lambda line: line)


def options(workdir):
  more = ['--config.data.kind=lines', '--config.train.num_steps=8', '--config.mesh.data=1', '--config.train.log_every=1',
          '--config.optimizer.warmup_steps=4']
  return train_options.read(['train.py', f'--config={ROOT}/configs/default.py', f'--workdir={workdir}',
                             *(flag for flag in TINY if 'eval_sentences' not in flag), *more])


def test_a_task_of_ones_own_needs_no_change_elsewhere(tmp_path):
  whole, killed = tmp_path / 'whole', tmp_path / 'killed'
  assert train.main(options(whole)) == 0
  script = ('import os, train; from tests import conftest, test_fourth_task as own; from training import checkpoint; '
            'save = checkpoint.Checkpoints.save\ndef dying(self, step, *more):\n  save(self, step, *more)\n'
            f'  step == 6 and os.kill(os.getpid(), 9)\ncheckpoint.Checkpoints.save = dying\ntrain.main(own.options({str(killed)!r}))')
  assert subprocess.run([sys.executable, '-c', script], cwd=ROOT, capture_output=True).returncode == -9
  assert train.main(options(killed)) == 0 and metrics(killed) == metrics(whole)
  assert json.loads((whole / 'results.json').read_text())['scores']['test']['accuracy'] > 0
  (tmp_path / 'in').write_text('four one two three\n')
  argv = ['decode.py', f'--workdir={whole}', f'--input={tmp_path}/in', f'--output={tmp_path}/out']
  assert decode.main(decode_options.parse(argv, '')) == 0 and len((tmp_path / 'out').read_text().splitlines()) == 1
