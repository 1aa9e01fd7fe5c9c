"""Every option, once: the paper's base model (Vaswani et al., 2017) on WMT14. Other configs change a few of these.

The comment behind an option says what it means and in which unit; `python train.py --help` prints them from here.
An option without a value (a placeholder) is off or decided by the run. A FieldReference can be set to None, too.
"""

from collections.abc import Callable
from typing import Any

import ml_collections
from ml_collections import config_dict


def get_config(arg: str = '') -> ml_collections.ConfigDict:
  """The paper's base model. Takes no argument."""
  if arg:
    raise ValueError(f'configs/default.py has no variant {arg!r}')
  config = ml_collections.ConfigDict()
  config.seed = 0  # decides parameters, batches, dropout and which pairs of an unsplit file are held out
  config.init_from = config_dict.placeholder(str)  # folder of a run whose parameters and vocabulary to start from
  config.compile = 'jit'  # how a step becomes a program
  config.compile_cache = config_dict.placeholder(str)  # where compiled programs are kept; unset: in the run's folder
  config.mesh = ml_collections.ConfigDict()
  config.mesh.data = -1  # parts that a batch's rows are split into; -1: all devices, over fsdp * tensor
  config.mesh.fsdp = 1  # parts that rows are split into besides; parameters and the optimizer's state are split, too
  config.mesh.tensor = 1  # parts of attention heads, of d_ff and of the vocabulary

  config.model = model = ml_collections.ConfigDict()
  model.architecture = 'transformer'  # the kind of model
  model.d_model = 512  # width of embeddings and of every layer
  model.num_heads = 8  # attention heads
  model.num_layers = 6  # in the encoder, and again in the decoder
  model.num_decoder_layers = config_dict.placeholder(int)  # in the decoder; unset: num_layers
  model.d_ff = 2048  # inner width of the feed-forward network
  model.d_k = config_dict.placeholder(int)  # width of one head's queries and keys; unset: d_model / num_heads
  model.d_v = config_dict.placeholder(int)  # width of one head's values; unset: d_model / num_heads
  model.num_kv_heads = config_dict.placeholder(int)  # heads of keys and values; 1: multi-query; unset: num_heads
  model.attention_score = 'scaled_dot'  # how well a query and a key match
  model.positions = 'sinusoidal'  # how the model knows the order of tokens
  model.position_layout = 'interleaved'  # sinusoidal, rotary: which columns form a pair
  model.position_frequencies = 'paper'  # sinusoidal, rotary: angular frequency of pair i
  model.max_positions = 512  # learned: rows of the table, and so the longest text in tokens
  model.clip_distance = 16  # relative: tokens; farther is taken for this far
  model.num_buckets = 32  # t5: groups of distances
  model.max_distance = 128  # t5: tokens; from here on all share a group
  model.norm = 'post'  # where the normalization of a sub-layer stands
  model.normalization = 'layer_norm'  # the normalization
  model.layer_norm_epsilon = 1e-6  # added to the variance
  model.norm_bias = True  # layer_norm's shift
  model.activation = 'relu'  # of the feed-forward network
  model.feed_forward_bias = True  # b1 and b2 of Eq. 2
  model.attention_bias = False  # biases of the query, key, value and output projections
  model.dropout = 0.1  # on every sub-layer's output and on the embedding sums
  model.attention_dropout = 0.0  # on the attention weights
  model.activation_dropout = 0.0  # on the feed-forward network's hidden units
  model.share_embeddings = True  # one matrix for source, target and output; needs a joint vocabulary
  model.tie_output = True  # the output projection is the target embedding
  model.initializer = 'xavier_uniform'  # of projections
  model.dtype = 'float32'  # of activations and products; parameters stay in float32
  model.scan_layers = False  # layers as one loop: compiles faster, runs slower; only in training
  model.remat = False  # compute a layer's activations again for the gradient: less memory, a third more work

  # The recurrent encoder-decoders take from `model` d_model, num_layers, dropout, share_embeddings, tie_output,
  # initializer and dtype; the Transformer takes nothing from here.
  config.recurrent = recurrent = ml_collections.ConfigDict()
  recurrent.cell = 'gru'  # the recurrent unit
  recurrent.bidirectional = True  # the encoder reads both ways (Bahdanau et al., 2015); else one way
  recurrent.reverse_source = False  # one way: from the last token to the first (Sutskever et al., 2014)
  recurrent.score = 'additive'  # how well a state of the decoder and one of the encoder match
  recurrent.context = 'first'  # score none: where the source enters the decoder
  recurrent.input_feeding = False  # dot, general: the attentional vector enters the next step

  config.data = data = ml_collections.ConfigDict()
  data.kind = 'tfds'  # where text comes from, and what it is
  data.tfds_name = config_dict.FieldReference('wmt14_translate/de-en')  # kind tfds: the set's name
  data.tfds_dir = config_dict.placeholder(str)  # kind tfds: where sets lie; unset: ~/tensorflow_datasets
  data.directory = config_dict.placeholder(str)  # folder of <split>.<language> (kind text) or <split>.tsv (labelled_text)
  data.tsv = config_dict.placeholder(str)  # kinds tsv, labelled_tsv: one tab-separated file, plain or .gz
  data.tsv_source_column = 1  # kind tsv: column of the source, counted from 1
  data.tsv_target_column = 2  # kind tsv: column of the target
  data.jsonl = config_dict.placeholder(str)  # kind jsonl: one file of JSON lines, plain or .gz
  data.jsonl_source_field = 'source'  # kind jsonl: name of the field that holds the source
  data.jsonl_target_field = 'target'  # kind jsonl: name of the field that holds the target
  data.heldout = 1000  # kinds tsv, jsonl, labelled_tsv: lines held out to validate, and as many to test
  data.text = config_dict.placeholder(str)  # kind running_text: one file, plain or .gz
  data.validation_text = config_dict.placeholder(str)  # kind running_text: a file; unset: held out of data.text
  data.test_text = config_dict.placeholder(str)  # kind running_text: a file; unset: held out where validation is
  data.document = 'file'  # kind running_text: what is read on its own, from BOS to EOS
  data.heldout_share = 0.05  # kind running_text: share of the text's bytes, at its end, to validate; as many to test
  data.task = 'entailment'  # kinds labelled_*: what a label says of its texts
  data.source_language = 'en'  # language translated from
  data.target_language = 'de'  # language translated into
  data.train_split = 'train'  # file stem or TFDS split to train on
  data.validation_split = 'validation'  # file stem or TFDS split to validate with
  data.test_splits = ('test',)  # file stems or TFDS splits scored at the end, the first as the run's score; (): none
  data.max_characters = 0  # training pairs with a longer side are dropped; 0 is off
  data.max_ratio = 0.0  # training pairs with more characters on one side per one of the other are dropped; 0 is off
  data.min_letters = 0.0  # training pairs with a smaller share of letters on a side are dropped; 0 is off
  data.drop_identical = False  # drop training pairs whose sides are the same text
  data.drop_duplicates = False  # drop training pairs that have occurred before
  data.drop_control = False  # drop training pairs with control characters or U+FFFD
  data.tag = config_dict.placeholder(str)  # put in front of each training source, as <2de> is
  data.mix = ()  # further training text: "('FOLDER*WEIGHT#TAG',)"; weight and tag may be left out
  data.max_length = 256  # tokens of a side, EOS included: longer pairs are left out and counted, documents are cut
  data.batching = 'buckets'  # how sentences are put together
  data.max_shapes = 16  # batching buckets: most (source, target) shapes; each is compiled once
  data.packed_length = 256  # batching packed: tokens of a row's longer side; longer pairs are left out
  data.fixed_rows = 64  # batching fixed: sentence pairs in a batch
  data.fixed_source_length = config_dict.placeholder(int)  # batching fixed: tokens a source is padded to
  data.fixed_target_length = config_dict.placeholder(int)  # batching fixed: tokens a target is padded to
  data.subword_sampling = 'none'  # draws training text's pieces anew each epoch
  data.bpe_dropout = 0.1  # subword_sampling bpe_dropout: probability that a possible merge is dropped at a step
  data.unigram_alpha = 0.1  # subword_sampling unigram: exponent of a segmentation's probability; 0 draws them evenly
  data.unigram_nbest = -1  # subword_sampling unigram: draw from so many likeliest segmentations; -1 is all
  data.cache_dir = config_dict.placeholder(str)  # where vocabularies and tokenised text lie; unset: in the run's folder
  data.num_threads = 2  # threads that prepare batches

  config.vocabulary = vocabulary = ml_collections.ConfigDict()
  vocabulary.kind = 'bpe'  # what its entries are
  vocabulary.size = 37000  # entries, special ids and bytes included
  vocabulary.joint = True  # one vocabulary for both languages
  vocabulary.byte_fallback = True  # unknown characters as bytes, so that no text is lost
  vocabulary.dummy_prefix = True  # a text's first word is spelt as if a space stood before it
  vocabulary.control_symbols = ()  # entries beside the text's: "('<delimiter>', '<extract>')" to fine-tune with
  vocabulary.source_model = config_dict.placeholder(str)  # a SentencePiece model to use instead of training one
  vocabulary.target_model = config_dict.placeholder(str)  # the same for the target, when joint is False

  config.optimizer = optimizer = ml_collections.ConfigDict()
  optimizer.kind = 'adam'  # from a gradient to an update
  optimizer.schedule = 'noam'  # the learning rate over updates; all but noam go by optimizer.peak
  optimizer.learning_rate_scale = 1.0  # noam: times Eq. 3; its peak is scale / sqrt(d_model * warmup_steps)
  optimizer.peak = config_dict.placeholder(float)  # other schedules: the learning rate at the end of the warm-up
  optimizer.warmup_steps = 4000  # updates until the peak
  optimizer.decay_steps = config_dict.placeholder(int)  # cosine, linear: update at which they end; unset: the last
  optimizer.final_share = 0.0  # cosine, linear: where they end, as a share of the peak
  optimizer.beta1 = 0.9  # adam, adamw: decay of the mean gradient
  optimizer.beta2 = 0.98  # adam, adamw: decay of the mean squared gradient
  optimizer.epsilon = 1e-9  # adam, adamw: constant in the denominator
  optimizer.momentum = 0.9  # sgd: decay of the sum of gradients
  optimizer.weight_decay = config_dict.placeholder(float)  # decoupled, spares norms and biases; unset: adamw 0.01
  optimizer.clip_norm = 0.0  # largest global norm of a gradient; 0 is off

  config.train = train = ml_collections.ConfigDict()
  train.num_steps = config_dict.FieldReference(100_000, field_type=int)  # length in updates; set one of num_* alone
  train.num_epochs = config_dict.placeholder(float)  # length in passes over the training text
  train.num_minutes = config_dict.placeholder(float)  # length in minutes, over all restarts
  train.batch_tokens = 25_000  # rows x length of an update's longer side, padding included, at most
  train.accumulation_steps = 1  # parts of an update's rows that pass through memory one after the other
  train.label_smoothing = 0.1  # probability given to the other entries
  train.smoothing_over = 'vocabulary'  # which entries share the smoothing probability
  train.consistency = 'none'  # two passes that shall agree
  train.consistency_weight = config_dict.placeholder(float)  # times their divergence; unset: r_drop 5, simcut 3
  train.cut_rate = 0.05  # simcut: probability that a token's embedding is zeroed
  train.auxiliary_weight = 0.5  # kinds labelled_*: lambda, weight of the language model's loss beside the label's
  train.classifier_dropout = 0.1  # kinds labelled_*: on what the classifier reads
  train.ema_decay = 0.0  # exponential moving average of the parameters, used to evaluate and translate; 0 is off
  train.log_every = 100  # updates between lines of metrics
  train.eval_every = 1000  # updates between evaluations on the validation split
  train.first_eval = 0  # one early evaluation after this many updates, for a first look; 0 is none
  train.checkpoint_every = 1000  # updates between checkpoints
  train.keep_last = 5  # newest checkpoints kept (never fewer than average_last)
  train.keep_best = 1  # best checkpoints (validation BLEU, or bits per byte) kept besides
  train.average_last = 5  # checkpoints averaged for the final score
  train.max_skipped = 10  # updates in a row that are not finite, and so skipped, after which a run stops with a dump
  train.stall_seconds = 1800.0  # without any progress until a run ends with every thread's stack; 0 is never
  train.heartbeat_seconds = 100  # several processes: one that is silent for so long counts as dead
  train.profile_steps = 0  # updates profiled once the first are compiled, into profile/; 0 is none
  train.peak_tflops = config_dict.placeholder(float)  # of one device, for MFU; unset: that of known ones
  train.patience = 0  # evaluations without a better one until the run ends; 0 is off
  train.eval_sentences = 500  # validation sentences translated (greedily) at an evaluation
  train.num_samples = 8  # of these, how many are written out at each evaluation
  train.watch_attention = config_dict.placeholder(str)  # heads are taken down on samples or a file's lines; unset: off

  config.search = search = ml_collections.ConfigDict()
  search.strategy = 'beam'  # how an output is chosen
  search.beam_size = 4  # beam: hypotheses kept; 1 is greedy search
  search.length_penalty = 'gnmt'  # what the log-probability of an output is divided by
  search.alpha = 0.6  # strength of the length penalty
  search.coverage_penalty = 0.0  # beam: how much a translation pays for words that it never looked at; 0: off
  search.extra_length = 50  # longest output: source length (or prompt) + this many tokens
  search.min_length = 0  # fewest tokens of an output
  search.groups = 1  # beam: parts of it that are to find different translations (diverse beam search); 1: off
  search.diversity = 0.5  # groups: taken off a log-probability for each earlier group that took the same token
  search.temperature = 1.0  # sample: logits are divided by it; below 1 the likely becomes likelier
  search.top_k = 0  # sample: draw from the k likeliest tokens alone; 0: from all
  search.top_p = 1.0  # sample: draw from the fewest likeliest tokens that have this probability together; 1: from all
  search.seed = 0  # sample: what is drawn
  search.halvings = 0  # beam: times that a batch goes on with its unfinished half once half its rows are done; 0: off
  search.include_prompt = True  # language models: a continuation begins with its prompt
  search.batch_tokens = config_dict.placeholder(int)  # rows x beams x source length; unset: 2048, translating on GPUs and TPUs 8192
  return config


# Options that had another name, by dotted names: the old and today's. Folders of older runs hold old names, which are
# read with values as of RENAMED_VALUES; on a command line an old name is a mistake, reported with today's.
RENAMED: dict[str, str] = {'data.test_split': 'data.test_splits'}
# What an old value is now, where that is not the same.
RENAMED_VALUES: dict[str, Callable[[Any], Any]] = {'data.test_split': lambda name: (name,) if name else ()}
