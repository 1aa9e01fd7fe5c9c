"""A folder of Hugging Face's MarianMT, such as those of OPUS-MT, becomes a run; so do Marian's own files.

A Pegasus is read, too, where it has MarianMT's tokenizer: exported runs of model.norm=pre have.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from checks.errors import ConfigError, DataError
from corpora import text_files
from corpora.marian_vocabulary import MarianVocabulary, PieceList, packed
from exchange import marian, marian_files, new_folder, safetensors, value_types
from exchange.value_types import COUNT, NUMBER, SIZE, SWITCH, TEXT
from options.configurations import default_tree, with_options
from options.mistakes import listed
from tasks import setup as setups
from training import parameter_run
from training.json_files import as_json
from transformer import architectures
from transformer.config import ModelConfig
from transformer.search import SearchConfig

_SHARED = 'share_encoder_decoder_embeddings'
_PICKLE, _WEIGHTS = 'pytorch_model.bin', 'model.safetensors'
# PAD is what the decoder starts from and never what it writes. Marian's own models have no such entry, so its logit is
# lowered until its probability is nothing.
PAD_LOGIT = np.float32(-1000.0)
# Other names of a table that is one of several, with which older files have it.
_ALIASES = {marian.SHARED: ('model.encoder.embed_tokens.weight', 'model.decoder.embed_tokens.weight', 'lm_head.weight'),
            'model.decoder.embed_tokens.weight': ('lm_head.weight',)}
_IGNORED = ('model.encoder.embed_positions.weight', 'model.decoder.embed_positions.weight')  # sines
_NORMS = {'marian': 'post', 'pegasus': 'pre'}  # their model_type, our model.norm
STOPPING = {False: 'heuristic', True: 'full', 'never': 'exact'}  # their early_stopping, ours
# The types of what is read of config.json, generation_config.json (in older folders, of config.json alone) and
# tokenizer_config.json. What activation_function has to be is among the mistakes below.
_NEEDED = {
    **dict.fromkeys(('vocab_size', 'd_model', 'encoder_layers', 'decoder_layers', 'encoder_ffn_dim', 'decoder_ffn_dim',
                     'encoder_attention_heads', 'decoder_attention_heads'), SIZE),
    **dict.fromkeys(('eos_token_id', 'pad_token_id', 'decoder_start_token_id'), COUNT)}
_MODEL = {'decoder_vocab_size': SIZE, **dict.fromkeys(('dropout', 'attention_dropout', 'activation_dropout'), NUMBER),
          **dict.fromkeys((_SHARED, 'tie_word_embeddings', 'scale_embedding'), SWITCH)}
_GENERATION = {
    **dict.fromkeys(('num_beams', 'no_repeat_ngram_size', 'min_new_tokens', 'min_length', 'top_k'), COUNT),
    **dict.fromkeys(('length_penalty', 'temperature', 'top_p'), NUMBER), 'do_sample': SWITCH,
    'early_stopping': value_types.Type('true, false or "never"', lambda value: isinstance(value, bool) or value == 'never')}
_TOKENIZER = {'source_lang': TEXT, 'target_lang': TEXT}
_TOP_K = 50  # theirs where a file names none
# Options of generate() that the search here does not have, and the value that changes nothing.
_FURTHER = {
    'num_beam_groups': 1, 'diversity_penalty': 0, 'repetition_penalty': 1, 'encoder_repetition_penalty': 1,
    'encoder_no_repeat_ngram_size': 0, 'forced_bos_token_id': None, 'suppress_tokens': None, 'begin_suppress_tokens': None,
    'sequence_bias': None, 'exponential_decay_length_penalty': None, 'penalty_alpha': 0, 'typical_p': 1, 'min_p': None,
    'epsilon_cutoff': 0, 'eta_cutoff': 0, 'guidance_scale': 1}


class Imported(NamedTuple):
  """What a folder holds, as a run holds it."""

  options: dict[str, Any]  # the whole configuration
  vocabularies: dict[str, bytes]  # source.model and target.model
  params: dict[str, Any]
  form: str  # MarianMT, Pegasus or Marian
  notes: tuple[str, ...] = ()  # a sentence for each thing that is done in another way there


class _Found(NamedTuple):
  """A model from elsewhere as it was read, in MarianMT's terms."""

  named: str  # the file that has the options, for messages
  config: Mapping[str, Any]  # the contents of config.json …
  generation: Mapping[str, Any]  # … of generation_config.json
  tokenizer: Mapping[str, Any]  # … and of tokenizer_config.json
  lists: Mapping[str, tuple[str, Mapping[str, Any]]]  # source, target: a vocabulary's file, and its ids by entry
  weights: str  # the file that has the tensors
  tensors: Mapping[str, np.ndarray]
  options: Mapping[str, Any]  # further ones of ours

  @property
  def folder(self) -> str:
    """The folder in which all files lie."""
    return os.path.dirname(os.path.abspath(self.weights))

  @property
  def search(self) -> Mapping[str, Any]:
    """The options of generate(), which reads config.json only where there is no generation_config.json."""
    return self.generation or self.config


def to_run(place: str, workdir: str, languages: tuple[str | None, str | None] = (None, None),
           vocabularies: Sequence[str] = ()) -> Imported:
  """Write a run with a model from elsewhere; nothing is written when it cannot be imported.

  Args:
    place: a folder with config.json, model.safetensors, source.spm, target.spm and vocab.json; or Marian's own file
      model.npz, with source.spm and target.spm in the same folder.
    workdir: of the run, a new folder.
    languages: codes of the source and the target; None: as tokenizer_config.json has them.
    vocabularies: for model.npz, the vocabulary's file in YAML; or that of the source and that of the target.

  Raises:
    ConfigError: naming every option that our model does not have.
    DataError: when a file is missing or damaged, or a tensor does not fit.
  """
  new_folder.check(workdir, 'workdir')
  imported = read(place, languages, vocabularies)
  with new_folder.filling(workdir, 'workdir') as unfinished:
    prints = [MarianVocabulary(data, name).fingerprint for name, data in imported.vocabularies.items()]
    origin = as_json({'from': os.path.basename(os.path.abspath(place)), 'format': imported.form}).encode()
    parameter_run.write(unfinished, imported.params, imported.options,
                        imported.vocabularies | {'imported.json': origin, 'suggestions.json': b'[]\n'},
                        progress={'vocabulary': prints})
  return imported


def read(place: str, languages: tuple[str | None, str | None] = (None, None), vocabularies: Sequence[str] = ()) -> Imported:
  """Return what a model from elsewhere is as a run; see to_run()."""
  is_marian = place.endswith('.npz')
  found = _marian_files(place, vocabularies) if is_marian else _folder(place)
  options = _options(found, languages)
  return Imported(options, _vocabularies(found), _params(found, options),
                  'Marian' if is_marian else 'MarianMT' if found.config['model_type'] == 'marian' else 'Pegasus',
                  tuple(_notes(found)))


def _marian_files(path: str, vocabularies: Sequence[str]) -> _Found:
  """Read Marian's own files."""
  config, tensors = marian_files.read(path)
  is_shared = config['share_encoder_decoder_embeddings']
  if len(vocabularies) != (1 if is_shared else 2):
    raise ConfigError(f'--vocabulary names {len(vocabularies)} files; {path} has '
                      + ('one vocabulary for both languages: expected its file' if is_shared else
                         'a vocabulary for each language: expected SOURCE.yml,TARGET.yml'))
  lists = {side: (name, marian_files.entries(name)) for side, name in (('source', vocabularies[0]), ('target', vocabularies[-1]))}
  ends = {'eos_token_id': lists['target'][1].get('</s>', 0)}
  return _Found(path, config | ends, {}, {}, lists, path, tensors, {
      'model.position_frequencies': 'tensor2tensor', 'model.layer_norm_epsilon': 1e-6})


def _folder(folder: str) -> _Found:
  """Read a folder of Hugging Face's."""
  if not os.path.isdir(folder):
    raise ConfigError(f'--from={folder}: there is no such folder; expected one with config.json and {_WEIGHTS}')
  config = _json(folder, 'config.json')
  if config.get('model_type') not in list(_NORMS):  # which compares whatever the file may have
    raise ConfigError(f'{folder}/config.json is of model_type {config.get("model_type")!r}; only {" and ".join(_NORMS)} can be '
                      'imported')
  generation, tokenizer = (_json(folder, f'{name}_config.json', needed=False) for name in ('generation', 'tokenizer'))
  of = {'config': [*value_types.mistakes(config, _MODEL | _GENERATION, _NEEDED), *_mistakes(config)],
        'generation_config': [*value_types.mistakes(generation, _GENERATION)],
        'tokenizer_config': [*value_types.mistakes(tokenizer, _TOKENIZER)]}
  if wrong := [f'{folder}/{name}.json does not fit: {listed(mistakes)}' for name, mistakes in of.items() if mistakes]:
    raise ConfigError('\n'.join(wrong))
  names = {'source': 'vocab.json', 'target': 'vocab.json' if config.get(_SHARED, True) else 'target_vocab.json'}
  lists = {side: (os.path.join(folder, name), _json(folder, name)) for side, name in names.items()}
  path = os.path.join(folder, _WEIGHTS)
  if not os.path.isfile(path) and os.path.isfile(os.path.join(folder, _PICKLE)):
    raise DataError(
        f'{folder} holds its weights in {_PICKLE}, a pickle, and reading a pickle runs whatever code it holds; convert it '
        'where you trust it, in an environment with transformers: python -c "import transformers; '
        f"transformers.AutoModelForSeq2SeqLM.from_pretrained('{folder}').save_pretrained('{folder}')\"")
  return _Found(f'{folder}/config.json', config, generation, tokenizer, lists, path, safetensors.read(path), {})


def _json(folder: str, name: str, needed: bool = True) -> dict[str, Any]:
  """Return the values of a file of JSON that are not null; {} where there is no file and none is needed."""
  path = os.path.join(folder, name)
  if not needed and not os.path.isfile(path):
    return {}
  try:
    found = json.loads(text_files.read_bytes(path))
  except (ValueError, RecursionError) as error:
    raise DataError(f'{path} is no JSON ({error}); fetch it again') from None
  if not isinstance(found, dict):
    raise DataError(f'{path} holds a {type(found).__name__}; expected an object with names and values')
  return value_types.without_null(found)


def _mistakes(config: Mapping[str, Any]) -> Iterator[str]:
  """Yield a sentence for each option of a MarianMT that our model does not have."""
  for name in ('attention_heads', 'ffn_dim'):
    encoder, decoder = config.get(f'encoder_{name}'), config.get(f'decoder_{name}')
    if None not in (encoder, decoder) and encoder != decoder:
      yield f'encoder_{name} is {encoder} and decoder_{name} {decoder}; expected the same'
  if config.get('activation_function') not in list(marian.ACTIVATIONS):
    yield f'activation_function is {config.get("activation_function")!r}; expected one of {", ".join(marian.ACTIVATIONS)}'
  if config.get('scale_embedding', False) is False:
    yield 'scale_embedding is false; expected true: embeddings are multiplied by √d_model (§3.4)'
  is_pre = _NORMS[config['model_type']] == 'pre'
  for name, expected in (('normalize_before', is_pre), ('normalize_embedding', False), ('add_final_layer_norm', is_pre)):
    if (found := config.get(name, expected)) != expected:
      yield f'{name} is {json.dumps(found)}; expected {json.dumps(expected)}'


def _options(found: _Found, languages: tuple[str | None, str | None]) -> dict[str, Any]:
  """Return the configuration of the run. Raises ConfigError naming each mistake."""
  config, tokenizer, generation = found.config, found.tokenizer, found.search
  source, target = languages[0] or tokenizer.get('source_lang'), languages[1] or tokenizer.get('target_lang')
  if not source or not target:
    raise ConfigError(f'{found.folder}/tokenizer_config.json does not name source_lang and target_lang; give '
                      '--source_language and --target_language')
  if source == target:
    raise ConfigError(f'{found.folder}: source and target are both {source!r}, as tokenizer_config.json has them where they are not '
                      'given; give different codes with --source_language and --target_language')
  shared = config.get(_SHARED, True)
  options = {
      'model.d_model': config['d_model'], 'model.num_heads': config['encoder_attention_heads'],
      'model.num_layers': config['encoder_layers'], 'model.num_decoder_layers': config['decoder_layers'],
      'model.norm': _NORMS[config['model_type']], 'model.d_ff': config['encoder_ffn_dim'],
      'model.activation': marian.ACTIVATIONS[config['activation_function']],
      'model.position_layout': 'halves', 'model.attention_bias': True, 'model.output_bias': True,
      'model.layer_norm_epsilon': marian.EPSILON, 'model.share_embeddings': shared,
      'model.tie_output': config.get('tie_word_embeddings', True), 'model.dropout': float(config.get('dropout', 0.1)),
      'model.attention_dropout': float(config.get('attention_dropout', 0.0)),
      'model.activation_dropout': float(config.get('activation_dropout', 0.0)),
      'vocabulary.kind': 'unigram', 'vocabulary.size': config['vocab_size'], 'vocabulary.joint': shared,
      'data.kind': 'text', 'data.directory': found.folder,
      'data.source_language': source, 'data.target_language': target,
      'search.beam_size': generation.get('num_beams') or 1, **_sampling(generation),
      'search.early_stopping': STOPPING[generation.get('early_stopping', False)],
      'search.no_repeat_ngram': generation.get('no_repeat_ngram_size') or 0, **_min_length(generation),
      **_length_penalty(generation.get('length_penalty')), **found.options}
  whole = with_options(default_tree().to_dict(), options)
  try:
    setups.records(whole)
  except ConfigError as error:
    raise ConfigError(f'{found.named} and its neighbours make options that are refused here: {error}') from None
  return whole


def _sampling(generation: Mapping[str, Any]) -> dict[str, Any]:
  """Return the options of a search that draws its outputs; several beams that do so are told by _notes()."""
  if not generation.get('do_sample') or generation.get('num_beams', 1) > 1:
    return {}
  return {'search.strategy': 'sample', 'search.temperature': float(generation.get('temperature', 1.0)),
          'search.top_k': generation.get('top_k', _TOP_K), 'search.top_p': float(generation.get('top_p', 1.0))}


def _notes(found: _Found) -> Iterator[str]:
  """Yield a sentence for each option of generate() that the search here does not have."""
  generation, file = found.search, 'generation_config.json' if found.generation else os.path.basename(found.named)
  said = lambda name, instead: f'{file}: {name} is {json.dumps(generation[name])}, which the search here does not have: {instead}'
  if generation.get('do_sample') and generation.get('num_beams', 1) > 1:
    yield said('do_sample', f'it keeps its {generation["num_beams"]} beams and draws nothing')
  for name, neutral in _FURTHER.items():
    if generation.get(name, neutral) not in (neutral, []):
      yield said(name, 'it searches without')
  pad = found.config['pad_token_id']
  if generation.get('bad_words_ids', [[pad]]) != [[pad]]:
    yield said('bad_words_ids', f'the pad token, {pad}, alone is never written')
  if generation.get('eos_token_id', found.config['eos_token_id']) != found.config['eos_token_id']:
    yield said('eos_token_id', f'an output ends with {found.config["eos_token_id"]}, that of config.json')


def _min_length(generation: Mapping[str, Any]) -> dict[str, Any]:
  """Return the options of the shortest output; their min_length counts what the decoder starts from, and ours does not."""
  least = generation.get('min_new_tokens') or max((generation.get('min_length') or 0) - 1, 0)
  return {'search.min_length': least, 'search.extra_length': max(least, SearchConfig.extra_length)}


def _length_penalty(exponent: float | None) -> dict[str, Any]:
  """Return the options of the length penalty; None is transformers' default, the mean, and 0 the sum as it is."""
  if exponent == 0:
    return {'search.length_penalty': 'none'}
  return {'search.length_penalty': 'length', 'search.alpha': 1.0 if exponent is None else float(exponent)}


def _vocabularies(found: _Found) -> dict[str, bytes]:
  """Return the files of the vocabularies of source and target."""
  config, files = found.config, {}
  for side, size in (('source', config['vocab_size']), ('target', config.get('decoder_vocab_size') or config['vocab_size'])):
    path, model = found.lists[side][0], os.path.join(found.folder, f'{side}.spm')
    files[f'{side}.model'] = packed(text_files.read_bytes(model),
                                    _piece_list(path, found.lists[side][1], size, config, side, found.named))
    MarianVocabulary(files[f'{side}.model'], model)  # raises DataError when it is none
  return files


def _piece_list(path: str, ids: Mapping[str, Any], size: int, config: Mapping[str, Any], side: str, named: str
                ) -> PieceList:
  if sorted(ids.values(), key=str) != sorted(range(size), key=str):
    raise DataError(f'{path} has {len(ids):,} entries; expected one for each id from 0 to {size - 1:,}, the size of the '
                    f'embedding in {named}')
  if lacking := [piece for piece in ('</s>', '<unk>') if piece not in ids]:
    raise DataError(f'{path} lacks {" and ".join(lacking)}')
  pieces = tuple(sorted(ids, key=lambda piece: ids[piece]))
  is_target, last = side == 'target', size - 1
  start, pad = ((config['decoder_start_token_id'], config['pad_token_id']) if is_target else
                (ids.get('<pad>', last),) * 2)
  eos = config['eos_token_id'] if is_target else ids['</s>']
  if not all(0 <= number < size for number in (start, pad, eos)):
    raise DataError(f'{path} has {size:,} entries, but decoder_start_token_id, pad_token_id and eos_token_id in {named} '
                    f'are {start}, {pad} and {eos}')
  if pad == eos:
    raise DataError(f'pad_token_id and eos_token_id in {named} are both {pad}; expected two, since what pads is never written, and '
                    'an output would not end')
  return PieceList(pieces, start, eos, ids['<unk>'], pad)


def _params(found: _Found, options: Mapping[str, Any]) -> dict[str, Any]:
  """Return the parameters. Raises DataError naming the file and the tensor that does not fit."""
  path, tensors, config, setup = found.weights, found.tensors, found.config, setups.records(options)
  target_size = config.get('decoder_vocab_size') or config['vocab_size']
  sized = setup.sized(config['vocab_size'], target_size)
  assert isinstance(sized, ModelConfig)
  shapes = marian.leaves(jax.eval_shape(architectures.build(sized).init, jax.random.key(0)))
  names = list(marian.tensors(sized))
  assert {name.ours for name in names} == shapes.keys()
  aliases = {alias for name in names for alias in _ALIASES.get(name.theirs, ())} - {name.theirs for name in names}
  if further := sorted(tensors.keys() - {name.theirs for name in names} - aliases - {*_IGNORED}):
    raise DataError(f'{path} holds {further[0]}, which a model of these options has not'
                    + (f', and {len(further) - 1} more such tensors' if further[1:] else ''))
  for name in names:  # tables that are one here have to be one there
    for other in _ALIASES.get(name.theirs, ()):
      if other in aliases and {name.theirs, other} <= tensors.keys() and not np.array_equal(tensors[name.theirs], tensors[other]):
        raise DataError(f'{path}: {other} differs from {name.theirs}, though {found.named} has them as one')
  params = {name.ours: _tensor(tensors, name, shapes[name.ours].shape, path) for name in names}
  params['output_bias',][config['pad_token_id']] += PAD_LOGIT
  return marian.nested(params)


def _tensor(found: Mapping[str, np.ndarray], name: marian.Named, shape: tuple[int, ...], path: str) -> np.ndarray:
  """Return a tensor in our shape; a bias of the logits that is absent is zero."""
  there = next((known for known in (name.theirs, *_ALIASES.get(name.theirs, ())) if known in found), None)
  if there is None:
    if name.theirs == 'final_logits_bias':
      return np.zeros(shape, np.float32)
    raise DataError(f'{path} lacks the tensor {name.theirs}')
  wanted = marian.their_shape(name, shape)
  if found[there].shape != wanted:
    raise DataError(f'{path}: {there} has the shape {list(found[there].shape)}; its options make it {list(wanted)}')
  if found[there].dtype.kind != 'f':
    raise DataError(f'{path}: {there} is of type {found[there].dtype}; expected numbers with a fraction (float16, float32)')
  return marian.to_ours(name, found[there], shape)
