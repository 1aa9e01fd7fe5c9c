"""WMT 2014, English to French, as in the paper: `:base` (default) and `:big`.

    python train.py --config=configs/wmt_en_fr.py --workdir=runs/wmt_en_fr
    python train.py --config=configs/wmt_en_fr.py:big --workdir=runs/wmt_en_fr_big

Data: TFDS wmt14_translate/fr-en, about 40 million pairs to train (the paper says 36); validation is newstest2013 and
the test set is newstest2014 (3,003 lines). The paper's 32,000 word pieces are 32,000 BPE pieces here.
Hardware: the paper trained on 8 P100, base for 12 hours and big for 3.5 days. A GPU or TPU is needed in practice.
Expected: not run by us. The paper reports BLEU 38.1 (base) and 41.8 (big) on tokenised text, beam 4, alpha 0.6, the
last 5 or 20 checkpoints averaged; sacreBLEU on raw text, which we report, cannot be compared with that.
"""

from configs import default, wmt_de_en

VARIANTS = ('base', 'big')


def get_config(arg: str = 'base'):
  """Return the configuration of a row of the paper's Table 2: 'base' or 'big'."""
  if arg not in VARIANTS:
    raise ValueError(f'configs/wmt_en_fr.py has no variant {arg!r}; it has {", ".join(VARIANTS)}')
  config = default.get_config()
  config.data.kind = 'tfds'
  config.data.tfds_name = 'wmt14_translate/fr-en'
  config.data.source_language = 'en'
  config.data.target_language = 'fr'
  config.vocabulary.size = 32000
  if arg == 'big':
    wmt_de_en.set_big(config)
    config.model.dropout = 0.1  # §6.1: big used 0.1 instead of 0.3 for English to French
  return config
