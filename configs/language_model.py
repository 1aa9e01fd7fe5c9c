"""A decoder-only language model on running text: a file, or the phrasebook's English; also in GPT's and GPT-2's sizes.

    python train.py --config=configs/language_model.py --config.data.text=text.txt --workdir=runs/lm
    echo "Once upon a time" | python decode.py --workdir=runs/lm
    python train.py --config=configs/language_model.py:phrasebook --workdir=runs/lm_phrasebook

Data: a text of a megabyte or more, plain or .gz; its last tenth is held out, half to validate and half to test.
Hardware: two CPU cores, minutes.
Expected: tinyshakespeare, 1,003,856 bytes to train on: 2.6672 bits per byte (perplexity 61.4 per token, 6.35 per byte)
on the 55,780 bytes that validate, after 300 of the 1,500 steps; the whole length has not been run by us.
`:phrasebook` was run to fine-tune from it (docs/fine_tuning.md); its own bits per byte were not recorded.
`:gpt` and `:gpt2_xl` need accelerators and have not been run by us; their parameters are counted
(docs/language_model.md).
"""

from configs import default


def get_config(arg: str = ''):
  """Return the configuration of a small model for a laptop, on a file; or one of VARIANTS."""
  config = default.get_config()
  config.model.architecture = 'language_model'
  config.data.kind = 'running_text'
  config.data.text = 'text.txt'
  config.data.max_length = 128
  config.data.max_shapes = 1  # all blocks but each document's last are equally long
  config.vocabulary.size = 1024
  config.vocabulary.dummy_prefix = False  # a word at the start of a line is spelt in other pieces than after a space
  config.vocabulary.control_symbols = ('<delimiter>', '<extract>')  # so that it can be fine-tuned

  # GPT-2's layers (Radford et al., 2019, §2.3), narrow.
  config.model.d_model = 128
  config.model.num_heads = 4
  config.model.num_layers = 4
  config.model.d_ff = 512
  set_gpt2_layers(config)
  config.model.max_positions = 128

  config.optimizer.warmup_steps = 400  # a peak of 4.4e-3
  config.optimizer.clip_norm = 1.0

  config.train.label_smoothing = 0.0
  config.train.batch_tokens = 2048
  config.train.num_steps = 1500
  config.train.log_every = 20
  config.train.checkpoint_every = 100
  config.train.first_eval = 100
  config.train.eval_every = 300
  config.train.average_last = 1

  config.search.strategy = 'sample'
  config.search.temperature = 0.8
  config.search.top_p = 0.95
  config.search.extra_length = 64
  if arg and arg not in VARIANTS:
    raise ValueError(f'configs/language_model.py has no variant {arg!r}; it has {", ".join(VARIANTS)}')
  if arg:
    VARIANTS[arg](config)
  return config


def set_gpt2_layers(config) -> None:
  """Set GPT-2's layers: pre-norm with a final normalisation, GELU, learned positions, biases everywhere."""
  config.model.norm = 'pre'
  config.model.activation = 'gelu'
  config.model.positions = 'learned'
  config.model.attention_bias = True
  config.model.layer_norm_epsilon = 1e-5


def set_phrasebook(config) -> None:
  """Set the embedded corpus's English sentences, made offline, as text; configs/fine_tune.py starts from this run."""
  config.data.kind = 'phrasebook_text'
  config.data.text = None
  config.data.source_language = 'en'
  config.data.max_shapes = 4
  config.train.batch_tokens = 4096
  config.search.extra_length = 40


def set_gpt(config) -> None:
  """Set GPT (Radford et al., 2018, §4.1): 117 M parameters; AdamW, 64 × 512 tokens a batch, 100 epochs."""
  set_gpt2_layers(config)
  config.model.norm = 'post'
  config.model.d_model = 768
  config.model.num_heads = 12
  config.model.num_layers = 12
  config.model.d_ff = 3072
  config.model.max_positions = 512
  config.model.attention_dropout = 0.1
  config.vocabulary.size = 40_478
  config.data.max_length = 512
  config.optimizer.kind = 'adamw'
  config.optimizer.weight_decay = 0.01
  config.optimizer.schedule = 'cosine'
  config.optimizer.peak = 2.5e-4
  config.optimizer.warmup_steps = 2000
  config.optimizer.beta2 = 0.999  # the paper is silent; Adam's own
  config.optimizer.epsilon = 1e-8
  config.train.batch_tokens = 64 * 512
  config.train.num_steps = None
  config.train.num_epochs = 100
  _set_long_run(config)


def set_gpt2_xl(config) -> None:
  """Set GPT-2 XL (Radford et al., 2019, Table 2's last row): 1,542 M parameters in print, 1,558 M as published.

  The optimiser is GPT's: the paper only says that learning rates were tuned by hand.
  """
  set_gpt(config)
  config.model.norm = 'pre'
  config.model.d_model = 1600
  config.model.num_heads = 25
  config.model.num_layers = 48
  config.model.d_ff = 6400
  config.model.max_positions = 1024
  config.model.scan_layers = True  # 48 layers compile as one
  config.model.remat = True
  config.vocabulary.size = 50_257
  config.data.max_length = 1024
  config.train.batch_tokens = 512 * 1024  # §2.3: 512 sequences of 1024 tokens


def _set_long_run(config) -> None:
  config.train.log_every = 100
  config.train.checkpoint_every = 1000
  config.train.first_eval = 0
  config.train.eval_every = 1000
  config.search.extra_length = 100


VARIANTS = {'phrasebook': set_phrasebook, 'gpt': set_gpt, 'gpt2_xl': set_gpt2_xl}
