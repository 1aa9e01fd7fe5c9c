"""A run's translator as a model of another toolkit."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from checks.errors import ConfigError
from exchange import ctranslate2_format, hugging_face, new_folder, translator_arrays
from exchange.translator_arrays import Translation
from options.mistakes import listed
from tasks import TASKS, trained
from tasks import setup as setups
from training.run_folder import RunFolder
from transformer.config import ModelConfig
from transformer.search import SearchConfig


class Format(NamedTuple):
  """How a format is written."""

  mistakes: Callable[[ModelConfig], Iterator[str]]  # a sentence for each option of the model that it does not have
  notes: Callable[[ModelConfig], Iterator[str]]  # a sentence for each thing that is not exact
  write: Callable[[str, Translation, SearchConfig, str], None]  # (folder, translator, search, quantization)


FORMATS = {'huggingface': Format(hugging_face.mistakes, hugging_face.notes, hugging_face.write),
           'ctranslate2': Format(ctranslate2_format.mistakes, ctranslate2_format.notes, ctranslate2_format.write)}


def write(workdir: str, checkpoint: str, to: str, output: str, quantization: str = 'float32') -> list[str]:
  """Write a run's translator into a new folder; nothing is written when it cannot be exported.

  Args:
    workdir: the run's folder.
    checkpoint: 'final', 'best', 'latest', 'average:N' or a step.
    to: a key of FORMATS.
    output: the folder to make.
    quantization: the type of the matrices.

  Returns:
    What is not exact, a sentence each.

  Raises:
    ConfigError: naming every option of the run that the format does not have.
    CheckpointError: when the run has no such checkpoint.
  """
  new_folder.check(output, 'output')
  folder, form = RunFolder.open(workdir), FORMATS[to]
  setup = setups.of_folder(folder)
  if not TASKS[setup.task].references:
    raise ConfigError(f'{workdir} is a run of another kind ({TASKS[setup.task].name.replace("_", " ")}); only translators '
                      'can be exported')
  found = list(translator_arrays.mistakes(setup.model))
  found += form.mistakes(setup.model) if isinstance(setup.model, ModelConfig) else ()
  if found:
    raise ConfigError(f'{workdir} cannot be exported to {to}: {listed(found)}')
  made = translator_arrays.of_run(trained.read_run(folder, checkpoint))
  with new_folder.filling(output, 'output') as unfinished:
    form.write(unfinished, made, setup.search, quantization)
  return list(form.notes(made.config))
