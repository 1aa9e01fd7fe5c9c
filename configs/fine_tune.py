"""A language model fine-tuned on labelled text, with the input formats of Radford et al. (2018), Figure 1.

    python train.py --config=configs/fine_tune.py:entailment --config.init_from=runs/lm --workdir=runs/entailment
    python train.py --config=configs/fine_tune.py:classification --config.data.kind=labelled_tsv \\
        --config.data.tsv=labelled.tsv --config.init_from=runs/lm --workdir=runs/mine

Data: by default generated from the phrasebook's grammar (20,000 examples); a file of yours has a label and then the
text, or texts, in tab-separated columns. Without init_from training starts from random weights, for comparison.
Hardware: two CPU cores, six minutes or more.
Expected: accuracy 0.740 for entailment, 0.743 for similarity, 1.000 for classification and 0.323 for multiple_choice,
from `configs/language_model.py:phrasebook`; see docs/fine_tuning.md.
"""

from configs import language_model

VARIANTS = ('entailment', 'similarity', 'classification', 'multiple_choice')


def get_config(arg: str = VARIANTS[0]):
  """Return the configuration of a task: entailment (the default), similarity, classification or multiple_choice."""
  if arg not in VARIANTS:
    raise ValueError(f'configs/fine_tune.py has no variant {arg!r}; it has {", ".join(VARIANTS)}')
  config = language_model.get_config()  # sizes and vocabulary are those of the language model that training starts from
  config.data.kind = 'labelled_phrasebook'
  config.data.text = None
  config.data.task = arg
  config.data.max_shapes = 4
  config.vocabulary.control_symbols = ('<delimiter>', '<extract>')

  config.optimizer.learning_rate_scale = 0.25
  config.optimizer.warmup_steps = 200
  config.train.batch_tokens = 4096  # four answers of 128 tokens, in eight rows
  config.train.num_steps = 1500
  config.train.first_eval = 0
  config.train.eval_every = 250
  config.train.checkpoint_every = 250
  return config
