"""The embedded corpus: English-German sentences from a grammar of our own, trained in minutes on a laptop.

    python train.py --config=configs/phrasebook.py --workdir=runs/phrasebook

Data: generated offline by corpora/phrasebook.py; nothing is downloaded.
Hardware: two CPU cores, about four minutes.
Expected: not run by us yet as it stands; the aim is sacreBLEU of 95 on held-out text.
"""

from configs import default


def get_config(arg: str = ''):
  """It has no variants: `arg` must be empty."""
  if arg:
    raise ValueError(f'configs/phrasebook.py has no variant {arg!r}')
  config = default.get_config()
  config.data.kind = 'phrasebook'
  config.data.source_language = 'en'
  config.data.target_language = 'de'
  config.data.max_length = 64
  config.data.max_shapes = 4  # each takes seconds to compile
  config.vocabulary.size = 1200

  config.model.d_model = 128
  config.model.num_heads = 4
  config.model.num_layers = 3
  config.model.d_ff = 512
  config.model.norm = 'pre'

  config.optimizer.warmup_steps = 400  # a peak of 4.4e-3
  config.optimizer.clip_norm = 1.0

  config.train.batch_tokens = 4096
  config.train.num_steps = None
  config.train.num_minutes = 4
  config.train.log_every = 20
  config.train.checkpoint_every = 50
  config.train.eval_every = 100
  config.train.eval_sentences = 200
  config.train.average_last = 5
  return config
