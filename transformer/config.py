"""What the library takes: frozen, validated on creation. A new option gets its field, its check and its sentence here.

The experiment's configuration (configs/default.py) is wider; scripts turn its sections into these records at the door.
"""

import dataclasses
from collections.abc import Iterable, Iterator

NORMS = ('post', 'pre')
NORMALIZATIONS = ('layer_norm', 'rms_norm')
ACTIVATIONS = ('relu', 'gelu', 'swiglu')
ATTENTION_SCORES = ('scaled_dot', 'dot', 'multiplicative', 'additive')
POSITIONS = ('sinusoidal', 'learned', 'relative', 't5', 'rotary', 'none')
LAYOUTS = ('interleaved', 'halves')
FREQUENCIES = ('paper', 'tensor2tensor')
DTYPES = ('float32', 'bfloat16')
INITIALIZERS = ('xavier_uniform', 'xavier_normal', 'lecun_normal')
SMOOTHINGS = ('vocabulary', 'others')
ARCHITECTURES = ('transformer', 'recurrent', 'language_model')
CELLS = ('gru', 'lstm')
RECURRENT_SCORES = ('none', 'additive', 'dot', 'general')
CONTEXTS = ('first', 'every')
CONSISTENCIES = ('none', 'r_drop', 'simcut')
OPTIMIZERS = ('adam', 'adamw', 'adafactor', 'sgd')
SCHEDULES = ('noam', 'inverse_sqrt', 'cosine', 'linear', 'constant')
FALLING = ('cosine', 'linear')  # schedules with an end
LABELLED_TASKS = ('classification', 'entailment', 'similarity', 'multiple_choice')


def _refuse(mistakes: Iterable[str]) -> None:
  """Raises ValueError with all mistakes, one a line, if there are any."""
  if found := list(mistakes):
    raise ValueError('\n'.join(found))


def _one_of(name: str, value: str, choices: tuple[str, ...]) -> Iterator[str]:
  if value not in choices:
    yield f'{name} is {value!r}; expected one of {", ".join(choices)}'


def _positive(**values: int) -> Iterator[str]:
  for name, value in values.items():
    if value <= 0:
      yield f'{name} is {value}; expected a positive number'


def _separate(source: int, target: int) -> str:
  return (f'share_embeddings needs one vocabulary; the source has {source} entries and the target {target}: set '
          'vocabulary.joint=True or model.share_embeddings=False')


@dataclasses.dataclass(frozen=True)
class ArchitectureConfig:
  """Which family of models; each has a record of its own below. See architectures.py."""

  architecture: str = 'transformer'

  def __post_init__(self):
    _refuse(self._mistakes())

  def _mistakes(self) -> Iterator[str]:
    yield from _one_of('architecture', self.architecture, ARCHITECTURES)


@dataclasses.dataclass(frozen=True)
class ModelConfig:
  """Sizes and choices of the encoder-decoder (Vaswani et al., 2017, §3). The defaults are Table 3's base.

  A size left None follows from the others; the properties below say how, and are what modules read.
  Raises ValueError on creation when sizes or choices do not fit each other.
  """

  vocab_size: int  # rows of the source embedding; of every embedding when they are shared
  target_vocab_size: int  # rows of the target embedding and columns of the logits
  d_model: int = 512
  num_heads: int = 8
  num_layers: int = 6  # in the encoder, and again in the decoder
  num_decoder_layers: int | None = None  # None: num_layers
  d_ff: int = 2048
  d_k: int | None = None  # of one head's queries and keys; None: d_model / num_heads
  d_v: int | None = None  # of one head's values; None: d_model / num_heads
  num_kv_heads: int | None = None  # heads of keys and values, each shared by a group of query heads; None: num_heads
  attention_score: str = 'scaled_dot'  # see attention_scores.SCORES
  positions: str = 'sinusoidal'  # see positions.KINDS
  position_layout: str = 'interleaved'  # sinusoidal, rotary: sines at even, cosines at odd columns, §3.5; halves
  position_frequencies: str = 'paper'  # sinusoidal, rotary: see positions.wavenumbers
  max_positions: int = 512  # learned: rows of the table, and so the longest text
  clip_distance: int = 16  # relative: distances beyond are taken for this one
  num_buckets: int = 32  # t5: groups of distances
  max_distance: int = 128  # t5: distances from here on share the last bucket
  norm: str = 'post'  # post: Norm(x + Sublayer(x)), §3.1; pre: x + Sublayer(Norm(x))
  normalization: str = 'layer_norm'  # see normalization.KINDS
  layer_norm_epsilon: float = 1e-6  # the paper is silent; tensor2tensor's value
  norm_bias: bool = True  # LayerNorm's shift
  activation: str = 'relu'  # see feed_forward.ACTIVATIONS
  feed_forward_bias: bool = True  # Eq. 2
  attention_bias: bool = False  # §3.2.2 writes products only
  dropout: float = 0.1  # on every sub-layer's output and on the embedding sums, §5.4
  attention_dropout: float = 0.0  # on the attention weights
  activation_dropout: float = 0.0  # on the feed-forward network's hidden units
  share_embeddings: bool = True  # one matrix for source, target and output, §3.4
  tie_output: bool = True  # the output projection is the target embedding, §3.4
  initializer: str = 'xavier_uniform'  # of the projections; the paper is silent
  dtype: str = 'float32'  # of activations and products; parameters, logits and loss are always float32
  scan_layers: bool = False  # one compiled layer run N times: compiles faster, runs slower
  remat: bool = False  # a layer's activations are computed again for the gradient, not kept

  def __post_init__(self):
    _refuse(self._mistakes())

  def _mistakes(self) -> Iterator[str]:
    sizes = ('vocab_size', 'target_vocab_size', 'd_model', 'num_heads', 'num_layers', 'd_ff', 'max_positions',
             'clip_distance', 'num_buckets', 'num_decoder_layers', 'd_k', 'd_v', 'num_kv_heads')
    too_small = list(_positive(**{name: getattr(self, name) for name in sizes if getattr(self, name) is not None}))
    yield from too_small
    yield from _one_of('norm', self.norm, NORMS)
    yield from _one_of('normalization', self.normalization, NORMALIZATIONS)
    yield from _one_of('activation', self.activation, ACTIVATIONS)
    yield from _one_of('attention_score', self.attention_score, ATTENTION_SCORES)
    yield from _one_of('positions', self.positions, POSITIONS)
    yield from _one_of('position_layout', self.position_layout, LAYOUTS)
    yield from _one_of('position_frequencies', self.position_frequencies, FREQUENCIES)
    yield from _one_of('dtype', self.dtype, DTYPES)
    yield from _one_of('initializer', self.initializer, INITIALIZERS)
    for name in ('dropout', 'attention_dropout', 'activation_dropout'):
      if not 0.0 <= getattr(self, name) < 1.0:
        yield f'{name} is {getattr(self, name)}; expected a probability from 0 up to, but not, 1'
    if self.layer_norm_epsilon <= 0:
      yield f'layer_norm_epsilon is {self.layer_norm_epsilon}; expected a positive number'
    if not too_small:  # else nothing can be divided by them
      yield from self._mistakes_of_heads()
      yield from self._mistakes_of_positions()
    if self.share_embeddings and self.vocab_size != self.target_vocab_size:
      yield _separate(self.vocab_size, self.target_vocab_size)

  def _mistakes_of_heads(self) -> Iterator[str]:
    if self.d_model % self.num_heads and None in (self.d_k, self.d_v):
      yield (f'd_model {self.d_model} is not divisible by num_heads {self.num_heads}: '
             'd_k = d_v = d_model / num_heads must be whole (§3.2.2); change one of them, or set d_k and d_v')
    if self.num_heads % self.kv_heads:
      yield (f'num_heads {self.num_heads} is not divisible by num_kv_heads {self.num_kv_heads}: every head '
             'of keys and values serves a group of equally many query heads')

  def _mistakes_of_positions(self) -> Iterator[str]:
    if self.positions == 'sinusoidal' and self.d_model % 2:
      yield f'd_model is {self.d_model}; sinusoidal positions pair sines with cosines and need an even one'
    if self.positions == 'rotary' and self.key_size % 2:
      yield f'd_k is {self.key_size}; rotary positions turn pairs of columns and need an even one'
    if self.positions == 'rotary' and self.attention_score == 'additive':
      yield ('positions rotary with attention_score additive: a rotation leaves distances in products of '
             'query and key only, not in their sum; choose another of the two')
    if self.positions == 't5' and (self.num_buckets % 4 or self.max_distance <= self.num_buckets // 2):
      yield (f'num_buckets is {self.num_buckets} and max_distance {self.max_distance}; expected a multiple '
             'of 4, and a distance of more than half of it (Raffel et al., 2020, have 32 and 128)')

  @property
  def key_size(self) -> int:
    """K: width of one head's queries and keys."""
    return self.d_k or self.d_model // self.num_heads

  @property
  def value_size(self) -> int:
    """U: width of one head's values."""
    return self.d_v or self.d_model // self.num_heads

  @property
  def kv_heads(self) -> int:
    """G: heads of keys and values."""
    return self.num_kv_heads or self.num_heads

  @property
  def decoder_layers(self) -> int:
    """Layers of the decoder; the encoder has num_layers."""
    return self.num_decoder_layers or self.num_layers


@dataclasses.dataclass(frozen=True)
class RecurrentConfig:
  """Sizes and choices of the encoder-decoders that the Transformer replaced. See recurrent.py.

  Raises ValueError on creation when choices do not fit each other.
  """

  vocab_size: int  # rows of the source embedding; of every embedding when they are shared
  target_vocab_size: int  # rows of the target embedding and columns of the logits
  d_model: int = 512  # width of embeddings and of the states of each direction
  num_layers: int = 1  # in the encoder, and again in the decoder
  num_decoder_layers: int | None = None  # None: num_layers; nothing else fits
  dropout: float = 0.1  # on embeddings, between layers, and before the output projection (Zaremba et al., 2014)
  share_embeddings: bool = True  # one matrix for source, target and output
  tie_output: bool = True  # the output projection is the target embedding
  initializer: str = 'xavier_uniform'  # of the projections; recurrent matrices start orthogonal
  dtype: str = 'float32'  # of products; states, gates, parameters, logits and loss are always float32
  cell: str = 'gru'  # gru: Cho et al., 2014; lstm: Hochreiter & Schmidhuber, 1997
  bidirectional: bool = True  # the encoder reads both ways, Bahdanau et al., 2015
  reverse_source: bool = False  # the encoder reads from the last token to the first, Sutskever et al., 2014
  score: str = 'additive'  # additive: Bahdanau et al., 2015; dot, general: Luong et al., 2015; none: no attention
  context: str = 'first'  # score none: the sentence reaches the decoder's first state, or (every) each step
  input_feeding: bool = False  # dot, general: the attentional vector enters the next step (Luong et al., 2015, §3.3)

  def __post_init__(self):
    _refuse(self._mistakes())

  def _mistakes(self) -> Iterator[str]:
    yield from _positive(vocab_size=self.vocab_size, target_vocab_size=self.target_vocab_size,
                         d_model=self.d_model, num_layers=self.num_layers)
    yield from _one_of('initializer', self.initializer, INITIALIZERS)
    yield from _one_of('dtype', self.dtype, DTYPES)
    yield from _one_of('cell', self.cell, CELLS)
    yield from _one_of('score', self.score, RECURRENT_SCORES)
    yield from _one_of('context', self.context, CONTEXTS)
    if not 0.0 <= self.dropout < 1.0:
      yield f'dropout is {self.dropout}; expected a probability from 0 up to, but not, 1'
    if self.share_embeddings and self.vocab_size != self.target_vocab_size:
      yield _separate(self.vocab_size, self.target_vocab_size)
    if self.num_decoder_layers not in (None, self.num_layers):
      yield (f'num_decoder_layers is {self.num_decoder_layers} and num_layers {self.num_layers}: each layer '
             'of the decoder starts from the same layer of the encoder; expected as many, or none given')
    if self.bidirectional and self.reverse_source:
      yield ('reverse_source is True, but a bidirectional encoder reads both ways already; '
             'set recurrent.bidirectional=False or recurrent.reverse_source=False')
    if self.bidirectional and self.score == 'dot':
      yield (f'score is dot, but the states of a bidirectional encoder are twice as wide as the decoder\'s '
             f'({2 * self.d_model} and {self.d_model}): expected general, or recurrent.bidirectional=False')
    if self.score != 'none' and self.context == 'every':
      yield (f'context is every, but with score {self.score} attention brings a context of its own to each '
             'step; expected recurrent.context=first, or recurrent.score=none')
    if self.input_feeding and self.score not in ('dot', 'general'):
      yield (f'input_feeding feeds back the attentional vector of the scores dot and general; score is '
             f'{self.score}: expected recurrent.input_feeding=False')

  @property
  def backward(self) -> bool:
    """Whether the direction that hands its last state to the decoder reads backward."""
    return self.bidirectional or self.reverse_source

  @property
  def annotation_width(self) -> int:
    """Width of the encoder's output at a place: the states of its directions side by side."""
    return self.d_model * (1 + self.bidirectional)


@dataclasses.dataclass(frozen=True)
class LanguageModelConfig(ModelConfig):
  """The same sizes and choices for a decoder-only language model (Radford et al., 2018): num_layers is its depth."""

  def _mistakes(self) -> Iterator[str]:
    yield from super()._mistakes()
    if not self.share_embeddings:
      yield 'share_embeddings is False; a language model has one embedding: there is no source'
    if self.num_decoder_layers is not None:
      yield f'num_decoder_layers is {self.num_decoder_layers}; the depth of a language model is num_layers'


@dataclasses.dataclass(frozen=True)
class LossConfig:
  """Label smoothing (§5.4; Szegedy et al., 2016). See loss.smoothed_cross_entropy."""

  label_smoothing: float = 0.1
  smoothing_over: str = 'vocabulary'  # vocabulary: spread over V entries; others: over the V - 1 wrong ones

  def __post_init__(self):
    _refuse(self._mistakes())

  def _mistakes(self) -> Iterator[str]:
    yield from _one_of('smoothing_over', self.smoothing_over, SMOOTHINGS)
    if not 0.0 <= self.label_smoothing < 1.0:
      yield f'label_smoothing is {self.label_smoothing}; expected a share from 0 up to, but not, 1'


@dataclasses.dataclass(frozen=True)
class ConsistencyConfig:
  """Agreement of two passes over the same batch as part of the loss. See training.build_objective."""

  consistency: str = 'none'  # r_drop: Liang et al., 2021; simcut: Gao et al., 2022
  consistency_weight: float | None = None  # alpha, times the divergence; None: the papers', 5 and 3
  cut_rate: float = 0.05  # simcut: probability that a token's embedding is zeroed in the second pass
  dropout: float = 0.1  # the model's largest rate: R-Drop's passes differ by their dropout alone

  def __post_init__(self):
    _refuse(self._mistakes())

  def _mistakes(self) -> Iterator[str]:
    yield from _one_of('consistency', self.consistency, CONSISTENCIES)
    if self.consistency_weight is not None and self.consistency_weight <= 0:
      yield (f'consistency_weight is {self.consistency_weight}; expected a positive number, '
             "or none for the paper's (consistency=none switches the term off)")
    if not 0.0 < self.cut_rate < 1.0:
      yield f'cut_rate is {self.cut_rate}; expected a probability between 0 and 1'
    if self.consistency == 'r_drop' and not self.dropout:
      yield ('consistency is r_drop, but the model has no dropout: its two passes would be the same; '
             'set model.dropout or another consistency')

  @property
  def weight(self) -> float:
    """The weight, given or the method's own."""
    return self.consistency_weight or {'none': 0.0, 'r_drop': 5.0, 'simcut': 3.0}[self.consistency]


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
  """The update rule and its learning rate; by default Adam with the warm-up of Eq. 3 (§5.3). See optimizer.build."""

  d_model: int = 512  # enters Eq. 3
  kind: str = 'adam'  # see optimizer.RULES
  schedule: str = 'noam'  # noam: Eq. 3; see optimizer.SCHEDULES
  learning_rate_scale: float = 1.0  # noam: times Eq. 3
  peak: float | None = None  # every other schedule: the learning rate at the end of the warm-up
  warmup_steps: int = 4000
  decay_steps: int | None = None  # cosine, linear: the update at which they end; None: the run's last
  final_share: float = 0.0  # cosine, linear: what they end at, as a share of the peak
  beta1: float = 0.9  # adam, adamw
  beta2: float = 0.98
  epsilon: float = 1e-9
  momentum: float = 0.9  # sgd
  weight_decay: float | None = None  # times the learning rate; None: 0.01 for adamw, 0 for the others
  clip_norm: float = 0.0  # largest global norm of the mean gradient; 0 is off, as in the paper
  length_known: bool = True  # whether the run's length in updates is known; a run by minutes has none

  def __post_init__(self):
    _refuse(self._mistakes())

  def _mistakes(self) -> Iterator[str]:
    yield from _one_of('kind', self.kind, OPTIMIZERS)
    yield from _one_of('schedule', self.schedule, SCHEDULES)
    yield from _positive(d_model=self.d_model)
    if self.learning_rate_scale <= 0 or self.epsilon <= 0:
      yield f'learning_rate_scale {self.learning_rate_scale} and epsilon {self.epsilon} must be positive'
    for name in ('beta1', 'beta2', 'momentum'):
      if not 0.0 <= getattr(self, name) < 1.0:
        yield f'{name} is {getattr(self, name)}; expected a number from 0 up to, but not, 1'
    if self.clip_norm < 0:
      yield f'clip_norm is {self.clip_norm}; expected 0 (off) or a positive norm'
    if self.decay < 0:
      yield f'weight_decay is {self.weight_decay}; expected 0 (off) or a positive number'
    if self.kind == 'adam' and self.decay:
      yield (f'weight_decay is {self.weight_decay}, but kind adam has none; '
             "choose kind adamw, which is Adam with decoupled weight decay")
    yield from self._mistakes_of_schedule()

  def _mistakes_of_schedule(self) -> Iterator[str]:
    least = 1 if self.schedule in ('noam', 'inverse_sqrt') else 0
    if self.warmup_steps < least:
      yield f'warmup_steps is {self.warmup_steps}; expected {least} or more for schedule {self.schedule}'
    if self.schedule == 'noam' and self.peak is not None:
      yield (f'peak is {self.peak}, but the peak of schedule noam is learning_rate_scale / '
             '√(d_model · warmup_steps); set optimizer.peak=None and learning_rate_scale, or choose another schedule')
    if self.schedule != 'noam' and (self.peak is None or self.peak <= 0):
      yield (f'peak is {self.peak}; schedule {self.schedule} needs a positive one, the learning rate at '
             'the end of the warm-up')
    if self.schedule != 'noam' and self.learning_rate_scale != 1.0:
      yield (f'learning_rate_scale is {self.learning_rate_scale}, but it scales Eq. 3 and the schedule is '
             f'{self.schedule}; set it to 1.0 and give peak, or choose schedule noam')
    if not 0.0 <= self.final_share <= 1.0:
      yield f'final_share is {self.final_share}; expected a share from 0 to 1'
    if self.decay_steps is not None and self.decay_steps <= self.warmup_steps:
      yield f'decay_steps is {self.decay_steps}; expected more than warmup_steps, {self.warmup_steps}'
    if self.ends_with_run and not self.length_known:
      yield (f'schedule {self.schedule} ends with the run, whose length in updates is not known when it is '
             'given in minutes; set train.num_steps or num_epochs instead of num_minutes, or decay_steps')

  @property
  def decay(self) -> float:
    """The weight decay, given or the rule's own."""
    return {'adamw': 0.01}.get(self.kind, 0.0) if self.weight_decay is None else self.weight_decay

  @property
  def ends_with_run(self) -> bool:
    """Whether the learning rate depends on the run's length, so that the length may not change half-way."""
    return self.schedule in FALLING and self.decay_steps is None


@dataclasses.dataclass(frozen=True)
class MeshConfig:
  """How many devices share which work. See partitioning."""

  data: int = -1  # parts of a batch's rows; -1: as many as there are devices left
  fsdp: int = 1  # parts of a batch's rows again, over which parameters and the optimiser's state are split, too
  tensor: int = 1  # parts of heads, of the feed-forward network's units and of the vocabulary
  compile: str = 'jit'  # jit, pmap

  def __post_init__(self):
    _refuse(self._mistakes())

  def _mistakes(self) -> Iterator[str]:
    yield from _one_of('compile', self.compile, ('jit', 'pmap'))
    if self.data < 1 and self.data != -1:
      yield f'mesh.data is {self.data}; expected a positive number of devices, or -1 for all'
    for name in ('fsdp', 'tensor'):
      if getattr(self, name) < 1:
        yield f'mesh.{name} is {getattr(self, name)}; expected a positive number of devices'
    if self.compile == 'pmap' and self.fsdp * self.tensor > 1:
      yield (f'compile is pmap, which splits batches alone, with mesh.fsdp {self.fsdp} and mesh.tensor '
             f'{self.tensor}; expected 1 for both, or compile=jit')


@dataclasses.dataclass(frozen=True)
class ClassificationConfig:
  """Fine-tuning on labelled text (Radford et al., 2018, §3.2, §4.1)."""

  task: str  # one of classification.TASKS
  outputs: int  # labels; of multiple choice: answers
  auxiliary_weight: float = 0.5  # λ of L3 = L2 + λ L1: the language model's loss on the same sequences
  classifier_dropout: float = 0.1  # on what the classifier reads

  def __post_init__(self):
    _refuse(self._mistakes())

  def _mistakes(self) -> Iterator[str]:
    yield from _one_of('task', self.task, LABELLED_TASKS)
    if self.outputs < 2:
      yield f'outputs is {self.outputs}; expected two labels or answers at least'
    if self.auxiliary_weight < 0:
      yield f'auxiliary_weight is {self.auxiliary_weight}; expected 0 (off) or more'
    if not 0.0 <= self.classifier_dropout < 1.0:
      yield f'classifier_dropout is {self.classifier_dropout}; expected a probability from 0 up to, but not, 1'
