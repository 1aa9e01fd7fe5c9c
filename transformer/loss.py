"""The training objective, §5.4, as sums and counts, divided once, after the sums of all devices are added."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Float32, Int

from transformer.config import LossConfig
from transformer.registries import LOGITS_DTYPES, SMOOTHINGS
from transformer.tokens import AnyArray

# From the share ε of label smoothing to the share that is spread evenly over all V entries.
SMOOTHINGS.add('vocabulary', lambda share, size: share, 'over all V entries')  # Szegedy et al., 2016
# tensor2tensor: ε over the V - 1 wrong entries = ε V/(V-1) over all V, of which the label keeps its part.
SMOOTHINGS.add('others', lambda share, size: share * size / (size - 1), 'over the V - 1 wrong ones')

# In a training step no other array is as large as the logits, see kept().
LOGITS_DTYPES.add('float32', jnp.dtype(jnp.float32))
LOGITS_DTYPES.add('bfloat16', jnp.dtype(jnp.bfloat16), 'half the bytes, rounded once')

Logits = Float[AnyArray, 'B T V']  # float32, or as training keeps them, see kept()
Labels = Int[AnyArray, 'B T']
EachToken = Float32[Array, 'B T']


class Sums(NamedTuple):
  """Totals over real target tokens; add those of several devices or batches, then divide."""

  loss: Float32[Array, '']  # what training minimises, nats: smoothed cross-entropy, and any consistency term
  nll: Float32[Array, '']  # negative log-likelihood without smoothing, nats: exp(nll / tokens) is the perplexity
  tokens: Float32[Array, '']  # real target tokens, EOS included
  correct: Float32[Array, '']  # tokens that have the highest probability


def count(totals: Mapping[str, Any]) -> Any:
  """Return the divisor of means, from the fields of Sums or of another objective's sums: examples, else tokens."""
  return totals['examples'] if 'examples' in totals else totals['tokens']


def kept(logits: Float32[AnyArray, 'B T V'], config: LossConfig) -> Logits:
  """Return the logits as they are in memory until their gradient is made; what is computed from them is float32."""
  return logits.astype(LOGITS_DTYPES[config.logits_dtype])


@jax.custom_vjp
def _log_likelihoods(logits: Logits, labels: Labels) -> tuple[EachToken, EachToken]:
  """Return log p(label), and the mean over V of log p."""
  return _forward(logits, labels)[0]


def _forward(logits, labels):
  wide = logits.astype(jnp.float32)
  normalizer = jax.nn.logsumexp(wide, axis=-1)
  chosen = jnp.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
  return (chosen - normalizer, wide.mean(axis=-1) - normalizer), (logits, labels, normalizer)


def _backward(saved, gradients):
  # Written by hand so that one fused pass over [B, T, V] makes the gradient: no [B, T, V] of log-probabilities is
  # kept, no one-hot target is made, and nothing is scattered.
  logits, labels, normalizer = saved
  of_label, of_mean = gradients
  onehot = labels[..., None] == jnp.arange(logits.shape[-1])[None, None]
  probability = jnp.exp(logits - normalizer[..., None])
  gradient = (jnp.where(onehot, of_label[..., None], 0.0) + (of_mean / logits.shape[-1])[..., None]
              - probability * (of_label + of_mean)[..., None])
  return gradient.astype(logits.dtype), None


_log_likelihoods.defvjp(_forward, _backward)


def smoothed_cross_entropy(logits: Logits, labels: Labels, config: LossConfig) -> tuple[EachToken, EachToken]:
  """Cross-entropy against (1 - ε) on the label and ε spread evenly, in closed form.

  config.smoothing_over says over which entries, see SMOOTHINGS. The target's entropy is not subtracted.

  Returns:
    loss and negative log-likelihood of each token, in nats.
  """
  log_label, log_mean = _log_likelihoods(logits, labels)
  share = SMOOTHINGS[config.smoothing_over](config.label_smoothing, logits.shape[-1])
  return -(1.0 - share) * log_label - share * log_mean, -log_label


def sums(logits: Logits, labels: Labels, real: Bool[AnyArray, 'B T'], config: LossConfig) -> Sums:
  """Return the totals over the tokens where `real` is True; padding does not count."""
  loss, nll = smoothed_cross_entropy(logits, labels, config)
  # Compared with the maximum, not by argmax, which on a CPU costs half as much as the rest of the loss; with that of the
  # loss, in float32, so that XLA looks for it once.
  hit = jnp.take_along_axis(logits, labels[..., None], axis=-1)[..., 0] >= logits.astype(jnp.float32).max(axis=-1)
  total = lambda values: jnp.where(real, values, 0.0).sum()
  return Sums(total(loss), total(nll), total(1.0), total(hit))


def sums_in_chunks(states: Float[Array, 'B T D'], project: Callable[[Float[Array, 'B t D']], Logits],
                   labels: Labels, real: Bool[AnyArray, 'B T'], config: LossConfig) -> Sums:
  """Return sums(project(states), labels, real, config) up to rounding, with fewer logits in memory at a time.

  The T places are divided into config.loss_chunks parts, one after the other; the rows are not, since devices share
  them. The gradient computes the logits of each part once more.

  Args:
    states: what the output projection reads.
    project: the output projection.
    labels, real: as sums() takes them.
    config: its loss_chunks need not divide T.
  """
  parts = config.loss_chunks

  def dealt(x):
    ends = [(0, 0), (0, -x.shape[1] % parts), *[(0, 0)] * (x.ndim - 2)]
    return jnp.moveaxis(jnp.pad(x, ends).reshape(x.shape[0], parts, -1, *x.shape[2:]), 1, 0)

  measure = jax.checkpoint(lambda states, labels, real: sums(project(states), labels, real, config), prevent_cse=False)
  add = lambda total, part: (jax.tree.map(jnp.add, total, measure(*part)), None)
  nothing = Sums(*(jnp.zeros((), jnp.float32) for _ in Sums._fields))
  return jax.lax.scan(add, nothing, (dealt(states), dealt(labels), dealt(real)))[0]


@jax.custom_vjp
def divergence(p: Logits, q: Logits) -> EachToken:
  """Kullback-Leibler divergence KL(p ‖ q) of two predictions, in nats, from their logits."""
  return _divergence_forward(p, q)[0]


def _divergence_forward(p, q):
  normalizers = [jax.nn.logsumexp(logits.astype(jnp.float32), axis=-1, keepdims=True) for logits in (p, q)]
  log_p, log_q = p - normalizers[0], q - normalizers[1]
  apart = (jnp.exp(log_p) * (log_p - log_q)).sum(axis=-1)
  return apart, (p, q, *normalizers, apart)


def _divergence_backward(saved, gradient):
  # Written by hand, as above: beside each prediction's logits only one number a token is kept.
  p, q, normalizer_p, normalizer_q, apart = saved
  log_p, log_q, gradient = p - normalizer_p, q - normalizer_q, gradient[..., None]
  return ((gradient * jnp.exp(log_p) * (log_p - log_q - apart[..., None])).astype(p.dtype),
          (gradient * (jnp.exp(log_q) - jnp.exp(log_p))).astype(q.dtype))


divergence.defvjp(_divergence_forward, _divergence_backward)
