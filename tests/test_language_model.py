"""The decoder-only language model, and running text from a file to per-byte perplexity."""

import dataclasses
import gzip
import itertools
import json
import math
import os
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sentencepiece

import decode
import tasks
import train
import visualize
from batching.buckets import BucketPlan
from batching.store import open_text_store
from checks.errors import ConfigError, DataError
from configs import language_model as shipped
from corpora import loading, vocabulary
from corpora.documents import DOCUMENTS
from explorer import logit_lens
from input_pipeline import BatchConfig
from options import decode_options, train_options, visualize_options
from tasks import language_model, setup
from tests.conftest import BOS, FILLER, SIZES, rows, sentences
from tests.test_model_family import after_prefill, assert_prefilled, away_from_zero, stepwise
from training.run_folder import RunFolder
from transformer import architectures, tokens
from transformer import model as models
from transformer.config import LanguageModelConfig
from transformer.registries import POSITIONS

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OTHERS = itertools.cycle([
    dict(tie_output=False, num_kv_heads=1),
    dict(activation='gelu', attention_bias=True),  # as GPT
    dict(norm='pre', layer_norm_epsilon=1e-5, scan_layers=True),  # as GPT-2
    dict(num_heads=4, num_kv_heads=2)])
# Every kind of positions; the other choices alternate over them.
KINDS = {kind: dict(SIZES, d_k=6, d_v=5, max_positions=17, clip_distance=2, num_buckets=8, max_distance=11,
                    positions=kind) | others for kind, others in zip(POSITIONS, OTHERS)}


@pytest.fixture(scope='module', params=KINDS)
def model(request):
  return architectures.build(LanguageModelConfig(**KINDS[request.param]))


@pytest.fixture(scope='module')
def params(model):
  return away_from_zero(model)


def empty(count):
  return tokens.pad([], count, 0, FILLER)


@pytest.fixture(scope='module')
def forward(model):
  return jax.jit(lambda params, target: model.decode(params, model.encode(params, empty(len(target.ids))), target))


def test_packed_equals_unpacked_and_padding_changes_nothing(params, forward):
  parts = sentences([4, 6, 5])
  packed = forward(params, tokens.shift_right(tokens.pack([parts], 1, 17, FILLER), BOS))
  alone = forward(params, tokens.shift_right(tokens.pad(parts, 3, 7, FILLER), BOS))
  start = 0
  for row, part in enumerate(parts):
    np.testing.assert_allclose(packed[0, start:start + len(part)], alone[row, :len(part)], atol=2e-5)
    start += len(part)
  assert np.abs(alone).max() > 0.1


def test_cached_and_prefilled_steps_equal_teacher_forcing(model, params, forward):
  target = tokens.shift_right(rows([6, 4], 7), BOS)
  parallel = forward(params, target)
  cached, prefilled = jax.jit(lambda params: [way(model, params, model.encode(params, empty(2)), target, beams=3)
                                              for way in (stepwise, after_prefill)])(params)
  assert_prefilled(prefilled, parallel)
  for row, length in enumerate([6, 4]):
    for beam in range(3):
      np.testing.assert_allclose(cached[:length, row, beam], parallel[row, :length], atol=2e-5)


def test_no_gradient_from_the_future():
  model = architectures.build(LanguageModelConfig(**SIZES, tie_output=False))
  params = away_from_zero(model)
  ids = np.array([[BOS, 5, 11, 7, 23]], np.int32)  # each token stands once, so that its embedding tells its place
  target = tokens.pad(ids.tolist(), 1, 5, FILLER)
  score = lambda table: jnp.square(model.hidden(dict(params, embedding=table), target)[0]).sum(-1)
  reach = np.abs(jax.jit(jax.jacobian(lambda table: score(table) * jnp.arange(1.0, 6.0)))(params['embedding'])).max(-1)
  of_place = reach[:, ids[0]]  # [T, T]: how far a later place's hidden state hears of an earlier token
  np.testing.assert_array_equal(of_place > 0, np.tril(np.ones((5, 5), bool)))


def test_logits_are_hidden_states_times_the_embedding(model, params, forward):
  target = tokens.shift_right(rows([6, 4], 7), BOS)
  hidden = jax.jit(model.hidden)(params, target)
  table = params.get('output_projection', params['embedding'])
  np.testing.assert_allclose(np.einsum('btd,vd->btv', hidden, table), forward(params, target), atol=1e-5)


def test_dropout_acts_only_with_a_key():
  model = architectures.build(LanguageModelConfig(**SIZES))
  params, target = away_from_zero(model), rows([6], 7)
  logits = jax.jit(lambda key=None: model.decode(params, model.encode(params, empty(1)), target, key))
  np.testing.assert_array_equal(logits(), logits())
  assert np.abs(logits(jax.random.key(1)) - logits()).max() > 0.01


def test_inspect_shows_causal_weights_of_every_layer(model, params, forward):
  target = tokens.shift_right(rows([6, 4], 7), BOS)
  logits, record = jax.jit(model.inspect)(params, empty(2), target)
  np.testing.assert_allclose(logits, forward(params, target), atol=1e-5)
  assert [weights.shape for weights in record['decoder']] == [(2, model.config.num_heads, 7, 7)] * 2
  assert not record['cross']
  for weights in record['decoder']:
    assert (np.triu(weights[0, 1], 1) == 0).all()
    np.testing.assert_allclose(weights[0, :, :6].sum(-1), 1.0, rtol=1e-5)


def test_a_source_is_refused(model, params):
  with pytest.raises(ValueError, match='a language model has no source, found 3 columns'):
    model.encode(params, rows([3], 3))


@pytest.mark.parametrize('wrong, words', [
    (dict(share_embeddings=False), 'one embedding'), (dict(num_decoder_layers=2), 'num_layers')])
def test_options_that_mean_nothing_are_refused(wrong, words):
  with pytest.raises(ValueError, match=words):
    LanguageModelConfig(**SIZES, **wrong)


@pytest.mark.parametrize('variant, printed, published', [
    ('gpt', 117e6, 116_534_784), ('gpt2_xl', 1558e6, 1_557_611_200)])
def test_parameter_counts_of_the_papers(variant, printed, published):
  config = shipped.get_config(variant)
  record = setup.records(config.to_dict()).model
  count = models.count_parameters(architectures.build(record))
  assert count == published  # of the weights that the authors published
  assert abs(count - printed) / printed < 0.01


# ------------------------------------------------------------------------------------------------------ running text


def text_config(path, **more):
  return loading.CorpusConfig('running_text', 'en', 'de', text=str(path), **more)


@pytest.fixture(scope='module')
def text():
  """Some hundred lines of verse, a blank line between stanzas, with characters of two and four bytes."""
  draw = np.random.default_rng(0)
  words = ['the', 'quick', 'größte', 'fox', 'jumps', 'over', 'lazy', '🦊', 'dogs', 'of', 'King', 'York']
  line = lambda: ' '.join(draw.choice(words, draw.integers(2, 9)))
  return '\n\n'.join('\n'.join(line() for _ in range(draw.integers(1, 6))) for _ in range(97)) + '\n'


@pytest.fixture(scope='module')
def path(text, tmp_path_factory):
  path = tmp_path_factory.mktemp('text') / 'verse.txt.gz'
  path.write_bytes(gzip.compress(text.encode()))
  return path


@pytest.fixture(scope='module')
def pieces(text):
  config = vocabulary.VocabularyConfig(size=300, dummy_prefix=False)
  return vocabulary.Vocabulary(vocabulary.train(config, text.split('\n')), 'verse')


def test_a_text_is_cut_once_and_every_byte_is_counted(path, text):
  corpus = loading.load(text_config(path, heldout_share=0.1))
  splits = [corpus.train, corpus.validation, corpus.tests[0]]
  assert ''.join(next(iter(split)) + '\n' for split in splits) == text
  assert [split.num_bytes for split in splits] == [len((next(iter(split)) + '\n').encode()) for split in splits]
  for split in splits[1:]:
    assert abs(split.num_bytes / len(text.encode()) - 0.1) < 0.02
  assert len({split.fingerprint for split in splits}) == 3


@pytest.mark.parametrize('document, separator', [('paragraph', '\n\n'), ('line', '\n')])
def test_documents_of_a_text(path, text, document, separator):
  corpus = loading.load(text_config(path, document=document, heldout_share=0.07))
  parts = [list(split) for split in (corpus.train, corpus.validation, corpus.tests[0])]
  expected = [part for part in text.rstrip('\n').split(separator) if part]
  assert sum(parts, []) == expected and all(parts)
  assert corpus.train.num_bytes == sum(len((part + separator).encode()) for part in parts[0])
  assert 'documents' in corpus.train.extent


def test_files_of_their_own_for_validation_and_test(path, tmp_path):
  for name in ('other', 'third'):
    (tmp_path / name).write_text(f'{name}\r\n\r\nends here')
  corpus = loading.load(text_config(path, validation_text=str(tmp_path / 'other'), document='line'))
  assert list(corpus.validation) == ['other', 'ends here'] and corpus.tests == ()
  whole = corpus.train.num_bytes
  corpus = loading.load(text_config(path, test_text=str(tmp_path / 'third'), document='line'))
  assert list(corpus.tests[0]) == ['third', 'ends here'] and corpus.train.num_bytes + corpus.validation.num_bytes == whole


@pytest.mark.parametrize('shared', [(0, 1, 2), (0, 1), (0, 2), (1, 2)])
def test_files_that_share_a_name_are_told_apart_when_a_run_goes_on(shared, tmp_path):
  paths = [tmp_path / str(place) / ('wiki.txt' if place in shared else f'{place}.txt') for place in range(3)]
  for place, path in enumerate(paths):
    path.parent.mkdir()
    path.write_text('a dog saw a cat\n' * (20 + place))

  def start(workdir, by_name=None):
    more = [f'--config.data.{name}_text={path}' for name, path in zip(('validation', 'test'), paths[1:])]
    asked = options(paths[0], workdir, '--config.vocabulary.size=280', *more)
    records = setup.read(dataclasses.replace(asked, given=()))  # the share to hold out has no effect beside files
    with RunFolder(str(workdir)).create_or_resume(records.saved) as folder:
      if by_name:
        folder.record_environment({'data': by_name})
      return tasks.TASKS[records.task](records, folder)

  made = start(tmp_path / 'run')
  assert list(made.folder.manifest.read()['texts'].values()) == [split.fingerprint for split in (
      made.corpus.train, made.corpus.validation, *made.corpus.tests)]
  start(tmp_path / 'run')
  by_name = {split.name: split.fingerprint for split in (made.corpus.train, made.corpus.validation, *made.corpus.tests)}
  for _ in range(2):  # begun by a version that kept one of them alone: it goes on, and is listed whole from then on
    older = start(tmp_path / 'older', by_name)
    assert older.folder.manifest.read()['texts'] == made.folder.manifest.read()['texts']
    by_name = None
  for path in paths:
    before = path.read_text()
    path.write_text(before + 'another line\n')
    with pytest.raises(ConfigError, match=f'other text than {path.name}'):
      start(tmp_path / 'run')
    path.write_text(before)


def test_text_that_cannot_be_split_is_an_error(tmp_path):
  (tmp_path / 'blank').write_text('\n \n')
  (tmp_path / 'short').write_text('one line\n')
  for name, words in (('blank', 'has no text'), ('short', 'leaves a part empty'), ('none', r'no file .* --config\.data\.text=….*tinyshakespeare')):
    with pytest.raises(DataError, match=words):
      loading.load(text_config(tmp_path / name))


@pytest.mark.parametrize('kind', ['bpe', 'unigram', 'char'])
@pytest.mark.parametrize('dummy_prefix', [True, False])
def test_line_by_line_the_ids_are_those_of_the_whole(text, kind, dummy_prefix):
  config = vocabulary.VocabularyConfig(kind=kind, size=300, dummy_prefix=dummy_prefix)
  pieces = vocabulary.Vocabulary(vocabulary.train(config, text.split('\n')), 'verse')
  for part in (text, '\n\n' + text[:61], 'one line', ''):
    assert list(itertools.chain.from_iterable(pieces.encode_lines(part.split('\n')))) == pieces.encode(part)
    assert pieces.decode(pieces.encode(part)) == part


def test_a_vocabulary_without_line_ends_is_refused(text):
  config = vocabulary.VocabularyConfig(size=100, byte_fallback=False)
  pieces = vocabulary.Vocabulary(vocabulary.train(config, text.split('\n')), 'verse')
  with pytest.raises(DataError, match='byte_fallback'):
    list(pieces.encode_lines(['two', 'lines']))


@pytest.mark.parametrize('document', DOCUMENTS)
def test_blocks_hold_every_token_once_in_its_place(path, pieces, tmp_path, document):
  split = loading.load(text_config(path, document=document)).train
  store = open_text_store(split, pieces, 23, str(tmp_path))
  again = open_text_store(split, pieces, 23, str(tmp_path))
  assert len(os.listdir(tmp_path)) == 1 and again.fingerprint == store.fingerprint
  place = 0
  for part in split:
    whole = [*pieces.encode(part), pieces.eos_id]
    for start in range(0, len(whole), 23):
      assert store.target[place].tolist() == whole[start:start + 23]
      place += 1
  assert place == len(store) and not store.source.lengths.any()

  plan = BucketPlan(store, BatchConfig('buckets', 300, 23, 3), seed=7)
  assert plan.dropped == 0
  seen = []
  for step in range(plan.batches_per_epoch):
    batch = plan.batch_at(step)
    assert batch.source.ids.shape == (len(batch.target.ids), 0)
    seen += [row[real > 0].tobytes() for row, real in zip(batch.target.ids, batch.target.segments) if real.any()]
  assert sorted(seen) == sorted(np.asarray(store.target[n]).tobytes() for n in range(len(store)))
  other = BucketPlan(store, BatchConfig('buckets', 300, 23, 3), seed=7)
  step = plan.batches_per_epoch + 3
  assert jax.tree.all(jax.tree.map(np.array_equal, other.batch_at(step), plan.batch_at(step)))


def test_no_plan_leaves_out_blocks_whose_bytes_count(path, pieces, tmp_path):
  split = loading.load(text_config(path)).validation
  task = types.SimpleNamespace(target=pieces, setup=types.SimpleNamespace(seed=0), text_folder=str(tmp_path))
  fixed = lambda length: BatchConfig('fixed', 300, 23, fixed_rows=8, fixed_source_length=0, fixed_target_length=length)
  assert not language_model.LanguageModelling.plan(task, split, fixed(23), shuffle=False).dropped
  with pytest.raises(DataError, match='blocks are longer than a row, .* raise data.fixed_source_length and data.fixed_target'):
    language_model.LanguageModelling.plan(task, split, fixed(22), shuffle=False)


def test_perplexity_per_byte_by_hand():
  """Three tokens of probability 1/2, 1/4 and 1/8 for a text of four bytes: 6 bits over 4 bytes."""
  found = language_model.per_byte({'nll': math.log(2 * 4 * 8), 'tokens': 3.0}, 4)
  assert found['bits_per_byte'] == pytest.approx(1.5) and found['perplexity_per_byte'] == pytest.approx(2**1.5)


def test_prompts_are_beginnings_of_lines(path):
  split = loading.load(text_config(path)).validation
  found = language_model.prompts(split, 3)
  assert len(found) == 3
  for prompt, rest in found:
    assert prompt and rest.startswith(' ') and prompt + rest in next(iter(split)).split('\n')


# ---------------------------------------------------------------------------------------------------------- whole runs

TINY = ['--config.model.d_model=16', '--config.model.num_heads=2', '--config.model.num_layers=1',
        '--config.model.d_ff=24', '--config.model.max_positions=24', '--config.vocabulary.size=300',
        '--config.data.max_length=24', '--config.data.heldout_share=0.1', '--config.train.batch_tokens=384',
        '--config.train.log_every=2', '--config.train.eval_every=4', '--config.train.checkpoint_every=4',
        '--config.train.first_eval=0', '--config.train.num_samples=2', '--config.search.extra_length=6',
        '--config.optimizer.warmup_steps=10']


def options(path, workdir, *more):
  return train_options.parse(
      ['train.py', f'--config={ROOT}/configs/language_model.py', f'--config.data.text={path}', f'--workdir={workdir}',
       *TINY, *more], '')


@pytest.fixture(scope='module')
def run(path, tmp_path_factory):
  workdir = tmp_path_factory.mktemp('runs') / 'lm'
  assert train.main(options(path, workdir, '--config.train.num_steps=8')) == 0
  return workdir


def test_a_run_reports_perplexity_as_a_loop_over_its_blocks_finds_it(run, path):
  results = json.loads((run / 'results.json').read_text())
  writer = tasks.load(str(run), 'latest')
  pieces, model = writer._vocabulary, writer._model
  split = loading.load(text_config(path, heldout_share=0.1)).tests[0]
  ids = [*pieces.encode(next(iter(split))), pieces.eos_id]
  blocks = [ids[start:start + 24] for start in range(0, len(ids), 24)]
  read = tokens.shift_right(tokens.pad(blocks, len(blocks), 24, pieces.pad_id), pieces.bos_id)
  logits = np.asarray(model.decode(writer.params, model.encode(writer.params, empty(len(blocks))), read), np.float64)
  log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
  nats = -sum(log_probs[row, place, token] for row, block in enumerate(blocks) for place, token in enumerate(block))
  assert results['tokens'] == len(ids) and results['bytes'] == split.num_bytes
  assert results['nats'] == pytest.approx(nats, rel=1e-5)
  assert results['perplexity'] == pytest.approx(math.exp(nats / len(ids)), rel=1e-5)
  assert results['bits_per_byte'] == pytest.approx(nats / split.num_bytes / math.log(2), rel=1e-5)
  assert results['perplexity'] < 290  # it has learnt something


def test_a_run_leaves_measures_and_samples(run):
  with open(run / 'metrics.jsonl') as file:
    measured = [line for line in map(json.loads, file) if 'validation/bits_per_byte' in line]
  assert [line['step'] for line in measured] == [4, 8]
  assert {'validation/perplexity', 'validation/perplexity_per_byte', 'validation/loss'} <= measured[0].keys()
  results = json.loads((run / 'results.json').read_text())
  best = min(line['validation/bits_per_byte'] for line in measured)
  assert results['best_validation_bits_per_byte'] == pytest.approx(best)
  assert sorted(p.name for p in (run / 'samples').iterdir()) == [
      'step_00000004.txt', 'step_00000008.txt', 'test_continuations.txt']
  sample = (run / 'samples' / 'step_00000008.txt').read_text()
  assert sample.count('\nprompt') == sample.count('\ntext') == sample.count('\nmodel') == 2


def test_decode_continues_each_line_of_a_file(run, tmp_path, capsys):
  lines = ['the quick', '', 'the quick', r'of King\nthe', 'lazy ' * 20]
  (tmp_path / 'in').write_text('\n'.join(lines))
  argv = ['decode.py', f'--workdir={run}', f'--input={tmp_path}/in', f'--output={tmp_path}/out']
  ask = lambda *more: (decode.main(decode_options.parse([*argv, *more], '')),
                       (tmp_path / 'out').read_text().split('\n'))
  code, found = ask()
  assert code == 0 and len(found) == 6 and found[5] == ''
  assert all(text.startswith(line) for text, line in zip(found, lines)) and found[0] != found[2]
  assert '1 prompts were longer than 17 tokens' in capsys.readouterr().err
  without = ask('--search.include_prompt=false')[1]
  assert [line + text for line, text in zip(lines, without)] == found[:5]
  assert ask('--search.seed=1')[1] != found
  greedy = ask('--search.strategy=beam', '--search.beam_size=1')[1]
  assert greedy[0] == greedy[2] and greedy[0].startswith('the quick')
  with pytest.raises(ConfigError, match='--reference is for translations'):
    ask(f'--reference={tmp_path}/in')
  with pytest.raises(ConfigError, match='at most 22'):
    ask('--search.extra_length=23')


def test_a_page_shows_what_its_heads_do(run, tmp_path, capsys):
  (tmp_path / 'in').write_text('the quick\n' + 'lazy ' * 20 + '\n')
  asked = visualize_options.parse(['visualize.py', f'--workdir={run}', f'--input={tmp_path}/in',
                                   f'--output={tmp_path}/page.html', '--search.include_prompt=false'], '')
  assert visualize.main(asked) == 0
  report = json.loads((tmp_path / 'page.html').read_text().split('id="report">')[1].split('</script>')[0])
  assert [list(sentence['shapes']) for sentence in report['sentences']] == [['decoder']] * 2
  card = dict(report['card'])
  said = capsys.readouterr().err
  assert 'bits per byte' in card['scores'] and card['text'] == 'running_text' and '2 sentences' in said
  assert '1 prompts were longer than 17 tokens' in said  # not once more for each head that was closed
  # What is told of a sentence is told of all tokens that are shown, so its text begins with the prompt.
  assert report['sentences'][0]['target'].startswith('the quick')


@pytest.mark.parametrize('positions', ['relative', 't5'])
def test_each_layer_says_a_next_token(positions):
  model = architectures.build(LanguageModelConfig(**SIZES, positions=positions))
  weights, target = away_from_zero(model), rows([5, 7], 8)
  said, shares = logit_lens.predictions(model, weights, empty(2), target, BOS)
  logits = model.decode(weights, empty(2), tokens.shift_right(target, BOS))
  assert said.shape == shares.shape == (2, 2, 8)
  np.testing.assert_array_equal(said[:, -1], logits.argmax(-1))
  np.testing.assert_allclose(shares[:, -1], jax.nn.softmax(logits).max(-1), rtol=1e-5)
  assert (said[:, 0] != said[:, 1]).any()


def test_a_continuation_does_not_depend_on_its_neighbours(run):
  writer = tasks.load(str(run))
  lines = ['the quick', 'of', 'King York', 'dogs of', 'fox']
  together = writer.continue_lines(lines)
  for number, found in enumerate(together):
    alone = writer.continue_lines([''] * number + [lines[number]])[number]
    assert alone.text == found.text and alone.log_prob == pytest.approx(found.log_prob, abs=1e-5)


def test_a_vocabulary_that_changes_text_is_refused(path, tmp_path):
  """Its nats would be of lower-cased or respaced text, and the bytes that divide them of the text as it is."""
  lines = [line for line in gzip.decompress(path.read_bytes()).decode().splitlines() if line.strip()]
  for name, how in (('nfkc', {}), ('spaces', {'normalization_rule_name': 'identity'})):
    with open(tmp_path / name, 'wb') as file:
      sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=file, vocab_size=300, model_type='bpe',
                                               byte_fallback=True, pad_id=3, minloglevel=2, hard_vocab_limit=False, **how)
    asked = options(path, tmp_path / 'new', '--config.train.num_steps=2', f'--config.vocabulary.source_model={tmp_path}/{name}')
    with pytest.raises(DataError, match='changes text before it cuts it, .* --normalization_rule_name=identity'):
      train.main(dataclasses.replace(asked, given=()))
    assert not (tmp_path / 'new').exists()


@pytest.mark.parametrize('mistakes, words', [
    (['--config.model.architecture=transformer'], "data.kind 'running_text' is text for language modelling"),
    (['--config.vocabulary.kind=word'], 'predicts every byte'), (['--config.vocabulary.joint=false'], 'one vocabulary'),
    (['--config.model.max_positions=23'], 'max_positions is 23'), (['--config.data.document=book'], 'file, paragraph'),
    (['--config.data.heldout_share=0.5'], 'heldout_share')])
def test_what_does_not_fit_is_refused_before_anything_is_made(path, tmp_path, mistakes, words):
  with pytest.raises(ConfigError, match=words):
    train.main(options(path, tmp_path / 'new', '--config.train.num_steps=2', *mistakes))
  assert not (tmp_path / 'new').exists()
