"""Models that the Transformer replaced: `:bahdanau` (default), `:sutskever`, `:cho`, `:luong_dot`, `:luong_general`.

    python train.py --config=configs/recurrent.py:bahdanau --workdir=runs/bahdanau
    python train.py --config=configs/recurrent.py:bahdanau --config.data.kind=text \\
        --config.data.directory=data/multi30k --config.vocabulary.size=8000 --config.model.dropout=0.3 \\
        --workdir=runs/bahdanau_m30k

Data: the embedded corpus; or, as in the second command, Multi30k (see configs/multi30k.py), or files of yours.
Departures of all variants from the papers: subwords of one vocabulary, one matrix for both embeddings and the output,
Adam at Eq. 3 with label smoothing, recurrent matrices that start orthogonal, and sizes for two CPU cores.
Hardware: two CPU cores; a run of this length has not been timed by us.
Expected: not run by us at this size and length. A third as wide, after 700 steps as rows of configs/ablation.py,
bahdanau reaches 81.0 BLEU, luong_dot 63.5, cho 50.0 and sutskever 38.2 (docs/ablations.md); luong_general has not been
run by us.
"""

from configs import phrasebook


def sutskever(config) -> None:
  """Set "Sequence to Sequence Learning with Neural Networks" (Sutskever et al., 2014): no attention, reversed source.

  The paper: four LSTM layers of 1,000 cells, plain descent, words; EOS is read last (here, first).
  """
  config.model.num_layers = 2
  config.recurrent.cell = 'lstm'
  config.recurrent.bidirectional = False
  config.recurrent.reverse_source = True
  config.recurrent.score = 'none'
  config.recurrent.context = 'first'


def cho(config) -> None:
  """Set "Learning Phrase Representations using RNN Encoder-Decoder" (Cho et al., 2014): a summary enters every step.

  The paper: 1,000 units, Adadelta, phrases scored for another system; the output's maxout is followed by a
  projection of rank 100; in the decoder the reset gate acts behind the product with the state, and on the summary.
  """
  config.recurrent.cell = 'gru'
  config.recurrent.bidirectional = False
  config.recurrent.score = 'none'
  config.recurrent.context = 'every'


def bahdanau(config) -> None:
  """Set RNNsearch, "… Jointly Learning to Align and Translate" (Bahdanau et al., 2015).

  The paper: 1,000 units each way, embeddings of 620, a maxout of 500, Adadelta, words.
  """
  config.recurrent.cell = 'gru'
  config.recurrent.bidirectional = True
  config.recurrent.score = 'additive'


def luong_dot(config) -> None:
  """Set "Effective Approaches to Attention-based Neural Machine Translation" (Luong et al., 2015): global, dot.

  The paper: four LSTM layers of 1,000 cells, plain descent, words; source reversed, dropout 0.2, input feeding.
  """
  config.model.num_layers = 2
  config.recurrent.cell = 'lstm'
  config.recurrent.bidirectional = False
  config.recurrent.reverse_source = True
  config.recurrent.score = 'dot'
  config.recurrent.input_feeding = True


def luong_general(config) -> None:
  """Set luong_dot with a matrix between the two states (Luong et al., 2015, §3.1, "general")."""
  luong_dot(config)
  config.recurrent.score = 'general'


VARIANTS = {variant.__name__: variant for variant in (bahdanau, sutskever, cho, luong_dot, luong_general)}


def get_config(arg: str = 'bahdanau'):
  """Return one of VARIANTS on the phrasebook; the splits are named as Multi30k's files."""
  if arg not in VARIANTS:
    raise ValueError(f'configs/recurrent.py has no variant {arg!r}; it has {", ".join(VARIANTS)}')
  config = phrasebook.get_corpus()
  config.data.directory = 'data/multi30k'
  config.data.train_split = 'train'
  config.data.validation_split = 'val'
  config.data.test_splits = ('test_2016_flickr',)

  config.model.architecture = 'recurrent'
  config.model.d_model = 256
  config.model.num_layers = 1
  config.model.dropout = 0.0
  config.optimizer.clip_norm = 1.0
  config.optimizer.warmup_steps = 400
  config.train.num_steps = 2500
  VARIANTS[arg](config)
  return config
