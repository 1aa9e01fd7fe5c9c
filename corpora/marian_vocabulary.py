"""Vocabularies in Marian's way: a SentencePiece model cuts the text, and a list of its own gives the pieces their ids.

Two languages share one list, each with a SentencePiece model of its own. Pieces that the list lacks are unknown. A tag
such as >>de<< at the beginning of a text, which chooses the language to translate into, is looked up whole.

As a file, such a vocabulary is an uncompressed zip archive of the SentencePiece model (pieces.spm) and the list with
the ids of its special entries (list.json).
"""

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Sequence
from typing import Any, NamedTuple

from checks.errors import DataError
from corpora.vocabulary import Vocabulary, processor, read_model

_MODEL, _LIST = 'pieces.spm', 'list.json'
TAG = re.compile('>>.*?<<', re.DOTALL)
_MOST_BYTES = 1 << 28  # of a vocabulary's files; real ones take a few megabytes


class PieceList(NamedTuple):
  """The entries of a vocabulary, with the ids of the special ones."""

  pieces: tuple[str, ...]  # by id
  bos: int  # what the decoder starts from: PAD, in Marian's models
  eos: int
  unk: int
  pad: int


class MarianVocabulary(Vocabulary):
  """A SentencePiece model whose pieces have the ids of a list."""

  def __init__(self, model: bytes, name: str):
    """Load what packed() made; `name` is for messages. Raises DataError when it is something else."""
    self.fingerprint, self.model = hashlib.sha256(model).hexdigest(), model
    self.spm, self.list = _unpacked(model, name)
    self._processor = processor(self.spm, name)
    self.size = len(self.list.pieces)
    self.bos_id, self.eos_id, self.unk_id, self.pad_id = self.list[1:]
    self.frozen_id = self.pad_id  # what the decoder starts from, and never what it writes
    self._ids = {piece: number for number, piece in enumerate(self.list.pieces)}

  def encode(self, text: str) -> list[int]:
    """Return the ids of a text, without BOS or EOS; those of its tag first."""
    return self.encode_batch([text])[0]

  def encode_batch(self, texts: Sequence[str], first: int = 0) -> list[list[int]]:
    """Return the ids of each text."""
    tags = [TAG.match(text) for text in texts]
    rest = [text[tag.end():] if tag else text for tag, text in zip(tags, texts)]
    cut = self._processor.encode(rest, out_type=str, num_threads=1)
    return [[self._ids.get(piece, self.unk_id) for piece in ([tag[0], *pieces] if tag else pieces)]
            for tag, pieces in zip(tags, cut)]

  def decode(self, ids: Sequence[int]) -> str:
    """Return the text of ids; EOS and PAD have none."""
    special = {self.bos_id, self.eos_id, self.pad_id}
    return self._processor.decode_pieces([self.list.pieces[int(i)] for i in ids if int(i) not in special])

  def pieces(self, ids: Sequence[int]) -> list[str]:
    """Return the entries of ids as they are written in the vocabulary, for pictures and tables."""
    return [self.list.pieces[int(i)] for i in ids]


def packed(spm: bytes, listed: PieceList) -> bytes:
  """Return the file of a vocabulary; the same model and list give the same bytes."""
  file = io.BytesIO()
  with zipfile.ZipFile(file, 'w', zipfile.ZIP_STORED) as archive:
    for name, data in ((_MODEL, spm), (_LIST, json.dumps(listed._asdict(), ensure_ascii=False).encode())):
      archive.writestr(zipfile.ZipInfo(name), data)  # with the date 1980-01-01, so that nothing depends on the clock
  return file.getvalue()


def load(path: str) -> Vocabulary:
  """Read a vocabulary of either form. Raises DataError when it is missing or damaged."""
  data = read_model(path)
  return (MarianVocabulary if data.startswith(b'PK') else Vocabulary)(data, path)


def share_ids(source: Vocabulary, target: Vocabulary) -> bool:
  """Return whether an id means the same entry in both vocabularies."""
  return source is target or (isinstance(source, MarianVocabulary) and isinstance(target, MarianVocabulary)
                              and source.list.pieces == target.list.pieces)


def _unpacked(data: bytes, name: str) -> tuple[bytes, PieceList]:
  try:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
      if sum(archive.getinfo(part).file_size for part in (_MODEL, _LIST)) > _MOST_BYTES:
        raise ValueError
      spm, listed = archive.read(_MODEL), json.loads(archive.read(_LIST))
    return spm, _checked(listed)
  except (zipfile.BadZipFile, KeyError, ValueError, TypeError):
    raise DataError(f'{name} is no vocabulary: expected an archive of {_MODEL} and {_LIST}, as convert.py writes it'
                    ) from None


def _checked(listed: Any) -> PieceList:
  """Return the list that JSON holds. Raises ValueError, TypeError or KeyError when it holds another thing."""
  pieces, special = listed['pieces'], [listed[name] for name in PieceList._fields[1:]]
  if not all(isinstance(piece, str) for piece in pieces) or not all(0 <= number < len(pieces) for number in special):
    raise ValueError
  return PieceList(tuple(pieces), *special)
