"""What a run may be for, and where training for one thing differs from training for another.

train.py and decode.py are written once; whatever they do in another way for another task stands in its Task.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import corpora
from checks.errors import ConfigError
from corpora import labelled
from decoding import scores
from decoding.classifier import Classifier
from decoding.continuer import Continuer, plain
from decoding.limits import check_attention
from decoding.translator import Translator
from tasks import classification, from_folder, language_model, translation
from training.checkpoint import BLEU, Measure


class Task(NamedTuple):
  """One line per difference; Setting, Examination and Conclusion are in evaluation.py."""

  name: str
  architectures: tuple[str, ...]  # values of model.architecture that can be trained for it
  texts: str  # what a split holds, for people: 'pairs'
  rows: str  # what a row of a batch holds, for people
  measure: Measure  # the figure on validation by which one checkpoint is better than another
  make_vocabularies: Callable  # (VocabularyConfig, corpus, keep) -> SentencePiece models (source, target or None)
  known_words: Callable  # (corpus) -> words of the training text that a user may write
  check: Callable  # (config) -> what is impossible together, a sentence each
  check_model: Callable  # (model, SearchConfig): raises a ConfigError when the model cannot do what is searched for
  samples: Callable | None  # (corpus, count) -> the validation texts shown at evaluations, (source or '', target)
  examiner: Callable  # (setting) -> function (params, sums, step) -> Examination
  conclude: Callable  # (setting, params, split, sums of a split by a function) -> Conclusion
  describe: Callable  # (results) -> the final figures, for people
  load: Callable  # (workdir, checkpoint, **search options) -> what decode.py lets write
  write: Callable  # (what load gave, lines, progress) -> records with .text, one for each line
  scores_references: bool  # whether decode.py may compare lines with a reference
  outputs: str  # file in samples/ with what the model wrote for the test split
  plain: Callable  # (line) -> the text it stands for
  verb: str  # what decode.py is seen at
  invitation: str  # to try decode.py
  own_text: str  # options of train.py for text of one's own
  corpus_config: type = corpora.CorpusConfig  # the record of config.data
  load_corpus: Callable = corpora.load  # (that record) -> corpus
  finish_model: Callable = lambda model, corpus, config: model  # what is put on top of the architecture's model
  adopt: Callable | None = None  # (init_from, wanted params, fresh params) -> params; None: all are that run's own


TRANSLATION = Task(
    name='translation',
    architectures=('transformer', 'recurrent'),
    texts='pairs',
    rows='pairs',
    measure=BLEU,
    make_vocabularies=translation.make_vocabularies,
    known_words=translation.known_words,
    check=translation.check,
    check_model=from_folder.check_model,
    samples=translation.samples,
    examiner=translation.Examiner,
    conclude=translation.conclude,
    describe=lambda results: scores.describe(results, results['test_set']),
    load=from_folder.load,
    write=Translator.translate,
    scores_references=True,
    outputs='test_translations.txt',
    plain=lambda line: line,
    verb='translating',
    invitation='Translate a sentence',
    own_text='--config=configs/toy.py --config.data.tsv=pairs.tsv')

LANGUAGE_MODELLING = Task(
    name='language_modelling',
    architectures=('language_model',),
    texts='documents',
    rows='blocks',
    measure=language_model.BITS_PER_BYTE,
    make_vocabularies=language_model.make_vocabularies,
    known_words=language_model.known_words,
    check=language_model.check,
    check_model=check_attention,  # a continuation is no longer than a block
    samples=language_model.samples,
    examiner=language_model.Examiner,
    conclude=language_model.conclude,
    describe=language_model.describe,
    load=language_model.load,
    write=Continuer.continue_lines,
    scores_references=False,
    outputs='test_continuations.txt',
    plain=plain,
    verb='continuing',
    invitation='Continue a text',
    own_text='--config=configs/language_model.py --config.data.text=text.txt')

FINE_TUNING = Task(
    name='fine_tuning',
    architectures=('language_model',),
    texts='examples',
    rows='examples',
    measure=classification.ACCURACY,
    make_vocabularies=classification.make_vocabularies,
    known_words=classification.known_words,
    check=classification.check,
    check_model=lambda model, search: None,  # nothing is searched for
    samples=None,
    examiner=classification.Examiner,
    conclude=classification.conclude,
    describe=classification.describe,
    load=classification.load,
    write=Classifier.classify_lines,
    scores_references=False,
    outputs='test_labels.txt',
    plain=lambda line: line.replace('\t', ' '),
    verb='classifying',
    invitation='Classify a text',
    own_text='--config=configs/fine_tune.py --config.data.kind=labelled_tsv --config.data.tsv=labelled.tsv',
    corpus_config=labelled.LabelledConfig,
    load_corpus=labelled.load,
    finish_model=classification.with_classifier,
    adopt=classification.language_model_of)

# Any other kind of corpus holds translations.
_BY_DATA = {**dict.fromkeys(('running_text', 'phrasebook_text'), LANGUAGE_MODELLING),
            **dict.fromkeys(labelled.KINDS, FINE_TUNING)}


def measure_of(config: Any) -> Measure:
  """By which figure the checkpoints of a run of this configuration are better or worse."""
  return _BY_DATA.get(config['data']['kind'], TRANSLATION).measure


def of(config: Any) -> Task:
  """The task of a configuration: its corpus decides.

  Raises:
    ConfigError: when the architecture cannot be trained for it, or its options do not fit each other.
  """
  kind, architecture = config['data']['kind'], config['model']['architecture']
  task = _BY_DATA.get(kind, TRANSLATION)
  wrong = list(task.check(config))
  if architecture not in task.architectures:
    wrong.append(f'config.model.architecture is {architecture!r}, but data.kind {kind!r} is text for '
                 f'{task.name.replace("_", " ")}; expected {" or ".join(task.architectures)}')
  if wrong:
    raise ConfigError('\n  '.join(wrong))
  return task
