"""WMT 2014, English to German, as in the paper: `:base` (default) and `:big`.

    python train.py --config=configs/wmt_de_en.py --workdir=runs/wmt_de_en
    python train.py --config=configs/wmt_de_en.py:big --workdir=runs/wmt_de_en_big

Data: TFDS wmt14_translate/de-en, about 4.5 million pairs to train; validation is newstest2013 and the test set is
newstest2014 in full (3,003 lines, sacreBLEU's wmt14/full).
Hardware: the paper trained base in 12 hours and big in 3.5 days on 8 P100. A GPU or TPU is needed in practice.
Expected: not run by us. The paper reports BLEU 27.3 (base) and 28.4 (big): tokenised, compounds split, beam 4,
alpha 0.6, the last 5 or 20 checkpoints averaged. sacreBLEU on raw text, which we report, is lower for the same
translations.
"""

from configs import default

VARIANTS = ('base', 'big')


def get_config(arg: str = 'base'):
  """Return the configuration of a row of the paper's Table 2: 'base' or 'big'."""
  if arg not in VARIANTS:
    raise ValueError(f'configs/wmt_de_en.py has no variant {arg!r}; it has {", ".join(VARIANTS)}')
  config = default.get_config()
  config.data.kind = 'tfds'
  config.data.tfds_name = 'wmt14_translate/de-en'
  config.data.source_language = 'en'
  config.data.target_language = 'de'
  config.vocabulary.size = 37000
  if arg == 'big':
    set_big(config)
  return config


def set_big(config) -> None:
  """Set Table 3's row "big", its dropout for English to German included, with §6.1's averaging."""
  config.model.d_model = 1024
  config.model.num_heads = 16
  config.model.d_ff = 4096
  config.model.dropout = 0.3
  config.train.num_steps = 300_000
  config.train.checkpoint_every = 600  # the paper's ten minutes, at its second a step
  config.train.eval_every = 6000
  config.train.average_last = 20
  config.train.keep_last = 20
