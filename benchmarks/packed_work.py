"""A translator's model and lines as files that other systems read without a package of this project."""

import json
import os
from collections.abc import Iterable
from typing import Any

from checks.errors import ConfigError
from checks.whole_files import write_whole
from corpora.marian_vocabulary import MarianVocabulary
from decoding.translator import Translator
from exchange import translator_arrays
from exchange.exporting import FORMATS, OF_ARRAYS
from options.mistakes import listed


def write_work(folder: str, translator: Translator, lines: list[str], formats: Iterable[str], **options: Any) -> None:
  """Write work.json and, in a folder of its name, the model in each format, as `convert.py export` writes it.

  Args:
    folder: one that exists.
    translator: of one model.
    lines: what is to be translated.
    formats: 'ctranslate2', 'huggingface' or both.
    **options: for peers_on_text.py: beam, alpha, threads, batch_tokens.

  Raises:
    ConfigError: naming each part of the model that a format does not have.
  """
  formats, (model, source, target) = tuple(formats), translator.parts
  config, search = model.config, translator.search_config
  wrong = [f'{name}: {mistake}' for name in formats for mistake in FORMATS[name].mistakes(config)]
  if (dtype := getattr(config, 'dtype', 'float32')) != 'float32':
    wrong.append(f'config.model.dtype is {dtype!r}; expected float32, in which the others compute')
  if isinstance(source, MarianVocabulary):
    wrong.append('the vocabulary is an imported one; expected ids as SentencePiece gives them')
  if wrong:
    raise ConfigError(f'--systems: others cannot have this model as it is: {listed(wrong)}')
  made = translator_arrays.of(config, translator.params[0], source, target, 'source', 'target')
  for name in formats:
    os.mkdir(place := os.path.join(folder, name))
    OF_ARRAYS[name].write(place, made, search, 'float32')
  work = {'lines': lines, 'bos_id': target.bos_id, 'eos_id': target.eos_id, 'pad_id': target.pad_id,
          'layer_norm_epsilon': config.layer_norm_epsilon, 'extra_length': search.extra_length, **options}
  write_whole(os.path.join(folder, 'work.json'), json.dumps(work, ensure_ascii=False))
