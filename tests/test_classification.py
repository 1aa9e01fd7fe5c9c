"""The classifier on top of a language model, against NumPy; what must change nothing, and what must change places."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.conftest import FILLER
from transformer import classification, tokens
from transformer.config import ClassificationConfig

VOCABULARY, WIDTH, INNER = 23, 7, 13


def make_model():
  """A small causal model of its own: each place sees the sum of what stands before it in its segment, and itself."""
  draw = np.random.default_rng(2)
  params = {name: draw.normal(size=shape).astype(np.float32) for name, shape in (
      ('table', (VOCABULARY, WIDTH)), ('inner', (WIDTH, INNER)), ('outer', (INNER, WIDTH)))}

  def hidden(params, sequences, key=None):
    x = params['table'][sequences.ids] * (sequences.segments > 0)[..., None]
    x = jnp.tanh(jnp.cumsum(x, axis=1) @ params['inner']) @ params['outer']
    return x if key is None else jnp.where(jax.random.bernoulli(key, 0.7, x.shape), x, 0.0)

  return params, hidden, lambda params, states: states @ params['table'].T


def head_of(config):
  return {'kernel': np.random.default_rng(5).normal(
      size=classification.init_head(jax.random.key(0), WIDTH, config)['kernel'].shape).astype(np.float32)}


def batch_of(examples, labels, length=11, rows=None):
  """Lists of sequences of each example -> LabelledBatch."""
  rows = rows or len(examples)
  flat = tokens.pad([ids for example in examples for ids in example], rows * len(examples[0]), length, FILLER)
  leaves = tokens.Tokens(*(leaf.reshape(rows, len(examples[0]), length) for leaf in flat))
  return classification.LabelledBatch(leaves, np.array([*labels, *[0] * (rows - len(examples))], np.int32),
                                      np.arange(rows) < len(examples))


def draw_examples(count, each, seed=0):
  draw = np.random.default_rng(seed)
  return [[[2, *draw.integers(6, VOCABULARY, draw.integers(1, 9)).tolist(), 5] for _ in range(each)]
          for _ in range(count)]


def setup(task, weight=0.5, dropout=0.0):
  config = ClassificationConfig(3, task == 'multiple_choice', weight, dropout)
  model, hidden, logits = make_model()
  params = {'model': model, 'head': head_of(config)}
  return (params, jax.jit(classification.make_objective(hidden, logits, config)),
          jax.jit(classification.make_scores(hidden, config)))


EACH = {'classification': 1, 'entailment': 1, 'similarity': 2, 'multiple_choice': 3}


@pytest.mark.parametrize('task', EACH)
def test_the_objective_is_that_of_a_loop(task):
  params, objective, _ = setup(task, weight=0.7)
  examples, labels = draw_examples(5, EACH[task]), [2, 0, 1, 1, 2]
  found = objective(params, batch_of(examples, labels))
  table, inner, outer = (params['model'][name].astype(np.float64) for name in ('table', 'inner', 'outer'))
  log_softmax = lambda x: x - np.log(np.exp(x).sum())
  nll = auxiliary = correct = count = 0
  for example, label in zip(examples, labels):
    representations = []
    for ids in example:
      states = [np.tanh(table[ids[:place + 1]].sum(0) @ inner) @ outer for place in range(len(ids))]
      representations.append(states[-1])
      auxiliary -= np.mean([log_softmax(table @ states[t - 1])[ids[t]] for t in range(1, len(ids))]) / len(example)
      count += len(ids)
    kernel = params['head']['kernel']
    scores = (np.array([h @ kernel[:, 0] for h in representations]) if task == 'multiple_choice'
              else sum(representations) @ kernel)
    nll -= log_softmax(scores)[label]
    correct += scores.argmax() == label
  expected = {'loss': nll + 0.7 * auxiliary, 'nll': nll, 'auxiliary': auxiliary, 'correct': correct, 'examples': 5,
              'tokens': count}
  assert set(expected) == set(found._fields)
  for name, value in expected.items():
    np.testing.assert_allclose(getattr(found, name), value, rtol=2e-5, err_msg=name)


def test_of_labels_with_one_score_only_that_which_is_answered_is_right():
  """A classifier that has learnt nothing, or whose scores are no numbers, has not got all examples right."""
  params, objective, _ = setup('classification')
  batch = batch_of(draw_examples(5, 1), [2, 0, 1, 1, 0])
  scored = lambda weight: objective(params | {'head': {'kernel': np.full_like(params['head']['kernel'], weight)}}, batch)
  assert float(scored(0.0).correct) == 2 and float(scored(np.nan).correct) == 0


@pytest.mark.parametrize('task', EACH)
def test_padding_and_neighbours_change_nothing(task):
  params, objective, scores = setup(task)
  examples = draw_examples(3, EACH[task])
  alone = [objective(params, batch_of([example], [1])) for example in examples]
  together = objective(params, batch_of(examples, [1, 1, 1], length=17, rows=5))
  for name in together._fields:
    np.testing.assert_allclose(getattr(together, name), sum(getattr(one, name) for one in alone), rtol=1e-5)
  batch = batch_of(examples, [1, 1, 1], length=17, rows=5)
  dirty = np.where(batch.sequences.segments > 0, batch.sequences.ids, 19)
  other = batch._replace(sequences=batch.sequences._replace(ids=dirty))
  np.testing.assert_array_equal(scores(params, batch.sequences)[0], scores(params, other.sequences)[0])
  gradient = jax.jit(jax.grad(lambda params: objective(params, batch).loss))(params)
  assert all(np.isfinite(leaf).all() and np.abs(leaf).max() > 0 for leaf in jax.tree.leaves(gradient))


def test_similarity_does_not_know_which_text_is_first():
  params, _, scores = setup('similarity')
  examples = draw_examples(4, 2)
  one, _ = scores(params, batch_of(examples, [0] * 4).sequences)
  other, _ = scores(params, batch_of([example[::-1] for example in examples], [0] * 4).sequences)
  np.testing.assert_array_equal(one, other)
  assert np.abs(one[0] - one[1]).max() > 1e-3


def test_answers_that_change_places_take_their_scores_along():
  params, _, scores = setup('multiple_choice')
  examples, order = draw_examples(4, 3), [2, 0, 1]
  one, _ = scores(params, batch_of(examples, [0] * 4).sequences)
  other, _ = scores(params, batch_of([[example[i] for i in order] for example in examples], [0] * 4).sequences)
  np.testing.assert_array_equal(one[:, np.array(order)], other)


def test_without_the_auxiliary_objective_no_logits_are_made():
  config = ClassificationConfig(3, auxiliary_weight=0.0)
  params, hidden, _ = make_model()
  objective = classification.make_objective(hidden, lambda *inputs: pytest.fail('made'), config)
  found = objective({'model': params, 'head': head_of(config)}, batch_of(draw_examples(2, 1), [0, 1]))
  assert found.auxiliary == 0 and found.loss == found.nll


def test_dropout_is_on_with_a_key_alone():
  params, objective, _ = setup('entailment', dropout=0.4)
  plain = setup('entailment', dropout=0.0)[1]
  batch = batch_of(draw_examples(5, 1), [0, 1, 2, 0, 1])
  assert objective(params, batch) == plain(params, batch)
  losses = {float(objective(params, batch, jax.random.key(seed)).nll) for seed in (1, 1, 2)}
  assert len(losses) == 2
  assert float(plain(params, batch, jax.random.key(1)).nll) not in losses  # the model's own dropout is another


def test_the_classifier_reads_the_extract_token():
  states = jax.random.normal(jax.random.key(0), (3, 5, 2))
  segments = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0]])
  found = classification.at_extract(states, segments)
  np.testing.assert_array_equal(found[:2], states[np.array([0, 1]), np.array([2, 4])])
  assert np.isfinite(found[2]).all()


@pytest.mark.parametrize('options, message', [
    (dict(outputs=1), 'outputs is 1; expected two'),
    (dict(outputs=2, auxiliary_weight=-1.0), 'auxiliary_weight is -1.0'),
    (dict(outputs=2, classifier_dropout=1.0), 'classifier_dropout is 1.0'),
])
def test_impossible_options(options, message):
  with pytest.raises(ValueError, match=message):
    ClassificationConfig(**options)
