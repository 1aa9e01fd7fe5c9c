"""Language modelling: running text, measured in bits per byte; a trained model continues prompts.

Perplexity per token depends on the vocabulary; per byte it does not. With n the nats of all of a split's tokens, EOS
included, t their number and b the bytes of its text in UTF-8:

    per token  exp(n / t)      per byte  exp(n / b)      bits per byte  n / (b ln 2)
"""

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import input_pipeline
from checks.errors import DataError
from corpora import loading
from corpora.splits import Corpus, Pair, TextSplit
from decoding.answers import PlainAnswers
from decoding.continuer import BATCH_TOKENS, Continuer, plain
from options.decode_options import DecodeOptions
from tasks import trained
from tasks.records import Setup
from tasks.task import Task, only_run, task, tokenising
from training.evaluation import Evaluation, Score, Sums, exponential, per_token
from training.preservation import Measure
from training.run_folder import RunFolder
from transformer import partitioning


class Prompt(NamedTuple):
  """The first words of a line of text, and the rest of the line."""

  prompt: str
  rest: str


@task
class LanguageModelling(Task):
  """Language modelling: the next token of running text."""

  name = 'language_modelling'
  texts = 'documents'
  rows = 'blocks'
  architectures = ('language_model',)
  measure = Measure('bits_per_byte', higher_is_better=False)
  own_options = ('search.include_prompt',)
  outputs = 'continuations.txt'
  batched_scores = True
  invitation = 'Continue a text'
  own_text = '--config=configs/language_model.py --config.data.text=text.txt'

  @classmethod
  def mistakes(cls, setup: Setup) -> Iterator[str]:
    """Yield a sentence for each option that is for pairs alone, and for lengths that do not fit the blocks of text."""
    vocabulary, model, longest = setup.vocabulary, setup.model, setup.batches.max_length
    if not vocabulary.joint:
      yield 'config.vocabulary.joint is False; a language model has one vocabulary: set it to True'
    if vocabulary.kind == 'word' or not vocabulary.byte_fallback:
      yield (f'config.vocabulary.kind is {vocabulary.kind!r} and byte_fallback {vocabulary.byte_fallback}; a '
             'language model predicts every byte of its text: expected bpe, unigram or char, with byte_fallback')
    if setup.sampling.subword_sampling != 'none':
      yield (f'config.data.subword_sampling is {setup.sampling.subword_sampling!r}; expected none: documents '
             'are cut into blocks once, not anew each epoch')
    if model.positions == 'learned' and model.max_positions < longest:
      yield (f'config.model.max_positions is {model.max_positions}; expected data.max_length ({longest}) or more, the '
             'tokens of a block')
    if setup.search.extra_length + 2 > longest:
      yield (f'config.search.extra_length is {setup.search.extra_length}; expected at most {longest - 2}: prompt and '
             'continuation together are no longer than the blocks of data.max_length tokens that are trained on')
    yield from _length_mistakes(setup.batches)
    yield from trained.search_mistakes(setup, with_source=False)  # a continuation is no longer than a block

  def read_corpus(self) -> Corpus:
    """Return the documents."""
    return loading.load(self.setup.corpus)

  def vocabulary_text(self) -> Iterator[Pair]:
    """Yield the lines of the training text."""
    return (Pair(line, '') for lines in self.corpus.train.documents() for line in lines)

  def plan(self, split: TextSplit, batches: input_pipeline.BatchConfig, shuffle: bool) -> input_pipeline.Plan:
    """Return the batch plan of running text, in blocks."""
    if self.target.changes_text:  # nats would be of another text than the bytes that they are divided by
      raise DataError('the vocabulary (config.vocabulary.source_model) changes text before it cuts it, so that figures per byte '
                      'would not be of the text as it is; expected a SentencePiece model trained with '
                      '--normalization_rule_name=identity --remove_extra_whitespaces=false')
    plan = input_pipeline.plan_documents(split, self.target, batches, self.setup.seed, self.text_folder, shuffle,
                                         tokenising(len(split), ' documents'))
    if plan.dropped:  # nats are divided by all of a split's bytes
      raise DataError(f'{split.name}: {plan.dropped:,} blocks are longer than a row, and would be left out; raise '
                      f'{batches.bounds}')
    return plan

  # ------------------------------------------------------------------------------------------------- evaluation

  @functools.cached_property
  def _continuer(self) -> Continuer:
    """The continuer of all evaluations: made once, so that it compiles once."""
    return Continuer(self.model, None, self.target, self.setup.search, self.setup.batches.max_length,
                     self.setup.decoding.batch_tokens or BATCH_TOKENS, include_prompt=True)

  @functools.cached_property
  def _prompts(self) -> list[Prompt]:
    return prompts(self.corpus.validation, self.setup.evaluation.num_samples)

  def evaluate(self, params: Any, sums: Sums, step: int) -> Evaluation:
    """Return bits per byte, and continuations of the same prompts."""
    self._continuer.params = params
    written = [found.text[len(prompt.prompt):] for prompt, found in zip(
        self._prompts, self._continuer.continue_lines([prompt.prompt for prompt in self._prompts], self.progress))]
    measures = per_byte(sums, self.corpus.validation.num_bytes)
    samples = [[('prompt', prompt), ('text', rest), ('model', text)]
               for (prompt, rest), text in zip(self._prompts, written)]
    summary = f'{measures["perplexity_per_byte"]:.3f} per byte ({measures["bits_per_byte"]:.4f} bits per byte)'
    if samples:
      (prompt, _), text = list(zip(self._prompts, written))[step // self.setup.evaluation.eval_every % len(samples)]
      summary += f'\n    {prompt} …{text[:200]}'
    return Evaluation(measures, samples, summary)

  def score(self, params: Any, split: TextSplit, sums_of: Callable[[Any, Any], Sums]) -> Score:
    """Return the perplexity of a split, and continuations of its prompts."""
    print(f'Reading {split.name} ({split.num_bytes:,} bytes) …', flush=True)
    sums = sums_of(params, split)
    results = per_token(sums) | per_byte(sums, split.num_bytes)
    results |= {'nats': sums['nll'], 'tokens': round(sums['tokens']), 'bytes': split.num_bytes}
    asked = [prompt for prompt, _ in prompts(split, self.setup.evaluation.num_samples)]
    self._continuer.params = partitioning.own_copy(params)
    written = [found.text for found in self._continuer.continue_lines(asked, self.progress)]
    summary = self.describe(results | {'test_set': split.name}) + ''.join(f'\n\n    {text}' for text in written[:3])
    return Score(results, summary, written, asked[0] if asked else 'The')

  @classmethod
  def describe(cls, results: Mapping[str, Any]) -> str:
    """Return the final figures, and what they were measured on, as text."""
    return (f'perplexity {results["perplexity"]:.2f} per token, {results["perplexity_per_byte"]:.3f} per byte '
            f'({results["bits_per_byte"]:.4f} bits per byte)\n'
            f'  on {results["test_set"]}: {results["tokens"]:,} tokens, {results["bytes"]:,} bytes')

  def watchable(self) -> list[tuple[str, str]]:
    """Return the validation lines whose first halves are the prompts of samples/; none has a source."""
    return [('', prompt + rest) for prompt, rest in self._prompts]

  # --------------------------------------------------------------------------------------------------- decoding

  @classmethod
  def load(cls, folders: Sequence[RunFolder], wanted: Sequence[str] = ('final',), search: Mapping[str, Any] | None = None,
           n_best: int = 1) -> Continuer:
    """Return a run, ready to continue lines. See Task.load."""
    del n_best
    run = trained.read_run(*only_run(folders, wanted), search)
    decoding = run.setup.decoding
    return Continuer(run.model, run.params, run.target, run.setup.search, run.setup.batches.max_length,
                     decoding.batch_tokens or BATCH_TOKENS, decoding.include_prompt)

  @classmethod
  def answering(cls, folders: Sequence[RunFolder], options: DecodeOptions, setup: Setup, say: Callable[[str], Any]) -> PlainAnswers:
    """Return the Answers of decode.py: a continuation of each line."""
    del setup, say
    continuer = cls.load(folders, options.checkpoints, options.search)
    return PlainAnswers('continuing', continuer.continue_lines, continuer.notes, plain)


def _length_mistakes(batches: input_pipeline.BatchConfig) -> Iterator[str]:
  """Yield a sentence where rows are shorter than the blocks that documents are cut into, or have room for a source."""
  if batches.batching == 'packed' and batches.packed_length < batches.max_length:
    yield (f'config.data.packed_length is {batches.packed_length} and data.max_length {batches.max_length}; documents are '
           'cut into blocks of max_length tokens, and blocks longer than a row would be left out: expected a packed_length '
           'of max_length or more')
  if batches.batching == 'fixed':
    if batches.fixed_target_length < batches.max_length:
      yield (f'config.data.fixed_target_length is {batches.fixed_target_length} and data.max_length {batches.max_length}; '
             'documents are cut into blocks of max_length tokens, and longer blocks than fixed_target_length would be left '
             'out: expected max_length or more')
    if batches.fixed_source_length:
      yield f'config.data.fixed_source_length is {batches.fixed_source_length}; running text has no source: expected 0'


def per_byte(sums: Mapping[str, float], num_bytes: int) -> dict[str, float]:
  """Return perplexity and bits per byte, from the sums over a split's tokens."""
  nats = sums['nll'] / num_bytes
  return {'perplexity_per_byte': exponential(nats), 'bits_per_byte': nats / math.log(2)}


def prompts(split: TextSplit, count: int) -> list[Prompt]:
  """Return `count` prompts, the first halves of lines spread evenly over a split; fewer where it has fewer lines."""
  lines = [line for document in split.documents() for line in document if len(line.split()) >= 4]
  chosen = [lines[len(lines) * n // count] for n in range(count)] if len(lines) >= count else lines
  halves = [line[:len(line) // 2].rpartition(' ')[0] or line[:len(line) // 2] for line in chosen]
  return [Prompt(half, line[len(half):]) for half, line in zip(halves, chosen)]
