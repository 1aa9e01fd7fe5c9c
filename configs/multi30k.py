"""Multi30k, English to German, from two text files per split; the pattern for your own parallel text.

    python train.py --config=configs/multi30k.py --config.data.directory=data/multi30k --workdir=runs/m30k
    python train.py --config=configs/multi30k.py:muon --config.data.directory=data/multi30k --workdir=runs/m30k_muon
    python train.py --config=configs/multi30k.py:quick --config.data.directory=data/multi30k --workdir=runs/m30k_quick
    python train.py --config=configs/multi30k.py:overnight --config.data.directory=data/multi30k --workdir=runs/m30k_8h

Variants: `:muon` takes 8,000 small updates by Muon in packed rows, and is the one to choose; `:quick` a thousand of them,
for a first look. The default is Adam's hour, and `:overnight` trains on three times as many batches as it, each twice as
large; `:rdrop`, `:simcut` and `:bpe_dropout` add one regulariser to it, with the same number of updates of the same size.
Data: train, val and test_2016_flickr, each as <split>.en and <split>.de, plain or .gz; 29,000 pairs to train. Where
test_2017_flickr and test_2017_mscoco are there, they are scored, too; a run says at its start which are missing.
Hardware: two CPU cores, an hour, or one core and two hours for `:muon`; `:quick` about ten minutes; `:overnight` about
seven hours; `:rdrop` and `:simcut` make two passes an update.
Expected, in sacreBLEU (cased, raw, 13a) on test_2016_flickr by beam 4: `:muon` 41.2 and 40.6 (seeds 0 and 1), which
papers would print as 41.65 and 41.05; the default 39.4 after its hour, five epochs averaged; `:quick` 32.6.
benchmarks/RESULTS.md has the method. The others have not been run to their ends by us; after 18 of their 120 epochs the
regularisers still cost more than they give (docs/training_options.md).
"""

from configs import default

# The recipe of configs/phrasebook.py: packed rows, which are one shape to compile, and Muon. An epoch is 243 updates.
_MUON = {
    'data.batching': 'packed',
    'data.packed_length': 64,
    'model.positions': 'rotary',
    'optimizer.kind': 'muon',
    'optimizer.momentum': 0.95,
    'optimizer.muon_rms': 0.5,
    'optimizer.schedule': 'linear',
    'optimizer.learning_rate_scale': 1.0,
    'optimizer.peak': 3e-3,
    'optimizer.warmup_steps': 200,
    'optimizer.decay_steps': 8000,
    'optimizer.final_share': 0.05,
    'optimizer.weight_decay': 0.1,
    'train.batch_tokens': 2048,
    'train.num_minutes': None,
    'train.num_steps': 8000,  # steps, not minutes: a slow machine takes longer and learns as much
    'train.checkpoint_every': 400,
    'train.eval_every': 400,
    'train.average_last': 1,
}
# Real text in minutes.
_QUICK = _MUON | {
    'optimizer.warmup_steps': 100,
    'optimizer.decay_steps': 1000,
    'train.num_steps': 1000,
    'train.checkpoint_every': 200,
    'train.eval_every': 500,
}
_OVERNIGHT = {
    'train.batch_tokens': 8192,
    'train.num_minutes': None,
    'train.num_steps': 8000,
    'train.checkpoint_every': 60,  # about an epoch
    'train.eval_every': 240,
    'train.average_last': 10,
}
# What each variant changes.
VARIANTS = {
    'quick': _QUICK,
    'muon': _MUON,
    'overnight': _OVERNIGHT,
    'rdrop': _OVERNIGHT | {'train.consistency': 'r_drop'},  # Liang et al., 2021, with their weight, 5
    'simcut': _OVERNIGHT | {'train.consistency': 'simcut'},  # Gao et al., 2022: weight 3, one token in twenty cut
    'bpe_dropout': _OVERNIGHT | {'data.subword_sampling': 'bpe_dropout'},  # Provilkov et al., 2020: one merge in ten dropped
}
# Where `sweep.py --search` looks, unless --ranges says otherwise.
SEARCH = {
    'optimizer.learning_rate_scale': ('log', 0.8, 8.0),
    'optimizer.warmup_steps': ('log', 500, 4000),
    'model.dropout': ('linear', 0.1, 0.5),
}


def get_config(arg: str = ''):
  """Return the configuration of an hour on two cores, or one of VARIANTS."""
  if arg and arg not in VARIANTS:
    raise ValueError(f'configs/multi30k.py has no variant {arg!r}; it has {", ".join(VARIANTS)}')
  config = default.get_config()
  config.data.kind = 'text'
  config.data.directory = 'data/multi30k'
  config.data.source_language = 'en'
  config.data.target_language = 'de'
  config.data.train_split = 'train'
  config.data.validation_split = 'val'
  config.data.test_splits = ('test_2016_flickr', 'test_2017_flickr', 'test_2017_mscoco')
  config.vocabulary.size = 8000

  # Small and strongly regularised: on 29,000 pairs larger models score worse (Wu et al., 2021, "Good for
  # Misconceived Reasons").
  config.model.d_model = 128
  config.model.num_heads = 4
  config.model.num_layers = 4
  config.model.d_ff = 256
  config.model.norm = 'pre'
  config.model.dropout = 0.3

  config.optimizer.learning_rate_scale = 2.5  # a peak of 4.9e-3
  config.optimizer.warmup_steps = 2000
  config.optimizer.clip_norm = 1.0

  config.train.batch_tokens = 4096
  config.train.num_steps = None
  config.train.num_minutes = 60
  config.train.log_every = 20
  config.train.checkpoint_every = 120  # about an epoch
  config.train.eval_every = 240
  config.train.eval_sentences = 300
  config.train.keep_last = 10
  config.train.average_last = 5

  config.update_from_flattened_dict(VARIANTS[arg] if arg else {})
  return config
