"""Fine-tuning a language model on labelled text (Radford et al., 2018, §3.2), beside what needs no understanding.

A run starts from that of a language model (init_from), whose vocabulary has to hold the delimiter and the extract
symbol, or from nothing, for comparison. What is reported is accuracy: the share of examples whose label is right.
"""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import ml_collections

import corpora
from checks.errors import ConfigError
from corpora import input_formats, labelled, labelled_baselines
from corpora import vocabulary as vocabularies
from corpora.labelled import LabelledCorpus, LabelledSplit
from decoding.classifier import Classifier
from options import command_line
from tasks.from_folder import check_asked, chosen_steps, model_config
from tasks.language_model import BITS_PER_BYTE
from training.checkpoint import Checkpoints, Measure
from training.evaluation import Conclusion, Examination, Setting, per_token
from training.run_folder import RunFolder, read_json
from transformer import architectures, classification
from transformer.config import ClassificationConfig
from transformer.model import Model

ACCURACY = Measure('accuracy')


# --------------------------------------------------------------------------------------------------- preparation


def make_vocabularies(options: vocabularies.VocabularyConfig, corpus: LabelledCorpus, keep: vocabularies.Keep
                      ) -> tuple[bytes, None]:
  """Supplied, or trained on all training texts; there is no second one."""
  texts = (corpora.Pair(text, '') for example in corpus.train for text in example.texts)
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


def load(workdir: str, checkpoint: str = 'final', **search_options) -> Classifier:
  """A fine-tuned run, ready to classify: load('runs/entailment').classify_lines(['A dog sleeps.\\tIt sleeps.']).

  Args and errors as in from_folder.load; nothing is searched for, so that any search option is an error.
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
