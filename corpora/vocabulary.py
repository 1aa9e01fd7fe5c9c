"""Text to ids and back, by SentencePiece; the words that training has seen; and the registry of `vocabulary.kind`.

No text is lost by default: no normalisation, every space kept, unknown characters as bytes. (U+2581, SentencePiece's
own sign for a space, comes back as a space.) That holds for unigram, bpe and char; a word vocabulary splits at spaces,
and words outside it come back as " ⁇ ".
"""

import collections
import dataclasses
import functools
import gzip
import hashlib
import io
import itertools
import json
import os
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import sentencepiece

from checks import files, machine
from checks.choices import Registry
from checks.errors import ConfigError, DataError
from checks.progress import shown
from checks.refusals import refuse
from checks.whole_files import whole
from corpora.words import KnownWords, WordCounts
from corpora.words import unseen_words as unseen_words  # beside load_words(), for its callers
from corpora.words import words as words

_SPECIAL = ('<pad>', '<unk>', '<s>', '</s>')
MOST_SENTENCES = 1_000_000  # SentencePiece learns from at most this many sentences, drawn evenly from all

_MOST_BYTES = 1 << 16  # of a sentence that SentencePiece learns from
_LINES_AT_A_TIME = 4096  # of a document that are encoded in one part
_TEXTS_FOR_THREADS = 1024  # fewer are encoded faster than threads start


class Kind(NamedTuple):
  """A kind of SentencePiece model."""

  number: int  # SentencePiece's own, trainer_spec.model_type
  has_bytes: bool = True  # whether it can spell unknown characters as bytes
  size_is_exact: bool = True  # else `size` is an upper bound, and the corpus decides


KINDS: Registry[Kind] = Registry('vocabulary.kind')
KINDS.add('unigram', Kind(1), 'a unigram language model', uses=('byte_fallback',))
KINDS.add('bpe', Kind(2), 'byte-pair encoding, as in the paper', uses=('byte_fallback',))
KINDS.add('word', Kind(3, has_bytes=False, size_is_exact=False), 'the words between spaces')
KINDS.add('char', Kind(4, size_is_exact=False), 'characters', uses=('byte_fallback',))


@dataclasses.dataclass(frozen=True)
class VocabularyConfig:
  """Which vocabulary to train, or which SentencePiece models to use instead."""

  kind: str = 'bpe'
  size: int = 37000  # entries, special ids and bytes included; a small corpus may give fewer
  joint: bool = True  # one vocabulary for both languages
  byte_fallback: bool = True  # unknown characters as UTF-8 bytes; not for kind word
  dummy_prefix: bool = True  # a text's first word is spelt as if a space stood before it
  source_model: str | None = None  # paths of supplied SentencePiece models; with joint, source_model serves both
  target_model: str | None = None
  control_symbols: tuple[str, ...] = ()  # entries that no text is encoded to, such as '<delimiter>' and '<extract>'
  tags: tuple[str, ...] = ()  # entries that stand whole wherever text has them, such as '<bt>'

  def __post_init__(self):
    for name in ('control_symbols', 'tags'):
      if isinstance(value := getattr(self, name), list):  # as it comes from JSON
        object.__setattr__(self, name, tuple(value))
    refuse(self._mistakes())

  def _mistakes(self) -> Iterator[str]:
    yield from KINDS.mistakes(self.kind)
    if self.size < 8:
      yield f'size is {self.size}; expected at least 8 entries'
    for name in ('control_symbols', 'tags'):
      symbols = getattr(self, name)
      if (not isinstance(symbols, tuple) or len(set(symbols)) < len(symbols)
          or not all(isinstance(symbol, str) and symbol and symbol not in _SPECIAL for symbol in symbols)):
        yield (f'{name} is {symbols!r}; expected a tuple of different texts, none of them empty and '
               f'none of {", ".join(_SPECIAL)}')
    if both := sorted({*self.control_symbols} & {*self.tags}):
      yield f'control_symbols and tags both have {", ".join(both)}; a control symbol is no text, and a tag is'
    if self.tags and self.source_model:
      yield f'tags is {self.tags!r}, and source_model is supplied, which has its own entries; leave tags out'
    if self.target_model and (self.joint or not self.source_model):
      yield 'target_model is supplied: joint must be False and source_model supplied too'
    if self.source_model and not self.joint and not self.target_model:
      yield 'joint is False and source_model supplied: supply target_model too'

  def idle(self) -> dict[str, str]:
    """Return the fields that other fields make ineffective, each with the reason."""
    # Not kind: subword sampling compares it with the kind that it needs, also where a model is supplied.
    supplied = ('size', 'byte_fallback', 'dummy_prefix', 'control_symbols') if self.source_model else ()
    return KINDS.idle(self.kind) | dict.fromkeys(
        supplied, f'source_model is {self.source_model!r}; a supplied model has its own entries')


class Vocabulary:
  """A SentencePiece model. Its special ids are what the model says they are."""

  frozen_id: int | None = None  # entry that training leaves as it is

  def __init__(self, model: bytes, name: str):
    """Load a serialised model; `name` is for messages. Raises DataError when it is invalid, or has no BOS or EOS."""
    self.fingerprint = hashlib.sha256(model).hexdigest()
    self.model = model
    self._processor = processor(model, name)
    self.size = self._processor.vocab_size()
    self.bos_id, self.eos_id, self.unk_id = (
        self._processor.bos_id(), self._processor.eos_id(), self._processor.unk_id())
    if min(self.bos_id, self.eos_id) < 0:
      raise DataError(f'{name} has no BOS or no EOS; train it with --bos_id and --eos_id')
    # A filler only: padding is recognised by the batch's segments, never by an id.
    self.pad_id = self._processor.pad_id() if self._processor.pad_id() >= 0 else self.eos_id

  @classmethod
  def load(cls, path: str) -> 'Vocabulary':
    """Read a model file. Raises DataError when it is missing or not a model."""
    return cls(read_model(path), path)

  @property
  def sentencepiece(self) -> sentencepiece.SentencePieceProcessor:
    """The loaded model itself: of MarianVocabulary, that which cuts text into pieces."""
    return self._processor

  def encode(self, text: str) -> list[int]:
    """Return the ids of a text, without BOS or EOS."""
    return self._processor.encode(text)

  def encode_batch(self, texts: Sequence[str], first: int = 0) -> list[list[int]]:
    """Return the ids of each text. `first`, the first text's number in its split, matters to sampled vocabularies."""
    threads = machine.cores() if len(texts) >= _TEXTS_FOR_THREADS else 1
    return self._processor.encode(list(texts), num_threads=threads)

  def normalize(self, text: str) -> str:
    """Return the text as the model's pieces spell it, with U+2581 for a space."""
    return self._processor.normalize(text)

  def likeliest(self, text: str, count: int) -> list[tuple[list[int], float]]:
    """Return the `count` likeliest segmentations of a unigram model, or all: ids, and log-probability as a score."""
    from sentencepiece import sentencepiece_pb2  # slow to import
    found = sentencepiece_pb2.NBestSentencePieceText.FromString(
        self._processor.nbest_encode(text, nbest_size=count, out_type='serialized_proto'))
    return [([piece.id for piece in one.pieces], one.score) for one in found.nbests]

  @functools.cached_property
  def proto(self) -> Any:
    """The model's ModelProto, with every piece, its kind and its score."""
    from sentencepiece import sentencepiece_model_pb2  # slow to import
    return sentencepiece_model_pb2.ModelProto.FromString(self.model)

  @property
  def kind(self) -> str:
    """The entry of KINDS that the model itself names."""
    return next(name for name, kind in KINDS.items() if kind.number == self.proto.trainer_spec.model_type)

  @property
  def changes_text(self) -> bool:
    """Whether the model writes some texts anew before it cuts them: in other characters, or with fewer spaces."""
    spec = self.proto.normalizer_spec
    return bool(spec.precompiled_charsmap or spec.remove_extra_whitespaces)

  def encode_lines(self, lines: Iterable[str]) -> Iterator[list[int]]:
    """Yield the ids of a document in parts, which together are encode() of its lines joined by line ends.

    A long text in one piece would take SentencePiece too long, and a part takes little memory. Only with a supplied
    model whose entries contain line ends is the document one part.

    Args:
      lines: of the document, one at least.

    Raises:
      DataError: when the vocabulary has no entry for line ends, and there are some.
    """
    rest = iter(lines)
    first, end = next(rest), self.encode('\n')  # after a dummy prefix, perhaps
    most = _LINES_AT_A_TIME if self._line_ends_stand_alone else None
    others = list(itertools.islice(rest, most))
    if others and self.decode(end) != '\n':
      raise DataError('the vocabulary has no entry for line ends; a text of many lines needs one that has bytes '
                      '(vocabulary.byte_fallback, not for kind word)')
    ids = self.encode(first) if first or not others else end[:-1]
    while others:
      found = self.encode_batch([f'\n{line}' for line in others])
      if most is None and any(one[:len(end)] != end for one in found):
        yield self.encode('\n'.join([first, *others]))
        return
      yield ids + [token for one in found for token in one[len(end) - 1:]]
      ids, others = [], list(itertools.islice(rest, most))
    yield ids

  @functools.cached_property
  def _line_ends_stand_alone(self) -> bool:
    """Whether a line end and what follows it never share an entry, so that a text is the ids of its lines."""
    end = self.encode('\n')
    return self.encode('\na')[:len(end)] == end and not any('\n' in piece for piece in self.pieces(range(self.size)))

  def decode(self, ids: Sequence[int]) -> str:
    """Return the text of ids; special ids have none."""
    return self._processor.decode([int(i) for i in ids])

  def control_id(self, symbol: str) -> int:
    """Return the id of a control symbol. Raises DataError when the vocabulary was made without it."""
    found = self._processor.piece_to_id(symbol)
    if not self._processor.is_control(found):
      raise DataError(f'the vocabulary has no control symbol {symbol!r}; a vocabulary that has it is made with '
                      f'--config.vocabulary.control_symbols="(\'{symbol}\',)", several in one tuple')
    return found

  def pieces(self, ids: Sequence[int]) -> list[str]:
    """Return the entries of ids as they are written in the vocabulary, for pictures and tables."""
    return [self._processor.id_to_piece(int(i)) for i in ids]


def read_model(path: str) -> bytes:
  """Return the content of a vocabulary's file. Raises DataError when there is none."""
  if not files.of(path).is_file(path):
    raise DataError(f'no vocabulary {path}')
  return files.of(path).read(path)


def processor(model: bytes, name: str) -> sentencepiece.SentencePieceProcessor:
  """Return SentencePiece's own object for a serialised model; `name` is for messages. Raises DataError when it is none."""
  found = sentencepiece.SentencePieceProcessor()
  try:
    found.LoadFromSerializedProto(model)
  except RuntimeError:
    raise DataError(f'{name} is not a SentencePiece model') from None
  return found


def train(config: VocabularyConfig, sentences: Iterable[str], size: int | None = None) -> bytes:
  """Train a SentencePiece model, serialised; the same sentences give the same model.

  A corpus too small for `size` entries gets as many as it has. Sentences of more than 65,536 bytes are learnt from in parts.
  Those with U+2585, which SentencePiece keeps for itself, are not; they are encoded like any other.

  Raises:
    ConfigError: when a tag holds a space.
    DataError: when there is no text, or more characters than `size` has room for.
  """
  if wrong := [tag for tag in config.tags if ' ' in tag]:  # refused here, so that runs that have such a tag can be read
    raise ConfigError(f'vocabulary.tags has {", ".join(map(repr, wrong))}, with a space: SentencePiece replaces the spaces of '
                      'a text, so that such a tag is never found in one; name tags without a space, such as "<2de>"')
  size, kind = size or config.size, KINDS[config.kind]
  options = dict(
      model_type=config.kind, vocab_size=size, pad_id=0, unk_id=1, bos_id=2, eos_id=3,
      byte_fallback=config.byte_fallback and kind.has_bytes, normalization_rule_name='identity',
      add_dummy_prefix=config.dummy_prefix,
      remove_extra_whitespaces=False, character_coverage=1.0, max_sentence_length=_MOST_BYTES, num_threads=2,
      minloglevel=2, control_symbols=list(config.control_symbols), user_defined_symbols=list(config.tags))
  if not kind.size_is_exact:
    options |= dict(use_all_vocab=False, hard_vocab_limit=False)
  read = shown(sentences, 'reading for the vocabulary', ' sentences')
  texts = _sample((part for text in read for part in _parts(text) if part.strip()), MOST_SENTENCES)
  if not texts:
    raise DataError('there is no text to make a vocabulary from')
  model = io.BytesIO()
  try:
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(texts), model_writer=model, **options)
  except RuntimeError as error:
    most = re.search(r'<= (\d+)', str(error))
    if most and int(most[1]) < size:
      return train(config, texts, int(most[1]))
    found = re.search(r'required_chars\D*\d+ vs (\d+)', str(error))
    least = int(found[1]) if found else 0
    if '(vocab_size) >= (0)' in str(error):  # of kind char, whose characters may be left to their bytes
      least = len(_SPECIAL) + 256 * options['byte_fallback'] + len(config.control_symbols) + len(config.tags)
    raise DataError(f'vocabulary.size is {size:,}, but a {config.kind} vocabulary of this corpus ' + (
        f'needs at least {least:,} entries: its characters, 4 special ids and, with byte_fallback, 256 bytes'
        if least else f'cannot be made ({str(error).splitlines()[-1][:200]})') +
        '; set --config.vocabulary.size') from None
  return model.getvalue()


def _parts(text: str) -> Iterator[str]:
  """Yield a text, or parts of it of at most _MOST_BYTES, cut at spaces where there are any."""
  most, begin = _MOST_BYTES // 4, 0  # characters, of four bytes at most
  if len(text) <= most or len(text.encode()) <= _MOST_BYTES:
    yield text
    return
  while begin < len(text):
    end = begin + most
    space = text.rfind(' ', begin + 1, end + 1) if end < len(text) else -1
    yield text[begin:space if space > 0 else end]
    begin = space + 1 if space > 0 else end


def _sample(texts: Iterable[str], most: int) -> list[str]:
  """Return all texts, or a uniform sample of `most` (Vitter's algorithm R), which is the same every time."""
  draw, kept = random.Random(0), []
  for seen, text in enumerate(texts):
    if seen < most:
      kept.append(text)
    elif (place := draw.randrange(seen + 1)) < most:
      kept[place] = text
  return kept


Keep = Callable[[str, Callable[[], bytes]], bytes]  # (name, make) -> the result of make(), cached by name


def keeper(folder: str | None, config: VocabularyConfig, fingerprint: str) -> Keep:
  """Return a cache for what is made from a training text: keep(name, make) makes it once and then reads its file.

  Args:
    folder: of the files, which are named by a hash of all that decides them and begin with the sum of their content;
      processes may share it. Without a folder nothing is cached.
    config: the vocabulary's options.
    fingerprint: of the training text.
  """
  made_of = [dataclasses.asdict(config), fingerprint, sentencepiece.__version__]
  key = hashlib.sha256(json.dumps(made_of).encode()).hexdigest()[:20]

  def keep(name: str, make: Callable[[], bytes]) -> bytes:
    path = os.path.join(folder, f'{key}.{name}')
    if os.path.isfile(path):
      with open(path, 'rb') as file:
        digest, content = file.read(32), file.read()
      if hashlib.sha256(content).digest() == digest:  # else it is damaged, or an earlier version's, and is made again
        return content
    made = make()
    os.makedirs(folder, exist_ok=True)
    with whole(path, shared=True) as file:
      file.write(hashlib.sha256(made).digest() + made)
    return made

  return keep if folder else _anew


def _anew(name: str, make: Callable[[], bytes]) -> bytes:
  del name
  return make()


def make(config: VocabularyConfig, pairs: Iterable, keep: Keep = _anew) -> tuple[bytes, bytes | None]:
  """Return the models of a corpus, supplied or trained: (source, target), or (joint, None).

  Args:
    config: which vocabulary.
    pairs: the training split, records with `source` and `target`; read once per model.
    keep: see keeper().
  """
  if config.source_model:
    return (Vocabulary.load(config.source_model).model,
            Vocabulary.load(config.target_model).model if config.target_model else None)
  if config.joint:
    return keep('joint', lambda: train(config, (text for pair in pairs for text in (pair.source, pair.target)))), None
  return (keep('source', lambda: train(config, (pair.source for pair in pairs))),
          keep('target', lambda: train(config, (pair.target for pair in pairs))))


# The first line of a file of words in which marks continue words, which earlier versions read as a word that no text has.
_WITH_MARKS = '\t0'


def word_counts(found: Iterable[str], keep: Keep = _anew) -> bytes:
  """Return the distinct words with their counts, a line each, gzipped: a file for load_words().

  Args:
    found: all words of a text, as often as they occur there; not read if `keep` has cached their counts.
    keep: see keeper().
  """
  counts = lambda: collections.Counter(shown(found, 'counting words', ' words'))
  lines = lambda: (f'{word}\t{count}' for word, count in sorted(counts().items()))
  return keep('words_with_marks', lambda: gzip.compress('\n'.join([_WITH_MARKS, *lines()]).encode(), mtime=0))


def load_words(path: str) -> KnownWords:
  """Return the words of a file that word_counts() made."""
  rows, with_marks = _rows(path)
  found = KnownWords(row[0] for row in rows)
  found.with_marks = with_marks
  return found


def load_word_counts(path: str) -> WordCounts | None:
  """Return the words of a file that word_counts() made with their counts; None for an old file, which has no counts."""
  rows, with_marks = _rows(path)
  if any(len(row) != 2 for row in rows):
    return None
  found = WordCounts((word, int(count)) for word, count in rows)
  found.with_marks = with_marks
  return found


def _rows(path: str) -> tuple[list[list[str]], bool]:
  """Return the lines of such a file, split, and whether marks continue its words."""
  lines = gzip.decompress(files.of(path).read(path)).decode().split('\n')
  is_marked = lines[0] == _WITH_MARKS
  return [line.split('\t') for line in lines[is_marked:]], is_marked
