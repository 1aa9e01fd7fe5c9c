"""Write a translator into a page that translates by itself: weights, vocabularies and search, for page/live/.

    translator  ->  Live(record, translator)  ->  the record is report.live in the page's JSON

The page computes in float32 with rounded weights. The translator that is returned has the same weights and the same
precision, so that whatever else a page shows of the run comes from the numbers that the page computes with.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from checks.refusals import refuse
from corpora.vocabulary import Vocabulary
from decoding.translator import Translator
from explorer import beam, live_weights, reports
from transformer import architectures, attention_scores, layers, positions, search
from transformer.config import LanguageModelConfig, ModelConfig
from transformer.search import SearchConfig

LARGEST = 5_500_000  # characters of the weights in a page; where float16 needs more, they are int8
LONGEST = 128  # tokens of a sentence that the page reads, of longer ones the first: its memory grows with their square

# What page/live/ computes of each option; other choices are refused.
_COMPUTED = {
    'norm': ('post', 'pre'), 'normalization': ('layer_norm', 'rms_norm'),
    'activation': ('relu', 'gelu', 'swish', 'swiglu'),
    'attention_score': ('scaled_dot', 'dot', 'multiplicative', 'additive'),
    'positions': ('sinusoidal', 'learned', 'relative', 't5', 'rotary', 'none'),
    'position_layout': ('interleaved', 'halves'),
}
_EARLY_STOPPING = ('exact', 'full', 'heuristic', 'top')
_VOCABULARIES = ('bpe', 'unigram', 'char')
_CONTROL, _DEFINED, _UNUSED, _BYTE = 3, 4, 5, 6  # SentencePiece's own numbers of the kinds of entries


class Live(NamedTuple):
  """A translator in a page."""

  record: dict[str, Any]  # JSON, report.live
  translator: Translator  # with the page's weights


def prepare(translator: Translator, suggestions: Sequence[str] = ()) -> Live:
  """Round a translator's weights and write it down for a page.

  Args:
    translator: of one Transformer.
    suggestions: sentences that the page offers to try.

  Raises:
    ValueError: naming each option of the model, the vocabulary or the search that the page's scripts cannot compute; of an
      ensemble.
  """
  model, source, target = reports.alone(translator).parts
  config, vocabularies = model.config, [source] if source.fingerprint == target.fingerprint else [source, target]
  refuse(_refused_models(config))
  settings = translator.search_config
  refuse([*_refused_searches(settings), *(message for each in vocabularies for message in _refused_vocabularies(each))])
  stacks = ('encoder_layers', 'decoder_layers') if config.scan_layers else ()
  params = layers.unstacked(translator.params[0], stacks)
  packed = live_weights.pack(params, 'float16')
  if len(packed.record['data']) > LARGEST:
    packed = live_weights.pack(params, 'int8')
  config = dataclasses.replace(layers.written_out(config), dtype='float32')
  rounded = Translator([architectures.build(config)], [packed.params], source, target, settings, batch_tokens=64)
  longest = min(rounded.longest_source, LONGEST)
  record = {
      'model': _model_record(config), 'weights': packed.record,
      'vocabularies': [_vocabulary_record(vocabulary) for vocabulary in vocabularies],
      'search': _search_record(settings, longest, target), 'longest': longest, 'suggestions': list(suggestions),
      'computable': reports.computable(rounded.parts[0])}
  return Live(record, rounded)


def _refused_models(config: Any) -> Iterator[str]:
  """Yield a sentence for each option of a model that the page cannot compute."""
  if not isinstance(config, ModelConfig) or isinstance(config, LanguageModelConfig):
    yield ('model.architecture: the run is a language model or recurrent, and the living page computes the '
           'encoder-decoder Transformer alone; leave out --live')
    return
  for name, choices in _COMPUTED.items():
    if getattr(config, name) not in choices:
      yield (f'model.{name} is {getattr(config, name)!r}; the living page computes {", ".join(choices)}; leave out '
             '--live')


def _refused_searches(config: SearchConfig) -> Iterator[str]:
  """Yield a sentence for each option of the search that the page cannot compute."""
  wanted = {'strategy': 'beam', 'groups': 1, 'coverage_penalty': 0.0, 'no_repeat_ngram': 0}
  for name, value in wanted.items():
    if getattr(config, name) != value:
      yield (f'search.{name} is {getattr(config, name)!r}; the living page searches with {value}: set '
             f'--search.{name}={value}')
  if config.early_stopping not in _EARLY_STOPPING:
    yield (f'search.early_stopping is {config.early_stopping!r}; the living page knows {", ".join(_EARLY_STOPPING)}: '
           'set one of these, --search.early_stopping=exact')


def _refused_vocabularies(vocabulary: Vocabulary) -> Iterator[str]:
  """Yield a sentence for what the page cannot do of a vocabulary."""
  if type(vocabulary) is not Vocabulary:
    yield ('the vocabulary is an imported MarianMT model\'s; the living page reads SentencePiece models; leave out '
           '--live')
    return
  proto, advice = vocabulary.proto, 'leave out --live'
  if vocabulary.kind not in _VOCABULARIES:
    yield (f'vocabulary.kind is {vocabulary.kind!r}; the living page splits texts by {", ".join(_VOCABULARIES)}; '
           f'{advice}')
  normalizer = proto.normalizer_spec
  if (normalizer.precompiled_charsmap or normalizer.remove_extra_whitespaces or not normalizer.escape_whitespaces
      or proto.trainer_spec.treat_whitespace_as_suffix):
    yield ('vocabulary.source_model: the supplied SentencePiece model changes characters or spaces of a text '
           f'({normalizer.name}), and the living page takes texts as they are; {advice}')
  if any(piece.type in (_DEFINED, _UNUSED) for piece in proto.pieces):
    yield ('the vocabulary has user-defined or unused entries, from vocabulary.tags or vocabulary.source_model, which the '
           f'living page does not know; {advice}')


def _model_record(config: ModelConfig) -> dict[str, Any]:
  """Return the sizes and choices of a model, with the tables that follow from them, as page/live/ reads them."""
  target = 'embedding' if config.share_embeddings else 'target_embedding'
  tables = {'source': 'embedding' if config.share_embeddings else 'source_embedding', 'target': target,
            'output': target if config.tie_output else 'output_projection'}
  record = {
      'width': config.d_model, 'heads': config.num_heads, 'kv_heads': config.kv_heads, 'key_size': config.key_size,
      'value_size': config.value_size, 'layers': {'encoder': config.num_layers, 'decoder': config.decoder_layers},
      'norm': config.norm, 'normalization': config.normalization, 'epsilon': config.layer_norm_epsilon,
      'activation': config.activation, 'score': config.attention_score, 'positions': config.positions,
      'divisor': attention_scores.make(config).divisor(), 'layout': config.position_layout,
      'clip': config.clip_distance, 'tables': tables}
  paired = {'sinusoidal': config.d_model, 'rotary': config.key_size}.get(config.positions)
  if paired:
    record['wavenumbers'] = positions.wavenumbers(paired, config.position_frequencies).tolist()
  if config.positions == 't5':
    reach = config.max_distance  # longer distances share the last buckets
    record['buckets'] = {'reach': reach} | {side: positions.buckets(
        np.arange(-reach, reach + 1), config.num_buckets, reach, side == 'decoder').tolist()
                                            for side in ('encoder', 'decoder')}
  return record


def _vocabulary_record(vocabulary: Vocabulary) -> dict[str, Any]:
  """Return a vocabulary as page/live/subwords.js reads it."""
  pieces = vocabulary.proto.pieces
  of_type = lambda kind: [number for number, piece in enumerate(pieces) if piece.type == kind]
  return {'kind': vocabulary.kind, 'pieces': [piece.piece for piece in pieces],
          'scores': [piece.score for piece in pieces], 'control': of_type(_CONTROL), 'bytes': of_type(_BYTE),
          'unknown': vocabulary.unk_id, 'bos': vocabulary.bos_id, 'eos': vocabulary.eos_id,
          'dummy_prefix': vocabulary.proto.normalizer_spec.add_dummy_prefix,
          'byte_fallback': vocabulary.proto.trainer_spec.byte_fallback}


def _search_record(config: SearchConfig, longest: int, target: Vocabulary) -> dict[str, Any]:
  """Return the options of a search as page/live/search.js reads them; the length penalties of all lengths, from 1."""
  lengths = np.arange(1, longest + config.extra_length + 1)
  return {'beam_size': config.beam_size, 'extra_length': config.extra_length, 'min_length': config.min_length,
          'early_stopping': config.early_stopping, 'noise': search.NOISE, 'bos': target.bos_id, 'eos': target.eos_id,
          'temperature': 1, 'penalty': beam.penalty_name(config),
          'penalties': np.asarray(config.penalty(lengths), np.float64).tolist()}
