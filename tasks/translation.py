"""Translation: pairs of sentences, scored by sacreBLEU on raw references."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import tqdm

import input_pipeline
from checks.errors import ConfigError
from corpora import cleaning, loading
from corpora.splits import Corpus, Pair, Split
from decoding import scores, text_lines
from decoding.answers import TranslationAnswers, TranslationOptions
from decoding.batches import COARSE, FINE
from decoding.inputs import SPLIT
from decoding.limits import longest_source
from decoding.long_lines import Splitter
from decoding.output_formats import Format
from decoding.translator import Translator
from options.decode_options import DecodeOptions
from tasks import inspection, trained
from tasks import setup as setups
from tasks.records import Setup
from tasks.task import Task, task, tokenising
from training import hardware
from training.evaluation import Evaluation, Score, Sums
from training.preservation import BLEU
from training.run_folder import RunFolder
from transformer.search import GREEDY, SearchConfig


@task
class Translation(Task):
  """Translation: lines in one language into lines in another."""

  name = 'translation'
  texts = rows = 'pairs'
  architectures = ('transformer', 'recurrent')
  measure = BLEU
  references = line_by_line = reports = True
  own_options = ('train.eval_sentences',)
  outputs = 'translations.txt'
  invitation = 'Translate a sentence'
  own_text = '--config=configs/toy.py --config.data.tsv=pairs.tsv'

  @classmethod
  def mistakes(cls, setup: Setup) -> Iterator[str]:
    """Yield a sentence when two vocabularies would share one matrix, or the model lacks what the search needs."""
    if setup.model.share_embeddings and not setup.vocabulary.joint:
      yield ('config.model.share_embeddings is True, but vocabulary.joint is False: the languages\' pieces would share '
             'rows by chance; set model.share_embeddings=False, or vocabulary.joint=True')
    if setup.batches.batching == 'fixed' and min(setup.batches.fixed_source_length, setup.batches.fixed_target_length) < 2:
      yield (f'config.data.fixed_source_length is {setup.batches.fixed_source_length} and fixed_target_length '
             f'{setup.batches.fixed_target_length}; expected 2 or more: a token, and EOS')
    yield from trained.search_mistakes(setup, with_source=True)

  @classmethod
  def idle(cls, setup: Setup) -> dict[str, str]:
    """Return data.max_length where it leaves no pair out: neither side is longer than the shape of all batches."""
    if setup.batches is None or 'max_length' in setup.batches.lengths:
      return {}
    return {'data.max_length': f'data.batching is {setup.batches.batching!r}; {setup.batches.bounds} bound the pairs'}

  def read_corpus(self) -> Corpus:
    """Return the pairs, those of training cleaned."""
    return cleaning.apply(loading.load(self.setup.corpus), self.setup.cleaning, self.setup.corpus)

  def plan(self, split: Split, batches: input_pipeline.BatchConfig, shuffle: bool) -> input_pipeline.Plan:
    """Return the batch plan of a parallel split. With subword sampling, training text is tokenised for each epoch."""
    setup, bar = self.setup, tokenising(len(split), ' pairs')
    if shuffle and setup.sampling.draws:
      return input_pipeline.plan_sampled_pairs(split, self.source, self.target, batches, setup.sampling, setup.seed,
                                               self.folder.epochs, bar)
    return input_pipeline.plan_pairs(split, self.source, self.target, batches, setup.seed, self.text_folder, shuffle, bar)

  # ------------------------------------------------------------------------------------------------- evaluation

  def _make_translator(self, search: SearchConfig, least: int = FINE) -> Translator:
    return Translator([self.model], [None], self.source, self.target, search,
                      hardware.search_tokens(self.setup.decoding.batch_tokens), least=least)

  @functools.cached_property
  def _greedy(self) -> Translator:
    """The greedy translator of all evaluations: made once, so that it compiles once, and for few lengths."""
    return self._make_translator(dataclasses.replace(self.setup.search, **GREEDY), COARSE)

  @functools.cached_property
  def _searching(self) -> Translator:
    return self._make_translator(self.setup.search)

  @functools.cached_property
  def _evaluated(self) -> list[Pair]:
    return list(itertools.islice(self.corpus.validation, self.setup.evaluation.eval_sentences))

  def evaluate(self, params: Any, sums: Sums, step: int) -> Evaluation:
    """Return BLEU and chrF of greedy translations of the first validation sentences."""
    del sums
    options = self.setup.evaluation
    pairs = self._evaluated
    self._greedy.params = [params]
    scored, hypotheses = self._scored(self._greedy, pairs, self.progress)
    shown = list(zip(pairs, hypotheses))[:options.num_samples]
    pair, hypothesis = shown[step // options.eval_every % len(shown)]
    return Evaluation(
        measures={'bleu': scored['bleu'], 'chrf': scored['chrf']},
        samples=[[('source', pair.source), ('reference', pair.target), ('model', text)] for pair, text in shown],
        summary=f'BLEU {scored["bleu"]:.1f} (greedy, {len(pairs)} sentences)\n    {pair.source}\n    {hypothesis}')

  def compilations(self, params: Any) -> Iterator[Callable[[], object]]:
    """Return calls that compile the greedy search for the first validation sentences."""
    return self._greedy.compilations([params], [pair.source for pair in self._evaluated])

  def notes(self) -> Iterator[str]:
    """Yield which held-out pairs the loss leaves out, and which sources are longer than what the model translates whole."""
    if left_out := self.heldout_plan(self.corpus.validation).dropped:
      yield (f'{self.corpus.validation.name}: loss and perplexity leave out {left_out:,} of {len(self.corpus.validation):,} pairs, '
             f'which have an empty side or are longer than {self.setup.batches.bounds} allows')
    for name, pairs in {'validation': self._evaluated, **{split.name: split for split in self.examined}}.items():
      yield from self._cut(name, pairs)

  def _cut(self, name: str, pairs: Iterable[Pair]) -> Iterator[str]:
    """Yield a sentence where sources of these pairs are cut before they are translated, of which scores know nothing."""
    longest = longest_source(self.model, self.setup.search)
    lengths = map(len, self.source.encode_batch([pair.source for pair in pairs]))
    if cut := [number for number, length in enumerate(lengths, 1) if length >= longest]:  # EOS comes behind
      yield (f'{name}: only the first {longest:,} tokens are translated of {text_lines.numbered(cut)}'
             + ('; raise model.max_positions, or lower search.extra_length' if self.model.longest else ''))

  def score(self, params: Any, split: Split, sums_of: Callable[[Any, Any], Sums]) -> Score:
    """Return the scores of a split's translations; for the first split, also the corpus's measures and showcase."""
    del sums_of
    corpus, translator, pairs = self.corpus, self._searching, list(split)
    translator.params = [params]
    how = f'beam {self.setup.search.beam_size}' if self.setup.search.strategy == 'beam' else 'sampled'
    print(f'Translating {split.name} ({len(pairs):,} sentences, {how}) …', flush=True)
    with tqdm.tqdm(total=len(pairs), unit=' lines', leave=False, disable=None) as bar:
      results, hypotheses = self._scored(translator, pairs, lambda count: (bar.update(count), self.progress(count)))
    summary = [scores.describe(results, split.name), *self._cut(split.name, pairs)]
    if split is self.examined[0] and corpus.measure:
      measured = corpus.measure(hypotheses, lambda word: len(self.source.encode(word)))
      results |= measured
      summary.append('  '.join(f'{name} {value:.3f}' for name, value in measured.items() if isinstance(value, float)))
    if split is self.examined[0] and corpus.showcase:
      translated = [found.text for found in translator.translate([pair.source for pair in corpus.showcase], self.progress)]
      shown, right = marked(corpus.showcase, translated)
      summary.append(f'\nSentences that training never saw ({right} of {len(translated)} right):\n{shown}')
    example = corpus.suggestions[0] if corpus.suggestions else pairs[0].source
    return Score(results, '\n'.join(summary), hypotheses, example)

  def _scored(self, translator: Translator, pairs: Sequence[Pair], progress: Callable[[int], Any]
              ) -> tuple[dict[str, Any], list[str]]:
    """Return BLEU and chrF of the pairs' translated sources against their raw references, and the translations."""
    sources = [pair.source for pair in pairs]
    hypotheses = [found.text for found in translator.translate(sources, progress)]
    language = scores.language_of(sources, self.setup.corpus.target_language)
    return scores.corpus_scores(hypotheses, [pair.target for pair in pairs], language=language), hypotheses

  @classmethod
  def describe(cls, results: Mapping[str, Any]) -> str:
    """Return BLEU and chrF with their signatures, as text."""
    return scores.describe(results, results['test_set'])

  def watchable(self) -> list[tuple[str, str]]:
    """Return the first validation pairs, which samples/ shows at every evaluation."""
    return list(itertools.islice(self.corpus.validation, self.setup.evaluation.num_samples))

  def inspect(self) -> Iterator[str]:
    """Yield what was read, kept and dropped, lengths, padding, and batches as text."""
    return inspection.report(self.corpus, self.batches, self.source, self.target, self.setup.batches.bounds)

  # --------------------------------------------------------------------------------------------------- decoding

  @classmethod
  def load(cls, folders: Sequence[RunFolder], wanted: Sequence[str] = ('final',), search: Mapping[str, Any] | None = None,
           n_best: int = 1) -> Translator:
    """Return a run, or several as an ensemble, ready to translate; several checkpoints of one are an ensemble, too."""
    if len(folders) > 1 and len(wanted) > 1 and len(folders) != len(wanted):
      raise ConfigError(f'--workdir names {len(folders)} runs and --checkpoint {len(wanted)}; expected one checkpoint '
                        'for all, or one for each')
    count = max(len(folders), len(wanted))
    of = [*folders] * (count // len(folders))
    runs = [trained.read_run(folder, step, *((None, 1) if number else (search, n_best)))  # the first run's search counts
            for number, (folder, step) in enumerate(zip(of, [*wanted] * (count // len(wanted))))]
    first = runs[0]
    setups.check_one_vocabulary({folder.path: (run.source, run.target) for folder, run in zip(folders, runs)})
    ways = [(run.setup.corpus.source_language, run.setup.corpus.target_language) for run in runs]
    if other := next((place for place, way in enumerate(ways) if way != ways[0]), None):
      raise ConfigError(f'{of[other].path} translates {" to ".join(ways[other])}, and {folders[0].path} {" to ".join(ways[0])}; the '
                        'models of an ensemble have to translate the same way')
    made = Translator([run.model for run in runs], [run.params for run in runs], first.source, first.target,
                      first.setup.search, hardware.search_tokens(first.setup.decoding.batch_tokens))
    known = [run.setup.batches.limits[0] for folder, run in zip(of, runs) if not folder.has(folder.imported)]
    made.longest_trained = min(known, default=None)
    made.records = repr([(setup.model, setup.search, setup.decoding, setup.batches.limits[0],
                          setup.corpus.target_language) for setup in (run.setup for run in runs)])
    return made

  @classmethod
  def answering(cls, folders: Sequence[RunFolder], options: DecodeOptions, setup: Setup, say: Callable[[str], Any]) -> TranslationAnswers:
    """Return the Answers of decode.py: translations in the format that its options choose."""
    for folder in folders[1:] if options.input.startswith(SPLIT) else ():
      setups.check_held_out('workdir', folder.path, setup.saved)
    translator = cls.load(folders, options.checkpoints, options.search, 1 if options.mbr else options.n_best)
    translator.say = say
    splitter = Splitter(translator, translator.longest_trained or translator.longest_source, setup.corpus.target_language
                        ) if options.long_lines == 'split' else None
    form = Format(options.format, options.n_best, options.alignment, options.attention)
    asked = TranslationOptions(options.columns, form, options.mbr, options.utility, setup.corpus.target_language,
                               options.part_lines, options.stats)
    return TranslationAnswers(translator, asked, splitter)


def marked(pairs: Iterable[tuple[str, str]], hypotheses: list[str]) -> tuple[str, int]:
  """Return the translations, each marked right or, with its reference, WRONG; and how many are right."""
  lines, right = [], 0
  for (source, reference), hypothesis in zip(pairs, hypotheses):
    correct = hypothesis == reference
    right += correct
    lines.append(f'  {"right" if correct else "WRONG"}  {source}\n         {hypothesis}')
    if not correct:
      lines.append(f'         expected: {reference}')
  return '\n'.join(lines), right
