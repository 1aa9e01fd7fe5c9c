"""The formats of decode.py's lines: requests are read, and translations written, one on each line.

A translation is written as plain text, as JSON, or as its alignment, "0-0 1-2" (the format of Pharaoh).
"""

import json
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from checks.errors import ConfigError
from corpora.vocabulary import Vocabulary
from decoding import alignments
from decoding.requests import Request, Translation
from decoding.translator import Translator

BETWEEN_PHRASES = '|'


class Format(NamedTuple):
  """How translations are written."""

  name: str = 'text'  # text, jsonl or pharaoh
  n_best: int = 1  # jsonl: translations of each line
  alignment: str = 'shift'  # one of alignments.METHODS
  attention: bool = False  # jsonl: also write the attention weights in which the alignment was found


def requests(lines: Sequence[str], columns: Sequence[str], first: int = 0) -> list[Request]:
  """Read requests from lines of tab-separated columns; missing ones at the end are empty, "|" separates phrases.

  Args:
    lines: the input.
    columns: what each column is: source, prefix, required or forbidden; for the source alone a tab is text.
    first: number of the first line, from 0.

  Raises:
    ConfigError: naming the line, when it has more columns than are named.
  """
  if tuple(columns) == ('source',):
    return [Request(line) for line in lines]
  made = []
  for number, line in enumerate(lines, first + 1):
    cells = line.split('\t')
    if len(cells) > len(columns):
      raise ConfigError(
          f'line {number} has {len(cells)} tab-separated columns; expected at most {len(columns)}: {", ".join(columns)}')
    known = dict(zip(columns, cells))
    phrases = lambda name: tuple(p.strip() for p in known.get(name, '').split(BETWEEN_PHRASES) if p.strip())
    made.append(Request(known.get('source', ''), known.get('prefix', ''), phrases('required'), phrases('forbidden')))
  return made


def source_of(line: str, columns: Sequence[str]) -> str:
  """Return the sentence to translate in a line of columns, see requests(); those too many are no concern here."""
  return line if tuple(columns) == ('source',) else dict(zip(columns, line.split('\t'))).get('source', '')


def write(translator: Translator, sources: Sequence[str], found: Sequence[Translation], form: Format, first: int = 0
          ) -> list[str]:
  """Write a line for each translation, in order.

  Args:
    translator: the one that made the translations.
    sources, found: the lines and their translations.
    form: how to write them.
    first: number of the first line, from 0.
  """
  if form.name == 'text':
    return [translation.text for translation in found]
  aligned = alignments.of_translations(translator, sources, found, form.alignment)
  if form.name == 'pharaoh':
    return [pharaoh(links) for links, _ in aligned]
  _, _, vocabulary = translator.parts
  lines = []
  for number, (source, translation, (links, weights)) in enumerate(zip(sources, found, aligned), first + 1):
    record = {'line': number, 'source': source, **_record(translation, vocabulary), 'alignment': pharaoh(links)}
    if form.n_best > 1:
      listed = [translation, *translation.others][:form.n_best]
      record['n_best'] = [_record(one, vocabulary) for one in listed]
    if form.attention:
      record['attention'] = np.round(weights, 4).tolist()
    lines.append(json.dumps(record, ensure_ascii=False))
  return lines


def _record(translation: Translation, vocabulary: Vocabulary) -> dict[str, Any]:
  """Return a translation as a JSON object."""
  return {'text': translation.text, 'score': translation.score, 'log_prob': translation.log_prob,
          'tokens': vocabulary.pieces(translation.ids), 'token_log_probs': list(translation.token_log_probs)}


def pharaoh(links: alignments.Links) -> str:
  """Write links as "0-0 1-2": source word, target word."""
  return ' '.join(f'{source}-{target}' for source, target in sorted(links))


def describe_scored(found: Sequence[Translation]) -> str:
  """Return a sentence with the log-probability and perplexity of all tokens together."""
  nats, count = sum(one.log_prob for one in found), sum(len(one.token_log_probs) for one in found)
  return f'log-probability {nats:,.2f} of {count:,} tokens, perplexity {math.exp(min(-nats / max(count, 1), 700.0)):.3f}'


def scored(found: Sequence[Translation], form: Format, vocabulary: Vocabulary) -> list[str]:
  """Write a line for each scored translation: log-probability and perplexity per token, or all of it as JSON."""
  lines = []
  for number, one in enumerate(found, 1):
    perplexity = math.exp(min(-one.log_prob / max(len(one.token_log_probs), 1), 700.0))
    lines.append(f'{one.log_prob:.6f}\t{perplexity:.4f}' if form.name == 'text' else json.dumps(
        {'line': number, **_record(one, vocabulary), 'perplexity': perplexity}, ensure_ascii=False))
  return lines
