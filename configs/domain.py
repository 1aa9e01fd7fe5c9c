"""A run, imported or trained here, fine-tuned on text of one's own domain.

    python train.py --config=configs/domain.py:runs/opus --config.data.tsv=domain.tsv --workdir=runs/domain
    … --config.data.mix="('general*0.5',)"      # half of the general pairs besides, against forgetting

Data: pairs in one tab-separated file; the general text of data.mix lies in a folder.
The variant is the folder of the run to start from: its model, vocabulary and search are taken from its config.json.
Without it the model is the paper's base model. The best checkpoint, which decode.py --checkpoint=best takes, is the one to
translate with: the run ends five evaluations after it. Expected: see docs/domain.md, which measures a small model.
"""

import json
import os

from configs import default

_TAKEN = ('model', 'recurrent', 'search')


def get_config(arg: str = ''):
  """Return the configuration for fine-tuning the run in the folder `arg`."""
  config = default.get_config()
  config.data.kind = 'tsv'
  config.data.tsv = 'domain.tsv'
  if arg:
    path = os.path.join(os.path.expanduser(arg), 'config.json')
    if not os.path.isfile(path):
      raise ValueError(f'configs/domain.py has no variant {arg!r}: expected the folder of a run, and there is no {path}')
    with open(path, encoding='utf-8') as file:
      saved = json.load(file)
    for section in _TAKEN:
      config[section].update({name: value for name, value in saved.get(section, {}).items() if name in config[section]})
    config.vocabulary.joint = saved['vocabulary']['joint']
    config.data.source_language = saved['data']['source_language']
    config.data.target_language = saved['data']['target_language']
    config.init_from = arg

  config.optimizer.schedule = 'constant'
  config.optimizer.peak = 1e-4
  config.optimizer.warmup_steps = 100
  config.train.batch_tokens = 4096
  config.train.num_steps = 3000
  config.train.eval_every = 100
  config.train.checkpoint_every = 100
  config.train.patience = 5  # the best checkpoint is kept
  config.train.average_last = 1  # a mean of the last ones would be one of those that became no better
  return config
