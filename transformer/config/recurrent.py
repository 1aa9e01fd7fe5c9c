"""The encoder-decoders that the Transformer replaced."""

import dataclasses
from collections.abc import Iterator

from checks.refusals import positive, rates, refuse
from transformer import registries
from transformer.config.model import separate_vocabularies


@dataclasses.dataclass(frozen=True)
class RecurrentConfig:
  """Sizes and choices of the encoder-decoders that the Transformer replaced. See recurrent/.

  Raises ValueError on creation when choices do not fit each other.
  """

  vocab_size: int  # rows of the source embedding; of every embedding when they are shared
  target_vocab_size: int  # rows of the target embedding and columns of the logits
  d_model: int = 512  # width of embeddings and of the states of each direction
  num_layers: int = 1  # in the encoder, and again in the decoder
  num_decoder_layers: int | None = None  # None: num_layers, which it must equal
  dropout: float = 0.1  # on embeddings, between layers, and before the output projection (Zaremba et al., 2014)
  share_embeddings: bool = True  # one matrix for source, target and output
  tie_output: bool = True  # the output projection is the target embedding
  initializer: str = 'xavier_uniform'  # of the projections; recurrent matrices start orthogonal
  dtype: str = 'float32'  # of products; states, gates, parameters, logits and loss are always float32
  cell: str = 'gru'  # gru: Cho et al., 2014; lstm: Hochreiter & Schmidhuber, 1997
  bidirectional: bool = True  # the encoder reads both ways, Bahdanau et al., 2015
  reverse_source: bool = False  # the encoder reads from the last token to the first, Sutskever et al., 2014
  score: str = 'additive'  # additive: Bahdanau et al., 2015; dot, general: Luong et al., 2015; none: no attention
  context: str = 'first'  # score none: the source enters the decoder's first state, or (every) each step
  input_feeding: bool = False  # dot, general: the attentional vector enters the next step (Luong et al., 2015, §3.3)

  def __post_init__(self):
    refuse(self._mistakes())

  def _mistakes(self) -> Iterator[str]:
    yield from positive(vocab_size=self.vocab_size, target_vocab_size=self.target_vocab_size,
                         d_model=self.d_model, num_layers=self.num_layers)
    yield from registries.INITIALIZERS.mistakes(self.initializer)
    yield from registries.DTYPES.mistakes(self.dtype)
    yield from registries.CELLS.mistakes(self.cell)
    yield from registries.RECURRENT_SCORES.mistakes(self.score)
    yield from registries.CONTEXTS.mistakes(self.context)
    yield from rates(dropout=self.dropout)
    if self.share_embeddings:
      yield from separate_vocabularies(self.vocab_size, self.target_vocab_size)
    if self.num_decoder_layers not in (None, self.num_layers):
      yield (f'num_decoder_layers is {self.num_decoder_layers} and num_layers {self.num_layers}: each layer '
             'of the decoder starts from the same layer of the encoder; expected as many, or none given')
    if self.bidirectional and self.reverse_source:
      yield ('reverse_source is True, but a bidirectional encoder reads both ways already; '
             'set recurrent.bidirectional=False or recurrent.reverse_source=False')
    if self.score in registries.RECURRENT_SCORES:
      yield from self._mistakes_of_score()

  def _mistakes_of_score(self) -> Iterator[str]:
    scorer = registries.RECURRENT_SCORES[self.score]
    if scorer and scorer.equal_widths and self.bidirectional:
      yield (f'score is {self.score}, but the states of a bidirectional encoder are twice as wide as the decoder\'s '
             f'({2 * self.d_model} and {self.d_model}): expected general, or recurrent.bidirectional=False')
    if scorer and self.context != 'first':
      yield (f'context is {self.context}, but with score {self.score} attention brings a context of its own to each '
             'step; expected recurrent.context=first, or recurrent.score=none')
    if self.input_feeding and not (scorer and scorer.looks_after):
      yield (f'input_feeding feeds back the attentional vector of the scores dot and general; score is '
             f'{self.score}: expected recurrent.input_feeding=False')

  def idle(self) -> dict[str, str]:
    """Return the fields that other fields make ineffective: none, since such settings raise ValueError."""
    return {}

  @property
  def attends(self) -> bool:
    """Whether the decoder attends to the source."""
    return registries.RECURRENT_SCORES[self.score] is not None

  @property
  def backward(self) -> bool:
    """Whether the direction that hands its last state to the decoder reads backward."""
    return self.bidirectional or self.reverse_source

  @property
  def annotation_width(self) -> int:
    """Width of the encoder's output at each place: the states of its directions, concatenated."""
    return self.d_model * (1 + self.bidirectional)
