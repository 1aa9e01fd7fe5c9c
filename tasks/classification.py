"""Fine-tuning a language model on labelled text (Radford et al., 2018, §3.2), compared with simple baselines.

A run starts from a language model's run (init_from), whose vocabulary has to hold the delimiter and the extract symbol,
or, for comparison, from fresh parameters. It reports accuracy: the share of examples whose label is right.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import input_pipeline
from batching.labelled import LabelledPlan
from corpora import input_formats, labelled_baselines, loading
from corpora.labelled import LabelledCorpus, LabelledSplit
from corpora.splits import Pair
from decoding.answers import PlainAnswers
from decoding.classifier import Classifier
from options.decode_options import DecodeOptions
from tasks import setup as setups
from tasks import trained
from tasks.records import Setup
from tasks.task import Task, best_params, only_run, task
from training.evaluation import Evaluation, Score, Sums, per_token
from training.json_files import read_json
from training.preservation import Measure
from training.run_folder import RunFolder
from transformer import classification, partitioning
from transformer.model import Model


@task
class Classification(Task):
  """Classification: the label of a text, or of several texts together."""

  name = 'fine_tuning'
  texts = rows = 'examples'
  has_attention = False  # a classifier's sequences have another layout
  compiles_ahead = False
  architectures = ('language_model',)
  corpus_record = loading.LabelledConfig
  measure = Measure('accuracy')
  own_options = ('data.task', 'train.auxiliary_weight', 'train.classifier_dropout')
  outputs = 'labels.txt'
  batched_scores = True
  invitation = 'Classify a text'
  own_text = '--config=configs/fine_tune.py --config.data.kind=labelled_tsv --config.data.tsv=labelled.tsv'

  @classmethod
  def mistakes(cls, setup: Setup) -> Iterator[str]:
    """Yield a sentence for each option that is for pairs alone, and where the vocabulary would lack symbols."""
    vocabulary = setup.vocabulary
    if not vocabulary.joint:
      yield 'config.vocabulary.joint is False; a language model has one vocabulary: set it to True'
    missing = {input_formats.DELIMITER, input_formats.EXTRACT} - set(vocabulary.control_symbols)
    if missing and not setup.places.init_from and not vocabulary.source_model:
      yield f'config.vocabulary.control_symbols lacks {" and ".join(sorted(missing))}, which mark texts: add them'
    if setup.loss.label_smoothing:
      yield f'config.train.label_smoothing is {setup.loss.label_smoothing}; fine-tuning has none: set it to 0'
    for name, value in (('data.subword_sampling', setup.sampling.subword_sampling),
                        ('train.consistency', setup.consistency.consistency)):
      if value != 'none':
        yield f'config.{name} is {value!r}; expected none: it is for translation'
    batches, least = setup.batches, input_formats.least_length(setup.corpus.task)
    if batches.max_length < least:
      yield (f'config.data.max_length is {batches.max_length}; expected {least} or more for data.task '
             f'{setup.corpus.task!r}: a token of each text, and the symbols around them')
    if getattr(setup.model, 'positions', None) == 'learned' and setup.model.max_positions < batches.max_length:
      yield (f'config.model.max_positions is {setup.model.max_positions}; expected data.max_length ({batches.max_length}) or more, '
             'to which texts are cut')
    if batches.batching == 'packed':
      yield "config.data.batching is 'packed'; expected buckets or fixed: each row is an example with a label"
    if batches.batching == 'fixed' and min(batches.fixed_source_length, batches.fixed_target_length) < batches.max_length:
      yield (f'config.data.fixed_source_length is {batches.fixed_source_length} and fixed_target_length '
             f'{batches.fixed_target_length}; expected data.max_length ({batches.max_length}) or more: texts are cut to '
             'max_length tokens, and no example is left out')

  @classmethod
  def idle(cls, setup: Setup) -> dict[str, str]:
    """Return the section `search` and options of the translator's loss, which a classifier has no use for."""
    holds = f'data.kind is {setup.corpus.kind!r}'
    return {'search': f'{holds}; nothing is searched for in {cls.texts}',
            'train.loss_chunks': f'{holds}; the loss of {cls.texts} is computed in one piece',
            'train.logits_dtype': f'{holds}; the logits of {cls.texts} stay in float32'}

  def read_corpus(self) -> LabelledCorpus:
    """Return the examples."""
    return loading.load(self.setup.corpus)

  def vocabulary_text(self) -> Iterator[Pair]:
    """Yield all training texts."""
    return (Pair(text, '') for example in self.corpus.train for text in example.texts)

  def build_model(self, model: Model) -> Model:
    """Return the language model with a classifier on top, which has an output for each label of the corpus."""
    return with_classifier(model, self.setup, len(self.corpus.labels))

  def plan(self, split: LabelledSplit, batches: input_pipeline.BatchConfig, shuffle: bool
           ) -> LabelledPlan:
    """Return the batch plan of labelled texts, which need no store on disk."""
    encoded = input_formats.encode(split, self.setup.corpus.task, self.target, batches.max_length)
    if encoded.cut:
      print(f'  {split.name}: texts of {encoded.cut:,} examples cut, so that sequences have {batches.max_length} tokens')
    return LabelledPlan(encoded.sequences, encoded.labels, batches, self.setup.seed, shuffle)

  def adopt(self, wanted: Any, fresh: Any) -> Any:
    """Return the parameters of the language model in init_from, with those of a fresh classifier."""
    return {'model': best_params(self.setup.places.init_from, wanted['model'], self.fingerprints), 'head': fresh['head']}

  # ------------------------------------------------------------------------------------------------- evaluation

  @functools.cached_property
  def _classifier(self) -> Classifier:
    return Classifier(self.model, None, self.target, self.corpus.labels, self.setup.corpus.task,
                      self.setup.batches.max_length)

  def evaluate(self, params: Any, sums: Sums, step: int) -> Evaluation:
    """Return the accuracy, and the labels given to the first validation examples."""
    del step
    examples, labels = self.corpus.validation.examples[:self.setup.evaluation.num_samples], self.corpus.labels
    self._classifier.params = params
    found = self._classifier.classify(examples, self.progress)
    samples = [[*(('text', text) for text in example.texts), ('label', labels[example.label]),
                ('model', f'{label.text} ({label.probability:.2f})')] for example, label in zip(examples, found)]
    accuracy = per_token(sums)['accuracy']
    return Evaluation({'accuracy': accuracy, 'auxiliary_loss': sums['auxiliary'] / sums['examples']}, samples,
                      f'accuracy {accuracy:.3f} ({sums["examples"]:.0f} examples)')

  def score(self, params: Any, split: LabelledSplit, sums_of: Callable[[Any, Any], Sums]) -> Score:
    """Return the model's accuracy on a split, and that of the baselines."""
    print(f'Classifying {split.name} ({len(split):,} examples), and fitting the baselines …', flush=True)
    sums = sums_of(params, split)
    self._classifier.params = partitioning.own_copy(params)
    found = self._classifier.classify(split.examples, self.progress)
    results = {'accuracy': per_token(sums)['accuracy'], 'examples': len(split), 'task': self.corpus.task,
               'labels': list(self.corpus.labels), 'baselines': labelled_baselines.baselines(self.corpus, split)}
    return Score(results, self.describe(results | {'test_set': split.name}), [label.text for label in found],
                 '\t'.join(split.examples[0].texts))

  @classmethod
  def describe(cls, results: Mapping[str, Any]) -> str:
    """Return the accuracy beside that of each baseline, as text."""
    others = '  '.join(f'{name.replace("_", " ")} {value:.3f}' for name, value in results['baselines'].items())
    return (f'accuracy {results["accuracy"]:.3f} on {results["test_set"]} ({results["examples"]:,} examples, '
            f'{results["task"].replace("_", " ")})\n  without understanding: {others}')

  # --------------------------------------------------------------------------------------------------- decoding

  @classmethod
  def load(cls, folders: Sequence[RunFolder], wanted: Sequence[str] = ('final',), search: Mapping[str, Any] | None = None,
           n_best: int = 1) -> Classifier:
    """Return a run, ready to classify lines. See Task.load; any search option is an error, as nothing is searched."""
    del n_best
    folder, checkpoint = only_run(folders, wanted)
    setup, labels = setups.of_folder(folder, search), read_json(folder.labels)
    vocabulary, _ = folder.load_vocabularies()
    model = with_classifier(trained.build_model(setup, vocabulary, vocabulary), setup, len(labels))
    return Classifier(model, trained.read_params(folder, setup, checkpoint, model, (vocabulary, vocabulary)), vocabulary, labels,
                      setup.corpus.task, setup.batches.max_length)

  @classmethod
  def answering(cls, folders: Sequence[RunFolder], options: DecodeOptions, setup: Setup, say: Callable[[str], Any]) -> PlainAnswers:
    """Return the Answers of decode.py: the label of each line's texts."""
    del setup, say
    classifier = cls.load(folders, options.checkpoints, options.search)
    return PlainAnswers('classifying', classifier.classify_lines, classifier.notes, lambda line: line.replace('\t', ' '))


def with_classifier(model: Model, setup: Setup, outputs: int) -> Model:
  """Return a language model with a classifier on top, which has `outputs` outputs."""
  return classification.build(model, dataclasses.replace(setup.classification, outputs=outputs))
