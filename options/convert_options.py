"""The options of convert.py: its flags, and the record that they become."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from options import parsing
from options.flags import CHECKPOINT, Flag, Value, new_folder_mistakes
from options.programs import answering

FLAGS = (
    Flag('action', 'import makes a run of a model from elsewhere, export makes a model for elsewhere of a run',
         required=True, positional='one', choices={'import': '', 'export': ''}),
    Flag('workdir', "the run's folder: import makes it, export reads it", required=True),
    Flag('from', "import: the folder of a MarianMT model of Hugging Face's, with config.json, model.safetensors, "
         "source.spm, target.spm and vocab.json; or Marian's own file model.npz, with source.spm and target.spm beside it"),
    Flag('vocabulary', "import of model.npz: its vocabulary, a file in YAML; that of the source and that of the target, "
         'separated by a comma, where they differ', kind=tuple, paths=True),
    Flag('source_language', 'import: code of the language translated from, where the folder does not name it'),
    Flag('target_language', 'import: code of the language translated into, where the folder does not name it'),
    Flag('to', 'export: the format', choices={
        'huggingface': 'MarianMT, or for norm pre Pegasus', 'ctranslate2': 'CTranslate2, which has to be installed',
        'stablehlo': 'programs for jax.export'}),
    Flag('output', 'export: the folder to write'),
    dataclasses.replace(CHECKPOINT, help=f'export: {CHECKPOINT.help}'),
    Flag('quantization', 'export to ctranslate2: the type of the matrices', default='float32', choices={
        'float32': '', 'float16': '', 'int8': 'a quarter of the size of matrices', 'int16': ''}),
)
_FOR = {'import': ('from', 'vocabulary', 'source_language', 'target_language'), 'export': ('to', 'output', 'checkpoint', 'quantization')}
_NEEDED = {'import': ('from',), 'export': ('to', 'output')}
_MADE = {'import': 'workdir', 'export': 'output'}  # the folder that an action makes


@dataclasses.dataclass(frozen=True)
class ConvertOptions:
  """The checked options of convert.py."""

  action: str  # import or export
  workdir: str
  place: str | None  # the folder or file to import from
  vocabularies: tuple[str, ...]  # the YAML files of a model.npz
  source_language: str | None
  target_language: str | None
  to: str | None  # the format to export to
  output: str | None  # the folder to export into
  checkpoint: str  # final, best, latest, average:N or a step
  quantization: str


def parse(argv: Sequence[str], doc: str) -> ConvertOptions:
  """Return the options of convert.py. On --help or a mistake, print a text and end the program."""
  with answering(argv, doc, FLAGS):
    values = parsing.parse(argv, FLAGS, check=_mistakes).values
    return ConvertOptions(place=values.pop('from'), vocabularies=values.pop('vocabulary') or (), **values)


def _mistakes(values: Mapping[str, Value]) -> Iterator[str]:
  """Yield a sentence when the new folder cannot be made, for each flag that the action needs, or only the other one has."""
  action = values['action']
  if path := values.get(made := _MADE.get(str(action), '')):
    yield from new_folder_mistakes(made, str(path))
  for name in _NEEDED.get(str(action), ()):
    if values[name] is None:
      yield f'--{name} is missing; {action} needs it'
  for flag in FLAGS:
    if action in _FOR and flag.name in set(sum(_FOR.values(), ())) - set(_FOR[str(action)]) and values[flag.name] != flag.default:
      yield f'--{flag.name} has no effect with {action}; leave it out'
  is_marian = (values['from'] or '').endswith('.npz')
  if is_marian and values['vocabulary'] is None:
    yield '--vocabulary is missing; a model.npz needs the vocabulary that it was trained with, a file in YAML'
  if values['from'] and not is_marian and values['vocabulary'] is not None:
    yield '--vocabulary has no effect with a folder, which holds its own; leave it out'
  if values['to'] in ('huggingface', 'stablehlo') and values['quantization'] != 'float32':
    yield f'--quantization has no effect with --to={values["to"]}; leave it out'
