"""Fine-tuning a language model on labelled text (Radford et al., 2018, §3.2), beside what needs no understanding.

A run starts from that of a language model (init_from), whose vocabulary has to hold the delimiter and the extract
symbol, or from nothing, for comparison. What is reported is accuracy: the share of examples whose label is right.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import ml_collections
import numpy as np

from checks.errors import ConfigError, DataError
from corpora import labelled, labelled_baselines
from corpora import vocabulary as vocabularies
from corpora.labelled import Example, LabelledCorpus, LabelledSplit
from corpora.splits import Pair
from corpora.vocabulary import Vocabulary
from decoding.translator import check_asked, chosen_steps, length_class, model_config
from options import command_line
from tasks import input_formats
from tasks.language_model import BITS_PER_BYTE
from training.checkpoint import Checkpoints, Measure
from training.evaluation import Conclusion, Examination, Setting, per_token
from training.run_folder import RunFolder, read_json
from transformer import architectures, classification, tokens
from transformer.config import ClassificationConfig
from transformer.model import Model

ACCURACY = Measure('accuracy')
_ROWS = 8


# --------------------------------------------------------------------------------------------------- preparation


def make_vocabularies(options: vocabularies.VocabularyConfig, corpus: LabelledCorpus, keep: vocabularies.Keep
                      ) -> tuple[bytes, None]:
  """Supplied, or trained on all training texts; there is no second one."""
  texts = (Pair(text, '') for example in corpus.train for text in example.texts)
  return vocabularies.make(options, texts, keep)


def known_words(corpus: LabelledCorpus) -> Iterator[str]:
  """Words of the training texts."""
  return (word for example in corpus.train for text in example.texts for word in vocabularies.words(text))


def check(config: Any) -> list[str]:
  """What the options may not be, beyond what each record checks."""
  options, wrong = config['vocabulary'], []
  if not options['joint']:
    wrong.append('config.vocabulary.joint is False; a language model has one vocabulary')
  missing = {input_formats.DELIMITER, input_formats.EXTRACT} - set(options['control_symbols'])
  if missing and not config['init_from'] and not options['source_model']:
    wrong.append(f'config.vocabulary.control_symbols lacks {" and ".join(sorted(missing))}, which stand around texts')
  if config['data']['task'] in labelled.TASKS:  # else its own record tells
    try:
      _record(config, outputs=2)  # as many as there are at least
    except ConfigError as error:
      wrong += str(error).split('\n')
  if config['train']['label_smoothing']:
    wrong.append(f'config.train.label_smoothing is {config["train"]["label_smoothing"]}; fine-tuning has none: set it '
                 'to 0')
  for section, name in (('data', 'subword_sampling'), ('train', 'consistency')):
    if config[section][name] != 'none':
      wrong.append(f'config.{section}.{name} is {config[section][name]!r}; expected none: it is for translation')
  if config['data']['batching'] == 'packed':
    wrong.append("config.data.batching is 'packed'; expected buckets or fixed: each row is an example with a label")
  return wrong


def with_classifier(model: Model, corpus: LabelledCorpus, config: Any) -> Model:
  """The language model with a classifier of the corpus's labels on it."""
  return _with_classifier(model, len(corpus.labels), config)


def _with_classifier(model: Model, outputs: int, config: Any) -> Model:
  return classification.build(model, _record(config, outputs))


def _record(config: Any, outputs: int) -> ClassificationConfig:
  return command_line.build(
      ClassificationConfig, config['train'], name='config.train', task=config['data']['task'], outputs=outputs)


def language_model_of(workdir: str, wanted: dict[str, Any], fresh: dict[str, Any]) -> dict[str, Any]:
  """A language model's parameters under a fresh classifier."""
  checkpoints = Checkpoints(RunFolder.open(workdir).checkpoints, measure=BITS_PER_BYTE)
  return {'model': checkpoints.average(checkpoints.resolve('best'), wanted['model']), 'head': fresh['head']}


# --------------------------------------------------------------------------------------------------- classifying


class Label(NamedTuple):
  """What a model says of an example."""

  text: str  # the label
  index: int
  probability: float


class Classifier:
  """A fine-tuned model with its vocabulary and labels, ready for texts."""

  def __init__(self, model: Model, params: Any, vocabulary: Vocabulary, labels: Sequence[str], task: str, length: int):
    """`length`: most tokens of a sequence; longer texts are cut, and counted in `cut`."""
    self._model, self.params, self._vocabulary, self._labels = model, params, vocabulary, labels
    self._task, self._length = labelled.TASKS[task], length
    self._compiled = jax.jit(lambda params, sequences: jax.nn.softmax(model.scores(params, sequences), axis=-1))
    self.cut = 0

  def classify(self, examples: Sequence[Example], progress: Callable[[int], Any] | None = None) -> list[Label]:
    """The likeliest label of each example; their own labels are not looked at."""
    split = LabelledSplit('', tuple(examples))
    encoded = input_formats.encode(split, self._task.name, self._vocabulary, self._length)
    self.cut += encoded.cut
    out: list[Label] = [Label('', 0, 0.0)] * len(examples)
    classes: dict[int, list[int]] = {}
    for index, sequences in enumerate(encoded.sequences):
      classes.setdefault(length_class(max(map(len, sequences))), []).append(index)
    for length, members in classes.items():
      for start in range(0, len(members), _ROWS):
        chosen = members[start:start + _ROWS]
        batch = _rows([encoded.sequences[index] for index in chosen], length)
        for index, row in zip(chosen, np.asarray(self._compiled(self.params, batch))):
          out[index] = Label(self._labels[int(row.argmax())], int(row.argmax()), float(row.max()))
        if progress:
          progress(len(chosen))
    return out

  def classify_lines(self, lines: Sequence[str], progress: Callable[[int], Any] | None = None) -> list[Label]:
    """The label of each line of texts, separated by tabs as in training, without a label; a blank line stays blank."""
    expected = 1 + len(self._labels) if self._task.answers else len(self._task.columns)
    examples = {}
    for number, line in enumerate(lines):
      texts = tuple(cell.strip() for cell in line.split('\t'))
      if not line.strip():
        continue
      if len(texts) != expected or not all(texts):
        raise DataError(f'line {number + 1}: {sum(map(bool, texts))} texts in {len(texts)} tab-separated columns; '
                        f'expected {expected}: {", ".join(self._task.columns)}{", …" if self._task.answers else ""}')
      examples[number] = Example(0, texts)
    found = dict(zip(examples, self.classify(list(examples.values()), progress)))
    return [found.get(number, Label('', 0, 0.0)) for number in range(len(lines))]

  def notes(self) -> list[str]:
    """What a user should know of the lines so far."""
    return [f'texts of {self.cut:,} lines were cut: sequences have {self._length} tokens'] if self.cut else []


def _rows(sequences: list[list[list[int]]], length: int) -> tokens.Tokens:
  """Leaves [_ROWS, C, T]."""
  each = len(sequences[0])
  flat = tokens.pad([ids for example in sequences for ids in example], _ROWS * each, length, filler=0)
  return tokens.Tokens(*(leaf.reshape(_ROWS, each, length) for leaf in flat))


def load(workdir: str, checkpoint: str = 'final', **search_options) -> Classifier:
  """A fine-tuned run, ready to classify: load('runs/entailment').classify_lines(['A dog sleeps.\\tIt sleeps.']).

  Args and errors as in translation.load; nothing is searched for, so that any search option is an error.
  """
  folder = RunFolder.open(workdir)
  config, labels = ml_collections.ConfigDict(folder.read_config()), read_json(folder.labels)
  check_asked(config, search_options)
  vocabulary, _ = folder.load_vocabularies()
  model = _with_classifier(architectures.build(model_config(config, vocabulary, vocabulary)), len(labels), config)
  checkpoints = Checkpoints(folder.checkpoints, measure=ACCURACY)
  params = checkpoints.average(chosen_steps(folder, checkpoints, checkpoint),
                               jax.eval_shape(model.init, jax.random.key(0)))
  return Classifier(model, params, vocabulary, labels, config.data.task, config.data.max_length)


# ----------------------------------------------------------------------------------------------------- evaluation


def _classifier(setting: Setting, params: Any) -> Classifier:
  return Classifier(setting.model, params, setting.target, setting.corpus.labels, setting.config.data.task,
                    setting.config.data.max_length)


class Examiner:
  """Accuracy, and what is said of the same examples, at every evaluation."""

  def __init__(self, setting: Setting):
    self._options, self._labels = setting.config.train, setting.corpus.labels
    self._examples = setting.corpus.validation.examples[:self._options.num_samples]
    self._classifier = _classifier(setting, None)

  def __call__(self, params: Any, sums: dict[str, float], step: int) -> Examination:
    self._classifier.params = params
    found = self._classifier.classify(self._examples)
    samples = [[*(('text', text) for text in example.texts), ('label', self._labels[example.label]),
                ('model', f'{label.text} ({label.probability:.2f})')] for example, label in zip(self._examples, found)]
    accuracy = per_token(sums)['accuracy']
    told = f'accuracy {accuracy:.3f} ({sums["examples"]:.0f} examples)'
    return Examination({'accuracy': accuracy, 'auxiliary_loss': sums['auxiliary'] / sums['examples']}, samples, told)


def describe(results: dict[str, Any]) -> str:
  """Accuracy beside that of every rule that does not understand."""
  others = '  '.join(f'{name.replace("_", " ")} {value:.3f}' for name, value in results['baselines'].items())
  return (f'accuracy {results["accuracy"]:.3f} on {results["test_set"]} ({results["examples"]:,} examples, '
          f'{results["task"].replace("_", " ")})\n  without understanding: {others}')


def conclude(setting: Setting, params: Any, split: LabelledSplit, sums_of: Callable) -> Conclusion:
  """Accuracy on a split, and that of the baselines."""
  print(f'Classifying {split.name} ({len(split):,} examples), and fitting the baselines …', flush=True)
  sums = sums_of(params, split)
  found = _classifier(setting, params).classify(split.examples)
  results = {'accuracy': per_token(sums)['accuracy'], 'examples': len(split), 'test_set': split.name,
             'task': setting.corpus.task, 'labels': list(setting.corpus.labels),
             'baselines': labelled_baselines.baselines(setting.corpus, split)}
  example = '\t'.join(split.examples[0].texts)
  return Conclusion(results, describe(results), [label.text for label in found], example)
