"""The paper's Table 3, a variant a row: `:base`, `:A1`–`:A4`, `:B1`, `:B2`, `:C1`–`:C7`, `:D1`–`:D4`, `:E`, `:big`.

    python sweep.py --config=configs/table3.py --rows=base,A1,A4,E --seeds=3 --workdir=runs/table3
    python train.py --config=configs/table3.py:A1 --workdir=runs/A1

Data: WMT14 English to German as in configs/wmt_de_en.py; scored on the development set newstest2013 with beam search
and without averaging, as the table was (§6.2). Another corpus: --config.data.… on either command.
Hardware: on 8 P100 the paper's base took 12 hours and big 3.5 days; it has no times for the other rows.
Expected: the paper's columns are below. Its BLEU is of tokenised text; ours, of raw text, is lower for the same
translations. Its perplexity is per word piece of its own vocabulary. Not run by us. Parameter counts:
docs/table3.md.
"""

from typing import NamedTuple

from configs import wmt_de_en


class Row(NamedTuple):
  """What a row changes in base, and what the paper reports for it."""

  changes: dict[str, int | float | str]
  perplexity: float  # per word piece, newstest2013
  bleu: float  # newstest2013
  parameters: int | None  # millions; None where the table leaves it empty, which is "as base"


# d_k and d_v follow from d_model / num_heads wherever a row does not set them: in (A) they are 512, 128, 32 and 16, in
# C4 32 and in C5 128, as in the paper. In (B) d_v stays 64.
VARIANTS = {
    'base': Row({}, 4.92, 25.8, 65),
    'A1': Row({'model.num_heads': 1}, 5.29, 24.9, None),
    'A2': Row({'model.num_heads': 4}, 5.00, 25.5, None),
    'A3': Row({'model.num_heads': 16}, 4.91, 25.8, None),
    'A4': Row({'model.num_heads': 32}, 5.01, 25.4, None),
    'B1': Row({'model.d_k': 16}, 5.16, 25.1, 58),
    'B2': Row({'model.d_k': 32}, 5.01, 25.4, 60),
    'C1': Row({'model.num_layers': 2}, 6.11, 23.7, 36),
    'C2': Row({'model.num_layers': 4}, 5.19, 25.3, 50),
    'C3': Row({'model.num_layers': 8}, 4.88, 25.5, 80),
    'C4': Row({'model.d_model': 256}, 5.75, 24.5, 28),
    'C5': Row({'model.d_model': 1024}, 4.66, 26.0, 168),
    'C6': Row({'model.d_ff': 1024}, 5.12, 25.4, 53),
    'C7': Row({'model.d_ff': 4096}, 4.75, 26.2, 90),
    'D1': Row({'model.dropout': 0.0}, 5.77, 24.6, None),
    'D2': Row({'model.dropout': 0.2}, 4.95, 25.5, None),
    'D3': Row({'train.label_smoothing': 0.0}, 4.67, 25.3, None),
    'D4': Row({'train.label_smoothing': 0.2}, 5.47, 25.7, None),
    'E': Row({'model.positions': 'learned'}, 4.92, 25.7, None),
    'big': Row({'model.d_model': 1024, 'model.d_ff': 4096, 'model.num_heads': 16, 'model.dropout': 0.3,
                'train.num_steps': 300_000}, 4.33, 26.4, 213),
}
# The figures that sweep.py prints beside our own.
PUBLISHED = {name: {'bleu': row.bleu, 'parameters': 1e6 * (row.parameters or VARIANTS['base'].parameters)}
             for name, row in VARIANTS.items()}


def get_config(arg: str = 'base'):
  """Return the configuration of a row of Table 3."""
  if arg not in VARIANTS:
    raise ValueError(f'configs/table3.py has no variant {arg!r}; it has {", ".join(VARIANTS)}')
  config = wmt_de_en.get_config()
  config.data.test_splits = ()  # the development set is what the table scores
  config.train.average_last = 1
  config.update_from_flattened_dict(VARIANTS[arg].changes)
  return config
