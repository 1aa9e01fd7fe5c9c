"""Sentence pairs from one file of JSON lines, such as {"source": "A dog.", "target": "Ein Hund."}; plain or gzip.

Further fields are ignored. The file is split here: see pairs_file.
"""

import json

from checks.errors import DataError
from corpora import pairs_file
from corpora.config import KINDS, SIDES, CorpusConfig, Kind
from corpora.splits import Corpus, Pair


def corpus(config: CorpusConfig) -> Corpus:
  """Load the file and split it so that nothing held out is trained on; see pairs_file.split.

  Blank lines are skipped, and pairs with an empty side dropped; both are counted in the corpus's notes.

  Raises:
    DataError: naming file and line, where a line is no JSON object or a field of it is missing or no text.
  """
  fields = config.jsonl_source_field, config.jsonl_target_field
  pair_of = lambda line, place: _pair(line, fields, place)
  return pairs_file.split(config.jsonl, pair_of, f'one JSON object per line: {_example(fields)}', config)


def _pair(line: str, fields: tuple[str, str], place: str) -> Pair:
  """Read one line; `place` is its file and number, for messages."""
  try:
    record = json.loads(line)
  except (ValueError, RecursionError) as error:
    raise DataError(f'{place}: not JSON ({error}); expected {_example(fields)}') from None
  if not isinstance(record, dict):
    raise DataError(f'{place}: found {_kind(record)}; expected an object, {_example(fields)}')
  return Pair(*(_text(record, field, place) for field in fields))


def _text(record: dict, field: str, place: str) -> str:
  """Return the text of a field without spaces around it."""
  if field not in record:
    raise DataError(f'{place}: no field {field!r}; found {", ".join(map(repr, record)) or "none"}. Fields are named by '
                    '--config.data.jsonl_source_field and jsonl_target_field')
  text = record[field]
  if not isinstance(text, str):
    raise DataError(f'{place}: field {field!r} is {_kind(text)}; expected a text')
  text = text.strip()
  if '\n' in text:
    raise DataError(f'{place}: field {field!r} has a line end in its text; expected one sentence')
  try:
    text.encode()
  except UnicodeEncodeError:
    raise DataError(f'{place}: field {field!r} holds half a character (a lone surrogate such as \\ud83d); expected '
                    'valid Unicode') from None
  return text


def _kind(value: object) -> str:
  """Name the kind of a JSON value, for messages."""
  kinds = {type(None): 'null', bool: 'true or false', int: 'a number', float: 'a number', str: 'a text',
           list: 'a list', dict: 'an object'}
  return kinds[type(value)]


def _example(fields: tuple[str, str]) -> str:
  return '{' + ', '.join(f'{json.dumps(field, ensure_ascii=False)}: "…"' for field in fields) + '}'


KINDS.add('jsonl', Kind(corpus, 'pairs', needs='jsonl'), 'pairs: one file of JSON lines, split here',
          uses=('jsonl', 'jsonl_source_field', 'jsonl_target_field', 'heldout', *SIDES))
