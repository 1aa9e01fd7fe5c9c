"""A small ablation that two cores can train: what heads, sizes, positions, scores, norms and attention itself are for.

    python sweep.py --config=configs/ablation.py --seeds=3 --workdir=runs/ablation
    python sweep.py --config=configs/ablation.py --rows=sutskever,bahdanau,base --seeds=3 --workdir=runs/ablation --by_length

Data: the phrasebook, made offline. All rows see the same number of batches of the same size.
Hardware: two CPU cores, about a minute a run.
"""

from configs import phrasebook

VARIANTS = {
    'base': {},
    'heads_1': {'model.num_heads': 1},
    'heads_2': {'model.num_heads': 2},
    'heads_8': {'model.num_heads': 8},
    'd_k_4': {'model.d_k': 4},
    'layers_1': {'model.num_layers': 1},
    'layers_4': {'model.num_layers': 4},
    'no_positions': {'model.positions': 'none'},
    'learned': {'model.positions': 'learned'},
    'relative': {'model.positions': 'relative'},
    't5': {'model.positions': 't5'},
    'rotary': {'model.positions': 'rotary'},
    'dot': {'model.attention_score': 'dot'},
    'multiplicative': {'model.attention_score': 'multiplicative'},
    'additive': {'model.attention_score': 'additive'},
    'pre_norm': {'model.norm': 'pre'},
}


def get_config(arg: str = 'base'):
  """The configuration of a row."""
  if arg not in VARIANTS:
    raise ValueError(f'configs/ablation.py has no variant {arg!r}; it has {", ".join(VARIANTS)}')
  config = phrasebook.get_config()
  config.data.max_shapes = 2
  config.vocabulary.size = 2000

  config.model.d_model = 64
  config.model.num_heads = 4
  config.model.num_layers = 2
  config.model.d_ff = 256
  config.model.norm = 'post'
  config.optimizer.warmup_steps = 200
  config.optimizer.learning_rate_scale = 0.5

  config.train.num_steps = 700
  config.train.eval_every = 10_000
  config.train.first_eval = 0
  config.train.checkpoint_every = 10_000
  config.train.average_last = 1
  config.update_from_flattened_dict(VARIANTS[arg])
  return config
