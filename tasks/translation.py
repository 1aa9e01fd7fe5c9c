"""Training for translation: BLEU on raw references at every evaluation and at the end."""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import tqdm

from corpora import vocabulary as vocabularies
from corpora.splits import Corpus, Pair, Split
from decoding import scores
from decoding.translator import Translator
from training import hardware
from training.evaluation import Conclusion, Examination, Setting


def make_vocabularies(options: vocabularies.VocabularyConfig, corpus: Corpus, keep: vocabularies.Keep
                      ) -> tuple[bytes, bytes | None]:
  """Supplied, or trained on both sides of the training pairs."""
  return vocabularies.make(options, corpus.train, keep)


def check(config: Any) -> list[str]:
  """What the options may not be together, beyond what each record checks."""
  if config['model']['share_embeddings'] and not config['vocabulary']['joint']:
    return ['config.model.share_embeddings is True, but vocabulary.joint is False: the languages\' pieces would share '
            'rows by chance; set model.share_embeddings=False, or vocabulary.joint=True']
  return []


def known_words(corpus: Corpus) -> Iterator[str]:
  """Words of the training sources."""
  return (word for pair in corpus.train for word in vocabularies.words(pair.source))


def translation_scores(translator: Translator, sources: list[str], references: list[str]
                       ) -> tuple[dict[str, Any], list[str]]:
  """BLEU and chrF of the translated sources against raw references, and the translations."""
  hypotheses = [translation.text for translation in translator.translate(sources)]
  return scores.corpus_scores(hypotheses, references), hypotheses


def samples(corpus: Corpus, count: int) -> list[Pair]:
  """The first validation sentences, which samples/ shows at every evaluation."""
  return list(itertools.islice(corpus.validation, count))


class Examiner:
  """Translates the first validation sentences, greedily, at every evaluation."""

  def __init__(self, setting: Setting):
    self._options = setting.config.train
    pairs = itertools.islice(setting.corpus.validation, self._options.eval_sentences)
    self._sources, self._references = map(list, zip(*pairs))
    greedy = dataclasses.replace(setting.search, strategy='beam', beam_size=1, groups=1, halvings=0,
                                 coverage_penalty=0.0)
    self._translator = _translator(setting, None, greedy)

  def __call__(self, params: Any, sums: dict[str, float], step: int) -> Examination:
    self._translator.params = [params]
    scored, hypotheses = translation_scores(self._translator, self._sources, self._references)
    shown = list(zip(self._sources, self._references, hypotheses))[:self._options.num_samples]
    source, _, hypothesis = shown[step // self._options.eval_every % len(shown)]
    return Examination(
        measures={'bleu': scored['bleu'], 'chrf': scored['chrf']},
        samples=[[('source', s), ('reference', r), ('model', h)] for s, r, h in shown],
        told=f'BLEU {scored["bleu"]:.1f} (greedy, {len(self._sources)} sentences)\n    {source}\n    {hypothesis}')


def _translator(setting: Setting, params: Any, search) -> Translator:
  return Translator([setting.model], [params], setting.source, setting.target, search,
                    hardware.search_tokens(setting.config.search.batch_tokens))


def conclude(setting: Setting, params: Any, split: Split, sums_of: Callable) -> Conclusion:
  """Translates and scores a split, and the corpus's showcase where it has one."""
  del sums_of
  corpus, translator, pairs = setting.corpus, _translator(setting, params, setting.search), list(split)
  how = f'beam {setting.search.beam_size}' if setting.search.strategy == 'beam' else 'sampled'
  print(f'Translating {split.name} ({len(pairs):,} sentences, {how}) …', flush=True)
  with tqdm.tqdm(total=len(pairs), unit=' lines', leave=False, disable=None) as bar:
    hypotheses = [found.text for found in translator.translate([pair.source for pair in pairs], bar.update)]
  results = scores.corpus_scores(hypotheses, [pair.target for pair in pairs])
  told = [scores.describe(results, split.name)]
  if corpus.measure:
    results |= corpus.measure(hypotheses)
    told.append('  '.join(f'{name} {value:.3f}' for name, value in results.items() if name.endswith('_accuracy')))
  if corpus.showcase:
    translated = [found.text for found in translator.translate([pair.source for pair in corpus.showcase])]
    shown, right = format_examination(corpus.showcase, translated)
    told.append(f'\nSentences that training never saw ({right} of {len(translated)} right):\n{shown}')
  example = corpus.suggestions[0] if corpus.suggestions else pairs[0].source
  return Conclusion(results, '\n'.join(told), hypotheses, example)


def format_examination(pairs: Iterable[tuple[str, str]], hypotheses: list[str]) -> tuple[str, int]:
  """Sentences beside their references with a mark, and how many were right."""
  lines, right = [], 0
  for (source, reference), hypothesis in zip(pairs, hypotheses):
    correct = hypothesis == reference
    right += correct
    lines.append(f'  {"right" if correct else "WRONG"}  {source}\n         {hypothesis}')
    if not correct:
      lines.append(f'         expected: {reference}')
  return '\n'.join(lines), right
