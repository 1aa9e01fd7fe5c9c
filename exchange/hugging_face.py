"""Write a translator for Hugging Face's transformers: MarianMT, or where normalisation comes first Pegasus.

The folder loads as it is, with AutoTokenizer and AutoModelForSeq2SeqLM.
"""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from checks.errors import DataError
from checks.whole_files import write_whole
from corpora.marian_vocabulary import MarianVocabulary
from decoding.limits import LONGEST_SOURCE
from exchange import marian, safetensors
from exchange.importing import PAD_LOGIT, STOPPING
from exchange.translator_arrays import Translation, others, pieces, sentencepiece_model
from training.json_files import write_json
from transformer import positions
from transformer.config import ModelConfig
from transformer.search import SearchConfig

_SPECIAL = ('</s>', '<unk>', '<pad>')  # as MarianTokenizer calls them


def mistakes(config: ModelConfig) -> Iterator[str]:
  """Yield a sentence for each option that these models do not have."""
  yield from others(config, positions=('sinusoidal',), position_frequencies=('paper',), normalization=('layer_norm',),
                    activation=tuple(dict.fromkeys(marian.ACTIVATIONS.values())))
  if config.norm == 'pre' and not (config.tie_output and config.share_embeddings):
    name = 'share_embeddings' if config.tie_output else 'tie_output'
    yield (f'config.model.{name} is False, and norm is pre: Pegasus, which such a model becomes, has one matrix for source, '
           'target and output; --to=ctranslate2 can hold it')


def notes(config: ModelConfig, search: SearchConfig) -> Iterator[str]:
  """Yield a sentence for each thing that these models compute in another way, or generate() does not do."""
  if config.layer_norm_epsilon != marian.EPSILON:
    yield (f'model.layer_norm_epsilon is {config.layer_norm_epsilon:g}, and {marian.EPSILON:g} in every MarianMT and Pegasus: '
           'logits differ by about that much')
  for name, is_there, instead in (('groups', search.groups == 1, 'with a plain beam'),
                                  ('coverage_penalty', not search.coverage_penalty, 'without it'),
                                  ('length_penalty', search.width == 1 or _exponent(search) is not None,
                                   'with the mean, length^1'),
                                  ('early_stopping', search.width == 1 or search.early_stopping in STOPPING.values(),
                                   'with their own rule, heuristic')):
    if not is_there:
      yield f'search.{name} is {getattr(search, name)!r}, which generate() does not have: there the search is {instead}'


def write(folder: str, made: Translation, search: SearchConfig, quantization: str) -> None:
  """Write the files into an empty folder.

  Args:
    folder: an existing, empty one.
    made: the translator.
    search: whose options become those of generation_config.json, as far as it has them; see notes().
    quantization: 'float32'; there is no other.

  Raises:
    DataError: when the vocabulary lacks a special entry.
  """
  del quantization
  config, place = made.config, lambda name: os.path.join(folder, name)
  listed = [pieces(vocabulary) for vocabulary in (made.source, made.target)]
  for side, found in zip(('source', 'target'), listed):
    if lacking := [piece for piece in _SPECIAL if piece not in found]:
      raise DataError(f'the {side} vocabulary lacks {" and ".join(lacking)}, which MarianTokenizer needs')
  arrays = dict(made.arrays)
  if isinstance(made.target, MarianVocabulary) and ('output_bias',) in arrays:
    arrays['output_bias',] = arrays['output_bias',].copy()
    arrays['output_bias',][made.target.pad_id] -= PAD_LOGIT
  tensors = {name.theirs: marian.to_theirs(name, arrays[name.ours]) for name in marian.tensors(config)}
  rows = LONGEST_SOURCE + search.extra_length + 1  # of positions: of the longest output, and what it starts from
  write_whole(place('model.safetensors'), safetensors.packed(tensors | _written_out(config, tensors, rows)))
  for side, vocabulary in (('source', made.source), ('target', made.target)):
    write_whole(place(f'{side}.spm'), sentencepiece_model(vocabulary))
  names = ('vocab.json',) if config.share_embeddings else ('vocab.json', 'target_vocab.json')
  for name, found in zip(names, listed):
    write_json(place(name), {piece: number for number, piece in enumerate(found)})
  write_json(place('tokenizer_config.json'), {
      'tokenizer_class': 'MarianTokenizer', 'source_lang': made.source_language, 'target_lang': made.target_language,
      'separate_vocabs': not config.share_embeddings, 'model_max_length': LONGEST_SOURCE})
  write_json(place('config.json'), _config(made) | {'max_position_embeddings': rows})
  write_json(place('generation_config.json'), _special_ids(made) | {
      'max_length': rows, 'renormalize_logits': True, 'bad_words_ids': [[made.target.pad_id]], **_generation(search)})


def _exponent(search: SearchConfig) -> float | None:
  """Return what their length penalty, length^exponent, has to be; None where it is of another form."""
  if search.length_penalty == 'none' or not search.alpha:
    return 0.0
  return search.alpha if search.length_penalty == 'length' else None


def _generation(search: SearchConfig) -> dict[str, Any]:
  """Return the options of a search as generate() calls them, those that it has."""
  exponent = _exponent(search)
  found: dict[str, Any] = {'num_beams': search.width}
  if search.width > 1:  # they refuse options of beams where there is one
    found |= {'length_penalty': 1.0 if exponent is None else exponent,
              'early_stopping': next((theirs for theirs, ours in STOPPING.items() if ours == search.early_stopping), False)}
  if search.min_length:  # not their min_length, which counts what the decoder starts from, too
    found['min_new_tokens'] = search.min_length
  if search.no_repeat_ngram:
    found['no_repeat_ngram_size'] = search.no_repeat_ngram
  if search.strategy == 'sample':
    found |= {'do_sample': True, 'temperature': search.temperature, 'top_k': search.top_k, 'top_p': search.top_p}
  return found


def _written_out(config: ModelConfig, tensors: dict[str, np.ndarray], rows: int) -> dict[str, np.ndarray]:
  """Return what transformers looks for beside a model's own tensors: without tying, the shared table by its other names."""
  found, sides = {}, [f'model.{side}' for side in ('encoder', 'decoder')]
  if config.share_embeddings and not config.tie_output:
    found |= {f'{side}.embed_tokens.weight': tensors[marian.SHARED] for side in sides}
  if config.norm == 'pre':  # Pegasus computes these, too, but warns where it does not find them
    sines = np.asarray(positions.sinusoids(rows, config.d_model, 'halves'), np.float32)
    found |= {f'{side}.embed_positions.weight': sines for side in sides}
  return found


def _special_ids(made: Translation) -> dict[str, Any]:
  target = made.target
  return {'pad_token_id': target.pad_id, 'eos_token_id': target.eos_id, 'forced_eos_token_id': target.eos_id,
          'decoder_start_token_id': target.bos_id}


def _config(made: Translation) -> dict[str, Any]:
  config = made.config
  name = 'Marian' if config.norm == 'post' else 'Pegasus'
  model = 'MarianMTModel' if config.norm == 'post' else 'PegasusForConditionalGeneration'
  theirs = {ours: there for there, ours in reversed(marian.ACTIVATIONS.items())}
  sizes = {f'{side}_{what}': number for side in ('encoder', 'decoder') for what, number in (
      ('attention_heads', config.num_heads), ('ffn_dim', config.d_ff))}
  return sizes | _special_ids(made) | {
      'model_type': name.lower(), 'architectures': [model], 'tokenizer_class': 'MarianTokenizer',
      'vocab_size': config.vocab_size, 'decoder_vocab_size': config.target_vocab_size, 'd_model': config.d_model,
      'encoder_layers': config.num_layers, 'decoder_layers': config.decoder_layers, 'scale_embedding': True,
      'activation_function': theirs[config.activation],
      'normalize_before': config.norm == 'pre', 'normalize_embedding': False, 'is_encoder_decoder': True,
      'share_encoder_decoder_embeddings': config.share_embeddings, 'tie_word_embeddings': config.tie_output,
      'dropout': config.dropout, 'attention_dropout': config.attention_dropout,
      'activation_dropout': config.activation_dropout, 'dtype': 'float32'}
