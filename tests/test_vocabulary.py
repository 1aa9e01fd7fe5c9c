"""Text to ids and back: nothing is lost, the same text gives the same model, supplied models are taken as they are."""

import copy
import errno
import gzip
import io
import os
import pickle
import re

import pytest
import sentencepiece

from checks.errors import ConfigError, DataError
from checks.whole_files import whole
from corpora import vocabulary
from corpora.splits import Pair
from corpora.vocabulary import Vocabulary, VocabularyConfig
from explorer import analysis

SENTENCES = ['Ein kleiner Hund läuft über die Straße.', 'A small dog runs across the street.', 'I am a student.',
             'Ich bin Student.', 'Two young, white males are outside near many bushes.'] * 4
NASTY = [
    '', 'a', ' a', 'a ', '  two  spaces  ', ' ', 'tab\there', 'NUL\0in', 'new\nline', '\n', 'cr\rmid',
    '\u2028x\x85y\x0bz', '\ufeffBOM',
    '日本語 😀 👩\u200d👩\u200d👧', '\u202eעברית', 'e\u0301 is not é', 'ﬁ ① Ⅳ ½ ²', '\xa0\u3000\u200b', 'x' * 5000, ' ⁇ ',
    '<s> </s> <pad> <unk> <0x41>', '\U0010ffff\ufffe\ud7ff', 'ẞ ß ſ İ ı', '</script><script>', '\x01\x7f']


def model_of(kind, size=320, sentences=SENTENCES, **options):
  return vocabulary.train(VocabularyConfig(kind=kind, size=size, **options), sentences)


@pytest.fixture(scope='module', params=['bpe', 'unigram', 'char'])
def subwords(request):
  return Vocabulary(model_of(request.param), request.param)


def foreign(**options):
  """A model trained by someone else, with SentencePiece's own choices."""
  model = io.BytesIO()
  sentencepiece.SentencePieceTrainer.train(
      sentence_iterator=iter(SENTENCES), model_writer=model, vocab_size=50, minloglevel=2, **options)
  return model.getvalue()


# ------------------------------------------------------------------------------------------------ nothing is lost


@pytest.mark.parametrize('text', NASTY)
def test_text_comes_back_whole(subwords, text):
  ids = subwords.encode(text)
  assert subwords.decode(ids) == text
  assert not {subwords.pad_id, subwords.bos_id, subwords.eos_id, subwords.unk_id} & set(ids)
  assert all(0 <= i < subwords.size for i in ids)


def test_the_sign_for_a_space_comes_back_as_a_space(subwords):
  assert subwords.decode(subwords.encode('a\u2581b')) == 'a b'


def test_without_bytes_what_is_unknown_is_lost():
  plain = Vocabulary(model_of('bpe', 100, byte_fallback=False), 'plain')
  assert plain.unk_id in plain.encode('日')
  assert plain.decode(plain.encode('A small dog')) == 'A small dog'


def test_a_batch_is_encoded_as_its_sentences_are(subwords):
  assert subwords.encode_batch(NASTY) == [subwords.encode(text) for text in NASTY]
  assert subwords.encode_batch([]) == []


def test_pieces_are_the_written_entries(subwords):
  ids = subwords.encode('A small dog')
  assert ''.join(subwords.pieces(ids)).replace('\u2581', ' ').strip() == 'A small dog'
  assert subwords.pieces([0, 1, 2, 3]) == ['<pad>', '<unk>', '<s>', '</s>']


# --------------------------------------------------------------------------------------------------------- training


@pytest.mark.parametrize('kind,size', [('bpe', 310), ('unigram', 295), ('char', 310), ('word', 30)])
def test_the_same_text_gives_the_same_model(kind, size):
  assert model_of(kind, size) == model_of(kind, size) != model_of(kind, size, sentences=SENTENCES[:3])


def test_fingerprints_are_of_the_model():
  first, second = Vocabulary(model_of('bpe', 310), 'a'), Vocabulary(model_of('bpe', 311), 'b')
  assert len(first.fingerprint) == 64 and first.fingerprint != second.fingerprint
  assert first.fingerprint == Vocabulary(first.model, 'elsewhere').fingerprint


def test_special_ids_are_ours(subwords):
  assert (subwords.pad_id, subwords.unk_id, subwords.bos_id, subwords.eos_id) == (0, 1, 2, 3)


@pytest.mark.parametrize('kind', ['bpe', 'unigram', 'char', 'word'])
def test_a_small_corpus_gets_a_smaller_vocabulary(kind):
  found = Vocabulary(model_of(kind, 37000), kind)
  assert 20 < found.size < 1000
  if kind != 'word':
    assert found.decode(found.encode('A small dog 😀')) == 'A small dog 😀'


def test_bpe_has_the_size_that_was_asked_for():
  assert Vocabulary(model_of('bpe', 333), 'x').size == 333


@pytest.mark.parametrize('kind', ['bpe', 'unigram', 'char'])
def test_too_small_a_size_is_told_with_the_smallest_that_fits(kind):
  with pytest.raises(DataError, match=r'vocabulary.size is 100, but .* needs at least (\d+) entries') as raised:
    model_of(kind, 100)
  least = int(str(raised.value).split('at least ')[1].split()[0])
  assert Vocabulary(model_of(kind, least), kind).size == least
  with pytest.raises(DataError):
    model_of(kind, least - 1)


@pytest.mark.parametrize('sentences', [[], ['', '  ', '\u3000']])
def test_no_text_is_an_error(sentences):
  with pytest.raises(DataError, match='no text'):
    model_of('bpe', sentences=sentences)


def test_nul_and_the_reserved_sign_in_the_training_text_do_no_harm():
  found = Vocabulary(model_of('bpe', 300, ['a\0b c\td', '\u2585 reserved', *SENTENCES]), 'x')
  for text in ('a\0b c\td', '\u2585 reserved'):
    assert found.decode(found.encode(text)) == text


@pytest.mark.parametrize('between', [' ', ''])
def test_long_lines_are_learnt_from_in_parts(between):
  line, config = between.join(['zebra', 'quagga'] * 9_000), VocabularyConfig(size=280)
  parts = list(vocabulary._parts(line))
  assert between.join(parts) == line and len(parts) > 1 and max(len(part.encode()) for part in parts) <= 1 << 16
  learnt = vocabulary.Vocabulary(vocabulary.train(config, [line]), 'long')
  assert len(learnt.encode('zebra quagga')) < 8
  assert list(vocabulary._parts(line[:9])) == [line[:9]]


def test_a_large_corpus_is_sampled_evenly_and_repeatably():
  texts = [str(i) for i in range(5000)]
  kept = vocabulary._sample(iter(texts), 500)
  assert len(set(kept)) == 500 and kept == vocabulary._sample(iter(texts), 500)
  for part in range(5):  # 100 expected from every fifth; seven standard deviations are 63
    assert abs(sum(part * 1000 <= int(text) < (part + 1) * 1000 for text in kept) - 100) < 63
  assert vocabulary._sample(iter(texts), 5000) == texts


def test_training_is_silent(capfd):
  model_of('unigram', 37000)
  with pytest.raises(DataError):
    model_of('bpe', 100)
  assert capfd.readouterr() == ('', '')


# ------------------------------------------------------------------------------------------------------------ words


def test_the_six_words_of_the_illustration():
  """Two pairs, "merci" -> "thanks" and "je suis étudiant" -> "i am a student", one word an id."""
  pairs = [Pair('merci', 'thanks'), Pair('je suis étudiant', 'i am a student')]
  _, target = vocabulary.make(VocabularyConfig(kind='word', size=9, joint=False), pairs)
  found = Vocabulary(target, 'target')
  assert found.pieces(range(4, found.size)) == ['\u2581a', '\u2581am', '\u2581i', '\u2581student', '\u2581thanks']
  assert found.pieces(found.encode('i am a student')) == ['\u2581i', '\u2581am', '\u2581a', '\u2581student']
  for pair in pairs:
    assert found.decode(found.encode(pair.target)) == pair.target
  ids = found.encode('i am a zebra')
  assert ids[-1] == found.unk_id and ids.count(found.unk_id) == 1
  assert found.decode(ids) == 'i am a ⁇ '


# --------------------------------------------------------------------------------------------- one or two, supplied


def test_joint_is_one_model_of_both_languages_and_else_two():
  pairs = [Pair('street dog', 'Straße Hund')] * 5
  joint, nothing = vocabulary.make(VocabularyConfig(kind='char', size=400), pairs)
  source, target = vocabulary.make(VocabularyConfig(kind='char', size=400, joint=False), pairs)
  pieces = lambda model: set((v := Vocabulary(model, 'x')).pieces(range(260, v.size)))
  assert nothing is None and pieces(joint) == pieces(source) | pieces(target)
  assert 'ß' in pieces(target) - pieces(source) and 'd' in pieces(source) & pieces(target) and 'H' not in pieces(source)


def test_supplied_models_are_taken_byte_by_byte(tmp_path):
  for name, options in (('a.model', {}), ('b.model', {'model_type': 'bpe'})):
    (tmp_path / name).write_bytes(foreign(**options))
  a, b = str(tmp_path / 'a.model'), str(tmp_path / 'b.model')
  read = lambda path: open(path, 'rb').read()
  assert vocabulary.make(VocabularyConfig(source_model=a), []) == (read(a), None)
  assert vocabulary.make(VocabularyConfig(source_model=a, target_model=b, joint=False), []) == (read(a), read(b))


def test_special_ids_are_read_from_a_supplied_model():
  found = Vocabulary(foreign(), 'foreign')  # SentencePiece's own: unk 0, bos 1, eos 2, no pad
  assert (found.unk_id, found.bos_id, found.eos_id, found.pad_id) == (0, 1, 2, 2)
  moved = Vocabulary(foreign(pad_id=7, bos_id=5, eos_id=6, unk_id=4), 'moved')
  assert (moved.pad_id, moved.bos_id, moved.eos_id, moved.unk_id) == (7, 5, 6, 4)


@pytest.mark.parametrize('missing', ['bos_id', 'eos_id'])
def test_a_model_without_bos_or_eos_is_refused(missing):
  with pytest.raises(DataError, match='some.model has no BOS or no EOS'):
    Vocabulary(foreign(**{missing: -1}), 'some.model')


@pytest.mark.parametrize('data', [b'', b'not a model', b'\x80\x04pickle'])
def test_what_is_no_model_is_refused(tmp_path, data):
  (tmp_path / 'x').write_bytes(data)
  with pytest.raises(DataError, match='is not a SentencePiece model'):
    Vocabulary.load(str(tmp_path / 'x'))
  with pytest.raises(DataError, match='no vocabulary .*nowhere'):
    Vocabulary.load(str(tmp_path / 'nowhere'))


@pytest.mark.parametrize('options,expected', [
    (dict(kind='wordpiece'), 'unigram, bpe, word, char'), (dict(size=7), 'at least 8'),
    (dict(target_model='b'), 'joint must be False'), (dict(source_model='a', joint=False), 'supply target_model too')])
def test_a_wrong_configuration_is_refused(options, expected):
  with pytest.raises(ValueError, match=expected):
    VocabularyConfig(**options)


def test_a_vocabulary_can_be_copied_to_another_thread_or_process(subwords):
  for copied in (copy.deepcopy(subwords), pickle.loads(pickle.dumps(subwords))):
    assert copied.encode('A small dog') == subwords.encode('A small dog') and copied.eos_id == subwords.eos_id


def test_many_texts_are_encoded_where_the_system_does_not_say_which_cores_a_process_may_use(subwords, monkeypatch):
  monkeypatch.delattr(os, 'sched_getaffinity', raising=False)  # as on macOS
  texts = SENTENCES * (vocabulary._TEXTS_FOR_THREADS // len(SENTENCES) + 1)
  assert subwords.encode_batch(texts) == [subwords.encode(text) for text in texts]


@pytest.mark.parametrize('options, idle', [
    ({}, {}), (dict(kind='word'), {'byte_fallback': "kind is 'word'; only unigram and bpe and char use it"}),
    (dict(source_model='a'), dict.fromkeys(('size', 'byte_fallback', 'dummy_prefix', 'control_symbols'),
                                           "source_model is 'a'; a supplied model has its own entries"))])
def test_options_of_a_vocabulary_that_have_no_effect_are_named_with_the_reason(options, idle):
  assert VocabularyConfig(**options).idle() == idle


# ------------------------------------------------------------------------------------------- words never trained on


@pytest.mark.parametrize('text,expected', [
    ("The dog's well-known Straße, 12 km (étudiant)!", ["The", "dog's", 'well-known', 'Straße', 'km', 'étudiant']),
    ('', []), ('… – 3.5 %', []), ("'quoted' snake_case", ['quoted', 'snake', 'case'])])
def test_words_are_runs_of_letters(text, expected):
  assert vocabulary.words(text) == expected


@pytest.mark.parametrize('text, expected', [
    ('हिन्दी में लिखी हुई एक पंक्ति। १२', ['हिन्दी', 'में', 'लिखी', 'हुई', 'एक', 'पंक्ति']),
    ('un e\u0301tudiant re\u0301sume\u0301-t-il', ['un', 'e\u0301tudiant', 're\u0301sume\u0301-t-il']),
    ('\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd', ['\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd']),
    ('ที่นี่ มีน้ำ', ['ที่นี่', 'มีน้ำ']),
    ('\u0301a _\u0301', ['a']), ('\U00011013\U00011038\U00011013 x', ['\U00011013\U00011038\U00011013', 'x'])])
def test_marks_continue_words(text, expected):
  assert vocabulary.words(text) == expected


def test_a_file_of_words_is_read_by_the_rule_that_made_it(tmp_path):
  """In files of earlier versions marks ended words: what such a run has seen is not called unseen."""
  seen, other = 'हिन्दी में', 'तमिल'
  earlier = re.findall(r"[^\W\d_]+(?:['’\-][^\W\d_]+)*", seen)
  (tmp_path / 'old.gz').write_bytes(gzip.compress('\n'.join(f'{word}\t1' for word in sorted(set(earlier))).encode()))
  (tmp_path / 'new.gz').write_bytes(vocabulary.word_counts(vocabulary.words(seen)))
  old, new = (vocabulary.load_words(f'{tmp_path}/{name}.gz') for name in ('old', 'new'))
  assert new == {'हिन्दी', 'में'} and old == set(earlier) != new
  assert vocabulary.unseen_words(seen, old) == vocabulary.unseen_words(seen, new) == []
  assert vocabulary.unseen_words(other, new) == [other] and 'त' in vocabulary.unseen_words(other, old)[0]
  counts = [analysis.TrainingCounts(vocabulary.load_word_counts(f'{tmp_path}/{name}.gz')) for name in ('old', 'new')]
  assert [of['हिन्दी'] for of in counts] == [1, 1] and [of['हि'] for of in counts] == [1, 0]
  assert vocabulary.load_word_counts(f'{tmp_path}/new.gz') == {'हिन्दी': 1, 'में': 1}


def test_unseen_words_are_named_once_in_order():
  known = set(vocabulary.words('The dog sees Anna. Dogs sleep.'))
  assert vocabulary.unseen_words('Zebra sees zoo, zoo sees Zebra', known) == ['Zebra', 'zoo']
  assert vocabulary.unseen_words('', known) == []


def test_a_capital_at_the_start_of_a_sentence_makes_no_new_word():
  known = set(vocabulary.words('The dog sees Anna. Dogs sleep.'))
  assert vocabulary.unseen_words('Sleep, dogs! the DOG', known) == []
  assert vocabulary.unseen_words('Annas dogs', known) == ['Annas']


def test_words_are_saved_and_loaded(tmp_path):
  path, first = tmp_path / 'words.txt.gz', vocabulary.word_counts(iter(['b', 'a', 'b', 'étudiant']))
  path.write_bytes(first)
  assert vocabulary.load_words(str(path)) == {'a', 'b', 'étudiant'}
  assert vocabulary.word_counts(['étudiant', 'b', 'a', 'b']) == first  # no time stamp inside


def test_a_shared_folder_makes_each_thing_once(tmp_path):
  made = []
  pairs = [Pair(f'one {n} two', f'eins {n} zwei') for n in range(50)]

  def texts():
    made.append(1)
    yield from pairs

  class Counted:
    __iter__ = lambda self: texts()

  config = VocabularyConfig(size=300)
  anew = vocabulary.make(config, Counted())
  for fingerprint, size, times in (('a', 300, 2), ('a', 300, 2), ('b', 300, 3), ('a', 290, 4), ('a', 290, 4)):
    config = VocabularyConfig(size=size)
    keep = vocabulary.keeper(str(tmp_path / 'shared'), config, fingerprint)
    models = vocabulary.make(config, Counted(), keep)
    assert len(made) == times and (models == anew) == (size == 300)
  assert len(list((tmp_path / 'shared').iterdir())) == 3
  two = VocabularyConfig(size=290, joint=False)
  source, target = vocabulary.make(two, pairs, vocabulary.keeper(str(tmp_path / 'shared'), two, 'a'))
  assert (source, target) == vocabulary.make(two, pairs) and source != target


def test_files_of_a_shared_folder_are_as_the_umask_says_and_a_failed_one_leaves_nothing(tmp_path, monkeypatch):
  folder = tmp_path / 'shared'
  keep = vocabulary.keeper(str(folder), VocabularyConfig(), 'a')
  before = os.umask(0o027)
  try:
    assert keep('words', lambda: b'one') == b'one'
  finally:
    os.umask(before)
  path, = folder.iterdir()
  assert path.stat().st_mode & 0o777 == 0o640

  def full(source, target):
    raise OSError(errno.ENOSPC, 'No space left on device')

  with monkeypatch.context() as patched, pytest.raises(OSError, match='No space left'):
    patched.setattr(os, 'replace', full)
    keep('joint', lambda: b'two')
  assert list(folder.iterdir()) == [path]
  with whole(str(path), shared=True) as one, whole(str(path), shared=True) as other:  # two processes at a time
    one.write(b'first')
    other.write(b'second')
  assert list(folder.iterdir()) == [path] and path.read_bytes() == b'first'


def test_words_are_read_once_for_a_shared_folder(tmp_path):
  keep = vocabulary.keeper(str(tmp_path / 'shared'), VocabularyConfig(), 'a')
  for found in (['one', 'two', 'one'], iter(lambda: 1 / 0, 1)):  # the second must not be read
    (tmp_path / 'words.txt.gz').write_bytes(vocabulary.word_counts(found, keep))
    assert vocabulary.load_words(str(tmp_path / 'words.txt.gz')) == {'one', 'two'}


@pytest.mark.parametrize('kind', ['bpe', 'unigram', 'char'])
def test_tags_stand_whole_wherever_text_has_them(kind):
  tagged = [f'<bt> {sentence}' for sentence in SENTENCES]
  entries = Vocabulary(model_of(kind, sentences=tagged, tags=('<bt>', '<2fr>')), kind)
  for text in ('<bt> A small dog', 'A <bt> small dog', '<2fr> A small dog', '<2fr>'):
    tag = '<bt>' if '<bt>' in text else '<2fr>'
    pieces = entries.pieces(entries.encode(text))
    assert pieces.count(tag) == 1 and not any('<' in piece for piece in pieces if piece != tag)
    assert entries.decode(entries.encode(text)) == text
  without = Vocabulary(model_of(kind, sentences=tagged), kind)
  assert '<2fr>' not in without.pieces(without.encode('<2fr> A small dog'))


@pytest.mark.parametrize('options, expected', [
    (dict(tags=('<bt>', '<bt>')), 'tags is'), (dict(tags='<bt>'), 'tags is'), (dict(tags=('</s>',)), 'tags is'),
    (dict(tags=('<bt>',), control_symbols=('<bt>',)), 'control_symbols and tags both have <bt>'),
    (dict(tags=('<bt>',), source_model='x.model'), 'source_model is supplied, which has its own entries')])
def test_impossible_tags(options, expected):
  with pytest.raises(ValueError, match=expected):
    VocabularyConfig(**options)


def test_tags_with_a_space_are_refused_before_a_vocabulary_is_made():
  config = VocabularyConfig(size=320, tags=('<bt>', '<to de>'))  # a run that has such a tag can still be read
  with pytest.raises(ConfigError, match="vocabulary.tags has '<to de>', with a space: .*name tags without a space"):
    vocabulary.train(config, SENTENCES)
