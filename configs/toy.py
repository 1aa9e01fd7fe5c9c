"""A toy translator, as in tutorials, on one downloaded file of sentence pairs.

    python train.py --config=configs/toy.py --config.data.tsv=deu.txt --workdir=runs/toy

4 + 4 layers of 8 heads, two vocabularies of 10,002 entries, batches of 64 sentences padded to 41 (source) and 42
(target) tokens, 30 epochs. Longer pairs are left out and counted.
Data: a file with an English sentence, a tab, and its German translation on each line, such as the Tatoeba pairs of
manythings.org; further columns are ignored. The file has no splits: 1,000 pairs each are held out for validation and
test, and none of their sentences, in either language, is trained on. A file of JSON lines, {"source": …, "target": …},
is read with --config.data.kind=jsonl --config.data.jsonl=pairs.jsonl.
Hardware: two CPU cores, hours; any GPU, minutes.
Expected: not run by us.
"""

from configs import default


def get_config(arg: str = ''):
  """Return the configuration; it has no variants, so `arg` must be empty."""
  if arg:
    raise ValueError(f'configs/toy.py has no variant {arg!r}')
  config = default.get_config()
  config.data.kind = 'tsv'
  config.data.tsv = 'deu.txt'
  config.data.source_language = 'en'
  config.data.target_language = 'de'
  config.data.batching = 'fixed'
  config.data.fixed_rows = 64
  config.data.fixed_source_length = 41
  config.data.fixed_target_length = 42
  config.data.max_length = 42

  config.vocabulary.kind = 'bpe'
  config.vocabulary.size = 10_002  # for each language: 10,000 and two, special entries included
  config.vocabulary.joint = False

  config.model.d_model = 128
  config.model.num_heads = 8
  config.model.num_layers = 4
  config.model.d_ff = 512
  config.model.share_embeddings = False  # two vocabularies; the output projection still is the target embedding

  config.train.num_steps = None
  config.train.num_epochs = 30
  config.train.checkpoint_every = 1000
  config.train.eval_every = 2000
  return config
