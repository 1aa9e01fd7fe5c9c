"""What decode.py writes of a translation: plain text, JSON, or alignments as "0-0 1-2" (Pharaoh); one line for each line."""

import json
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from checks.errors import ConfigError
from decoding import alignments
from decoding.translator import Request, Translation, Translator

BETWEEN_PHRASES = '|'


class Format(NamedTuple):
  """How translations are written."""

  name: str = 'text'  # text, jsonl or pharaoh
  n_best: int = 1  # jsonl: translations of each line
  alignment: str = 'shift'  # one of alignments.METHODS
  attention: bool = False  # jsonl: also the weights that the alignment was read from


def requests(lines: Sequence[str], columns: Sequence[str], first: int = 0) -> list[Request]:
  """Lines of tab-separated columns; missing ones at the end are empty, phrases are separated by "|".

  Raises:
    ConfigError: naming the line, when it has more columns than are named.
  """
  if tuple(columns) == ('source',):
    return [Request(line) for line in lines]  # a tab is text
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


def write(translator: Translator, sources: Sequence[str], found: Sequence[Translation], form: Format, first: int = 0
          ) -> list[str]:
  """A line for each translation, in order."""
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


def _record(translation: Translation, vocabulary: Any) -> dict[str, Any]:
  return {'text': translation.text, 'score': translation.score, 'log_prob': translation.log_prob,
          'tokens': vocabulary.pieces(translation.ids), 'token_log_probs': list(translation.token_log_probs)}


def pharaoh(links: alignments.Links) -> str:
  """"0-0 1-2": source word, target word."""
  return ' '.join(f'{source}-{target}' for source, target in sorted(links))


def describe_scored(found: Sequence[Translation]) -> str:
  """The perplexity of all tokens together."""
  nats, count = sum(one.log_prob for one in found), sum(len(one.token_log_probs) for one in found)
  return f'log-probability {nats:,.2f} of {count:,} tokens, perplexity {math.exp(min(-nats / max(count, 1), 700.0)):.3f}'


def scored(found: Sequence[Translation], form: Format, vocabulary: Any) -> list[str]:
  """Given translations with their probabilities: log-probability and perplexity per token, or the whole as JSON."""
  lines = []
  for number, one in enumerate(found, 1):
    perplexity = math.exp(min(-one.log_prob / max(len(one.token_log_probs), 1), 700.0))
    lines.append(f'{one.log_prob:.6f}\t{perplexity:.4f}' if form.name == 'text' else json.dumps(
        {'line': number, **_record(one, vocabulary), 'perplexity': perplexity}, ensure_ascii=False))
  return lines
