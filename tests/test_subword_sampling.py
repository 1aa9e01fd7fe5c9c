"""Pieces that are drawn: the same in every process, from the distributions of the papers."""

import collections
import os
import random
import shutil
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import sentencepiece

from batching import sampled as sampled_stores
from batching.sampled import SampledStores
from checks.errors import DataError
from corpora import subword_sampling
from corpora.splits import Pair, Split
from corpora.subword_sampling import SampledVocabulary, SamplingConfig
from corpora.vocabulary import Vocabulary
from tests.test_vocabulary import NASTY, SENTENCES, foreign, model_of

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@pytest.fixture(scope='module', params=['bpe_dropout', 'unigram'])
def sampled(request):
  """A vocabulary and its sampled views, by (seed, epoch, side)."""
  kind = subword_sampling.SAMPLINGS[request.param].vocabulary
  plain = Vocabulary(model_of(kind), kind)
  config = SamplingConfig(request.param, bpe_dropout=0.3, unigram_alpha=0.3, vocabulary_kind=kind)
  return plain, lambda seed=5, epoch=0, side=0: SampledVocabulary(plain, config, seed, epoch, side)


def test_sampled_text_comes_back_whole_in_other_pieces(sampled):
  plain, view = sampled
  drawn = view().encode_batch(NASTY)
  assert [plain.decode(ids) for ids in drawn] == NASTY
  assert not {plain.pad_id, plain.bos_id, plain.eos_id, plain.unk_id} & {i for ids in drawn for i in ids}
  assert view().encode_batch(SENTENCES) != plain.encode_batch(SENTENCES)
  assert view().eos_id == plain.eos_id


def test_a_segmentation_is_a_function_of_seed_epoch_side_and_sentence(sampled):
  _, view = sampled
  whole = view().encode_batch(SENTENCES)
  assert view().encode_batch(SENTENCES) == whole
  assert view().encode_batch(SENTENCES[7:], first=7) == whole[7:]  # in parts
  assert [view().encode_batch([SENTENCES[i]], i)[0] for i in reversed(range(20))] == whole[::-1]  # in another order
  for other in (view(seed=6), view(epoch=1), view(side=1)):
    assert other.encode_batch(SENTENCES) != whole and other.fingerprint != view().fingerprint
  assert len({tuple(ids) for ids in view().encode_batch([SENTENCES[4]] * 20)}) > 5  # the same text, in other places
  assert view().fingerprint == view().fingerprint


def test_threads_that_draw_at_once_disturb_nobody(sampled):
  plain, view = sampled
  expected, found = view().encode_batch(SENTENCES * 20), {}
  draw = lambda name, epoch: found.__setitem__(name, view(epoch=epoch).encode_batch(SENTENCES * 20))
  threads = [threading.Thread(target=draw, args=(name, name % 2)) for name in range(4)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  assert found[0] == found[2] == expected != found[1] == found[3]
  before = plain.encode_batch(SENTENCES)
  view().encode_batch(SENTENCES)
  assert plain.encode_batch(SENTENCES) == before  # text that is not sampled is never touched


def test_a_rare_dropout_is_no_dropout_and_a_frequent_one_spells():
  plain = Vocabulary(model_of('bpe'), 'bpe')
  count = lambda rate: sum(map(len, SampledVocabulary(plain, SamplingConfig('bpe_dropout', rate), 0, 0, 0).encode_batch(
      SENTENCES)))
  merged, letters = sum(map(len, plain.encode_batch(SENTENCES))), sum(len(text) + 1 for text in SENTENCES)
  assert count(1e-9) == merged < count(0.1) < count(0.5) < count(0.999) <= letters


def test_unigram_draws_from_the_likeliest_so_many():
  plain = Vocabulary(model_of('unigram'), 'unigram')
  text = [SENTENCES[4]] * 300
  kinds = lambda nbest, alpha: {tuple(ids) for ids in SampledVocabulary(plain, SamplingConfig(
      'unigram', unigram_nbest=nbest, unigram_alpha=alpha, vocabulary_kind='unigram'), 0, 0, 0).encode_batch(text)}
  assert len(kinds(3, 0.0)) == 3 and tuple(plain.encode(text[0])) in kinds(3, 0.0)
  assert len(kinds(-1, 0.1)) > 100 > 10 > len(kinds(-1, 50.0))


@pytest.mark.parametrize('sampling, unused', [
    ('none', {'bpe_dropout', 'unigram_alpha', 'unigram_nbest'}), ('bpe_dropout', {'unigram_alpha', 'unigram_nbest'}),
    ('unigram', {'bpe_dropout'})])
def test_options_of_another_sampling_mean_nothing(sampling, unused):
  kind = subword_sampling.SAMPLINGS[sampling].vocabulary or 'word'
  assert SamplingConfig(sampling, vocabulary_kind=kind).idle().keys() == unused


@pytest.mark.parametrize('wrong, words', [
    (dict(subword_sampling='dropout'), 'none, bpe_dropout, unigram'),
    (dict(subword_sampling='unigram'), 'vocabulary.kind=unigram, or subword_sampling=bpe_dropout'),
    (dict(subword_sampling='bpe_dropout', vocabulary_kind='char'), 'it is char; .* or subword_sampling=none'),
    (dict(subword_sampling='unigram', vocabulary_kind='word'), 'it is word'),
    (dict(bpe_dropout=0.0), 'bpe_dropout is 0.0'), (dict(bpe_dropout=1.0), 'bpe_dropout'),
    (dict(unigram_alpha=-0.1), 'unigram_alpha'), (dict(unigram_nbest=1), 'unigram_nbest is 1')])
def test_mistaken_sampling_is_refused(wrong, words):
  with pytest.raises(ValueError, match=words):
    SamplingConfig(**wrong)


@pytest.mark.parametrize('kind, size', [('bpe', 310), ('unigram', 295), ('char', 310), ('word', 30)])
def test_a_model_says_its_kind_and_is_not_sampled_as_another(kind, size):
  plain = Vocabulary(model_of(kind, size), kind)
  assert plain.kind == kind
  for sampling, needed in (('bpe_dropout', 'bpe'), ('unigram', 'unigram')):
    config = SamplingConfig(sampling, vocabulary_kind=needed)
    if kind != needed:
      with pytest.raises(DataError, match=f'needs a vocabulary of kind {needed}; the supplied model is of kind {kind}'):
        SampledVocabulary(plain, config, 0, 0, 0)


def test_another_process_draws_the_same(sampled, tmp_path):
  plain, view = sampled
  (tmp_path / 'model').write_bytes(plain.model)
  program = f'''
from corpora import subword_sampling, vocabulary
config = subword_sampling.SamplingConfig({subword_sampling_of(plain)!r}, 0.3, 0.3, vocabulary_kind={plain.kind!r})
view = subword_sampling.SampledVocabulary(vocabulary.Vocabulary.load({str(tmp_path / "model")!r}), config, 5, 0, 0)
print(view.encode_batch({SENTENCES!r}))
'''
  told = subprocess.run([sys.executable, '-c', program], cwd=ROOT, capture_output=True, text=True, check=True).stdout
  assert told.strip() == repr(view().encode_batch(SENTENCES))


def subword_sampling_of(vocabulary):
  return next(name for name, sampling in subword_sampling.SAMPLINGS.items() if sampling.vocabulary == vocabulary.kind)


COUNT = 6000


def drawn(plain, text, sampling, **options):
  config = SamplingConfig(sampling, vocabulary_kind=subword_sampling.SAMPLINGS[sampling].vocabulary, **options)
  return collections.Counter(map(tuple, SampledVocabulary(plain, config, 1, 2, 0).encode_batch([text] * COUNT)))


def assert_one_distribution(ours, theirs):
  """Chi-square of two samples, over the segmentations that are seen often enough."""
  often = [ids for ids in ours.keys() | theirs.keys() if ours[ids] + theirs[ids] >= 20]
  assert len(often) >= 3 and sum(ours[ids] for ids in often) > COUNT / 4
  chi_square = sum((ours[ids] - theirs[ids]) ** 2 / (ours[ids] + theirs[ids]) for ids in often)
  # SentencePiece's draws differ from run to run: five deviations, so that a right build fails once in a million.
  assert chi_square < len(often) + 5 * np.sqrt(2 * len(often)) + 8


def algorithm_1(word, rate, merges, generator):
  """Provilkov et al., 2020, Algorithm 1, as it is written there. merges: piece -> score."""
  split = list(word)
  while True:
    possible = [(i, split[i] + split[i + 1]) for i in range(len(split) - 1) if split[i] + split[i + 1] in merges]
    kept = [(-merges[piece], i, piece) for i, piece in possible if generator.random() >= rate]
    if not kept:
      return split
    _, i, piece = min(kept)
    split[i:i + 2] = [piece]


@pytest.mark.parametrize('rate', [0.1, 0.4])
@pytest.mark.parametrize('text', ['street dog', 'the streets'])
def test_bpe_dropout_is_the_papers_algorithm(rate, text):
  plain, generator = Vocabulary(model_of('bpe'), 'bpe'), random.Random(3)
  merges = {piece.piece: piece.score for piece in plain.proto.pieces if piece.type == type(piece).NORMAL}
  words = ['▁' + word for word in text.split()]
  ids = {piece.piece: i for i, piece in enumerate(plain.proto.pieces)}
  theirs = collections.Counter(
      tuple(ids[piece] for word in words for piece in algorithm_1(word, rate, merges, generator)) for _ in range(COUNT))
  assert_one_distribution(drawn(plain, text, 'bpe_dropout', bpe_dropout=rate), theirs)


@pytest.mark.parametrize('nbest', [-1, 5])
@pytest.mark.parametrize('byte_fallback', [True, False], ids=['bytes', 'unknown'])
@pytest.mark.parametrize('text', ['street dog', 'x日本 street dog'])
def test_unigram_draws_are_distributed_as_sentencepieces_own(nbest, byte_fallback, text):
  plain = Vocabulary(model_of('unigram', 320 if byte_fallback else 80, byte_fallback=byte_fallback), 'unigram')
  library = sentencepiece.SentencePieceProcessor()
  library.LoadFromSerializedProto(plain.model)
  theirs = collections.Counter(tuple(library.encode(text, enable_sampling=True, alpha=0.4, nbest_size=nbest))
                               for _ in range(COUNT))
  assert_one_distribution(drawn(plain, text, 'unigram', unigram_alpha=0.4, unigram_nbest=nbest), theirs)


def test_a_line_without_spaces_is_segmented_in_time_that_grows_with_its_length():
  """Each dropped merge once began the word anew: 1,600 characters took a second, and these days."""
  plain, long = Vocabulary(model_of('bpe'), 'bpe'), ''.join(SENTENCES).replace(' ', '')
  long = (long * (20_000 // len(long) + 1))[:20_000]
  config = SamplingConfig('bpe_dropout', bpe_dropout=0.3, vocabulary_kind='bpe')
  began = time.process_time()
  ids, = SampledVocabulary(plain, config, 0, 0, 0).encode_batch([long])
  assert plain.decode(ids) == plain.decode(plain.encode_batch([long])[0]) and time.process_time() - began < 20


@pytest.mark.parametrize('kind, sampling', [('bpe', 'bpe_dropout'), ('unigram', 'unigram')])
@pytest.mark.parametrize('options', [
    {}, dict(user_defined_symbols=['dog', '@@']), dict(treat_whitespace_as_suffix=True),
    dict(split_by_whitespace=False), dict(normalization_rule_name='nfkc')], ids=str)
def test_supplied_models_are_drawn_from_by_their_own_rules(kind, sampling, options):
  """Next to no dropout, or a high exponent: what remains is the segmentation that SentencePiece itself gives."""
  plain = Vocabulary(foreign(model_type=kind, **options), kind)
  config = SamplingConfig(sampling, bpe_dropout=1e-9, unigram_alpha=1e4, vocabulary_kind=kind)
  texts = [*SENTENCES[:5], 'two  dogs@@across ﬁ the dogdog', '', '日本 dog']
  assert SampledVocabulary(plain, config, 0, 0, 0).encode_batch(texts) == plain.encode_batch(texts)


@pytest.mark.parametrize('kind, options', [
    ('bpe', dict(bpe_dropout=0.9)), ('unigram', dict(unigram_alpha=0.0)), ('unigram', dict(unigram_alpha=0.0, unigram_nbest=8))])
@pytest.mark.parametrize('tags', [('<bt>',), ('<bt>', '<bt>x', '▁dog')])
def test_tags_stay_whole_in_every_segmentation(kind, options, tags):
  plain = Vocabulary(model_of(kind, 400, tags=tags), kind)
  config = SamplingConfig({'bpe': 'bpe_dropout'}.get(kind, kind), vocabulary_kind=kind, **options)
  whole = {plain.pieces([i])[0]: i for i in range(plain.size)}
  texts = ['<bt> the dog runs'] * 300 + ['a<bt>xy dogs <bt>'] * 300
  drawn = SampledVocabulary(plain, config, 0, 0, 0).encode_batch(texts)
  for tag in tags:
    expected = [plain.encode(text).count(whole[tag]) for text in texts]
    assert sum(expected) >= 300 and [ids.count(whole[tag]) for ids in drawn] == expected
  assert len(set(map(tuple, drawn))) > 2 and all(plain.decode(ids) == text for ids, text in zip(drawn, texts))


def test_a_model_with_unused_pieces_is_refused():
  plain = Vocabulary(model_of('bpe'), 'bpe')
  proto = type(plain.proto).FromString(plain.model)
  proto.pieces[300].type = type(proto).SentencePiece.UNUSED
  with pytest.raises(DataError, match='1 that are marked unused.*subword_sampling=none'):
    SampledVocabulary(Vocabulary(proto.SerializeToString(), 'part'), SamplingConfig('bpe_dropout'), 0, 0, 0)


def test_what_an_epoch_leaves_behind_is_removed_once_not_before_each_batch(tmp_path, monkeypatch):
  plain, pairs, removed, rmtree = Vocabulary(model_of('bpe'), 'bpe'), [Pair(text, text) for text in SENTENCES], [], shutil.rmtree
  split = Split('train', 'text', len(pairs), lambda: iter(pairs))
  config = SamplingConfig('bpe_dropout', bpe_dropout=0.3, vocabulary_kind='bpe')
  views = lambda epoch: [SampledVocabulary(plain, config, 0, epoch, side) for side in (0, 1)]
  (tmp_path / 'epoch_00001').mkdir()  # of a start that was killed
  stores = SampledStores(split, views, str(tmp_path))
  monkeypatch.setattr(sampled_stores.shutil, 'rmtree', lambda path, **more: removed.append(path) or rmtree(path, **more))

  def read(epoch):
    for _ in range(3):  # batches
      stores.at(epoch)
    told = [os.path.basename(path) for path in removed if os.path.basename(path).startswith('epoch_')]
    removed.clear()
    return told, sorted(os.listdir(tmp_path))

  name = 'epoch_{:05d}'.format
  assert read(4) == ([name(1), name(2)], [name(4)])
  assert read(5) == ([name(3)], [name(4), name(5)])
  assert read(2) == ([], [name(2), name(4), name(5)])  # made again
  told, there = read(5)
  assert name(2) in told and len(told) == len(set(told)) and there == [name(4), name(5)]
