"""The same answer from a trained model on real sentences, for every kind of search, whatever stands beside a line."""

import os

import jax
import numpy as np
import pytest

import tasks
import train
from corpora import loading
from decoding import batches
from decoding.translator import Request, Translator
from options import train_options
from transformer import search

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SMALL = ['--config.model.d_model=64', '--config.model.num_layers=2', '--config.model.d_ff=128',
         '--config.vocabulary.size=1000', '--config.train.num_steps=500', '--config.optimizer.warmup_steps=100',
         '--config.optimizer.decay_steps=500', '--config.train.first_eval=500', '--config.train.eval_every=500',
         '--config.train.checkpoint_every=500', '--config.train.average_last=1']
COUNT = 64  # sentences; the test split has more
KINDS = {
    'beam': {}, 'greedy': dict(beam_size=1), 'sample': dict(strategy='sample', seed=7, temperature=0.8, top_p=0.95),
    'diverse': dict(beam_size=4, groups=2), 'coverage': dict(coverage_penalty=0.2),
    'wishes': {}}


@pytest.fixture(scope='module')
def run(tmp_path_factory):
  """The folder of a small run on the phrasebook, a minute long; TRAINED_RUN=folder takes another in its place."""
  if 'TRAINED_RUN' in os.environ:
    return os.environ['TRAINED_RUN']
  workdir = str(tmp_path_factory.mktemp('runs') / 'phrasebook')
  argv = ['train.py', f'--config={ROOT}/configs/phrasebook.py', f'--workdir={workdir}', *SMALL]
  assert train.main(train_options.parse(argv, '')) == 0
  return workdir


@pytest.fixture(scope='module')
def lines():
  """Sentences of different lengths, the plain ones and the longest of the phrasebook's test split among them."""
  config = loading.CorpusConfig(kind='phrasebook', source_language='en', target_language='de')
  sentences = sorted({pair.source for pair in loading.load(config).tests[0]}, key=lambda text: (len(text), text))
  chosen = sentences[::len(sentences) // (COUNT - 2)][:COUNT - 2] + sentences[-2:]
  return [chosen[place] for place in np.random.default_rng(0).permutation(len(chosen))]


@pytest.fixture(scope='module')
def requests(run, lines):
  """The lines as they are, and what translations of every kind but one have to be like: nothing."""
  free = tasks.load(run, batch_tokens=512).translate(lines)
  wishes = []
  for number, (line, one) in enumerate(zip(lines, free)):
    words = one.text.split()
    first, last = words[0], words[-1].rstrip('.?!')
    wishes.append(Request(line, **[dict(prefix=first), dict(required=(last,)), dict(forbidden=(first,)), {}][number % 4]))
  return {'wishes': wishes, None: [Request(line) for line in lines]}


def translator(run, options, batch_tokens=512, devices=1):
  loaded = tasks.load(run, **options, batch_tokens=batch_tokens)
  return Translator(loaded._models, [jax.device_get(own) for own in loaded.params], *loaded.parts[1:], loaded.search_config,
                    batch_tokens, devices=jax.devices()[:devices])


def assert_same(found, expected, close):
  """Texts equal, and log-probabilities of tokens to 1e-5, or 1e-6 of an unlikely one's; ties may go either way."""
  for number, (one, other) in enumerate(zip(found, expected, strict=True), 1):
    if number not in close or one.text == other.text:
      assert one.text == other.text, f'line {number}'
      np.testing.assert_allclose(one.token_log_probs, other.token_log_probs, rtol=1e-6, atol=1e-5, err_msg=f'line {number}')


@pytest.mark.drill
@pytest.mark.parametrize('kind', KINDS)
def test_the_same_answer(run, requests, monkeypatch, kind, capsys):
  asked = requests.get(kind, requests[None])
  base, close = translator(run, KINDS[kind]), set()

  def translate(one, some):
    found = one.translate(some)
    close.update(one._close)
    return found

  expected = translate(base, asked)
  assert len({one.text for one in expected}) > COUNT // 2
  numbered = [request._replace(line=number) for number, request in enumerate(asked)]
  others = {'other neighbours': translate(base, numbered[::-1])[::-1],
            'fewer rows': translate(translator(run, KINDS[kind], 64), asked),
            'two devices': translate(translator(run, KINDS[kind], devices=2), asked),
            'eight devices': translate(translator(run, KINDS[kind], devices=8), asked)}
  assert_same([base.translate([request])[0] for request in numbered[:8]], expected[:8], close)
  narrow = batches.length_class
  monkeypatch.setattr(batches, 'length_class', lambda length, least: narrow(length, least) + 16)
  others['a wider bucket'] = translate(translator(run, KINDS[kind]), asked)
  different = {}
  for name, found in others.items():
    assert_same(found, expected, close)
    different[name] = max(np.abs(np.subtract(one.token_log_probs, other.token_log_probs)).max()
                          for one, other in zip(found, expected) if one.ids == other.ids)
  assert len(close) <= COUNT // 10
  with capsys.disabled():
    print(f'\n{kind}: {len(close)} of {COUNT} lines have two best translations within {search.NOISE:g}; largest '
          + 'differences of a token: ' + ', '.join(f'{name} {size:.1e}' for name, size in different.items()))
