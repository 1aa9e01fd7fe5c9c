"""Fine-tuning a language model on labelled text (Radford et al., 2018, §3.2 and §3.3), as pure functions.

A sequence is a start token, a text (or several with a delimiter between them) and an extract token; the last layer's
output at the extract token is the sequence's representation h. The classifier adds one matrix:

    classification, entailment   softmax(h W_y)             one sequence
    similarity                   softmax((h + h') W_y)      two, one in each order of the texts; h and h' are added
    multiple choice              softmax over i of h_i W_y  one for each answer, W_y with one column

The objective is L3 = L2 + λ L1: the label's log-likelihood, and the language model's on the same sequences. L1 is the
mean over a sequence's tokens and over an example's sequences, so that λ means the same for long and for short texts.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Float32, Int, Key

from transformer import loss
from transformer.config import ClassificationConfig, LossConfig
from transformer.dropout import dropout
from transformer.language_model import LanguageModel
from transformer.model import Logits, Params
from transformer.tokens import AnyArray, Tokens

Hidden = Callable[..., Float[Array, 'N T D']]
ToLogits = Callable[[Params, Float[Array, 'N T D']], Logits]


class LabelledBatch(NamedTuple):
  """Labelled examples. A row of padding has no tokens in any of its sequences and is not real."""

  sequences: Tokens  # leaves [B, C, T]; each sequence begins with the start token and ends with the extract token
  labels: Int[AnyArray, ' B']  # 0 to Y - 1
  real: Bool[AnyArray, ' B']


class ClassificationSums(NamedTuple):
  """Totals over real examples; add those of several devices or batches, then divide."""

  loss: Float32[Array, '']  # L3, nats; divide by examples
  nll: Float32[Array, '']  # the label's negative log-likelihood, -L2; divide by examples
  auxiliary: Float32[Array, '']  # -L1, nats a token; divide by examples
  correct: Float32[Array, '']  # examples whose label has the highest probability
  examples: Float32[Array, '']
  tokens: Float32[Array, '']  # real tokens in all sequences


def init_head(key: Key[Array, ''], d_model: int, config: ClassificationConfig) -> dict[str, Float32[Array, 'D Y']]:
  """Draw W_y from N(0, 0.02²), like Radford et al.'s other weights; for multiple choice it has one column."""
  columns = 1 if config.answers else config.outputs
  return {'kernel': 0.02 * jax.random.normal(key, (d_model, columns), jnp.float32)}


def at_extract(hidden: Float[Array, 'N T D'], segments: Int[AnyArray, 'N T']) -> Float[Array, 'N D']:
  """Take the hidden state at each sequence's last real token, which `segments` shows."""
  last = jnp.maximum((segments > 0).sum(axis=1) - 1, 0)
  return jnp.take_along_axis(hidden, last[:, None, None], axis=1)[:, 0]


def _of_all(kernel: Float[AnyArray, 'D Y'], representations: Float[Array, 'B C D']) -> Float[Array, 'B Y']:
  """Add the representations of an example's sequences, and score its labels."""
  return jnp.einsum('bd,dy->by', representations.sum(axis=1), kernel)


def _of_each(kernel: Float[AnyArray, 'D 1'], representations: Float[Array, 'B C D']) -> Float[Array, 'B C']:
  """Score each sequence of an example as one answer."""
  return jnp.einsum('bcd,dy->bcy', representations, kernel)[:, :, 0]


def make_scores(hidden: Hidden, config: ClassificationConfig) -> Callable:
  """Make scores(params, sequences, key=None) -> (label scores, hidden states of all sequences).

  Args:
    hidden: (model's params, Tokens with leaves [N, T], key=None) -> the last layer's causal hidden states.
    config: whether sequences are answers, and dropout.
  """
  def scores(params: Params, sequences: Tokens, key: Key[Array, ''] | None = None
             ) -> tuple[Float32[Array, 'B Y'], Float[Array, 'N T D']]:
    of_model = of_head = None
    if key is not None:
      of_model, of_head = jax.random.split(key)
    examples, count, length = sequences.ids.shape
    states = hidden(params['model'], _rows(sequences), of_model)
    found = at_extract(states, sequences.segments.reshape(-1, length)).astype(jnp.float32)
    found = found.reshape(examples, count, -1)
    found = found if of_head is None else dropout(found, config.classifier_dropout, of_head)
    return (_of_each if config.answers else _of_all)(params['head']['kernel'], found), states

  return scores


def _rows(sequences: Tokens) -> Tokens:
  """Reshape the leaves from [B, C, T] to [B · C, T]."""
  return Tokens(*(leaf.reshape(-1, leaf.shape[-1]) for leaf in sequences))


def make_objective(hidden: Hidden, logits: ToLogits, config: ClassificationConfig
                   ) -> Callable[..., ClassificationSums]:
  """Make objective(params, batch, key=None) -> ClassificationSums, without dropout where no key is given.

  `params` has the parts 'model' and 'head'.

  Args:
    hidden: see make_scores.
    logits: (model's params, hidden states) -> logits.
    config: whether sequences are answers, λ and dropout.
  """
  scores = make_scores(hidden, config)

  def objective(params: Params, batch: LabelledBatch, key: Key[Array, ''] | None = None) -> ClassificationSums:
    found, states = scores(params, batch.sequences, key)
    log_p = jax.nn.log_softmax(found, axis=-1)
    chosen = jnp.take_along_axis(log_p, batch.labels[:, None], axis=1)[:, 0]
    auxiliary = jnp.zeros_like(chosen)
    if config.auxiliary_weight:
      per_sequence = token_loss(logits(params['model'], states), _rows(batch.sequences))
      auxiliary = per_sequence.reshape(len(chosen), -1).mean(axis=1)
    total = lambda values: jnp.where(batch.real, values, 0.0).sum()
    return ClassificationSums(
        loss=total(-chosen + config.auxiliary_weight * auxiliary), nll=total(-chosen), auxiliary=total(auxiliary),
        correct=total(((found.argmax(axis=-1) == batch.labels) & jnp.isfinite(chosen)).astype(jnp.float32)),
        examples=total(jnp.ones_like(chosen)), tokens=(batch.sequences.segments > 0).sum().astype(jnp.float32))

  return objective


def build_objective(model: 'Classifier') -> Callable[..., ClassificationSums]:
  """Build the objective that fine-tuning a classifier minimises, see make_objective."""
  return make_objective(model.base.hidden, model.base.logits, model.head)


def token_loss(logits: Float32[Array, 'N T V'], sequences: Tokens) -> Float32[Array, ' N']:
  """Return each sequence's mean of -log p(token | those before it), over all tokens but the start token."""
  labels, real = sequences.ids[:, 1:], sequences.segments[:, 1:] > 0
  _, nll = loss.smoothed_cross_entropy(logits[:, :-1], labels, LossConfig(label_smoothing=0.0))
  return jnp.where(real, nll, 0.0).sum(axis=1) / jnp.maximum(real.sum(axis=1), 1)


@dataclasses.dataclass(frozen=True)
class Classifier(LanguageModel):
  """A language model with a classifier on it. Its params are {'model': the language model's, 'head': the classifier's}.

  Its language-model functions are those of the base model, so that a fine-tuned model can still generate text.
  """

  base: LanguageModel = dataclasses.field(kw_only=True)  # the language model under the classifier
  head: ClassificationConfig = dataclasses.field(kw_only=True)
  scores: Callable[..., Float32[Array, 'B Y']] = dataclasses.field(kw_only=True)  # (params, sequences, key=None)


def build(model: LanguageModel, config: ClassificationConfig) -> Classifier:
  """Put a classifier on `model`."""
  inner = lambda function: lambda params, *inputs, **options: function(params['model'], *inputs, **options)
  scores = make_scores(model.hidden, config)

  def init(key: Key[Array, '']) -> Params:
    of_model, of_head = jax.random.split(key)
    return {'model': model.init(of_model), 'head': init_head(of_head, model.config.d_model, config)}

  own: dict[str, Any] = {name: inner(getattr(model, name))
                         for name in ('encode', 'decode', 'init_cache', 'decode_step', 'prefill', 'inspect', 'states',
                                      'hidden', 'logits')}
  own['init'] = init
  own['axes'] = lambda: {'model': model.axes(), 'head': {'kernel': jax.sharding.PartitionSpec(None, None)}}
  return Classifier(
      **vars(model) | own,
      base=model,
      head=config,
      scores=lambda params, sequences, key=None: scores(params, sequences, key)[0])
