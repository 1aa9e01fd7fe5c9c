"""A run's translator as a model of another toolkit."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from checks.errors import ConfigError
from exchange import ctranslate2_format, hugging_face, new_folder, stablehlo, translator_arrays
from options.mistakes import listed
from tasks import TASKS, trained
from tasks import setup as setups
from tasks.trained import Trained
from training.run_folder import RunFolder
from transformer.config import ModelConfig
from transformer.search import SearchConfig


class Format(NamedTuple):
  """How a format is written."""

  mistakes: Callable[[Any], Iterator[str]]  # a sentence for each option of the model that it does not have
  write: Callable[[str, Trained, str], None]  # (folder, run, quantization)
  # (options of the model, of the search) -> a sentence for each thing that is not exact
  notes: Callable[[Any, SearchConfig], Iterator[str]] = lambda config, search: iter(())


def _of_arrays(module: Any) -> Format:
  """Return the format of a module that writes translator_arrays."""
  def mistakes(config: Any) -> Iterator[str]:
    yield from translator_arrays.mistakes(config)
    if isinstance(config, ModelConfig):
      yield from module.mistakes(config)

  def write(folder: str, run: Trained, quantization: str) -> None:
    module.write(folder, translator_arrays.of_run(run), run.setup.search, quantization)

  return Format(mistakes, write, module.notes)


OF_ARRAYS = {'huggingface': hugging_face, 'ctranslate2': ctranslate2_format}  # the modules that write translator_arrays
FORMATS = {**{name: _of_arrays(module) for name, module in OF_ARRAYS.items()},
           'stablehlo': Format(stablehlo.mistakes, lambda folder, run, quantization: stablehlo.write(folder, run))}


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
  if found := list(form.mistakes(setup.model)):
    raise ConfigError(f'{workdir} cannot be exported to {to}: {listed(found)}')
  run = trained.read_run(folder, checkpoint)
  with new_folder.filling(output, 'output') as unfinished:
    form.write(unfinished, run, quantization)
  return list(form.notes(setup.model, run.setup.search))
