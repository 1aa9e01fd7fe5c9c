"""A new segmentation each epoch: subword regularisation (Kudo, 2018) and BPE-dropout (Provilkov et al., 2020).

SentencePiece draws such segmentations too, but from a generator that no seed determines: since release 0.2.2 every
process salts it anew, so that a run that is killed and continued would read other pieces, and so would two processes
of one run. So the draws are made here, from the distributions of the papers. The tests compare Kudo's with
SentencePiece's, and BPE-dropout with the paper's Algorithm 1; SentencePiece's BPE-dropout differs from that: a merge
skipped once never comes again, so that the same rate splits words far more. Normalisation, unsampled text and the
likeliest segmentations are SentencePiece's.
"""

import bisect
import dataclasses
import functools
import hashlib
import heapq
import itertools
import math
import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from checks.choices import Registry
from checks.errors import DataError
from checks.refusals import refuse
from corpora.marian_vocabulary import MarianVocabulary
from corpora.vocabulary import Vocabulary

_SPACE = '\u2581'
_MOST_KEPT = 1 << 17  # words whose pieces are cached
_UNKNOWN_PENALTY = 10.0  # log-probability of a unigram model's rarest piece minus that of an unknown character


class Sampling(NamedTuple):
  """A way to draw segmentations."""

  vocabulary: str | None  # the kind of vocabulary that it needs
  drawer: 'Callable[[Vocabulary, _Pieces, SamplingConfig], _Draw] | None'  # makes the function that segments a text


SAMPLINGS: Registry[Sampling] = Registry('data.subword_sampling')
SAMPLINGS.add('none', Sampling(None, None), 'the same pieces in each epoch')


@dataclasses.dataclass(frozen=True)
class SamplingConfig:
  """How the segmentation of a training sentence is drawn anew in each epoch. See SampledVocabulary."""

  subword_sampling: str = 'none'  # an entry of SAMPLINGS
  bpe_dropout: float = 0.1  # probability that a possible merge is dropped at a step
  unigram_alpha: float = 0.1  # exponent of a segmentation's probability: 0 is uniform
  unigram_nbest: int = -1  # number of likeliest segmentations to draw from; -1 is all
  vocabulary_kind: str = 'bpe'

  def __post_init__(self):
    refuse(self._mistakes())

  def _mistakes(self) -> Iterator[str]:
    yield from SAMPLINGS.mistakes(self.subword_sampling)
    needed = SAMPLINGS[self.subword_sampling].vocabulary if self.subword_sampling in SAMPLINGS else None
    if needed and self.vocabulary_kind != needed:
      fitting = [name for name, sampling in SAMPLINGS.items() if sampling.vocabulary == self.vocabulary_kind]
      yield (f'subword_sampling {self.subword_sampling} needs a vocabulary of kind {needed}, it is '
             f'{self.vocabulary_kind}; set vocabulary.kind={needed}, or '
             f'subword_sampling={fitting[0] if fitting else "none"}')
    if not 0.0 < self.bpe_dropout < 1.0:
      yield f'bpe_dropout is {self.bpe_dropout}; expected a probability between 0 and 1'
    if self.unigram_alpha < 0.0:
      yield f'unigram_alpha is {self.unigram_alpha}; expected 0 (uniform) or a positive exponent'
    if self.unigram_nbest != -1 and self.unigram_nbest < 2:
      yield f'unigram_nbest is {self.unigram_nbest}; expected 2 or more, or -1 for all segmentations'

  def idle(self) -> dict[str, str]:
    """Return the fields that other fields make ineffective, each with the reason."""
    return SAMPLINGS.idle(self.subword_sampling)

  @property
  def draws(self) -> bool:
    """Whether sampling is on."""
    return self.subword_sampling != 'none'


class SampledVocabulary:
  """A vocabulary that segments sentence i of a split in its own way in each epoch.

  The segmentation is a function of (seed, epoch, side, i) and the text, whatever the order of calls and the process.
  decode() of the underlying vocabulary gives the text back.
  """

  def __init__(self, vocabulary: Vocabulary, config: SamplingConfig, seed: int, epoch: int, side: int):
    """Prepare drawing for an epoch. Raises DataError when this sampling needs a model of another kind.

    Args:
      vocabulary: whose pieces are drawn.
      config: how.
      seed, epoch, side: decide what is drawn; side is 0 for the source and 1 for the target.
    """
    self.eos_id = vocabulary.eos_id
    self._place = (seed, epoch, side)
    self._draw = _drawer(vocabulary, config)
    self.fingerprint = repr((vocabulary.fingerprint, config, self._place))

  def encode_batch(self, texts: Sequence[str], first: int = 0) -> list[list[int]]:
    """Return the ids of sentences, which are numbers first, first + 1, … of their split."""
    return [self._draw(text, self._generator(first + i)) for i, text in enumerate(texts)]

  def _generator(self, sentence: int) -> random.Random:
    digest = hashlib.blake2b(repr((*self._place, sentence)).encode(), digest_size=8).digest()
    return random.Random(int.from_bytes(digest, 'little'))  # Random.random() is the same in every release of Python


_Draw = Callable[[str, random.Random], list[int]]


@functools.lru_cache(maxsize=4)  # its cache of words serves every epoch
def _drawer(vocabulary: Vocabulary, config: SamplingConfig) -> _Draw:
  """Return the function that segments one text with a generator of random numbers."""
  needed, drawer = SAMPLINGS[config.subword_sampling]
  if isinstance(vocabulary, MarianVocabulary):
    raise DataError("subword sampling needs a SentencePiece model's own ids, and this vocabulary has a list of its own, as "
                    'imported models do; set data.subword_sampling=none')
  if vocabulary.kind != needed:
    raise DataError(f'subword_sampling {config.subword_sampling} needs a vocabulary of kind {needed}; the supplied '
                    f'model is of kind {vocabulary.kind}')
  pieces = _Pieces(vocabulary)
  if pieces.unused:
    raise DataError('subword sampling needs a vocabulary that uses all its pieces; the supplied model has '
                    f'{pieces.unused} that are marked unused: train it anew, or subword_sampling=none')
  return drawer(vocabulary, pieces, config)


class _Pieces:
  """The pieces of a SentencePiece model with their scores, and how it spells a character that is no piece."""

  def __init__(self, vocabulary: Vocabulary):
    proto = vocabulary.proto
    kinds = type(proto).SentencePiece
    of = lambda *wanted: {piece.piece: i for i, piece in enumerate(proto.pieces) if piece.type in wanted}
    self.unused = len(of(kinds.UNUSED))
    self.ids, self.user_defined = of(kinds.NORMAL, kinds.USER_DEFINED), of(kinds.USER_DEFINED)
    self._bytes = of(kinds.BYTE)
    self.scores = [piece.score for piece in proto.pieces]
    self.normal_scores = [self.scores[i] for i in of(kinds.NORMAL).values()]
    self.longest = max(map(len, self.ids), default=1)
    whole = sorted(self.user_defined, key=len, reverse=True)  # never taken apart, and part of no other piece
    self.whole = re.compile(f'({"|".join(map(re.escape, whole))})') if whole else None
    self.unk_id, self.normalize = vocabulary.unk_id, vocabulary.normalize
    # Words can be segmented one by one if no piece has the sign of a space after its first character.
    self._splits = not any(_SPACE in piece[1:] for piece in self.ids)

  def words(self, text: str) -> Iterator[str]:
    """Iterate over the parts of a text, normalised, each of which is segmented on its own."""
    text = self.normalize(text)
    if not self._splits:
      return iter([text] if text else [])
    first, *others = text.split(_SPACE)
    return itertools.chain([first] if first else [], (_SPACE + other for other in others))

  def cut(self, word: str) -> list[str]:
    """Return a word's parts: the user-defined pieces that it has, and what lies between them."""
    return [part for part in self.whole.split(word) if part] if self.whole else [word]

  def spelt(self, symbol: str) -> tuple[int, ...]:
    """Return the id of a piece; of anything else, the ids of its bytes, or the unknown id."""
    if (i := self.ids.get(symbol)) is not None:
      return (i,)
    return tuple(self._bytes[f'<0x{byte:02X}>'] for byte in symbol.encode()) if self._bytes else (self.unk_id,)

  def joined(self, parts: Sequence[Sequence[int]]) -> list[int]:
    """Return the ids of parts in a row; unknown characters side by side are one unknown."""
    ids = list(itertools.chain.from_iterable(parts))
    return ids if self._bytes else [i for n, i in enumerate(ids) if i != self.unk_id or not n or ids[n - 1] != i]


class BpeDropout:
  """Byte-pair encoding that drops merges at random: Provilkov et al., 2020, Algorithm 1.

  At each step every possible merge is dropped with a probability. The best of the merges that are left is made; where
  none is left, the word is done. A number is drawn only for a merge that is the best one left at a step: the draws of
  the others would have no effect.
  """

  def __init__(self, pieces: _Pieces, rate: float):
    self._pieces, self._log_kept = pieces, math.log1p(-rate)
    self._merged = functools.lru_cache(_MOST_KEPT)(self._merge)

  def __call__(self, text: str, generator: random.Random) -> list[int]:
    """Return the ids of one segmentation, drawn with the generator."""
    parts, ahead = [], self._gap(generator)  # draws until the next merge that is dropped
    for word in self._pieces.words(text):
      ids, draws, _ = self._merged(word)
      if ahead < draws:
        ids, draws, ahead = self._merge(word, ahead, lambda: self._gap(generator))
      ahead -= draws
      parts.append(ids)
    return self._pieces.joined(parts)

  def _gap(self, generator: random.Random) -> int:
    """Return the number of draws before the next that drops a merge: geometric, so one number replaces many draws."""
    return int(math.log(1.0 - generator.random()) / self._log_kept)

  def _merge(self, word: str, ahead: float = math.inf, gap: Callable[[], int] = int) -> tuple[tuple[int, ...], int, float]:
    """Return (ids of a word, draws that it took, draws from its first one until the next that drops its merge).

    Args:
      word: the word.
      ahead: draws until the first that drops its merge; by default none does.
      gap: returns the draws between one that drops its merge and the next.
    """
    symbols = [symbol for part in self._pieces.cut(word) for symbol in ([part] if part in self._pieces.user_defined else part)]
    frozen = [symbol in self._pieces.user_defined for symbol in symbols]
    before, after = [*range(-1, len(symbols) - 1)], [*range(1, len(symbols)), -1]
    agenda, waiting, draws = [], [], 0

    def propose(left: int, right: int) -> None:
      if left >= 0 and right >= 0 and not (frozen[left] or frozen[right]):
        if (i := self._pieces.ids.get(symbols[left] + symbols[right])) is not None:
          heapq.heappush(agenda, (-self._pieces.scores[i], left, right, symbols[left], symbols[right]))

    for left in range(len(symbols) - 1):
      propose(left, left + 1)
    while agenda:
      best = heapq.heappop(agenda)
      _, left, right, first, second = best
      if symbols[left] != first or symbols[right] != second:
        continue  # one of the two symbols is part of another piece by now
      draws += 1
      if draws > ahead:
        ahead += 1 + gap()
        waiting.append(best)  # for the next step
        continue
      symbols[left], symbols[right] = first + second, ''
      after[left] = after[right]
      if after[left] >= 0:
        before[after[left]] = left
      propose(before[left], left)
      propose(left, after[left])
      for one in waiting:
        heapq.heappush(agenda, one)
      waiting.clear()
    return tuple(itertools.chain.from_iterable(self._pieces.spelt(symbol) for symbol in symbols if symbol)), draws, ahead


class UnigramSampling:
  """A sampler of all segmentations, in proportion to their probability to the power of alpha (Kudo, 2018, section 3.2).

  Forward filtering, backward sampling.
  """

  def __init__(self, pieces: _Pieces, alpha: float):
    self._pieces, self._alpha = pieces, alpha
    self._lattice = functools.lru_cache(_MOST_KEPT)(self._filter)
    normal = pieces.normal_scores or [0.0]
    self._unknown = min(normal) - _UNKNOWN_PENALTY
    self._scores = {piece: pieces.scores[i] for piece, i in pieces.ids.items() if piece not in pieces.user_defined}

  def __call__(self, text: str, generator: random.Random) -> list[int]:
    """Return the ids of one segmentation, drawn with the generator."""
    parts = []
    for word in itertools.chain.from_iterable(map(self._pieces.cut, self._pieces.words(text))):
      if word in self._pieces.user_defined:
        parts.append(self._pieces.spelt(word))
        continue
      ends, end, drawn = self._lattice(word), len(word), []
      while end:
        starts, shares = ends[end]
        start = starts[min(bisect.bisect(shares, generator.random()), len(starts) - 1)]
        drawn.append(self._pieces.spelt(word[start:end]))
        end = start
      parts.extend(reversed(drawn))
    return self._pieces.joined(parts)

  def _filter(self, word: str) -> list[tuple[list[int], list[float]]]:
    """Return for each end in a word where a piece that ends there may begin, and the cumulative probabilities."""
    sums, ends = [0.0], [([], [])]
    for end in range(1, len(word) + 1):
      starts, logs = [], []
      for start in range(max(0, end - self._pieces.longest), end):
        score = self._scores.get(word[start:end], self._unknown if start == end - 1 else None)
        if score is not None:
          starts.append(start)
          logs.append(sums[start] + self._alpha * score)
      most = max(logs)
      shares = list(itertools.accumulate(math.exp(one - most) for one in logs))
      sums.append(most + math.log(shares[-1]))
      ends.append((starts, [share / shares[-1] for share in shares]))
    return ends


class _Likeliest:
  """A sampler of the n likeliest segmentations (Kudo, 2018, section 3.2), which SentencePiece finds.

  Of those, it draws from the ones that take no user-defined piece apart.
  """

  def __init__(self, vocabulary: Vocabulary, pieces: _Pieces, alpha: float, count: int):
    self._best, self._alpha = functools.partial(vocabulary.likeliest, count=count), alpha
    self._pieces, self._whole = pieces, frozenset(pieces.user_defined.values())

  def __call__(self, text: str, generator: random.Random) -> list[int]:
    """Return the ids of one segmentation, drawn with the generator."""
    found = self._best(text)
    if self._whole:
      parts = itertools.chain.from_iterable(map(self._pieces.cut, self._pieces.words(text)))
      whole = [self._pieces.ids[part] for part in parts if part in self._pieces.user_defined]
      found = [one for one in found if [i for i in one[0] if i in self._whole] == whole] or found[:1]
    most = max((score for _, score in found), default=0.0)
    weights = [math.exp(self._alpha * (score - most)) for _, score in found]
    return generator.choices(found, weights)[0][0] if found else []


def _unigram_drawer(vocabulary: Vocabulary, pieces: _Pieces, config: SamplingConfig) -> _Draw:
  if config.unigram_nbest == -1:
    return UnigramSampling(pieces, config.unigram_alpha)
  return _Likeliest(vocabulary, pieces, config.unigram_alpha, config.unigram_nbest)


SAMPLINGS.add('bpe_dropout', Sampling('bpe', lambda vocabulary, pieces, config: BpeDropout(pieces, config.bpe_dropout)),
              'merges dropped at random: Provilkov et al., 2020', uses=('bpe_dropout',))
SAMPLINGS.add('unigram', Sampling('unigram', _unigram_drawer), 'segmentations drawn by their probability: Kudo, 2018',
              uses=('unigram_alpha', 'unigram_nbest'))
