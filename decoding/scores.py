"""Scores of translations by sacreBLEU, each with its signature; and BLEU as papers print it."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.tokenizers.tokenizer_char import TokenizerChar

from checks.errors import DataError
from corpora.config import MULTILINGUAL, language_tag

_WITHOUT_SPACES = ('zh', 'ja', 'th')  # languages that write none between words; Thai does between sentences
# Codes of three letters (ISO 639-2 and -3, as OPUS-MT has them) of these and of the languages that Moses has rules for.
_SHORT = {
    'zho': 'zh', 'chi': 'zh', 'cmn': 'zh', 'yue': 'zh', 'jpn': 'ja', 'jap': 'ja', 'tha': 'th', 'cat': 'ca', 'ces': 'cs',
    'cze': 'cs', 'dan': 'da', 'deu': 'de', 'ger': 'de', 'ell': 'el', 'gre': 'el', 'eng': 'en', 'spa': 'es', 'est': 'et',
    'fin': 'fi', 'fra': 'fr', 'fre': 'fr', 'gle': 'ga', 'hin': 'hi', 'hun': 'hu', 'isl': 'is', 'ice': 'is', 'ita': 'it',
    'lit': 'lt', 'lav': 'lv', 'nld': 'nl', 'dut': 'nl', 'pol': 'pl', 'por': 'pt', 'ron': 'ro', 'rum': 'ro', 'rus': 'ru',
    'slk': 'sk', 'slo': 'sk', 'slv': 'sl', 'swe': 'sv', 'tam': 'ta', 'tur': 'tr', 'ukr': 'uk'}


def check_counts(translations: Sequence, references: Sequence, name: str, reference_name: str) -> None:
  """Raise DataError unless there is one reference for each translation (sacreBLEU would pair as many as there are)."""
  if len(translations) != len(references):
    raise DataError(f'{name} has {len(translations):,} lines and {reference_name} has {len(references):,}; '
                    'line n of the reference must translate line n')


def language_of(sources: Iterable[str], target_language: str) -> str:
  """Return the language that sources are translated into.

  Args:
    sources: raw text; of a model into several languages each with its tag, or empty.
    target_language: the model's.

  Returns:
    The model's, or, where that is MULTILINGUAL and all sources have the tag of the same language, this one.
  """
  if target_language != MULTILINGUAL:
    return target_language
  code = r'([\w\-]+)'
  tag = re.compile(rf'(?:{language_tag(code)}|>>{code}<<)\s')  # of our models, and of Marian's
  named = {found[1] or found[2] if (found := tag.match(source)) else MULTILINGUAL for source in sources if source.strip()}
  return named.pop() if len(named) == 1 else MULTILINGUAL


def writes_spaces(language: str) -> bool:
  """Return whether a language, given by its code such as 'de' or 'zh-CN', has spaces between words."""
  return _base(language) not in _WITHOUT_SPACES


def between_sentences(language: str) -> str:
  """Return what a language, given by its code, writes between two sentences."""
  return '' if _base(language) in ('zh', 'ja') else ' '


def bleu_of(language: str = '', **options: Any) -> BLEU:
  """Return sacreBLEU's BLEU of translations into a language.

  Words are sacreBLEU's default, 13a; characters count as words where a language has no spaces between them: of Chinese
  by sacreBLEU's `zh`, of others by `char`. (Its own way for Japanese needs MeCab.)
  """
  tokenize = None if writes_spaces(language) else 'zh' if _base(language) == 'zh' else 'char'
  return BLEU(tokenize=tokenize, **options)


def _base(language: str) -> str:
  code = re.split('[-_]', language)[0].lower()
  return _SHORT.get(code, code)


def corpus_scores(hypotheses: Sequence[str], *references: Sequence[str], language: str = '') -> dict[str, Any]:
  """Return BLEU and chrF2 of detokenised, cased translations against raw references, with their signatures.

  Args:
    hypotheses: translations.
    *references: one list or several, each with a line for every translation.
    language: of both, which decides what BLEU takes for words, see bleu_of.

  Raises:
    DataError: when there are not as many references as hypotheses, or none.
  """
  for lines in references:
    check_counts(hypotheses, lines, 'the translation', 'the reference')
  if not hypotheses:
    raise DataError('there are no translations to score')
  bleu, chrf = bleu_of(language), CHRF()
  known = [list(lines) for lines in references]
  return {
      'bleu': bleu.corpus_score(list(hypotheses), known).score,
      'chrf': chrf.corpus_score(list(hypotheses), known).score,
      'signature': bleu.get_signature().format(),
      'chrf_signature': chrf.get_signature().format(),
  }


def error_rate(hypotheses: Sequence[str], *references: Sequence[str], language: str = '') -> dict[str, Any]:
  """Return TER (Snover et al., 2006): edits per reference word in percent, lower is better. Slower than the others.

  Of languages without spaces characters count as words: of Chinese as sacreBLEU takes them apart; of others, of which it
  leaves Thai and kana whole, by its tokenizer `char`, which the signature then names.
  """
  is_chinese, is_apart = _base(language) == 'zh', not writes_spaces(language)
  ter = TER(normalized=is_chinese, asian_support=is_chinese)
  words = TokenizerChar() if is_apart and not is_chinese else str
  score = ter.corpus_score([words(line) for line in hypotheses], [[words(line) for line in lines] for lines in references]).score
  signature = ter.get_signature().format()
  return {'ter': score, 'ter_signature': signature if words is str else signature.replace('tok:tercom', 'tok:char')}


def describe(scores: dict[str, Any], name: str) -> str:
  """Return the scores as text, with the name of the set and the signatures."""
  ter = f', TER {scores["ter"]:.1f}' if 'ter' in scores else ''
  signatures = [scores[key] for key in ('signature', 'chrf_signature', 'ter_signature') if key in scores]
  return f'BLEU {scores["bleu"]:.1f}, chrF {scores["chrf"]:.1f}{ter} on {name}\n  ' + '\n  '.join(signatures)


# ------------------------------------------------------------------------------------------------ as papers print it


def _tokenised(language: str) -> Callable[[str], str]:
  """Split text into words as Moses' tokenizer.perl does."""
  from sacremoses import MosesTokenizer  # slow to import, and only needed here and below
  moses = MosesTokenizer(lang=language)
  return lambda text: moses.tokenize(text, return_str=True)


def _normalised(language: str) -> Callable[[str], str]:
  """Normalise punctuation as Moses' normalize-punctuation.perl does."""
  from sacremoses import MosesPunctNormalizer
  return MosesPunctNormalizer(lang=language).normalize


def _split_compounds(language: str) -> Callable[[str], str]:
  """Write "Live-Musik" as "Live ##AT##-##AT## Musik", like tensor2tensor's get_ende_bleu.sh, behind the paper's 27.3."""
  del language
  return lambda text: re.sub(r'(\S)-(\S)', r'\1 ##AT##-##AT## \2', text)


def _lower(language: str) -> Callable[[str], str]:
  """Lower-case text."""
  del language
  return str.lower


# The changes made to both sides before words are compared, in this order.
PAPERS = {
    'wmt14': (_tokenised, _split_compounds),  # Vaswani et al., 2017
    'multi30k': (_lower, _normalised, _tokenised),  # the task's own scripts
    'iwslt14': (_tokenised, _lower),  # fairseq and those who compare with it
}


def paper_bleu(hypotheses: Sequence[str], references: Sequence[str], paper: str, language: str) -> dict[str, Any]:
  """Return BLEU with the arithmetic of Moses' multi-bleu.perl, as papers print it; not comparable with sacreBLEU's.

  Args:
    hypotheses, references: raw text, a line for each.
    paper: one of PAPERS.
    language: of both, such as 'de'.

  Returns:
    The score, a description of how it was made, and the numbers of words of hypotheses and references.
  """
  check_counts(hypotheses, references, 'the translation', 'the reference')
  sides = [list(hypotheses), list(references)]
  for make in PAPERS[paper]:
    change = make(_base(language))
    sides = [[change(line) for line in lines] for lines in sides]
  bleu = BLEU(tokenize='none', smooth_method='none', force=True)
  score = bleu.corpus_score(sides[0], [sides[1]])
  parts = ', '.join(make.__name__.strip('_').replace('_', ' ') for make in PAPERS[paper])
  return {'paper_bleu': score.score, 'parts': f'{paper} ({language}): {parts}; multi-bleu',
          'hypothesis_words': score.sys_len, 'reference_words': score.ref_len}


def describe_paper(score: dict[str, Any]) -> str:
  """Return paper_bleu() as one line of text."""
  return (f'BLEU as papers print it {score["paper_bleu"]:.2f} [{score["parts"]}]; '
          f'{score["hypothesis_words"]:,} words against {score["reference_words"]:,}')
