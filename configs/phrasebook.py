"""The embedded corpus: English-German sentences from a grammar of our own, trained in minutes on a laptop.

    python train.py --config=configs/phrasebook.py --workdir=runs/phrasebook

Data: generated offline by corpora/phrasebook/builder.py; nothing is downloaded.
Hardware: two CPU cores, eight to nine minutes.
Expected: sacreBLEU of about 99 on held-out text; the README has what three seeds reach, and what it means.
"""

from configs import default


def get_corpus():
  """Return the defaults with the phrasebook for a corpus, in batches and intervals of a run of minutes."""
  config = default.get_config()
  config.data.kind = 'phrasebook'
  config.data.source_language = 'en'
  config.data.target_language = 'de'
  config.data.max_length = 64
  config.data.max_shapes = 4  # each takes seconds to compile
  config.vocabulary.size = 2000  # common words are whole, names are spelt from pieces

  config.train.batch_tokens = 2048  # twice the updates of 4096 in the same time
  config.train.log_every = 20
  config.train.checkpoint_every = 250  # each takes a second
  config.train.first_eval = 100
  config.train.eval_every = 500
  config.train.eval_sentences = 100
  return config


def get_config(arg: str = ''):
  """Return the configuration; it has no variants, so `arg` must be empty."""
  if arg:
    raise ValueError(f'configs/phrasebook.py has no variant {arg!r}')
  config = get_corpus()
  config.data.max_shapes = None
  config.data.batching = 'packed'  # one shape to compile, and sentences of all kinds in every batch
  config.data.packed_length = 48

  config.model.d_model = 128
  config.model.num_heads = 4
  config.model.num_layers = 3
  config.model.d_ff = 512
  config.model.norm = 'pre'
  config.model.positions = 'rotary'  # names and "it" are learnt in fewer steps than with the paper's sinusoids
  config.model.dropout = 0.0

  config.optimizer.kind = 'muon'
  config.optimizer.momentum = 0.95
  config.optimizer.muon_rms = 0.5
  config.optimizer.schedule = 'linear'
  config.optimizer.peak = 4.4e-3
  config.optimizer.warmup_steps = 100
  config.optimizer.decay_steps = 1900
  config.optimizer.final_share = 0.05  # the rate with which a lengthened run goes on
  # Without decay, what decides "it" is remembered word by word, and words in new places are not understood.
  config.optimizer.weight_decay = 0.8
  config.optimizer.clip_norm = 1.0

  config.train.label_smoothing = 0.0  # every sentence has one right translation
  config.train.num_steps = 1900  # steps, not minutes: a slow machine takes longer and learns as much
  config.train.average_last = 1  # at its end the rate is so small that a mean of states gains nothing
  return config
