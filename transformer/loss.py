"""The training objective, §5.4, as sums and counts: division happens once, after all devices have added theirs."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from transformer.config import LossConfig
from transformer.registries import SMOOTHINGS

# The share ε of the smoothed target, as the share that is spread evenly over all V entries.
SMOOTHINGS.add('vocabulary', lambda share, size: share, 'over all V entries')  # Szegedy et al., 2016
# tensor2tensor: ε over V - 1 wrong ones = ε V/(V-1) over all, the label's part added to it.
SMOOTHINGS.add('others', lambda share, size: share * size / (size - 1), 'over the V - 1 wrong ones')


class Sums(NamedTuple):
  """Totals over real target tokens, float32 scalars; add those of several devices or batches, then divide."""

  loss: jax.Array  # what training descends on, nats: smoothed cross-entropy, and the consistency term where asked for
  nll: jax.Array  # negative log-likelihood without smoothing, nats: exp(nll / tokens) is the perplexity
  tokens: jax.Array  # real target tokens, EOS included
  correct: jax.Array  # tokens than which no other was more likely


def count(totals: dict[str, Any]) -> Any:
  """What a mean is taken over, of the fields of Sums or of another objective's sums: examples, else tokens."""
  return totals['examples'] if 'examples' in totals else totals['tokens']


@jax.custom_vjp
def _log_likelihoods(logits: jax.Array, labels: jax.Array) -> tuple[jax.Array, jax.Array]:
  """log p(label) and the mean over V of log p, each [B, T], from logits [B, T, V] float32."""
  return _forward(logits, labels)[0]


def _forward(logits, labels):
  normalizer = jax.nn.logsumexp(logits, axis=-1)
  chosen = jnp.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
  return (chosen - normalizer, logits.mean(axis=-1) - normalizer), (logits, labels, normalizer)


def _backward(saved, gradients):
  # Written by hand so that one fused pass over [B, T, V] makes the gradient: no [B, T, V] of log-probabilities is
  # kept, no one-hot target is made, and nothing is scattered.
  logits, labels, normalizer = saved
  of_label, of_mean = gradients
  onehot = labels[..., None] == jnp.arange(logits.shape[-1])[None, None]
  probability = jnp.exp(logits - normalizer[..., None])
  gradient = (jnp.where(onehot, of_label[..., None], 0.0) + (of_mean / logits.shape[-1])[..., None]
              - probability * (of_label + of_mean)[..., None])
  return gradient, None


_log_likelihoods.defvjp(_forward, _backward)


def smoothed_cross_entropy(logits: jax.Array, labels: jax.Array, config: LossConfig) -> tuple[jax.Array, jax.Array]:
  """Cross-entropy against (1 - ε) on the label and ε spread evenly, in closed form.

  config.smoothing_over says over which entries, see SMOOTHINGS. The target's entropy is not subtracted.

  Args:
    logits: [B, T, V] float32.
    labels: [B, T] ids.

  Returns:
    loss and negative log-likelihood of each token, [B, T] nats.
  """
  log_label, log_mean = _log_likelihoods(logits, labels)
  share = SMOOTHINGS[config.smoothing_over](config.label_smoothing, logits.shape[-1])
  return -(1.0 - share) * log_label - share * log_mean, -log_label


def sums(logits: jax.Array, labels: jax.Array, real: jax.Array, config: LossConfig) -> Sums:
  """Totals over the tokens where `real` [B, T] bool is True; padding counts nothing."""
  loss, nll = smoothed_cross_entropy(logits, labels, config)
  # Compared with the maximum, not by argmax: on a CPU that costs half as much as the rest of the loss.
  hit = jnp.take_along_axis(logits, labels[..., None], axis=-1)[..., 0] >= logits.max(axis=-1)
  total = lambda values: jnp.where(real, values, 0.0).sum()
  return Sums(total(loss), total(nll), total(1.0), total(hit))


@jax.custom_vjp
def divergence(p: jax.Array, q: jax.Array) -> jax.Array:
  """Kullback-Leibler divergence KL(p ‖ q) of two predictions, [B, T] nats, from logits [B, T, V] float32."""
  return _divergence_forward(p, q)[0]


def _divergence_forward(p, q):
  normalizers = [jax.nn.logsumexp(logits, axis=-1, keepdims=True) for logits in (p, q)]
  log_p, log_q = p - normalizers[0], q - normalizers[1]
  apart = (jnp.exp(log_p) * (log_p - log_q)).sum(axis=-1)
  return apart, (p, q, *normalizers, apart)


def _divergence_backward(saved, gradient):
  # By hand for the reason above: of each prediction one number a token is kept beside its logits.
  p, q, normalizer_p, normalizer_q, apart = saved
  log_p, log_q, gradient = p - normalizer_p, q - normalizer_q, gradient[..., None]
  return (gradient * jnp.exp(log_p) * (log_p - log_q - apart[..., None]),
          gradient * (jnp.exp(log_q) - jnp.exp(log_p)))


divergence.defvjp(_divergence_forward, _divergence_backward)
