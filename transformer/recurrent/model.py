"""The encoder-decoders that the Transformer replaced (§1 of the paper), behind the same Model record.

    no attention   the last state starts the decoder (Sutskever et al., 2014), or enters every step (Cho et al., 2014)
    additive       attends with s(t-1), before the cell's step (Bahdanau et al., 2015)
    dot, general   attend with s(t), after the cell's step (Luong et al., 2015)

The decoder reads the source through one object: an entry of CONTEXTS or, with attention, LookBefore or LookAfter.
One step of the decoder is one method, which training scans over time and search calls. Embeddings are scaled by
√d_model, as the Transformer's are, so that one matrix serves both embeddings and the output; the papers had three.
"""

from typing import NamedTuple, Optional

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Float32, Int

from transformer import dtypes, embeddings, initializers, masks
from transformer.attention import WITNESS
from transformer.config import RecurrentConfig
from transformer.dropout import Dropout
from transformer.model import Beams, Cache, Family, Logits, Model, Record, StepLogits, Witness, of_module
from transformer.recurrent.attention import Attention, Glance, Source, projection
from transformer.recurrent.cells import Recurrence, State, segment_starts
from transformer.registries import ARCHITECTURES, CONTEXTS, RECURRENT_SCORES
from transformer.tokens import AnyArray, Tokens, real_ids

States = Float[Array, 'B T D']  # at every place
Contexts = Optional[Float[Array, 'B T A']]  # at every place; a context's width is its own


class RecurrentMemory(NamedTuple):
  """The encoder's output."""

  values: Float[Array, 'B S A']  # the last layer's output, "annotations"
  segments: Int[AnyArray, 'B S']  # 0 where padded
  states: list[State]  # of each layer, at every place; of the backward direction where there is one


class Carry(NamedTuple):
  """The decoder's state between steps."""

  layers: list[State]  # parts [B, W, D]
  fed: Float[Array, 'B W D'] | None  # the attentional vector of the step before; None unless it is fed back


class Moment(NamedTuple):
  """The input of a step beside the carry. Training has a sequence of them, with one beam."""

  entered: Float32[Array, 'B W gates D']  # the word, projected for the gates of the first layer
  mask: Bool[Array, 'B W S']  # which places may be attended to
  summary: Float[Array, 'B 1 D'] | None  # the sentence in one vector; None unless every step reads it


# --------------------------------------------------------------------------------- how the decoder reads the source


@CONTEXTS.register('first', "the decoder's first state")
class FirstState(nn.Module):
  """The encoder's last state is the decoder's first, and its only input of the source (Sutskever et al., 2014)."""

  config: RecurrentConfig
  fed_width = 0  # width of the first layer's input beside the word
  summarises = False  # whether each step reads the sentence as one vector

  def source(self, values: Float[Array, 'B S A']) -> Source | None:
    """Return what steps read of the encoder's outputs."""
    return None

  def before(self, carry: Carry, at: Moment, source: Source | None) -> Glance:
    """Return what is known before the cells' step; its context enters the first layer."""
    return Glance(None, None)

  def after(self, top: Float[Array, 'B W D'], glance: Glance, at: Moment, source: Source | None) -> Glance:
    """Return what is known once the last layer's state is `top`."""
    return glance

  def features(self, top: States, words: States, context: Contexts) -> States:
    """Return the input of the output projection, from the states, words and contexts."""
    return top


@CONTEXTS.register('every', 'each of its steps')
class EveryStep(FirstState):
  """A summary of the sentence enters every step and the deep output (Cho et al., 2014)."""

  summarises = True

  @property
  def fed_width(self) -> int:
    return self.config.d_model

  def setup(self):
    self.deep_output = DeepOutput(self.config, self.fed_width)

  def before(self, carry: Carry, at: Moment, source: Source | None) -> Glance:
    assert at.summary is not None  # HandOver makes it for links that summarise
    return Glance(jnp.broadcast_to(at.summary, carry.layers[-1][0].shape), None)  # one for all beams

  def features(self, top: States, words: States, context: Contexts) -> States:
    assert context is not None  # before() always has one
    return self.deep_output(top, words, context)


class LookBefore(EveryStep):
  """Attention from s(t-1); its context enters the cell and the deep output (Bahdanau et al., 2015, §3.1)."""

  @property
  def fed_width(self) -> int:
    return self.config.annotation_width

  def setup(self):
    super().setup()
    self.attention = Attention(self.config)

  def source(self, values: Float[Array, 'B S A']) -> Source:
    return self.attention.source(values)

  def before(self, carry: Carry, at: Moment, source: Source | None) -> Glance:
    assert source is not None  # what source() returned
    return self.attention(carry.layers[-1][0], source, at.mask)


class LookAfter(FirstState):
  """Attention from s(t); the attentional vector tanh(W [c; s]) is the output (Luong et al., 2015, §3).

  With input feeding it enters the next step, too (§3.3).
  """

  @property
  def fed_width(self) -> int:
    return self.config.d_model if self.config.input_feeding else 0

  def setup(self):
    self.attention = Attention(self.config)
    self.w_out = projection(self, 'w_out', self.config.annotation_width + self.config.d_model, self.config.d_model)

  def source(self, values: Float[Array, 'B S A']) -> Source:
    return self.attention.source(values)

  def before(self, carry: Carry, at: Moment, source: Source | None) -> Glance:
    return Glance(carry.fed, None)

  def after(self, top: Float[Array, 'B W D'], glance: Glance, at: Moment, source: Source | None) -> Glance:
    assert source is not None  # what source() returned
    context, weights = self.attention(top, source, at.mask)
    assert context is not None  # that of attention
    return Glance(jnp.tanh(jnp.concatenate([context, top.astype(context.dtype)], axis=-1) @ self.w_out), weights)

  def features(self, top: States, words: States, context: Contexts) -> States:
    assert context is not None  # the attentional vector, see after()
    return context


class DeepOutput(nn.Module):
  """One maxout layer over state, word and context (Bahdanau et al., 2015, §A.2.2; with s(t), as in its Eq. 4)."""

  config: RecurrentConfig
  context_width: int

  @nn.compact
  def __call__(self, top: States, words: States, context: Float[Array, 'B T A']) -> States:
    """Return the larger of two candidates for each unit."""
    width = self.config.d_model
    x = jnp.concatenate([top.astype(words.dtype), words, context.astype(words.dtype)], axis=-1)
    bias = self.param('bias', initializers.with_axes(nn.initializers.zeros_init(), ('cell',)), (2 * width,),
                      jnp.float32)
    y = x @ projection(self, 'w', 2 * width + self.context_width, 2 * width) + bias.astype(x.dtype)[None, None]
    return jnp.maximum(y[..., :width], y[..., width:])


def make_link(config: RecurrentConfig) -> FirstState:
  """Make the object through which a configuration's decoder reads the source."""
  score = RECURRENT_SCORES[config.score]
  if score is None:
    return CONTEXTS[config.context](config)
  return LookAfter(config) if score.looks_after else LookBefore(config)


# -------------------------------------------------------------------------------------------------------- the whole


class RecurrentEncoderDecoder(nn.Module):
  """Encoder, hand-over and decoder. of_module() turns its methods into functions."""

  config: RecurrentConfig

  def setup(self):
    cfg = self.config
    self.tables = embeddings.tables(self, cfg)
    above = [cfg.annotation_width] * (cfg.num_layers - 1)
    layers = lambda: [Recurrence(cfg, width) for width in [cfg.d_model, *above]]
    self.forward_layers = layers() if cfg.bidirectional or not cfg.backward else []
    self.backward_layers = layers() if cfg.backward else []
    self.link = make_link(cfg)
    self.decoder_layers = [Recurrence(cfg, cfg.d_model, 0 if n else self.link.fed_width) for n in range(cfg.num_layers)]
    self.hand_over = HandOver(cfg)
    self.dropout = Dropout(cfg.dropout)

  def _embed(self, table: embeddings.Table, ids: Int[AnyArray, 'B T']) -> States:
    return self.dropout(embeddings.embed(table, ids, self.config).astype(dtypes.of(self.config)))

  def encode(self, source: Tokens) -> RecurrentMemory:
    x, states = self._embed(self.tables.source, real_ids(source)), []
    for n in range(self.config.num_layers):
      x = self.dropout(x) if n else x
      read = [layers[n].read(x, source.segments, backward) for layers, backward in
              ((self.forward_layers, False), (self.backward_layers, True)) if layers]
      x = jnp.concatenate([state[0] for state in read], axis=-1).astype(x.dtype)
      states.append(read[-1])
    return RecurrentMemory(x, source.segments, states)

  def _step(self, carry: Carry, at: Moment, source: Source | None
            ) -> tuple[Carry, tuple[Float[Array, 'B W D'], Glance]]:
    """Advance by one word: return the new carry, and the last layer's state with what was read of the source."""
    glance = self.link.before(carry, at, source)
    entered, states = at.entered, []
    if glance.context is not None and self.link.fed_width:
      entered = entered + self.decoder_layers[0].enter_fed(glance.context)
    for n, (layer, state) in enumerate(zip(self.decoder_layers, carry.layers)):
      states.append(layer.step(layer.enter(self.dropout(states[-1][0])) if n else entered, state))
    top = states[-1][0]
    glance = self.link.after(top, glance, at, source)
    return Carry(states, None if carry.fed is None else glance.context), (top, glance)

  def _start(self, states: list[State]) -> Carry:
    """Return the carry before the first word."""
    first = states[0][0]
    fed = jnp.zeros(first.shape, dtypes.of(self.config)) if self.config.input_feeding else None
    return Carry(states, fed)

  def _logits(self, features: States) -> Logits:
    return embeddings.logits(self.dropout(features.astype(dtypes.of(self.config))), self.tables.output)

  def look(self, memory: RecurrentMemory, target: Tokens) -> tuple[Logits, Float32[Array, 'B T S'] | None]:
    """Return the logits under teacher forcing, and the attention weights of every step where there are any."""
    mask = masks.segment_mask(target.segments, memory.segments)
    states, summary = self.hand_over(memory, mask)
    words = self._embed(self.tables.target, real_ids(target))
    one_beam = lambda x: x[:, :, None]
    moments = Moment(self.decoder_layers[0].enter(words)[:, :, None], one_beam(mask),
                     None if summary is None else one_beam(summary))
    starts = jax.tree.map(one_beam, self._start(states))

    def advance(module, carry, at, source):
      moment, is_first, start = at  # each sentence of a packed row starts from its own source
      carry = jax.tree.map(lambda new, old: jnp.where(is_first[:, None, None], new, old), start, carry)
      return module._step(carry, moment, source)

    scan = nn.scan(advance, variable_broadcast='params', split_rngs={'params': False, 'dropout': True},
                   in_axes=(1, nn.broadcast), out_axes=1)  # pyright: ignore[reportArgumentType]  # one for each input
    blank = jax.tree.map(lambda x: jnp.zeros_like(x[:, 0]), starts)
    at = (moments, segment_starts(target.segments, backward=False), starts)
    _, (top, glance) = scan(self, blank, at, self.link.source(memory.values))
    top, context, weights = (None if x is None else x[:, :, 0] for x in (top, *glance))
    return self._logits(self.link.features(top, words, context)), weights

  def decode(self, memory: RecurrentMemory, target: Tokens) -> Logits:
    logits, weights = self.look(memory, target)
    self._witness(weights)
    return logits

  def _witness(self, weights: Float32[Array, 'B T S'] | None) -> None:
    """Record the attention weights, if the caller makes the collection mutable."""
    if weights is not None:
      self.sow(WITNESS, 'weights', weights)

  def init_cache(self, memory: RecurrentMemory, length: int, beams: int) -> Cache:
    del length  # a state has one size, however much was read
    states, summary = self.hand_over(memory, masks.padding_mask(memory.segments, 1))
    per_beam = lambda x: jnp.repeat(x, beams, axis=1)
    return Cache(
        beams=jax.tree.map(per_beam, self._start(states)),
        past=(),
        source=(self.link.source(memory.values), masks.padding_mask(memory.segments, beams), summary),
        step=jnp.zeros(memory.segments.shape[0], jnp.int32))

  def decode_step(self, cache: Cache, tokens: Beams) -> tuple[StepLogits, Cache]:
    source, mask, summary = cache.source
    words = self._embed(self.tables.target, tokens)
    carry, (top, glance) = self._step(cache.beams, Moment(self.decoder_layers[0].enter(words), mask, summary), source)
    self._witness(glance.weights)
    logits = self._logits(self.link.features(top, words, glance.context))
    return logits, cache._replace(beams=carry, step=cache.step + 1)

  def __call__(self, source: Tokens, target: Tokens) -> Logits:
    """Encode and decode; initialisation and inspect() call this."""
    return self.decode(self.encode(source), target)


class HandOver(nn.Module):
  """The decoder's first states, computed from the encoder's states.

      read one way    s(0) is the encoder's last state, layer by layer         (Sutskever et al.; Luong et al.)
      read both ways  s(0) = tanh(W h(1)), h(1) the backward reader's last     (Bahdanau et al., 2015, §A.2.2)
      every step      c = tanh(V h(S)), s(0) = tanh(W c)                       (Cho et al., 2014, §A.1.2)
  """

  config: RecurrentConfig

  @nn.compact
  def __call__(self, memory: RecurrentMemory, mask: Bool[AnyArray, 'B T S']
               ) -> tuple[list[State], Float[Array, 'B T D'] | None]:
    """Return each layer's first state, and the summary where there is one, for each query of the mask.

    A query's sentence is where its mask is True; the last state is that of the last token read there.
    """
    cfg, dtype = self.config, dtypes.of(self.config)
    # The last True is the first of the reversed row. A query without a sentence reads place 0 or S-1, unused.
    place = mask.argmax(-1) if cfg.backward else mask.shape[-1] - 1 - mask[:, :, ::-1].argmax(-1)
    pick = lambda part: jnp.take_along_axis(part, place[:, :, None], axis=1)
    project = lambda name, x: jnp.tanh(x.astype(dtype) @ projection(self, name, cfg.d_model, cfg.d_model))
    last = [tuple(pick(part) for part in state) for state in memory.states]
    every = not cfg.attends and CONTEXTS[cfg.context].summarises
    summary = project('w_summary', last[-1][0]) if every else None
    if every or cfg.bidirectional:
      last = [tuple(project(f'w_first_{n}_{p}', summary if every else part).astype(jnp.float32)
                    for p, part in enumerate(state)) for n, state in enumerate(last)]
    return last, summary


def build(config: RecurrentConfig) -> Model:
  """Build the recurrent encoder-decoder of `config`, as functions of its parameters."""
  def record(seen: Witness) -> Record:  # one "layer" of one "head", [B, 1, T, S]
    return {'encoder': [], 'decoder': [], 'cross': [seen['weights'][0][:, None]] if config.attends else []}

  return of_module(RecurrentEncoderDecoder(config), record,
                   looked=(lambda seen: seen['weights'][0]) if config.attends else None)


def _describe(config: RecurrentConfig) -> str:
  reader = 'read both ways' if config.bidirectional else 'read backward' if config.reverse_source else 'read forward'
  how = (f'{config.score} score' if config.attends else
         f'no attention, the last state at {"every" if config.context == "every" else "the first"} step')
  fed = ', input feeding' if config.input_feeding else ''
  return (f'{config.num_layers}+{config.num_layers} {config.cell.upper()} layers, d_model {config.d_model}, source '
          f'{reader}, {how}{fed}')


ARCHITECTURES.add('recurrent', Family(RecurrentConfig, build, _describe), 'see recurrent.*')
