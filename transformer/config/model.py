"""The Transformer, as an encoder-decoder and as a language model."""

import dataclasses
from collections.abc import Iterator

from checks.refusals import positive, rates, refuse
from transformer import registries


def separate_vocabularies(source: int, target: int) -> Iterator[str]:
  """Yield a message if vocabularies of these sizes cannot share embeddings, that is, if they differ."""
  if source != target:
    yield (f'share_embeddings needs one vocabulary; the source has {source} entries and the target {target}: set '
           'vocabulary.joint=True or model.share_embeddings=False')


@dataclasses.dataclass(frozen=True)
class ArchitectureConfig:
  """The choice of an architecture, each of which has a record of its own. See architectures.py."""

  architecture: str = 'transformer'

  def __post_init__(self):
    refuse(self._mistakes())

  def _mistakes(self) -> Iterator[str]:
    yield from registries.ARCHITECTURES.mistakes(self.architecture)


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
  attention_score: str = 'scaled_dot'  # how query and key are compared, see attention_scores
  attention_kernel: str = 'einsum'  # by which code attention is computed over whole texts, see attention_kernels
  positions: str = 'sinusoidal'  # how the model knows a token's position, see positions
  position_layout: str = 'interleaved'  # sinusoidal, rotary: which columns form a pair (§3.5), see positions
  position_frequencies: str = 'paper'  # sinusoidal, rotary: radians per position, see positions
  max_positions: int = 512  # learned: rows of the table, and so the longest text
  clip_distance: int = 16  # relative: longer distances, in tokens, count as this one
  num_buckets: int = 32  # t5: groups of distances
  max_distance: int = 128  # t5: distances from here on share the last bucket
  norm: str = 'post'  # post: Norm(x + Sublayer(x)), §3.1; pre: x + Sublayer(Norm(x))
  normalization: str = 'layer_norm'  # see normalization
  layer_norm_epsilon: float = 1e-6  # the paper is silent; tensor2tensor's value
  norm_bias: bool = True  # LayerNorm's shift
  activation: str = 'relu'  # of the feed-forward network's hidden units, see feed_forward
  feed_forward_bias: bool = True  # Eq. 2
  attention_bias: bool = False  # §3.2.2 writes products only
  dropout: float = 0.1  # on every sub-layer's output and on the embedding sums, §5.4
  attention_dropout: float = 0.0  # on the attention weights
  activation_dropout: float = 0.0  # on the feed-forward network's hidden units
  share_embeddings: bool = True  # one matrix for source, target and output, §3.4
  tie_output: bool = True  # the output projection is the target embedding, §3.4
  output_bias: bool = False  # §3.4 writes a product only
  initializer: str = 'xavier_uniform'  # of the projections; the paper is silent
  dtype: str = 'float32'  # of activations and products; parameters, logits and loss are always float32
  scan_layers: bool = False  # one compiled layer run N times: compiles faster, runs slower
  remat: bool = False  # recompute a layer's activations for the gradient instead of keeping them

  def __post_init__(self):
    refuse(self._mistakes())

  def _mistakes(self) -> Iterator[str]:
    sizes = ('vocab_size', 'target_vocab_size', 'd_model', 'num_heads', 'num_layers', 'd_ff', 'max_positions',
             'clip_distance', 'num_buckets', 'num_decoder_layers', 'd_k', 'd_v', 'num_kv_heads')
    too_small = list(positive(**{name: getattr(self, name) for name in sizes if getattr(self, name) is not None}))
    yield from too_small
    yield from registries.NORMS.mistakes(self.norm)
    yield from registries.NORMALIZATIONS.mistakes(self.normalization)
    yield from registries.ACTIVATIONS.mistakes(self.activation)
    yield from registries.ATTENTION_SCORES.mistakes(self.attention_score)
    yield from registries.ATTENTION_KERNELS.mistakes(self.attention_kernel)
    yield from registries.POSITIONS.mistakes(self.positions)
    yield from registries.POSITION_LAYOUTS.mistakes(self.position_layout)
    yield from registries.POSITION_FREQUENCIES.mistakes(self.position_frequencies)
    yield from registries.DTYPES.mistakes(self.dtype)
    yield from registries.INITIALIZERS.mistakes(self.initializer)
    yield from rates(dropout=self.dropout, attention_dropout=self.attention_dropout,
                     activation_dropout=self.activation_dropout)
    yield from positive(layer_norm_epsilon=self.layer_norm_epsilon)
    if not too_small:  # else the checks below would divide by zero
      yield from self._mistakes_of_heads()
      if self.positions in registries.POSITIONS:
        yield from registries.POSITIONS[self.positions].mistakes(self)
      if kernel := registries.ATTENTION_KERNELS.get(self.attention_kernel):
        yield from kernel.mistakes(self)
    if self.share_embeddings:
      yield from separate_vocabularies(self.vocab_size, self.target_vocab_size)

  def idle(self) -> dict[str, str]:
    """Return the fields that other fields make ineffective, each with the reason."""
    return registries.POSITIONS.idle(self.positions) | registries.NORMALIZATIONS.idle(self.normalization)

  def _mistakes_of_heads(self) -> Iterator[str]:
    if self.d_model % self.num_heads and None in (self.d_k, self.d_v):
      yield (f'd_model {self.d_model} is not divisible by num_heads {self.num_heads}: '
             'd_k = d_v = d_model / num_heads must be whole (§3.2.2); change one of them, or set d_k and d_v')
    if self.num_heads % self.kv_heads:
      yield (f'num_heads {self.num_heads} is not divisible by num_kv_heads {self.num_kv_heads}: every head '
             'of keys and values serves a group of equally many query heads')

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
class LanguageModelConfig(ModelConfig):
  """The same sizes and choices for a decoder-only language model (Radford et al., 2018): num_layers is its depth."""

  def _mistakes(self) -> Iterator[str]:
    yield from super()._mistakes()
    if not self.share_embeddings:
      yield 'share_embeddings is False; a language model has one embedding: there is no source'
    if self.num_decoder_layers is not None:
      yield f'num_decoder_layers is {self.num_decoder_layers}; the depth of a language model is num_layers'
