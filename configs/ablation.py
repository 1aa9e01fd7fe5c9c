"""A small ablation that two cores can train: the effect of heads, sizes, positions, scores, norms and attention itself.

    python sweep.py --config=configs/ablation.py --seeds=2 --workdir=runs/ablation
    python sweep.py --config=configs/ablation.py --rows=sutskever,cho,bahdanau,luong_dot,base --seeds=2 \\
        --workdir=runs/ablation --by_length

Data: the phrasebook, made offline. All rows train on equally many batches of the same sizes, and a row changes only
what it names: a variant that needs another learning rate or more updates shows no gain here.
Hardware: two CPU cores, one and a half to six minutes a run, two side by side.
Expected: BLEU of two seeds on the phrasebook's test split: base 78.7 ± 2.1, one head 77.3, no positions 65.3,
rotary 84.5, the plain dot product 70.7, bahdanau 81.0, cho 50.0, sutskever 38.2; docs/ablations.md has seventeen rows
with their method. heads_2, layers_4 and multiplicative have not been run by us, t5 in a test of lengths alone.
"""

from configs import phrasebook, recurrent

TRANSFORMERS = {
    'base': {},
    'heads_1': {'model.num_heads': 1},
    'heads_2': {'model.num_heads': 2},
    'heads_8': {'model.num_heads': 8},
    'd_k_4': {'model.d_k': 4},
    'layers_1': {'model.num_layers': 1},
    'layers_4': {'model.num_layers': 4},
    'pre_norm': {'model.norm': 'pre'},
    'no_positions': {'model.positions': 'none'},
    'learned': {'model.positions': 'learned'},
    'relative': {'model.positions': 'relative'},
    't5': {'model.positions': 't5'},
    'rotary': {'model.positions': 'rotary'},
    'dot': {'model.attention_score': 'dot'},
    'multiplicative': {'model.attention_score': 'multiplicative'},
    'additive': {'model.attention_score': 'additive'},
}
# The models that the Transformer replaced (configs/recurrent.py), in widths with about base's number of parameters.
RECURRENT_D_MODEL = {'sutskever': 80, 'cho': 88, 'bahdanau': 76, 'luong_dot': 76}
VARIANTS = (*TRANSFORMERS, *RECURRENT_D_MODEL)


def get_config(arg: str = 'base'):
  """Return the configuration of a row."""
  if arg not in VARIANTS:
    raise ValueError(f'configs/ablation.py has no variant {arg!r}; it has {", ".join(VARIANTS)}')
  config = phrasebook.get_corpus()
  config.data.max_shapes = 2  # fewer programs to compile are worth their padding in a short run

  config.model.d_model = 64
  config.model.num_heads = 4
  config.model.num_layers = 2
  config.model.d_ff = 256
  config.model.dropout = 0.0

  config.optimizer.learning_rate_scale = 0.5  # a peak of 4.4e-3 at d_model 64
  config.optimizer.warmup_steps = 200
  config.optimizer.clip_norm = 1.0

  config.train.num_steps = 700
  config.train.checkpoint_every = 1000  # the last state is saved in any case
  config.train.first_eval = 0
  config.train.eval_every = 1000  # none: the table uses only the final scores
  config.train.average_last = 1
  config.update_from_flattened_dict(TRANSFORMERS.get(arg, {}))
  if arg in RECURRENT_D_MODEL:
    config.model.architecture = 'recurrent'
    config.model.num_layers = 1  # unless the variant says otherwise
    recurrent.VARIANTS[arg](config)
    config.model.d_model = RECURRENT_D_MODEL[arg]
  return config
