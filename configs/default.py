"""Every option, once: the paper's base model (Vaswani et al., 2017) on WMT14. Other configs change a few of these.

The comment behind an option says what it means and in which unit; `python train.py --helpfull` prints these comments,
`--help` the most used. An option without a value (a placeholder) is off or decided by the run. A FieldReference can be set to
None, too.
"""

from collections.abc import Callable
from typing import Any

import ml_collections
from ml_collections import config_dict


def get_config(arg: str = '') -> ml_collections.ConfigDict:
  """Return the paper's base model; it has no variants, so `arg` must be empty."""
  if arg:
    raise ValueError(f'configs/default.py has no variant {arg!r}')
  config = ml_collections.ConfigDict()
  config.seed = 0  # decides parameters, batches, dropout, and which lines of an unsplit file are held out
  config.init_from = config_dict.placeholder(str)  # folder of a run that gives the first parameters, and the vocabulary
  config.compile = 'jit'  # how a training step is compiled
  config.compile_cache = config_dict.placeholder(str)  # folder for compiled programs; unset: in the user's cache
  config.mesh = ml_collections.ConfigDict()
  config.mesh.data = -1  # parts that a batch's rows are split into; -1: number of devices / (fsdp * tensor)
  config.mesh.fsdp = 1  # further parts that rows are split into; parameters and optimizer state are split, too
  config.mesh.tensor = 1  # parts that attention heads, d_ff and the vocabulary are split into

  config.model = model = ml_collections.ConfigDict()
  model.architecture = 'transformer'  # kind of model
  model.d_model = 512  # width of embeddings and of every layer
  model.num_heads = 8  # attention heads of a layer
  model.num_layers = 6  # layers of the encoder, and as many of the decoder
  model.num_decoder_layers = config_dict.placeholder(int)  # layers of the decoder; unset: num_layers
  model.d_ff = 2048  # inner width of the feed-forward network
  model.d_k = config_dict.placeholder(int)  # width of one head's queries and keys; unset: d_model / num_heads
  model.d_v = config_dict.placeholder(int)  # width of one head's values; unset: d_model / num_heads
  model.num_kv_heads = config_dict.placeholder(int)  # heads of keys and values; 1: multi-query; unset: num_heads
  model.attention_score = 'scaled_dot'  # score of a query and a key
  model.attention_kernel = 'einsum'  # code that computes attention in training; the result is the same up to rounding
  model.positions = 'sinusoidal'  # how the model knows the order of tokens
  model.position_layout = 'interleaved'  # positions sinusoidal, rotary: which columns form a pair
  model.position_frequencies = 'paper'  # positions sinusoidal, rotary: angular frequency of column pair i
  model.max_positions = 512  # positions learned: longest text, in tokens
  model.clip_distance = 16  # positions relative: longer distances, in tokens, count as this one
  model.num_buckets = 32  # positions t5: groups of distances
  model.max_distance = 128  # positions t5: distance, in tokens, from which on all share a group
  model.norm = 'post'  # where a sub-layer normalizes
  model.normalization = 'layer_norm'  # kind of normalization
  model.layer_norm_epsilon = 1e-6  # number that normalization adds to the variance
  model.norm_bias = True  # normalization layer_norm: add a learned bias
  model.activation = 'relu'  # activation of the feed-forward network
  model.feed_forward_bias = True  # biases b1 and b2 of the feed-forward network, Eq. 2
  model.attention_bias = False  # biases of the query, key, value and output projections
  model.dropout = 0.1  # dropout rate on every sub-layer's output and on the embedding sums
  model.attention_dropout = 0.0  # dropout rate on the attention weights
  model.activation_dropout = 0.0  # dropout rate on the feed-forward network's hidden units
  model.share_embeddings = True  # one embedding matrix for source and target; needs a joint vocabulary
  model.tie_output = True  # use the target embedding as the output projection, too
  model.output_bias = False  # a learned bias of each entry's logit, as models of other toolkits have it
  model.initializer = 'xavier_uniform'  # initial distribution of the projections
  model.dtype = 'float32'  # precision of activations and products; parameters are always float32
  model.scan_layers = False  # compile the layers as one loop in training: compiles faster, runs slower
  model.remat = False  # recompute a layer's activations for the gradient: less memory, a third more work

  # The recurrent encoder-decoders also read d_model, num_layers, dropout, share_embeddings, tie_output, initializer and
  # dtype of `model`; the Transformer reads nothing of this section.
  config.recurrent = recurrent = ml_collections.ConfigDict()
  recurrent.cell = 'gru'  # kind of recurrent unit
  recurrent.bidirectional = True  # the encoder reads in both directions (Bahdanau et al., 2015); False: in one
  recurrent.reverse_source = False  # bidirectional False: read the source backward (Sutskever et al., 2014)
  recurrent.score = 'additive'  # attention score of a decoder state and an encoder state
  recurrent.context = 'first'  # score none: where the source enters the decoder
  recurrent.input_feeding = False  # score dot, general: the attentional vector enters the decoder's next step

  config.data = data = ml_collections.ConfigDict()
  data.kind = 'tfds'  # kind of corpus
  data.tfds_name = config_dict.FieldReference('wmt14_translate/de-en')  # kind tfds: name of the set, with its variant
  data.tfds_dir = config_dict.placeholder(str)  # folder of TFDS's sets; unset: $TFDS_DATA_DIR, else ~/tensorflow_datasets
  data.directory = config_dict.placeholder(str)  # kinds text, labelled_text: folder of <split>.<language>, <split>.tsv
  data.tsv = config_dict.placeholder(str)  # kinds tsv, labelled_tsv: one tab-separated file, plain or .gz
  data.tsv_source_column = 1  # kind tsv: column of the source, counted from 1
  data.tsv_target_column = 2  # kind tsv: column of the target, counted from 1
  data.jsonl = config_dict.placeholder(str)  # kind jsonl: one file of JSON lines, plain or .gz
  data.jsonl_source_field = 'source'  # kind jsonl: name of the field that holds the source
  data.jsonl_target_field = 'target'  # kind jsonl: name of the field that holds the target
  data.heldout = 1000  # kinds tsv, jsonl, labelled_tsv: lines held out for validation, and as many for the test
  data.text = config_dict.placeholder(str)  # kind running_text: one file, plain or .gz
  data.validation_text = config_dict.placeholder(str)  # kind running_text: file to validate with; unset: from data.text
  data.test_text = config_dict.placeholder(str)  # kind running_text: file to test on; unset: held out, or with validation_text none
  data.document = 'file'  # kind running_text: part of a file that is one document, from BOS to EOS
  data.heldout_share = 0.05  # kind running_text: share of the bytes, at the end, for validation; as many for the test
  data.task = 'entailment'  # kinds labelled_*: task, with the columns of a line
  data.source_language = 'en'  # code of the language translated from
  data.target_language = 'de'  # code of the language translated into
  data.train_split = 'train'  # file stem or TFDS split to train on; kind text: several, as 'europarl,news-*'
  data.validation_split = 'validation'  # file stem or TFDS split to validate with
  data.test_splits = ('test',)  # file stems or TFDS splits scored at the end; the first gives the run's score; (): none
  data.max_characters = 0  # drop training pairs with more characters on a side; 0 is off
  data.max_ratio = 0.0  # drop training pairs with a side more than this many times as long as the other; 0 is off
  data.min_letters = 0.0  # drop training pairs with a side of which a smaller share are letters; 0 is off
  data.drop_identical = False  # drop training pairs whose sides are the same text
  data.drop_duplicates = False  # drop training pairs that have occurred before in the text
  data.drop_control = False  # drop training pairs with control or unassigned characters, or U+FFFD
  data.tag = config_dict.placeholder(str)  # word put in front of each training source, such as <2de>
  data.mix = ()  # further training text, "('FOLDER*WEIGHT#TAG',)"; *WEIGHT and #TAG may be left out
  data.max_length = 256  # most tokens of a side, EOS included: longer pairs are left out, documents are cut
  data.batching = 'buckets'  # how sentences are put into batches
  data.max_shapes = config_dict.placeholder(int)  # batching buckets: most shapes of batches; unset: docs/data.md
  data.packed_length = 256  # batching packed: tokens of a row, on its longer side; longer pairs are left out
  data.fixed_rows = 64  # batching fixed: sentence pairs in a batch
  data.fixed_source_length = config_dict.placeholder(int)  # batching fixed: tokens that a source is padded to
  data.fixed_target_length = config_dict.placeholder(int)  # batching fixed: tokens that a target is padded to
  data.row_multiple = config_dict.placeholder(int)  # micro-batches' rows are multiples of it; unset: docs/launching.md
  data.subword_sampling = 'none'  # how each epoch draws the segmentation of the training text
  data.bpe_dropout = 0.1  # subword_sampling bpe_dropout: probability of dropping a possible merge at a step
  data.unigram_alpha = 0.1  # subword_sampling unigram: exponent of a segmentation's probability; 0: all equally likely
  data.unigram_nbest = -1  # subword_sampling unigram: draw from this many likeliest segmentations; -1: from all
  data.cache_dir = config_dict.placeholder(str)  # folder of vocabularies, token stores, phrasebook; unset: docs/data.md
  data.num_threads = 2  # threads that prepare batches

  config.vocabulary = vocabulary = ml_collections.ConfigDict()
  vocabulary.kind = 'bpe'  # kind of SentencePiece model
  vocabulary.size = 37000  # entries of a vocabulary, special ids and bytes included
  vocabulary.joint = True  # one vocabulary for both languages
  vocabulary.byte_fallback = True  # spell unknown characters as bytes, so that no text is lost
  vocabulary.dummy_prefix = True  # spell a text's first word as if a space stood before it
  vocabulary.tags = ()  # words that the vocabulary never cuts, such as the tags "('<bt>', '<2de>')"
  vocabulary.control_symbols = ()  # further entries, for fine-tuning "('<delimiter>', '<extract>')"
  vocabulary.source_model = config_dict.placeholder(str)  # file of a SentencePiece model to use instead of training one
  vocabulary.target_model = config_dict.placeholder(str)  # joint False: file of the target's SentencePiece model

  config.optimizer = optimizer = ml_collections.ConfigDict()
  optimizer.kind = 'adam'  # update rule
  optimizer.schedule = 'noam'  # course of the learning rate; all but noam need optimizer.peak
  optimizer.learning_rate_scale = 1.0  # schedule noam: factor of Eq. 3; the peak is scale / sqrt(d_model*warmup_steps)
  optimizer.peak = config_dict.placeholder(float)  # schedules but noam: learning rate at the end of the warm-up
  optimizer.warmup_steps = 4000  # updates until the learning rate's peak
  optimizer.decay_steps = config_dict.placeholder(int)  # schedule cosine, linear: update at which it ends; unset: last
  optimizer.final_share = 0.0  # schedule cosine, linear: learning rate at its end, as a share of the peak
  optimizer.beta1 = 0.9  # kind adam, adamw, muon: decay rate of the mean gradient
  optimizer.beta2 = 0.98  # kind adam, adamw, muon: decay rate of the mean squared gradient
  optimizer.epsilon = 1e-9  # kind adam, adamw, muon: constant in the denominator
  optimizer.momentum = 0.9  # kind sgd, muon: decay rate of the sum, or mean, of gradients
  optimizer.muon_rms = 0.2  # kind muon: root mean square of a matrix's update, before the learning rate
  optimizer.weight_decay = config_dict.placeholder(float)  # decoupled; not on norms, biases; unset: adamw 0.01, else 0
  optimizer.clip_norm = 0.0  # largest global norm of a gradient, others are scaled down; 0 is off

  config.train = train = ml_collections.ConfigDict()
  train.num_steps = config_dict.FieldReference(100_000, field_type=int)  # length in updates; set only one of num_*
  train.num_epochs = config_dict.placeholder(float)  # length in passes over the training text
  train.num_minutes = config_dict.placeholder(float)  # length in minutes, over all restarts
  train.batch_tokens = 25_000  # most tokens of an update: rows x length of the longer side, padding included
  train.accumulation_steps = 1  # parts of an update's rows that are computed one after the other, to save memory
  train.dropout_bits = 'threefry'  # generator of the random bits of dropout
  train.label_smoothing = 0.1  # share of the target probability that is spread over other entries
  train.smoothing_over = 'vocabulary'  # label_smoothing: entries that the share is spread over
  train.loss_chunks = 1  # parts of each target whose logits are in memory one after the other: less memory, more work
  train.logits_dtype = 'float32'  # type in which training keeps logits until their gradient is made
  train.consistency = 'none'  # loss term that makes two passes over a batch agree
  train.consistency_weight = config_dict.placeholder(float)  # factor of the consistency term; unset: r_drop 5, simcut 3
  train.cut_rate = 0.05  # consistency simcut: probability that a token's embedding is zeroed
  train.auxiliary_weight = 0.5  # kinds labelled_*: lambda, the weight of the language model's loss beside the label's
  train.classifier_dropout = 0.1  # kinds labelled_*: dropout rate on the classifier's input
  train.ema_decay = 0.0  # decay of a moving average of the parameters, used to evaluate and translate; 0 is off
  train.log_every = 100  # updates between lines of metrics
  train.eval_every = 1000  # updates between evaluations on the validation split
  train.first_eval = 0  # updates before an additional early evaluation; 0 is none
  train.checkpoint_every = 1000  # updates between checkpoints
  train.keep_last = 5  # newest checkpoints that are kept (never fewer than average_last)
  train.keep_best = 1  # best checkpoints, by validation BLEU, bits per byte or accuracy, that are kept as well
  train.average_last = 5  # newest planned checkpoints, and the run's end, that are averaged for the final score
  train.max_skipped = 10  # updates in a row skipped as not finite before the run stops with a dump
  train.stall_seconds = 1800.0  # seconds without progress before the run ends with all threads' stacks; 0 is never
  train.heartbeat_seconds = 100  # several processes: seconds of silence after which one counts as dead
  train.profile_steps = 0  # updates to profile, after the first are compiled, into profile/; 0 is none
  train.peak_tflops = config_dict.placeholder(float)  # one device's peak in TFLOP/s, for MFU; unset: by its name
  train.patience = 0  # evaluations without a new best score before the run ends; 0 is off
  train.eval_sentences = 500  # validation sentences translated (greedily) at each evaluation
  train.num_samples = 8  # translations of these written out at each evaluation
  train.watch_attention = config_dict.placeholder(str)  # record attention on "samples" or a file's lines; unset: off

  config.search = search = ml_collections.ConfigDict()
  search.strategy = 'beam'  # how outputs are searched for
  search.beam_size = 4  # strategy beam: hypotheses kept; 1 is greedy search
  search.length_penalty = 'gnmt'  # divisor of an output's log-probability
  search.alpha = 0.6  # exponent of the length penalty
  search.early_stopping = 'exact'  # strategy beam: when a sentence is done
  search.coverage_penalty = 0.0  # strategy beam: penalty on outputs that hardly attend to some source tokens; 0: off
  search.extra_length = 50  # longest output, in tokens: those of the source (or prompt) + this many
  search.min_length = 0  # fewest tokens of an output, EOS aside; a prompt or prefix that it begins with counts
  search.groups = 1  # strategy beam: groups of the beam that avoid each other's tokens (diverse beam search); 1: off
  search.diversity = 0.5  # groups: penalty on a log-probability for each hypothesis of earlier groups that took the same token
  search.temperature = 1.0  # strategy sample: divisor of the logits; below 1 likely tokens get likelier
  search.top_k = 0  # strategy sample: draw only from the k likeliest tokens; 0: from all
  search.top_p = 1.0  # strategy sample: draw only from the fewest likeliest tokens with this total probability; 1: all
  search.seed = 0  # strategy sample: seed of the draws
  search.no_repeat_ngram = 0  # no output has the same n tokens in a row twice; 0: off
  search.include_prompt = True  # language models: print the prompt before its continuation
  search.batch_tokens = config_dict.placeholder(int)  # rows x beams x length; unset: 2048, to translate on GPU/TPU 8192
  return config


# Renamed options, from the old dotted name to the new one. In folders of older runs an old name is read, with its value
# converted by RENAMED_VALUES; on a command line it is a mistake, reported with the new name.
RENAMED: dict[str, str] = {'data.test_split': 'data.test_splits'}
# From an old value to the new one, where they differ.
RENAMED_VALUES: dict[str, Callable[[Any], Any]] = {'data.test_split': lambda name: (name,) if name else ()}
# Options that a run's first start decides where they are unset, and keeps in config.json; with the value that runs had
# before there was the option.
DECIDED: dict[str, Any] = {'data.row_multiple': 8, 'data.max_shapes': 16}
