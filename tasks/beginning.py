"""What the options of a new run name beside its corpus, looked at before the corpus, which may take long to read.

Nothing is kept: the run reads all of it again where it is used.
"""

import os

import jax

from checks.errors import ConfigError, config_errors
from corpora import cleaning, text_files
from corpora.vocabulary import Vocabulary
from tasks.records import Setup
from tasks.task import best_of, vocabularies_of
from training import peers
from training.run_folder import RunFolder
from transformer import architectures


def check(setup: Setup, folder: RunFolder) -> None:
  """Raise the error of another run to start from, supplied vocabularies, text to mix in or to watch. All processes call it.

  Raises:
    ConfigError, DataError, CheckpointError: for what is not there, or does not fit this run.
  """
  if peers.agreed(folder.has_vocabularies()):  # the run has begun
    return
  for source in map(cleaning.source_of, setup.cleaning.mix):
    if not os.path.isdir(source.directory):
      raise ConfigError(f'config.data.mix names {source.directory}, which is no folder; expected one with files such as '
                        f'{setup.corpus.train_split}.{setup.corpus.source_language}')
  if (watched := setup.evaluation.watch_attention) not in (None, 'samples'):
    text_files.check_there(watched)
  if setup.places.init_from:
    _check_start(setup, setup.places.init_from)
  else:
    for path in filter(None, (setup.vocabulary.source_model, setup.vocabulary.target_model)):
      Vocabulary.load(path)


def _check_start(setup: Setup, workdir: str) -> None:
  """Raise an error when the best checkpoint of a run is not there, is damaged, or holds another model than this run's."""
  source, target = vocabularies_of(setup, workdir)
  with config_errors():
    model = architectures.build(setup.sized(source.size, target.size))
  with best_of(workdir) as (checkpoints, best):
    checkpoints.check_vocabularies(best, [source.fingerprint, target.fingerprint])
    checkpoints.check_fits(best, jax.eval_shape(model.init, jax.random.key(0)))
